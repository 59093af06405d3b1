// The gate between Python and the libraries: one C function that takes the name of a row and its arguments as JSON, and
// gives the result as JSON. Arrays cross as addresses with shapes and strides, objects as handles that the Python side
// drops. So the library knows nothing of Python: one file serves every CPython. Names, defaults and checks of whole
// numbers stand in the modules of fp4sim, the reader of arrays in fp4sim/_arrays.py.
#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "fp4/backend.h"
#include "src/files/dtype.h"

namespace fp4::python {

using Json = nlohmann::ordered_json;

/// What Python holds by its handle: a quantised tensor, a set of layers, a forward pass.
struct Object {
  virtual ~Object() = default;
};

/// What a handle that Python holds is of.
std::shared_ptr<Object> held_by(const void* handle);

/// One call's arguments by name; what Python sends is trusted in its types, not in its values.
class Arguments {
 public:
  explicit Arguments(const Json& json) : json_(json) {}
  const Json& json(const char* name) const { return json_.at(name); }
  bool has(const char* name) const { return !json_.at(name).is_null(); }
  template <class T>
  T get(const char* name) const {
    return json_.at(name).get<T>();
  }
  std::string text(const char* name) const { return get<std::string>(name); }
  /// The object of a handle; T has to be what the handle is of.
  template <class T>
  std::shared_ptr<T> object(const char* name) const {
    return std::dynamic_pointer_cast<T>(held_by(reinterpret_cast<const void*>(get<uintptr_t>(name))));
  }
  RandomPlace place() const { return {get<uint64_t>("seed"), get<uint32_t>("stream"), get<uint32_t>("step")}; }
  std::string backend() const { return text("backend"); }
  int threads() const;

 private:
  const Json& json_;
};

struct Function {
  const char* name;
  Json (*run)(const Arguments& given);
};

const std::vector<Function>& word_functions();
const std::vector<Function>& tensor_functions();
const std::vector<Function>& file_functions();
const std::vector<Function>& experiment_functions();
const std::vector<Function>& layer_functions();
const std::vector<Function>& lent_functions();

/// How many threads a call takes: `wanted`, or for 0 what set_num_threads said, at first all cores.
int thread_count(int wanted);

/// What Python makes a handle of.
Json handle_of(std::shared_ptr<Object> object);

/// Arrays in and out: float32 of the host where it lies, strides and all, and memory that Python receives with a share
/// in what owns it. Which arrays of Python can be read so, fp4sim/_arrays.py decides.
/// An operand [product of the leading axes, last axis]; Python keeps its memory.
struct Operand {
  MatrixView view;
  Shape shape;  // as Python has it

  Operand transposed() const;
};

/// {"data", "shape", "row_stride", "col_stride"} of the argument `name`, strides in elements.
Operand operand_of(const Arguments& given, const char* name);

/// Bytes of the argument `name`, {"data", "type", "shape"}, row-major.
struct Bytes {
  const uint8_t* data;
  std::string type;
  Shape shape;
};
Bytes bytes_of(const Arguments& given, const char* name);

/// Numbers of numpy's type of `dtype` over memory that `owner` keeps.
Json array_of(Dtype dtype, const Shape& shape, const void* data, std::shared_ptr<const void> owner, bool writable);

/// Memory of numbers that Python alone will own.
template <class T>
Json array_of(Dtype dtype, const Shape& shape, std::vector<T> numbers) {
  auto kept = std::make_shared<std::vector<T>>(std::move(numbers));
  return array_of(dtype, shape, kept->data(), kept, true);
}

}  // namespace fp4::python
