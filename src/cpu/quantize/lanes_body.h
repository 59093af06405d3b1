// The engine for any spec and layout: sixteen rows in sixteen lanes, so that maxima, scale rules and rounding are plain
// vector code without shuffles. The scales of some columns come first, then their codes, so that neither waits for the
// other. What has no vector path (see QuantPlan) goes lane by lane through the scalar core.
#pragma once

#include "src/cpu/quantize/column_codes.h"
#include "src/cpu/quantize/complete_body.h"
#include "src/cpu/quantize/store_body.h"
#include "src/cpu/quantize/trials_body.h"
#include "src/cpu/simd/lanes.h"

namespace fp4::FP4_ISA {

// Columns whose scales are found together. They are read twice, and columns a power of two apart share sets of the
// first cache: of 64 both readings find them there.
inline constexpr int span_width = 64;

// Writes the scales of a block and notes range and NaN; returns their bits.
FP4_SIMD I note_scales(const Quantization& z, const Block& b, int64_t panel, Extremes& extremes) {
  if (z.stored == nullptr) return note_panel_scales(z, b, panel, extremes);
  store_scales(*z.plan, *z.stored, b);
  return all(0);
}

FP4_SIMD Sink sink_at(const Panels& out, int64_t panel, int64_t k) {
  const int64_t at = (panel * out.padded + k) * panel_rows;
  return {out.bytes == nullptr ? nullptr : out.bytes + at, out.values == nullptr ? nullptr : out.values + at, nullptr};
}

FP4_SIMD void note_outer(const Quantization& z, int64_t panel, int64_t column, F g) {
  const Panels& out = *z.out;
  if (z.stored == nullptr) return store(out.outer + (panel * out.outer_count + column) * panel_rows, g);
  alignas(64) float factors[panel_rows];
  store(factors, g);
  for (int r = 0; r < panel_rows && panel * panel_rows + r < z.plan->rows; ++r) {
    z.stored->tensor_scale[static_cast<size_t>((panel * panel_rows + r) * out.outer_count + column)] = factors[r];
  }
}

// Bits of the largest finite magnitudes of sixteen rows.
FP4_SIMD I row_maxima(const QuantPlan& p, int64_t row, LaneBuffer buffer) {
  I m = all(0);
  const int chunk = p.hadamard.size > 0 ? p.hadamard.size : 64;
  for (int64_t k = 0; k < p.cols; k += chunk) {
    load_chunk(p, row, k, chunk, buffer);
    m = larger(m, finite_maxima(buffer, chunk));
  }
  return m;
}

// Factors of elements with these maxima (tensor_scale.h: outer128, row).
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

// Maxima of blocks that span rows, one entry per panel and piece of K: lanes, then shared over the block.
struct SharedMaxima {
  uint32_t* amax;       // [panels][pieces][16]
  uint32_t* nonfinite;  // [panels][pieces] lane bits
  int64_t pieces;
  int piece;        // columns
  uint32_t* codes;  // [panels][pieces][16] scale codes of rules that read more of a block than its maximum, else null
  bool scale_per_piece;  // else one scale for all of K

