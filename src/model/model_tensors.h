// The files of a model and their tensors: which of them together make one weight, and which make no sense.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "src/files/gguf.h"
#include "src/files/open_array.h"
#include "src/layout/digit_layout.h"
#include "src/model/scheme.h"

namespace fp4 {

// Where one tensor of a file lies.
struct TensorPlace {
  std::string file;
  TensorInfo info = {};
  ArrayPlace array = {};           // found when the file was listed; GGUF: bytes and offset alone
  const GgufType* gguf = nullptr;  // GGUF: what its elements are
  std::uint64_t bytes() const;
};

// Opens the bytes of a place; `options` say what a .npy or raw file cannot say itself.
TensorReader reader_of(const TensorPlace& place, const OpenOptions& options = {});

// Orders of codes and scales; unset: what marks in the file say, else low_first and linear.
struct Layouts {
  std::optional<golden::CodeLayout> nibbles = {};  // low_first or high_first
  std::optional<golden::ScaleLayout> scales = {};
};

// How the scales of an FP8 weight lie over it: one for so many rows and columns, [rows of blocks, columns of blocks].
struct Fp8Grid {
  std::int64_t rows = 0, cols = 0;  // of a block
  const char* name = "";            // "fp8_tensor"
};

// Tensors that make one weight, or one tensor by itself (no scheme).
struct ModelTensor {
  std::string name;                          // of the tensor of codes, or of the tensor
  std::string stem;                          // name without the scheme's ending
  const CheckpointScheme* scheme = nullptr;  // null: no FP4 weight
  std::vector<TensorPlace> parts = {};       // codes, scales, factor (GGUF: blocks, factor); FP8: codes, scales
  Shape shape{};                             // of the weight: codes counted one by one
  std::string whole = {};                    // how it is called when it is decoded
  std::optional<Fp8Grid> fp8 = {};
  std::optional<int> exact_power = {};  // MXFP4 that is read as NVFP4 under the factor 2^power (exact_scales.cpp)
  bool is_transposed = false;  // FP4 stacks [E, in, out] whose bytes hold two rows and whose blocks run down columns
  golden::CodeLayout nibbles = golden::CodeLayout::low_first;
  golden::ScaleLayout scale_layout = golden::ScaleLayout::linear;
  std::vector<std::uint64_t> factor_rows = {};  // rows that each factor multiplies; empty: one factor, or none
  std::vector<TensorPlace> companions = {};     // that mean nothing without it
  std::optional<TensorPlace> columns = {};      // one of them: numbers that multiply its columns
  bool is_turned = false;    // read as [E, out, in], which `shape` says, where the file has [E, in, out] (row_view.cpp)
  std::string fault = {};    // why a quantised weight cannot be read, naming the part
  std::string unknown = {};  // why a tensor looks like a part of a quantised weight that no scheme reads
  std::string changed = {};  // what beside a weight of numbers changes its worth, and would not beside FP4 codes
  const std::string& file() const { return parts.front().file; }
  bool is_quantised() const { return scheme != nullptr || fp8.has_value(); }
  std::string layout_words() const;  // "nibbles high_first, scale layout 128x4"; "" of the usual ones
  std::string scheme_name() const;   // "modelopt_nvfp4", "fp8_rows"; "" of one tensor
  std::string type() const;          // of the codes or of the tensor: "u8", "NVFP4"
  std::uint64_t bytes() const;       // of all parts
  double bits_per_element() const;
};

// What is known of a model before its tensors are put together.
struct ModelNames {
  std::unordered_map<std::string, TensorPlace> all = {};
  std::vector<std::string> order = {};  // of files and tensors
  // Formats that ComfyUI's marks give to layers ("blocks.0.q": "nvfp4"): STEM.comfy_quant, or the header's
  // _quantization_metadata, which Black Forest Labs' files have too.
  std::map<std::string, std::string> marks = {};
  std::string mlx_mode = {};  // of config.json's `quantization`; "" where it says none
  // Rows of the parts of a fused qkv matrix by config.json, 0 where it does not say.
  std::uint64_t query_rows = 0, key_rows = 0;
};

// Every tensor once: as a weight's part or by itself.
std::vector<ModelTensor> recognised(const ModelNames& names, const Layouts& told);

// In the order of files and tensors. A weight's parts may lie in several files. Error for a name that two files have.
std::vector<ModelTensor> model_tensors(const std::vector<std::string>& files, const Layouts& told = {});

}  // namespace fp4
