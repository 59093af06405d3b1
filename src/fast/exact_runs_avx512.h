// Runs of elements in units of 16 bits that those cannot settle (gemm_pairs_avx512.h), in fp64: deep ones, with
// elements whose last bits lie below the quantum of the pairs, and sums beside a tie.
#pragma once

#include "src/fast/gemm_wide_avx512.h"

namespace fp4::avx512 {

FP4_SIMD bool is_deep(const PairInput& t, int64_t run, int panels) {
  if (t.deep_bit == 0) return false;
  return ((t.deep_a[run] & t.deep_bit) | t.deep_b[0][run] | t.deep_b[panels - 1][run]) != 0;
}

// Dots of a run with panel j of B, in quanta; a sum that needs more than 53 bits raises the inexact flag.
FP4_TARGET __attribute__((noinline)) inline void exact_dots(const PairInput& t, int64_t run, int64_t length, int j,
                                                            double (*dot)[panel_rows]) {
  alignas(64) double rows[32][tile_rows];
  widen_rows(t.values_a + run * length * panel_rows, panel_rows, static_cast<int>(length), rows[0]);
  const float* b = t.values_b[j] + run * length * panel_rows;
  D sum[tile_rows];
#pragma GCC unroll 8
  for (int r = 0; r < tile_rows; ++r) sum[r] = all_double(0.0);
  for (int64_t k = 0; k < length; ++k) {
    const D column = load_widened(b + k * panel_rows);
#pragma GCC unroll 8
    for (int r = 0; r < tile_rows; ++r) sum[r] = fma(broadcast_double(&rows[k][r]), column, sum[r]);
  }
  const D per_quantum = all_double(1.0 / static_cast<double>(t.quantum));
#pragma GCC unroll 8
  for (int r = 0; r < tile_rows; ++r) store(dot[r], sum[r] * per_quantum);
}

// acc = fl32(acc + dot * sA*sB) for a whole run.
template <int panels>
FP4_TARGET __attribute__((noinline)) void exact_block_run(const PairInput& t, int64_t run, int64_t length,
                                                          float (*acc)[panels * panel_rows]) {
  alignas(64) double dot[tile_rows][panel_rows];
  const float* sa = t.scale_a + (run >> t.scale_shift_a) * panel_rows;
  for (int j = 0; j < panels; ++j) {
    exact_dots(t, run, length, j, dot);
    const F sb = load(t.scale_b[j] + (run >> t.scale_shift_b) * panel_rows);
    for (int r = 0; r < tile_rows; ++r) {
      float* at = acc[r] + j * panel_rows;
      const D scale = widened(F{_mm512_mul_round_ps(_mm512_set1_ps(sa[r] * t.quantum), sb.v, nearest)});
      store(at, rounded_step(load_double(dot[r]), scale, load(at)));
    }
  }
}

// Lanes of a run that wait for their last rounding, a bit a vector, and the dots of those.
template <int panels>
struct alignas(64) Undecided {
  uint32_t vectors = 0;
  int32_t dot[tile_rows * panels][panel_rows];
};

// acc = fl32(acc + unit * dot + quantum * rest) for the vectors that wait.
template <int panels>
FP4_TARGET __attribute__((noinline)) void decide(const PairInput& t, int64_t run, Undecided<panels>& waiting,
                                                 const int32_t (*rest)[panels * panel_rows],
                                                 float (*acc)[panels * panel_rows]) {
  const float* sa = t.scale_a + (run >> t.scale_shift_a) * panel_rows;
  const D unit = all_double(static_cast<double>(1 << (t.cut_a + t.cut_b)));
  for (; waiting.vectors != 0; waiting.vectors &= waiting.vectors - 1) {
    const int i = __builtin_ctz(waiting.vectors);
    const int r = i / panels;
    const int j = i % panels;
    float* at = acc[r] + j * panel_rows;
    const F sb = load(t.scale_b[j] + (run >> t.scale_shift_b) * panel_rows);
    const D scale = widened(F{_mm512_mul_round_ps(_mm512_set1_ps(sa[r] * t.quantum), sb.v, nearest)});
    const D dot = fma(stored_dots(waiting.dot[i]), unit, stored_dots(rest[r] + j * panel_rows));
    store(at, rounded_step(dot, scale, load(at)));
  }
}

}  // namespace fp4::avx512
