// Aligned sums of dots (fused35_rz) of elements in units of 16 bits (pairs_body.h): the dots of a group and their
// rests, in int32, wait until its largest exponent is known. Where the last bits of all elements of a row's terms lie
// above the cut (cut_weights_body.h), terms add up as they are, in fp64 and under the inexact flag
// (gemm_wide_avx512.h); else each is cut toward zero to a whole number of units of the cut, which int64 holds, and so
// does their sum. Tile: 8 rows of A times 16 or 32 rows of B in the lanes.
#pragma once

#include "src/fast/gemm_cut_avx512.h"
#include "src/fast/gemm_pairs_avx512.h"

namespace fp4::avx512 {

template <int panels>
struct alignas(64) CutPairTerms {
  int32_t dot[largest_pair_terms][tile_rows][panels * panel_rows];
  PairState<panels> rests[largest_pair_terms];
  float acc[tile_rows][panels * panel_rows];
  double scale_a[largest_pair_terms][tile_rows];
  double scale_b[largest_pair_terms][panels * panel_rows];  // times the quantum
};

// The weights of a row's terms and its accumulator, as floats: exponents, and whether anything lies below the cut.
struct CutWeights {
  F largest;
  bool cuts;
};

template <int panels>
FP4_SIMD CutWeights weigh_row(const PairInput& t, const Folding& f, int64_t step, int64_t steps, int r, int j, F acc) {
  const F exponent = {_mm512_max_ps(_mm512_getexp_ps(acc.v), _mm512_set1_ps(-126.0f))};
  const __mmask16 nonzero = _mm512_cmp_ps_mask(acc.v, _mm512_setzero_ps(), _CMP_NEQ_UQ);
  F largest = exponent;
  F lowest = {_mm512_mask_sub_ps(_mm512_set1_ps(no_last_bit), nonzero, exponent.v, _mm512_set1_ps(23.0f))};
#pragma GCC unroll 2
  for (int64_t i = step; i < step + steps; ++i) {
    const int64_t at = i * panel_rows;
    largest = larger(largest, all(t.weight_a[at + r]) + load(t.weight_b[j] + at));
    lowest = smaller(lowest, all(t.lowest_a[at + r]) + load(t.lowest_b[j] + at));
  }
  return {largest, any(largest - lowest > all(static_cast<float>(f.fraction_bits)))};
}

FP4_SIMD F rounded_toward_zero(__m512i lo, __m512i hi) {
  return joined(_mm512_cvt_roundepi64_ps(lo, toward_zero), _mm512_cvt_roundepi64_ps(hi, toward_zero));
}
FP4_SIMD __m512i cut_half(__m512d a) { return _mm512_cvtt_roundpd_epi64(a, _MM_FROUND_NO_EXC); }

// The sum of the terms from the start of a step up to i, in quanta.
template <bool has_rests, int panels>
FP4_SIMD D pair_terms(const CutPairTerms<panels>& terms, int64_t i, int r, int j, D unit) {
  const D units = stored_dots(terms.dot[i][r] + j * panel_rows);
  return has_rests ? fma(units, unit, stored_dots(terms.rests[i].rest[r] + j * panel_rows)) : units * unit;
}

// The sum of a row's terms and its accumulator, each cut at 2^(largest - fraction_bits).
template <int span, bool has_rests, int panels>
FP4_SIMD F cut_pair_sum(const Folding& f, const CutPairTerms<panels>& terms, int r, int j, int64_t count, F largest,
                        D unit) {
  const F shift = all(static_cast<float>(f.fraction_bits)) - largest;
  const D per_unit = powers_of_two(truncated(shift));
  const D before = load_widened(terms.acc[r] + j * panel_rows) * per_unit;
  __m512i lo = cut_half(before.lo);
  __m512i hi = cut_half(before.hi);
  for (int64_t i = 0; i < count; i += span) {
    const D scale = broadcast_double(&terms.scale_a[i / span][r]) *
                    load_double(terms.scale_b[i / span] + j * panel_rows) * per_unit;
    D before_term = all_double(0.0);
    for (int64_t k = i; k < smaller(i + span, count); ++k) {
      const D so_far = pair_terms<has_rests>(terms, k, r, j, unit);
      const D term = (k == i ? so_far : so_far - before_term) * scale;
      before_term = so_far;
      lo = _mm512_add_epi64(lo, cut_half(term.lo));
      hi = _mm512_add_epi64(hi, cut_half(term.hi));
    }
  }
  const F sum = rounded_toward_zero(lo, hi);
  return scaled(sum, all(0.0f) - shift);
}

// The same where nothing is cut.
template <int span, bool has_rests, int panels>
FP4_SIMD F whole_pair_sum(const CutPairTerms<panels>& terms, int r, int j, int64_t count, D unit) {
  D sum = all_double(0.0);
  for (int64_t i = 0; i < count; i += span) {
    const D scale =
        broadcast_double(&terms.scale_a[i / span][r]) * load_double(terms.scale_b[i / span] + j * panel_rows);
    const D term = pair_terms<has_rests>(terms, smaller(i + span, count) - 1, r, j, unit);
    sum = i == 0 ? term * scale : fma(term, scale, sum);
  }
  return narrowed_toward_zero(add_toward_zero(load_widened(terms.acc[r] + j * panel_rows), sum));
}

// The dots of terms [first, first + count) of K, each from the start of its step.
template <int span, PairFinish finish, int panels, int pairs>
FP4_SIMD void cut_pair_dots(const PairInput& t, int64_t first, int64_t count, CutPairTerms<panels>& terms) {
  constexpr bool has_rests = finish != PairFinish::whole;
  for (int64_t i = 0; i < count; i += span) {
    const bool both = span == 2 && i + 1 < count;
    if (has_rests) rest_dots<finish, panels, pairs>(t, first + i, terms.rests[i]);
    if (has_rests && both) {
      std::memcpy(terms.rests[i + 1].rest, terms.rests[i].rest, sizeof(terms.rests[i].rest));
      rest_dots<finish, panels, pairs, false>(t, first + i + 1, terms.rests[i + 1]);
    }
    __m512i dot[tile_rows][panels];
    unit_dots<panels, pairs>(t, first + i, dot);
    store_dots<panels>(dot, terms.dot[i]);
    if (!both) continue;
    unit_dots<panels, pairs, false>(t, first + i + 1, dot);
    store_dots<panels>(dot, terms.dot[i + 1]);
  }
}

template <int panels>
FP4_SIMD void load_pair_scales(const PairInput& t, int64_t first, int64_t count, int64_t span,
                               CutPairTerms<panels>& terms) {
  const D quantum = all_double(static_cast<double>(t.quantum));
  for (int64_t i = 0; i < count; i += span) {
    const float* sa = t.scale_a + ((first + i) >> t.scale_shift_a) * panel_rows;
    _mm512_store_pd(terms.scale_a[i / span], _mm512_cvtps_pd(_mm256_loadu_ps(sa)));
#pragma GCC unroll 2
    for (int j = 0; j < panels; ++j) {
      const D sb = load_widened(t.scale_b[j] + ((first + i) >> t.scale_shift_b) * panel_rows);
      store(terms.scale_b[i / span] + j * panel_rows, mul_quiet(sb, quantum));
    }
  }
}

// Terms [first, first + count) of K join the accumulators.
template <int span, bool has_rests, int panels>
FP4_SIMD void add_pair_terms(const PairInput& t, const Folding& f, int64_t first, int64_t count,
                             CutPairTerms<panels>& terms) {
  const D unit = all_double(static_cast<double>(1 << (t.cut_a + t.cut_b)));
  const int64_t step = first / span;
  const int64_t steps = (count + span - 1) / span;
  for (int r = 0; r < tile_rows; ++r) {
#pragma GCC unroll 2
    for (int j = 0; j < panels; ++j) {
      float* acc = terms.acc[r] + j * panel_rows;
      const CutWeights w = weigh_row<panels>(t, f, step, steps, r, j, load(acc));
      store(acc, w.cuts ? cut_pair_sum<span, has_rests>(f, terms, r, j, count, w.largest, unit)
                        : whole_pair_sum<span, has_rests>(terms, r, j, count, unit));
    }
  }
}

template <int span, PairFinish finish, int panels, int pairs>
FP4_TARGET __attribute__((noinline)) bool cut_pair_tile(const PairInput& t, const Folding& f, const TileOutput& out) {
  constexpr bool has_rests = finish != PairFinish::whole;
  CutPairTerms<panels> terms;
  for (int r = 0; r < tile_rows; ++r) {
    for (int j = 0; j < panels; ++j) store(terms.acc[r] + j * panel_rows, all(0.0f));
  }
  clear_inexact();
  for (int64_t first = 0; first < f.runs; first += f.runs_per_group) {
    const int64_t count = smaller(f.runs_per_group, f.runs - first);
    cut_pair_dots<span, finish, panels, pairs>(t, first, count, terms);
    load_pair_scales<panels>(t, first, count, span, terms);
    if (count == 32 / pairs) {  // groups of 64: a constant, unrolled
      add_pair_terms<span, has_rests, panels>(t, f, first, 32 / pairs, terms);
    } else {
      add_pair_terms<span, has_rests, panels>(t, f, first, count, terms);
    }
  }
  if (was_inexact()) return false;
  WideState<panels> state;
  std::memcpy(state.acc, terms.acc, sizeof(state.acc));
  finish_sums<panels>(state.acc, f.snap_log2, out);
  return true;
}

template <int span, int panels, int pairs>
inline PairGroupKernel cut_pair_kernel_of(PairFinish finish) {
  switch (finish) {
    case PairFinish::whole: return cut_pair_tile<span, PairFinish::whole, panels, pairs>;
    case PairFinish::split: return cut_pair_tile<span, PairFinish::split, panels, pairs>;
    case PairFinish::joined:
    case PairFinish::parts:
    case PairFinish::wide_parts:
    case PairFinish::none: return nullptr;
  }
  return nullptr;
}

template <int panels>
inline PairGroupKernel cut_pair_kernel_of(PairFinish finish, int64_t run, int64_t span) {
  if (run == 32) return cut_pair_kernel_of<1, panels, 16>(finish);
  if (run == 16 && span == 2) return cut_pair_kernel_of<2, panels, 8>(finish);
  if (run == 16) return cut_pair_kernel_of<1, panels, 8>(finish);
  if (run == 8) return cut_pair_kernel_of<1, panels, 4>(finish);
  return nullptr;
}

inline PairGroupKernel cut_pair_kernel(PairFinish finish, int panels, int64_t run, int64_t span) {
  return panels == 2 ? cut_pair_kernel_of<2>(finish, run, span) : cut_pair_kernel_of<1>(finish, run, span);
}

}  // namespace fp4::avx512
