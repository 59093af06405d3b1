#include "src/model/model_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "src/files/manifest.h"
#include "src/files/open_array.h"
#include "src/text/error.h"
#include "src/text/json_reader.h"

namespace fp4 {
namespace {

namespace fs = std::filesystem;

// In the order of their names.
std::vector<std::string> shards_in(const std::string& folder) {
  std::vector<std::string> shards;
  for (const fs::directory_entry& e : fs::directory_iterator(folder))
    if (is_shard(e.path().filename().string())) shards.push_back(e.path().string());
  std::sort(shards.begin(), shards.end());
  return shards;
}

std::set<std::string> names_in(const std::string& file) {
  std::set<std::string> names;
  const Bytes bytes = open_file(file);
  if (file.ends_with(".gguf"))
    for (const GgufTensor& t : list_gguf(bytes)) names.insert(t.name);
  else
    for (const ArrayPlace& array : list_arrays(bytes)) names.insert(array.info.name);
  return names;
}

// The shards that the index names, in the order of their names; empty without an index. Each has to hold the tensors
// that the index places there, or the model would be read without them.
std::vector<std::string> indexed(const ModelSource& source, std::vector<std::string>* notes) {
  const std::string& folder = source.path;
  const std::optional<std::string> found = index_of(folder);
  if (!found) return {};
  const std::string index = (fs::path(folder) / *found).string();
  const nlohmann::json document = parse_json(read_text_file(index, "index of shards").text, index);
  JsonReader reader(document, index);
  std::map<std::string, std::set<std::string>> tensors, unnamed;  // of each file
  for (const auto& [tensor, file] : reader.at("weight_map").entries()) {
    const fs::path inside = file.text();
    const std::string path = (fs::path(folder) / inside).string();
    const std::string named = index + ": weight_map names " + path + " for " + tensor;
    if (inside.empty() || inside.is_absolute() || std::find(inside.begin(), inside.end(), "..") != inside.end())
      throw Error(named + ": shards lie in the folder of their index");
    if (!fs::exists(path)) throw Error(named + ": no such file");
    const auto [held, is_new] = tensors.try_emplace(path);
    if (is_new && !source.follow_links) refuse_link_out(folder, inside.string());
    if (is_new) held->second = names_in(path);
    if (is_new) unnamed[path] = held->second;
    if (!held->second.contains(tensor)) throw Error(named + ": the file has no such tensor");
    unnamed[path].erase(tensor);
  }
  if (tensors.empty()) throw Error(index + ": weight_map names no tensor");
  if (notes != nullptr) {
    for (const std::string& path : shards_in(folder))
      if (!tensors.contains(path)) notes->push_back(fmt::format("{}: {} does not name it: left out", path, index));
    for (const auto& [path, left] : unnamed)
      if (!left.empty())
        notes->push_back(fmt::format("{}: {} names {} of its tensors, not {}{}; all are read", path, index,
                                     tensors[path].size() - left.size(), *left.begin(),
                                     left.size() > 1 ? fmt::format(" and {} more", left.size() - 1) : ""));
  }
  std::vector<std::string> files;
  for (const auto& [file, held] : tensors) files.push_back(file);
  return files;
}

// Links out of the folder that is read: of a file what is read beside it, of a folder everything in it but hidden
// files.
void refuse_links_out(const std::string& path) {
  if (!fs::is_directory(path)) {
    const std::string folder = fs::path(path).parent_path().string();
    for (const char* name : {"config.json", model_record}) refuse_link_out(folder.empty() ? "." : folder, name);
    return;
  }
  for (const fs::directory_entry& e : fs::directory_iterator(path)) {
    const std::string name = e.path().filename().string();
    if (!name.starts_with('.') || is_shard(name)) refuse_link_out(path, name);
  }
}

constexpr std::size_t type_bytes = 4;  // in front of each value of a GGUF's entries

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

// One of several files of a model. `series`: what those of one model have in common, "model-" of a name, "" of GGUF.
struct Part {
  std::string series;
  std::uint64_t number = 0, count = 0;         // number: from 1, of names as it stands there
  std::uint64_t tensors = 0, all_tensors = 0;  // GGUF: in the file, and what it says of all; 0: nothing
};

std::optional<Part> part_by_entries(const std::string& file) {
  Part part;
  const Bytes bytes = open_file(file);
  for (const auto& [key, value] : entries_of(bytes)) {
    if (key == "split.no") part.number = number_in(value) + 1;
    if (key == "split.count") part.count = number_in(value);
    if (key == "split.tensors.count") part.all_tensors = number_in(value);
  }
  if (part.count < 2) return {};
  part.number = std::max<std::uint64_t>(part.number, 1);
  bytes->read(8, &part.tensors, sizeof part.tensors);  // behind magic number and version
  return part;
}

std::optional<Part> part_by_name(const std::string& file) {
  constexpr std::string_view of = "-of-", ending = ".safetensors", digits = "0123456789";
  const std::string name = fs::path(file).filename().string();
  const size_t at = name.rfind(of);
  if (!name.ends_with(ending) || at == std::string::npos) return {};
  const size_t begin = name.find_last_not_of(digits, at - 1) + 1;
  Part part = {.series = name.substr(0, begin)};
  const auto whole = [&](size_t first, size_t last, std::uint64_t& number) {
    const auto [end, code] = std::from_chars(name.data() + first, name.data() + last, number);
    return first < last && code == std::errc() && end == name.data() + last;
  };
  const bool is_part = whole(begin, at, part.number) && whole(at + of.size(), name.size() - ending.size(), part.count);
  return is_part && part.count > 0 ? std::optional(part) : std::nullopt;
}

// The parts of one model.
struct Series {
  std::map<std::uint64_t, std::string> files;  // by number
  bool is_read = false;
  Part any = {};
  std::uint64_t tensors = 0;
};

void check_series(const std::string& in, const Series& s) {
  const bool is_gguf = s.files.begin()->second.ends_with(".gguf");
  const std::uint64_t first = s.files.contains(0) && !is_gguf ? 0 : 1, count = s.any.count;
  for (std::uint64_t i = first; i < first + count; ++i) {
    if (s.files.contains(i)) continue;
    if (fs::is_directory(in))
      throw Error(fmt::format("{}: part {} of {} of the model is missing ({})", in, i, count,
                              is_gguf ? "split.no, split.count" : "as " + s.files.begin()->second + " is called"));
    throw Error(fmt::format("{}: is part {} of {} of a model; give the folder of all parts{}", in,
                            s.files.begin()->first, count,
                            is_gguf ? ", or join them with `llama-gguf-split --merge`" : ""));
  }
  if (s.any.all_tensors != 0 && s.any.all_tensors != s.tensors)
    throw Error(fmt::format("{}: the {} parts of the model hold {} tensors, split.tensors.count says {}", in, count,
                            s.tensors, s.any.all_tensors));
}

}  // namespace

bool is_shard(const std::string& name) { return name.ends_with(".safetensors") || name.ends_with(".gguf"); }

std::optional<std::string> index_of(const std::string& folder) {
  std::optional<std::string> index;
  for (const fs::directory_entry& e : fs::directory_iterator(folder)) {
    const std::string name = e.path().filename().string();
    if (!name.ends_with(".safetensors.index.json")) continue;
    if (index) throw Error(folder + ": two indexes: " + *index + " and " + name + "; give the shards as files");
    index = name;
  }
  return index;
}

void refuse_link_out(const std::string& folder, const std::string& name) {
  const fs::path path = fs::path(folder) / name;
  if (!leads_out(folder, name)) return;
  throw Error(
      fmt::format("{}: is a link that leads out of its folder, to {}; --follow-links reads what it leads to "
                  "(in a Hugging Face cache every file is a link to ../../blobs)",
                  path.string(), fs::is_symlink(path) ? fs::read_symlink(path).string() : "another one"));
}

std::vector<std::string> model_files(const ModelSource& source, std::vector<std::string>* notes) {
  const std::string& path = source.path;
  if (!source.follow_links) refuse_links_out(path);
  std::vector<std::string> files = {path};
  if (fs::is_directory(path)) {
    files = indexed(source, notes);
    if (files.empty()) files = shards_in(path);
    if (files.empty()) throw Error(source.command + " " + path + ": the folder has no .safetensors and no .gguf");
  }
  check_parts(path, files, source.beside);
  return files;
}

void check_parts(const std::string& in, const std::vector<std::string>& files, const std::vector<std::string>& beside) {
  std::map<std::pair<std::string, std::uint64_t>, Series> all;
  const auto add = [&](const std::string& file, bool is_read) {
    const bool is_gguf = file.ends_with(".gguf");
    const std::optional<Part> part = is_gguf ? part_by_entries(file) : part_by_name(file);
    if (!part) return;
    Series& s = all[{part->series, part->count}];
    const auto [at, is_new] = s.files.emplace(part->number, file);
    if (!is_new && at->second != file)
      throw Error(fmt::format("{}: is part {} of {}, as {} is", file, part->number, part->count, at->second));
    s.is_read |= is_read;
    s.any = *part;
    s.tensors += is_new ? part->tensors : 0;
  };
  for (const std::string& file : files) add(file, true);
  for (const std::string& file : beside)
    if (fs::is_regular_file(file)) add(file, false);
  for (const auto& [key, s] : all)
    if (s.is_read) check_series(in, s);
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
