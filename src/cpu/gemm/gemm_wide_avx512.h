// The accumulators that need more than one fused step a block: `exact`, groups rounded to fp32 and added toward zero
// (k64_rz), aligned sums (fused35_rz) of which nothing is cut, and blocks of wide elements (FP8) whose dots need fp64.
#pragma once

#include "src/cpu/gemm/wide_sums_avx512.h"

namespace fp4::avx512 {

template <int panels>
struct IntegerDots {
  __m512i dot[tile_rows][panels];
  FP4_SIMD D get(int r, int j) const {
    return {_mm512_cvtepi32_pd(_mm512_castsi512_si256(dot[r][j])),
            _mm512_cvtepi32_pd(_mm512_extracti64x4_epi64(dot[r][j], 1))};
  }
};

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

// The dots of runs of bytes and of floats.
template <int fixed_run4>
struct ByteRuns {
  using Dots = IntegerDots<1>;
  const TileInput& t;
  FP4_SIMD void read(int64_t run, Dots& dots) const { int8_dots<1, fixed_run4>(t, run, dots.dot); }
};
struct FloatRuns {
  using Dots = DoubleDots<1>;
  const FloatRun& x;
  FP4_SIMD void read(int64_t run, Dots& dots) const { float_dots(x, run, dots); }
};

// false: some sum was inexact, C is not written.
template <Sum kind, bool splits, class Runs>
FP4_SIMD bool wide_tile(const TileInput& t, const Runs& runs, const Folding& f, const TileOutput& out) {
  WideState<1> state;
  Rests<1> rests;
#pragma GCC unroll 8
  for (int r = 0; r < tile_rows; ++r) store(state.acc[r], all(0.0f));
  clear_inexact();
  for (int64_t run = 0; run < f.runs; ++run) {
    typename Runs::Dots dots;
    runs.read(run, dots);
    if (splits) {
      add_split_run<1>(t, f, run, dots, state, rests);
    } else {
      add_run<kind, 1>(t, f, run, dots, state);
    }
  }
  if (was_inexact()) return false;
  finish_sums<1>(state.acc, f.snap_log2, out);
  return true;
}

template <Sum kind, bool splits, int fixed_run4>
FP4_TARGET bool wide_int8_tile(const TileInput& t, const Folding& f, const TileOutput& out) {
  return wide_tile<kind, splits>(t, ByteRuns<fixed_run4>{t}, f, out);
}
template <Sum kind, bool splits>
FP4_TARGET bool wide_float_tile(const TileInput& t, const FloatRun& x, const Folding& f, const TileOutput& out) {
  return wide_tile<kind, splits>(t, FloatRuns{x}, f, out);
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
    case 4: return wide_int8_tile<kind, false, 4>;
    case 8: return wide_int8_tile<kind, false, 8>;
    default: return wide_int8_tile<kind, false, 0>;
  }
}

// `splits`: sums of groups in two parts, for scales of 24 bits.
inline WideInt8Kernel wide_int8_kernel(Sum sum, bool splits, int64_t run4) {
  switch (sum) {
    case Sum::block: return wide_int8_tile<Sum::block, false, 0>;
    case Sum::group: return splits ? wide_int8_tile<Sum::group, true, 0> : wide_int8_kernel_of<Sum::group>(run4);
    case Sum::aligned: return wide_int8_kernel_of<Sum::aligned>(run4);
  }
  return nullptr;
}

inline WideFloatKernel wide_float_kernel(Sum sum, bool splits) {
  switch (sum) {
    case Sum::block: return wide_float_tile<Sum::block, false>;
    case Sum::group: return splits ? wide_float_tile<Sum::group, true> : wide_float_tile<Sum::group, false>;
    case Sum::aligned: return wide_float_tile<Sum::aligned, false>;
  }
  return nullptr;
}

}  // namespace fp4::avx512
