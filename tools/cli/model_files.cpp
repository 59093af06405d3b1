#include "tools/cli/model_files.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>

#include "src/error.h"
#include "src/tensor_file/tensor_reader.h"

namespace fp4::tools {
namespace {

namespace fs = std::filesystem;

struct Found {
  TensorInfo info;
  std::string file;
};

std::uint64_t bytes_of(const Found& f) { return byte_count(f.info.name, f.info.dtype, f.info.shape); }

std::uint64_t product(const Shape& shape) { return element_count("inspect", shape); }

// The other tensor of the same weight: "l.weight_packed" -> "l.weight_scale"; nullptr where there is none.
const Found* beside(const std::map<std::string, Found>& all, const std::string& stem, const char* suffix) {
  const auto at = all.find(stem + suffix);
  return at == all.end() ? nullptr : &at->second;
}

// The parts of the weight whose codes `codes` are, codes first; empty where they are of another scheme.
std::vector<const Found*> parts_of(const CheckpointScheme& s, const std::map<std::string, Found>& all,
                                   const Found& codes) {
  const std::string& name = codes.info.name;
  const std::string suffix = s.codes;
  const bool fits = name.ends_with("." + suffix) || name.ends_with("_" + suffix) || name == suffix;
  if (!fits || codes.info.dtype != s.codes_dtype) return {};
  const std::string stem = name.substr(0, name.size() - suffix.size());
  const Found* scales = beside(all, stem, s.scales);
  if (scales == nullptr || scales->info.dtype != s.scales_dtype) return {};
  if (product(scales->info.shape) * static_cast<std::uint64_t>(s.block) != 2 * product(codes.info.shape)) return {};
  std::vector<const Found*> parts = {&codes, scales};
  if (*s.factor == '\0') return parts;
  const Found* factor = beside(all, stem, s.factor);
  if (factor == nullptr || factor->info.dtype != Dtype::f32) return {};
  parts.push_back(factor);
  return parts;
}

// Codes counted one by one; blocks [.., K/32, 16] are one row of K.
Shape weight_shape(const CheckpointScheme& s, const Shape& codes) {
  Shape shape = codes;
  if (shape.empty()) return shape;
  shape.back() *= 2;
  if (shape.size() > 1 && std::string_view(s.codes) == "blocks") {
    shape[shape.size() - 2] *= shape.back();
    shape.pop_back();
  }
  return shape;
}

}  // namespace

double ModelTensor::bits_per_element() const {
  const std::uint64_t elements = product(shape);
  return elements == 0 ? 0.0 : 8.0 * static_cast<double>(bytes) / static_cast<double>(elements);
}

std::vector<std::string> model_files(const std::string& command, const std::string& path) {
  if (!fs::is_directory(path)) return {path};
  std::vector<std::string> shards;
  for (const fs::directory_entry& e : fs::directory_iterator(path))
    if (e.path().extension() == ".safetensors") shards.push_back(e.path().string());
  std::sort(shards.begin(), shards.end());
  if (shards.empty()) throw Error(command + " " + path + ": the folder has no .safetensors");
  return shards;
}

std::vector<ModelTensor> model_tensors(const std::vector<std::string>& files) {
  std::map<std::string, Found> all;
  std::vector<std::string> order;
  for (const std::string& file : files)
    for (const TensorInfo& t : list_tensors(file)) {
      const std::string name = t.name.empty() ? fs::path(file).filename().string() : t.name;
      if (!all.emplace(name, Found{t, file}).second)
        throw Error(file + ": a tensor " + name + " is in " + all[name].file + ", too");
      all[name].info.name = name;
      order.push_back(name);
    }
  std::set<std::string> taken;
  std::map<std::string, ModelTensor> weights;
  for (const std::string& name : order)
    for (const CheckpointScheme& s : checkpoint_schemes) {
      const Found& codes = all[name];
      const std::vector<const Found*> parts = parts_of(s, all, codes);
      if (parts.empty()) continue;
      ModelTensor w = {name, codes.file, &s, codes.info.dtype, weight_shape(s, codes.info.shape), 0};
      for (const Found* part : parts) {
        w.bytes += bytes_of(*part);
        taken.insert(part->info.name);
      }
      weights[name] = w;
      break;
    }
  std::vector<ModelTensor> out;
  for (const std::string& name : order) {
    const Found& f = all[name];
    if (weights.contains(name))
      out.push_back(weights[name]);
    else if (!taken.contains(name))
      out.push_back({name, f.file, nullptr, f.info.dtype, f.info.shape, bytes_of(f)});
  }
  return out;
}

}  // namespace fp4::tools
