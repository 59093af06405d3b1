// Panels for aligned sums of single products that are cut (gemm_cut_singles_avx512.h): groups of 32 products. Values of
// a row and group are scaled by the group's largest weight, `base`. Those that are whole numbers of 2^cut lie in 16
// bits, too: their products add up as integers. The few that are not, near zero, are `sparse`, products of their own.
#pragma once

#include <cmath>

#include "src/fast/cut_weights_body.h"
#include "src/parallel.h"

namespace fp4::FP4_ISA {

inline constexpr int least_single_weight = -31;  // below the base; others are left to gemm_terms_body.h
inline constexpr int no_single_weight = -64;     // of zeros: any sum with it lies below every sum of two weights

struct SinglePanels {
  float* value;      // [panel][K][16] in units
  int16_t* units;    // [panel][K/2][16][2], zero where sparse
  int8_t* weight;    // [panel][K/4][16][4]
  float* base;       // [panel][group][16]
  uint32_t* sparse;  // [panel][group][16] bit per product; side B: the same in all lanes
  uint8_t* list;     // side A: [panel][half of 8 rows] product * 8 + row, in the order of groups
  int32_t* start;    // [panel][half][groups + 1]
  int32_t* crowded;  // [panel][half][group] the most of a row
  int32_t* regular;  // [panel] whether all weights are in reach
  int64_t padded;    // whole groups
  int cut;
};

// What the units of a side are chosen by: bounds of |x| over groups, and the last bit of all.
struct SingleSpan {
  float norm = 0.0f;
  float lowest = no_last_bit;
};

struct SinglesPlan {
  SinglePanels a;
  SinglePanels b;
  int most;  // products that may be summed in int32
  bool serves = false;
};

// Products of elements and scales exact in fp32, groups of one word's bits.
inline bool may_cut_singles(const Product& p, const Folding& f) {
  const auto bits = [](const Quantizer& q) { return q.element.mantissa_bits + q.scale.mantissa_bits + 2; };
  return has_pair_kernels && p.has_terms && f.sum == Sum::aligned && f.chunk == 1 && f.group == single_group &&
         f.snap_log2 == no_snap && f.fraction_bits <= 25 && !f.has_wide_scales && !p.restarts() &&
         bits(p.a.q) + bits(p.b.q) <= 24 && !p.a.q.stores_multiplier() && !p.b.q.stores_multiplier();
}

inline size_t single_bytes(const Panels& p, int64_t padded) {
  const int64_t n = p.count * padded * panel_rows;
  const int64_t groups = p.count * padded / single_group * panel_rows;
  return Arena::bytes_for<uint8_t>(n) + Arena::bytes_for<int32_t>(groups + 2 * p.count) +
         Arena::bytes_for<int32_t>(groups) + Arena::bytes_for<float>(n) + Arena::bytes_for<int16_t>(n) +
         Arena::bytes_for<int8_t>(n) + Arena::bytes_for<float>(groups) + Arena::bytes_for<uint32_t>(groups) +
         Arena::bytes_for<int32_t>(p.count);
}
inline SinglePanels take_singles(const Panels& p, int64_t padded, Arena& arena) {
  const int64_t n = p.count * padded * panel_rows;
  const int64_t groups = p.count * padded / single_group * panel_rows;
  SinglePanels s;
  s.value = arena.take<float>(n);
  s.units = arena.take<int16_t>(n);
  s.weight = arena.take<int8_t>(n);
  s.base = arena.take<float>(groups);
  s.sparse = arena.take<uint32_t>(groups);
  s.list = arena.take<uint8_t>(n);
  s.start = arena.take<int32_t>(groups + 2 * p.count);
  s.crowded = arena.take<int32_t>(groups);
  s.regular = arena.take<int32_t>(p.count);
  s.padded = padded;
  s.cut = 0;
  return s;
}

// Values, weights and bases of a panel from its terms, which end at `stored`.
FP4_TARGET inline void fill_singles(const TermStore& from, int64_t panel, int64_t stored, const SinglePanels& s,
                                    SingleSpan& span) {
  F norm = all(0.0f);
  F lowest = all(no_last_bit);
  M regular = first_lanes(panel_rows);
  for (int64_t first = 0; first < s.padded; first += single_group) {
    const int64_t last = smaller(first + single_group, stored);
    I base = all(no_term);
    for (int64_t k = first; k < last; ++k) base = larger(base, load(from.weight + k * panel_rows));
    base = select(base > all(no_term / 2), base, all(0));
    const F unit = as_float(shift_left<23>(all(127) - base));
    F sum = all(0.0f);
    I four = all(0);
    for (int64_t k = first; k < first + single_group; ++k) {
      const bool is_stored = k < last;
      const F v = is_stored ? load(from.value + k * panel_rows) * unit : all(0.0f);
      const I w = is_stored ? load(from.weight + k * panel_rows) : all(no_term);
      const M zero = w < all(no_term / 2);
      const I below = w - base;
      regular = regular & (zero | ~(below < all(least_single_weight)));
      lowest = smaller(lowest, last_bits(v));
      sum = fma(v, v, sum);
      store(s.value + (panel * s.padded + k) * panel_rows, v);
      four = four | shift_left(select(zero, all(no_single_weight), below) & all(0xFF), static_cast<int>(k % 4 * 8));
      if (k % 4 != 3) continue;
      store(reinterpret_cast<int32_t*>(s.weight + (panel * s.padded + k - 3) * panel_rows), four);
      four = all(0);
    }
    norm = larger(norm, sum);
    store(s.base + (panel * s.padded + first) / single_group * panel_rows, to_float(base));
  }
  span.norm = 1.001f * std::sqrt(float_of(static_cast<uint32_t>(largest_lane(bits(norm)))));
  alignas(64) float least[panel_rows];
  store(least, lowest);
  for (const float x : least) span.lowest = smaller(span.lowest, x);
  s.regular[panel] = to_bits(regular) == 0xFFFF;
}

// Values in units of 2^cut. `columns`: a product is sparse for all of a panel.
FP4_TARGET inline void split_singles(const SinglePanels& s, int64_t panel, bool columns) {
  const F per_unit = all(power_of_two(-s.cut));
  for (int64_t first = 0; first < s.padded; first += single_group) {
    I sparse = all(0);
    I low = all(0);
    for (int64_t k = first; k < first + single_group; ++k) {
      float* value = s.value + (panel * s.padded + k) * panel_rows;
      const F x = load(value) * per_unit;
      store(value, x);
      const I units = truncated(x);
      M is_sparse = ~(to_float(units) == x);
      if (columns && any(is_sparse)) is_sparse = first_lanes(panel_rows);
      sparse = sparse | select(is_sparse, all(1u << (k - first)), all(0));
      const I kept = select(is_sparse, all(0), units);
      if (k % 2 == 0) {
        low = kept & all(0xFFFF);
      } else {
        store(reinterpret_cast<int32_t*>(s.units + (panel * s.padded + k - 1) * panel_rows),
              low | shift_left<16>(kept));
      }
    }
    store(s.sparse + (panel * s.padded + first) / single_group * panel_rows, sparse);
  }
}

// The sparse elements of rows, as lists.
inline void list_singles(const SinglePanels& s, int64_t panel) {
  const int64_t groups = s.padded / single_group;
  for (int64_t half = 0; half < 2; ++half) {
    const int64_t at = 2 * panel + half;
    uint8_t* list = s.list + at * s.padded * tile_rows;
    int32_t* start = s.start + at * (groups + 1);
    int32_t count = 0;
    start[0] = 0;
    for (int64_t group = 0; group < groups; ++group) {
      const uint32_t* sparse = s.sparse + (panel * groups + group) * panel_rows + half * tile_rows;
      int most = 0;
      for (int r = 0; r < tile_rows; ++r) {
        most = larger(most, __builtin_popcount(sparse[r]));
        for (uint32_t left = sparse[r]; left != 0; left &= left - 1) {
          list[count++] = static_cast<uint8_t>(__builtin_ctz(left) * tile_rows + r);
        }
      }
      s.crowded[at * groups + group] = most;
      start[group + 1] = count;
    }
  }
}

// Units as coarse as the cut of the largest sum is expected to be, finer ones where all elements allow them, and sums
// that fit 32 bits. Sparse columns cost eight times a sparse element of a row, so rows have the coarser units.
inline void choose_single_units(const Folding& f, int64_t cols, const SingleSpan& a, const SingleSpan& b,
                                SinglePanels& to_a, SinglePanels& to_b) {
  constexpr int finest = -12;  // of values below 4, in 16 bits
  const float product = larger(a.norm * b.norm, power_of_two(-60));
  const auto log2_above = [](float x) { return static_cast<int>(bits_of(x) >> 23) - 126; };
  const int expected = log2_above(product * std::sqrt(static_cast<float>(cols)) / 16.0f) - f.fraction_bits + 1;
  const int unit = larger(log2_above(product) - 30, expected);
  const auto lowest = [](const SingleSpan& s) { return s.lowest < 100.0f ? static_cast<int>(s.lowest) : -100; };
  to_b.cut = larger(larger(finest, lowest(b)), (unit - 4) >> 1);
  to_a.cut = larger(larger(finest, lowest(a)), unit - to_b.cut);
}

// How many products, in units of the cut, int32 surely holds: in fours, for the loop over all of a group.
inline int most_in_int32(const Product& p, const Folding& f) {
  const auto below = [](int mantissa_bits) { return 2.0f - power_of_two(-mantissa_bits); };
  float largest = power_of_two(f.fraction_bits);
  for (const Side* side : {&p.a, &p.b}) {
    largest = largest * below(side->q.element.mantissa_bits) * below(side->q.scale.mantissa_bits);
  }
  return smaller(static_cast<int>(0x1.fffffp30f / largest) / 4 * 4, single_group);
}

// Both sides, from panels that are filled.
FP4_TARGET inline void prepare_singles(const Product& p, const Folding& f, SinglesPlan& plan) {
  const int64_t padded = fast::round_up(p.a.panels.padded, single_group);
  thread_local Arena arena;
  const Side* sides[] = {&p.a, &p.b};
  SinglePanels* panels[] = {&plan.a, &plan.b};
  arena.reset(single_bytes(p.a.panels, padded) + single_bytes(p.b.panels, padded));
  SingleSpan spans[2];
  const int threads = threads_for(p);
  for (int i = 0; i < 2; ++i) {
    const Panels& from = sides[i]->panels;
    SinglePanels& to = *panels[i];
    to = take_singles(from, padded, arena);
    parallel_for(0, from.count, 1, threads, 4, [&](int64_t panel) {
      thread_local Arena terms;
      terms.reset(term_bytes(from.padded * panel_rows));
      const TermStore store = take_terms(terms, from.padded * panel_rows);
      unpack_terms(*sides[i], panel, i == 0 ? p.offset : 0, f, store);
      SingleSpan span;
      fill_singles(store, panel, from.padded, to, span);
#pragma omp critical
      spans[i] = {larger(spans[i].norm, span.norm), smaller(spans[i].lowest, span.lowest)};
    });
  }
  choose_single_units(f, p.a.cols, spans[0], spans[1], plan.a, plan.b);
  for (int i = 0; i < 2; ++i) {
    parallel_for(0, sides[i]->panels.count, 1, threads, 4, [&](int64_t panel) {
      split_singles(*panels[i], panel, i == 1);
      if (i == 0) list_singles(*panels[i], panel);
    });
  }
  plan.most = most_in_int32(p, f);
  plan.serves = true;
}

}  // namespace fp4::FP4_ISA
