// Sums of a group of blocks as integers. Where the scales of a row within a group lie close together, each is a small
// integer times the group's unit, a power of two; so is a product of two scales, and the sum of dots times such
// products is a sum of integers, exact in 32 bits, that is rounded once when the group closes.
#pragma once

#include "src/cpu/gemm/product_fold_body.h"
#include "src/cpu/gemm/tiles.h"
#include "src/cpu/simd/lanes.h"
#include "src/threads/scratch.h"

namespace fp4::FP4_ISA {

// The scales of one side; runs come in pairs, one in each half of a 32-bit word.
struct GroupScales {
  uint32_t* factor;   // [panel][pair of runs][16]
  float* unit;        // [panel][group][16]
  uint32_t* largest;  // [panel][group][2]: the largest factor of each half; from 2^15 on they are not to be used
};

struct GroupShape {
  int64_t runs;  // within K
  int64_t pairs;
  int64_t length;  // runs of a group
  int64_t groups;
};

inline GroupShape group_shape(const Folding& f) {
  const int64_t length = f.runs_per_group == 0 ? f.runs : f.runs_per_group;
  return {f.runs, (f.runs + 1) / 2, length, (f.runs + length - 1) / length};
}

// Whether the model rounds groups of whole pairs of runs, with scales of a few bits.
inline bool may_group(const Product& p, const Folding& f) {
  return f.sum == Sum::group && f.runs_per_group % 2 == 0 && f.runs > 0 && !p.restarts();
}

inline void lay_groups(const Panels& p, const GroupShape& g, Scratch& scratch, GroupScales& s) {
  scratch.put(s.factor, p.count * g.pairs * panel_rows);
  scratch.put(s.unit, p.count * g.groups * panel_rows);
  scratch.put(s.largest, p.count * g.groups * 2);
}

FP4_SIMD F run_scales(const float* scales, int64_t run, int shift) {
  return load(scales + (run >> shift) * panel_rows);
}

// Scales of panel `panel`, runs [first, last): one group.
FP4_TARGET inline void fill_group(const Side& side, int shift, const GroupShape& g, int64_t panel, int64_t group,
                                  const GroupScales& out) {
  const int64_t first = group * g.length;
  const int64_t last = smaller(first + g.length, g.runs);
  const float* scales = side.panels.panel_scales(panel);
  I least = all(0x7F800000);
  for (int64_t run = first; run < last; ++run) {
    const I s = bits(run_scales(scales, run, shift));
    least = smaller(least, select(s == all(0), least, s));
  }
  // Nothing but zeros: any unit. The unit and its inverse are to be normal.
  const I field = shift_right<23>(least) - all(scale_fraction_bits(side.q));
  const I unit = select(least == all(0x7F800000), all(127), field);
  const F inverse = as_float(shift_left<23>(all(254) - unit));
  I largest = select((unit > all(0)) & (unit < all(254)), all(0), all(1 << 15));
  for (int64_t run = first; run < last; run += 2) {
    const I low = truncated(run_scales(scales, run, shift) * inverse);
    const I high = run + 1 < last ? truncated(run_scales(scales, run + 1, shift) * inverse) : all(0);
    largest = larger_unsigned(largest, larger_unsigned(low, high));
    store(out.factor + (panel * g.pairs + run / 2) * panel_rows, low | shift_left<16>(high));
  }
  store(out.unit + (panel * g.groups + group) * panel_rows, as_float(shift_left<23>(unit)));
  const I capped = smaller_unsigned(largest, all(1 << 15));
  uint32_t* halves = out.largest + (panel * g.groups + group) * 2;
  halves[0] = static_cast<uint32_t>(largest_lane(select(first_lanes(8), capped, all(0))));
  halves[1] = static_cast<uint32_t>(largest_lane(select(first_lanes(8), all(0), capped)));
}

FP4_TARGET inline void fill_groups(const Side& side, int shift, const GroupShape& g, const GroupScales& out) {
  for (int64_t panel = 0; panel < side.panels.count; ++panel) {
    for (int64_t group = 0; group < g.groups; ++group) fill_group(side, shift, g, panel, group, out);
  }
}

// The largest magnitude of a panel's bytes: level ones carry differences of scales.
inline int64_t largest_byte(const Side& side, int64_t panel) {
  return side.panels.level[panel].done ? 127 : side.largest_fixed();
}

// Whether dots and products of scales fit 16 bits, and the sums of their groups 32: half a panel of A, a panel of B.
inline bool groups_fit(int64_t dot, const GroupShape& g, const uint32_t* a, const uint32_t* b) {
  constexpr uint64_t most = (1u << 15) - 1;
  const auto largest_dot = static_cast<uint64_t>(dot);
  if (largest_dot > most) return false;
  const uint64_t sums = ((uint64_t{1} << 31) - 1) / (largest_dot * static_cast<uint64_t>(g.length));
  for (int64_t i = 0; i < g.groups; ++i) {
    if (uint64_t{a[2 * i]} * larger(b[2 * i], b[2 * i + 1]) > smaller(most, sums)) return false;
  }
  return true;
}

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
  thread_local Scratch scratch;
  scratch.reset();
  lay_groups(p.a.panels, plan.shape, scratch, plan.a);
  lay_groups(p.b.panels, plan.shape, scratch, plan.b);
  fill_groups(p.a, k.input.scale_shift_a, plan.shape, plan.a);
  fill_groups(p.b, k.input.scale_shift_b, plan.shape, plan.b);
  return plan;
}

}  // namespace fp4::FP4_ISA
