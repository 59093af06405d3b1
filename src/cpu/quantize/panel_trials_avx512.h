// four_over_six for sixteen blocks of a panel (run_trials_avx512.h).
#pragma once

#include "src/cpu/quantize/run_trials_avx512.h"

namespace fp4::avx512 {

// Squared errors down the lanes, even and odd columns apart: each sum is a chain.
template <bool large>
FP4_SIMD TrialErrors column_errors(const Trials& t, Columns x, int n, __mmask16& sure) {
  const QuarterLookup nearest = quarter_lookup();
  const F least = load(t.least);
  const F quarters[2] = {load(t.quarters[0]), load(t.quarters[1])};
  const F scale[2] = {load(t.scale[0]), load(t.scale[1])};
  F sum[4] = {all(0.0f), all(0.0f), all(0.0f), all(0.0f)};
  __mmask16 clear[4] = {sure, sure, sure, sure};
  for (int k = 0; k < n; k += 2) {
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
      const F magnitude = magnitude_at(x[k + i / 2]);
      const F bounded = larger(magnitude, least);
      add_error<large>(nearest, magnitude, bounded, quarters[i % 2], scale[i % 2], clear[i], sum[i]);
    }
  }
  sure = static_cast<__mmask16>(clear[0] & clear[1] & clear[2] & clear[3]);
  return {{sum[0] + sum[2], sum[1] + sum[3]}};
}

// has_boundary for blocks in lanes and any number of trials.
template <int trials>
FP4_TARGET __attribute__((noinline)) bool has_column_boundary(const float (&quarters)[trials][panel_rows],
                                                              const float (&least)[panel_rows], Columns x, int n) {
  M found = mask_from_bits(0);
  for (int k = 0; k < n; ++k) {
    const F bounded = larger(magnitude_at(x[k]), load(least));
    for (const auto& factors : quarters) found = found | boundaries(counted_quarters<true>(bounded, load(factors)));
  }
  return any(found);
}

// A trial of sixteen blocks in lanes: what payloads in quarters come by, and the scale but for the tensor's factor.
struct alignas(64) LaneTrial {
  float quarters[panel_rows];
  float value[panel_rows];
};

// Blocks whose elements decode alike in both trials.
FP4_TARGET __attribute__((noinline)) inline uint32_t alike_lanes(const LaneTrial& a, const LaneTrial& b,
                                                                 const float (&least)[panel_rows], Columns x, int n) {
  M different = mask_from_bits(0);
  for (int k = 0; k < n; ++k) {
    const F bounded = larger(magnitude_at(x[k]), load(least));
    const F first = trial_value(bounded, load(a.quarters), load(a.value));
    const F second = trial_value(bounded, load(b.quarters), load(b.value));
    different = different | ~(first == second);
  }
  return to_bits(~different);
}

FP4_SIMD LaneTrial lane_trial(const TrialScales& s, int i) {
  LaneTrial t;
  store(t.quarters, load(s.trials.quarters[i]));
  store(t.value, s.of[i].value);
  return t;
}

// Up to eight times sixteen blocks of n columns, along the rows or down the columns from x on. As in runs all trials
// come first.
inline constexpr int most_trials = 8;
template <bool by_rows>
FP4_TARGET __attribute__((noinline)) void choose_panel_scales(const Quantization& z, const LaneFactor& t, int count,
                                                              const uint32_t (*maxima)[panel_rows], Columns x, int n,
                                                              LaneScales* out) {
  TrialScales s[most_trials];
  for (int i = 0; i < count; ++i) form_trials(z, t, load(maxima[i]), s[i]);
  for (int i = 0; i < count; ++i) {
    if constexpr (by_rows) {
      const float* first = x.first + i * n;
      out[i] = n == 16 ? chosen_scales<1>(z, s[i], first, x.stride) : chosen_scales<2>(z, s[i], first, x.stride);
    } else {
      __mmask16 sure = 0xFFFF;
      const TrialErrors e = s[i].large ? column_errors<true>(s[i].trials, x + i * n, n, sure)
                                       : column_errors<false>(s[i].trials, x + i * n, n, sure);
      const bool in_doubt =
          sure != 0xFFFF && has_column_boundary(s[i].trials.quarters, s[i].trials.least, x + i * n, n);
      out[i] = better_scales(z, s[i], e, n, in_doubt);
      if (!any(out[i].rare) || in_doubt) continue;
      const LaneTrial first = lane_trial(s[i], 0);
      const LaneTrial second = lane_trial(s[i], 1);
      settle_alike(s[i], alike_lanes(first, second, s[i].trials.least, x + i * n, n), out[i]);
    }
  }
}

}  // namespace fp4::avx512
