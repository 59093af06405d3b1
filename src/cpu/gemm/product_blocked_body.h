// Products block by block: tiles of 8 rows of A by panels of B, each through the fastest kernel whose conditions hold.
#pragma once

#include <algorithm>

#include "src/cpu/gemm/kernel_table.h"
#include "src/cpu/gemm/product_groups_body.h"
#include "src/cpu/gemm/product_pairs_body.h"
#include "src/cpu/gemm/product_terms_body.h"
#include "src/cpu/gemm/product_whole_body.h"
#include "src/cpu/gemm/tiles.h"
#include "src/cpu/simd/lanes.h"
#include "src/parallel.h"

namespace fp4::FP4_ISA {

// Aligned sums of single products: tiles are tried until some fail.
struct SingleTries {
  int limit = 0;  // the largest exponent that cuts nothing
  int left = 4;   // tiles that may fail before the part goes term by term
};
FP4_TARGET inline bool try_single(const BlockedPlan& k, const TileInput& t, SingleTries& tries, const TileOutput& out) {
  if (tries.left == 0 || tries.limit == INT32_MIN) return false;
  if (k.single(t, k.folding, tries.limit, out)) return true;
  --tries.left;
  return false;
}

// One tile, all of K: false where the kernel's conditions do not hold.
FP4_TARGET inline bool fast_tile(const BlockedPlan& k, const TileInput& t, int panels, SingleTries& single,
                                 const TileOutput& out) {
  if (k.single != nullptr) return try_single(k, t, single, out);
  if (k.cut != nullptr) {
    k.cut(t, k.folding, out);
  } else {
    (panels == 2 ? k.two : k.one)(t, out);
  }
  return true;
}

// The input of columns `begin` to `end` of K.
inline TileInput sliced(const TileInput& all_of_it, int64_t run, int64_t begin, int64_t end, int panels) {
  TileInput t = all_of_it;
  const int64_t first = begin / run;
  const auto scales = [first](int shift) { return shift > 30 ? 0 : (first >> shift) * panel_rows; };
  t.a += begin * panel_rows;
  t.scale_a += scales(t.scale_shift_a);
  for (int j = 0; j < panels; ++j) {
    t.b[j] += begin * panel_rows;
    t.scale_b[j] += scales(t.scale_shift_b);
    t.correction[j] += first * panel_rows;
  }
  t.runs = (end - begin + run - 1) / run;
  return t;
}

// Panels pb.. of B times rows [first, last) of A, but for the tiles marked in `done`; marks what it did.
FP4_TARGET inline void multiply_blocked_part(const Product& p, BlockedPlan k, int64_t pb, int panels, int64_t first,
                                             int64_t last, bool* done) {
  TileInput& t = k.input;
  const Panels& pa = p.a.panels;
  const Panels& panels_b = p.b.panels;
  SingleTries single;
  const cpu::ScaleRange range_b = range_of(panels_b, pb, panels);
  for (int j = 0; j < panels; ++j) {
    t.b[j] = panels_b.panel_bytes(pb + j);
    t.scale_b[j] = panels_b.panel_scales(pb + j);
    t.correction[j] = panels_b.correction + (pb + j) * t.runs * panel_rows;
  }
  for (int64_t row0 = first; row0 < last; row0 += tile_rows) {
    bool& is_done = done[(row0 - first) / tile_rows];
    const int64_t panel = row0 / panel_rows;
    const int64_t half = row0 % panel_rows;
    if (is_done || !scales_in_range(pa.range[panel], range_b)) continue;
    if (p.may_be_certain && !is_certain(p, pa.range[panel], range_b, k.folding)) continue;
    t.a = pa.panel_bytes(panel) + half * 4;
    t.scale_a = pa.panel_scales(panel) + half;
    if (k.single != nullptr) single.limit = single_limit(p, pa.range[panel], range_b, k.folding);
    const TileOutput out = output_of(p, row0, pb, panels);
    if (!p.restarts()) {
      is_done = fast_tile(k, t, panels, single, out);
      continue;
    }
    is_done = true;
    outer_tile(p, row0, pb, out, [&](int64_t, int64_t begin, int64_t end, const TileOutput& piece) {
      const TileInput slice = sliced(t, p.run, begin, end, panels);
      k.folding.runs = slice.runs;
      is_done = is_done && fast_tile(k, slice, panels, single, piece);
    });
  }
}

// Tiles still to do: [panels of B of a group][tiles of a row block].
struct Progress {
  bool done[largest_group][row_block / tile_rows] = {};
};

// Panels [pb, end) of B times rows [first, last) of A.
struct Part {
  const Product& p;
  const BlockedPlan& k;
  const GroupPlan& groups;
  int64_t pb;
  int64_t end;
  int64_t first;
  int64_t last;
  Progress progress = {};

