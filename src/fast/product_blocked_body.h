// Products block by block: tiles of 8 rows of A by panels of B, each through the fastest kernel whose conditions hold.
#pragma once

#include <algorithm>

#include "src/fast/product_plan_body.h"

namespace fp4::FP4_ISA {

// Every sA*sB of the tile, times any dot, is a normal float far from both ends.
inline bool scales_in_range(const fast::ScaleRange& a, const fast::ScaleRange& b) {
  const int least = static_cast<int>(a.least >> 23) + static_cast<int>(b.least >> 23) - 254;
  const int largest = static_cast<int>(a.largest >> 23) + static_cast<int>(b.largest >> 23) - 254;
  return least >= -110 && largest <= 90;
}

// Columns [begin, end) of K through the scalar core; NaN scales are the caller's business.
FP4_TARGET inline void slow_tile(const Product& p, int64_t row0, int64_t col0, int64_t begin, int64_t end,
                                 const TileOutput& out) {
  for (int r = 0; r < out.rows; ++r) {
    const fast::PanelReader a(p.a.panels, row0 + r, p.offset, p.a.q);
    for (int c = 0; c < out.cols; ++c) {
      const fast::PanelReader b(p.b.panels, col0 + c, 0, p.b.q);
      out.c[r * out.stride + c] = dot(p.options.accumulator, a, b, begin, end);
    }
  }
}

// The parts of Folding that do not depend on the tile.
inline Folding make_folding(const Product& p) {
  const Accumulator& row = p.options.accumulator;
  Folding f;
  f.sum = row.kind == AccumulatorKind::block ? Sum::block
                                             : (row.kind == AccumulatorKind::group ? Sum::group : Sum::aligned);
  f.runs_per_group = row.group / p.run;
  f.toward_zero = row.rounding == Rounding::toward_zero;
  f.fraction_bits = row.fraction_bits;
  f.runs = (p.a.cols + p.run - 1) / p.run;
  f.snap_log2 = row.snap_log2;
  const auto least = [](const Quantizer& q) { return q.stores_multiplier() ? -126 : q.scale.min_exponent(); };
  f.least_exponent_a = least(p.a.q);
  f.least_exponent_b = least(p.b.q);
  return f;
}

// Bits of a scale's significand below its leading one (or below the smallest normal exponent).
inline int scale_fraction_bits(const Quantizer& q) { return q.stores_multiplier() ? 23 : q.scale.mantissa_bits; }

// What the sums of a tile are made of: whole multiples of 2^lowest_bit, below 2^sum_log2.
struct SumSpan {
  int lowest_bit;
  int sum_log2;
  int largest_weight;
};

inline SumSpan span_of(const Product& p, const fast::ScaleRange& a, const fast::ScaleRange& b, const Folding& f) {
  const auto exponent = [](uint32_t bits, int least) { return larger(static_cast<int>(bits >> 23) - 127, least); };
  const int least = exponent(a.least, f.least_exponent_a) + exponent(b.least, f.least_exponent_b);
  const int largest = exponent(a.largest, f.least_exponent_a) + exponent(b.largest, f.least_exponent_b);
  const float largest_product = p.a.largest_element() * p.b.largest_element();
  const int terms = floor_log2(static_cast<uint64_t>(largest_product * static_cast<float>(p.a.cols)) + 1) + 1;
  return {least - scale_fraction_bits(p.a.q) - scale_fraction_bits(p.b.q) + p.a.quantum_log2() + p.b.quantum_log2(),
          largest + 2 + terms, largest};
}

// aligned: no term may lose a bit (its lowest bit stays above the cut of the largest weight or accumulator), else
// false. Groups may be certified only where every sum of terms fits 24 bits: a group's own sum is rounded, too, and it
// can need one bit more than the accumulator before and after it.
inline bool set_alignment(const Product& p, const fast::ScaleRange& a, const fast::ScaleRange& b, Folding& f) {
  const SumSpan span = span_of(p, a, b, f);
  f.may_certify =
      f.sum == Sum::aligned || (f.sum == Sum::group && f.runs_per_group == 0) || span.sum_log2 - span.lowest_bit <= 24;
  if (f.sum != Sum::aligned) return true;
  f.safe_accumulator = power_of_two(larger(span.largest_weight - (f.fraction_bits - 23), -126));
  return span.lowest_bit >= span.sum_log2 - f.fraction_bits;
}

// Threads of one product: only from about 512^3 on do they pay.
inline int threads_for(const Product& p) {
  const int64_t work = p.a.rows * p.b.rows * p.a.cols;
  return work >= int64_t{1} << 27 ? larger(p.options.threads, 1) : 1;
}

// Rows of A that stay in L2 while all of B passes by.
inline constexpr int64_t row_block = 192;

struct BlockedPlan {
  Engine engine;
  TileInput input;
  Folding folding;
  TileKernel one;
  TileKernel two;
  WideInt8Kernel wide_int8;
  WideFloatKernel wide_float;
  int64_t step;   // panels of B a tile takes
  int64_t group;  // panels of B a thread takes
};

inline BlockedPlan plan_blocked(const Product& p, Engine engine) {
  BlockedPlan k = {};
  k.engine = engine;
  TileInput& t = k.input;
  t.run4 = p.run / 4;
  t.runs = p.a.panels.padded / p.run;
  t.scale_shift_a = scale_shift(p.a.panels.block, p.run, p.a.panels.padded);
  t.scale_shift_b = scale_shift(p.b.panels.block, p.run, p.b.panels.padded);
  t.quantum = p.quantum;
  k.folding = make_folding(p);
  k.one = block_kernel<1>(t.run4);
  k.two = block_kernel<2>(t.run4);
  k.step = engine == Engine::int8_block ? 2 : 1;
  k.group = p.has_levels ? 6 : k.step;
  k.wide_int8 = wide_int8_kernel(k.folding.sum, t.run4);
  k.wide_float = wide_float_kernel(k.folding.sum);
  return k;
}

FP4_TARGET inline TileOutput output_of(const Product& p, int64_t row0, int64_t pb, int panels) {
  const int64_t col0 = pb * panel_rows;
  uint64_t nan_cols = 0;
  for (int j = 0; j < panels; ++j) nan_cols |= static_cast<uint64_t>(p.b.panels.nan_rows[pb + j]) << (16 * j);
  return {p.c + row0 * p.c_stride + col0,
          p.c_stride,
          static_cast<int>(smaller<int64_t>(tile_rows, p.a.rows - row0)),
          static_cast<int>(smaller<int64_t>(panels * panel_rows, p.b.rows - col0)),
          all(p.factor),
          static_cast<uint32_t>(p.a.panels.nan_rows[row0 / panel_rows]) >> (row0 % panel_rows),
          nan_cols,
          is_finite(p.factor)};
}

inline fast::ScaleRange range_of(const Panels& b, int64_t pb, int64_t panels) {
  fast::ScaleRange range = b.range[pb];
  for (int64_t j = 1; j < panels; ++j) {
    range.least = smaller(range.least, b.range[pb + j].least);
    range.largest = larger(range.largest, b.range[pb + j].largest);
  }
  return range;
}

// Whether every sum of products of the panels fits 24 bits (level_body.h).
inline bool is_whole(const Product& p, int64_t panel, int64_t pb, int64_t panels) {
  const fast::Level& a = p.a.panels.level[panel];
  uint64_t norm = 0;
  for (int64_t j = pb; j < pb + panels; ++j) {
    if (!p.b.panels.level[j].done) return false;
    norm = larger<uint64_t>(norm, p.b.panels.level[j].largest_norm);
  }
  return a.done && a.largest_norm * norm <= uint64_t{1} << 48 &&
         scales_in_range(p.a.panels.range[panel], range_of(p.b.panels, pb, panels));
}

// Aligned sums weigh blocks by their scales, so only level panels whose products are all proven may forget them: no
// term and no accumulator, all multiples of 2^unit and at most 2^24 of it, reaches below the cut of the largest weight.
inline bool may_level_aligned(const Product& p) {
  const Folding f = make_folding(p);
  uint64_t norm[2] = {};
  fast::ScaleRange live[2];  // without zero blocks
  int weight = 0;
  const Side* sides[] = {&p.a, &p.b};
  for (int i = 0; i < 2; ++i) {
    const Panels& panels = sides[i]->panels;
    int largest = i == 0 ? f.least_exponent_a : f.least_exponent_b;
    for (int64_t j = 0; j < panels.count; ++j) {
      if (!panels.level[j].possible) return false;
      norm[i] = larger<uint64_t>(norm[i], panels.level[j].largest_norm);
      if (panels.range[j].largest != 0)
        largest = larger(largest, static_cast<int>(panels.range[j].largest >> 23) - 127);
    }
    for (int64_t j = 0; j < panels.count * panel_rows; ++j) {
      const uint32_t s = bits_of(panels.row_scale[j]);
      if (s != 0) live[i] = {smaller(live[i].least, s), larger(live[i].largest, s)};
    }
    if (live[i].largest == 0) return false;
    weight += largest;
  }
  const int unit = static_cast<int>(live[0].least >> 23) + static_cast<int>(live[1].least >> 23) - 254 +
                   p.a.quantum_log2() + p.b.quantum_log2();
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

// One tile, all of K: false where the kernels' conditions do not hold.
FP4_TARGET inline bool fast_tile(BlockedPlan& k, const TileInput& t, const FloatRun& x, int panels, int& certificates,
                                 const TileOutput& out) {
  if (k.engine == Engine::int8_block) {
    (panels == 2 ? k.two : k.one)(t, out);
    return true;
  }
  if (k.engine == Engine::wide_float) return k.wide_float(t, x, k.folding, out);
  if (k.folding.may_certify && certificates > 0) {
    if (certified_tile(k.one, t, k.folding, out)) return true;
    --certificates;
  }
  return k.wide_int8(t, k.folding, out);
}

// outer128: the accumulator restarts every 128 columns, and the tensor factors go into an fp32 total.
FP4_TARGET inline void outer_tile(const Product& p, BlockedPlan& k, const FloatRun& x, bool in_range, int64_t row0,
                                  int64_t pb, int panels, int& certificates, const TileOutput& out) {
  constexpr int width = 2 * panel_rows;
  alignas(64) float sum[tile_rows][width] = {};
  alignas(64) float total[tile_rows][width] = {};
  const int64_t runs = outer_scale_width / p.run;
  const auto scales = [&](int shift, int64_t slice) { return shift > 30 ? 0 : (slice * runs >> shift) * panel_rows; };
  for (int64_t slice = 0; slice * outer_scale_width < p.a.cols; ++slice) {
    const int64_t begin = slice * outer_scale_width;
    const int64_t end = smaller<int64_t>(begin + outer_scale_width, p.a.cols);
    TileInput t = k.input;
    FloatRun y = x;
    if (t.a != nullptr) t.a += begin * panel_rows;
    if (y.a != nullptr) y.a += begin * panel_rows;
    if (y.b != nullptr) y.b += begin * panel_rows;
    t.scale_a += scales(t.scale_shift_a, slice);
    for (int j = 0; j < panels; ++j) {
      if (t.b[j] != nullptr) t.b[j] += begin * panel_rows;
      t.scale_b[j] += scales(t.scale_shift_b, slice);
      t.correction[j] += slice * runs * panel_rows;
    }
    t.runs = k.folding.runs = (end - begin + p.run - 1) / p.run;
    const TileOutput piece = {sum[0], width, out.rows, out.cols, all(1.0f), 0, 0, true};
    if (!in_range || !fast_tile(k, t, y, panels, certificates, piece)) {
      slow_tile(p, row0, pb * panel_rows, begin, end, piece);
    }
    for (int r = 0; r < out.rows; ++r) {
      const float ga = p.a.factor_at(row0 + r, slice);
      for (int c = 0; c < out.cols; ++c) {
        total[r][c] = total[r][c] + sum[r][c] * (ga * p.b.factor_at(pb * panel_rows + c, slice));
      }
    }
  }
  for (int r = 0; r < out.rows; ++r) {
    for (int c = 0; c < out.cols; ++c) out.c[r * out.stride + c] = total[r][c] * p.factor;
  }
  put_nans(out);
}

// Panels pb.. of B times rows [first, last) of A, but for the tiles marked in `whole`.
FP4_TARGET inline void multiply_blocked_part(const Product& p, BlockedPlan k, int64_t pb, int panels, int64_t first,
                                             int64_t last, const bool* whole) {
  TileInput& t = k.input;
  const Panels& pa = p.a.panels;
  const Panels& panels_b = p.b.panels;
  const bool bytes = k.engine != Engine::wide_float;
  int certificates = 4;  // tries before order-independence is given up for this part
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
    if (whole[(row0 - first) / tile_rows]) continue;
    const int64_t panel = row0 / panel_rows;
    const int64_t half = row0 % panel_rows;
    t.a = bytes ? pa.panel_bytes(panel) + half * 4 : nullptr;
    t.scale_a = pa.panel_scales(panel) + half;
    const FloatRun x = {bytes ? nullptr : pa.panel_values(panel) + half, wide_b, p.run};
    const TileOutput out = output_of(p, row0, pb, panels);
    const bool in_range =
        scales_in_range(pa.range[panel], range_b) && set_alignment(p, pa.range[panel], range_b, k.folding);
    if (p.restarts()) {
      outer_tile(p, k, x, in_range, row0, pb, panels, certificates, out);
    } else if (!in_range || !fast_tile(k, t, x, panels, certificates, out)) {
      slow_tile(p, row0, pb * panel_rows, 0, p.a.cols, out);
      for (int r = 0; r < out.rows; ++r) {
        for (int c = 0; c < out.cols; ++c) out.c[r * out.stride + c] = out.c[r * out.stride + c] * p.factor;
      }
      put_nans(out);
    }
  }
}

FP4_TARGET inline void multiply_group(const Product& p, const BlockedPlan& k, int64_t pb, int64_t first, int64_t last) {
  const int64_t end = smaller(pb + k.group, p.b.panels.count);
  bool whole[row_block / tile_rows] = {};
  const int64_t tiles = (last - first + tile_rows - 1) / tile_rows;
  for (int64_t tile = 0; p.has_levels && tile < tiles; ++tile) {
    whole[tile] = is_whole(p, (first + tile * tile_rows) / panel_rows, pb, end - pb);
  }
  const int64_t count = std::count(whole, whole + tiles, true);
  for (int64_t j = pb; count > 0 && j < end; j += whole_panels) {
    multiply_whole_part(p, j, static_cast<int>(smaller<int64_t>(whole_panels, end - j)), first, last, whole);
  }
  for (int64_t j = pb; count < tiles && j < end; j += k.step) {
    multiply_blocked_part(p, k, j, static_cast<int>(smaller(k.step, end - j)), first, last, whole);
  }
}

inline void multiply_blocked_panels(const Product& p, Engine engine) {
  const BlockedPlan plan = plan_blocked(p, engine);
  const int threads = threads_for(p);
  const int64_t count = p.b.panels.count;
#pragma omp parallel for collapse(2) num_threads(threads) schedule(dynamic) if (threads > 1)
  for (int64_t first = 0; first < p.a.rows; first += row_block) {
    for (int64_t pb = 0; pb < count; pb += plan.group) {
      multiply_group(p, plan, pb, first, smaller(first + row_block, p.a.rows));
    }
  }
}

}  // namespace fp4::FP4_ISA
