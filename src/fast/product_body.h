// C = Q(A) Q(B)^T straight from high-precision operands: both are quantised into panels of the calling thread's arena
// and multiplied there. Shapes of training are small, so nothing here allocates or starts threads below a size.
#pragma once

#include "src/fast/gemm_float_body.h"
#include "src/fast/panel_reader.h"
#include "src/fast/stored_body.h"
#include "src/fast/tile_body.h"

namespace fp4::FP4_ISA {

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
  if (a.has_outer_scale() || b.has_outer_scale()) return Engine::none;
  const bool bytes = has_byte_values(a) && has_byte_values(b);
  const bool plain = row.rounding == nearest_even && row.snap_log2 == no_snap;
  switch (row.kind) {
    case AccumulatorKind::sequential:
      return plain && row.group_rounding == nearest_even ? Engine::multiply_add : Engine::none;
    case AccumulatorKind::sequential_double: return row.snap_log2 == no_snap ? Engine::fp64 : Engine::none;
    case AccumulatorKind::block:
      if (bytes && plain) return Engine::int8_block;
      break;
    case AccumulatorKind::group:
    case AccumulatorKind::aligned:
    case AccumulatorKind::fma: break;
  }
  if (!has_wide_kernels) return Engine::none;
  return bytes ? Engine::wide_int8 : Engine::wide_float;
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
};

struct Product {
  GemmOptions options;
  float* c = nullptr;
  int64_t c_stride = 0;
  Side a;
  Side b;
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
  const Accumulator& accumulator = p.options.accumulator;
  for (int r = 0; r < out.rows; ++r) {
    const fast::PanelReader a(p.a.panels, row0 + r, p.offset, p.a.q);
    for (int c = 0; c < out.cols; ++c) {
      const fast::PanelReader b(p.b.panels, col0 + c, 0, p.b.q);
      const bool nan = (out.nan_rows >> r & 1u) != 0 || (out.nan_cols >> c & 1u) != 0;
      out.c[r * out.stride + c] =
          nan ? float_of(canonical_nan_bits) : canonical(dot(accumulator, a, b, 0, p.a.cols) * p.factor);
    }
  }
}

// Bits of a scale's significand below its leading one (or below the smallest normal exponent).
inline int scale_fraction_bits(const Quantizer& q) { return q.stores_multiplier() ? 23 : q.scale.mantissa_bits; }

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
  const float largest_product = p.a.largest_element() * p.b.largest_element();
  const int terms = floor_log2(static_cast<uint64_t>(largest_product * static_cast<float>(p.a.cols)) + 1) + 1;
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

inline SumSpan span_of(const fast::ScaleRange& a, const fast::ScaleRange& b, const Folding& f) {
  const auto exponent = [](uint32_t bits, int least) { return larger(static_cast<int>(bits >> 23) - 127, least); };
  const int least = exponent(a.least, f.least_exponent_a) + exponent(b.least, f.least_exponent_b);
  const int largest = exponent(a.largest, f.least_exponent_a) + exponent(b.largest, f.least_exponent_b);
  return {least + f.lowest_bit, largest + f.sum_log2, largest};
}

// aligned: no term may lose a bit (its lowest bit stays above the cut of the largest weight or accumulator), else
// false. Groups may be certified only where every sum of terms fits 24 bits: a group's own sum is rounded, too, and it
// can need one bit more than the accumulator before and after it.
inline bool set_alignment(const fast::ScaleRange& a, const fast::ScaleRange& b, Folding& f) {
  const SumSpan span = span_of(a, b, f);
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
  int64_t step;  // panels of B a tile takes
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
  k.wide_int8 = wide_int8_kernel(k.folding.sum, t.run4);
  k.wide_float = wide_float_kernel(k.folding.sum);
  return k;
}

