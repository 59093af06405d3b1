// The accumulators that need more than one fused step a block: `exact`, groups rounded to fp32 and added toward zero
// (k64_rz), aligned sums (fused35_rz), and blocks of wide elements (FP8) whose dots need fp64.
//
// Everything is formed in fp64 and certified by the processor: a fused step that drops a bit raises the inexact flag of
// MXCSR, while the roundings that a model asks for use embedded rounding, which suppresses flags. So a clear flag at
// the end of a tile proves that every sum in it was exact, and a set one sends the tile to the scalar core.
#pragma once

#include "src/fast/gemm_int8_avx512.h"

namespace fp4::avx512 {

inline constexpr int nearest = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
inline constexpr int toward_zero = _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC;

FP4_SIMD D mul_quiet(D a, D b) {
  return {_mm512_mul_round_pd(a.lo, b.lo, nearest), _mm512_mul_round_pd(a.hi, b.hi, nearest)};
}
FP4_SIMD D add_toward_zero(D a, D b) {
  return {_mm512_add_round_pd(a.lo, b.lo, toward_zero), _mm512_add_round_pd(a.hi, b.hi, toward_zero)};
}

FP4_SIMD D stored_dots(const int32_t* dot) {
  return {_mm512_cvtepi32_pd(_mm256_load_si256(reinterpret_cast<const __m256i*>(dot))),
          _mm512_cvtepi32_pd(_mm256_load_si256(reinterpret_cast<const __m256i*>(dot + 8)))};
}

// a*b + c rounded to odd: down and up differ exactly where the sum is inexact, and then the smaller magnitude with its
// last bit set is the odd one of the two.
FP4_SIMD __m512d fma_odd(__m512d a, __m512d b, __m512d c) {
  const __m512d down = _mm512_fmadd_round_pd(a, b, c, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC);
  const __m512d up = _mm512_fmadd_round_pd(a, b, c, _MM_FROUND_TO_POS_INF | _MM_FROUND_NO_EXC);
  const __m512i s = _mm512_min_epu64(_mm512_castpd_si512(down), _mm512_castpd_si512(up));
  const __mmask8 inexact = _mm512_cmp_pd_mask(down, up, _CMP_NEQ_UQ);
  return _mm512_castsi512_pd(_mm512_mask_or_epi64(s, inexact, s, _mm512_set1_epi64(1)));
}

// fl32(acc + dot*scale) with one rounding: to odd in fp64 first.
FP4_SIMD F rounded_step(D dot, D scale, F acc) {
  const D before = widened(acc);
  return narrowed(D{fma_odd(dot.lo, scale.lo, before.lo), fma_odd(dot.hi, scale.hi, before.hi)});
}

// An accumulator aligned to 2^(largest - fraction_bits) and cut toward zero there.
FP4_SIMD F aligned_accumulator(F acc, I weight, int fraction_bits) {
  const I a = bits(acc) & all(0x7FFFFFFF);
  const I exponent = larger(shift_right<23>(a), all(1)) - all(127);
  const I largest = larger(weight, exponent);
  const I drop = smaller(larger(largest - all(fraction_bits) - exponent + all(23), all(0)), all(24));
  const I kept = bits(acc) & (all(0) - shift_left(all(1), drop));
  return as_float(select(drop > all(23), all(0), kept));
}

FP4_SIMD void clear_inexact() {
  asm volatile("" ::: "memory");
  _mm_setcsr(_mm_getcsr() & ~0x3Fu);
  asm volatile("" ::: "memory");
}
FP4_SIMD bool was_inexact() {
  asm volatile("" ::: "memory");
  const bool inexact = (_mm_getcsr() & 0x20u) != 0;
  asm volatile("" ::: "memory");
  return inexact;
}

// The sums of one tile between runs.
template <int panels>
struct alignas(64) WideState {
  double sum[tile_rows][panels * panel_rows];
  float acc[tile_rows][panels * panel_rows];
};

// Largest weight e(sA) + e(sB) of a group, lanes = columns.
FP4_SIMD I group_weight(const TileInput& t, const Folding& f, int r, int j, int64_t first, int64_t last) {
  I weight = all(INT32_MIN / 2);
  for (int64_t run = first; run < last; ++run) {
    const F sa = all(t.scale_a[(run >> t.scale_shift_a) * panel_rows + r]);
    const F sb = load(t.scale_b[j] + (run >> t.scale_shift_b) * panel_rows);
    weight = larger(weight, scale_exponents(sa, f.least_exponent_a) + scale_exponents(sb, f.least_exponent_b));
  }
  return weight;
}

// Folds a finished group into the accumulator.
FP4_SIMD F fold_group(const TileInput& t, const Folding& f, D sum, F acc, int r, int j, int64_t first, int64_t last) {
  if (f.sum == Sum::group) {
    const F rounded = narrowed(sum);
    if (f.runs_per_group == 0) return rounded;
    return F{f.toward_zero ? _mm512_add_round_ps(acc.v, rounded.v, toward_zero)
                           : _mm512_add_round_ps(acc.v, rounded.v, nearest)};
  }
  F cut = acc;
  const F a = as_float(bits(acc) & all(0x7FFFFFFF));
  if (any((a < all(f.safe_accumulator)) & (a > all(0.0f)))) {
    cut = aligned_accumulator(acc, group_weight(t, f, r, j, first, last), f.fraction_bits);
  }
  return narrowed_toward_zero(add_toward_zero(widened(cut), sum));
}

// Adds a run's dots (fp64) to the state; `Dots` gives dot(r, j).
template <Sum kind, int panels, class Dots>
FP4_SIMD void add_run(const TileInput& t, const Folding& f, int64_t run, const Dots& dots, WideState<panels>& state) {
  const float* sa = t.scale_a + (run >> t.scale_shift_a) * panel_rows;
  const bool opens = f.runs_per_group == 0 ? run == 0 : run % f.runs_per_group == 0;
  D sb[panels];
  F sb32[panels];
#pragma GCC unroll 2
  for (int j = 0; j < panels; ++j) {
    sb32[j] = load(t.scale_b[j] + (run >> t.scale_shift_b) * panel_rows);
    sb[j] = mul_quiet(widened(sb32[j]), all_double(static_cast<double>(t.quantum)));
  }
#pragma GCC unroll 8
  for (int r = 0; r < tile_rows; ++r) {
    const D row = all_double(static_cast<double>(sa[r]));
#pragma GCC unroll 2
    for (int j = 0; j < panels; ++j) {
      const D dot = dots.get(r, j);
      if (kind == Sum::block) {
        float* acc = state.acc[r] + j * panel_rows;
        // fl32(sA*sB), as this accumulator asks; exact for scales of at most 8 bits.
        const D scale = widened(F{_mm512_mul_round_ps(_mm512_set1_ps(sa[r] * t.quantum), sb32[j].v, nearest)});
        store(acc, rounded_step(dot, scale, load(acc)));
      } else {
        double* sum = state.sum[r] + j * panel_rows;
        const D scale = row * sb[j];
        store(sum, opens ? dot * scale : fma(dot, scale, load_double(sum)));
      }
    }
  }
  if (kind == Sum::block) return;
  const bool closes = run + 1 == f.runs || (f.runs_per_group != 0 && (run + 1) % f.runs_per_group == 0);
  if (!closes) return;
  const int64_t first = f.runs_per_group == 0 ? 0 : run / f.runs_per_group * f.runs_per_group;
#pragma GCC unroll 8
  for (int r = 0; r < tile_rows; ++r) {
#pragma GCC unroll 2
    for (int j = 0; j < panels; ++j) {
      float* acc = state.acc[r] + j * panel_rows;
      const D sum = load_double(state.sum[r] + j * panel_rows);
      store(acc, fold_group(t, f, sum, load(acc), r, j, first, run + 1));
    }
  }
}

template <int panels>
FP4_SIMD void finish_wide(const Folding& f, const WideState<panels>& state, const TileOutput& out) {
  for (int r = 0; r < out.rows; ++r) {
#pragma GCC unroll 2
    for (int j = 0; j < panels; ++j) {
      const F acc = snapped_lanes(load(state.acc[r] + j * panel_rows), f.snap_log2);
      store(out.c + r * out.stride + j * panel_rows, acc * out.factor, first_lanes(out.cols - j * panel_rows));
    }
  }
  if ((out.nan_rows | out.nan_cols) != 0 || !out.is_finite) put_nans(out);
}

template <int panels>
struct IntegerDots {
  __m512i dot[tile_rows][panels];
  FP4_SIMD D get(int r, int j) const {
    return {_mm512_cvtepi32_pd(_mm512_castsi512_si256(dot[r][j])),
            _mm512_cvtepi32_pd(_mm512_extracti64x4_epi64(dot[r][j], 1))};
  }
};

// false: some sum was inexact, C is not written.
template <Sum kind, int panels, int fixed_run4>
FP4_TARGET bool wide_int8_tile(const TileInput& t, const Folding& f, const TileOutput& out) {
  WideState<panels> state;
#pragma GCC unroll 8
  for (int r = 0; r < tile_rows; ++r) {
#pragma GCC unroll 2
    for (int j = 0; j < panels; ++j) store(state.acc[r] + j * panel_rows, all(0.0f));
  }
  clear_inexact();
  for (int64_t run = 0; run < f.runs; ++run) {
    IntegerDots<panels> dots;
    int8_dots<panels, fixed_run4>(t, run, dots.dot);
    add_run<kind, panels>(t, f, run, dots, state);
  }
  if (was_inexact()) return false;
  finish_wide<panels>(f, state, out);
  return true;
}

template <int panels>
struct DoubleDots {
  D dot[tile_rows][panels];
  FP4_SIMD D get(int r, int j) const { return dot[r][j]; }
};

// The dots of a run.
FP4_SIMD void float_dots(const FloatRun& x, int64_t run, DoubleDots<1>& dots) {
#pragma GCC unroll 8
  for (int r = 0; r < tile_rows; ++r) dots.dot[r][0] = all_double(0.0);
  const float* a = x.a + run * x.length * panel_rows;
  const double* b = x.b + run * x.length * panel_rows;
  alignas(64) double rows[32][tile_rows];
  for (int64_t k0 = 0; k0 < x.length; k0 += 32) {
    const int count = static_cast<int>(smaller<int64_t>(x.length - k0, 32));
    widen_rows(a + k0 * panel_rows, panel_rows, count, rows[0]);
    for (int k = 0; k < count; ++k) {
      const D column = load_double(b + (k0 + k) * panel_rows);
#pragma GCC unroll 8
      for (int r = 0; r < tile_rows; ++r) {
        dots.dot[r][0] = fma(broadcast_double(&rows[k][r]), column, dots.dot[r][0]);
      }
    }
  }
}

template <Sum kind>
FP4_TARGET bool wide_float_tile(const TileInput& t, const FloatRun& x, const Folding& f, const TileOutput& out) {
  constexpr int panels = 1;
  WideState<panels> state;
#pragma GCC unroll 8
  for (int r = 0; r < tile_rows; ++r) store(state.acc[r], all(0.0f));
  clear_inexact();
  for (int64_t run = 0; run < f.runs; ++run) {
    DoubleDots<panels> dots;
    float_dots(x, run, dots);
    add_run<kind, panels>(t, f, run, dots, state);
  }
  if (was_inexact()) return false;
  finish_wide<panels>(f, state, out);
  return true;
}

// The certificate of order-independence: block by block in fp32 with a clear inexact flag means that every partial sum
// was exact. Then groups, one rounding at the end and additions toward zero all give this sum; aligned sums too, as no
// term loses a bit (set_alignment) and the accumulator is a sum of whole terms. false: not proven.
FP4_TARGET inline bool certified_tile(TileKernel block, const TileInput& t, const Folding& f, const TileOutput& out) {
  TileOutput plain = out;
  plain.factor = all(1.0f);
  clear_inexact();
  block(t, plain);
  if (was_inexact()) return false;
  for (int r = 0; r < out.rows; ++r) {
    const M lanes = first_lanes(out.cols);
    float* c = out.c + r * out.stride;
    store(c, snapped_lanes(load(c, lanes), f.snap_log2) * out.factor, lanes);
  }
  if ((out.nan_rows | out.nan_cols) != 0 || !out.is_finite) put_nans(out);
  return true;
}

template <Sum kind>
inline WideInt8Kernel wide_int8_kernel_of(int64_t run4) {
  switch (run4) {
    case 2: return wide_int8_tile<kind, 1, 2>;
    case 4: return wide_int8_tile<kind, 1, 4>;
    case 8: return wide_int8_tile<kind, 1, 8>;
    default: return wide_int8_tile<kind, 1, 0>;
  }
}

inline WideInt8Kernel wide_int8_kernel(Sum sum, int64_t run4) {
  switch (sum) {
    case Sum::block: return wide_int8_kernel_of<Sum::block>(run4);
    case Sum::group: return wide_int8_kernel_of<Sum::group>(run4);
    case Sum::aligned: return wide_int8_kernel_of<Sum::aligned>(run4);
  }
  return nullptr;
}

inline WideFloatKernel wide_float_kernel(Sum sum) {
  switch (sum) {
    case Sum::block: return wide_float_tile<Sum::block>;
    case Sum::group: return wide_float_tile<Sum::group>;
    case Sum::aligned: return wide_float_tile<Sum::aligned>;
  }
  return nullptr;
}

}  // namespace fp4::avx512
