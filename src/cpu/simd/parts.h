// The vectors of one part of sixteen lanes, FP4_PART bytes long; included by native.h and native_avx2.h.
#pragma once

#include <cstdint>

#include "fp4/bits.h"

namespace fp4::FP4_ISA {

inline constexpr int part_lanes = FP4_PART / 4;

// Floats, int32, uint32, int16, uint16, int8, doubles, int64, uint64.
typedef float vf __attribute__((vector_size(FP4_PART)));
typedef int32_t vi __attribute__((vector_size(FP4_PART)));
typedef uint32_t vu __attribute__((vector_size(FP4_PART)));
typedef int16_t vh __attribute__((vector_size(FP4_PART)));
typedef uint16_t vw __attribute__((vector_size(FP4_PART)));
typedef int8_t vb __attribute__((vector_size(FP4_PART)));
typedef double vd __attribute__((vector_size(FP4_PART)));
typedef int64_t vl __attribute__((vector_size(FP4_PART)));
typedef uint64_t vq __attribute__((vector_size(FP4_PART)));

template <class T>
FP4_SIMD T load_part(const void* p) {
  T x;
  __builtin_memcpy(&x, p, sizeof x);
  return x;
}
template <class T>
FP4_SIMD void store_part(void* p, T x) {
  __builtin_memcpy(p, &x, sizeof x);
}

}  // namespace fp4::FP4_ISA
