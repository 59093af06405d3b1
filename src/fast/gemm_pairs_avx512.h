// C = Q(A) Q(B)^T of elements in units of 16 bits (pairs_body.h): dots of pairs in int32 (vpdpwssd), exact, and a few
// more for the rests. At the end of a block acc = fl32(acc + unit * dot + quantum * rest) with one rounding:
//   whole   no rests, and the dot fits 24 bits: one fused step
//   joined  dot and rests together are an integer that mostly fits 24 bits: one fused step
//   split   unit * dot = high + low, of 24 and 8 bits; the sum of acc and high and its error, exact, then low and rests
//           are added to the error, and one last addition rounds. For scales that are powers of two.
//   parts   split at 15 bits, so that high is exact times a product of scales of 8 bits
//   wide_parts  the same for scale products of up to 24 bits: what high * scale leaves is added to the error
// What must be exact for that raises the inexact flag where it is not (gemm_wide_avx512.h). Where scales are far apart,
// error, low and rests need more than 24 bits: then split sums are `bracketed`, by rounding them both down and up, as
// those in parts always are. Sums in fp32 grow with what is added, so where both ends lead to one result, it is the
// right one, and else fp64 decides.
// Tile: 8 rows of A, broadcast pair by pair, times 16 or 32 rows of B in the lanes.
#pragma once

#include "src/fast/exact_runs_avx512.h"

