// Sixteen doubles, and loads of one number into all lanes.
#pragma once

#include "src/cpu/simd/avx512_lanes.h"

namespace fp4::avx512 {

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
// a*b + c where a*b is a double.
FP4_SIMD D exact_fma(D a, D b, D c) { return fma(a, b, c); }
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
// The last bit set in the lanes of m.
FP4_SIMD D made_odd(D a, M m) {
  const __m512i one = _mm512_set1_epi64(1);
  const __m512i lo = _mm512_castpd_si512(a.lo);
  const __m512i hi = _mm512_castpd_si512(a.hi);
  return {_mm512_castsi512_pd(_mm512_mask_or_epi64(lo, static_cast<__mmask8>(m.v), lo, one)),
          _mm512_castsi512_pd(_mm512_mask_or_epi64(hi, static_cast<__mmask8>(m.v >> 8), hi, one))};
}
FP4_SIMD __m512d powers_of_two(__m256i exponent) {
  const __m512i field = _mm512_add_epi64(_mm512_cvtepi32_epi64(exponent), _mm512_set1_epi64(1023));
  return _mm512_castsi512_pd(_mm512_slli_epi64(field, 52));
}
FP4_SIMD D powers_of_two(I exponent) {
  return {powers_of_two(_mm512_castsi512_si256(exponent.v)), powers_of_two(_mm512_extracti64x4_epi64(exponent.v, 1))};
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

}  // namespace fp4::avx512
