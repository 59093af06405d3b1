// The scale codes of the rules that try scales (block.h): two of four_over_six, five of mse. Errors of two are summed
// in fp32 where payloads are quotients that quarters decide; what that leaves in doubt, errors that are no such
// squares, and those of five are summed as the reference does.
#pragma once

#include "src/cpu/quantize/encode_body.h"
#include "src/cpu/simd/lanes.h"

namespace fp4::FP4_ISA {

// Whether payloads are quotients whose nearest e2m1 value follows from a whole number of quarters. Under scales that
// are powers of two every order of operations gives the quotient (PayloadPath::power).
inline bool has_quarters(const QuantPlan& p) {
  const bool exact = p.payload_path == PayloadPath::exact || p.payload_path == PayloadPath::power;
  return p.q.scale_rule == ScaleRule::four_over_six && p.spec.element == Element::e2m1 && exact &&
         p.q.prescale == 1.0f && !is_real(p.spec.scale) && p.q.error == TrialError::mse &&
         p.q.error_order == ErrorOrder::fp64;
}

// Payloads come as 64 + quarters, with 17 binary places. Below 31 an estimate is within 31 * 2^-23 < 0.49 units of the
// last place, and its sum rounds by half a unit: only one that shows a whole number may stand on the wrong side of it.
inline constexpr float quarters_magic = 64.0f;
inline constexpr int32_t quarter_fraction = 0x1FFFF;

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

// Longest block that tries scales.
inline constexpr int largest_trial = 128;

// Two scales of sixteen blocks, and what errors under each are formed by.
struct Trials {
  LaneScales of[2];
  F quarters[2];  // per unit of an element
  F scale[2];     // times the tensor's factor
  F least;        // elements below count as this: zeros must not look like whole numbers
  M zero;
  M rare;  // lanes that the scalar core must redo
  M far;   // lanes out of reach of errors in fp32
};

// The table ends with more than its last boundary; payloads beyond it come from scales near the end of their format.
FP4_SIMD I counted_quarters(F bounded, F factor) {
  return bits(smaller(fma(bounded, factor, all(quarters_magic)), all(quarters_magic + 31.5f)));
}
FP4_SIMD F nearest_quarters(I count) {
  static constexpr QuarterTable table = quarter_table();
  return look_up_32(table.value, shift_right<17>(count));
}

// Squared errors down the lanes, even and odd columns apart: each sum is a chain. `sure` loses lanes with a payload
// that shows a whole number.
FP4_SIMD void sum_errors(const Trials& t, const Block& b, F (&error)[2], M& sure) {
  F sum[4] = {all(0.0f), all(0.0f), all(0.0f), all(0.0f)};
  M clear[4] = {sure, sure, sure, sure};
  for (int k = 0; k < b.n; k += 2) {
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
      const F x = magnitude(load(b.x[k + i / 2]));
      const I count = counted_quarters(larger(x, t.least), t.quarters[i % 2]);
      clear[i] = clear[i] & some_bits(count, quarter_fraction);
      const F rest = negated_fma(nearest_quarters(count), t.scale[i % 2], x);
      sum[i] = fma(rest, rest, sum[i]);
    }
  }
  sure = (clear[0] & clear[1]) & (clear[2] & clear[3]);
  error[0] = sum[0] + sum[2];
  error[1] = sum[1] + sum[3];
}

// Lanes whose elements decode alike under both scales, as 0 and the largest one do wherever one scale is 3/2 of the
// other: sparse gradients are full of them. Their errors are equal, and the first scale stays.
FP4_TARGET __attribute__((noinline)) inline uint32_t alike_lanes(const Trials& t, const Block& b) {
  M different = mask_from_bits(0);
  for (int k = 0; k < b.n; ++k) {
    const F bounded = larger(magnitude(load(b.x[k])), t.least);
    const F first = t.of[0].value * nearest_quarters(counted_quarters(bounded, t.quarters[0]));
    const F second = t.of[1].value * nearest_quarters(counted_quarters(bounded, t.quarters[1]));
    different = different | ~(first == second);
  }
  return to_bits(~different);
}

// How far fp32 sums of n squared errors may be from the reference's, by the sum of both and by the maximum squared. A
// sum and its errors are within (n + 2) 2^-24. With a tensor factor s*g is rounded here while a decoded value rounds
// (q*s)*g, q*s being exact: values differ by d <= 2^-22 amax, sums by 2 d sqrt(n T) + n d^2 <= 2^-17 T + n d^2 2^17.
FP4_SIMD M errors_differ(const QuantPlan& p, int n, F first, F second, F amax) {
  const auto count = static_cast<float>(n);
  const bool rounds = p.has_tensor_factor;
  const F total = first + second;
  const F of_total = total * all((count + 4.0f) * 0x1p-24f + (rounds ? 0x1p-17f : 0.0f));
  const F least = fma(amax * amax, all(rounds ? (count + 2.0f) * 0x1p-26f : 0.0f), of_total);
  return (magnitude(first - second) > least) & (total > all(0x1p-100f)) & (total < all(0x1p80f));
}

