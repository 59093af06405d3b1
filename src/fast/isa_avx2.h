// The words of isa_avx512.h for AVX2 with FMA: sixteen lanes are two 256-bit registers, truth values are lanes of ones.
// There is no embedded rounding here: rounding down goes through exact products, toward zero through a correction.
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

inline constexpr bool has_wide_kernels = false;
inline constexpr bool rounds_down = false;  // only exact products can be rounded down
inline constexpr int float_rows = 4;        // rows of a float tile: 4 x 16 sums fill half of the registers

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
FP4_SIMD F look_up_16(const float* table, I index) {
  return {_mm256_i32gather_ps(table, index.a, 4), _mm256_i32gather_ps(table, index.b, 4)};
}
FP4_SIMD F from_half(I code) {
  const __m256i x = _mm256_packus_epi32(code.a, code.b);
  const __m256i y = _mm256_permute4x64_epi64(x, 0xD8);
  return {_mm256_cvtph_ps(_mm256_castsi256_si128(y)), _mm256_cvtph_ps(_mm256_extracti128_si256(y, 1))};
}

FP4_SIMD D all_double(double x) {
  const __m256d v = _mm256_set1_pd(x);
  return {{v, v, v, v}};
}
FP4_SIMD D widened(F x) {
  return {{_mm256_cvtps_pd(_mm256_castps256_ps128(x.a)), _mm256_cvtps_pd(_mm256_extractf128_ps(x.a, 1)),
           _mm256_cvtps_pd(_mm256_castps256_ps128(x.b)), _mm256_cvtps_pd(_mm256_extractf128_ps(x.b, 1))}};
}
FP4_SIMD D load_widened(const float* p) { return widened(load(p)); }
#define FP4_EACH(expression)                         \
  D r;                                               \
  for (int i = 0; i < 4; ++i) r.v[i] = (expression); \
  return r
FP4_SIMD D operator*(D x, D y) { FP4_EACH(_mm256_mul_pd(x.v[i], y.v[i])); }
FP4_SIMD D operator/(D x, D y) { FP4_EACH(_mm256_div_pd(x.v[i], y.v[i])); }
FP4_SIMD D operator+(D x, D y) { FP4_EACH(_mm256_add_pd(x.v[i], y.v[i])); }
FP4_SIMD D operator-(D x, D y) { FP4_EACH(_mm256_sub_pd(x.v[i], y.v[i])); }
FP4_SIMD D fma(D x, D y, D z) { FP4_EACH(_mm256_fmadd_pd(x.v[i], y.v[i], z.v[i])); }
FP4_SIMD D load_double(const double* p) { FP4_EACH(_mm256_loadu_pd(p + 4 * i)); }
FP4_SIMD void store(double* p, D x) {
  for (int i = 0; i < 4; ++i) _mm256_storeu_pd(p + 4 * i, x.v[i]);
}
FP4_SIMD F narrowed(D x) {
  return {_mm256_set_m128(_mm256_cvtpd_ps(x.v[1]), _mm256_cvtpd_ps(x.v[0])),
          _mm256_set_m128(_mm256_cvtpd_ps(x.v[3]), _mm256_cvtpd_ps(x.v[2]))};
}
// Truth values of doubles to lanes.
FP4_SIMD __m256i joined_masks(__m256d low, __m256d high) {
  const __m256 x = _mm256_shuffle_ps(_mm256_castpd_ps(low), _mm256_castpd_ps(high), 0x88);
  return _mm256_permute4x64_epi64(_mm256_castps_si256(x), 0xD8);
}
#define FP4_COMPARE_D(how)                                                                   \
  return {                                                                                   \
    joined_masks(_mm256_cmp_pd(x.v[0], y.v[0], how), _mm256_cmp_pd(x.v[1], y.v[1], how)),    \
        joined_masks(_mm256_cmp_pd(x.v[2], y.v[2], how), _mm256_cmp_pd(x.v[3], y.v[3], how)) \
  }