  bool starts_block(int64_t k) const { return scale_per_piece || k == 0; }
};

// The scales of a block whose maximum is shared; entries of panel `index`.
FP4_TARGET inline void find_shared_scales(const Quantization& z, const SharedMaxima& m, int64_t index, Block& b) {
  const QuantPlan& p = *z.plan;
  const int64_t at = index * m.pieces + smaller(b.k0 / m.piece, m.pieces - 1);
  b.amax = load(m.amax + at * panel_rows);
  b.nonfinite = mask_from_bits(m.nonfinite[at]);
  if (!m.starts_block(b.k0)) return;  // the caller keeps the scales of the block
  b.scales = {all(0), all(1.0f), all(1.0f), mask_from_bits(0xFFFF)};
  if (m.codes != nullptr) {
    b.scales.code = load(m.codes + at * panel_rows);
    b.scales.rare = mask_from_bits(0);
    finish_scales(p, z.scale, b.scales);
  } else if (p.scale_path != ScalePath::scalar) {
    b.scales = scales_from_maxima(p, z.scale, b.amax, b.factor);
  }
  if (any(b.scales.rare)) redo_scales(z, b, false);
}

// Scales of `count` times sixteen 1 x B blocks.
FP4_TARGET inline void find_scales(const Quantization& z, Block* blocks, int count) {
  const QuantPlan& p = *z.plan;
  for (int i = 0; i < count; ++i) find_maxima(blocks[i]);
  if (p.scale_path == ScalePath::trials) choose_by_errors(z, blocks, count);
  for (int i = 0; i < count; ++i) {
    Block& b = blocks[i];
    switch (p.scale_path) {
      case ScalePath::power:
      case ScalePath::quotient: b.scales = scales_from_maxima(p, z.scale, b.amax, b.factor); break;
      case ScalePath::trials: break;
      case ScalePath::variance: scales_from_variance(z, b); break;
      case ScalePath::scalar:
      case ScalePath::none:
        b.scales = {all(0), all(1.0f), all(1.0f), mask_from_bits(p.scale_path == ScalePath::scalar ? 0xFFFF : 0)};
        break;
    }
    if (any(b.scales.rare)) redo_scales(z, b, true);
  }
}

// What a panel carries from span to span.
struct LanePanel {
  int64_t panel;
  Extremes extremes;
  LevelSoFar level;
  bool levels;
  ColumnDraws drawn;
  const SharedMaxima* shared;  // null: blocks of one row
  int64_t index;               // of the panel in it
  LaneScales kept;             // of a block that goes on
  I kept_bits;                 // as note_scales gave them
  alignas(64) float payloads[128][panel_rows];
  alignas(64) uint32_t draw[128][panel_rows];
  alignas(64) uint32_t dwords[largest_chunk][panel_rows];
};

FP4_SIMD I sum_of_squares(const int8_t* bytes, int n) {
  I sum = all(0);
  for (int k = 0; k < n; k += 4) sum = add_squares(sum, load_bytes(bytes + k * panel_rows));
  return sum;
}

// `count` blocks side by side, to the panel or to dwords of codes; `own` has room for elements that change.
FP4_TARGET inline void quantize_span(const Quantization& z, const ColumnCodes& c, LanePanel& s, Block* blocks,
                                     int count, LaneBuffer own, uint32_t (*dwords)[panel_rows]) {
  const QuantPlan& p = *z.plan;
  if (s.shared == nullptr) find_scales(z, blocks, count);
  const int n = blocks[0].n;
  const Sink sink = sink_at(*z.out, s.panel, blocks[0].k0);
  alignas(64) int8_t stored_bytes[outer_scale_width * panel_rows];
  int8_t* bytes = z.stored == nullptr ? sink.bytes : stored_bytes;
  I squares[most_blocks];
  const bool has_columns = c.encode != nullptr && (z.stored != nullptr || sink.values == nullptr);
  const uint32_t open = has_columns ? c.encode(z, c, blocks, count, s.drawn, bytes, squares) : ~0u;
  for (int i = 0; i < count; ++i) {
    Block& b = blocks[i];
    const int64_t at = int64_t{i} * n * panel_rows;
    const bool starts = s.shared == nullptr || s.shared->starts_block(b.k0);
    if (s.shared != nullptr) {
      if (!starts) b.scales = s.kept;
      find_shared_scales(z, *s.shared, s.index, b);
      s.kept = b.scales;
    }
    if ((open >> i & 1u) != 0) {
      if (p.q.has_scale()) poison_blocks(p, b, own + i * n);
      if (z.draws.wanted) fill_draws(p, z.draws, b.row0, b.k0, n, s.draw);
    }
    if (z.stored != nullptr) {
      uint32_t(*out)[panel_rows] = dwords + i * n * code_width(*z.stored) / 32;
      if ((open >> i & 1u) != 0) {
        encode_stored(z, b, s.draw, out);
      } else {
        store_fp4_codes(z, b, bytes + at, out);
      }
    } else if ((open >> i & 1u) != 0) {
      encode_block(z, b, s.draw, sink_at(*z.out, s.panel, b.k0));
    }
    if (!p.q.has_scale()) continue;
    if (s.levels && !(c.has_squares && (open >> i & 1u) == 0)) squares[i] = sum_of_squares(bytes + at, n);
    if (starts) s.kept_bits = note_scales(z, b, s.panel, s.extremes);
    if (s.levels) note_level(s.level, squares[i], s.kept_bits);
  }
}

// 1 x B blocks: one pass over the operand; others once their maxima are shared. Unscaled operands are cut into pieces
// of 32.
// long: one hot loop
FP4_TARGET inline void quantize_lanes(const Quantization& z, const ColumnCodes& c, int64_t panel,
                                      const SharedMaxima* shared = nullptr, int64_t index = 0) {
  const QuantPlan& p = *z.plan;
  Panels& out = *z.out;
  alignas(64) float buffer[largest_chunk][panel_rows];
  LanePanel s;
  s.panel = panel;
  s.shared = shared;
  s.index = index;
  s.extremes = no_extremes_yet();
  s.level = no_level_yet();
  s.levels =
      z.options.level_room >= 0 && out.bytes != nullptr && p.q.scale.mantissa_bits == 0 && !p.q.stores_multiplier();
  const int block = shared != nullptr ? shared->piece : (p.q.has_scale() ? static_cast<int>(out.block) : 32);
  const bool of_row = p.q.tensor_scale == TensorScale::row;
  const int span = larger(block, span_width);
  const bool wide = out.outer_count > 0 || z.stored != nullptr;  // files are written 128 columns at a time
  const int chunk = larger(p.hadamard.size, wide ? outer_scale_width : span);
  const bool bf16 = is_nearest_bf16(z);
  if (out.nan_rows != nullptr) out.nan_rows[panel] = 0;
  LaneFactor factor = {all(p.factor.g), all(p.factor.te_multiplier)};
  if (!p.q.has_scale() && p.spec.element == Element::fp32 && p.payload_path == PayloadPath::none &&
      p.hadamard.size == 0 && out.values != nullptr) {  // nothing to round: straight into the panel
    for (int64_t k = 0; k < out.padded; k += block) {
      load_chunk(p, panel * panel_rows, k, block, reinterpret_cast<LaneBuffer>(sink_at(out, panel, k).values));
    }
    return;
  }
  const I largest = of_row ? row_maxima(p, panel * panel_rows, buffer) : all(0);
  for (int64_t k0 = 0; k0 < out.padded; k0 += chunk) {
    const auto width = static_cast<int>(smaller<int64_t>(chunk, out.padded - k0));
    const Columns elements = columns_of(p, panel * panel_rows, k0, larger(p.hadamard.size, width), buffer);
    if (bf16 && quick_bf16_columns(elements, width, sink_at(out, panel, k0).values)) continue;
    for (int first = 0; first < width; first += span) {
      const int64_t k = k0 + first;
      if (out.starts_outer(k)) {
        factor = outer_factor(
            p, of_row ? largest : finite_maxima(elements + first, smaller(outer_scale_width, width - first)));
        note_outer(z, panel, k / outer_scale_width, factor.g);
      }
      Block blocks[most_blocks];
      const int count = smaller(span, width - first) / block;
      for (int i = 0; i < count; ++i) {
        Block& b = blocks[i];
        b.row0 = panel * panel_rows;
        b.rows = static_cast<int>(smaller<int64_t>(panel_rows, p.rows - b.row0));
        b.k0 = k + i * block;
        b.n = block;
        b.x = elements + (first + i * block);
        b.u = s.payloads;
        b.factor = factor;
      }
      const int codes_before = z.stored == nullptr ? 0 : first * code_width(*z.stored) / 32;
      quantize_span(z, c, s, blocks, count, buffer + first, s.dwords + codes_before);
    }
    if (z.stored == nullptr) continue;
    const int rows = static_cast<int>(smaller<int64_t>(panel_rows, p.rows - panel * panel_rows));
    store_dwords(*z.stored, panel * panel_rows, rows, k0, width, s.dwords);
  }
  if (out.range == nullptr) return;
  note_range(out, panel, s.extremes);
  out.level[panel] = {};
  if (s.levels) decide_level(out, panel, z.options.level_room, s.level);
  if (!z.options.postpones) complete_panel(z.options, out, panel, s.levels);
}

}  // namespace fp4::FP4_ISA
