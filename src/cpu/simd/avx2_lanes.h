// Floats, 32-bit integers and truth values of sixteen lanes in two registers.
#pragma once

#include <immintrin.h>

#include <cstdint>

#include "fp4/bits.h"

#define FP4_TARGET __attribute__((target("avx2,fma,f16c")))
#define FP4_SIMD   __attribute__((target("avx2,fma,f16c"), always_inline)) inline
#define FP4_ISA    avx2

namespace fp4::avx2 {

using fp4::is_nan;
using fp4::larger;
using fp4::smaller;

inline constexpr bool has_vnni = false;  // an instruction adds four products of bytes to an int32
inline constexpr bool rounds_down = false;  // only exact products can be rounded down
inline constexpr bool has_fma = true;
inline constexpr int float_rows = 4;  // rows of a float tile: 4 x 16 sums fill half of the registers

struct F {
  __m256 a, b;
};
struct I {
  __m256i a, b;
};
struct M {
  __m256i a, b;
};
struct D {  // lanes 0-3, 4-7, 8-11, 12-15
  __m256d v[4];
};
struct B {  // 64 bytes: 16 lanes of four
  __m256i a, b;
};

FP4_SIMD I all(int32_t x) { return {_mm256_set1_epi32(x), _mm256_set1_epi32(x)}; }
FP4_SIMD I all(uint32_t x) { return all(static_cast<int32_t>(x)); }
FP4_SIMD F all(float x) { return {_mm256_set1_ps(x), _mm256_set1_ps(x)}; }
FP4_SIMD I lane_numbers() {
  return {_mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7), _mm256_setr_epi32(8, 9, 10, 11, 12, 13, 14, 15)};
}
FP4_SIMD I load(const int32_t* p) {
  return {_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)),
          _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p + 8))};
}
FP4_SIMD I load(const uint32_t* p) { return load(reinterpret_cast<const int32_t*>(p)); }
FP4_SIMD void store(int32_t* p, I x) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), x.a);
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p + 8), x.b);
}
FP4_SIMD void store(uint32_t* p, I x) { store(reinterpret_cast<int32_t*>(p), x); }

FP4_SIMD M operator&(M x, M y) { return {_mm256_and_si256(x.a, y.a), _mm256_and_si256(x.b, y.b)}; }
FP4_SIMD M operator|(M x, M y) { return {_mm256_or_si256(x.a, y.a), _mm256_or_si256(x.b, y.b)}; }
FP4_SIMD M operator~(M x) {
  const __m256i ones = _mm256_set1_epi32(-1);
  return {_mm256_xor_si256(x.a, ones), _mm256_xor_si256(x.b, ones)};
}
FP4_SIMD uint32_t to_bits(M x) {
  return static_cast<uint32_t>(_mm256_movemask_ps(_mm256_castsi256_ps(x.a))) |
         static_cast<uint32_t>(_mm256_movemask_ps(_mm256_castsi256_ps(x.b))) << 8;
}
FP4_SIMD bool any(M x) { return to_bits(x) != 0; }
FP4_SIMD M mask_from_bits(uint32_t bits) {
  const __m256i word = _mm256_set1_epi32(static_cast<int32_t>(bits));
  const __m256i low = _mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128);
  const __m256i high = _mm256_slli_epi32(low, 8);
  return {_mm256_cmpeq_epi32(_mm256_and_si256(word, low), low), _mm256_cmpeq_epi32(_mm256_and_si256(word, high), high)};
}
FP4_SIMD M first_lanes(int n) {
  const I lane = lane_numbers();
  const __m256i count = _mm256_set1_epi32(n);
  return {_mm256_cmpgt_epi32(count, lane.a), _mm256_cmpgt_epi32(count, lane.b)};
}

FP4_SIMD void prefetch(const float* p) { _mm_prefetch(reinterpret_cast<const char*>(p), _MM_HINT_T0); }
FP4_SIMD F load(const float* p) { return {_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)}; }
FP4_SIMD F load(const float* p, M m) { return {_mm256_maskload_ps(p, m.a), _mm256_maskload_ps(p + 8, m.b)}; }
FP4_SIMD void store(float* p, F x) {
  _mm256_storeu_ps(p, x.a);
  _mm256_storeu_ps(p + 8, x.b);
}
FP4_SIMD void store(float* p, F x, M m) {
  _mm256_maskstore_ps(p, m.a, x.a);
  _mm256_maskstore_ps(p + 8, m.b, x.b);
}
#define FP4_PAIR_F(name, op) \
  FP4_SIMD F name(F x, F y) { return {op(x.a, y.a), op(x.b, y.b)}; }
