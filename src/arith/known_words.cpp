// Compiled with -Wno-switch: a new enumerator is no error here, it is a word that no fast path knows.
#include "src/arith/known_words.h"

#include <initializer_list>

namespace fp4 {
namespace {

bool is_known(Element word) {
  switch (word) {
    case Element::e2m1:
    case Element::e1m2:
    case Element::e3m0:
    case Element::e2m3:
    case Element::e3m2:
    case Element::e4m3:
    case Element::e5m2:
    case Element::bf16:
    case Element::fp16:
    case Element::fp32: return true;
  }
  return false;
}

bool is_known(Scale word) {
  switch (word) {
    case Scale::e8m0:
    case Scale::ue4m3:
    case Scale::ue5m3:
    case Scale::ue5m3_61440:
    case Scale::ue5m3_122880:
    case Scale::ue5m2:
    case Scale::ue3m4:
    case Scale::ue2m5:
    case Scale::ue1m6:
    case Scale::bf16:
    case Scale::fp32:
    case Scale::none: return true;
  }
  return false;
}

bool is_known(ScaleRule word) {
  switch (word) {
    case ScaleRule::floor:
    case ScaleRule::ceil:
    case ScaleRule::rceil:
    case ScaleRule::even:
    case ScaleRule::uos:
    case ScaleRule::nearest_log2:
    case ScaleRule::quest_floor:
    case ScaleRule::quest_nearest:
    case ScaleRule::amax:
    case ScaleRule::encode:
    case ScaleRule::four_over_six:
    case ScaleRule::mse: return true;
  }
  return false;
}

bool is_known(Rounding word) {
  switch (word) {
    case Rounding::nearest_even:
    case Rounding::nearest_away:
    case Rounding::nearest_toward_zero:
    case Rounding::toward_zero:
    case Rounding::away_from_zero:
    case Rounding::toward_positive:
    case Rounding::toward_negative:
    case Rounding::stochastic:
    case Rounding::stochastic_midpoint:
    case Rounding::stochastic_truncated: return true;
  }
  return false;
}

bool is_known(TensorScale word) {
  switch (word) {
    case TensorScale::none:
    case TensorScale::current:
    case TensorScale::hold:
    case TensorScale::outer128: return true;
  }
  return false;
}

bool is_known(ZeroBlock word) {
  switch (word) {
    case ZeroBlock::one:
    case ZeroBlock::limit: return true;
  }
  return false;
}

bool is_known(ZeroScale word) {
  switch (word) {
    case ZeroScale::smallest:
    case ZeroScale::one:
    case ZeroScale::keep: return true;
  }
  return false;
}

bool is_known(NegativeZero word) {
  switch (word) {
    case NegativeZero::keep:
    case NegativeZero::drop: return true;
  }
  return false;
}

bool is_known(Nonfinite word) {
  switch (word) {
    case Nonfinite::block_nan:
    case Nonfinite::saturate: return true;
  }
  return false;
}

bool is_known(Ragged word) {
  switch (word) {
    case Ragged::pad:
    case Ragged::refuse: return true;
  }
  return false;
}

bool is_known(BlockKind word) {
  switch (word) {
    case BlockKind::vector:
    case BlockKind::square:
    case BlockKind::row:
    case BlockKind::tensor: return true;
  }
  return false;
}

bool is_known(HadamardSigns word) {
  switch (word) {
    case HadamardSigns::none:
    case HadamardSigns::fixed:
    case HadamardSigns::per_layer:
    case HadamardSigns::per_step: return true;
  }
  return false;
}

bool is_known(HadamardNormalise word) {
  switch (word) {
    case HadamardNormalise::sqrt:
    case HadamardNormalise::fold: return true;
  }
  return false;
}

bool is_known(AccumulatorKind word) {
  switch (word) {
    case AccumulatorKind::block:
    case AccumulatorKind::group:
    case AccumulatorKind::aligned:
    case AccumulatorKind::sequential:
    case AccumulatorKind::sequential_double:
    case AccumulatorKind::fma: return true;
  }
  return false;
}

bool rounds_scales(Rounding word) {
  switch (word) {
    case Rounding::nearest_even:
    case Rounding::toward_positive:
    case Rounding::stochastic: return true;
  }
  return false;
}

bool rounds_sums(Rounding word) {
  switch (word) {
    case Rounding::nearest_even:
    case Rounding::toward_zero: return true;
  }
  return false;
}

template <class Word>
Word known_or(Word word, Word other) {
  return is_known(word) ? word : other;
}

// A field that holds one of these words becomes `plain`.
template <class Word>
void forget(Word& field, std::initializer_list<Word> words, Word plain) {
  for (const Word word : words)
    if (field == word) field = plain;
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
  switch (word) {
    case Arithmetic::exact:
    case Arithmetic::divide:
    case Arithmetic::reciprocal:
    case Arithmetic::te: return true;
  }
  return false;
}

// The comparisons with a copy of the fields named here decline a field added since, unless it has its default.
bool is_known(const QuantSpec& s) {
  const QuantSpec copy = {.element = s.element,
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
  return copy == s && is_known(s.element) && is_known(s.scale) && is_known(s.block.kind) && is_known(s.scale_rule) &&
         rounds_scales(s.scale_rounding) && is_known(s.arithmetic) && is_known(s.rounding) &&
         is_known(s.tensor_scale) && is_known(s.zero_scale) && is_known(s.zero_block) && is_known(s.negative_zero) &&
         is_known(s.nonfinite) && is_known(s.ragged);
}

bool is_known_to_quantisers(const QuantSpec& s) {
  if (is_known(s) || s.tensor_scale == TensorScale::outer128) return is_known(s);
  QuantSpec rest = s;
  forget(rest.arithmetic,
         {Arithmetic::vllm, Arithmetic::divide_global, Arithmetic::modelopt, Arithmetic::fouroversix,
          Arithmetic::factor_first},
         Arithmetic::exact);
  forget(rest.payload,
         {PayloadOrder::divide, PayloadOrder::reciprocal, PayloadOrder::te, PayloadOrder::vllm,
          PayloadOrder::divide_global, PayloadOrder::multiply_global, PayloadOrder::divide_then_multiply},
         PayloadOrder::of_arithmetic);
  forget(rest.scale_rule, {ScaleRule::even_above, ScaleRule::nearest_log2_amax, ScaleRule::floor_plus_one},
         ScaleRule::floor);
  forget(rest.scale_rounding, {Rounding::nearest_away, Rounding::toward_zero}, Rounding::nearest_even);
  forget(rest.tensor_scale, {TensorScale::given}, TensorScale::current);
  forget(rest.factor_format, {FactorFormat::power_of_two, FactorFormat::mantissa8, FactorFormat::bf16},
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

bool is_known_to_decoders(const QuantSpec& s) {
  QuantSpec rest = decoding_spec(s);
  rest.arithmetic = Arithmetic::exact;
  forget(rest.headroom, {Headroom::unbiased}, Headroom::none);
  forget_decode(rest);
  return is_known(rest);
}

QuantSpec decoding_spec(const QuantSpec& s) {
  const ScaleRule plain = is_power_of_two_rule(s.scale_rule) ? ScaleRule::floor : ScaleRule::amax;
  return {.element = s.element,
          .scale = s.scale,
          .block = s.block,
          .scale_rule = known_or(s.scale_rule, plain),
          .scale_rounding = rounds_scales(s.scale_rounding) ? s.scale_rounding : Rounding::nearest_even,
          .arithmetic = s.arithmetic,
          .rounding = known_or(s.rounding, Rounding::nearest_even),
          .random_bits = s.random_bits,
          .prescale = s.prescale,
          .tensor_scale = s.tensor_scale == TensorScale::given ? TensorScale::current : s.tensor_scale,
          .target = s.target,
          .hold_steps = s.hold_steps,
          .zero_scale = known_or(s.zero_scale, ZeroScale::smallest),
          .zero_block = s.zero_block,
          .scale_floor = s.scale_floor,
          .negative_zero = known_or(s.negative_zero, NegativeZero::keep),
          .nonfinite = known_or(s.nonfinite, Nonfinite::saturate),
          .ragged = s.ragged,
          .decode = s.decode,
          .headroom = s.headroom,
          .choice = s.choice};
}

bool is_known(const HadamardSpec& h) {
  const HadamardSpec copy = {h.size, h.signs, h.normalise};
  return copy == h && is_known(h.signs) && is_known(h.normalise);
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
  return copy == row && is_known(row.kind) && rounds_sums(row.group_rounding) && rounds_sums(row.rounding);
}

}  // namespace fp4
