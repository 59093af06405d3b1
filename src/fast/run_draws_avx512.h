// Stochastic codes along a row: draws of eight bits as they lie in memory, and e2m1 codes on the code axis. There
// P(|y|) = min(2|y|, |y| + 2, |y|/2 + 4, 7) is the code with its fraction, and the code is (rne(256 P) + draw) / 256,
// rounded down.
#pragma once

#include "src/fast/run_codes_avx512.h"

namespace fp4::avx512 {

// Draws of 256 adjacent elements, of Philox blocks `first` to `first` + 15.
FP4_SIMD void fill_run_draws(const QuantPlan& p, uint32_t first, uint8_t* out) {
  // Lane j counts block j / 4 + j % 4 * 4, so that four dwords of four lanes, transposed, are four whole blocks.
  const I order = {_mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15)};
  const Words w = philox(order + all(first), p.place.stream, p.place.step, p.place.seed);
  const __m512i a = _mm512_unpacklo_epi32(w.word[0].v, w.word[1].v);
  const __m512i b = _mm512_unpackhi_epi32(w.word[0].v, w.word[1].v);
  const __m512i c = _mm512_unpacklo_epi32(w.word[2].v, w.word[3].v);
  const __m512i d = _mm512_unpackhi_epi32(w.word[2].v, w.word[3].v);
  _mm512_storeu_si512(out, _mm512_unpacklo_epi64(a, c));
  _mm512_storeu_si512(out + 64, _mm512_unpackhi_epi64(a, c));
  _mm512_storeu_si512(out + 128, _mm512_unpacklo_epi64(b, d));
  _mm512_storeu_si512(out + 192, _mm512_unpackhi_epi64(b, d));
}

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

// b where the mask has bits, else a.
FP4_SIMD I bits_where(I a, I b, uint32_t mask) {
  return {_mm512_ternarylogic_epi32(a.v, b.v, _mm512_set1_epi32(static_cast<int>(mask)), 0xD8)};
}

// Four vectors of sums, with codes from bit `at` on, and the signs of their elements to bytes, lane by lane.
template <int at>
FP4_SIMD I merged_codes(I (&v)[4], const float* const (&x)[4]) {
  for (int i = 0; i < 4; ++i) v[i] = bits_where(v[i], shift_right<28 - at>(bits(load(x[i]))), 8u << at);
  const I v1 = at == 8 ? v[1] : shift_right<at - 8>(v[1]);
  const I v2 = at < 16 ? shift_left<(at < 16 ? 16 - at : 0)>(v[2]) : shift_right<(at < 16 ? 0 : at - 16)>(v[2]);
  const I low = bits_where(shift_right<at>(v[0]), v1, 0xFF00);
  const I high = bits_where(v2, shift_left<24 - at>(v[3]), 0xFF000000u);
  const I codes = {_mm512_mask_blend_epi16(0xAAAAAAAAu, low.v, high.v)};
  return at == exact_at ? codes : codes & all(0x0F0F0F0F);
}

FP4_TARGET __attribute__((noinline)) inline void exact_sums(const Run& run, int block, const float* x,
                                                            const uint8_t* draws, uint32_t* out) {
  alignas(64) float payload[1][panel_rows];
  exact_payloads(run, block, x, payload);
  const I sum = code_axis(load(payload[0]), all(512.0f), all(256.0f), all(128.0f), to_integer) + sixteen_draws(draws);
  store(out, shift_left<estimate_at - exact_at>(sum & all(0x700)));
}

template <RunKind kind>
FP4_SIMD I drawn_codes(const RunPlan& r, const Run& run, const RunFactors& f, const float* const (&x)[4],
                       const int (&block)[4], const uint8_t* const (&draws)[4]) {
  constexpr int at = kind == RunKind::quotient ? estimate_at : exact_at;
  I sum[4];
  __mmask16 sure = 0xFFFF;
  for (int i = 0; i < 4; ++i) {
    F v = load(x[i]);
    if (kind == RunKind::product) {
      v = v * all(f.low[block[i]]);
      sum[i] = code_axis(v, all(512.0f), all(256.0f), all(128.0f), to_integer) + sixteen_draws(draws[i]);
    } else {
      sum[i] = code_axis(v, all(f.low[block[i]]), all(f.high[block[i]]), all(f.third[block[i]]),
                         kind == RunKind::quotient ? estimate_magic : to_integer);
      if (kind == RunKind::quotient) {
        sum[i].v = _mm512_dpwssd_epi32(sum[i].v, sixteen_draws(draws[i]).v, _mm512_set1_epi32(1 << 11));
        sure = _mm512_mask_test_epi32_mask(sure, sum[i].v, _mm512_set1_epi32(0x7FFFC));
      } else {
        sum[i] = sum[i] + sixteen_draws(draws[i]);
      }
    }
  }
  if (kind == RunKind::quotient && __builtin_expect(sure != 0xFFFF, 0)) {
    for (int i = 0; i < 4; ++i) {
      alignas(64) uint32_t exact[panel_rows];
      exact_sums(run, block[i], x[i], draws[i], exact);
      sum[i] = load(exact);
    }
  }
  const I codes = merged_codes<at>(sum, x);
  if (!r.drops) return codes;
  return {_mm512_maskz_mov_epi8(_mm512_cmpneq_epi8_mask(codes.v, _mm512_set1_epi8(8)), codes.v)};
}

}  // namespace fp4::avx512
