// Quantise and dequantise one block. The order of the policies: non-finite, all-zero, rule, scale_floor, zero_scale.
// A Quantizer is a QuantSpec resolved to numbers (`resolve` of spec.h): it travels to kernels by value. An element
// reads x ~ q*s*g/p: element value q, decode-side block scale s, tensor scale g, prescale p.
#pragma once

#include "fp4/elementary.h"
#include "fp4/quant_spec.h"
#include "fp4/rng.h"

namespace fp4 {

// Bit 7 of a 7-bit scale code: the block's elements are those of the second grid. A decoded scale has it as its sign.
inline constexpr uint32_t choice_flag = 0x80;

// `element` and `scale` are the formats that the words of these names stand for, and hide them; `target` is a number,
// and what needs a scale is off without one.
struct Quantizer : QuantSpec {
  FloatFormat element;
  FloatFormat scale;
  const FloatFormat* other = nullptr;  // the second grid of a choice, of blocks whose scale code has a flag
  float soft_alpha = 0.0f;             // > 0: the smooth maximum of `softsoftmax` replaces amax (estimator.h)

  // An element as it counts.
  FP4_HD constexpr float input(float x) const {
#if FP4_DEVICE_CODE
    return x;  // known_words.cpp keeps the word from devices
#else
    return subnormals == Subnormals::flush && magnitude_bits(x) < 0x00800000u ? float_of(bits_of(x) & float_sign_bit)
                                                                              : x;
#endif
  }
  FP4_HD constexpr PayloadOrder order_of_payload() const { return payload_order(arithmetic, payload); }
  // Whether elements are counted in sevenths of 6, as the code of fouroversix does it: int4 under fl32(7/6) of
  // payloads.
  FP4_HD constexpr bool counts_sevenths([[maybe_unused]] const FloatFormat& e) const {
#if FP4_DEVICE_CODE
    return false;
#else
    return arithmetic == Arithmetic::fouroversix && e.grid == &int4_6_grid;
#endif
  }
  FP4_HD constexpr bool stores_multiplier() const { return scale_rule == ScaleRule::encode; }
  FP4_HD constexpr bool has_choice() const {
#if FP4_DEVICE_CODE
    return false;
#else
    return other != nullptr;
#endif
  }
  // The elements of a block with this scale code, or with this decoded scale, whose sign is the flag.
  FP4_HD constexpr const FloatFormat& element_under(uint32_t scale_code) const {
    return has_choice() && (scale_code & choice_flag) != 0 ? *other : element;
  }
  FP4_HD constexpr const FloatFormat& element_under(float s) const {
    return has_choice() && is_negative(s) ? *other : element;
  }
  // The type of payloads, and of the y of `multiply`: an fp32 tensor scale makes payloads fp32.
  FP4_HD constexpr Compute compute_of_payload() const {
    const bool is_bf16 = tensor_scale == TensorScale::none || arithmetic == Arithmetic::multiply;
    return has_scale() && is_bf16 ? compute : Compute::fp32;
  }
  // What rules divide block maxima by: under `multiply` they are those of y.
  FP4_HD constexpr float rule_factor(TensorFactor t) const { return arithmetic == Arithmetic::multiply ? 1.0f : t.g; }
  // fl32(target*M), of 16/17 M under a headroom.
  FP4_HD constexpr float top() const {
    const Divisor m = with_headroom({exact_product(exact_magnitude(target), element.largest()), 1}, headroom);
    return headroom == Headroom::none ? target * fp4::decode(element, element.largest_code) : m.rounded();
  }
  // M, or what ms_eden takes for it.
  FP4_HD constexpr float largest() const {
    return scale_rule == ScaleRule::ms_eden ? rule_divisor(scale_rule, element).rounded()
                                            : fp4::decode(element, element.largest_code);
  }
  // What block maxima are divided by.
  FP4_HD constexpr Divisor divisor() const { return with_headroom(rule_divisor(scale_rule, element), headroom); }
  FP4_HD constexpr Divisor two_thirds() const {  // 4 for e2m1
    return with_headroom({exact_product(element.largest(), {2, 0, false}), 3}, headroom);
  }
};

// g and S from the tensor amax; a NaN, of `tensor_nan`, makes both NaN.
FP4_HD constexpr TensorFactor tensor_factor(const Quantizer& q, float amax) {
  if (q.tensor_scale == TensorScale::given) return given_factor(q.arithmetic, q.factor);
  if (is_nan(amax)) return {float_of(canonical_nan_bits), float_of(canonical_nan_bits)};
  const bool has_headroom = q.headroom != Headroom::none;
  TensorFactor t = tensor_factor(q.arithmetic, amax, has_headroom ? q.top() : q.target,
                                 has_headroom ? 1.0f : q.largest(), q.factor_format, q.factor_order);
  t.amax = amax;
  return t;
}

// The valid part of a block: [rows, cols] elements with strides; a full block has `count` elements, pads included.
struct BlockView {
  const float* data = nullptr;
  int64_t row_stride = 0;
  int64_t col_stride = 1;
  int64_t rows = 1;
  int64_t cols = 0;
  int64_t count = 0;

