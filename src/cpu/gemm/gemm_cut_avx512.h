// Aligned sums whose terms may lose bits (fused35_rz): the dots of a group's terms, in int32, wait until the largest
// exponent of the group is known. Where no term of a row reaches below the cut, terms add up as they are; else each is
// cut toward zero as a whole number of units of the cut. Both are exact in fp64 (may_cut), and the result of a group is
// truncated to fp32.
// Tile: 8 rows of A times 16 rows of B in the lanes.
#pragma once

#include "src/cpu/gemm/gemm_int8_avx512.h"

namespace fp4::avx512 {

// What the terms of a group have in common with their scales: `span` adjacent terms share them.
struct alignas(64) CutScales {
  int32_t weight_a[largest_terms][panel_rows];
  int32_t weight_b[largest_terms][panel_rows];
  double scale_a[largest_terms][panel_rows];
  double scale_b[largest_terms][panel_rows];  // times the quantum
  M zero_a[largest_terms];                    // lanes of scales that are zero
  M zero_b[largest_terms];
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
    s.zero_a[i / span] = a == all(0.0f);
    s.zero_b[i / span] = b == all(0.0f);
  }
}

struct CutTerms {
  int32_t dot[largest_terms][tile_rows][panel_rows];
};

// The lanes in which some product of a term differs from zero, for row r of A: a byte of a column and the byte of the
// row, which holds its value plus a_offset, do.
FP4_SIMD __mmask16 lanes_with_products(const TileInput& t, const Folding& f, int64_t term, int r) {
  const __m512i zero = _mm512_set1_epi8(static_cast<char>(f.a_offset));
  __mmask16 lanes = 0;
  for (int64_t k = term * t.run4; k < (term + 1) * t.run4; ++k) {
    const __m512i row = _mm512_set1_epi32(*reinterpret_cast<const int32_t*>(t.a + k * 64 + r * 4));
    const __m512i both = _mm512_min_epu8(_mm512_xor_si512(row, zero), _mm512_load_si512(t.b[0] + k * 64));
    lanes |= _mm512_test_epi32_mask(both, both);
  }
  return lanes;
}

// The largest weight of terms [i, i + span), whose scales have the weight `scales`, where terms without a product other
// than zero weigh f.zero_exponent.
template <int span>
FP4_SIMD I weight_of_products(const TileInput& t, const Folding& f, const CutScales& s, const CutTerms& terms,
                              int64_t first, int64_t i, int64_t count, int r, I scales) {
  if ((s.zero_a[i / span].v >> r & 1) != 0) return all(f.zero_exponent);
  I weight = all(INT32_MIN);
  for (int64_t j = i; j < smaller(i + span, count); ++j) {
    M nothing = load(terms.dot[j][r]) == all(0);
    if (any(nothing)) nothing = M{static_cast<__mmask16>(nothing.v & ~lanes_with_products(t, f, first + j, r))};
    weight = larger(weight, select(nothing | s.zero_b[i / span], all(f.zero_exponent), scales));
  }
  return weight;
}

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
      sum = sum + truncated_whole(to_double(load(terms.dot[j][r])) * scale);
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
      sum = fma(to_double(load(at)), scale, sum);
    } else {
      const I both = load(at) + load(terms.dot[i + 1][r]);
      sum = fma(to_double(both), scale, sum);
    }
  }
  return sum;
}

// Terms [first, first + count) of K: one group. false: a term would be cut under only_whole.
template <int fixed_run4, int span>
FP4_SIMD bool cut_group(const TileInput& t, const Folding& f, int64_t first, int64_t count, CutScales& s,
                        CutTerms& terms, TileSums& state) {
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
    const bool weighs_zeros = f.zero_exponent != no_zero_exponent;
    I largest = of_acc;  // of an accumulator of zero: below all terms in any case (scales_in_range)
    I least = all(INT32_MAX);
    for (int64_t i = 0; i < count; i += span) {
      const I weight = all(s.weight_a[i / span][r]) + load(s.weight_b[i / span]);
      largest =
          larger(largest, weighs_zeros ? weight_of_products<span>(t, f, s, terms, first, i, count, r, weight) : weight);
      // Dots under a scale of zero are zero, whatever their weight.
      if ((s.zero_a[i / span].v >> r & 1) == 0) least = select(s.zero_b[i / span], least, smaller(least, weight));
    }
    // The last bits of terms, and of an accumulator that is not zero, lie at or above the cut.
    const I lowest = smaller(least + all(f.lowest_bit), select(magnitude == all(0), least, of_acc) - all(23));
    const bool cuts = any(largest - all(f.fraction_bits) > lowest);
    if (cuts && f.only_whole) return false;
    const D sum = cuts ? cut_sum<span>(f, s, terms, r, count, largest, acc) : whole_sum<span>(s, terms, r, count, acc);
    store(state.acc[r], narrowed_toward_zero(sum));
  }
  return true;
}

template <int fixed_run4, int span>
FP4_TARGET bool cut_tile(const TileInput& t, const Folding& f, const TileOutput& out) {
  TileSums state;
  alignas(64) CutScales scales;
  alignas(64) CutTerms terms;
#pragma GCC unroll 8
  for (int r = 0; r < tile_rows; ++r) store(state.acc[r], all(0.0f));
  for (int64_t first = 0; first < f.runs; first += f.runs_per_group) {
    const int64_t count = smaller(f.runs_per_group, f.runs - first);
    if (!cut_group<fixed_run4, span>(t, f, first, count, scales, terms, state)) return false;
  }
  finish_sums<1>(state.acc, f.snap_log2, out);
  return true;
}

// Terms of 16 products, as fused35_rz has them; others go term by term.
inline CutKernel cut_kernel(int64_t run4, bool share_scales) {
  if (run4 != 4) return nullptr;
  return share_scales ? cut_tile<4, 2> : cut_tile<4, 1>;
}

}  // namespace fp4::avx512
