// What a group could not do otherwise: term by term (gemm_terms_body.h), and what fp64 cannot hold by the scalar core.
#pragma once

#include "src/cpu/gemm/gemm_terms_body.h"
#include "src/cpu/gemm/product_fold_body.h"
#include "src/cpu/simd/lanes.h"
#include "src/threads/scratch.h"

namespace fp4::FP4_ISA {

// Columns [begin, end) of K through the scalar core; NaN scales are the caller's business.
FP4_TARGET inline void slow_tile(const Product& p, int64_t row0, int64_t col0, int64_t begin, int64_t end,
                                 const TileOutput& out) {
  for (int r = 0; r < out.rows; ++r) {
    const cpu::PanelReader a(p.a.panels, row0 + r, p.offset, p.a.q);
    for (int c = 0; c < out.cols; ++c) {
      const cpu::PanelReader b(p.b.panels, col0 + c, 0, p.b.q);
      out.c[r * out.stride + c] = dot(p.asked, a, b, begin, end);
    }
  }
}

// Tensor factors of a panel and 128 columns.
FP4_SIMD F column_factors(const Side& side, int64_t panel, int64_t slice) {
  if (!side.spec.has_outer_scale()) return all(side.panels.factor.g);
  return load(side.panels.outer + (panel * side.panels.outer_count + slice) * panel_rows);
}

// outer128: the accumulator restarts every 128 columns, and the tensor factors go into an fp32 total.
// multiply(slice, begin, end, out) gives the bare sums of a slice.
template <class Multiply>
FP4_TARGET void outer_tile(const Product& p, int64_t row0, int64_t pb, const TileOutput& out,
                           const Multiply& multiply) {
  constexpr int width = 2 * panel_rows;
  alignas(64) float sum[tile_rows][width] = {};
  alignas(64) float total[tile_rows][width] = {};
  for (int64_t slice = 0; slice * outer_scale_width < p.a.cols; ++slice) {
    const int64_t begin = slice * outer_scale_width;
    multiply(slice, begin, smaller<int64_t>(begin + outer_scale_width, p.a.cols),
             TileOutput{sum[0], width, out.rows, out.cols, all(1.0f), 0, 0, true});
    for (int c = 0; c < out.cols; c += panel_rows) {
      const F gb = column_factors(p.b, pb + c / panel_rows, slice);
      for (int r = 0; r < out.rows; ++r) {
        const F factor = all(p.a.factor_at(row0 + r, slice)) * gb;
        store(total[r] + c, load(total[r] + c) + load(sum[r] + c) * factor);
      }
    }
  }
  for (int r = 0; r < out.rows; ++r) {
    for (int c = 0; c < out.cols; c += panel_rows) {
      store(out.c + r * out.stride + c, load(total[r] + c) * all(p.factor), first_lanes(out.cols - c));
    }
  }
  put_nans(out);
}

// Whether the sum of a term, which ends where scales do, is exact in fp64.
inline bool term_fits_double(const Product& p, int64_t count) {
  const auto bits = [](const Quantizer& q) {
    return q.element.max_exponent() - q.element.quantum_log2() + q.scale.mantissa_bits + 2;
  };
  return bits(p.a.q) + bits(p.b.q) + floor_log2(static_cast<uint64_t>(count)) + 1 <= 53;
}

// The conditions of terms_tile: exact sums, and no power of two beyond fp32. Aligned sums also need every weight within
// reach of fp32 powers, without scales those of its largest terms; the others end in subnormal floats as the core does.
inline bool terms_fit(const Product& p, const Folding& f, const TermPanel& a, const TermPanel& b, int weight) {
  if (weight > 100 || a.largest > 127 || b.largest > 127) return false;
  if (a.largest < a.least || b.largest < b.least) return true;  // nothing but zeros
  if (a.largest + b.largest > 70) return false;
  const int64_t count = f.group > 0 ? f.group : p.a.cols;
  if (f.sum == Sum::block) return term_fits_double(p, count) || fits_double(a, b, count);
  if (f.sum == Sum::group) return fits_two_doubles(a, b, count);
  if (f.sum == Sum::floor) return a.largest <= 36 && b.largest <= 36;  // products of zero, 2^-126, weigh below all
  if (f.sum == Sum::loop) return weight + a.largest + b.largest <= 100;
  if (!p.a.spec.has_scale()) return true;
  const int margin = p.a.q.element.max_exponent() + p.b.q.element.max_exponent();
  if (a.least < -126 || b.least < -126 || a.least + b.least - margin < least_weight) return false;
  return f.chunk == 1 || term_fits_double(p, f.chunk) || fits_double(a, b, f.chunk);
}

struct TermStore {
  float* value = nullptr;
  double* wide = nullptr;
  int32_t* weight = nullptr;
};

// Of panels of B and one of A.
struct TermStores {
  TermStore b[largest_group], a;
};

inline void lay_terms(Scratch& scratch, int64_t elements, int64_t panels, TermStores& s) {
  const auto lay = [&](TermStore& t) {
    scratch.put(t.value, elements);
    scratch.put(t.wide, elements);
    scratch.put(t.weight, elements);
  };
  for (int64_t j = 0; j < panels; ++j) lay(s.b[j]);
  lay(s.a);
}

FP4_TARGET inline TermPanel unpack_terms(const Side& side, int64_t panel, int offset, const Folding& f,
                                         const TermStore& to) {
  TermPanel t;
  t.value = to.value;
  t.wide = to.wide;
  t.weight = to.weight;
  const float quantum = power_of_two(side.quantum_log2());
  t.bits = side.q.element.mantissa_bits + side.q.scale.mantissa_bits + 1;
  unpack_panel(f, side.panels, panel, offset, quantum, to.value, to.wide);
  if (f.sum == Sum::aligned || f.sum == Sum::floor) weigh_terms(f, side.panels, panel, side.q, to.value, to.weight);
  find_span(to.value, side.panels.padded, side.spec.has_scale(), t);
  return t;
}

// Where a thread keeps them; grown before the first tile needs them, so that a training whose data leave the proof of
// another kernel once allocates nothing at that step.
inline Scratch& terms_scratch() {
  thread_local Scratch scratch;
  return scratch;
}
inline void reserve_terms(const Product& p, int64_t panels) {
  if (!p.has_terms) return;
  TermStores stores;
  terms_scratch().reset();
  lay_terms(terms_scratch(), p.a.panels.padded * panel_rows, panels, stores);
  terms_scratch().reset();
}

// The tiles of panels [pb, end) of B and rows [first, last) of A that are not done; how many of them the scalar core
// did.
template <class Progress>
FP4_TARGET int64_t multiply_terms(const Product& p, const BlockedPlan& k, int64_t pb, int64_t end, int64_t first,
                                  int64_t last, const Progress& progress) {
  const Folding& f = k.folding;
  const TermsKernel kernel = terms_kernel(f.sum);
  const int64_t elements = p.a.panels.padded * panel_rows;
  TermPanel b[largest_group];
  TermStores stores;
  if (p.has_terms) {
    terms_scratch().reset();
    lay_terms(terms_scratch(), elements, end - pb, stores);
    for (int64_t j = pb; j < end; ++j) b[j - pb] = unpack_terms(p.b, j, 0, f, stores.b[j - pb]);
  }
  TermPanel a;
  int64_t unpacked = -1;
  int64_t slow = 0;
  for (int64_t row0 = first; row0 < last; row0 += tile_rows) {
    const int64_t panel = row0 / panel_rows;
    for (int64_t j = pb; j < end; ++j) {
      if (progress.done[j - pb][(row0 - first) / tile_rows]) continue;
      if (p.has_terms && unpacked != panel) a = unpack_terms(p.a, panel, p.offset, f, stores.a);
      unpacked = panel;
      const cpu::ScaleRange& range_a = p.a.panels.range[panel];
      const cpu::ScaleRange& range_b = p.b.panels.range[j];
      bool fits = p.has_terms && terms_fit(p, f, a, b[j - pb], range_a.largest_log2() + range_b.largest_log2());
      const auto multiply = [&](int64_t, int64_t begin, int64_t stop, const TileOutput& out) {
        fits = fits && kernel(f, a, row0 % panel_rows, b[j - pb], begin, stop, out);
        if (!fits) slow_tile(p, row0, j * panel_rows, begin, stop, out);
      };
      const TileOutput out = output_of(p, row0, j, 1);
      if (p.restarts()) {
        outer_tile(p, row0, j, out, multiply);
      } else {
        multiply(0, 0, p.a.cols, out);
      }
      slow += fits ? 0 : 1;
      if (fits || p.restarts()) continue;
      for (int r = 0; r < out.rows; ++r) {
        for (int c = 0; c < out.cols; ++c) out.c[r * out.stride + c] = out.c[r * out.stride + c] * p.factor;
      }
      put_nans(out);
    }
  }
  return slow;
}

}  // namespace fp4::FP4_ISA
