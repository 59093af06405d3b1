// The trainer's loops for AVX-512 (x86-64-v4).
#if defined(__x86_64__)
#include <immintrin.h>

#include <cmath>

#include "fp4/bits.h"
#include "fp4/elementary.h"
#include "sim/kernels/loop_names.h"
#include "sim/kernels/train_kernels.h"

#define LANES     16
#define TILE_ROWS 8
#define ISA_NAME  "avx512"
#define HAS_AVX512
#ifdef __clang__
#pragma clang attribute push(__attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma"))), \
                             apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,prefer-vector-width=512")
#endif
namespace fp4::sim::avx512 {
typedef float fma_vector __attribute__((vector_size(64), aligned(4)));
static inline fma_vector fma_lanes(float x, fma_vector b, fma_vector acc) {
  return (fma_vector)_mm512_fmadd_ps(_mm512_set1_ps(x), (__m512)b, (__m512)acc);
}
typedef float some_lanes __attribute__((vector_size(64), aligned(4)));
static inline some_lanes load_some(const float* x, int n, float fill) {
  return (some_lanes)_mm512_mask_loadu_ps(_mm512_set1_ps(fill), static_cast<__mmask16>((1u << n) - 1u), x);
}
static inline void store_some(float* x, int n, some_lanes v) {
  _mm512_mask_storeu_ps(x, static_cast<__mmask16>((1u << n) - 1u), (__m512)v);
}
#include "sim/kernels/powers_avx512.h"
using words16 = uint32_t __attribute__((vector_size(64)));
static inline void widening_product(const words16& a, uint32_t m, words16& low, words16& high) {
  const __m512i x = (__m512i)a, factor = _mm512_set1_epi32(static_cast<int>(m));
  const __m512i even = _mm512_mul_epu32(x, factor), odd = _mm512_mul_epu32(_mm512_srli_epi64(x, 32), factor);
  low = (words16)_mm512_mask_blend_epi32(0xAAAA, even, _mm512_slli_epi64(odd, 32));
  high = (words16)_mm512_mask_blend_epi32(0xAAAA, _mm512_srli_epi64(even, 32), odd);
}
#include "sim/kernels/kernels_body.h"
}  // namespace fp4::sim::avx512
#ifdef __clang__
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif
#endif
