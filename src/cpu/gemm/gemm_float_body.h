// Products on decoded floats in natural order: acc = fma(a, b, acc), ascending k (the
// accumulator fma_sequential), and the two element-by-element loops fp32_sequential and double. An outer-product kernel
// adds the terms of one output in exactly this order, so it runs at full speed and still has the reference's bits.
// Tile: float_rows rows of A, broadcast, times float_panels * 16 columns of B in the lanes.
#pragma once

#include "src/cpu/quantize/load_body.h"
#include "src/cpu/simd/lanes.h"

namespace fp4::FP4_ISA {

enum class Loop : uint8_t { fma, multiply_add, fp64 };

inline constexpr int float_tile_rows = float_rows;
inline constexpr int64_t float_k_block = 512;  // B tile of 32 columns: 64 KiB

struct FloatTile {
  const float* a;
  int64_t a_row_stride;
  int64_t a_k_stride;
  const float* b[2];  // [k][16]
  int64_t n;          // k count
  bool first;         // of the K blocks; between them the sums wait in C
  bool last;          // sums go to C, times `factor`
  int rows;
  float* c;
  int64_t c_stride;
  int cols;
  float factor;
};

FP4_SIMD void put_sums(const FloatTile& t, int r, int j, F sum) {
  F x = t.factor == 1.0f ? sum : sum * all(t.factor);
  x = select(is_nan(x), as_float(all(canonical_nan_bits)), x);
  store(t.c + r * t.c_stride + j * panel_rows, x, first_lanes(t.cols - j * panel_rows));
}

// unit_rows: the tile's rows lie side by side (panels, transposed operands), so one pointer serves all eight.
template <Loop loop, int panels, bool unit_rows>
FP4_TARGET __attribute__((noinline)) void float_tile(const FloatTile& t) {
  F acc[float_tile_rows][panels];
#pragma GCC unroll 8
  for (int r = 0; r < float_tile_rows; ++r) {
#pragma GCC unroll 2
    for (int j = 0; j < panels; ++j) {
      const M mask = first_lanes(r < t.rows ? t.cols - j * panel_rows : 0);
      acc[r][j] = t.first ? all(0.0f) : load(t.c + r * t.c_stride + j * panel_rows, mask);
    }
  }
  const float* a[float_tile_rows];
#pragma GCC unroll 8
  for (int r = 0; r < float_tile_rows; ++r) a[r] = t.a + (r < t.rows ? r : 0) * t.a_row_stride;
  const float* side = t.a;
  const int64_t k_stride = unit_rows ? t.a_k_stride : 1;
  const float* b0 = t.b[0];
  const float* b1 = t.b[panels - 1];
  for (int64_t k = 0; k < t.n; ++k) {
    F column[panels];
    column[0] = load(b0 + k * panel_rows);
    if (panels == 2) column[panels - 1] = load(b1 + k * panel_rows);
#pragma GCC unroll 8
    for (int r = 0; r < float_tile_rows; ++r) {
      const F row = broadcast(unit_rows ? side + r : a[r] + k);
#pragma GCC unroll 2
      for (int j = 0; j < panels; ++j) {
        acc[r][j] = loop == Loop::fma ? fma(row, column[j], acc[r][j]) : acc[r][j] + row * column[j];
      }
    }
    side += k_stride;
  }
  if (!t.last) {
#pragma GCC unroll 8
    for (int r = 0; r < float_tile_rows; ++r) {
#pragma GCC unroll 2
      for (int j = 0; j < panels; ++j) {
        const M mask = first_lanes(r < t.rows ? t.cols - j * panel_rows : 0);
        store(t.c + r * t.c_stride + j * panel_rows, acc[r][j], mask);
      }
    }
    return;
  }
#pragma GCC unroll 8
  for (int r = 0; r < float_tile_rows; ++r) {
    if (r >= t.rows) break;
#pragma GCC unroll 2
    for (int j = 0; j < panels; ++j) put_sums(t, r, j, acc[r][j]);
  }
}

// fp64: acc = acc + a*b with exact products, so a fused step is the same. One panel of B; A widened by eights.
FP4_TARGET __attribute__((noinline)) inline void double_tile(const FloatTile& t) {
  constexpr int step = 32;
  alignas(64) double a[step][8];
  D sum[float_tile_rows];
#pragma GCC unroll 8
  for (int r = 0; r < float_tile_rows; ++r) sum[r] = all_double(0.0);
  for (int64_t k0 = 0; k0 < t.n; k0 += step) {
    const int count = static_cast<int>(t.n - k0 < step ? t.n - k0 : step);
    widen_rows(t.a + k0 * t.a_k_stride, t.a_k_stride, count, a[0]);
    for (int k = 0; k < count; ++k) {
      const D column = load_widened(t.b[0] + (k0 + k) * panel_rows);
#pragma GCC unroll 8
      for (int r = 0; r < float_tile_rows; ++r) sum[r] = exact_fma(broadcast_double(&a[k][r]), column, sum[r]);
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < float_tile_rows; ++r) {
    if (r < t.rows) put_sums(t, r, 0, narrowed(sum[r]));
  }
}

}  // namespace fp4::FP4_ISA
