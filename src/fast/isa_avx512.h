// Sixteen lanes of AVX-512: the vocabulary in which the kernels of src/fast/*_body.h are written. isa_avx2.h has the
// same words for pairs of 256-bit registers, so a kernel exists once and is compiled for both by target attributes.
#pragma once

#if defined(__GNUC__) && !defined(__clang__)
// g++ 12 finds its own _mm512_undefined_*() uninitialised (GCC bug 105593).
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"
#endif
#include <immintrin.h>
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic pop
#endif

#include <cstdint>

#include "fp4/bits.h"

#define FP4_TARGET __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx512vbmi,fma")))
#define FP4_SIMD \
  __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx512vbmi,fma"), always_inline)) inline
#define FP4_ISA avx512

namespace fp4::avx512 {

using fp4::is_nan;
using fp4::larger;
using fp4::smaller;

inline constexpr bool has_wide_kernels = true;  // gemm_wide_avx512.h
inline constexpr bool rounds_down = true;       // products of any length round down to an integer in one step
inline constexpr int float_rows = 8;            // rows of a float tile: registers for 8 x 2 sums

struct F {  // float
  __m512 v;
};
struct I {  // 32-bit integers
  __m512i v;
};
struct M {  // one truth value a lane
  __mmask16 v;
};
struct D {  // double, lanes 0-7 and 8-15
  __m512d lo, hi;
};
struct B {  // 64 bytes: 16 lanes of four
  __m512i v;
};

FP4_SIMD M first_lanes(int n) { return {static_cast<__mmask16>(n >= 16 ? 0xFFFF : n <= 0 ? 0 : (1u << n) - 1u)}; }
FP4_SIMD M operator&(M a, M b) { return {static_cast<__mmask16>(a.v & b.v)}; }
FP4_SIMD M operator|(M a, M b) { return {static_cast<__mmask16>(a.v | b.v)}; }
FP4_SIMD M operator~(M a) { return {static_cast<__mmask16>(~a.v)}; }
FP4_SIMD bool any(M a) { return a.v != 0; }
FP4_SIMD uint32_t to_bits(M a) { return a.v; }
FP4_SIMD M mask_from_bits(uint32_t bits) { return {static_cast<__mmask16>(bits)}; }

FP4_SIMD F load(const float* p) { return {_mm512_loadu_ps(p)}; }
FP4_SIMD F load(const float* p, M m) { return {_mm512_maskz_loadu_ps(m.v, p)}; }
FP4_SIMD void store(float* p, F a) { _mm512_storeu_ps(p, a.v); }
FP4_SIMD void store(float* p, F a, M m) { _mm512_mask_storeu_ps(p, m.v, a.v); }
FP4_SIMD F all(float x) { return {_mm512_set1_ps(x)}; }
FP4_SIMD F operator+(F a, F b) { return {_mm512_add_ps(a.v, b.v)}; }
FP4_SIMD F operator-(F a, F b) { return {_mm512_sub_ps(a.v, b.v)}; }
FP4_SIMD F operator*(F a, F b) { return {_mm512_mul_ps(a.v, b.v)}; }
FP4_SIMD F operator/(F a, F b) { return {_mm512_div_ps(a.v, b.v)}; }
FP4_SIMD F fma(F a, F b, F c) { return {_mm512_fmadd_ps(a.v, b.v, c.v)}; }
FP4_SIMD F fma_down(F a, F b, F c) {  // rounded toward minus infinity
  return {_mm512_fmadd_round_ps(a.v, b.v, c.v, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC)};
}
FP4_SIMD F multiply_down(F a, F b) { return fma_down(a, b, F{_mm512_setzero_ps()}); }
FP4_SIMD F negated_fma_down(F a, F b, F c) {  // c - a*b rounded toward minus infinity
  return {_mm512_fnmadd_round_ps(a.v, b.v, c.v, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC)};
}
FP4_SIMD F smaller(F a, F b) { return {_mm512_min_ps(a.v, b.v)}; }
FP4_SIMD F larger(F a, F b) { return {_mm512_max_ps(a.v, b.v)}; }
FP4_SIMD M operator<(F a, F b) { return {_mm512_cmp_ps_mask(a.v, b.v, _CMP_LT_OQ)}; }
FP4_SIMD M operator>(F a, F b) { return {_mm512_cmp_ps_mask(a.v, b.v, _CMP_GT_OQ)}; }
FP4_SIMD M operator>=(F a, F b) { return {_mm512_cmp_ps_mask(a.v, b.v, _CMP_GE_OQ)}; }
FP4_SIMD M operator==(F a, F b) { return {_mm512_cmp_ps_mask(a.v, b.v, _CMP_EQ_OQ)}; }
FP4_SIMD M is_nan(F a) { return {_mm512_cmp_ps_mask(a.v, a.v, _CMP_UNORD_Q)}; }
FP4_SIMD F select(M m, F yes, F no) { return {_mm512_mask_blend_ps(m.v, no.v, yes.v)}; }

FP4_SIMD I load(const int32_t* p) { return {_mm512_loadu_si512(p)}; }
FP4_SIMD I load(const uint32_t* p) { return {_mm512_loadu_si512(p)}; }
FP4_SIMD void store(int32_t* p, I a) { _mm512_storeu_si512(p, a.v); }
FP4_SIMD void store(uint32_t* p, I a) { _mm512_storeu_si512(p, a.v); }
FP4_SIMD I all(int32_t x) { return {_mm512_set1_epi32(x)}; }
FP4_SIMD I all(uint32_t x) { return {_mm512_set1_epi32(static_cast<int32_t>(x))}; }
FP4_SIMD I lane_numbers() { return {_mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15)}; }
FP4_SIMD I operator+(I a, I b) { return {_mm512_add_epi32(a.v, b.v)}; }
FP4_SIMD I operator-(I a, I b) { return {_mm512_sub_epi32(a.v, b.v)}; }
FP4_SIMD I multiply_low(I a, I b) { return {_mm512_mullo_epi32(a.v, b.v)}; }
FP4_SIMD I operator&(I a, I b) { return {_mm512_and_si512(a.v, b.v)}; }
FP4_SIMD I operator|(I a, I b) { return {_mm512_or_si512(a.v, b.v)}; }
FP4_SIMD I operator^(I a, I b) { return {_mm512_xor_si512(a.v, b.v)}; }
template <int n>
FP4_SIMD I shift_left(I a) {
  return {_mm512_slli_epi32(a.v, n)};
}
template <int n>
FP4_SIMD I shift_right(I a) {
  return {_mm512_srli_epi32(a.v, n)};
}
template <int n>
FP4_SIMD I shift_right_signed(I a) {
  return {_mm512_srai_epi32(a.v, n)};
}
FP4_SIMD I shift_left(I a, I n) { return {_mm512_sllv_epi32(a.v, n.v)}; }
FP4_SIMD I shift_right(I a, I n) { return {_mm512_srlv_epi32(a.v, n.v)}; }
FP4_SIMD I shift_right(I a, int n) { return {_mm512_srl_epi32(a.v, _mm_cvtsi32_si128(n))}; }
FP4_SIMD I shift_left(I a, int n) { return {_mm512_sll_epi32(a.v, _mm_cvtsi32_si128(n))}; }
FP4_SIMD I smaller(I a, I b) { return {_mm512_min_epi32(a.v, b.v)}; }
FP4_SIMD I larger(I a, I b) { return {_mm512_max_epi32(a.v, b.v)}; }
FP4_SIMD I larger_unsigned(I a, I b) { return {_mm512_max_epu32(a.v, b.v)}; }
FP4_SIMD I smaller_unsigned(I a, I b) { return {_mm512_min_epu32(a.v, b.v)}; }
FP4_SIMD M operator==(I a, I b) { return {_mm512_cmpeq_epi32_mask(a.v, b.v)}; }
FP4_SIMD M operator>(I a, I b) { return {_mm512_cmpgt_epi32_mask(a.v, b.v)}; }
FP4_SIMD M operator<(I a, I b) { return {_mm512_cmplt_epi32_mask(a.v, b.v)}; }
FP4_SIMD M operator>=(I a, I b) { return {_mm512_cmpge_epi32_mask(a.v, b.v)}; }
FP4_SIMD M less_unsigned(I a, I b) { return {_mm512_cmplt_epu32_mask(a.v, b.v)}; }
FP4_SIMD I or_where(M m, I a, I b) { return {_mm512_mask_or_epi32(a.v, m.v, a.v, b.v)}; }
FP4_SIMD M no_bits(I a, int32_t mask) { return {_mm512_testn_epi32_mask(a.v, _mm512_set1_epi32(mask))}; }
FP4_SIMD M some_bits(I a, int32_t mask) { return {_mm512_test_epi32_mask(a.v, _mm512_set1_epi32(mask))}; }
// (a >> 14 | 1) mod 128.
FP4_SIMD I odd_index(I a) {
  return {_mm512_ternarylogic_epi32(_mm512_srli_epi32(a.v, 14), _mm512_set1_epi32(0x7F), _mm512_set1_epi32(1), 0xEA)};
}
FP4_SIMD M is_odd(I a) { return {_mm512_test_epi32_mask(a.v, _mm512_set1_epi32(1))}; }
FP4_SIMD I select(M m, I yes, I no) { return {_mm512_mask_blend_epi32(m.v, no.v, yes.v)}; }
FP4_SIMD I add_where(M m, I a, I b) { return {_mm512_mask_add_epi32(a.v, m.v, a.v, b.v)}; }
FP4_SIMD I gather(const uint32_t* base, I index) { return {_mm512_i32gather_epi32(index.v, base, 4)}; }
FP4_SIMD I gather_bytes(const uint8_t* base, I offset) { return {_mm512_i32gather_epi32(offset.v, base, 1)}; }
FP4_SIMD F look_up_16(const float* table, I index) { return {_mm512_permutexvar_ps(index.v, _mm512_load_ps(table))}; }
FP4_SIMD F from_half(I code) { return {_mm512_cvtph_ps(_mm512_cvtepi32_epi16(code.v))}; }
FP4_SIMD int32_t largest_lane(I a) { return _mm512_reduce_max_epi32(a.v); }
FP4_SIMD int32_t smallest_lane(I a) { return _mm512_reduce_min_epi32(a.v); }

