// Stochastic codes along a row: draws of eight bits as they lie in memory, and e2m1 codes on the code axis. There
// P(|y|) = min(2|y|, |y| + 2, |y|/2 + 4, 7) is the code with its fraction, and the code is (rne(256 P) + draw) / 256,
// rounded down.
#pragma once

#include "src/fast/run_codes_avx512.h"

namespace fp4::avx512 {

FP4_SIMD I sixteen_draws(const uint8_t* draws) {
  return {_mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(draws)))};
}

// 256 P(|y|) + offset, rounded to nearest-even multiples of the offset's last place; `factor` gives y from x.
FP4_SIMD I code_axis(F x, F factor512, F factor256, F factor128, float offset) {
  const F a = as_float(bits(x) & all(0x7FFFFFFF));
  const F low = smaller(fma(a, factor512, all(offset)), fma(a, factor256, all(offset + 512.0f)));
  const F high = smaller(fma(a, factor128, all(offset + 1024.0f)), all(offset + 1792.0f));
  return bits(smaller(low, high));
}

// Exact sums leave codes from bit 8 on. Sums from an estimate of y have eleven more places: the estimate is within one
// of the last of them, two are added, and a sum whose low bits are then below four could have another code.
inline constexpr int exact_at = 8;
inline constexpr int estimate_at = 19;
inline constexpr float estimate_magic = 6144.0f + 0.5f + 2 * 0x1p-11f;  // 1.5 * 2^12, and half a step of the draws

// Where codes start, and the sum of an element before its draw.
template <RunKind kind, bool estimates = kind == RunKind::quotient>
inline constexpr int codes_at = estimates ? estimate_at : exact_at;
template <RunKind kind, bool estimates = kind == RunKind::quotient>
FP4_SIMD I sum_before_draw(F x, F low, F high, F third, float offset = estimates ? estimate_magic : to_integer) {
  if (kind == RunKind::product) return code_axis(x * low, all(512.0f), all(256.0f), all(128.0f), offset);
  return code_axis(x, low, high, third, offset);
}
FP4_SIMD I add_draw_to_estimate(I sum, I draw) {
  return {_mm512_dpwssd_epi32(sum.v, draw.v, _mm512_set1_epi32(1 << (estimate_at - exact_at)))};
}
// `sure`, where no sum from an estimate could have another code.
FP4_SIMD __mmask16 still_sure(__mmask16 sure, I sum) {
  return _mm512_mask_test_epi32_mask(sure, sum.v, _mm512_set1_epi32(0x7FFFC));
}

// Four vectors of sums, with codes from bit `at` on, and the signs of their elements to bytes, lane by lane.
template <int at>
FP4_SIMD I merged_codes(const I (&v)[4], const I (&x)[4]) {
  constexpr uint32_t sign = 8u << at;
  const I v0 = bits_where(v[0], shift_right<28 - at>(x[0]), sign);
  const I v1 = bits_where(v[1], shift_right<28 - at>(x[1]), sign);
  const I v2 = bits_where(v[2], shift_right<28 - at>(x[2]), sign);
  const I v3 = bits_where(v[3], shift_right<28 - at>(x[3]), sign);
  const I second = at == 8 ? v1 : shift_right<at - 8>(v1);
  const I third = at < 16 ? shift_left<(at < 16 ? 16 - at : 0)>(v2) : shift_right<(at < 16 ? 0 : at - 16)>(v2);
  const I low = bits_where(shift_right<at>(v0), second, 0xFF00);
  const I high = bits_where(third, shift_left<24 - at>(v3), 0xFF000000u);
  const I codes = {_mm512_mask_blend_epi16(0xAAAAAAAAu, low.v, high.v)};
  return at == exact_at ? codes : codes & all(0x0F0F0F0F);
}

// Sums of four vectors by way of the exact quotient.
FP4_TARGET __attribute__((noinline)) inline void exact_sums(const Run& run, const float* x, int vector, int width,
                                                            const uint8_t* draws, uint32_t (*out)[panel_rows]) {
  for (int i = 0; i < 4; ++i) {
    alignas(64) float payload[1][panel_rows];
    exact_payloads(run, (vector + 2 * i) / width, x + i * quad_step, payload);
    const I sum = code_axis(load(payload[0]), all(512.0f), all(256.0f), all(128.0f), to_integer) +
                  sixteen_draws(draws + i * quad_step);
    store(out[i], shift_left<estimate_at - exact_at>(sum & all(0x700)));
  }
}

// Stochastic codes of vectors vector, vector + 2, vector + 4 and vector + 6 of a run; the first one is at x, its draws
// at `draws`.
template <RunKind kind, int width>
FP4_SIMD I drawn_codes(const RunPlan& r, const Run& run, const RunFactors& f, const float* x, int vector,
                       const uint8_t* draws) {
  I sum[4];
  I signs[4];
  __mmask16 sure = 0xFFFF;
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    const int block = (vector + 2 * i) / width;
    const F v = load(x + i * quad_step);
    const I draw = sixteen_draws(draws + i * quad_step);
    signs[i] = bits(v);
    sum[i] = sum_before_draw<kind>(v, all(f.low[block]), all(f.high[block]), all(f.third[block]));
    sum[i] = kind == RunKind::quotient ? add_draw_to_estimate(sum[i], draw) : sum[i] + draw;
    if (kind == RunKind::quotient) sure = still_sure(sure, sum[i]);
  }
  if (kind == RunKind::quotient && __builtin_expect(sure != 0xFFFF, 0)) {
    alignas(64) uint32_t exact[4][panel_rows];
    exact_sums(run, x, vector, width, draws, exact);
    sum[0] = load(exact[0]);
    sum[1] = load(exact[1]);
    sum[2] = load(exact[2]);
    sum[3] = load(exact[3]);
  }
  const I codes = merged_codes<codes_at<kind>>(sum, signs);
  if (!r.drops) return codes;
  return {_mm512_maskz_mov_epi8(_mm512_cmpneq_epi8_mask(codes.v, _mm512_set1_epi8(8)), codes.v)};
}

}  // namespace fp4::avx512
