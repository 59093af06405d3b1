// Products of level panels (level_body.h): one u8 x s8 gemm over all of K, and one scaling at its end.
// Tile: 8 rows of A, broadcast dword by dword, times up to 48 rows of B in the lanes. K is cut into pieces that keep
// the panels of B in L1; between pieces the int32 sums wait in `sums`.
#pragma once

#include "src/cpu/gemm/gemm_int8_avx512.h"

namespace fp4::avx512 {

// The sums are exact in fp32, and so is their product with a power of two; the factor is the one rounding.
template <int panels, bool scales>
FP4_SIMD void store_whole(const WholeInput& w, const TileOutput& out, const __m512i (&dot)[tile_rows][panels]) {
  F sb[panels];
  M mask[panels];
#pragma GCC unroll 3
  for (int j = 0; j < panels; ++j) {
    sb[j] = load(w.scale_b[j]) * all(w.quantum);
    mask[j] = first_lanes(out.cols - j * panel_rows);
  }
#pragma GCC unroll 8
  for (int r = 0; r < tile_rows; ++r) {
    if (r >= out.rows) break;
#pragma GCC unroll 3
    for (int j = 0; j < panels; ++j) {
      F sum = to_float(I{dot[r][j]}) * (all(w.scale_a[r]) * sb[j]);
      if (w.snap_log2 != no_snap) sum = snapped_lanes(sum, w.snap_log2);
      store(out.c + r * out.stride + j * panel_rows, scales ? sum * out.factor : sum, mask[j]);
    }
  }
}

template <int panels>
FP4_SIMD void finish_whole(const WholeInput& w, const TileOutput& out, const __m512i (&dot)[tile_rows][panels]) {
  if (w.scales) {
    store_whole<panels, true>(w, out, dot);
  } else {
    store_whole<panels, false>(w, out, dot);
  }
  if ((out.nan_rows | out.nan_cols) != 0 || !out.is_finite) put_nans(out);
}

template <int panels>
FP4_TARGET __attribute__((noinline)) void whole_tile(const WholeInput& w, const TileOutput& out) {
  __m512i dot[tile_rows][panels];
#pragma GCC unroll 8
  for (int r = 0; r < tile_rows; ++r) {
#pragma GCC unroll 3
    for (int j = 0; j < panels; ++j) {
      dot[r][j] = _mm512_load_si512(w.first ? w.start[j] : w.sums + (r * panels + j) * panel_rows);
    }
  }
  const int8_t* a = w.a;
  const int8_t* b0 = w.b[0];
  const int8_t* b1 = w.b[panels > 1 ? 1 : 0];
  const int8_t* b2 = w.b[panels > 2 ? 2 : 0];
#pragma GCC unroll 2
  for (int64_t k = 0; k < w.count4; ++k) {
    __m512i column[panels];
    column[0] = _mm512_load_si512(b0 + k * 64);
    if (panels > 1) column[panels > 1 ? 1 : 0] = _mm512_load_si512(b1 + k * 64);
    if (panels > 2) column[panels > 2 ? 2 : 0] = _mm512_load_si512(b2 + k * 64);
#pragma GCC unroll 8
    for (int r = 0; r < tile_rows; ++r) {
      __m512i row;  // as an instruction: see int8_dots
      asm("vpbroadcastd %1, %0" : "=v"(row) : "m"(*reinterpret_cast<const int32_t*>(a + k * 64 + r * 4)));
#pragma GCC unroll 3
      for (int j = 0; j < panels; ++j) dot[r][j] = _mm512_dpbusd_epi32(dot[r][j], row, column[j]);
    }
  }
  if (w.last) return finish_whole<panels>(w, out, dot);
#pragma GCC unroll 8
  for (int r = 0; r < tile_rows; ++r) {
#pragma GCC unroll 3
    for (int j = 0; j < panels; ++j) _mm512_store_si512(w.sums + (r * panels + j) * panel_rows, dot[r][j]);
  }
}

inline WholeKernel whole_kernel(int panels) {
  return panels == 3 ? whole_tile<3> : (panels == 2 ? whole_tile<2> : whole_tile<1>);
}

}  // namespace fp4::avx512
