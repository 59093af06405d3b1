// The files of a quantised tensor: names, element types, shapes. Shared by the way there and the way back.
#pragma once

#include <vector>

#include "src/files/tensor_writer.h"
#include "src/layout/digit_layout.h"
#include "src/stream/quantize_files.h"

namespace fp4::folder {

struct Part {
  const char* name;
  Dtype dtype;
  Shape shape;
};

struct Layout {
  std::vector<Part> parts;  // codes, [scales,] tensor_scale, dequantized
  bool has_scales = false;
};

// The orders in which codes and scales lie in their files. Codes of other widths than four and six bits, and scales of
// other widths than a byte, have only the usual one; `low_first` is one code an element where codes are not of four
// bits.
struct Order {
  golden::CodeLayout codes = golden::CodeLayout::low_first;
  golden::ScaleLayout scales = golden::ScaleLayout::linear;
};

// Error, naming the option, where the spec has no such order.
void check_order(const QuantSpec& spec, const Order& order);

// Layouts whose rows lie one after the other keep their shape [rows, ..]; the others are a list of words.
Layout layout_of(const QuantSpec& spec, int64_t rows, int64_t cols, const Order& order, const Shape& decoded_shape);

// Whether a band of rows is a part of the file; else the file has to be held whole.
bool is_row_by_row(golden::CodeLayout layout);

Shape shape_of(int64_t rows, int64_t cols);

// The layout of a spec's codes in memory, and of a file whose order was said.
golden::CodeLayout memory_layout(const QuantSpec& spec);
golden::CodeLayout file_layout(const QuantSpec& spec, const Order& order);

// Codes [rows, cols] of one layout in another.
std::vector<uint8_t> relaid(const std::vector<uint8_t>& codes, golden::CodeLayout from, golden::CodeLayout to,
                            int64_t rows, int64_t cols);

}  // namespace fp4::folder
