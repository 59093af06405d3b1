// Parts of sixteen lanes for AVX2 with FMA: vectors of 32 bytes. The words are those of native.h.
#pragma once

#include <immintrin.h>

#define FP4_TARGET __attribute__((target("avx2,fma")))
#define FP4_SIMD   __attribute__((target("avx2,fma"), always_inline)) inline
#define FP4_ISA    avx2
#define FP4_PART   32

#include "src/cpu/simd/parts.h"

namespace fp4::avx2 {

inline constexpr int float_rows = 4,
                     float_panels = 1;  // of a float tile: with 2 panels the sums alone fill all registers
inline constexpr bool has_fma = true;

template <class T>
FP4_SIMD __m256i whole(T x) {
  return reinterpret_cast<__m256i>(x);
}

FP4_SIMD vf same_part(float x) { return _mm256_set1_ps(x); }
FP4_SIMD vd same_part(double x) { return _mm256_set1_pd(x); }
FP4_SIMD vf load_part(const float* p, vi m) { return _mm256_maskload_ps(p, whole(m)); }
FP4_SIMD void store_part(float* p, vf x, vi m) { _mm256_maskstore_ps(p, whole(m), x); }

template <class Mask, class T>
FP4_SIMD T chosen(Mask m, T yes, T no) {
  return reinterpret_cast<T>(_mm256_blendv_epi8(whole(no), whole(yes), whole(m)));
}
FP4_SIMD vf chosen(vi m, vf yes, vf no) { return _mm256_blendv_ps(no, yes, reinterpret_cast<__m256>(m)); }
FP4_SIMD vf smaller_part(vf x, vf y) { return _mm256_min_ps(x, y); }
FP4_SIMD vf larger_part(vf x, vf y) { return _mm256_max_ps(x, y); }
FP4_SIMD vi smaller_part(vi x, vi y) { return reinterpret_cast<vi>(_mm256_min_epi32(whole(x), whole(y))); }
FP4_SIMD vi larger_part(vi x, vi y) { return reinterpret_cast<vi>(_mm256_max_epi32(whole(x), whole(y))); }
FP4_SIMD vu smaller_part(vu x, vu y) { return reinterpret_cast<vu>(_mm256_min_epu32(whole(x), whole(y))); }
FP4_SIMD vu larger_part(vu x, vu y) { return reinterpret_cast<vu>(_mm256_max_epu32(whole(x), whole(y))); }
FP4_SIMD vb smaller_part(vb x, vb y) { return reinterpret_cast<vb>(_mm256_min_epi8(whole(x), whole(y))); }
FP4_SIMD vb larger_part(vb x, vb y) { return reinterpret_cast<vb>(_mm256_max_epi8(whole(x), whole(y))); }
FP4_SIMD uint32_t bits_of_part(vi m) { return static_cast<uint32_t>(_mm256_movemask_ps(reinterpret_cast<__m256>(m))); }
FP4_SIMD vu shifted_left(vu x, vu n) { return reinterpret_cast<vu>(_mm256_sllv_epi32(whole(x), whole(n))); }
FP4_SIMD vu shifted_right(vu x, vu n) { return reinterpret_cast<vu>(_mm256_srlv_epi32(whole(x), whole(n))); }

FP4_SIMD vd widened_low(vf x) { return _mm256_cvtps_pd(_mm256_castps256_ps128(x)); }
FP4_SIMD vd widened_high(vf x) { return _mm256_cvtps_pd(_mm256_extractf128_ps(x, 1)); }
FP4_SIMD vd widened_low(vi x) { return _mm256_cvtepi32_pd(_mm256_castsi256_si128(whole(x))); }
FP4_SIMD vd widened_high(vi x) { return _mm256_cvtepi32_pd(_mm256_extracti128_si256(whole(x), 1)); }
FP4_SIMD vf narrowed_part(vd low, vd high) { return _mm256_set_m128(_mm256_cvtpd_ps(high), _mm256_cvtpd_ps(low)); }
template <class T>
FP4_SIMD vi low_words(T low, T high) {
  const __m256 x = _mm256_shuffle_ps(reinterpret_cast<__m256>(low), reinterpret_cast<__m256>(high), 0x88);
  return reinterpret_cast<vi>(_mm256_permute4x64_epi64(reinterpret_cast<__m256i>(x), 0xD8));
}
FP4_SIMD vl wide_mask_low(vi x) {
  return reinterpret_cast<vl>(_mm256_cvtepi32_epi64(_mm256_castsi256_si128(whole(x))));
}
FP4_SIMD vl wide_mask_high(vi x) {
  return reinterpret_cast<vl>(_mm256_cvtepi32_epi64(_mm256_extracti128_si256(whole(x), 1)));
}

FP4_SIMD vd fused(vd x, vd y, vd z) { return _mm256_fmadd_pd(x, y, z); }
FP4_SIMD vf fused(vf x, vf y, vf z) { return _mm256_fmadd_ps(x, y, z); }
FP4_SIMD vi truncated_part(vf x) { return reinterpret_cast<vi>(_mm256_cvttps_epi32(x)); }
FP4_SIMD vf floor_part(vf x) { return _mm256_floor_ps(x); }
FP4_SIMD vd truncated_whole(vd x) { return _mm256_round_pd(x, _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC); }

FP4_SIMD vq low_products(vq x, vq y) { return reinterpret_cast<vq>(_mm256_mul_epu32(whole(x), whole(y))); }
FP4_SIMD vi pair_sums(vh x) { return reinterpret_cast<vi>(_mm256_madd_epi16(whole(x), _mm256_set1_epi16(1))); }
FP4_SIMD vi products_part(int32_t row, vi x) {
  return pair_sums(reinterpret_cast<vh>(_mm256_maddubs_epi16(_mm256_set1_epi32(row), whole(x))));
}
FP4_SIMD vi packed_part(vi v0, vi v1, vi v2, vi v3) {
  const __m256i order =
      _mm256_broadcastsi128_si256(_mm_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15));
  const __m256i words =
      _mm256_packs_epi16(_mm256_packs_epi32(whole(v0), whole(v1)), _mm256_packs_epi32(whole(v2), whole(v3)));
  return reinterpret_cast<vi>(_mm256_shuffle_epi8(words, order));
}

