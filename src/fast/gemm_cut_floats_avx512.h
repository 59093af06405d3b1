// Aligned sums of dots (fused35_rz) of elements too wide for units of 16 bits, e5m2: dots in fp64, under the inexact
// flag (gemm_wide_avx512.h), wait until the largest exponent of their group is known. Where the last bits of all
// elements of a row's terms lie above the cut (cut_weights_body.h), terms add up as they are, else each is cut toward
// zero to a whole number of units of the cut. Tile: 8 rows of A times 16 rows of B in the lanes.
#pragma once

#include "src/fast/gemm_cut_pairs_avx512.h"

namespace fp4::avx512 {

struct alignas(64) CutFloatTerms {
  double dot[largest_pair_terms][tile_rows][panel_rows];
  double scale_a[largest_pair_terms][tile_rows];
  double scale_b[largest_pair_terms][panel_rows];
};

FP4_SIMD D float_scale(const CutFloatTerms& terms, int64_t i, int r) {
  return broadcast_double(&terms.scale_a[i][r]) * load_double(terms.scale_b[i]);
}

// The sum of a row's terms and its accumulator, each cut at 2^(largest - fraction_bits).
FP4_SIMD F cut_float_sum(const Folding& f, const CutFloatTerms& terms, int r, int64_t count, F largest, F acc) {
  const F shift = all(static_cast<float>(f.fraction_bits)) - largest;
  const D per_unit = powers_of_two(truncated(shift));
  D sum = truncated_whole(widened(acc) * per_unit);
  for (int64_t i = 0; i < count; ++i) {
    sum = sum + truncated_whole(load_double(terms.dot[i][r]) * (float_scale(terms, i, r) * per_unit));
  }
  return scaled(narrowed_toward_zero(sum + all_double(0.0)),
                all(0.0f) - shift);  // any zero is +0
}

// The same where nothing is cut.
FP4_SIMD F whole_float_sum(const CutFloatTerms& terms, int r, int64_t count, F acc) {
  D sum = all_double(0.0);
  for (int64_t i = 0; i < count; ++i) sum = fma(load_double(terms.dot[i][r]), float_scale(terms, i, r), sum);
  return narrowed_toward_zero(add_toward_zero(widened(acc), sum));
}

// Terms [first, first + count) of K join the accumulators.
FP4_SIMD void add_float_terms(const PairInput& w, const Folding& f, int64_t first, int64_t count,
                              const CutFloatTerms& terms, WideState<1>& state) {
  const int64_t steps = (count + w.span - 1) / w.span;
  for (int r = 0; r < tile_rows; ++r) {
    const F acc = load(state.acc[r]);
    const CutWeights weights = weigh_row<1>(w, f, first / w.span, steps, r, 0, acc);
    store(state.acc[r], weights.cuts ? cut_float_sum(f, terms, r, count, weights.largest, acc)
                                     : whole_float_sum(terms, r, count, acc));
  }
}

// `w` has the scales and the weights. false: some dot or sum was inexact, C is not written.
FP4_TARGET inline bool cut_float_tile(const PairInput& w, const FloatRun& x, const Folding& f, const TileOutput& out) {
  WideState<1> state;
  CutFloatTerms terms;
  for (int r = 0; r < tile_rows; ++r) store(state.acc[r], all(0.0f));
  clear_inexact();
  for (int64_t first = 0; first < f.runs; first += f.runs_per_group) {
    const int64_t count = smaller(f.runs_per_group, f.runs - first);
    for (int64_t i = 0; i < count; ++i) {
      DoubleDots<1> dots;
      float_dots(x, first + i, dots);
#pragma GCC unroll 8
      for (int r = 0; r < tile_rows; ++r) store(terms.dot[i][r], dots.dot[r][0]);
      const float* sa = w.scale_a + ((first + i) >> w.scale_shift_a) * panel_rows;
      _mm512_store_pd(terms.scale_a[i], _mm512_cvtps_pd(_mm256_loadu_ps(sa)));
      store(terms.scale_b[i], load_widened(w.scale_b[0] + ((first + i) >> w.scale_shift_b) * panel_rows));
    }
    if (count == 4) {  // a constant: unrolled
      add_float_terms(w, f, first, 4, terms, state);
    } else {
      add_float_terms(w, f, first, count, terms, state);
    }
  }
  if (was_inexact()) return false;
  finish_sums<1>(state.acc, f.snap_log2, out);
  return true;
}

}  // namespace fp4::avx512
