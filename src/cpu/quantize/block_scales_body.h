// Scales of sixteen blocks at a time: maxima, trials (four_over_six, mse), variances (quest_*); lanes that vector code
// cannot decide go through the scalar core (block.h).
#pragma once

#include "src/cpu/quantize/blocks_body.h"
#include "src/cpu/simd/lanes.h"

namespace fp4::FP4_ISA {

// Bits of the largest magnitudes, infinities and NaN among them.
FP4_SIMD I all_maxima(const Block& b) {
  I m0 = all(0);
  I m1 = all(0);
  const I mask = all(0x7FFFFFFF);
  for (int k = 0; k < b.n; k += 2) {
    m0 = larger_unsigned(m0, bits(load(b.x[k])) & mask);
    m1 = larger_unsigned(m1, bits(load(b.x[k + 1])) & mask);
  }
  return larger_unsigned(m0, m1);
}

// Largest finite magnitudes of n columns.
FP4_SIMD I finite_maxima(Columns x, int n) {
  I m = all(0);
  for (int k = 0; k < n; ++k) {
    const I a = bits(load(x[k])) & all(0x7FFFFFFF);
    m = larger(m, select(a >= all(0x7F800000), all(0), a));
  }
  return m;
}

FP4_SIMD void find_maxima(Block& b) {
  b.amax = all_maxima(b);
  b.nonfinite = b.amax >= all(0x7F800000);
  if (any(b.nonfinite)) b.amax = finite_maxima(b.x, b.n);
}

// Blocks whose scale becomes NaN: their codes are 0.
FP4_SIMD void poison_blocks(const QuantPlan& p, Block& b, LaneBuffer scratch) {
  if (!any(b.nonfinite) || p.q.nonfinite != Nonfinite::block_nan || !p.q.scale.has_nan()) return;
  b.scales.code = select(b.nonfinite, all(p.q.scale.nan_code), b.scales.code);
  b.scales.value = select(b.nonfinite, as_float(all(canonical_nan_bits)), b.scales.value);
  b.scales.stored = select(b.nonfinite, all(1.0f), b.scales.stored);
  b.scales.rare = b.scales.rare & ~b.nonfinite;
  for (int k = 0; k < b.n; ++k) store(scratch[k], select(b.nonfinite, all(0.0f), load(b.x[k])));
  b.x = scratch;
  b.nonfinite = mask_from_bits(0);
}

// Decoded value fl32(fl32(q*s/p)*g).
FP4_SIMD F decoded_value(const QuantPlan& p, F value, F scale, F g) {
  if (p.q.prescale == 1.0f) return value * scale * g;
  const D product = widened(value) * widened(scale);  // 28 bits at most with 24-bit scales: exact
  return narrowed(product / all_double(static_cast<double>(p.q.prescale))) * g;
}

// Factors with which fp32 estimates the payloads of a trial, of which `top` is the largest.
FP4_SIMD M is_tame(F top, F factor, F divisor) {
  return (top < all(1000.0f)) & (factor < all(0x1p100f)) & (divisor > all(0x1p-100f));
}

// Nearest-even e2m1 values of the payloads of a trial, when fp32 can tell: in the `te` order the fp32 product is the
// payload; in the exact order an estimate within 2^-22 decides unless it lies near a multiple of 1/4, where all
// rounding boundaries are. The step of the binade, at least 1/2, is the unit of 2^(e+22), so adding that rounds. false:
// it cannot.
FP4_TARGET inline bool quick_trial(const Quantization& z, const Block& b, const LaneScales& s, int valid,
                                   LaneBuffer out) {
  const QuantPlan& p = *z.plan;
  const bool exact = p.payload_path == PayloadPath::exact;
  const bool te = p.payload_path == PayloadPath::multiply && p.q.arithmetic == Arithmetic::te && p.q.prescale == 1.0f;
  if (p.spec.element != Element::e2m1 || !(exact || te)) return false;
  const F divisor = s.value * b.factor.g;
  const F factor = te ? smaller(all(1.0f) / divisor, all(float_of(float_largest_bits))) : all(p.q.prescale) / divisor;
  if (any(~is_tame(as_float(b.amax) * factor, factor, divisor))) return false;
  M unsure = mask_from_bits(0);
  for (int k = 0; k < valid; ++k) {
    const I x = bits(load(b.x[k]));
    const F a = smaller(as_float(x & all(0x7FFFFFFF)) * factor, all(15.0f));
    if (exact) {
      const I shifted = bits(fma(a, all(4.0f), all(384.0f))) + all(2);  // units of 2^-15 of a quarter
      unsure = unsure | (no_bits(shifted, 0x7FFC) & some_bits(shifted, 0x3F8000));
    }
    const F unit = as_float(larger(bits(a) & all(0x7F800000), all(0x3F800000)) + all(22 << 23));
    const F rounded = smaller((a + unit) - unit, all(6.0f));
    store(out[k], as_float(bits(rounded) | (x & all(0x80000000u))));
  }
  return !any(unsure);
}

// Squared error of a trial scale, fp64, ascending k (block.h, trial_error).
FP4_TARGET inline D trial_errors(const Quantization& z, const Block& b, const LaneScales& s) {
  const QuantPlan& p = *z.plan;
  D sum = all_double(0.0);
  const int valid = static_cast<int>(p.cols - b.k0 < b.n ? p.cols - b.k0 : b.n);
  if (!quick_trial(z, b, s, valid, b.u)) {
    form_payloads(p, s, b.factor, b.x, b.n, b.u);
    for (int k = 0; k < valid; ++k) {
      const F u = load(b.u[k]);
      const F q = encode_lanes<Rounding::nearest_even>(z.element, u, 8, all(0)).value;
      store(b.u[k], as_float(bits(q) | (bits(u) & all(0x80000000u))));
    }
  }
  for (int k = 0; k < valid; ++k) {
    const D error = widened(load(b.x[k])) - widened(decoded_value(p, load(b.u[k]), s.value, b.factor.g));
    sum = sum + error * error;
  }
  return sum;
}

// Lanes where the second scale has the smaller squared error, from sums in fp32. Each is within (n + 3) 2^-24 < 2^-17
// of the exact sum, so sums that differ by 2^-15 of their total have the order of the fp64 sums of trial_errors;
// magnitudes serve, as a nearest rounding is odd. false: some lane is undecided or a trial needs more than fp32
// (quick_trial).
FP4_TARGET inline bool quick_choice(const Quantization& z, const Block& b, const LaneScales (&trial)[2], M& second) {
  const QuantPlan& p = *z.plan;
  if (p.spec.element != Element::e2m1 || p.payload_path != PayloadPath::exact || p.q.prescale != 1.0f) return false;
  const int valid = static_cast<int>(p.cols - b.k0 < b.n ? p.cols - b.k0 : b.n);
  const M zero = b.amax == all(0);
  F factor[2];
  for (int i = 0; i < 2; ++i) {
    const F divisor = trial[i].value * b.factor.g;
    factor[i] = all(1.0f) / divisor;
    if (any(~is_tame(as_float(b.amax) * factor[i], factor[i], divisor))) return false;
  }
  M unsure = mask_from_bits(0);
  F sum[2] = {all(0.0f), all(0.0f)};
  for (int k = 0; k < valid; ++k) {
    const F x = as_float(bits(load(b.x[k])) & all(0x7FFFFFFF));
    for (int i = 0; i < 2; ++i) {
      const F a = smaller(x * factor[i], all(15.0f));
      const I shifted = bits(fma(a, all(4.0f), all(384.0f))) + all(2);  // as in quick_trial
      unsure = unsure | (no_bits(shifted, 0x7FFC) & some_bits(shifted, 0x3F8000));
      const F unit = as_float(larger(bits(a) & all(0x7F800000), all(0x3F800000)) + all(22 << 23));
      const F rounded = smaller((a + unit) - unit, all(6.0f));
      const F error = x - rounded * trial[i].value * b.factor.g;
      sum[i] = fma(error, error, sum[i]);
    }
  }
  const F total = sum[0] + sum[1];
  const F difference = as_float(bits(sum[0] - sum[1]) & all(0x7FFFFFFF));
  const M decided = (difference > total * all(0x1p-15f)) & (total > all(0x1p-100f)) & (total < all(0x1p100f));
  second = sum[1] < sum[0];
  return !any((unsure | ~decided) & ~(zero | (trial[0].code == trial[1].code)));
}

// four_over_six and mse: the code of least error, in the order of block.h.
FP4_TARGET inline void try_scales(const Quantization& z, Block& b, I draw) {
  const QuantPlan& p = *z.plan;
  const bool four_over_six = p.q.scale_rule == ScaleRule::four_over_six;
  const F amax = select(b.amax == all(0), all(1.0f), as_float(b.amax));
  const F y = quotients_to_round(p, z.scale, amax, b.factor, p.largest_element, 1.0f);
  const I raw = rounded_scale(p, z.scale, y, draw);
  const M zero = b.amax == all(0);
  M rare = ~is_ordinary(y);
  LaneScales best;
  best.code = raw;
  int trials = 5;
  if (four_over_six) {
    const F y4 = quotients_to_round(p, z.scale, amax, b.factor, 2.0f * p.largest_element, 3.0f);
    rare = rare | ~is_ordinary(y4);
    const I code4 = rounded_scale(p, z.scale, y4, draw);
    LaneScales trial[2];
    trial[0].code = apply_policies(p, raw);
    trial[1].code = apply_policies(p, code4);
    for (LaneScales& t : trial) finish_scales(p, z.scale, t);
    M four = mask_from_bits(0);
    if (!quick_choice(z, b, trial, four)) four = trial_errors(z, b, trial[1]) < trial_errors(z, b, trial[0]);
    best.code = select(four, code4, raw);
    trials = 0;
  }
  D least = all_double(0.0);
  constexpr int offsets[] = {0, -1, 1, -2, 2};
  for (int i = 0; i < trials; ++i) {
    const I code = raw + all(offsets[i]);
    const M possible = (code >= all(p.q.scale.has_zero ? 1 : 0)) & ~(code > all(z.scale.largest_code));
    LaneScales trial;
    trial.code = apply_policies(p, select(possible, code, all(1)));
    finish_scales(p, z.scale, trial);
    const D error = trial_errors(z, b, trial);
    const M better = i == 0 ? possible : possible & ((error < least) | ~best.rare);
    if (i == 0) best.rare = possible;  // here: lanes that have an error to compare with
    if (i > 0) best.rare = best.rare | possible;
    best.code = select(better, code, best.code);
    least = select(better, error, least);
  }
  best.code = select(zero, all(p.zero_block_code), apply_policies(p, best.code));
  best.rare = (rare & ~zero) | b.nonfinite;
  finish_scales(p, z.scale, best);
  b.scales = best;
}

// quest_*: fp64 sums of x/g and its square over the block, then quest_exponent (scale_rule.h) in lanes. Scales with a
// mantissa, and constant blocks whose maximum is subnormal or has a tensor factor, are left to the scalar core.
FP4_TARGET inline void scales_from_variance(const Quantization& z, Block& b) {
  const QuantPlan& p = *z.plan;
  b.scales.code = all(0);
  b.scales.rare = mask_from_bits(0xFFFF);
  if (p.spec.scale == Scale::e8m0) {
    D sum = all_double(0.0);
    D squares = all_double(0.0);
    const D g = widened(b.factor.g);
    const int64_t valid = p.cols - b.k0 < b.n ? p.cols - b.k0 : b.n;
    for (int k = 0; k < valid; ++k) {
      D v = widened(load(b.x[k]));
      if (p.has_tensor_factor) v = v / g;
      sum = sum + v;
      squares = squares + v * v;
    }
    const D count = all_double(static_cast<double>(b.n));
    const D mean = sum / count;
    const D v = all_double(quest_clip * quest_clip) * (squares / count - mean * mean);
    const I field = exponent_fields(v);
    const M varies = (all_double(0.0) < v) & (field > all(0));
    const int shift = p.q.scale_rule == ScaleRule::quest_nearest ? 1 : 0;
    const I twice = field - all(1023 - shift);
    const I amax_field = shift_right<23>(b.amax);
    const I constant = amax_field - all(127 + p.q.element.max_exponent());
    const I exponent = select(varies, shift_right_signed<1>(twice), constant);
    const I code = smaller(larger(exponent + all(127), all(0)), all(z.scale.largest_code));
    const M zero = b.amax == all(0);
    const M known =
        varies | (mask_from_bits(p.has_tensor_factor ? 0 : 0xFFFF) & (amax_field > all(0)) & ~(all_double(0.0) < v));
    b.scales.code = select(zero, all(p.zero_block_code), apply_policies(p, code));
    b.scales.rare = (~known & ~zero) | b.nonfinite;
  }
  finish_scales(p, z.scale, b.scales);
}

FP4_TARGET inline uint32_t scale_draw(const QuantPlan& p, int64_t row, int64_t k0) {
  if (!is_stochastic(p.q.scale_rounding) || is_power_of_two_rule(p.q.scale_rule)) return 0;
  const int64_t block_row = (p.row_offset + row) / p.geometry.block_rows;
  const int64_t index = block_row * p.geometry.scale_cols + k0 / p.geometry.block_cols;
  return random_draw(p.place.scale_rounding(), static_cast<uint64_t>(index), p.q.random_bits);
}

FP4_SIMD I scale_draws(const QuantPlan& p, const Block& b) {
  if (!is_stochastic(p.q.scale_rounding) || is_power_of_two_rule(p.q.scale_rule)) return all(0);
  alignas(64) uint32_t draws[panel_rows];
  if (p.geometry.block_rows == 1) {
    const int64_t first = (p.row_offset + b.row0) * p.geometry.scale_cols + b.k0 / p.geometry.block_cols;
    fill_single_draws(p.place.scale_rounding(), first, p.geometry.scale_cols, p.q.random_bits, draws);
  } else {
    for (int lane = 0; lane < panel_rows; ++lane) draws[lane] = scale_draw(p, b.row0 + lane, b.k0);
  }
  return load(draws);
}

// Lanes that the vector rules could not decide. Without the elements (2-D blocks) only the maximum is known, which is
// all that the rules with such lanes read.
FP4_TARGET inline void redo_scales(const Quantization& z, Block& b, bool from_elements) {
  const QuantPlan& p = *z.plan;
  alignas(64) uint32_t codes[panel_rows];
  alignas(64) float values[panel_rows];
  alignas(64) float stored[panel_rows];
  alignas(64) float maxima[panel_rows];
  alignas(64) float g[panel_rows];
  alignas(64) float multiplier[panel_rows];
  store(codes, b.scales.code);
  store(values, b.scales.value);
  store(stored, b.scales.stored);
  store(maxima, as_float(b.amax));
  store(g, b.factor.g);
  store(multiplier, b.factor.te_multiplier);
  const int64_t valid = p.cols - b.k0 < b.n ? p.cols - b.k0 : b.n;
  for (int lane = 0; lane < panel_rows; ++lane) {
    if ((to_bits(b.scales.rare) >> lane & 1u) == 0) continue;
    const BlockView whole = {&b.x[0][lane], 0, b.x.stride, 1, larger<int64_t>(valid, 0), b.n};
    const BlockView maximum = {&maxima[lane], 0, 1, 1, 1, 1};
    codes[lane] = block_scale_code(p.q, from_elements ? whole : maximum, {g[lane], multiplier[lane]},
                                   scale_draw(p, b.row0 + lane, b.k0));
    values[lane] = scale_value(p.q, codes[lane]);
    stored[lane] = decode(p.q.scale, codes[lane]);
  }
  b.scales.code = load(codes);
  b.scales.value = load(values);
  b.scales.stored = load(stored);
}

// Scales of 1 x B blocks.
FP4_TARGET inline void find_scales(const Quantization& z, Block& b) {
  const QuantPlan& p = *z.plan;
  find_maxima(b);
  switch (p.scale_path) {
    case ScalePath::power:
    case ScalePath::quotient: b.scales = scales_from_maxima(p, z.scale, b.amax, b.factor, scale_draws(p, b)); break;
    case ScalePath::trials: try_scales(z, b, scale_draws(p, b)); break;
    case ScalePath::variance: scales_from_variance(z, b); break;
    case ScalePath::scalar:
    case ScalePath::none:
      b.scales = {all(0), all(1.0f), all(1.0f), mask_from_bits(p.scale_path == ScalePath::scalar ? 0xFFFF : 0)};
      break;
  }
  if (any(b.scales.rare)) redo_scales(z, b, true);
}

}  // namespace fp4::FP4_ISA
