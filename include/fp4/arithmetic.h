// The order of operations: how an element, its block scale s, the tensor scale g and the prescale p become a payload,
// and how a block maximum becomes a number to be rounded to a scale code. `exact` rounds once; the others repeat, fp32
// operation by fp32 operation, what kernels do. fl32() is one IEEE operation; all arguments are magnitudes.
#pragma once

#include "fp4/codec.h"

namespace fp4 {

enum class Arithmetic : uint8_t { exact, divide, reciprocal, te };

struct ArithmeticInfo {
  Arithmetic id;
  const char* name;
  const char* doc;
  const char* source;
};

inline constexpr ArithmeticInfo arithmetic_table[] = {
    {Arithmetic::exact, "exact", "p*x/(s*g), one rounding, to the code", "definition"},
    {Arithmetic::divide, "divide", "fl32(x / fl32(s*g))", "PyTorch emulators"},
    {Arithmetic::reciprocal, "reciprocal", "fl32(x * fl32(fl32(1/g)/s))", "torchao NVFP4"},
    {Arithmetic::te, "te", "fl32(x * min(fl32(1/fl32(s*g)), FLT_MAX)); 1/(s*g) is what most kernels use",
     "Transformer Engine, ue5m3-fp4 (2609.02846)"},
};
static_assert(ids_are_indices(arithmetic_table));

// The factors of a tensor: g divides elements and multiplies decoded values; S is its `te` twin, g = fl32(1/S).
struct TensorFactor {
  float g = 1.0f;
  float te_multiplier = 1.0f;
};

// A number beyond every format, standing for an fp32 overflow: it saturates.
inline constexpr Magnitude overflowed = {1, 4096, false};

FP4_HD constexpr Magnitude magnitude_or_overflow(float x) { return is_finite(x) ? exact_magnitude(x) : overflowed; }

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
FP4_HD constexpr Magnitude scale_quotient(Arithmetic order, float amax, Divisor m, TensorFactor t) {
  switch (order) {
    case Arithmetic::exact:
      return quotient(exact_product(exact_magnitude(amax), {m.denominator, 0, false}),
                      exact_product(m.numerator, exact_magnitude(t.g)));
    case Arithmetic::divide:
    case Arithmetic::reciprocal: return magnitude_or_overflow(amax / m.rounded() / t.g);
    case Arithmetic::te: return magnitude_or_overflow(amax * (t.te_multiplier * (1.0f / m.rounded())));
  }
  return {};
}

// N*g/a: the stored multiplier of the `encode` rule before rounding (2509.17791); `te` is refused by invalid_reason.
FP4_HD constexpr Magnitude multiplier_quotient(Arithmetic order, float amax, Magnitude n, TensorFactor t) {
  if (order == Arithmetic::exact) return quotient(exact_product(n, exact_magnitude(t.g)), exact_magnitude(amax));
  const float n_float = round_to_float(n, false, Rounding::nearest_even);
  return magnitude_or_overflow(n_float / amax * t.g);
}

FP4_HD constexpr Magnitude prescale_magnitude(float p) {
  return p == 0.75f ? Magnitude{3, -2, false} : Magnitude{1, 0, false};
}

// |payload| of x != 0 under the decode-side scale s > 0 (0 is allowed in `te` only).
FP4_HD constexpr Magnitude payload(Arithmetic order, float x, float s, TensorFactor t, float prescale) {
  const float a = magnitude(x);
  float u = 0.0f;
  switch (order) {
    case Arithmetic::exact:
      return quotient(exact_product(exact_magnitude(a), prescale_magnitude(prescale)),
                      exact_product(exact_magnitude(s), exact_magnitude(t.g)));
    case Arithmetic::divide: u = a / (s * t.g); break;
    case Arithmetic::reciprocal: u = a * (1.0f / t.g / s); break;
    case Arithmetic::te: u = a * at_most_largest(1.0f / (s * t.g)); break;
  }
  return magnitude_or_overflow(u * prescale);
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
