// Plain products: fma in ascending k per output (the accumulator `fma_sequential`).
#pragma once

#include "sim/kernels/set.h"

namespace fp4::sim::FP4_ISA {

constexpr int panel = 2 * lanes;
constexpr int narrow_rows = tile_rows < 8 ? 2 * tile_rows : tile_rows;  // eight or more hide an fma's latency

// 8 columns of B, contiguous in k, as 8 rows of `out`.
static inline void transpose_8x8(float* out, const float* b, int64_t b_col) {
  lanes8 r[8], s[8];
  for (int i = 0; i < 8; ++i) __builtin_memcpy(&r[i], b + i * b_col, sizeof r[i]);
  for (int i = 0; i < 8; i += 2) {
    s[i] = __builtin_shufflevector(r[i], r[i + 1], 0, 8, 1, 9, 4, 12, 5, 13);
    s[i + 1] = __builtin_shufflevector(r[i], r[i + 1], 2, 10, 3, 11, 6, 14, 7, 15);
  }
  for (int i = 0; i < 8; i += 4) {
    for (int j = 0; j < 2; ++j) {
      r[i + 2 * j] = __builtin_shufflevector(s[i + j], s[i + j + 2], 0, 1, 8, 9, 4, 5, 12, 13);
      r[i + 2 * j + 1] = __builtin_shufflevector(s[i + j], s[i + j + 2], 2, 3, 10, 11, 6, 7, 14, 15);
    }
  }
  for (int i = 0; i < 4; ++i) {
    const lanes8 low = __builtin_shufflevector(r[i], r[i + 4], 0, 1, 2, 3, 8, 9, 10, 11);
    const lanes8 high = __builtin_shufflevector(r[i], r[i + 4], 4, 5, 6, 7, 12, 13, 14, 15);
    __builtin_memcpy(out + i * panel, &low, sizeof low);
    __builtin_memcpy(out + (i + 4) * panel, &high, sizeof high);
  }
}

static void pack(float* __restrict packed, const float* __restrict b, int64_t b_row, int64_t b_col, int k, int n) {
  for (int j = 0; j < n; j += panel) {
    float* out = packed + int64_t{j} * k;
    const int width = n - j < panel ? n - j : panel;
    if (width < panel) __builtin_memset(out, 0, sizeof(float) * static_cast<size_t>(panel) * static_cast<size_t>(k));
    if (b_col == 1 && width == panel) {
      for (int i = 0; i < k; ++i) __builtin_memcpy(out + i * panel, b + i * b_row + j, sizeof(float) * panel);
      continue;
    }
    // 8 values of k at a time keep whole cache lines of source and target in use.
    for (int i0 = 0; i0 < k; i0 += 8) {
      const int end = k - i0 < 8 ? k : i0 + 8;
      int c = 0;
      if (b_row == 1 && end == i0 + 8)
        for (; c + 8 <= width; c += 8) transpose_8x8(out + i0 * panel + c, b + i0 + (j + c) * b_col, b_col);
      for (; c < width; ++c)
        for (int i = i0; i < end; ++i) out[i * panel + c] = b[i * b_row + (j + c) * b_col];
    }
  }
}

// Rows x (Vectors * lanes) outputs at a time; B's rows are row_stride apart.
template <int Rows, int Vectors>
static void tile(float* c, int64_t c_row, int width, const float* a, int64_t a_row, int64_t a_col, const float* rows,
                 int64_t row_stride, int k) {
  tile_lanes sum[Rows][Vectors] = {};
  // A pointer for three or four rows, which the strides tell apart: a register for each would spill.
  constexpr int group = Rows % 4 == 0 ? 4 : Rows % 3 == 0 ? 3 : Rows;
  const float* row[Rows / group];
  for (int g = 0; g < Rows / group; ++g) row[g] = a + g * group * a_row;
  for (int i = 0; i < k; ++i) {
    tile_lanes b[Vectors];
    for (int v = 0; v < Vectors; ++v) __builtin_memcpy(&b[v], rows + v * lanes, sizeof b[v]);
    rows += row_stride;
#pragma GCC unroll 16
    for (int r = 0; r < Rows; ++r) {
      const float x = row[r / group][r % group * a_row];
#pragma GCC unroll 2
      for (int v = 0; v < Vectors; ++v) sum[r][v] = fma_lanes(x, b[v], sum[r][v]);
    }
#pragma GCC unroll 4
    for (int g = 0; g < Rows / group; ++g) {
      row[g] += a_col;
      asm("" : "+r"(row[g]));  // keeps the compiler from making sixteen of them again
    }
  }
#pragma GCC unroll 16
  for (int r = 0; r < Rows; ++r) {
    float edge[(Vectors * lanes + 15) / 16 * 16];
#pragma GCC unroll 2
    for (int v = 0; v < Vectors; ++v) {
      const tile_lanes out = sum[r][v] + 0.0f;  // an exactly zero sum is +0 (fp4/gemm.h)
      __builtin_memcpy((width == Vectors * lanes ? c + r * c_row : edge) + v * lanes, &out, sizeof out);
    }
    if (width == Vectors * lanes) continue;
    for (int j = 0; j < width; j += 16) {
      lanes16 part;
      __builtin_memcpy(&part, edge + j, sizeof part);
      store_some(c + r * c_row + j, width - j < 16 ? width - j : 16, part);
    }
  }
}

// All rows of one panel of columns; fewer rows than a tile's go in tiles of 4, 2 and 1.
template <int Rows, int Vectors>
static void panel_rows(float* c, int64_t c_row, int width, const float* a, int64_t a_row, int64_t a_col,
                       const float* rows, int64_t row_stride, int m, int k) {
  int i = 0;
  const auto up_to = [&]<int Count>() {
    for (; i + Count <= m; i += Count)
      tile<Count, Vectors>(c + i * c_row, c_row, width, a + i * a_row, a_row, a_col, rows, row_stride, k);
  };
  up_to.template operator()<Rows>();
  up_to.template operator()<4>();
  up_to.template operator()<2>();
  up_to.template operator()<1>();
}

// Panels of B lie panel_stride apart, their rows row_stride.
static void panels(float* c, int64_t c_row, const float* a, int64_t a_row, int64_t a_col, const float* b,
                   int64_t panel_stride, int64_t row_stride, int m, int n, int k) {
  for (int j = 0; j < n; j += panel, b += panel_stride) {
    const int width = n - j < panel ? n - j : panel;
    // Few columns, as in a head of ten classes, fill one register.
    if (width <= lanes) {
      panel_rows<narrow_rows, 1>(c + j, c_row, width, a, a_row, a_col, b, row_stride, m, k);
    } else {
      panel_rows<tile_rows, 2>(c + j, c_row, width, a, a_row, a_col, b, row_stride, m, k);
    }
  }
}
static void gemm(float* c, int64_t c_row, const float* a, int64_t a_row, int64_t a_col, const float* packed, int m,
                 int n, int k) {
  panels(c, c_row, a, a_row, a_col, packed, int64_t{k} * panel, panel, m, n, k);
}
static void gemm_in_place(float* c, int64_t c_row, const float* a, int64_t a_row, int64_t a_col, const float* b,
                          int64_t b_row, int m, int n, int k) {
  panels(c, c_row, a, a_row, a_col, b, panel, b_row, m, n, k);
}

// Some rows of A at a time; the last ones with the last row in place of those that are none.
static void wide_gemm(double* c, const double* a, const float* packed, int m, int n, int k) {
  constexpr int together = FP4_CPU == 512 ? 5 : 2;
  for (int first = 0; first < n; first += panel, packed += int64_t{k} * panel)
    for (int j = 0; j < m; j += together) {
      const double* row[together];
      for (int r = 0; r < together; ++r) row[r] = a + int64_t{j + r < m ? j + r : m - 1} * k;
      wide_lanes sum[together][4] = {};
      for (int i = 0; i < k; ++i)
#pragma GCC unroll 4
        for (int v = 0; v < 4; ++v) {
          const wide_lanes b = load_widened(packed + int64_t{i} * panel + v * (lanes / 2));
#pragma GCC unroll 5
          for (int r = 0; r < together; ++r) sum[r][v] += row[r][i] * b;
        }
      const size_t width = sizeof(double) * static_cast<size_t>(n - first < panel ? n - first : panel);
      for (int r = 0; r < together && j + r < m; ++r) __builtin_memcpy(c + int64_t{j + r} * n + first, sum[r], width);
    }
}
static void subtract_products(float* rest, const float* packed, const float* left, const float* values,
                              const float* right, int rank, int rows, int cols) {
  for (int first = 0; first < cols; first += panel, right += rank * panel)
    for (int r = 0; r < rows; ++r, packed += panel) {
      wide_lanes sum[4] = {};
      for (int j = 0; j < rank; ++j) {
        const double factor = static_cast<double>(left[int64_t{j} * rows + r]) * static_cast<double>(values[j]);
        for (int v = 0; v < 4; ++v) sum[v] += factor * load_widened(right + j * panel + v * (lanes / 2));
      }
      float edge[panel];
      float* const to = cols - first < panel ? edge : rest + int64_t{r} * cols + first;
      for (int v = 0; v < 4; ++v) store_narrowed(to + v * (lanes / 2), load_widened(packed + v * (lanes / 2)) - sum[v]);
      if (to == edge)
        __builtin_memcpy(rest + int64_t{r} * cols + first, edge, sizeof(float) * static_cast<size_t>(cols - first));
    }
}

}  // namespace fp4::sim::FP4_ISA
