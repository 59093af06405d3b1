// A contiguous operand of whole 1 x B blocks, or without scales, is one sequence of blocks: cut into short rows, its
// codes, scales and draws stay where they are, while sixteen rows in sixteen lanes come from adjacent memory.
#pragma once

#include "src/cpu/quantize/quantize_plan.h"
#include "src/threads/parallel.h"

namespace fp4::cpu {

// Columns of the short rows, a power of two and at least `least`; 0 where the operand has to keep its own.
inline int64_t flat_width(const QuantPlan& p, int64_t least) {
  if (p.x.col_stride != 1 || (p.x.row_stride != p.x.cols && p.rows != 1) || p.rows == 0 || p.cols != p.x.cols) return 0;
  const int64_t block = p.q.has_scale() ? p.spec.block.size : 1;
  const int64_t width = larger<int64_t>(larger<int64_t>(block, p.hadamard.size), least);
  return p.cols > 0 && p.cols % width == 0 ? width : 0;
}

inline void flatten(QuantPlan& p, int64_t width) {
  p.is_flat = true;
  const int64_t pieces = p.cols / width;  // of a row
  p.rows *= pieces;
  p.row_offset *= pieces;
  p.cols = width;
  p.x = {p.x.data, p.rows, width, width, 1};
  p.geometry = geometry_of(p.spec, p.rows, p.cols);
}

// quantize(first, last) for the full panels of a flat operand, in shares for the threads; returns how many those are.
template <class Quantize>
int64_t share_panels(const QuantPlan& p, int threads, const Quantize& quantize) {
  const int64_t full = p.rows / panel_rows;
  if (full == 0) return 0;  // a step of 0 below: clang's loop divides by it
  const int64_t share = threads > 1 ? larger<int64_t>((int64_t{1} << 16) / (panel_rows * p.cols), 1) : full;
  parallel_for(0, full, share, threads, 1, [&](int64_t first) { quantize(first, smaller(first + share, full)); });
  return full;
}

}  // namespace fp4::cpu
