// Hadamard tiles of a batch along the row: within sixteen lanes by the instruction set (transformed_lanes), between
// them by sums and differences. Every sum is that of load_body.h.
#pragma once

#include "src/cpu/quantize/load_body.h"
#include "src/cpu/simd/lanes.h"

namespace fp4::FP4_ISA {

struct RunHadamard {
  int size = 0;
  alignas(64) uint32_t signs[256];  // to exclusive-or with a tile
  float factor = 1.0f;
};

inline RunHadamard run_hadamard(const QuantPlan& p) {
  RunHadamard h;
  h.size = p.hadamard.size;
  for (int j = 0; j < h.size; ++j) {
    h.signs[j] = p.hadamard.signs != HadamardSigns::none && p.signs.is_minus(j) ? 0x80000000u : 0;
  }
  if (h.size > 0) h.factor = forward_factor(p.hadamard);
  return h;
}

// `length` floats in tiles of n vectors.
template <int n>
FP4_SIMD void transform_tiles(const RunHadamard& h, const float* x, int length, float* out) {
  const F factor = all(h.factor);
  for (int k = 0; k < length; k += n * panel_rows) {
    F v[n];
#pragma GCC unroll 16
    for (int i = 0; i < n; ++i) {
      const I sign = load(h.signs + i * panel_rows);
      v[i] = transformed_lanes(as_float(bits(load(x + k + i * panel_rows)) ^ sign));
    }
#pragma GCC unroll 4
    for (int stride = 1; stride < n; stride *= 2) {
#pragma GCC unroll 16
      for (int i = 0; i < n; ++i) {
        if ((i & stride) != 0) continue;
        const F a = v[i];
        const F b = v[i + stride];
        v[i] = a + b;
        v[i + stride] = a - b;
      }
    }
#pragma GCC unroll 16
    for (int i = 0; i < n; ++i) store(out + k + i * panel_rows, v[i] * factor);
  }
}

FP4_TARGET __attribute__((noinline)) inline void transform_batch(const RunHadamard& h, const float* x, int length,
                                                                 float* out) {
  switch (h.size) {
    case 16: return transform_tiles<1>(h, x, length, out);
    case 32: return transform_tiles<2>(h, x, length, out);
    case 64: return transform_tiles<4>(h, x, length, out);
    case 128: return transform_tiles<8>(h, x, length, out);
    default: return transform_tiles<16>(h, x, length, out);
  }
}

}  // namespace fp4::FP4_ISA
