// What the bodies of this folder are written in, beside the lanes of src/cpu/simd, for the instruction set FP4_CPU.
// avx512.cpp, avx2.cpp and generic.cpp define it and include kernels_body.h; a body read alone is that of any CPU.
// Other headers come before the target region that opens here and that kernels_body.h closes. No std templates in a
// body: an instance compiled for AVX-512 could be picked by the linker for everybody.
#pragma once

#include <cmath>

#include "fp4/bits.h"
#include "fp4/elementary.h"
#include "sim/kernels/train_kernels.h"
#include "src/cpu/simd/lanes.h"

#if FP4_CPU != 128 && defined(__clang__)
#pragma clang attribute push(FP4_TARGET, apply_to = function)
#elif FP4_CPU != 128
#pragma GCC push_options
#if FP4_CPU == 512
#pragma GCC target("avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx512vbmi,fma,bmi2,prefer-vector-width=512")
#else
#pragma GCC target("avx2,fma")
#endif
#endif

namespace fp4::sim::FP4_ISA {

namespace simd = fp4::FP4_ISA;
// Of a product's tile: floats per register, and rows.
constexpr int lanes = FP4_CPU / 32, tile_rows = FP4_CPU == 512 ? 8 : FP4_CPU == 256 ? 6 : 4;
typedef float tile_lanes __attribute__((vector_size(4 * lanes), aligned(4)));
static inline tile_lanes fma_lanes(float x, tile_lanes b, tile_lanes acc) {
#if FP4_CPU == 512
  return (tile_lanes)_mm512_fmadd_ps(_mm512_set1_ps(x), (__m512)b, (__m512)acc);
#elif FP4_CPU == 256
  return (tile_lanes)_mm256_fmadd_ps(_mm256_set1_ps(x), (__m256)b, (__m256)acc);
#else
  for (int l = 0; l < lanes; ++l) acc[l] = __builtin_fmaf(x, b[l], acc[l]);
  return acc;
#endif
}
typedef double wide_lanes __attribute__((vector_size(4 * lanes), aligned(8)));  // of half a register of floats
typedef float half_lanes __attribute__((vector_size(2 * lanes), aligned(4)));
static inline wide_lanes load_widened(const float* x) {
#if FP4_CPU == 512
  return (wide_lanes)_mm512_cvtps_pd(_mm256_loadu_ps(x));
#else
  return __builtin_convertvector(*(const half_lanes*)x, wide_lanes);
#endif
}
static inline void store_narrowed(float* x, wide_lanes v) { *(half_lanes*)x = __builtin_convertvector(v, half_lanes); }
using lanes16 = float __attribute__((vector_size(64), aligned(4)));
using lanes8 = float __attribute__((vector_size(32), aligned(4)));
using lanes4 = float __attribute__((vector_size(16), aligned(4)));
// The first n <= 16 floats of 16 lanes; the others are `fill` on loading.
static inline lanes16 load_some(const float* x, int n, float fill) {
  const simd::M some = simd::first_lanes(n);
  return __builtin_bit_cast(lanes16, simd::select(some, simd::load(x, some), simd::all(fill)));
}
static inline void store_some(float* x, int n, const lanes16& v) {
  if constexpr (FP4_CPU == 512) return simd::store(x, __builtin_bit_cast(simd::F, v), simd::first_lanes(n));
  for (int l = 0; l < n; ++l) x[l] = v[l];  // a masked store makes g++ spill a tile's sums for AVX2
}

}  // namespace fp4::sim::FP4_ISA
