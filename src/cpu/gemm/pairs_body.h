// Elements in units of 16 bits. The multiples of e4m3's quantum take 18 bits, so a unit of several quanta is chosen for
// each side, as fine as 16 bits and sums of 32 bits allow; the value is unit * floor + rest, and rests are rare: only
// elements near zero have bits below the unit. Side A keeps its rests in lists, side B where its pairs lie.
#pragma once

#include <algorithm>
#include <cmath>

#include "src/cpu/gemm/product_fold_body.h"
#include "src/cpu/gemm/tiles.h"
#include "src/cpu/simd/lanes.h"
#include "src/threads/parallel.h"
#include "src/threads/scratch.h"

namespace fp4::FP4_ISA {

inline constexpr int64_t pair_bound = int64_t{1} << 31;
inline constexpr int largest_cut = 7;

// Most that a unit can count to, and that a dot can.
inline int64_t units_of(int64_t largest, int cut) { return (largest >> cut) + 1; }
inline bool dot_fits(int64_t run, int64_t a, int64_t b) { return run * a * b < pair_bound; }

inline PairUnits pair_units(const Quantizer& a, const Quantizer& b) {
  const auto largest = [](const Quantizer& q) {
    return q.element.code_bits() > 8 ? pair_bound : decode_fixed(q.element, q.element.largest_code);
  };
  const int64_t all_a = largest(a);
  const int64_t all_b = largest(b);
  PairUnits u;
  if (all_a >= 1 << 21 || all_b >= 1 << 21) return u;
  while (units_of(all_b, u.cut_b) >= 1 << 15) ++u.cut_b;
  while (units_of(all_a, u.least_cut_a) >= 1 << 15) ++u.least_cut_a;
  const int64_t most_b = units_of(all_b, u.cut_b);
  u.cut_a = u.least_cut_a;
  const auto fits = [&] { return dot_fits(pair_run, units_of(all_a, u.cut_a), most_b); };
  while (u.cut_a < largest_cut && !fits()) ++u.cut_a;
  const int cut = u.cut_a + u.cut_b;
  const int64_t rests = pair_run * (units_of(all_a, u.cut_a) + most_b) << cut;
  if (!fits() || rests + (int64_t{1} << (15 + cut)) >= pair_bound || larger(u.least_cut_a, u.cut_b) > largest_cut)
    return u;
  u.serves = true;
  return u;
}

// Blocks of one run whose scales are powers of two.
inline PairUnits choose_pairs(const Product& p) {
  const bool has_powers = scale_fraction_bits(p.a.q) == 0 && scale_fraction_bits(p.b.q) == 0;
  const bool fits = p.options.accumulator.kind == AccumulatorKind::block && p.run == pair_run && !p.restarts();
  return has_vnni && has_powers && fits ? pair_units(p.a.q, p.b.q) : PairUnits{};
}

// Whether all parts of split sums are floats: what becomes infinite has no error.
inline bool keeps_split_bits(const SumSpan& span) { return span.sum_log2 <= 126 && span.lowest_bit >= -149; }

inline void lay_pairs(Panels& p, Scratch& scratch, bool is_a) {
  const int64_t elements = p.count * p.padded * panel_rows;
  const int64_t runs = p.padded / pair_run;
  scratch.put(p.pairs, elements);
  scratch.put(p.norm, p.count);
  if (is_a) {
    scratch.put(p.rests, 2 * p.count * p.rests_per_list());
    scratch.put(p.cut, p.count);
    scratch.put(p.rest_start, p.count * 2 * (runs + 1));
  } else {
    scratch.put(p.column_rests, elements);
    scratch.put(p.rest_marks, p.count * runs);
  }
}

// Whole numbers below 2^21 as the low bits of 1.5 * 2^23 + v.
FP4_SIMD I fixed_bits(F v, F per_quantum) { return bits(fma(v, per_quantum, all(0x1.8p23f))); }

struct PairCut {
  F per_quantum;
  I cut;
  I to_high;  // shift of the second column
  I sign;     // where the words end at bit 22, which is set for positive numbers
  int mask;
  int up;
};

FP4_SIMD PairCut pair_cut(const Side& side, int cut, int cut_other) {
  return {all(power_of_two(-side.quantum_log2())), all(cut),       all(16 - cut),
          all(cut == 7 ? 0x80008000u : 0u),        (1 << cut) - 1, cut_other};
}

FP4_SIMD I rest_words(const PairCut& c, I first, I second) {
  const I mask = all(c.mask);
  return shift_left((first & mask) | shift_left<16>(second & mask), c.up);
}

// The rests of rows, in lists.
struct RowRests {
  cpu::Rest* list[2];
  int32_t* start[2];
  int32_t count[2];

  FP4_SIMD void add(int64_t, int64_t pair, uint32_t lanes, I words) {
    alignas(64) int32_t word[panel_rows];
    store(word, words);
    for (; lanes != 0; lanes &= lanes - 1) {
      const int row = __builtin_ctz(lanes);
      const int half = row / tile_rows;
      list[half][count[half]++] = {word[row], static_cast<uint16_t>(pair), static_cast<uint16_t>(row % tile_rows)};
    }
  }
  FP4_SIMD void end(int64_t run) {
    for (int half = 0; half < 2; ++half) {
      // Written whether needed or not: a branch would be mispredicted every second time.
      for (int32_t i = 0; i < least_rests; ++i) list[half][count[half] + i] = {};
      count[half] = larger(count[half], start[half][run] + least_rests);
      start[half][run + 1] = count[half];
    }
  }
};

// The rests of columns, where their pairs lie.
struct ColumnRests {
  int16_t* words;
  uint32_t* marks;
  uint32_t mark;

