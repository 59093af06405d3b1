// Decides: exp, log, pow, tanh, sigmoid, rsqrt, sin, cos as functions whose every bit is fixed.
// Nothing that enters a digest may come from a mathematics library, whose last bits differ. Built from + - * / sqrt in
// one written order, never fused, no tables, no branches: selects work on bit patterns, so g++ vectorises any loop over
// these functions and scalar, SSE, AVX2, AVX-512 and GPU give the same bits. pow works inside in fp64, the others in
// fp32. Polynomials: least-maximum fits (Lawson iteration, 400 Chebyshev nodes, 40 digits), rounded to fp32. Largest
// error against correct values over the stated ranges, in ulp (tests/test_elementary.cpp):
//   exp 1.05, log 0.85, tanh 1.4, sigmoid 2.5, rsqrt 1.5, pow 0.51, sin and cos 1.6 (|x| <= 10), 2.5 (|x| <= 8192).
#pragma once

#include <cmath>
#include <cstdint>

#include "fp4/bits.h"

namespace fp4::elementary {

namespace detail {

FP4_HD inline double double_of(uint64_t b) { return __builtin_bit_cast(double, b); }

inline constexpr uint32_t sign_bit = float_sign_bit;
inline constexpr uint32_t inf_bits = float_infinity_bits;
inline constexpr uint32_t nan_bits = canonical_nan_bits;

// All ones where the condition holds. An arithmetic mask, so that no compiler turns it into a jump.
FP4_HD inline uint32_t mask(bool condition) { return 0u - static_cast<uint32_t>(condition); }
FP4_HD inline float select(uint32_t m, float yes, float no) {
  return float_of((bits_of(yes) & m) | (bits_of(no) & ~m));
}

// Round to the nearest integer, |x| < 2^22: adding 1.5*2^23 leaves the integer in the low mantissa bits.
inline constexpr float round_shift = 12582912.0f;

// 2^n for n in [-126, 127], straight into the exponent field.
FP4_HD inline float normal_power(int32_t n) { return float_of(static_cast<uint32_t>(n + 127) << 23); }

}  // namespace detail

/// e^x. Overflows to inf above 88.7228, subnormal results rounded once more, NaN stays NaN.
FP4_HD inline float exp(float x) {
  using namespace detail;
  // Beyond +-105 the answer is inf or 0 already; integer order of |x| also catches infinities.
  const uint32_t magnitude = bits_of(x) & ~sign_bit;
  const uint32_t limit = (bits_of(x) & sign_bit) | 0x42D20000u;  // +-105
  const float c = float_of((limit & mask(magnitude > 0x42D20000u)) | (bits_of(x) & mask(magnitude <= 0x42D20000u)));
  const float shifted = c * 1.44269502f + round_shift;
  const float n = shifted - round_shift;
  // ln 2 = 0x1.62e4p-1 (15 bits: the product with |n| <= 152 is exact) + 0x1.7f7d1cp-20.
  const float r = (c - n * 0x1.62e4p-1f) - n * 0x1.7f7d1cp-20f;
  const float z = r * r;
  float p = 1.395059051e-03f;
  p = p * r + 8.368954994e-03f;
  p = p * r + 4.166620597e-02f;
  p = p * r + 1.666651815e-01f;
  p = p * r + 5.000000000e-01f;
  p = (p * z + r) + 1.0f;
  // Two factors, since 2^n alone leaves the range of fp32 at both ends.
  const int32_t k = static_cast<int32_t>(bits_of(shifted)) - static_cast<int32_t>(bits_of(round_shift));
  const int32_t half = k >> 1;
  const float y = (p * normal_power(half)) * normal_power(k - half);
  return float_of((nan_bits & mask(magnitude > inf_bits)) | (bits_of(y) & mask(magnitude <= inf_bits)));
}

/// Natural logarithm. log(+-0) = -inf, log(negative) = NaN, log(inf) = inf.
FP4_HD inline float log(float x) {
  using namespace detail;
  const uint32_t b = bits_of(x);
  // Subnormals are lifted by 2^24 first; b - 1 wraps for +0, which keeps zero out of the lift.
  const uint32_t tiny = mask(b < 0x00800000u);
  const float lifted = x * 16777216.0f;
  const uint32_t u = (bits_of(lifted) & tiny) | (b & ~tiny);
  // m in [sqrt(1/2), sqrt(2)): subtracting the bits of sqrt(1/2) lets the exponent carry decide.
  const uint32_t d = u - 0x3F3504F3u;
  const int32_t e = (static_cast<int32_t>(d) >> 23) - static_cast<int32_t>(24u & tiny);
  const float f = float_of((d & 0x007FFFFFu) + 0x3F3504F3u) - 1.0f;
  const float s = f / (2.0f + f);
  const float z = s * s;
  float r = 2.358358949e-01f;
  r = r * z + 2.853723764e-01f;
  r = r * z + 4.000033736e-01f;
  r = r * z + 6.666666269e-01f;
  r = r * z;
  // log(1+f) = f - (f^2/2 - s*(f^2/2 + R)): the large term f enters last and unrounded.
  const float h = 0.5f * f * f;
  const float n = static_cast<float>(e);
  const float y = n * 0x1.62e4p-1f - ((h - (s * (h + r) + n * 0x1.7f7d1cp-20f)) - f);
  const uint32_t zero = mask((b & ~sign_bit) == 0u);
  const uint32_t bad = mask(b > inf_bits) & ~zero;  // negative or NaN
  const uint32_t inf = mask(b == inf_bits);
  return float_of((bits_of(y) & ~(zero | bad | inf)) | (0xFF800000u & zero) | (nan_bits & bad) | (inf_bits & inf));
}

/// Hyperbolic tangent; odd, saturates at +-1, keeps -0.
FP4_HD inline float tanh(float x) {
  using namespace detail;
  const uint32_t sign = bits_of(x) & sign_bit;
  const float a = float_of(bits_of(x) & ~sign_bit);
  const float z = a * a;
  float p = -5.716996267e-03f;
  p = p * z + 2.065053955e-02f;
  p = p * z + -5.374348164e-02f;
  p = p * z + 1.333149076e-01f;
  p = p * z + -3.333328366e-01f;
  const float small = a + a * (z * p);
  const float large = 1.0f - 2.0f / (exp(2.0f * a) + 1.0f);
  const float y = select(mask(bits_of(a) < 0x3F200000u), small, large);  // 0.625
  return float_of(bits_of(y) | sign);
}

/// 1 / (1 + e^-x), from e^-|x|, so that neither end overflows or loses its small values.
FP4_HD inline float sigmoid(float x) {
  using namespace detail;
  const float e = exp(float_of(bits_of(x) | sign_bit));
  const float numerator = select(mask((bits_of(x) & sign_bit) != 0u), e, 1.0f);
  return numerator / (1.0f + e);
}

/// 1 / sqrt(x): two correctly rounded operations.
FP4_HD inline float rsqrt(float x) { return 1.0f / sqrtf(x); }

namespace detail {

// sin (quarter = 0) or cos (quarter = 1) of x = n*pi/2 + r, |x| <= 8192. The first three parts of pi/2
// have 9 bits, so their products with n < 2^13 are exact. Beyond 8192, inf and NaN: NaN.
FP4_HD inline float sine_of_quarter(float x, uint32_t quarter) {
  const uint32_t magnitude = bits_of(x) & ~sign_bit;
  const uint32_t inside = mask(magnitude <= 0x46000000u);
  const float c = float_of(bits_of(x) & inside);
  const float shifted = c * 0.636619747f + round_shift;
  const float n = shifted - round_shift;
  float r = c - n * 0x1.92p+0f;
  r = r - n * 0x1.fbp-12f;
  r = r - n * 0x1.51p-22f;
  r = r - n * 0x1.0b4612p-34f;
  const uint32_t q = (bits_of(shifted) + quarter) & 3u;
  const float z = r * r;
  float s = -1.951665035e-04f;
  s = s * z + 8.332173340e-03f;
  s = s * z + -1.666665524e-01f;
  s = r + r * (z * s);
  float k = 2.443771882e-05f;
  k = k * z + -1.388736186e-03f;
  k = k * z + 4.166664556e-02f;
  k = (1.0f - 0.5f * z) + (z * z) * k;
  const float y = select(mask((q & 1u) != 0u), k, s);
  const uint32_t signed_y = bits_of(y) ^ ((q & 2u) << 30);
  return float_of((signed_y & inside) | (nan_bits & ~inside));
}

}  // namespace detail

/// Sine and cosine for |x| <= 8192; NaN beyond (no reduction by table, and no silent garbage).
FP4_HD inline float sin(float x) { return detail::sine_of_quarter(x, 0u); }
FP4_HD inline float cos(float x) { return detail::sine_of_quarter(x, 1u); }

/// x^y for x >= 0 (negative x: NaN); pow(x, 0) = 1, pow(0, y < 0) = inf. fp64 inside, rounded once.
FP4_HD inline float pow(float x, float y) {
  using namespace detail;
  // Every fp32 is a normal fp64, so there is no subnormal case.
  const uint64_t u = bits_of(static_cast<double>(x));
  const uint64_t d = u - 0x3FE6A09E667F3BCDu;  // sqrt(1/2)
  const double e = static_cast<double>(static_cast<int32_t>(static_cast<uint32_t>(d >> 32)) >> 20);
  const double m = double_of(uint64_t{(d & 0x000FFFFFFFFFFFFFu) + 0x3FE6A09E667F3BCDu});
  const double s = (m - 1.0) / (m + 1.0);
  const double z = s * s;  // <= 0.0295: the first term left out is below 1e-13
  double p = 1.0 / 15.0;
  p = p * z + 1.0 / 13.0;
  p = p * z + 1.0 / 11.0;
  p = p * z + 1.0 / 9.0;
  p = p * z + 1.0 / 7.0;
  p = p * z + 1.0 / 5.0;
  p = p * z + 1.0 / 3.0;
  const double log_x = e * 0.69314718055994530942 + (2.0 * s + 2.0 * s * (z * p));
  double t = static_cast<double>(y) * log_x;
  t = t > 200.0 ? 200.0 : t;
  t = t < -200.0 ? -200.0 : t;
  const double shift = 6755399441055744.0;  // 1.5 * 2^52
  const double shifted = t * 1.4426950408889634 + shift;
  const double n = shifted - shift;
  const double r = t - n * 0.69314718055994530942;
  double q = 1.0 / 40320.0;
  q = q * r + 1.0 / 5040.0;
  q = q * r + 1.0 / 720.0;
  q = q * r + 1.0 / 120.0;
  q = q * r + 1.0 / 24.0;
  q = q * r + 1.0 / 6.0;
  q = q * r + 0.5;
  q = q * r * r + r + 1.0;
  const uint64_t scale = (bits_of(shifted) - bits_of(shift) + 1023u) << 52;
  const float result = static_cast<float>(q * double_of(scale));
  // Special values by the order of C's pow, from the weakest rule to the strongest.
  const uint32_t bx = bits_of(x), by = bits_of(y);
  const uint32_t rises = mask((by & sign_bit) == 0u);  // 0^y: 0 or inf; inf^y: inf or 0
  const uint32_t x_zero = mask((bx & ~sign_bit) == 0u), x_inf = mask(bx == inf_bits);
  const uint32_t y_inf = mask((by & ~sign_bit) == inf_bits), above_one = mask(bx > 0x3F800000u);
  const uint32_t x_one = mask(bx == 0x3F800000u), y_zero = mask((by & ~sign_bit) == 0u);
  const uint32_t bad = (mask(bx > inf_bits) & ~x_zero) | mask((by & ~sign_bit) > inf_bits);
  uint32_t b = bits_of(result);
  b = (b & ~x_zero) | (inf_bits & x_zero & ~rises);
  b = (b & ~x_inf) | (inf_bits & x_inf & rises);
  b = (b & ~y_inf) | (inf_bits & y_inf & ~(above_one ^ rises));
  b = (b & ~bad) | (nan_bits & bad);
  b = (b & ~(x_one | y_zero)) | (0x3F800000u & (x_one | y_zero));
  return float_of(b);
}

}  // namespace fp4::elementary
