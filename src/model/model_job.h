// What is asked of a whole model: from scheme to scheme, or back to real numbers.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "fp4/spec.h"
#include "src/model/fused_groups.h"
#include "src/model/model_tensors.h"
#include "src/threads/progress.h"

namespace fp4 {

struct ModelJob {
  std::string in;  // a folder of shards, a .safetensors or a .gguf
  std::string out;
  const CheckpointScheme* scheme = nullptr;     // to write; null: decode FP4 weights to real numbers
  std::string words;                            // of the spec; "": the scheme's
  Dtype real = Dtype::f32;                      // decode: f32 or bf16 (nearest even)
  std::vector<std::string> tensors;             // patterns with * and ?: what is converted; none: all that can be
  std::vector<std::string> keep;                // patterns of what stays besides what keep_rules.h names
  std::vector<std::string> keep_only;           // patterns of what stays instead of that; {"none"}: nothing does
  Activations activations = Activations::none;  // of activations_of()
  FuseRules fuse = {};                          // which weights share a tensor scale
  Layouts layouts;                              // of the scheme that is written; decode: of that which is read
  bool allow_left = false;  // what looks quantised and is not understood stays as it is, instead of an Error
  bool is_dry = false;      // says what would become of each tensor, and writes nothing
  RandomPlace place;        // the stream of the n-th quantised tensor is stream + 128 n
  bool force = false;
  bool changed = false;       // reads shards that are not those of fp4sim.json by their SHA-256
  bool follow_links = false;  // reads and copies what links out of the folder lead to
  std::string backend = "auto";
  int threads = 1;
  std::string command_line;
  Progress progress = {};  // of bytes read

  bool writes_gguf() const { return scheme != nullptr && scheme->gguf != GgufValues::plain; }
  const char* command() const { return scheme != nullptr ? "quantize" : "dequantize"; }
};

// What config.json and hf_quant_config.json say of the model that is read: its architecture, and what lies beside
// weights.
struct SourceConfig {
  std::string file;                            // config.json of the folder, or beside the file
  nlohmann::ordered_json config = nullptr;     // null without one
  nlohmann::ordered_json optimizer = nullptr;  // hf_quant_config.json; null without one

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

// Scales of an FP8 KV cache and the entry of the configuration that says so: both go together, or are named.

// How the configuration that is written says the format of the KV cache.
struct CacheEntries {
  nlohmann::ordered_json scheme = nullptr;     // kv_cache_scheme of quantization_config; null: the model says none
  nlohmann::ordered_json algorithm = nullptr;  // kv_cache_quant_algo of hf_quant_config.json
  std::string refusal = {};  // why the scheme that is written cannot say the source's; "" where it can
};
CacheEntries cache_entries_of(const ModelJob& job, const SourceConfig& source);

// What a scale of the cache is called in the output: as the engines of the scheme call it where an entry is written,
// else as it is; "" where they know no such scale.
std::string cache_name_in(const ModelJob& job, const CacheEntries& entries, const std::string& name);

}  // namespace fp4
