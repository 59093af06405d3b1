// Products whose groups of blocks are sums of integers (group_scales_body.h).
#pragma once

#include "src/cpu/gemm/group_scales_body.h"
#include "src/cpu/gemm/tiles.h"
#include "src/cpu/simd/lanes.h"

namespace fp4::FP4_ISA {

struct GroupPlan {
  GroupKernel kernel = nullptr;  // null: not such a product
  GroupShape shape = {};
  GroupScales a = {};
  GroupScales b = {};
};

FP4_TARGET inline GroupPlan plan_groups(const Product& p, const BlockedPlan& k) {
  GroupPlan plan;
  if (!p.has_dots || !may_group(p, k.folding)) return plan;
  plan.kernel = group_kernel(k.input.run4);
  if (plan.kernel == nullptr) return plan;
  plan.shape = group_shape(k.folding);
  thread_local Arena arena;
  arena.reset(group_bytes(p.a.panels, plan.shape) + group_bytes(p.b.panels, plan.shape));
  plan.a = take_groups(p.a.panels, plan.shape, arena);
  plan.b = take_groups(p.b.panels, plan.shape, arena);
  fill_groups(p.a, k.input.scale_shift_a, plan.shape, plan.a);
  fill_groups(p.b, k.input.scale_shift_b, plan.shape, plan.b);
  return plan;
}

// Panel pb of B times rows [first, last) of A, but for the tiles marked in `done`; marks what it did.
FP4_TARGET inline void multiply_grouped_part(const Product& p, const BlockedPlan& k, const GroupPlan& plan, int64_t pb,
                                             int64_t first, int64_t last, bool* done) {
  const GroupShape& shape = plan.shape;
  const Panels& pa = p.a.panels;
  const Panels& panels_b = p.b.panels;
  TileInput t = k.input;
  t.b[0] = panels_b.panel_bytes(pb);
  t.correction[0] = panels_b.correction + pb * t.runs * panel_rows;
  GroupInput g;
  g.factor_b = plan.b.factor + pb * shape.pairs * panel_rows;
  g.unit_b = plan.b.unit + pb * shape.groups * panel_rows;
  for (int64_t row0 = first; row0 < last; row0 += tile_rows) {
    const int64_t panel = row0 / panel_rows;
    const int64_t half = row0 % panel_rows;
    bool& is_done = done[(row0 - first) / tile_rows];
    const int64_t dot = p.run * largest_byte(p.a, panel) * largest_byte(p.b, pb);
    const uint32_t* largest_a = plan.a.largest + panel * shape.groups * 2 + half / tile_rows;
    if (is_done || !scales_in_range(pa.range[panel], panels_b.range[pb]) ||
        !groups_fit(dot, shape, largest_a, plan.b.largest + pb * shape.groups * 2)) {
      continue;
    }
    t.a = pa.panel_bytes(panel) + half * 4;
    g.factor_a = plan.a.factor + panel * shape.pairs * panel_rows + half;
    g.unit_a = plan.a.unit + panel * shape.groups * panel_rows + half;
    plan.kernel(t, g, k.folding, output_of(p, row0, pb, 1));
    is_done = true;
  }
}

}  // namespace fp4::FP4_ISA
