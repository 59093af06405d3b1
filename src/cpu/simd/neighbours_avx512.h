// Codes or draws of sixteen elements as they lie in memory.
#pragma once

#include "src/cpu/simd/avx512.h"

namespace fp4::avx512 {

// The codes of sixteen neighbours, `width` bits each; of two in a byte the lower half comes first.
template <int width>
FP4_SIMD I neighbours(const uint8_t* p) {
  if constexpr (width == 4) {
    const __m512i bytes = _mm512_cvtepu8_epi64(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p)));
    return {_mm512_and_si512(_mm512_or_si512(bytes, _mm512_slli_epi64(bytes, 28)), _mm512_set1_epi32(0xF))};
  } else if constexpr (width == 8) {
    return {_mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)))};
  } else if constexpr (width == 16) {
    return {_mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)))};
  } else {
    return {_mm512_loadu_si512(p)};
  }
}

// The opposite.
template <int width>
FP4_SIMD void store_neighbours(uint8_t* out, I code) {
  if constexpr (width == 4) {
    const __m512i pairs = _mm512_or_si512(code.v, _mm512_srli_epi64(code.v, 28));
    _mm_storel_epi64(reinterpret_cast<__m128i*>(out), _mm512_cvtepi64_epi8(pairs));
  } else if constexpr (width == 8) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(out), _mm512_cvtepi32_epi8(code.v));
  } else if constexpr (width == 16) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(out), _mm512_cvtepi32_epi16(code.v));
  } else {
    _mm512_storeu_si512(out, code.v);
  }
}

}  // namespace fp4::avx512
