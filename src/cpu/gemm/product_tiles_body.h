// Tiles of 8 rows of A by panels of B, offered to one kernel after the other; each marks the tiles that it did.
#pragma once

#include <algorithm>

#include "src/cpu/gemm/group_scales_body.h"
#include "src/cpu/gemm/pairs_body.h"
#include "src/cpu/gemm/product_terms_body.h"
#include "src/cpu/gemm/product_whole_body.h"
#include "src/cpu/gemm/tiles.h"
#include "src/cpu/simd/lanes.h"

namespace fp4::FP4_ISA {

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

// Rows row0.. of A times panels pb.. of B.
struct TileAt {
  int64_t row0;
  int64_t pb;
  int panels;
  const cpu::ScaleRange& range_a;
  const cpu::ScaleRange& range_b;

  int64_t panel() const { return row0 / panel_rows; }
  int64_t half() const { return row0 % panel_rows; }
};

// Whether a tile's data are fit for a kernel, as far as scales tell, and whether it could prove its sums.
enum class Outcome : uint8_t { unfit, failed, done };

// Offers the open tiles of a part to `tile`, after `open` for the panels of B that they have in common, and marks what
// it did. Tiles may fail four times before the kernel is given up for these panels.
template <class Open, class Tile>
FP4_TARGET void offer_tiles(Part& s, int64_t step, const Open& open, const Tile& tile) {
  for (int64_t pb = s.pb; pb < s.end; pb += step) {
    if (s.open_tiles(pb) == 0) continue;
    const int panels = static_cast<int>(smaller(step, s.end - pb));
    const cpu::ScaleRange range_b = range_of(s.p.b.panels, pb, panels);
    open(pb, panels);
    bool* done = s.progress.done[pb - s.pb];
    int tries = 4;
    for (int64_t row0 = s.first; row0 < s.last && tries > 0; row0 += tile_rows, ++done) {
      const cpu::ScaleRange& range_a = s.p.a.panels.range[row0 / panel_rows];
      if (*done || !scales_in_range(range_a, range_b)) continue;
      const Outcome outcome = tile(TileAt{row0, pb, panels, range_a, range_b});
      *done = outcome == Outcome::done;
      if (outcome == Outcome::failed) --tries;
    }
    if (panels == 2) s.copy_marks(pb);
  }
}

// Where tiles of bytes read in B, and in A.
inline void open_bytes(const Part& s, int64_t pb, int panels, TileInput& t) {
  const Panels& b = s.p.b.panels;
  for (int j = 0; j < panels; ++j) {
    t.b[j] = b.panel_bytes(pb + j);
    t.scale_b[j] = b.panel_scales(pb + j);
    t.correction[j] = b.correction + (pb + j) * t.runs * panel_rows;
  }
}
inline void move_bytes(const Part& s, const TileAt& at, TileInput& t) {
  t.a = s.p.a.panels.panel_bytes(at.panel()) + at.half() * 4;
  t.scale_a = s.p.a.panels.panel_scales(at.panel()) + at.half();
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

FP4_TARGET inline void multiply_int8(Part& s) {
  const Product& p = s.p;
  TileInput t = s.k.input;
  offer_tiles(
      s, 2, [&](int64_t pb, int panels) { open_bytes(s, pb, panels, t); },
      [&](const TileAt& at) {
        move_bytes(s, at, t);
        const TileKernel kernel = at.panels == 2 ? s.k.two : s.k.one;
        const TileOutput out = output_of(p, at.row0, at.pb, at.panels);
        if (!p.restarts()) {
          kernel(t, out);
          return Outcome::done;
        }
        outer_tile(p, at.row0, at.pb, out, [&](int64_t, int64_t begin, int64_t end, const TileOutput& piece) {
          kernel(sliced(t, p.run, begin, end, at.panels), piece);
        });
        return Outcome::done;
      });
}

FP4_TARGET inline void multiply_single(Part& s) {
  TileInput t = s.k.input;
  offer_tiles(
      s, 1, [&](int64_t pb, int panels) { open_bytes(s, pb, panels, t); },
      [&](const TileAt& at) {
        const int limit = single_limit(s.p, at.range_a, at.range_b, s.k.folding);
        if (limit == INT32_MIN) return Outcome::unfit;
        move_bytes(s, at, t);
        const bool done = s.k.single(t, s.k.folding, limit, output_of(s.p, at.row0, at.pb, 1));
        return done ? Outcome::done : Outcome::failed;
      });
}

FP4_TARGET inline void multiply_cut(Part& s) {
  TileInput t = s.k.input;
  offer_tiles(
      s, 1, [&](int64_t pb, int panels) { open_bytes(s, pb, panels, t); },
      [&](const TileAt& at) {
        move_bytes(s, at, t);
        return s.k.cut(t, s.k.folding, output_of(s.p, at.row0, at.pb, 1)) ? Outcome::done : Outcome::failed;
      });
}

FP4_TARGET inline void multiply_groups(Part& s) {
  const GroupPlan& plan = s.groups;
  const GroupShape& shape = plan.shape;
  TileInput t = s.k.input;
  GroupInput g;
  offer_tiles(
      s, 1,
      [&](int64_t pb, int panels) {
        open_bytes(s, pb, panels, t);
        g.factor_b = plan.b.factor + pb * shape.pairs * panel_rows;
        g.unit_b = plan.b.unit + pb * shape.groups * panel_rows;
      },
      [&](const TileAt& at) {
        const int64_t dot = s.p.run * largest_byte(s.p.a, at.panel()) * largest_byte(s.p.b, at.pb);
        const uint32_t* largest_a = plan.a.largest + at.panel() * shape.groups * 2 + at.half() / tile_rows;
        if (!groups_fit(dot, shape, largest_a, plan.b.largest + at.pb * shape.groups * 2)) return Outcome::unfit;
        move_bytes(s, at, t);
        g.factor_a = plan.a.factor + at.panel() * shape.pairs * panel_rows + at.half();
        g.unit_a = plan.a.unit + at.panel() * shape.groups * panel_rows + at.half();
        plan.kernel(t, g, s.k.folding, output_of(s.p, at.row0, at.pb, 1));
        return Outcome::done;
      });
}

FP4_TARGET inline void multiply_wide(Part& s) {
  const WideKernel kernel = wide_kernel(s.k.input.run4);
  TileInput t = s.k.input;
  offer_tiles(
      s, 1, [&](int64_t pb, int panels) { open_bytes(s, pb, panels, t); },
      [&](const TileAt& at) {
        move_bytes(s, at, t);
        const bool done = kernel(t, s.k.folding, output_of(s.p, at.row0, at.pb, 1));
        return done ? Outcome::done : Outcome::failed;
      });
}

FP4_TARGET inline void multiply_pairs(Part& s) {
  const Product& p = s.p;
  const Panels& a = p.a.panels;
  const Panels& b = p.b.panels;
  const int64_t runs = a.padded / pair_run;
  PairInput t = {};
  t.runs = s.k.folding.runs;
  t.scale_shift_a = s.k.input.scale_shift_a;
  t.scale_shift_b = s.k.input.scale_shift_b;
  t.cut_b = p.pairs.cut_b;
  t.quantum = power_of_two(p.a.quantum_log2() + p.b.quantum_log2());
  t.snap_log2 = p.options.accumulator.snap_log2;
  offer_tiles(
      s, pair_panels,
      [&](int64_t pb, int panels) {
        for (int j = 0; j < panels; ++j) {
          t.b[j] = b.panel_pairs(pb + j);
          t.rest_b[j] = b.column_rests + (pb + j) * b.padded * panel_rows;
          t.marks_b[j] = b.rest_marks + (pb + j) * runs;
          t.scale_b[j] = b.panel_scales(pb + j);
        }
      },
      [&](const TileAt& at) {
        if (!keeps_split_bits(span_of(at.range_a, at.range_b, s.k.folding))) return Outcome::unfit;
        const int64_t list = at.panel() * 2 + at.half() / tile_rows;
        t.a = a.panel_pairs(at.panel()) + at.half() * 2;
        t.rests = a.panel_rests(list);
        t.rest_start = a.rest_start + list * (runs + 1);
        t.scale_a = a.panel_scales(at.panel()) + at.half();
        t.cut_a = a.cut[at.panel()];
        t.unit = t.quantum * power_of_two(t.cut_a + t.cut_b);
        const bool done = pair_kernel(at.panels)(t, output_of(p, at.row0, at.pb, at.panels));
        return done ? Outcome::done : Outcome::failed;
      });
}

}  // namespace fp4::FP4_ISA