FP4_SIMD I bits(F a) { return {_mm512_castps_si512(a.v)}; }
FP4_SIMD F as_float(I a) { return {_mm512_castsi512_ps(a.v)}; }
FP4_SIMD I truncated(F a) { return {_mm512_cvttps_epi32(a.v)}; }
FP4_SIMD I rounded(F a) { return {_mm512_cvt_roundps_epi32(a.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)}; }
FP4_SIMD I rounded_unsigned(F a) {
  return {_mm512_cvt_roundps_epu32(a.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)};
}
FP4_SIMD I truncated_unsigned(F a) { return {_mm512_cvttps_epu32(a.v)}; }
FP4_SIMD F unsigned_to_float(I a) { return {_mm512_cvtepu32_ps(a.v)}; }
FP4_SIMD F to_float(I a) { return {_mm512_cvtepi32_ps(a.v)}; }

FP4_SIMD D widened(F a) {
  return {_mm512_cvtps_pd(_mm512_castps512_ps256(a.v)), _mm512_cvtps_pd(_mm512_extractf32x8_ps(a.v, 1))};
}
FP4_SIMD D load_widened(const float* p) {
  return {_mm512_cvtps_pd(_mm256_loadu_ps(p)), _mm512_cvtps_pd(_mm256_loadu_ps(p + 8))};
}
FP4_SIMD F joined(__m256 lo, __m256 hi) { return {_mm512_insertf32x8(_mm512_castps256_ps512(lo), hi, 1)}; }
FP4_SIMD D all_double(double x) { return {_mm512_set1_pd(x), _mm512_set1_pd(x)}; }
FP4_SIMD void store(double* p, D a) {
  _mm512_storeu_pd(p, a.lo);
  _mm512_storeu_pd(p + 8, a.hi);
}
FP4_SIMD D load_double(const double* p) { return {_mm512_loadu_pd(p), _mm512_loadu_pd(p + 8)}; }
FP4_SIMD D operator*(D a, D b) { return {_mm512_mul_pd(a.lo, b.lo), _mm512_mul_pd(a.hi, b.hi)}; }
FP4_SIMD D operator/(D a, D b) { return {_mm512_div_pd(a.lo, b.lo), _mm512_div_pd(a.hi, b.hi)}; }
FP4_SIMD D operator+(D a, D b) { return {_mm512_add_pd(a.lo, b.lo), _mm512_add_pd(a.hi, b.hi)}; }
FP4_SIMD D operator-(D a, D b) { return {_mm512_sub_pd(a.lo, b.lo), _mm512_sub_pd(a.hi, b.hi)}; }
FP4_SIMD D fma(D a, D b, D c) { return {_mm512_fmadd_pd(a.lo, b.lo, c.lo), _mm512_fmadd_pd(a.hi, b.hi, c.hi)}; }
FP4_SIMD F narrowed(D a) {  // nearest even, no flags
  return joined(_mm512_cvt_roundpd_ps(a.lo, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC),
                _mm512_cvt_roundpd_ps(a.hi, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}
FP4_SIMD F narrowed_toward_zero(D a) {
  return joined(_mm512_cvt_roundpd_ps(a.lo, _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC),
                _mm512_cvt_roundpd_ps(a.hi, _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC));
}
FP4_SIMD M operator!=(D a, D b) {
  return {static_cast<__mmask16>(_mm512_cmp_pd_mask(a.lo, b.lo, _CMP_NEQ_UQ) |
                                 (_mm512_cmp_pd_mask(a.hi, b.hi, _CMP_NEQ_UQ) << 8))};
}

FP4_SIMD D truncated_whole(D a) {
  return {_mm512_roundscale_pd(a.lo, _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC),
          _mm512_roundscale_pd(a.hi, _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC)};
}
FP4_SIMD D rounded_whole(D a) {
  return {_mm512_roundscale_pd(a.lo, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC),
          _mm512_roundscale_pd(a.hi, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)};
}
// The last bit set in the lanes of m.
FP4_SIMD D made_odd(D a, M m) {
  const __m512i one = _mm512_set1_epi64(1);
  const __m512i lo = _mm512_castpd_si512(a.lo);
  const __m512i hi = _mm512_castpd_si512(a.hi);
  return {_mm512_castsi512_pd(_mm512_mask_or_epi64(lo, static_cast<__mmask8>(m.v), lo, one)),
          _mm512_castsi512_pd(_mm512_mask_or_epi64(hi, static_cast<__mmask8>(m.v >> 8), hi, one))};
}
FP4_SIMD D to_double(I a) {
  return {_mm512_cvtepi32_pd(_mm512_castsi512_si256(a.v)), _mm512_cvtepi32_pd(_mm512_extracti64x4_epi64(a.v, 1))};
}
// Doubles halfway between two floats: the low 29 bits are 1000..0.
FP4_SIMD M between_floats(D a) {
  const __m512i low = _mm512_set1_epi64(0x1FFFFFFF);
  const __m512i half = _mm512_set1_epi64(0x10000000);
  return {
      static_cast<__mmask16>(_mm512_cmpeq_epi64_mask(_mm512_and_si512(_mm512_castpd_si512(a.lo), low), half) |
                             (_mm512_cmpeq_epi64_mask(_mm512_and_si512(_mm512_castpd_si512(a.hi), low), half) << 8))};
}
// One unit of the last place toward the part that a sum lost, in the lanes of m.
FP4_SIMD __m512d nudged_half(__m512d s, __m512d error, __mmask8 m) {
  const __m512d product = _mm512_mul_round_pd(s, error, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  const __mmask8 away = _mm512_mask_cmp_pd_mask(m, product, _mm512_setzero_pd(), _CMP_GT_OQ);
  const __mmask8 back = _mm512_mask_cmp_pd_mask(m, product, _mm512_setzero_pd(), _CMP_LT_OQ);
  __m512i bits = _mm512_castpd_si512(s);
  bits = _mm512_mask_add_epi64(bits, away, bits, _mm512_set1_epi64(1));
  bits = _mm512_mask_sub_epi64(bits, back, bits, _mm512_set1_epi64(1));
  return _mm512_castsi512_pd(bits);
}
FP4_SIMD D nudged(D s, D error, M m) {
  return {nudged_half(s.lo, error.lo, static_cast<__mmask8>(m.v)),
          nudged_half(s.hi, error.hi, static_cast<__mmask8>(m.v >> 8))};
}

FP4_SIMD M operator<(D a, D b) {
  return {static_cast<__mmask16>(_mm512_cmp_pd_mask(a.lo, b.lo, _CMP_LT_OQ) |
                                 (_mm512_cmp_pd_mask(a.hi, b.hi, _CMP_LT_OQ) << 8))};
}
// Sign and exponent field of each double.
FP4_SIMD I exponent_fields(D a) {
  const __m256i lo = _mm512_cvtepi64_epi32(_mm512_srli_epi64(_mm512_castpd_si512(a.lo), 52));
  const __m256i hi = _mm512_cvtepi64_epi32(_mm512_srli_epi64(_mm512_castpd_si512(a.hi), 52));
  return {_mm512_inserti64x4(_mm512_castsi256_si512(lo), hi, 1)};
}
FP4_SIMD D select(M m, D yes, D no) {
  return {_mm512_mask_blend_pd(static_cast<__mmask8>(m.v), no.lo, yes.lo),
          _mm512_mask_blend_pd(static_cast<__mmask8>(m.v >> 8), no.hi, yes.hi)};
}

// Loads of one number into all lanes, written as instructions: g++ 12 otherwise loads some of a tile's numbers into
// general registers and spills them.
FP4_SIMD F broadcast(const float* p) {
  F f;
  asm("vbroadcastss %1, %0" : "=v"(f.v) : "m"(*p));
  return f;
}
FP4_SIMD D broadcast_double(const double* p) {
  __m512d d;
  asm("vbroadcastsd %1, %0" : "=v"(d) : "m"(*p));
  return {d, d};
}
// 8 floats of each of `count` rows, `stride` floats apart, as doubles.
FP4_SIMD void widen_rows(const float* p, int64_t stride, int count, double* out) {
  for (int k = 0; k < count; ++k) _mm512_store_pd(out + 8 * k, _mm512_cvtps_pd(_mm256_loadu_ps(p + k * stride)));
}

// Four vectors of small integers v0..v3 to bytes: lane j becomes v0[j] v1[j] v2[j] v3[j] (saturated to int8).
FP4_SIMD B packed_lanes(I v0, I v1, I v2, I v3) {
  const __m512i words01 = _mm512_packs_epi32(v0.v, v1.v);
  const __m512i words23 = _mm512_packs_epi32(v2.v, v3.v);
  const __m512i order = _mm512_broadcast_i32x4(_mm_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15));
  return {_mm512_shuffle_epi8(_mm512_packs_epi16(words01, words23), order)};
}
// The same for 0..255.
FP4_SIMD B packed_lanes_unsigned(I v0, I v1, I v2, I v3) {
  const I low = {_mm512_or_si512(_mm512_and_si512(v0.v, _mm512_set1_epi32(0xFF)),
                                 _mm512_slli_epi32(_mm512_and_si512(v1.v, _mm512_set1_epi32(0xFF)), 8))};
  const I high = {_mm512_or_si512(_mm512_and_si512(v2.v, _mm512_set1_epi32(0xFF)),
                                  _mm512_slli_epi32(_mm512_and_si512(v3.v, _mm512_set1_epi32(0xFF)), 8))};
  return {_mm512_or_si512(low.v, _mm512_slli_epi32(high.v, 16))};
}
struct ByteTable {  // 128 entries, index = low seven bits
  __m512i lo, hi;
};
FP4_SIMD ByteTable load_table(const int8_t* p) { return {_mm512_loadu_si512(p), _mm512_loadu_si512(p + 64)}; }
FP4_SIMD B look_up(ByteTable t, B index) { return {_mm512_permutex2var_epi8(t.lo, index.v, t.hi)}; }
struct NibbleTable {  // 16 entries, four times
  __m512i v;
};
FP4_SIMD NibbleTable load_nibble_table(const int8_t* p) {
  return {_mm512_broadcast_i32x4(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)))};
}
// The entries of four nibbles of every lane: its low or its high half.
template <bool high>
FP4_SIMD B nibble_bytes(NibbleTable t, I a) {
  const __m512i from = _mm512_set1_epi64(high ? 0x3C3834301C181410 : 0x2C2824200C080400);
  return {_mm512_permutexvar_epi8(_mm512_multishift_epi64_epi8(from, a.v), t.v)};
}
// The entries of bytes' magnitudes below 16.
FP4_SIMD B magnitude_entries(NibbleTable t, B a) { return {_mm512_shuffle_epi8(t.v, _mm512_abs_epi8(a.v))}; }
FP4_SIMD I lanes_of(B a) { return {a.v}; }
FP4_SIMD B bytes_of(I a) { return {a.v}; }
// Two times four nibbles of every lane, a byte each, to one dword.
FP4_SIMD I joined_nibbles(B low, B high) {
  const __m512i weights = _mm512_set1_epi16(0x1001);
  const __m512i pairs =
      _mm512_packus_epi16(_mm512_maddubs_epi16(low.v, weights), _mm512_maddubs_epi16(high.v, weights));
  const __m512i order = _mm512_broadcast_i32x4(_mm_setr_epi8(0, 1, 8, 9, 2, 3, 10, 11, 4, 5, 12, 13, 6, 7, 14, 15));
  return {_mm512_shuffle_epi8(pairs, order)};
}
FP4_SIMD B add_bytes(B a, B b) { return {_mm512_add_epi8(a.v, b.v)}; }
FP4_SIMD B all_bytes(int8_t x) { return {_mm512_set1_epi8(x)}; }
FP4_SIMD B within(B a, int8_t low, int8_t high) {
  return {_mm512_min_epi8(_mm512_max_epi8(a.v, _mm512_set1_epi8(low)), _mm512_set1_epi8(high))};
}
FP4_SIMD B load_bytes(const int8_t* p) { return {_mm512_loadu_si512(p)}; }
FP4_SIMD void store(int8_t* p, B a) { _mm512_storeu_si512(p, a.v); }
// Lane sums of squares of bytes above -128, added to sum.
FP4_SIMD I add_squares(I sum, B a) {
  const __m512i magnitude = _mm512_abs_epi8(a.v);
  return {_mm512_dpbusd_epi32(sum.v, magnitude, magnitude)};
}
// Lane sums of factor * byte, added to sum.
FP4_SIMD I add_dots(I sum, uint8_t factor, B a) {
  return {_mm512_dpbusd_epi32(sum.v, _mm512_set1_epi8(static_cast<int8_t>(factor)), a.v)};
}

