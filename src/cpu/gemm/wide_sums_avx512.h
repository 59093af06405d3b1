// Sums of a tile in fp64, certified by the processor: a fused step that drops a bit raises the inexact flag of MXCSR,
// while the roundings that a model asks for use embedded rounding, which suppresses flags. So a clear flag at the end
// of a tile proves that every sum in it was exact, and a set one sends the tile on, at last to the scalar core.
#pragma once

#include "src/cpu/gemm/gemm_int8_avx512.h"

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
        // From +0: a negative dot times a scale of zero is -0.
        store(sum, fma(dot, scale, opens ? all_double(0.0) : load_double(sum)));
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

// A group's sum in two parts, for terms or sums of more than 53 bits: `start` and what is a multiple of its last bit in
// WideState::sum, what lies below that in `rest`.
template <int panels>
struct alignas(64) Rests {
  double rest[tile_rows][panels * panel_rows];
};

FP4_SIMD D fma_quiet(D a, D b, D c) {
  return {_mm512_fmadd_round_pd(a.lo, b.lo, c.lo, nearest), _mm512_fmadd_round_pd(a.hi, b.hi, c.hi, nearest)};
}
FP4_SIMD D sum_to_odd(D a, D b) {
  const __m512d one = _mm512_set1_pd(1.0);
  return {fma_odd(a.lo, one, b.lo), fma_odd(a.hi, one, b.hi)};
}

// As add_run, of groups: scales may lie far apart or have 24 bits. Only the rests raise the flag.
template <int panels, class Dots>
FP4_SIMD void add_split_run(const TileInput& t, const Folding& f, int64_t run, const Dots& dots,
                            WideState<panels>& state, Rests<panels>& rests) {
  const float* sa = t.scale_a + (run >> t.scale_shift_a) * panel_rows;
  const bool opens = f.runs_per_group == 0 ? run == 0 : run % f.runs_per_group == 0;
  const bool closes = run + 1 == f.runs || (f.runs_per_group != 0 && (run + 1) % f.runs_per_group == 0);
  const int64_t first = f.runs_per_group == 0 ? 0 : run / f.runs_per_group * f.runs_per_group;
  const D start = all_double(static_cast<double>(power_of_two(f.split_log2)) * 0x1.8p52);
#pragma GCC unroll 2
  for (int j = 0; j < panels; ++j) {
    const D sb = mul_quiet(load_widened(t.scale_b[j] + (run >> t.scale_shift_b) * panel_rows),
                           all_double(static_cast<double>(t.quantum)));
#pragma GCC unroll 8
    for (int r = 0; r < tile_rows; ++r) {
      double* sum = state.sum[r] + j * panel_rows;
      double* rest = rests.rest[r] + j * panel_rows;
      const D dot = dots.get(r, j);
      const D scale = all_double(static_cast<double>(sa[r])) * sb;
      const D before = opens ? start : load_double(sum);
      const D after = fma_quiet(dot, scale, before);
      const D below = fma(dot, scale, before - after);
      const D rest_after = opens ? below : load_double(rest) + below;
      store(sum, after);
      store(rest, rest_after);
      if (!closes) continue;
      float* acc = state.acc[r] + j * panel_rows;
      store(acc, fold_group(t, f, sum_to_odd(after - start, rest_after), load(acc), r, j, first, run + 1));
    }
  }
}

}  // namespace fp4::avx512
