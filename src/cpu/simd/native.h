// Vectors of 16 bytes, and the few operations on them for which compilers find no good instructions in portable code:
// each has a portable definition, and SSE2 or NEON instructions in its place where the target has them.
#pragma once

#include <cstdint>

#if defined(__SSE2__)
#include <emmintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

#define FP4_PART __attribute__((always_inline)) inline

namespace fp4::native {

typedef float f4 __attribute__((vector_size(16)));
typedef int32_t i4 __attribute__((vector_size(16)));
typedef uint32_t u4 __attribute__((vector_size(16)));
typedef int16_t h8 __attribute__((vector_size(16)));
typedef uint16_t w8 __attribute__((vector_size(16)));
typedef int8_t b16 __attribute__((vector_size(16)));
typedef double d2 __attribute__((vector_size(16)));
typedef int64_t l2 __attribute__((vector_size(16)));
typedef uint64_t q2 __attribute__((vector_size(16)));

FP4_PART u4 unsigned_of(i4 x) { return reinterpret_cast<u4>(x); }
template <class T>
FP4_PART i4 signed_of(T x) {
  return reinterpret_cast<i4>(x);
}
template <class T>
FP4_PART T load_part(const void* p) {
  T x;
  __builtin_memcpy(&x, p, sizeof x);
  return x;
}
template <class T>
FP4_PART void store_part(void* p, T x) {
  __builtin_memcpy(p, &x, sizeof x);
}
// The lanes of `yes` where m is all ones, those of `no` where it is zero.
template <class Mask, class T>
FP4_PART T chosen(Mask m, T yes, T no) {
  const auto a = reinterpret_cast<l2>(yes);
  const auto b = reinterpret_cast<l2>(no);
  return reinterpret_cast<T>(b ^ ((a ^ b) & reinterpret_cast<l2>(m)));
}

FP4_PART d2 widened_low(f4 x) {
#if defined(__SSE2__)
  return _mm_cvtps_pd(x);
#else
  return d2{x[0], x[1]};
#endif
}
FP4_PART d2 widened_high(f4 x) { return widened_low(__builtin_shufflevector(x, x, 2, 3, 2, 3)); }
FP4_PART d2 widened_low(i4 x) {
#if defined(__SSE2__)
  return _mm_cvtepi32_pd(reinterpret_cast<__m128i>(x));
#else
  return d2{static_cast<double>(x[0]), static_cast<double>(x[1])};
#endif
}
FP4_PART d2 widened_high(i4 x) { return widened_low(__builtin_shufflevector(x, x, 2, 3, 2, 3)); }
FP4_PART f4 narrowed_part(d2 low, d2 high) {
#if defined(__SSE2__)
  return _mm_movelh_ps(_mm_cvtpd_ps(low), _mm_cvtpd_ps(high));
#else
  return f4{static_cast<float>(low[0]), static_cast<float>(low[1]), static_cast<float>(high[0]),
            static_cast<float>(high[1])};
#endif
}

FP4_PART d2 fused(d2 x, d2 y, d2 z) {
#if defined(__aarch64__)
  return vfmaq_f64(z, x, y);
#else
  return d2{__builtin_fma(x[0], y[0], z[0]), __builtin_fma(x[1], y[1], z[1])};
#endif
}
#if defined(__aarch64__)
inline constexpr bool has_fma = true;
#else
inline constexpr bool has_fma = false;  // fused() is right everywhere, and slow without an instruction
#endif
// x*y + z through fp64, where the product is exact: a sum that lost something gets an odd last bit, so that rounding it
// to fp32 is the only rounding (Boldo and Melquiond, "Emulation of FMA and correctly rounded sums", 2008).
FP4_PART d2 odd_sum(d2 product, d2 z) {
  const d2 s = product + z;
  const d2 z_part = s - product;
  const d2 lost = (product - (s - z_part)) + (z - z_part);
  const d2 zero = {};
  const auto inexact = reinterpret_cast<q2>(reinterpret_cast<l2>(lost < zero) | reinterpret_cast<l2>(lost > zero));
  // Where s went away from zero, one step back; then the last bit stands for what is lost.
  const q2 went_up = (reinterpret_cast<q2>(lost) ^ reinterpret_cast<q2>(s)) >> 63;
  return reinterpret_cast<d2>((reinterpret_cast<q2>(s) - (went_up & inexact)) | (inexact & 1));
}
FP4_PART f4 fused(f4 x, f4 y, f4 z) {
#if defined(__aarch64__)
  return vfmaq_f32(z, x, y);
#else
  return narrowed_part(odd_sum(widened_low(x) * widened_low(y), widened_low(z)),
                       odd_sum(widened_high(x) * widened_high(y), widened_high(z)));
#endif
}

// Toward zero; INT32_MIN for what is no int32.
FP4_PART i4 truncated_part(f4 x) {
#if defined(__SSE2__)
  return reinterpret_cast<i4>(_mm_cvttps_epi32(x));
#else
  const f4 zero = {};
  const i4 inside = (x >= -0x1p31f) & (x < 0x1p31f);
  return chosen(inside, __builtin_convertvector(chosen(inside, x, zero), i4), i4{} + INT32_MIN);
#endif
}

// Products of the low halves of 64-bit lanes.
FP4_PART q2 low_products(q2 x, q2 y) {
#if defined(__SSE2__)
  return reinterpret_cast<q2>(_mm_mul_epu32(reinterpret_cast<__m128i>(x), reinterpret_cast<__m128i>(y)));
#elif defined(__aarch64__)
  return reinterpret_cast<q2>(
      vmull_u32(vmovn_u64(reinterpret_cast<uint64x2_t>(x)), vmovn_u64(reinterpret_cast<uint64x2_t>(y))));
#else
  return (x & 0xFFFFFFFFu) * (y & 0xFFFFFFFFu);
#endif
}
// Sums of neighbours.
FP4_PART i4 pair_sums(h8 x) {
#if defined(__SSE2__)
  return reinterpret_cast<i4>(_mm_madd_epi16(reinterpret_cast<__m128i>(x), _mm_set1_epi16(1)));
#elif defined(__aarch64__)
  return reinterpret_cast<i4>(vpaddlq_s16(reinterpret_cast<int16x8_t>(x)));
#else
  const auto w = reinterpret_cast<i4>(x);
  return ((w << 16) >> 16) + (w >> 16);
#endif
}
// The entries of a table of 16 bytes by indices below 16.
FP4_PART b16 entries_part(b16 table, b16 index) {
#if defined(__aarch64__)
  return reinterpret_cast<b16>(vqtbl1q_s8(reinterpret_cast<int8x16_t>(table), reinterpret_cast<uint8x16_t>(index)));
#else
  alignas(16) int8_t entry[16];
  alignas(16) int8_t at[16];
  store_part(entry, table);
  store_part(at, index);
  for (int8_t& i : at) i = entry[i & 15];
  return load_part<b16>(at);
#endif
}

}  // namespace fp4::native
#undef FP4_PART