// Philox4x32-10 of 16 counters (block, 0, stream, step). The 64-bit products live in even and odd lanes apart, so a
// round is one multiply, one shift and one three-way xor a word and half.
struct Words {
  I word[4];
};
FP4_SIMD Words philox(I block, uint32_t stream, uint32_t step, uint64_t seed) {
  __m512i c[2][4];
  c[0][0] = block.v;
  c[1][0] = _mm512_srli_epi64(block.v, 32);
  for (int half = 0; half < 2; ++half) {
    c[half][1] = _mm512_setzero_si512();
    c[half][2] = _mm512_set1_epi64(stream);
    c[half][3] = _mm512_set1_epi64(step);
  }
  const __m512i m0 = _mm512_set1_epi64(0xD2511F53u);
  const __m512i m1 = _mm512_set1_epi64(0xCD9E8D57u);
  uint32_t key0 = static_cast<uint32_t>(seed);
  uint32_t key1 = static_cast<uint32_t>(seed >> 32);
  for (int round = 0; round < 10; ++round) {
    const __m512i k0 = _mm512_set1_epi64(key0);
    const __m512i k1 = _mm512_set1_epi64(key1);
    for (int half = 0; half < 2; ++half) {
      const __m512i p0 = _mm512_mul_epu32(m0, c[half][0]);
      const __m512i p1 = _mm512_mul_epu32(m1, c[half][2]);
      c[half][0] = _mm512_ternarylogic_epi64(_mm512_srli_epi64(p1, 32), c[half][1], k0, 0x96);
      c[half][2] = _mm512_ternarylogic_epi64(_mm512_srli_epi64(p0, 32), c[half][3], k1, 0x96);
      c[half][1] = p1;
      c[half][3] = p0;
    }
    key0 += 0x9E3779B9u;
    key1 += 0xBB67AE85u;
  }
  Words w;
  for (int i = 0; i < 4; ++i) w.word[i].v = _mm512_mask_blend_epi32(0xAAAA, c[0][i], _mm512_slli_epi64(c[1][i], 32));
  return w;
}

