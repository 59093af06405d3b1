// How a group adds to what came before it, for some rows of A and sixteen columns: what gemm_terms_body.h calls.
#pragma once

#include <cmath>

#include "src/cpu/gemm/tile_body.h"
#include "src/cpu/simd/lanes.h"

namespace fp4::FP4_ISA {

// Scaled values of a panel and, for aligned sums, the weights of its terms.
struct TermPanel {
  const float* value = nullptr;     // [k][16]
  const double* wide = nullptr;     // the same
  const int32_t* weight = nullptr;  // [k / chunk][16] exponents; of zero factors of single products far below all
  int least = 0;                    // exponents of the non-zero values; -149 stands for every subnormal number
  int largest = 0;                  // 128: an infinity or a NaN of an operand without scales
  int span = 0;                     // largest less least of one row, at most
  int bits = 0;                     // of a value below its leading one, at most
};

// Whether sums of `count` products fit one fp64; two, where products are cut at 2^(sum_log2 - 52).
inline int sum_log2(const TermPanel& a, const TermPanel& b, int64_t count) {
  return a.largest + b.largest + 3 + floor_log2(static_cast<uint64_t>(count));
}
inline bool fits_double(const TermPanel& a, const TermPanel& b, int64_t count) {
  return a.span + b.span + 3 + floor_log2(static_cast<uint64_t>(count)) + a.bits + b.bits <= 53;
}
inline bool fits_two_doubles(const TermPanel& a, const TermPanel& b, int64_t count) {
  const int lowest_bit = a.least + b.least - a.bits - b.bits;
  return sum_log2(a, b, count) + floor_log2(static_cast<uint64_t>(count)) - lowest_bit <= 105;
}

inline constexpr int term_rows = has_vnni ? 8 : 2;  // as many as registers hold sums of
inline constexpr int no_term = -(1 << 20);
inline constexpr int least_weight = -90;  // everything above it is in reach of fp32 powers, below it are only zeros

// What the sum s of a and b lost where fp64 rounded it.
FP4_SIMD D lost_part(D a, D b, D s) {
  const D b_part = s - a;
  return (a - (s - b_part)) + (b - b_part);
}
FP4_SIMD F power_lanes(I exponent) { return as_float(shift_left<23>(all(127) + exponent)); }
FP4_SIMD D power_doubles(I exponent) { return widened(power_lanes(exponent)); }

// Where s lies halfway between two multiples of 2^-149, the spacing of subnormal floats: 1.5 * 2^-149 does.
FP4_SIMD M between_subnormals(D s) {
  const D quanta = s * all_double(0x1p149);
  const D halves = s * all_double(0x1p150);
  return (quanta != truncated_whole(quanta)) & ~(halves != truncated_whole(halves));
}

// fl32(a + b) to nearest. Rounded twice, s goes wrong only where fp64 put it halfway between two floats.
FP4_SIMD F nearest_sum(D a, D b) {
  D s = a + b;
  M between = between_floats(s);
  if (any((bits(narrowed(s)) & all(0x7FFFFFFF)) < all(0x00800001))) between = between | between_subnormals(s);
  if (any(between)) s = nudged(s, lost_part(a, b, s), between);
  return narrowed(s);
}

// a + b toward zero: where fp64 went away from zero, one step back passes no float.
FP4_SIMD F toward_zero_sum(D a, D b) {
  const D s = a + b, lost = lost_part(a, b, s);
  return narrowed_toward_zero(nudged(s, lost, s * lost < all_double(0.0)));
}

// fp16 nearest to s, infinity from 65520 on. The float next to s has its exponent, or is the power of two to which fp16
// rounds it, too; 1.5 * 2^(e + 42) has the spacing of fp16 numbers of exponent e.
FP4_SIMD F nearest_half(D s) {
  const I e = (shift_right<23>(bits(narrowed(s)) & all(0x7FFFFFFF))) - all(127);
  const D magic = power_doubles(smaller(larger(e, all(-14)), all(16)) + all(42)) * all_double(1.5);
  const I x = bits(narrowed((s + magic) - magic));
  const M overflows = (x & all(0x7FFFFFFF)) >= all(0x47800000);  // 2^16
  return as_float(select(overflows, (x & all(0x80000000u)) | all(0x7F800000), x));
}

// Some rows of A, lane `row` on, times a panel of B.
struct PanelRows {
  const TermPanel& a;
  const TermPanel& b;
  int64_t row;

