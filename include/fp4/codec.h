// Encode and decode between values and codes, for every format row. Encoding takes an exact magnitude (a float
// or an exact quotient), so there is one rounding, to the code. Finite values saturate first, so that they never become
// infinity or NaN (OCP MX 1.0 section 5.3, saturating conversion), but in formats that overflow as IEEE 754 does.
#pragma once

#include "fp4/float_format.h"
#include "fp4/rounding.h"

namespace fp4 {

// How to round: the mode, and for stochastic modes the width and value of the random draw.
struct RoundingDraw {
  Rounding mode = Rounding::nearest_even;
  int random_bits = 8;
  uint32_t random = 0;
};

// Magnitude code of x on the format's grid extended upward without end (largest_code + 1 follows largest_code).
// Formats without zero clamp to code 0 below their smallest value.
FP4_HD constexpr uint64_t round_to_grid(const FloatFormat& f, Magnitude x, bool negative, RoundingDraw how) {
  if (x.is_zero()) return 0;
  const int exponent = x.log2_floor();
  if (!f.has_zero && exponent < f.min_exponent()) return 0;
  const int binade = larger(exponent, f.min_exponent());
  const GridPosition p = position_on_grid(x, binade - f.mantissa_bits);
  uint64_t code = (static_cast<uint64_t>(binade - f.min_exponent()) << f.mantissa_bits) + p.whole;
  if (!f.has_zero) code -= uint64_t{1} << f.mantissa_bits;
  return code + (rounds_up(how.mode, p.rest, (code & 1) != 0, negative, how.random_bits, how.random) ? 1 : 0);
}

// The nearest fp64 number or a neighbour; for a user's own rounding.
inline double approximate(Magnitude x) { return __builtin_ldexp(static_cast<double>(x.significand), x.exponent); }

// Code of x on a grid (element_grid.h): of its magnitude in signed grids, whole in lists of both signs. lo <= |x| < hi
// are neighbours on x's side of zero, as whole numbers of steps, so that d is exact; beyond the last value is the last.
FP4_HD constexpr uint32_t encode_on_grid(const ElementGrid& g, Magnitude x, bool negative, RoundingDraw how) {
  if (x.is_zero()) return g.zero_code;
#if !FP4_DEVICE_CODE
  if (g.calls != nullptr && g.calls->round != nullptr)
    return g.calls->round(*g.calls, negative ? -approximate(x) : approximate(x), how.random);
#endif
  const int side = !g.is_signed && negative ? 1 : 0;
  const uint16_t* codes = g.by_magnitude[side];
  const auto steps_at = [&](int i) {
    const int64_t steps = g.steps[codes[i]];
    return static_cast<uint64_t>(steps < 0 ? -steps : steps);
  };
  const int last = g.count[side] - 1;
  if (x.log2_floor() - g.quantum_log2 > ElementGrid::most_steps_log2) return codes[last];
  const GridPosition p = position_on_grid(x, g.quantum_log2);
  if (p.whole >= steps_at(last)) return codes[last];
  int low = 0;
  for (int high = last; high - low > 1;) {
    const int middle = (low + high) / 2;
    (steps_at(middle) <= p.whole ? low : high) = middle;
  }
  [[maybe_unused]] const uint64_t gap = steps_at(low + 1) - steps_at(low);
  [[maybe_unused]] const uint64_t offset = p.whole - steps_at(low);  // (offset + rest)/gap, offset < gap < 2^31
#if FP4_DEVICE_CODE
  const Fraction d = {};
#else
  if (how.mode == Rounding::nearest_below) {
    const double middle =
        static_cast<double>((magnitude(g.value[codes[low]]) + magnitude(g.value[codes[low + 1]])) / 2);
    return codes[negative ? approximate(x) < middle ? low : low + 1 : approximate(x) > middle ? low + 1 : low];
  }
  const uint128 numerator = static_cast<uint128>(offset) << 64 | p.rest.bits;
  const Fraction d = {static_cast<uint64_t>(numerator / gap), p.rest.sticky || numerator % gap != 0};
  const bool is_tie = d.bits == uint64_t{1} << 63 && !d.sticky;
  if (is_tie && how.mode == Rounding::nearest_toward_zero && codes[low + 1] == g.tie_code) return codes[low + 1];
#endif
  const bool up = rounds_up(how.mode, d, (codes[low] & 1) != 0, negative, how.random_bits, how.random);
  return codes[up ? low + 1 : low];
}

// Magnitude code of a finite |x| beyond the binade of the largest value. A format that overflows keeps its largest
// value only under the modes that round x toward zero (IEEE 754, 7.4): 10^6 to fp16 is infinity, toward zero 65504.
FP4_HD constexpr uint32_t code_beyond(const FloatFormat& f, bool negative, Rounding mode) {
  const bool toward_zero = mode == Rounding::toward_zero || (mode == Rounding::toward_positive && negative) ||
                           (mode == Rounding::toward_negative && !negative);
  return f.overflows && !toward_zero ? f.infinity_code() : f.largest_code;
}

// Magnitude code of a finite x. |x| >= the largest value gives the largest code whatever the mode, or, in a format that
// overflows, goes on to the infinity that follows it: 65520 to fp16 is infinity, 65519 is 65504.
FP4_HD constexpr uint32_t encode(const FloatFormat& f, Magnitude x, bool negative, RoundingDraw how) {
  if (f.is_grid()) return encode_on_grid(*f.grid, x, negative, how);
  if (x.is_zero()) return 0;
  if (x.log2_floor() > f.max_exponent()) return code_beyond(f, negative, how.mode);
  const auto code = static_cast<uint32_t>(round_to_grid(f, x, negative, how));
  return f.overflows || code <= f.largest_code ? code : f.largest_code;
}

// One IEEE fp32 rounding (nearest even or toward zero) of an exact magnitude; overflow gives infinity, or the
// largest float when rounding toward zero.
FP4_HD constexpr float round_to_float(Magnitude x, bool negative, Rounding mode) {
  constexpr FloatFormat fp32 = {8, 23, 127, true, true, true, float_largest_bits, canonical_nan_bits};
  uint32_t bits = float_infinity_bits;
  if (x.is_zero()) {
    bits = 0;
  } else if (x.log2_floor() <= 127) {
    bits = static_cast<uint32_t>(round_to_grid(fp32, x, negative, {mode, 0, 0}));
  }
  if (bits == float_infinity_bits && mode == Rounding::toward_zero) bits = float_largest_bits;
  return float_of(bits | (negative ? float_sign_bit : 0u));
}

// Value of any code as float32; exact for every format. NaN codes give the canonical NaN.
FP4_HD constexpr float decode(const FloatFormat& f, uint32_t code) {
  if (f.is_grid()) return f.grid->value[code & (f.sign_code() | f.magnitude_mask())];
  if (f.is_nan_code(code)) return float_of(canonical_nan_bits);
  const bool negative = (code & f.sign_code()) != 0;
  const uint32_t magnitude_code = code & f.magnitude_mask();
  if (!f.is_finite_code(code)) return float_of(float_infinity_bits | (negative ? float_sign_bit : 0u));
  return round_to_float(f.value(magnitude_code), negative, Rounding::toward_zero);
}

// Element value as an integer multiple of 2^f.quantum_log2(); finite codes of formats up to 16 bits without
// a bf16-like exponent range (the formats that carry block scales).
FP4_HD constexpr int64_t decode_fixed(const FloatFormat& f, uint32_t code) {
  if (f.is_grid()) return f.grid->steps[code & (f.sign_code() | f.magnitude_mask())];
  const Magnitude m = f.value(code & f.magnitude_mask());
  const int64_t v = static_cast<int64_t>(m.significand << (m.exponent - f.quantum_log2()));
  return (code & f.sign_code()) != 0 ? -v : v;
}

// Code of 1.0.
FP4_HD constexpr uint32_t code_of_one(const FloatFormat& f) { return encode(f, {1, 0, false}, false, {}); }

}  // namespace fp4
