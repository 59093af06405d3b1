// Any blocked accumulator on scaled values (element times block scale), term by term in fp64: the way of
// what the integer kernels do not know or cannot prove. A term is one product, or the dot of `chunk` products.
//   block         a dot is exact in fp64 whatever its scales; sum and accumulator are rounded once, subnormals included
//   group         sums of dots are exact in one fp64, or two, where their span allows it; then rounded once
//   aligned       terms and accumulator are scaled to units of the cut, truncated, and added as whole numbers
//   floor         the same, but sums are rounded down to units that heed the accumulator (floor_aligned.h)
//   loop          dots of elements are added in fp32, and their sums times the scales (fma_blocks of accumulator.h)
// Tile: 8 rows of A times 16 rows of B in the lanes.
#pragma once

#include "src/cpu/gemm/gemm_adders_body.h"
#include "src/cpu/gemm/panel_reader.h"
#include "src/cpu/simd/lanes.h"

namespace fp4::FP4_ISA {

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
      bool fits = true;
      switch (kind) {
        case Sum::block: add_block(rows, first, last, acc + r); break;
        case Sum::group: add_group(f, rows, first, last, acc + r); break;
        case Sum::aligned: fits = add_aligned(f, rows, first, last, acc + r); break;
        case Sum::floor: fits = add_floor(f, rows, first, last, acc + r); break;
        case Sum::loop: add_loop(rows, first, last, acc + r); break;
      }
      if (!fits) return false;
    }
  }
  finish_sums<1>(acc, f.snap_log2, out);
  return true;
}

FP4_SIMD void put_scaled(const Folding& f, int64_t k, F element, F scale, float* out, double* wide) {
  const bool apart = f.sum == Sum::loop;
  store(out + k * panel_rows, apart ? element : element * scale);
  store(wide + k * panel_rows, apart ? widened(scale) : widened(element) * widened(scale));
}

// Scaled values [padded][16] of a panel, in fp32 and in fp64; of Sum::loop elements and scales. `offset` is what was
// added to its bytes.
FP4_TARGET inline void unpack_panel(const Folding& f, const Panels& p, int64_t panel, int offset, float quantum,
                                    float* out, double* wide) {
  const float* scale = p.panel_scales(panel);
  const int64_t block = smaller(p.block, p.padded);
  for (int64_t first = 0; first < p.padded; first += block) {
    const F s = load(scale + first / block * panel_rows);
    if (p.bytes == nullptr) {
      const float* value = p.panel_values(panel);
      for (int64_t k = first; k < first + block; ++k)
        put_scaled(f, k, as_float(bits(load(value + k * panel_rows)) & all(f.element_bits)), s, out, wide);
      continue;
    }
    const auto* bytes = reinterpret_cast<const int32_t*>(p.panel_bytes(panel));
    for (int64_t k = first; k < first + block; k += 4) {
      const I word = load(bytes + k * 4);
      for (int i = 0; i < 4; ++i) {
        const I top = shift_left(word, 24 - 8 * i);
        const I fixed = offset == 0 ? shift_right_signed<24>(top) : shift_right<24>(top) - all(offset);
        put_scaled(f, k + i, to_float(fixed) * all(quantum), s, out, wide);
      }
    }
  }
}

// Weights of terms: exponents of scales, of single products with the exponents of the elements; of Sum::floor those of
// scaled values, which count as fp32.
FP4_TARGET inline void weigh_terms(const Folding& f, const Panels& p, int64_t panel, const Quantizer& q,
                                   const float* value, int32_t* out) {
  const bool by_value = f.sum == Sum::floor;
  const int least_element = by_value && q.has_scale() ? -126 : q.element.min_exponent();
  const int least_scale = by_value || !q.has_scale() || q.stores_multiplier() ? -126 : q.scale.min_exponent();
  const float* scale = p.panel_scales(panel);
  const int64_t block = smaller(p.block, p.padded);
  F s = all(0.0f);
  M zero = s == s;
  I of_scale = all(0);
  int64_t change = 0;  // where the scale does
  for (int64_t k = 0; k < p.padded; k += f.chunk, out += panel_rows) {
    if (k == change) {
      s = by_value ? all(1.0f) : load(scale);
      zero = s == all(0.0f);
      of_scale = scale_exponents(s, least_scale);
      scale += panel_rows;
      change += block;
    }
    I weight = of_scale;
    if (f.chunk == 1) {
      // e(element) = max(floor(log2 |v/s|), smallest normal exponent): v/s is exact.
      const F element = load(value + k * panel_rows) / select(zero, all(1.0f), s);
      const I e = larger(shift_right<23>(bits(element) & all(0x7FFFFFFF)) - all(127), all(least_element));
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
  constexpr TermsKernel of[] = {terms_tile<Sum::block>, terms_tile<Sum::group>, terms_tile<Sum::aligned>,
                                terms_tile<Sum::floor>, terms_tile<Sum::loop>};
  return of[static_cast<size_t>(sum)];
}

}  // namespace fp4::FP4_ISA