  FP4_SIMD void dots(int64_t first, int64_t count, D (&sum)[term_rows]) const {
#pragma GCC unroll 8
    for (int r = 0; r < term_rows; ++r) sum[r] = all_double(0.0);
    const double *x = a.wide + first * panel_rows + row, *y = b.wide + first * panel_rows;
    for (int64_t k = 0; k < count; ++k) {
      const D column = load_double(y + k * panel_rows);
#pragma GCC unroll 8
      for (int r = 0; r < term_rows; ++r) sum[r] = exact_fma(broadcast_double(x + k * panel_rows + r), column, sum[r]);
    }
  }
  // In two parts: of what a sum with `magic`, 1.5 * 2^sum_log2, leaves of each product, and of the rest.
  FP4_SIMD void split_dots(int64_t k, int64_t count, D magic, D (&high)[term_rows], D (&low)[term_rows]) const {
    for (int r = 0; r < term_rows; ++r) {
      high[r] = low[r] = all_double(0.0);
      for (int64_t i = k * panel_rows; i < (k + count) * panel_rows; i += panel_rows) {
        const D product = broadcast_double(a.wide + i + row + r) * load_double(b.wide + i);
        const D coarse = (product + magic) - magic;
        high[r] = high[r] + coarse;
        low[r] = low[r] + (product - coarse);
      }
    }
  }
};

// Sum of single products, `step` apart, in units of 2^-shift, each cut to whole units: below 2^29 each, so four fit 31
// bits.
FP4_SIMD D cut_products(const float* a, const float* b, int64_t count, int step, F per_unit) {
  D sum = all_double(0.0);
  for (int64_t k = 0; k < count; k += 4) {
    I four = all(0);
    for (int64_t i = k; i < k + 4; i += step) {
      four = four + truncated(all(a[i * panel_rows]) * load(b + i * panel_rows) * per_unit);
    }
    sum = sum + to_double(four);
  }
  return sum;
}

// Weight of an accumulator, none below the least of its format; no_term where it is zero.
FP4_SIMD I sum_weight(F acc, int least) {
  const I magnitude = bits(acc) & all(0x7FFFFFFF);
  return select(magnitude == all(0), all(no_term), larger(shift_right<23>(magnitude) - all(127), all(least)));
}
// The largest weight of a row's terms and of `weight`.
FP4_SIMD I largest_weight(const int32_t* a, const int32_t* b, int64_t terms, int step, I weight) {
#pragma GCC unroll 4
  for (int64_t i = 0; i < terms; i += step) weight = larger(weight, all(a[i * panel_rows]) + load(b + i * panel_rows));
  return weight;
}
FP4_SIMD M is_out_of_reach(I weight) { return (all(least_weight) > weight) & (weight > all(no_term / 2)); }

// One group [first, last) of an aligned sum. False where its largest weight is out of reach of fp32 powers (nothing of
// a term that fp32 cannot hold would be left of it below a weight that is not), or it cuts what must stay whole.
FP4_SIMD bool add_aligned(const Folding& f, const PanelRows& t, int64_t first, int64_t last, float (*acc)[panel_rows]) {
  // Single products come in fours: what pads them is zero and has no weight.
  const int64_t terms = f.chunk == 1 ? (last - first + 3) / 4 * 4 : (last - first + f.chunk - 1) / f.chunk;
  const int64_t at = first / f.chunk * panel_rows;
  alignas(64) int32_t weight[term_rows][panel_rows];
  alignas(64) double total[term_rows][panel_rows];
  alignas(64) double high[term_rows][panel_rows] = {};
  M lost = {}, cut = {};
  for (int r = 0; r < term_rows; ++r) {
    const F before = load(acc[r]);
    const I largest =
        largest_weight(t.a.weight + at + t.row + r, t.b.weight + at, terms, 1, sum_weight(before, f.least_sum));
    lost = lost | is_out_of_reach(largest);
    const I w = larger(largest, all(least_weight));
    const F per_unit = power_lanes(all(f.fraction_bits) - w);
    const D units = widened(before) * widened(per_unit);
    D sum = truncated_whole(units);
    cut = cut | (sum != units);
    const int64_t k = first * panel_rows;
    if (f.chunk == 1) sum = sum + cut_products(t.a.value + k + t.row + r, t.b.value + k, terms, 1, per_unit);
    store(weight[r], w);
    store(total[r], sum);
  }
  for (int64_t i = 0; f.chunk > 1 && i < terms; ++i) {
    D dot[term_rows];
    t.dots(first + i * f.chunk, f.chunk, dot);
    for (int r = 0; r < term_rows; ++r) {
      const D per_unit = power_doubles(all(f.fraction_bits) - load(weight[r]));
      const D units = dot[r] * per_unit;
      D term = truncated_whole(units);
      cut = cut | (term != units);
      if (f.splits) {  // 2^26 units and more
        const D coarse = truncated_whole(term * all_double(0x1p-26)) * all_double(0x1p26);
        store(high[r], load_double(high[r]) + coarse);
        term = term - coarse;
      }
      store(total[r], load_double(total[r]) + term);
    }
  }
  for (int r = 0; r < term_rows; ++r) {
    const D unit = power_doubles(load(weight[r]) - all(f.fraction_bits));
    const D sum = load_double(total[r]) * unit;
    const F rounded = f.is_half  ? nearest_half(sum)
                      : f.splits ? toward_zero_sum(load_double(high[r]) * unit, sum)
                                 : narrowed_toward_zero(sum);
    store(acc[r], as_float(bits(rounded) & all(f.kept_bits)) + all(0.0f));  // any zero is +0
  }
  return !any(f.only_whole ? lost | cut : lost);
}

// A sum in units finer by a power of two, rounded down. Powers below 2^-126 leave 0 or -1 of it, as 2^-126 does.
FP4_SIMD D in_units(D sum, I finer_by) {
  const D x = sum * power_doubles(larger(finer_by, all(-126))), whole = truncated_whole(x);
  return select(x < whole, whole - all_double(1.0), whole);
}

// One group of a sum rounded down (floor_aligned.h): products, or `step` = 2 sums of every second one, in units of
// their largest weight less fraction_bits; their sum and the accumulator in units of the larger weight of both. False
// where a weight is out of reach.
FP4_SIMD bool add_floor(const Folding& f, const PanelRows& t, int64_t first, int64_t last, float (*acc)[panel_rows]) {
  const int64_t terms = (last - first + 3) / 4 * 4, k = first * panel_rows;
  M lost = {};
  for (int r = 0; r < term_rows; ++r) {
    const F before = load(acc[r]);
    const I carried = sum_weight(before, -126);
    I own[2], largest = all(least_weight), known = carried;
    for (int64_t i = 0, at = k; i < f.step; ++i, at += panel_rows) {
      const I weight = largest_weight(t.a.weight + at + t.row + r, t.b.weight + at, terms, f.step, all(no_term));
      lost = lost | is_out_of_reach(weight);
      known = larger(known, weight);
      own[i] = larger(weight, all(least_weight));
      largest = larger(largest, own[i]);
    }
    lost = lost | is_out_of_reach(known);
    D sum = all_double(0.0);
    for (int64_t i = 0, at = k; i < f.step; ++i, at += panel_rows) {
      const F per_unit = power_lanes(all(f.fraction_bits) - own[i]);
      sum = sum + in_units(cut_products(t.a.value + at + t.row + r, t.b.value + at, terms, f.step, per_unit),
                           own[i] - largest);
    }
    const I weight = larger(largest, carried);
    D rest = in_units(widened(before), all(f.fraction_bits) - weight);
    if (f.step == 2) rest = select(carried < weight - all(f.fraction_bits + 1), all_double(0.0), rest);
    sum = in_units(sum, largest - weight + all(7)) + rest * all_double(128.0);
    store(acc[r], narrowed(sum * power_doubles(weight - all(f.fraction_bits + 7))) + all(0.0f));
  }
  return !any(lost);
}

// One dot of elements, added in fp32 from 0 on, times its scales, which stand in place of wide values. Products are
// exact in fp32, and a sum times both scales in fp64.
FP4_SIMD void add_loop(const PanelRows& t, int64_t first, int64_t last, float (*acc)[panel_rows]) {
  F sum[term_rows] = {};
  for (int64_t k = first * panel_rows; k < last * panel_rows; k += panel_rows) {
    const F column = load(t.b.value + k);
#pragma GCC unroll 8
    for (int r = 0; r < term_rows; ++r) sum[r] = sum[r] + all(t.a.value[k + t.row + r]) * column;
  }
  for (int r = 0; r < term_rows; ++r) {
    const D scale =
        broadcast_double(t.a.wide + first * panel_rows + t.row + r) * load_double(t.b.wide + first * panel_rows);
    store(acc[r], load(acc[r]) + narrowed(widened(sum[r]) * scale));
  }
}

// One block.
FP4_SIMD void add_block(const PanelRows& t, int64_t first, int64_t last, float (*acc)[panel_rows]) {
  D dot[term_rows];
  t.dots(first, last - first, dot);
  for (int r = 0; r < term_rows; ++r) store(acc[r], nearest_sum(dot[r], widened(load(acc[r]))));
}

// One group of exact sums.
FP4_SIMD void add_group(const Folding& f, const PanelRows& t, int64_t first, int64_t last, float (*acc)[panel_rows]) {
  D sum[term_rows], low[term_rows];
  const bool splits = !fits_double(t.a, t.b, last - first);
  if (splits) {
    const double magic = std::ldexp(1.5, sum_log2(t.a, t.b, last - first));
    t.split_dots(first, last - first, all_double(magic), sum, low);
  } else {
    t.dots(first, last - first, sum);
  }
  for (int r = 0; r < term_rows; ++r) {
    const F before = load(acc[r]);
    const F rounded = splits ? nearest_sum(sum[r], low[r]) : narrowed(sum[r]);
    const F total = f.toward_zero ? toward_zero_sum(widened(before), widened(rounded)) : before + rounded;
    store(acc[r], f.group == 0 ? rounded : total);
  }
}

}  // namespace fp4::FP4_ISA
