// four_over_six along the row: both trial scales of sixteen blocks, squared errors in fp32, and the better scale of
// each. Where fp32 cannot tell, the blocks are `rare` (block_scales_body.h has the bounds).
#pragma once

#include "src/cpu/quantize/run_scales_avx512.h"

namespace fp4::avx512 {

// Payloads come as 64 + quarters, with 17 binary places. Below 31 an estimate is within 31 * 2^-23 < 0.49 units of the
// last place, and its sum rounds by half a unit: only one that shows a whole number may stand on the wrong side of it.
inline constexpr float quarters_magic = 64.0f;
inline constexpr int32_t quarter_fraction = 0x1FFFF;
inline constexpr uint32_t boundary_quarters = 1u << 1 | 1u << 3 | 1u << 5 | 1u << 7 | 1u << 10 | 1u << 14 | 1u << 20;

struct Trials {
  alignas(64) float quarters[2][panel_rows];  // per unit of an element
  alignas(64) float scale[2][panel_rows];
  alignas(64) float least[panel_rows];  // elements below count as this: zeros must not look like whole numbers
};

// The nearest e2m1 value of a whole number of quarters and a bit more.
struct QuarterTable {
  alignas(64) float value[32];
};
constexpr QuarterTable quarter_table() {
  QuarterTable t = {};
  constexpr int bounds[] = {1, 3, 5, 7, 10, 14, 20};
  constexpr float values[] = {0.0f, 0.5f, 1.0f, 1.5f, 2.0f, 3.0f, 4.0f, 6.0f};
  for (int i = 0; i < 32; ++i) {
    int above = 0;
    while (above < 7 && i >= bounds[above]) ++above;
    t.value[i] = values[above];
  }
  return t;
}

FP4_SIMD F magnitude_at(const float* x) { return as_float(bits(load(x)) & all(0x7FFFFFFF)); }
// `large`: some payload may leave the table, which ends with more than its last boundary.
template <bool large>
FP4_SIMD I counted_quarters(F bounded, F factor) {
  const F count = fma(bounded, factor, all(quarters_magic));
  return bits(large ? smaller(count, all(quarters_magic + 31.5f)) : count);
}

FP4_SIMD M boundaries(I count) {
  return no_bits(count, quarter_fraction) &
         is_odd(shift_right(all(boundary_quarters), shift_right<17>(count) & all(31)));
}

// The table in registers.
struct QuarterLookup {
  __m512 low, high;
  FP4_SIMD F operator()(I count) const { return {_mm512_permutex2var_ps(low, shift_right<17>(count).v, high)}; }
};
FP4_SIMD QuarterLookup quarter_lookup() {
  static constexpr QuarterTable table = quarter_table();
  return {_mm512_load_ps(table.value), _mm512_load_ps(table.value + 16)};
}

// Adds the squared error of sixteen magnitudes under one scale; `sure` loses those whose payload shows a whole number.
template <bool large>
FP4_SIMD void add_error(const QuarterLookup& nearest, F magnitude, F bounded, F quarters, F scale, __mmask16& sure,
                        F& sum) {
  const I count = counted_quarters<large>(bounded, quarters);
  sure = _mm512_mask_test_epi32_mask(sure, count.v, _mm512_set1_epi32(quarter_fraction));
  const F error = negated_fma(nearest(count), scale, magnitude);
  sum = fma(error, error, sum);
}

// Whether a payload that may be a whole number of quarters may be a boundary. Blocks are `stride` elements apart.
template <int width>
FP4_TARGET __attribute__((noinline)) bool has_boundary(const Trials& t, const float* x, int64_t stride) {
  M found = mask_from_bits(0);
  for (int v = 0; v < panel_rows * width; ++v) {
    const int block = v / width;
    const F bounded = larger(magnitude_at(x + block * stride + v % width * panel_rows), all(t.least[block]));
    for (const auto& factors : t.quarters)
      found = found | boundaries(counted_quarters<true>(bounded, all(factors[block])));
  }
  return any(found);
}

template <int d>
FP4_SIMD F folded_sums(F a, F b) {
  const F own = select(mask_from_bits(d == 1 ? 0xAAAA : (d == 2 ? 0xCCCC : (d == 4 ? 0xF0F0 : 0xFF00))), b, a);
  static constexpr FoldOrder order = fold_order(d);
  return own + F{_mm512_permutex2var_ps(a.v, _mm512_load_si512(order.lane), b.v)};
}

struct TrialErrors {
  F sum[2];
};

template <bool large, int width, int d>
FP4_SIMD TrialErrors run_errors(const Trials& t, const float* x, int64_t stride, int first, __mmask16& sure) {
  TrialErrors e;
  if constexpr (d == panel_rows) {
    const QuarterLookup nearest = quarter_lookup();
    e = {{all(0.0f), all(0.0f)}};
#pragma GCC unroll 2
    for (int i = 0; i < width; ++i) {
      const F magnitude = magnitude_at(x + first * stride + i * panel_rows);
      const F bounded = larger(magnitude, broadcast(&t.least[first]));
#pragma GCC unroll 2
      for (int trial = 0; trial < 2; ++trial) {
        add_error<large>(nearest, magnitude, bounded, broadcast(&t.quarters[trial][first]),
                         broadcast(&t.scale[trial][first]), sure, e.sum[trial]);
      }
    }
  } else {
    const TrialErrors a = run_errors<large, width, 2 * d>(t, x, stride, first, sure);
    const TrialErrors b = run_errors<large, width, 2 * d>(t, x, stride, first + d, sure);
    e.sum[0] = folded_sums<d>(a.sum[0], b.sum[0]);
    e.sum[1] = folded_sums<d>(a.sum[1], b.sum[1]);
  }
  return e;
}

// Both scales of a run's blocks.
struct TrialScales {
  I amax;
  LaneScales of[2];
  Trials trials;
  M zero;
  M rare;
  bool large = false;  // scales near the end of their format may lie far below the quotient
};

// What the errors are formed by; `out` has the maxima, the scales and what is rare already.
FP4_SIMD void set_trial_factors(const LaneFactor& t, TrialScales& out) {
  const F a = select(out.zero, all(1.0f), as_float(out.amax));
#pragma GCC unroll 2
  for (int i = 0; i < 2; ++i) {
    const F divisor = out.of[i].value * t.g;
    const F factor = all(4.0f) / divisor;
    out.rare = out.rare | ~is_tame(a * factor, factor, divisor);
    out.large = out.large || any(~(a * factor < all(31.0f)));
    store(out.trials.quarters[i], factor);
    store(out.trials.scale[i], divisor);
  }
  // Four units of the smaller count.
  store(out.trials.least, all(0x1p-17f) * larger(load(out.trials.scale[0]), load(out.trials.scale[1])));
}

FP4_SIMD void form_trials(const Quantization& z, const LaneFactor& t, I amax, TrialScales& out) {
  const QuantPlan& p = *z.plan;
  out.amax = amax;
  out.zero = amax == all(0);
  const F a = select(out.zero, all(1.0f), as_float(amax));
  out.rare = amax >= all(0x7F800000);
#pragma GCC unroll 2
  for (int i = 0; i < 2; ++i) {
    const F y = i == 0 ? quotients_to_round(p, z.scale, a, t, p.largest_element, 1.0f)
                       : quotients_to_round(p, z.scale, a, t, 2.0f * p.largest_element, 3.0f);
    LaneScales& s = out.of[i];
    if (!nearest_normal_scales(p, z.scale, y, s)) {
      s.code = apply_policies(p, rounded_scale(p, z.scale, y, all(0)));
      finish_scales(p, z.scale, s);
    }
    out.rare = out.rare | ~is_ordinary(y);
  }
  set_trial_factors(t, out);
}

// How far fp32 sums of n squared errors may be from the reference's, by the sum of both and by the maximum squared. A
// sum and its errors are within (n + 2) 2^-24. With a tensor factor s*g is rounded here while a decoded value rounds
// (q*s)*g, q*s being exact: values differ by d <= 2^-22 amax, sums by 2 d sqrt(n T) + n d^2 <= 2^-17 T + n d^2 2^17.
struct ErrorBound {
  float of_total;
  float of_amax2;
};
inline ErrorBound error_bound(const QuantPlan& p, int n) {
  const auto count = static_cast<float>(n);
  const bool rounds = p.has_tensor_factor;
  return {(count + 4.0f) * 0x1p-24f + (rounds ? 0x1p-17f : 0.0f), rounds ? (count + 2.0f) * 0x1p-26f : 0.0f};
}

FP4_SIMD M errors_differ(const ErrorBound& bound, F first, F second, F amax) {
  const F total = first + second;
  const F difference = as_float(bits(first - second) & all(0x7FFFFFFF));
  const F least = fma(amax * amax, all(bound.of_amax2), total * all(bound.of_total));
  return (difference > least) & (total > all(0x1p-100f)) & (total < all(0x1p80f));
}

FP4_SIMD LaneScales better_scales(const Quantization& z, const TrialScales& s, const TrialErrors& e, int n,
                                  bool in_doubt) {
  const QuantPlan& p = *z.plan;
  const M sure = mask_from_bits(in_doubt ? 0 : 0xFFFF);
  const M same = s.of[0].code == s.of[1].code;  // far below the tensor's maximum: there is nothing to choose
  const M decided = errors_differ(error_bound(p, n), e.sum[0], e.sum[1], as_float(s.amax));
  LaneScales best;
  const M second = e.sum[1] < e.sum[0];
  best.code = select(second, s.of[1].code, s.of[0].code);
  best.value = select(second, s.of[1].value, s.of[0].value);
  best.stored = select(second, s.of[1].stored, s.of[0].stored);
  if (any(s.zero)) {
    best.code = select(s.zero, all(p.zero_block_code), best.code);
    finish_scales(p, z.scale, best);
  }
  best.rare = (s.rare | ~((sure & decided) | same)) & ~s.zero;
  return best;
}

// The decoded value of a magnitude under one of two scales, but for the tensor's factor.
FP4_SIMD F trial_value(F bounded, F quarters, F scale) {
  return scale * quarter_lookup()(counted_quarters<true>(bounded, quarters));
}

// Blocks whose elements decode alike under both scales, as 0 and the largest one do wherever one scale is 3/2 of the
// other: sparse gradients are full of them.
template <int width>
FP4_TARGET __attribute__((noinline)) uint32_t alike_blocks(const TrialScales& s, const float* x, int64_t stride) {
  alignas(64) float scale[2][panel_rows];
  store(scale[0], s.of[0].value);
  store(scale[1], s.of[1].value);
  uint32_t different = 0;
  for (int v = 0; v < panel_rows * width; ++v) {
    const int block = v / width;
    const F bounded = larger(magnitude_at(x + block * stride + v % width * panel_rows), all(s.trials.least[block]));
    const F first = trial_value(bounded, all(s.trials.quarters[0][block]), all(scale[0][block]));
    const F second = trial_value(bounded, all(s.trials.quarters[1][block]), all(scale[1][block]));
    if (any(~(first == second))) different |= 1u << block;
  }
  return ~different & 0xFFFFu;
}

// The errors of such blocks are equal, and the first scale stays.
FP4_SIMD void settle_alike(const TrialScales& s, uint32_t alike, LaneScales& best) {
  const M tied = mask_from_bits(alike) & best.rare & ~s.rare;
  best.code = select(tied, s.of[0].code, best.code);
  best.value = select(tied, s.of[0].value, best.value);
  best.stored = select(tied, s.of[0].stored, best.stored);
  best.rare = best.rare & ~tied;
}

template <int width>
FP4_SIMD LaneScales chosen_scales(const Quantization& z, const TrialScales& s, const float* x, int64_t stride) {
  __mmask16 sure = 0xFFFF;
  const TrialErrors e = s.large ? run_errors<true, width, 1>(s.trials, x, stride, 0, sure)
                                : run_errors<false, width, 1>(s.trials, x, stride, 0, sure);
  const bool in_doubt = sure != 0xFFFF && has_boundary<width>(s.trials, x, stride);
  LaneScales best = better_scales(z, s, e, width * panel_rows, in_doubt);
  if (any(best.rare) && !in_doubt) settle_alike(s, alike_blocks<width>(s, x, stride), best);
  return best;
}

// The scales of 512 elements whose maxima are known. The trials of all runs come first: they are long chains.
template <int width>
FP4_TARGET __attribute__((noinline)) void choose_run_scales(const Quantization& z, const LaneFactor& t,
                                                            const uint32_t (*maxima)[panel_rows], const float* x,
                                                            LaneScales* out) {
  constexpr int count = 2 / width;
  TrialScales s[count];
  for (int i = 0; i < count; ++i) form_trials(z, t, load(maxima[i]), s[i]);
  for (int i = 0; i < count; ++i) out[i] = chosen_scales<width>(z, s[i], x + i * 256, width * panel_rows);
}

}  // namespace fp4::avx512
