#include <algorithm>

#include "src/gpu/pipeline.h"

namespace fp4::gpu {
namespace {

int64_t matrix_tiles(const PlainGemm& plain) {
  return tiles_over(plain.a.rows, matrix_tile) * tiles_over(plain.b.rows, matrix_tile);
}

void output_by_output(Pool& pool, const PlainGemm& plain) {
  launch(pool.device(), plain, tiles_over(plain.a.rows, PlainGemm::side) * plain.groups_across(PlainGemm::side));
}

// An operand as the matrix units read it.
struct FoldedBuffers {
  Folded f;
  Buffer<uint16_t> values;
  Buffer<int8_t> left;
  Buffer<uint32_t> far;
};

FoldedBuffers folded_buffers(Pool& pool, const Operand& o) {
  FoldedBuffers r;
  r.f.rows = o.rows;
  r.f.padded_k = tiles_over(o.cols, FoldOperands::cols) * FoldOperands::cols;
  r.values = Buffer<uint16_t>(pool, o.rows * r.f.padded_k);
  r.f.values = r.values.data();
  if (o.quantizer.scale.has_zero) return r;  // of other formats matrix_plan() knows the range
  r.left = Buffer<int8_t>(pool, o.rows * (r.f.padded_k / unit_k));
  r.far = Buffer<uint32_t>(pool, tiles_over(o.rows, matrix_tile) * (r.f.padded_k / batch_k));
  r.f.left = r.left.data();
  r.f.far = r.far.data();
  return r;
}

template <class Unit>
void folded_gemm(Pool& pool, const PlainGemm& plain, int run) {
  const FoldedBuffers a = folded_buffers(pool, plain.a);
  const FoldedBuffers b = folded_buffers(pool, plain.b);
  const FoldOperands fold = {{plain.a, a.f}, {plain.b, b.f}};
  launch(pool.device(), fold, fold.a.groups() + fold.b.groups());
  if (run == 32) return launch(pool.device(), FoldedGemm<Unit, 32>{plain, a.f, b.f}, matrix_tiles(plain));
  launch(pool.device(), FoldedGemm<Unit, 16>{plain, a.f, b.f}, matrix_tiles(plain));
}

void folded_gemm(Pool& pool, const PlainGemm& plain, int run, MatrixKind kind) {
  if (kind == MatrixKind::nvidia) return folded_gemm<NvidiaUnit>(pool, plain, run);
  folded_gemm<AmdUnit>(pool, plain, run);
}

// The operand as wide_gemm.h reads it.
struct ExpandedBuffers {
  Expanded e;
  Buffer<int8_t> values;
  Buffer<uint32_t> words;
  Buffer<TileFacts> facts;
};

ExpandedBuffers expand(Pool& pool, const Operand& o, Joint<ExpandOperand>& together) {
  ExpandedBuffers r;
  const int64_t padded = tiles_over(o.cols, matrix_k) * matrix_k;
  r.values = Buffer<int8_t>(pool, o.rows * padded);
  r.words = Buffer<uint32_t>(pool, o.rows * (padded / Expanded::run));
  ExpandOperand kernel = {o, {r.values.data(), r.words.data(), nullptr, o.rows, padded}};
  r.facts = Buffer<TileFacts>(pool, kernel.groups());
  kernel.out.facts = r.facts.data();
  together.add(kernel, kernel.groups());
  r.e = kernel.out;
  return r;
}

void wide_gemm(Pool& pool, const PlainGemm& plain, int widest_spread) {
  Joint<ExpandOperand> together;
  const ExpandedBuffers a = expand(pool, plain.a, together), b = expand(pool, plain.b, together);
  together.launch(pool.device());
  const int quantum = plain.a.quantizer.element.quantum_log2() + plain.b.quantizer.element.quantum_log2();
  const WideGemm kernel = {plain,
                           {quantum, widest_spread},
                           a.e,
                           b.e,
                           RowOfCodes(plain.a, 0).scale_min_exponent(),
                           RowOfCodes(plain.b, 0).scale_min_exponent()};
  launch(pool.device(), kernel, tiles_over(plain.a.rows, WideGemm::side) * plain.groups_across(WideGemm::side));
}

// What is summed by fma in ascending k, as gemm_output() in gemm.h decides.
bool is_in_order(const QuantSpec& a, const QuantSpec& b, const Accumulator& accumulator) {
  return takes(accumulator, a.has_scale(), format_of(a.element)) &&
         takes(accumulator, b.has_scale(), format_of(b.element)) &&
         is_plain_fma(accumulator, a.has_scale(), b.has_scale());
}

void ordered_gemm(Pool& pool, const PlainGemm& plain) {
  const int64_t batches = tiles_over(plain.a.cols, ordered_k);
  const auto decoded = [&](const Operand& o) {
    const int64_t tiles = tiles_over(o.rows, matrix_tile);
    Buffer<float> values(pool, tiles * batches * OrderedGemm::side_words);
    launch(pool.device(), DecodeInOrder{o, values.data(), batches}, tiles * batches);
    return values;
  };
  const Buffer<float> a = decoded(plain.a);
  const Buffer<float> b = decoded(plain.b);
  launch(pool.device(), OrderedGemm{plain, a.data(), b.data(), batches}, matrix_tiles(plain));
}

PlainGemm plain_gemm(const Resident& a, const Resident& b, const GemmOptions& options, Floats<float> c) {
  PlainGemm plain = {a.operand, b.operand, options.accumulator, {}, c};
  plain.finish.prescale_product = a.spec.prescale * b.spec.prescale;
  plain.finish.hadamard_divisor = options.hadamard_divisor;
  plain.finish.restarts_every_128 = a.spec.has_outer_scale() || b.spec.has_outer_scale();
  return plain;
}

}  // namespace

int widest_spread(const QuantSpec& a, const QuantSpec& b, const Accumulator& accumulator, int64_t k) {
  if (a.has_outer_scale() || b.has_outer_scale()) return -1;
  int64_t largest_dot = wide_term;
  for (const QuantSpec& s : {a, b}) {
    if (!s.has_scale() || is_real(s.scale) || s.scale_rule == ScaleRule::encode) return -1;
    if (s.block.kind != BlockKind::vector && s.block.kind != BlockKind::square) return -1;
    const FloatFormat& element = format_of(s.element);
    const int64_t largest = decode_fixed(element, element.largest_code);
    if (largest > 127 || s.block.size % wide_term != 0 || format_of(s.scale).mantissa_bits > 7) return -1;
    largest_dot *= largest;
  }
  const int term_bits = floor_log2(static_cast<uint64_t>(largest_dot)) + 1 + 16;
  if (accumulator.kind == AccumulatorKind::aligned) {
    const bool fits = accumulator.group == wide_group && accumulator.inner == wide_term &&
                      accumulator.zero_exponent == no_zero_exponent && accumulator.fraction_bits >= 0 &&
                      accumulator.result_bits == fp32_result_bits && accumulator.fraction_bits <= 36;
    return fits ? 2 * 254 : -1;
  }
  if (accumulator.kind != AccumulatorKind::group || accumulator.rounding == Rounding::odd ||
      (accumulator.group != 0 && accumulator.group != wide_group))
    return -1;
  const int64_t terms = accumulator.group == 0 ? tiles_over(k, wide_term) : wide_group / wide_term;
  return std::max(-1, 62 - term_bits - floor_log2(static_cast<uint64_t>(std::max<int64_t>(terms, 1))) - 1);
}

// The most significant bits that a value of the format has.
static int significant_bits(const FloatFormat& f) {
  int most = 0;
  for (uint32_t code = 0; code <= f.largest_code; ++code) {
    const uint64_t m = f.value(code).significand;
    if (m != 0) most = std::max(most, floor_log2(m) + 1 - __builtin_ctzll(m));
  }
  return most;
}

// What folded_gemm.h takes: elements and scales whose products fit bf16's 8 bits and range, and blocks whose sums, in
// quanta, stay below 2^24.
MatrixPlan matrix_plan(const QuantSpec& a, const QuantSpec& b, const Accumulator& accumulator) {
  MatrixPlan plan;
  if (!(accumulator == fp32_block) || a.has_outer_scale() || b.has_outer_scale()) return plan;
  int64_t largest_dot = 1;
  int scale_bits = 0;
  plan.run = 1024;
  for (const QuantSpec& s : {a, b}) {
    if (!s.has_scale() || is_real(s.scale) || s.scale_rule == ScaleRule::encode) return plan;
    if (s.block.kind != BlockKind::vector && s.block.kind != BlockKind::square) return plan;
    const FloatFormat& element = format_of(s.element);
    const FloatFormat& scale = format_of(s.scale);
    if (element.code_bits() > 8 || element.has_nan() || element.has_infinity) return plan;
    const int of_scale = significant_bits(scale) - 1;  // a power of two adds none
    if (significant_bits(element) + (of_scale > 0 ? of_scale + 1 : 0) > 8) return plan;
    if (scale.has_zero &&
        (scale.quantum_log2() < -furthest_scale || scale.value(scale.largest_code).log2_floor() > furthest_scale))
      return plan;
    largest_dot *= decode_fixed(element, element.largest_code);
    scale_bits += of_scale > 0 ? of_scale + 1 : 0;
    plan.run = std::min(plan.run, s.block.size);
  }
  plan.fits = (plan.run == 16 || plan.run == 32) &&
              floor_log2(static_cast<uint64_t>(plan.run * largest_dot)) + 1 + scale_bits <= 24;
  return plan;
}

void gemm(Pool& pool, const Resident& a, const Resident& b, const GemmOptions& options, float* c, const float* bias) {
  const Device& device = pool.device();
  PlainGemm plain = plain_gemm(a, b, options, pool.floats(c));
  plain.bias = pool.floats(bias);
  if (is_in_order(a.spec, b.spec, options.accumulator)) return ordered_gemm(pool, plain);
  const MatrixPlan plan = matrix_plan(a.spec, b.spec, options.accumulator);
  const bool has_blocks = a.spec.has_scale() && b.spec.has_scale();
  const int spread = has_blocks ? widest_spread(a.spec, b.spec, options.accumulator, a.operand.cols) : -1;
  if (spread >= 0) return wide_gemm(pool, plain, spread);
  if (plan.fits && device.matrix_unit() != MatrixKind::none) {
    return folded_gemm(pool, plain, plan.run, device.matrix_unit());
  }
  output_by_output(pool, plain);
}

void gemm_on_unit(Pool& pool, const Resident& a, const Resident& b, MatrixKind kind, float* c) {
  const PlainGemm plain = plain_gemm(a, b, {}, c);
  if (kind == MatrixKind::none) return output_by_output(pool, plain);
  folded_gemm(pool, plain, matrix_plan(a.spec, b.spec, fp32_block).run, kind);
}

}  // namespace fp4::gpu
