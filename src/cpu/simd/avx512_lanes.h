// Floats, 32-bit integers and truth values of sixteen lanes.
#pragma once

#include <cstdint>

#include "fp4/bits.h"
#include "src/cpu/simd/intrinsics.h"

#define FP4_TARGET __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx512vbmi,fma,bmi2")))
#define FP4_SIMD \
  __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx512vbmi,fma,bmi2"), always_inline)) inline
#define FP4_ISA avx512

namespace fp4::avx512 {

using fp4::is_nan;
using fp4::larger;
using fp4::smaller;

inline constexpr bool has_vnni = true;     // an instruction adds four products of bytes to an int32
inline constexpr bool rounds_down = true;  // products of any length round down to an integer in one step
inline constexpr bool has_fma = true;
inline constexpr int float_rows = 8, float_panels = 2;  // of a float tile: registers for 8 x 2 sums

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

FP4_SIMD void prefetch(const float* p) { _mm_prefetch(reinterpret_cast<const char*>(p), _MM_HINT_T0); }
FP4_SIMD void prefetch_far(const float* p) { _mm_prefetch(reinterpret_cast<const char*>(p), _MM_HINT_T1); }
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
FP4_SIMD F negated_fma(F a, F b, F c) { return {_mm512_fnmadd_ps(a.v, b.v, c.v)}; }  // c - a*b
FP4_SIMD F fma_down(F a, F b, F c) {                                                 // rounded toward minus infinity
  return {_mm512_fmadd_round_ps(a.v, b.v, c.v, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC)};
}
FP4_SIMD F fma_up(F a, F b, F c) {  // rounded toward plus infinity
  return {_mm512_fmadd_round_ps(a.v, b.v, c.v, _MM_FROUND_TO_POS_INF | _MM_FROUND_NO_EXC)};
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
FP4_SIMD I select(M m, I yes, I no) { return {_mm512_mask_blend_epi32(m.v, no.v, yes.v)}; }
FP4_SIMD I add_where(M m, I a, I b) { return {_mm512_mask_add_epi32(a.v, m.v, a.v, b.v)}; }
FP4_SIMD I gather(const uint32_t* base, I index) { return {_mm512_i32gather_epi32(index.v, base, 4)}; }
FP4_SIMD I gather_bytes(const uint8_t* base, I offset) { return {_mm512_i32gather_epi32(offset.v, base, 1)}; }
FP4_SIMD F look_up_16(const float* table, I index) { return {_mm512_permutexvar_ps(index.v, _mm512_load_ps(table))}; }
// Of 32 entries, by the low five bits of an index.
FP4_SIMD F look_up_32(const float* table, I index) {
  return {_mm512_permutex2var_ps(_mm512_load_ps(table), index.v, _mm512_load_ps(table + 16))};
}
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

// Products of the low halves of 64-bit lanes.
typedef uint64_t vq __attribute__((vector_size(64)));
FP4_SIMD vq low_products(vq a, vq b) {
  return reinterpret_cast<vq>(_mm512_mul_epu32(reinterpret_cast<__m512i>(a), reinterpret_cast<__m512i>(b)));
}

}  // namespace fp4::avx512