FP4_PAIR_F(operator+, _mm256_add_ps)
FP4_PAIR_F(operator-, _mm256_sub_ps)
FP4_PAIR_F(operator*, _mm256_mul_ps)
FP4_PAIR_F(operator/, _mm256_div_ps)
FP4_PAIR_F(smaller, _mm256_min_ps)
FP4_PAIR_F(larger, _mm256_max_ps)
#undef FP4_PAIR_F
FP4_SIMD F fma(F x, F y, F z) { return {_mm256_fmadd_ps(x.a, y.a, z.a), _mm256_fmadd_ps(x.b, y.b, z.b)}; }
FP4_SIMD F negated_fma(F x, F y, F z) { return {_mm256_fnmadd_ps(x.a, y.a, z.a), _mm256_fnmadd_ps(x.b, y.b, z.b)}; }
#define FP4_COMPARE_F(name, how)                                                                                   \
  FP4_SIMD M name(F x, F y) {                                                                                      \
    return {_mm256_castps_si256(_mm256_cmp_ps(x.a, y.a, how)), _mm256_castps_si256(_mm256_cmp_ps(x.b, y.b, how))}; \
  }
FP4_COMPARE_F(operator<, _CMP_LT_OQ)
FP4_COMPARE_F(operator>, _CMP_GT_OQ)
FP4_COMPARE_F(operator>=, _CMP_GE_OQ)
FP4_COMPARE_F(operator==, _CMP_EQ_OQ)
#undef FP4_COMPARE_F
FP4_SIMD M is_nan(F x) {
  return {_mm256_castps_si256(_mm256_cmp_ps(x.a, x.a, _CMP_UNORD_Q)),
          _mm256_castps_si256(_mm256_cmp_ps(x.b, x.b, _CMP_UNORD_Q))};
}
FP4_SIMD F select(M m, F yes, F no) {
  return {_mm256_blendv_ps(no.a, yes.a, _mm256_castsi256_ps(m.a)),
          _mm256_blendv_ps(no.b, yes.b, _mm256_castsi256_ps(m.b))};
}

#define FP4_PAIR_I(name, op) \
  FP4_SIMD I name(I x, I y) { return {op(x.a, y.a), op(x.b, y.b)}; }
FP4_PAIR_I(operator+, _mm256_add_epi32)
FP4_PAIR_I(operator-, _mm256_sub_epi32)
FP4_PAIR_I(multiply_low, _mm256_mullo_epi32)
FP4_PAIR_I(operator&, _mm256_and_si256)
FP4_PAIR_I(operator|, _mm256_or_si256)
FP4_PAIR_I(operator^, _mm256_xor_si256)
FP4_PAIR_I(shift_left, _mm256_sllv_epi32)
FP4_PAIR_I(shift_right, _mm256_srlv_epi32)
FP4_PAIR_I(smaller, _mm256_min_epi32)
FP4_PAIR_I(larger, _mm256_max_epi32)
FP4_PAIR_I(larger_unsigned, _mm256_max_epu32)
FP4_PAIR_I(smaller_unsigned, _mm256_min_epu32)
#undef FP4_PAIR_I
template <int n>
FP4_SIMD I shift_left(I x) {
  return {_mm256_slli_epi32(x.a, n), _mm256_slli_epi32(x.b, n)};
}
template <int n>
FP4_SIMD I shift_right(I x) {
  return {_mm256_srli_epi32(x.a, n), _mm256_srli_epi32(x.b, n)};
}
template <int n>
FP4_SIMD I shift_right_signed(I x) {
  return {_mm256_srai_epi32(x.a, n), _mm256_srai_epi32(x.b, n)};
}
FP4_SIMD I shift_right(I x, int n) {
  return {_mm256_srl_epi32(x.a, _mm_cvtsi32_si128(n)), _mm256_srl_epi32(x.b, _mm_cvtsi32_si128(n))};
}
FP4_SIMD I shift_left(I x, int n) {
  return {_mm256_sll_epi32(x.a, _mm_cvtsi32_si128(n)), _mm256_sll_epi32(x.b, _mm_cvtsi32_si128(n))};
}
FP4_SIMD M operator==(I x, I y) { return {_mm256_cmpeq_epi32(x.a, y.a), _mm256_cmpeq_epi32(x.b, y.b)}; }
FP4_SIMD M operator>(I x, I y) { return {_mm256_cmpgt_epi32(x.a, y.a), _mm256_cmpgt_epi32(x.b, y.b)}; }
FP4_SIMD M operator<(I x, I y) { return y > x; }
FP4_SIMD M operator>=(I x, I y) { return ~(y > x); }
FP4_SIMD M less_unsigned(I x, I y) {
  const I flip = all(0x80000000u);
  return (x ^ flip) < (y ^ flip);
}
FP4_SIMD I select(M m, I yes, I no) {
  return {_mm256_blendv_epi8(no.a, yes.a, m.a), _mm256_blendv_epi8(no.b, yes.b, m.b)};
}
FP4_SIMD I add_where(M m, I x, I y) {
  return {_mm256_add_epi32(x.a, _mm256_and_si256(m.a, y.a)), _mm256_add_epi32(x.b, _mm256_and_si256(m.b, y.b))};
}
FP4_SIMD I or_where(M m, I x, I y) {
  return {_mm256_or_si256(x.a, _mm256_and_si256(m.a, y.a)), _mm256_or_si256(x.b, _mm256_and_si256(m.b, y.b))};
}
FP4_SIMD M no_bits(I x, int32_t mask) { return (x & all(mask)) == all(0); }
FP4_SIMD M some_bits(I x, int32_t mask) { return ~no_bits(x, mask); }
FP4_SIMD I odd_index(I x) { return (shift_right<14>(x) & all(0x7F)) | all(1); }
FP4_SIMD M is_odd(I x) { return some_bits(x, 1); }
FP4_SIMD I gather(const uint32_t* base, I index) {
  const int* p = reinterpret_cast<const int*>(base);
  return {_mm256_i32gather_epi32(p, index.a, 4), _mm256_i32gather_epi32(p, index.b, 4)};
}
FP4_SIMD I gather_bytes(const uint8_t* base, I offset) {
  const int* p = reinterpret_cast<const int*>(base);
  return {_mm256_i32gather_epi32(p, offset.a, 1), _mm256_i32gather_epi32(p, offset.b, 1)};
}
FP4_SIMD int32_t largest_lane(I x) {
  alignas(32) int32_t v[8];
  _mm256_store_si256(reinterpret_cast<__m256i*>(v), _mm256_max_epi32(x.a, x.b));
  int32_t most = v[0];
  for (const int32_t y : v) most = y > most ? y : most;
  return most;
}
FP4_SIMD int32_t smallest_lane(I x) { return -1 - largest_lane(all(-1) - x); }

