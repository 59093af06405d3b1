// Lists, not tables of all words: a new enumerator is one that no fast path knows.
#include "src/arith/known_words.h"

#include <initializer_list>

namespace fp4 {
namespace {

bool is_known(Element word) {
  using enum Element;
  return is_one_of(word, {e2m1, e1m2, e3m0, e2m3, e3m2, e4m3, e5m2, bf16, fp16, fp32});
}

bool is_known(Scale word) {
  using enum Scale;
  return is_one_of(word, {e8m0, ue4m3, ue5m3, ue5m3_61440, ue5m3_122880, ue5m2, ue3m4, ue2m5, ue1m6, bf16, fp32, none});
}

bool is_known(ScaleRule word) {
  using enum ScaleRule;
  return is_one_of(word, {floor, ceil, rceil, even, uos, nearest_log2, quest_floor, quest_nearest, amax, encode,
                          four_over_six, mse});
}

bool is_known(Rounding word) {
  using enum Rounding;
  return is_one_of(word, {nearest_even, nearest_away, nearest_toward_zero, toward_zero, away_from_zero, toward_positive,
                          toward_negative, stochastic, stochastic_midpoint, stochastic_truncated});
}

bool is_known(ZeroScale word) { return is_one_of(word, {ZeroScale::smallest, ZeroScale::one, ZeroScale::keep}); }
bool is_known(NegativeZero word) { return is_one_of(word, {NegativeZero::keep, NegativeZero::drop}); }
bool is_known(Nonfinite word) { return is_one_of(word, {Nonfinite::block_nan, Nonfinite::saturate}); }
bool rounds_scales(Rounding word) {
  return is_one_of(word, {Rounding::nearest_even, Rounding::toward_positive, Rounding::stochastic});
}
bool rounds_sums(Rounding word) { return is_one_of(word, {Rounding::nearest_even, Rounding::toward_zero}); }

template <class Word>
Word known_or(Word word, Word other) {
  return is_known(word) ? word : other;
}

// A field that holds one of these words becomes `plain`.
template <class Word>
void forget(Word& field, std::initializer_list<Word> words, Word plain) {
  if (is_one_of(field, words)) field = plain;
}

void forget_decode(QuantSpec& s) {
  forget(s.decode, {Decode::factor_first, Decode::divide_global, Decode::amax_first}, Decode::scale_then_tensor);
}

// Elements and payloads in bf16: of blocks whose scales are powers of two and tell NaN, without a tensor scale.
bool knows_bf16(const QuantSpec& s) {
  return s.scale == Scale::e8m0 && s.tensor_scale == TensorScale::none && is_power_of_two_rule(s.scale_rule) &&
         s.nonfinite == Nonfinite::block_nan;
}

}  // namespace

bool is_known(Arithmetic word) {
  return is_one_of(word, {Arithmetic::exact, Arithmetic::divide, Arithmetic::reciprocal, Arithmetic::te});
}

// The comparisons with a copy of the fields named here decline a field added since, unless it has its default.
static QuantSpec named_fields(const QuantSpec& s) {
  return {.element = s.element,
          .scale = s.scale,
          .block = {s.block.kind, s.block.size},
          .scale_rule = s.scale_rule,
          .scale_rounding = s.scale_rounding,
          .arithmetic = s.arithmetic,
          .rounding = s.rounding,
          .random_bits = s.random_bits,
          .prescale = s.prescale,
          .tensor_scale = s.tensor_scale,
          .target = s.target,
          .hold_steps = s.hold_steps,
          .zero_scale = s.zero_scale,
          .zero_block = s.zero_block,
          .scale_floor = s.scale_floor,
          .negative_zero = s.negative_zero,
          .nonfinite = s.nonfinite,
          .ragged = s.ragged};
}

bool is_known(const QuantSpec& s) {
  return named_fields(s) == s && is_known(s.element) && is_known(s.scale) &&
         is_one_of(s.block.kind, {BlockKind::vector, BlockKind::square, BlockKind::row, BlockKind::tensor}) &&
         is_known(s.scale_rule) && rounds_scales(s.scale_rounding) && is_known(s.arithmetic) && is_known(s.rounding) &&
         is_one_of(s.tensor_scale,
                   {TensorScale::none, TensorScale::current, TensorScale::hold, TensorScale::outer128}) &&
         is_known(s.zero_scale) && is_one_of(s.zero_block, {ZeroBlock::one, ZeroBlock::limit}) &&
         is_known(s.negative_zero) && is_known(s.nonfinite) && is_one_of(s.ragged, {Ragged::pad, Ragged::refuse});
}

bool is_known_but_row(const QuantSpec& s) {
  QuantSpec rest = s;
  forget(rest.tensor_scale, {TensorScale::row}, TensorScale::outer128);
  return is_known(rest);
}

bool is_known_to_quantisers(const QuantSpec& s) {
  if (is_known(s) || s.tensor_scale_cols(1) > 0) return is_known_but_row(s);
  QuantSpec rest = s;
  forget(rest.arithmetic,
         {Arithmetic::vllm, Arithmetic::divide_global, Arithmetic::modelopt, Arithmetic::fouroversix,
          Arithmetic::factor_first},
         Arithmetic::exact);
  forget(rest.payload,
         {PayloadOrder::divide, PayloadOrder::reciprocal, PayloadOrder::te, PayloadOrder::vllm,
          PayloadOrder::divide_global, PayloadOrder::multiply_global, PayloadOrder::divide_then_multiply},
         PayloadOrder::of_arithmetic);
  forget(rest.scale_rule,
         {ScaleRule::even_above, ScaleRule::nearest_log2_amax, ScaleRule::floor_plus_one, ScaleRule::ms_eden},
         ScaleRule::floor);
  forget(rest.scale_rounding, {Rounding::nearest_away, Rounding::toward_zero}, Rounding::nearest_even);
  forget(rest.tensor_scale, {TensorScale::given}, TensorScale::current);
  forget(rest.factor_format,
         {FactorFormat::power_of_two, FactorFormat::mantissa8, FactorFormat::bf16, FactorFormat::fp16},
         FactorFormat::fp32);
  forget(rest.factor_order, {FactorOrder::divide, FactorOrder::inverse}, FactorOrder::of_arithmetic);
  forget(rest.zero_scale, {ZeroScale::eighth}, ZeroScale::smallest);
  forget(rest.negative_zero, {NegativeZero::of_rounding, NegativeZero::zeros}, NegativeZero::keep);
  forget(rest.error, {TrialError::mae, TrialError::max}, TrialError::mse);
  forget(rest.error_order, {ErrorOrder::decoded_amax, ErrorOrder::decoded_factor, ErrorOrder::scaled},
         ErrorOrder::fp64);
  forget(rest.exponent, {Exponent::float_log2}, Exponent::bits);
  if (knows_bf16(s)) {
    forget(rest.compute, {Compute::bf16}, Compute::fp32);
    forget(rest.payload_type, {PayloadType::bf16}, PayloadType::of_compute);
  }
  forget_decode(rest);
  rest.factor = rest.scale_ceiling = rest.scale_add = 0.0f;
  return is_known(rest);
}

bool is_known_once_multiplied(const QuantSpec& s, QuantSpec& multiplied) {
  multiplied = s;
  multiplied.arithmetic = Arithmetic::exact;
  multiplied.tensor_scale = TensorScale::none;
  multiplied.factor_format = FactorFormat::fp32;
  return s.arithmetic == Arithmetic::multiply && s.tensor_scale == TensorScale::outer128 &&
         s.factor_format == FactorFormat::mantissa8 && is_known(multiplied);
}

bool is_known_to_decoders(const QuantSpec& s) {
  QuantSpec rest = decoding_spec(s);
  rest.arithmetic = Arithmetic::exact;
  forget(rest.headroom, {Headroom::unbiased}, Headroom::none);
  forget_decode(rest);
  return is_known_but_row(rest);
}

QuantSpec decoding_spec(const QuantSpec& s) {
  QuantSpec rest = named_fields(s);
  rest.scale_rule = known_or(s.scale_rule, is_power_of_two_rule(s.scale_rule) ? ScaleRule::floor : ScaleRule::amax);
  if (!rounds_scales(s.scale_rounding)) rest.scale_rounding = Rounding::nearest_even;
  rest.rounding = known_or(s.rounding, Rounding::nearest_even);
  forget(rest.tensor_scale, {TensorScale::given}, TensorScale::current);
  rest.zero_scale = known_or(s.zero_scale, ZeroScale::smallest);
  rest.negative_zero = known_or(s.negative_zero, NegativeZero::keep);
  rest.nonfinite = known_or(s.nonfinite, Nonfinite::saturate);
  rest.decode = s.decode, rest.headroom = s.headroom, rest.choice = s.choice;
  return rest;
}

bool is_known(const HadamardSpec& h) {
  const HadamardSpec copy = {h.size, h.signs, h.normalise};
  return copy == h &&
         is_one_of(h.signs,
                   {HadamardSigns::none, HadamardSigns::fixed, HadamardSigns::per_layer, HadamardSigns::per_step}) &&
         is_one_of(h.normalise, {HadamardNormalise::sqrt, HadamardNormalise::fold});
}

bool is_known(const Accumulator& row) {
  const Accumulator copy = {.kind = row.kind,
                            .group = row.group,
                            .inner = row.inner,
                            .fraction_bits = row.fraction_bits,
                            .group_rounding = row.group_rounding,
                            .rounding = row.rounding,
                            .snap_log2 = row.snap_log2,
                            .zero_exponent = row.zero_exponent};
  return copy == row &&
         is_one_of(row.kind, {AccumulatorKind::block, AccumulatorKind::group, AccumulatorKind::aligned,
                              AccumulatorKind::sequential, AccumulatorKind::sequential_double, AccumulatorKind::fma}) &&
         rounds_sums(row.group_rounding) && rounds_sums(row.rounding);
}

}  // namespace fp4
