#include "src/model/cache_scales.h"

#include <fmt/format.h>

#include <string_view>

#include "src/model/beside_weights.h"

namespace fp4 {
namespace {

using nlohmann::ordered_json;

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
