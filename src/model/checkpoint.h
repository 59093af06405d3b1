// The files of a model, and the schemes in which checkpoints keep FP4 weights: which tensors belong together.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "src/tensor_file/gguf.h"
#include "src/tensor_file/stored_array.h"

namespace fp4 {

// What the tensor beside the codes says of the tensor scale g; `one`: there is no such tensor.
enum class Factor : std::uint8_t { one, direct, reciprocal };

// Names are STEM + ending. Codes are two a byte, the even column in the low nibble; scales are row-major. GGUF keeps
// codes and scales in blocks of one tensor (gguf.h) and has no endings.
struct CheckpointScheme {
  const char* name;
  const char* whole;  // how the tensor ends before it is quantised: "weight"
  const char* codes;  // "weight_packed"
  Dtype codes_dtype;
  const char* scales;  // what stands in its place in the names of the others
  Dtype scales_dtype;
  const char* factor;  // "" where there is none
  Factor meaning;
  int block;         // elements that share a scale
  const char* spec;  // in our words
  const char* doc;
  const char* source;
  GgufValues gguf = GgufValues::plain;  // of a GGUF's block type; plain: safetensors
};
inline constexpr CheckpointScheme checkpoint_schemes[] = {
    {"modelopt_nvfp4", "weight", "weight", Dtype::u8, "weight_scale", Dtype::f8_e4m3, "weight_scale_2", Factor::direct,
     16, "nvfp4", "weight_scale_2 is the tensor scale g", "NVIDIA Model-Optimizer"},
    {"compressed_tensors_nvfp4", "weight", "weight_packed", Dtype::u8, "weight_scale", Dtype::f8_e4m3,
     "weight_global_scale", Factor::reciprocal, 16, "nvfp4", "weight_global_scale is 1/g",
     "compressed-tensors nvfp4-pack-quantized"},
    {"compressed_tensors_mxfp4", "weight", "weight_packed", Dtype::u8, "weight_scale", Dtype::u8, "", Factor::one, 32,
     "mxfp4", "weight_scale is E8M0", "compressed-tensors mxfp4-pack-quantized"},
    {"modelopt_mxfp4", "weight", "weight", Dtype::u8, "weight_scale", Dtype::u8, "", Factor::one, 32, "mxfp4",
     "weight_scale is E8M0", "NVIDIA Model-Optimizer"},
    {"gpt_oss_mxfp4", "", "_blocks", Dtype::u8, "_scales", Dtype::u8, "", Factor::one, 32, "mxfp4",
     "blocks [.., K/32, 16], scales [.., K/32] E8M0", "openai/gpt-oss"},
    {"deepseek_mxfp4", "weight", "weight", Dtype::i8, "scale", Dtype::f8_e8m0, "", Factor::one, 32, "mxfp4",
     "codes are int8 of two nibbles", "DeepSeek-V4 checkpoints"},
    {"ggml_mxfp4", "weight", "", Dtype::u8, "", Dtype::u8, "", Factor::one, 32, "ggml_mxfp4",
     "GGUF type 39: E8M0, then 16 bytes half_split_32; scale 0xFF reads as NaN", "ggml-common.h block_mxfp4",
     GgufValues::mxfp4},
    {"ggml_nvfp4", "weight", "", Dtype::u8, "", Dtype::u8, "scale", Factor::direct, 16, "nvfp4,tensor_scale=none",
     "GGUF type 40: 4 x UE4M3, then 4 x 8 bytes half_split_16; STEM.scale, if there, is g (--spec nvfp4 writes it)", "ggml-common.h block_nvfp4",
     GgufValues::nvfp4},
};

// A scheme by name; Error, which `place` opens, with the accepted words.
const CheckpointScheme& scheme_of(const std::string& place, std::string_view name);

// Where one tensor of a file lies.
struct TensorPlace {
  std::string file;
  TensorInfo info = {};
  std::uint64_t offset = 0;        // GGUF: in the file
  const GgufType* gguf = nullptr;  // GGUF: what its elements are
  std::uint64_t bytes() const;
};

// Tensors that make one weight, or one tensor by itself (no scheme).
struct ModelTensor {
  std::string name;                          // of the tensor of codes, or of the tensor
  std::string stem;                          // name without the scheme's ending
  const CheckpointScheme* scheme = nullptr;  // null: one tensor
  std::vector<TensorPlace> parts = {};       // codes, scales, factor (GGUF: blocks, factor); or the tensor
  Shape shape{};                             // of the weight: codes counted one by one
  const std::string& file() const { return parts.front().file; }
  std::string type() const;     // of the codes or of the tensor: "u8", "NVFP4"
  std::uint64_t bytes() const;  // of all parts
  double bits_per_element() const;
};

// A file, or the shards of a folder: those that its *.safetensors.index.json names, else every .safetensors and .gguf
// in the order of their names. Error for a folder without any and for a shard or tensor of the index that is missing;
// `command` opens it.
std::vector<std::string> model_files(const std::string& command, const std::string& path);

// In the order of files and tensors. A weight's parts may lie in several files. Error for a name that two files have.
std::vector<ModelTensor> model_tensors(const std::vector<std::string>& files);

}  // namespace fp4