// 16 rows of 4 floats (row stride in floats) to 4 vectors, lane = row.
FP4_SIMD void transpose_16x4(const float* x, int64_t stride, F out[4]) {
  __m512 rows[4];
  for (int r = 0; r < 4; ++r) {
    const float* p = x + r * stride;
    __m512 z = _mm512_castps128_ps512(_mm_loadu_ps(p));
    z = _mm512_insertf32x4(z, _mm_loadu_ps(p + 4 * stride), 1);
    z = _mm512_insertf32x4(z, _mm_loadu_ps(p + 8 * stride), 2);
    rows[r] = _mm512_insertf32x4(z, _mm_loadu_ps(p + 12 * stride), 3);
  }
  const __m512 a = _mm512_unpacklo_ps(rows[0], rows[1]);
  const __m512 b = _mm512_unpackhi_ps(rows[0], rows[1]);
  const __m512 c = _mm512_unpacklo_ps(rows[2], rows[3]);
  const __m512 d = _mm512_unpackhi_ps(rows[2], rows[3]);
  out[0].v = _mm512_castpd_ps(_mm512_unpacklo_pd(_mm512_castps_pd(a), _mm512_castps_pd(c)));
  out[1].v = _mm512_castpd_ps(_mm512_unpackhi_pd(_mm512_castps_pd(a), _mm512_castps_pd(c)));
  out[2].v = _mm512_castpd_ps(_mm512_unpacklo_pd(_mm512_castps_pd(b), _mm512_castps_pd(d)));
  out[3].v = _mm512_castpd_ps(_mm512_unpackhi_pd(_mm512_castps_pd(b), _mm512_castps_pd(d)));
}

