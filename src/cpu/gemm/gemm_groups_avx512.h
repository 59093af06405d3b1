// Groups of blocks as sums of integers (group_scales_body.h): the dots of two blocks lie in the two halves of a lane,
// the products of their scales, as 16-bit integers, in those of another, and one vpdpwssd adds both to the sum of the
// group, which is exact in int32. Then one conversion rounds it to nearest, and it joins the accumulator.
#pragma once

#include "src/cpu/gemm/gemm_int8_avx512.h"

namespace fp4::avx512 {

// Adds runs [run, run + count), one or two, to the sums of a group.
template <int fixed_run4>
FP4_SIMD void add_scaled_dots(const TileInput& t, const GroupInput& g, int64_t run, int count,
                              __m512i (&sum)[tile_rows]) {
  __m512i low[tile_rows][1];
  __m512i high[tile_rows][1];
  int8_dots<1, fixed_run4>(t, run, low);
  if (count == 2) int8_dots<1, fixed_run4>(t, run + 1, high);
  const __m512i factor_b = _mm512_load_si512(g.factor_b + run / 2 * panel_rows);
  const __m512i low_half = _mm512_set1_epi32(0xFFFF);
#pragma GCC unroll 8
  for (int r = 0; r < tile_rows; ++r) {
    const __m512i row = _mm512_set1_epi32(static_cast<int32_t>(g.factor_a[run / 2 * panel_rows + r]));
    const __m512i factors = _mm512_mullo_epi16(row, factor_b);
    // low & 0xFFFF | high << 16; a missing block has the factor 0
    const __m512i dots = count == 2
                             ? _mm512_ternarylogic_epi32(low[r][0], low_half, _mm512_slli_epi32(high[r][0], 16), 0xEA)
                             : low[r][0];
    sum[r] = _mm512_dpwssd_epi32(sum[r], dots, factors);
  }
}

// The accumulator after a group, whose sum was rounded to nearest.
FP4_SIMD F with_group(const Folding& f, F acc, F sum) {
  if (f.runs_per_group == 0) return sum;
  return F{f.toward_zero ? _mm512_add_round_ps(acc.v, sum.v, toward_zero) : _mm512_add_round_ps(acc.v, sum.v, nearest)};
}

template <int fixed_run4>
FP4_TARGET void group_tile(const TileInput& t, const GroupInput& g, const Folding& f, const TileOutput& out) {
  TileSums state;
#pragma GCC unroll 8
  for (int r = 0; r < tile_rows; ++r) store(state.acc[r], all(0.0f));
  const int64_t step = f.runs_per_group == 0 ? f.runs : f.runs_per_group;
  int64_t group = 0;
  for (int64_t first = 0; first < f.runs; first += step, ++group) {
    const int64_t last = smaller(first + step, f.runs);
    __m512i sum[tile_rows];
#pragma GCC unroll 8
    for (int r = 0; r < tile_rows; ++r) sum[r] = _mm512_setzero_si512();
    int64_t run = first;
    for (; run + 2 <= last; run += 2) add_scaled_dots<fixed_run4>(t, g, run, 2, sum);
    if (run < last) add_scaled_dots<fixed_run4>(t, g, run, 1, sum);
    const F unit_b = load(g.unit_b + group * panel_rows) * all(t.quantum);
#pragma GCC unroll 8
    for (int r = 0; r < tile_rows; ++r) {
      const F unit = all(g.unit_a[group * panel_rows + r]) * unit_b;
      const F rounded = F{_mm512_cvt_roundepi32_ps(sum[r], nearest)} * unit;
      store(state.acc[r], with_group(f, load(state.acc[r]), rounded));
    }
  }
  finish_sums<1>(state.acc, f.snap_log2, out);
}

// Groups of blocks whose scales lie too far apart for integers: sums in fp64. false: the inexact flag
// (gemm_int8_avx512.h) does not prove that every sum before a group's rounding was exact; C is not written.
template <int fixed_run4>
FP4_TARGET bool wide_tile(const TileInput& t, const Folding& f, const TileOutput& out) {
  TileSums state;
#pragma GCC unroll 8
  for (int r = 0; r < tile_rows; ++r) store(state.acc[r], all(0.0f));
  const int64_t step = f.runs_per_group == 0 ? f.runs : f.runs_per_group;
  clear_inexact();
  for (int64_t first = 0; first < f.runs; first += step) {
    alignas(64) double sum[tile_rows][panel_rows] = {};
    for (int64_t run = first; run < smaller(first + step, f.runs); ++run) {
      __m512i dot[tile_rows][1];
      int8_dots<1, fixed_run4>(t, run, dot);
      const float* sa = t.scale_a + (run >> t.scale_shift_a) * panel_rows;
      const D sb = load_widened(t.scale_b[0] + (run >> t.scale_shift_b) * panel_rows) *
                   all_double(static_cast<double>(t.quantum));
#pragma GCC unroll 8
      for (int r = 0; r < tile_rows; ++r) {
        const D scale = all_double(static_cast<double>(sa[r])) * sb;
        store(sum[r], fma(to_double(I{dot[r][0]}), scale, load_double(sum[r])));
      }
    }
#pragma GCC unroll 8
    for (int r = 0; r < tile_rows; ++r)
      store(state.acc[r], with_group(f, load(state.acc[r]), narrowed(load_double(sum[r]))));
  }
  if (was_inexact()) return false;
  finish_sums<1>(state.acc, f.snap_log2, out);
  return true;
}

// Blocks of 16 and 32.
inline GroupKernel group_kernel(int64_t run4) {
  switch (run4) {
    case 4: return group_tile<4>;
    case 8: return group_tile<8>;
    default: return nullptr;
  }
}
inline WideKernel wide_kernel(int64_t run4) { return run4 == 4 ? wide_tile<4> : wide_tile<8>; }

}  // namespace fp4::avx512
