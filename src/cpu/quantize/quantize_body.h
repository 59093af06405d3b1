// Quantises an operand into panels: sixteen rows in sixteen lanes, so that maxima, scale rules and rounding are plain
// vector code without shuffles. What has no vector path (see QuantPlan) goes lane by lane through the scalar core.
#pragma once

#include "src/cpu/quantize/complete_body.h"
#include "src/cpu/quantize/encode_body.h"
#include "src/cpu/quantize/store_body.h"
#include "src/cpu/simd/lanes.h"

namespace fp4::FP4_ISA {

// Writes the scales of a block and notes range and NaN.
FP4_SIMD void note_scales(const Quantization& z, const Block& b, int64_t panel, Extremes& extremes) {
  if (z.stored != nullptr) return store_scales(*z.plan, *z.stored, b);
  note_panel_scales(z, b, panel, extremes);
}

FP4_SIMD Sink sink_at(const Panels& out, int64_t panel, int64_t k) {
  const int64_t at = (panel * out.padded + k) * panel_rows;
  return {out.bytes == nullptr ? nullptr : out.bytes + at, out.values == nullptr ? nullptr : out.values + at, nullptr};
}

FP4_SIMD void note_outer(const Quantization& z, int64_t panel, int64_t column, F g) {
  const Panels& out = *z.out;
  if (z.stored == nullptr) return store(out.outer + (panel * out.outer_count() + column) * panel_rows, g);
  alignas(64) float factors[panel_rows];
  store(factors, g);
  for (int r = 0; r < panel_rows && panel * panel_rows + r < z.plan->rows; ++r) {
    z.stored->tensor_scale[static_cast<size_t>((panel * panel_rows + r) * out.outer_count() + column)] = factors[r];
  }
}

// Factors of 128 elements with these maxima (tensor_scale.h, outer128).
FP4_TARGET inline LaneFactor outer_factor(const QuantPlan& p, I m) {
  const M zero = m == all(0);
  const F amax = as_float(m);
  const F full = all(p.q.target * p.largest_element);
  const F most = all(float_of(float_largest_bits));
  LaneFactor f = {all(1.0f), all(1.0f)};
  if (p.q.arithmetic == Arithmetic::te) {
    f.te_multiplier = select(zero, f.te_multiplier, smaller(full / amax, most));
    f.g = all(1.0f) / f.te_multiplier;
  } else {
    const F g = smaller(amax / full, most);
    f.g = select(zero, f.g, select(g == all(0.0f), all(power_of_two(-149)), g));
  }
  return f;
}

// Scales, draws and elements of a block that is to be encoded; `own` is for elements that change.
FP4_TARGET inline void prepare_block(const Quantization& z, Block& b, LaneBuffer own, uint32_t (*draw)[panel_rows]) {
  const QuantPlan& p = *z.plan;
  b.rows = static_cast<int>(smaller<int64_t>(panel_rows, p.rows - b.row0));
  find_scales(z, b);
  if (p.q.has_scale) poison_blocks(p, b, own);
  if (z.draws.wanted) fill_draws(p, z.draws, b.row0, b.k0, b.n, draw);
}

// 1 x B blocks: one pass over the operand. Unscaled operands are cut into pieces of 32.
FP4_TARGET inline void quantize_vector_panel(const Quantization& z, int64_t panel) {
  const QuantPlan& p = *z.plan;
  Panels& out = *z.out;
  alignas(64) float buffer[largest_chunk][panel_rows];
  alignas(64) float payloads[128][panel_rows];
  alignas(64) uint32_t draw[128][panel_rows];
  alignas(64) uint32_t dwords[largest_chunk][panel_rows];
  const int block = p.q.has_scale ? static_cast<int>(out.block) : 32;
  const bool outer = p.q.tensor_scale == TensorScale::outer128;
  const bool wide = outer || z.stored != nullptr;  // files are written 128 columns at a time
  const int widest = outer || out.padded > outer_scale_width ? outer_scale_width : static_cast<int>(out.padded);
  const int least_chunk = wide && block < widest ? widest : block;
  const int chunk = p.hadamard.size > least_chunk ? p.hadamard.size : least_chunk;
  const bool bf16 = is_nearest_bf16(z);
  if (out.nan_rows != nullptr) out.nan_rows[panel] = 0;
  Extremes extremes = no_extremes_yet();
  LaneFactor factor = {all(p.factor.g), all(p.factor.te_multiplier)};
  if (!p.q.has_scale && p.spec.element == Element::fp32 && p.payload_path == PayloadPath::none &&
      p.hadamard.size == 0 && out.values != nullptr) {  // nothing to round: straight into the panel
    for (int64_t k = 0; k < out.padded; k += block) {
      load_chunk(p, panel * panel_rows, k, block, reinterpret_cast<LaneBuffer>(sink_at(out, panel, k).values));
    }
    return;
  }
  for (int64_t k0 = 0; k0 < out.padded; k0 += chunk) {
    const Columns elements = columns_of(p, panel * panel_rows, k0, chunk, buffer);
    if (bf16) {
      const auto n = static_cast<int>(smaller<int64_t>(chunk, out.padded - k0));
      if (quick_bf16_columns(elements, n, sink_at(out, panel, k0).values)) continue;
    }
    for (int64_t k = k0; k < k0 + chunk && k < out.padded; k += block) {
      if (outer && k % outer_scale_width == 0 && k < p.cols) {
        factor = outer_factor(p, finite_maxima(elements + (k - k0), outer_scale_width));
        note_outer(z, panel, k / outer_scale_width, factor.g);
      }
      Block b;
      b.row0 = panel * panel_rows;
      b.k0 = k;
      b.n = block;
      b.x = elements + (k - k0);
      b.u = payloads;
      b.factor = factor;
      prepare_block(z, b, buffer + (k - k0), draw);
      if (z.stored != nullptr) {
        encode_stored(z, b, draw, dwords + (k - k0) * code_width(*z.stored) / 32);
      } else {
        encode_block(z, b, draw, sink_at(out, panel, k));
      }
      if (p.q.has_scale) note_scales(z, b, panel, extremes);
    }
    if (z.stored == nullptr) continue;
    const int rows = static_cast<int>(smaller<int64_t>(panel_rows, p.rows - panel * panel_rows));
    const int n = static_cast<int>(smaller<int64_t>(chunk, out.padded - k0));
    store_dwords(*z.stored, panel * panel_rows, rows, k0, n, dwords);
  }
  if (out.range == nullptr) return;
  note_range(out, panel, extremes);
  close_panel(z.options, out, panel);
}

}  // namespace fp4::FP4_ISA