FP4_SIMD M operator!=(D x, D y) { FP4_COMPARE_D(_CMP_NEQ_UQ); }
FP4_SIMD M operator<(D x, D y) { FP4_COMPARE_D(_CMP_LT_OQ); }
#undef FP4_COMPARE_D
// Sign and exponent field of each double.
FP4_SIMD I exponent_fields(D x) {
  __m256d field[4];
  for (int i = 0; i < 4; ++i) field[i] = _mm256_castsi256_pd(_mm256_srli_epi64(_mm256_castpd_si256(x.v[i]), 52));
  return {joined_masks(field[0], field[1]), joined_masks(field[2], field[3])};
}
struct WideMask {
  __m256d v[4];
};
FP4_SIMD WideMask widened(M m) {
  return {{_mm256_castsi256_pd(_mm256_cvtepi32_epi64(_mm256_castsi256_si128(m.a))),
           _mm256_castsi256_pd(_mm256_cvtepi32_epi64(_mm256_extracti128_si256(m.a, 1))),
           _mm256_castsi256_pd(_mm256_cvtepi32_epi64(_mm256_castsi256_si128(m.b))),
           _mm256_castsi256_pd(_mm256_cvtepi32_epi64(_mm256_extracti128_si256(m.b, 1)))}};
}
FP4_SIMD D select(M m, D yes, D no) {
  const WideMask wide = widened(m);
  FP4_EACH(_mm256_blendv_pd(no.v[i], yes.v[i], wide.v[i]));
}
FP4_SIMD D truncated_whole(D x) { FP4_EACH(_mm256_round_pd(x.v[i], _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC)); }
FP4_SIMD D rounded_whole(D x) { FP4_EACH(_mm256_round_pd(x.v[i], _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)); }
// The last bit set in the lanes of m.
FP4_SIMD D made_odd(D x, M m) {
  const WideMask wide = widened(m);
  const __m256d one = _mm256_castsi256_pd(_mm256_set1_epi64x(1));
  FP4_EACH(_mm256_or_pd(x.v[i], _mm256_and_pd(wide.v[i], one)));
}
FP4_SIMD D to_double(I x) {
  return {{_mm256_cvtepi32_pd(_mm256_castsi256_si128(x.a)), _mm256_cvtepi32_pd(_mm256_extracti128_si256(x.a, 1)),
           _mm256_cvtepi32_pd(_mm256_castsi256_si128(x.b)), _mm256_cvtepi32_pd(_mm256_extracti128_si256(x.b, 1))}};
}
FP4_SIMD __m256d halfway(__m256d x) {
  const __m256i low = _mm256_and_si256(_mm256_castpd_si256(x), _mm256_set1_epi64x(0x1FFFFFFF));
  return _mm256_castsi256_pd(_mm256_cmpeq_epi64(low, _mm256_set1_epi64x(0x10000000)));
}
// Doubles halfway between two floats: the low 29 bits are 1000..0.
FP4_SIMD M between_floats(D x) {
  return {joined_masks(halfway(x.v[0]), halfway(x.v[1])), joined_masks(halfway(x.v[2]), halfway(x.v[3]))};
}
// One unit of the last place toward the part that a sum lost, in the lanes of m.
FP4_SIMD D nudged(D s, D error, M m) {
  const WideMask wide = widened(m);
  D r;
  for (int i = 0; i < 4; ++i) {
    const __m256d product = _mm256_mul_pd(s.v[i], error.v[i]);
    const __m256d zero = _mm256_setzero_pd();
    const __m256d away = _mm256_and_pd(wide.v[i], _mm256_cmp_pd(product, zero, _CMP_GT_OQ));
    const __m256d back = _mm256_and_pd(wide.v[i], _mm256_cmp_pd(product, zero, _CMP_LT_OQ));
    const __m256i up = _mm256_sub_epi64(_mm256_castpd_si256(s.v[i]), _mm256_castpd_si256(away));
    r.v[i] = _mm256_castsi256_pd(_mm256_add_epi64(up, _mm256_castpd_si256(back)));
  }
  return r;
}
#undef FP4_EACH
// To nearest, then one float toward zero where that went too far (infinity becomes the largest float).
FP4_SIMD F narrowed_toward_zero(D x) {
  const F nearest = narrowed(x);
  const I magnitude = bits(nearest) & all(0x7FFFFFFF);
  const D rounded = widened(as_float(magnitude));
  D exact = x;
  for (int i = 0; i < 4; ++i) exact.v[i] = _mm256_andnot_pd(_mm256_set1_pd(-0.0), x.v[i]);
  return as_float(add_where(exact < rounded, bits(nearest), all(-1)));
}

