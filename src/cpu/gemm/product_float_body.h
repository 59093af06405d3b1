// Products on decoded floats, K block by K block (gemm_float_body.h).
#pragma once

#include "src/cpu/gemm/kernel_table.h"
#include "src/cpu/gemm/product_fold_body.h"
#include "src/cpu/simd/lanes.h"
#include "src/threads/parallel.h"

namespace fp4::FP4_ISA {

using FloatKernel = void (*)(const FloatTile&);

template <Loop loop>
inline FloatKernel float_kernel(const FloatTile& t, int panels) {
  if (loop == Loop::fp64) return double_tile;
  if (t.a_k_stride == 1 && !(t.a_row_stride == 1 && t.rows == float_tile_rows)) {
    return panels == 1 ? float_tile<loop, 1, false> : float_tile<loop, float_panels, false>;
  }
  return panels == 1 ? float_tile<loop, 1, true> : float_tile<loop, float_panels, true>;
}

// One K block [k0, k1) of panels pb.. of B times rows [first, last) of A; sums wait in C between K blocks.
template <Loop loop>
FP4_TARGET inline void multiply_float_part(const Product& p, bool direct_a, int64_t pb, int64_t first, int64_t last,
                                           int64_t k0, int64_t k1) {
  const MatrixView x = direct_a ? p.a.plan->x : MatrixView{};
  const Panels& panels_b = p.b.panels;
  const int wide = static_cast<int>(smaller<int64_t>(loop == Loop::fp64 ? 1 : float_panels, panels_b.count - pb));
  const int64_t col0 = pb * panel_rows;
  FloatTile t;
  t.a_row_stride = direct_a ? x.row_stride : 1;
  t.a_k_stride = direct_a ? x.col_stride : panel_rows;
  t.b[0] = panels_b.panel_values(pb) + k0 * panel_rows;
  t.b[1] = panels_b.panel_values(pb + wide - 1) + k0 * panel_rows;
  t.n = k1 - k0;
  t.first = k0 == 0;
  t.last = k1 == p.a.cols;
  t.c_stride = p.c_stride;
  t.cols = static_cast<int>(smaller<int64_t>(wide * panel_rows, p.b.rows - col0));
  t.factor = p.factor;
  for (int64_t row0 = first; row0 < last; row0 += float_tile_rows) {
    t.rows = static_cast<int>(smaller<int64_t>(float_tile_rows, p.a.rows - row0));
    t.a = direct_a ? x.data + row0 * x.row_stride : p.a.panels.panel_values(row0 / panel_rows) + row0 % panel_rows;
    t.a += k0 * t.a_k_stride;
    t.c = p.c + row0 * p.c_stride + col0;
    float_kernel<loop>(t, wide)(t);
  }
}

template <Loop loop>
inline void multiply_float_panels(const Product& p, bool direct_a) {
  const int threads = threads_for(p);
  const int64_t count = p.b.panels.count;
  const int64_t tiles = count * ((p.a.rows + tile_rows - 1) / tile_rows);
  cpu::gemm_uses.count(cpu::GemmKernel::floats, tiles, tiles);
  const int64_t step = loop == Loop::fp64 ? 1 : float_panels;
  const int64_t k_block = loop == Loop::fp64 ? larger<int64_t>(p.a.cols, 1) : float_k_block;
  for (int64_t k0 = 0; k0 < larger<int64_t>(p.a.cols, 1); k0 += k_block) {
    const int64_t k1 = smaller(k0 + k_block, p.a.cols);
    for (int64_t first = 0; first < p.a.rows; first += row_block) {
      const int64_t last = smaller(first + row_block, p.a.rows);
      parallel_for(0, count, step, threads, 4,
                   [&](int64_t pb) { multiply_float_part<loop>(p, direct_a, pb, first, last, k0, k1); });
    }
  }
}

}  // namespace fp4::FP4_ISA
