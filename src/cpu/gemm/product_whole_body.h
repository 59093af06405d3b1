// Products of level panels (level_body.h).
#pragma once

#include "src/cpu/gemm/product_fold_body.h"
#include "src/cpu/gemm/tiles.h"
#include "src/cpu/simd/lanes.h"

namespace fp4::FP4_ISA {

// What panels of B bring to the question whether a product is whole.
struct WholeColumns {
  bool level = true;
  uint64_t largest_norm = 0;
  cpu::ScaleRange range;
};

inline WholeColumns whole_columns(const Panels& b, int64_t pb, int64_t panels) {
  WholeColumns w;
  for (int64_t j = pb; j < pb + panels; ++j) {
    w.level = w.level && b.level[j].done;
    w.largest_norm = larger<uint64_t>(w.largest_norm, b.level[j].largest_norm);
  }
  w.range = range_of(b, pb, panels);
  return w;
}

// Whether every sum of products of the panels fits 24 bits (level_body.h).
inline bool is_whole(const Product& p, int64_t panel, const WholeColumns& b) {
  const cpu::Level& a = p.a.panels.level[panel];
  return b.level && a.done && a.largest_norm * b.largest_norm <= uint64_t{1} << 48 &&
         scales_in_range(p.a.panels.range[panel], b.range);
}

// Aligned sums weigh blocks by their scales, so only level panels whose products are all proven may forget them: no
// term and no accumulator, all multiples of 2^unit and at most 2^24 of it, reaches below the cut of the largest weight.
inline bool may_level_aligned(const Product& p) {
  const Folding f = make_folding(p);
  // A subnormal sum heeds the scales that blocks have (windowed.h).
  const auto range = [](const Panels& panels) { return range_of(panels, 0, panels.count); };
  if (f.only_whole && !scales_in_range(range(p.a.panels), range(p.b.panels))) return false;
  uint64_t norm[2] = {};
  cpu::ScaleRange live[2];  // without zero blocks
  int weight = 0;
  const Side* sides[] = {&p.a, &p.b};
  for (int i = 0; i < 2; ++i) {
    const Panels& panels = sides[i]->panels;
    int largest = i == 0 ? f.least_exponent_a : f.least_exponent_b;
    for (int64_t j = 0; j < panels.count; ++j) {
      if (!panels.level[j].possible) return false;
      norm[i] = larger<uint64_t>(norm[i], panels.level[j].largest_norm);
      if (panels.range[j].largest != 0) largest = larger(largest, panels.range[j].largest_log2());
    }
    for (int64_t j = 0; j < panels.count * panel_rows; ++j) {
      const uint32_t s = bits_of(panels.row_scale[j]);
      if (s != 0) live[i] = {smaller(live[i].least, s), larger(live[i].largest, s)};
    }
    if (live[i].largest == 0) return false;
    weight += largest;
  }
  const int unit = live[0].least_log2() + live[1].least_log2() + p.a.quantum_log2() + p.b.quantum_log2();
  return norm[0] * norm[1] <= uint64_t{1} << 48 && f.fraction_bits >= 24 && weight - f.fraction_bits <= unit;
}

inline void complete_aligned(Product& p, const PanelOptions& options_a, const PanelOptions& options_b) {
  p.has_levels = may_level_aligned(p);
  for (int64_t i = 0; i < p.a.panels.count; ++i) complete_panel(options_a, p.a.panels, i, p.has_levels);
  for (int64_t i = 0; i < p.b.panels.count; ++i) complete_panel(options_b, p.b.panels, i, p.has_levels);
}

// The tiles of rows [first, last) marked in `whole`, times up to whole_panels panels of B.
FP4_TARGET inline void multiply_whole_part(const Product& p, int64_t pb, int panels, int64_t first, int64_t last,
                                           const bool* whole) {
  const Panels& pa = p.a.panels;
  const Panels& panels_b = p.b.panels;
  alignas(64) int32_t sums[row_block / tile_rows][tile_rows * whole_panels * panel_rows];
  const WholeKernel kernel = whole_kernel(panels);
  WholeInput w = {};
  w.quantum = p.quantum;
  w.scales = p.factor != 1.0f;
  w.snap_log2 = p.options.accumulator.snap_log2;
  for (int j = 0; j < panels; ++j) {
    w.scale_b[j] = panels_b.row_scale + (pb + j) * panel_rows;
    w.start[j] = panels_b.total + (pb + j) * panel_rows;
  }
  for (int64_t k0 = 0; k0 < pa.padded; k0 += whole_k_piece) {
    w.count4 = smaller(whole_k_piece, pa.padded - k0) / 4;
    w.first = k0 == 0;
    w.last = k0 + whole_k_piece >= pa.padded;
    for (int j = 0; j < panels; ++j) w.b[j] = panels_b.panel_bytes(pb + j) + k0 * panel_rows;
    for (int64_t row0 = first; row0 < last; row0 += tile_rows) {
      const int64_t tile = (row0 - first) / tile_rows;
      if (!whole[tile]) continue;
      const int64_t half = row0 % panel_rows;
      w.a = pa.panel_bytes(row0 / panel_rows) + k0 * panel_rows + half * 4;
      w.scale_a = pa.row_scale + row0;
      w.sums = sums[tile];
      kernel(w, output_of(p, row0, pb, panels));
    }
  }
}

}  // namespace fp4::FP4_ISA
