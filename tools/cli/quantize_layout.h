// The files of a quantised tensor: names, element types, shapes, and how many rows are handled at a time. Shared by the
// way there and the way back.
#pragma once

#include <vector>

#include "src/tensor_file/tensor_writer.h"
#include "tools/cli/quantize_files.h"

namespace fp4::tools {

struct Part {
  const char* name;
  Dtype dtype;
  Shape shape;
};

struct Layout {
  std::vector<Part> parts;  // codes, [scales,] tensor_scale, dequantized
  bool has_scales = false;
};

Layout layout_of(const QuantSpec& spec, int64_t rows, int64_t cols, bool unpacked, const Shape& decoded_shape);

// Rows of one band of about `bytes` of float32: whole blocks, at least one, and the whole tensor where one block is.
int64_t band_rows(const QuantSpec& spec, int64_t rows, int64_t cols, int64_t bytes);

Shape shape_of(int64_t rows, int64_t cols);

// FP4 codes [rows, cols] one a byte <-> [rows, ceil(cols/2)] two a byte, the even column in the low nibble.
std::vector<uint8_t> unpack_nibbles(const std::vector<uint8_t>& packed, int64_t rows, int64_t cols);
std::vector<uint8_t> pack_nibbles(const std::vector<uint8_t>& codes, int64_t rows, int64_t cols);

}  // namespace fp4::tools
