// Codes of sixteen elements as they lie in memory.
#pragma once

#include <cstring>

#include "src/cpu/simd/avx2.h"

namespace fp4::avx2 {

FP4_SIMD __m256i eight_nibbles(const uint8_t* p) {
  int32_t word;
  std::memcpy(&word, p, sizeof word);
  const __m256i shifts = _mm256_setr_epi32(0, 4, 8, 12, 16, 20, 24, 28);
  return _mm256_and_si256(_mm256_srlv_epi32(_mm256_set1_epi32(word), shifts), _mm256_set1_epi32(0xF));
}

// The codes of sixteen neighbours, `width` bits each; of two in a byte the lower half comes first.
template <int width>
FP4_SIMD I neighbours(const uint8_t* p) {
  const auto* half = reinterpret_cast<const __m128i*>(p);
  if constexpr (width == 4) {
    return {eight_nibbles(p), eight_nibbles(p + 4)};
  } else if constexpr (width == 8) {
    const __m128i bytes = _mm_loadu_si128(half);
    return {_mm256_cvtepu8_epi32(bytes), _mm256_cvtepu8_epi32(_mm_srli_si128(bytes, 8))};
  } else if constexpr (width == 16) {
    return {_mm256_cvtepu16_epi32(_mm_loadu_si128(half)), _mm256_cvtepu16_epi32(_mm_loadu_si128(half + 1))};
  } else {
    return load(reinterpret_cast<const int32_t*>(p));
  }
}

}  // namespace fp4::avx2
