// Any blocked accumulator on scaled values (element times block scale), term by term in fp64: the way of
// what the integer kernels do not know or cannot prove. A term is one product, or the dot of `chunk` products.
//   block         a dot is exact in fp64 whatever its scales; sum and accumulator are rounded once, subnormals included
//   group         sums of dots are exact in fp64 where their span allows it (fits_double), then rounded once
//   aligned       terms and accumulator are scaled to units of the cut, truncated, and added as whole numbers
// Tile: 8 rows of A times 16 rows of B in the lanes.
#pragma once

#include "src/cpu/gemm/panel_reader.h"
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
};

inline constexpr int term_rows = has_vnni ? 8 : 2;  // as many as registers hold sums of
inline constexpr int no_term = -(1 << 20);
inline constexpr int least_weight = -90;  // everything above it is in reach of fp32 powers, below it are only zeros

// The sum s of a and b as fp64 rounds it: what it lost, and one step back where it went away from zero.
FP4_SIMD D lost_part(D a, D b, D s) {
  const D b_part = s - a;
  return (a - (s - b_part)) + (b - b_part);
}
FP4_SIMD D stepped_back(D s, D lost) { return nudged(s, lost, s * lost < all_double(0.0)); }

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
  const D s = a + b;
  return narrowed_toward_zero(stepped_back(s, lost_part(a, b, s)));
}

// Dots of `count` scaled values, for some rows of A from a on.
FP4_SIMD void term_sums(const double* a, const double* b, int64_t count, D (&sum)[term_rows]) {
#pragma GCC unroll 8
  for (int r = 0; r < term_rows; ++r) sum[r] = all_double(0.0);
  for (int64_t k = 0; k < count; ++k) {
    const D column = load_double(b + k * panel_rows);
#pragma GCC unroll 8
    for (int r = 0; r < term_rows; ++r) sum[r] = exact_fma(broadcast_double(a + k * panel_rows + r), column, sum[r]);
  }
}

// Some rows of A, lane `row` on, times a panel of B.
struct PanelRows {
  const TermPanel& a;
  const TermPanel& b;
  int64_t row;

  FP4_SIMD void dots(int64_t k, int64_t count, D (&dot)[term_rows]) const {
    term_sums(a.wide + k * panel_rows + row, b.wide + k * panel_rows, count, dot);
  }
};

// Sum of single products in units of 2^-shift, each cut to whole units: below 2^29 each, so four fit 31 bits.
FP4_SIMD D cut_products(const float* a, const float* b, int64_t count, F per_unit) {
  D sum = all_double(0.0);
  for (int64_t k = 0; k < count; k += 4) {
    I four = all(0);
    for (int64_t i = k; i < k + 4; ++i) {
      four = four + truncated(all(a[i * panel_rows]) * load(b + i * panel_rows) * per_unit);
    }
    sum = sum + to_double(four);
  }
  return sum;
}

// Largest weight of a row's terms and its accumulator; no_term where all are zero.
FP4_SIMD I largest_weight(const int32_t* a, const int32_t* b, int64_t terms, F acc) {
  const I magnitude = bits(acc) & all(0x7FFFFFFF);
  I weight = select(magnitude == all(0), all(no_term), shift_right<23>(magnitude) - all(127));
#pragma GCC unroll 4
  for (int64_t i = 0; i < terms; ++i) weight = larger(weight, all(a[i * panel_rows]) + load(b + i * panel_rows));
  return weight;
}

FP4_SIMD F power_lanes(I exponent) { return as_float(shift_left<23>(all(127) + exponent)); }

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
    const I largest = largest_weight(t.a.weight + at + t.row + r, t.b.weight + at, terms, before);
    lost = lost | ((all(least_weight) > largest) & (largest > all(no_term / 2)));
    const I w = larger(largest, all(least_weight));
    const F per_unit = power_lanes(all(f.fraction_bits) - w);
    const D units = widened(before) * widened(per_unit);
    D sum = truncated_whole(units);
    cut = cut | (sum != units);
    const int64_t k = first * panel_rows;
    if (f.chunk == 1) {
      sum = sum + cut_products(t.a.value + k + t.row + r, t.b.value + k, terms, per_unit);
    }
    store(weight[r], w);
    store(total[r], sum);
  }
  for (int64_t i = 0; f.chunk > 1 && i < terms; ++i) {
    D dot[term_rows];
    t.dots(first + i * f.chunk, f.chunk, dot);
    for (int r = 0; r < term_rows; ++r) {
      const D per_unit = widened(power_lanes(all(f.fraction_bits) - load(weight[r])));
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
    const D unit = widened(power_lanes(load(weight[r]) - all(f.fraction_bits)));
    const D sum = load_double(total[r]) * unit;
    const F rounded = f.splits ? toward_zero_sum(load_double(high[r]) * unit, sum) : narrowed_toward_zero(sum);
    store(acc[r], as_float(bits(rounded) & all(f.kept_bits)) + all(0.0f));  // any zero is +0
  }
  return !any(f.only_whole ? lost | cut : lost);
}

// One block.
FP4_SIMD void add_block(const PanelRows& t, int64_t first, int64_t last, float (*acc)[panel_rows]) {
  D dot[term_rows];
  t.dots(first, last - first, dot);
  for (int r = 0; r < term_rows; ++r) store(acc[r], nearest_sum(dot[r], widened(load(acc[r]))));
}