// Panels pb.. of B times rows [first, last) of A.
FP4_TARGET inline void multiply_blocked_part(const Product& p, BlockedPlan k, int64_t pb, int64_t first, int64_t last) {
  TileInput& t = k.input;
  const Panels& pa = p.a.panels;
  const Panels& panels_b = p.b.panels;
  const bool bytes = k.engine != Engine::wide_float;
  int certificates = 4;  // tries before order-independence is given up for this part
  const int wide = static_cast<int>(smaller(k.step, panels_b.count - pb));
  uint32_t nan_cols = 0;
  fast::ScaleRange range_b = panels_b.range[pb];
  for (int j = 0; j < wide; ++j) {
    t.b[j] = bytes ? panels_b.panel_bytes(pb + j) : nullptr;
    t.scale_b[j] = panels_b.panel_scales(pb + j);
    t.correction[j] = panels_b.correction + (pb + j) * t.runs * panel_rows;
    nan_cols |= static_cast<uint32_t>(panels_b.nan_rows[pb + j]) << (16 * j);
    range_b.least = smaller(range_b.least, panels_b.range[pb + j].least);
    range_b.largest = larger(range_b.largest, panels_b.range[pb + j].largest);
  }
  thread_local Arena arena;
  double* wide_b = nullptr;
  if (!bytes) {
    arena.reset(Arena::bytes_for<double>(panels_b.padded * panel_rows));
    wide_b = arena.take<double>(panels_b.padded * panel_rows);
    const float* values = panels_b.panel_values(pb);
    for (int64_t k = 0; k < panels_b.padded; ++k) store(wide_b + k * panel_rows, load_widened(values + k * panel_rows));
  }
  const int64_t col0 = pb * panel_rows;
  const int cols = static_cast<int>(smaller<int64_t>(wide * panel_rows, p.b.rows - col0));
  for (int64_t row0 = first; row0 < last; row0 += tile_rows) {
    const int64_t panel = row0 / panel_rows;
    const int64_t half = row0 % panel_rows;
    t.a = bytes ? pa.panel_bytes(panel) + half * 4 : nullptr;
    t.scale_a = pa.panel_scales(panel) + half;
    const TileOutput out = {p.c + row0 * p.c_stride + col0,
                            p.c_stride,
                            static_cast<int>(smaller<int64_t>(tile_rows, p.a.rows - row0)),
                            cols,
                            all(p.factor),
                            static_cast<uint32_t>(pa.nan_rows[panel]) >> half,
                            nan_cols,
                            is_finite(p.factor)};
    bool done = false;
    if (scales_in_range(pa.range[panel], range_b) && set_alignment(pa.range[panel], range_b, k.folding)) {
      if (k.engine == Engine::int8_block) {
        (wide == 2 ? k.two : k.one)(t, out);
        done = true;
      } else if (k.engine == Engine::wide_int8) {
        if (k.folding.may_certify && certificates > 0) {
          done = certified_tile(k.one, t, k.folding, out);
          if (!done) --certificates;
        }
        if (!done) done = k.wide_int8(t, k.folding, out);
      } else {
        done = k.wide_float(t, {pa.panel_values(panel) + half, wide_b, p.run}, k.folding, out);
      }
    }
    if (!done) slow_tile(p, row0, col0, out);
  }
}

inline void multiply_blocked_panels(const Product& p, Engine engine) {
  const BlockedPlan plan = plan_blocked(p, engine);
  const int threads = threads_for(p);
  const int64_t count = p.b.panels.count;
  for (int64_t first = 0; first < p.a.rows; first += row_block) {
    const int64_t last = smaller(first + row_block, p.a.rows);
    if (threads == 1) {
      for (int64_t pb = 0; pb < count; pb += plan.step) multiply_blocked_part(p, plan, pb, first, last);
      continue;
    }
#pragma omp parallel for num_threads(threads) schedule(dynamic, 4)
    for (int64_t pb = 0; pb < count; pb += plan.step) multiply_blocked_part(p, plan, pb, first, last);
  }
}

// One K block [k0, k1) of panels pb.. of B times rows [first, last) of A; sums wait in C between K blocks.
template <Loop loop>
FP4_TARGET inline void multiply_float_part(const Product& p, bool direct_a, int64_t pb, int64_t first, int64_t last,
                                           int64_t k0, int64_t k1) {
  const MatrixView x = direct_a ? p.a.plan->x : MatrixView{};
  const Panels& panels_b = p.b.panels;
  const int wide = static_cast<int>(smaller<int64_t>(loop == Loop::fp64 ? 1 : 2, panels_b.count - pb));
  const int64_t col0 = pb * panel_rows;
  FloatTile t;
  t.a_row_stride = direct_a ? x.row_stride : 1;
  t.a_k_stride = direct_a ? x.col_stride : panel_rows;
  t.b[0] = panels_b.panel_values(pb) + k0 * panel_rows;
  t.b[1] = panels_b.panel_values(pb + wide - 1) + k0 * panel_rows;
  t.n = k1 - k0;
  t.first = k0 == 0;
  t.last = k1 == p.a.cols;
  t.c_stride = p.c_stride;
  t.cols = static_cast<int>(smaller<int64_t>(wide * panel_rows, p.b.rows - col0));
  t.factor = p.factor;
  for (int64_t row0 = first; row0 < last; row0 += float_tile_rows) {
    t.rows = static_cast<int>(smaller<int64_t>(float_tile_rows, p.a.rows - row0));
    t.a = direct_a ? x.data + row0 * x.row_stride : p.a.panels.panel_values(row0 / panel_rows) + row0 % panel_rows;
    t.a += k0 * t.a_k_stride;
    t.c = p.c + row0 * p.c_stride + col0;
    if (loop == Loop::fp64) {
      double_tile(t);
    } else if (t.a_k_stride == 1 && !(t.a_row_stride == 1 && t.rows == float_tile_rows)) {
      (wide == 2 ? float_tile<loop, 2, false> : float_tile<loop, 1, false>)(t);
    } else {
      (wide == 2 ? float_tile<loop, 2, true> : float_tile<loop, 1, true>)(t);
    }
  }
}

