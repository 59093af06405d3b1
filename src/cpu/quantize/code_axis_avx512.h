// Codes of any format in any rounding by one sum.
#pragma once

#include "src/cpu/quantize/format_lanes_body.h"
#include "src/cpu/simd/avx512.h"

namespace fp4::avx512 {

// Magnitude codes by one sum: a power of two whose last place is a fraction 2^-extra of the payload's grid step leaves
// the payload in such fractions, rounded in the direction of the instruction. What is then added decides:
//   nearest_even               to nearest, 0 extra bits
//   nearest_away               toward zero, 1, plus 1          nearest_toward_zero       up, 1
//   toward_zero                toward zero, 0                  away_from_zero            up, 0
//   toward_positive, _negative up or toward zero by the sign
//   stochastic                 to nearest, n, plus the draw    stochastic_truncated      toward zero, n, plus the draw
//   stochastic_midpoint        toward zero, n + 1, plus twice the draw and 1
struct CodeAxis {
  int extra = 0;
  int to_code = 22;  // shift of an exponent field to the codes of its binade
  I largest;         // bits of the largest value
  I least;           // and of the smallest normal one
  I to_unit;         // from a binade to the power that is added
};

constexpr int extra_bits(Rounding mode, int n_bits) {
  switch (mode) {
    case Rounding::nearest_away:
    case Rounding::nearest_toward_zero: return 1;
    case Rounding::stochastic:
    case Rounding::stochastic_truncated: return n_bits;
    case Rounding::stochastic_midpoint: return n_bits + 1;
    case Rounding::nearest_even:
    case Rounding::toward_zero:
    case Rounding::away_from_zero:
    case Rounding::toward_positive:
    case Rounding::toward_negative: break;
  }
  return 0;
}

// Payloads are rounded to odd: two of their 24 bits must lie below the last one that counts. bf16 leaves fp32 no room
// for larger powers.
inline bool has_code_axis(const FormatLanes& f, Rounding mode, int n_bits) {
  return f.has_zero && !f.overflows && f.mantissa_bits + extra_bits(mode, n_bits) <= 21;
}

FP4_SIMD CodeAxis code_axis_of(const FormatLanes& f, int extra) {
  CodeAxis c;
  c.extra = extra;
  c.to_code = 23 - f.mantissa_bits;
  c.largest = bits(all(f.largest_value));
  c.least = all(f.least_field << 23);
  c.to_unit = all((23 - f.mantissa_bits - extra) * (1 << 23));
  return c;
}

FP4_SIMD F sum_toward_zero(F a, F b) { return {_mm512_add_round_ps(a.v, b.v, _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC)}; }
FP4_SIMD F sum_up(F a, F b) { return {_mm512_add_round_ps(a.v, b.v, _MM_FROUND_TO_POS_INF | _MM_FROUND_NO_EXC)}; }

template <Rounding mode>
FP4_SIMD F directed_sum(F a, F b, M negative) {
  switch (mode) {
    case Rounding::nearest_even:
    case Rounding::stochastic: return a + b;
    case Rounding::nearest_toward_zero:
    case Rounding::away_from_zero: return sum_up(a, b);
    case Rounding::toward_positive: return select(negative, sum_toward_zero(a, b), sum_up(a, b));
    case Rounding::toward_negative: return select(negative, sum_up(a, b), sum_toward_zero(a, b));
    case Rounding::nearest_away:
    case Rounding::toward_zero:
    case Rounding::stochastic_midpoint:
    case Rounding::stochastic_truncated: break;
  }
  return sum_toward_zero(a, b);
}

template <Rounding mode>
FP4_SIMD I axis_code(const CodeAxis& c, F payload, I draw) {
  const I a = smaller(bits(payload) & all(0x7FFFFFFF), c.largest);
  const I binade = larger(a & all(0x7F800000), c.least);
  const I unit = binade + c.to_unit;
  const I below = shift_right(binade - c.least, c.to_code);  // codes before those of the binade's steps
  const M negative = bits(payload) < all(0);
  if constexpr (!is_stochastic(mode) && extra_bits(mode, 0) == 0) {  // ties go by the whole code's last bit
    return bits(directed_sum<mode>(as_float(a), as_float(unit + below), negative)) - unit;
  } else {
    I steps = bits(directed_sum<mode>(as_float(a), as_float(unit), negative)) - unit;
    if (mode == Rounding::stochastic_midpoint) steps = steps + draw + draw + all(1);
    if (mode == Rounding::nearest_away) steps = steps + all(1);
    if (mode == Rounding::stochastic || mode == Rounding::stochastic_truncated) steps = steps + draw;
    return shift_right(steps, c.extra) + below;
  }
}

}  // namespace fp4::avx512
