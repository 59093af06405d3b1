// C = Q(A) Q(B)^T of elements in units of 16 bits (pairs_body.h): dots of pairs in int32 (vpdpwssd), exact, and a few
// more for the rests. At the end of a block acc = fl32(acc + unit * dot + quantum * rest) with one rounding:
// unit * dot = high + low, of 24 and 8 bits; the sum of acc and high and its error, exact, then low and rests are added
// to the error, and one last addition rounds. For scales that are powers of two.
// What must be exact for that raises the inexact flag where it is not (gemm_int8_avx512.h): where scales are far apart,
// error, low and rests need more than 24 bits, and the tile falls to the next kernel.
// Tile: 8 rows of A, broadcast pair by pair, times 16 or 32 rows of B in the lanes.
#pragma once

#include "src/cpu/gemm/gemm_int8_avx512.h"

namespace fp4::avx512 {

// Units of a run in a panel.
inline constexpr int64_t pair_words = pair_run * panel_rows;

template <int panels>
struct alignas(64) PairState {
  float acc[tile_rows][panels * panel_rows];
  int32_t rest[tile_rows][panels * panel_rows];
};

FP4_SIMD __m512i broadcast_pair(const void* p) {
  __m512i v;  // as an instruction: see int8_dots
  asm("vpbroadcastd %1, %0" : "=v"(v) : "m"(*static_cast<const int32_t*>(p)));
  return v;
}

FP4_SIMD void add_pairs(int32_t* sum, __m512i row, __m512i column) {
  _mm512_store_si512(sum, _mm512_dpwssd_epi32(_mm512_load_si512(sum), row, column));
}

// One rest of A with all of B.
template <int panels>
FP4_SIMD void add_rest(const PairInput& t, int64_t run, int64_t at, const cpu::Rest& rest, PairState<panels>& state) {
  const __m512i row = broadcast_pair(&rest.words);
#pragma GCC unroll 2
  for (int j = 0; j < panels; ++j) {
    int32_t* sum = state.rest[rest.row] + j * panel_rows;
    add_pairs(sum, row, _mm512_load_si512(t.b[j] + at + rest.pair * 32));
    if ((t.marks_b[j][run] >> rest.pair & 1u) == 0) continue;
    add_pairs(sum, _mm512_srl_epi16(row, _mm_cvtsi32_si128(t.cut_b)),
              _mm512_load_si512(t.rest_b[j] + at + rest.pair * 32));
  }
}

// Products with rests of a run: A's with all of B, B's with A's units.
template <int panels>
FP4_SIMD void rest_dots(const PairInput& t, int64_t run, PairState<panels>& state) {
  for (int r = 0; r < tile_rows; ++r) {
#pragma GCC unroll 2
    for (int j = 0; j < panels; ++j) store(state.rest[r] + j * panel_rows, all(0));
  }
  const int64_t at = run * pair_words;
  int32_t first = t.rest_start[run];
  for (int i = 0; i < least_rests; ++i) add_rest(t, run, at, t.rests[first++], state);
  for (; first < t.rest_start[run + 1]; ++first) add_rest(t, run, at, t.rests[first], state);
  uint32_t marks = t.marks_b[0][run];
  if (panels == 2) marks |= t.marks_b[panels - 1][run] << 16;
  for (; marks != 0; marks &= marks - 1) {
    const int bit = __builtin_ctz(marks);
    const int j = bit / 16;
    const int64_t pair = at + bit % 16 * 32;
    const __m512i column = _mm512_sll_epi16(_mm512_load_si512(t.rest_b[j] + pair), _mm_cvtsi32_si128(t.cut_a));
    for (int r = 0; r < tile_rows; ++r) {
      add_pairs(state.rest[r] + j * panel_rows, broadcast_pair(t.a + pair + 2 * r), column);
    }
  }
}

// A split sum before its last parts, low and rests, are added to the error.
struct SplitSum {
  __m512 sum;
  __m512 error;
  __m512i low;
};

FP4_SIMD SplitSum split_sum(__m512 acc, __m512i dot, __m512i rest, __m512 scale, __m512i up) {
  const __m512i low_bits = _mm512_set1_epi32(0xFF);
  const __m512 units = _mm512_cvtepi32_ps(_mm512_andnot_si512(low_bits, dot));
  const __m512 high = _mm512_mul_round_ps(units, scale, nearest);
  // up holds 2^up here; the high words of the low bits are zero.
  const __m512i low = _mm512_dpwssd_epi32(rest, _mm512_and_si512(dot, low_bits), up);
  const __m512 larger = _mm512_range_ps(acc, high, 7);  // by magnitude, with its sign
  const __m512 smaller = _mm512_range_ps(acc, high, 6);
  const __m512 sum = _mm512_add_round_ps(larger, smaller, nearest);
  return {sum, _mm512_sub_ps(smaller, _mm512_sub_ps(sum, larger)), low};
}

// acc + dot * unit + rest * quantum, rounded once; `scale` and `rest_scale` hold unit and quantum.
FP4_SIMD __m512 finished_run(__m512 acc, __m512i dot, __m512i rest, __m512 scale, __m512 rest_scale, __m512i up) {
  const SplitSum s = split_sum(acc, dot, rest, scale, up);
  return _mm512_add_round_ps(s.sum, _mm512_fmadd_ps(_mm512_cvtepi32_ps(s.low), rest_scale, s.error), nearest);
}

template <int panels>
FP4_SIMD void unit_dots(const PairInput& t, int64_t run, __m512i (&dot)[tile_rows][panels]) {
#pragma GCC unroll 8
  for (int r = 0; r < tile_rows; ++r) {
#pragma GCC unroll 2
    for (int j = 0; j < panels; ++j) dot[r][j] = _mm512_setzero_si512();
  }
  const int64_t at = run * pair_words;
  const int16_t* a = t.a + at;
  const int16_t* b0 = t.b[0] + at;
  const int16_t* b1 = t.b[panels - 1] + at;
#pragma GCC unroll 16
  for (int k = 0; k < pair_run / 2; ++k) {
    __m512i column[panels];
    column[0] = _mm512_load_si512(b0 + k * 32);
    if (panels == 2) column[panels - 1] = _mm512_load_si512(b1 + k * 32);
#pragma GCC unroll 8
    for (int r = 0; r < tile_rows; ++r) {
      const __m512i row = broadcast_pair(a + k * 32 + 2 * r);
#pragma GCC unroll 2
      for (int j = 0; j < panels; ++j) dot[r][j] = _mm512_dpwssd_epi32(dot[r][j], row, column[j]);
    }
  }
}

template <int panels>
FP4_SIMD void pair_block(const PairInput& t, int64_t run, PairState<panels>& state) {
  rest_dots<panels>(t, run, state);
  __m512i dot[tile_rows][panels];
  unit_dots<panels>(t, run, dot);
  const float* sa = t.scale_a + (run >> t.scale_shift_a) * panel_rows;
  __m512 unit[panels];
  __m512 quantum[panels];
#pragma GCC unroll 2
  for (int j = 0; j < panels; ++j) {
    const __m512 sb = _mm512_load_ps(t.scale_b[j] + (run >> t.scale_shift_b) * panel_rows);
    unit[j] = _mm512_mul_round_ps(sb, _mm512_set1_ps(t.unit), nearest);
    quantum[j] = _mm512_mul_round_ps(sb, _mm512_set1_ps(t.quantum), nearest);
  }
  const int cut = t.cut_a + t.cut_b;
  const __m512i up = _mm512_set1_epi32(1 << cut);
#pragma GCC unroll 8
  for (int r = 0; r < tile_rows; ++r) {
    const __m512 row = _mm512_set1_ps(sa[r]);
#pragma GCC unroll 2
    for (int j = 0; j < panels; ++j) {
      float* acc = state.acc[r] + j * panel_rows;
      // fl32(sA*sB), as this accumulator asks; exact for scales of at most 8 bits.
      const __m512 scale = _mm512_mul_round_ps(row, unit[j], nearest);
      const __m512 rest_scale = _mm512_mul_round_ps(row, quantum[j], nearest);
      const __m512i rest = load(state.rest[r] + j * panel_rows).v;
      _mm512_store_ps(acc, finished_run(_mm512_load_ps(acc), dot[r][j], rest, scale, rest_scale, up));
    }
  }
}

template <int panels>
FP4_TARGET __attribute__((noinline)) bool pair_tile(const PairInput& t, const TileOutput& out) {
  PairState<panels> state;
  for (int r = 0; r < tile_rows; ++r) {
    for (int j = 0; j < panels; ++j) store(state.acc[r] + j * panel_rows, all(0.0f));
  }
  clear_inexact();
  for (int64_t run = 0; run < t.runs; ++run) pair_block<panels>(t, run, state);
  if (was_inexact()) return false;
  finish_sums<panels>(state.acc, t.snap_log2, out);
  return true;
}

inline PairKernel pair_kernel(int panels) { return panels == 2 ? pair_tile<2> : pair_tile<1>; }

}  // namespace fp4::avx512
