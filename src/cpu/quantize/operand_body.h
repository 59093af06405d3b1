// A whole operand into panels: the tensor factor first, then 1 x B blocks in one pass, or blocks that span rows.
#pragma once

#include "src/arith/known_words.h"
#include "src/cpu/quantize/engine_table.h"
#include "src/cpu/quantize/flat_operand.h"
#include "src/cpu/quantize/rows.h"
#include "src/cpu/quantize/shared_blocks_body.h"
#include "src/cpu/simd/lanes.h"
#include "src/threads/parallel.h"

namespace fp4::FP4_ISA {

// Largest finite magnitude of the operand, after its Hadamard.
FP4_TARGET inline float operand_amax(const QuantPlan& p) {
  const bool rows_run = p.x.row_stride == 1 && p.x.col_stride != 1;
  if (p.hadamard.size == 0 && (p.x.col_stride == 1 || rows_run)) {
    int64_t lines = rows_run ? p.x.cols : p.x.rows;
    int64_t length = rows_run ? p.x.rows : p.x.cols;
    const int64_t stride = rows_run ? p.x.col_stride : p.x.row_stride;
    if (stride == length) {
      length *= lines;
      lines = smaller<int64_t>(lines, 1);
    }
    uint32_t largest = 0;
    for (int64_t line = 0; line < lines; ++line) {
      largest = larger(largest, largest_bits(p.x.data + line * stride, length));
    }
    if (largest < float_infinity_bits) return float_of(largest);
  }
  I m = all(0);
  alignas(64) float buffer[largest_chunk][panel_rows];
  for (int64_t row = 0; row < p.rows; row += panel_rows) m = larger(m, row_maxima(p, row, buffer));
  return float_of(static_cast<uint32_t>(largest_lane(m)));
}

// Sets plan.factor; returns the amax that was used.
FP4_TARGET inline float set_tensor_factor(QuantPlan& p) {
  const TensorScale word = p.q.tensor_scale;
  if (word != TensorScale::current && word != TensorScale::hold && word != TensorScale::given) return 0.0f;
  const bool held = word == TensorScale::hold && p.held_amax >= 0.0f;
  const float amax = word == TensorScale::given ? 0.0f : (held ? p.held_amax : operand_amax(p));
  p.factor = tensor_factor(p.q, amax);
  return amax;
}

FP4_TARGET inline void quantize_with(Quantization& z) {
  const QuantPlan& plan = *z.plan;
  z.draws = plan_draws(plan);
  z.element = format_lanes(plan.q.element);
  z.scale = format_lanes(plan.q.scale);
  z.out->factor = plan.factor;
  alignas(64) int8_t table[128];
  for (int i = 0; i < 128; ++i) table[i] = static_cast<int8_t>(plan.table[i] + z.options.byte_offset);
  z.table = {load_table(table), plan.steps, plan.clamp_index};
  alignas(16) int8_t magnitude_codes[16] = {};
  for (uint32_t code = 0; plan.code_path != CodePath::generic && code <= plan.q.element.largest_code; ++code) {
    magnitude_codes[decode_fixed(plan.q.element, code)] = static_cast<int8_t>(code);
  }
  z.magnitude_codes = load_nibble_table(magnitude_codes);
  const int64_t count = z.out->count;
  const char* reason = z.stored != nullptr ? declines_rows(plan) : "operands of products go to panels";
  if (reason != nullptr) cpu::quantize_uses.decline(cpu::QuantizeEngine::rows, reason);
  if (plan.q.has_scale() && plan.spec.block.kind != BlockKind::vector) {
    cpu::quantize_uses.count(cpu::QuantizeEngine::shared, count, count);
    return quantize_shared(z);
  }
  cpu::quantize_uses.decline(cpu::QuantizeEngine::shared, "blocks of one row, or no scales");
  const int threads = plan.rows * plan.cols >= int64_t{1} << 18 ? plan.threads : 1;
  const int64_t first = plan.is_flat ? quantize_flat(z, threads) : 0;
  const ColumnCodes columns = plan_columns(z);
  cpu::quantize_uses.count(cpu::QuantizeEngine::lanes, count - first, count - first);
  parallel_for(first, count, 1, threads, 4, [&](int64_t panel) { quantize_lanes(z, columns, panel); });
}

FP4_TARGET inline void quantize_operand(const QuantPlan& plan, const PanelOptions& options, Panels& out) {
  Quantization z;
  z.plan = &plan;
  z.options = options;
  z.out = &out;
  quantize_with(z);
}

// Codes and scales in the layout of the files.
FP4_TARGET inline void quantize_to(const QuantizeCall& call, Quantized& out) {
  QuantPlan plan = cpu::make_plan(call);
  out.spec = decoding_spec(call.spec);
  out.rows = plan.rows;
  out.cols = plan.cols;
  out.geometry = plan.geometry;
  out.codes.resize(static_cast<size_t>(plan.rows * out.code_row_bytes()));
  const auto scale_count = static_cast<size_t>(plan.geometry.scale_rows * plan.geometry.scale_cols);
  out.scales.resize(call.spec.has_scale() && !is_real(call.spec.scale) ? scale_count : 0);
  out.real_scales.resize(call.spec.has_scale() && is_real(call.spec.scale) ? scale_count : 0);
  if (plan.cols == 0) {  // whole rows and tensors have scales even so
    std::fill(out.scales.begin(), out.scales.end(), uint8_t{0});
    std::fill(out.real_scales.begin(), out.real_scales.end(), 0.0f);
  }
  out.amax = set_tensor_factor(plan);
  const BlockGeometry geometry = out.geometry;
  const int64_t flat_width = flat_columns(plan);
  if (flat_width > 0) cpu::flatten(plan, flat_width);
  out.geometry = plan.geometry;
  Panels shape;
  shape.rows = plan.rows;
  shape.cols = plan.cols;
  const bool blocked =
      plan.q.has_scale() && (call.spec.block.kind == BlockKind::vector || call.spec.block.kind == BlockKind::square);
  const int64_t piece = blocked ? call.spec.block.size : 32;
  shape.padded = cpu::round_up(plan.cols, piece);
  shape.block = blocked ? piece : larger<int64_t>(shape.padded, 1);
  shape.count = (plan.rows + panel_rows - 1) / panel_rows;
  shape.scales_per_panel = shape.padded / shape.block;
  shape.outer_count = call.spec.tensor_scale_cols(plan.cols);
  const float stored = plan.has_tensor_factor ? stored_factor(plan.q.decode, plan.factor, out.amax) : 1.0f;
  const bool of_rows = call.spec.tensor_scale_cols(1) > 0;  // of no column, outer128 has no factor
  out.tensor_scale.assign(of_rows ? static_cast<size_t>(plan.rows * shape.outer_count) : 1, stored);
  Quantization z;
  z.plan = &plan;
  z.out = &shape;
  z.stored = &out;
  quantize_with(z);
  out.geometry = geometry;
}

// Words that are known (smooth maxima read elements as they are), and positions that fit the 32-bit Philox block
// numbers of the lanes.
inline bool supports_operand(const QuantizeCall& call) {
  const int64_t k = hadamard_padded(call.hadamard, call.x.cols);
  const bool known = call.soft_alpha > 0.0f ? is_known(call.spec) : is_known_to_quantisers(call.spec);
  return known && is_known(call.hadamard) &&
         (call.row_offset + call.x.rows + panel_rows) * larger<int64_t>(k, 1) < int64_t{1} << 32;
}

}  // namespace fp4::FP4_ISA
