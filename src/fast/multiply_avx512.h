// C = Q(A) Q(B)^T straight from high-precision operands: both are quantised into panels of the calling thread's arena
// and multiplied there. Shapes of training are small, so nothing here allocates or starts threads below a size.
#pragma once

#include "src/fast/isa_avx512.h"
// After the instruction set they are compiled for:
#include "src/fast/gemm_float_body.h"
#include "src/fast/gemm_wide_avx512.h"
#include "src/fast/operand_body.h"
#include "src/fast/panel_reader.h"

namespace fp4::avx512 {

inline int64_t scale_block(const QuantSpec& s, int64_t whole) {
  const bool blocked = s.block.kind == BlockKind::vector || s.block.kind == BlockKind::square;
  return s.has_scale() && blocked ? s.block.size : whole;
}

// int8_block: fp32_block on small integers; wide: every other blocked accumulator, or elements of 8 bits.
enum class Engine : uint8_t { none, int8_block, wide_int8, wide_float, fma, multiply_add, fp64 };

// Element formats whose multiples of the quantum fit a signed byte.
inline bool has_byte_values(const QuantSpec& s) {
  return s.element == Element::e2m1 || s.element == Element::e1m2 || s.element == Element::e3m0 ||
         s.element == Element::e2m3;
}

inline bool is_outer(const QuantSpec& s) { return s.has_scale() && s.tensor_scale == TensorScale::outer128; }

// Whether groups and alignment of the model fall on the boundaries that the wide kernels know.
inline bool wide_folds(const Accumulator& row, int64_t run) {
  const bool whole_groups = row.group == 0 || row.group % run == 0;
  if (row.kind == AccumulatorKind::block) return row.rounding == Rounding::nearest_even;
  if (row.kind == AccumulatorKind::group) {
    return whole_groups && row.group_rounding == Rounding::nearest_even &&
           (row.rounding == Rounding::nearest_even || row.rounding == Rounding::toward_zero);
  }
  return row.kind == AccumulatorKind::aligned && whole_groups && row.inner > 1 && row.rounding == Rounding::toward_zero;
}

inline Engine choose_engine(const QuantSpec& a, const QuantSpec& b, const Accumulator& row) {
  constexpr Rounding nearest_even = Rounding::nearest_even;
  if (row.kind == AccumulatorKind::fma || !a.has_scale() || !b.has_scale()) {
    return row.kind == AccumulatorKind::fma && row.snap_log2 != no_snap ? Engine::none : Engine::fma;
  }
  if (is_outer(a) || is_outer(b)) return Engine::none;
  const bool bytes = has_byte_values(a) && has_byte_values(b);
  const bool plain = row.rounding == nearest_even && row.snap_log2 == no_snap;
  switch (row.kind) {
    case AccumulatorKind::sequential:
      return plain && row.group_rounding == nearest_even ? Engine::multiply_add : Engine::none;
    case AccumulatorKind::sequential_double: return row.snap_log2 == no_snap ? Engine::fp64 : Engine::none;
    case AccumulatorKind::block:
      if (bytes && plain) return Engine::int8_block;
      return bytes ? Engine::wide_int8 : Engine::wide_float;
    case AccumulatorKind::group:
    case AccumulatorKind::aligned: return bytes ? Engine::wide_int8 : Engine::wide_float;
    case AccumulatorKind::fma: break;
  }
  return Engine::none;
}

struct Product {
  const MultiplyCall* call;
  QuantPlan plan_a;
  QuantPlan plan_b;
  Panels a;
  Panels b;
  int64_t run = 0;
  int offset = 0;
  float quantum = 1.0f;
  float factor = 1.0f;  // what every sum is multiplied by
};

inline int scale_shift(int64_t block, int64_t run, int64_t padded) {
  return block >= padded ? 62 : __builtin_ctzll(static_cast<uint64_t>(block / run));
}

// Every sA*sB of the tile, times any dot, is a normal float far from both ends.
inline bool scales_in_range(const fast::ScaleRange& a, const fast::ScaleRange& b) {
  const int least = static_cast<int>(a.least >> 23) + static_cast<int>(b.least >> 23) - 254;
  const int largest = static_cast<int>(a.largest >> 23) + static_cast<int>(b.largest >> 23) - 254;
  return least >= -110 && largest <= 90;
}

FP4_TARGET inline void slow_tile(const Product& p, int64_t row0, int64_t col0, const TileOutput& out) {
  const Accumulator& accumulator = p.call->options.accumulator;
  for (int r = 0; r < out.rows; ++r) {
    const fast::PanelReader a(p.a, row0 + r, p.offset, p.plan_a.q);
    for (int c = 0; c < out.cols; ++c) {
      const fast::PanelReader b(p.b, col0 + c, 0, p.plan_b.q);
      const bool nan = (out.nan_rows >> r & 1u) != 0 || (out.nan_cols >> c & 1u) != 0;
      out.c[r * out.stride + c] =
          nan ? float_of(canonical_nan_bits) : canonical(dot(accumulator, a, b, 0, p.a.cols) * p.factor);
    }
  }
}

// The parts of Folding that do not depend on the tile.
inline Folding make_folding(const Product& p) {
  const Accumulator& row = p.call->options.accumulator;
  Folding f;
  f.sum = row.kind == AccumulatorKind::block ? Sum::block
                                             : (row.kind == AccumulatorKind::group ? Sum::group : Sum::aligned);
  f.runs_per_group = row.group / p.run;
  f.toward_zero = row.rounding == Rounding::toward_zero;
  f.fraction_bits = row.fraction_bits;
  f.runs = (p.a.cols + p.run - 1) / p.run;
  f.snap_log2 = row.snap_log2;
  const auto least = [](const Quantizer& q) { return q.stores_multiplier() ? -126 : q.scale.min_exponent(); };
  f.least_exponent_a = least(p.plan_a.q);
  f.least_exponent_b = least(p.plan_b.q);
  return f;
}

// Bits of a scale's significand below its leading one (or below the smallest normal exponent).
inline int scale_fraction_bits(const Quantizer& q) { return q.stores_multiplier() ? 23 : q.scale.mantissa_bits; }

// aligned: no term may lose a bit (its lowest bit stays above the cut of the largest weight or accumulator), else
// false.
inline bool set_alignment(const Product& p, const fast::ScaleRange& a, const fast::ScaleRange& b, Folding& f) {
  if (f.sum != Sum::aligned) return true;
  const auto exponent = [](uint32_t bits, int least) { return larger(static_cast<int>(bits >> 23) - 127, least); };
  const int least = exponent(a.least, f.least_exponent_a) + exponent(b.least, f.least_exponent_b);
  const int largest = exponent(a.largest, f.least_exponent_a) + exponent(b.largest, f.least_exponent_b);
  const int lowest_bit = least - scale_fraction_bits(p.plan_a.q) - scale_fraction_bits(p.plan_b.q) +
                         p.plan_a.quantum_log2 + p.plan_b.quantum_log2;
  const float largest_product = p.plan_a.largest_element * p.plan_b.largest_element;
  const int sum_log2 =
      largest + 2 + 1 + floor_log2(static_cast<uint64_t>(largest_product * static_cast<float>(p.a.cols)) + 1);
  f.safe_accumulator = power_of_two(larger(largest - (f.fraction_bits - 23), -126));
  return lowest_bit >= sum_log2 - f.fraction_bits;
}

FP4_TARGET inline void multiply_blocked_panels(const Product& p, Engine engine) {
  float* c = p.call->c;
  const int64_t stride = p.call->c_stride;
  TileInput t;
  t.run4 = p.run / 4;
  t.runs = p.a.padded / p.run;
  t.scale_shift_a = scale_shift(p.a.block, p.run, p.a.padded);
  t.scale_shift_b = scale_shift(p.b.block, p.run, p.b.padded);
  t.quantum = p.quantum;
  const TileKernel one = block_kernel<1>(t.run4);
  const TileKernel two = block_kernel<2>(t.run4);
  Folding f = make_folding(p);
  const bool bytes = engine != Engine::wide_float;
  const int64_t step = engine == Engine::int8_block ? 2 : 1;
  const WideInt8Kernel wide_int8 = f.sum == Sum::block   ? wide_int8_kernel<Sum::block, 1>(t.run4)
                                   : f.sum == Sum::group ? wide_int8_kernel<Sum::group, 1>(t.run4)
                                                         : wide_int8_kernel<Sum::aligned, 1>(t.run4);
  const auto wide_float = f.sum == Sum::block   ? wide_float_tile<Sum::block>
                          : f.sum == Sum::group ? wide_float_tile<Sum::group>
                                                : wide_float_tile<Sum::aligned>;
  for (int64_t pb = 0; pb < p.b.count; pb += step) {
    const int wide = static_cast<int>(smaller(step, p.b.count - pb));
    uint32_t nan_cols = 0;
    fast::ScaleRange range_b = p.b.range[pb];
    for (int j = 0; j < wide; ++j) {
      t.b[j] = bytes ? p.b.panel_bytes(pb + j) : nullptr;
      t.scale_b[j] = p.b.panel_scales(pb + j);
      t.correction[j] = p.b.correction + (pb + j) * t.runs * panel_rows;
      nan_cols |= static_cast<uint32_t>(p.b.nan_rows[pb + j]) << (16 * j);
      range_b.least = smaller(range_b.least, p.b.range[pb + j].least);
      range_b.largest = larger(range_b.largest, p.b.range[pb + j].largest);
    }
    const int64_t col0 = pb * panel_rows;
    const int cols = static_cast<int>(smaller<int64_t>(wide * panel_rows, p.b.rows - col0));
    for (int64_t row0 = 0; row0 < p.a.rows; row0 += tile_rows) {
      const int64_t pa = row0 / panel_rows;
      const int64_t half = row0 % panel_rows;
      t.a = bytes ? p.a.panel_bytes(pa) + half * 4 : nullptr;
      t.scale_a = p.a.panel_scales(pa) + half;
      const TileOutput out = {c + row0 * stride + col0,
                              stride,
                              static_cast<int>(smaller<int64_t>(tile_rows, p.a.rows - row0)),
                              cols,
                              all(p.factor),
                              static_cast<uint32_t>(p.a.nan_rows[pa]) >> half,
                              nan_cols,
                              is_finite(p.factor)};
      bool done = false;
      if (scales_in_range(p.a.range[pa], range_b) && set_alignment(p, p.a.range[pa], range_b, f)) {
        if (engine == Engine::int8_block) {
          (wide == 2 ? two : one)(t, out);
          done = true;
        } else if (engine == Engine::wide_int8) {
          done = wide_int8(t, f, out);
        } else {
          const FloatRun x = {p.a.panel_values(pa) + half, {p.b.panel_values(pb), nullptr}, p.run};
          done = wide_float(t, x, f, out);
        }
      }
      if (!done) slow_tile(p, row0, col0, out);
    }
  }
}

struct FloatSource {  // side A of a float product: the caller's own array, or panels
  const float* data;
  int64_t row_stride;
  int64_t k_stride;
};

template <Loop loop>
FP4_TARGET inline void multiply_float_panels(const Product& p, bool direct_a) {
  alignas(64) float acc[float_tile_rows * 2 * panel_rows];
  const MatrixView& x = p.plan_a.x;
  const int64_t k_end = p.a.cols;
  const int step = loop == Loop::fp64 ? 1 : 2;
  for (int64_t pb = 0; pb < p.b.count; pb += step) {
    const int wide = static_cast<int>(smaller<int64_t>(step, p.b.count - pb));
    const int64_t col0 = pb * panel_rows;
    const int cols = static_cast<int>(smaller<int64_t>(wide * panel_rows, p.b.rows - col0));
    for (int64_t row0 = 0; row0 < p.a.rows; row0 += float_tile_rows) {
      FloatTile t;
      t.rows = static_cast<int>(smaller<int64_t>(float_tile_rows, p.a.rows - row0));
      t.a = direct_a ? x.data + row0 * x.row_stride : p.a.panel_values(row0 / panel_rows) + row0 % panel_rows;
      t.a_row_stride = direct_a ? x.row_stride : 1;
      t.a_k_stride = direct_a ? x.col_stride : panel_rows;
      t.b[0] = p.b.panel_values(pb);
      t.b[1] = p.b.panel_values(pb + wide - 1);
      t.n = k_end;
      t.acc = acc;
      t.first = true;
      t.last = true;
      t.c = p.call->c + row0 * p.call->c_stride + col0;
      t.c_stride = p.call->c_stride;
      t.cols = cols;
      t.factor = p.factor;
      if (loop == Loop::fp64) {
        double_tile(t);
      } else if (t.a_row_stride == 1 && t.rows == float_tile_rows) {
        (wide == 2 ? float_tile<loop, 2, true> : float_tile<loop, 1, true>)(t);
      } else if (t.a_k_stride == 1) {
        (wide == 2 ? float_tile<loop, 2, false> : float_tile<loop, 1, false>)(t);
      } else {
        (wide == 2 ? float_tile<loop, 2, true> : float_tile<loop, 1, true>)(t);
      }
    }
  }
}

// Shapes of an operand's panels and the arena bytes they need.
inline size_t shape_panels(Panels& p, const QuantPlan& plan, int64_t padded, int64_t runs, bool bytes, bool values) {
  p.rows = plan.rows;
  p.cols = plan.cols;
  p.padded = padded;
  p.block = scale_block(plan.spec, padded);
  p.count = (p.rows + panel_rows - 1) / panel_rows;
  p.scales_per_panel = padded / p.block;
  const int64_t elements = p.count * padded * panel_rows;
  return (bytes ? Arena::bytes_for<int8_t>(elements) : 0) + (values ? Arena::bytes_for<float>(elements) : 0) +
         Arena::bytes_for<float>(p.count * p.scales_per_panel * panel_rows) +
         Arena::bytes_for<int32_t>(p.count * runs * panel_rows) + Arena::bytes_for<uint16_t>(p.count) +
         Arena::bytes_for<fast::ScaleRange>(p.count) + Arena::bytes_for<float>(p.count * p.outer_count() * panel_rows);
}

inline void place_panels(Panels& p, Arena& arena, int64_t runs, bool bytes, bool values) {
  const int64_t elements = p.count * p.padded * panel_rows;
  if (bytes) p.bytes = arena.take<int8_t>(elements);
  if (values) p.values = arena.take<float>(elements);
  p.scale = arena.take<float>(p.count * p.scales_per_panel * panel_rows);
  p.correction = arena.take<int32_t>(p.count * runs * panel_rows);
  p.nan_rows = arena.take<uint16_t>(p.count);
  p.range = arena.take<fast::ScaleRange>(p.count);
  p.outer = arena.take<float>(p.count * p.outer_count() * panel_rows);
}

inline int64_t piece_of(const QuantSpec& s) {
  if (!s.has_scale() || s.block.kind == BlockKind::row || s.block.kind == BlockKind::tensor) return 32;
  return s.block.size;
}

FP4_TARGET inline bool multiply(const MultiplyCall& call) {
  const QuantSpec& sa = call.a.spec;
  const QuantSpec& sb = call.b.spec;
  const Engine engine = choose_engine(sa, sb, call.options.accumulator);
  if (engine == Engine::none || !has_panel_path(call.a) || !has_panel_path(call.b)) return false;
  Product p;
  p.call = &call;
  p.plan_a = fast::make_plan(call.a);
  p.plan_b = fast::make_plan(call.b);
  const int64_t last = (p.plan_a.row_offset + p.plan_a.rows + p.plan_b.row_offset + p.plan_b.rows) * p.plan_a.cols;
  if (last >= int64_t{1} << 32) return false;  // Philox block numbers are 32-bit lanes here
  set_tensor_factor(p.plan_a);
  set_tensor_factor(p.plan_b);
  const bool int8 = engine == Engine::int8_block || engine == Engine::wide_int8;
  // Eight adjacent rows, or rows that run along K: other strides, and a last tile of fewer adjacent rows, are packed.
  const MatrixView& xa = call.a.x;
  const bool readable = xa.col_stride == 1 || (xa.row_stride == 1 && xa.rows % float_tile_rows == 0);
  const bool direct_a = readable && !sa.has_scale() && sa.element == Element::fp32 && p.plan_a.hadamard.size == 0 &&
                        sa.prescale == 1.0f && engine == Engine::fma;
  int64_t padded = fast::round_up(larger<int64_t>(p.plan_a.cols, 1), larger(piece_of(sa), piece_of(sb)));
  p.run = smaller(scale_block(sa, padded), scale_block(sb, padded));
  const Accumulator& row = call.options.accumulator;
  const bool wide = engine == Engine::wide_int8 || engine == Engine::wide_float;
  if (wide && row.group > 0) p.run = smaller<int64_t>(p.run, row.group);
  if (wide && (p.run % 4 != 0 || !wide_folds(row, p.run))) return false;
  padded = fast::round_up(padded, p.run);
  const int64_t largest_dot = p.run * p.plan_a.largest_fixed * p.plan_b.largest_fixed;
  if (int8 && largest_dot > int64_t{1} << 24) return false;  // a dot must be exact in fp32
  const int64_t runs = int8 ? padded / p.run : 0;
  thread_local Arena arena;
  const size_t needed = shape_panels(p.a, p.plan_a, padded, runs, int8, !int8 && !direct_a) +
                        shape_panels(p.b, p.plan_b, padded, runs, int8, !int8);
  arena.reset(needed);
  place_panels(p.a, arena, runs, int8, !int8 && !direct_a);
  place_panels(p.b, arena, runs, int8, !int8);
  const float prescale = sa.prescale * sb.prescale;
  const GemmFinish finish = {prescale, call.options.hadamard_divisor, false};
  if (int8) {
    p.offset = p.plan_a.largest_fixed;
    p.quantum = power_of_two(p.plan_a.quantum_log2 + p.plan_b.quantum_log2);
    p.factor = finish.factor(p.plan_a.factor.g * p.plan_b.factor.g);
    const bool neutral = row.kind != AccumulatorKind::aligned;
    quantize_operand(p.plan_a, {.byte_offset = p.offset, .run = p.run, .neutral_zeros = neutral}, p.a);
    quantize_operand(p.plan_b, {.correction_factor = p.offset, .run = p.run, .neutral_zeros = neutral}, p.b);
    multiply_blocked_panels(p, engine);
    return true;
  }
  if (engine == Engine::wide_float) {
    const bool neutral = row.kind != AccumulatorKind::aligned;
    p.factor = finish.factor(p.plan_a.factor.g * p.plan_b.factor.g);
    quantize_operand(p.plan_a, {.run = p.run, .neutral_zeros = neutral}, p.a);
    quantize_operand(p.plan_b, {.run = p.run, .neutral_zeros = neutral}, p.b);
    multiply_blocked_panels(p, engine);
    return true;
  }
  const Values values = engine == Engine::fma ? Values::decoded : Values::scaled;
  if (engine == Engine::fma) {
    p.factor = call.options.hadamard_divisor != 1.0f ? 1.0f / call.options.hadamard_divisor : 1.0f;
  } else {
    p.factor = finish.factor(p.plan_a.factor.g * p.plan_b.factor.g);
  }
  if (!direct_a) quantize_operand(p.plan_a, {.values = values}, p.a);
  quantize_operand(p.plan_b, {.values = values}, p.b);
  if (engine == Engine::fma) multiply_float_panels<Loop::fma>(p, direct_a);
  if (engine == Engine::multiply_add) multiply_float_panels<Loop::multiply_add>(p, direct_a);
  if (engine == Engine::fp64) multiply_float_panels<Loop::fp64>(p, direct_a);
  return true;
}

}  // namespace fp4::avx512
