// Codes of a byte each, of formats with a mantissa: adding the power of two whose last place is a payload's grid step
// rounds it to nearest even and counts its steps in one sum.
#pragma once

#include "src/cpu/quantize/run_codes_avx512.h"

namespace fp4::avx512 {

// 64 codes of four adjacent vectors; the first one is vector `vector` of a run.
template <int width>
FP4_SIMD void store_byte_codes(const RunPlan& r, const RunFactors& f, const float* x, int vector, uint8_t* out) {
  const ByteCodes& c = r.bytes;
  const I to_unit = all(static_cast<uint32_t>(23 - c.mantissa_bits) << 23);
  const I to_step = all(23 - c.mantissa_bits);
  I code[4];
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    const I v = bits(load(x + i * panel_rows));
    const F u = smaller(as_float(v & all(0x7FFFFFFF)) * all(f.low[(vector + i) / width]), all(c.largest));
    const I binade = larger(bits(u) & all(0x7F800000), all(c.least_binade));
    const I counted = bits(u + as_float(binade + to_unit));
    // Steps, and the codes of the binades below; what the constants add to the low byte goes at the end.
    const I low = (counted - binade) + I{_mm512_srlv_epi32(binade.v, to_step.v)};
    const I sign = I{_mm512_srlv_epi32(v.v, all(static_cast<int32_t>(c.sign_shift)).v)} & all(c.sign);
    code[i] = low + sign;
  }
  const I even = bits_where(code[0], shift_left<8>(code[1]), 0xFF00);
  const I odd = bits_where(shift_left<16>(code[2]), shift_left<24>(code[3]), 0xFF000000u);
  __m512i codes = _mm512_mask_blend_epi16(0xAAAAAAAAu, even.v, odd.v);
  const uint32_t start = c.least_binade >> (23 - c.mantissa_bits);
  codes = _mm512_sub_epi8(codes, _mm512_set1_epi8(static_cast<char>(start)));
  if (r.drops) {
    const __m512i sign = _mm512_set1_epi8(static_cast<char>(c.sign));
    codes = _mm512_maskz_mov_epi8(_mm512_cmpneq_epi8_mask(codes, sign), codes);
  }
  _mm512_storeu_si512(out, _mm512_permutexvar_epi8(byte_order(), codes));
}

}  // namespace fp4::avx512
