// What a product becomes before it is stored, as cuBLASLt and hipBLASLt name it: D = alpha*P + beta*C + bias, each step
// one fp32 operation in this order, then one rounding (nearest even) to the type of D. P is gemm.h's result.
//   v = fl32(alpha*P); v = fl32(v + fl32(beta*c)) where beta is not 0; v = fl32(v + bias) where there is one
#pragma once

#include "fp4/axis.h"
#include "fp4/codec.h"

namespace fp4 {

enum class OutputType : uint8_t { fp32, bf16, fp16 };
struct OutputTypeInfo {
  OutputType id;
  const char* name;
  Element format;
  int bytes;
  const char* doc;
  const char* source;
};
inline constexpr OutputTypeInfo output_type_table[] = {
    {OutputType::fp32, "fp32", Element::fp32, 4, "the product as it is", "IEEE 754"},
    {OutputType::bf16, "bf16", Element::bf16, 2, "rounded to nearest even, overflow to infinity", "bfloat16"},
    {OutputType::fp16, "fp16", Element::fp16, 2, "rounded to nearest even, overflow to infinity", "IEEE 754"},
};
static_assert(ids_are_indices(output_type_table));

struct Epilogue {
  float alpha = 1.0f;
  float beta = 0.0f;  // 0: c is not read
  bool has_bias = false;
  OutputType output = OutputType::fp32;
};

FP4_HD constexpr float epilogue_value(const Epilogue& e, float product, float c, float bias) {
  float v = e.alpha == 1.0f ? product : e.alpha * product;
  if (e.beta != 0.0f) v = v + e.beta * c;
  if (e.has_bias) v = v + bias;
  return is_nan(v) ? float_of(canonical_nan_bits) : v;
}

// The bits of v in the type of D, low bits first.
FP4_HD constexpr uint32_t stored_bits(OutputType type, float v) {
  const FloatFormat& f = format_of(row_of(output_type_table, type).format);
  const bool negative = (bits_of(v) & float_sign_bit) != 0;
  if (type == OutputType::fp32) return bits_of(v);
  if (is_nan(v)) return f.nan_code;
  const uint32_t magnitude_code = is_finite(v) ? encode(f, exact_magnitude(v), negative, {}) : f.infinity_code();
  return magnitude_code | (negative ? f.sign_code() : 0u);
}

}  // namespace fp4
