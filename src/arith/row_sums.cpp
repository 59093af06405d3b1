// Eight columns at a time: no fused multiply-add and the same order of additions everywhere, so the same bits.
#include "src/arith/row_sums.h"

#include <algorithm>
#include <cstring>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace fp4 {
namespace {

constexpr int sum_lanes = 8;
using Floats = float __attribute__((vector_size(4 * sum_lanes)));
using Ints = int32_t __attribute__((vector_size(4 * sum_lanes)));
using Doubles = double __attribute__((vector_size(8 * sum_lanes)));
constexpr int32_t infinity_bits = 0x7f800000, all_but_sign = 0x7fffffff;

struct Sums {
  Doubles errors = {}, squares = {}, largest = {};
  Ints clipped = {}, zeros = {}, underflows = {}, finite = {};
};

// Eight columns.
inline __attribute__((always_inline)) void add_columns(Sums& s, const Ints& xbits, const Ints& ybits, const Ints& code,
                                                       int32_t largest_code) {
  const Ints xm = xbits & all_but_sign, ym = ybits & all_but_sign;
  const Ints is_finite = (xm < infinity_bits) & (ym < infinity_bits);
  const Ints xfinite = xbits & is_finite, yfinite = ybits & is_finite;
  Floats xv, yv;
  std::memcpy(&xv, &xfinite, sizeof xv);
  std::memcpy(&yv, &yfinite, sizeof yv);
  const Doubles xd = __builtin_convertvector(xv, Doubles), yd = __builtin_convertvector(yv, Doubles);
  const Doubles error = xd - yd;
  s.errors += error * error;
  s.squares += xd * xd;
  const Doubles distance = error < 0 ? -error : error;
  s.largest = distance > s.largest ? distance : s.largest;
  const Ints is_zero = (ym == 0) & is_finite;
  s.finite -= is_finite;
  s.zeros -= is_zero;
  s.underflows -= is_zero & (xm != 0);
  s.clipped -= is_finite & (ym != 0) & (xm > ym) & (code == largest_code);
}

// Codes of `count` columns from k on.
inline __attribute__((always_inline)) void read_codes(Ints& code, const StatisticsRow& r, int64_t k, size_t count) {
  using Bytes = uint8_t __attribute__((vector_size(sum_lanes)));
  using Halves = uint16_t __attribute__((vector_size(2 * sum_lanes)));
  const Ints shifts = {0, 4, 8, 12, 16, 20, 24, 28};
  uint32_t word = 0;
  Bytes bytes = {};
  Halves halves = {};
  switch (r.code_bits) {
    case 4: std::memcpy(&word, r.codes + k / 2, (count + 1) / 2); break;
    case 8: std::memcpy(&bytes, r.codes + k, count); break;
    case 16: std::memcpy(&halves, r.codes + 2 * k, 2 * count); break;
    default: std::memcpy(&code, r.codes + 4 * k, 4 * count);
  }
  if (r.code_bits == 4) code = (code + static_cast<int32_t>(word)) >> shifts;
  if (r.code_bits == 8) code = __builtin_convertvector(bytes, Ints);
  if (r.code_bits == 16) code = __builtin_convertvector(halves, Ints);
  code &= r.mask;
}

// `count` columns from k on, and zeros in the place of others: finite, and zero on both sides.
inline __attribute__((always_inline)) void add_at(Sums& s, const StatisticsRow& r, int64_t k, size_t count) {
  Ints xbits = {}, ybits = {}, code = {};
  std::memcpy(&xbits, r.x + k, count * 4);
  std::memcpy(&ybits, r.y + k, count * 4);
  read_codes(code, r, k, count);
  add_columns(s, xbits, ybits, code, r.largest);
}

RowStatistics row_of_sums(const Sums& s, int64_t cols) {
  RowStatistics sums;
  for (int lane = 0; lane < sum_lanes; ++lane) {
    sums.error_squares += s.errors[lane];
    sums.squares += s.squares[lane];
    sums.largest_error = std::max(sums.largest_error, static_cast<double>(s.largest[lane]));
    sums.clipped += s.clipped[lane];
    sums.zeros += s.zeros[lane];
    sums.underflows += s.underflows[lane];
    sums.nonfinite -= s.finite[lane];
  }
  const int64_t padding = (cols + sum_lanes - 1) / sum_lanes * sum_lanes - cols;
  sums.nonfinite += cols + padding;
  sums.zeros -= padding;
  return sums;
}

inline __attribute__((always_inline)) RowStatistics summed(const StatisticsRow& r) {
  Sums s;
  int64_t k = 0;
  for (; k + sum_lanes <= r.cols; k += sum_lanes) add_at(s, r, k, sum_lanes);
  if (k < r.cols) add_at(s, r, k, static_cast<size_t>(r.cols - k));
  return row_of_sums(s, r.cols);
}

#if defined(__x86_64__)
__attribute__((target("avx2"))) RowStatistics summed_avx2(const StatisticsRow& r) { return summed(r); }

// g++ 12 calls the plain forms of some instructions uninitialised (GCC bug 105593); a full mask is none.
constexpr __mmask8 all8 = 0xff;
constexpr __mmask16 all16 = 0xffff;

// Sixteen columns of packed codes at a time, the first eight of them added first; facts are mask registers.
__attribute__((target("avx512f,avx512dq,avx512vl,avx512bw"))) RowStatistics summed_avx512(const StatisticsRow& r) {
  if (r.code_bits != 4) return summed(r);
  const __m512i magnitude = _mm512_set1_epi32(all_but_sign), infinity = _mm512_set1_epi32(infinity_bits);
  const __m512i one = _mm512_set1_epi32(1), zero = _mm512_setzero_si512();
  const __m512i code_mask = _mm512_set1_epi32(r.mask), largest_code = _mm512_set1_epi32(r.largest);
  const __m512i word_of = _mm512_setr_epi32(0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1);
  const __m512i shifts = _mm512_setr_epi32(0, 4, 8, 12, 16, 20, 24, 28, 0, 4, 8, 12, 16, 20, 24, 28);
  __m512d errors = _mm512_setzero_pd(), squares = errors, largest = errors;
  __m512i clipped = zero, zeros = zero, underflows = zero, finite = zero;
  const auto add = [&](__m256 xv, __m256 yv) __attribute__((target("avx512f,avx512dq,avx512vl,avx512bw"))) {
    const __m512d x = _mm512_maskz_cvtps_pd(all8, xv), error = _mm512_sub_pd(x, _mm512_maskz_cvtps_pd(all8, yv));
    errors = _mm512_add_pd(errors, _mm512_mul_pd(error, error));
    squares = _mm512_add_pd(squares, _mm512_mul_pd(x, x));
    largest = _mm512_maskz_max_pd(all8, _mm512_abs_pd(error), largest);
  };
  int64_t k = 0;
  for (; k + 16 <= r.cols; k += 16) {
    const __m512i x = _mm512_loadu_si512(r.x + k), y = _mm512_loadu_si512(r.y + k);
    const __m512i xm = _mm512_and_si512(x, magnitude), ym = _mm512_and_si512(y, magnitude);
    const __mmask16 is_finite = _mm512_mask_cmplt_epi32_mask(_mm512_cmplt_epi32_mask(xm, infinity), ym, infinity);
    const __m512 xv = _mm512_castsi512_ps(_mm512_maskz_mov_epi32(is_finite, x));
    const __m512 yv = _mm512_castsi512_ps(_mm512_maskz_mov_epi32(is_finite, y));
    add(_mm512_maskz_extractf32x8_ps(all8, xv, 0), _mm512_maskz_extractf32x8_ps(all8, yv, 0));
    add(_mm512_maskz_extractf32x8_ps(all8, xv, 1), _mm512_maskz_extractf32x8_ps(all8, yv, 1));
    int64_t words;
    std::memcpy(&words, r.codes + k / 2, 8);
    const __m512i both = _mm512_castsi128_si512(_mm_cvtsi64_si128(words));
    const __m512i code = _mm512_and_si512(
        _mm512_maskz_srlv_epi32(all16, _mm512_maskz_permutexvar_epi32(all16, word_of, both), shifts), code_mask);
    const __mmask16 is_zero = _mm512_mask_cmpeq_epi32_mask(is_finite, ym, zero);
    const __mmask16 is_beyond = _mm512_mask_cmpgt_epi32_mask(is_finite, xm, ym);
    const __mmask16 is_largest = _mm512_mask_cmpeq_epi32_mask(is_beyond, code, largest_code);
    finite = _mm512_mask_add_epi32(finite, is_finite, finite, one);
    zeros = _mm512_mask_add_epi32(zeros, is_zero, zeros, one);
    underflows = _mm512_mask_add_epi32(underflows, _mm512_mask_cmpneq_epi32_mask(is_zero, xm, zero), underflows, one);
    clipped = _mm512_mask_add_epi32(clipped, _mm512_mask_cmpneq_epi32_mask(is_largest, ym, zero), clipped, one);
  }
  Sums s;
  const auto store =
      [](Ints & to, const __m512i& counts) __attribute__((target("avx512f,avx512dq,avx512vl,avx512bw"))) {
    const __m256i sum = _mm256_add_epi32(_mm512_maskz_extracti32x8_epi32(all8, counts, 0),
                                         _mm512_maskz_extracti32x8_epi32(all8, counts, 1));
    std::memcpy(&to, &sum, sizeof to);
  };
  std::memcpy(&s.errors, &errors, sizeof errors);
  std::memcpy(&s.squares, &squares, sizeof squares);
  std::memcpy(&s.largest, &largest, sizeof largest);
  store(s.finite, finite);
  store(s.zeros, zeros);
  store(s.underflows, underflows);
  store(s.clipped, clipped);
  for (; k < r.cols; k += sum_lanes) add_at(s, r, k, static_cast<size_t>(std::min<int64_t>(r.cols - k, sum_lanes)));
  return row_of_sums(s, r.cols);
}

using Summed = RowStatistics (*)(const StatisticsRow&);
Summed widest_sum() {
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
      __builtin_cpu_supports("avx512bw"))
    return summed_avx512;
  return __builtin_cpu_supports("avx2") ? summed_avx2 : sum_row_plain;
}
#endif

}  // namespace

RowStatistics sum_row_plain(const StatisticsRow& row) { return summed(row); }

RowStatistics sum_row(const StatisticsRow& row) {
#if defined(__x86_64__)
  static const Summed sum = widest_sum();
  return sum(row);
#else
  return sum_row_plain(row);
#endif
}

}  // namespace fp4