namespace fp4::avx512 {

inline constexpr bool has_pair_kernels = true;

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
FP4_SIMD void add_rest(const PairInput& t, int64_t run, int64_t at, const fast::Rest& rest, PairState<panels>& state) {
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

// Products with rests of a run: A's with all of B, B's with A's units. They start at zero, or where they are.
template <PairFinish finish, int panels, int pairs, bool opens = true>
FP4_SIMD void rest_dots(const PairInput& t, int64_t run, PairState<panels>& state) {
  for (int r = 0; opens && r < tile_rows; ++r) {
#pragma GCC unroll 2
    for (int j = 0; j < panels; ++j) store(state.rest[r] + j * panel_rows, all(0));
  }
  const int64_t at = run * pairs * 32;
  int32_t first = t.rest_start[run];
  for (int i = 0; i < least_rests(finish); ++i) add_rest(t, run, at, t.rests[first++], state);
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

// A split sum before its last parts, low and what high * scale leaves, are added to the error.
struct SplitSum {
  __m512 sum;
  __m512 error;
  __m512i low;
  __m512 left;  // wide_parts
};

template <PairFinish finish>
FP4_SIMD SplitSum split_sum(__m512 acc, __m512i dot, __m512i rest, __m512 scale, __m512i up) {
  const __m512i low_bits = _mm512_set1_epi32(finish == PairFinish::split ? 0xFF : 0x7FFF);
  const __m512 units = _mm512_cvtepi32_ps(_mm512_andnot_si512(low_bits, dot));
  const __m512 high = _mm512_mul_round_ps(units, scale, nearest);
  const __m512 left = finish == PairFinish::wide_parts ? _mm512_fmsub_ps(units, scale, high) : high;
  // up holds 2^up here; the high words of the low bits are zero.
  const __m512i low = _mm512_dpwssd_epi32(rest, _mm512_and_si512(dot, low_bits), up);
  const __m512 larger = _mm512_range_ps(acc, high, 7);  // by magnitude, with its sign
  const __m512 smaller = _mm512_range_ps(acc, high, 6);
  const __m512 sum = _mm512_add_round_ps(larger, smaller, nearest);
  return {sum, _mm512_sub_ps(smaller, _mm512_sub_ps(sum, larger)), low, left};
}

// The end of a split sum with its last parts rounded up or down; `quantum` is not negative.
template <PairFinish finish, int direction>
FP4_SIMD __m512 split_end(const SplitSum& s, __m512 quantum) {
  constexpr int quiet = direction | _MM_FROUND_NO_EXC;
  __m512 error = s.error;
  if (finish == PairFinish::wide_parts) error = _mm512_add_round_ps(error, s.left, quiet);
  // Split at 8 bits, low needs more than 24 only by its rests: then the flag is raised.
  const __m512 low = finish == PairFinish::split ? _mm512_cvtepi32_ps(s.low) : _mm512_cvt_roundepi32_ps(s.low, quiet);
  return _mm512_add_round_ps(s.sum, _mm512_fmadd_round_ps(low, quantum, error, quiet), nearest);
}

// acc + dot * unit + rest * quantum, rounded once; `scale` and `rest_scale` hold unit and quantum.
template <PairFinish finish>
FP4_SIMD __m512 finished_run(__m512 acc, __m512i dot, __m512i rest, __m512 scale, __m512 rest_scale, __m512i up) {
  if (finish == PairFinish::whole) return _mm512_fmadd_round_ps(_mm512_cvtepi32_ps(dot), scale, acc, nearest);
  if (finish == PairFinish::joined) {
    const __m512i sum = _mm512_add_epi32(_mm512_sllv_epi32(dot, up), rest);
    return _mm512_fmadd_round_ps(_mm512_cvtepi32_ps(sum), rest_scale, acc, nearest);
  }
  const SplitSum s = split_sum<finish>(acc, dot, rest, scale, up);
  return _mm512_add_round_ps(s.sum, _mm512_fmadd_ps(_mm512_cvtepi32_ps(s.low), rest_scale, s.error), nearest);
}

// The same for both ends of the error; true where they differ.
template <PairFinish finish>
FP4_SIMD bool bracketed_run(__m512 acc, __m512i dot, __m512i rest, __m512 scale, __m512 rest_scale, __m512i up,
                            __m512& out) {
  const SplitSum s = split_sum<finish>(acc, dot, rest, scale, up);
  out = split_end<finish, _MM_FROUND_TO_POS_INF>(s, rest_scale);
  const __m512 down = split_end<finish, _MM_FROUND_TO_NEG_INF>(s, rest_scale);
  return _mm512_cmp_ps_mask(down, out, _CMP_NEQ_UQ) != 0;
}

template <int panels, int pairs, bool opens = true>
FP4_SIMD void unit_dots(const PairInput& t, int64_t run, __m512i (&dot)[tile_rows][panels]) {
#pragma GCC unroll 8
  for (int r = 0; opens && r < tile_rows; ++r) {
#pragma GCC unroll 2
    for (int j = 0; j < panels; ++j) dot[r][j] = _mm512_setzero_si512();
  }
  const int64_t at = run * pairs * 32;
  const int16_t* a = t.a + at;
  const int16_t* b0 = t.b[0] + at;
  const int16_t* b1 = t.b[panels - 1] + at;
#pragma GCC unroll 16
  for (int k = 0; k < pairs; ++k) {
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

// The runs of a block, from `run` to `end`.
template <PairFinish finish, int panels, int pairs, bool brackets>
FP4_SIMD void pair_block(const PairInput& t, int64_t run, int64_t end, PairState<panels>& state,
                         Undecided<panels>& waiting) {
  if (finish != PairFinish::whole) rest_dots<finish, panels, pairs>(t, run, state);
  __m512i dot[tile_rows][panels];
  unit_dots<panels, pairs>(t, run, dot);
  for (int64_t next = run + 1; next < end; ++next) {
    if (finish != PairFinish::whole) rest_dots<finish, panels, pairs, false>(t, next, state);
    unit_dots<panels, pairs, false>(t, next, dot);
  }
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
  const __m512i up = _mm512_set1_epi32(is_split(finish) ? 1 << cut : cut);
#pragma GCC unroll 8
  for (int r = 0; r < tile_rows; ++r) {
    const __m512 row = _mm512_set1_ps(sa[r]);
#pragma GCC unroll 2
    for (int j = 0; j < panels; ++j) {
      float* acc = state.acc[r] + j * panel_rows;
      // fl32(sA*sB), as this accumulator asks; exact for scales of at most 8 bits.
      const __m512 scale = _mm512_mul_round_ps(row, unit[j], nearest);
      const __m512 rest_scale = _mm512_mul_round_ps(row, quantum[j], nearest);
      const __m512i rest = finish == PairFinish::whole ? dot[r][j] : load(state.rest[r] + j * panel_rows).v;
      if (!brackets) {
        _mm512_store_ps(acc, finished_run<finish>(_mm512_load_ps(acc), dot[r][j], rest, scale, rest_scale, up));
        continue;
      }
      __m512 sum;
      if (bracketed_run<finish>(_mm512_load_ps(acc), dot[r][j], rest, scale, rest_scale, up, sum)) {
        waiting.vectors |= 1u << (r * panels + j);
        _mm512_store_si512(waiting.dot[r * panels + j], dot[r][j]);
      } else {
        _mm512_store_ps(acc, sum);
      }
    }
  }
  if (brackets && waiting.vectors != 0) decide<panels>(t, run, waiting, state.rest, state.acc);
}

template <PairFinish finish, int panels, int pairs, bool brackets>
FP4_TARGET __attribute__((noinline)) bool pair_tile(const PairInput& t, const TileOutput& out) {
  PairState<panels> state;
  Undecided<panels> waiting;
  for (int r = 0; r < tile_rows; ++r) {
    for (int j = 0; j < panels; ++j) store(state.acc[r] + j * panel_rows, all(0.0f));
  }
  clear_inexact();
  for (int64_t run = 0; run < t.runs; run += t.runs_per_block) {
    if (is_deep(t, run, panels)) {
      exact_block_run<panels>(t, run, 2 * pairs, state.acc);
    } else {
      pair_block<finish, panels, pairs, brackets>(t, run, smaller(run + t.runs_per_block, t.runs), state, waiting);
    }
  }
  if (was_inexact()) return false;
  finish_sums<panels>(state.acc, t.snap_log2, out);
  return true;
}

template <int panels, int pairs>
inline PairKernel pair_kernel_of(PairFinish finish, bool brackets) {
  switch (finish) {
    case PairFinish::whole: return pair_tile<PairFinish::whole, panels, pairs, false>;
    case PairFinish::joined: return pair_tile<PairFinish::joined, panels, pairs, false>;
    case PairFinish::split:
      return brackets ? pair_tile<PairFinish::split, panels, pairs, true>
                      : pair_tile<PairFinish::split, panels, pairs, false>;
    case PairFinish::parts: return pair_tile<PairFinish::parts, panels, pairs, true>;
    case PairFinish::wide_parts: return pair_tile<PairFinish::wide_parts, panels, pairs, true>;
    case PairFinish::none: return nullptr;
  }
  return nullptr;
}

// Split sums can be bracketed.
inline PairKernel pair_kernel(PairFinish finish, int panels, int64_t run, bool brackets) {
  if (run == 32) return panels == 2 ? pair_kernel_of<2, 16>(finish, brackets) : pair_kernel_of<1, 16>(finish, brackets);
  if (run == 16) return panels == 2 ? pair_kernel_of<2, 8>(finish, brackets) : pair_kernel_of<1, 8>(finish, brackets);
  if (run == 8) return panels == 2 ? pair_kernel_of<2, 4>(finish, brackets) : pair_kernel_of<1, 4>(finish, brackets);
  return nullptr;
}

}  // namespace fp4::avx512
