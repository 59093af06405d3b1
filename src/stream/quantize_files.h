// Tensor file -> folder of codes, scales, tensor scale, decoded values and manifest, and back; both by bands of rows,
// so that memory does not grow with the number of rows.
#pragma once

#include <functional>
#include <string>

#include "fp4/spec.h"
#include "src/arith/quantize_statistics.h"
#include "src/backends/backends.h"
#include "src/files/tensor_reader.h"
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

}  // namespace fp4::folder
