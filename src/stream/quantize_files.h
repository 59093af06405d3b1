// Tensor file -> folder of codes, scales, tensor scale, decoded values and manifest, and back; both by bands of rows,
// so that memory does not grow with the number of rows.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "fp4/spec.h"
#include "src/arith/quantize_statistics.h"
#include "src/backends/backends.h"
#include "src/files/tensor_reader.h"
#include "src/files/tensor_writer.h"
#include "src/layout/digit_layout.h"
#include "src/threads/progress.h"

namespace fp4::folder {

struct QuantizeJob {
  std::string in;
  OpenOptions open;
  QuantSpec spec;
  std::string preset;  // "" when the spec came from a file
  RandomPlace place;
  std::vector<uint32_t> random_words{};  // in place of Philox's bits
  bool transpose = false;                // quantise IN^T: blocks along axis 0
  std::string nibbles = "low_first";     // of golden::code_layout_table
  std::string scale_layout = "linear";   // of golden::scale_layout_table
  std::string out;
  bool force = false;
  std::string backend = "auto";
  int threads = 1;
  std::string command_line;
  Progress progress = {};                             // of elements as float32
  std::function<void(const std::string&)> note = {};  // what a person should hear: "uint16 read as bfloat16"
  int64_t band_bytes =
      int64_t{1} << 19;  // of float32 input that a thread handles at a time; codes and decoded values come on top
};

QuantizeReport quantize_to_folder(const QuantizeJob& job);

// Decodes what quantize_to_folder wrote, by its manifest. Error with exit code 1 for files that are not the manifest's
// by their SHA-256, unless `changed`.
void dequantize_folder(const std::string& folder, const std::string& out, bool force, const std::string& backend,
                       int threads, bool changed = false);

// Codes and scales of such a folder as the core has them, whole, and the shape of the decoded tensor where asked for.
// Errors of dequantize_folder.
Quantized load_quantized(const std::string& folder, bool changed = false, Shape* shape = nullptr);

// The files of a quantised tensor: names, element types, shapes. Shared by the way there and the way back.
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

// The layout of a spec's codes in memory, and of a file whose order was said.
golden::CodeLayout memory_layout(const QuantSpec& spec);
golden::CodeLayout file_layout(const QuantSpec& spec, const Order& order);

// Codes [rows, cols] of one layout in another.
std::vector<uint8_t> relaid(const std::vector<uint8_t>& codes, golden::CodeLayout from, golden::CodeLayout to,
                            int64_t rows, int64_t cols);

}  // namespace fp4::folder