// Factors with which fp32 estimates the payloads of a trial, of which `top` is the largest.
FP4_SIMD M is_tame(F top, F factor, F divisor) {
  return (top < all(1000.0f)) & (factor < all(0x1p100f)) & (divisor > all(0x1p-100f));
}

FP4_SIMD void form_trials(const Quantization& z, const Block& b, Trials& t) {
  const QuantPlan& p = *z.plan;
  t.zero = b.amax == all(0);
  t.rare = b.nonfinite;
  t.far = mask_from_bits(0);
  const F a = select(t.zero, all(1.0f), as_float(b.amax));
  if (p.q.error_order != ErrorOrder::fp64)
    t.rare = t.rare | ~(is_ordinary(b.factor.g) & is_ordinary(b.factor.te_multiplier));
  F y = quotients_to_round(p, z.scale, a, b.factor, p.largest_element, 1.0f);
#pragma GCC unroll 2
  for (int i = 0; i < 2; ++i) {
    if (i == 1) {
      y = p.q.arithmetic == Arithmetic::fouroversix
              ? all(1.5f) * y
              : quotients_to_round(p, z.scale, a, b.factor, 2.0f * p.largest_element, 3.0f);
    }
    LaneScales& s = t.of[i];
    if (!nearest_normal_scales(p, z.scale, y, s)) {
      s.code = apply_policies(p, rounded_scale(p, z.scale, y));
      finish_scales(p, z.scale, s);
    }
    t.rare = t.rare | ~is_ordinary(y);
    t.scale[i] = s.value * b.factor.g;
    t.quarters[i] = all(4.0f) / t.scale[i];
    t.far = t.far | ~is_tame(a * t.quarters[i], t.quarters[i], t.scale[i]);
  }
  t.least = all(0x1p-17f) * larger(t.scale[0], t.scale[1]);  // four units of the smaller count
}

// Lanes where fp32 does not tell which error is smaller; else `second` says whether the second one is.
FP4_SIMD M undecided_lanes(const QuantPlan& p, const Trials& t, const Block& b, M& second) {
  M sure = mask_from_bits(0xFFFF);
  F error[2];
  sum_errors(t, b, error, sure);
  second = error[1] < error[0];
  M known = errors_differ(p, b.n, error[0], error[1], as_float(b.amax));
  known = (known & sure & ~t.far) | t.zero | (t.of[0].code == t.of[1].code);
  if (!any(~known)) return ~known;
  const M alike = mask_from_bits(alike_lanes(t, b)) & sure & ~t.far & ~known;
  second = second & ~alike;
  return ~(known | alike);
}

// The sum of the errors of a trial scale with one more, in fp64 (D) or fp32 (F).
template <class Number>
FP4_SIMD Number added_error(TrialError word, Number sum, Number error, Number size) {
  if (word == TrialError::mse) return sum + error * error;
  return word == TrialError::mae ? sum + size : select(sum < size, size, sum);
}

// Whether payloads under both trials are products with a finite factor: they need no buffer then.
FP4_SIMD bool has_finite_factors(const QuantPlan& p, const Trials& t, const Block& b, F (&factor)[2]) {
  if (p.payload_path != PayloadPath::multiply || p.q.prescale != 1.0f) return false;
  factor[0] = rounded_factors(p, t.of[0], b.factor).first;
  factor[1] = rounded_factors(p, t.of[1], b.factor).first;
  return !any(~(larger(factor[0], factor[1]) < all(0x1p127f)));
}

// Lanes where the second trial has the smaller error in fp32, ascending k (block.h, trial_error_in_fp32). Signs drop
// out of errors: they are those of magnitudes. The lanes come as bits: a call returns no F (src/cpu/README.md).
template <ErrorOrder order, bool fused>
FP4_TARGET __attribute__((noinline)) uint32_t second_errs_less(const Quantization& z, const Block& b, const Trials& t,
                                                               const F (&factor)[2]) {
  const QuantPlan& p = *z.plan;
  const F decoded_by = order == ErrorOrder::decoded_amax ? all(p.factor.amax) : b.factor.g;
  const F top = all(p.q.top());
  const NearestValue nearest = nearest_value(z.element);
  const auto count = static_cast<int>(smaller<int64_t>(b.n, p.cols - b.k0));
  alignas(64) float second[fused ? 1 : largest_trial][panel_rows];
  if constexpr (!fused) {
    form_payloads(p, t.of[0], b.factor, b.x, b.n, b.u);
    form_payloads(p, t.of[1], b.factor, b.x, b.n, second);
  }
  F sum[2] = {all(0.0f), all(0.0f)};
  for (int k = 0; k < count; ++k) {
    const F x = magnitude(load(b.x[k]));
    const F aim = order == ErrorOrder::scaled ? x * b.factor.te_multiplier : x;
#pragma GCC unroll 2
    for (int i = 0; i < 2; ++i) {
      const F u = fused ? x * factor[i] : magnitude(load(i == 0 ? b.u[k] : second[k]));
      F value = nearest.of_magnitude(u) * t.of[i].value;
      if (order != ErrorOrder::scaled) value = value * decoded_by;
      if (order == ErrorOrder::decoded_amax) value = value / top;
      const F error = value - aim;
      sum[i] = added_error(p.q.error, sum[i], error, magnitude(error));
    }
  }
  return to_bits(sum[1] < sum[0]);
}

