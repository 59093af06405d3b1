// Aligned sums of single products (fused25_rz) of which some are cut (cut_singles_body.h). The largest weight of a
// group's products is found in bytes, four products at a time; with the accumulator's exponent it gives the cut. While
// that lies at or below a unit of both sides' products, dense products add up in integers and only sparse ones are cut
// one by one; else all products of the row are.
// Tile: 8 rows of A times 16 or 32 rows of B in the lanes.
#pragma once

#include "src/fast/gemm_cut_avx512.h"
#include "src/fast/gemm_pairs_avx512.h"

namespace fp4::avx512 {

// Of a group and 8 rows. Sums are in units of the cut.
template <int panels>
struct alignas(64) SingleTerms {
  int32_t dot[tile_rows][panels * panel_rows];
  int32_t weight[tile_rows][panels * panel_rows];  // the largest of the group, in the top byte
  int32_t sum[tile_rows][panels * panel_rows];     // cut products and the cut accumulator
  float per_dot[tile_rows][panels * panel_rows];   // a unit of both sides
  float shift[tile_rows][panels * panel_rows];     // from values: log2
};

// The largest weights of a group's products. Maxima and shifts have one port of their own.
template <int panels>
FP4_SIMD void single_weights(const SingleInput& t, int64_t at, SingleTerms<panels>& terms) {
  const __m512i half_turn = _mm512_set4_epi32(0x0D0C0F0E, 0x09080B0A, 0x05040706, 0x01000302);
  const __m512i turn = _mm512_set4_epi32(0x0E0D0C0F, 0x0A09080B, 0x06050407, 0x02010003);
  __m512i column[panels][single_group / 4];
#pragma GCC unroll 8
  for (int k = 0; k < single_group / 4; ++k) {
#pragma GCC unroll 2
    for (int j = 0; j < panels; ++j) column[j][k] = _mm512_load_si512(t.weight_b[j] + at + k * 64);
  }
#pragma GCC unroll 1
  for (int r = 0; r < tile_rows; ++r) {
    __m512i largest[panels];
#pragma GCC unroll 8
    for (int k = 0; k < single_group / 4; ++k) {
      const __m512i row = broadcast_pair(t.weight_a + at + k * 64 + r * 4);
#pragma GCC unroll 2
      for (int j = 0; j < panels; ++j) {
        const __m512i sum = _mm512_add_epi8(row, column[j][k]);
        largest[j] = k == 0 ? sum : _mm512_max_epi8(largest[j], sum);
      }
    }
#pragma GCC unroll 2
    for (int j = 0; j < panels; ++j) {
      largest[j] = _mm512_max_epi8(largest[j], _mm512_shuffle_epi8(largest[j], half_turn));
      largest[j] = _mm512_max_epi8(largest[j], _mm512_shuffle_epi8(largest[j], turn));
      _mm512_store_si512(terms.weight[r] + j * panel_rows, largest[j]);
    }
  }
}

// Cuts of a group, and the accumulators in their units. The rows of whose dense products some may be cut, as bits.
template <int panels>
FP4_SIMD uint32_t find_cuts(const SingleInput& t, int64_t group, const float (*acc)[panels * panel_rows],
                            SingleTerms<panels>& terms) {
  F base_b[panels];
  F unit_b[panels];
#pragma GCC unroll 2
  for (int j = 0; j < panels; ++j) {
    base_b[j] = load(t.base_b[j] + group * panel_rows);
    unit_b[j] = base_b[j] + all(t.unit_log2);
  }
  const F finest = all(t.unit_log2 + t.fraction_bits);
  const float* base_a = t.base_a + group * panel_rows;
  uint32_t rows = 0;
#pragma GCC unroll 4
  for (int r = 0; r < tile_rows; ++r) {
#pragma GCC unroll 2
    for (int j = 0; j < panels; ++j) {
      const int at = j * panel_rows;
      const F before = load(acc[r] + at);
      const I weight = shift_right_signed<24>(load(terms.weight[r] + at));
      F largest = F{_mm512_max_ps(_mm512_getexp_ps(before.v), _mm512_set1_ps(-126.0f))} - (all(base_a[r]) + base_b[j]);
      largest.v = _mm512_mask_max_ps(largest.v, (weight > all(-63)).v, largest.v, to_float(weight).v);
      const F per_dot = finest - largest;  // log2
      const F shift = per_dot - (all(base_a[r]) + unit_b[j]);
      rows |= static_cast<uint32_t>(any(per_dot < all(0.0f))) << r;
      // Beyond 2^120 there is no product in the lane, and no more than an accumulator near zero.
      store(terms.per_dot[r] + at, scaled(all(1.0f), smaller(per_dot, all(120.0f))));
      store(terms.shift[r] + at, shift);
      store(terms.sum[r] + at, truncated(scaled(before, shift)));
    }
  }
  return rows;
}

// Sparse products of rows of which nothing else is cut.
template <int panels>
FP4_SIMD void add_sparse(const SingleInput& t, int64_t group, SingleTerms<panels>& terms) {
  const int64_t first = group * single_group * panel_rows;
  const float* a = t.value_a + first;
  const auto add = [&](int r, int j, const float* row, const float* column) FP4_TARGET {
    int32_t* sum = terms.sum[r] + j * panel_rows;
    store(sum, load(sum) + truncated(all(*row) * load(column) * load(terms.per_dot[r] + j * panel_rows)));
  };
  alignas(64) static constexpr float none[panel_rows] = {};
  for (int32_t i = t.sparse_start[group]; i < t.sparse_start[group + 1]; ++i) {
    const int k = t.sparse_list[i] / tile_rows;
    const int r = t.sparse_list[i] % tile_rows;
#pragma GCC unroll 2
    for (int j = 0; j < panels; ++j) {  // sparse columns come below
      const bool is_sparse = (t.sparse_b[j][group * panel_rows] >> k & 1u) != 0;
      add(r, j, a + k * panel_rows + r, is_sparse ? none : t.value_b[j] + first + k * panel_rows);
    }
  }
#pragma GCC unroll 2
  for (int j = 0; j < panels; ++j) {
    for (uint32_t left = t.sparse_b[j][group * panel_rows]; left != 0; left &= left - 1) {
      const int64_t k = __builtin_ctz(left) * panel_rows;
#pragma GCC unroll 8
      for (int r = 0; r < tile_rows; ++r) add(r, j, a + k + r, t.value_b[j] + first + k);
    }
  }
}

// The products of a row, all of them cut one by one, join its accumulator.
FP4_SIMD D cut_row(const float* a, const float* b, int most, F per_dot, I before) {
  D wide = to_double(before);
  I sum = all(0);
  for (int first = 0, room = most; first < single_group; first += 4, room -= 4) {
    if (room == 0) {
      wide = wide + to_double(sum);
      sum = all(0);
      room = most;
    }
#pragma GCC unroll 4
    for (int k = first; k < first + 4; ++k) {
      sum = sum + truncated(all(a[k * panel_rows]) * load(b + k * panel_rows) * per_dot);
    }
  }
  return wide + to_double(sum);
}

// The sum of a group truncated to fp32.
FP4_SIMD F group_sum(D total, F shift) { return scaled(narrowed_toward_zero(total), all(0.0f) - shift); }

template <int panels>
FP4_SIMD F dense_sum(const SingleTerms<panels>& terms, int r, int at) {
  return group_sum(
      fma(stored_dots(terms.dot[r] + at), load_widened(terms.per_dot[r] + at), stored_dots(terms.sum[r] + at)),
      load(terms.shift[r] + at));
}

// The same from single products; nothing is left of products 2^4 below the cut.
template <int panels>
FP4_SIMD F single_sum(const SingleInput& t, int64_t group, const SingleTerms<panels>& terms, int r, int j, F acc) {
  const int at = j * panel_rows;
  const F per_dot = load(terms.per_dot[r] + at);
  const F shift = load(terms.shift[r] + at);
  const I before = truncated(scaled(acc, shift));
  const I weight = shift_right_signed<24>(load(terms.weight[r] + at));
  const F largest = scaled(per_dot, to_float(weight) + all(4.0f - t.unit_log2));  // what products stay below
  if (!any(largest > all(1.0f))) return group_sum(to_double(before), shift);
  const int64_t first = group * single_group * panel_rows;
  return group_sum(cut_row(t.value_a + first + r, t.value_b[j] + first, t.most, per_dot, before), shift);
}

template <int panels>
FP4_SIMD void add_single_group(const SingleInput& t, int64_t group, SingleTerms<panels>& terms,
                               float (*acc)[panels * panel_rows]) {
  constexpr uint32_t every = (1u << tile_rows) - 1;
  uint32_t rows = find_cuts<panels>(t, group, acc, terms);
  int columns = 0;
  for (int j = 0; j < panels; ++j) columns = larger(columns, __builtin_popcount(t.sparse_b[j][group * panel_rows]));
  if (t.crowded[group] + columns >= t.most) rows = every;  // one is the accumulator
  if (rows != every) add_sparse<panels>(t, group, terms);
  if (rows == 0) {
#pragma GCC unroll 4
    for (int r = 0; r < tile_rows; ++r) {
#pragma GCC unroll 2
      for (int j = 0; j < panels; ++j) store(acc[r] + j * panel_rows, dense_sum<panels>(terms, r, j * panel_rows));
    }
    return;
  }
  for (int r = 0; r < tile_rows; ++r) {
#pragma GCC unroll 2
    for (int j = 0; j < panels; ++j) {
      float* to = acc[r] + j * panel_rows;
      store(to, (rows >> r & 1u) == 0 ? dense_sum<panels>(terms, r, j * panel_rows)
                                      : single_sum<panels>(t, group, terms, r, j, load(to)));
    }
  }
}

template <int panels>
FP4_TARGET inline void singles_tile_of(const SingleInput& t, const Folding& f, const TileOutput& out) {
  WideState<panels> state;
  SingleTerms<panels> terms;
  PairInput pairs = {};
  pairs.a = t.units_a;
  for (int j = 0; j < panels; ++j) pairs.b[j] = t.units_b[j];
  for (int r = 0; r < tile_rows; ++r) {
    for (int j = 0; j < panels; ++j) store(state.acc[r] + j * panel_rows, all(0.0f));
  }
  for (int64_t group = 0; group < t.groups; ++group) {
    __m512i dot[tile_rows][panels];
    unit_dots<panels, single_group / 2>(pairs, group, dot);
    store_dots<panels>(dot, terms.dot);
    single_weights<panels>(t, group * single_group * panel_rows, terms);
    add_single_group<panels>(t, group, terms, state.acc);
  }
  finish_sums<panels>(state.acc, f.snap_log2, out);
}

inline void singles_tile(const SingleInput& t, const Folding& f, int panels, const TileOutput& out) {
  (panels == 2 ? singles_tile_of<2> : singles_tile_of<1>)(t, f, out);
}

}  // namespace fp4::avx512
