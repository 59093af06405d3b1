// mse for sixteen blocks in lanes: squared errors of all five trial scales in fp32, as run_trials_avx512.h forms those
// of two, and the scale of the least. Where fp32 cannot tell, the blocks are `rare`.
#pragma once

#include "src/fast/panel_trials_avx512.h"

namespace fp4::avx512 {

inline constexpr int error_trials = 5;
inline constexpr int trial_offsets[error_trials] = {0, -1, 1, -2, 2};  // in the order of block.h, which keeps the first

struct ErrorTrials {
  I code[error_trials];
  M possible[error_trials];
  F quarters[error_trials];  // per unit of an element
  F scale[error_trials];
  F least;  // elements below count as this
  M rare;
  bool large = false;  // some payload may leave the table
};

struct TrialSums {
  F of[error_trials];
};

template <bool large>
FP4_SIMD TrialSums sums_of_errors(const ErrorTrials& t, Columns x, int n, __mmask16& sure) {
  static constexpr QuarterTable table = quarter_table();
  const __m512 low = _mm512_load_ps(table.value);
  const __m512 high = _mm512_load_ps(table.value + 16);
  TrialSums sum;
  for (F& s : sum.of) s = all(0.0f);
  __mmask16 clear[error_trials] = {sure, sure, sure, sure, sure};  // each is a chain
  for (int k = 0; k < n; ++k) {
    const F magnitude = magnitude_at(x[k]);
    const F bounded = larger(magnitude, t.least);
#pragma GCC unroll 5
    for (int i = 0; i < error_trials; ++i) {
      const I count = counted_quarters<large>(bounded, t.quarters[i]);
      clear[i] = _mm512_mask_test_epi32_mask(clear[i], count.v, _mm512_set1_epi32(quarter_fraction));
      const F value = {_mm512_permutex2var_ps(low, shift_right<17>(count).v, high)};
      const F error = negated_fma(value, t.scale[i], magnitude);
      sum.of[i] = fma(error, error, sum.of[i]);
    }
  }
  for (const __mmask16 c : clear) sure = static_cast<__mmask16>(sure & c);
  return sum;
}

FP4_TARGET __attribute__((noinline)) inline bool has_trial_boundary(const ErrorTrials& t, Columns x, int n) {
  M found = mask_from_bits(0);
  for (int k = 0; k < n; ++k) {
    const F bounded = larger(magnitude_at(x[k]), t.least);
    for (const F& quarters : t.quarters) found = found | boundaries(counted_quarters<true>(bounded, quarters));
  }
  return any(found);
}

// Codes around `raw`, the one of the maximum.
FP4_SIMD void form_error_trials(const Quantization& z, const LaneFactor& t, I raw, F amax, ErrorTrials& out) {
  const QuantPlan& p = *z.plan;
  out.least = all(0.0f);
#pragma GCC unroll 5
  for (int i = 0; i < error_trials; ++i) {
    const I code = raw + all(trial_offsets[i]);
    out.possible[i] = (code >= all(p.q.scale.has_zero ? 1 : 0)) & ~(code > all(z.scale.largest_code)) & ~out.rare;
    LaneScales s;
    s.code = apply_policies(p, select(out.possible[i], code, all(1)));
    finish_scales(p, z.scale, s);
    const F divisor = s.value * t.g;
    const F factor = all(4.0f) / divisor;
    const M tame = (amax * factor < all(1000.0f)) & (factor < all(0x1p100f)) & (divisor > all(0x1p-100f));
    out.rare = out.rare | (out.possible[i] & ~tame);
    out.large = out.large || any(~(amax * factor < all(31.9f)));
    out.code[i] = s.code;
    out.quarters[i] = factor;
    out.scale[i] = divisor;
    out.least = larger(out.least, divisor);
  }
  out.least = out.least * all(0x1p-17f);  // four units of the smallest count
}

// Sixteen blocks of n finite elements, whose maxima are known.
FP4_TARGET __attribute__((noinline)) inline LaneScales scales_of_least_error(const Quantization& z, const LaneFactor& t,
                                                                             I maxima, Columns x, int n) {
  const QuantPlan& p = *z.plan;
  const M zero = maxima == all(0);
  const F amax = select(zero, all(1.0f), as_float(maxima));
  const F y = quotients_to_round(p, z.scale, amax, t, p.largest_element, 1.0f);
  ErrorTrials trials;
  trials.rare = ~is_ordinary(y) | zero;
  form_error_trials(z, t, rounded_scale(p, z.scale, y, all(0)), amax, trials);
  __mmask16 sure = 0xFFFF;
  TrialSums sum = trials.large ? sums_of_errors<true>(trials, x, n, sure) : sums_of_errors<false>(trials, x, n, sure);
  const bool in_doubt = sure != 0xFFFF && has_trial_boundary(trials, x, n);
  LaneScales best;
  best.rare = trials.rare | ~trials.possible[0] | mask_from_bits(in_doubt ? 0xFFFF : 0);
  best.code = trials.code[0];
  F least = sum.of[0];
  for (int i = 1; i < error_trials; ++i) {
    const M better = trials.possible[i] & (sum.of[i] < least);
    best.code = select(better, trials.code[i], best.code);
    least = select(better, sum.of[i], least);
  }
  for (int i = 0; i < error_trials; ++i) {
    const M other = trials.possible[i] & ~(trials.code[i] == best.code);
    best.rare = best.rare | (other & ~errors_differ(least, sum.of[i], amax));
  }
  best.rare = best.rare & ~zero;
  best.code = select(zero, all(p.zero_block_code), best.code);
  finish_scales(p, z.scale, best);
  return best;
}

}  // namespace fp4::avx512
