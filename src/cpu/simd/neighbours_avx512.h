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

}  // namespace fp4::avx512
