// Bit-level helpers: bit casts, leading zeros, exact magnitudes and fixed-point shifts that remember what
// they dropped. Floats enter and leave the core as bit patterns; nothing here rounds.
#pragma once

#include <cstdint>

#include "fp4/hd.h"

namespace fp4 {

__extension__ typedef unsigned __int128 uint128;
__extension__ typedef __int128 int128;

inline constexpr uint32_t float_sign_bit = 0x80000000u;
inline constexpr uint32_t float_infinity_bits = 0x7F800000u;
inline constexpr uint32_t float_largest_bits = 0x7F7FFFFFu;
inline constexpr uint32_t canonical_nan_bits = 0x7FFFFFFFu;  // every NaN that fp4sim writes

FP4_HD constexpr uint32_t bits_of(float x) { return __builtin_bit_cast(uint32_t, x); }
FP4_HD constexpr uint64_t bits_of(double x) { return __builtin_bit_cast(uint64_t, x); }
FP4_HD constexpr float float_of(uint32_t bits) { return __builtin_bit_cast(float, bits); }

FP4_HD constexpr uint32_t magnitude_bits(float x) { return bits_of(x) & 0x7FFFFFFFu; }
FP4_HD constexpr float magnitude(float x) { return float_of(magnitude_bits(x)); }
FP4_HD constexpr bool is_negative(float x) { return (bits_of(x) & float_sign_bit) != 0; }
FP4_HD constexpr bool is_nan(float x) { return magnitude_bits(x) > float_infinity_bits; }
FP4_HD constexpr bool is_infinite(float x) { return magnitude_bits(x) == float_infinity_bits; }
FP4_HD constexpr bool is_finite(float x) { return magnitude_bits(x) < float_infinity_bits; }
FP4_HD constexpr float canonical(float x) { return is_nan(x) ? float_of(canonical_nan_bits) : x; }

template <class T>
FP4_HD constexpr T smaller(T a, T b) {
  return b < a ? b : a;
}
template <class T>
FP4_HD constexpr T larger(T a, T b) {
  return a < b ? b : a;
}

// floor(log2 x) of an integer; x > 0.
FP4_HD constexpr int floor_log2(uint64_t x) {
#if defined(__CUDA_ARCH__)
  return 63 - __clzll(static_cast<long long>(x));
#else
  return 63 - __builtin_clzll(x);
#endif
}
FP4_HD constexpr int floor_log2(uint128 x) {
  const uint64_t high = static_cast<uint64_t>(x >> 64);
  return high != 0 ? 64 + floor_log2(high) : floor_log2(static_cast<uint64_t>(x));
}

// 2^e as a float for any e: 0 below 2^-149, infinity above 2^127.
FP4_HD constexpr float power_of_two(int e) {
  if (e > 127) return float_of(float_infinity_bits);
  if (e >= -126) return float_of(static_cast<uint32_t>(e + 127) << 23);
  if (e >= -149) return float_of(1u << (e + 149));
  return 0.0f;
}

// A non-negative real number: (significand + epsilon) * 2^exponent with 0 < epsilon < 1 if `sticky`, else 0.
// With `sticky` the significand has at least 62 bits, more than any rounding here looks at (24 + 33).
struct Magnitude {
  uint64_t significand = 0;
  int exponent = 0;
  bool sticky = false;

  FP4_HD constexpr bool is_zero() const { return significand == 0 && !sticky; }
  // floor(log2 value); the value is not zero.
  FP4_HD constexpr int log2_floor() const { return exponent + floor_log2(significand); }
  FP4_HD constexpr bool is_power_of_two() const { return !sticky && (significand & (significand - 1)) == 0; }
};

// |x| of a finite float: subnormals need no special case once the hidden bit is conditional.
FP4_HD constexpr Magnitude exact_magnitude(float x) {
  const uint32_t bits = magnitude_bits(x);
  const int field = static_cast<int>(bits >> 23);
  const uint32_t fraction = bits & 0x7FFFFFu;
  if (field == 0) return {fraction, -149, false};
  return {fraction | 0x800000u, field - 150, false};
}

// A number beyond every format, standing for an fp32 overflow: it saturates.
inline constexpr Magnitude overflowed = {1, 4096, false};

FP4_HD constexpr Magnitude magnitude_or_overflow(float x) { return is_finite(x) ? exact_magnitude(x) : overflowed; }

// a*b exactly; both significands together at most 64 bits (24-bit factors, at most two of them and a small integer).
FP4_HD constexpr Magnitude exact_product(Magnitude a, Magnitude b) {
  return {a.significand * b.significand, a.exponent + b.exponent, false};
}

struct LongQuotient {
  uint64_t quotient;
  uint64_t remainder;
};

// (high*2^64 + low) / divisor in two digits of 32 bits (Knuth's algorithm D); the divisor has its top bit set and
// high < divisor. For devices: AMD's compilers have no 128-bit division, and most divisors here are powers of two.
FP4_HD constexpr LongQuotient long_division(uint64_t high, uint64_t low, uint64_t divisor) {
  if (divisor == uint64_t{1} << 63) return {high << 1 | low >> 63, low & ~(uint64_t{1} << 63)};
  const uint64_t upper = divisor >> 32;
  const uint64_t lower = divisor & 0xFFFFFFFFu;
  uint64_t rest = high;
  uint64_t result = 0;
  for (int digit = 1; digit >= 0; --digit) {
    const uint64_t next = digit == 1 ? low >> 32 : low & 0xFFFFFFFFu;
    uint64_t guess = rest / upper;  // at most 2 too large
    uint64_t left = rest - guess * upper;
    while (left >> 32 == 0 && (guess >> 32 != 0 || guess * lower > (left << 32 | next))) {
      --guess;
      left += upper;
    }
    rest = (rest << 32 | next) - guess * divisor;  // modulo 2^64: the true rest is below the divisor
    result = result << 32 | guess;
  }
  return {result, rest};
}

// a/b to at least 62 bits and a sticky bit; b is not zero, neither operand is sticky.
FP4_HD constexpr Magnitude quotient(Magnitude a, Magnitude b) {
  if (a.significand == 0) return {};
  const int shift_a = 63 - floor_log2(a.significand);
  const int shift_b = 63 - floor_log2(b.significand);
  const uint64_t numerator = a.significand << shift_a;  // times 2^63
  const uint64_t denominator = b.significand << shift_b;
#if FP4_DEVICE_CODE
  const LongQuotient q = long_division(numerator >> 1, numerator << 63, denominator);
#else
  const uint128 wide = static_cast<uint128>(numerator) << 63;
  const LongQuotient q = {static_cast<uint64_t>(wide / denominator), static_cast<uint64_t>(wide % denominator)};
#endif
  return {q.quotient, a.exponent - shift_a - 63 - b.exponent + shift_b, q.remainder != 0};
}

}  // namespace fp4