template <ErrorOrder order>
FP4_SIMD M second_errs_less(const Quantization& z, const Block& b, const Trials& t) {
  F factor[2];
  return mask_from_bits(has_finite_factors(*z.plan, t, b, factor) ? second_errs_less<order, true>(z, b, t, factor)
                                                                  : second_errs_less<order, false>(z, b, t, factor));
}

// Errors of a trial scale in fp64, ascending k (block.h, trial_error).
FP4_TARGET __attribute__((noinline)) inline D trial_errors(const Quantization& z, const Block& b, const LaneScales& s) {
  const QuantPlan& p = *z.plan;
  D sum = all_double(0.0);
  form_payloads(p, s, b.factor, b.x, b.n, b.u);
  for (int k = 0; k < b.n && b.k0 + k < p.cols; ++k) {
    const F u = load(b.u[k]);
    const F q = encode_lanes<Rounding::nearest_even>(z.element, u, 8, all(0)).value;
    const F value = as_float(bits(q) | (bits(u) & all(0x80000000u)));
    const D error = widened(load(b.x[k])) - widened(decoded_value(p, value, s.value, b.factor.g));
    sum = added_error(p.q.error, sum, error, select(error < all_double(0.0), all_double(0.0) - error, error));
  }
  return sum;
}

// Lanes where the second trial has the smaller error, as the reference sums it.
FP4_SIMD M second_trial(const Quantization& z, const Block& b, const Trials& t) {
  switch (z.plan->q.error_order) {
    case ErrorOrder::fp64: break;
    case ErrorOrder::decoded_amax: return second_errs_less<ErrorOrder::decoded_amax>(z, b, t);
    case ErrorOrder::decoded_factor: return second_errs_less<ErrorOrder::decoded_factor>(z, b, t);
    case ErrorOrder::scaled: return second_errs_less<ErrorOrder::scaled>(z, b, t);
  }
  return trial_errors(z, b, t.of[1]) < trial_errors(z, b, t.of[0]);
}

// mse: the amax code or one of its four neighbours, of those that the format has the first with the least error.
FP4_TARGET __attribute__((noinline)) inline void choose_neighbours(const Quantization& z, Block& b) {
  const QuantPlan& p = *z.plan;
  const M zero = b.amax == all(0);
  const F y =
      quotients_to_round(p, z.scale, select(zero, all(1.0f), as_float(b.amax)), b.factor, p.largest_element, 1.0f);
  const I middle = rounded_scale(p, z.scale, y);
  I best = middle;
  D least = all_double(-1.0);
  for (const int offset : {0, -1, 1, -2, 2}) {
    const I code = middle + all(offset);
    b.scales.code = apply_policies(p, code);
    finish_scales(p, z.scale, b.scales);
    const D error = trial_errors(z, b, b.scales);
    const M is_code = (code > all(p.q.scale.has_zero ? 0 : -1)) & ~(code > all(z.scale.largest_code));
    const M is_less = is_code & ((least < all_double(0.0)) | (error < least));
    best = select(is_less, code, best);
    least = select(is_less, error, least);
  }
  b.scales.code = select(zero, all(p.zero_block_code), apply_policies(p, best));
  finish_scales(p, z.scale, b.scales);
  b.scales.rare = (b.nonfinite | ~((y < all(0x1p120f)) & (y > all(0x1p-100f)))) & ~zero;
}

// The scales of `count` times sixteen blocks whose maxima are known. All trials come first: they are long chains.
FP4_TARGET __attribute__((noinline)) inline void choose_by_errors(const Quantization& z, Block* blocks, int count) {
  const QuantPlan& p = *z.plan;
  if (p.q.scale_rule == ScaleRule::mse) {
    for (int i = 0; i < count; ++i) choose_neighbours(z, blocks[i]);
    return;
  }
  Trials trials[most_blocks];
  const bool quarters = has_quarters(p);
  for (int i = 0; i < count; ++i) form_trials(z, blocks[i], trials[i]);
  for (int i = 0; i < count; ++i) {
    const Trials& t = trials[i];
    Block& b = blocks[i];
    M second = mask_from_bits(0);
    const M open = quarters ? undecided_lanes(p, t, b, second) : ~t.zero;
    if (any(open)) second = second_trial(z, b, t);
    b.scales.code = select(second, t.of[1].code, t.of[0].code);
    b.scales.value = select(second, t.of[1].value, t.of[0].value);
    b.scales.stored = select(second, t.of[1].stored, t.of[0].stored);
    b.scales.rare = t.rare & ~t.zero;
    if (!any(t.zero)) continue;
    b.scales.code = select(t.zero, all(p.zero_block_code), b.scales.code);
    finish_scales(p, z.scale, b.scales);
  }
}

}  // namespace fp4::FP4_ISA