FP4_SIMD F broadcast(const float* p) {
  const __m256 v = _mm256_broadcast_ss(p);
  return {v, v};
}
FP4_SIMD D broadcast_double(const double* p) {
  const __m256d v = _mm256_broadcast_sd(p);
  return {{v, v, v, v}};
}
FP4_SIMD void widen_rows(const float* p, int64_t stride, int count, double* out) {
  for (int k = 0; k < count; ++k) {
    const __m256 v = _mm256_loadu_ps(p + k * stride);
    _mm256_store_pd(out + 8 * k, _mm256_cvtps_pd(_mm256_castps256_ps128(v)));
    _mm256_store_pd(out + 8 * k + 4, _mm256_cvtps_pd(_mm256_extractf128_ps(v, 1)));
  }
}

// floor(x*y) and floor(-x*y) as integers on top of 1.5 * 2^23; the products here are exact.
FP4_SIMD F fma_down(F x, F y, F z) { return floor_of(x * y) + z; }
FP4_SIMD F multiply_down(F x, F y) { return x * y; }
FP4_SIMD F negated_fma_down(F x, F y, F z) { return floor_of(all(0.0f) - x * y) + z; }

FP4_SIMD B packed_lanes(I v0, I v1, I v2, I v3) {
  const __m256i order =
      _mm256_broadcastsi128_si256(_mm_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15));
  return {
      _mm256_shuffle_epi8(_mm256_packs_epi16(_mm256_packs_epi32(v0.a, v1.a), _mm256_packs_epi32(v2.a, v3.a)), order),
      _mm256_shuffle_epi8(_mm256_packs_epi16(_mm256_packs_epi32(v0.b, v1.b), _mm256_packs_epi32(v2.b, v3.b)), order)};
}
FP4_SIMD B packed_lanes_unsigned(I v0, I v1, I v2, I v3) {
  const I byte = all(0xFF);
  const I low = (v0 & byte) | shift_left<8>(v1 & byte);
  const I high = (v2 & byte) | shift_left<8>(v3 & byte);
  const I x = low | shift_left<16>(high);
  return {x.a, x.b};
}
struct ByteTable {  // 128 entries in eight rows of 16
  __m128i row[8];
};
FP4_SIMD ByteTable load_table(const int8_t* p) {
  ByteTable t;
  for (int i = 0; i < 8; ++i) t.row[i] = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p + 16 * i));
  return t;
}
FP4_SIMD __m256i look_up_half(const ByteTable& t, __m256i index) {
  const __m256i x = _mm256_and_si256(index, _mm256_set1_epi8(0x7F));
  __m256i result = _mm256_setzero_si256();
  for (int i = 0; i < 8; ++i) {  // pshufb gives 0 where bit 7 is set: rows other than i
    const __m256i in_row = _mm256_sub_epi8(x, _mm256_set1_epi8(static_cast<char>(16 * i)));
    const __m256i outside = _mm256_cmpgt_epi8(_mm256_and_si256(in_row, _mm256_set1_epi8(0x70)), _mm256_setzero_si256());
    const __m256i picked =
        _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(t.row[i]),
                            _mm256_or_si256(in_row, _mm256_and_si256(outside, _mm256_set1_epi8(-128))));
    result = _mm256_or_si256(result, picked);
  }
  return result;
}
FP4_SIMD B look_up(const ByteTable& t, B index) { return {look_up_half(t, index.a), look_up_half(t, index.b)}; }
struct NibbleTable {
  __m256i v;
};
FP4_SIMD NibbleTable load_nibble_table(const int8_t* p) {
  return {_mm256_broadcastsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)))};
}
FP4_SIMD __m256i nibbles_of(__m256i table, __m256i order, __m256i x) {
  const __m256i pairs = _mm256_shuffle_epi8(x, order);  // every byte twice
  const __m256i index = _mm256_or_si256(_mm256_and_si256(pairs, _mm256_set1_epi16(0x000F)),
                                        _mm256_and_si256(_mm256_srli_epi16(pairs, 4), _mm256_set1_epi16(0x0F00)));
  return _mm256_shuffle_epi8(table, index);
}
// The entries of four nibbles of every lane: its low or its high half.
template <bool high>
FP4_SIMD B nibble_bytes(NibbleTable t, I x) {
  constexpr char at = high ? 2 : 0;
  const __m256i order =
      _mm256_broadcastsi128_si256(_mm_setr_epi8(at, at, at + 1, at + 1, at + 4, at + 4, at + 5, at + 5, at + 8, at + 8,
                                                at + 9, at + 9, at + 12, at + 12, at + 13, at + 13));
  return {nibbles_of(t.v, order, x.a), nibbles_of(t.v, order, x.b)};
}
// The entries of bytes' magnitudes below 16.
FP4_SIMD B magnitude_entries(NibbleTable t, B x) {
  return {_mm256_shuffle_epi8(t.v, _mm256_abs_epi8(x.a)), _mm256_shuffle_epi8(t.v, _mm256_abs_epi8(x.b))};
}
FP4_SIMD I lanes_of(B x) { return {x.a, x.b}; }
FP4_SIMD B bytes_of(I x) { return {x.a, x.b}; }
// Two times four nibbles of every lane, a byte each, to one dword.
FP4_SIMD __m256i joined_half(__m256i low, __m256i high) {
  const __m256i weights = _mm256_set1_epi16(0x1001);
  const __m256i pairs = _mm256_packus_epi16(_mm256_maddubs_epi16(low, weights), _mm256_maddubs_epi16(high, weights));
  const __m256i order =
      _mm256_broadcastsi128_si256(_mm_setr_epi8(0, 1, 8, 9, 2, 3, 10, 11, 4, 5, 12, 13, 6, 7, 14, 15));
  return _mm256_shuffle_epi8(pairs, order);
}
FP4_SIMD I joined_nibbles(B low, B high) { return {joined_half(low.a, high.a), joined_half(low.b, high.b)}; }
FP4_SIMD B add_bytes(B x, B y) { return {_mm256_add_epi8(x.a, y.a), _mm256_add_epi8(x.b, y.b)}; }
FP4_SIMD B all_bytes(int8_t x) { return {_mm256_set1_epi8(x), _mm256_set1_epi8(x)}; }
FP4_SIMD B within(B x, int8_t low, int8_t high) {
  const __m256i lo = _mm256_set1_epi8(low);
  const __m256i hi = _mm256_set1_epi8(high);
  return {_mm256_min_epi8(_mm256_max_epi8(x.a, lo), hi), _mm256_min_epi8(_mm256_max_epi8(x.b, lo), hi)};
}
FP4_SIMD B load_bytes(const int8_t* p) {
  return {_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)),
          _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p + 32))};
}
FP4_SIMD void store(int8_t* p, B x) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), x.a);
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p + 32), x.b);
}
FP4_SIMD __m256i squares_of(__m256i x) {
  const __m256i magnitude = _mm256_abs_epi8(x);
  return _mm256_madd_epi16(_mm256_maddubs_epi16(magnitude, magnitude), _mm256_set1_epi16(1));
}
FP4_SIMD I add_squares(I sum, B x) {
  return {_mm256_add_epi32(sum.a, squares_of(x.a)), _mm256_add_epi32(sum.b, squares_of(x.b))};
}
FP4_SIMD I add_dots(I sum, uint8_t factor, B x) {
  const __m256i f = _mm256_set1_epi8(static_cast<char>(factor));
  const __m256i one = _mm256_set1_epi16(1);
  return {_mm256_add_epi32(sum.a, _mm256_madd_epi16(_mm256_maddubs_epi16(f, x.a), one)),
          _mm256_add_epi32(sum.b, _mm256_madd_epi16(_mm256_maddubs_epi16(f, x.b), one))};
}

