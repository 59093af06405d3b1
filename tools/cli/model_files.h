// The files of a model, and the schemes in which checkpoints keep FP4 weights: which tensors belong together.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "src/tensor_file/stored_array.h"

namespace fp4::tools {

// A file, or the .safetensors of a folder in the order of their names: the shards of one model. Error for a folder
// without any; `command` opens it.
std::vector<std::string> model_files(const std::string& command, const std::string& path);

// Codes are two a byte, the even column in the low nibble; scales are row-major.
struct CheckpointScheme {
  const char* name;
  const char* codes;   // how the tensor of codes ends: "weight_packed"
  Dtype codes_dtype;   // of it
  const char* scales;  // what stands in its place in the names of the others
  Dtype scales_dtype;  // of the block scales
  const char* factor;  // the tensor scale; "" where there is none
  int block;           // elements that share a scale
  const char* spec;    // in our words
  const char* doc;
  const char* source;
};
inline constexpr CheckpointScheme checkpoint_schemes[] = {
    {"modelopt_nvfp4", "weight", Dtype::u8, "weight_scale", Dtype::f8_e4m3, "weight_scale_2", 16, "nvfp4",
     "weight_scale_2 is the tensor scale g", "NVIDIA Model-Optimizer"},
    {"compressed_tensors_nvfp4", "weight_packed", Dtype::u8, "weight_scale", Dtype::f8_e4m3, "weight_global_scale", 16,
     "nvfp4", "weight_global_scale is 1/g", "compressed-tensors nvfp4-pack-quantized"},
    {"compressed_tensors_mxfp4", "weight_packed", Dtype::u8, "weight_scale", Dtype::u8, "", 32, "mxfp4",
     "weight_scale is E8M0", "compressed-tensors mxfp4-pack-quantized"},
    {"modelopt_mxfp4", "weight", Dtype::u8, "weight_scale", Dtype::u8, "", 32, "mxfp4", "weight_scale is E8M0",
     "NVIDIA Model-Optimizer"},
    {"gpt_oss_mxfp4", "blocks", Dtype::u8, "scales", Dtype::u8, "", 32, "mxfp4",
     "blocks [.., K/32, 16], scales [.., K/32] E8M0", "openai/gpt-oss"},
    {"deepseek_mxfp4", "weight", Dtype::i8, "scale", Dtype::f8_e8m0, "", 32, "mxfp4", "codes are int8 of two nibbles",
     "DeepSeek-V4 checkpoints"},
};

// Tensors that make one weight, or one tensor by itself (no scheme).
struct ModelTensor {
  std::string name, file;
  const CheckpointScheme* scheme = nullptr;
  Dtype dtype = Dtype::f32;  // of the codes or of the tensor
  Shape shape{};             // of the weight: codes counted one by one
  std::uint64_t bytes = 0;   // with scales
  double bits_per_element() const;
};

// In the order of files and tensors. A weight's parts may lie in several files.
std::vector<ModelTensor> model_tensors(const std::vector<std::string>& files);

}  // namespace fp4::tools
