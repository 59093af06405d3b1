// A whole operand into panels: the tensor factor first, then 1 x B blocks in one pass, or blocks that span rows (2-D,
// per row, per tensor) in two: maxima, then codes.
#pragma once

#include "src/fast/quantize_body.h"

namespace fp4::FP4_ISA {

using fast::Arena;

// Rules that need more of a block than its maximum have lanes for 1 x B blocks only.
inline bool has_panel_path(const QuantizeCall& call) {
  const QuantSpec& s = call.spec;
  if (!s.has_scale() || s.block.kind == BlockKind::vector) return true;
  return call.soft_alpha == 0.0f && !is_quest(s.scale_rule) && s.scale_rule != ScaleRule::four_over_six &&
         s.scale_rule != ScaleRule::mse;
}

FP4_SIMD I finite_maximum(I sofar, F x) {
  const I a = bits(x) & all(0x7FFFFFFF);
  return larger(sofar, select(a >= all(0x7F800000), all(0), a));
}

// Largest finite magnitude of the operand, after its Hadamard.
FP4_TARGET inline float operand_amax(const QuantPlan& p) {
  I m = all(0);
  const bool rows_run = p.x.row_stride == 1 && p.x.col_stride != 1;
  if (p.hadamard.size == 0 && (p.x.col_stride == 1 || rows_run)) {
    const int64_t lines = rows_run ? p.x.cols : p.x.rows;
    const int64_t length = rows_run ? p.x.rows : p.x.cols;
    const int64_t stride = rows_run ? p.x.col_stride : p.x.row_stride;
    for (int64_t line = 0; line < lines; ++line) {
      const float* x = p.x.data + line * stride;
      int64_t i = 0;
      for (; i + panel_rows <= length; i += panel_rows) m = finite_maximum(m, load(x + i));
      if (i < length) m = finite_maximum(m, load(x + i, first_lanes(static_cast<int>(length - i))));
    }
  } else {
    alignas(64) float buffer[largest_chunk][panel_rows];
    const int chunk = p.hadamard.size > 0 ? p.hadamard.size : 64;
    for (int64_t row = 0; row < p.rows; row += panel_rows) {
      for (int64_t k = 0; k < p.cols; k += chunk) {
        load_chunk(p, row, k, chunk, buffer);
        for (int i = 0; i < chunk; ++i) m = finite_maximum(m, load(buffer[i]));
      }
    }
  }
  return float_of(static_cast<uint32_t>(largest_lane(m)));
}

// Sets plan.factor; returns the amax that was used.
FP4_TARGET inline float set_tensor_factor(QuantPlan& p) {
  if (p.q.tensor_scale != TensorScale::current && p.q.tensor_scale != TensorScale::hold) return 0.0f;
  const bool held = p.q.tensor_scale == TensorScale::hold && p.held_amax >= 0.0f;
  const float amax = held ? p.held_amax : operand_amax(p);
  p.factor = tensor_factor(p.q.arithmetic, amax, p.q.target, p.largest_element);
  return amax;
}

// Maxima of blocks that span rows, one entry per panel and piece of K: lanes, then shared over the block.
struct SharedMaxima {
  uint32_t* amax;       // [panels][pieces][16]
  uint32_t* nonfinite;  // [panels][pieces] lane bits
  int64_t pieces;
  int piece;  // columns
};

FP4_TARGET inline void measure_panels(const Quantization& z, int64_t first, int64_t count, const SharedMaxima& m) {
  const QuantPlan& p = *z.plan;
  alignas(64) float buffer[largest_chunk][panel_rows];
  const int chunk = p.hadamard.size > m.piece ? p.hadamard.size : m.piece;
  for (int64_t panel = 0; panel < count; ++panel) {
    for (int64_t k0 = 0; k0 < m.pieces * m.piece; k0 += chunk) {
      load_chunk(p, (first + panel) * panel_rows, k0, chunk, buffer);
      for (int64_t k = k0; k < k0 + chunk && k < m.pieces * m.piece; k += m.piece) {
        Block b;
        b.x = buffer + (k - k0);
        b.n = m.piece;
        find_maxima(b);
        const int64_t at = panel * m.pieces + k / m.piece;
        store(m.amax + at * panel_rows, b.amax);
        m.nonfinite[at] = to_bits(b.nonfinite);
      }
    }
  }
}

// Lanes [lane0, lane0 + lanes) of `panels` panels and `pieces` pieces become one block.
inline void share_maximum(const SharedMaxima& m, int64_t panels, int64_t piece, int64_t pieces, int lane0, int lanes) {
  uint32_t amax = 0;
  bool nonfinite = false;
  const uint32_t mask = ((lanes == 32 ? 0u : 1u << lanes) - 1u) << lane0;
  for (int64_t panel = 0; panel < panels; ++panel) {
    for (int64_t i = piece; i < piece + pieces; ++i) {
      const int64_t at = panel * m.pieces + i;
      for (int lane = lane0; lane < lane0 + lanes; ++lane) amax = larger(amax, m.amax[at * panel_rows + lane]);
      nonfinite = nonfinite || (m.nonfinite[at] & mask) != 0;
    }
  }
  for (int64_t panel = 0; panel < panels; ++panel) {
    for (int64_t i = piece; i < piece + pieces; ++i) {
      const int64_t at = panel * m.pieces + i;
      for (int lane = lane0; lane < lane0 + lanes; ++lane) m.amax[at * panel_rows + lane] = amax;
      m.nonfinite[at] = nonfinite ? m.nonfinite[at] | mask : m.nonfinite[at] & ~mask;
    }
  }
}

// Codes of a panel whose maxima are shared already.
FP4_TARGET inline void encode_shared_panel(const Quantization& z, int64_t panel, int64_t index, const SharedMaxima& m,
                                           bool scale_per_piece) {
  const QuantPlan& p = *z.plan;
  Panels& out = *z.out;
  alignas(64) float buffer[largest_chunk][panel_rows];
  alignas(64) float payloads[128][panel_rows];
  alignas(64) uint32_t draw[128][panel_rows];
  alignas(64) uint32_t dwords[128][panel_rows];
  const int chunk = p.hadamard.size > m.piece ? p.hadamard.size : m.piece;
  if (out.nan_rows != nullptr) out.nan_rows[panel] = 0;
  Extremes extremes = {all(0x7F800000), all(0)};
  Block b;
  b.row0 = panel * panel_rows;
  b.rows = static_cast<int>(p.rows - b.row0 < panel_rows ? p.rows - b.row0 : panel_rows);
  b.n = m.piece;
  b.u = payloads;
  b.factor = {all(p.factor.g), all(p.factor.te_multiplier)};
  LaneScales scales;
  for (int64_t k0 = 0; k0 < out.padded; k0 += chunk) {
    load_chunk(p, b.row0, k0, chunk, buffer);
    for (int64_t k = k0; k < k0 + chunk && k < out.padded; k += m.piece) {
      b.k0 = k;
      b.x = buffer + (k - k0);
      const int64_t piece = k / m.piece < m.pieces ? k / m.piece : m.pieces - 1;
      const int64_t at = index * m.pieces + piece;
      b.amax = load(m.amax + at * panel_rows);
      b.nonfinite = mask_from_bits(m.nonfinite[at]);
      if (scale_per_piece || k == 0) {
        b.scales = {all(0), all(1.0f), all(1.0f), mask_from_bits(0xFFFF)};
        if (p.scale_path != ScalePath::scalar) {
          b.scales = scales_from_maxima(p, z.scale, b.amax, b.factor, scale_draws(p, b));
        }
        if (any(b.scales.rare)) redo_scales(z, b, false);
        scales = b.scales;
      }
      b.scales = scales;
      poison_blocks(p, b);
      if (z.draws.wanted) fill_draws(p, z.draws, b.row0, k, m.piece, draw);
      if (z.stored != nullptr) {
        encode_stored(z, b, draw, dwords);
        store_dwords(*z.stored, b.row0, b.rows, k, m.piece, dwords);
      } else {
        encode_block(z, b, draw, sink_at(out, panel, k));
      }
      if (scale_per_piece || k == 0) note_scales(z, b, panel, extremes);
    }
  }
  if (out.range == nullptr) return;
  out.range[panel] = {static_cast<uint32_t>(smallest_lane(extremes.least)),
                      static_cast<uint32_t>(largest_lane(extremes.largest))};
  close_panel(z.options, out, panel);
}

FP4_TARGET inline void quantize_shared(const Quantization& z) {
  const QuantPlan& p = *z.plan;
  const BlockKind kind = p.spec.block.kind;
  const int size = p.spec.block.size;
  const int64_t group = kind == BlockKind::tensor
                            ? z.out->count
                            : (kind == BlockKind::square && size > panel_rows ? size / panel_rows : 1);
  SharedMaxima m;
  m.piece = kind == BlockKind::square ? size : 32;
  m.pieces = (p.cols + m.piece - 1) / m.piece;
  if (m.pieces == 0) m.pieces = 1;
  thread_local Arena arena;
  arena.reset(Arena::bytes_for<uint32_t>(group * m.pieces * panel_rows) + Arena::bytes_for<uint32_t>(group * m.pieces));
  m.amax = arena.take<uint32_t>(group * m.pieces * panel_rows);
  m.nonfinite = arena.take<uint32_t>(group * m.pieces);
  for (int64_t first = 0; first < z.out->count; first += group) {
    const int64_t count = smaller(group, z.out->count - first);
    measure_panels(z, first, count, m);
    if (kind == BlockKind::tensor) share_maximum(m, count, 0, m.pieces, 0, panel_rows);
    for (int lane = 0; kind == BlockKind::row && lane < panel_rows; ++lane) {
      share_maximum(m, 1, 0, m.pieces, lane, 1);
    }
    for (int64_t i = 0; kind == BlockKind::square && i < m.pieces; ++i) {
      const int lanes = size < panel_rows ? size : panel_rows;
      for (int lane = 0; lane < panel_rows; lane += lanes) share_maximum(m, count, i, 1, lane, lanes);
    }
    for (int64_t panel = 0; panel < count; ++panel) {
      encode_shared_panel(z, first + panel, panel, m, kind == BlockKind::square);
    }
  }
}

FP4_TARGET inline void quantize_with(Quantization& z) {
  const QuantPlan& plan = *z.plan;
  z.draws = plan_draws(plan);
  z.element = format_lanes(plan.q.element);
  z.scale = format_lanes(plan.q.scale);
  z.out->factor = plan.factor;
  alignas(64) int8_t table[128];
  for (int i = 0; i < 128; ++i) table[i] = static_cast<int8_t>(plan.table[i] + z.options.byte_offset);
  z.table = {load_table(table), plan.steps, plan.clamp_index};
  alignas(16) int8_t magnitude_codes[16] = {};
  for (uint32_t code = 0; plan.code_path != CodePath::generic && code <= plan.q.element.largest_code; ++code) {
    magnitude_codes[decode_fixed(plan.q.element, code)] = static_cast<int8_t>(code);
  }
  z.magnitude_codes = load_nibble_table(magnitude_codes);
  if (plan.q.has_scale && plan.spec.block.kind != BlockKind::vector) return quantize_shared(z);
  const int64_t count = z.out->count;
  const int threads = plan.rows * plan.cols >= int64_t{1} << 18 ? plan.threads : 1;
  if (threads <= 1) {
    for (int64_t panel = 0; panel < count; ++panel) quantize_vector_panel(z, panel);
    return;
  }
#pragma omp parallel for num_threads(threads) schedule(dynamic, 4)
  for (int64_t panel = 0; panel < count; ++panel) quantize_vector_panel(z, panel);
}

FP4_TARGET inline void quantize_operand(const QuantPlan& plan, const PanelOptions& options, Panels& out) {
  Quantization z;
  z.plan = &plan;
  z.options = options;
  z.out = &out;
  quantize_with(z);
}

// Codes and scales in the layout of the files.
FP4_TARGET inline void quantize_to(const QuantizeCall& call, Quantized& out) {
  QuantPlan plan = fast::make_plan(call);
  out.spec = call.spec;
  out.rows = plan.rows;
  out.cols = plan.cols;
  out.geometry = plan.geometry;
  out.codes.resize(static_cast<size_t>(plan.rows * out.code_row_bytes()));
  const auto scale_count = static_cast<size_t>(plan.geometry.scale_rows * plan.geometry.scale_cols);
  out.scales.resize(call.spec.has_scale() && !is_real(call.spec.scale) ? scale_count : 0);
  out.real_scales.resize(call.spec.has_scale() && is_real(call.spec.scale) ? scale_count : 0);
  out.amax = set_tensor_factor(plan);
  Panels shape;
  shape.rows = plan.rows;
  shape.cols = plan.cols;
  const bool blocked =
      plan.q.has_scale && (call.spec.block.kind == BlockKind::vector || call.spec.block.kind == BlockKind::square);
  const int64_t piece = blocked ? call.spec.block.size : 32;
  shape.padded = fast::round_up(plan.cols, piece);
  shape.block = blocked ? piece : larger<int64_t>(shape.padded, 1);
  shape.count = (plan.rows + panel_rows - 1) / panel_rows;
  shape.scales_per_panel = shape.padded / shape.block;
  const bool outer = plan.q.tensor_scale == TensorScale::outer128;
  out.tensor_scale.assign(outer ? static_cast<size_t>(plan.rows * shape.outer_count()) : 1, plan.factor.g);
  Quantization z;
  z.plan = &plan;
  z.out = &shape;
  z.stored = &out;
  quantize_with(z);
}

// Positions fit the 32-bit Philox block numbers of the lanes.
inline bool has_small_positions(const QuantizeCall& call) {
  const int64_t k = hadamard_padded(call.hadamard, call.x.cols);
  return (call.row_offset + call.x.rows + panel_rows) * larger<int64_t>(k, 1) < int64_t{1} << 32;
}

}  // namespace fp4::FP4_ISA
