// C = Q(A) Q(B)^T straight from high-precision operands: both are quantised into panels of the calling thread's arena
// and multiplied there. Shapes of training are small, so nothing here allocates or starts threads below a size.
#pragma once

#include "src/fast/isa_avx512.h"
// After the instruction set they are compiled for:
#include "src/fast/gemm_int8_avx512.h"
#include "src/fast/panel_reader.h"
#include "src/fast/quantize_body.h"

namespace fp4::avx512 {

// Element formats whose multiples of the quantum fit a signed byte, and products a block's dot product.
inline bool has_byte_values(Element e) {
  return e == Element::e2m1 || e == Element::e1m2 || e == Element::e3m0 || e == Element::e2m3;
}

inline bool int8_product_fits(const QuantSpec& s) {
  return s.has_scale() && has_byte_values(s.element) && s.tensor_scale != TensorScale::outer128;
}

inline int64_t scale_block(const QuantSpec& s, int64_t padded) {
  return s.block.kind == BlockKind::vector || s.block.kind == BlockKind::square ? s.block.size : padded;
}

struct Int8Product {
  Panels a;
  Panels b;
  int64_t run = 0;
  int offset = 0;
  float quantum = 1.0f;
  GemmFinish finish;
  Quantizer qa;
  Quantizer qb;
  Accumulator accumulator;
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

FP4_TARGET inline void slow_tile(const Int8Product& p, int64_t row0, int64_t col0, const TileOutput& out) {
  float factor;
  _mm_store_ss(&factor, _mm512_castps512_ps128(out.factor.v));
  for (int r = 0; r < out.rows; ++r) {
    const fast::PanelReader a(p.a, row0 + r, p.offset, p.qa.element, p.qa.scale.min_exponent());
    for (int c = 0; c < out.cols; ++c) {
      const fast::PanelReader b(p.b, col0 + c, 0, p.qb.element, p.qb.scale.min_exponent());
      const bool nan = (out.nan_rows >> r & 1u) != 0 || (out.nan_cols >> c & 1u) != 0;
      out.c[r * out.stride + c] =
          nan ? float_of(canonical_nan_bits) : canonical(dot(p.accumulator, a, b, 0, p.a.cols) * factor);
    }
  }
}

FP4_TARGET inline void multiply_panels(const Int8Product& p, float* c, int64_t c_stride) {
  const float factor = p.finish.factor(p.a.factor.g * p.b.factor.g);
  TileInput t;
  t.run4 = p.run / 4;
  t.runs = p.a.padded / p.run;
  t.scale_shift_a = scale_shift(p.a.block, p.run, p.a.padded);
  t.scale_shift_b = scale_shift(p.b.block, p.run, p.b.padded);
  t.quantum = p.quantum;
  const TileKernel one = block_kernel<1>(t.run4);
  const TileKernel two = block_kernel<2>(t.run4);
  for (int64_t pb = 0; pb < p.b.count; pb += 2) {
    const int wide = pb + 1 < p.b.count ? 2 : 1;
    uint32_t nan_cols = 0;
    fast::ScaleRange range_b = p.b.range[pb];
    for (int j = 0; j < wide; ++j) {
      t.b[j] = p.b.panel_bytes(pb + j);
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
      t.a = p.a.panel_bytes(pa) + half * 4;
      t.scale_a = p.a.panel_scales(pa) + half;
      const TileOutput out = {c + row0 * c_stride + col0,
                              c_stride,
                              static_cast<int>(smaller<int64_t>(tile_rows, p.a.rows - row0)),
                              cols,
                              all(factor),
                              static_cast<uint32_t>(p.a.nan_rows[pa]) >> half,
                              nan_cols,
                              is_finite(factor)};
      if (!scales_in_range(p.a.range[pa], range_b)) {
        slow_tile(p, row0, col0, out);
      } else if (wide == 2) {
        two(t, out);
      } else {
        one(t, out);
      }
    }
  }
}

inline size_t panel_bytes_needed(const Panels& p, int64_t runs) {
  using fast::Arena;
  return Arena::bytes_for<int8_t>(p.count * p.padded * panel_rows) +
         Arena::bytes_for<float>(p.count * p.scales_per_panel * panel_rows) +
         Arena::bytes_for<int32_t>(p.count * runs * panel_rows) + Arena::bytes_for<uint16_t>(p.count) +
         Arena::bytes_for<fast::ScaleRange>(p.count);
}

inline void shape_panels(Panels& p, int64_t rows, int64_t cols, int64_t padded, const QuantSpec& s) {
  p.rows = rows;
  p.cols = cols;
  p.padded = padded;
  p.block = scale_block(s, padded);
  p.count = (rows + panel_rows - 1) / panel_rows;
  p.scales_per_panel = padded / p.block;
}

inline void place_panels(Panels& p, fast::Arena& arena, int64_t runs) {
  p.bytes = arena.take<int8_t>(p.count * p.padded * panel_rows);
  p.scale = arena.take<float>(p.count * p.scales_per_panel * panel_rows);
  p.correction = arena.take<int32_t>(p.count * runs * panel_rows);
  p.nan_rows = arena.take<uint16_t>(p.count);
  p.range = arena.take<fast::ScaleRange>(p.count);
}

FP4_TARGET inline void quantize_operand(const QuantPlan& plan, const PanelOptions& options, Panels& out) {
  Quantization z;
  z.plan = &plan;
  z.options = options;
  z.draws = plan_draws(plan);
  z.out = &out;
  alignas(64) int8_t table[128];
  for (int i = 0; i < 128; ++i) table[i] = static_cast<int8_t>(plan.table[i] + options.byte_offset);
  z.table = {load_table(table), plan.steps, plan.clamp_index};
  for (int64_t panel = 0; panel < out.count; ++panel) quantize_vector_panel(z, panel);
}

FP4_TARGET inline bool multiply_int8(const MultiplyCall& call) {
  const QuantSpec& sa = call.a.spec;
  const QuantSpec& sb = call.b.spec;
  const QuantPlan plan_a = fast::make_plan(call.a);
  const QuantPlan plan_b = fast::make_plan(call.b);
  Int8Product p;
  const int64_t run = smaller(scale_block(sa, 128), scale_block(sb, 128));
  const int64_t chunk = larger<int64_t>(larger<int64_t>(scale_block(sa, 128), scale_block(sb, 128)), 4);
  const int64_t padded = fast::round_up(plan_a.cols, chunk);
  p.run = run;
  shape_panels(p.a, plan_a.rows, plan_a.cols, padded, sa);
  shape_panels(p.b, plan_b.rows, plan_b.cols, padded, sb);
  thread_local fast::Arena arena;
  const int64_t runs = padded / run;
  arena.reset(panel_bytes_needed(p.a, runs) + panel_bytes_needed(p.b, runs));
  place_panels(p.a, arena, runs);
  place_panels(p.b, arena, runs);
  p.offset = static_cast<int>(decode_fixed(plan_a.q.element, plan_a.q.element.largest_code));
  p.quantum = power_of_two(plan_a.quantum_log2 + plan_b.quantum_log2);
  p.finish.prescale_product = sa.prescale * sb.prescale;
  p.finish.hadamard_divisor = call.options.hadamard_divisor;
  p.qa = plan_a.q;
  p.qb = plan_b.q;
  p.accumulator = call.options.accumulator;
  quantize_operand(plan_a, {.byte_offset = p.offset, .run = run}, p.a);
  quantize_operand(plan_b, {.correction_factor = p.offset, .run = run}, p.b);
  multiply_panels(p, call.c, call.c_stride);
  return true;
}

FP4_TARGET inline bool multiply(const MultiplyCall& call) {
  const auto simple = [](const QuantizeCall& q) FP4_TARGET {
    return int8_product_fits(q.spec) && q.spec.block.kind == BlockKind::vector &&
           q.spec.tensor_scale == TensorScale::none && q.soft_alpha == 0.0f;
  };
  if (!simple(call.a) || !simple(call.b) || !(call.options.accumulator == fp32_block)) return false;
  return multiply_int8(call);
}

}  // namespace fp4::avx512
