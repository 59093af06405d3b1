#include "src/model/source_config.h"

#include <filesystem>

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

}  // namespace

std::string SourceConfig::model_type() const {
  const ordered_json type = member(config, "model_type");
  return type.is_string() ? type.get<std::string>() : "";
}

std::string SourceConfig::method() const {
  const ordered_json method = member(said_format(config), "quant_method");
  return method.is_string() ? method.get<std::string>() : optimizer.is_null() ? "" : "modelopt";
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
  for (const ordered_json& more :
       {member(said_format(config), "kv_cache_quant_algo"), member(optimizer, "kv_cache_quant_algo")})
    if (said.is_null()) said = more;
  return said;
}

SourceConfig source_config_of(const std::string& path) {
  const fs::path folder = fs::is_directory(path) ? fs::path(path) : fs::path(path).parent_path();
  SourceConfig out = {(folder / "config.json").string()};
  out.config = object_in(out.file);
  if (const ordered_json format = member(out.config, "quantization_config"); !format.is_object() && !format.is_null())
    throw Error(out.file + ": quantization_config: is no JSON object, which engines read");
  out.optimizer = member(object_in(folder / "hf_quant_config.json"), "quantization");
  return out;
}

}  // namespace fp4
