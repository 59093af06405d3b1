// C = Q(A) Q(B)^T straight from high-precision operands: both are quantised into panels of the calling thread's scratch
// and multiplied there. Shapes of training are small, so nothing here allocates or starts threads below a size.
#pragma once

#include "src/cpu/gemm/product_blocked_body.h"
#include "src/cpu/gemm/product_float_body.h"
#include "src/cpu/gemm/tiles.h"
#include "src/cpu/simd/lanes.h"
#include "src/threads/scratch.h"

namespace fp4::FP4_ISA {

// long: the kernels in the order in which they are asked
FP4_TARGET inline bool run_product(Product& p) {
  const QuantSpec& sa = p.a.spec;
  const QuantSpec& sb = p.b.spec;
  p.asked = p.options.accumulator;
  const Engine engine = choose_engine(sa, sb, p.asked);
  if (engine == Engine::none) return false;
  p.options.accumulator = uncut_row(sa, sb, p.asked);
  const Accumulator& row = p.options.accumulator;
  const bool direct_a = engine == Engine::fma && reads_in_place(p.a);
  int64_t piece = larger(piece_of(sa), piece_of(sb));
  if (row.kind == AccumulatorKind::aligned && scale_block(sa, 0) == 0 && scale_block(sb, 0) == 0)
    piece = std::lcm(piece, row.inner);  // whole terms
  int64_t padded = cpu::round_up(larger<int64_t>(p.a.cols, 1), piece);
  p.run = run_of(engine, row, sa, sb, padded);
  padded = cpu::round_up(padded, p.run);
  p.has_terms = engine == Engine::blocks && knows_terms(sa, sb, row);
  const bool integers = engine == Engine::blocks && has_byte_values(sa) && has_byte_values(sb);
  const bool known = row.kind == AccumulatorKind::block ? is_plain(row) : has_vnni;
  p.has_dots = integers && known && knows_integers(row, p.run) &&
               p.run * p.a.largest_fixed() * p.b.largest_fixed() <= int64_t{1} << 24;
  if (engine == Engine::blocks && !p.has_dots && !p.has_terms) return false;
  const bool int8 = integers && (has_vnni || p.has_dots);
  const bool aligned = row.kind == AccumulatorKind::aligned;
  const int64_t runs = int8 ? padded / p.run : 0;
  shape_panels(p.a, padded);
  shape_panels(p.b, padded);
  if (engine == Engine::blocks && !int8) p.pairs = choose_pairs(p);
  thread_local Scratch scratch;
  scratch.reset();
  lay_panels(p.a.panels, scratch, runs, int8, !int8 && !direct_a);
  lay_panels(p.b.panels, scratch, runs, int8, !int8);
  if (p.pairs.serves) {
    lay_pairs(p.a.panels, scratch, true);
    lay_pairs(p.b.panels, scratch, false);
  }
  PanelOptions options;
  options.run = p.run;
  options.threads = threads_for(p);
  options.neutral_zeros = row.kind != AccumulatorKind::aligned;
  if (engine == Engine::fma) options.values = Values::decoded;
  if (engine == Engine::multiply_add || engine == Engine::fp64) options.values = Values::scaled;
  PanelOptions options_b = options;
  if (int8) {
    p.quantum = power_of_two(p.a.quantum_log2() + p.b.quantum_log2());
    p.has_levels = has_vnni && !p.restarts() && knows_integers(row, p.run);
    p.offset = has_vnni ? 128 : p.a.largest_fixed();
    options.makes_unsigned = has_vnni;
    if (!has_vnni) options.byte_offset = p.offset;
    options_b.correction_factor = p.offset;
    if (has_vnni && p.has_dots && row.kind == AccumulatorKind::block && has_exact_blocks(p, 1)) {
      options_b.start = p.start = static_cast<int32_t>(bits_of(to_integer));
    }
    if (p.has_levels) {
      options.level_room = level_room(p.a, p.b);
      options_b.level_room = level_room(p.b, p.a);
      options.postpones = options_b.postpones = aligned;
    }
  }
  if (!direct_a) fill_panels(p.a, options);
  fill_panels(p.b, options_b);
  for (const Side* side : {&p.a, &p.b})
    if (engine == Engine::blocks && !side->spec.has_scale())
      std::fill_n(side->panels.scale, side->panels.count * panel_rows, 1.0f);
  if (p.pairs.serves) narrow_sides(p);
  if (options.postpones) complete_aligned(p, options, options_b);
  const GemmFinish finish = {sa.prescale * sb.prescale, p.options.hadamard_divisor, false};
  p.factor = finish.factor(p.restarts() ? 1.0f : p.a.panels.factor.g * p.b.panels.factor.g);
  if (engine == Engine::fma) {
    p.factor = p.options.hadamard_divisor != 1.0f ? 1.0f / p.options.hadamard_divisor : 1.0f;
  }
  switch (engine) {
    case Engine::fma: multiply_float_panels<Loop::fma>(p, direct_a); break;
    case Engine::multiply_add: multiply_float_panels<Loop::multiply_add>(p, direct_a); break;
    case Engine::fp64: multiply_float_panels<Loop::fp64>(p, direct_a); break;
    case Engine::blocks: multiply_blocked_panels(p); break;
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

// Whether the operand can be quantised into panels here, or is already.
inline bool can_fill(const QuantizeCall& call, const Quantized* ready) {
  return ready != nullptr || (supports_operand(call) && !call.spec.corrects_scales());
}

// Where the tensor's maximum after a Hadamard comes first, the rotated operand is kept, [K][rows]: it is read twice,
// and where it lies, in place of two transforms.
FP4_TARGET inline void transform_ahead(QuantPlan& p, Scratch& scratch) {
  const bool measures =
      p.q.tensor_scale == TensorScale::current || (p.q.tensor_scale == TensorScale::hold && p.held_amax < 0.0f);
  if (p.hadamard.size == 0 || !measures) return;
  const int64_t stride = cpu::round_up(p.rows, panel_rows) + panel_rows;  // no power of two
  scratch.reset();
  float* y = scratch.take<float>(stride * p.cols);
  alignas(64) float buffer[largest_chunk][panel_rows];
  for (int64_t row = 0; row < p.rows; row += panel_rows) {
    for (int64_t k = 0; k < p.cols; k += p.hadamard.size) {
      load_chunk(p, row, k, p.hadamard.size, buffer);
      for (int j = 0; j < p.hadamard.size; ++j) store(y + (k + j) * stride + row, load(buffer[j]));
    }
  }
  p.x = {y, p.rows, p.cols, 1, stride};
  p.hadamard = {};
}

FP4_TARGET inline Side side_of(const QuantizeCall& call, const Quantized* ready, QuantPlan& plan, Scratch& scratch) {
  if (ready != nullptr) return side_of(*ready);
  plan = cpu::make_plan(call);
  transform_ahead(plan, scratch);
  set_tensor_factor(plan);
  return side_of(plan);
}

FP4_TARGET inline bool multiply(const MultiplyCall& call) {
  if (!supports_product(call.a.spec, call.b.spec, call.options.accumulator) || !can_fill(call.a, call.ready_a) ||
      !can_fill(call.b, call.ready_b)) {
    return false;
  }
  QuantPlan plan_a;
  QuantPlan plan_b;
  thread_local Scratch rotated[2];
  Product p = {call.options, call.c, call.c_stride, side_of(call.a, call.ready_a, plan_a, rotated[0]),
               side_of(call.b, call.ready_b, plan_b, rotated[1])};
  return run_product(p);
}

// false: the dots of a whole row would leave exact fp32.
FP4_TARGET inline bool multiply_stored(const Quantized& a, const Quantized& b, const GemmOptions& options, float* c,
                                       int64_t c_stride) {
  Product p = {options, c, c_stride, side_of(a), side_of(b)};
  return run_product(p);
}

}  // namespace fp4::FP4_ISA
