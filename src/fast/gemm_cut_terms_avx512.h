// Aligned sums of dots (fused35_rz) with scales of 24 bits, or with runs and terms that gemm_cut_avx512.h and
// gemm_cut_floats_avx512.h do not know. The weights of a group come from its scales, so its units are known before its
// dots are; each term is then cut by one fused step toward zero, beside a number of its sign whose last bit is the
// unit. Where terms may reach 2^52 units (Folding::splits) it is cut in two steps: to whole numbers of 2^split_log2
// units, and what is left of it to whole units. Tile: 8 rows of A times 16 rows of B in the lanes.
#pragma once

#include "src/fast/gemm_wide_avx512.h"

namespace fp4::avx512 {

// The sums of a group, and 2^52 units of it.
struct alignas(64) CutSums {
  double beside[tile_rows][panel_rows];
  double sum[tile_rows][panel_rows];
  double rest[tile_rows][panel_rows];  // of terms in two steps
  float acc[tile_rows][panel_rows];
};

FP4_SIMD D fma_toward_zero(D a, D b, D c) {
  return {_mm512_fmadd_round_pd(a.lo, b.lo, c.lo, toward_zero), _mm512_fmadd_round_pd(a.hi, b.hi, c.hi, toward_zero)};
}
FP4_SIMD D with_sign_of(D sign, D magnitude) {
  const __m512d mask = _mm512_set1_pd(-0.0);
  return {_mm512_or_pd(_mm512_and_pd(sign.lo, mask), magnitude.lo),
          _mm512_or_pd(_mm512_and_pd(sign.hi, mask), magnitude.hi)};
}

// Weights of a group's terms: the sums of their scales' exponents.
FP4_SIMD void weigh_group(const TileInput& t, const Folding& f, int64_t first, int64_t last, I (&weight)[tile_rows]) {
  for (int r = 0; r < tile_rows; ++r) weight[r] = all(INT32_MIN / 2);
  for (int64_t run = first; run < last; ++run) {
    alignas(64) int32_t rows[panel_rows];
    const F sa = load(t.scale_a + (run >> t.scale_shift_a) * panel_rows, first_lanes(tile_rows));
    store(rows, scale_exponents(sa, f.least_exponent_a));
    const I columns = scale_exponents(load(t.scale_b[0] + (run >> t.scale_shift_b) * panel_rows), f.least_exponent_b);
#pragma GCC unroll 8
    for (int r = 0; r < tile_rows; ++r) weight[r] = larger(weight[r], all(rows[r]) + columns);
  }
}

// The units of the group of runs [first, last), and the accumulators cut to whole ones.
template <bool splits>
FP4_SIMD void open_group(const TileInput& t, const Folding& f, int64_t first, int64_t last, CutSums& s) {
  I of_terms[tile_rows];
  weigh_group(t, f, first, last, of_terms);
#pragma GCC unroll 8
  for (int r = 0; r < tile_rows; ++r) {
    const F acc = load(s.acc[r]);
    const I exponent = larger(shift_right<23>(bits(acc) & all(0x7FFFFFFF)), all(1)) - all(127);
    const I weight = larger(of_terms[r], exponent);
    store(s.beside[r], powers_of_two(weight + all(52 - f.fraction_bits)));
    const D kept = widened(aligned_accumulator(acc, weight, f.fraction_bits));
    store(s.sum[r], splits ? all_double(0.0) : kept);
    if (splits) store(s.rest[r], kept);
  }
}

// The dots of a run, each cut, join the sums of its group.
template <bool splits, class Dots>
FP4_SIMD void add_cut_run(const TileInput& t, const Folding& f, int64_t run, const Dots& dots, CutSums& s) {
  const float* sa = t.scale_a + (run >> t.scale_shift_a) * panel_rows;
  const D sb = mul_quiet(load_widened(t.scale_b[0] + (run >> t.scale_shift_b) * panel_rows),
                         all_double(static_cast<double>(t.quantum)));
  const D coarse = all_double(static_cast<double>(power_of_two(splits ? f.split_log2 : 0)));
#pragma GCC unroll 8
  for (int r = 0; r < tile_rows; ++r) {
    const D dot = dots.get(r, 0);
    const D scale = all_double(static_cast<double>(sa[r])) * sb;
    const D units = with_sign_of(dot, load_double(s.beside[r]));
    const D beside = splits ? units * coarse : units;
    const D term = fma_toward_zero(dot, scale, beside) - beside;
    store(s.sum[r], load_double(s.sum[r]) + term);
    if (!splits) continue;
    const D left = fma_toward_zero(dot, scale, all_double(0.0) - term);
    store(s.rest[r], load_double(s.rest[r]) + (add_toward_zero(left, units) - units));
  }
}

template <bool splits>
FP4_SIMD void close_group(CutSums& s) {
#pragma GCC unroll 8
  for (int r = 0; r < tile_rows; ++r) {
    const D sum = load_double(s.sum[r]);
    const D total = splits ? add_toward_zero(sum, load_double(s.rest[r])) : sum;
    store(s.acc[r], narrowed_toward_zero(total) + all(0.0f));  // any zero is +0
  }
}

// false: some dot was inexact, C is not written.
template <bool splits, class Runs>
FP4_SIMD bool cut_terms(const TileInput& t, const Runs& runs, const Folding& f, const TileOutput& out) {
  CutSums s;
  for (int r = 0; r < tile_rows; ++r) store(s.acc[r], all(0.0f));
  clear_inexact();
  for (int64_t first = 0; first < f.runs; first += f.runs_per_group) {
    const int64_t last = smaller(first + f.runs_per_group, f.runs);
    open_group<splits>(t, f, first, last, s);
    for (int64_t run = first; run < last; ++run) {
      typename Runs::Dots dots;
      runs.read(run, dots);
      add_cut_run<splits>(t, f, run, dots, s);
    }
    close_group<splits>(s);
  }
  if (was_inexact()) return false;
  finish_sums<1>(s.acc, f.snap_log2, out);
  return true;
}

template <bool splits, int fixed_run4>
FP4_TARGET bool cut_int8_terms(const TileInput& t, const Folding& f, const TileOutput& out) {
  return cut_terms<splits>(t, ByteRuns<fixed_run4>{t}, f, out);
}
template <bool splits>
FP4_TARGET bool cut_float_terms(const TileInput& t, const FloatRun& x, const Folding& f, const TileOutput& out) {
  return cut_terms<splits>(t, FloatRuns{x}, f, out);
}

inline WideInt8Kernel cut_int8_kernel(bool splits, int64_t run4) {
  if (splits) return run4 == 4 ? cut_int8_terms<true, 4> : cut_int8_terms<true, 0>;
  return run4 == 4 ? cut_int8_terms<false, 4> : cut_int8_terms<false, 0>;
}
inline WideFloatKernel cut_float_kernel(bool splits) { return splits ? cut_float_terms<true> : cut_float_terms<false>; }

}  // namespace fp4::avx512