  FP4_HD float at(int64_t r, int64_t c) const { return data[r * row_stride + c * col_stride]; }
};

struct BlockMaximum {
  float amax = 0.0f;  // over finite elements
  bool has_nonfinite = false;
};

FP4_HD inline BlockMaximum block_maximum(const BlockView& x) {
  uint32_t amax = 0;
  bool nonfinite = false;
  for (int64_t r = 0; r < x.rows; ++r) {
    for (int64_t c = 0; c < x.cols; ++c) {
      const uint32_t bits = magnitude_bits(x.at(r, c));
      if (bits >= float_infinity_bits) {
        nonfinite = true;
      } else {
        amax = larger(amax, bits);
      }
    }
  }
  return {float_of(amax), nonfinite};
}

// a + ln(sum_i exp(alpha(|x_i| - a)))/alpha, ascending i: the smooth maximum of 2509.17791.
FP4_HD inline float soft_maximum(const BlockView& x, float amax, float alpha) {
  float sum = 0.0f;
  for (int64_t r = 0; r < x.rows; ++r) {
    for (int64_t c = 0; c < x.cols; ++c) sum = sum + elementary::exp(alpha * (magnitude(x.at(r, c)) - amax));
  }
  return at_most_largest(amax + elementary::log(sum) / alpha);
}

// The decode-side scale of a code: its value, or fl32(1/mu) where the multiplier is stored. NaN codes give NaN. Of a
// choice its sign says the grid; element_value reads it so.
FP4_HD constexpr float scale_value(const Quantizer& q, uint32_t scale_code) {
  if (!q.has_scale()) return 1.0f;
  const float stored = decode(q.scale, scale_code);
  if (q.has_choice() && (scale_code & choice_flag) != 0) return -stored;
  return q.stores_multiplier() && !is_nan(stored) ? 1.0f / stored : stored;
}

// Code of one element under a finite scale code. Infinity and NaN reach this function under `saturate` and with scale
// `none`, where they pass if the element format has them.
FP4_HD constexpr uint32_t element_code(const Quantizer& q, float element, uint32_t scale_code, TensorFactor t,
                                       uint32_t random) {
  const FloatFormat& e = q.element_under(scale_code);
  const float x = q.input(element);
  const bool negative = is_negative(x);
  const uint32_t sign = negative ? e.sign_code() : 0u;
  if (is_nan(x)) {
    if (!q.has_scale() && e.has_nan()) return e.nan_code;
    if (q.nonfinite == Nonfinite::max) return e.largest_code;
    return q.nonfinite == Nonfinite::max_signed ? sign | e.largest_code_of(negative) : e.zero_code();
  }
  if (is_infinite(x))
    return sign | (!q.has_scale() && e.has_infinity ? e.infinity_code() : e.largest_code_of(negative));
  uint32_t code = e.zero_code();
  if (magnitude_bits(x) != 0) {
    const float stored = q.has_scale() ? decode(q.scale, scale_code) : 1.0f;
    if (stored != 0.0f || q.order_of_payload() == PayloadOrder::te) {
      Magnitude u = q.has_scale() && q.stores_multiplier()
                        ? multiplier_payload(q.arithmetic, x, stored, t, q.prescale)
                        : payload(q.arithmetic, at_most_largest(computed(q.compute, magnitude(x))), stored, t,
                                  q.prescale, q.compute_of_payload(), q.payload);
#if !FP4_DEVICE_CODE
      if (q.payload_type == PayloadType::bf16) u = payload_in_bf16(u, e.largest());
      if (q.counts_sevenths(e)) {
        u = magnitude_or_overflow(round_to_float(u, false, Rounding::nearest_even) * (7.0f / 6.0f));
        return encode(format_of(Element::int4), u, negative, {q.rounding, q.random_bits, random});
      }
#endif
      code = encode(e, u, negative, {q.rounding, q.random_bits, random});
    }
  } else if (q.negative_zero == NegativeZero::of_rounding || q.negative_zero == NegativeZero::zeros) {
    return q.negative_zero == NegativeZero::zeros ? e.sign_code() | code : code;
  }
  return code == e.zero_code() && q.negative_zero == NegativeZero::drop ? code : sign | code;
}

// Decoded value fl32(fl32(q*s/p)*g), or that of another order (tensor_scale.h), which reads another factor than g; the
// inner rounding is one rounding of the exact rational.
FP4_HD constexpr float element_value(const Quantizer& q, uint32_t code, float s, float g) {
  const FloatFormat& e = q.element_under(s);
  if (is_nan(s) || e.is_nan_code(code)) return float_of(canonical_nan_bits);
  if (!e.is_finite_code(code)) return decode(e, code);
  if (q.has_choice()) s = magnitude(s);
  if (q.has_scale() && q.decode != Decode::scale_then_tensor) {
    const float factor = q.tensor_scale == TensorScale::none ? s : decode_factor(q.decode, s, g, q.top());
    return canonical(decode(e, code) * factor);
  }
  const Magnitude product = exact_product(e.value(code & e.magnitude_mask()), exact_magnitude(s));
  const Magnitude unscaled = quotient(product, prescale_magnitude(q.prescale));
  return round_to_float(unscaled, e.is_negative_code(code), Rounding::nearest_even) * g;
}

// scale_floor and scale_ceiling, then zero_scale.
FP4_HD constexpr uint32_t apply_scale_policies(const Quantizer& q, uint32_t code) {
  if (q.scale_floor > 0.0f && decode(q.scale, code) < q.scale_floor) {
    code = encode(q.scale, exact_magnitude(q.scale_floor), false, {Rounding::away_from_zero, 0, 0});
  }
  if (q.scale_ceiling > 0.0f && decode(q.scale, code) > q.scale_ceiling) {
    code = encode(q.scale, exact_magnitude(q.scale_ceiling), false, {Rounding::toward_zero, 0, 0});
  }
  if (q.scale.has_zero && code == 0) {
    if (q.zero_scale == ZeroScale::smallest) code = 1;
    if (q.zero_scale == ZeroScale::one) code = code_of_one(q.scale);
    if (q.zero_scale == ZeroScale::eighth) code = encode(q.scale, {1, -3, false}, false, {});
  }
  return code;
}

// x minus the decoded value in fp32, as kernels work it out (scale_rule.h).
constexpr float error_in_fp32(const Quantizer& q, float x, uint32_t code, float s, TensorFactor t, float amax) {
  const FloatFormat& e = q.element_under(s);
  s = magnitude(s);
  if (q.counts_sevenths(e) && q.error_order == ErrorOrder::decoded_amax)
    return decode(format_of(Element::int4), code) * s * amax * (6.0f / 7.0f) / q.top() - x;
  const float candidate = decode(e, code) * s;
  switch (q.error_order) {
    case ErrorOrder::decoded_amax: return candidate * amax / q.top() - x;
    case ErrorOrder::decoded_factor: return candidate * t.g - x;
    case ErrorOrder::scaled: return candidate - (starts_from_multiplier(q.arithmetic) ? x * t.te_multiplier : x / t.g);
    case ErrorOrder::fp64: break;
  }
  return 0.0f;
}

// The error of a trial in fp32; `amax` is the tensor's. Choices try the codes that they write, unless those are drawn.
inline float trial_error_in_fp32(Quantizer q, const BlockView& x, uint32_t scale_code, TensorFactor t, float amax) {
  if (!q.has_choice() || is_stochastic(q.rounding)) q.rounding = Rounding::nearest_even;
  const float s = scale_value(q, scale_code);
  float of_row[128] = {};  // of the largest square
  for (int64_t r = 0; r < x.rows; ++r) {
    for (int64_t c = 0; c < x.cols; ++c) {
      const float value = x.at(r, c);
      const float error = error_in_fp32(q, value, element_code(q, value, scale_code, t, 0), s, t, amax);
      float& sum = of_row[r % 128];
      if (q.error == TrialError::max) {
        sum = larger(sum, magnitude(error));
      } else {
        sum = sum + (q.error == TrialError::mse ? error * error : magnitude(error));
      }
    }
  }
  int64_t rows = 1;
  while (rows < x.rows) rows *= 2;
  for (rows /= 2; rows > 0; rows /= 2) {
    for (int64_t r = 0; r < rows; ++r)
      of_row[r] = q.error == TrialError::max ? larger(of_row[r], of_row[r + rows]) : of_row[r] + of_row[r + rows];
  }
  return of_row[0];
}

// The error of a trial in fp64, sums in ascending k, nearest-even trials, decoded as the spec says but for amax_first
// (invalid_reason).
FP4_HD inline double trial_error(Quantizer q, const BlockView& x, uint32_t scale_code, TensorFactor t) {
#if !FP4_DEVICE_CODE
  if (q.error_order != ErrorOrder::fp64) {
    return static_cast<double>(trial_error_in_fp32(q, x, scale_code, t, t.amax));
  }
#endif
  q.rounding = Rounding::nearest_even;
  const float s = scale_value(q, scale_code);
  const float factor = q.decode == Decode::divide_global ? t.te_multiplier : t.g;
  double sum = 0.0;
  for (int64_t r = 0; r < x.rows; ++r) {
    for (int64_t c = 0; c < x.cols; ++c) {
      const float value = x.at(r, c);
      const double error = static_cast<double>(value) -
                           static_cast<double>(element_value(q, element_code(q, value, scale_code, t, 0), s, factor));
      if (q.error == TrialError::max) {
        sum = larger(sum, error < 0.0 ? -error : error);
      } else {
        sum = sum + (q.error == TrialError::mse ? error * error : error < 0.0 ? -error : error);
      }
    }
  }
  return sum;
}

FP4_HD inline uint32_t quest_code(const Quantizer& q, const BlockView& x, float amax, float g) {
  double sum = 0.0;
  double squares = 0.0;
  for (int64_t r = 0; r < x.rows; ++r) {
    for (int64_t c = 0; c < x.cols; ++c) {
      if (!is_finite(x.at(r, c))) continue;
      const double v = static_cast<double>(x.at(r, c)) / static_cast<double>(g);
      sum = sum + v;
      squares = squares + v * v;
    }
  }
  const int fallback = power_rule_exponent(ScaleRule::floor, amax, g, q.element);
  return power_code(q.scale,
                    quest_exponent(q.scale_rule, sum, squares, static_cast<double>(x.count), fallback, q.scale_add));
}

// The amax code c or one of c-1, c+1, c-2, c+2 (finite, non-zero): the first with the least squared error.
FP4_HD inline uint32_t mse_code(const Quantizer& q, const BlockView& x, uint32_t amax_code, TensorFactor t) {
  constexpr int offsets[] = {0, -1, 1, -2, 2};
  uint32_t best = amax_code;
  double least = -1.0;
  for (int offset : offsets) {
    const int64_t raw = static_cast<int64_t>(amax_code) + offset;
    if (raw < (q.scale.has_zero ? 1 : 0) || raw > static_cast<int64_t>(q.scale.largest_code)) continue;
    const uint32_t code = apply_scale_policies(q, static_cast<uint32_t>(raw));
    const double error = trial_error(q, x, code, t);
    if (least < 0.0 || error < least) {
      least = error;
      best = static_cast<uint32_t>(raw);
    }
  }
  return best;
}

// Scale code of a block by the rule alone; amax > 0. `random` is the draw of stochastic scale rounding.
FP4_HD inline uint32_t rule_code(const Quantizer& q, const BlockView& x, float amax, TensorFactor t, uint32_t random) {
  if (is_quest(q.scale_rule)) return quest_code(q, x, amax, t.g);
  if (q.exponent == Exponent::float_log2 && is_power_of_two_rule(q.scale_rule))
    return power_code(q.scale, float_rule_exponent(q.scale_rule, amax, q.rule_factor(t), q.element, q.compute));
  if (is_power_of_two_rule(q.scale_rule))
    return power_code(q.scale, power_rule_exponent(q.scale_rule, amax, q.rule_factor(t), q.element));
  const RoundingDraw how = {q.scale_rounding, q.random_bits, random};
  const auto rounded = [&](Magnitude scale) {
#if !FP4_DEVICE_CODE
    const uint64_t grid = round_to_grid(q.scale, scale, false, how);
    if (q.scale_overflow == ScaleOverflow::nan && q.scale.has_nan() && grid > q.scale.largest_code)
      return q.scale.nan_code;
#endif
    return encode(q.scale, scale, false, how);
  };
  const Magnitude largest = q.element.largest();
  if (q.scale_rule == ScaleRule::encode) {
    const Magnitude n = q.scale.has_zero ? largest : Magnitude{1, q.element.max_exponent(), false};
    return rounded(multiplier_quotient(q.arithmetic, amax, n, t));
  }
  const uint32_t code = rounded(scale_quotient(q.arithmetic, amax, q.divisor(), t, q.compute));
#if !FP4_DEVICE_CODE
  if (q.scale.is_nan_code(code)) return code;
#endif
  if (q.scale_rule == ScaleRule::mse) return mse_code(q, x, code, t);
  if (q.scale_rule != ScaleRule::four_over_six) return code;
  const uint32_t smaller_target =
      encode(q.scale, larger_scale_quotient(q.arithmetic, amax, q.divisor(), q.two_thirds(), t, q.compute), false, how);
  const double error_of_6 = trial_error(q, x, apply_scale_policies(q, code), t);
  const double error_of_4 = trial_error(q, x, apply_scale_policies(q, smaller_target), t);
  return error_of_4 < error_of_6 ? smaller_target : code;
}

// Each grid of a choice has the scale that its rule gives; the one with the least error is taken, the first of equals.
inline uint32_t chosen_code(const Quantizer& q, const BlockView& x, float amax, TensorFactor t, uint32_t random) {
  Quantizer second = q;
  second.element = *q.other;
  const uint32_t a = apply_scale_policies(q, rule_code(q, x, amax, t, random));
  const uint32_t b = apply_scale_policies(q, rule_code(second, x, amax, t, random)) | choice_flag;
  return trial_error(q, x, b, t) < trial_error(q, x, a, t) ? b : a;
}

// A user's own scale, to the nearest scale code: below the smallest that, NaN and negative ones the code of 1.
inline uint32_t called_scale_code(const Quantizer& q, const BlockView& x, TensorFactor t) {
  constexpr int64_t most = 16384;  // invalid_reason: 1 x B or B x B
  float block[most];
  int64_t count = 0;
  for (int64_t r = 0; r < x.rows; ++r) {
    for (int64_t c = 0; c < x.cols && count < most; ++c) block[count++] = x.at(r, c) / t.g;
  }
  const auto s = static_cast<float>(q.element.grid->calls->scale(*q.element.grid->calls, block, count));
  if (!(s > 0.0f)) return code_of_one(q.scale);
  return encode(q.scale, exact_magnitude(at_most_largest(s)), false, {q.scale_rounding, q.random_bits, 0});
}

FP4_HD constexpr uint32_t zero_block_code(const Quantizer& q) {
  if (q.zero_block == ZeroBlock::one) return code_of_one(q.scale);
  return q.stores_multiplier() ? q.scale.largest_code : 0u;
}

// Scale code of a block whose maximum is known; the scale format's NaN code when the block has a non-finite element
// under `block_nan` or `tensor_nan`, or its tensor a NaN.
FP4_HD inline uint32_t block_scale_code(const Quantizer& q, const BlockView& x, BlockMaximum maximum, TensorFactor t,
                                        uint32_t random) {
  const bool poisons = q.nonfinite == Nonfinite::block_nan || q.nonfinite == Nonfinite::tensor_nan;
  if (poisons && q.scale.has_nan() && (maximum.has_nonfinite || is_nan(t.g))) return q.scale.nan_code;
  maximum.amax = q.input(maximum.amax);
  if (maximum.amax == 0.0f) return apply_scale_policies(q, zero_block_code(q));
  maximum.amax = at_most_largest(computed(q.compute, maximum.amax));
  if (q.arithmetic == Arithmetic::multiply) maximum.amax = at_most_largest(multiplied(q.compute, maximum.amax, t));
  if (maximum.amax == 0.0f) return apply_scale_policies(q, zero_block_code(q));
  const float amax = q.soft_alpha > 0.0f ? soft_maximum(x, maximum.amax, q.soft_alpha) : maximum.amax;
#if !FP4_DEVICE_CODE
  if (q.has_choice()) return chosen_code(q, x, amax, t, random);
  if (q.element.is_grid() && q.element.grid->calls != nullptr && q.element.grid->calls->scale != nullptr)
    return apply_scale_policies(q, called_scale_code(q, x, t));
#endif
  const uint32_t code = rule_code(q, x, amax, t, random);
#if !FP4_DEVICE_CODE
  if (q.scale.is_nan_code(code)) return code;
#endif
  return apply_scale_policies(q, code);
}

FP4_HD inline uint32_t block_scale_code(const Quantizer& q, const BlockView& x, TensorFactor t, uint32_t random) {
  return q.has_scale() ? block_scale_code(q, x, block_maximum(x), t, random) : 0u;
}

}  // namespace fp4
