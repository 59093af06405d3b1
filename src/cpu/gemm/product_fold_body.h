// What the sums of a tile are made of, and which conditions they meet.
#pragma once

#include <algorithm>

#include "src/cpu/gemm/product_plan_body.h"
#include "src/cpu/gemm/tiles.h"
#include "src/cpu/simd/lanes.h"

namespace fp4::FP4_ISA {

// Every scale, times the quantum of a product, a unit of pairs or an element, is a normal float; so is every sA*sB of
// the tile, times any dot. A side of nothing but zeros has no scale.
inline bool scales_in_range(const cpu::ScaleRange& a, const cpu::ScaleRange& b) {
  const auto is_inside = [](const cpu::ScaleRange& r) {
    return r.largest == 0 || (r.least_log2() >= -90 && r.largest_log2() <= 90);
  };
  return is_inside(a) && is_inside(b) && a.least_log2() + b.least_log2() >= -110 &&
         a.largest_log2() + b.largest_log2() <= 90;
}

// Bits of a scale's significand below its leading one (or below the smallest normal exponent).
inline int scale_fraction_bits(const Quantizer& q) { return q.stores_multiplier() ? 23 : q.scale.mantissa_bits; }

// Bits of an aligned sum above the cut.
inline int aligned_bits(const Product& p) {
  const Accumulator& row = p.options.accumulator;
  const int64_t group = row.group > 0 ? row.group : p.a.cols;
  const float largest = p.a.largest_element() * p.b.largest_element() * static_cast<float>(group);
  return row.fraction_bits + 2 + floor_log2(static_cast<uint64_t>(largest) + 1) + 1;
}

// The parts of Folding that do not depend on the tile.
inline Folding make_folding(const Product& p) {
  const Accumulator& row = p.options.accumulator;
  Folding f;
  f.sum = row.kind == AccumulatorKind::block        ? Sum::block
          : row.kind == AccumulatorKind::group      ? Sum::group
          : row.kind == AccumulatorKind::fma_blocks ? Sum::loop
          : is_floor(row.kind)                      ? Sum::floor
                                                    : Sum::aligned;
  f.group = f.sum == Sum::block || f.sum == Sum::loop ? p.run : row.group;
  f.runs_per_group = row.group / p.run;
  f.run = p.run;
  f.chunk = row.kind == AccumulatorKind::aligned ? smaller<int64_t>(row.inner, p.run) : 1;
  f.toward_zero = row.rounding == Rounding::toward_zero;
  f.fraction_bits = row.fraction_bits;
  f.kept_bits = ~0u << (fp32_result_bits - row.result_bits);
  if (row.kind == AccumulatorKind::aligned && row.tf32 && !p.a.spec.has_scale()) f.element_bits = ~0x1FFFu;
  f.is_half = row.is_half;
  if (row.is_half) f.least_sum = -14;
  f.step = row.kind == AccumulatorKind::floor_aligned_pairs ? 2 : 1;
  f.zero_exponent = row.zero_exponent;
  f.only_whole = p.only_whole();
  f.a_offset = p.offset;
  f.runs = (p.a.cols + p.run - 1) / p.run;
  f.splits = f.sum == Sum::aligned && f.chunk > 1 && aligned_bits(p) > 51;
  f.snap_log2 = row.snap_log2;
  const auto least = [](const Quantizer& q) { return q.stores_multiplier() ? -126 : q.scale.min_exponent(); };
  f.least_exponent_a = least(p.a.q);
  f.least_exponent_b = least(p.b.q);
  const float largest_product = p.a.largest_element() * p.b.largest_element();
  const float largest_sum = smaller(largest_product * static_cast<float>(p.a.cols), 0x1p62f);
  const int terms = floor_log2(static_cast<uint64_t>(largest_sum) + 1) + 1;
  f.lowest_bit = p.a.quantum_log2() + p.b.quantum_log2() - scale_fraction_bits(p.a.q) - scale_fraction_bits(p.b.q);
  f.sum_log2 = 2 + terms;
  return f;
}

// What the sums of a tile are made of: whole multiples of 2^lowest_bit, below 2^sum_log2.
struct SumSpan {
  int lowest_bit;
  int sum_log2;
  int largest_weight;
};

inline SumSpan span_of(const cpu::ScaleRange& a, const cpu::ScaleRange& b, const Folding& f) {
  const int least = larger(a.least_log2(), f.least_exponent_a) + larger(b.least_log2(), f.least_exponent_b);
  const int largest = larger(a.largest_log2(), f.least_exponent_a) + larger(b.largest_log2(), f.least_exponent_b);
  return {least + f.lowest_bit, largest + f.sum_log2, largest};
}

// Whether runs are the terms of an aligned sum that kernels may cut.
inline bool runs_are_terms(const Product& p) {
  const Accumulator& row = p.options.accumulator;
  return row.kind == AccumulatorKind::aligned && row.inner > 1 && row.inner % p.run == 0 &&
         term_length(p.a.spec, p.b.spec, row) == p.run;
}

// The same, few enough, and sums of cut terms are exact in fp64.
inline bool may_cut(const Product& p, const Folding& f) {
  if (!runs_are_terms(p)) return false;
  return f.runs_per_group >= 1 && f.runs_per_group <= largest_terms && aligned_bits(p) <= 51;
}

// The largest exponent of single products and sums that cuts nothing; below all where products may reach it.
inline int single_limit(const Product& p, const cpu::ScaleRange& a, const cpu::ScaleRange& b, const Folding& f) {
  const SumSpan span = span_of(a, b, f);
  const int limit = span.lowest_bit + f.fraction_bits;
  const int product = span.largest_weight + p.a.q.element.max_exponent() + p.b.q.element.max_exponent();
  return product <= limit ? limit : INT32_MIN;
}

// Threads of one product: only from about 512^3 on do they pay.
inline int threads_for(const Product& p) {
  const int64_t work = p.a.rows * p.b.rows * p.a.cols;
  return work >= int64_t{1} << 27 ? larger(p.options.threads, 1) : 1;
}

// Rows of A that stay in L2 while all of B passes by.
inline constexpr int64_t row_block = 192;

// Panels of B that a thread takes at a time, at most.
inline constexpr int64_t largest_group = 6;

struct BlockedPlan {
  TileInput input;
  Folding folding;
  TileKernel one;  // null: not fp32_block of small integers
  TileKernel two;
  CutKernel cut;        // null: not such a product
  SingleKernel single;  // null: not aligned sums
  int64_t step;         // panels of B a tile takes
  int64_t group;        // panels of B a thread takes
};

inline cpu::ScaleRange range_of(const Panels& b, int64_t pb, int64_t panels) {
  cpu::ScaleRange range = b.range[pb];
  for (int64_t j = 1; j < panels; ++j) {
    range.least = smaller(range.least, b.range[pb + j].least);
    range.largest = larger(range.largest, b.range[pb + j].largest);
  }
  return range;
}

// Whether dots times one scale are exact, or (scales = 2) times the scales of both sides.
inline bool has_exact_blocks(const Product& p, int scales) {
  const int64_t largest_dot = p.run * p.a.largest_fixed() * p.b.largest_fixed();
  const int dot_bits = floor_log2(static_cast<uint64_t>(largest_dot)) + 1;
  const int scale_bits = scales * (1 + larger(scale_fraction_bits(p.a.q), scale_fraction_bits(p.b.q)));
  return !has_wide_scale(p.a.spec) && !has_wide_scale(p.b.spec) && dot_bits <= 22 && dot_bits + scale_bits <= 24;
}

// Whether dots that start as floats, times scales of B, are floats far from both ends of fp32.
inline bool scales_apart(const Product& p) {
  if (p.start == 0) return false;
  const cpu::ScaleRange range = range_of(p.b.panels, 0, p.b.panels.count);
  return range.least >> 23 > 27 && range.largest >> 23 < 227;
}

inline BlockedPlan plan_blocked(const Product& p) {
  BlockedPlan k = {};
  TileInput& t = k.input;
  t.run4 = p.run / 4;
  t.runs = p.a.panels.padded / p.run;
  t.scale_shift_a = scale_shift(p.a.panels.block, p.run, p.a.panels.padded);
  t.scale_shift_b = scale_shift(p.b.panels.block, p.run, p.b.panels.padded);
  t.quantum = p.quantum;
  t.start = p.start;
  t.exact_products = has_exact_blocks(p, 2);
  k.folding = make_folding(p);
  const Accumulator& row = p.options.accumulator;
  if (p.has_dots && k.folding.sum == Sum::block && is_plain(row)) {
    const bool apart = scales_apart(p);
    k.one = block_kernel<1>(t.run4, apart);
    k.two = block_kernel<2>(t.run4, apart);
  }
  if (p.has_dots && !p.restarts() && may_cut(p, k.folding)) {
    k.cut = cut_kernel(t.run4, smaller(t.scale_shift_a, t.scale_shift_b) > 0 && k.folding.runs_per_group % 2 == 0);
  }
  if (p.has_dots && !p.restarts() && k.folding.sum == Sum::aligned) k.single = single_kernel(t.run4);
  k.group = p.pairs.serves ? pair_panels : largest_group;
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
          is_finite(p.factor) && !p.options.accumulator.is_half};
}

}  // namespace fp4::FP4_ISA
