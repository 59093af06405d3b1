// Parts of sixteen lanes for any machine: vectors of 16 bytes, and the operations on one part for which compilers find
// no good instructions in portable code: each has a portable definition, and SSE2 or NEON instructions in its place
// where the target has them. native_avx2.h has the same words for vectors of 32 bytes.
#pragma once

#if defined(__SSE2__)
#include <emmintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

#define FP4_TARGET
#define FP4_SIMD __attribute__((always_inline)) inline
#define FP4_ISA  generic
#define FP4_PART 16

#include "src/cpu/simd/parts.h"

namespace fp4::generic {

// A float tile: rows times panels of 16 columns, whose sums, a row of B and an element of A fill sixteen registers.
inline constexpr int float_rows = 2, float_panels = 1;
#if defined(__aarch64__)
inline constexpr bool has_fma = true;
#else
inline constexpr bool has_fma = false;  // fused() is right everywhere, and slow without an instruction
#endif

FP4_SIMD vf same_part(float x) { return vf{x, x, x, x}; }
FP4_SIMD vd same_part(double x) { return vd{x, x}; }
// The lanes of `yes` where m is all ones, those of `no` where it is zero.
template <class Mask, class T>
FP4_SIMD T chosen(Mask m, T yes, T no) {
  const auto a = reinterpret_cast<vl>(yes);
  const auto b = reinterpret_cast<vl>(no);
  return reinterpret_cast<T>(b ^ ((a ^ b) & reinterpret_cast<vl>(m)));
}
// y where one is NaN.
template <class T>
FP4_SIMD T smaller_part(T x, T y) {
  return chosen(x < y, x, y);
}
template <class T>
FP4_SIMD T larger_part(T x, T y) {
  return chosen(x > y, x, y);
}
// Bit l: lane l of a truth value.
FP4_SIMD uint32_t bits_of_part(vi m) {
#if defined(__SSE2__)
  return static_cast<uint32_t>(_mm_movemask_ps(reinterpret_cast<__m128>(m)));
#else
  const vi b = m & vi{1, 2, 4, 8};
  return static_cast<uint32_t>(b[0] | b[1] | b[2] | b[3]);
#endif
}
// Of four floats those of which `lanes` has the bit. Out of line: branches for every lane of every use would take a
// compiler minutes.
__attribute__((noinline)) inline void copy_lanes(float* to, const float* from, uint32_t lanes) {
  for (int l = 0; l < part_lanes; ++l) {
    if ((lanes >> l & 1u) != 0) to[l] = from[l];
  }
}
// Lanes where m is zero are neither read nor written.
FP4_SIMD vf load_part(const float* p, vi m) {
  alignas(16) float x[part_lanes] = {};
  copy_lanes(x, p, bits_of_part(m));
  return load_part<vf>(x);
}
FP4_SIMD void store_part(float* p, vf x, vi m) {
  alignas(16) float y[part_lanes];
  store_part(y, x);
  copy_lanes(p, y, bits_of_part(m));
}
// By counts from 0 on; from 32 on nothing is left.
FP4_SIMD vu shifted_left(vu x, vu n) { return (x << (n & 31u)) & reinterpret_cast<vu>(n < 32u); }
FP4_SIMD vu shifted_right(vu x, vu n) { return (x >> (n & 31u)) & reinterpret_cast<vu>(n < 32u); }

template <class T>
FP4_SIMD vd widened_low(T x) {
  return __builtin_convertvector(__builtin_shufflevector(x, x, 0, 1), vd);
}
template <class T>
FP4_SIMD vd widened_high(T x) {
  return __builtin_convertvector(__builtin_shufflevector(x, x, 2, 3), vd);
}
FP4_SIMD vf narrowed_part(vd low, vd high) {
#if defined(__SSE2__)
  return _mm_movelh_ps(_mm_cvtpd_ps(low), _mm_cvtpd_ps(high));
#else
  return vf{static_cast<float>(low[0]), static_cast<float>(low[1]), static_cast<float>(high[0]),
            static_cast<float>(high[1])};
#endif
}
// The low words of two vectors of 64-bit lanes, and the other way round, truth values of lanes as those of doubles.
template <class T>
FP4_SIMD vi low_words(T low, T high) {
  return __builtin_shufflevector(reinterpret_cast<vi>(low), reinterpret_cast<vi>(high), 0, 2, 4, 6);
}
FP4_SIMD vl wide_mask_low(vi x) { return reinterpret_cast<vl>(__builtin_shufflevector(x, x, 0, 0, 1, 1)); }
FP4_SIMD vl wide_mask_high(vi x) { return reinterpret_cast<vl>(__builtin_shufflevector(x, x, 2, 2, 3, 3)); }

FP4_SIMD vd fused(vd x, vd y, vd z) {
#if defined(__aarch64__)
  return vfmaq_f64(z, x, y);
#else
  return vd{__builtin_fma(x[0], y[0], z[0]), __builtin_fma(x[1], y[1], z[1])};
#endif
}
// x*y + z through fp64, where the product is exact: a sum that lost something gets an odd last bit, so that rounding it
// to fp32 is the only rounding (Boldo and Melquiond, "Emulation of FMA and correctly rounded sums", 2008).
FP4_SIMD vd odd_sum(vd product, vd z) {
  const vd s = product + z;
  const vd z_part = s - product;
  const vd lost = (product - (s - z_part)) + (z - z_part);
  const vd zero = {};
  const auto inexact = reinterpret_cast<vq>(reinterpret_cast<vl>(lost < zero) | reinterpret_cast<vl>(lost > zero));
  // Where s went away from zero, one step back; then the last bit stands for what is lost.
  const vq went_up = (reinterpret_cast<vq>(lost) ^ reinterpret_cast<vq>(s)) >> 63;
  return reinterpret_cast<vd>((reinterpret_cast<vq>(s) - (went_up & inexact)) | (inexact & 1));
}
FP4_SIMD vf fused(vf x, vf y, vf z) {
#if defined(__aarch64__)
  return vfmaq_f32(z, x, y);
#else
  return narrowed_part(odd_sum(widened_low(x) * widened_low(y), widened_low(z)),
                       odd_sum(widened_high(x) * widened_high(y), widened_high(z)));
#endif
}

// Toward zero; INT32_MIN for what is no int32.
FP4_SIMD vi truncated_part(vf x) {
#if defined(__SSE2__)
  return reinterpret_cast<vi>(_mm_cvttps_epi32(x));
#else
  const vf zero = {};
  const vi inside = (x >= -0x1p31f) & (x < 0x1p31f);
  return chosen(inside, __builtin_convertvector(chosen(inside, x, zero), vi), vi{} + INT32_MIN);
#endif
}
// To whole numbers, ties to even; from `magic` on, 2^23 or 2^52, every number is one.
template <class T, class Bits>
FP4_SIMD T whole_part(T x, T magic, Bits sign) {
  const Bits magnitude = reinterpret_cast<Bits>(x) & ~sign;
  const T a = reinterpret_cast<T>(magnitude);
  const T near = chosen(a < magic, (a + magic) - magic, a);
  return reinterpret_cast<T>(reinterpret_cast<Bits>(near) | (reinterpret_cast<Bits>(x) & sign));
}
FP4_SIMD vf floor_part(vf x) {
  const vf near = whole_part(x, vf{} + 0x1p23f, vi{} + INT32_MIN);
  return chosen(near > x, near - 1.0f, near);
}
FP4_SIMD vd rounded_whole(vd x) { return whole_part(x, vd{} + 0x1p52, vl{} + INT64_MIN); }
FP4_SIMD vd truncated_whole(vd x) {
  const vl sign = vl{} + INT64_MIN;
  const auto size = [sign](vd v) { return reinterpret_cast<vd>(reinterpret_cast<vl>(v) & ~sign); };
  const vd near = size(rounded_whole(x));
  const vd down = chosen(near > size(x), near - 1.0, near);
  return reinterpret_cast<vd>(reinterpret_cast<vl>(down) | (reinterpret_cast<vl>(x) & sign));
}

// Products of the low halves of 64-bit lanes.
FP4_SIMD vq low_products(vq x, vq y) {
#if defined(__SSE2__)
  return reinterpret_cast<vq>(_mm_mul_epu32(reinterpret_cast<__m128i>(x), reinterpret_cast<__m128i>(y)));
#elif defined(__aarch64__)
  return reinterpret_cast<vq>(
      vmull_u32(vmovn_u64(reinterpret_cast<uint64x2_t>(x)), vmovn_u64(reinterpret_cast<uint64x2_t>(y))));
#else
  return (x & 0xFFFFFFFFu) * (y & 0xFFFFFFFFu);
#endif
}
// Sums of neighbours.
FP4_SIMD vi pair_sums(vh x) {
#if defined(__SSE2__)
  return reinterpret_cast<vi>(_mm_madd_epi16(reinterpret_cast<__m128i>(x), _mm_set1_epi16(1)));
#elif defined(__aarch64__)
  return reinterpret_cast<vi>(vpaddlq_s16(reinterpret_cast<int16x8_t>(x)));
#else
  const auto w = reinterpret_cast<vi>(x);
  return ((w << 16) >> 16) + (w >> 16);
#endif
}
// The sum of the products of four unsigned bytes of `row` and the signed ones of every lane; two of them fit 16 bits.
FP4_SIMD vi products_part(int32_t row, vi x) {
  const auto word = static_cast<uint32_t>(row);
  const auto even = reinterpret_cast<vh>(vu{} + (word & 0x00FF00FFu));
  const auto odd = reinterpret_cast<vh>(vu{} + (word >> 8 & 0x00FF00FFu));
  const vh low = reinterpret_cast<vh>(reinterpret_cast<vw>(x) << 8) >> 8;
  return pair_sums(low * even + (reinterpret_cast<vh>(x) >> 8) * odd);
}
// Four vectors of integers, saturated to bytes: lane j becomes v0[j] v1[j] v2[j] v3[j].
FP4_SIMD vi packed_part(vi v0, vi v1, vi v2, vi v3) {
  const auto byte = [](vi v) { return smaller_part(larger_part(v, vi{} - 128), vi{} + 127) & 0xFF; };
  return (byte(v0) | byte(v1) << 8) | (byte(v2) | byte(v3) << 8) << 16;
}

// The entries of a table of 16 bytes by indices below 16, and of 128 by the low seven bits of an index.
FP4_SIMD vb entries_part(const int8_t* table, vb index) {
#if defined(__aarch64__)
  return reinterpret_cast<vb>(vqtbl1q_s8(vld1q_s8(table), reinterpret_cast<uint8x16_t>(index)));
#else
  for (int i = 0; i < 16; ++i) index[i] = table[index[i] & 15];
  return index;
#endif
}
FP4_SIMD vb entries_of_128(const int8_t* table, vb index) {
  alignas(16) int8_t at[16];
  store_part(at, index);
  for (int8_t& i : at) i = table[i & 127];
  return load_part<vb>(at);
}
// Those of a table of floats, a power of two.
template <int count>
FP4_SIMD vf entries_part(const float* table, vi index) {
  const vi at = index & (count - 1);
  return vf{table[at[0]], table[at[1]], table[at[2]], table[at[3]]};
}
FP4_SIMD vi gathered_part(const uint32_t* base, vi index) {
  const auto at = [base](int32_t i) { return static_cast<int32_t>(base[i]); };
  return vi{at(index[0]), at(index[1]), at(index[2]), at(index[3])};
}
FP4_SIMD vi gathered_part(const uint8_t* base, vi offset) {  // four bytes each
  const auto at = [base](int32_t i) { return load_part<int32_t>(base + i); };
  return vi{at(offset[0]), at(offset[1]), at(offset[2]), at(offset[3])};
}

// Quarters of 16 bytes: of a part, four lanes. Neighbours of x and y in turn, from the lower or the upper half of each.
FP4_SIMD vf interleaved_low(vf x, vf y) { return __builtin_shufflevector(x, y, 0, 4, 1, 5); }
FP4_SIMD vf interleaved_high(vf x, vf y) { return __builtin_shufflevector(x, y, 2, 6, 3, 7); }
FP4_SIMD vf low_halves(vf x, vf y) { return __builtin_shufflevector(x, y, 0, 1, 4, 5); }
FP4_SIMD vf high_halves(vf x, vf y) { return __builtin_shufflevector(x, y, 2, 3, 6, 7); }
// A part's quarters of four floats, which lie `stride` floats or bytes apart.
FP4_SIMD vf load_quarters(const float* p, int64_t) { return load_part<vf>(p); }
FP4_SIMD void store_quarters(uint8_t* p, int64_t, vf x) { store_part(p, x); }

// The Hadamard transform of a part. Lane j becomes other[j] + x[j], or other[j] - x[j] where its bit is set.
FP4_SIMD vf transformed_part(vf x) {
  x = __builtin_shufflevector(x, x, 1, 0, 3, 2) + x * vf{1, -1, 1, -1};
  return __builtin_shufflevector(x, x, 2, 3, 0, 1) + x * vf{1, 1, -1, -1};
}

// The codes of a part's neighbours, `width` bits each; of two in a byte the lower half comes first.
template <int width>
FP4_SIMD vi codes_part(const uint8_t* p) {
  vi x = {};
  for (int l = 0; l < part_lanes; ++l) {
    if (width == 4) x[l] = p[l / 2] >> (l % 2 * 4) & 0xF;
    if (width == 8) x[l] = p[l];
    if (width == 16) x[l] = load_part<uint16_t>(p + 2 * l);
    if (width == 32) x[l] = load_part<int32_t>(p + 4 * l);
  }
  return x;
}

}  // namespace fp4::generic
