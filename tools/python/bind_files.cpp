// What files hold, for Python: tensors of models by name, decoded when they are asked for, and folders of `quantize`.
#include <fmt/format.h>

#include <filesystem>
#include <mutex>
#include <set>
#include <unordered_map>

#include "src/model/model_files.h"
#include "src/model/model_plan.h"
#include "src/model/weight_reader.h"
#include "src/text/error.h"
#include "tools/python/bound_tensor.h"

namespace fp4::python {
namespace {

// The tensors of a model's files; their headers alone are read at first.
struct Tensors : Object {
  std::vector<ModelTensor> all;
  std::unordered_map<std::string, size_t> places;  // in `all`, by name
  std::set<std::string> checked;                   // files whose SHA-256 was compared
  std::mutex checking;
  bool changed = false;

  // A file is compared with fp4sim.json when the first of its tensors is read.
  void check(const ModelTensor& tensor) {
    if (changed) return;
    const std::lock_guard<std::mutex> lock(checking);
    std::vector<TensorPlace> read = tensor.parts;
    if (tensor.columns) read.push_back(*tensor.columns);
    for (const TensorPlace& part : read)
      if (!checked.contains(part.file)) {
        check_hashes("load", {part.file});
        checked.insert(part.file);
      }
  }
};

// Decoded, FP4 and FP8 weights have the name of the weight and not that of its codes.
const std::string& name_of(const ModelTensor& tensor) { return tensor.whole.empty() ? tensor.name : tensor.whole; }

bool is_folder_of_quantize(const std::string& path) {
  return std::filesystem::exists(path + "/manifest.json") && std::filesystem::exists(path + "/codes.npy");
}

// A folder of `quantize` is one tensor with its codes; everything else tensors by name.
Json load(const Arguments& given) {
  const std::string path = given.text("path");
  if (is_folder_of_quantize(path)) {
    Shape shape;
    Quantized q = folder::load_quantized(path, given.get<bool>("changed"), &shape);
    const auto tensor = std::make_shared<Tensor>(std::move(q), shape);
    return {{"tensor", handle_of(tensor)}, {"shape", tensor->shape()}};
  }
  const auto tensors = std::make_shared<Tensors>();
  tensors->changed = given.get<bool>("changed");
  tensors->all = model_tensors(model_files({"load", path, given.get<bool>("follow_links")}));
  set_orientations({}, tensors->all);  // as `dequantize` gives them
  Json names = Json::array(), shapes = Json::array();
  for (size_t i = 0; i < tensors->all.size(); ++i) {
    const ModelTensor& tensor = tensors->all[i];
    if (!tensors->places.emplace(name_of(tensor), i).second)
      throw Error(
          fmt::format("{}: {}: another tensor is {} decoded, too", tensor.file(), tensor.name, name_of(tensor)));
    names.push_back(name_of(tensor));
    shapes.push_back(tensor.shape);
  }
  return {{"tensors", handle_of(tensors)}, {"names", std::move(names)}, {"shapes", std::move(shapes)}};
}

// Integers by themselves (indices, masks) and codes without a scale.
Json stored_array(const ModelTensor& tensor) {
  TensorReader reader = reader_of(tensor.parts.front());
  std::vector<unsigned char> bytes(reader.rows() * reader.row_bytes());
  reader.read_raw(0, reader.rows(), bytes.data());
  const auto kept = std::make_shared<std::vector<unsigned char>>(std::move(bytes));
  return array_of(reader.dtype(), tensor.shape, kept->data(), kept, true);
}

bool is_stored_array(const ModelTensor& tensor) {
  const GgufType* type = tensor.parts.front().gguf;
  return (type == nullptr || type->values == GgufValues::plain) && !has_values(tensor);
}

Json read_tensor(const Arguments& given) {
  const auto tensors = given.object<Tensors>("tensors");
  const std::string wanted = given.text("name");
  if (const auto at = tensors->places.find(wanted); at != tensors->places.end()) {
    const ModelTensor& tensor = tensors->all[at->second];
    tensors->check(tensor);
    if (!tensor.unknown.empty())
      throw Error(
          fmt::format("{}: {}: looks quantised and is not understood: {}", tensor.file(), wanted, tensor.unknown),
          Error::failed);
    if (tensor.fault.empty() && is_stored_array(tensor)) return stored_array(tensor);
    WeightReader reader(tensor);
    std::vector<float> values(static_cast<size_t>(reader.rows() * reader.cols()));
    reader.read_rows(0, reader.rows(), values.data(), given.threads());
    return array_of(Dtype::f32, tensor.shape, std::move(values));
  }
  std::vector<std::string> names;
  for (const auto& [name, place] : tensors->places) names.push_back(name);
  const std::string nearest = nearest_word(wanted, names);
  throw Error("no tensor is called '" + wanted + "'" +
              (nearest.empty() ? "; accepted: the names of `fp4sim inspect`" : "; did you mean '" + nearest + "'?"));
}

}  // namespace

const std::vector<Function>& file_functions() {
  static const std::vector<Function> table = {{"load", &load}, {"read_tensor", &read_tensor}};
  return table;
}

}  // namespace fp4::python
