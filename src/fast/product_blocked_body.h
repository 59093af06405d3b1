// Products block by block: tiles of 8 rows of A by panels of B, each through the fastest kernel whose conditions hold.
#pragma once

#include <algorithm>

#include "src/fast/product_groups_body.h"
#include "src/fast/product_pairs_body.h"
#include "src/fast/product_terms_body.h"
#include "src/fast/product_whole_body.h"
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

// One tile, all of K: false where the kernels' conditions do not hold.
FP4_TARGET inline bool fast_tile(BlockedPlan& k, const TileInput& t, const FloatRun& x, int panels, int& certificates,
                                 SingleTries& single, const TileOutput& out) {
  if (k.single != nullptr) return try_single(k, t, single, out);
  if (k.engine == Engine::int8_block || k.engine == Engine::terms) {
    (panels == 2 ? k.two : k.one)(t, out);
    return true;
  }
  if (k.engine == Engine::wide_float) return k.wide_float(t, x, k.folding, out);
  if (k.folding.may_certify && certificates > 0) {
    if (certified_tile(k.one, t, k.folding, out)) return true;
    --certificates;
  }
  if (k.cut != nullptr) {
    k.cut(t, k.folding, out);
    return true;
  }
  return k.wide_int8(t, k.folding, out);
}

