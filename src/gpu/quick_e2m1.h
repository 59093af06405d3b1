// The e2m1 code of an element in about a dozen fp32 operations instead of exact rational arithmetic, or no answer: the
// caller then asks fp4::element_code. u approximates |payload|; `exact` says that it is the payload (power-of-two
// scale, no tensor scale, no prescale), else it is within 2^-20 relative and a payload that near a decision gets no
// answer.
//   |u|   0    .5    1    1.5    2      3      4           6
//   code  0    1     2     3     4      5      6           7     step .5 below 2, 1 below 4, 2 below 6
#pragma once

#include "fp4/rounding.h"

namespace fp4::gpu {

inline constexpr uint32_t no_answer = 0xFFFFFFFFu;

FP4_HD inline float fp32_floor(float x) { return static_cast<float>(static_cast<int>(x)); }  // 0 <= x < 2^31
// 1.5*2^23 leaves the nearest integer, ties to even, in the low bits; |x| < 2^22.
FP4_HD inline float fp32_nearest_even(float x) { return (x + 12582912.0f) - 12582912.0f; }

struct Decision {
  bool up = false;
  bool is_sure = true;
};

// t = d*2^n against the draw r, as rounding.h does with integers; n <= 16, so that t < 2^17 has whole bits to spare.
FP4_HD inline Decision stochastic_decision(Rounding mode, int random_bits, float d, float band, bool exact,
                                           uint32_t r) {
  const float range = static_cast<float>(1u << random_bits);
  const float t = d * range;  // exact: a power of two
  const float needed = range - static_cast<float>(r);
  const float threshold = mode == Rounding::stochastic_truncated ? needed : needed - 0.5f;
  const float margin = band * range;
  if (!exact && (t > threshold ? t - threshold : threshold - t) <= margin) return {false, false};
  float steps = fp32_floor(t);
  if (mode == Rounding::stochastic) steps = fp32_nearest_even(t);
  // t + 1/2 itself can round: 1/2 - 2^-26 would become 1.
  if (mode == Rounding::stochastic_midpoint && t - steps >= 0.5f) steps = steps + 1.0f;
  return {steps >= needed, true};
}

// Magnitude code, or no_answer. `draw()` gives r and is called for stochastic modes only.
template <class Draw>
FP4_HD inline uint32_t quick_e2m1(Rounding mode, int random_bits, float u, bool exact, bool negative,
                                  const Draw& draw) {
  constexpr float relative_band = 0x1p-20f;
  if (!(u >= 0x1p-100f) || (is_stochastic(mode) && random_bits > 16)) return no_answer;
  if (u >= 6.0f) return exact || u > 6.0f + 6.0f * relative_band ? 7u : no_answer;
  const bool high = u >= 4.0f;
  const bool low = u < 2.0f;
  const float v = u * (low ? 2.0f : (high ? 0.5f : 1.0f));  // steps of the grid, exact
  const float whole = fp32_floor(v);
  const float d = v - whole;  // exact
  const uint32_t code = static_cast<uint32_t>(static_cast<int>(whole)) + (low ? 0u : (high ? 4u : 2u));
  const float band = v * relative_band;
  const bool near_edge = d <= band || d >= 1.0f - band;
  const auto is_one_of = [mode](auto... known) { return ((mode == known) || ...); };
  Decision decision = {false, false};  // of a mode that is not named here
  if (is_one_of(Rounding::nearest_even, Rounding::nearest_away, Rounding::nearest_toward_zero)) {
    // A payload just across a grid point rounds to that point from both sides, so only the middle is in doubt.
    const float from_half = d - 0.5f;
    decision.is_sure = exact || magnitude(from_half) > band;
    decision.up =
        from_half > 0.0f ||
        (from_half == 0.0f && (mode == Rounding::nearest_away || (mode == Rounding::nearest_even && (code & 1) != 0)));
  } else if (is_one_of(Rounding::stochastic, Rounding::stochastic_midpoint, Rounding::stochastic_truncated)) {
    if (!exact && near_edge) return no_answer;
    decision = stochastic_decision(mode, random_bits, d, band, exact, draw());
  } else if (is_one_of(Rounding::toward_zero, Rounding::away_from_zero, Rounding::toward_positive,
                       Rounding::toward_negative)) {
    const bool away = mode == Rounding::away_from_zero || (mode == Rounding::toward_positive && !negative) ||
                      (mode == Rounding::toward_negative && negative);
    decision = {away && d > 0.0f, exact || !near_edge};
  }
  return decision.is_sure ? code + (decision.up ? 1u : 0u) : no_answer;
}

}  // namespace fp4::gpu
