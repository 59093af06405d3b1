// Products on decoded floats, K block by K block (gemm_float_body.h).
#pragma once

#include "src/fast/product_terms_body.h"

namespace fp4::FP4_ISA {

template <Loop loop>
FP4_TARGET inline void multiply_float_tile(const FloatTile& t, int panels) {
  if (loop == Loop::fp64) {
    double_tile(t);
  } else if (t.a_k_stride == 1 && !(t.a_row_stride == 1 && t.rows == float_tile_rows)) {
    (panels == 2 ? float_tile<loop, 2, false> : float_tile<loop, 1, false>)(t);
  } else {
    (panels == 2 ? float_tile<loop, 2, true> : float_tile<loop, 1, true>)(t);
  }
}

// Decoded values hold all of their factors.
template <Loop loop>
inline bool restarts(const Product& p) {
  return loop != Loop::fma && p.restarts();
}

// outer128: all of K, slice by slice.
template <Loop loop>
FP4_TARGET inline void multiply_float_slices(const Product& p, const FloatTile& t, int64_t row0, int64_t pb,
                                             int panels) {
  TileOutput out = output_of(p, row0, pb, panels);
  out.rows = t.rows;
  outer_tile(p, row0, pb, out, [&](int64_t, int64_t begin, int64_t end, const TileOutput& piece) {
    FloatTile slice = t;
    slice.a += begin * t.a_k_stride;
    for (const float*& b : slice.b) b += begin * panel_rows;
    slice.n = end - begin;
    slice.c = piece.c;
    slice.c_stride = piece.stride;
    slice.factor = 1.0f;
    multiply_float_tile<loop>(slice, panels);
  });
}

// One K block [k0, k1) of panels pb.. of B times rows [first, last) of A; sums wait in C between K blocks.
template <Loop loop>
FP4_TARGET inline void multiply_float_part(const Product& p, bool direct_a, int64_t pb, int64_t first, int64_t last,
                                           int64_t k0, int64_t k1) {
  const MatrixView x = direct_a ? p.a.plan->x : MatrixView{};
  const Panels& panels_b = p.b.panels;
  const int wide = static_cast<int>(smaller<int64_t>(loop == Loop::fp64 ? 1 : 2, panels_b.count - pb));
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
    if (restarts<loop>(p)) {
      multiply_float_slices<loop>(p, t, row0, pb, wide);
    } else {
      multiply_float_tile<loop>(t, wide);
    }
  }
}

template <Loop loop>
inline void multiply_float_panels(const Product& p, bool direct_a) {
  const int threads = threads_for(p);
  const int64_t count = p.b.panels.count;
  const int64_t step = loop == Loop::fp64 ? 1 : 2;
  const int64_t k_block = loop == Loop::fp64 || restarts<loop>(p) ? larger<int64_t>(p.a.cols, 1) : float_k_block;
  for (int64_t k0 = 0; k0 < larger<int64_t>(p.a.cols, 1); k0 += k_block) {
    const int64_t k1 = smaller(k0 + k_block, p.a.cols);
    for (int64_t first = 0; first < p.a.rows; first += row_block) {
      const int64_t last = smaller(first + row_block, p.a.rows);
      if (threads == 1) {
        for (int64_t pb = 0; pb < count; pb += step) multiply_float_part<loop>(p, direct_a, pb, first, last, k0, k1);
        continue;
      }
#pragma omp parallel for num_threads(threads) schedule(dynamic, 4)
      for (int64_t pb = 0; pb < count; pb += step) multiply_float_part<loop>(p, direct_a, pb, first, last, k0, k1);
    }
  }
}

}  // namespace fp4::FP4_ISA
