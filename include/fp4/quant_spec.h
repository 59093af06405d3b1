// What to make of one operand, as plain data: its formats, blocks, rules and orders of operations.
#pragma once

#include "fp4/policy.h"
#include "fp4/random_stream.h"
#include "fp4/scale_rule.h"
#include "fp4/tensor_scale.h"

namespace fp4 {

// Elements that share a scale: 1 x B along the contraction axis, B x B, a whole row, the whole tensor.
enum class BlockKind : uint8_t { vector, square, row, tensor };

struct BlockShape {
  BlockKind kind = BlockKind::vector;
  int size = 32;  // B of vector and square blocks, else 0
  friend constexpr bool operator==(const BlockShape&, const BlockShape&) = default;
};
inline constexpr int block_sizes[] = {8, 16, 32, 64, 128};

// A second grid that a block may have instead of `element`, with its own scale: the one with the least `error` is
// taken, and the scale's unused bit says which.
struct Choice {
  bool is_on = false;
  Element other = Element::e2m1;
  friend constexpr bool operator==(const Choice&, const Choice&) = default;
};

struct QuantSpec {
  Element element = Element::e2m1;
  Scale scale = Scale::e8m0;
  BlockShape block = {};
  ScaleRule scale_rule = ScaleRule::floor;
  Rounding scale_rounding = Rounding::nearest_even;
  Arithmetic arithmetic = Arithmetic::exact;
  Rounding rounding = Rounding::nearest_even;
  int random_bits = 8;
  float prescale = 1.0f;
  TensorScale tensor_scale = TensorScale::none;
  FactorFormat factor_format = FactorFormat::fp32;
  float target = 0.0f;  // 0: the default of default_target()
  int hold_steps = 50;
  ZeroScale zero_scale = ZeroScale::smallest;
  ZeroBlock zero_block = ZeroBlock::one;
  float scale_floor = 0.0f;
  NegativeZero negative_zero = NegativeZero::keep;
  Nonfinite nonfinite = Nonfinite::block_nan;
  Ragged ragged = Ragged::pad;
  TrialError error = TrialError::mse;
  Compute compute = Compute::fp32;
  Exponent exponent = Exponent::bits;
  Decode decode = Decode::scale_then_tensor;
  float scale_ceiling = 0.0f;  // 0: none
  float scale_add = 0.0f;      // of quest_floor
  Headroom headroom = Headroom::none;
  Choice choice = {};
  PayloadOrder payload = PayloadOrder::of_arithmetic;
  PayloadType payload_type = PayloadType::of_compute;
  FactorOrder factor_order = FactorOrder::of_arithmetic;
  float factor = 0.0f;  // of TensorScale::given
  ErrorOrder error_order = ErrorOrder::fp64;
  ScaleOverflow scale_overflow = ScaleOverflow::saturate;
  Subnormals subnormals = Subnormals::keep;
  RandomStream random_stream = RandomStream::philox;  // of element rounding

  friend constexpr bool operator==(const QuantSpec&, const QuantSpec&) = default;
  FP4_HD constexpr bool has_scale() const { return scale != Scale::none; }
  constexpr bool has_tensor_scale() const { return has_scale() && tensor_scale != TensorScale::none; }
  constexpr bool has_outer_scale() const { return has_scale() && tensor_scale == TensorScale::outer128; }
  // Factors along K of each row: 0 where the whole operand has one.
  constexpr int64_t tensor_scale_cols(int64_t cols) const {
    if (has_outer_scale()) return outer_scale_cols(cols);
    return has_scale() && tensor_scale == TensorScale::row ? 1 : 0;
  }
  constexpr bool corrects_scales() const { return has_scale() && scale_rule == ScaleRule::ms_eden; }  // eden.h
  constexpr bool draws_random_bits() const {
    return is_stochastic(rounding) || corrects_scales() ||
           (has_scale() && !is_power_of_two_rule(scale_rule) && is_stochastic(scale_rounding));
  }
};

// 448, or the largest scale if that is smaller; 256 for four_over_six, 255.99 for ms_eden.
constexpr float default_target(const QuantSpec& s) {
  if (!s.has_scale()) return 448.0f;
  const float preferred = s.corrects_scales() ? 255.99f : s.scale_rule == ScaleRule::four_over_six ? 256.0f : 448.0f;
  return smaller(preferred, fp4::decode(format_of(s.scale), format_of(s.scale).largest_code));
}

}  // namespace fp4
