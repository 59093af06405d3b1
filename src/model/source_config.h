// What config.json and hf_quant_config.json say of the model that is read: its architecture, and what lies beside
// weights.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

namespace fp4 {

struct SourceConfig {
  std::string file;                            // config.json of the folder, or beside the file
  nlohmann::ordered_json config = nullptr;     // null without one
  nlohmann::ordered_json optimizer = nullptr;  // "quantization" of hf_quant_config.json

  std::string model_type() const;  // "" where it is not said
  std::string method() const;      // quant_method: "modelopt", "compressed-tensors"; "" of a model without
  bool is_rotated() const;         // compressed-tensors' transform_config: inputs are turned before they are multiplied
  bool has_towers() const;         // of vision or audio
  // num_hidden_layers of the language model; nothing where it is not said, or where there are several stacks of layers.
  std::optional<std::uint64_t> layers() const;
  // The entry of the format of the KV cache: kv_cache_scheme (an object) or kv_cache_quant_algo ("FP8"); null without.
  nlohmann::ordered_json cache() const;
};

// Of a folder, or of the folder of a file. Error, naming the file, for one that is no JSON object.
SourceConfig source_config_of(const std::string& path);

}  // namespace fp4
