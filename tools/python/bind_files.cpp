// What files hold, for Python: tensors of models by name, decoded when they are asked for, and folders of `quantize`.
#include <filesystem>

#include "src/model/weight_reader.h"
#include "src/text/error.h"
#include "tools/python/bound_tensor.h"

namespace fp4::python {
namespace {

// The tensors of a model's files; their headers alone are read.
struct Tensors : Object {
  std::vector<ModelTensor> all;
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
  tensors->all = model_tensors(model_files("load", path));
  Json shapes = Json::object();
  for (const ModelTensor& tensor : tensors->all) shapes[name_of(tensor)] = tensor.shape;
  return {{"tensors", handle_of(tensors)}, {"shapes", std::move(shapes)}};
}

// Integers by themselves: indices, masks.
Json stored_array(const ModelTensor& tensor) {
  TensorReader reader = reader_of(tensor.parts.front());
  std::vector<unsigned char> bytes(reader.rows() * reader.row_bytes());
  reader.read_raw(0, reader.rows(), bytes.data());
  const auto kept = std::make_shared<std::vector<unsigned char>>(std::move(bytes));
  return array_of(reader.dtype(), tensor.shape, kept->data(), kept, true);
}

bool is_stored_array(const ModelTensor& tensor) {
  return !tensor.is_quantised() && tensor.fault.empty() && tensor.unknown.empty() &&
         tensor.parts.front().gguf == nullptr && !tensor.is_turned && !has_values(tensor);
}

Json read_tensor(const Arguments& given) {
  const auto tensors = given.object<Tensors>("tensors");
  const std::string wanted = given.text("name");
  std::vector<std::string> names;
  for (const ModelTensor& tensor : tensors->all) {
    if (name_of(tensor) != wanted) {
      names.push_back(name_of(tensor));
      continue;
    }
    if (is_stored_array(tensor)) return stored_array(tensor);
    WeightReader reader(tensor);
    std::vector<float> values(static_cast<size_t>(reader.rows() * reader.cols()));
    reader.read_rows(0, reader.rows(), values.data(), given.threads());
    return array_of(Dtype::f32, tensor.shape, std::move(values));
  }
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
