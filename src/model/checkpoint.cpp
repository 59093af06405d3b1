#include "src/model/checkpoint.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "src/error.h"
#include "src/json_reader.h"
#include "src/tensor_file/tensor_reader.h"

namespace fp4 {
namespace {

namespace fs = std::filesystem;

using Tensors = std::map<std::string, TensorPlace>;

std::uint64_t product(const Shape& shape) { return element_count("model", shape); }

// The other tensor of the same weight: "l.weight_packed" -> "l.weight_scale"; nullptr where there is none.
const TensorPlace* beside(const Tensors& all, const std::string& stem, const char* ending) {
  const auto at = all.find(stem + ending);
  return at == all.end() ? nullptr : &at->second;
}

// Codes counted one by one; blocks [.., K/32, 16] are one row of K.
Shape weight_shape(const CheckpointScheme& s, const TensorPlace& codes) {
  Shape shape = codes.info.shape;
  if (shape.empty() || codes.gguf != nullptr) return shape;
  shape.back() *= 2;
  if (shape.size() > 1 && std::string_view(s.codes) == "_blocks") {
    shape[shape.size() - 2] *= shape.back();
    shape.pop_back();
  }
  return shape;
}

// What comes before `ending` in the name; nothing where the name does not end so.
bool cut(const std::string& name, std::string_view ending, std::string& stem) {
  if (!name.ends_with(ending)) return false;
  stem = name.substr(0, name.size() - ending.size());
  return ending.starts_with('_') || stem.empty() || stem.ends_with('.') || stem.ends_with('_');
}

// g of every row, or of equal runs of rows (one for each expert).
bool is_factor(const TensorPlace* factor, const Shape& weight) {
  return factor != nullptr && factor->info.dtype == Dtype::f32 && product(factor->info.shape) != 0 &&
         matrix_rows(weight) % product(factor->info.shape) == 0;
}

// The weight whose codes `codes` are; without parts where they are of another scheme.
ModelTensor weight_of(const CheckpointScheme& s, const Tensors& all, const TensorPlace& codes) {
  ModelTensor w;
  w.name = codes.info.name;
  if (codes.gguf != nullptr) {
    if (s.gguf == GgufValues::plain || s.gguf != codes.gguf->values) return w;
    w.scheme = &s;
    w.shape = codes.info.shape;
    w.parts = {codes};
    if (!cut(w.name, s.whole, w.stem)) w.stem = w.name;
    const TensorPlace* factor = *s.factor == '\0' ? nullptr : beside(all, w.stem, s.factor);
    if (is_factor(factor, w.shape)) w.parts.push_back(*factor);
    return w;
  }
  if (s.gguf != GgufValues::plain || codes.info.dtype != s.codes_dtype || !cut(w.name, s.codes, w.stem)) return w;
  const Shape shape = weight_shape(s, codes);
  const TensorPlace* scales = beside(all, w.stem, s.scales);
  const auto block = static_cast<std::uint64_t>(s.block);
  if (scales == nullptr || scales->info.dtype != s.scales_dtype || matrix_cols(shape) % block != 0) return w;
  if (product(scales->info.shape) * block != product(shape)) return w;
  const TensorPlace* factor = *s.factor == '\0' ? nullptr : beside(all, w.stem, s.factor);
  if (s.meaning != Factor::one && !is_factor(factor, shape)) return w;
  w.scheme = &s;
  w.shape = shape;
  w.parts = {codes, *scales};
  if (factor != nullptr) w.parts.push_back(*factor);
  return w;
}

// The tensors of one file.
std::vector<TensorPlace> places_in(const std::string& file) {
  std::vector<TensorPlace> places;
  if (file.ends_with(".gguf")) {
    for (const GgufTensor& t : list_gguf(open_file(file)))
      places.push_back({file, {t.name, t.type->dtype, t.shape}, t.offset, t.type});
    return places;
  }
  for (const TensorInfo& t : list_tensors(file)) {
    places.push_back({file, t});
    if (t.name.empty()) places.back().info.name = fs::path(file).filename().string();
  }
  return places;
}

// The shards that the index names, in the order of their names; empty without an index. Each has to hold the tensors
// that the index places there, or the model would be read without them.
std::vector<std::string> indexed(const std::string& command, const std::string& folder) {
  std::string index;
  for (const fs::directory_entry& e : fs::directory_iterator(folder)) {
    const std::string path = e.path().string();
    if (!path.ends_with(".safetensors.index.json")) continue;
    if (!index.empty())
      throw Error(command + " " + folder + ": two indexes: " + index + " and " + path + "; give the shards as files");
    index = path;
  }
  if (index.empty()) return {};
  const nlohmann::json document = parse_json(read_text_file(index, "index of shards").text, index);
  JsonReader reader(document, index);
  std::map<std::string, std::set<std::string>> tensors;  // of each file
  for (const auto& [tensor, file] : reader.at("weight_map").entries()) {
    const std::string path = (fs::path(folder) / file.text()).string();
    const std::string named = index + ": weight_map names " + path + " for " + tensor;
    if (!fs::exists(path)) throw Error(named + ": no such file");
    const auto [held, is_new] = tensors.try_emplace(path);
    if (is_new)
      for (const TensorPlace& place : places_in(path)) held->second.insert(place.info.name);
    if (!held->second.contains(tensor)) throw Error(named + ": the file has no such tensor");
  }
  std::vector<std::string> files;
  for (const auto& [file, held] : tensors) files.push_back(file);
  return files;
}

}  // namespace

const CheckpointScheme& scheme_of(const std::string& place, std::string_view name) {
  std::string known;
  for (const CheckpointScheme& s : checkpoint_schemes) {
    if (name == s.name) return s;
    known += fmt::format("{}{}", known.empty() ? "" : ", ", s.name);
  }
  throw Error(fmt::format("{}: unknown scheme '{}'; accepted: {}", place, name, known));
}

std::uint64_t TensorPlace::bytes() const {
  if (gguf != nullptr) return product(info.shape) / gguf->block * gguf->bytes;
  return byte_count(info.name, info.dtype, info.shape);
}

std::string ModelTensor::type() const {
  const TensorPlace& first = parts.front();
  return first.gguf != nullptr && first.gguf->values != GgufValues::plain ? first.gguf->name
                                                                          : info(first.info.dtype).name;
}

std::uint64_t ModelTensor::bytes() const {
  std::uint64_t all = 0;
  for (const TensorPlace& part : parts) all += part.bytes();
  return all;
}

double ModelTensor::bits_per_element() const {
  const std::uint64_t elements = product(shape);
  return elements == 0 ? 0.0 : 8.0 * static_cast<double>(bytes()) / static_cast<double>(elements);
}

std::vector<std::string> model_files(const std::string& command, const std::string& path) {
  if (!fs::is_directory(path)) return {path};
  std::vector<std::string> shards = indexed(command, path);
  if (!shards.empty()) return shards;
  for (const fs::directory_entry& e : fs::directory_iterator(path))
    if (e.path().extension() == ".safetensors" || e.path().extension() == ".gguf") shards.push_back(e.path().string());
  std::sort(shards.begin(), shards.end());
  if (shards.empty()) throw Error(command + " " + path + ": the folder has no .safetensors and no .gguf");
  return shards;
}

std::vector<ModelTensor> model_tensors(const std::vector<std::string>& files) {
  Tensors all;
  std::vector<std::string> order;
  for (const std::string& file : files)
    for (TensorPlace& place : places_in(file)) {
      const std::string name = place.info.name;
      const auto [at, is_new] = all.emplace(name, std::move(place));
      if (!is_new) throw Error(file + ": a tensor " + name + " is in " + at->second.file + ", too");
      order.push_back(name);
    }
  std::set<std::string> taken;
  std::map<std::string, ModelTensor> weights;
  for (const std::string& name : order)
    for (const CheckpointScheme& s : checkpoint_schemes) {
      ModelTensor w = weight_of(s, all, all.at(name));
      if (w.parts.empty()) continue;
      for (const TensorPlace& part : w.parts) taken.insert(part.info.name);
      weights[name] = w;
      break;
    }
  std::vector<ModelTensor> out;
  for (const std::string& name : order) {
    const TensorPlace& place = all.at(name);
    if (weights.contains(name))
      out.push_back(weights[name]);
    else if (!taken.contains(name))
      out.push_back({name, name, nullptr, {place}, place.info.shape});
  }
  return out;
}

}  // namespace fp4
