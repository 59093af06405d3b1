#include <fmt/format.h>

#include <filesystem>
#include <string_view>

#include "src/model/model_job.h"
#include "src/model/weight_names.h"
#include "src/text/error.h"
#include "src/text/json_reader.h"

namespace fp4 {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

ordered_json object_in(const fs::path& path) {
  if (!fs::is_regular_file(path)) return nullptr;
  ordered_json found =
      parse_json<ordered_json>(read_text_file(path.string(), "configuration of the model").text, path.string());
  if (!found.is_object()) throw Error(path.string() + ": is no JSON object, which engines read");
  return found;
}

// A member of an object; null where there is none.
ordered_json member(const ordered_json& from, const char* key) {
  const auto at = from.is_object() ? from.find(key) : from.end();
  return at == from.end() ? ordered_json(nullptr) : *at;
}

// How the weights are quantised: of the model, or of its language model; compression_config is an older name.
ordered_json said_format(const ordered_json& config) {
  for (const char* key : {"quantization_config", "compression_config"})
    for (const ordered_json& place : {config, member(config, "text_config")})
      if (ordered_json found = member(place, key); found.is_object()) return found;
  return nullptr;
}

// The families of schemes that say how a KV cache is quantised.
enum class Family : std::uint8_t { none, optimizer, compressed };

Family family_of(std::string_view word) {
  if (word.starts_with("modelopt")) return Family::optimizer;
  if (word.starts_with("compressed")) return Family::compressed;
  return Family::none;
}

// E4M3 with one stored scale for all of K or V of a layer.
bool is_static_fp8(const ordered_json& said) {
  if (!said.is_object()) return said == "FP8";
  const auto is = [&](const char* key, const ordered_json& wanted) {
    const auto at = said.find(key);
    return at == said.end() || at->is_null() || *at == wanted;
  };
  return said.contains("num_bits") && is("num_bits", 8) && is("type", "float") && is("dynamic", false) &&
         is("strategy", "tensor");
}

}  // namespace

std::string SourceConfig::model_type() const {
  const ordered_json type = member(config, "model_type");
  return type.is_string() ? type.get<std::string>() : "";
}

std::string SourceConfig::method() const {
  const ordered_json method = member(said_format(config), "quant_method");
  return method.is_string() ? method.get<std::string>() : member(optimizer, "quantization").is_null() ? "" : "modelopt";
}

bool SourceConfig::is_rotated() const {
  const ordered_json said = member(said_format(config), "transform_config");
  return said.is_object() && !member(said, "config_groups").empty();
}

bool SourceConfig::has_towers() const {
  return member(config, "vision_config").is_object() || member(config, "audio_config").is_object();
}

std::optional<std::uint64_t> SourceConfig::layers() const {
  if (member(config, "is_encoder_decoder") == true) return {};
  const ordered_json text = member(config, "text_config");
  const ordered_json count = member(text.is_object() ? text : config, "num_hidden_layers");
  if (!count.is_number_unsigned()) return {};
  return count.get<std::uint64_t>();
}

ordered_json SourceConfig::cache() const {
  ordered_json said = member(said_format(config), "kv_cache_scheme");
  for (const ordered_json& more : {member(said_format(config), "kv_cache_quant_algo"),
                                   member(member(optimizer, "quantization"), "kv_cache_quant_algo")})
    if (said.is_null()) said = more;
  return said;
}

SourceConfig source_config_of(const std::string& path) {
  const fs::path folder = fs::is_directory(path) ? fs::path(path) : fs::path(path).parent_path();
  SourceConfig out = {(folder / "config.json").string()};
  out.config = object_in(out.file);
  if (const ordered_json format = member(out.config, "quantization_config"); !format.is_object() && !format.is_null())
    throw Error(out.file + ": quantization_config: is no JSON object, which engines read");
  out.optimizer = object_in(folder / "hf_quant_config.json");
  return out;
}

CacheEntries cache_entries_of(const ModelJob& job, const SourceConfig& source) {
  CacheEntries out;
  const ordered_json said = source.cache();
  if (said.is_null() || job.scheme == nullptr) return out;
  const Family to = family_of(job.scheme->name), from = family_of(source.method());
  if (is_static_fp8(said) && to == Family::optimizer) {
    out.scheme = {{"dynamic", false}, {"num_bits", 8}, {"type", "float"}};
    out.algorithm = "FP8";
  } else if (is_static_fp8(said) && to == Family::compressed) {
    out.scheme = {{"num_bits", 8}, {"type", "float"}, {"symmetric", true}, {"dynamic", false}, {"strategy", "tensor"}};
  } else if (to != Family::none && to == from) {
    (said.is_string() ? out.algorithm : out.scheme) = said;
  } else {
    out.refusal = fmt::format("engines of {} know no KV cache of {}", job.scheme->name, said.dump());
  }
  return out;
}

std::string cache_name_in(const ModelJob& job, const CacheEntries& entries, const std::string& name) {
  const CacheRow* row = cache_row_of(name);
  if (row == nullptr || (entries.scheme.is_null() && entries.algorithm.is_null())) return name;
  const std::string_view word = family_of(job.scheme->name) == Family::optimizer ? row->optimizer : row->compressed;
  if (word.empty()) return "";
  return name.substr(0, name.size() - std::string_view(row->name).size()).append(word);
}

}  // namespace fp4
