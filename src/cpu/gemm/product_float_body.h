// Products on decoded floats, K block by K block (gemm_float_body.h).
#pragma once

#include "src/cpu/gemm/kernel_table.h"
#include "src/cpu/gemm/product_fold_body.h"
#include "src/cpu/simd/lanes.h"
#include "src/parallel.h"

namespace fp4::FP4_ISA {

using FloatKernel = void (*)(const FloatTile&);

template <Loop loop>
inline FloatKernel float_kernel(const FloatTile& t, int panels) {
  if (loop == Loop::fp64) return double_tile;
  if (t.a_k_stride == 1 && !(t.a_row_stride == 1 && t.rows == float_tile_rows)) {
    return panels == 2 ? float_tile<loop, 2, false> : float_tile<loop, 1, false>;
  }
  return panels == 2 ? float_tile<loop, 2, true> : float_tile<loop, 1, true>;
}

// What the values of a panel, elements times scales, are made of.
struct ValueSpan {
  int bits;        // significant ones, at most
  int lowest_bit;  // of the smallest
  int highest;     // all lie below 2^highest
};

inline ValueSpan value_span(const Side& side, const cpu::ScaleRange& range) {
  const int fraction = scale_fraction_bits(side.q);
  return {side.q.element.mantissa_bits + 1 + (fraction > 0 ? fraction + 1 : 0),
          range.least_log2() - fraction + side.quantum_log2(),
          range.largest_log2() + side.q.element.max_exponent() + 2};
}

// Whether values and products of the panels are exact in fp32: then a fused step has the bits of a product and a sum
// that are rounded one after the other.
inline bool has_exact_products(const Product& p, const cpu::ScaleRange& a, const cpu::ScaleRange& b) {
  if (a.largest == 0 || b.largest == 0) return true;
  constexpr int least = -149;
  constexpr int most = 127;
  const ValueSpan x = value_span(p.a, a);
  const ValueSpan y = value_span(p.b, b);
  return x.bits + y.bits <= 24 && smaller(x.lowest_bit, y.lowest_bit) >= least &&
         x.lowest_bit + y.lowest_bit >= least && larger(x.highest, y.highest) <= most && x.highest + y.highest <= most;
}

// Whether a side's values are elements times scales: decoded ones hold all of their factors.
template <Loop loop>
inline bool has_bare_values(const Side& side) {
  if (loop != Loop::fma) return true;
  const QuantSpec& s = side.spec;
  return s.has_scale() && !s.has_outer_scale() && s.prescale == 1.0f && side.panels.factor.g == 1.0f;
}

// One K block [k0, k1) of panels pb.. of B times rows [first, last) of A; sums wait in C between K blocks.
template <Loop loop>
FP4_TARGET inline void multiply_float_part(const Product& p, bool direct_a, int64_t pb, int64_t first, int64_t last,
                                           int64_t k0, int64_t k1) {
  const MatrixView x = direct_a ? p.a.plan->x : MatrixView{};
  const Panels& panels_b = p.b.panels;
  const int wide = static_cast<int>(smaller<int64_t>(loop == Loop::fp64 ? 1 : 2, panels_b.count - pb));
  const int64_t col0 = pb * panel_rows;
  const cpu::ScaleRange range_b = loop != Loop::fp64 && !direct_a ? range_of(panels_b, pb, wide) : cpu::ScaleRange{};
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
    const bool exact = loop == (has_fma ? Loop::multiply_add : Loop::fma) && !direct_a && has_bare_values<loop>(p.a) &&
                       has_bare_values<loop>(p.b) &&
                       has_exact_products(p, p.a.panels.range[row0 / panel_rows], range_b);
    constexpr Loop other = has_fma ? Loop::fma : Loop::multiply_add;
    const FloatKernel kernel = exact ? float_kernel<other>(t, wide) : float_kernel<loop>(t, wide);
    kernel(t);
  }
}

template <Loop loop>
inline void multiply_float_panels(const Product& p, bool direct_a) {
  const int threads = threads_for(p);
  const int64_t count = p.b.panels.count;
  const int64_t tiles = count * ((p.a.rows + tile_rows - 1) / tile_rows);
  cpu::gemm_uses.count(cpu::GemmKernel::floats, tiles, tiles);
  const int64_t step = loop == Loop::fp64 ? 1 : 2;
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
