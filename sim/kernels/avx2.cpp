// The trainer's loops for AVX2 with FMA (x86-64-v3).
#if defined(__x86_64__)
#include <immintrin.h>

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
#include "sim/kernels/kernels_body.h"
}  // namespace fp4::sim::avx2
#ifdef __clang__
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif
#endif
