// Aligned sums whose terms may lose bits (fused35_rz): the dots of a group's terms, in int32, wait until the largest
// exponent of the group is known. Where no term of a row reaches below the cut, terms add up as they are; else each is
// cut toward zero as a whole number of units of the cut. Both are exact in fp64 (may_cut), and the result of a group is
// truncated to fp32.
// Tile: 8 rows of A times 16 rows of B in the lanes.
#pragma once

#include "src/fast/gemm_wide_avx512.h"

namespace fp4::avx512 {

// What the terms of a group have in common with their scales: `span` adjacent terms share them.
struct alignas(64) CutScales {
  int32_t weight_a[largest_terms][panel_rows];
  int32_t weight_b[largest_terms][panel_rows];
  double scale_a[largest_terms][panel_rows];
  double scale_b[largest_terms][panel_rows];  // times the quantum
};

template <int span>
FP4_SIMD void load_scales(const TileInput& t, const Folding& f, int64_t first, int64_t count, CutScales& s) {
  const D quantum = all_double(static_cast<double>(t.quantum));
  for (int64_t i = 0; i < count; i += span) {
    const F a = load(t.scale_a + ((first + i) >> t.scale_shift_a) * panel_rows, first_lanes(tile_rows));
    const F b = load(t.scale_b[0] + ((first + i) >> t.scale_shift_b) * panel_rows);
    store(s.weight_a[i / span], scale_exponents(a, f.least_exponent_a));
    store(s.weight_b[i / span], scale_exponents(b, f.least_exponent_b));
    store(s.scale_a[i / span], widened(a));
    store(s.scale_b[i / span], widened(b) * quantum);
  }
}

struct CutTerms {
  int32_t dot[largest_terms][tile_rows][panel_rows];
};

// The sum of a row's terms and its accumulator, each cut at 2^(largest - fraction_bits).
template <int span>
FP4_SIMD D cut_sum(const Folding& f, const CutScales& s, const CutTerms& terms, int r, int64_t count, I largest,
                   F acc) {
  const I above = largest - all(f.fraction_bits);
  const D per_unit = powers_of_two(all(0) - above);
  D sum = truncated_whole(widened(acc) * per_unit);
  for (int64_t i = 0; i < count; i += span) {
    const D scale = broadcast_double(&s.scale_a[i / span][r]) * load_double(s.scale_b[i / span]) * per_unit;
    for (int64_t j = i; j < smaller(i + span, count); ++j) {
      sum = sum + truncated_whole(stored_dots(terms.dot[j][r]) * scale);
    }
  }
  return sum * powers_of_two(above) + all_double(0.0);  // any zero is +0
}

// The same where nothing is cut.
template <int span>
FP4_SIMD D whole_sum(const CutScales& s, const CutTerms& terms, int r, int64_t count, F acc) {
  D sum = widened(acc);
  for (int64_t i = 0; i < count; i += span) {
    const D scale = broadcast_double(&s.scale_a[i / span][r]) * load_double(s.scale_b[i / span]);
    const int32_t* at = terms.dot[i][r];
    if (span == 1 || i + 1 == count) {
      sum = fma(stored_dots(at), scale, sum);
    } else {
      const I both = load(at) + load(terms.dot[i + 1][r]);
      sum = fma(to_double(both), scale, sum);
    }
  }
  return sum;
}

// Terms [first, first + count) of K: one group.
template <int fixed_run4, int span>
FP4_SIMD void cut_group(const TileInput& t, const Folding& f, int64_t first, int64_t count, CutScales& s,
                        CutTerms& terms, WideState<1>& state) {
  load_scales<span>(t, f, first, count, s);
  for (int64_t i = 0; i < count; ++i) {
    __m512i dot[tile_rows][1];
    int8_dots<1, fixed_run4>(t, first + i, dot);
#pragma GCC unroll 8
    for (int r = 0; r < tile_rows; ++r) _mm512_store_si512(terms.dot[i][r], dot[r][0]);
  }
  for (int r = 0; r < tile_rows; ++r) {
    const F acc = load(state.acc[r]);
    const I magnitude = bits(acc) & all(0x7FFFFFFF);
    const I of_acc = shift_right<23>(larger(magnitude, all(1 << 23))) - all(127);
    I largest = of_acc;
    I least = all(INT32_MAX);
    for (int64_t i = 0; i < count; i += span) {
      const I weight = all(s.weight_a[i / span][r]) + load(s.weight_b[i / span]);
      largest = larger(largest, weight);
      least = smaller(least, weight);
    }
    // The last bits of terms, and of an accumulator that is not zero, lie at or above the cut.
    const I lowest = smaller(least + all(f.lowest_bit), select(magnitude == all(0), least, of_acc) - all(23));
    const bool cuts = any(largest - all(f.fraction_bits) > lowest);
    const D sum = cuts ? cut_sum<span>(f, s, terms, r, count, largest, acc) : whole_sum<span>(s, terms, r, count, acc);
    store(state.acc[r], narrowed_toward_zero(sum));
  }
}

template <int fixed_run4, int span>
FP4_TARGET void cut_tile(const TileInput& t, const Folding& f, const TileOutput& out) {
  WideState<1> state;
  alignas(64) CutScales scales;
  alignas(64) CutTerms terms;
#pragma GCC unroll 8
  for (int r = 0; r < tile_rows; ++r) store(state.acc[r], all(0.0f));
  for (int64_t first = 0; first < f.runs; first += f.runs_per_group) {
    cut_group<fixed_run4, span>(t, f, first, smaller(f.runs_per_group, f.runs - first), scales, terms, state);
  }
  finish_sums<1>(state.acc, f.snap_log2, out);
}

// Terms of 16 products, as fused35_rz has them; others go term by term.
inline CutKernel cut_kernel(int64_t run4, bool share_scales) {
  if (run4 != 4) return nullptr;
  return share_scales ? cut_tile<4, 2> : cut_tile<4, 1>;
}

}  // namespace fp4::avx512