  int64_t tiles() const { return (last - first + tile_rows - 1) / tile_rows; }
  int64_t open_tiles(int64_t panel) const {
    const bool* done = progress.done[panel - pb];
    return std::count(done, done + tiles(), false);
  }
  int64_t open_tiles() const {
    int64_t count = 0;
    for (int64_t j = pb; j < end; ++j) count += open_tiles(j);
    return count;
  }
  // What a kernel marked in the list of the first of two panels holds for both.
  void copy_marks(int64_t panel) {
    std::copy(progress.done[panel - pb], progress.done[panel - pb] + tiles(), progress.done[panel + 1 - pb]);
  }
};

FP4_TARGET inline void multiply_level(Part& s) {
  bool* whole = s.progress.done[0];
  const WholeColumns columns = whole_columns(s.p.b.panels, s.pb, s.end - s.pb);
  for (int64_t tile = 0; tile < s.tiles(); ++tile) {
    whole[tile] = is_whole(s.p, (s.first + tile * tile_rows) / panel_rows, columns);
  }
  if (std::count(whole, whole + s.tiles(), true) == 0) return;
  for (int64_t j = s.pb; j < s.end; j += whole_panels) {
    multiply_whole_part(s.p, j, static_cast<int>(smaller<int64_t>(whole_panels, s.end - j)), s.first, s.last, whole);
  }
  for (int64_t j = s.pb; j + 1 < s.end; ++j) s.copy_marks(j);
}

FP4_TARGET inline void multiply_pairs(Part& s) {
  for (int64_t j = s.pb; j < s.end; j += pair_panels) {
    const int panels = static_cast<int>(smaller<int64_t>(pair_panels, s.end - j));
    multiply_pairs_part(s.p, j, panels, s.first, s.last, s.progress.done[j - s.pb]);
    if (panels == 2) s.copy_marks(j);
  }
}

FP4_TARGET inline void multiply_groups(Part& s) {
  for (int64_t j = s.pb; j < s.end; ++j) {
    multiply_grouped_part(s.p, s.k, s.groups, j, s.first, s.last, s.progress.done[j - s.pb]);
  }
}

FP4_TARGET inline void multiply_blocks(Part& s) {
  for (int64_t j = s.pb; j < s.end; j += s.k.step) {
    if (s.open_tiles(j) == 0) continue;
    const int panels = static_cast<int>(smaller(s.k.step, s.end - j));
    multiply_blocked_part(s.p, s.k, j, panels, s.first, s.last, s.progress.done[j - s.pb]);
    if (panels == 2) s.copy_marks(j);
  }
}

inline const char* declines_level(const Part& s) {
  return s.p.has_levels ? nullptr : "no bytes, or rows whose scales cannot be brought together";
}
inline const char* declines_pairs(const Part& s) {
  return s.p.pairs.finish != PairFinish::none ? nullptr : "no 6- or 8-bit elements in blocks of 32 that 16 bits hold";
}
inline const char* declines_groups(const Part& s) {
  return s.groups.kernel != nullptr ? nullptr : "no sums of groups of small integers";
}
inline const char* declines_int8(const Part& s) {
  return s.k.one != nullptr ? nullptr : "no fp32_block of small integers, nor ranges of scales that prove its order";
}
inline const char* declines_single(const Part& s) {
  return s.k.single != nullptr ? nullptr : "no aligned sums of single products of small integers";
}
inline const char* declines_cut(const Part& s) {
  return s.k.cut != nullptr ? nullptr : "no aligned sums whose terms are dots of 16 small integers";
}

// One row a kernel, in the order of kernel_table.h; `terms` and `core` end it.
struct KernelRow {
  cpu::GemmKernel id;
  const char* (*declines)(const Part&);  // nullptr: it takes the product
  void (*multiply)(Part&);               // marks the tiles whose data fit
};
inline constexpr KernelRow kernel_rows[] = {
    {cpu::GemmKernel::level, declines_level, multiply_level},
    {cpu::GemmKernel::pairs, declines_pairs, multiply_pairs},
    {cpu::GemmKernel::groups, declines_groups, multiply_groups},
    {cpu::GemmKernel::int8, declines_int8, multiply_blocks},
    {cpu::GemmKernel::single, declines_single, multiply_blocks},
    {cpu::GemmKernel::cut, declines_cut, multiply_blocks},
};

FP4_TARGET inline void multiply_group(Part s) {
  int64_t open = s.open_tiles();
  for (const KernelRow& row : kernel_rows) {
    if (const char* reason = row.declines(s); reason != nullptr) {
      cpu::gemm_uses.decline(row.id, reason);
      continue;
    }
    row.multiply(s);
    const int64_t left = s.open_tiles();
    cpu::gemm_uses.count(row.id, open, open - left);
    open = left;
    if (open == 0) return;
  }
  const int64_t slow = multiply_terms(s.p, s.k, s.pb, s.end, s.first, s.last, s.progress);
  cpu::gemm_uses.count(cpu::GemmKernel::terms, open, open - slow);
  if (slow > 0) cpu::gemm_uses.count(cpu::GemmKernel::core, slow, slow);
}

inline void multiply_blocked_panels(const Product& p) {
  const BlockedPlan plan = plan_blocked(p);
  const GroupPlan groups = plan_groups(p, plan);
  const int threads = threads_for(p);
  const int64_t count = p.b.panels.count;
  const int64_t across = (count + plan.group - 1) / plan.group;
  const int64_t down = (p.a.rows + row_block - 1) / row_block;
  parallel_for(0, down * across, 1, threads, 1, [&](int64_t tile) {
    const int64_t first = tile / across * row_block;
    const int64_t pb = tile % across * plan.group;
    multiply_group({p, plan, groups, pb, smaller(pb + plan.group, count), first, smaller(first + row_block, p.a.rows)});
  });
}

}  // namespace fp4::FP4_ISA