FP4_SIMD vb entries_part(const int8_t* table, vb index) {
  const __m128i row = _mm_loadu_si128(reinterpret_cast<const __m128i*>(table));
  return reinterpret_cast<vb>(_mm256_shuffle_epi8(_mm256_broadcastsi128_si256(row), whole(index)));
}
// One of `count` rows of 16 by the bits of the index above its lowest four; the highest of those is at the top of
// `chosen_by`.
template <int count>
FP4_SIMD vb entry_of(const int8_t* row, vb nibble, vb chosen_by) {
  if constexpr (count == 1) {
    return entries_part(row, nibble);
  } else {
    const vb below = chosen_by + chosen_by;
    return chosen(chosen_by, entry_of<count / 2>(row + 8 * count, nibble, below),
                  entry_of<count / 2>(row, nibble, below));
  }
}
FP4_SIMD vb entries_of_128(const int8_t* table, vb index) { return entry_of<8>(table, index & 0x0F, index + index); }
template <int count>
FP4_SIMD vf entries_part(const float* table, vi index) {
  if constexpr (count == 8) {
    return _mm256_permutevar8x32_ps(load_part<vf>(table), whole(index));
  } else {
    return chosen((index & (count / 2)) != 0, entries_part<count / 2>(table + count / 2, index),
                  entries_part<count / 2>(table, index));
  }
}
FP4_SIMD vi gathered_part(const uint32_t* base, vi index) {
  return reinterpret_cast<vi>(_mm256_i32gather_epi32(reinterpret_cast<const int*>(base), whole(index), 4));
}
FP4_SIMD vi gathered_part(const uint8_t* base, vi offset) {
  return reinterpret_cast<vi>(_mm256_i32gather_epi32(reinterpret_cast<const int*>(base), whole(offset), 1));
}

FP4_SIMD vf interleaved_low(vf x, vf y) { return _mm256_unpacklo_ps(x, y); }
FP4_SIMD vf interleaved_high(vf x, vf y) { return _mm256_unpackhi_ps(x, y); }
FP4_SIMD vf low_halves(vf x, vf y) { return _mm256_shuffle_ps(x, y, 0x44); }
FP4_SIMD vf high_halves(vf x, vf y) { return _mm256_shuffle_ps(x, y, 0xEE); }
FP4_SIMD vf load_quarters(const float* p, int64_t stride) {
  return _mm256_set_m128(_mm_loadu_ps(p + stride), _mm_loadu_ps(p));
}
FP4_SIMD void store_quarters(uint8_t* p, int64_t stride, vf x) {
  _mm_storeu_ps(reinterpret_cast<float*>(p), _mm256_castps256_ps128(x));
  _mm_storeu_ps(reinterpret_cast<float*>(p + stride), _mm256_extractf128_ps(x, 1));
}

FP4_SIMD vf transformed_part(vf x) {
  x = fused(x, vf{1, -1, 1, -1, 1, -1, 1, -1}, _mm256_permute_ps(x, 0xB1));
  x = fused(x, vf{1, 1, -1, -1, 1, 1, -1, -1}, _mm256_permute_ps(x, 0x4E));
  return fused(x, vf{1, 1, 1, 1, -1, -1, -1, -1}, _mm256_permute2f128_ps(x, x, 0x01));
}

template <int width>
FP4_SIMD vi codes_part(const uint8_t* p) {
  if constexpr (width == 4) {
    return (vi{} + load_part<int32_t>(p)) >> vi{0, 4, 8, 12, 16, 20, 24, 28} & 0xF;
  } else if constexpr (width == 8) {
    return reinterpret_cast<vi>(_mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p))));
  } else if constexpr (width == 16) {
    return reinterpret_cast<vi>(_mm256_cvtepu16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))));
  } else {
    return load_part<vi>(p);
  }
}

}  // namespace fp4::avx2
