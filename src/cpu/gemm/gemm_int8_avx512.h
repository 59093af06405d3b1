// C = Q(A) Q(B)^T for small-integer elements (FP4, e2m3): u8 x s8 dot products of four (vpdpbusd), exact in int32, one
// scale product and one fused multiply-add at the end of each block (the accumulator fp32_block).
// Tile: 8 rows of A, broadcast dword by dword, times 16 or 32 rows of B in the lanes; the fp32 accumulators live in L1.
#pragma once

#include "fp4/gemm.h"
#include "src/cpu/gemm/tile_body.h"
#include "src/cpu/quantize/fp4_codes_body.h"
#include "src/cpu/simd/lanes.h"

namespace fp4::avx512 {

inline constexpr int nearest = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
inline constexpr int toward_zero = _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC;

// Certificates: a step that drops a bit raises the inexact flag of MXCSR, while roundings that a model asks for use
// embedded rounding, which suppresses flags. So a clear flag at the end of a tile proves that every other step in it
// was exact, and a set one sends the tile to the next kernel.
FP4_SIMD void clear_inexact() {
  asm volatile("" ::: "memory");
  _mm_setcsr(_mm_getcsr() & ~0x3Fu);
  asm volatile("" ::: "memory");
}
FP4_SIMD bool was_inexact() {
  asm volatile("" ::: "memory");
  const bool inexact = (_mm_getcsr() & 0x20u) != 0;
  asm volatile("" ::: "memory");
  return inexact;
}

// The sums of one tile between groups.
struct alignas(64) TileSums {
  float acc[tile_rows][panel_rows];
};

// Dots of one run, `offset` apart: dot[r][j] lanes = columns.
template <int panels, int fixed_run4>
FP4_SIMD void int8_dots(const TileInput& t, int64_t run, __m512i (&dot)[tile_rows][panels], int32_t offset = 0) {
  const int64_t run4 = fixed_run4 > 0 ? fixed_run4 : t.run4;
  for (int j = 0; j < panels; ++j) {
    const __m512i correction = _mm512_load_si512(t.correction[j] + run * panel_rows);
    const __m512i start = _mm512_add_epi32(correction, _mm512_set1_epi32(offset));
    for (int r = 0; r < tile_rows; ++r) dot[r][j] = start;
  }
  const int8_t* a = t.a + run * run4 * 64;
  const int8_t* b0 = t.b[0] + run * run4 * 64;
  const int8_t* b1 = t.b[panels - 1] + run * run4 * 64;
#pragma GCC unroll 8
  for (int64_t k = 0; k < run4; ++k) {
    __m512i column[panels];
    column[0] = _mm512_load_si512(b0 + k * 64);
    if (panels == 2) column[panels - 1] = _mm512_load_si512(b1 + k * 64);
#pragma GCC unroll 8
    for (int r = 0; r < tile_rows; ++r) {
      // As an instruction: g++ 12 loads some of these dwords into general registers and spills them.
      __m512i row;
      asm("vpbroadcastd %1, %0" : "=v"(row) : "m"(*reinterpret_cast<const int32_t*>(a + k * 64 + r * 4)));
#pragma GCC unroll 2
      for (int j = 0; j < panels; ++j) dot[r][j] = _mm512_dpbusd_epi32(dot[r][j], row, column[j]);
    }
  }
}

// How a dot meets its scales. Corrections may hold the bits of 1.5 * 2^23, so that dots end as the float
// 1.5 * 2^23 + dot. `product`: converted, times the product of both, which is exact or rounded as the
// accumulator asks. `apart`, where dot * sB is exact and dots start as floats: one fused operation takes the offset
// away and multiplies by sB; sA enters with the sum.
enum class DotScales : uint8_t { product, apart };

// acc = fl32(acc + dot * sA*sB) in quanta: the dot is exact in fp32 (below 2^24), the last fused operation is the one
// rounding. The last run multiplies by quantum and finish and stores to C.
template <DotScales scales, int panels, int fixed_run4, bool first, bool last>
FP4_SIMD void block_run(const TileInput& t, const TileOutput& out, int64_t run, float* acc) {
  constexpr bool apart = scales == DotScales::apart;
  __m512i dot[tile_rows][panels];
  int8_dots<panels, fixed_run4>(t, run, dot, apart ? 0 : -t.start);
  const float* sa = t.scale_a + (run >> t.scale_shift_a) * panel_rows;
  __m512 sb[panels];
  __m512 offset[panels];
  __mmask16 mask[panels];
  for (int j = 0; j < panels; ++j) {
    sb[j] = _mm512_load_ps(t.scale_b[j] + (run >> t.scale_shift_b) * panel_rows);
    offset[j] = _mm512_mul_ps(sb[j], _mm512_set1_ps(-to_integer));
    mask[j] = first_lanes(out.cols - j * panel_rows).v;
  }
#pragma GCC unroll 8
  for (int r = 0; r < tile_rows; ++r) {
    if (last && r >= out.rows) break;
    const __m512 row_scale = _mm512_set1_ps(sa[r]);
#pragma GCC unroll 2
    for (int j = 0; j < panels; ++j) {
      float* at = acc + (r * panels + j) * panel_rows;
      const __m512 before = first ? _mm512_setzero_ps() : _mm512_load_ps(at);
      const __m512 sum =
          apart ? _mm512_fmadd_ps(_mm512_fmadd_ps(_mm512_castsi512_ps(dot[r][j]), sb[j], offset[j]), row_scale, before)
                : _mm512_fmadd_ps(_mm512_cvtepi32_ps(dot[r][j]), _mm512_mul_ps(row_scale, sb[j]), before);
      if (last) {
        const __m512 whole = _mm512_mul_ps(sum, _mm512_set1_ps(t.quantum));
        _mm512_mask_storeu_ps(out.c + r * out.stride + j * panel_rows, mask[j], _mm512_mul_ps(whole, out.factor.v));
      } else {
        _mm512_store_ps(at, sum);
      }
    }
  }
}

template <DotScales scales, int panels, int fixed_run4>
FP4_TARGET void block_tile(const TileInput& t, const TileOutput& out) {
  alignas(64) float acc[tile_rows * panels * panel_rows];
  if (t.runs == 1) {
    block_run<scales, panels, fixed_run4, true, true>(t, out, 0, acc);
  } else {
    block_run<scales, panels, fixed_run4, true, false>(t, out, 0, acc);
    for (int64_t run = 1; run + 1 < t.runs; ++run)
      block_run<scales, panels, fixed_run4, false, false>(t, out, run, acc);
    block_run<scales, panels, fixed_run4, false, true>(t, out, t.runs - 1, acc);
  }
  if ((out.nan_rows | out.nan_cols) != 0 || !out.is_finite) put_nans(out);
}

template <DotScales scales, int panels>
inline TileKernel block_kernel(int64_t run4) {
  switch (run4) {
    case 4: return block_tile<scales, panels, 4>;
    case 8: return block_tile<scales, panels, 8>;
    default: return block_tile<scales, panels, 0>;
  }
}

// `apart`: dot * sB is exact, and 1.5 * 2^23 * sB a normal number.
template <int panels>
inline TileKernel block_kernel(int64_t run4, bool apart) {
  return apart ? block_kernel<DotScales::apart, panels>(run4) : block_kernel<DotScales::product, panels>(run4);
}

}  // namespace fp4::avx512
