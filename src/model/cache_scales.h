// Scales of an FP8 KV cache and the entry of the configuration that says so: both go together, or are named.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "src/model/model_job.h"
#include "src/model/source_config.h"

namespace fp4 {

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
