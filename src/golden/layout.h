// Orders in which kernels keep block scales and FP4 nibbles. Offsets are in bytes of one-byte scales [rows, cols].
//   linear           row-major, unpadded
//   tile_128x4       padded to 128 x 4; a tile is 512 bytes, row r and column c of it at (r%32)*16 + (r/32)*4 + c;
//   tiles
//                    row-major. Source: cuBLAS documentation, "1D block scaling factors layout"; CUTLASS Sm1xx
//                    blockscaled
//   amd_preshuffled  padded to 256 x 8, viewed as (rows/32, 2, 16, cols/8, 2, 4) and permuted to (0, 3, 5, 2, 4, 1).
//                    Source: AITER fp4_utils.e8m0_shuffle; rocm-libraries mxDataGenerator PreSwizzle.hpp
#pragma once

#include <cstdint>
#include <vector>

#include "fp4/axis.h"

namespace fp4::golden {

enum class ScaleLayout : uint8_t { linear, tile_128x4, amd_preshuffled };

struct ScaleLayoutInfo {
  ScaleLayout id;
  const char* name;
  int64_t row_multiple;
  int64_t col_multiple;
};
inline constexpr ScaleLayoutInfo scale_layout_table[] = {
    {ScaleLayout::linear, "linear", 1, 1},
    {ScaleLayout::tile_128x4, "128x4", 128, 4},
    {ScaleLayout::amd_preshuffled, "amd_preshuffled", 256, 8},
};
static_assert(ids_are_indices(scale_layout_table));

// Where element (row, col) of a scale matrix lies; padded_cols is a multiple of the layout's col_multiple.
int64_t scale_offset(ScaleLayout layout, int64_t row, int64_t col, int64_t padded_cols);

// The scales in another order, padding zero; and back, dropping the padding.
std::vector<uint8_t> to_layout(ScaleLayout layout, const std::vector<uint8_t>& scales, int64_t rows, int64_t cols);
int64_t padded_size(ScaleLayout layout, int64_t rows, int64_t cols);

// Even index in the high nibble instead of the low one.
std::vector<uint8_t> swapped_nibbles(std::vector<uint8_t> codes);

}  // namespace fp4::golden
