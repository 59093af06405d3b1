// The order of operations: how an element, its block scale s, the tensor scale g and the prescale p become a payload,
// and how a block maximum becomes a number to be rounded to a scale code. `exact` rounds once; the others repeat, fp32
// operation by fp32 operation, what kernels do. fl32() is one IEEE operation; all arguments are magnitudes.
#pragma once

#include "fp4/codec.h"

namespace fp4 {

enum class Arithmetic : uint8_t {
  exact,
  divide,
  reciprocal,
  te,
  vllm,
  divide_global,
  modelopt,
  multiply,
  fouroversix,
  factor_first,
  bf16_reciprocals
};

inline constexpr AxisRow<Arithmetic> arithmetic_table[] = {
    {Arithmetic::exact, "exact", "p*x/(s*g), one rounding, to the code", "definition"},
    {Arithmetic::divide, "divide", "fl32(x / fl32(s*g))", "PyTorch emulators"},
    {Arithmetic::reciprocal, "reciprocal", "fl32(x * fl32(fl32(1/g)/s)), which torchao alone does", "torchao NVFP4"},
    {Arithmetic::te, "te",
     "scale of fl32(a * fl32(S*fl32(1/M))), S = target*M/A; fl32(x * min(fl32(1/fl32(s*g)), FLT_MAX)), g = fl32(1/S)",
     "Transformer Engine, ue5m3-fp4 (2609.02846)"},
    {Arithmetic::vllm, "vllm",
     "scale of fl32(S * fl32(a*fl32(1/M))); fl32(x * fl32(1/fl32(s*g))), and 0 under a zero scale",
     "vLLM, sglang, FlashInfer, TensorRT-LLM"},
    {Arithmetic::divide_global, "divide_global",
     "scale of fl32(S * fl32(a/M)), S = target*M * fl32(1/A); fl32(x / fl32(s/S))", "compressed-tensors, fouroversix"},
    {Arithmetic::modelopt, "modelopt", "scale of fl32(a / fl32(M*g)); fl32(x / fl32(s*g))", "NVIDIA Model-Optimizer"},
    {Arithmetic::multiply, "multiply",
     "y = fl32(x*S) in a pass of its own, then scale and payload of y as `exact` has them without g", "AMD-AGI/ALTO"},
    {Arithmetic::fouroversix, "fouroversix",
     "scale of fl32(S * fl32(a/M)), of 2/3 M as fl32(1.5 of that), S = target*M/A; payload as vllm, of int4_6 "
     "fl32(7/6 of that) to an integer",
     "fouroversix; Transformer Engine and FlashInfer 4over6 with payload=te"},
    {Arithmetic::factor_first, "factor_first", "scale of fl32(fl32(a/g)/M); fl32(x / fl32(s*g))", "AMD-AGI/ALTO NVFP4"},
    {Arithmetic::bf16_reciprocals, "bf16_reciprocals",
     "scale of bf16(fl32(fl32(a/g) * bf16(1/M))); fl32(x * bf16(1/fl32(s*g)))", "HiFloat4 2602.11287"},
};
static_assert(ids_are_indices(arithmetic_table));

// The order of the payload alone, where a kernel does not follow that of its scales.
enum class PayloadOrder : uint8_t {
  of_arithmetic,
  divide,
  reciprocal,
  te,
  vllm,
  divide_global,
  multiply_global,
  divide_then_multiply,
  divide_twice,
  bf16_reciprocal
};

inline constexpr AxisRow<PayloadOrder> payload_order_table[] = {
    {PayloadOrder::of_arithmetic, "of_arithmetic", "as `arithmetic` says", "definition"},
    {PayloadOrder::divide, "divide", "fl32(x / fl32(s*g))", "Model-Optimizer, ALTO"},
    {PayloadOrder::reciprocal, "reciprocal", "fl32(x * fl32(fl32(1/g)/s))", "torchao NVFP4"},
    {PayloadOrder::te, "te", "fl32(x * min(fl32(1/fl32(s*g)), FLT_MAX))", "Transformer Engine"},
    {PayloadOrder::vllm, "vllm", "fl32(x * fl32(1/fl32(s*g))), and 0 under a zero scale",
     "vLLM, FlashInfer, fouroversix"},
    {PayloadOrder::divide_global, "divide_global", "fl32(x / fl32(s/S))", "compressed-tensors"},
    {PayloadOrder::multiply_global, "multiply_global", "fl32(x * fl32(S/s)), and 0 under a zero scale",
     "MLX's kernels"},
    {PayloadOrder::divide_then_multiply, "divide_then_multiply", "fl32(fl32(x/s) * S)", "MLX's graph"},
    {PayloadOrder::divide_twice, "divide_twice", "fl32(fl32(x/g) / s)", "RaZeR"},
    {PayloadOrder::bf16_reciprocal, "bf16_reciprocal", "fl32(x * bf16(1/fl32(s*g)))", "HiFloat4"},
};
static_assert(ids_are_indices(payload_order_table));

// What `arithmetic` says of payloads; `exact` and `multiply` have no fp32 order.
FP4_HD constexpr PayloadOrder payload_order_of(Arithmetic order) {
  switch (order) {
    case Arithmetic::exact:
    case Arithmetic::multiply: return PayloadOrder::of_arithmetic;
    case Arithmetic::divide:
    case Arithmetic::modelopt:
    case Arithmetic::factor_first: return PayloadOrder::divide;
    case Arithmetic::reciprocal: return PayloadOrder::reciprocal;
    case Arithmetic::te: return PayloadOrder::te;
    case Arithmetic::vllm:
    case Arithmetic::fouroversix: return PayloadOrder::vllm;
    case Arithmetic::divide_global: return PayloadOrder::divide_global;
    case Arithmetic::bf16_reciprocals: return PayloadOrder::bf16_reciprocal;
  }
  return PayloadOrder::of_arithmetic;
}
FP4_HD constexpr PayloadOrder payload_order(Arithmetic order, [[maybe_unused]] PayloadOrder said) {
#if !FP4_DEVICE_CODE
  if (said != PayloadOrder::of_arithmetic) return said;  // known_words.cpp keeps these words from devices
#endif
  return payload_order_of(order);
}
FP4_HD constexpr bool reads_multiplier(PayloadOrder order) {
  return order == PayloadOrder::divide_global || order == PayloadOrder::multiply_global ||
         order == PayloadOrder::divide_then_multiply;
}

// What a payload is rounded to before its code: to nothing more than `compute` says, or to bf16.
enum class PayloadType : uint8_t { of_compute, bf16 };

inline constexpr AxisRow<PayloadType> payload_type_table[] = {
    {PayloadType::of_compute, "of_compute", "as `compute` says", "definition"},
    {PayloadType::bf16, "bf16", "clamped to the largest element, then rounded to bf16, then to the code",
     "PyTorch to_mxfp"},
};
static_assert(ids_are_indices(payload_type_table));

// The type of the operations: PyTorch gives bf16 to bf16 tensors and constants, fp32 as soon as the fp32 tensor scale
// takes part. So x, a and fl32(a/M) are rounded to bf16, and payloads too where there is no tensor scale; `multiply`
// stores its y in bf16.
enum class Compute : uint8_t { fp32, bf16, fp16 };

inline constexpr AxisRow<Compute> compute_table[] = {
    {Compute::fp32, "fp32", "operations of `arithmetic` are rounded to fp32", "definition"},
    {Compute::bf16, "bf16", "x, a and a/M are rounded to bf16, and payloads where there is no tensor scale",
     "compressed-tensors and microxcaling on bf16 tensors"},
    {Compute::fp16, "fp16", "the same in fp16", "compressed-tensors on fp16 tensors"},
};
static_assert(ids_are_indices(compute_table));

// x to the nearest bf16, ties to even; beyond its largest value infinity.
FP4_HD constexpr float rounded_to_bf16(float x) {
  if (!is_finite(x)) return x;
  const uint32_t bits = bits_of(x);
  return float_of((bits + 0x7FFFu + ((bits >> 16) & 1u)) & 0xFFFF0000u);
}
// x to the nearest fp16, ties to even; beyond its largest value infinity.
FP4_HD constexpr float rounded_to_fp16(float x) {
  constexpr FloatFormat fp16 = {5, 10, 15, true, true, true, 0x7BFF, 0x7FFF, true};
  if (!is_finite(x)) return x;
  return decode(fp16, encode(fp16, exact_magnitude(x), is_negative(x), {}) | (is_negative(x) ? fp16.sign_code() : 0u));
}
FP4_HD constexpr float computed(Compute c, float x) {
  return c == Compute::bf16 ? rounded_to_bf16(x) : c == Compute::fp16 ? rounded_to_fp16(x) : x;
}

// Whether S comes first and g = fl32(1/S) from it.
FP4_HD constexpr bool starts_from_multiplier(Arithmetic order) {
  return order == Arithmetic::te || order == Arithmetic::vllm || order == Arithmetic::divide_global ||
         order == Arithmetic::multiply || order == Arithmetic::fouroversix;
}

// The factors of a tensor: g divides elements and multiplies decoded values; S is the twin that some orders start from.
struct TensorFactor {
  float g = 1.0f;
  float te_multiplier = 1.0f;
  float amax = 0.0f;  // that they were made from; only errors of trials read it
};

// The magnitude of y under `multiply`.
FP4_HD constexpr float multiplied(Compute c, float x, TensorFactor t) { return computed(c, x * t.te_multiplier); }

FP4_HD constexpr float at_most_largest(float x) { return is_finite(x) ? x : float_of(float_largest_bits); }

// A positive divisor M as a ratio: M = numerator/denominator (the largest element value, or 2/3 of it).
struct Divisor {
  Magnitude numerator;
  uint32_t denominator = 1;