struct Words {
  I word[4];
};
FP4_SIMD Words philox(I block, uint32_t stream, uint32_t step, uint64_t seed) {
  __m256i c[4][4];  // even and odd lanes of both halves
  c[0][0] = block.a;
  c[1][0] = _mm256_srli_epi64(block.a, 32);
  c[2][0] = block.b;
  c[3][0] = _mm256_srli_epi64(block.b, 32);
  for (int part = 0; part < 4; ++part) {
    c[part][1] = _mm256_setzero_si256();
    c[part][2] = _mm256_set1_epi64x(stream);
    c[part][3] = _mm256_set1_epi64x(step);
  }
  const __m256i m0 = _mm256_set1_epi64x(0xD2511F53u);
  const __m256i m1 = _mm256_set1_epi64x(0xCD9E8D57u);
  uint32_t key0 = static_cast<uint32_t>(seed);
  uint32_t key1 = static_cast<uint32_t>(seed >> 32);
  for (int round = 0; round < 10; ++round) {
    const __m256i k0 = _mm256_set1_epi64x(key0);
    const __m256i k1 = _mm256_set1_epi64x(key1);
    for (int part = 0; part < 4; ++part) {
      const __m256i p0 = _mm256_mul_epu32(m0, c[part][0]);
      const __m256i p1 = _mm256_mul_epu32(m1, c[part][2]);
      c[part][0] = _mm256_xor_si256(_mm256_xor_si256(_mm256_srli_epi64(p1, 32), c[part][1]), k0);
      c[part][2] = _mm256_xor_si256(_mm256_xor_si256(_mm256_srli_epi64(p0, 32), c[part][3]), k1);
      c[part][1] = p1;
      c[part][3] = p0;
    }
    key0 += 0x9E3779B9u;
    key1 += 0xBB67AE85u;
  }
  Words w;
  for (int i = 0; i < 4; ++i) {
    w.word[i].a = _mm256_blend_epi32(c[0][i], _mm256_slli_epi64(c[1][i], 32), 0xAA);
    w.word[i].b = _mm256_blend_epi32(c[2][i], _mm256_slli_epi64(c[3][i], 32), 0xAA);
  }
  return w;
}

