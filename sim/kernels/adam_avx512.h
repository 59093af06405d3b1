// AdamW with the square root out of the divider's way: in the plain loop (optimizer_body.h) root and quotient share one
// slow unit.
#pragma once

#ifndef FP4_CPU
#define FP4_CPU 512
#endif
#include "sim/kernels/optimizer_body.h"

namespace fp4::sim::FP4_ISA {

struct AdamLanes {
  __m512 mean, square;  // new moments
  __m512 lifted;        // 2^40 times the corrected second moment
};

static inline AdamLanes adam_moments(const float* m, const float* v, const float* g, const AdamStep& p) {
  const auto times = [](float a, __m512 x) { return _mm512_mul_ps(_mm512_set1_ps(a), x); };
  const __m512 d = times(p.gradient_scale, _mm512_loadu_ps(g));
  AdamLanes a;
  a.mean = _mm512_add_ps(times(p.beta1, _mm512_loadu_ps(m)), times(1.0f - p.beta1, d));
  a.square = _mm512_add_ps(times(p.beta2, _mm512_loadu_ps(v)), times(1.0f - p.beta2, _mm512_mul_ps(d, d)));
  a.lifted = times(p.correction2 * 0x1p40f, a.square);
  return a;
}

// sqrt(x) + eps of x = lifted / 2^40, rounded twice like the plain loop's. One Newton step from 14 bits, and the rest
// x - root^2, which fma gives exactly, round the root correctly for 2^-100 <= lifted < 2^100 (tests/test_ops.cpp tries
// every significand). What lies below adds nothing to an eps of 2^-40 or more, and so does all that would be subnormal
// before it is lifted.
static inline __m512 adam_denominator(__m512 lifted, float eps) {
  const __m512 x = _mm512_max_ps(lifted, _mm512_set1_ps(0x1p-100f)), half = _mm512_set1_ps(0.5f);
  const __m512 guess = _mm512_rsqrt14_ps(x);
  __m512 root = _mm512_mul_ps(x, guess), slope = _mm512_mul_ps(guess, half);
  const __m512 error = _mm512_fnmadd_ps(root, slope, half);
  root = _mm512_fmadd_ps(root, error, root);
  slope = _mm512_fmadd_ps(slope, error, slope);  // 1 / (2 sqrt x)
  root = _mm512_fmadd_ps(_mm512_fnmadd_ps(root, root, x), slope, root);
  return _mm512_fmadd_ps(root, _mm512_set1_ps(0x1p-20f), _mm512_set1_ps(eps));
}

// The new weights; 0 * weight joins `bad`, which infinities and NaN turn into NaN.
static inline __m512 adam_weights(__m512 w, const AdamLanes& a, const AdamStep& p, __m512& bad) {
  const __m512 mean = _mm512_mul_ps(a.mean, _mm512_set1_ps(p.correction1));
  const __m512 decay = _mm512_mul_ps(_mm512_set1_ps(p.weight_decay), w);
  const __m512 step = _mm512_add_ps(_mm512_div_ps(mean, adam_denominator(a.lifted, p.eps)), decay);
  w = _mm512_sub_ps(w, _mm512_mul_ps(_mm512_set1_ps(p.lr), step));
  bad = _mm512_fmadd_ps(w, _mm512_setzero_ps(), bad);
  return w;
}

static bool adam(float* w, float* m, float* v, const float* g, int64_t n, const AdamStep& step) {
  const AdamStep p = step;
  if (!(p.eps >= 0x1p-40f && p.correction2 >= 1.0f && p.correction2 < 0x1p40f)) return adam_plain(w, m, v, g, n, p);
  bool is_finite = true;
  __m512 bad = _mm512_setzero_ps();
  int64_t i = 0;
  for (; i + 32 <= n; i += 32) {
    const AdamLanes a = adam_moments(m + i, v + i, g + i, p), b = adam_moments(m + i + 16, v + i + 16, g + i + 16, p);
    // Not below the limit, or NaN on the right; a NaN on the left stays one in either loop.
    if (_mm512_cmp_ps_mask(_mm512_max_ps(a.lifted, b.lifted), _mm512_set1_ps(0x1p100f), _CMP_NLT_UQ) != 0) {
      is_finite &= adam_plain(w + i, m + i, v + i, g + i, 32, p);
      continue;
    }
    const __m512 low = adam_weights(_mm512_loadu_ps(w + i), a, p, bad);
    const __m512 high = adam_weights(_mm512_loadu_ps(w + i + 16), b, p, bad);
    _mm512_storeu_ps(w + i, low), _mm512_storeu_ps(w + i + 16, high);
    _mm512_storeu_ps(m + i, a.mean), _mm512_storeu_ps(m + i + 16, b.mean);
    _mm512_storeu_ps(v + i, a.square), _mm512_storeu_ps(v + i + 16, b.square);
  }
  is_finite &= adam_plain(w + i, m + i, v + i, g + i, n - i, p);
  return is_finite && _mm512_cmp_ps_mask(bad, bad, _CMP_UNORD_Q) == 0;
}

}  // namespace fp4::sim::FP4_ISA