  FP4_HD constexpr float rounded() const {
    return round_to_float(quotient(numerator, {denominator, 0, false}), false, Rounding::nearest_even);
  }
};

// a/(M*g): the scale before rounding.
FP4_HD constexpr Magnitude scale_quotient(Arithmetic order, float amax, Divisor m, TensorFactor t,
                                          Compute c = Compute::fp32) {
  switch (order) {
    case Arithmetic::exact:
      return quotient(exact_product(exact_magnitude(amax), {m.denominator, 0, false}),
                      exact_product(m.numerator, exact_magnitude(t.g)));
    case Arithmetic::multiply:  // of y already
      return quotient(exact_product(exact_magnitude(amax), {m.denominator, 0, false}), m.numerator);
    case Arithmetic::divide:
    case Arithmetic::reciprocal: return magnitude_or_overflow(computed(c, amax / m.rounded()) / t.g);
    case Arithmetic::te: return magnitude_or_overflow(amax * (t.te_multiplier * (1.0f / m.rounded())));
    case Arithmetic::vllm: return magnitude_or_overflow(t.te_multiplier * computed(c, amax * (1.0f / m.rounded())));
    case Arithmetic::divide_global: return magnitude_or_overflow(t.te_multiplier * computed(c, amax / m.rounded()));
    case Arithmetic::modelopt: return magnitude_or_overflow(amax / (m.rounded() * t.g));
    case Arithmetic::fouroversix: return magnitude_or_overflow(t.te_multiplier * computed(c, amax / m.rounded()));
    case Arithmetic::factor_first: return magnitude_or_overflow(amax / t.g / m.rounded());
    case Arithmetic::bf16_reciprocals:
      return magnitude_or_overflow(rounded_to_bf16(amax / t.g * rounded_to_bf16(1.0f / m.rounded())));
  }
  return {};
}

// The scale before rounding under which the maximum becomes 2/3 M.
FP4_HD constexpr Magnitude larger_scale_quotient(Arithmetic order, float amax, [[maybe_unused]] Divisor m,
                                                 Divisor two_thirds, TensorFactor t, Compute c = Compute::fp32) {
#if FP4_DEVICE_CODE
  return scale_quotient(order, amax, two_thirds, t, c);
#else
  if (order != Arithmetic::fouroversix) return scale_quotient(order, amax, two_thirds, t, c);
  return magnitude_or_overflow(1.5f * (t.te_multiplier * computed(c, amax / m.rounded())));
#endif
}

// N*g/a: the stored multiplier of the `encode` rule before rounding (2509.17791); invalid_reason refuses other orders.
FP4_HD constexpr Magnitude multiplier_quotient(Arithmetic order, float amax, Magnitude n, TensorFactor t) {
  if (order == Arithmetic::exact) return quotient(exact_product(n, exact_magnitude(t.g)), exact_magnitude(amax));
  const float n_float = round_to_float(n, false, Rounding::nearest_even);
  return magnitude_or_overflow(n_float / amax * t.g);
}

FP4_HD constexpr Magnitude prescale_magnitude(float p) {
  return p == 0.75f ? Magnitude{3, -2, false} : Magnitude{1, 0, false};
}

// |payload| of x != 0 under the decode-side scale s > 0 (0 is allowed in the payload order `te` only), before a payload
// type of its own.
FP4_HD constexpr Magnitude payload(Arithmetic order, float x, float s, TensorFactor t, float prescale,
                                   Compute c = Compute::fp32, PayloadOrder said = PayloadOrder::of_arithmetic) {
  const float a = magnitude(x);
  float u = 0.0f;
  switch (payload_order(order, said)) {
    case PayloadOrder::of_arithmetic:
      if (order == Arithmetic::exact)
        return quotient(exact_product(exact_magnitude(a), prescale_magnitude(prescale)),
                        exact_product(exact_magnitude(s), exact_magnitude(t.g)));
      u = multiplied(c, a, t);
      if (!is_finite(u)) return overflowed;
      return quotient(exact_product(exact_magnitude(u), prescale_magnitude(prescale)), exact_magnitude(s));
    case PayloadOrder::divide: u = a / (s * t.g); break;
    case PayloadOrder::reciprocal: u = a * (1.0f / t.g / s); break;
    case PayloadOrder::te: u = a * at_most_largest(1.0f / (s * t.g)); break;
    case PayloadOrder::vllm: u = a * (1.0f / (s * t.g)); break;
    case PayloadOrder::divide_global: u = a / (s / t.te_multiplier); break;
    case PayloadOrder::multiply_global: u = a * (t.te_multiplier / s); break;
    case PayloadOrder::divide_then_multiply: u = a / s * t.te_multiplier; break;
    case PayloadOrder::divide_twice: u = a / t.g / s; break;
    case PayloadOrder::bf16_reciprocal: u = a * rounded_to_bf16(1.0f / (s * t.g)); break;
  }
  return magnitude_or_overflow(computed(c, u) * prescale);
}

// A payload clamped to the largest element and rounded to bf16. Magnitudes that no fp32 holds are cut with a sticky bit
// far below bf16's last one.
FP4_HD constexpr Magnitude payload_in_bf16(Magnitude u, Magnitude largest) {
  const float value = round_to_float(u, false, Rounding::odd);
  const float top = round_to_float(largest, false, Rounding::nearest_even);
  return exact_magnitude(rounded_to_bf16(is_finite(value) && value < top ? value : top));
}

// |payload| under the stored multiplier mu of the `encode` rule.
FP4_HD constexpr Magnitude multiplier_payload(Arithmetic order, float x, float mu, TensorFactor t, float prescale) {
  const float a = magnitude(x);
  if (order == Arithmetic::exact) {
    const Magnitude numerator =
        exact_product(exact_product(exact_magnitude(a), prescale_magnitude(prescale)), {exact_magnitude(mu)});
    return quotient(numerator, exact_magnitude(t.g));
  }
  return magnitude_or_overflow(a / t.g * mu * prescale);
}

}  // namespace fp4
