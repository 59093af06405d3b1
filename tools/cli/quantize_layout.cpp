// Shapes after the command line's contract: K' = K padded to the block; codes [rows, K'/2 rounded up] packed; scales
// [rows, K'/B], 2-D [rows/B, K'/B] rounded up; tensor scale [1], outer128 [rows, ceil(K/128)].
#include "tools/cli/quantize_layout.h"

#include <algorithm>

namespace fp4::tools {
namespace {

int64_t rounded_up(int64_t value, int64_t step) { return (value + step - 1) / step * step; }

Dtype code_dtype(const QuantSpec& spec) {
  const int bits = format_of(spec.element).code_bits();
  return bits <= 8 ? Dtype::u8 : bits <= 16 ? Dtype::u16 : Dtype::u32;
}

bool is_packed(const QuantSpec& spec) { return format_of(spec.element).code_bits() == 4; }

}  // namespace

int64_t band_rows(const QuantSpec& spec, int64_t rows, int64_t cols, int64_t bytes) {
  if (spec.has_scale() && spec.block.kind == BlockKind::tensor) return std::max<int64_t>(rows, 1);
  const int64_t block_rows = geometry_of(spec, rows, cols).block_rows;
  const int64_t fitting = bytes / (4 * std::max<int64_t>(cols, 1));
  return std::max(rounded_up(fitting + 1, block_rows) - block_rows, block_rows);
}

Shape shape_of(int64_t rows, int64_t cols) { return {static_cast<uint64_t>(rows), static_cast<uint64_t>(cols)}; }

std::vector<uint8_t> unpack_nibbles(const std::vector<uint8_t>& packed, int64_t rows, int64_t cols) {
  std::vector<uint8_t> codes(static_cast<size_t>(rows * cols));
  const int64_t row_bytes = (cols + 1) / 2;
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t k = 0; k < cols; ++k)
      codes[static_cast<size_t>(r * cols + k)] =
          static_cast<uint8_t>(packed[static_cast<size_t>(r * row_bytes + k / 2)] >> (4 * (k % 2)) & 15);
  return codes;
}

std::vector<uint8_t> pack_nibbles(const std::vector<uint8_t>& codes, int64_t rows, int64_t cols) {
  const int64_t row_bytes = (cols + 1) / 2;
  std::vector<uint8_t> bytes(static_cast<size_t>(rows * row_bytes), 0);
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t k = 0; k < cols; ++k) {
      uint8_t& byte = bytes[static_cast<size_t>(r * row_bytes + k / 2)];
      byte = static_cast<uint8_t>(byte | (codes[static_cast<size_t>(r * cols + k)] & 15) << (4 * (k % 2)));
    }
  return bytes;
}

Layout layout_of(const QuantSpec& spec, int64_t rows, int64_t cols, bool unpacked, const Shape& decoded_shape) {
  const BlockGeometry g = geometry_of(spec, rows, cols);
  Layout layout;
  const int64_t code_cols = is_packed(spec) && !unpacked ? (g.padded_cols + 1) / 2 : g.padded_cols;
  layout.parts.push_back({"codes.npy", code_dtype(spec), shape_of(rows, code_cols)});
  layout.has_scales = spec.has_scale();
  if (layout.has_scales)
    layout.parts.push_back(
        {"scales.npy", is_real(spec.scale) ? Dtype::f32 : Dtype::u8, shape_of(g.scale_rows, g.scale_cols)});
  layout.parts.push_back(
      {"tensor_scale.npy", Dtype::f32, spec.has_outer_scale() ? shape_of(rows, outer_scale_cols(cols)) : Shape{1}});
  layout.parts.push_back({"dequantized.npy", Dtype::f32, decoded_shape});
  return layout;
}

}  // namespace fp4::tools
