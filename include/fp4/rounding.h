// The only function that drops bits. A payload u lies between neighbouring codes lo <= |u| < hi;
// d = (|u| - lo)/(hi - lo) is exact, and each mode is one predicate on d, on the parity of lo's code, on the
// sign and, for stochastic modes, on an n-bit random draw r. Sources: OCP MX 1.0 (nearest_even), IEEE 754
// directions, Croci et al. 2022 (stochastic rounding), published FP4 recipes named in the rows. Hardware adds n random
// bits to the discarded ones and keeps the carry, which is `stochastic_truncated`; `stochastic` differs from it where
// the bits after the n-th round t up, in 1 of 512 codes at n = 8.
#pragma once

#include "fp4/axis.h"
#include "fp4/bits.h"

namespace fp4 {

enum class Rounding : uint8_t {
  nearest_even,
  nearest_away,
  nearest_toward_zero,
  toward_zero,
  away_from_zero,
  toward_positive,
  toward_negative,
  stochastic,
  stochastic_midpoint,
  stochastic_truncated,
  nearest_toward_positive,
  odd,
  stochastic_odd,
  nearest_below
};

struct RoundingInfo {
  Rounding id;
  const char* name;
  const char* doc;
  const char* source;
  bool is_stochastic;  // draws `random_bits` bits per element: the cost model prices them
};

inline constexpr RoundingInfo rounding_table[] = {
    {Rounding::nearest_even, "nearest_even", "nearest, ties to the even code", "OCP MX 1.0", false},
    {Rounding::nearest_away, "nearest_away", "nearest, ties away from zero", "FBGEMM MX4, QPyTorch", false},
    {Rounding::nearest_toward_zero, "nearest_toward_zero", "nearest, ties toward zero", "ggml MXFP4, Quartet", false},
    {Rounding::toward_zero, "toward_zero", "truncate the magnitude", "IEEE 754", false},
    {Rounding::away_from_zero, "away_from_zero", "up in magnitude unless exact", "IEEE 754 (family)", false},
    {Rounding::toward_positive, "toward_positive", "toward plus infinity", "IEEE 754", false},
    {Rounding::toward_negative, "toward_negative", "toward minus infinity", "IEEE 754", false},
    {Rounding::stochastic, "stochastic", "up when rne(d*2^n) + r >= 2^n", "2504.20634, gfloat Stochastic", true},
    {Rounding::stochastic_midpoint, "stochastic_midpoint", "up when floor(d*2^n + 1/2) + r >= 2^n", "2609.02846", true},
    {Rounding::stochastic_truncated, "stochastic_truncated",
     "up when floor(d*2^n) + r >= 2^n (biased low): the carry out of random + discarded bits",
     "PTX cvt.rs, AMD v_cvt_scalef32_sr, gfloat StochasticFastest", true},
    {Rounding::nearest_toward_positive, "nearest_toward_positive", "nearest, ties toward plus infinity", "Quartet II",
     false},
    {Rounding::odd, "odd", "to the odd code unless exact", "gfloat ToOdd", false},
    {Rounding::stochastic_odd, "stochastic_odd", "as stochastic, ties of d*2^n to odd", "gfloat StochasticOdd", true},
    {Rounding::nearest_below, "nearest_below", "nearest, ties down; of lists by fp32 middles", "bitsandbytes", false},
};
static_assert(ids_are_indices(rounding_table));

FP4_HD constexpr bool is_stochastic(Rounding mode) {
  switch (mode) {
    case Rounding::nearest_even:
    case Rounding::nearest_away:
    case Rounding::nearest_toward_zero:
    case Rounding::toward_zero:
    case Rounding::away_from_zero:
    case Rounding::toward_positive:
    case Rounding::toward_negative:
    case Rounding::nearest_toward_positive:
    case Rounding::odd:
    case Rounding::nearest_below: return false;
    case Rounding::stochastic:
    case Rounding::stochastic_midpoint:
    case Rounding::stochastic_truncated:
    case Rounding::stochastic_odd: return true;
  }
  return false;
}
static_assert(rows_agree(rounding_table, [](const RoundingInfo& r) { return r.is_stochastic == is_stochastic(r.id); }));

// How a magnitude lies on a grid of step 2^unit_log2: whole steps and the exact rest as a 64-bit binary fraction.
struct Fraction {
  uint64_t bits = 0;    // floor(rest * 2^64)
  bool sticky = false;  // something non-zero below those 64 bits
};
struct GridPosition {
  uint64_t whole = 0;
  Fraction rest;
};

FP4_HD constexpr GridPosition position_on_grid(Magnitude x, int unit_log2) {
  const int shift = unit_log2 - x.exponent;
  // 2^64 steps and more: such numbers lie on every grid asked for here, only the empty rest is read
  if (shift <= -64) return {~uint64_t{0}, {0, x.sticky}};
  if (shift <= 0) return {x.significand << -shift, {0, x.sticky}};
  if (shift < 64) return {x.significand >> shift, {x.significand << (64 - shift), x.sticky}};
  if (shift == 64) return {0, {x.significand, x.sticky}};
  if (shift < 128) {
    const int down = shift - 64;
    return {0, {x.significand >> down, x.sticky || (x.significand << (64 - down)) != 0}};
  }
  return {0, {0, !x.is_zero()}};
}

// t = d * 2^n split into its whole part and what follows; n in {4, 8, 16, 32}.
//   d.bits  | n whole bits of t | 64-n bits after the point | sticky
FP4_HD constexpr bool stochastic_rounds_up(Rounding mode, int random_bits, Fraction d, uint32_t r) {
  const uint64_t floor_t = d.bits >> (64 - random_bits);
  const uint64_t after_point = d.bits << random_bits;
  constexpr uint64_t half = uint64_t{1} << 63;
  uint64_t t = floor_t;
  if (mode == Rounding::stochastic || mode == Rounding::stochastic_odd) {
    const bool above_half = after_point > half || (after_point == half && d.sticky);
    const bool tie = after_point == half && !d.sticky;
    const bool is_odd = (floor_t & 1) != 0;
    if (above_half || (tie && is_odd == (mode == Rounding::stochastic))) ++t;
  } else if (mode == Rounding::stochastic_midpoint) {
    if (after_point >= half) ++t;
  }
  return t + r >= (uint64_t{1} << random_bits);
}

// Whether |u| moves up to the larger neighbour. `r` is read by stochastic modes only: r in [0, 2^random_bits).
FP4_HD constexpr bool rounds_up(Rounding mode, Fraction d, bool low_code_is_odd, bool negative, int random_bits,
                                uint32_t r) {
  constexpr uint64_t half = uint64_t{1} << 63;
  const bool above_half = d.bits > half || (d.bits == half && d.sticky);
  const bool tie = d.bits == half && !d.sticky;
  const bool inexact = d.bits != 0 || d.sticky;
  switch (mode) {
    case Rounding::nearest_even: return above_half || (tie && low_code_is_odd);
    case Rounding::nearest_away: return above_half || tie;
    case Rounding::nearest_toward_zero: return above_half;
    case Rounding::toward_zero: return false;
    case Rounding::away_from_zero: return inexact;
    case Rounding::toward_positive: return inexact && !negative;
    case Rounding::toward_negative: return inexact && negative;
    case Rounding::stochastic:
    case Rounding::stochastic_midpoint:
    case Rounding::stochastic_truncated:
    case Rounding::stochastic_odd: return inexact && stochastic_rounds_up(mode, random_bits, d, r);
    case Rounding::nearest_toward_positive: return above_half || (tie && !negative);
    case Rounding::odd: return inexact && !low_code_is_odd;
    case Rounding::nearest_below: return above_half || (tie && negative);
  }
  return false;
}

}  // namespace fp4
