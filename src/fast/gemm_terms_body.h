// Any blocked accumulator on scaled values (element times block scale, exact in fp32), term by term in fp64: the way of
// what the integer kernels do not know or cannot prove. A term is one product, or the dot of `chunk` products.
//   group, block  sums of terms are exact in fp64 where their span allows it (fits_double), then rounded once
//   aligned       terms and accumulator are scaled to units of the cut, truncated, and added as whole numbers
// Tile: 8 rows of A times 16 rows of B in the lanes.
#pragma once

#include "src/fast/panel_reader.h"
#include "src/fast/tile_body.h"

namespace fp4::FP4_ISA {

// Scaled values of a panel and, for aligned sums, the weights of its terms.
struct TermPanel {
  const float* value = nullptr;     // [k][16]
  const int32_t* weight = nullptr;  // [k / chunk][16] exponents; of zero factors of single products far below all
  int least = 0;                    // exponents of the non-zero values
  int largest = 0;
};

inline constexpr int no_term = -(1 << 20);
inline constexpr int least_weight = -90;  // everything above it is in reach of fp32 powers, below it are only zeros

// The sum of a and b as fp64 rounds it, and what it lost.
FP4_SIMD D lost_part(D a, D b, D s) {
  const D b_part = s - a;
  return (a - (s - b_part)) + (b - b_part);
}

// fl32(a + b) to nearest.
FP4_SIMD F nearest_sum(D a, D b) {
  D s = a + b;
  const M between = between_floats(s);
  if (any(between)) s = nudged(s, lost_part(a, b, s), between);
  return narrowed(s);
}

// a + b toward zero: where fp64 went away from zero, one step back passes no float.
FP4_SIMD F toward_zero_sum(D a, D b) {
  const D s = a + b;
  const D lost = lost_part(a, b, s);
  const M went_away = s * lost < all_double(0.0);
  return narrowed_toward_zero(nudged(s, lost, went_away));
}

FP4_SIMD D term_sum(const float* a, const float* b, int64_t count) {
  D sum = all_double(0.0);
  for (int64_t k = 0; k < count; ++k) {
    sum = fma(all_double(static_cast<double>(a[k * panel_rows])), load_widened(b + k * panel_rows), sum);
  }
  return sum;
}

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

// One group of an aligned sum: `terms` terms of `chunk` products from a and b on.
FP4_SIMD F aligned_group(const Folding& f, const float* a, const float* b, const int32_t* weight_a,
                         const int32_t* weight_b, int64_t terms, F acc) {
  const I exponent = larger(shift_right<23>(bits(acc) & all(0x7FFFFFFF)) - all(127), all(least_weight));
  I weight = exponent;
  for (int64_t i = 0; i < terms; ++i) {
    weight = larger(weight, all(weight_a[i * panel_rows]) + load(weight_b + i * panel_rows));
  }
  const F per_unit = as_float(shift_left<23>(all(127 + f.fraction_bits) - weight));
  const D wide_per_unit = widened(per_unit);
  D sum = truncated_whole(widened(acc) * wide_per_unit);
  if (f.chunk == 1) {
    sum = sum + cut_products(a, b, terms, per_unit);
  } else {
    for (int64_t i = 0; i < terms; ++i) {
      const int64_t at = i * f.chunk * panel_rows;
      sum = sum + truncated_whole(term_sum(a + at, b + at, f.chunk) * wide_per_unit);
    }
  }
  const F unit = as_float(shift_left<23>(all(127 - f.fraction_bits) + weight));
  return narrowed_toward_zero(sum * widened(unit)) + all(0.0f);  // any zero is +0
}

// Terms of columns [begin, end) of K, of rows 0..out.rows of A from lane `half` on.
template <Sum kind>
FP4_TARGET void terms_tile(const Folding& f, const TermPanel& a, int64_t half, const TermPanel& b, int64_t begin,
                           int64_t end, const TileOutput& out) {
  alignas(64) float acc[tile_rows][panel_rows] = {};
  const int64_t group = f.group > 0 ? f.group : larger<int64_t>(end - begin, 1);
  for (int64_t first = begin; first < end; first += group) {
    const int64_t last = smaller(first + group, end);
    const int64_t terms = (last - first + f.chunk - 1) / f.chunk;
    for (int r = 0; r < out.rows; ++r) {
      const float* x = a.value + first * panel_rows + half + r;
      const float* y = b.value + first * panel_rows;
      const F before = load(acc[r]);
      if (kind == Sum::aligned) {
        const int64_t at = first / f.chunk * panel_rows;
        // Single products come in fours: what pads them is zero and has no weight.
        const int64_t padded = f.chunk == 1 ? (terms + 3) / 4 * 4 : terms;
        store(acc[r], aligned_group(f, x, y, a.weight + at + half + r, b.weight + at, padded, before));
        continue;
      }
      const D sum = term_sum(x, y, last - first);
      if (kind == Sum::block) {
        store(acc[r], nearest_sum(sum, widened(before)));
      } else if (f.group == 0) {
        store(acc[r], narrowed(sum));
      } else {
        const F rounded = narrowed(sum);
        store(acc[r], f.toward_zero ? toward_zero_sum(widened(before), widened(rounded)) : before + rounded);
      }
    }
  }
  for (int r = 0; r < out.rows; ++r) {
    const F sum = snapped_lanes(load(acc[r]), f.snap_log2);
    store(out.c + r * out.stride, sum * out.factor, first_lanes(out.cols));
  }
  if ((out.nan_rows | out.nan_cols) != 0 || !out.is_finite) put_nans(out);
}

// Scaled values [padded][16] of a panel. `offset` is what was added to its bytes.
FP4_TARGET inline void scale_panel(const Panels& p, int64_t panel, int offset, float quantum, float* out) {
  const float* scale = p.panel_scales(panel);
  if (p.bytes == nullptr) {
    const float* value = p.panel_values(panel);
    for (int64_t k = 0; k < p.padded; ++k) {
      store(out + k * panel_rows, load(value + k * panel_rows) * load(scale + k / p.block * panel_rows));
    }
    return;
  }
  const auto* bytes = reinterpret_cast<const int32_t*>(p.panel_bytes(panel));
  for (int64_t k = 0; k < p.padded; k += 4) {
    const I word = load(bytes + k * 4);
    const F s = load(scale + k / p.block * panel_rows) * all(quantum);
    for (int i = 0; i < 4; ++i) {
      const I top = shift_left(word, 24 - 8 * i);
      const I fixed = offset == 0 ? shift_right_signed<24>(top) : shift_right<24>(top) - all(offset);
      store(out + (k + i) * panel_rows, to_float(fixed) * s);
    }
  }
}

// Weights of terms: exponents of scales (numerics.md section 7: at least the smallest normal exponent, -126 for zero),
// of single products with the exponents of the elements.
FP4_TARGET inline void weigh_terms(const Panels& p, int64_t panel, const Quantizer& q, const float* value,
                                   int64_t chunk, int32_t* out) {
  const int least_scale = q.stores_multiplier() ? -126 : q.scale.min_exponent();
  const float* scale = p.panel_scales(panel);
  for (int64_t k = 0; k < p.padded; k += chunk) {
    const F s = load(scale + k / p.block * panel_rows);
    const M zero = s == all(0.0f);
    const I of_scale = select(zero, all(-126), larger(shift_right<23>(bits(s)) - all(127), all(least_scale)));
    I weight = of_scale;
    if (chunk == 1) {
      // e(element) = max(floor(log2 |v/s|), smallest normal exponent): v/s is exact.
      const F element = load(value + k * panel_rows) / select(zero, all(1.0f), s);
      const I e = larger(shift_right<23>(bits(element) & all(0x7FFFFFFF)) - all(127), all(q.element.min_exponent()));
      weight = select(element == all(0.0f), all(no_term), of_scale + e);
    }
    store(out + k / chunk * panel_rows, weight);
  }
}

// Exponents of the non-zero values; rows with NaN scales say nothing.
FP4_TARGET inline void find_span(const float* value, int64_t padded, TermPanel& t) {
  I least = all(0x7F800000);
  I largest = all(0);
  for (int64_t k = 0; k < padded; ++k) {
    const I magnitude = bits(load(value + k * panel_rows)) & all(0x7FFFFFFF);
    const I a = select(magnitude > all(0x7F800000), all(0), magnitude);
    least = smaller(least, select(a == all(0), least, a));
    largest = larger(largest, a);
  }
  t.least = (smallest_lane(least) >> 23) - 127;
  t.largest = (largest_lane(largest) >> 23) - 127;
}

using TermsKernel = void (*)(const Folding&, const TermPanel&, int64_t, const TermPanel&, int64_t, int64_t,
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
