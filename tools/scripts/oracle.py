#!/usr/bin/env python3
"""An independent oracle for every bit that fp4sim produces.

Method: a number is an exact fraction (big integers), a format is the sorted list of all values of its codes, and rounding is a
search in that list. Nothing here is shared with the C++: the tables are typed from the format documents (OCP MX 1.0, OCP OFP8,
the UE5M3 papers), the arithmetic is integer division with remainder. Standard library only. One file beyond 300 lines on purpose:
an oracle that is copied to another machine must not need a second file (`golden` reads its lists of specs from oracle_words.json).

  oracle.py selftest                         known answers and worked examples
  oracle.py golden OUTDIR                    writes the golden lines that the C++ tests read
  oracle.py sums KIND --count N --seed S     adversarial sums of raw codes for `fp4sim verify --probe`
  oracle.py check FP4SIM --cases N --seed S  draws specs and boundary-dense inputs, compares the binary bit by bit
"""
import argparse
import ast
import copy
import decimal
import functools
import json
import math
import os
import shutil
import struct
import subprocess
import sys
import tempfile
import time
from bisect import bisect_left, bisect_right
from fractions import Fraction

# ---------------------------------------------------------------- fp32 on bit patterns
# A finite fp32 number is an integer multiple of 2^-149, its "units". Results are rounded from exact integers or quotients.
SIGN, INF, NAN, FLT_MAX, ONE = 0x80000000, 0x7F800000, 0x7FFFFFFF, 0x7F7FFFFF, 0x3F800000


def is_nan(b):
    return (b & NAN) > INF


def is_finite(b):
    return (b & NAN) < INF


def magnitude_units(b):
    e = (b >> 23) & 0xFF
    return ((b & 0x7FFFFF) | 0x800000) << (e - 1) if e else b & 0x7FFFFF


def units(b):
    return -magnitude_units(b) if b & SIGN else magnitude_units(b)


def round_dyadic(n, e, mode="nearest_even"):
    """fp32 bits of n * 2^e, n >= 0; `toward_zero` overflows to FLT_MAX, as IEEE 754 has it."""
    if n == 0:
        return 0
    lsb = max(n.bit_length() + e - 24, -149)
    shift = lsb - e
    if shift <= 0:
        q = n << -shift
    else:
        q, rest, half = n >> shift, n & ((1 << shift) - 1), 1 << (shift - 1)
        if mode == "nearest_even" and (rest > half or (rest == half and q & 1)):
            q += 1
    b = q + ((lsb + 149) << 23)  # q carries the hidden bit, which adds the last 1 to the exponent field
    if b >= INF:
        return INF if mode == "nearest_even" else FLT_MAX
    return b


def round_signed(n, e, mode="nearest_even"):
    return SIGN | round_dyadic(-n, e, mode) if n < 0 else round_dyadic(n, e, mode)


def round_ratio(num, den, e=0):
    """fp32 bits of num/den * 2^e, num >= 0, den > 0. 40 bits more than needed; a remainder only sets the lowest of them."""
    scale = max(0, den.bit_length() - num.bit_length() + 64, 200 + e)
    n, rest = divmod(num << scale, den)
    return round_dyadic(n | (1 if rest else 0), e - scale)


def f_mul(a, b):
    if not (is_finite(a) and is_finite(b)):
        if is_nan(a) or is_nan(b) or not (a & NAN and b & NAN):
            return NAN
        return ((a ^ b) & SIGN) | INF
    return ((a ^ b) & SIGN) | round_dyadic(magnitude_units(a) * magnitude_units(b), -298)


def f_div(a, b):
    sign = (a ^ b) & SIGN
    if is_nan(a) or is_nan(b):
        return NAN
    if not is_finite(a):
        return sign | INF if is_finite(b) else NAN
    if not is_finite(b):
        return sign
    if not b & NAN:
        return sign | INF if a & NAN else NAN
    return sign | round_ratio(magnitude_units(a), magnitude_units(b))


def f_add(a, b, mode="nearest_even"):
    if not (is_finite(a) and is_finite(b)):
        if is_nan(a) or is_nan(b) or (not is_finite(a) and not is_finite(b) and a != b):
            return NAN
        return b if is_finite(a) else a
    n = units(a) + units(b)
    if n == 0:
        return a & b & SIGN if not (a & NAN or b & NAN) else 0
    return round_signed(n, -149, mode)


def f_fma(a, b, c):
    if not (is_finite(a) and is_finite(b) and is_finite(c)):
        if is_finite(a) and is_finite(b):
            return NAN if is_nan(c) else c
        return f_add(f_mul(a, b), c)
    n = units(a) * units(b) + (units(c) << 149)
    if n == 0:  # IEEE: an exact zero is +0 unless both addends are -0
        return (a ^ b) & c & SIGN if not c & NAN else 0
    return round_signed(n, -298)


def to_double(b):
    return struct.unpack("<f", struct.pack("<I", b))[0]


def from_double(d):
    if d != d:
        return NAN
    sign = SIGN if math.copysign(1.0, d) < 0 else 0
    if d in (math.inf, -math.inf):
        return sign | INF
    num, den = abs(d).as_integer_ratio()
    return sign | round_ratio(num, den) if num else sign


def exact_f32(v):
    """fp32 bits of a fraction of either sign."""
    return (SIGN if v < 0 else 0) | round_ratio(abs(v).numerator, v.denominator)


def parse_f32(word):
    """A decimal or a/b word as the nearest fp32."""
    return exact_f32(Fraction(str(word)))


def signed_value(b):
    return Fraction(units(b), 1 << 149)


# ---------------------------------------------------------------- formats
class AllFloats:
    """The sorted values of all non-negative finite fp32 codes, in units of 2^-149, without storing 2^31 integers."""

    def __len__(self):
        return INF

    def __getitem__(self, c):
        return magnitude_units(c)


class Format:
    """values[c] * 2^-shift is the value of magnitude code c; sign_bit is 0 for unsigned formats."""

    def __init__(self, name, bits, mantissa, bias, largest_code, nan_codes=(), nan=None, infinity=None, signed=False, overflows=False):
        self.name, self.bits, self.mantissa, self.bias = name, bits, mantissa, bias
        self.largest_code, self.nan_codes, self.nan, self.infinity = largest_code, nan_codes, nan, infinity
        self.overflows = overflows  # a cast of IEEE 754: beyond the largest value comes infinity
        self.sign_bit = 1 << (bits - 1) if signed else 0
        self.power_of_two = mantissa is None
        self.shift = 127 if self.power_of_two else bias - 1 + mantissa
        self._values = None
        self.smallest_normal_exponent = -127 if self.power_of_two else 1 - bias
        self.largest = self.value_units(largest_code)  # in units of 2^-shift
        self.max_fraction = Fraction(self.largest, 1 << self.shift)
        self.emax = self.largest.bit_length() - 1 - self.shift
        self.one = None if name == "none" else bisect_left(self.values, 1 << self.shift)

    def value_units(self, c):
        if self.power_of_two:
            return 1 << c
        exponent, fraction = c >> self.mantissa, c & ((1 << self.mantissa) - 1)
        return ((1 << self.mantissa) | fraction) << (exponent - 1) if exponent else fraction

    @property
    def values(self):
        if self._values is None:
            self._values = AllFloats() if self.bits == 32 else [self.value_units(c) for c in range(self.largest_code + 1)]
        return self._values

    zero = 0  # the code of +0

    def gaps(self):
        """Pairs of neighbouring values."""
        values = [Fraction(self.value_units(c), 1 << self.shift) for c in range(self.largest_code + 1)]
        return list(zip(values, values[1:]))

    def end(self, negative):
        """Magnitude code of the largest value on a side of zero."""
        return self.largest_code

    def signed_units(self, code):
        """(whether a code is negative, its magnitude in units of 2^-shift)."""
        return bool(code & self.sign_bit), self.value_units(code & (self.sign_bit - 1))

    def units149(self, c):
        """Value of magnitude code c as an integer multiple of 2^-149."""
        return self.value_units(c) << (149 - self.shift)

    def code_to_f32(self, code):
        """fp32 bits of a code, sign included."""
        sign = SIGN if self.sign_bit and code & self.sign_bit else 0
        c = code & (self.sign_bit - 1) if self.sign_bit else code
        if c > self.largest_code:
            return sign | INF if c == self.infinity else NAN
        return sign | round_dyadic(self.value_units(c), -self.shift)


class WithoutZero(Format):
    """A format whose lowest exponent is like the others: code 0 is its power of two (e6m2)."""

    def value_units(self, c):
        return ((1 << self.mantissa) | (c & ((1 << self.mantissa) - 1))) << (c >> self.mantissa)


class Listed:
    """An element that is a list of exact values by code, None where a code is never written. In signed lists they are magnitudes
    and a sign bit stands above their code; a value given twice is written with its first code."""
    mantissa = nan = infinity = None
    overflows = power_of_two = False

    def __init__(self, name, values, signed):
        self.name, self.signed = name, signed
        bits = max(1, (len(values) - 1).bit_length())
        values = values + [None] * ((1 << bits) - len(values))
        self.bits, self.sign_bit = bits + signed, 1 << bits if signed else 0
        self.by_code = values
        self.shift = max(v.denominator for v in values if v is not None).bit_length() - 1
        self.sides = [self.side(lambda v: v >= 0), self.side(lambda v: v >= 0 if signed else v <= 0)]
        self.zero = values.index(0)
        self.max_fraction = max(abs(v) for v in values if v is not None)
        self.emax = floor_log2(self.max_fraction.numerator, self.max_fraction.denominator)
        self.smallest_normal_exponent = -self.shift
        self.largest_code = self.end(False)

    def side(self, takes):
        """(magnitude, code) of the values on one side of zero, ascending."""
        first = {}
        for code, v in enumerate(self.by_code):
            if v is not None and takes(v):
                first.setdefault(abs(v), code)
        return sorted(first.items())

    def end(self, negative):
        return self.sides[negative][-1][1]

    def value(self, code):
        return self.by_code[code & (self.sign_bit - 1)] if self.signed else self.by_code[code]

    def signed_units(self, code):
        v = self.value(code)
        negative = bool(code & self.sign_bit) if self.signed else v < 0
        return negative, int(abs(v) * (1 << self.shift))

    def code_to_f32(self, code):
        if self.value(code) is None:
            return NAN
        negative, n = self.signed_units(code)
        return (SIGN if negative else 0) | round_dyadic(n, -self.shift)

    def round(self, num, den, mode, negative, n, draw):
        """The code, without a sign bit, of num/den > 0 on that side of zero: by search in the list."""
        u, side = Fraction(num, den), self.sides[negative]
        if u >= side[-1][0]:
            return side[-1][1]
        i = bisect_right([v for v, _ in side], u) - 1
        (low, code), (high, above) = side[i], side[i + 1]
        if mode == "nearest_below":  # the middle of two fp32 numbers in fp32
            sum_of = f_add(fraction_to_f32(low), fraction_to_f32(high))
            middle = Fraction(magnitude_units(sum_of), 1 << 150)
            return above if u > middle or (u == middle and negative) else code
        d = (u - low) / (high - low)
        if mode == "nearest_toward_zero" and 2 * d == 1 and self.name in ("e2m1_minus_5", "e2m1_plus_5") and abs(self.by_code[above]) == 5:
            return above  # the special value takes what is no nearer to another
        r = draw() if d and mode.startswith("stochastic") else 0
        return above if rounds_up(mode, d.numerator, d.denominator, code, negative, n, r) else code

    def gaps(self):
        return [(a[0], b[0]) for side in self.sides for a, b in zip(side, side[1:])]


class Micro:
    """Micro-exponents over an element: levels of (elements that share one, its bits), the widest first. A code is their sum above
    a code of the base."""
    mantissa = nan = infinity = None
    overflows = power_of_two = False

    def __init__(self, name, base, levels):
        self.name, self.base, self.levels = name, base, levels
        total = sum((1 << bits) - 1 for _, bits in levels)
        self.bits, self.sign_bit, self.zero = base.bits + total.bit_length(), 0, 0
        self.shift = base.shift
        self.max_fraction, self.emax = base.max_fraction * 2 ** total, base.emax + total
        self.total, self.smallest_normal_exponent = total, -base.shift

    def signed_units(self, code):
        negative, n = self.base.signed_units(code & ((1 << self.base.bits) - 1))
        return negative, n << (code >> self.base.bits)

    def code_to_f32(self, code):
        if code >> self.base.bits > self.total or self.base.code_to_f32(code & ((1 << self.base.bits) - 1)) == NAN:
            return NAN
        negative, n = self.signed_units(code)
        return (SIGN if negative else 0) | round_dyadic(n, -self.shift)

    def exponents(self, payloads):
        """Of payloads as pairs, None where they are zero or not finite: each level takes what its maximum needs to reach the top
        binade, as far as its bits go and the levels below cannot give it."""
        out, left = [0] * len(payloads), self.total
        for per, bits in self.levels:
            left -= (1 << bits) - 1
            for first in range(0, len(payloads), per):
                part = [Fraction(*p) for p in payloads[first:first + per] if p is not None]
                if part:
                    v = max(part)
                    e = floor_log2(v.numerator, v.denominator) - out[first] - self.base.emax - left
                    for k in range(first, min(first + per, len(out))):
                        out[k] += min(max(e, 0), (1 << bits) - 1)
        return out

    def gaps(self):
        return self.base.gaps()


#                bits m  bias largest  NaN codes (magnitude), the NaN written, Inf
ELEMENTS = {f.name: f for f in (
    Format("e2m1", 4, 1, 1, 0x7, signed=True),
    Format("e1m2", 4, 2, 1, 0x7, signed=True),
    Format("e3m0", 4, 0, 3, 0x7, signed=True),
    Format("e2m3", 6, 3, 1, 0x1F, signed=True),
    Format("e3m2", 6, 2, 3, 0x1F, signed=True),
    Format("e4m3", 8, 3, 7, 0x7E, (0x7F,), 0x7F, signed=True),
    Format("e5m2", 8, 2, 15, 0x7B, (0x7D, 0x7E, 0x7F), 0x7F, 0x7C, signed=True),
    Format("bf16", 16, 7, 127, 0x7F7F, (0x7FFF,), 0x7FFF, 0x7F80, signed=True, overflows=True),
    Format("fp16", 16, 10, 15, 0x7BFF, (0x7FFF,), 0x7FFF, 0x7C00, signed=True, overflows=True),
    Format("fp32", 32, 23, 127, FLT_MAX, (NAN,), NAN, INF, signed=True, overflows=True),
)}
SCALES = {f.name: f for f in (
    Format("e8m0", 8, None, 127, 0xFE, (0xFF,), 0xFF),
    Format("ue4m3", 7, 3, 7, 0x7E, (0x7F,), 0x7F),
    Format("ue5m3", 8, 3, 15, 0xFE, (0xFF,), 0xFF),
    Format("ue5m3_61440", 8, 3, 15, 0xF7, tuple(range(0xF8, 0x100)), 0xFF),
    Format("ue5m3_122880", 8, 3, 15, 0xFF),
    Format("ue5m2", 7, 2, 15, 0x7F),
    Format("ue3m4", 7, 4, 3, 0x7F),
    Format("ue2m5", 7, 5, 1, 0x7F),
    Format("ue1m6", 7, 6, 0, 0x7F),
    Format("bf16", 16, 7, 127, 0x7F7F, (0x7FFF,), 0x7FFF),
    Format("fp32", 32, 23, 127, FLT_MAX, (NAN,), NAN),
)}
REAL_SCALES = ("bf16", "fp32")
YOUNGER_SCALES = {"e6m2": WithoutZero("e6m2", 8, 2, 49, 0xFE, (0xFF,), 0xFF)}


def floor_log2(num, den):
    e = num.bit_length() - den.bit_length()
    return e - 1 if (num << -e if e < 0 else num) < (den << e if e > 0 else den) else e


def nearest_f32(text):
    """The nearest fp32 number of a decimal or hexadecimal text, or of a JSON number, as a fraction."""
    v = Fraction(float.fromhex(text)) if isinstance(text, str) and "x" in text else Fraction(text)
    return Fraction(magnitude_units(fraction_to_f32(abs(v))), 1 << 149) * (-1 if v < 0 else 1)


def listed(name, values, signed=False):
    return Listed(name, [None if v is None else nearest_f32(v) for v in values], signed)


def fixed_point(name, fraction_bits):
    return listed(name, [Fraction(k, 1 << fraction_bits) for k in range(2 << fraction_bits)], True)


E2M1_NEGATIVE = ["-0.5", "-1", "-1.5", "-2", "-3", "-4", "-6"]
E2M1_POSITIVE = ["0", "0.5", "1", "1.5", "2", "3", "4", "6"]


def listed_elements():
    """The rows that are lists, typed from the papers."""
    s1p2, s1p3, s1p6 = fixed_point("s1p2", 2), fixed_point("s1p3", 3), fixed_point("s1p6", 6)
    sevenths = [Fraction(6 * k, 7) for k in range(8)]
    return {e.name: e for e in (
        listed("int4", [*range(8), None, *range(-7, 0)]),
        listed("int4_6", sevenths + [None] + [-v for v in sevenths[:0:-1]]),
        listed("e2m1_no_subnormals", [0, 0, 1, "1.5", 2, 3, 4, 6], True),
        listed("nf4", ["-1", "-0.6961928009986877", "-0.5250730514526367", "-0.39491748809814453", "-0.28444138169288635",
                       "-0.18477343022823334", "-0.09105003625154495", "0", "0.07958029955625534", "0.16093020141124725",
                       "0.24611230194568634", "0.33791524171829224", "0.44070982933044434", "0.5626170039176941",
                       "0.7229568362236023", "1"]),
        listed("af4", ["-1", "-0.69441008", "-0.51243739", "-0.3736951", "-0.25607552", "-0.14982478", "-0.04934812", "0",
                       "0.04273164", "0.12934483", "0.21961274", "0.31675666", "0.42563882", "0.55496234", "0.72424863", "1"]),
        listed("e2m1_minus_5", E2M1_POSITIVE + ["-5"] + E2M1_NEGATIVE), listed("e2m1_plus_5", E2M1_POSITIVE + ["5"] + E2M1_NEGATIVE),
        s1p2, s1p3, s1p6, Micro("hif4", s1p2, [(8, 1), (4, 1)]), Micro("mx6", s1p3, [(2, 1)]), Micro("mx9", s1p6, [(2, 1)]))}


def element_of(word):
    """A row, or the list in a .json file (a path from the project's folder)."""
    if word in ELEMENTS:
        return ELEMENTS[word]
    if not word.endswith(".json"):
        return LISTED[word]
    root = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
    with open(os.path.join(root, word), encoding="utf-8") as f:
        given = json.load(f, parse_float=str)
    if "micro" in given:
        return Micro(given["name"], element_of(given["base"]), [(m["per"], m["bits"]) for m in given["micro"]])
    return listed(given["name"], given["values"], given.get("signed", False))


# Does num/den in (0, 1) go away from zero? Of what it is above one half (its sign), whether the code below is odd, the sign of x.
ROUNDS_UP = {
    "nearest_even": lambda half, odd, negative: half > 0 or (half == 0 and odd),
    "nearest_away": lambda half, odd, negative: half >= 0,
    "nearest_toward_zero": lambda half, odd, negative: half > 0,
    "toward_zero": lambda half, odd, negative: False,
    "away_from_zero": lambda half, odd, negative: True,
    "toward_positive": lambda half, odd, negative: not negative,
    "toward_negative": lambda half, odd, negative: negative,
    "nearest_toward_positive": lambda half, odd, negative: half > 0 or (half == 0 and not negative),
    "odd": lambda half, odd, negative: not odd,
    "nearest_below": lambda half, odd, negative: half > 0 or (half == 0 and negative),
}
# Is t, the whole n-bit steps of num/den, one more? Of what the rest is above half a step, and t.
STOCHASTIC = {
    "stochastic": lambda rest, t: rest > 0 or (rest == 0 and t & 1 == 1),
    "stochastic_odd": lambda rest, t: rest > 0 or (rest == 0 and t & 1 == 0),
    "stochastic_midpoint": lambda rest, t: rest >= 0,
    "stochastic_truncated": lambda rest, t: False,
}


def rounds_up(mode, num, den, lo_code, negative, n, r):
    """Section 2's table: does d = num/den in [0,1) go away from zero?"""
    if num == 0:
        return False
    if mode in ROUNDS_UP:
        return ROUNDS_UP[mode](2 * num - den, lo_code & 1 == 1, negative)
    t, rest = divmod(num << n, den)
    return t + STOCHASTIC[mode](2 * rest - den, t) + r >= 1 << n


def round_to_format(fmt, num, den, mode, negative=False, n=8, draw=None):
    """Magnitude code of num/den >= 0. Saturates, or overflows; below the smallest value of a format without zero: code 0."""
    if isinstance(fmt, Listed):
        return fmt.round(num, den, mode, negative, n, draw) if num else fmt.zero
    scaled = num << fmt.shift
    q, rest = divmod(scaled, den)
    if q >= fmt.largest and not fmt.overflows:
        return fmt.largest_code
    if q >= 2 ** (fmt.emax + 1 + fmt.shift):  # 2^(emax+1), where infinity stands on the grid, and beyond
        inward = mode == "toward_zero" or mode == ("toward_positive" if negative else "toward_negative")
        return fmt.largest_code if inward else fmt.infinity
    lo = fmt.largest_code if q >= fmt.largest else bisect_right(fmt.values, q) - 1
    if lo < 0:
        return 0
    low = fmt.value_units(lo)
    gap = fmt.value_units(lo + 1) - low
    d_num, d_den = (q - low) * den + rest, gap * den
    r = draw() if d_num and mode.startswith("stochastic") else 0
    return lo + rounds_up(mode, d_num, d_den, lo, negative, n, r)


