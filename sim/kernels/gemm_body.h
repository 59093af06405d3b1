// Plain products: fma in ascending k per output (numerics.md, `fma_sequential`).
// Part of kernels_body.h, which says how it is included.

using tile_lanes = float __attribute__((vector_size(4 * LANES), aligned(4)));
constexpr int panel = 2 * LANES;

static void pack(float* __restrict packed, const float* __restrict b, int64_t b_row, int64_t b_col, int k, int n) {
  for (int j = 0; j < n; j += panel) {
    float* out = packed + int64_t{j} * k;
    const int width = n - j < panel ? n - j : panel;
    if (width < panel) __builtin_memset(out, 0, sizeof(float) * static_cast<size_t>(panel) * static_cast<size_t>(k));
    if (b_col == 1 && width == panel) {
      for (int i = 0; i < k; ++i) __builtin_memcpy(out + i * panel, b + i * b_row + j, sizeof(float) * panel);
    } else {
      // Columns of B are contiguous: 8 values of k at a time keep whole cache lines of source and target in use.
      for (int i0 = 0; i0 < k; i0 += 8) {
        const int end = k - i0 < 8 ? k : i0 + 8;
        for (int c = 0; c < width; ++c)
          for (int i = i0; i < end; ++i) out[i * panel + c] = b[i * b_row + (j + c) * b_col];
      }
    }
  }
}

template <int Rows>
static void tile(float* c, int64_t c_row, int width, const float* a, int64_t a_row, int64_t a_col, const float* packed,
                 int k) {
  tile_lanes low[Rows] = {}, high[Rows] = {};
  for (int i = 0; i < k; ++i) {
    tile_lanes b0, b1;
    __builtin_memcpy(&b0, packed + i * panel, sizeof b0);
    __builtin_memcpy(&b1, packed + i * panel + LANES, sizeof b1);
#pragma GCC unroll 8
    for (int r = 0; r < Rows; ++r) {
      const float x = a[r * a_row + i * a_col];
      low[r] = fma_lanes(x, b0, low[r]);
      high[r] = fma_lanes(x, b1, high[r]);
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < Rows; ++r) {
    // An exactly zero sum is +0 (numerics.md section 7).
    const tile_lanes lo = low[r] + 0.0f, hi = high[r] + 0.0f;
    if (width == panel) {
      __builtin_memcpy(c + r * c_row, &lo, sizeof lo);
      __builtin_memcpy(c + r * c_row + LANES, &hi, sizeof hi);
    } else {
      float edge[panel];
      __builtin_memcpy(edge, &lo, sizeof lo);
      __builtin_memcpy(edge + LANES, &hi, sizeof hi);
      for (int j = 0; j < width; ++j) c[r * c_row + j] = edge[j];
    }
  }
}

static void gemm(float* c, int64_t c_row, const float* a, int64_t a_row, int64_t a_col, const float* packed, int m,
                 int n, int k) {
  for (int j = 0; j < n; j += panel) {
    const float* b = packed + int64_t{j} * k;
    const int width = n - j < panel ? n - j : panel;
    int i = 0;
    for (; i + TILE_ROWS <= m; i += TILE_ROWS)
      tile<TILE_ROWS>(c + i * c_row + j, c_row, width, a + i * a_row, a_row, a_col, b, k);
    for (; i < m; ++i) tile<1>(c + i * c_row + j, c_row, width, a + i * a_row, a_row, a_col, b, k);
  }
}
