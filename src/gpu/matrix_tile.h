// What the matrix kernels share: where a tile's operands lie in shared memory, loading them, and which warp makes which
// outputs. Rows are padded by 16 bytes (36 words): eight rows lie in different banks.
#pragma once

#include "src/gpu/plain_gemm.h"

namespace fp4::gpu {

inline constexpr int row_words = (matrix_k + 16) / 4;
inline constexpr int words_of_values = matrix_tile * row_words;  // of one operand
inline constexpr int largest_runs = matrix_k / 16;               // per row, in shared memory at a time
inline constexpr int words_of_scales = matrix_tile * largest_runs;
inline constexpr int matrix_shared_words = 2 * (words_of_values + words_of_scales);

// Bytes k .. k+127 of 128 rows; rows beyond the edge are zeros.
FP4_HD inline void load_values(Group group, const void* from, int64_t rows, int64_t row_bytes, int64_t first, int64_t k,
                               uint32_t* values) {
  constexpr int per_row = matrix_k / static_cast<int>(sizeof(FourWords));
  const char* corner = static_cast<const char*>(from) + first * row_bytes + k;
  const int inside = static_cast<int>(smaller<int64_t>(rows - first, matrix_tile));
  group.for_all<matrix_tile * per_row, 2>([&](int i) {
    const int r = i / per_row;
    const int c = i % per_row;
    FourWords v = {};
    if (r < inside) v = *reinterpret_cast<const FourWords*>(corner + r * row_bytes + c * 16);
    *reinterpret_cast<FourWords*>(values + r * row_words + c * 4) = v;
  });
}

// Words [run][row] of `runs` runs from run j on, plus an offset; rows beyond the edge have `outside`.
template <int runs>
FP4_HD inline void load_words(Group group, const uint32_t* from, int64_t rows, int64_t first, int64_t j, uint32_t mask,
                              uint32_t outside, uint32_t offset, uint32_t* words) {
  const uint32_t* corner = from + j * rows + first;
  const int inside = static_cast<int>(smaller<int64_t>(rows - first, matrix_tile));
  group.for_all<matrix_tile * runs, 2>([&](int i) {
    const int r = i % matrix_tile;
    const int run = i / matrix_tile;
    const uint32_t word = r < inside ? corner[run * rows + r] & mask : outside;
    words[run * matrix_tile + r] = word + offset;
  });
}

// The outputs of a warp: tiles_m x tiles_n instructions of m x n, warps_down warps above each other.
template <class Unit>
FP4_HD constexpr int first_m(int warp) {
  return warp % Unit::warps_down * Unit::tiles_m * Unit::m;
}
template <class Unit>
FP4_HD constexpr int first_n(int warp) {
  return warp / Unit::warps_down * Unit::tiles_n * Unit::n;
}

// f(row, col, m, n, v) for the outputs of a lane that lie inside C.
template <class Unit, class F>
FP4_HD void for_outputs(const PlainGemm& plain, int64_t tile_a, int64_t tile_b, int warp, int lane, const F& f) {
  FP4_UNROLL
  for (int m = 0; m < Unit::tiles_m; ++m) {
    FP4_UNROLL
    for (int n = 0; n < Unit::tiles_n; ++n) {
      FP4_UNROLL
      for (int v = 0; v < 4; ++v) {
        const int64_t row = tile_a * matrix_tile + first_m<Unit>(warp) + m * Unit::m + Unit::row_d(lane, v);
        const int64_t col = tile_b * matrix_tile + first_n<Unit>(warp) + n * Unit::n + Unit::col_d(lane, v);
        if (row < plain.a.rows && col < plain.b.rows) f(row, col, m, n, v);
      }
    }
  }
}

// What a sum is multiplied by: one factor for all of C, as no operand here has factors of its own per 128.
FP4_HD inline float finish_factor(const PlainGemm& plain) {
  return plain.finish.factor(plain.a.factors[0].g * plain.b.factors[0].g);
}

}  // namespace fp4::gpu
