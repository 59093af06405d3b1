// Hadamard tiles of a batch along the row: within a vector a butterfly is a shuffle and a fused product with 1 or -1,
// between vectors it is a sum and a difference. Every sum is that of load_body.h.
#pragma once

#include "src/fast/isa_avx512.h"
// After the instruction set it is compiled for:
#include "src/fast/load_body.h"

namespace fp4::avx512 {

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
  if (h.size > 0 && p.hadamard.normalise == HadamardNormalise::sqrt) h.factor = inverse_root(h.size);
  return h;
}

// Lane j becomes other[j] + v[j], or other[j] - v[j] in the lanes of `minus`.
FP4_SIMD F butterfly(F v, __m512 other, __mmask16 minus) {
  const __m512 one = _mm512_mask_blend_ps(minus, _mm512_set1_ps(1.0f), _mm512_set1_ps(-1.0f));
  return {_mm512_fmadd_ps(v.v, one, other)};
}

// Sixteen neighbours of a tile.
FP4_SIMD F transformed_lanes(F v) {
  v = butterfly(v, _mm512_permute_ps(v.v, 0xB1), 0xAAAA);
  v = butterfly(v, _mm512_permute_ps(v.v, 0x4E), 0xCCCC);
  v = butterfly(v, _mm512_shuffle_f32x4(v.v, v.v, 0xB1), 0xF0F0);
  return butterfly(v, _mm512_shuffle_f32x4(v.v, v.v, 0x4E), 0xFF00);
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

}  // namespace fp4::avx512