// One group of exact sums.
FP4_SIMD void add_group(const Folding& f, const PanelRows& t, int64_t first, int64_t last, float (*acc)[panel_rows]) {
  D sum[term_rows];
  t.dots(first, last - first, sum);
  for (int r = 0; r < term_rows; ++r) {
    const F before = load(acc[r]);
    const F rounded = narrowed(sum[r]);
    if (f.group == 0) {
      store(acc[r], rounded);
    } else {
      store(acc[r], f.toward_zero ? toward_zero_sum(widened(before), widened(rounded)) : before + rounded);
    }
  }
}

// Columns [begin, end) of K, rows 0..out.rows of A from lane `half` on. False: by the core.
template <Sum kind>
FP4_TARGET bool terms_tile(const Folding& f, const TermPanel& a, int64_t half, const TermPanel& b, int64_t begin,
                           int64_t end, const TileOutput& out) {
  alignas(64) float acc[tile_rows][panel_rows] = {};
  const int64_t group = f.group > 0 ? f.group : larger<int64_t>(end - begin, 1);
  for (int64_t first = begin; first < end; first += group) {
    const int64_t last = smaller(first + group, end);
    for (int r = 0; r < out.rows; r += term_rows) {
      const PanelRows rows = {a, b, half + r};
      switch (kind) {
        case Sum::block: add_block(rows, first, last, acc + r); break;
        case Sum::group: add_group(f, rows, first, last, acc + r); break;
        case Sum::aligned:
          if (!add_aligned(f, rows, first, last, acc + r)) return false;
          break;
      }
    }
  }
  finish_sums<1>(acc, f.snap_log2, out);
  return true;
}

FP4_SIMD void put_scaled(int64_t k, F element, F scale, float* out, double* wide) {
  store(out + k * panel_rows, element * scale);
  store(wide + k * panel_rows, widened(element) * widened(scale));
}

// Scaled values [padded][16] of a panel, in fp32 and in fp64. `offset` is what was added to its bytes.
FP4_TARGET inline void unpack_panel(const Panels& p, int64_t panel, int offset, float quantum, float* out,
                                    double* wide) {
  const float* scale = p.panel_scales(panel);
  const int64_t block = smaller(p.block, p.padded);
  for (int64_t first = 0; first < p.padded; first += block) {
    const F s = load(scale + first / block * panel_rows);
    if (p.bytes == nullptr) {
      const float* value = p.panel_values(panel);
      for (int64_t k = first; k < first + block; ++k) put_scaled(k, load(value + k * panel_rows), s, out, wide);
      continue;
    }
    const auto* bytes = reinterpret_cast<const int32_t*>(p.panel_bytes(panel));
    for (int64_t k = first; k < first + block; k += 4) {
      const I word = load(bytes + k * 4);
      for (int i = 0; i < 4; ++i) {
        const I top = shift_left(word, 24 - 8 * i);
        const I fixed = offset == 0 ? shift_right_signed<24>(top) : shift_right<24>(top) - all(offset);
        put_scaled(k + i, to_float(fixed) * all(quantum), s, out, wide);
      }
    }
  }
}

// Weights of terms: exponents of scales, of single products with the exponents of the elements.
FP4_TARGET inline void weigh_terms(const Panels& p, int64_t panel, const Quantizer& q, const float* value,
                                   int64_t chunk, int32_t* out) {
  const int least_scale = !q.has_scale() || q.stores_multiplier() ? -126 : q.scale.min_exponent();
  const float* scale = p.panel_scales(panel);
  const int64_t block = smaller(p.block, p.padded);
  F s = all(0.0f);
  M zero = s == s;
  I of_scale = all(0);
  int64_t change = 0;  // where the scale does
  for (int64_t k = 0; k < p.padded; k += chunk, out += panel_rows) {
    if (k == change) {
      s = load(scale);
      zero = s == all(0.0f);
      of_scale = scale_exponents(s, least_scale);
      scale += panel_rows;
      change += block;
    }
    I weight = of_scale;
    if (chunk == 1) {
      // e(element) = max(floor(log2 |v/s|), smallest normal exponent): v/s is exact.
      const F element = load(value + k * panel_rows) / select(zero, all(1.0f), s);
      const I e = larger(shift_right<23>(bits(element) & all(0x7FFFFFFF)) - all(127), all(q.element.min_exponent()));
      weight = select(element == all(0.0f), all(no_term), of_scale + e);
    }
    store(out, weight);
  }
}

// Exponents of the non-zero values; rows with NaN scales say nothing, but a value without a scale does.
FP4_TARGET inline void find_span(const float* value, int64_t padded, bool has_scale, TermPanel& t) {
  I least = all(0x7F800000);
  I largest = all(0);
  for (int64_t k = 0; k < padded; ++k) {
    const I magnitude = bits(load(value + k * panel_rows)) & all(0x7FFFFFFF);
    const I a = select(magnitude > all(0x7F800000), all(has_scale ? 0 : 0x7F800000), magnitude);
    least = smaller(least, select(a == all(0), least, a));
    largest = larger(largest, a);
  }
  const I last = select(least < all(0x00800000), all(-149), shift_right<23>(least) - all(127));
  const I first = shift_right<23>(largest) - all(127);
  t.least = smallest_lane(last);
  t.largest = largest_lane(first);
  t.span = largest_lane(select(largest == all(0), all(0), first - last));
}

using TermsKernel = bool (*)(const Folding&, const TermPanel&, int64_t, const TermPanel&, int64_t, int64_t,
                             const TileOutput&);
inline TermsKernel terms_kernel(Sum sum) {
  switch (sum) {
    case Sum::block: return terms_tile<Sum::block>;
    case Sum::group: return terms_tile<Sum::group>;
    case Sum::aligned: return terms_tile<Sum::aligned>;
  }
  return nullptr;
}

}  // namespace fp4::FP4_ISA
