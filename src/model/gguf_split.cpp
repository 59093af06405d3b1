#include "src/model/gguf_split.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <map>

#include "src/text/error.h"

namespace fp4 {
namespace {

constexpr std::size_t type_bytes = 4;  // in front of each value

// Whether an entry is a whole number: gguf.md's types 0 to 5 and 10, 11.
bool is_number(const std::string& value) {
  std::uint32_t type = 0;
  std::memcpy(&type, value.data(), type_bytes);
  return type < 6 || type == 10 || type == 11;
}

// The number of an entry, which is as wide as its type says; 0 of another.
std::uint64_t number_in(const std::string& value) {
  std::uint64_t number = 0;
  if (!is_number(value)) return 0;
  std::memcpy(&number, value.data() + type_bytes, std::min(value.size() - type_bytes, sizeof number));
  return number;
}

}  // namespace

bool check_split(const std::string& in, const std::vector<std::string>& files) {
  std::map<std::uint64_t, std::string> parts;
  std::uint64_t count = 0;
  for (const std::string& file : files) {
    if (!file.ends_with(".gguf")) return false;
    std::uint64_t number = 0, of = 0;
    for (const auto& [key, value] : entries_of(open_file(file))) {
      if (key == "split.no") number = number_in(value);
      if (key == "split.count") of = number_in(value);
    }
    if (of < 2) continue;
    if (!std::filesystem::is_directory(in))
      throw Error(
          fmt::format("{}: is part {} of {} of a model; give the folder of all parts, or join them with "
                      "`llama-gguf-split --merge`",
                      file, number + 1, of));
    if (count != 0 && of != count)
      throw Error(fmt::format("{}: is one of {} parts, {} one of {}", file, of, parts.begin()->second, count));
    count = of;
    const auto [at, is_new] = parts.emplace(number, file);
    if (!is_new) throw Error(fmt::format("{}: is part {} of {}, as {} is", file, number + 1, of, at->second));
  }
  for (std::uint64_t i = 0; i < count; ++i)
    if (!parts.contains(i))
      throw Error(fmt::format("{}: part {} of {} of the model is missing (split.no, split.count)", in, i + 1, count));
  return count > 0;
}

void set_split_tensors(GgufMetadata& metadata, const std::string& source, std::uint64_t tensors) {
  constexpr std::size_t length_bytes = 8;
  std::size_t at = 0;
  for (const auto& [key, value] : entries_of(open_file(source))) {
    at += length_bytes + key.size();
    const std::size_t width = std::min(value.size() - type_bytes, sizeof tensors);
    if (key == "split.tensors.count" && is_number(value))
      std::memcpy(metadata.entries.data() + at + type_bytes, &tensors, width);
    at += value.size();
  }
}

}  // namespace fp4
