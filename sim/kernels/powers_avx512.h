// x^y with the bits of elementary::pow, in a third of its time. Both form exp(y ln x) in fp64 and round once to fp32;
// here the logarithm comes from a table of 16 and fused steps, the exponential is the same polynomial with fused steps.
// Results in fp64 then differ by less than 2^-37 in relation, so they round to the same float unless one lies that
// close to the middle between two floats. Such lanes, arguments outside [2^-126, 2^100), where elementary::pow has
// cases of its own, and |y| > 1 are left to elementary::pow itself.
//   ln x: |f| <= 2^-5.04, the first term left out is f^7/7 < 2^-38; |ln x| < 88, so rounding adds less than 2^-44.
//   exp: the same error of its polynomial (2^-32) as long as both choose the same n; where r is within 1e-11 of
//   ln(2)/2 they may not, and the lane is left out, too.
// Included like kernels_body.h, before it.

struct LogTable {
  double inverse[16];    // of the middle of sixteenth i of [1, 2)
  double logarithm[16];  // of 1/inverse
};
static constexpr LogTable make_log_table() {
  LogTable t = {};
  for (int i = 0; i < 16; ++i) {
    t.inverse[i] = 32.0 / (33.0 + 2.0 * i);
    const double s = (1.0 - t.inverse[i]) / (1.0 + t.inverse[i]);
    double power = s, sum = 0.0;
    for (int k = 1; k < 40; k += 2, power *= s * s) sum += power / k;
    t.logarithm[i] = 2.0 * sum;
  }
  return t;
}

struct Powers8 {
  __m512d value;
  __mmask8 unsure;
};
static inline __attribute__((always_inline)) Powers8 quick_powers(__m256 x32, __m512d y) {
  static constexpr LogTable table = make_log_table();
  static constexpr double log_terms[] = {1.0 / 5, -1.0 / 4, 1.0 / 3, -1.0 / 2};
  static constexpr double exp_terms[] = {1.0 / 5040.0, 1.0 / 720.0, 1.0 / 120.0, 1.0 / 24.0, 1.0 / 6.0, 0.5};
  const __m512d x = _mm512_cvtps_pd(x32);
  const __m512d m = _mm512_getmant_pd(x, _MM_MANT_NORM_1_2, _MM_MANT_SIGN_zero);
  const __m512i i = _mm512_srli_epi64(_mm512_castpd_si512(m), 48);  // lookups read the low four bits
  const __m512d inverse = _mm512_permutex2var_pd(_mm512_loadu_pd(table.inverse), i, _mm512_loadu_pd(table.inverse + 8));
  const __m512d logarithm =
      _mm512_permutex2var_pd(_mm512_loadu_pd(table.logarithm), i, _mm512_loadu_pd(table.logarithm + 8));
  const __m512d f = _mm512_fmsub_pd(m, inverse, _mm512_set1_pd(1.0));
  __m512d p = _mm512_set1_pd(-1.0 / 6);
  for (double term : log_terms) p = _mm512_fmadd_pd(p, f, _mm512_set1_pd(term));
  const __m512d ln2 = _mm512_set1_pd(0.69314718055994530942);
  const __m512d coarse = _mm512_fmadd_pd(_mm512_getexp_pd(x), ln2, logarithm);
  const __m512d log_x = _mm512_add_pd(coarse, _mm512_fmadd_pd(_mm512_mul_pd(f, f), p, f));
  const __m512d t = _mm512_mul_pd(y, log_x);
  const __m512d shift = _mm512_set1_pd(6755399441055744.0);  // 1.5 * 2^52
  const __m512d n = _mm512_sub_pd(_mm512_fmadd_pd(t, _mm512_set1_pd(1.4426950408889634), shift), shift);
  const __m512d r = _mm512_fnmadd_pd(n, ln2, t);
  __m512d q = _mm512_set1_pd(1.0 / 40320.0);
  for (double term : exp_terms) q = _mm512_fmadd_pd(q, r, _mm512_set1_pd(term));
  q = _mm512_add_pd(_mm512_fmadd_pd(_mm512_mul_pd(q, r), r, r), _mm512_set1_pd(1.0));
  const __m512d value = _mm512_scalef_pd(q, n);
  const __mmask8 edge = _mm512_cmp_pd_mask(_mm512_abs_pd(r), _mm512_set1_pd(0.34657359026), _CMP_NLT_UQ);
  // The 29 bits that rounding drops, within 2^17 of one half: 2^-36 of the result at least.
  const __m512i from_half = _mm512_add_epi64(_mm512_castpd_si512(value), _mm512_set1_epi64((1 << 17) - (1 << 28)));
  const __mmask8 middle = _mm512_testn_epi64_mask(from_half, _mm512_set1_epi64((1 << 29) - (1 << 18)));
  return {value, static_cast<__mmask8>(edge | middle)};
}

static void powers(float* out, const float* x, float y, int64_t n) {
  const bool is_quick = magnitude(y) <= 1.0f;
  const __m512d exponent = _mm512_set1_pd(static_cast<double>(y));
  int64_t i = 0;
  for (; is_quick && i + 16 <= n; i += 16) {
    const __m512 v = _mm512_loadu_ps(x + i);
    const Powers8 low = quick_powers(_mm512_castps512_ps256(v), exponent);
    const Powers8 high = quick_powers(_mm512_extractf32x8_ps(v, 1), exponent);
    const __m512i above_least = _mm512_sub_epi32(_mm512_castps_si512(v), _mm512_set1_epi32(0x00800000));
    const __mmask16 outside = _mm512_cmpge_epu32_mask(above_least, _mm512_set1_epi32(0x71800000 - 0x00800000));
    const uint32_t unsure = outside | low.unsure | static_cast<uint32_t>(high.unsure) << 8;
    const __m512 value =
        _mm512_insertf32x8(_mm512_castps256_ps512(_mm512_cvtpd_ps(low.value)), _mm512_cvtpd_ps(high.value), 1);
    float exact[16];
    for (uint32_t left = unsure; left != 0; left &= left - 1) {
      const int lane = __builtin_ctz(left);
      exact[lane] = elementary::pow(x[i + lane], y);
    }
    _mm512_storeu_ps(out + i, unsure == 0 ? value : _mm512_mask_loadu_ps(value, static_cast<__mmask16>(unsure), exact));
  }
  for (; i < n; ++i) out[i] = elementary::pow(x[i], y);
}
