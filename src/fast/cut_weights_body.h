// Where the cut of an aligned sum may fall among the bits of its terms (gemm_cut_pairs_avx512.h): for every row and
// run, the exponent of the scale, and that of the last bit of any element times its scale. Exponents of products are
// sums of these, so a kernel adds those of a row of A to those of a panel of B.
#pragma once

#include "src/fast/pairs_body.h"
#include "src/fast/product_terms_body.h"
#include "src/parallel.h"

namespace fp4::FP4_ISA {

// Runs that share scales and are weighed together: two where they do and groups hold an even number.
inline int64_t cut_span(const Product& p) {
  const int64_t block = smaller(p.a.panels.block, p.b.panels.block);
  return p.run == 16 && block % 32 == 0 && p.options.accumulator.group % 32 == 0 ? 2 : 1;
}

// Whether the terms of an aligned sum end where runs do, and are few enough a group.
inline bool has_cut_terms(const Product& p) {
  const Accumulator& row = p.options.accumulator;
  return has_pair_kernels && runs_are_terms(p) && row.group / p.run >= 1 && row.group / p.run <= largest_pair_terms &&
         !has_wide_scale(p.a.spec) && !has_wide_scale(p.b.spec);
}

// Pairs for aligned sums of dots: terms that end where runs do, sums that fit int64, and two dots of a block int32.
inline PairUnits choose_cut_pairs(const Product& p) {
  if (!has_cut_terms(p) || !is_pair_run(p.run) || aligned_bits(p) > 62) return {};
  if (has_deep_runs(p.a.q) || has_deep_runs(p.b.q)) return {};
  PairUnits u = pair_units(p.a.q, p.b.q, 2 * p.run);
  u.dots = 2;
  if (u.finish == PairFinish::joined) u.finish = PairFinish::split;
  return u;
}

inline int64_t cut_steps(const Product& p) {
  const int64_t span = cut_span(p) * p.run;
  return (p.a.panels.padded + span - 1) / span;
}
inline size_t cut_weight_bytes(const Panels& p, int64_t steps) {
  return 2 * Arena::bytes_for<float>(p.count * steps * panel_rows);
}
inline void place_cut_weights(Panels& p, Arena& arena, int64_t steps) {
  p.weight = arena.take<float>(p.count * steps * panel_rows);
  p.lowest = arena.take<float>(p.count * steps * panel_rows);
}

// The exponents of the last bits of 16 numbers; zeros have none.
FP4_SIMD F last_bits(F v) {
  const I magnitude = bits(v) & all(0x7FFFFFFF);
  const I significand = (magnitude & all(0x7FFFFF)) | all(0x800000);
  const I place = shift_right<23>(bits(to_float(significand & (all(0) - significand)))) - all(127 + 23);
  return select(magnitude == all(0), all(no_last_bit), to_float(shift_right<23>(magnitude) - all(127) + place));
}

FP4_TARGET inline void weigh_runs(const Side& side, int64_t panel, int64_t length, int64_t steps) {
  const Panels& p = side.panels;
  const int least = side.q.stores_multiplier() ? -126 : side.q.scale.min_exponent();
  const F below = all(static_cast<float>(scale_fraction_bits(side.q)));
  const float* value = p.panel_values(panel);
  const float* scale = p.panel_scales(panel);
  for (int64_t step = 0; step < steps; ++step) {
    const int64_t first = step * length;
    F lowest = all(no_last_bit);
    for (int64_t k = first; k < smaller(first + length, p.padded); ++k) {
      lowest = smaller(lowest, last_bits(load(value + k * panel_rows)));
    }
    const F s = load(scale + first / p.block * panel_rows);
    const F exponent = to_float(scale_exponents(s, least));
    const int64_t at = (panel * steps + step) * panel_rows;
    store(p.weight + at, exponent);
    store(p.lowest + at, select(s == all(0.0f), all(no_last_bit), lowest + exponent - below));
  }
}

FP4_TARGET inline void weigh_sides(Product& p) {
  const int threads = threads_for(p);
  const int64_t length = cut_span(p) * p.run;
  const int64_t steps = cut_steps(p);
  for (const Side* side : {&p.a, &p.b}) {
    parallel_for(0, side->panels.count, 1, threads, 4, [&](int64_t panel) { weigh_runs(*side, panel, length, steps); });
  }
}

}  // namespace fp4::FP4_ISA
