// Encoding and decoding of any format, sixteen lanes at a time, equal to codec.h and rounding.h. A payload comes as a
// float that is exact or rounded to odd (24 bits, the last one set when anything was cut): every decision below
// compares it with numbers of at most 21 bits, for which such a float stands on the same side as the exact value.
#pragma once

#include "fp4/codec.h"
#include "fp4/rounding.h"
#include "src/cpu/simd/lanes.h"

namespace fp4::FP4_ISA {

struct FormatLanes {
  int mantissa_bits = 1;
  int least_field = 127;  // biased exponent of the smallest normal value
  bool has_zero = true;
  int32_t largest_code = 7;
  float largest_value = 6.0f;
  bool is_bf16 = false;  // shares fp32's exponent range: rounded on the bit pattern
  bool is_fp32 = false;
  bool overflows = false;  // to infinity, the code after the largest
};

inline FormatLanes format_lanes(const FloatFormat& f) {
  FormatLanes l;
  l.mantissa_bits = f.mantissa_bits;
  l.least_field = f.min_exponent() + 127;
  l.has_zero = f.has_zero;
  l.largest_code = static_cast<int32_t>(f.largest_code);
  l.largest_value = decode(f, f.largest_code);
  l.is_fp32 = f.mantissa_bits == 23;
  l.overflows = f.overflows;
  l.is_bf16 = f.exponent_bits == 8 && f.mantissa_bits == 7;
  return l;
}

// Whether a payload moves up, given its fraction d (exact, or odd), the code below, and the sign bit of the payload.
template <Rounding mode>
FP4_SIMD M moves_up(F d, I low_code, I sign_source, int n_bits, I draw) {
  const F half = all(0.5f);
  const F zero = all(0.0f);
  if (mode == Rounding::nearest_even) return (d > half) | ((d == half) & is_odd(low_code));
  if (mode == Rounding::nearest_away) return d >= half;
  if (mode == Rounding::nearest_toward_zero) return d > half;
  if (mode == Rounding::toward_zero) return d > all(2.0f);
  if (mode == Rounding::away_from_zero) return d > zero;
  if (mode == Rounding::toward_positive) return (d > zero) & (sign_source >= all(0));
  if (mode == Rounding::toward_negative) return (d > zero) & (sign_source < all(0));
  const F t = d * as_float(all((127 + n_bits) << 23));
  I whole;
  if (mode == Rounding::stochastic) {
    whole = rounded_unsigned(t);
  } else {
    whole = truncated_unsigned(t);
    if (mode == Rounding::stochastic_midpoint) whole = add_where(t - unsigned_to_float(whole) >= half, whole, all(1));
  }
  if (n_bits == 32) return less_unsigned(whole + draw, whole);  // a carry out of 32 bits
  return (whole + draw) >= all(1 << n_bits);
}

// The largest magnitude code that a payload may get: infinity where the format overflows and the mode does not keep the
// payload's magnitude from growing (code_beyond of codec.h).
template <Rounding mode>
FP4_SIMD I largest_code_of(const FormatLanes& f, I sign_source) {
  const I largest = all(f.largest_code);
  if (!f.overflows || mode == Rounding::toward_zero) return largest;
  const I infinity = all(f.largest_code + 1);
  if (mode == Rounding::toward_positive) return select(sign_source < all(0), largest, infinity);
  if (mode == Rounding::toward_negative) return select(sign_source < all(0), infinity, largest);
  return infinity;
}

struct EncodedLanes {
  I code;  // magnitude code
  F value;
};

// u: signed payload, |u| <= 2^20 or so for element formats, finite for scale formats.
template <Rounding mode>
FP4_SIMD EncodedLanes encode_lanes(const FormatLanes& f, F u, int n_bits, I draw) {
  const I a = bits(u) & all(0x7FFFFFFF);
  if (f.is_fp32) return {a, as_float(a)};
  if (f.is_bf16) {
    const I low = shift_right<16>(a);
    const F d = to_float(a & all(0xFFFF)) * all(0x1p-16f);
    const M up = moves_up<mode>(d, low, bits(u), n_bits, draw);
    const I code = smaller(add_where(up, low, all(1)), largest_code_of<mode>(f, bits(u)));
    return {code, as_float(shift_left<16>(code))};
  }
  const int m = f.mantissa_bits;
  const I binade = larger(a & all(0x7F800000), all(f.least_field << 23));
  const F per_step = as_float(all(static_cast<uint32_t>(254 + m) << 23) - binade);
  const F z = as_float(a) * per_step;
  const I whole = truncated(z);
  F d = z - to_float(whole);
  I low = shift_left(shift_right<23>(binade) - all(f.least_field), m) + whole;
  if (!f.has_zero) {  // code 0 is the smallest power of two, and nothing below it rounds
    const M below = a < all(f.least_field << 23);
    low = select(below, all(0), low - all(1 << m));
    d = select(below, all(0.0f), d);
  }
  const M up = moves_up<mode>(d, low, bits(u), n_bits, draw);
  const F step = as_float(binade - all(m << 23));
  const I code = smaller(add_where(up, low, all(1)), largest_code_of<mode>(f, bits(u)));
  const F value = smaller(to_float(add_where(up, whole, all(1))) * step, all(f.largest_value));
  return {code, f.overflows ? select(code > all(f.largest_code), as_float(all(0x7F800000)), value) : value};
}

// Values of scale codes (finite), as decode() gives them.
FP4_SIMD F decode_scale_lanes(const FormatLanes& f, I code) {
  const int m = f.mantissa_bits;
  if (!f.has_zero) return as_float(larger(shift_left<23>(code), all(0x00400000)));  // e8m0
  const F normal = as_float(shift_left(code, 23 - m) + all((f.least_field - 1) << 23));
  const F subnormal = to_float(code) * as_float(all((f.least_field - m) << 23));
  return select(code < all(1 << m), subnormal, normal);
}

// A double to a float rounded to odd.
FP4_SIMD F narrowed_to_odd(D x) {
  const F cut = narrowed_toward_zero(x);
  return as_float(or_where(widened(cut) != x, bits(cut), all(1)));
}

// n/d rounded to odd in fp64; n and d have at most 50 and 48 bits, so the remainder is exact.
FP4_SIMD D odd_quotient(D n, D d) {
  const D q = n / d;
  const D rest = fma(all_double(0.0) - q, d, n);
  const D zero = all_double(0.0);
  return made_odd(nudged(q, rest, q * rest < zero), rest != zero);
}

}  // namespace fp4::FP4_ISA
