// Groups of blocks of elements in units of 16 bits (pairs_body.h): unit * dot + quantum * rest of a block is exact in
// fp64, and so are sums of blocks, or the inexact flag says that they are not (gemm_wide_avx512.h).
#pragma once

#include "src/cpu/gemm/gemm_pairs_avx512.h"

namespace fp4::avx512 {

template <PairFinish finish, int panels>
struct PairDots {
  __m512i dot[tile_rows][panels];
  const PairState<panels>& state;
  D unit;  // in quanta

  FP4_SIMD D get(int r, int j) const {
    const D units = to_double(I{dot[r][j]}) * unit;
    return finish == PairFinish::whole ? units : units + to_double(load(state.rest[r] + j * panel_rows));
  }
};

template <PairFinish finish, int panels, bool splits>
FP4_TARGET __attribute__((noinline)) bool pair_group_tile(const PairInput& t, const Folding& f, const TileOutput& out) {
  TileInput scales = {};
  scales.scale_a = t.scale_a;
  scales.scale_shift_a = t.scale_shift_a;
  scales.scale_shift_b = t.scale_shift_b;
  scales.quantum = t.quantum;
  for (int j = 0; j < panels; ++j) scales.scale_b[j] = t.scale_b[j];
  PairState<panels> rests;
  WideState<panels> state;
  Rests<panels> low;
  for (int r = 0; r < tile_rows; ++r) {
    for (int j = 0; j < panels; ++j) store(state.acc[r] + j * panel_rows, all(0.0f));
  }
  PairDots<finish, panels> dots = {{}, rests, all_double(static_cast<double>(1 << (t.cut_a + t.cut_b)))};
  clear_inexact();
  for (int64_t run = 0; run < t.runs; ++run) {
    if (finish != PairFinish::whole) rest_dots<finish, panels>(t, run, rests);
    unit_dots<panels>(t, run, dots.dot);
    if (splits) {
      add_split_run<panels>(scales, f, run, dots, state, low);
    } else {
      add_run<Sum::group, panels>(scales, f, run, dots, state);
    }
  }
  if (was_inexact()) return false;
  finish_sums<panels>(state.acc, f.snap_log2, out);
  return true;
}

template <int panels, bool splits>
inline PairGroupKernel pair_group_kernel_of(PairFinish finish) {
  switch (finish) {
    case PairFinish::whole: return pair_group_tile<PairFinish::whole, panels, splits>;
    case PairFinish::split: return pair_group_tile<PairFinish::split, panels, splits>;
    case PairFinish::none: return nullptr;
  }
  return nullptr;
}

// Sums can be split, for scales far apart.
inline PairGroupKernel pair_group_kernel(PairFinish finish, int panels, bool splits) {
  if (splits) return panels == 2 ? pair_group_kernel_of<2, true>(finish) : pair_group_kernel_of<1, true>(finish);
  return panels == 2 ? pair_group_kernel_of<2, false>(finish) : pair_group_kernel_of<1, false>(finish);
}

}  // namespace fp4::avx512
