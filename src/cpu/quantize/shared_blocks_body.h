// Blocks that span rows (2-D, per row, per tensor) in two passes: maxima, or scales where a rule reads the elements,
// then codes.
#pragma once

#include <algorithm>

#include "src/cpu/quantize/lanes_body.h"
#include "src/cpu/quantize/line_maximum_body.h"
#include "src/cpu/simd/lanes.h"
#include "src/threads/scratch.h"

namespace fp4::FP4_ISA {

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

// The maxima of `count` panels of which each row, or the whole tensor, is one block of adjacent floats, shared already.
// false: not so, or with infinities or NaN among them.
FP4_TARGET inline bool measure_lines(const Quantization& z, int64_t first, int64_t count, const SharedMaxima& m) {
  const QuantPlan& p = *z.plan;
  const bool is_whole = p.spec.block.kind == BlockKind::tensor;
  if ((p.spec.block.kind != BlockKind::row && !is_whole) || p.hadamard.size > 0 || p.x.col_stride != 1 || p.prepares)
    return false;
  alignas(64) uint32_t largest[panel_rows] = {};
  for (int64_t row = first * panel_rows; row < smaller(p.rows, (first + count) * panel_rows); ++row) {
    uint32_t& at = largest[row % panel_rows];
    at = larger(at, largest_bits(p.x.data + row * p.x.row_stride, p.x.cols));
  }
  const I amax = is_whole ? all(largest_lane(load(largest))) : load(largest);
  if (any(amax >= all(0x7F800000))) return false;
  for (int64_t i = 0; i < count * m.pieces; ++i) store(m.amax + i * panel_rows, amax);
  std::fill(m.nonfinite, m.nonfinite + count * m.pieces, 0u);
  return true;
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

// quest_*, four_over_six, mse and smooth maxima read every element of a block, in order.
inline bool reads_elements(const QuantPlan& p) {
  return is_quest(p.q.scale_rule) || tries_codes(p.q.scale_rule) || p.q.soft_alpha > 0.0f;
}

// The operand's rows [row0, row0 + rows) after its Hadamard.
FP4_TARGET inline MatrixView transformed_rows(const QuantPlan& p, int64_t row0, int64_t rows, Scratch& scratch) {
  if (p.hadamard.size == 0) {
    return {p.x.data + row0 * p.x.row_stride, rows, p.cols, p.x.row_stride, p.x.col_stride};
  }
  scratch.reset();
  float* y = scratch.take<float>(rows * p.cols);
  alignas(64) float buffer[largest_chunk][panel_rows];
  for (int64_t row = 0; row < rows; row += panel_rows) {
    for (int64_t k = 0; k < p.cols; k += p.hadamard.size) {
      load_chunk(p, row0 + row, k, p.hadamard.size, buffer);
      store_transposed(buffer, static_cast<int>(smaller<int64_t>(panel_rows, rows - row)), p.hadamard.size,
                       y + row * p.cols + k, p.cols);
    }
  }
  return view_of(y, rows, p.cols);
}

// Scale codes of the blocks in rows [row0, row0 + rows), by the scalar core; block rows and columns as the files have
// them.
FP4_TARGET inline void search_scales(const Quantization& z, int64_t row0, int64_t rows, const SharedMaxima& m) {
  const QuantPlan& p = *z.plan;
  const BlockGeometry& g = p.geometry;
  thread_local Scratch scratch;
  const MatrixView x = transformed_rows(p, row0, rows, scratch);
  for (int64_t r = 0; r < rows; r += g.block_rows) {
    const int64_t block_rows = smaller(g.block_rows, rows - r);
    for (int64_t k = 0; k < p.cols; k += g.block_cols) {
      const int64_t cols = smaller(g.block_cols, p.cols - k);
      const BlockView block = {x.data + r * x.row_stride + k * x.col_stride,
                               x.row_stride,
                               x.col_stride,
                               block_rows,
                               cols,
                               g.block_rows * g.block_cols};
      const uint32_t code = block_scale_code(p.q, block, p.factor, scale_draw(p, row0 + r, k));
      for (int64_t row = r; row < r + block_rows; ++row) {
        for (int64_t piece = k / m.piece; piece * m.piece < k + cols; ++piece) {
          m.codes[(row / panel_rows * m.pieces + piece) * panel_rows + row % panel_rows] = code;
        }
      }
    }
  }
}

FP4_TARGET inline void quantize_shared(const Quantization& z) {
  const QuantPlan& p = *z.plan;
  const BlockKind kind = p.spec.block.kind;
  const int size = p.spec.block.size;
  const int64_t group = kind == BlockKind::tensor
                            ? z.out->count
                            : (kind == BlockKind::square && size > panel_rows ? size / panel_rows : 1);
  const ColumnCodes columns = plan_columns(z);
  SharedMaxima m;
  m.piece = kind == BlockKind::square ? size : 32;
  m.pieces = (p.cols + m.piece - 1) / m.piece;
  if (m.pieces == 0) m.pieces = 1;
  thread_local Scratch scratch;
  const int64_t lanes_in_group = group * m.pieces * panel_rows;
  scratch.reset();
  m.amax = scratch.take<uint32_t>(group * m.pieces * panel_rows);
  m.nonfinite = scratch.take<uint32_t>(group * m.pieces);
  m.scale_per_piece = kind == BlockKind::square;
  m.codes = reads_elements(p) ? scratch.take<uint32_t>(lanes_in_group) : nullptr;
  for (int64_t first = 0; first < z.out->count; first += group) {
    const int64_t count = smaller(group, z.out->count - first);
    const bool shared = measure_lines(z, first, count, m);
    if (!shared) measure_panels(z, first, count, m);
    if (kind == BlockKind::tensor && !shared) share_maximum(m, count, 0, m.pieces, 0, panel_rows);
    for (int lane = 0; kind == BlockKind::row && !shared && lane < panel_rows; ++lane) {
      share_maximum(m, 1, 0, m.pieces, lane, 1);
    }
    for (int64_t i = 0; kind == BlockKind::square && i < m.pieces; ++i) {
      const int lanes = size < panel_rows ? size : panel_rows;
      for (int lane = 0; lane < panel_rows; lane += lanes) share_maximum(m, count, i, 1, lane, lanes);
    }
    if (m.codes != nullptr) {
      std::fill(m.codes, m.codes + lanes_in_group, p.zero_block_code);
      const int64_t row0 = first * panel_rows;
      search_scales(z, row0, smaller(count * panel_rows, p.rows - row0), m);
    }
    for (int64_t panel = 0; panel < count; ++panel) {
      quantize_lanes(z, columns, first + panel, &m, panel);
    }
  }
}

}  // namespace fp4::FP4_ISA
