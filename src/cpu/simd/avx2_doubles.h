// Sixteen doubles in four registers, and loads of one number into all lanes.
#pragma once

#include "src/cpu/simd/avx2_lanes.h"

namespace fp4::avx2 {

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
// x*y + z where x*y is a double.
FP4_SIMD D exact_fma(D x, D y, D z) { return fma(x, y, z); }
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
// x*y in whole units, cut toward zero. Only products that lost something and are whole numbers may have been rounded
// up.
FP4_SIMD D cut_product(D x, D y, D per_unit) {
  const D zero = all_double(0.0);
  const D product = x * y;
  const D units = product * per_unit;
  const D cut = truncated_whole(units);
  const D lost = fma(x, y, zero - product);
  __m256d doubt = _mm256_setzero_pd();
  for (int i = 0; i < 4; ++i) {
    doubt = _mm256_or_pd(doubt, _mm256_and_pd(_mm256_cmp_pd(cut.v[i], units.v[i], _CMP_EQ_OQ), lost.v[i]));
  }
  if (_mm256_testz_si256(_mm256_castpd_si256(doubt), _mm256_set1_epi64x(INT64_MAX)) != 0) return cut;
  const M went_up = product * lost < zero;
  return select(went_up, truncated_whole(nudged(product, lost, went_up) * per_unit), cut);
}
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

}  // namespace fp4::avx2