// Columns [k][16 rows] back to rows of `valid` floats.
FP4_SIMD void store_transposed(const float (*x)[16], int rows, int valid, float* out, int64_t stride) {
  int k = 0;
  for (; k + 4 <= valid && rows == 16; k += 4) {
    const __m512 a = _mm512_unpacklo_ps(_mm512_load_ps(x[k]), _mm512_load_ps(x[k + 1]));
    const __m512 b = _mm512_unpackhi_ps(_mm512_load_ps(x[k]), _mm512_load_ps(x[k + 1]));
    const __m512 c = _mm512_unpacklo_ps(_mm512_load_ps(x[k + 2]), _mm512_load_ps(x[k + 3]));
    const __m512 d = _mm512_unpackhi_ps(_mm512_load_ps(x[k + 2]), _mm512_load_ps(x[k + 3]));
    const __m512d q[4] = {_mm512_unpacklo_pd(_mm512_castps_pd(a), _mm512_castps_pd(c)),
                          _mm512_unpackhi_pd(_mm512_castps_pd(a), _mm512_castps_pd(c)),
                          _mm512_unpacklo_pd(_mm512_castps_pd(b), _mm512_castps_pd(d)),
                          _mm512_unpackhi_pd(_mm512_castps_pd(b), _mm512_castps_pd(d))};
    for (int r = 0; r < 4; ++r) {  // q[r]: rows r, r + 4, r + 8, r + 12
      const __m512 row = _mm512_castpd_ps(q[r]);
      _mm_storeu_ps(out + r * stride + k, _mm512_castps512_ps128(row));
      _mm_storeu_ps(out + (r + 4) * stride + k, _mm512_extractf32x4_ps(row, 1));
      _mm_storeu_ps(out + (r + 8) * stride + k, _mm512_extractf32x4_ps(row, 2));
      _mm_storeu_ps(out + (r + 12) * stride + k, _mm512_extractf32x4_ps(row, 3));
    }
  }
  for (int r = 0; r < rows; ++r) {
    for (int i = k; i < valid; ++i) out[r * stride + i] = x[i][r];
  }
}

