// Stochastic codes along a row: draws of eight bits, and e2m1 codes on the code axis. There
// P(|y|) = min(2|y|, |y| + 2, |y|/2 + 4, 7) is the code with its fraction, and the code is (rne(256 P) + draw) / 256,
// rounded down.
#pragma once

#include "src/cpu/quantize/run_codes_avx512.h"

namespace fp4::avx512 {

// Where draws of four vectors are for byte i of lane j to be that of element j of vector i.
struct DrawOrder {
  alignas(64) uint8_t byte[64];
};
constexpr DrawOrder draw_order(int first) {  // from vector `first` on
  DrawOrder o = {};
  for (int i = 0; i < 64; ++i) o.byte[i] = static_cast<uint8_t>(draw_at((first + i) % 4, i / 4));
  return o;
}
FP4_SIMD __m512i draws_by_lane(const uint8_t* draws) {
  static constexpr DrawOrder order = draw_order(0);
  return _mm512_permutexvar_epi8(_mm512_load_si512(order.byte), _mm512_load_si512(draws));
}

// Those of vector i of four, in lanes.
FP4_SIMD I draws_of_vector(const uint8_t* draws, int i) {
  static constexpr DrawOrder orders[4] = {draw_order(0), draw_order(1), draw_order(2), draw_order(3)};
  return {
      _mm512_maskz_permutexvar_epi8(0x1111111111111111u, _mm512_load_si512(orders[i].byte), _mm512_load_si512(draws))};
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

// 256 P of sixteen payloads, from bit 0, other bits from 16 on.
template <RunKind kind>
FP4_SIMD I axis_words(F x, F low, F high, F third, F end) {
  constexpr int least_magnitude = 0xA;  // VRANGEPS: the smaller magnitude, as it is without sign
  const bool product = kind == RunKind::product;
  const F y = product ? x * low : x;
  const F a = {_mm512_range_ps(y.v, product ? _mm512_set1_ps(6.0f) : end.v, least_magnitude)};
  const F first = fma(a, product ? all(512.0f) : low, all(to_integer));
  const F second = fma(a, product ? all(256.0f) : high, all(to_integer + 512.0f));
  const F last = fma(a, product ? all(128.0f) : third, all(to_integer + 1024.0f));
  return bits(smaller(smaller(first, second), last));
}

// Signs of four vectors in bit 7 of bytes, four elements of each vector in turn.
FP4_SIMD __m512i packed_signs(const I (&x)[4]) {
  return _mm512_packs_epi16(_mm512_packs_epi32(x[0].v, x[1].v), _mm512_packs_epi32(x[2].v, x[3].v));
}

// The bytes of (256 P + draw) / 256, rounded down, with the signs: fractions and draws are compared as bytes.
FP4_SIMD I bytes_with_draws(const I (&sum)[4], const I (&x)[4], __m512i draws) {
  const __m512i by_lane = _mm512_set4_epi32(0x0F0B0703, 0x0E0A0602, 0x0D090501, 0x0C080400);
  const __m512i even = _mm512_mask_blend_epi16(0xAAAAAAAAu, sum[0].v, shift_left<16>(sum[2]).v);
  const __m512i odd = _mm512_mask_blend_epi16(0xAAAAAAAAu, sum[1].v, shift_left<16>(sum[3]).v);
  const __m512i upper = _mm512_set1_epi32(static_cast<int>(0xFF00FF00u));
  // Where `upper` has bits the second, else the first; of fractions the complement.
  const __m512i room = _mm512_ternarylogic_epi32(even, _mm512_slli_epi32(odd, 8), upper, 0x27);
  const __m512i whole = _mm512_ternarylogic_epi32(_mm512_srli_epi32(even, 8), odd, upper, 0xD8);
  const __mmask64 carry = _mm512_cmpgt_epu8_mask(draws, room);
  const __m512i codes = _mm512_mask_add_epi8(whole, carry, whole, _mm512_set1_epi8(1));
  const __m512i signs = _mm512_srli_epi32(_mm512_shuffle_epi8(packed_signs(x), by_lane), 4);
  return {_mm512_ternarylogic_epi32(codes, signs, _mm512_set1_epi8(8), 0xF8)};
}

FP4_SIMD I without_negative_zeros(const RunPlan& r, I codes) {
  if (!r.drops) return codes;
  return {_mm512_maskz_mov_epi8(_mm512_cmpneq_epi8_mask(codes.v, _mm512_set1_epi8(8)), codes.v)};
}

// Stochastic codes of vectors vector, vector + 2, vector + 4 and vector + 6 of a run; the first one is at x, their
// draws at `draws`; not `sure` where a sum could have another code.
template <RunKind kind, int width>
FP4_SIMD I drawn_codes(const RunPlan& r, const RunFactors& f, const float* x, int vector, const uint8_t* draws,
                       bool& sure) {
  I sum[4];
  I signs[4];
  __mmask16 sure_lanes = 0xFFFF;
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    const int block = (vector + 2 * i) / width;
    const F v = load(x + i * quad_step);
    signs[i] = bits(v);
    if constexpr (kind == RunKind::quotient) {
      sum[i] = sum_before_draw<kind>(v, all(f.low[block]), all(f.high[block]), all(f.third[block]));
      sum[i] = add_draw_to_estimate(sum[i], draws_of_vector(draws, i));
      sure_lanes = still_sure(sure_lanes, sum[i]);
    } else {
      sum[i] = axis_words<kind>(v, all(f.low[block]), all(f.high[block]), all(f.third[block]), all(f.end[block]));
    }
  }
  if constexpr (kind != RunKind::quotient) {
    return without_negative_zeros(r, bytes_with_draws(sum, signs, draws_by_lane(draws)));
  }
  sure = sure && sure_lanes == 0xFFFF;
  return without_negative_zeros(r, merged_codes<codes_at<kind>>(sum, signs));
}

}  // namespace fp4::avx512
