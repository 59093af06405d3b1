// Products of elements in units of 16 bits (pairs_body.h).
#pragma once

#include "src/cpu/gemm/pairs_body.h"
#include "src/cpu/gemm/product_terms_body.h"
#include "src/cpu/gemm/tiles.h"
#include "src/cpu/simd/lanes.h"

namespace fp4::FP4_ISA {

// The input from column `begin` of K on, up to `end`.
inline PairInput sliced(const PairInput& all_of_it, int64_t begin, int64_t end, int panels) {
  PairInput t = all_of_it;
  const int64_t first = begin / pair_run;
  const auto scales = [first](int shift) { return shift > 30 ? 0 : (first >> shift) * panel_rows; };
  t.a += begin * panel_rows;
  t.rest_start += first;
  t.scale_a += scales(t.scale_shift_a);
  for (int j = 0; j < panels; ++j) {
    t.b[j] += begin * panel_rows;
    t.rest_b[j] += begin * panel_rows;
    t.marks_b[j] += first;
    t.scale_b[j] += scales(t.scale_shift_b);
  }
  t.runs = (end - begin + pair_run - 1) / pair_run;
  return t;
}

// Whether all parts of split sums are floats: what becomes infinite has no error.
inline bool keeps_split_bits(const SumSpan& span) { return span.sum_log2 <= 126 && span.lowest_bit >= -149; }

// Panels pb.. of B times rows [first, last) of A, but for the tiles marked in `done`; marks what it did.
FP4_TARGET inline void multiply_pairs_part(const Product& p, int64_t pb, int panels, int64_t first, int64_t last,
                                           bool* done) {
  const Panels& pa = p.a.panels;
  const Panels& panels_b = p.b.panels;
  const Folding folding = make_folding(p);
  const bool is_split = p.pairs.finish == PairFinish::split;
  const PairKernel kernel = pair_kernel(p.pairs.finish, panels);
  int tries = 4;  // tiles that may be inexact before the kernel is given up for the part
  const int64_t runs = pa.padded / pair_run;
  PairInput t = {};
  for (int j = 0; j < panels; ++j) {
    t.b[j] = panels_b.panel_pairs(pb + j);
    t.rest_b[j] = panels_b.column_rests + (pb + j) * panels_b.padded * panel_rows;
    t.marks_b[j] = panels_b.rest_marks + (pb + j) * runs;
    t.scale_b[j] = panels_b.panel_scales(pb + j);
  }
  t.runs = (p.a.cols + pair_run - 1) / pair_run;
  t.scale_shift_a = scale_shift(pa.block, pair_run, pa.padded);
  t.scale_shift_b = scale_shift(panels_b.block, pair_run, panels_b.padded);
  t.cut_b = p.pairs.cut_b;
  t.quantum = power_of_two(p.a.quantum_log2() + p.b.quantum_log2());
  t.snap_log2 = p.options.accumulator.snap_log2;
  const cpu::ScaleRange range_b = range_of(panels_b, pb, panels);
  for (int64_t row0 = first; row0 < last && tries > 0; row0 += tile_rows) {
    bool& is_done = done[(row0 - first) / tile_rows];
    const int64_t panel = row0 / panel_rows;
    if (is_done || !scales_in_range(pa.range[panel], range_b)) continue;
    const int64_t half = row0 % panel_rows;
    t.a = pa.panel_pairs(panel) + half * 2;
    t.rests = pa.panel_rests(panel, half / tile_rows);
    t.rest_start = pa.rest_start + (panel * 2 + half / tile_rows) * (runs + 1);
    t.scale_a = pa.panel_scales(panel) + half;
    t.cut_a = pa.cut[panel];
    t.unit = t.quantum * power_of_two(t.cut_a + t.cut_b);
    if (is_split && !keeps_split_bits(span_of(pa.range[panel], range_b, folding))) continue;
    const TileOutput out = output_of(p, row0, pb, panels);
    is_done = true;
    if (p.restarts()) {
      outer_tile(p, row0, pb, out, [&](int64_t, int64_t begin, int64_t end, const TileOutput& piece) {
        is_done = is_done && kernel(sliced(t, begin, end, panels), piece);
      });
    } else {
      is_done = kernel(t, out);
    }
    if (!is_done) --tries;
  }
}

}  // namespace fp4::FP4_ISA
