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
  alignas(64) float quarters[error_trials][panel_rows];  // as in Trials
  alignas(64) float scale[error_trials][panel_rows];
  alignas(64) float value[error_trials][panel_rows];  // of the scale, but for the tensor's factor
  alignas(64) float least[panel_rows];
  M rare;
  bool large = false;  // some payload may leave the table
};

struct TrialSums {
  F of[error_trials];
};

template <bool large>
FP4_SIMD TrialSums sums_of_errors(const ErrorTrials& t, Columns x, int n, __mmask16& sure) {
  const QuarterLookup nearest = quarter_lookup();
  const F least = load(t.least);
  F quarters[error_trials];
  F scale[error_trials];
  TrialSums sum;
  for (int i = 0; i < error_trials; ++i) {
    quarters[i] = load(t.quarters[i]);
    scale[i] = load(t.scale[i]);
    sum.of[i] = all(0.0f);
  }
  __mmask16 clear[error_trials] = {sure, sure, sure, sure, sure};  // each is a chain
  for (int k = 0; k < n; ++k) {
    const F magnitude = magnitude_at(x[k]);
    const F bounded = larger(magnitude, least);
#pragma GCC unroll 5
    for (int i = 0; i < error_trials; ++i) {
      add_error<large>(nearest, magnitude, bounded, quarters[i], scale[i], clear[i], sum.of[i]);
    }
  }
  for (const __mmask16 c : clear) sure = static_cast<__mmask16>(sure & c);
  return sum;
}

// Codes around `raw`, the one of the maximum.
FP4_SIMD void form_error_trials(const Quantization& z, const LaneFactor& t, I raw, F amax, ErrorTrials& out) {
  const QuantPlan& p = *z.plan;
  F largest_divisor = all(0.0f);
#pragma GCC unroll 5
  for (int i = 0; i < error_trials; ++i) {
    const I code = raw + all(trial_offsets[i]);
    out.possible[i] = (code >= all(p.q.scale.has_zero ? 1 : 0)) & ~(code > all(z.scale.largest_code)) & ~out.rare;
    LaneScales s;
    s.code = apply_policies(p, select(out.possible[i], code, all(1)));
    finish_scales(p, z.scale, s);
    const F divisor = s.value * t.g;
    const F factor = all(4.0f) / divisor;
    out.rare = out.rare | (out.possible[i] & ~is_tame(amax * factor, factor, divisor));
    out.large = out.large || any(~(amax * factor < all(31.9f)));
    out.code[i] = s.code;
    store(out.quarters[i], factor);
    store(out.scale[i], divisor);
    store(out.value[i], s.value);
    largest_divisor = larger(largest_divisor, divisor);
  }
  store(out.least, largest_divisor * all(0x1p-17f));  // four units of the smallest count
}

// The trial of least error by fp32, and of the others those whose errors may be as small.
struct LeastError {
  I trial;
  M close[error_trials];
};
FP4_SIMD LeastError least_error(const ErrorBound& bound, const ErrorTrials& t, const TrialSums& sum, F amax) {
  LeastError e = {all(0), {}};
  F least = sum.of[0];
  I code = t.code[0];
#pragma GCC unroll 4
  for (int i = 1; i < error_trials; ++i) {
    const M better = t.possible[i] & (sum.of[i] < least);
    e.trial = select(better, all(i), e.trial);
    least = select(better, sum.of[i], least);
    code = select(better, t.code[i], code);
  }
#pragma GCC unroll 5
  for (int i = 0; i < error_trials; ++i) {
    e.close[i] = t.possible[i] & ~(t.code[i] == code) & ~errors_differ(bound, least, sum.of[i], amax);
  }
  return e;
}

// Trials that decode all elements alike err alike, and the first of them stays: of scales twice or 3/2 as large that is
// common. Other close ones are `rare`.
FP4_TARGET __attribute__((noinline)) inline void settle_close(const ErrorTrials& t, Columns x, int n, LeastError& e,
                                                              M& rare) {
  LaneTrial least;
  store(least.quarters, load(t.quarters[0]));
  store(least.value, load(t.value[0]));
  for (int i = 1; i < error_trials; ++i) {
    const M it = e.trial == all(i);
    store(least.quarters, load(t.quarters[i]), it);
    store(least.value, load(t.value[i]), it);
  }
  I first = e.trial;
  for (int i = 0; i < error_trials; ++i) {
    if (!any(e.close[i] & ~rare)) continue;
    LaneTrial other;
    store(other.quarters, load(t.quarters[i]));
    store(other.value, load(t.value[i]));
    const M alike = mask_from_bits(alike_lanes(least, other, t.least, x, n));
    rare = rare | (e.close[i] & ~alike);
    first = select(e.close[i] & alike, smaller(first, all(i)), first);
  }
  e.trial = first;
}

// Sixteen blocks of n finite elements, whose maxima are known.
FP4_TARGET __attribute__((noinline)) inline LaneScales scales_of_least_error(const Quantization& z, const LaneFactor& t,
                                                                             const I& maxima, Columns x, int n) {
  const QuantPlan& p = *z.plan;
  const M zero = maxima == all(0);
  const F amax = select(zero, all(1.0f), as_float(maxima));
  const F y = quotients_to_round(p, z.scale, amax, t, p.largest_element, 1.0f);
  ErrorTrials trials;
  trials.rare = ~is_ordinary(y) | zero;
  form_error_trials(z, t, rounded_scale(p, z.scale, y, all(0)), amax, trials);
  __mmask16 sure = 0xFFFF;
  TrialSums sum = trials.large ? sums_of_errors<true>(trials, x, n, sure) : sums_of_errors<false>(trials, x, n, sure);
  const bool in_doubt = sure != 0xFFFF && has_column_boundary(trials.quarters, trials.least, x, n);
  LeastError e = least_error(error_bound(p, n), trials, sum, amax);
  M close = mask_from_bits(0);
  for (const M& c : e.close) close = close | c;
  LaneScales best;
  best.rare = trials.rare | ~trials.possible[0] | mask_from_bits(in_doubt ? 0xFFFF : 0);
  if (any(close & ~best.rare)) settle_close(trials, x, n, e, best.rare);
  best.code = trials.code[0];
#pragma GCC unroll 4
  for (int i = 1; i < error_trials; ++i) best.code = select(e.trial == all(i), trials.code[i], best.code);
  best.rare = best.rare & ~zero;
  best.code = select(zero, all(p.zero_block_code), best.code);
  finish_scales(p, z.scale, best);
  return best;
}

}  // namespace fp4::avx512