  FP4_SIMD void add(int64_t r, int64_t pair, uint32_t, I rests) {
    mark |= 1u << pair;
    store_words(words + (r * pair_run + pair * 2) * panel_rows, rests);
  }
  FP4_SIMD void end(int64_t r) {
    marks[r] = mark;
    mark = 0;
  }
};

FP4_TARGET inline float largest_norm(const Panels& p, int64_t panel) {
  const float* value = p.panel_values(panel);
  F largest = all(0.0f);
  for (int64_t k = 0; k < p.padded; k += pair_run) {
    F sum[4] = {all(0.0f), all(0.0f), all(0.0f), all(0.0f)};
    for (int64_t i = k; i < k + pair_run; i += 4) {
      for (int j = 0; j < 4; ++j) {
        const F x = load(value + (i + j) * panel_rows);
        sum[j] = fma(x, x, sum[j]);
      }
    }
    largest = larger(largest, (sum[0] + sum[1]) + (sum[2] + sum[3]));
  }
  return 1.001f * std::sqrt(float_of(static_cast<uint32_t>(largest_lane(bits(largest)))));
}

// The finest unit whose dots surely fit (Cauchy and Schwarz): whole units are at most one beyond the element.
inline int finest_cut(const PairUnits& u, float norm_a, float norm_b) {
  const float more = std::sqrt(static_cast<float>(pair_run));
  const auto fits = [&](int cut) {
    return (norm_a * power_of_two(-cut) + more) * (norm_b * power_of_two(-u.cut_b) + more) <= 0x1.ffp30f;
  };
  int cut = u.least_cut_a;
  while (cut < u.cut_a && !fits(cut)) ++cut;
  return cut;
}

template <class Rests>
FP4_SIMD void narrow_panel(const Panels& p, int64_t panel, const PairCut& c, Rests& rests) {
  const float* value = p.panel_values(panel);
  int16_t* out = p.pairs + panel * p.padded * panel_rows;
  for (int64_t k = 0; k < p.padded; k += pair_run) {
    for (int64_t i = k; i < k + pair_run; i += 2) {
      const I first = fixed_bits(load(value + i * panel_rows), c.per_quantum);
      const I second = fixed_bits(load(value + (i + 1) * panel_rows), c.per_quantum);
      const I units = joined_words(shift_right(first, c.cut), shift_left(second, c.to_high));
      store_words(out + i * panel_rows, units ^ c.sign);
      const M lanes = some_bits(first | second, c.mask);
      if (any(lanes)) rests.add(k / pair_run, (i - k) / 2, to_bits(lanes), rest_words(c, first, second));
    }
    rests.end(k / pair_run);
  }
}

FP4_TARGET inline void narrow_rows(const Side& side, const PairUnits& u, int64_t panel, int cut) {
  const Panels& p = side.panels;
  RowRests rests = {};
  for (int half = 0; half < 2; ++half) {
    rests.list[half] = p.panel_rests(2 * panel + half);
    rests.start[half] = p.rest_start + (panel * 2 + half) * (p.padded / pair_run + 1);
    rests.start[half][0] = 0;
  }
  narrow_panel(p, panel, pair_cut(side, cut, u.cut_b), rests);
}

FP4_TARGET inline void narrow_columns(const Side& side, const PairUnits& u, int64_t panel) {
  const Panels& p = side.panels;
  ColumnRests rests = {p.column_rests + panel * p.padded * panel_rows, p.rest_marks + panel * (p.padded / pair_run), 0};
  narrow_panel(p, panel, pair_cut(side, u.cut_b, 0), rests);
}

// A's units depend on the largest of B's norms.
FP4_TARGET inline void narrow_sides(Product& p) {
  const int threads = threads_for(p);
  const PairUnits& u = p.pairs;
  const bool has_choice = u.least_cut_a < u.cut_a;
  const Panels& pa = p.a.panels;
  const Panels& pb = p.b.panels;
  parallel_for(0, pb.count, 1, threads, 4, [&](int64_t panel) {
    if (has_choice) pb.norm[panel] = largest_norm(pb, panel);
    narrow_columns(p.b, u, panel);
  });
  const float norm_b = has_choice ? *std::max_element(pb.norm, pb.norm + pb.count) : 0.0f;
  const float per_quantum_b = power_of_two(-p.b.quantum_log2());
  parallel_for(0, pa.count, 1, threads, 4, [&](int64_t panel) {
    pa.cut[panel] = u.cut_a;
    if (has_choice) {
      const float norm_a = largest_norm(pa, panel) * power_of_two(-p.a.quantum_log2());
      pa.cut[panel] = finest_cut(u, norm_a, norm_b * per_quantum_b);
    }
    narrow_rows(p.a, u, panel, pa.cut[panel]);
  });
}

}  // namespace fp4::FP4_ISA