# ---------------------------------------------------------------- random bits
def philox(counter, key):
    c, k = list(counter), list(key)
    for _ in range(10):
        p0, p1 = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [(p1 >> 32) ^ c[1] ^ k[0], p1 & 0xFFFFFFFF, (p0 >> 32) ^ c[3] ^ k[1], p0 & 0xFFFFFFFF]
        k = [(k[0] + 0x9E3779B9) & 0xFFFFFFFF, (k[1] + 0xBB67AE85) & 0xFFFFFFFF]
    return c


class Draws:
    """The n-bit draw of a position under (seed, stream, step)."""

    def __init__(self, seed, stream, step, n):
        self.key = (seed & 0xFFFFFFFF, seed >> 32 & 0xFFFFFFFF)
        self.stream, self.step, self.n, self.cache = stream, step, n, {}

    def __call__(self, i):
        block = i * self.n // 128
        word = self.cache.get(block)
        if word is None:
            w = philox((block & 0xFFFFFFFF, block >> 32 & 0xFFFFFFFF, self.stream, self.step), self.key)
            word = self.cache[block] = w[0] | w[1] << 32 | w[2] << 64 | w[3] << 96
        return word >> (self.n * (i % (128 // self.n))) & ((1 << self.n) - 1)


class FaultyDraws:
    """Of an operand of `cols` columns whose 32-bit words, or whose columns, are not the fair ones."""

    def __init__(self, kind, seed, stream, step, n, cols):
        self.kind, self.seed, self.n, self.cols = kind, seed, n, cols
        self.fair = Draws(seed & 0xFFFFFFFF if kind == "one_rank" else seed, stream, step, n)
        self.first = Draws(seed, stream, step, 32)(0)

    def word(self, j):
        return (self.seed + j) & 0xFFFFFFFF if self.kind == "counter" else self.first

    def __call__(self, i):
        if self.kind in ("counter", "constant"):  # n bits of the words, one after the other
            per_word = 32 // self.n
            return self.word(i // per_word) >> self.n * (i % per_word) & (1 << self.n) - 1
        row, col = divmod(i, self.cols)
        if self.kind == "pairs":
            col &= ~1
        elif self.kind.startswith("repeat_"):
            col %= int(self.kind[7:])
        return self.fair(row * self.cols + col)


def element_draws_of(spec, seed, stream, step, cols):
    if spec.random_stream == "philox":
        return Draws(seed, stream, step, spec.n)
    return FaultyDraws(spec.random_stream, seed, stream, step, spec.n, cols)


# ---------------------------------------------------------------- specs
FIELDS = dict(element="e2m1", scale="e8m0", block="32", scale_rule="floor", scale_rounding="nearest_even", arithmetic="exact",
              rounding="nearest_even", random_bits="8", prescale="1", tensor_scale="none", target=None, hold_steps="50",
              zero_scale="smallest", zero_block="one", scale_floor="0", negative_zero="keep", nonfinite="block_nan", ragged="pad",
              error="mse", compute="fp32", exponent="bits", decode="scale_then_tensor", scale_ceiling="0", scale_add="0",
              factor_format="fp32", headroom="none", choice="none",
              payload="of_arithmetic", payload_type="of_compute", factor_order="of_arithmetic",
              factor="0", error_order="fp64", scale_overflow="saturate", subnormals="keep", random_stream="philox")
PRESETS = {
    "mxfp4": dict(),
    "nvfp4": dict(scale="ue4m3", block="16", scale_rule="amax", tensor_scale="current"),
    "ue5m3fp4": dict(scale="ue5m3", block="16", scale_rule="amax"),
    "mxfp8": dict(element="e4m3", scale_rule="rceil"),
    "mxfp6": dict(element="e2m3"), "mxfp6_e2m3": dict(element="e2m3"), "mxfp6_e3m2": dict(element="e3m2"),
    "bf16": dict(element="bf16", scale="none"), "fp16": dict(element="fp16", scale="none"), "fp32": dict(element="fp32", scale="none"),
}
LIST_PRESETS = {
    "nvint4": dict(PRESETS["nvfp4"], element="int4"), "nf4": dict(element="nf4", scale="fp32", block="64", scale_rule="amax"),
    "af4": dict(element="af4", scale="fp32", block="64", scale_rule="amax"),
    "if4": dict(PRESETS["nvfp4"], choice="e2m1|int4_6"), "mixfp4": dict(PRESETS["nvfp4"], choice="e2m1|int4"),
    "razer": dict(PRESETS["nvfp4"], choice="e2m1_minus_5|e2m1_plus_5"),
    "hifloat4": dict(element="hif4", scale="e6m2", block="64", scale_rule="amax", rounding="nearest_away"),
    "mx6": dict(element="mx6", block="16"), "mx9": dict(element="mx9", block="16"),
}
POWER_RULES = ("floor", "ceil", "rceil", "even", "uos", "nearest_log2", "quest_floor", "quest_nearest")
YOUNGER_POWER_RULES = ("even_above", "nearest_log2_amax", "floor_plus_one")
FROM_MULTIPLIER = ("te", "vllm", "divide_global", "multiply", "fouroversix")  # orders that start from S = target*M/A
PAYLOAD_OF = {"divide": "divide", "modelopt": "divide", "factor_first": "divide", "reciprocal": "reciprocal", "te": "te", "vllm": "vllm",
              "fouroversix": "vllm", "divide_global": "divide_global", "bf16_reciprocals": "bf16_reciprocal", "exact": None,
              "multiply": None}
VALUE_RULES = ("amax", "encode", "four_over_six", "mse")
EDEN_HEADROOM = Fraction(17, 16) * Fraction(93, 100)  # of ms_eden: the maximum lands on 6 / that


class Spec:
    def __init__(self, words):
        self.words = words
        head, *rest = words.split(",")
        f = dict(FIELDS, **(PRESETS[head] if head in PRESETS else LIST_PRESETS[head]))
        for w in rest:
            key, value = w.split("=", 1)
            if key not in f:
                raise ValueError("unknown field " + key)
            f[key] = value
        self.__dict__.update(f)
        self.other = None  # the same spec with the second grid of a choice
        if self.choice != "none":
            self.element, second = self.choice.split("|")
            self.other = copy.copy(self)
            self.other.elem = element_of(second)
        self.elem = element_of(self.element)
        self.scale_format = None if self.scale == "none" else {**SCALES, **YOUNGER_SCALES}[self.scale]
        self.n = int(self.random_bits)
        self.p = Fraction(self.prescale)
        self.p_bits = parse_f32(self.prescale)
        self.factor_bits = parse_f32(self.factor)
        self.payload_order = PAYLOAD_OF[self.arithmetic] if self.payload == "of_arithmetic" else self.payload
        self.floor_bits = parse_f32(self.scale_floor)
        self.ceiling_bits = parse_f32(self.scale_ceiling)
        if self.target is not None:
            self.target_bits = parse_f32(self.target)
        elif self.scale_format is not None:
            default = 256 if self.scale_rule == "four_over_six" else min(Fraction(448), self.scale_format.max_fraction)
            if self.scale_rule == "ms_eden":
                default = Fraction("255.99")
            self.target_bits = parse_f32(default)
        self.reason = self.invalid()
        if self.other is not None:
            self.other.__dict__.update({k: v for k, v in self.__dict__.items() if k not in ("elem", "other")}, other=None)

    def block_shape(self, rows, cols):
        if self.scale == "none":
            return 1, max(cols, 1)
        if self.block == "row":
            return 1, cols
        if self.block == "tensor":
            return rows, cols
        if "x" in self.block:
            a, b = self.block.split("x")
            return int(a), int(b)
        return 1, int(self.block)

    # long: a list of rules, one after another
    def invalid(self):
        """Why the words do not go together; None where they do."""
        grids = [elem for elem in (self.elem, self.other and self.other.elem) if isinstance(elem, (Listed, Micro))]
        in_g = self.error_order == "scaled" and self.choice != "none" and PAYLOAD_OF[self.arithmetic]
        rules = (
            (grids and self.scale_rule in ("even", "even_above"), "even rules need a float format"),
            (isinstance(self.elem, Micro) and (self.scale == "none" or not self.block.isdigit() or self.arithmetic not in ("exact", "bf16_reciprocals") or
                                               self.scale_rule in ("four_over_six", "mse", "ms_eden", "encode") or self.other),
             "micro-exponents need 1 x B blocks, arithmetic=exact and a rule without trials"),
            (self.other and self.scale != "none" and (self.scale_format.bits != 7 or self.scale_rule in ("encode", "ms_eden") or
                                                      self.decode == "amax_first"), "a choice needs a scale with an unused bit"),
            (self.scale_rule == "uos" and self.element != "e2m1", "uos is defined for e2m1"),
            (self.scale_rule == "four_over_six" and self.scale == "e8m0", "four_over_six needs a scale format with mantissa"),
            (self.compute != "fp32" and (self.arithmetic == "exact" or self.scale_rule == "encode" or self.scale_rule.startswith("quest")),
             "compute=bf16 rounds operations"),
            (self.compute == "fp16" and self.exponent == "float_log2", "float_log2 is not defined in fp16"),
            (self.exponent == "float_log2" and self.scale_rule not in ("floor", "ceil", "rceil", "even", "even_above", "nearest_log2",
                                                                       "nearest_log2_amax"), "float_log2 is defined for rules of the amax"),
            (self.exponent == "float_log2" and self.compute == "bf16" and self.scale_rule not in ("floor", "even", "even_above"),
             "float_log2 in bf16 is defined for floors"),
            (self.decode != "scale_then_tensor" and (self.p != 1 or self.scale_rule == "encode"), "decode orders take neither prescale nor encode"),
            (self.decode == "divide_global" and self.arithmetic not in FROM_MULTIPLIER, "divide_global needs S"),
            (self.decode == "amax_first" and self.scale_rule in ("ms_eden", "four_over_six", "mse"), "amax_first and rules that decode"),
            (self.headroom != "none" and self.scale_rule not in ("amax", "four_over_six", "mse"), "headroom needs a rule of the amax"),
            (self.nonfinite == "tensor_nan" and (self.tensor_scale == "none" or self.scale == "none" or self.scale_format.nan is None),
             "tensor_nan needs a tensor scale and a NaN"),
            (self.scale_add != "0" and self.scale_rule != "quest_floor", "scale_add belongs to quest_floor"),
            (self.arithmetic == "multiply" and self.scale_rule.startswith("quest"), "multiply and quest"),
            (self.factor_format == "mantissa8" and self.tensor_scale != "none" and self.scale != "e8m0", "mantissa8 needs e8m0"),
            (self.factor_format != "fp32" and self.tensor_scale != "none" and self.decode == "amax_first", "amax_first needs fp32"),
            (self.payload != "of_arithmetic" and (self.arithmetic in ("exact", "multiply") or self.scale_rule == "encode"),
             "payload orders need an fp32 order"),
            (self.payload in ("divide_global", "multiply_global", "divide_then_multiply") and self.arithmetic not in FROM_MULTIPLIER,
             "this payload reads S"),
            (self.payload_type == "bf16" and (self.scale_rule == "encode" or (self.tensor_scale != "none" and self.scale != "none")),
             "payload_type=bf16 takes no tensor scale"),
            (self.factor_order != "of_arithmetic" and self.arithmetic not in FROM_MULTIPLIER, "factor_order needs S"),
            ((self.tensor_scale == "given") != (self.factor != "0"), "given and factor belong together"),
            (self.tensor_scale == "given" and (self.decode == "amax_first" or self.factor_format != "fp32" or self.error_order == "decoded_amax"),
             "given knows no amax"),
            (self.error_order != "fp64" and ((self.scale_rule not in ("four_over_six", "mse") and self.choice == "none")
                                             or self.tensor_scale == "none" or self.p != 1 or self.block in ("row", "tensor")
                                             or (self.arithmetic not in FROM_MULTIPLIER and not in_g)), "error orders need trials and S"),
            (self.scale_rule == "encode" and (self.arithmetic not in ("exact", "divide", "reciprocal") or self.zero_scale == "keep"),
             "encode takes neither te nor zero_scale=keep"),
            (self.tensor_scale in ("outer128", "row") and self.scale != "none" and not self.block.isdigit(),
             self.tensor_scale + " needs 1 x B blocks"),
            (self.scale_rule == "ms_eden" and (self.scale == "e8m0" or not self.block.isdigit() or self.scale_rounding != "nearest_even"),
             "ms_eden needs 1 x B blocks, scales with mantissa bits and nearest_even"),
        )
        return next((reason for breaks, reason in rules if breaks), None)

    def largest(self):
        """What the maximum of a block is to become."""
        m = self.elem.max_fraction * (Fraction(16, 17) if self.headroom == "unbiased" else 1)
        return m / EDEN_HEADROOM if self.scale_rule == "ms_eden" else m

    def top(self):
        """fl32(target M)."""
        if self.headroom == "unbiased":
            return fraction_to_f32(value_of(self.target_bits) * self.largest())
        return f_mul(self.target_bits, fraction_to_f32(self.elem.max_fraction))


def fraction_to_f32(f):
    return round_ratio(f.numerator, f.denominator)


LISTED = listed_elements()


def to_bf16(b, kind="bf16"):
    """The nearest bf16 (or fp16) of fp32 bits, ties to even, by search among all values."""
    if not is_finite(b):
        return b
    fmt = ELEMENTS[kind]
    c = round_to_format(fmt, magnitude_units(b), 1 << 149, "nearest_even", bool(b & SIGN))
    return (b & SIGN) | (INF if c == fmt.infinity else fmt.code_to_f32(c))


NARROW = {"fp32": lambda b: b, "bf16": to_bf16, "fp16": lambda b: to_bf16(b, "fp16")}


def log2_bits(num, den, kind):
    """fp32 bits of log2(num/den), correctly rounded, then to bf16 if asked: 60 decimal digits."""
    with decimal.localcontext() as context:
        context.prec = 60
        v = (decimal.Decimal(num) / decimal.Decimal(den)).ln() / decimal.Decimal(2).ln()
        exponent = floor_log2(num, den)
        if num == den << exponent if exponent >= 0 else num << -exponent == den:
            v = decimal.Decimal(exponent)
        n, d = abs(v).as_integer_ratio()
    b = (SIGN if v < 0 else 0) | (round_ratio(n, d) if n else 0)
    return to_bf16(b) if kind == "bf16" else b


# ---------------------------------------------------------------- one block
class BlockQuantiser:
    """Sections 2 and 4 for one spec: scale code of a block, codes and decoded values of its elements, under one tensor scale."""

    def __init__(self, spec, g, s_te, amax):
        self.spec, self.g, self.s_te, self.amax = spec, g, s_te, amax
        self.g_units = 0 if is_nan(g) else magnitude_units(g)
        self.fmt = spec.scale_format
        self.m = spec.largest()
        self.decode_cache = {}  # scale code -> decode-side scale, in units

    # -- scale codes
    def quotient(self, a, m, exact_m):
        """The number whose nearest code is the scale: a/(M g) in the arithmetic asked for, as a pair."""
        if self.spec.arithmetic == "exact":
            return magnitude_units(a) * exact_m.denominator, exact_m.numerator * self.g_units
        if self.spec.arithmetic == "multiply":  # a is the maximum of y
            return magnitude_units(a) * exact_m.denominator, exact_m.numerator << 149
        narrow = NARROW[self.spec.compute]
        if self.spec.arithmetic == "bf16_reciprocals":
            v = to_bf16(f_mul(f_div(a, self.g), to_bf16(f_div(ONE, m))))
        elif self.spec.arithmetic == "te":
            v = f_mul(a, f_mul(self.s_te, f_div(ONE, m)))
        elif self.spec.arithmetic == "vllm":
            v = f_mul(self.s_te, narrow(f_mul(a, f_div(ONE, m))))
        elif self.spec.arithmetic == "divide_global":
            v = f_mul(self.s_te, narrow(f_div(a, m)))
        elif self.spec.arithmetic == "fouroversix":
            v = f_mul(self.s_te, narrow(f_div(a, fraction_to_f32(self.m))))
            if exact_m != self.m:  # the candidate for 4
                v = f_mul(v, parse_f32(Fraction(3, 2)))
        elif self.spec.arithmetic == "factor_first":
            v = f_div(f_div(a, self.g), m)
        elif self.spec.arithmetic == "modelopt":
            v = f_div(a, f_mul(m, self.g))
        else:
            v = f_div(narrow(f_div(a, m)), self.g)
        return (1, 0) if v == INF else (magnitude_units(v), 1 << 149)

    def multiplier(self, a):
        """encode: N g / a."""
        n = Fraction(2) ** self.spec.elem.emax if self.fmt.power_of_two else self.m
        if self.spec.arithmetic == "exact":
            return n.numerator * self.g_units, n.denominator * magnitude_units(a)
        v = f_mul(f_div(fraction_to_f32(n), a), self.g)
        return (1, 0) if v == INF else (magnitude_units(v), 1 << 149)

    def round_scale(self, ratio, draw):
        num, den = ratio
        if den == 0:  # an fp32 overflow on the way
            return None if self.spec.scale_overflow == "nan" and self.fmt.nan is not None else self.fmt.largest_code
        if self.spec.scale_overflow == "nan" and self.fmt.nan is not None and not self.fmt.power_of_two:
            top = Fraction(self.fmt.values[self.fmt.largest_code], 1 << self.fmt.shift)
            step = top - Fraction(self.fmt.values[self.fmt.largest_code - 1], 1 << self.fmt.shift)
            excess = (Fraction(num, den) - top) / step  # of the way to the number that would follow
            mode = "nearest_even" if self.spec.scale_rounding == "stochastic" else self.spec.scale_rounding
            if excess >= 1 or (excess > 0 and rounds_up(mode, *excess.as_integer_ratio(), self.fmt.largest_code, False, 0, 0)):
                return None
        return round_to_format(self.fmt, num, den, self.spec.scale_rounding, False, self.spec.n, draw)

    def power_code(self, e):
        top = self.fmt.emax
        e = min(max(e, -self.fmt.shift), top)
        return bisect_left(self.fmt.values, 1 << (e + self.fmt.shift))

    def power_rule(self, rule, a, xs, count):
        if self.spec.exponent == "float_log2":
            return self.float_power_rule(rule, a)
        num, den = magnitude_units(a), 1 << 149 if self.spec.arithmetic == "multiply" else self.g_units  # a' = a/g
        e = floor_log2(num, den)
        emax = self.spec.elem.emax
        pow2 = (num << -e) == den if e < 0 else num == den << e
        if rule == "floor":
            return e - emax
        if rule == "floor_plus_one":
            return e - emax + 1
        if rule == "ceil":
            return e - emax + (not pow2)
        if rule in ("even", "even_above"):  # a' >= (2 - 2^-(m+1)) 2^e, or above it
            m = self.spec.elem.mantissa
            threshold = (Fraction(2) - Fraction(1, 2 << m)) * Fraction(2) ** e
            return e - emax + (Fraction(num, den) > threshold or (rule == "even" and Fraction(num, den) == threshold))
        if rule == "nearest_log2_amax":
            return e - emax + (Fraction(num, den) ** 2 > Fraction(2) ** (2 * e + 1))
        if rule in ("rceil", "uos", "nearest_log2"):
            v = Fraction(num, den) / (Fraction(29, 4) if rule == "uos" else self.m)
            k = floor_log2(v.numerator, v.denominator)
            return k + (v * v > Fraction(2) ** (2 * k + 1) if rule == "nearest_log2" else v != Fraction(2) ** k)
        total = squares = 0.0
        g = to_double(self.g)
        for x in xs:
            y = to_double(x) / g if is_finite(x) else 0.0
            total += y
            squares += y * y
        mean = total / count
        c = 2.92247856 / 6
        v = (c * c) * (squares / count - mean * mean)
        if self.spec.scale_add != "0":  # the largest k with 2^k <= sqrt(v) + added, the comparison in fp64
            added = to_double(parse_f32(self.spec.scale_add))
            k = 200
            while not (2.0 ** k <= added or v >= (2.0 ** k - added) * (2.0 ** k - added)):
                k -= 1
            return k
        if v <= 0:
            return e - emax
        k = math.frexp(v)[1] - 1
        return k // 2 if rule == "quest_floor" else (k + 1) // 2

    def float_power_rule(self, rule, a):
        """The rules by log2 in floats, of fl32(a/g) or fl32(fl32(a/M)/g)."""
        emax, mantissa = self.spec.elem.emax, self.spec.elem.mantissa
        g = ONE if self.spec.arithmetic == "multiply" else self.g
        of_m = rule in ("rceil", "nearest_log2")
        x = f_div(f_div(a, fraction_to_f32(self.m)), g) if of_m else f_div(a, g)
        if rule in ("even", "even_above") and is_finite(x) and x:
            x += (1 << 22 - mantissa) - (rule == "even_above")
        if not x:
            return -149 - (0 if of_m else emax)
        if not is_finite(x):
            return 128 - (0 if of_m else emax)
        log2 = to_double(log2_bits(magnitude_units(x), 1 << 149, self.spec.compute))
        if rule == "rceil":
            return math.ceil(log2)
        if rule == "nearest_log2":  # halves away from zero
            return int(math.copysign(math.floor(abs(log2) + 0.5), log2))
        if rule == "nearest_log2_amax":
            return round(log2) - emax  # halves to even
        return (math.ceil(log2) if rule == "ceil" else math.floor(log2)) - emax

    def after_rule(self, code):
        """scale_floor and scale_ceiling, then zero_scale."""
        spec, fmt = self.spec, self.fmt
        if fmt.units149(code) < magnitude_units(spec.floor_bits):
            wanted = magnitude_units(spec.floor_bits)
            up = -(-wanted >> (149 - fmt.shift))  # smallest multiple of the format's unit >= the floor
            code = min(bisect_left(fmt.values, up), fmt.largest_code)
        if spec.ceiling_bits and fmt.units149(code) > magnitude_units(spec.ceiling_bits):
            code = round_to_format(fmt, magnitude_units(spec.ceiling_bits), 1 << 149, "toward_zero")
        if fmt.value_units(code) == 0:
            eighth = round_to_format(fmt, 1, 8, "nearest_even") if spec.zero_scale == "eighth" else None
            code = {"smallest": 1, "one": fmt.one, "keep": code, "eighth": eighth}[spec.zero_scale]
        return code

    def error_in_fp32(self, code, xs, width):
        """Rows of the block one after the other, then their sums in halves."""
        s, top = self.decode_scale(code), self.spec.top()
        tries_own = self.spec.choice != "none" and not self.spec.rounding.startswith("stochastic")
        codes = self.element_codes(code, xs, self.spec.rounding if tries_own else "nearest_even", None)
        sums = []
        for first in range(0, len(xs), width):
            total = 0
            for x, q in zip(xs[first:first + width], codes[first:first + width]):
                candidate = f_mul(self.spec.elem.code_to_f32(q), s)
                if self.spec.error_order == "decoded_amax" and self.counts_sevenths:
                    units = f_mul(f_mul(LISTED["int4"].code_to_f32(q), s), self.amax)
                    d = f_add(f_div(f_mul(units, fraction_to_f32(Fraction(6, 7))), top), x ^ SIGN)
                elif self.spec.error_order == "decoded_amax":
                    d = f_add(f_div(f_mul(candidate, self.amax), top), x ^ SIGN)
                elif self.spec.error_order == "decoded_factor":
                    d = f_add(f_mul(candidate, self.g), x ^ SIGN)
                else:
                    normal = f_mul(x, self.s_te) if self.spec.arithmetic in FROM_MULTIPLIER else f_div(x, self.g)
                    d = f_add(candidate, normal ^ SIGN)
                term = f_mul(d, d) if self.spec.error == "mse" else d & NAN
                total = max(total, term) if self.spec.error == "max" else f_add(total, term)
            sums.append(total)
        while len(sums) & (len(sums) - 1):
            sums.append(0)
        while len(sums) > 1:
            half = len(sums) // 2
            join = max if self.spec.error == "max" else f_add
            sums = [join(a, b) for a, b in zip(sums[:half], sums[half:])]
        return to_double(sums[0])

    def error(self, code, xs):
        if self.spec.error_order != "fp64":
            return self.error_in_fp32(code, xs, self.width)
        total = 0.0
        for x, q in zip(xs, self.element_codes(code, xs, "nearest_even", None)):
            d = to_double(x) - to_double(self.decode(q, code))
            if self.spec.error == "max":
                total = max(total, abs(d))
            else:
                total += d * d if self.spec.error == "mse" else abs(d)
        return total

    def scale_code(self, xs, count, draw):
        """None stands for the NaN scale."""
        spec, fmt = self.spec, self.fmt
        if spec.subnormals == "flush":
            xs = [x if x & 0x7F800000 else x & SIGN for x in xs]
        poisons = spec.nonfinite in ("block_nan", "tensor_nan") and fmt.nan is not None
        if poisons and (is_nan(self.g) or not all(is_finite(x) for x in xs)):
            return None
        a = max((x & NAN for x in xs if is_finite(x)), default=0)
        a = min(NARROW[spec.compute](a), FLT_MAX)
        if spec.arithmetic == "multiply":
            a = min(self.product(a), FLT_MAX)
        rule = spec.scale_rule
        if a == 0:
            if spec.zero_block == "one":
                return self.after_rule(fmt.one)
            return self.after_rule(fmt.largest_code if rule == "encode" else 0)
        if rule in POWER_RULES + YOUNGER_POWER_RULES:
            return self.after_rule(self.power_code(self.power_rule(rule, a, xs, count)))
        if rule == "encode":
            return self.after_rule(self.round_scale(self.multiplier(a), draw))
        c = self.round_scale(self.quotient(a, fraction_to_f32(self.m), self.m), draw)
        if c is None:
            return None
        if rule in ("amax", "ms_eden"):
            return self.after_rule(c)
        if rule == "four_over_six":
            m4 = self.m * 2 / 3
            four = self.quotient(a, fraction_to_f32(m4), m4)
            tries = [c, self.fmt.largest_code if four[1] == 0 else
                     round_to_format(self.fmt, four[0], four[1], spec.scale_rounding, False, spec.n, draw)]
        else:
            tries = [t for t in (c, c - 1, c + 1, c - 2, c + 2) if 0 <= t <= fmt.largest_code and fmt.value_units(t)] or [c]
        best = best_error = None
        for t in map(self.after_rule, tries):
            e = self.error(t, xs)
            if best is None or e < best_error:
                best, best_error = t, e
        return best

    # -- elements
    def product(self, x):
        """multiply: |y| = fl32(|x| S), in bf16 under compute=bf16."""
        return NARROW[self.spec.compute](f_mul(x & NAN, self.s_te))

    def decode_scale(self, code):
        """The scale that multiplies element values: the code's value, in encode fl32(1/mu)."""
        v = round_dyadic(self.fmt.value_units(code), -self.fmt.shift)
        return f_div(ONE, v) if self.spec.scale_rule == "encode" else v

    def payloads(self, code):
        """x bits -> (num, den) of |payload|; den 0 stands for an overflow."""
        spec, g = self.spec, self.g
        stored = round_dyadic(self.fmt.value_units(code), -self.fmt.shift)
        if spec.arithmetic == "exact":
            pn, pd = spec.p.numerator, spec.p.denominator
            if spec.scale_rule == "encode":
                num, den = pn * magnitude_units(stored), pd * self.g_units << 149
            else:
                num, den = pn << 149, pd * magnitude_units(stored) * self.g_units
            return lambda x: (magnitude_units(x) * num, den)
        if spec.arithmetic == "multiply":
            def of_product(x):
                y = self.product(min(NARROW[spec.compute](x & NAN), FLT_MAX))
                return (1, 0) if y == INF else (magnitude_units(y) * spec.p.numerator, magnitude_units(stored) * spec.p.denominator)
            return of_product
        both, factors = f_mul(stored, g), {}
        if spec.payload_order == "divide_global":
            both = f_div(stored, self.s_te)
        else:
            inverse = f_div(ONE, both)
            factors = {"reciprocal": f_div(f_div(ONE, g), stored), "vllm": inverse, "multiply_global": f_div(self.s_te, stored),
                       "bf16_reciprocal": to_bf16(inverse), "te": min(inverse, FLT_MAX)}

        def one(x):
            if spec.scale_rule == "encode":
                return f_mul(f_div(x, g), stored)
            if spec.payload_order in factors:
                return f_mul(x, factors[spec.payload_order])
            return {"divide_then_multiply": lambda: f_mul(f_div(x, stored), self.s_te),
                    "divide_twice": lambda: f_div(f_div(x, g), stored)}.get(spec.payload_order, lambda: f_div(x, both))()

        narrow = NARROW[spec.compute]

        def chain(x):
            u = one(min(narrow(x & NAN), FLT_MAX))
            if spec.tensor_scale == "none":
                u = narrow(u)
            if spec.p != 1:
                u = f_mul(u, spec.p_bits)
            return (1, 0) if u == INF else (magnitude_units(u), 1 << 149)
        return chain

    def element_codes(self, code, xs, mode, draws):
        """draws: for each x a function without arguments, or None where none is needed."""
        spec, elem = self.spec, self.spec.elem
        if spec.subnormals == "flush":
            xs = [x if x & 0x7F800000 else x & SIGN for x in xs]
        keep_zero = self.fmt.value_units(code) == 0 and spec.payload_order != "te"
        payload = None if keep_zero else self.payloads(code)
        if isinstance(elem, Micro):
            return self.micro_codes(payload, xs, mode, draws)
        if self.counts_sevenths:
            elem = LISTED["int4"]
        out = []
        for i, x in enumerate(xs):
            negative = bool(x & SIGN)
            if not is_finite(x):
                signed = elem.end(negative) | (elem.sign_bit if negative else 0)
                nan = {"max": elem.largest_code, "max_signed": signed}.get(spec.nonfinite, elem.zero)
                out.append(nan if is_nan(x) else signed)
                continue
            if not x & NAN and spec.negative_zero in ("of_rounding", "zeros"):
                out.append(elem.zero | (elem.sign_bit if spec.negative_zero == "zeros" else 0))
                continue
            c = elem.zero
            if not keep_zero and x & NAN:
                num, den = payload(x)
                if self.counts_sevenths and den:
                    u = f_mul(fraction_to_f32(Fraction(num, den)), fraction_to_f32(Fraction(7, 6)))
                    num, den = (1, 0) if u == INF else (magnitude_units(u), 1 << 149)
                if spec.payload_type == "bf16":
                    top = elem.max_fraction
                    if den == 0 or Fraction(num, den) > top:
                        num, den = top.numerator, top.denominator
                    bf = ELEMENTS["bf16"]
                    b = bf.code_to_f32(round_to_format(bf, num, den, "nearest_even", False))
                    num, den = magnitude_units(b), 1 << 149
                c = elem.end(negative) if den == 0 else round_to_format(
                    elem, num, den, mode, negative, spec.n, draws and draws[i])
            if negative and (c != elem.zero or spec.negative_zero != "drop"):
                c |= elem.sign_bit
            out.append(c)
        return out

    def micro_codes(self, payload, xs, mode, draws):
        """Codes of a 1 x B block under micro-exponents: those of the base of payloads / 2^e, e above them."""
        elem = self.spec.elem
        pairs = [payload(x) if payload and is_finite(x) and x & NAN else None for x in xs]
        base, out = copy.copy(self), []
        base.spec = copy.copy(self.spec)
        base.spec.elem = elem.base
        for i, e in enumerate(elem.exponents(pairs)):
            def scaled(x, e=e):
                num, den = payload(x)
                return num, den << e
            base.payloads = lambda code, scaled=scaled: scaled
            code = 0 if payload is None else 1  # any that is not zero
            out.append(e << elem.base.bits | base.element_codes(code, [xs[i]], mode, draws and [draws[i]])[0])
        return out

    @property
    def counts_sevenths(self):
        """fouroversix codes int4_6 as integers under fl32(7/6)."""
        return self.spec.arithmetic == "fouroversix" and self.spec.elem.name == "int4_6"

    def decode(self, q, code):
        """fl32(fl32(q s / p) g)."""
        elem, p = self.spec.elem, self.spec.p
        negative, element_units = elem.signed_units(q)
        sign = SIGN if negative else 0
        if code not in self.decode_cache:
            self.decode_cache[code] = magnitude_units(self.decode_scale(code))
        num = element_units * self.decode_cache[code] * p.denominator
        if self.spec.decode != "scale_then_tensor":
            s = self.decode_scale(code)
            if self.spec.tensor_scale == "none":
                factor = s
            elif self.spec.decode == "divide_global":
                factor = f_div(s, self.s_te)
            elif self.spec.decode == "amax_first":
                factor = f_mul(f_mul(s, self.amax), f_div(ONE, self.spec.top()))
            else:
                factor = f_mul(s, self.g)
            return f_mul(elem.code_to_f32(q), factor)
        inner = round_ratio(num, p.numerator, -149 - elem.shift) if num else 0
        return f_mul(sign | inner, self.g)


# ---------------------------------------------------------------- a whole operand
class Quantised:
    """codes [rows][padded columns], scale codes (None = NaN) with their grid, tensor scales, decoded [rows][columns]."""


def tensor_scale_of(spec, a):
    """(g, S, amax) from a tensor amax, in the format of factors."""
    if is_nan(a):
        return NAN, NAN, NAN
    if spec.tensor_scale == "given":
        f = spec.factor_bits
        return (f_div(ONE, f), f, 0) if spec.arithmetic in FROM_MULTIPLIER else (f, ONE, 0)
    if spec.factor_format in NARROW or spec.tensor_scale == "none" or not a:
        return fp32_tensor_scale_of(spec, a)
    if spec.factor_format == "mantissa8":  # the first eight binary digits of M / A behind the leading one
        ratio = f_div(fraction_to_f32(spec.elem.max_fraction), max(a, parse_f32(Fraction("1e-12"))))
        value = Fraction(magnitude_units(ratio), 1 << 149)
        value /= Fraction(2) ** floor_log2(value.numerator, value.denominator)
        s = fraction_to_f32(Fraction(math.floor(value * 256), 256))
        return f_div(ONE, s), s, a
    g = Fraction(magnitude_units(fp32_tensor_scale_of(spec, a)[0]), 1 << 149)
    e = -126
    while Fraction(2) ** e < g and e < 126:
        e += 1
    return fraction_to_f32(Fraction(2) ** e), fraction_to_f32(Fraction(2) ** -e), a


def fp32_tensor_scale_of(spec, a):
    if spec.tensor_scale == "none":
        return ONE, ONE, ONE
    target_m = spec.top() if spec.headroom != "none" else f_mul(spec.target_bits, fraction_to_f32(spec.largest()))
    if spec.arithmetic in FROM_MULTIPLIER:
        inverse = spec.factor_order == "inverse" or (spec.factor_order == "of_arithmetic" and spec.arithmetic == "divide_global")
        narrow = NARROW.get(spec.factor_format, NARROW["fp32"])
        s = in_factor_format(spec, f_mul(target_m, narrow(f_div(ONE, a))) if inverse else f_div(target_m, a)) if a else ONE
        return f_div(ONE, s), s, a
    if a == 0:
        return ONE, ONE, a
    return in_factor_format(spec, f_div(a, target_m)) or 1, ONE, a


def in_factor_format(spec, b):
    if spec.factor_format not in ("bf16", "fp16"):
        return min(b, FLT_MAX)
    b = NARROW[spec.factor_format](b)
    return b if 0 < b < INF else ONE


def finite_amax(xs):
    return max((x & NAN for x in xs if is_finite(x)), default=0)


def tensor_amax(spec, xs):
    a = NAN if spec.nonfinite == "tensor_nan" and any(map(is_nan, xs)) else finite_amax(xs)
    return 0 if spec.subnormals == "flush" and not a & 0x7F800000 else a


# long: a definition, read from top to bottom
def quantize(spec, x, rows, cols, seed=0, stream=0, step=0):
    """x: rows*cols fp32 words, row-major."""
    if spec.reason:
        raise ValueError(spec.reason)
    if spec.scale_format is None:
        return quantize_unscaled(spec, x, rows, cols, seed, stream, step)
    out = Quantised()
    br, bc = spec.block_shape(rows, cols)
    out.block_cols = bc
    grid_rows, grid_cols = -(-rows // br), -(-cols // bc)
    out.padded = grid_cols * bc
    outer = spec.tensor_scale == "outer128"
    if outer:
        out.g_cols = -(-cols // 128)
        pairs = [tensor_scale_of(spec, tensor_amax(spec, x[r * cols + 128 * j:r * cols + min(cols, 128 * j + 128)]))
                 for r in range(rows) for j in range(out.g_cols)]
    elif spec.tensor_scale == "row":
        pairs = [tensor_scale_of(spec, tensor_amax(spec, x[r * cols:(r + 1) * cols])) for r in range(rows)]
    else:
        pairs = [tensor_scale_of(spec, tensor_amax(spec, x))]
    out.amax = pairs[0][2]
    out.g = [{"divide_global": p[1], "amax_first": p[2]}.get(spec.decode, p[0]) for p in pairs]  # what is stored
    out.outer, out.by_row = outer, spec.tensor_scale == "row"
    element_draws = element_draws_of(spec, seed, stream, step, cols)
    scale_draws = Draws(seed, stream ^ 1, step, spec.n)
    stochastic = spec.rounding.startswith("stochastic")
    quantisers = [BlockQuantiser(spec, *pair) for pair in pairs]
    others = [BlockQuantiser(spec.other, *pair) for pair in pairs] if spec.other else None
    out.elements = []  # of blocks
    out.codes = [[spec.elem.zero] * out.padded for _ in range(rows)]
    out.decoded = [[0] * cols for _ in range(rows)]
    out.scale_codes, out.scale_shape = [], (grid_rows, grid_cols)
    out.scale_units = []  # decode-side scales as multiples of 2^-149, None = NaN
    for i in range(grid_rows):
        for j in range(grid_cols):
            where = [(r, k) for r in range(i * br, min(rows, i * br + br)) for k in range(j * bc, min(cols, j * bc + bc))]
            xs = [x[r * cols + k] for r, k in where]
            which = i * out.g_cols + j * bc // 128 if outer else i if out.by_row else 0
            bq = quantisers[which]
            bq.width = len({k for _, k in where})
            index = i * grid_cols + j
            code = bq.scale_code(xs, br * bc, lambda: scale_draws(index))
            flag = 0
            if others and code is not None:  # the second grid where its error under its own scale is less
                others[which].width = bq.width
                second = others[which].scale_code(xs, br * bc, lambda: scale_draws(index))
                if others[which].error(second, xs) < bq.error(code, xs):
                    bq, code, flag = others[which], second, 0x80
            out.elements.append(bq.spec.elem)
            out.scale_codes.append(None if code is None else code | flag)
            if code is None:
                out.scale_units.append(None)
                for r, k in where:
                    out.decoded[r][k] = NAN
                continue
            out.scale_units.append(magnitude_units(bq.decode_scale(code)))
            draws = [(lambda p=r * cols + k: element_draws(p)) for r, k in where] if stochastic else None
            for (r, k), q in zip(where, bq.element_codes(code, xs, spec.rounding, draws)):
                out.codes[r][k] = q
                out.decoded[r][k] = bq.decode(q, code)
        if spec.scale_rule == "ms_eden":
            correct_row(spec, out, quantisers, i, x[i * cols:(i + 1) * cols], scale_draws)
    out.block_rows = br
    return out


def correct_row(spec, out, quantisers, row, xs, draws):
    """ms_eden: per 128 elements S = sum x^2 / sum x*xhat in fp64; scales times S, rounded stochastically. The codes stay."""
    per_row = out.scale_shape[1]
    for lo in range(0, len(xs), 128):
        blocks = [j for j in range(lo // out.block_cols, -(-min(len(xs), lo + 128) // out.block_cols))
                  if out.scale_codes[row * per_row + j] is not None]
        xx = xy = 0.0
        spans = {j: range(j * out.block_cols, min(len(xs), (j + 1) * out.block_cols)) for j in blocks}
        for j in blocks:
            for k in spans[j]:
                if is_finite(xs[k]):
                    x = to_double(xs[k])
                    xx += x * x
                    xy += x * to_double(out.decoded[row][k])
        for j in blocks:
            if not finite_amax(xs[spans[j].start:spans[j].stop]):
                continue
            index = row * per_row + j
            bq = quantisers[row if out.by_row else row * out.g_cols + j * out.block_cols // 128 if out.outer else 0]
            s = from_double(to_double(bq.decode_scale(out.scale_codes[index])) * (xx / xy if xy > 0 else 1.0))
            ratio = (1, 0) if s == INF else (magnitude_units(s), 1 << 149)
            code = bq.fmt.largest_code if ratio[1] == 0 else round_to_format(
                bq.fmt, *ratio, "stochastic", False, spec.n, lambda: draws(index))
            code = out.scale_codes[index] = bq.after_rule(code)
            out.scale_units[index] = magnitude_units(bq.decode_scale(code))
            for k in spans[j]:
                out.decoded[row][k] = bq.decode(out.codes[row][k], code)


def quantize_unscaled(spec, x, rows, cols, seed, stream, step):
    """Scale `none`: payload x p, Inf and NaN pass where the format has them."""
    out, elem, p = Quantised(), spec.elem, spec.p
    draws = element_draws_of(spec, seed, stream, step, cols)
    out.g, out.outer, out.by_row, out.padded = [ONE], False, False, cols
    out.scale_codes, out.scale_shape, out.scale_units = None, None, None
    out.codes, out.decoded = [], []
    for r in range(rows):
        codes, decoded = [], []
        for k in range(cols):
            b = x[r * cols + k]
            if spec.subnormals == "flush" and not b & 0x7F800000:
                b &= SIGN
            sign = elem.sign_bit if b & SIGN else 0
            if is_nan(b):
                c = elem.nan if elem.nan is not None else elem.zero
            elif not is_finite(b):
                c = sign | (elem.infinity if elem.infinity is not None else elem.end(bool(b & SIGN)))
            else:
                num, den = magnitude_units(b) * p.numerator, p.denominator << 149
                if spec.arithmetic != "exact" and p != 1:
                    num, den = magnitude_units(f_mul(b & NAN, spec.p_bits)), 1 << 149
                c = round_to_format(elem, num, den, spec.rounding, bool(b & SIGN), spec.n, lambda: draws(r * cols + k))
                if c != elem.zero or spec.negative_zero == "keep" or (spec.negative_zero == "of_rounding" and b & NAN):
                    c |= sign
                elif spec.negative_zero == "zeros" and (sign or not b & NAN):
                    c |= elem.sign_bit
            codes.append(c)
            v = elem.code_to_f32(c)
            if is_finite(v) and p != 1:
                num = magnitude_units(v) * p.denominator
                v = (v & SIGN) | (round_ratio(num, p.numerator, -149) if num else 0)
            decoded.append(v)
        out.codes.append(codes)
        out.decoded.append(decoded)
    return out


def scale_words(spec, q):
    """The scale array as stored: 8-bit codes, or fp32 bits for real scales."""
    if q.scale_codes is None:
        return None
    fmt = spec.scale_format
    if spec.scale in REAL_SCALES:
        return [NAN if c is None else fmt.code_to_f32(c) for c in q.scale_codes]
    return [fmt.nan if c is None else c for c in q.scale_codes]


# ---------------------------------------------------------------- Hadamard
TE_SIGNS = "+ + + - + - - - - - - + - + - -".split()
SQRT_FACTOR = {16: 0x3E800000, 32: 0x3E3504F3, 64: 0x3E000000, 128: 0x3DB504F3, 256: 0x3D800000}


def hadamard_signs(size, word, seed, stream, step):
    """1 = minus; `stream` is that of the command's first operand."""
    if word == "none":
        return [0] * size
    if word == "fixed":
        return [int(TE_SIGNS[j % 16] == "-") for j in range(size)]
    bits = Draws(seed, (stream & ~16) ^ 2, step if word == "per_step" else 0, 1)
    return [bits(j) for j in range(size)]


def canonical(b):
    return NAN if is_nan(b) else b


def hadamard(x, rows, cols, size, word="none", normalise="sqrt", seed=0, stream=0, step=0, inverse=False, output="fp32"):
    padded = -(-cols // size) * size
    signs = hadamard_signs(size, word, seed, stream, step)
    out = []
    for r in range(rows):
        line = x[r * cols:(r + 1) * cols] + [0] * (padded - cols)
        for base in range(0, padded, size):
            y = [canonical(b) for b in line[base:base + size]]
            if not inverse:
                y = [b ^ (SIGN if s else 0) for b, s in zip(y, signs)]
            stride = 1
            while stride < size:
                for i in range(size):
                    if not i & stride:
                        a, b = y[i], y[i + stride]
                        y[i], y[i + stride] = f_add(a, b), f_add(a, b ^ SIGN)
                stride *= 2
            if normalise == "sqrt":
                y = [f_mul(b, SQRT_FACTOR[size]) for b in y]
            elif inverse:
                y = [f_mul(b, round_ratio(1, size)) for b in y]
            if inverse:
                y = [b ^ (SIGN if s else 0) for b, s in zip(y, signs)]
            y = [canonical(b) for b in y]
            out += [to_bf16(b) for b in y] if output == "bf16" and not inverse else y
    return out, padded


# ---------------------------------------------------------------- accumulators
ACCUMULATORS = {
    "exact": dict(kind="exact"),
    "fp32_block": dict(kind="block", rounding="nearest_even"),
    "fp32_sequential": dict(kind="sequential", rounding="nearest_even"),
    "k64_rz": dict(kind="group", group=64, group_rounding="nearest_even", rounding="toward_zero"),
    "k64_rz_snap": dict(kind="group", group=64, group_rounding="nearest_even", rounding="toward_zero", snap=-10),
    "fused35_rz": dict(kind="aligned", group=64, inner=16, fraction_bits=35, rounding="toward_zero"),
    "fused25_rz": dict(kind="aligned", group=32, inner=1, fraction_bits=25, rounding="toward_zero"),
    "double": dict(kind="double"),
    "fma_sequential": dict(kind="fma"),
    "fused35_rz_2026_08": dict(kind="aligned", group=64, inner=16, fraction_bits=35, rounding="toward_zero", zero_exponent=-139),
    "fused25_rz_2026_08": dict(kind="aligned", group=32, inner=1, fraction_bits=25, rounding="toward_zero", zero_exponent=-133),
}


def window25(group, **more):
    """Products cut one by one, 25 bits below the largest exponent, which is -133 at least."""
    return dict(kind="aligned", group=group, inner=1, fraction_bits=25, zero_exponent=-133, unscaled=True,
                rounding="toward_zero", **more)


# Rows that came later: the draws of the cases before them stay.
YOUNGER_ACCUMULATORS = {
    "hopper_fp8": dict(kind="aligned", group=32, inner=1, fraction_bits=13, rounding="toward_zero", result_bits=13, unscaled=True),
    "cdna3_16bit": dict(kind="floor_aligned", group=8, fraction_bits=24, unscaled=True),
    "cdna3_fp8": dict(kind="floor_aligned_pairs", group=16, fraction_bits=24, unscaled=True),
    "b200_nvf4": dict(kind="windowed", dot=4, outranks=False, floor=None),
    "b200_mxf4": dict(kind="windowed", dot=16, outranks=True, floor=-174),
    "b200_f8f6f4": window25(32),
    "b200_16bit": window25(16),
    "b200_tf32": window25(8, tf32=True),
    "b200_f16_d": window25(32, half=True),
    "b200_16bit_f16_d": window25(16, half=True),
    "hopper_16bit": window25(16),
    "hopper_tf32": window25(8, tf32=True),
    "hopper_16bit_f16_d": window25(16, half=True),
    "hopper_fp8_f16_d": dict(kind="aligned", group=32, inner=1, fraction_bits=13, rounding="toward_zero", unscaled=True, half=True),
    "ada_fp8": dict(kind="aligned", group=16, inner=1, fraction_bits=13, rounding="toward_zero", result_bits=13, unscaled=True),
    "ampere_16bit": dict(kind="aligned", group=8, inner=1, fraction_bits=24, rounding="toward_zero", unscaled=True),
    "ampere_tf32": dict(kind="aligned", group=4, inner=1, fraction_bits=24, rounding="toward_zero", unscaled=True, tf32=True),
    "cdna4_isa": dict(kind="fma_blocks"),
}
INTEGER_ACCUMULATORS = {
    "int32_wrap": dict(kind="integer", group=32, clamps=False),
    "int32_clamp": dict(kind="integer", group=32, clamps=True),
}


def parse_accumulator(word):
    """A name, or field:value;field:value."""
    for rows in (ACCUMULATORS, YOUNGER_ACCUMULATORS, INTEGER_ACCUMULATORS):
        if word in rows:
            return dict(rows[word])
    row = dict(rounding="nearest_even", group_rounding="nearest_even", group=0, inner=1, fraction_bits=23)
    for part in word.split(";"):
        key, value = part.split(":")
        row[key] = int(value) if key in ("group", "inner", "fraction_bits", "snap", "zero_exponent", "result_bits") else value
    return row


def takes(row, spec):
    """Whether an adder takes operands of a spec; the program refuses others."""
    if row["kind"] == "integer":  # listed values of -127 .. 127 steps
        return spec.scale != "none" and isinstance(spec.elem, Listed) and spec.elem.max_fraction * 2 ** spec.elem.shift <= 127
    if spec.scale != "none" or row["kind"] in ("exact", "group", "sequential", "double", "block", "fma"):
        return True
    return bool(row.get("unscaled")) and (spec.elem.bits <= 16 or row.get("tf32", False))


def multiplier(spec, stored):
    """g of what the decode order stores."""
    if spec.tensor_scale == "none" or spec.decode in ("scale_then_tensor", "factor_first"):
        return stored
    if spec.decode == "divide_global":
        return f_div(ONE, stored)
    return f_mul(stored, f_div(ONE, spec.top()))


class Lane:
    """One row of a quantised operand as a dot product reads it: signed element integers (times 2^-shift) and scale units."""

    def __init__(self, spec, q, row, cols):
        elem = spec.elem
        self.spec, self.block = spec, q.block_cols
        base = row // q.block_rows * q.scale_shape[1]
        of_blocks = q.elements[base:base + q.scale_shape[1]]
        self.shift = max(e.shift for e in [elem, *of_blocks])
        self.q = []
        for k, c in enumerate(q.codes[row][:cols]):
            own = of_blocks[k // q.block_cols]
            negative, n = own.signed_units(c)
            self.q.append((-n if negative else n) << (self.shift - own.shift))
        self.scales = q.scale_units[base:base + q.scale_shape[1]]
        # fl32(1/mu) is an fp32 number, whatever format stores mu
        self.min_exponent = -126 if spec.scale_rule == "encode" else spec.scale_format.smallest_normal_exponent
        self.min_element_exponent = elem.smallest_normal_exponent
        stored = q.g[row * q.g_cols:(row + 1) * q.g_cols] if q.outer else q.g[row:row + 1] if q.by_row else q.g
        self.g = [multiplier(spec, v) for v in stored]

    def scale(self, k):
        return self.scales[k // self.block]

    def scale_exponent(self, k):
        s = self.scale(k)
        return max(s.bit_length() - 150, self.min_exponent) if s else -126

    def element_exponent(self, k):
        return max(abs(self.q[k]).bit_length() - 1 - self.shift, self.min_element_exponent)

    def factor(self, k):
        """Exact value and alignment exponent of an operand of the adders that take unscaled ones."""
        v = signed_value(self.as_f32(k))
        return v, max(floor_log2(abs(v).numerator, v.denominator), -126) if v else -126

    def special(self, k):
        return None

    def exact(self, k):
        return Fraction(self.q[k] * self.scale(k), 2 ** (149 + self.shift))

    def element(self, k):
        """The element alone, as fp32."""
        return (SIGN if self.q[k] < 0 else 0) | round_dyadic(abs(self.q[k]), -self.shift)

    def as_f32(self, k):
        """fl32(q s)."""
        return (SIGN if self.q[k] < 0 else 0) | round_dyadic(abs(self.q[k]) * self.scale(k), -149 - self.shift)


class Unscaled:
    """One row of an operand without block scales, for the adders that take it; `special` are its infinities and NaN."""

    def __init__(self, spec, q, row, cols, tf32=False):
        self.spec, self.block, self.scales = spec, max(cols, 1), [1]
        self.values = [spec.elem.code_to_f32(c) & (~0x1FFF if tf32 else ~0) for c in q.codes[row][:cols]]
        self.g = [ONE]

    def factor(self, k):
        b = self.values[k]
        v = signed_value(b)
        return v, max(floor_log2(abs(v).numerator, v.denominator), self.spec.elem.smallest_normal_exponent) if v else -126

    def exact(self, k):
        return signed_value(self.values[k])

    def special(self, k):
        return None if is_finite(self.values[k]) else self.values[k]

    def as_f32(self, k):
        return self.values[k]


def significant_bits(n):
    return n.bit_length() - ((n & -n).bit_length() - 1) if n else 0


def cuts(first, last, *steps):
    """[first, last) cut after every `step` terms, for each of the steps; blocks of a restarted sum begin where it does."""
    points = sorted({first, last}.union(*(range(first, last, s) for s in steps)))
    return list(zip(points, points[1:]))


# long: a definition, a branch for each kind of adder
def accumulate(row, a, b, first, last):
    """fp32 bits of the sum over [first, last): by the accumulator's row, before any tensor scale."""
    kind = row["kind"]
    if any(s is None for lane in (a, b) for s in lane.scales[first // lane.block:-(-last // lane.block)]):
        return NAN
    bare = isinstance(a, Unscaled) or isinstance(b, Unscaled)
    if bare and kind in ("exact", "group", "block"):
        return bare_sum(row, a, b, first, last)
    if kind.startswith("floor") or (bare and kind == "aligned"):
        acc = 0
        for lo, hi in cuts(first, last, row["group"] or last - first):
            acc = factor_step(row, a, b, lo, hi, acc)
        return snapped(acc, row.get("snap"))
    exponent = 0 if bare else -298 - a.shift - b.shift  # of q q s s as integers

    def products(lo, hi):
        return sum(a.q[k] * b.q[k] * a.scale(k) * b.scale(k) for k in range(lo, hi))

    if kind == "exact":
        return round_signed(products(first, last), exponent)
    if kind == "double":
        acc = 0.0
        for k in range(first, last):
            acc += to_double(a.as_f32(k)) * to_double(b.as_f32(k))
        return from_double(acc)
    acc = 0
    if kind == "sequential":
        for k in range(first, last):
            acc = f_add(acc, f_mul(a.as_f32(k), b.as_f32(k)), row["rounding"])
        return acc
    if kind == "block":
        for lo, hi in cuts(first, last, a.block, b.block):
            dot = sum(a.q[k] * b.q[k] for k in range(lo, hi))
            sa, sb = a.scale(lo), b.scale(lo)
            acc = add_block(acc, dot, sa, sb, exponent, row["rounding"])
        return acc
    if kind == "integer":
        for lo, hi in cuts(first, last, a.block, b.block):
            total = 0
            for i, j in cuts(lo, hi, row["group"]):
                total += sum(a.q[k] * b.q[k] for k in range(i, j))
                total = max(-2**31, min(2**31 - 1, total)) if row["clamps"] else (total + 2**31) % 2**32 - 2**31
            acc = add_block(acc, total, a.scale(lo), b.scale(lo), exponent, "nearest_even")
        return acc
    if kind == "windowed":
        for lo, hi in cuts(first, last, 64):
            acc = window_step(row, a, b, lo, hi, acc)
        return acc
    if kind == "fma_blocks":
        for lo, hi in cuts(first, last, 32, a.block, b.block):
            dot = 0
            for k in range(lo, hi):
                dot = f_fma(a.element(k), b.element(k), dot)
            acc = f_add(acc, round_signed(units(dot) * a.scale(lo) * b.scale(lo), -3 * 149))
        return acc
    assert kind in ("group", "aligned"), kind
    for lo, hi in cuts(first, last, row["group"] or last - first):
        if kind == "group":
            acc = f_add(acc, round_signed(products(lo, hi), exponent, row["group_rounding"]), row["rounding"])
        else:
            acc = aligned_step(row, a, b, lo, hi, acc, exponent)
    return snapped(acc, row.get("snap"))


def add_block(acc, dot, sa, sb, exponent, rounding):
    """acc + dot*P with one rounding; P is rounded to fp32 where a scale has more than eight digits."""
    p, e = sa * sb, exponent
    if significant_bits(sa) > 8 or significant_bits(sb) > 8:
        rounded = round_dyadic(sa * sb, -298)
        if rounded == INF:  # infinite where it meets a product; an infinite sum stays
            return INF | (SIGN if dot < 0 else 0) if dot and is_finite(acc) else acc
        p, e = magnitude_units(rounded), exponent + 149
    return round_signed((units(acc) << (-149 - e)) + dot * p, e, rounding) if is_finite(acc) else acc


def bare_sum(row, a, b, first, last):
    """Exact sums of groups where an operand has no scales; under kind block every product is a group."""
    kind, acc = row["kind"], 0
    for lo, hi in cuts(first, last, 1 if kind == "block" else row.get("group") or max(last - first, 1)):
        specials = [f_mul(a.as_f32(k), b.as_f32(k)) for k in range(lo, hi) if a.special(k) is not None or b.special(k) is not None]
        total, group = sum(a.exact(k) * b.exact(k) for k in range(lo, hi)), functools.reduce(f_add, specials, 0)
        if kind == "block":
            old = signed_value(acc) if is_finite(acc) else 0
            acc = fraction_sum(total + old, row["rounding"]) if not specials and is_finite(acc) else f_add(acc, group)
            continue
        rounded = group if specials else fraction_sum(total, row.get("group_rounding", "nearest_even"))
        acc = rounded if kind == "exact" else f_add(acc, rounded, row["rounding"])
    return snapped(acc, row.get("snap"))


def fraction_sum(v, mode):
    return round_signed(int(v * Fraction(2) ** 400), -400, mode)  # products of two fp32 numbers are multiples of 2^-298


def snapped(acc, exponent):
    """The nearest multiple of 2^exponent, ties to even; None = off. A zero is +0."""
    if exponent is None or not is_finite(acc):
        return acc
    n, drop = magnitude_units(acc), 149 + exponent
    q, rest, half = n >> drop, n & ((1 << drop) - 1), 1 << (drop - 1)
    q += rest > half or (rest == half and q & 1)
    return (acc & SIGN) | round_dyadic(q, exponent) if q else 0


def factor_step(row, a, b, lo, hi, acc):
    """One group of an adder that reads operands one by one as numbers: kind aligned, or the floor kinds of CDNA3."""
    special = [f_mul(a.as_f32(k), b.as_f32(k)) for k in range(lo, hi) if a.special(k) is not None or b.special(k) is not None]
    if special or not is_finite(acc):
        return functools.reduce(f_add, special, acc if not is_finite(acc) else 0)
    terms = []
    for k in range(lo, hi):
        (x, ex), (y, ey) = a.factor(k), b.factor(k)
        terms.append((x * y, ex + ey))
    if row["kind"] == "aligned":  # products of two fp32 numbers are multiples of 2^-298
        return aligned_sum(row, [(int(p * 2 ** 298), e) for p, e in terms], -298, acc)
    v = signed_value(acc)
    weight = max(floor_log2(abs(v).numerator, v.denominator), -126) if v else -126

    def cut(value, lsb, down):  # to a multiple of 2^lsb: toward minus infinity, or toward zero
        unit = Fraction(2) ** lsb
        n = math.floor(value / unit) if down else math.trunc(value / unit)
        return n * unit

    bits = row["fraction_bits"]
    if any(abs(p) >= 2 ** 128 for p, _ in terms):
        signs = {p < 0 for p, _ in terms if abs(p) >= 2 ** 128}
        return NAN if len(signs) == 2 else (SIGN if True in signs else 0) | INF

    def part(of):
        largest = max(e for _, e in of)
        return sum(cut(p, largest - bits, False) for p, _ in of), largest

    if row["kind"] == "floor_aligned_pairs" and len(terms) > 1:
        (s0, e0), (s1, e1) = part(terms[0::2]), part(terms[1::2])
        e = max(e0, e1)
        s = cut(s0, e - bits, True) + cut(s1, e - bits, True)
    else:
        s, e = part(terms)
    top = max(e, weight)
    kept = cut(v, top - bits, True)
    if row["kind"] == "floor_aligned_pairs" and weight < top - bits - 1:
        kept = 0
    total = cut(s, top - bits - 7, True) + kept
    return exact_f32(total)


def half_sum(v):
    """fp32 bits of a fraction rounded to fp16, ties to even; from 65520 on infinity."""
    code = round_to_format(ELEMENTS["fp16"], abs(v).numerator, v.denominator, "nearest_even")
    return (SIGN if v < 0 and code else 0) | ELEMENTS["fp16"].code_to_f32(code)


def whole_units(n, e, lsb):
    """n * 2^e in whole units of 2^lsb, toward zero."""
    m = abs(n) >> lsb - e if lsb > e else abs(n) << e - lsb
    return -m if n < 0 else m


def window_step(row, a, b, lo, hi, acc):
    """64 products under a rule of Blackwell's FP4 units (tcgen05.mma mxf4, mxf4nvf4), in exact integers times 2^unit."""
    if not is_finite(acc):
        return acc
    unit = -298 - a.shift - b.shift
    value, scales, rank = {}, {}, {}
    for k in range(lo, hi):
        value[k] = a.q[k] * b.q[k] * a.scale(k) * b.scale(k)
        if value[k]:
            scales[k] = a.scale_exponent(k) + b.scale_exponent(k)
            rank[k] = scales[k] + a.element_exponent(k) + b.element_exponent(k)
    if not rank:
        return acc if acc & NAN else 0
    top, top_scales, c = max(rank.values()), max(scales.values()), units(acc)
    rank_c = max(abs(c).bit_length() - 150, -126) if c else None

    def dots(length):
        for i, j in cuts_at_blocks(a, b, lo, hi, length):
            inside = [k for k in range(i, j) if k in rank]
            if inside:
                yield sum(value[k] for k in inside), max(rank[k] for k in inside), scales[inside[0]]

    if c and rank_c >= top:
        q = rank_c - 35
        return to_zero(whole_units(c, -149, q) + sum(whole_units(n, unit, q) for n, _, _ in dots(16)), q)
    q = max([top - 39, top_scales - 35] + ([rank_c - 39] if c else []))
    kept = []
    for n, largest, pair in dots(row["dot"]):
        own = max(q, rank_c - 35) if row["outranks"] and c and rank_c >= largest else q
        kept.append((whole_units(n, unit, own) << own - q, pair))
    out = to_zero(whole_units(c, -149, q) + sum(n for n, _ in kept), q)
    if row["floor"] is not None and 0 < (out & NAN) < 0x800000:
        least = 1 << max(row["floor"] - q, 0)
        out = to_zero(whole_units(c, -149, q) + sum(n for n, pair in kept if not (pair < top_scales and abs(n) < least)), q)
    return out


def to_zero(n, e):
    """fp32 bits of n * 2^e cut toward zero, any zero +0, infinity from 2^128 on."""
    if n and abs(n).bit_length() + e > 128:
        return (SIGN if n < 0 else 0) | INF
    out = round_signed(n, e, "toward_zero")
    return out if out & NAN else 0


def aligned_step(row, a, b, lo, hi, acc, exponent):
    """One group of a fused adder: terms and accumulator at the largest exponent, truncated, summed, truncated to fp32."""
    if not is_finite(acc):
        return acc
    terms = []
    if row["inner"] == 1:
        for k in range(lo, hi):
            terms.append((a.q[k] * b.q[k] * a.scale(k) * b.scale(k),
                          a.element_exponent(k) + b.element_exponent(k) + a.scale_exponent(k) + b.scale_exponent(k)))
        return aligned_sum(row, terms, exponent, acc)
    zero = row.get("zero_exponent")
    for i, j in cuts_at_blocks(a, b, lo, hi, row["inner"]):
        dot = sum(a.q[k] * b.q[k] for k in range(i, j))
        nothing = a.scale(i) * b.scale(i) == 0 or not any(a.q[k] * b.q[k] for k in range(i, j))
        exponent_of_term = zero if nothing and zero is not None else a.scale_exponent(i) + b.scale_exponent(i)
        terms.append((dot * a.scale(i) * b.scale(i), exponent_of_term))
    return aligned_sum(row, terms, exponent, acc, every_term=True)


def cuts_at_blocks(a, b, lo, hi, length):
    """[lo, hi) cut after every `length` terms and where a block of an operand begins."""
    edges = sorted({lo, hi} | set(range(lo, hi, length)) | {k for k in range(lo, hi) if k % a.block == 0 or k % b.block == 0})
    return list(zip(edges, edges[1:]))


def aligned_sum(row, terms, exponent, acc, every_term=False):
    """acc + terms n * 2^exponent, each with the exponent it is aligned by. A zero has that of `zero_exponent`, which is none under
    the older rule; with `every_term` the caller has said so."""
    zero = row.get("zero_exponent")
    if not every_term:
        terms = [(n, e if n else zero) for n, e in terms if n or zero is not None]
    acc_units = units(acc)
    least = -14 if row.get("half") else -126
    acc_exponent = max(abs(acc_units).bit_length() - 150, least) if acc_units else -126 if zero is None else zero
    lsb = max([acc_exponent] + [e for _, e in terms]) - row["fraction_bits"]

    total = whole_units(acc_units, -149, lsb) + sum(whole_units(v, exponent, lsb) for v, _ in terms)
    if row.get("half"):
        return half_sum(Fraction(total) * Fraction(2) ** lsb)
    out = to_zero(total, lsb)
    if "result_bits" in row:
        out = out >> 23 - row["result_bits"] << 23 - row["result_bits"]
    return out if out & NAN else 0


def gemm(spec_a, spec_b, accumulator, x, y, m, n, k, seed=0, stream=0, step=0, size=0, signs="none", normalise="sqrt",
         factor="tensor_scales"):
    """C [m][n] = Q(x) Q(y)^T."""
    if size:
        x, padded = hadamard(x, m, k, size, signs, normalise, seed, stream, step)
        y, _ = hadamard(y, n, k, size, signs, normalise, seed, stream, step)
        k = padded
    qa = quantize(spec_a, x, m, k, seed, stream, step)
    qb = quantize(spec_b, y, n, k, seed, stream ^ 16, step)
    row = parse_accumulator(accumulator)
    fold = size if size and normalise == "fold" else 1
    assert takes(row, spec_a) and takes(row, spec_b), (accumulator, spec_a.words, spec_b.words)
    bare = qa.scale_units is None or qb.scale_units is None
    if row["kind"] == "fma" or (bare and row["kind"] == "block" and row["rounding"] == "nearest_even"):
        out = []
        for i in range(m):
            for j in range(n):
                acc = 0
                for t in range(k):
                    acc = f_fma(qa.decoded[i][t], qb.decoded[j][t], acc)
                out.append(canonical(f_mul(acc, round_ratio(1, fold)) if fold > 1 else acc))
        return out
    def lane(spec, q, i):
        return Unscaled(spec, q, i, k, row.get("tf32", False)) if q.scale_units is None else Lane(spec, q, i, k)

    lanes_a = [lane(spec_a, qa, i) for i in range(m)]
    lanes_b = [lane(spec_b, qb, j) for j in range(n)]
    pp = spec_a.p * spec_b.p
    outer = qa.outer or qb.outer

    def rest_of(f):
        if pp != 1:
            f = f_mul(f, round_ratio(pp.denominator, pp.numerator))
        return f_div(f, round_ratio(fold, 1))

    out = []
    for a in lanes_a:
        for b in lanes_b:
            if outer:
                total = 0
                for lo in range(0, k, 128):
                    g = f_mul(a.g[lo // 128 if qa.outer else 0], b.g[lo // 128 if qb.outer else 0])
                    total = f_add(total, f_mul(accumulate(row, a, b, lo, min(k, lo + 128)), g))
                out.append(canonical(f_mul(total, rest_of(ONE))))
            else:
                acc = accumulate(row, a, b, 0, k)
                g = f_mul(a.g[0], b.g[0])
                if factor != "tensor_scales":
                    amaxes, tops = f_mul(qa.amax, qb.amax), f_mul(spec_a.top(), spec_b.top())
                    g = f_div(amaxes, tops) if factor == "amaxes" else f_mul(amaxes, f_div(ONE, tops))
                out.append(canonical(f_mul(acc, rest_of(g))))
    return out


# ---------------------------------------------------------------- inputs that find rounding bugs
class Rng:
    """splitmix64: the same cases in every Python version."""

    def __init__(self, seed):
        self.state = seed & 0xFFFFFFFFFFFFFFFF

    def below(self, n):
        self.state = (self.state + 0x9E3779B97F4A7C15) & 0xFFFFFFFFFFFFFFFF
        z = self.state
        z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 & 0xFFFFFFFFFFFFFFFF
        z = (z ^ z >> 27) * 0x94D049BB133111EB & 0xFFFFFFFFFFFFFFFF
        return (z ^ z >> 31) % n

    def pick(self, items):
        return items[self.below(len(items))]

    def chance(self, a, b):
        return self.below(b) < a

    def between(self, lo, hi):
        return lo + self.below(hi - lo + 1)


def near(rng, f, ulps):
    """fp32 magnitude bits within so many ulp of the fraction f >= 0 (often none: ties live there), finite."""
    b = fraction_to_f32(f) if f else 0
    return min(max(b + (0 if rng.chance(2, 5) else rng.between(-ulps, ulps)), 0), FLT_MAX)


def value_of(b):
    return Fraction(magnitude_units(b), 1 << 149)


def block_amax(rng, spec, g):
    """A block maximum near something that decides a scale code."""
    fmt, elem = spec.scale_format, spec.elem
    m, g = elem.max_fraction, value_of(g)
    what = rng.below(16)
    if what == 0:
        return 0
    if what == 1:
        return rng.pick([1, 2, 3, 0x7FFFFF, 0x800000, 0x800001, FLT_MAX, FLT_MAX - 1, 0x7F000000, 0x00400000, 0x00001234])
    if spec.scale in REAL_SCALES:
        s = Fraction(2) ** rng.between(-20, 20) * (1 + Fraction(rng.below(1 << 16), 1 << 16))
    else:
        c = rng.between(0, fmt.largest_code - 1)
        if fmt.power_of_two and rng.chance(2, 3):
            c = rng.between(107, 147)
        elif rng.chance(1, 8):
            c = rng.below(2)
        lo, hi = fmt.value_units(c), fmt.value_units(c + 1)
        s = Fraction(lo, 1 << fmt.shift)
        if what < 8:
            s = Fraction(lo + hi, 2 << fmt.shift)
        elif what < 10:
            s = (lo + (hi - lo) * Fraction(rng.below(256), 256)) / (1 << fmt.shift)
    if spec.scale_rule == "encode":
        n = Fraction(2) ** elem.emax if spec.scale == "e8m0" else m
        return near(rng, n * g / s, 4) if s else 0
    if spec.scale_rule in POWER_RULES or what >= 13:
        e = floor_log2(s.numerator, s.denominator) + elem.emax if s else -12
        factor = rng.pick([Fraction(1), 2 - Fraction(1, 2 << (elem.mantissa or 1)), m / Fraction(2) ** elem.emax, Fraction(29, 16),
                           Fraction(math.isqrt(2 << 60), 1 << 30) * m / Fraction(2) ** (elem.emax + 1),
                           1 + Fraction(rng.below(1 << 23), 1 << 23)])
        return near(rng, factor * Fraction(2) ** e * g, 4)
    return near(rng, s * (m * 2 / 3 if spec.scale_rule == "four_over_six" and rng.chance(1, 2) else m) * g, 4)


def boundary_payload(rng, spec, position, draws):
    """|u| at or near a place where the element code changes."""
    elem = spec.elem
    if isinstance(elem, (Listed, Micro)):
        lo, hi = rng.pick(elem.gaps())
        return threshold_payload(rng, spec, lo * 2 ** rng.below(3 if isinstance(elem, Micro) else 1), hi, position, draws)
    top = min(elem.largest_code, 0x7BFF)
    c = rng.between(0, top - 1) if elem.bits <= 8 else rng.between(top // 2 - 2000, top // 2 + 2000)
    lo, hi = Fraction(elem.value_units(c), 1 << elem.shift), Fraction(elem.value_units(c + 1), 1 << elem.shift)
    return threshold_payload(rng, spec, lo, hi, position, draws)


def threshold_payload(rng, spec, lo, hi, position, draws):
    """Between the neighbours lo and hi: where codes change, at lo, or anywhere."""
    what = rng.below(8)
    if spec.rounding.startswith("stochastic") and what < 5:
        threshold = (1 << spec.n) - draws(position)
        if spec.rounding == "stochastic_truncated":
            t = Fraction(threshold)
        else:
            t = threshold - Fraction(1, 2)
        return lo + (hi - lo) * min(t / (1 << spec.n), 1)
    if what < 4:
        return (lo + hi) / 2
    if what < 6:
        return lo
    return lo + (hi - lo) * Fraction(rng.below(1 << 16), 1 << 16)


# long: a list of inputs, a group after another
def boundary_inputs(rng, spec, rows, cols, seed, stream, step, special=None):
    """A matrix dense in decisions: block maxima first, then elements near code boundaries times the scales these give."""
    draws = Draws(seed, stream, step, spec.n)
    special = rng.chance(1, 8) if special is None else special
    if spec.scale_format is None:
        x = []
        for i in range(rows * cols):
            b = near(rng, boundary_payload(rng, spec, i, draws) / spec.p, 2)
            b = rng.pick([b, b, b, b, rng.below(INF), rng.pick([0, 1, FLT_MAX, 0x800000, INF if special else 0, NAN if special else 1])])
            x.append(b | (SIGN if rng.chance(1, 2) else 0))
        return x
    br, bc = spec.block_shape(rows, cols)
    outer = spec.tensor_scale == "outer128"
    scaled = spec.tensor_scale != "none"
    x = [0] * (rows * cols)
    blocks = {}
    for r in range(rows):
        for k in range(cols):
            blocks.setdefault((r // br, k // bc), []).append((r, k))
    tops = {}
    for (i, j), where in sorted(blocks.items()):
        key = (i, j * bc // 128) if outer else 0
        if key not in tops:  # the first block of a tensor scale carries its maximum
            if scaled:
                e = rng.between(-12, 12) if rng.chance(4, 5) else rng.between(-149, 127)
                a = near(rng, Fraction(2) ** e * rng.pick([1, Fraction(3, 2), Fraction(21, 16), 1 + Fraction(rng.below(4096), 4096)]), 3)
                a = 0 if rng.chance(1, 40) else a
                tops[key] = (a, tensor_scale_of(spec, a)[0])
            else:
                tops[key] = (FLT_MAX, ONE)
            a = tops[key][0] if scaled else block_amax(rng, spec, ONE)
        else:
            a = min(block_amax(rng, spec, tops[key][1]), tops[key][0])
        r, k = rng.pick(where)
        x[r * cols + k] = a | (SIGN if rng.chance(1, 2) else 0)
        blocks[i, j] = (where, (r, k), a)
    settle = 2 if spec.scale_rule in ("four_over_six", "mse", "quest_floor", "quest_nearest") else 1
    for _ in range(settle):
        q = quantize(spec, x, rows, cols, seed, stream, step)
        for index, ((i, j), (where, place, a)) in enumerate(sorted(blocks.items())):
            s = q.scale_units[index]
            if s is None or a == 0:
                continue
            g = q.g[i * q.g_cols + j * bc // 128] if outer else q.g[0]
            unit = Fraction(s, 1 << 149) * value_of(g) / spec.p
            for r, k in where:
                if (r, k) == place:
                    continue
                position = r * cols + k
                what = rng.below(24)
                b = near(rng, boundary_payload(rng, spec, position, draws) * unit, 2)
                if what == 0:
                    b = 0
                elif what == 1:
                    b = rng.pick([1, 2, 0x7FFFFF, 0x800000, a, max(a - 1, 0)])
                elif what == 2:
                    b = rng.below(a + 1)
                x[position] = (b if b <= a else rng.below(a + 1)) | (SIGN if rng.chance(1, 2) else 0)
    if special:
        for _ in range(1 + len(x) // 40):
            x[rng.below(len(x))] = rng.pick([INF, INF | SIGN, NAN, 0x7FC00000, 0xFFC00001, SIGN])
    return x


AXES = {
    "element": ["e2m1", "e2m1", "e1m2", "e3m0", "e2m3", "e3m2", "e4m3", "e5m2"],
    "scale": list(SCALES),
    "block": ["8", "16", "32", "64", "128", "8x8", "16x16", "32x32", "row", "tensor"],
    "scale_rule": list(POWER_RULES + VALUE_RULES),
    "scale_rounding": ["nearest_even", "toward_positive", "stochastic"],
    "arithmetic": ["exact", "divide", "reciprocal", "te"],
    "rounding": ["nearest_even", "nearest_away", "nearest_toward_zero", "toward_zero", "away_from_zero", "toward_positive",
                 "toward_negative", "stochastic", "stochastic_midpoint", "stochastic_truncated"],
    "random_bits": ["8", "4", "16", "32"],
    "prescale": ["1", "0.75"],
    "tensor_scale": ["none", "current", "hold", "outer128"],
    "zero_scale": ["smallest", "one", "keep"],
    "zero_block": ["one", "limit"],
    "scale_floor": ["0", "0.015625", "1.17549435e-38", "0.3", "2.5"],
    "negative_zero": ["keep", "drop"],
    "nonfinite": ["block_nan", "saturate"],
}


def draw_spec(rng, fixed=(), density=(1, 3)):
    """A preset with some fields changed; `fixed` fields always set. Draws until the combination is a valid one."""
    while True:
        fixed_fields = dict(fixed)
        preset = fixed_fields.pop("preset", None) or rng.pick(["mxfp4", "nvfp4", "ue5m3fp4", "mxfp8", "mxfp6_e3m2", "mxfp6"])
        fields = {}
        for key, values in AXES.items():
            if rng.chance(*density):
                fields[key] = rng.pick(values)
        if rng.chance(1, 12):
            fields["target"] = rng.pick(["2048", "256", "37.333333", "100"])
        fields.update(fixed_fields)
        if PRESETS[preset].get("scale") == "none" and "scale" not in fixed_fields:
            fields.pop("scale", None)
        if "scale" in fields and fields["scale"] == "none":
            fields["element"] = rng.pick(list(ELEMENTS))
        # which default holds is open where 256 exceeds the largest scale: say the target
        words = ",".join([preset] + [f"{k}={v}" for k, v in fields.items()])
        spec = Spec(words)
        if spec.reason is None and spec.scale_rule == "four_over_six" and spec.target is None and spec.scale_format is not None \
                and spec.tensor_scale != "none" and spec.scale_format.max_fraction < 256:
            spec = Spec(words + ",target=" + str(float(spec.scale_format.max_fraction)))
        if spec.reason is None:
            return spec


def draw_shape(rng, spec, elements):
    """Small odd shapes that cut blocks in all ways."""
    if "x" in spec.block:
        b = int(spec.block.split("x")[0])
        rows = rng.between(1, min(b + 2, max(1, elements // 8)))
        cols = max(1, min(rng.between(1, 2 * b + 3), elements // rows))
    else:
        rows = rng.between(1, 3)
        b = 16 if not spec.block.isdigit() else int(spec.block)
        cols = rng.pick([1, b - 1, b, b + 1, 2 * b, 2 * b + 5, b // 2, 3 * b - 2])
        cols = max(1, min(cols, max(elements // rows, 1)))
        if spec.tensor_scale == "outer128" and rng.chance(1, 2):
            rows, cols = 1, rng.pick([129, 140, 200])
    return rows, cols


def random_ids(rng):
    """(seed, stream, step), small and at the ends."""
    return (rng.pick([0, 5, 123456789, 0xFFFFFFFFFFFFFFFF, 0x100000001]), rng.pick([0, 3, 128 * 5 + 32, 0x7F, 16, 1 << 20]),
            rng.pick([0, 1, 2, 1000]))


# ---------------------------------------------------------------- products worth adding up
def gemm_operand(rng, spec, rows, cols, style, offset, seed, stream, step):
    """Rows for dot products: boundary-dense, or code values with block exponents near or far apart, shifted by 2^offset."""
    if style == 0:
        return boundary_inputs(rng, spec, rows, cols, seed, stream, step, special=rng.chance(1, 12))
    elem = spec.elem
    spread = rng.pick([2, 8, 14, 40, 100]) if offset == 0 else rng.pick([0, 1, 3, 12])
    b = 8 if not spec.block.isdigit() else int(spec.block)
    x = []
    for _ in range(rows):
        exponents = [offset + rng.between(-spread, spread) for _ in range(cols // b + 1)]
        zero_run = rng.chance(1, 3)
        for k in range(cols):
            # style 3: small codes under one large one a block, so that subnormal elements meet in the products
            top = min(elem.largest_code, 0x7E) if style != 3 or k % b == rows % b else 3
            v = Fraction(elem.value_units(rng.between(0, top)), 1 << elem.shift) if elem.bits <= 8 else Fraction(rng.below(256), 64)
            if style == 2:
                v *= 1 + Fraction(rng.below(1 << 12), 1 << 12)
            if zero_run and rng.chance(3, 4):
                v = Fraction(0)
            w = min(fraction_to_f32(v * Fraction(2) ** exponents[k // b]), FLT_MAX) if v else 0
            x.append(w | (SIGN if rng.chance(1, 2) else 0))
    return x


# exponents of the two operands: products at 2^-149, at the snap's 2^-11, at 2^128, a subnormal scale against a huge one
OFFSETS = [(0, 0)] * 5 + [(-75, -75), (-60, -92), (-6, -7), (-6, -7), (60, 66), (62, 63), (-136, 104), (120, -140)]


def cancel(rng, x, y, m, n, k):
    """Makes the second half of K nearly cancel the first: what is lost on the way becomes visible."""
    half = k // 2
    for r in range(m):
        for t in range(half):
            x[r * k + half + t] = x[r * k + t] ^ SIGN
    for r in range(n):
        for t in range(half):
            y[r * k + half + t] = y[r * k + t]
        if half:
            y[r * k + half + rng.below(half)] ^= SIGN if rng.chance(1, 2) else 0


GEMM_BASES = [
    "mxfp4", "mxfp4,block=8", "mxfp4,block=16,scale_rule=rceil", "nvfp4", "nvfp4,arithmetic=te,zero_scale=keep,zero_block=limit",
    "ue5m3fp4", "mxfp8", "mxfp8,element=e5m2", "mxfp6_e3m2", "mxfp6_e2m3,block=64", "mxfp4,prescale=0.75", "nvfp4,tensor_scale=outer128",
    "mxfp4,scale=fp32,scale_rule=amax", "mxfp4,scale=bf16,scale_rule=amax,block=row", "mxfp4,scale=fp32,scale_rule=amax,block=tensor",
    "ue5m3fp4,scale_rule=encode,tensor_scale=current,target=0.16666667", "mxfp4,scale_rule=encode,block=16", "mxfp4,block=16x16",
    "nvfp4,block=8x8", "nvfp4,scale=ue1m6,block=32", "ue5m3fp4,scale=ue5m3_61440,tensor_scale=hold", "mxfp4,element=e3m0,block=8",
    "mxfp4,element=e1m2", "nvfp4,block=128,prescale=0.75", "mxfp4,rounding=stochastic", "ue5m3fp4,zero_scale=keep",
    "nvfp4,scale_rule=four_over_six", "nvfp4,scale_rule=mse,scale_rounding=stochastic,random_bits=16", "fp32", "bf16", "fp16",
    "ue5m3fp4,tensor_scale=outer128,scale_rule=encode,block=32", "mxfp4,nonfinite=saturate",
    "mxfp8,block=8", "mxfp8,element=e5m2,block=8", "ue5m3fp4,zero_scale=keep,zero_block=limit,block=8",
]
# scales of 24 bits: what fp32_block rounds and what fused models read as subnormals
REAL_BASES = ["mxfp4,scale=fp32,scale_rule=amax", "mxfp4,scale=fp32,scale_rule=amax,block=8", "ue5m3fp4,scale_rule=encode,target=37.333333",
              "mxfp4,scale=bf16,scale_rule=amax,block=16", "mxfp8,scale=fp32,scale_rule=mse", "ue5m3fp4,scale_rule=encode,tensor_scale=current",
              "mxfp4,scale=fp32,scale_rule=encode", "mxfp4,scale=bf16,scale_rule=encode,block=8"]
# what adders without block scales take
UNSCALED_BASES = ["bf16", "fp16", "bf16", "mxfp8,scale=none", "mxfp8,element=e5m2,scale=none", "mxfp6_e3m2,scale=none", "bf16,prescale=0.75"]


def takes_unscaled(accumulator):
    return bool(parse_accumulator(accumulator).get("unscaled"))


DESCRIBED = [
    "kind:group;group:32;group_rounding:nearest_even;rounding:nearest_even", "kind:group;group:16;group_rounding:toward_zero;rounding:toward_zero",
    "kind:group;group:128;group_rounding:toward_zero;rounding:nearest_even;snap:-6", "kind:block;rounding:toward_zero",
    "kind:aligned;group:32;inner:8;fraction_bits:25;rounding:toward_zero", "kind:aligned;group:16;inner:1;fraction_bits:23;rounding:toward_zero",
    "kind:aligned;group:128;inner:32;fraction_bits:28;rounding:toward_zero", "kind:aligned;group:64;inner:4;fraction_bits:30;rounding:toward_zero",
    "kind:sequential;rounding:nearest_even", "kind:aligned;group:32;inner:8;fraction_bits:30;rounding:toward_zero;zero_exponent:-20",
]
YOUNGER_DESCRIBED = [
    "kind:floor_aligned;group:16;fraction_bits:20;unscaled:true", "kind:floor_aligned_pairs;group:8;fraction_bits:12;unscaled:true",
    "kind:aligned;group:16;inner:1;fraction_bits:25;rounding:toward_zero;result_bits:10;unscaled:true",
    "kind:aligned;group:64;inner:16;fraction_bits:30;rounding:toward_zero;result_bits:18", "kind:floor_aligned;group:0;fraction_bits:24",
]


def clear_blocks(rng, x, k):
    """Zeros in about a third of the stretches of 16 columns, and now and then tiny numbers in the rest: zeros may outweigh them."""
    for i in range(0, len(x), 16):
        if rng.chance(1, 3):
            x[i:i + 16] = [0] * len(x[i:i + 16])
    if rng.chance(1, 2):
        down = rng.between(20, 60)
        x[:] = [(b & ~INF) | max((b & INF) - (down << 23), 0) if b & INF not in (0, INF) else b for b in x]


class GemmCase:
    def __init__(self, rng, accumulator, wide=False):
        self.accumulator = accumulator
        bases = REAL_BASES if accumulator.startswith(("fp32_block", "fused")) and rng.chance(1, 3) else GEMM_BASES
        if takes_unscaled(accumulator) and rng.chance(2, 3):
            bases = UNSCALED_BASES
        self.spec_a = Spec(rng.pick(bases))
        self.spec_b = self.spec_a if rng.chance(3, 4) else Spec(rng.pick(bases))
        if not all(takes(parse_accumulator(accumulator), s) for s in (self.spec_a, self.spec_b)):
            self.accumulator = "fma_sequential"
        self.m, self.n = (rng.between(1, 6), rng.between(1, 6)) if wide else (rng.between(1, 2), rng.between(1, 2))
        self.k = rng.pick([1, 15, 33, 40, 64, 65, 72, 96, 128, 130] + ([200, 256, 300] if wide else []))
        outer = "outer128" in (self.spec_a.tensor_scale, self.spec_b.tensor_scale)
        if outer:
            self.k = rng.pick([128, 136, 160, 200] + ([256, 300] if wide else []))
            self.m = self.n = 1 + wide
        self.seed, self.stream, self.step = random_ids(rng)
        self.stream &= ~16
        self.size, self.signs, self.normalise, self.factor = 0, "none", "sqrt", "tensor_scales"
        if rng.chance(1, 6):
            self.size = rng.pick([16, 32, 64, 128] + ([256] if wide else []))
            self.signs = rng.pick(["none", "fixed", "per_layer", "per_step"])
            self.normalise = rng.pick(["sqrt", "fold"])
        style, offsets = rng.below(4), rng.pick(OFFSETS)
        if "snap" in accumulator:
            offsets = (-6, -7)
        self.x = gemm_operand(rng, self.spec_a, self.m, self.k, style, offsets[0], self.seed, self.stream, self.step)
        self.y = gemm_operand(rng, self.spec_b, self.n, self.k, style, offsets[1], self.seed, self.stream ^ 16, self.step)
        if rng.chance(1, 2):
            cancel(rng, self.x, self.y, self.m, self.n, self.k)
        if any(w in accumulator for w in ("2026_08", "zero_exponent", "b200")):
            clear_blocks(rng, self.x, self.k)

    def expected(self):
        return gemm(self.spec_a, self.spec_b, self.accumulator, self.x, self.y, self.m, self.n, self.k, self.seed, self.stream,
                    self.step, self.size, self.signs, self.normalise, self.factor)


# ---------------------------------------------------------------- golden lines
def words32(v):
    return ",".join("%08x" % b for b in v) if v else "-"


def codes_hex(v):
    return ",".join("%x" % c for c in v)


def quantize_line(spec, x, rows, cols, seed, stream, step):
    q = quantize(spec, x, rows, cols, seed, stream, step)
    scales = scale_words(spec, q)
    text = "-" if scales is None else words32(scales) if spec.scale in REAL_SCALES else codes_hex(scales)
    return (f"quantize spec={spec.words} rows={rows} cols={cols} seed={seed} stream={stream} step={step} x={words32(x)} "
            f"codes={codes_hex([c for line in q.codes for c in line])} scales={text} tensor_scale={words32(q.g)} "
            f"decoded={words32([b for line in q.decoded for b in line])}")


def gemm_line(c):
    factor = "" if c.factor == "tensor_scales" else f"factor={c.factor} "
    return (f"gemm {factor}spec={c.spec_a.words} spec_b={c.spec_b.words} accumulator={c.accumulator} m={c.m} n={c.n} k={c.k} seed={c.seed} "
            f"stream={c.stream} step={c.step} hadamard={c.size} signs={c.signs} normalise={c.normalise} a={words32(c.x)} "
            f"b={words32(c.y)} c={words32(c.expected())}")


def spec_line(rng, c, spec_a, spec_b):
    """The line of a case with operands of these specs."""
    c.spec_a, c.spec_b = spec_a, spec_b
    c.x = gemm_operand(rng, spec_a, c.m, c.k, 0, 0, c.seed, c.stream, c.step)
    c.y = gemm_operand(rng, spec_b, c.n, c.k, 0, 0, c.seed, c.stream ^ 16, c.step)
    return gemm_line(c)


def spec_pairs(spec):
    """All pairs of axis values that a spec covers."""
    values = [(k, getattr(spec, k)) for k in AXES] + [("preset", spec.words.split(",")[0])]
    return {(a, b) for i, a in enumerate(values) for b in values[i + 1:]}


# Cases found by search in which one rule differs from its nearest wrong reading; they are rare among drawn ones. A change of
# the generators above moves them: search again.
GEMM_WITNESSES = [
    ("fused35_rz", 2), ("fused35_rz", 52),  # the exponents of a zero dot count
    ("fused35_rz", 1642),  # a zero scale has exponent -126
    ("fused25_rz", 629), ("fused25_rz", 773),  # exponents of scales stop at the smallest normal one,
    ("fused25_rz", 1701), ("fused25_rz", 71),  # in encode at -126,
    ("fused25_rz", 1550), ("fused25_rz", 1383), ("fused25_rz", 698),  # and those of elements at theirs
    ("fused35_rz", 90), ("fused35_rz", 242),  # an underflow is +0
    ("fp32_block", 53), ("exact", 260),  # fl32(1/(pA pB)) is one rounding
    ("fp32_block", 12), ("fp32_block", 3),  # fl32(sA sB) when only one scale is long
    ("k64_rz_snap", 18), ("k64_rz_snap", 8),  # a sum that snaps to zero is +0
    ("k64_rz_snap", 38), ("k64_rz_snap", 86),  # ties of the snap go to even
]
QUANTIZE_WITNESSES = [
    ("nvfp4,arithmetic=te,block=8", 32, (8, 9, 20)),  # fl32(S fl32(1/M)), not fl32(S/M), nor a S first
    ("nvfp4,arithmetic=te,block=8", 16, (7, 76)),  # S stops at FLT_MAX
    ("nvfp4,arithmetic=te,block=8,zero_scale=keep", 32, (1, 6)),  # the clamped payload under a zero scale
    ("ue5m3fp4,arithmetic=te,block=8,zero_scale=keep", 16, (8, 11)),
    ("ue5m3fp4,scale_rule=encode,block=8,zero_block=limit", 16, (4, 8)),  # the limit of encode is the largest code
    ("nvfp4,zero_block=limit,block=8", 24, (10, 11)),  # zero_scale acts on the all-zero policy's code
    ("nvfp4,scale_rule=encode,arithmetic=divide,block=8", 32, (7, 9)),  # fl32(fl32(N/a) g)
    ("nvfp4,arithmetic=divide,block=8", 32, (7, 32, 43)),  # fl32(fl32(a/M)/g)
    ("nvfp4,arithmetic=reciprocal", 16, (5, 10)),  # fl32(fl32(1/g)/s)
    ("nvfp4,scale_rounding=stochastic,random_bits=16,block=8", 24, (2, 3)),  # draws of a scale have random_bits bits
]
# Casts around the largest value of each format and its half step beyond, which overflow; 65520 is fp16's tie.
OVERFLOWS = {"bf16": (0x7F7F0000, 0x7F7F7FFF, 0x7F7F8000, 0x7F7F8001, 0x7F7FFFFF, 0x7F7E8000, 0xFF7F8000, 0xFF7FFFFF),
             "fp16": (0x477FE000, 0x477FEFFF, 0x477FF000, 0x477FF001, 0x47800000, 0x49742400, 0xC77FF000, 0xFF7FFFFF)}
MSE_TIES = [[7.5, 6.125], [8.25, 6.75]]  # c-1 and c+1 have the same error, below that of c: c-1 comes first


def golden_quantize_lines(rng):
    """Every rule x arithmetic x rounding and preset x rule; the other axes chosen so that each case covers many new pairs."""
    # the worked examples, then all presets as they are
    yield quantize_line(Spec("mxfp4,block=8"), [fraction_to_f32(abs(Fraction(v))) | (SIGN if v < 0 else 0) for v in WORKED_BLOCK], 1, 8, 0, 0, 0)
    wanted = [dict(preset=p) for p in PRESETS for _ in range(3)]
    wanted += [dict(scale_rule=s, arithmetic=a, rounding=r) for s in AXES["scale_rule"] for a in AXES["arithmetic"]
               for r in AXES["rounding"] if not (s == "encode" and a == "te")]
    wanted += [dict(preset=p, scale_rule=s) for p in ("mxfp4", "nvfp4", "ue5m3fp4", "mxfp8", "mxfp6") for s in AXES["scale_rule"]
               if not (s == "uos" and p in ("mxfp8", "mxfp6")) and not (s == "four_over_six" and p.startswith("mx"))]
    # short blocks: many scale codes next to a rounding threshold, under each order of operations
    wanted += [dict(preset=p, scale_rule=s, arithmetic=a, block="8", scale_floor="0", nonfinite="saturate", **extra)
               for p in ("nvfp4", "ue5m3fp4", "mxfp4") for s in VALUE_RULES for a in AXES["arithmetic"]
               for extra in (dict(), dict(zero_scale="one" if s == "encode" else "keep", tensor_scale="current"))
               if not (s == "encode" and a == "te") and not (s == "four_over_six" and p == "mxfp4")]
    wanted += [dict(scale="none", preset=p) for p in ("mxfp4", "bf16", "fp16", "fp32") for _ in range(6)]
    for words, cols, seeds in QUANTIZE_WITNESSES:
        for s in seeds:
            yield quantize_line(Spec(words), boundary_inputs(Rng(s), Spec(words), 1, cols, 5, 3, 2), 1, cols, 5, 3, 2)
    for x in MSE_TIES:
        yield quantize_line(Spec("ue5m3fp4,scale_rule=mse"), bits_of(*x), 1, len(x), 0, 0, 0)
    for name, words in OVERFLOWS.items():
        for mode in AXES["rounding"]:
            yield quantize_line(Spec(f"{name},rounding={mode}"), list(words) * 4, 1, 32, 5, 3, 2)
    seen = set()
    for fixed in wanted:
        plain = "arithmetic" not in fixed or "block" in fixed
        if plain:
            spec = draw_spec(rng, fixed, (0, 1))
        else:
            spec = max((draw_spec(rng, fixed, (1, 2)) for _ in range(8)), key=lambda s: len(spec_pairs(s) - seen))
        seen |= spec_pairs(spec)
        rows, cols = (1, 48) if fixed.get("block") == "8" and len(fixed) > 4 else draw_shape(rng, spec, 40)
        if spec.scale == "none":
            rows, cols = rng.between(1, 2), 32  # a multiple of every preset's block: padded and unpadded codes are the same
        seed, stream, step = random_ids(rng)
        yield quantize_line(spec, boundary_inputs(rng, spec, rows, cols, seed, stream, step), rows, cols, seed, stream, step)


def golden_gemm_lines(rng):
    worked = GemmCase(rng, "exact")
    worked.spec_a = worked.spec_b = Spec("mxfp4")
    worked.m = worked.n = 1
    worked.k, worked.size, worked.seed, worked.stream, worked.step = 128, 0, 0, 0, 0
    worked.x, worked.y = WORKED_A, WORKED_B
    for name in list(ACCUMULATORS):
        worked.accumulator = name
        yield gemm_line(worked)
    for name in list(ACCUMULATORS):
        for _ in range({"exact": 12, "fp32_block": 36, "fused35_rz": 30, "fused25_rz": 30}.get(name, 14)):
            yield gemm_line(GemmCase(rng, name))
    for name, seed in GEMM_WITNESSES:
        yield gemm_line(GemmCase(Rng(seed), name))
    for text in DESCRIBED:
        for _ in range(4):
            yield gemm_line(GemmCase(rng, text))
    for name in list(YOUNGER_ACCUMULATORS):
        worked.accumulator = name
        yield gemm_line(worked)
        for _ in range(16):
            yield gemm_line(GemmCase(rng, name))
    for text in YOUNGER_DESCRIBED:
        for _ in range(4):
            yield gemm_line(GemmCase(rng, text))


def hadamard_input(rng, count):
    style = rng.below(4)
    x = []
    for _ in range(count):
        b = (rng.between(100, 150) << 23) | rng.below(1 << 23)
        if style == 1:
            b = rng.below(INF)
        elif style == 2:
            b = rng.pick([0, 1, 2, 0x3F800000, 0x40000000, 0x3FC00000, 0x33800000, 0x00800000])
        elif style == 3 and rng.chance(1, 12):
            b = rng.pick([INF, FLT_MAX, FLT_MAX, 0x7F000000, NAN, 0])
        x.append(b | (SIGN if rng.chance(1, 2) else 0))
    return x


def golden_hadamard_lines(rng):
    for size in SQRT_FACTOR:
        for word in ("none", "fixed", "per_layer", "per_step"):
            for normalise in ("sqrt", "fold"):
                for inverse in (0, 1) if size <= 64 else (0,):
                    rows = rng.between(1, 2) if size < 64 else 1
                    cols = rng.pick([size, size, size - 3, size + 5] if size < 64 else [size, size - 9])
                    if inverse:
                        cols = size
                    seed, stream, step = random_ids(rng)
                    x = hadamard_input(rng, rows * cols)
                    y, _ = hadamard(x, rows, cols, size, word, normalise, seed, stream, step, bool(inverse))
                    yield (f"hadamard size={size} signs={word} normalise={normalise} inverse={inverse} rows={rows} cols={cols} "
                           f"seed={seed} stream={stream} step={step} x={words32(x)} y={words32(y)}")


def golden_random_lines(rng):
    for bits in (4, 8, 16, 32):
        for seed in (0, 5, 0xFFFFFFFFFFFFFFFF, 0x123456789ABCDEF0):
            for stream, step in ((3, 2), (0, 0), (0xFFFFFFFF, 0xFFFFFFFF), (128 * 7 + 48, 1000)):
                first = rng.pick([0, 1, 31, 127, 1 << 31, (1 << 36) - 3, (1 << 62) + 5])
                count = rng.pick([1, 5, 33])
                d = Draws(seed, stream, step, bits)
                yield (f"random bits={bits} first={first} count={count} seed={seed} stream={stream} step={step} "
                       f"draws={codes_hex([d(first + i) for i in range(count)])}")


# Which bits of its 32-bit word an element of a group takes, lists of bit numbers, lowest first: as measured on a B200
# (`_unreversed`: by PTX's text of cvt.rs), and by AMD's header.
def HIGH(n):  # the n high bits of the word in place, zeros below (-1)
    return [bit if bit >= 32 - n else -1 for bit in range(32)]


PACKINGS = {
    "ptx_e2m1x4": [[*range(0, 8), *range(16, 24)], [*range(23, 15, -1), *range(7, -1, -1)],
                   [*range(8, 16), *range(24, 32)], [*range(31, 23, -1), *range(15, 7, -1)]],
    "ptx_f8x4": [range(0, 16), range(15, -1, -1), range(16, 32), range(31, 15, -1)],
    "ptx_f6x4": [range(0, 16), range(15, -1, -1), range(16, 32), range(31, 15, -1)],
    "ptx_e2m1x4_unreversed": [[*range(0, 8), *range(16, 24)]] * 2 + [[*range(8, 16), *range(24, 32)]] * 2,
    "ptx_f8x4_unreversed": [range(0, 16)] * 2 + [range(16, 32)] * 2,
    "ptx_bf16x2": [range(0, 16), range(16, 32)],
    "ptx_f16x2": [range(0, 13), range(16, 29)],
    "amd_fp4_f32": [HIGH(22)] * 2,
    "amd_fp4_bf16": [HIGH(6)] * 2,
    "amd_fp4_f16": [HIGH(9)] * 2,
}


def golden_packing_lines(rng):
    for name, elements in PACKINGS.items():
        for first in (0, 1, 6, (1 << 36) - 3):
            seed, stream, step = random_ids(rng)
            words = Draws(seed, stream, step, 32)
            draws = []
            for i in range(first, first + 9):
                word = words(i // len(elements))
                draws.append(sum((word >> bit & 1) << k for k, bit in enumerate(elements[i % len(elements)]) if bit >= 0))
            yield (f"packing name={name} first={first} count=9 seed={seed} stream={stream} step={step} "
                   f"draws={','.join(f'{d:x}' for d in draws)}")


def golden_format_lines(_):
    for fmt in [*ELEMENTS.values(), *SCALES.values()]:
        if fmt.bits <= 8:
            for code in range(1 << fmt.bits):
                yield f"format name={fmt.name} code={code:x} value={fmt.code_to_f32(code):08x}"


def drawn_lines(rng, spec, rows, cols, more=lambda tame: ()):
    """Inputs next to the thresholds of a spec, tame ones, and those that `more` makes of these, at one place of the draws."""
    place = random_ids(rng)
    yield quantize_line(spec, boundary_inputs(rng, spec, rows, cols, *place), rows, cols, *place)
    tame = tame_inputs(rng, rows * cols)
    for x in (tame, *more(tame)):
        yield quantize_line(spec, x, rows, cols, *place)


def golden_words(group):
    """Specs of a group of golden lines: orders of operations of libraries and kernels, one word at a time and as presets combine them."""
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "oracle_words.json"), encoding="ascii") as f:
        return json.load(f)[group]


def valid_spec(words):
    spec = Spec(words)
    if spec.reason:
        raise ValueError(words + ": " + spec.reason)
    return spec


def tame_inputs(rng, count):
    """Numbers of either sign within 2^-9 .. 2^4."""
    return [(rng.between(118, 130) << 23) | rng.below(1 << 23) | (SIGN if rng.chance(1, 2) else 0) for _ in range(count)]


def golden_factor_lines(rng):
    """Formats of tensor-scale factors, and the order that multiplies by them first."""
    for words in golden_words("factors"):
        spec = valid_spec(words)
        for rows, cols in ((2, 37), (1, 150)):
            yield from drawn_lines(rng, spec, rows, cols, lambda tame: [[b & 0xFFFF0000 for b in tame]])
    for words in golden_words("factors")[:7:6]:
        for name in ("fp32_block", "k64_rz", "fused35_rz"):
            yield spec_line(rng, GemmCase(rng, name), Spec(words), Spec(words))


def golden_kernel_lines(rng):
    """Headroom of stochastic rounding, tensors poisoned by NaN, factors of products from amaxes."""
    for words in golden_words("kernels"):
        spec = valid_spec(words)
        for rows, cols in ((2, 37), (1, 150)):
            def poisoned(tame):
                for special in (NAN, INF, 0xFFC00001) if spec.nonfinite == "tensor_nan" else ():
                    x = list(tame)
                    x[rng.below(len(x))] = special
                    yield x
            yield from drawn_lines(rng, spec, rows, cols, poisoned)
    for words in ("nvfp4", "nvfp4,arithmetic=te,decode=amax_first", "nvfp4,arithmetic=vllm,decode=factor_first", "nvfp4,scale_rule=four_over_six",
                  "nvfp4,headroom=unbiased,arithmetic=divide_global,decode=divide_global", "mxfp8,tensor_scale=hold"):
        for factor in ("amaxes", "amaxes_inverse"):
            for name in ("fp32_block", "k64_rz", "fused35_rz", "cdna3_fp8"):
                c = GemmCase(rng, name)
                # fma_sequential, which specs that `name` does not take get in their place, has no factor of amaxes.
                c.factor, c.accumulator = factor, name
                yield spec_line(rng, c, Spec(words), Spec(rng.pick([words, "nvfp4,target=256"])))


GRID_FILES = ["tests/golden/grids/%s.json" % name for name in ("half_step", "tilted", "wrapped", "cubic")]


def golden_grid_lines(rng):
    """Elements that are lists, choices of two of them, micro-exponents."""
    for elem in LISTED.values():
        for code in range(1 << elem.bits):
            yield f"format name={elem.name} code={code:x} value={elem.code_to_f32(code):08x}"
    listed = [*golden_words("grids"), *(f"nvfp4,element={path}" for path in GRID_FILES)]
    for file, rule in zip(GRID_FILES, ("rceil", "ceil")):
        for mode in (*AXES["rounding"], "odd", "stochastic_odd", "nearest_toward_positive"):
            listed.append(f"mxfp4,element={file},scale_rule={rule},rounding={mode}")
    listed += [f"nvfp4,element={GRID_FILES[3]},rounding=stochastic,random_bits=32", f"nvfp4,choice={GRID_FILES[0]}|e2m1,error=mae",
               f"mxfp4,element={GRID_FILES[0]},scale_rule=rceil,rounding=nearest_below"]
    sums = [*golden_words("grid_sums"), f"nvfp4,element={GRID_FILES[1]}"]
    e0m3 = "nvfp4,element=tests/golden/grids/e0m3.json"  # Blackwell multiplies it though no manual says so (flashinfer#3934)
    for quantised, summed in ((listed, sums), ([e0m3, e0m3 + ",rounding=stochastic"], [e0m3])):
        for words in quantised:
            spec = valid_spec(words)
            for rows, cols in ((2, 37), (1, 70)):
                yield from drawn_lines(rng, spec, rows, 64 if spec.scale == "none" else cols)
        for words in summed:
            for name in ("exact", "fp32_block", "fp32_sequential", "k64_rz", "double", "fma_sequential", "cdna4_isa"):
                yield spec_line(rng, GemmCase(rng, name), Spec(words), Spec(rng.pick([words, "nvfp4", "mxfp8"])))


def golden_order_lines(rng):
    for words in golden_words("orders"):
        spec = valid_spec(words)
        for rows, cols in ((2, 37), (1, 150)) if "x16" not in words else ((19, 35),):
            def special(tame):
                if "log2" in words:
                    yield log2_inputs(rng, rows, cols, 32)
                if "flush" in words:
                    yield [b & 0x80FFFFFF for b in tame]
                if "overflow" in words:
                    yield [b + (8 << 23) if 0 < b >> 23 & 255 < 200 else b for b in tame]
            yield from drawn_lines(rng, spec, rows, cols, special)


def golden_integer_lines(rng):
    """Sums of products in int32."""
    for words in golden_words("integers"):
        for name in INTEGER_ACCUMULATORS:
            c = GemmCase(rng, "fp32_block")
            c.accumulator, c.k = name, rng.pick([33, 200, 300])
            yield spec_line(rng, c, valid_spec(words), valid_spec(words))


STREAMS = ("counter", "constant", "pairs", "repeat_16", "repeat_32", "repeat_64", "repeat_128", "repeat_256", "one_rank")


def golden_stream_lines(rng):
    """Draws that kernels get wrong."""
    for kind in STREAMS:
        for words in ("mxfp4,rounding=stochastic", "nvfp4,rounding=stochastic_truncated,random_bits=16", "mxfp4,rounding=stochastic,random_bits=4",
                      "bf16,rounding=stochastic_midpoint,random_bits=32"):
            spec = valid_spec(f"{words},random_stream={kind}")
            rows, cols = (3, 37) if not kind.startswith("repeat") else (2, int(kind[7:]) + 21)
            seed, stream, step = random_ids(rng)
            seed |= 5 << 32  # ranks differ in the high word
            yield quantize_line(spec, tame_inputs(rng, rows * cols), rows, cols, seed, stream, step)


def golden_technique_lines(rng):
    """Words that the older lines, whose draws must not move, do not know."""
    for words in golden_words("techniques"):
        spec = Spec("nvfp4," + words)
        for rows, cols in ((2, 37), (3, 32), (2, 150) if "ms_eden" in words else (1, 24)):
            yield from drawn_lines(rng, spec, rows, cols)
    for words in ("tensor_scale=row", "tensor_scale=row,prescale=0.75", "tensor_scale=row,block=8", "scale_rule=ms_eden",
                  "scale_rule=ms_eden,tensor_scale=row"):
        for name in ("exact", "fp32_block", "k64_rz", "fused35_rz", "double"):
            for other in (words, "block=16"):
                yield spec_line(rng, GemmCase(rng, name), Spec("nvfp4," + words), Spec("nvfp4," + other))


def log2_inputs(rng, rows, cols, block):
    """Blocks whose maxima lie within 100 ulp of powers of two, some in the types' subnormals."""
    x = []
    for _ in range(rows):
        for k in range(cols):
            top = (rng.between(1, 250) << 23) + rng.between(-100, 100) if rng.chance(3, 4) else rng.between(1, 250) << 23
            if k % block == 0 and rng.chance(1, 8):
                top = rng.between(1, 1 << 22)
            if k % block:
                top = max(0, top - (rng.between(1, 6) << 23)) if rng.chance(1, 4) else rng.below(1 << 20)
            x.append(top | (SIGN if rng.chance(1, 2) else 0))
    return x


def golden_peer_lines(rng):
    for words in golden_words("peers"):
        head, _, rest = words.partition(",")
        spec = valid_spec(words if head in PRESETS else "mxfp4," + rest)
        for rows, cols in ((2, 37), (3, 32), (1, 96)):
            seed, stream, step = random_ids(rng)
            if spec.exponent == "float_log2" or spec.scale_rule in ("even_above", "nearest_log2_amax"):
                x = log2_inputs(rng, rows, cols, 32)
                yield quantize_line(spec, x, rows, cols, seed, stream, step)
                if spec.compute == "bf16":
                    x = [b & 0xFFFF0000 for b in log2_inputs(rng, rows, cols, 32)]
                    x = [b ^ (rng.below(64) << 16) if b & NAN else b for b in x]
                    yield quantize_line(spec, x, rows, cols, seed, stream, step)
            yield quantize_line(spec, boundary_inputs(rng, spec, rows, cols, seed, stream, step), rows, cols, seed, stream, step)
            tame = tame_inputs(rng, rows * cols)
            yield quantize_line(spec, tame, rows, cols, seed, stream, step)
            if spec.compute == "bf16":
                yield quantize_line(spec, [b & 0xFFFF0000 for b in tame], rows, cols, seed, stream, step)
    for words in ("arithmetic=te,decode=amax_first", "arithmetic=vllm,decode=factor_first", "arithmetic=divide_global,decode=divide_global",
                  "decode=factor_first,tensor_scale=row"):
        for name in ("fp32_block", "fused35_rz", "fma_sequential"):
            yield spec_line(rng, GemmCase(rng, name), Spec("nvfp4," + words), Spec("nvfp4," + words))
    for size in (16, 128):
        for word in ("none", "fixed"):
            x = hadamard_input(rng, 2 * size)
            y, _ = hadamard(x, 2, size, size, word, "sqrt", 1, 2, 3, output="bf16")
            yield (f"hadamard rows=2 cols={size} size={size} signs={word} normalise=sqrt output=bf16 inverse=0 seed=1 stream=2 step=3 "
                   f"x={words32(x)} y={words32(y)}")


# ---------------------------------------------------------------- embedding tables
ROW_SPECS = {"fp32": "fp32", "bf16": "bf16", "mxfp4": "mxfp4", "nvfp4": "nvfp4,tensor_scale=row", "ue5m3": "ue5m3fp4"}
INTEGER_ROWS = {"int8": 8, "int4": 4}
BAG_ORDERS = ("sequential", "fused", "exact")


def integer_row(bits, xs):
    """Scale, bias and inverse of FBGEMM's fused row-wise tables, None where the row reads as NaN."""
    if not all(is_finite(b) for b in xs):
        return None
    lo, hi = min(xs, key=units), max(xs, key=units)
    if bits == 8:
        reach = f_add(hi, lo ^ SIGN)
        row = f_div(reach, parse_f32(255)), lo, f_div(parse_f32(255), f_add(reach, parse_f32("1e-8")))
    else:
        lo = to_bf16(lo, "fp16")
        if not is_finite(lo):
            return None
        reach = f_add(hi, lo ^ SIGN)
        if not is_finite(reach):
            return None
        scale = ONE if not reach & NAN else to_bf16(f_div(reach, parse_f32(15)), "fp16")
        if not is_finite(scale):
            return None
        scale = scale if scale & NAN else ONE
        inverse = f_div(ONE, scale)
        row = (scale, lo, inverse) if is_finite(inverse) else (ONE, lo, ONE)
    return row if is_finite(row[0]) else None


def integer_code(bits, row, b, mode, draw):
    if row is None:
        return 0
    t = f_mul(f_add(b, row[1] ^ SIGN), row[2])
    top = (1 << bits) - 1
    if is_nan(t) or t & SIGN or not t & NAN:
        return 0
    if not is_finite(t) or magnitude_units(t) >= top << 149:
        return top
    lo, rest = divmod(magnitude_units(t), 1 << 149)
    r = draw() if rest and mode.startswith("stochastic") else 0
    return lo + rounds_up(mode, rest, 1 << 149, lo, False, 16, r)


def encode_rows(fmt, rounding, x, rows, cols, seed, stream, step):
    """Decoded rows, integer codes and their (scale, bias)."""
    if fmt in ROW_SPECS:
        q = quantize(Spec(f"{ROW_SPECS[fmt]},rounding={rounding},random_bits=16"), x, rows, cols, seed, stream, step)
        return [list(line) for line in q.decoded], None, None
    bits, draws = INTEGER_ROWS[fmt], Draws(seed, stream, step, 16)
    decoded, codes, carried = [], [], []
    for r in range(rows):
        xs = x[r * cols:(r + 1) * cols]
        row = integer_row(bits, xs)
        line = [integer_code(bits, row, b, rounding, lambda p=r * cols + k: draws(p)) for k, b in enumerate(xs)]
        codes.append(line)
        carried.append((NAN, NAN) if row is None else row[:2])
        decoded.append([NAN if row is None else f_fma(row[0], parse_f32(c), row[1]) for c in line])
    return decoded, codes, carried


def bag_element(order, column):
    """One number of the sum; column: (decoded, code, scale, bias) of each row in the order of the ids."""
    if order == "exact":
        odd = [d for d, *_ in column if not is_finite(d)]
        if odd:
            return NAN if any(is_nan(d) for d in odd) or len(set(odd)) > 1 else odd[0]
        return round_signed(sum(units(d) for d, *_ in column), -149)
    acc = 0
    for decoded, code, scale, bias in column:
        if order == "fused" and code is not None:
            acc = f_fma(scale, parse_f32(code), f_add(acc, bias)) if not is_nan(scale) else NAN
        else:
            acc = f_add(acc, decoded)
    return acc


def bag_line(fmt, order, rounding, x, rows, cols, ids, seed, stream, step):
    decoded, codes, carried = encode_rows(fmt, rounding, x, rows, cols, seed, stream, step)
    total = [bag_element(order, [(decoded[i][k], codes[i][k], *carried[i]) if codes else (decoded[i][k], None, 0, 0) for i in ids])
             for k in range(cols)]
    return (f"bag format={fmt} order={order} rounding={rounding} rows={rows} cols={cols} seed={seed} stream={stream} step={step} "
            f"ids={codes_hex(ids) or '-'} x={words32(x)} codes={codes_hex([c for line in codes for c in line]) if codes else '-'} "
            f"carried={words32([b for pair in carried for b in pair]) if codes else '-'} "
            f"decoded={words32([b for line in decoded for b in line])} sum={words32(total)}")


def bag_rows(rng, kind, count):
    """Like trained rows; wide, where sums cancel and decline; at the ends of the range, not finite."""
    low, high = {"tame": (118, 126), "wide": (60, 190), "edge": (0, 254)}[kind]
    x = [(rng.between(low, high) << 23) | rng.below(1 << 23) | (SIGN if rng.chance(1, 2) else 0) for _ in range(count)]
    if kind == "wide":  # neighbours of opposite sign
        for i in range(0, count - 1, 3):
            x[i + 1] = (x[i] ^ SIGN) + rng.between(-2, 2)
    if kind == "edge":
        x = [rng.pick([b, b, b & SIGN, INF | b & SIGN, rng.below(1 << 23), NAN]) if rng.chance(1, 12) else b for b in x]
    return x


def golden_bag_lines(rng):
    for fmt in [*ROW_SPECS, *INTEGER_ROWS]:
        for order in BAG_ORDERS:
            for rounding in ("nearest_even", "stochastic"):
                for kind, rows, cols in (("tame", 5, 32), ("tame", 4, 20), ("wide", 4, 16), ("edge", 6, 8)):
                    seed, stream, step = random_ids(rng)
                    ids = [rng.below(rows) for _ in range(rng.pick([1, 3, 8]))]
                    yield bag_line(fmt, order, rounding, bag_rows(rng, kind, rows * cols), rows, cols, ids, seed, stream, step)
    yield bag_line("fp32", "exact", "nearest_even", bits_of(1.0, -1.0), 2, 1, [], 0, 0, 0)


SPARSITIES = {"2:4": 1, "4:8": 2}


def kept_columns(width, x):
    """Of every four elements, or pairs, the two largest sums of magnitudes; the earlier of equals; NaN is infinite."""
    def size(unit):
        if any((b & NAN) >= INF for b in unit):
            return (1, 0)
        return (0, sum(magnitude_units(b) for b in unit))
    out = []
    for first in range(0, len(x), 4 * width):
        units_of_group = [range(u, min(u + width, len(x))) for u in range(first, min(first + 4 * width, len(x)), width)]
        ranked = sorted(units_of_group, key=lambda unit: size([x[k] for k in unit]), reverse=True)  # stable
        out += sorted(k for unit in ranked[:2] for k in unit)
    return out


def golden_mask_lines(rng):
    """Rows of all lengths to 40: spread numbers, few values, pairs whose sums differ below fp64's last bit, specials."""
    few = bits_of(0.0, 1.0, -1.0, 2.0, -2.0, 3.0)
    close = bits_of(2.0 ** 40, 2.0 ** -40, -(2.0 ** -41), 0.0)
    specials = [*few, INF, INF | SIGN, NAN, 1, 2, FLT_MAX]
    for name, width in SPARSITIES.items():
        for cols in range(1, 41):
            for pool in (None, few, close, specials):
                x = tame_inputs(rng, cols) if pool is None else [rng.pick(pool) for _ in range(cols)]
                yield f"mask sparse={name} x={words32(x)} kept={codes_hex(kept_columns(width, x))}"


GOLDEN_FILES = {"formats": golden_format_lines, "random": golden_random_lines, "hadamard": golden_hadamard_lines,
                "quantize": golden_quantize_lines, "gemm": golden_gemm_lines, "techniques": golden_technique_lines,
                "packings": golden_packing_lines, "peers": golden_peer_lines, "factors": golden_factor_lines,
                "embedding": golden_bag_lines, "kernels": golden_kernel_lines, "grids": golden_grid_lines,
                "orders": golden_order_lines, "streams": golden_stream_lines,
                "integers": golden_integer_lines, "masks": golden_mask_lines}


def golden(outdir):
    os.makedirs(outdir, exist_ok=True)
    for index, (name, lines) in enumerate(GOLDEN_FILES.items()):
        start = time.time()
        path = os.path.join(outdir, name + ".txt")
        with open(path, "w", encoding="ascii", newline="\n") as f:
            f.write("# Golden lines from exact fractions, independent of the C++. Never edit; make anew with:\n"
                    "#   python3 tools/scripts/oracle.py golden tests/golden\n"
                    "# One case a line, key=value; words are hexadecimal (8 digits: float32 bits), `-` where absent.\n")
            count = 0
            for line in lines(Rng(1000 + index)):
                f.write(line + "\n")
                count += 1
        print(f"{path}: {count} lines, {os.path.getsize(path)} bytes, {time.time() - start:.1f} s")


# ---------------------------------------------------------------- self test
WORKED_BLOCK = [6.5, -3.5, 2.5, 1.5, 0.75, -0.25, 5, 0.5]


def bits_of(*values):
    return [struct.unpack("<I", struct.pack("<f", v))[0] for v in values]


WORKED_A = bits_of(*([2.0 ** 22] + [0.0] * 31 + [1.5] + [0.0] * 31 + [1.5] + [0.0] * 63))
WORKED_B = bits_of(*([4.0] + [0.0] * 31 + [1.0] + [0.0] * 31 + [1.0] + [0.0] * 63))


def expect(what, got, wanted):
    if got != wanted:
        raise SystemExit(f"selftest: {what}: got {got}, expected {wanted}")


# long: a list of checks, one after another
def selftest():
    # a bag by hand: int8 rows 0 1 .. 255 have scale 1, bias 0; .1 ten times is .10000000149 * 10 exactly, 1.0000001 one by one
    expect("int8 row", integer_row(8, bits_of(*range(256)))[:2], (ONE, 0))
    expect("int4 row", integer_row(4, bits_of(-1.0, 0.25, 2.75))[:2], tuple(bits_of(0.25, -1.0)))
    tenth = [(bits_of(0.1)[0], None, 0, 0)] * 10
    expect("exact bag", bag_element("exact", tenth), ONE)
    expect("sequential bag", bag_element("sequential", tenth), ONE + 1)
    # Random123's known answers
    ff, pi = 0xFFFFFFFF, (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344)
    expect("philox 0", philox((0, 0, 0, 0), (0, 0)), [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8])
    expect("philox ff", philox((ff,) * 4, (ff, ff)), [0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD])
    expect("philox pi", philox(pi, (0xA4093822, 0x299F31D0)), [0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1])
    # literals of the format tables
    e2m1 = [to_double(ELEMENTS["e2m1"].code_to_f32(c)) for c in range(8)]
    expect("e2m1", e2m1, [0, .5, 1, 1.5, 2, 3, 4, 6])
    for name, largest, emax in (("e2m1", 6, 2), ("e1m2", 1.75, 0), ("e3m0", 16, 4), ("e2m3", 7.5, 2), ("e3m2", 28, 4), ("e4m3", 448, 8),
                                ("e5m2", 57344, 15), ("fp16", 65504, 15)):
        expect(name, (float(ELEMENTS[name].max_fraction), ELEMENTS[name].emax), (largest, emax))
    for name, smallest, largest, one in (
            ("e8m0", -127, 2.0 ** 127, 0x7F), ("ue4m3", -9, 448, 0x38), ("ue5m3", -17, 114688, 0x78), ("ue5m3_61440", -17, 61440, 0x78),
            ("ue5m3_122880", -17, 122880, 0x78), ("ue5m2", -16, 114688, 0x3C), ("ue3m4", -6, 31, 0x30), ("ue2m5", -5, 7.875, 0x20),
            ("ue1m6", -5, 3.96875, 0x20)):
        f = SCALES[name]
        first = 0 if f.power_of_two else 1
        expect(name, (f.code_to_f32(first), float(f.max_fraction), f.one), (fraction_to_f32(Fraction(2) ** smallest), largest, one))
    # fp32 arithmetic against the machine's own
    rng = Rng(7)
    for _ in range(20000):
        a, b = (rng.below(1 << 32) for _ in range(2))
        if rng.chance(1, 2):
            b = (a ^ rng.pick([0, SIGN])) + rng.between(-3, 3) & 0xFFFFFFFF
        x, y = to_double(a), to_double(b)
        expect("add", f_add(a, b), from_double(x + y))
        expect("mul", f_mul(a, b), from_double(x * y))
        if y and not math.isnan(y):
            expect("div", f_div(a, b), from_double(x / y))
        if is_finite(a):
            expect("search", round_to_format(ELEMENTS["fp32"], magnitude_units(a), 1 << 149, "nearest_even"), a & NAN)
    # macro block scaling by hand: 6/5 = 1.2, f = 51
    macro = Spec("mxfp4,tensor_scale=outer128,factor_format=mantissa8,arithmetic=multiply")
    expect("mantissa8", tensor_scale_of(macro, from_double(5.0))[1], from_double(1 + 51 / 256))
    # e2m1 ties go to the even code
    ties = {.25: 0, .75: 1, 1.25: 1, 1.75: 2, 2.5: 2, 3.5: 4, 5: 4}
    for v, wanted in ties.items():
        n, d = Fraction(v).as_integer_ratio()
        expect(f"tie {v}", e2m1[round_to_format(ELEMENTS["e2m1"], n, d, "nearest_even")], wanted)
    # numerics, worked examples
    low, high = [7, 14, 4, 3, 2, 8, 6, 1], [5, 12, 2, 2, 1, 8, 4, 0]
    for rule, code, codes in (("floor", 127, low), ("even", 127, low), ("uos", 127, low), ("rceil", 128, high), ("ceil", 128, high)):
        q = quantize(Spec("mxfp4,block=8,scale_rule=" + rule), bits_of(*WORKED_BLOCK), 1, 8)
        expect(rule, (q.scale_codes, q.codes), ([code], [codes]))
        packed = [[v for v in q.codes[0]][i] | q.codes[0][i + 1] << 4 for i in range(0, 8, 2)]
        expect("packed", packed, [0xE7, 0x34, 0x82, 0x16] if code == 127 else [0xC5, 0x22, 0x81, 0x04])
    for first, rule, code in ((7, "floor", 127), (7, "uos", 127), (7, "even", 128), (6, "rceil", 127), (6, "ceil", 128)):
        q = quantize(Spec("mxfp4,block=8,scale_rule=" + rule), bits_of(first, *WORKED_BLOCK[1:]), 1, 8)
        expect((first, rule), q.scale_codes, [code])
    q = quantize(Spec("nvfp4"), bits_of(21, *[0] * 15, 10, 4, -3, 1, .75, *[0] * 11), 1, 32)
    expect("nvfp4", (q.g, q.scale_codes, q.codes[0][:1] + q.codes[0][16:21]), (bits_of(2.0 ** -7), [0x7E, 0x75], [7, 7, 4, 12, 1, 1]))
    expect("nvfp4 decoded", q.decoded[0][16:21], bits_of(9.75, 3.25, -3.25, .8125, .8125))
    q = quantize(Spec("nvfp4,scale_rule=four_over_six,tensor_scale=none"), bits_of(10, 20, 30, 40), 1, 4)
    expect("four over six", (q.scale_codes, q.decoded[0]), ([0x52], bits_of(10, 20, 30, 40)))
    expect("words", philox((0, 0, 3, 2), (5, 0)), [0x4FC3EC2A, 0x69D49677, 0x914F47B6, 0x85E8C7F1])
    for mode, decoded in (("stochastic", (1, 3, .5, -4)), ("stochastic_midpoint", (1, 3, .5, -6)), ("stochastic_truncated", (1, 2, .5, -4))):
        q = quantize(Spec("mxfp4,random_bits=8,rounding=" + mode), bits_of(1.25, 2.0771484375, .125, -5.37890625), 1, 4, 5, 3, 2)
        expect(mode, (q.scale_codes, q.decoded[0]), ([127], bits_of(*decoded)))
    for name, wanted in (("exact", 16777220), ("fp32_block", 16777220), ("k64_rz", 16777218), ("fused35_rz", 16777216)):
        got = gemm(Spec("mxfp4"), Spec("mxfp4"), name, WORKED_A, WORKED_B, 1, 1, 128)
        expect(name, got, bits_of(wanted))
    # H H^T = h I, and every rounding's count of ups over all draws
    for size in (16, 64):
        y, _ = hadamard([ONE if i == 3 else 0 for i in range(size)], 1, size, size, "fixed", "fold")
        z, _ = hadamard(y, 1, size, size, "fixed", "fold", inverse=True)
        expect("hadamard", [b & NAN for b in z], [ONE if i == 3 else 0 for i in range(size)])
    d = Fraction(37, 512)  # t = 18.5 at 8 bits: even below, half up above
    for mode, wanted in (("stochastic", 18), ("stochastic_midpoint", 19), ("stochastic_truncated", 18)):
        expect(mode, sum(rounds_up(mode, d.numerator, d.denominator, 0, False, 8, r) for r in range(256)), wanted)
    print("selftest: all known answers hold")


# ---------------------------------------------------------------- the binary under test
NPY_DTYPES = {"|u1": "B", "<u2": "<H", "<u4": "<I", "<f4": "<I"}  # float32 is compared by its bits


def write_npy(path, words, shape):
    """float32 words, version 1.0, C order."""
    header = "{'descr': '<f4', 'fortran_order': False, 'shape': (%s), }" % "".join(f"{n}, " for n in shape)
    header += " " * (-(len(header) + 11) % 64) + "\n"
    with open(path, "wb") as f:
        f.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + struct.pack(f"<{len(words)}I", *words))


def read_npy(path):
    """(words, shape) of an unsigned integer or float32 array."""
    with open(path, "rb") as f:
        data = f.read()
    size, at = (struct.unpack("<H", data[8:10])[0], 10) if data[6] == 1 else (struct.unpack("<I", data[8:12])[0], 12)
    header = ast.literal_eval(data[at:at + size].decode())
    kind = NPY_DTYPES[header["descr"]]
    if header["fortran_order"]:
        raise ValueError(path + " is in Fortran order")
    return [v for v, in struct.iter_unpack(kind, data[at + size:])], tuple(header["shape"])


class Failure(Exception):
    """The binary refused or crashed where the oracle has an answer."""


class Fuzzer:
    def __init__(self, binary, rng, folder, extra, keep_going=20):
        self.binary, self.rng, self.folder, self.extra, self.limit = binary, rng, folder, extra, keep_going
        self.compared = self.mismatches = self.bad_cases = 0
        self.reports = []

    def path(self, name):
        return os.path.join(self.folder, name)

    def call(self, *words):
        command = [self.binary, *map(str, words), *self.extra]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            raise Failure(f"exit {done.returncode}: {' '.join(command)}\n{done.stderr.strip()[:500]}")
        return done.stdout

    def result(self, *words):
        """The numbers that a command writes."""
        out = self.path("out.npy")
        try:
            self.call(*words, "--out", out)
            return read_npy(out)[0]
        finally:
            if os.path.exists(out):
                os.remove(out)

    def note(self, text):
        """False, which is what a case that has something to tell comes to."""
        self.reports.append(text)
        return False

    def compare(self, what, got, wanted, describe):
        """describe(i): what led to element i."""
        self.compared += len(wanted)
        if len(got) != len(wanted):
            self.mismatches += 1
            return self.note(f"{what}: {len(got)} values, expected {len(wanted)}")
        bad = [i for i, (g, w) in enumerate(zip(got, wanted)) if g != w]
        self.mismatches += len(bad)
        for i in bad[:3]:
            self.reports.append(f"{what}[{i}]: expected {wanted[i]:x}, got {got[i]:x}; {describe(i)}")
        return not bad

    def ids(self):
        seed, stream, step = random_ids(self.rng)
        return seed, stream, step, ("--seed", seed, "--stream", stream, "--step", step)

    def quantize(self):
        rng = self.rng
        spec = draw_spec(rng, dict(scale="none") if rng.chance(1, 16) else (), rng.pick([(0, 1), (1, 4), (1, 3), (2, 3)]))
        if "x" in spec.block:
            rows, cols = rng.between(1, 40), rng.between(1, 70)
        else:
            rows, cols = rng.between(1, 16), rng.pick([1, 7, 31, 32, 33, 64, 65, 127, 130, 200, 257])
        if rows * cols > 1500:
            rows = max(1, 1500 // cols)
        seed, stream, step, ids = self.ids()
        x = boundary_inputs(rng, spec, rows, cols, seed, stream, step)
        q = quantize(spec, x, rows, cols, seed, stream, step)
        unpacked = rng.chance(1, 2)
        if rng.chance(1, 8):  # the same matrix handed over transposed
            write_npy(self.path("in.npy"), [x[r * cols + k] for k in range(cols) for r in range(rows)], (cols, rows))
            ids += ("--transpose",)
        else:
            write_npy(self.path("in.npy"), x, (rows, cols))
        out = self.path("out")
        label = f"quantize --spec {spec.words} {' '.join(map(str, ids))} [{rows},{cols}]"
        try:
            self.call("quantize", self.path("in.npy"), "--spec", spec.words, "--out", out, *ids, *(["--unpacked"] if unpacked else []))
            fine = self.compare_quantised(spec, x, rows, cols, q, out, label, unpacked)
        finally:
            shutil.rmtree(out, ignore_errors=True)
        return fine

    def compare_quantised(self, spec, x, rows, cols, q, out, label, unpacked):
        codes, shape = read_npy(os.path.join(out, "codes.npy"))
        if spec.elem.bits == 4 and not unpacked:
            codes = [c >> s & 15 for c in codes for s in (0, 4)]
            shape = (shape[0], shape[1] * 2)
        if shape[0] != rows or shape[1] not in (q.padded, q.padded + 1) and spec.scale != "none":
            self.mismatches += 1
            return self.note(f"{label}: codes have shape {shape}")
        width = min(q.padded, shape[1])

        def element(i):
            r, k = divmod(i, width)
            return f"row {r} column {k} " + (f"x={x[r * cols + k]:08x}" if k < cols else "(padding)")

        fine = self.compare("codes", [codes[r * shape[1] + k] for r in range(rows) for k in range(width)],
                            [c for line in q.codes for c in line], element)
        bc = getattr(q, "block_cols", 0)
        if q.scale_codes is not None:
            def block(i):
                r, j = divmod(i, q.scale_shape[1])
                xs = [x[rr * cols + k] for rr in range(r * q.block_rows, min(rows, (r + 1) * q.block_rows))
                      for k in range(j * bc, min(cols, j * bc + bc))]
                return f"block ({r},{j}) g={q.g[r * q.g_cols + j * bc // 128 if q.outer else 0]:08x} x={words32(xs[:128])}"
            scales, shape = read_npy(os.path.join(out, "scales.npy"))
            fine &= self.compare("scales", scales, scale_words(spec, q), block)
            if tuple(shape) != tuple(q.scale_shape):
                self.mismatches += 1
                fine = self.note(f"scales have shape {shape}, expected {q.scale_shape}")
        elif os.path.exists(os.path.join(out, "scales.npy")):
            self.mismatches += 1
            fine = self.note("scales.npy written though scale is none")
        g, _ = read_npy(os.path.join(out, "tensor_scale.npy"))
        fine &= self.compare("tensor_scale", g, q.g, lambda i: f"amax {finite_amax(x):08x}")
        decoded, _ = read_npy(os.path.join(out, "dequantized.npy"))
        width = cols  # of what was quantised: [rows, columns] after a transpose
        fine &= self.compare("dequantized", decoded, [b for line in q.decoded for b in line], element)
        return fine or self.note("  in " + label)

    def gemm(self):
        rng = self.rng
        described = rng.chance(1, 5)
        accumulator = rng.pick(DESCRIBED + YOUNGER_DESCRIBED) if described else rng.pick([*ACCUMULATORS, *YOUNGER_ACCUMULATORS])
        c = GemmCase(rng, accumulator, wide=True)
        write_npy(self.path("a.npy"), c.x, (c.m, c.k))
        write_npy(self.path("b.npy"), c.y, (c.n, c.k))
        name = accumulator
        if described:
            name = self.path("accumulator.json")
            with open(name, "w", encoding="ascii") as f:
                fields = [part.split(":") for part in accumulator.split(";")]
                json.dump({k: int(v) if v.lstrip("-").isdigit() else v == "true" or v for k, v in fields}, f)
        words = ["--spec", c.spec_a.words, "--accumulator", name, "--seed", c.seed, "--stream", c.stream, "--step", c.step]
        if c.spec_b is not c.spec_a:
            words += ["--spec-b", c.spec_b.words]
        if c.size:
            words += ["--hadamard", c.size, "--signs", c.signs, "--normalise", c.normalise]
        got = self.result("gemm", self.path("a.npy"), self.path("b.npy"), *words)

        def dot(i):
            r, j = divmod(i, c.n)
            return f"a={words32(c.x[r * c.k:(r + 1) * c.k])} b={words32(c.y[j * c.k:(j + 1) * c.k])}"

        return self.compare("c", got, c.expected(), dot) or self.note(f"  in gemm {accumulator} k={c.k} {' '.join(map(str, words))}")

    def hadamard(self):
        rng = self.rng
        size, word, normalise = rng.pick(list(SQRT_FACTOR)), rng.pick(["none", "fixed", "per_layer", "per_step"]), rng.pick(["sqrt", "fold"])
        rows, cols, inverse = rng.between(1, 4), rng.between(1, 2 * size + 3), rng.chance(1, 3)
        if inverse:
            cols = size * rng.between(1, 2)
        seed, stream, step, ids = self.ids()
        x = hadamard_input(rng, rows * cols)
        write_npy(self.path("in.npy"), x, (rows, cols))
        words = ("--size", size, "--signs", word, "--normalise", normalise, *ids, *(["--inverse"] if inverse else []))
        got = self.result("hadamard", self.path("in.npy"), *words)
        wanted, padded = hadamard(x, rows, cols, size, word, normalise, seed, stream, step, inverse)
        return self.compare("y", got, wanted, lambda i: f"row {i // padded} column {i % padded}") or self.note(
            f"  in hadamard {' '.join(map(str, words))} [{rows},{cols}] x={words32(x[:64])}")

    def random(self):
        rng = self.rng
        bits, count = rng.pick([4, 8, 16, 32]), rng.between(1, 200)
        first = rng.pick([0, 1, 31, rng.below(1 << 20), (1 << 36) - 3, rng.below(1 << 60)])
        seed, stream, step, ids = self.ids()
        text = self.call("random", "--bits", bits, "--count", count, "--first", first, *ids, "--json")
        d = Draws(seed, stream, step, bits)
        return self.compare("draws", json.loads(text)["draws"], [d(first + i) for i in range(count)],
                            lambda i: f"position {first + i}") or self.note(
            f"  in random --bits {bits} --count {count} --first {first} {' '.join(map(str, ids))}")


def check(binary, cases, seed, extra, only):
    """Differential fuzzing of the binary's quantize, gemm, hadamard, random. 0 when every bit is equal."""
    binary = os.path.abspath(binary)
    kinds = only or ["quantize"] * 11 + ["gemm"] * 6 + ["hadamard"] * 2 + ["random"]
    counts, start = {}, time.time()
    with tempfile.TemporaryDirectory() as folder:
        f = Fuzzer(binary, None, folder, extra)
        for case in range(cases):
            f.rng = Rng(seed * 1000003 + case)  # any case can be had alone
            kind = kinds[f.rng.below(len(kinds))]
            counts[kind] = counts.get(kind, 0) + 1
            before = len(f.reports)
            try:
                fine = getattr(f, kind)()
            except Failure as failure:
                fine = False
                f.reports.append(str(failure))
            if not fine:
                f.bad_cases += 1
                f.reports.insert(before, f"case {case}:")
            if f.bad_cases >= f.limit:
                break
    for line in f.reports[:120]:
        print(line)
    spread = ", ".join(f"{v} {k}" for k, v in sorted(counts.items()))
    print(f"check: {spread}; {f.compared} values compared, {f.mismatches} differ, {f.bad_cases} cases bad, {time.time() - start:.1f} s")
    return 1 if f.bad_cases else 0


# ---------------------------------------------------------------- sums of raw codes, as a device's unit takes them
class CodeLane:
    """K codes of one operand with their scales, in the shape of Lane; without scales every scale is 1."""

    def __init__(self, elem, codes, scale, scale_codes, block, tf32=False):
        self.codes, self.block, self.has_scales = codes, block or len(codes), scale is not None
        self.shift, self.min_element_exponent = elem.shift, elem.smallest_normal_exponent
        both = [self.decode(elem, c & ~0x1FFF if tf32 else c) for c in codes]
        self.values, self.q = [v for v, _ in both], [q for _, q in both]
        self.is_finite = all(q is not None for q in self.q)
        if self.has_scales:
            self.scales = [None if s > scale.largest_code else scale.units149(s) for s in scale_codes]
            self.min_exponent = scale.smallest_normal_exponent
        else:
            self.scales, self.min_exponent = [1 << 149], -126

    @staticmethod
    @functools.lru_cache(1 << 17)  # all codes of two 16-bit formats
    def decode(elem, c):
        """fp32 bits, and signed units of 2^-shift; None of what is not finite."""
        v, (negative, m) = elem.code_to_f32(c), elem.signed_units(c)
        return v, (-m if negative else m) if is_finite(v) else None

    scale, scale_exponent, element_exponent = Lane.scale, Lane.scale_exponent, Lane.element_exponent


def sum_of_codes(row, a, b, c):
    """The fp32 bits of C + A*B under a row, C first; infinities and NaN as IEEE adds them."""
    if is_nan(c) or None in a.scales or None in b.scales:
        return NAN
    k_end, acc = len(a.codes), c
    for lo, hi in cuts(0, k_end, row.get("group", 64)):
        specials = [] if a.is_finite and b.is_finite else [
            f_mul(a.values[k], b.values[k]) for k in range(lo, hi) if a.q[k] is None or b.q[k] is None]
        if specials or not is_finite(acc):
            acc = functools.reduce(f_add, specials, acc if not is_finite(acc) else 0)
        elif row["kind"] == "windowed":
            acc = window_step(row, a, b, lo, hi, acc)
        else:
            acc = aligned_step(row, a, b, lo, hi, acc, -298 - a.shift - b.shift)
    return canonical(acc)


def draw_codes(rng, elem, k, small):
    bits = elem.bits
    codes = [rng.below(1 << bits) for _ in range(k)]
    if bits >= 16:  # all exponents, or those near one
        mantissa = {16: 10 if elem.shift == 24 else 7, 32: 23}[bits]
        middle, field = rng.below(1 << bits - 1 - mantissa), (1 << bits - 1 - mantissa) - 1
        if not rng.chance(1, 4):
            spread = rng.pick([1, 4, 16, 60])
            codes = [(c & ~(field << mantissa)) | (min(max(middle + rng.between(-spread, spread), 0), field - 1) << mantissa) for c in codes]
    if small:
        codes = [c & ~(elem.sign_bit - 1) | rng.below(4) for c in codes]
    zero = [rng.chance(1, 3) for _ in range(k // 4 + 1)] if rng.chance(1, 3) else [False] * (k // 4 + 1)
    return [c & elem.sign_bit if zero[i // 4] else c for i, c in enumerate(codes)]


def draw_sum(rng, row, elem_a, elem_b, scale, block, k, half):
    """Operands of one sum: any codes, halves that cancel, scales far apart or tiny, zero dots, C beside the products, or
    what cancels their sum so that its last bits show."""
    a, b = draw_codes(rng, elem_a, k, rng.chance(1, 8)), draw_codes(rng, elem_b, k, rng.chance(1, 8))
    sa, sb, tiny = [], [], False
    if block:
        top = 255 if scale.bits == 8 else 127
        center, spread, style = rng.below(top), rng.pick([0, 2, 8, 30, 127]), rng.below(4)
        tiny = scale.bits == 8 and rng.chance(1, 6)
        for i in range(k // block):
            far = rng.pick([0, 25, 30, 34, 38, 45]) if i % 2 else 0
            for s in (sa, sb):
                drawn = center + rng.between(-spread, spread)
                if tiny:
                    drawn = rng.between(40, 68)
                elif style == 0:  # both ends of the format, or as far apart as the cut lies
                    drawn = rng.between(1, 7) if i % 2 else rng.between(0x70, 0x7E)
                    drawn = drawn if scale.bits < 8 else 127 + (center & 31) - far // 2 + rng.below(2)
                s.append(min(max(drawn, 0), top if rng.chance(1, 60) else top - 1))
    halves = rng.below(3)  # of each block, or of all, that cancel but for some products
    if halves and k > 1:
        length = block if block and halves == 1 else k
        for start in range(0, k, length):
            if block and halves == 1 and start // block % 2 == 1 and rng.chance(3, 4):
                continue
            h = length // 2
            a[start + h:start + 2 * h] = [c ^ elem_a.sign_bit for c in a[start:start + h]]
            b[start + h:start + 2 * h] = b[start:start + h]
        for _ in range(rng.below(3)):
            at = rng.below(k)
            b[at] = draw_codes(rng, elem_b, 1, False)[0]
    if not rng.chance(1, 30):  # infinities and NaN now and then only
        a = [c if elem_a.code_to_f32(c) & INF != INF else c & elem_a.sign_bit for c in a]
        b = [c if elem_b.code_to_f32(c) & INF != INF else c & elem_b.sign_bit for c in b]
    tf32 = row.get("tf32", False)
    lanes = CodeLane(elem_a, a, scale, sa, block, tf32), CodeLane(elem_b, b, scale, sb, block, tf32)
    style, first = rng.below(8), sum_of_codes(row, *lanes, 0)
    sign, exponent = SIGN if rng.chance(1, 2) else 0, (first >> 23 & 0xFF) if is_finite(first) else 127
    if style == 0 or tiny and style < 4:
        c = rng.pick([0, 0, 0, SIGN, 1, 0x00400000, 0x00800000])
    elif style == 1:
        c = rng.pick([INF, SIGN | INF, NAN, FLT_MAX, rng.below(1 << 32)])
    elif style < 5 and is_finite(first):
        c = first ^ SIGN ^ (rng.below(8) if rng.chance(1, 2) else 0)
    else:
        spread = rng.pick([3, 12, 40])
        c = min(max(exponent + rng.between(-spread, spread), 0), 254) << 23 | rng.below(1 << 23) | sign
    if half:
        c = half_sum(signed_value(c)) if is_finite(c) else c
    return a, b, sa, sb, c, sum_of_codes(row, *lanes, c)


SUM_KINDS = {  # name: row, A, B, scale, block, K
    "b200_nvf4": ("b200_nvf4", "e2m1", "e2m1", "ue4m3", 16, 64),
    "b200_mxf4": ("b200_mxf4", "e2m1", "e2m1", "e8m0", 32, 64),
    "b200_mxf4_16": ("b200_mxf4", "e2m1", "e2m1", "e8m0", 16, 64),
    "b200_mxf8f6f4": ("b200_f8f6f4", "e4m3", "e4m3", "e8m0", 32, 32),
    "b200_mxf8f6f4_mixed": ("b200_f8f6f4", "e5m2", "e3m2", "e8m0", 32, 32),
    "b200_f8f6f4": ("b200_f8f6f4", "e4m3", "e4m3", None, 0, 32),
    "b200_f8f6f4_e5m2": ("b200_f8f6f4", "e5m2", "e5m2", None, 0, 32),
    "b200_f8f6f4_e2m1": ("b200_f8f6f4", "e2m1", "e2m1", None, 0, 32),
    "b200_f8f6f4_fp6": ("b200_f8f6f4", "e2m3", "e3m2", None, 0, 32),
    "b200_16bit": ("b200_16bit", "bf16", "bf16", None, 0, 16),
    "b200_16bit_fp16": ("b200_16bit", "fp16", "fp16", None, 0, 16),
    "b200_tf32": ("b200_tf32", "fp32", "fp32", None, 0, 8),
    "b200_f16_d": ("b200_f16_d", "e4m3", "e5m2", None, 0, 32),
    "b200_16bit_f16_d": ("b200_16bit_f16_d", "fp16", "fp16", None, 0, 16),
    "hopper_fp8": ("hopper_fp8", "e4m3", "e4m3", None, 0, 64),
    "hopper_fp8_f16_d": ("hopper_fp8_f16_d", "e4m3", "e4m3", None, 0, 32),
    "ampere_tf32": ("ampere_tf32", "fp32", "fp32", None, 0, 4),
    "ampere_16bit": ("ampere_16bit", "bf16", "bf16", None, 0, 16),
    "ada_fp8": ("ada_fp8", "e5m2", "e4m3", None, 0, 32),
}


def half_bits(b):
    """The fp16 code of fp32 bits that hold an fp16 number."""
    if is_nan(b):
        return 0x7FFF
    code = round_to_format(ELEMENTS["fp16"], magnitude_units(b), 1 << 149, "nearest_even") if is_finite(b) else 0x7C00
    return (b >> 16 & 0x8000) | code


def sums(kind, count, seed, out):
    """A dump for `fp4sim verify --probe`: adversarial sums with the words that the oracle gives."""
    name, fa, fb, scale, block, k = SUM_KINDS[kind]
    row, rng = parse_accumulator(name), Rng(seed)
    half = row.get("half", False)
    elems = ELEMENTS[fa], ELEMENTS[fb]
    word = "tf32" if row.get("tf32") else None
    print("probe 1 oracle.py %s" % kind, file=out)
    print("instruction %s a=%s b=%s scale=%s block=%d d=%s" % (kind, word or fa, word or fb, scale or "none", block, "fp16" if half else "fp32"), file=out)
    for _ in range(count):
        a, b, sa, sb, c, d = draw_sum(rng, row, *elems, SCALES[scale] if scale else None, block, k, half)
        text = ["".join("%0*x" % ((e.bits + 3) // 4, v) for v in codes) for e, codes in zip(elems, (a, b))]
        text += ["".join("%02x" % v for v in s) or "-" for s in (sa, sb)]
        text += ["%04x" % half_bits(v) if half else "%08x" % v for v in (c, d)]
        print(" ".join(text), file=out)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("selftest")
    commands.add_parser("golden").add_argument("outdir")
    p = commands.add_parser("sums")
    p.add_argument("kind", choices=SUM_KINDS)
    p.add_argument("--count", type=int, default=1000)
    p.add_argument("--seed", type=int, default=1)
    p = commands.add_parser("check")
    p.add_argument("binary")
    p.add_argument("--cases", type=int, default=500)
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--only", nargs="*", choices=("quantize", "gemm", "hadamard", "random"))
    p.add_argument("--extra", default="", help="words handed to every call, such as `--extra='--backend avx2'`")
    o = parser.parse_args()
    if o.command == "selftest":
        selftest()
    elif o.command == "golden":
        golden(o.outdir)
    elif o.command == "sums":
        sums(o.kind, o.count, o.seed, sys.stdout)
    elif o.command == "check":
        sys.exit(check(o.binary, o.cases, o.seed, o.extra.split(), o.only))


if __name__ == "__main__":
    main()
