// The trainer's loops for AVX2 with FMA (x86-64-v3).
#if defined(__x86_64__)
#include <immintrin.h>

#include <cstddef>

#include "fp4/bits.h"
#include "fp4/elementary.h"
#include "sim/kernels/loop_names.h"
#include "sim/kernels/train_kernels.h"

#define LANES     8
#define TILE_ROWS 6
#define ISA_NAME  "avx2"
#ifdef __clang__
#pragma clang attribute push(__attribute__((target("avx2,fma"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx2,fma")
#endif
namespace fp4::sim::avx2 {
typedef float fma_vector __attribute__((vector_size(32), aligned(4)));
static inline fma_vector fma_lanes(float x, fma_vector b, fma_vector acc) {
  return (fma_vector)_mm256_fmadd_ps(_mm256_set1_ps(x), (__m256)b, (__m256)acc);
}
#include "sim/kernels/powers_body.h"
#include "sim/kernels/some_lanes_body.h"
using words16 = uint32_t __attribute__((vector_size(64)));
static inline void widening_product(const words16& a, uint32_t m, words16& low, words16& high) {
  const __m256i factor = _mm256_set1_epi32(static_cast<int>(m));
  for (int half = 0; half < 2; ++half) {
    __m256i x;
    __builtin_memcpy(&x, reinterpret_cast<const char*>(&a) + 32 * half, 32);
    const __m256i even = _mm256_mul_epu32(x, factor), odd = _mm256_mul_epu32(_mm256_srli_epi64(x, 32), factor);
    const __m256i l = _mm256_blend_epi32(even, _mm256_slli_epi64(odd, 32), 0xAA);
    const __m256i h = _mm256_blend_epi32(_mm256_srli_epi64(even, 32), odd, 0xAA);
    __builtin_memcpy(reinterpret_cast<char*>(&low) + 32 * half, &l, 32);
    __builtin_memcpy(reinterpret_cast<char*>(&high) + 32 * half, &h, 32);
  }
}
#include "sim/kernels/kernels_body.h"
}  // namespace fp4::sim::avx2
#ifdef __clang__
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif
#endif
