// Which tensors of a model are one weight: names, types and shapes against the rows of scheme.h and weight_names.h.
#pragma once

#include <map>
#include <string>
#include <unordered_map>
#include <vector>

#include "src/model/model_tensors.h"

namespace fp4 {

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

}  // namespace fp4
