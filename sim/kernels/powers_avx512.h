// x^y with the bits of elementary::pow, in a fifth of its time. That one forms exp(y ln x) in fp64 and rounds once to
// fp32. Here two ways get close to it; a lane that is as close to the middle between two floats as they may be wrong
// goes from the first to the second, and from that to elementary::pow itself. So do arguments outside [2^-126, 2^100),
// where elementary::pow has cases of its own, and |y| > 1.
//   by_table    x = 2^e (1 + f) / c with c one of 16, so x^y = (2^e)^y (1 + f)^y / c^y: three lookups and the binomial
//               series of f, |f| <= 2^-5.04, whose first term left out is below 2^-40. elementary::pow leaves out
//               r^9/9! < 2^-32.2 beside a result of at least 0.7: less than 2^21 of the 2^53 units of a result in fp64.
//   by_logarithm  the same logarithm by table, the same polynomial of exp, both with fused steps: within 2^-37.
//               ln x: the first term left out is f^7/7 < 2^-38; |ln x| < 88, so rounding adds less than 2^-44.
//               exp: the same error of its polynomial as long as both choose the same n; where r is within 1e-11 of
//               ln(2)/2 they may not, and the lane is left out, too.
#pragma once

#ifndef FP4_CPU
#define FP4_CPU 512
#endif
#include "sim/kernels/set.h"

namespace fp4::sim::FP4_ISA {

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

static constexpr LogTable log_table = make_log_table();

// What by_table needs of an exponent y. The library's exp errs in the last bits of fp64, far below what is left open.
struct PowerTable {
  float y;
  double terms[7];      // binomial coefficients of y, the seventh first
  double mantissa[16];  // c^-y
  double low[16];       // 2^(y i)
  double high[16];      // of an exponent field without its low four bits, by their next four: 2^(y (field - 1023))

