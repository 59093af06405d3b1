// fp32_block on small integers where no instruction adds four products to an int32: u8 x s8 pairs as 16 bits (AVX2's
// vpmaddubsw), two of them to one s32 lane. Pairs stay below 2 * 128 * 64 = 2^14: the unsigned side is at most 128.
#pragma once

#include "src/cpu/gemm/tile_body.h"
#include "src/cpu/simd/lanes.h"

namespace fp4::FP4_ISA {

FP4_TARGET inline void block_tile_any(const TileInput& t, const TileOutput& out, int panels) {
  alignas(64) float acc[tile_rows][2 * panel_rows] = {};
  for (int64_t run = 0; run < t.runs; ++run) {
    const float* sa = t.scale_a + (run >> t.scale_shift_a) * panel_rows;
    for (int j = 0; j < panels; ++j) {
      const F sb = load(t.scale_b[j] + (run >> t.scale_shift_b) * panel_rows) * all(t.quantum);
      const I start = load(t.correction[j] + run * panel_rows);
      const int8_t* a = t.a + run * t.run4 * 64;
      const int8_t* b = t.b[j] + run * t.run4 * 64;
      for (int first = 0; first < tile_rows; first += float_rows) {  // as many rows as registers hold sums of
        I dot[float_rows];
        for (I& d : dot) d = start;
        for (int64_t k = 0; k < t.run4; ++k) {
          const B column = load_bytes(b + k * 64);
#pragma GCC unroll 4
          for (int r = 0; r < float_rows; ++r) {
            int32_t four;
            __builtin_memcpy(&four, a + k * 64 + (first + r) * 4, 4);
            dot[r] = add_products(dot[r], four, column);
          }
        }
#pragma GCC unroll 4
        for (int r = 0; r < float_rows; ++r) {
          float* at = acc[first + r] + j * panel_rows;
          const F scale = all(sa[first + r]) * sb;
          const F sum = load(at);
          store(at, !has_fma && t.exact_products ? to_float(dot[r]) * scale + sum : fma(to_float(dot[r]), scale, sum));
        }
      }
    }
  }
  finish_sums<2>(acc, no_snap, out);
}

FP4_TARGET inline void block_tile_one(const TileInput& t, const TileOutput& out) { block_tile_any(t, out, 1); }
FP4_TARGET inline void block_tile_two(const TileInput& t, const TileOutput& out) { block_tile_any(t, out, 2); }

template <int panels>
inline TileKernel block_kernel(int64_t, bool) {
  return panels == 1 ? block_tile_one : block_tile_two;
}

// Bytes moved by 128 would overflow 16 bits, so there are no level panels here; other accumulators go term by term.
inline WholeKernel whole_kernel(int) { return nullptr; }
inline PairKernel pair_kernel(int) { return nullptr; }
inline CutKernel cut_kernel(int64_t, bool) { return nullptr; }
inline SingleKernel single_kernel(int64_t) { return nullptr; }
inline GroupKernel group_kernel(int64_t) { return nullptr; }
inline WideKernel wide_kernel(int64_t) { return nullptr; }

}  // namespace fp4::FP4_ISA
