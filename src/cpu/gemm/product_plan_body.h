// What a product is made of: its two sides, the engine that suits their formats and accumulator, and the panels.
#pragma once

#include <numeric>

#include "src/arith/known_words.h"
#include "src/cpu/gemm/gemm_float_body.h"
#include "src/cpu/gemm/panel_reader.h"
#include "src/cpu/gemm/tile_body.h"
#include "src/cpu/quantize/stored_nibbles_body.h"
#include "src/cpu/simd/lanes.h"
#include "src/threads/scratch.h"

namespace fp4::FP4_ISA {

inline int64_t scale_block(const QuantSpec& s, int64_t whole) {
  const bool blocked = s.block.kind == BlockKind::vector || s.block.kind == BlockKind::square;
  return s.has_scale() && blocked ? s.block.size : whole;
}

// blocks: sums that heed the blocks, by the kernels of kernel_rows; the others: decoded floats in natural order.
enum class Engine : uint8_t { none, blocks, fma, multiply_add, fp64 };

// Element formats whose multiples of the quantum fit a signed byte.
inline bool has_byte_values(const QuantSpec& s) {
  return s.has_scale() && (s.element == Element::e2m1 || s.element == Element::e1m2 || s.element == Element::e3m0 ||
                           s.element == Element::e2m3);
}

// Products of a term, which ends where scales do.
inline int64_t term_length(const QuantSpec& a, const QuantSpec& b, const Accumulator& row) {
  return smaller<int64_t>(row.inner, smaller(scale_block(a, row.inner), scale_block(b, row.inner)));
}

// Whether kernels of small integers know the model; `run` is common_run, so that groups are whole runs.
inline bool knows_integers(const Accumulator& row, int64_t run) {
  if (run % 4 != 0) return false;
  if (row.result_bits != fp32_result_bits) return false;
  if (row.kind == AccumulatorKind::block) return row.rounding == Rounding::nearest_even;
  if (row.kind == AccumulatorKind::group) {
    return row.group_rounding == Rounding::nearest_even &&
           (row.rounding == Rounding::nearest_even || row.rounding == Rounding::toward_zero);
  }
  return row.kind == AccumulatorKind::aligned && row.rounding == Rounding::toward_zero;
}

// The largest K step that ends where scales, groups and terms do.
inline int64_t common_run(const QuantSpec& a, const QuantSpec& b, const Accumulator& row, int64_t padded) {
  const int64_t run = smaller(scale_block(a, padded), scale_block(b, padded));
  const bool has_terms = row.kind == AccumulatorKind::aligned && row.inner > 1 && row.inner % 4 == 0;
  if (has_terms && run % row.inner == 0 && row.group % row.inner == 0) return row.inner;
  return row.kind != AccumulatorKind::block && row.group > 0 ? std::gcd(run, static_cast<int64_t>(row.group)) : run;
}

inline bool has_wide_scale(const QuantSpec& s) { return s.scale == Scale::fp32 || s.scale_rule == ScaleRule::encode; }

// A zero_exponent up to this, the weight of an accumulator of zero, gives zeros no more weight than that: sums that are
// proven to lose no bit lose none with it, and single products, none of which is below 2^least_weight, are cut alike.
// Terms of several products, which weigh as their scales without it, are left to the kernel that tells zeros apart
// (gemm_cut_avx512.h) and to the core.
inline constexpr int least_zero_weight = -126;

// Whether products of elements have at most 22 bits.
inline bool has_half_products(const QuantSpec& s) { return format_of(s.element).mantissa_bits <= 10; }

inline bool is_floor(AccumulatorKind kind) {
  return kind == AccumulatorKind::floor_aligned || kind == AccumulatorKind::floor_aligned_pairs;
}

// Whether gemm_terms_body.h serves: whole terms in every run.
inline bool knows_terms(const QuantSpec& a, const QuantSpec& b, const Accumulator& row) {
  if (has_wide_scale(a) || has_wide_scale(b)) return false;  // terms of more than 53 bits
  if (row.group_rounding != Rounding::nearest_even || row.group % 4 != 0) return false;
  if (row.kind == AccumulatorKind::block) return row.rounding == Rounding::nearest_even;
  if (row.kind == AccumulatorKind::group) {
    return row.rounding == Rounding::nearest_even || row.rounding == Rounding::toward_zero;
  }
  if (is_floor(row.kind)) return row.fraction_bits <= 25;
  if (row.kind == AccumulatorKind::fma_blocks) {  // dots that end alike, of products that fp32 holds
    const int64_t run = smaller(scale_block(a, 0), scale_block(b, 0)), group = row.group;
    return run > 0 && group > 0 && std::gcd(run, group) == smaller(run, group) && has_half_products(a) &&
           has_half_products(b);
  }
  if (row.kind != AccumulatorKind::aligned) return false;
  if (row.rounding != (row.is_half ? Rounding::nearest_even : Rounding::toward_zero)) return false;
  // An infinity of fp16, unlike one of fp32, stays: 2^(1 - 128), one bit of its weight, is no fp32 power.
  if (row.inner == 1) return row.fraction_bits <= 25 && (!row.is_half || row.fraction_bits > 1);
  if (row.is_half || row.zero_exponent != no_zero_exponent) return false;
  const int64_t length = term_length(a, b, row);
  return row.fraction_bits <= 35 && common_run(a, b, row, 1024) % length == 0 && row.inner % length == 0;
}

// A windowed sum in which nothing is cut is what aligned sums of the same groups give: with S and R the largest
// exponents of pairs of scales and of products, R <= S + e, so that its unit 2^q has q <= max(S, r(C)) - fraction_bits
// of this row. For b200_nvf4 and e = 4 (two elements of e2m1): max(R - 39, S - 35, r(C) - 39) <= max(S, r(C)) - 35.
// And what zeros weigh matters only where something is cut: gemm_cut_avx512.h alone tells dots of zeros from others.
inline Accumulator uncut_row(const QuantSpec& a, const QuantSpec& b, const Accumulator& row) {
  Accumulator plain = row;
  const bool tells_zeros = has_vnni && has_byte_values(a) && has_byte_values(b);
  if (row.kind == AccumulatorKind::aligned && row.inner > 1 && !tells_zeros) plain.zero_exponent = no_zero_exponent;
  if (row.kind != AccumulatorKind::windowed) return plain;
  const int e = format_of(a.element).max_exponent() + format_of(b.element).max_exponent();
  plain.kind = AccumulatorKind::aligned;
  plain.inner = 16;
  plain.fraction_bits = smaller(smaller(row.scale_bits, row.carried_bits), row.fraction_bits - larger(e, 0));
  plain.scale_bits = plain.carried_bits = 0;
  plain.carried_inner = 1;
  plain.cuts_outranked = false;
  plain.subnormal_floor = no_subnormal_floor;
  plain.zero_exponent = no_zero_exponent;
  return plain;
}

inline bool is_plain(const Accumulator& row) {
  return row.rounding == Rounding::nearest_even && row.snap_log2 == no_snap;
}

// A row without what gemm_terms_body.h alone knows: kinds, operands without scales, and what sums become.
inline Accumulator bare_row(Accumulator row) {
  if (is_floor(row.kind) || row.kind == AccumulatorKind::fma_blocks) row.kind = AccumulatorKind::aligned;
  if (row.kind != AccumulatorKind::aligned) return row;
  row.unscaled = row.tf32 = row.is_half = false;
  row.result_bits = fp32_result_bits;
  return row;
}

// Whether gemm_terms_body.h serves operands without scales: exact sums, and those of products that fp32 holds.
inline bool knows_unscaled(const QuantSpec& a, const QuantSpec& b, const Accumulator& row) {
  const bool is_group = row.kind == AccumulatorKind::group;
  const bool is_aligned = row.kind == AccumulatorKind::aligned && row.inner == 1;
  const bool is_single = row.unscaled && (is_floor(row.kind) || is_aligned);
  const auto fits = [&](const QuantSpec& s) {
    const bool is_short = has_half_products(s) || (is_aligned && row.tf32) || is_group;
    return !s.has_scale() && s.prescale == 1.0f && !format_of(s.element).is_grid() && is_short;
  };
  return (is_group || is_single) && fits(a) && fits(b) && knows_terms(a, b, row);
}

inline Engine choose_engine(const QuantSpec& a, const QuantSpec& b, const Accumulator& row) {
  if (row.zero_exponent > least_zero_weight) return Engine::none;
  if (is_plain_fma(row, a.has_scale(), b.has_scale())) return row.snap_log2 != no_snap ? Engine::none : Engine::fma;
  if (a.tensor_scale == TensorScale::row || b.tensor_scale == TensorScale::row) return Engine::none;  // Dispatcher's
  const bool bytes = has_byte_values(a) && has_byte_values(b);
  const bool restarts = a.has_outer_scale() || b.has_outer_scale();  // every 128 columns
  if (row.kind == AccumulatorKind::sequential) {
    if (restarts || !is_plain(row) || row.group_rounding != Rounding::nearest_even) return Engine::none;
    return Engine::multiply_add;
  }
  if (row.kind == AccumulatorKind::sequential_double)
    return restarts || row.snap_log2 != no_snap ? Engine::none : Engine::fp64;
  if (!a.has_scale() || !b.has_scale()) return knows_unscaled(a, b, row) ? Engine::blocks : Engine::none;
  if (row.kind == AccumulatorKind::block && bytes && is_plain(row)) return Engine::blocks;
  const Accumulator uncut = uncut_row(a, b, row);
  const bool is_windowed = row.kind == AccumulatorKind::windowed;  // what is cut is left to the core
  if (is_windowed && (!bytes || restarts || row.group == 0 || uncut.fraction_bits <= 24)) return Engine::none;
  const bool wide = has_wide_scale(a) || has_wide_scale(b);
  if (has_vnni && bytes && !wide && knows_integers(uncut, common_run(a, b, uncut, 1024))) return Engine::blocks;
  return knows_terms(a, b, uncut) ? Engine::blocks : Engine::none;
}

// One side of a product: high-precision (quantised on the way) or stored codes.
struct Side {
  QuantSpec spec;
  Quantizer q;
  int64_t rows = 0;
  int64_t cols = 0;
  const QuantPlan* plan = nullptr;
  const Quantized* stored = nullptr;
  Panels panels;