template <Loop loop>
inline void multiply_float_panels(const Product& p, bool direct_a) {
  const int threads = threads_for(p);
  const int64_t count = p.b.panels.count;
  const int64_t step = loop == Loop::fp64 ? 1 : 2;
  const int64_t k_block = loop == Loop::fp64 ? larger<int64_t>(p.a.cols, 1) : float_k_block;
  for (int64_t k0 = 0; k0 < larger<int64_t>(p.a.cols, 1); k0 += k_block) {
    const int64_t k1 = smaller(k0 + k_block, p.a.cols);
    for (int64_t first = 0; first < p.a.rows; first += row_block) {
      const int64_t last = smaller(first + row_block, p.a.rows);
      if (threads == 1) {
        for (int64_t pb = 0; pb < count; pb += step) multiply_float_part<loop>(p, direct_a, pb, first, last, k0, k1);
        continue;
      }
#pragma omp parallel for num_threads(threads) schedule(dynamic, 4)
      for (int64_t pb = 0; pb < count; pb += step) multiply_float_part<loop>(p, direct_a, pb, first, last, k0, k1);
    }
  }
}

// Shapes of an operand's panels and the arena bytes they need.
inline size_t shape_panels(Side& side, int64_t padded, int64_t runs, bool bytes, bool values) {
  Panels& p = side.panels;
  p.rows = side.rows;
  p.cols = side.cols;
  p.padded = padded;
  p.block = scale_block(side.spec, padded);
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

FP4_TARGET inline void fill_panels(Side& side, const PanelOptions& options) {
  if (side.stored != nullptr) {
    pack_stored(*side.stored, options, side.panels);
  } else {
    quantize_operand(*side.plan, options, side.panels);
  }
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

// The smallest K step that respects groups; 0 when the vector kernels do not know the model.
inline int64_t run_of(Engine engine, const Accumulator& row, const QuantSpec& a, const QuantSpec& b, int64_t padded) {
  int64_t run = smaller(scale_block(a, padded), scale_block(b, padded));
  if (engine != Engine::wide_int8 && engine != Engine::wide_float) return run;
  if (row.group > 0) run = smaller<int64_t>(run, row.group);
  return run % 4 == 0 && wide_folds(row, run) ? run : 0;
}

inline bool supports_product(const QuantSpec& a, const QuantSpec& b, const Accumulator& row) {
  const Engine engine = choose_engine(a, b, row);
  return engine != Engine::none && run_of(engine, row, a, b, 1024) != 0;
}

FP4_TARGET inline bool run_product(Product& p) {
  const QuantSpec& sa = p.a.spec;
  const QuantSpec& sb = p.b.spec;
  const Accumulator& row = p.options.accumulator;
  const Engine engine = choose_engine(sa, sb, row);
  if (engine == Engine::none) return false;
  const bool int8 = engine == Engine::int8_block || engine == Engine::wide_int8;
  const bool direct_a = engine == Engine::fma && reads_in_place(p.a);
  int64_t padded = fast::round_up(larger<int64_t>(p.a.cols, 1), larger(piece_of(sa), piece_of(sb)));
  p.run = run_of(engine, row, sa, sb, padded);
  if (p.run == 0) return false;
  padded = fast::round_up(padded, p.run);
  if (int8 && p.run * p.a.largest_fixed() * p.b.largest_fixed() > int64_t{1} << 24) return false;  // exact in fp32
  const int64_t runs = int8 ? padded / p.run : 0;
  thread_local Arena arena;
  arena.reset(shape_panels(p.a, padded, runs, int8, !int8 && !direct_a) + shape_panels(p.b, padded, runs, int8, !int8));
  place_panels(p.a.panels, arena, runs, int8, !int8 && !direct_a);
  place_panels(p.b.panels, arena, runs, int8, !int8);
  PanelOptions options;
  options.run = p.run;
  options.neutral_zeros = row.kind != AccumulatorKind::aligned;
  if (engine == Engine::fma) options.values = Values::decoded;
  if (engine == Engine::multiply_add || engine == Engine::fp64) options.values = Values::scaled;
  if (int8) {
    p.offset = p.a.largest_fixed();
    p.quantum = power_of_two(p.a.quantum_log2() + p.b.quantum_log2());
    options.byte_offset = p.offset;
  }
  if (!direct_a) fill_panels(p.a, options);
  options.byte_offset = 0;
  options.correction_factor = p.offset;
  fill_panels(p.b, options);
  const GemmFinish finish = {sa.prescale * sb.prescale, p.options.hadamard_divisor, false};
  p.factor = finish.factor(p.a.panels.factor.g * p.b.panels.factor.g);
  if (engine == Engine::fma) {
    p.factor = p.options.hadamard_divisor != 1.0f ? 1.0f / p.options.hadamard_divisor : 1.0f;
  }
  switch (engine) {
    case Engine::fma: multiply_float_panels<Loop::fma>(p, direct_a); break;
    case Engine::multiply_add: multiply_float_panels<Loop::multiply_add>(p, direct_a); break;
    case Engine::fp64: multiply_float_panels<Loop::fp64>(p, direct_a); break;
    case Engine::int8_block:
    case Engine::wide_int8:
    case Engine::wide_float: multiply_blocked_panels(p, engine); break;
    case Engine::none: break;
  }
  return true;
}

inline Side side_of(const QuantPlan& plan) {
  Side s;
  s.spec = plan.spec;
  s.q = plan.q;
  s.rows = plan.rows;
  s.cols = plan.cols;
  s.plan = &plan;
  return s;
}

inline Side side_of(const Quantized& q) {
  Side s;
  s.spec = q.spec;
  s.q = resolve(q.spec);
  s.rows = q.rows;
  s.cols = q.cols;
  s.stored = &q;
  return s;
}

FP4_TARGET inline bool multiply(const MultiplyCall& call) {
  if (!supports_product(call.a.spec, call.b.spec, call.options.accumulator) || !has_panel_path(call.a) ||
      !has_panel_path(call.b) || !has_small_positions(call.a) || !has_small_positions(call.b)) {
    return false;
  }
  QuantPlan plan_a = fast::make_plan(call.a);
  QuantPlan plan_b = fast::make_plan(call.b);
  set_tensor_factor(plan_a);
  set_tensor_factor(plan_b);
  Product p = {call.options, call.c, call.c_stride, side_of(plan_a), side_of(plan_b)};
  return run_product(p);
}

// false: the dots of a whole row would leave exact fp32.
FP4_TARGET inline bool multiply_stored(const Quantized& a, const Quantized& b, const GemmOptions& options, float* c,
                                       int64_t c_stride) {
  Product p = {options, c, c_stride, side_of(a), side_of(b)};
  return run_product(p);
}

// y [rows, padded K] = H x, or its inverse (butterflies, normalisation, signs).
FP4_TARGET inline void hadamard_to(const MatrixView& x, const HadamardSpec& h, RandomPlace place, bool inverse,
                                   float* y) {
  QuantPlan p;
  p.x = x;
  p.rows = x.rows;
  p.cols = hadamard_padded(h, x.cols);
  const HadamardSignMask signs = hadamard_signs(h, place);
  alignas(64) float buffer[largest_chunk][panel_rows];
  HadamardSpec bare = h;
  if (inverse) {
    bare.signs = HadamardSigns::none;
    bare.normalise = HadamardNormalise::fold;
  }
  const float factor =
      h.normalise == HadamardNormalise::sqrt ? inverse_root(h.size) : 1.0f / static_cast<float>(h.size);
  for (int64_t row = 0; row < p.rows; row += panel_rows) {
    const int rows = static_cast<int>(smaller<int64_t>(panel_rows, p.rows - row));
    for (int64_t k = 0; k < p.cols; k += h.size) {
      load_chunk(p, row, k, h.size, buffer);
      transform_tile(buffer, bare, signs);
      for (int j = 0; j < h.size; ++j) {
        F v = load(buffer[j]);
        if (inverse) v = v * all(factor);
        v = select(is_nan(v), as_float(all(canonical_nan_bits)), v);
        if (inverse && signs.is_minus(j)) v = as_float(bits(v) ^ all(0x80000000u));
        store(buffer[j], v);
      }
      store_transposed(buffer, rows, h.size, y + row * p.cols + k, p.cols);
    }
  }
}

}  // namespace fp4::FP4_ISA
