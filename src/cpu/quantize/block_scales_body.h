// Scales of sixteen blocks at a time: maxima, variances (quest_*); lanes that vector code cannot decide go through the
// scalar core (block.h).
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

// The largest k with 2^k <= sqrt(v) + added (quest_exponent); k < 100. Without variance it is that of `added`.
FP4_SIMD I exponents_with_added(float added, D v, M varies, I of_root) {
  const I least = all(floor_log2_of_double(static_cast<double>(added)));
  const I k = smaller(select(varies, larger(of_root, least), least), all(100));
  const D next = widened(as_float(shift_left<23>(k + all(128))));
  const D gap = next - all_double(static_cast<double>(added));
  return add_where(~(v < gap * gap), k, all(1));
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
    I exponent = select(varies, shift_right_signed<1>(twice), constant);
    if (p.q.scale_add > 0.0f)
      exponent = exponents_with_added(p.q.scale_add, v, varies, shift_right_signed<1>(field - all(1023)));
    const I code = smaller(larger(exponent + all(127), all(0)), all(z.scale.largest_code));
    const M zero = b.amax == all(0);
    M known =
        varies | (mask_from_bits(p.has_tensor_factor ? 0 : 0xFFFF) & (amax_field > all(0)) & ~(all_double(0.0) < v));
    if (p.q.scale_add > 0.0f) known = exponent < all(100);
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
    codes[lane] = block_scale_code(p.q, from_elements ? whole : maximum, {g[lane], multiplier[lane], p.factor.amax},
                                   scale_draw(p, b.row0 + lane, b.k0));
    values[lane] = scale_value(p.q, codes[lane]);
    stored[lane] = decode(p.q.scale, codes[lane]);
  }
  b.scales.code = load(codes);
  b.scales.value = load(values);
  b.scales.stored = load(stored);
}

}  // namespace fp4::FP4_ISA
