#include <algorithm>

#include "src/gpu/pipeline.h"

namespace fp4::gpu {
namespace {

bool is_power_scaled(const QuantSpec& s) { return s.scale == Scale::e8m0; }

// The operand as the matrix kernels read it.
struct ExpandedBuffers {
  Expanded e;
  Buffer<int8_t> values;
  Buffer<uint32_t> words;
  Buffer<TileFacts> facts;
};

ExpandedBuffers expand(Pool& pool, const Operand& o, const MatrixPlan& plan, bool needs_facts) {
  ExpandedBuffers r;
  const int64_t padded = tiles_over(o.cols, matrix_k) * matrix_k;
  r.values = Buffer<int8_t>(pool, o.rows * padded);
  r.words = Buffer<uint32_t>(pool, o.rows * (padded / plan.run));
  r.facts = Buffer<TileFacts>(pool, tiles_over(o.rows, matrix_tile));
  r.e = {r.values.data(), r.words.data(), r.facts.data(), o.rows, padded, plan.run};
  launch(pool.device(), ExpandOperand{o, r.e, plan.mode}, groups_for(o.rows * r.e.runs()));
  if (needs_facts) launch(pool.device(), FindTileFacts{r.e}, tiles_over(o.rows, matrix_tile));
  return r;
}

int64_t matrix_tiles(const PlainGemm& plain) {
  return tiles_over(plain.a.rows, matrix_tile) * tiles_over(plain.b.rows, matrix_tile);
}

// The operand as ExactGemm reads it: values, and exponents where the unit scales.
struct ExactBuffers {
  Buffer<uint8_t> values;
  Buffer<uint32_t> exponents;
  int64_t row_bytes = 0;
};

ExactBuffers decode_to_bf16(Pool& pool, const Expanded& e) {
  ExactBuffers r;
  r.row_bytes = 2 * e.padded_k;
  r.values = Buffer<uint8_t>(pool, e.rows * r.row_bytes);
  const DecodeToBf16 kernel = {e, reinterpret_cast<uint16_t*>(r.values.data())};
  launch(pool.device(), kernel, groups_for(kernel.threads()));
  return r;
}

ExactBuffers pack_codes(Pool& pool, const Operand& o, const Expanded& e) {
  ExactBuffers r;
  r.row_bytes = tiles_over(o.cols, 2 * matrix_k) * matrix_k;
  r.values = Buffer<uint8_t>(pool, o.rows * r.row_bytes);
  r.exponents = Buffer<uint32_t>(pool, o.rows * r.row_bytes / 16);
  const PackCodes kernel = {o, e, r.values.data(), r.exponents.data(), r.row_bytes};
  launch(pool.device(), kernel, groups_for(o.rows * kernel.runs()));
  return r;
}

template <class Unit, class Kernel = ExactGemm<Unit>>
void exact_gemm(Pool& pool, const PlainGemm& plain, const TileRule& rule, const Expanded& a, const Expanded& b) {
  const auto side = [&](const Operand& o, const Expanded& e) {
    if constexpr (Unit::has_scales) {
      return pack_codes(pool, o, e);
    } else {
      static_cast<void>(o);
      return decode_to_bf16(pool, e);
    }
  };
  const ExactBuffers of_a = side(plain.a, a);
  const ExactBuffers of_b = side(plain.b, b);
  launch(pool.device(),
         Kernel{plain,
                rule,
                {of_a.values.data(), of_a.exponents.data(), plain.a.rows},
                {of_b.values.data(), of_b.exponents.data(), plain.b.rows},
                of_a.row_bytes},
         matrix_tiles(plain));
}

void exact_tiles(Pool& pool, const PlainGemm& plain, const TileRule& rule, const Expanded& a, const Expanded& b,
                 MatrixKind kind, ExactUnit unit) {
  if (kind == MatrixKind::nvidia) return exact_gemm<NvidiaBf16, StagedGemm>(pool, plain, rule, a, b);
  if (unit == ExactUnit::scaled) return exact_gemm<AmdScaled>(pool, plain, rule, a, b);
  exact_gemm<AmdBf16>(pool, plain, rule, a, b);
}

void remaining_tiles(Pool& pool, PlainGemm plain, const TileRule& rule) {
  plain.only_remaining = true;
  plain.rule = rule;
  launch(pool.device(), plain, matrix_tiles(plain));
}

int product_quantum(const PlainGemm& plain) {
  return plain.a.quantizer.element.quantum_log2() + plain.b.quantizer.element.quantum_log2();
}

// Tiles for the integer units.
template <class Unit, ScaleMode mode>
void integer_tiles(Pool& pool, const PlainGemm& plain, const TileRule& rule, const Expanded& a, const Expanded& b) {
  if (a.run == unit_k) return launch(pool.device(), MatrixGemm<Unit, mode, 1>{plain, a, b, rule}, matrix_tiles(plain));
  launch(pool.device(), MatrixGemm<Unit, mode, 2>{plain, a, b, rule}, matrix_tiles(plain));
}

template <ScaleMode mode>
void integer_tiles(Pool& pool, const PlainGemm& plain, const TileRule& rule, const Expanded& a, const Expanded& b,
                   MatrixKind kind) {
  if (kind == MatrixKind::nvidia) return integer_tiles<NvidiaUnit, mode>(pool, plain, rule, a, b);
  integer_tiles<AmdUnit, mode>(pool, plain, rule, a, b);
}

// How a product goes over the matrix units of a device.
struct MatrixChoice {
  MatrixKind kind = MatrixKind::none;
  ExactUnit exact = ExactUnit::none;
  bool is_only = false;  // no other unit may help
};

void matrix_gemm(Pool& pool, const PlainGemm& plain, const MatrixPlan& plan, const MatrixChoice& choice) {
  const ExpandedBuffers a = expand(pool, plain.a, plan, plan.mode == ScaleMode::power);
  const ExpandedBuffers b = expand(pool, plain.b, plan, plan.mode == ScaleMode::power);
  TileRule rule = {a.e.facts, b.e.facts, product_quantum(plain)};
  rule.has_exact_unit = choice.exact != ExactUnit::none;
  rule.assumes_exact = choice.is_only;
  if (plan.mode == ScaleMode::mantissa) {
    return integer_tiles<ScaleMode::mantissa>(pool, plain, rule, a.e, b.e, choice.kind);
  }
  if (rule.has_exact_unit) exact_tiles(pool, plain, rule, a.e, b.e, choice.kind, choice.exact);
  if (choice.is_only && rule.has_exact_unit) return;
  integer_tiles<ScaleMode::power>(pool, plain, rule, a.e, b.e, choice.kind);
  if (choice.is_only) return;
  remaining_tiles(pool, plain, rule);
}

void wide_gemm(Pool& pool, const PlainGemm& plain, int widest_spread) {
  const MatrixPlan plan = {true, ScaleMode::mantissa, wide_term};
  const ExpandedBuffers a = expand(pool, plain.a, plan, true);
  const ExpandedBuffers b = expand(pool, plain.b, plan, true);
  TileRule rule = {a.e.facts, b.e.facts, product_quantum(plain)};
  rule.widest_spread = widest_spread;
  const WideGemm kernel = {
      plain, rule, a.e, b.e, RowOfCodes(plain.a, 0).scale_min_exponent(), RowOfCodes(plain.b, 0).scale_min_exponent()};
  launch(pool.device(), kernel, tiles_over(plain.a.rows, WideGemm::side) * plain.groups_across(WideGemm::side));
  remaining_tiles(pool, plain, rule);
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

PlainGemm plain_gemm(const Resident& a, const Resident& b, const GemmOptions& options, float* c) {
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

MatrixPlan matrix_plan(const QuantSpec& a, const QuantSpec& b, const Accumulator& accumulator) {
  MatrixPlan plan;
  if (!(accumulator == fp32_block) || a.has_outer_scale() || b.has_outer_scale()) return plan;
  int64_t largest_value[2] = {};
  int scale_bits = 0;
  plan.run = 1024;
  for (int i = 0; i < 2; ++i) {
    const QuantSpec& s = i == 0 ? a : b;
    if (!s.has_scale() || is_real(s.scale) || s.scale_rule == ScaleRule::encode) return plan;
    if (s.block.kind != BlockKind::vector && s.block.kind != BlockKind::square) return plan;
    const FloatFormat& element = format_of(s.element);
    largest_value[i] = decode_fixed(element, element.largest_code);
    if (largest_value[i] > 127) return plan;  // a signed byte
    scale_bits += format_of(s.scale).mantissa_bits + 1;
    plan.run = std::min(plan.run, s.block.size);
  }
  if (plan.run != 16 && plan.run != 32) return plan;
  const int64_t largest_dot = plan.run * largest_value[0] * largest_value[1];
  if (is_power_scaled(a) && is_power_scaled(b)) {
    plan.mode = ScaleMode::power;
    plan.fits = largest_dot < (int64_t{1} << 22);
  } else if (!is_power_scaled(a) && !is_power_scaled(b)) {
    plan.mode = ScaleMode::mantissa;
    plan.fits = floor_log2(static_cast<uint64_t>(largest_dot)) + 1 + scale_bits <= 24;
  }
  const bool is_e2m1 = a.element == Element::e2m1 && b.element == Element::e2m1;
  plan.may_scale = plan.fits && plan.mode == ScaleMode::power && plan.run == PackCodes::run && is_e2m1;
  return plan;
}

void gemm(Pool& pool, const Resident& a, const Resident& b, const GemmOptions& options, float* c) {
  const Device& device = pool.device();
  const PlainGemm plain = plain_gemm(a, b, options, c);
  if (is_in_order(a.spec, b.spec, options.accumulator)) return ordered_gemm(pool, plain);
  const MatrixPlan plan = matrix_plan(a.spec, b.spec, options.accumulator);
  const bool has_blocks = a.spec.has_scale() && b.spec.has_scale();
  const int spread = has_blocks ? widest_spread(a.spec, b.spec, options.accumulator, a.operand.cols) : -1;
  if (spread >= 0) return wide_gemm(pool, plain, spread);
  if (!plan.fits || device.matrix_unit() == MatrixKind::none) {
    return launch(pool.device(), plain,
                  tiles_over(a.operand.rows, PlainGemm::side) * plain.groups_across(PlainGemm::side));
  }
  MatrixChoice choice = {device.matrix_unit()};
  if (plan.mode == ScaleMode::power) {
    if (device.has_exact_unit(ExactUnit::bf16)) choice.exact = ExactUnit::bf16;
    if (plan.may_scale && device.has_exact_unit(ExactUnit::scaled)) choice.exact = ExactUnit::scaled;
  }
  matrix_gemm(pool, plain, plan, choice);
}

void gemm_on_unit(Pool& pool, const Resident& a, const Resident& b, MatrixKind kind, ExactUnit exact, float* c) {
  matrix_gemm(pool, plain_gemm(a, b, {}, c), matrix_plan(a.spec, b.spec, fp32_block), {kind, exact, true});
}

}  // namespace fp4::gpu
