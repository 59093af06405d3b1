// The second scale level: one fp32 factor g for a tensor (NVFP4), held between sampling steps (2609.02846), one per
// row, or one per row and 128 elements along K. From the tensor amax A: g = fl32(A / fl32(target*M)), so that the
// largest block scale is about `target`; orders that start from S have S = min(fl32(target*M / A), FLT_MAX)
// (divide_global: fl32(target*M * fl32(1/A))) and g = fl32(1/S). A factor may be stored in fewer bits (FactorFormat);
// in bf16 and fp16 1/A is rounded, too: of A = .337890625, 1/A is 2.953125 in bf16 and S 7936, not 7968.
#pragma once

#include "fp4/arithmetic.h"

namespace fp4 {

enum class TensorScale : uint8_t { none, current, hold, outer128, row, given };

struct TensorScaleInfo {
  TensorScale id;
  const char* name;
  const char* doc;
  const char* source;
  int extra_reads;    // whole-tensor passes for the amax ...
  bool is_amortised;  // ... shared by `hold_steps` steps
};

inline constexpr TensorScaleInfo tensor_scale_table[] = {
    {TensorScale::none, "none", "g = 1", "OCP MX 1.0", 0, false},
    {TensorScale::current, "current", "from this tensor's amax", "NVFP4, 2509.25149", 1, false},
    {TensorScale::hold, "hold", "amax sampled every hold_steps training steps", "2609.02846", 1, true},
    {TensorScale::outer128, "outer128", "one factor per row and 128 elements along K", "block-scaled FP8 training", 0,
     false},
    {TensorScale::row, "row", "one factor per row", "row-scaled NVFP4 of Transformer Engine, FlashInfer per token", 1,
     false},
    {TensorScale::given, "given",
     "`factor`, whatever the tensor: S of orders that start from it, else g; tensor_scale=NUMBER says both",
     "static scales of vLLM, TensorRT-LLM and Model-Optimizer", 0, false},
};
static_assert(ids_are_indices(tensor_scale_table));

// How S = target*M/A is worked out.
enum class FactorOrder : uint8_t { of_arithmetic, divide, inverse };

inline constexpr AxisRow<FactorOrder> factor_order_table[] = {
    {FactorOrder::of_arithmetic, "of_arithmetic", "inverse under divide_global, else divide", "definition"},
    {FactorOrder::divide, "divide", "S = fl32(target*M / A)", "Transformer Engine, vLLM's kernels"},
    {FactorOrder::inverse, "inverse", "S = fl32(target*M * fl32(1/A)), as number / tensor in PyTorch",
     "compressed-tensors, vLLM and SGLang in Python"},
};
static_assert(ids_are_indices(factor_order_table));

// What a factor is stored in. power_of_two: the least 2^e that is not below g, e in [-126, 126], so that no block scale
// exceeds the target. mantissa8: S = 1.f with the eight upper fraction bits f of fl32(M / max(A, 1e-12)), and
// g = fl32(1/S); the exponent is left to the block scales and `target` is not read. Of e2m1's 6 over A = 5, 1.2, f is
// 51, and 5 becomes 5 S = 5.996.
enum class FactorFormat : uint8_t { fp32, power_of_two, mantissa8, bf16, fp16 };

struct FactorFormatInfo {
  FactorFormat id;
  const char* name;
  const char* doc;
  const char* source;
  int bits;  // stored
};

inline constexpr FactorFormatInfo factor_format_table[] = {
    {FactorFormat::fp32, "fp32", "g in fp32", "NVFP4, 2509.25149; TetraJet-v2 2510.27527", 32},
    {FactorFormat::power_of_two, "power_of_two", "g rounded up to a power of two", "E8M0 as a second level", 8},
    {FactorFormat::mantissa8, "mantissa8",
     "S = 1.f, the eight upper fraction bits of M/A; e8m0 blocks keep its exponent",
     "macro block scaling, 2603.08713; AMD-AGI/ALTO", 8},
    {FactorFormat::bf16, "bf16",
     "S, or g where the order does not start from S, rounded to bf16; 0 and infinity become 1",
     "compressed-tensors on bf16 models", 16},
    {FactorFormat::fp16, "fp16", "the same in fp16: an A below 2688/65520 has S = 1",
     "compressed-tensors on fp16 models", 16},
};
static_assert(ids_are_indices(factor_format_table));

inline constexpr int outer_scale_width = 128;
// Factors of a row of `cols` elements under outer128.
FP4_HD constexpr int64_t outer_scale_cols(int64_t cols) { return (cols + outer_scale_width - 1) / outer_scale_width; }

// In which order a code becomes a value again, and so what is stored for a tensor: the factor that the order reads.
// M is the largest element value; all orders but the first take no prescale.
enum class Decode : uint8_t { scale_then_tensor, factor_first, divide_global, amax_first };

inline constexpr AxisRow<Decode> decode_table[] = {
    {Decode::scale_then_tensor, "scale_then_tensor", "fl32(fl32(q*s/p)*g); stores g", "definition"},
    {Decode::factor_first, "factor_first", "fl32(q*fl32(s*g)); stores g",
     "torchao, vLLM, Model-Optimizer, ue5m3-fp4, Quartet II"},
    {Decode::divide_global, "divide_global", "fl32(q*fl32(s/S)); stores S", "compressed-tensors, vLLM's emulation"},
    {Decode::amax_first, "amax_first", "fl32(q*fl32(fl32(s*A)*fl32(1/fl32(target*M)))); stores the amax A",
     "Transformer Engine's CUDA dequantiser"},
};
static_assert(ids_are_indices(decode_table));

// What is stored for a tensor whose amax is A.
FP4_HD constexpr float stored_factor(Decode d, TensorFactor t, float amax) {
  return d == Decode::divide_global ? t.te_multiplier : d == Decode::amax_first ? amax : t.g;
}

// g of what is stored; `top` is fl32(target*M).
FP4_HD constexpr float multiplier_of(Decode d, float stored, float top) {
  return d == Decode::divide_global ? 1.0f / stored : d == Decode::amax_first ? stored * (1.0f / top) : stored;
}

// The one number that an element value is multiplied by under a block scale s.
FP4_HD constexpr float decode_factor(Decode d, float s, float stored, float top) {
  return d == Decode::divide_global ? s / stored : d == Decode::amax_first ? s * stored * (1.0f / top) : s * stored;
}

// The least power of two >= g, between 2^-126 and 2^126, and its inverse.
FP4_HD constexpr TensorFactor rounded_up_to_power(float g) {
  const uint32_t bits = magnitude_bits(g);
  const int exponent = static_cast<int>(bits >> 23) - 127 + ((bits & 0x007FFFFFu) != 0 ? 1 : 0);
  const int e = larger(-126, smaller(exponent, 126));
  return {power_of_two(e), power_of_two(-e)};
}

FP4_HD constexpr TensorFactor mantissa_factor(float amax, float largest) {
  const float ratio = largest / larger(amax, 1e-12f);
  const float s = float_of((bits_of(ratio) & 0x007F8000u) | 0x3F800000u);
  return {1.0f / s, s};
}

// g and S from the amax A (finite, >= 0). `largest` is M. A = 0 gives 1.
FP4_HD constexpr TensorFactor tensor_factor(Arithmetic order, float amax, float target, float largest,
                                            FactorFormat format = FactorFormat::fp32,
                                            FactorOrder by = FactorOrder::of_arithmetic) {
  if (amax == 0.0f) return {};
  if (format == FactorFormat::mantissa8) return mantissa_factor(amax, largest);
  if (format == FactorFormat::power_of_two)
    return rounded_up_to_power(tensor_factor(order, amax, target, largest, FactorFormat::fp32, by).g);
  const bool is_short = format == FactorFormat::bf16 || format == FactorFormat::fp16;
  const auto rounded = [&](float x) {
    return format == FactorFormat::bf16 ? rounded_to_bf16(x) : is_short ? rounded_to_fp16(x) : x;
  };
  const auto stored = [&](float x) {
    const float y = rounded(x);
    return is_short && (y == 0.0f || !is_finite(y)) ? 1.0f : at_most_largest(y);
  };
  if (starts_from_multiplier(order)) {
    const bool by_inverse =
        by == FactorOrder::inverse || (by == FactorOrder::of_arithmetic && order == Arithmetic::divide_global);
    const float multiplier = stored(by_inverse ? target * largest * rounded(1.0f / amax) : target * largest / amax);
    return {1.0f / multiplier, multiplier};
  }
  const float g = stored(amax / (target * largest));
  return {g == 0.0f ? power_of_two(-149) : g, 1.0f};
}

// Of a factor that a kernel is given: S, or g where the order does not start from S.
FP4_HD constexpr TensorFactor given_factor(Arithmetic order, float factor) {
  if (starts_from_multiplier(order)) return {1.0f / factor, factor};
  return {factor, 1.0f};
}

// What stands for gA*gB in the factor of a product (gemm.h). A_A and A_B are the tensor amaxes, T = fl32(target*M) of
// each operand.
enum class ProductFactor : uint8_t { tensor_scales, amaxes, amaxes_inverse };

inline constexpr AxisRow<ProductFactor> product_factor_table[] = {
    {ProductFactor::tensor_scales, "tensor_scales", "fl32(gA*gB)", "definition"},
    {ProductFactor::amaxes, "amaxes", "fl32(fl32(A_A*A_B) / fl32(T_A*T_B)), NVFP4's T_A*T_B = 36*448^2",
     "TransformerEngine's reference, NVFP4QuantizerRef.qgemm"},
    {ProductFactor::amaxes_inverse, "amaxes_inverse", "fl32(fl32(A_A*A_B) * fl32(1/(T_A*T_B)))",
     "TransformerEngine, nvte_nvfp4_compute_per_tensor_scale"},
};
static_assert(ids_are_indices(product_factor_table));

FP4_HD constexpr float factor_of_amaxes(ProductFactor word, float a, float b, float top_a, float top_b) {
  const float tops = top_a * top_b;
  return word == ProductFactor::amaxes ? a * b / tops : a * b * (1.0f / tops);
}

}  // namespace fp4