FP4_SIMD I bits(F x) { return {_mm256_castps_si256(x.a), _mm256_castps_si256(x.b)}; }
FP4_SIMD F as_float(I x) { return {_mm256_castsi256_ps(x.a), _mm256_castsi256_ps(x.b)}; }
FP4_SIMD I truncated(F x) { return {_mm256_cvttps_epi32(x.a), _mm256_cvttps_epi32(x.b)}; }
FP4_SIMD F to_float(I x) { return {_mm256_cvtepi32_ps(x.a), _mm256_cvtepi32_ps(x.b)}; }
// 0 <= x < 2^32: from 2^31 on a float is a whole number, so half the range is taken off first.
FP4_SIMD I truncated_unsigned(F x) {
  const M high = x >= all(0x1p31f);
  return truncated(select(high, x - all(0x1p31f), x)) ^ select(high, all(0x80000000u), all(0));
}
FP4_SIMD I rounded_unsigned(F x) {
  const M high = x >= all(0x1p31f);
  const F low = select(high, x - all(0x1p31f), x);
  return I{_mm256_cvtps_epi32(low.a), _mm256_cvtps_epi32(low.b)} ^ select(high, all(0x80000000u), all(0));
}
// Exact for the whole numbers below 2^24 and for the floats that truncated_unsigned took apart.
FP4_SIMD F unsigned_to_float(I x) {
  const M high = x < all(0);
  return to_float(x & all(0x7FFFFFFF)) + select(high, all(0x1p31f), all(0.0f));
}
FP4_SIMD F floor_of(F x) { return {_mm256_floor_ps(x.a), _mm256_floor_ps(x.b)}; }
FP4_SIMD __m256 look_up_half(__m256 low, __m256 high, __m256i index) {
  return _mm256_blendv_ps(_mm256_permutevar8x32_ps(low, index), _mm256_permutevar8x32_ps(high, index),
                          _mm256_castsi256_ps(_mm256_slli_epi32(index, 28)));
}
FP4_SIMD F look_up_16(const float* table, I index) {
  const __m256 low = _mm256_loadu_ps(table);
  const __m256 high = _mm256_loadu_ps(table + 8);
  return {look_up_half(low, high, index.a), look_up_half(low, high, index.b)};
}
FP4_SIMD F look_up_32(const float* table, I index) {
  const F low = look_up_16(table, index);
  const F high = look_up_16(table + 16, index);
  return {_mm256_blendv_ps(low.a, high.a, _mm256_castsi256_ps(_mm256_slli_epi32(index.a, 27))),
          _mm256_blendv_ps(low.b, high.b, _mm256_castsi256_ps(_mm256_slli_epi32(index.b, 27)))};
}
FP4_SIMD F from_half(I code) {
  const __m256i x = _mm256_packus_epi32(code.a, code.b);
  const __m256i y = _mm256_permute4x64_epi64(x, 0xD8);
  return {_mm256_cvtph_ps(_mm256_castsi256_si128(y)), _mm256_cvtph_ps(_mm256_extracti128_si256(y, 1))};
}

}  // namespace fp4::avx2