  int largest_fixed() const { return static_cast<int>(decode_fixed(q.element, q.element.largest_code)); }
  float largest_element() const { return decode(q.element, q.element.largest_code); }
  int quantum_log2() const { return q.element.quantum_log2(); }
  // Tensor factor of a row and 128 columns.
  float factor_at(int64_t row, int64_t slice) const {
    if (!spec.has_outer_scale()) return panels.factor.g;
    return panels.outer[(row / panel_rows * panels.outer_count + slice) * panel_rows + row % panel_rows];
  }
};

struct Product {
  GemmOptions options;  // its accumulator: uncut_row of the one that was asked for
  float* c = nullptr;
  int64_t c_stride = 0;
  Side a;
  Side b;
  Accumulator asked = {};  // the accumulator that was asked for: what the core adds by
  int64_t run = 0;
  int offset = 0;           // of A's bytes
  int32_t start = 0;        // of a dot, in B's corrections
  bool has_terms = false;   // gemm_terms_body.h knows the formats and the accumulator
  bool has_dots = false;    // panels of bytes whose dots of a run are exact in fp32
  bool has_levels = false;  // panels of bytes may be level (level_body.h)
  PairUnits pairs;          // of elements in 16 bits (pairs_body.h)
  float quantum = 1.0f;
  float factor = 1.0f;  // what every sum is multiplied by

