// Aligned sums (fused25_rz, fused35_rz) in which nothing is cut: block by block in fp32, a clear inexact flag
// (gemm_int8_avx512.h) proves that every sum after a block is a float. While neither those sums nor the weights of
// products exceed 2^largest, every product is a whole number of units of the cut, so each group's sum is that exact
// one. Tile: 8 rows of A times 16 rows of B in the lanes.
#pragma once

#include "src/cpu/gemm/gemm_int8_avx512.h"

namespace fp4::avx512 {

template <int fixed_run4>
FP4_SIMD void single_run(const TileInput& t, int64_t run, TileSums& state, F (&largest)[tile_rows]) {
  __m512i dot[tile_rows][1];
  int8_dots<1, fixed_run4>(t, run, dot);
  const float* sa = t.scale_a + (run >> t.scale_shift_a) * panel_rows;
  const F sb = load(t.scale_b[0] + (run >> t.scale_shift_b) * panel_rows) * all(t.quantum);
#pragma GCC unroll 8
  for (int r = 0; r < tile_rows; ++r) {
    const F acc = fma(to_float(I{dot[r][0]}), all(sa[r]) * sb, load(state.acc[r]));
    largest[r].v = _mm512_range_ps(largest[r].v, acc.v, 0xB);  // the larger magnitude
    store(state.acc[r], acc);
  }
}

// false: not proven, C is not written.
template <int fixed_run4>
FP4_TARGET bool single_tile(const TileInput& t, const Folding& f, int largest_weight, const TileOutput& out) {
  TileSums state;
  F largest[tile_rows];
#pragma GCC unroll 8
  for (int r = 0; r < tile_rows; ++r) {
    largest[r] = all(0.0f);
    store(state.acc[r], largest[r]);
  }
  clear_inexact();
  for (int64_t run = 0; run < f.runs; ++run) single_run<fixed_run4>(t, run, state, largest);
  if (was_inexact()) return false;
  for (int r = 1; r < tile_rows; ++r) largest[0] = larger(largest[0], largest[r]);
  if ((largest_lane(bits(largest[0])) >> 23) - 127 > largest_weight) return false;
  finish_sums<1>(state.acc, f.snap_log2, out);
  return true;
}

inline SingleKernel single_kernel(int64_t run4) {
  switch (run4) {
    case 4: return single_tile<4>;
    case 8: return single_tile<8>;
    default: return single_tile<0>;
  }
}

}  // namespace fp4::avx512
