// Products on decoded floats in natural order: acc = fma(a, b, acc), ascending k (numerics.md section 7,
// fma_sequential), and the two element-by-element loops fp32_sequential and double. An outer-product kernel adds the
// terms of one output in exactly this order, so it runs at full speed and still has the reference's bits.
// Tile: 8 rows of A, broadcast, times 16 or 32 columns of B in the lanes.
#pragma once

#include "src/fast/load_body.h"

namespace fp4::FP4_ISA {

enum class Loop : uint8_t { fma, multiply_add, fp64 };

inline constexpr int float_tile_rows = 8;
inline constexpr int64_t float_k_block = 256;  // B tile of 32 columns: 32 KiB

struct FloatTile {
  const float* a;
  int64_t a_row_stride;
  int64_t a_k_stride;
  const float* b[2];  // [k][16]
  int64_t n;          // k count
  float* acc;         // [8][panels][16], carried between K blocks
  bool first;
  int rows;
};

template <Loop loop, int panels>
FP4_TARGET void float_tile(const FloatTile& t) {
  F acc[float_tile_rows][panels];
  for (int r = 0; r < float_tile_rows; ++r) {
    for (int j = 0; j < panels; ++j) {
      acc[r][j] = t.first ? all(0.0f) : load(t.acc + (r * panels + j) * panel_rows);
    }
  }
  const float* a[float_tile_rows];
  for (int r = 0; r < float_tile_rows; ++r) a[r] = t.a + (r < t.rows ? r : 0) * t.a_row_stride;
  const float* b0 = t.b[0];
  const float* b1 = t.b[panels - 1];
  int64_t at = 0;
  for (int64_t k = 0; k < t.n; ++k) {
    F column[panels];
    column[0] = load(b0 + k * panel_rows);
    if (panels == 2) column[panels - 1] = load(b1 + k * panel_rows);
#pragma GCC unroll 8
    for (int r = 0; r < float_tile_rows; ++r) {
      const F row = all(a[r][at]);
#pragma GCC unroll 2
      for (int j = 0; j < panels; ++j) {
        acc[r][j] = loop == Loop::fma ? fma(row, column[j], acc[r][j]) : acc[r][j] + row * column[j];
      }
    }
    at += t.a_k_stride;
  }
  for (int r = 0; r < float_tile_rows; ++r) {
    for (int j = 0; j < panels; ++j) store(t.acc + (r * panels + j) * panel_rows, acc[r][j]);
  }
}

// fp64: acc = acc + a*b with exact products, so a fused step is the same; one panel at a time.
FP4_TARGET inline void double_tile(const FloatTile& t, double* acc) {
  D sum[float_tile_rows];
  for (int r = 0; r < float_tile_rows; ++r) sum[r] = t.first ? all_double(0.0) : load_double(acc + r * panel_rows);
  for (int64_t k = 0; k < t.n; ++k) {
    const D column = widened(load(t.b[0] + k * panel_rows));
#pragma GCC unroll 8
    for (int r = 0; r < float_tile_rows; ++r) {
      const float a = t.a[(r < t.rows ? r : 0) * t.a_row_stride + k * t.a_k_stride];
      sum[r] = fma(all_double(static_cast<double>(a)), column, sum[r]);
    }
  }
  for (int r = 0; r < float_tile_rows; ++r) store(acc + r * panel_rows, sum[r]);
}

}  // namespace fp4::FP4_ISA
