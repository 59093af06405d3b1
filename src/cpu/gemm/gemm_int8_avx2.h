// fp32_block on small integers with AVX2: u8 x s8 pairs (vpmaddubsw), eight of them to one s32 lane. Pairs stay below
// 2 * 128 * 64 = 2^14 in 16 bits, as the unsigned side is at most 2 * 64.
#pragma once

#include "src/cpu/gemm/tile_body.h"
#include "src/cpu/simd/avx2.h"

namespace fp4::avx2 {

FP4_TARGET inline void block_tile_any(const TileInput& t, const TileOutput& out, int panels) {
  alignas(64) float acc[tile_rows][2][panel_rows] = {};
  const __m256i one = _mm256_set1_epi16(1);
  for (int64_t run = 0; run < t.runs; ++run) {
    const float* sa = t.scale_a + (run >> t.scale_shift_a) * panel_rows;
    for (int j = 0; j < panels; ++j) {
      const F sb = load(t.scale_b[j] + (run >> t.scale_shift_b) * panel_rows) * all(t.quantum);
      const I start = load(t.correction[j] + run * panel_rows);
      const int8_t* a = t.a + run * t.run4 * 64;
      const int8_t* b = t.b[j] + run * t.run4 * 64;
      for (int half = 0; half < tile_rows; half += 4) {  // four rows: eight sums and two columns fit the registers
        I dot[4] = {start, start, start, start};
        for (int64_t k = 0; k < t.run4; ++k) {
          const B column = load_bytes(b + k * 64);
#pragma GCC unroll 4
          for (int r = 0; r < 4; ++r) {
            int32_t four;
            __builtin_memcpy(&four, a + k * 64 + (half + r) * 4, 4);
            const __m256i row = _mm256_set1_epi32(four);
            dot[r].a = _mm256_add_epi32(dot[r].a, _mm256_madd_epi16(_mm256_maddubs_epi16(row, column.a), one));
            dot[r].b = _mm256_add_epi32(dot[r].b, _mm256_madd_epi16(_mm256_maddubs_epi16(row, column.b), one));
          }
        }
#pragma GCC unroll 4
        for (int r = 0; r < 4; ++r) {
          float* at = acc[half + r][j];
          store(at, fma(to_float(dot[r]), all(sa[half + r]) * sb, load(at)));
        }
      }
    }
  }
  for (int r = 0; r < out.rows; ++r) {
    for (int j = 0; j < panels; ++j) {
      store(out.c + r * out.stride + j * panel_rows, load(acc[r][j]) * out.factor,
            first_lanes(out.cols - j * panel_rows));
    }
  }
  if ((out.nan_rows | out.nan_cols) != 0 || !out.is_finite) put_nans(out);
}

FP4_TARGET inline void block_tile_one(const TileInput& t, const TileOutput& out) { block_tile_any(t, out, 1); }
FP4_TARGET inline void block_tile_two(const TileInput& t, const TileOutput& out) { block_tile_any(t, out, 2); }

template <int panels>
inline TileKernel block_kernel(int64_t, bool) {
  return panels == 1 ? block_tile_one : block_tile_two;
}

inline constexpr bool starts_as_float = false;

// vpmaddubsw saturates: bytes moved by 128 would overflow, so there are no level panels here.
inline constexpr bool has_whole_kernels = false;
inline WholeKernel whole_kernel(int) { return nullptr; }

// Without embedded rounding there is no certificate by the inexact flag: other accumulators go term by term where the
// ranges of scales prove nothing (is_certain).
inline constexpr bool has_pair_kernels = false;
inline PairKernel pair_kernel(PairFinish, int) { return nullptr; }
inline CutKernel cut_kernel(int64_t, bool) { return nullptr; }
inline SingleKernel single_kernel(int64_t) { return nullptr; }
inline WideInt8Kernel wide_int8_kernel(Sum, bool, int64_t) { return nullptr; }
inline WideFloatKernel wide_float_kernel(Sum, bool) { return nullptr; }
inline GroupKernel group_kernel(int64_t) { return nullptr; }
inline bool certified_tile(TileKernel, const TileInput&, const Folding&, const TileOutput&) { return false; }

}  // namespace fp4::avx2
