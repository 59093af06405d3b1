#include "src/golden/layout.h"

namespace fp4::golden {
namespace {

int64_t rounded_up(int64_t n, int64_t multiple) { return (n + multiple - 1) / multiple * multiple; }

}  // namespace

int64_t scale_offset(ScaleLayout layout, int64_t row, int64_t col, int64_t padded_cols) {
  switch (layout) {
    case ScaleLayout::linear: break;
    case ScaleLayout::tile_128x4: {
      const int64_t tile = row / 128 * (padded_cols / 4) + col / 4;
      return tile * 512 + row % 32 * 16 + row % 128 / 32 * 4 + col % 4;
    }
    case ScaleLayout::amd_preshuffled: {
      // row = 32*a + 16*b + d, col = 8*e + 4*f + g; order (a, e, g, d, f, b)
      const int64_t a = row / 32;
      const int64_t b = row % 32 / 16;
      const int64_t d = row % 16;
      const int64_t e = col / 8;
      const int64_t f = col % 8 / 4;
      const int64_t g = col % 4;
      return ((((a * (padded_cols / 8) + e) * 4 + g) * 16 + d) * 2 + f) * 2 + b;
    }
  }
  return row * padded_cols + col;
}

int64_t padded_size(ScaleLayout layout, int64_t rows, int64_t cols) {
  const ScaleLayoutInfo& info = row_of(scale_layout_table, layout);
  return rounded_up(rows, info.row_multiple) * rounded_up(cols, info.col_multiple);
}

std::vector<uint8_t> to_layout(ScaleLayout layout, const std::vector<uint8_t>& scales, int64_t rows, int64_t cols) {
  const int64_t padded_cols = rounded_up(cols, row_of(scale_layout_table, layout).col_multiple);
  std::vector<uint8_t> out(static_cast<size_t>(padded_size(layout, rows, cols)), 0);
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < cols; ++c) {
      out[static_cast<size_t>(scale_offset(layout, r, c, padded_cols))] = scales[static_cast<size_t>(r * cols + c)];
    }
  }
  return out;
}

std::vector<uint8_t> swapped_nibbles(std::vector<uint8_t> codes) {
  for (uint8_t& c : codes) c = static_cast<uint8_t>(c << 4 | c >> 4);
  return codes;
}

}  // namespace fp4::golden