// Four dwords of sixteen rows, [4][16], to 16 bytes of each row.
FP4_SIMD void store_transposed_dwords(const uint32_t (*x)[16], uint8_t* out, int64_t stride) {
  const __m512i x0 = _mm512_load_si512(x[0]);
  const __m512i x1 = _mm512_load_si512(x[1]);
  const __m512i x2 = _mm512_load_si512(x[2]);
  const __m512i x3 = _mm512_load_si512(x[3]);
  const __m512i a = _mm512_unpacklo_epi32(x0, x1);
  const __m512i b = _mm512_unpackhi_epi32(x0, x1);
  const __m512i c = _mm512_unpacklo_epi32(x2, x3);
  const __m512i d = _mm512_unpackhi_epi32(x2, x3);
  const __m512i q[4] = {_mm512_unpacklo_epi64(a, c), _mm512_unpackhi_epi64(a, c), _mm512_unpacklo_epi64(b, d),
                        _mm512_unpackhi_epi64(b, d)};
  for (int r = 0; r < 4; ++r) {  // q[r]: rows r, r + 4, r + 8, r + 12
    uint8_t* row = out + r * stride;
    _mm_storeu_si128(reinterpret_cast<__m128i*>(row), _mm512_castsi512_si128(q[r]));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(row + 4 * stride), _mm512_extracti32x4_epi32(q[r], 1));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(row + 8 * stride), _mm512_extracti32x4_epi32(q[r], 2));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(row + 12 * stride), _mm512_extracti32x4_epi32(q[r], 3));
  }
}

}  // namespace fp4::avx512