// The input of columns `begin` to `end` of K.
inline TileInput sliced(const TileInput& all_of_it, int64_t run, int64_t begin, int64_t end, int panels) {
  TileInput t = all_of_it;
  const int64_t first = begin / run;
  const auto scales = [first](int shift) { return shift > 30 ? 0 : (first >> shift) * panel_rows; };
  if (t.a != nullptr) t.a += begin * panel_rows;
  t.scale_a += scales(t.scale_shift_a);
  for (int j = 0; j < panels; ++j) {
    if (t.b[j] != nullptr) t.b[j] += begin * panel_rows;
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
  const bool bytes = k.engine != Engine::wide_float;
  int certificates = 4;  // tries before order-independence is given up for this part
  SingleTries single;
  const fast::ScaleRange range_b = range_of(panels_b, pb, panels);
  for (int j = 0; j < panels; ++j) {
    t.b[j] = bytes ? panels_b.panel_bytes(pb + j) : nullptr;
    t.scale_b[j] = panels_b.panel_scales(pb + j);
    t.correction[j] = panels_b.correction + (pb + j) * t.runs * panel_rows;
  }
  thread_local Arena arena;
  double* wide_b = nullptr;
  if (!bytes) {
    arena.reset(Arena::bytes_for<double>(panels_b.padded * panel_rows));
    wide_b = arena.take<double>(panels_b.padded * panel_rows);
    const float* values = panels_b.panel_values(pb);
    for (int64_t k0 = 0; k0 < panels_b.padded; ++k0) {
      store(wide_b + k0 * panel_rows, load_widened(values + k0 * panel_rows));
    }
  }
  for (int64_t row0 = first; row0 < last; row0 += tile_rows) {
    bool& is_done = done[(row0 - first) / tile_rows];
    if (is_done) continue;
    const int64_t panel = row0 / panel_rows;
    const int64_t half = row0 % panel_rows;
    t.a = bytes ? pa.panel_bytes(panel) + half * 4 : nullptr;
    t.scale_a = pa.panel_scales(panel) + half;
    const FloatRun x = {bytes ? nullptr : pa.panel_values(panel) + half, wide_b, p.run};
    const TileOutput out = output_of(p, row0, pb, panels);
    if (!scales_in_range(pa.range[panel], range_b)) continue;
    if (k.engine == Engine::terms) {
      if (!is_certain(p, pa.range[panel], range_b, k.folding)) continue;
    } else if (k.single != nullptr) {
      single.limit = single_limit(p, pa.range[panel], range_b, k.folding);
    } else if (!set_alignment(pa.range[panel], range_b, k.folding)) {
      if (k.cut == nullptr) continue;
      k.folding.may_certify = false;
    }
    if (!p.restarts()) {
      is_done = fast_tile(k, t, x, panels, certificates, single, out);
      continue;
    }
    is_done = true;
    outer_tile(p, row0, pb, out, [&](int64_t, int64_t begin, int64_t end, const TileOutput& piece) {
      const TileInput slice = sliced(t, p.run, begin, end, panels);
      FloatRun y = x;
      if (!bytes) y = {x.a + begin * panel_rows, x.b + begin * panel_rows, x.length};
      k.folding.runs = slice.runs;
      is_done = is_done && fast_tile(k, slice, y, panels, certificates, single, piece);
    });
  }
}

// Tiles still to do: [panels of B of a group][tiles of a row block].
struct Progress {
  bool done[largest_group][row_block / tile_rows] = {};
};

FP4_TARGET inline void multiply_group(const Product& p, const BlockedPlan& k, const GroupPlan& groups, int64_t pb,
                                      int64_t first, int64_t last) {
  const int64_t end = smaller(pb + k.group, p.b.panels.count);
  const int64_t tiles = (last - first + tile_rows - 1) / tile_rows;
  Progress progress;
  bool* whole = progress.done[0];
  if (p.has_levels) {
    const WholeColumns columns = whole_columns(p.b.panels, pb, end - pb);
    for (int64_t tile = 0; tile < tiles; ++tile) {
      whole[tile] = is_whole(p, (first + tile * tile_rows) / panel_rows, columns);
    }
  }
  const int64_t count = std::count(whole, whole + tiles, true);
  for (int64_t j = pb; count > 0 && j < end; j += whole_panels) {
    multiply_whole_part(p, j, static_cast<int>(smaller<int64_t>(whole_panels, end - j)), first, last, whole);
  }
  if (count == tiles) return;
  for (int64_t j = pb + 1; j < end; ++j) std::copy(whole, whole + tiles, progress.done[j - pb]);
  for (int64_t j = pb; p.pairs.finish != PairFinish::none && j < end; j += pair_panels) {
    const int panels = static_cast<int>(smaller<int64_t>(pair_panels, end - j));
    multiply_pairs_part(p, j, panels, first, last, progress.done[j - pb]);
    if (panels == 2) std::copy(progress.done[j - pb], progress.done[j - pb] + tiles, progress.done[j + 1 - pb]);
  }
  for (int64_t j = pb; groups.kernel != nullptr && j < end; ++j) {
    multiply_grouped_part(p, k, groups, j, first, last, progress.done[j - pb]);
  }
  for (int64_t j = pb; (k.engine != Engine::terms || p.may_be_certain) && j < end; j += k.step) {
    bool* done = progress.done[j - pb];
    if (std::count(done, done + tiles, false) == 0) continue;
    multiply_blocked_part(p, k, j, static_cast<int>(smaller(k.step, end - j)), first, last, done);
    if (k.step == 2 && j + 1 < end) std::copy(done, done + tiles, progress.done[j + 1 - pb]);
  }
  for (int64_t j = pb; j < end; ++j) {
    if (std::count(progress.done[j - pb], progress.done[j - pb] + tiles, false) == 0) continue;
    return multiply_terms(p, k, pb, end, first, last, progress);
  }
}

inline void multiply_blocked_panels(const Product& p, Engine engine) {
  const BlockedPlan plan = plan_blocked(p, engine);
  const GroupPlan groups = plan_groups(p, plan);
  const int threads = threads_for(p);
  const int64_t count = p.b.panels.count;
  const int64_t across = (count + plan.group - 1) / plan.group;
  const int64_t down = (p.a.rows + row_block - 1) / row_block;
  parallel_for(0, down * across, 1, threads, 1, [&](int64_t tile) {
    const int64_t first = tile / across * row_block;
    multiply_group(p, plan, groups, tile % across * plan.group, first, smaller(first + row_block, p.a.rows));
  });
}

}  // namespace fp4::FP4_ISA