  explicit PowerTable(float exponent) : y(exponent) {
    const double wide = static_cast<double>(y);
    double term = 1.0;
    for (int k = 1; k <= 7; ++k) terms[7 - k] = term = term * (wide - (k - 1)) / k;
    for (int i = 0; i < 16; ++i) {
      mantissa[i] = std::exp(wide * log_table.logarithm[i]);
      low[i] = std::exp2(wide * i);
      high[i] = std::exp2(wide * (16 * (56 + ((i - 8) & 15)) - 1023));
    }
  }
};

struct Powers8 {
  __m512d value;
  __mmask8 unsure;
};

// The 29 bits that rounding drops, within 2^`bits` of one half.
template <int bits>
static inline __attribute__((always_inline)) __mmask8 near_middle(__m512d value) {
  const __m512i from_half = _mm512_add_epi64(_mm512_castpd_si512(value), _mm512_set1_epi64((1 << bits) - (1 << 28)));
  return _mm512_testn_epi64_mask(from_half, _mm512_set1_epi64((1 << 29) - (2 << bits)));
}

static inline __attribute__((always_inline)) __m512d looked_up(const double (&table)[16], __m512i i) {
  return _mm512_permutex2var_pd(_mm512_loadu_pd(table), i, _mm512_loadu_pd(table + 8));  // by the low four bits
}

// f of the logarithm's table: x = 2^e (1 + f) / c, where i is the place of c.
static inline __attribute__((always_inline)) __m512d beside_table(__m512d x, __m512i i) {
  return _mm512_fmsub_pd(_mm512_getmant_pd(x, _MM_MANT_NORM_1_2, _MM_MANT_SIGN_zero), looked_up(log_table.inverse, i),
                         _mm512_set1_pd(1.0));
}

static inline __attribute__((always_inline)) Powers8 by_table(__m256 x32, const PowerTable& t) {
  const __m512d x = _mm512_cvtps_pd(x32);
  const __m512i bits = _mm512_castpd_si512(x);
  const __m512i i = _mm512_srli_epi64(bits, 48);
  const __m512d f = beside_table(x, i);
  const __m512d power =
      _mm512_mul_pd(looked_up(t.low, _mm512_srli_epi64(bits, 52)), looked_up(t.high, _mm512_srli_epi64(bits, 56)));
  __m512d p = _mm512_set1_pd(t.terms[0]);
  for (int k = 1; k < 7; ++k) p = _mm512_fmadd_pd(p, f, _mm512_set1_pd(t.terms[k]));
  const __m512d factor = _mm512_mul_pd(power, looked_up(t.mantissa, i));
  const __m512d value = _mm512_fmadd_pd(_mm512_mul_pd(p, f), factor, factor);
  return {value, near_middle<21>(value)};
}

static inline __attribute__((always_inline)) Powers8 by_logarithm(__m256 x32, const double& exponent) {
  const __m512d y = _mm512_set1_pd(exponent);
  static constexpr double log_terms[] = {1.0 / 5, -1.0 / 4, 1.0 / 3, -1.0 / 2};
  static constexpr double exp_terms[] = {1.0 / 5040.0, 1.0 / 720.0, 1.0 / 120.0, 1.0 / 24.0, 1.0 / 6.0, 0.5};
  const __m512d x = _mm512_cvtps_pd(x32);
  const __m512i i = _mm512_srli_epi64(_mm512_castpd_si512(x), 48);
  const __m512d logarithm = looked_up(log_table.logarithm, i);
  const __m512d f = beside_table(x, i);
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
  return {value, static_cast<__mmask8>(edge | near_middle<17>(value))};
}

struct Powers16 {
  __m512 value;
  uint32_t unsure;
};
template <class Exponent, Powers8 (*way)(__m256, const Exponent&)>
static inline __attribute__((always_inline)) Powers16 both_halves(__m512 x, const Exponent& y) {
  const Powers8 low = way(_mm512_castps512_ps256(x), y);
  const Powers8 high = way(_mm512_extractf32x8_ps(x, 1), y);
  const __m512 value =
      _mm512_insertf32x8(_mm512_castps256_ps512(_mm512_cvtpd_ps(low.value)), _mm512_cvtpd_ps(high.value), 1);
  return {value, low.unsure | static_cast<uint32_t>(high.unsure) << 8};
}

static inline __attribute__((always_inline)) uint32_t outside(__m512 x) {
  const __m512i above_least = _mm512_sub_epi32(_mm512_castps_si512(x), _mm512_set1_epi32(0x00800000));
  return _mm512_cmpge_epu32_mask(above_least, _mm512_set1_epi32(0x71800000 - 0x00800000));
}

// The powers of at most 16 elements, at these places.
static inline __attribute__((always_inline)) void careful_powers(float* out, const float* x, float y,
                                                                 const int32_t* place, int32_t count) {
  const auto used = static_cast<__mmask16>(count < 16 ? (1 << count) - 1 : 0xFFFF);
  const __m512i places = _mm512_maskz_loadu_epi32(used, place);
  const __m512 v = _mm512_mask_i32gather_ps(_mm512_set1_ps(1.0f), used, places, x, 4);
  const Powers16 p = both_halves<double, by_logarithm>(v, static_cast<double>(y));
  _mm512_mask_i32scatter_ps(out, used, places, p.value, 4);
  for (uint32_t left = (outside(v) | p.unsure) & used; left != 0; left &= left - 1) {
    const int32_t i = place[__builtin_ctz(left)];
    out[i] = elementary::pow(x[i], y);
  }
}

// Exponents within 1, a multiple of 16 elements, at most `powers_piece`.
constexpr int powers_piece = 256;
static void quick_powers(float* out, const float* x, const PowerTable& table, int32_t n) {
  int32_t late[powers_piece + 16];  // one element in 128
  int32_t count = 0;
  __m512i places = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
  for (int32_t i = 0; i < n; i += 16) {
    const __m512 v = _mm512_loadu_ps(x + i);
    const Powers16 p = both_halves<PowerTable, by_table>(v, table);
    _mm512_storeu_ps(out + i, p.value);
    const uint32_t unsure = outside(v) | p.unsure;
    _mm512_storeu_si512(late + count, _mm512_maskz_compress_epi32(static_cast<__mmask16>(unsure), places));
    count += __builtin_popcount(unsure);
    places = _mm512_add_epi32(places, _mm512_set1_epi32(16));
  }
  for (int32_t i = 0; i < count; i += 16) careful_powers(out, x, table.y, late + i, count - i);
}

static void powers(float* out, const float* x, float y, int64_t n) {
  int64_t i = 0;
  if (magnitude(y) <= 1.0f) {
    // Slopes come in short pieces that have one exponent.
    static thread_local PowerTable table(y);
    if (bits_of(table.y) != bits_of(y)) table = PowerTable(y);
    for (const int64_t whole = n / 16 * 16; i < whole; i += powers_piece) {
      quick_powers(out + i, x + i, table, static_cast<int32_t>(whole - i < powers_piece ? whole - i : powers_piece));
    }
    i = n / 16 * 16;
  }
  for (; i < n; ++i) out[i] = elementary::pow(x[i], y);
}

}  // namespace fp4::sim::FP4_ISA