// 8 rows of 4 floats to 4 vectors of 8.
FP4_SIMD void transpose_8x4(const float* x, int64_t stride, __m256 out[4]) {
  __m256 rows[4];
  for (int r = 0; r < 4; ++r)
    rows[r] = _mm256_set_m128(_mm_loadu_ps(x + (r + 4) * stride), _mm_loadu_ps(x + r * stride));
  const __m256 a = _mm256_unpacklo_ps(rows[0], rows[1]);
  const __m256 b = _mm256_unpackhi_ps(rows[0], rows[1]);
  const __m256 c = _mm256_unpacklo_ps(rows[2], rows[3]);
  const __m256 d = _mm256_unpackhi_ps(rows[2], rows[3]);
  out[0] = _mm256_castpd_ps(_mm256_unpacklo_pd(_mm256_castps_pd(a), _mm256_castps_pd(c)));
  out[1] = _mm256_castpd_ps(_mm256_unpackhi_pd(_mm256_castps_pd(a), _mm256_castps_pd(c)));
  out[2] = _mm256_castpd_ps(_mm256_unpacklo_pd(_mm256_castps_pd(b), _mm256_castps_pd(d)));
  out[3] = _mm256_castpd_ps(_mm256_unpackhi_pd(_mm256_castps_pd(b), _mm256_castps_pd(d)));
}
FP4_SIMD void transpose_16x4(const float* x, int64_t stride, F out[4]) {
  __m256 low[4];
  __m256 high[4];
  transpose_8x4(x, stride, low);
  transpose_8x4(x + 8 * stride, stride, high);
  for (int i = 0; i < 4; ++i) out[i] = {low[i], high[i]};
}

// Columns [k][16 rows] back to rows of `valid` floats.
FP4_SIMD void store_transposed(const float (*x)[16], int rows, int valid, float* out, int64_t stride) {
  for (int r = 0; r < rows; ++r) {
    for (int i = 0; i < valid; ++i) out[r * stride + i] = x[i][r];
  }
}

// Four dwords of sixteen rows, [4][16], to 16 bytes of each row.
FP4_SIMD void store_transposed_dwords(const uint32_t (*x)[16], uint8_t* out, int64_t stride) {
  for (int r0 = 0; r0 < 16; r0 += 8) {
    const __m256i x0 = _mm256_load_si256(reinterpret_cast<const __m256i*>(x[0] + r0));
    const __m256i x1 = _mm256_load_si256(reinterpret_cast<const __m256i*>(x[1] + r0));
    const __m256i x2 = _mm256_load_si256(reinterpret_cast<const __m256i*>(x[2] + r0));
    const __m256i x3 = _mm256_load_si256(reinterpret_cast<const __m256i*>(x[3] + r0));
    const __m256i a = _mm256_unpacklo_epi32(x0, x1);
    const __m256i b = _mm256_unpackhi_epi32(x0, x1);
    const __m256i c = _mm256_unpacklo_epi32(x2, x3);
    const __m256i d = _mm256_unpackhi_epi32(x2, x3);
    const __m256i q[4] = {_mm256_unpacklo_epi64(a, c), _mm256_unpackhi_epi64(a, c), _mm256_unpacklo_epi64(b, d),
                          _mm256_unpackhi_epi64(b, d)};
    for (int r = 0; r < 4; ++r) {  // q[r]: rows r and r + 4
      uint8_t* row = out + (r0 + r) * stride;
      _mm_storeu_si128(reinterpret_cast<__m128i*>(row), _mm256_castsi256_si128(q[r]));
      _mm_storeu_si128(reinterpret_cast<__m128i*>(row + 4 * stride), _mm256_extracti128_si256(q[r], 1));
    }
  }
}

}  // namespace fp4::avx2