  bool only_whole() const { return !(options.accumulator == asked); }                     // kernels may cut nothing
  bool restarts() const { return a.spec.has_outer_scale() || b.spec.has_outer_scale(); }  // every 128 columns
};

inline int scale_shift(int64_t block, int64_t run, int64_t padded) {
  return block >= padded ? 62 : __builtin_ctzll(static_cast<uint64_t>(block / run));
}

inline void shape_panels(Side& side, int64_t padded) {
  Panels& p = side.panels;
  p.rows = side.rows;
  p.cols = side.cols;
  p.padded = padded;
  p.block = scale_block(side.spec, padded);
  p.count = (p.rows + panel_rows - 1) / panel_rows;
  p.scales_per_panel = padded / p.block;
  p.outer_count = side.spec.tensor_scale_cols(side.cols);
}

inline void lay_panels(Panels& p, Scratch& scratch, int64_t runs, bool bytes, bool values) {
  const int64_t rows = p.count * panel_rows;
  if (bytes) scratch.put(p.bytes, rows * p.padded);
  if (values) scratch.put(p.values, rows * p.padded);
  scratch.put(p.scale, rows * p.scales_per_panel);
  scratch.put(p.correction, rows * runs);
  scratch.put(p.nan_rows, p.count);
  scratch.put(p.range, p.count);
  scratch.put(p.outer, rows * p.outer_count);
  scratch.put(p.level, p.count);
  scratch.put(p.row_scale, rows);
  scratch.put(p.total, rows);
}

FP4_TARGET inline void fill_panels(Side& side, const PanelOptions& options) {
  if (side.stored != nullptr) {
    pack_stored(*side.stored, options, side.panels);
  } else {
    quantize_operand(*side.plan, options, side.panels);
  }
}

// How far the bytes of a side can be shifted, to bring scales together. fl32(sA*sB) would be another number below
// 2^-126.
inline int level_room(const Side& side, const Side& other) {
  if (has_wide_scale(side.spec) || has_wide_scale(other.spec)) return 0;
  return floor_log2(static_cast<uint64_t>(127 / side.largest_fixed()));
}

inline int64_t piece_of(const QuantSpec& s) { return scale_block(s, 32); }

// Eight adjacent rows, or rows that run along K, are read where they lie; other strides, and a last tile of fewer
// adjacent rows, are packed.
inline bool reads_in_place(const Side& a) {
  if (a.plan == nullptr || a.spec.has_scale() || a.spec.element != Element::fp32 || a.spec.prescale != 1.0f)
    return false;
  const MatrixView& x = a.plan->x;
  // Long rows a power of two apart share cache sets: large operands are packed.
  return a.plan->hadamard.size == 0 && x.rows * x.cols < 1 << 16 &&
         (x.col_stride == 1 || (x.row_stride == 1 && x.rows % float_tile_rows == 0));
}

// The K step of an engine.
inline int64_t run_of(Engine engine, const Accumulator& row, const QuantSpec& a, const QuantSpec& b, int64_t padded) {
  const bool plain_blocks = row.kind == AccumulatorKind::block || engine != Engine::blocks;
  if (plain_blocks) return smaller(scale_block(a, padded), scale_block(b, padded));
  const int64_t run = common_run(a, b, row, padded);
  // Sums of groups are exact, so that longer runs may go in pieces, which the kernels know best.
  return has_vnni && row.kind == AccumulatorKind::group && run % 32 == 0 ? 32 : run;
}

inline bool supports_product(const QuantSpec& a, const QuantSpec& b, const Accumulator& row) {
  return is_known_but_row(a) && is_known_but_row(b) && is_known(bare_row(uncut_row(a, b, row))) &&
         choose_engine(a, b, row) != Engine::none;
}

}  // namespace fp4::FP4_ISA
