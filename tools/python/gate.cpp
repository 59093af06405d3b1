// The C functions of the gate, and the table of all rows.
#include "tools/python/gate.h"

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <map>
#include <new>
#include <string_view>

#include "src/arith/element_grids.h"
#include "src/text/embedded.h"
#include "src/text/error.h"
#include "src/threads/float_environment.h"
#include "sweeps/carried_files.h"
#include "tools/python/bound_layers.h"

namespace fp4::python {
namespace {

const std::map<std::string_view, const Function*>& functions() {
  static const auto all = [] {
    register_embedded(sweeps_data());
    std::map<std::string_view, const Function*> table;
    for (const auto* group : {&word_functions(), &tensor_functions(), &file_functions(), &experiment_functions(),
                              &layer_functions(), &lent_functions()})
      for (const Function& function : *group) table.emplace(function.name, &function);
    return table;
  }();
  return all;
}

Json failed(const char* message, int code) { return {{"error", message}, {"exit_code", code}}; }

template <class F>
Json guarded(F f) {
  const DefaultFloatEnvironment floats;  // whatever another module of the process has set
  try {
    return {{"value", f()}};
  } catch (const Error& error) {
    return failed(error.what(), error.kind);
  } catch (const std::bad_alloc&) {
    return failed("out of memory", 1);
  } catch (const std::exception& error) {
    return failed(error.what(), 1);
  }
}

Json call(const char* name, const char* arguments) {
  return guarded([&] {
    const auto found = functions().find(name);
    if (found == functions().end()) throw Error(std::string("the library has no function ") + name, Error::failed);
    const Json given = Json::parse(arguments);
    return found->second->run(Arguments(given));
  });
}

// To be given to fp4py_free; null without memory for it.
char* told(const Json& result) noexcept {
  try {
    const std::string text = result.dump(-1, ' ', false, Json::error_handler_t::replace);
    char* out = static_cast<char*>(std::malloc(text.size() + 1));
    return out == nullptr ? out : static_cast<char*>(std::memcpy(out, text.c_str(), text.size() + 1));
  } catch (...) {
    return nullptr;
  }
}

// Python's own rounding and scale: C functions that ctypes made.
struct Callables : ElementCalls {
  uint32_t (*round_of)(double payload, uint32_t bits) = nullptr;
  double (*scale_of)(const float* block, int64_t count) = nullptr;
};

uint32_t round_by(const ElementCalls& self, double payload, uint32_t bits) {
  return static_cast<const Callables&>(self).round_of(payload, bits);
}
double scale_by(const ElementCalls& self, const float* block, int64_t count) {
  return static_cast<const Callables&>(self).scale_of(block, count);
}

using Handle = std::shared_ptr<void>;

Json address_of(Handle handle) { return reinterpret_cast<uintptr_t>(new Handle(std::move(handle))); }

}  // namespace

std::shared_ptr<Object> held_by(const void* handle) {
  return std::static_pointer_cast<Object>(*static_cast<const Handle*>(handle));
}

int Arguments::threads() const { return thread_count(get<int>("threads")); }

Json handle_of(std::shared_ptr<Object> object) { return {{"handle", address_of(std::move(object))}}; }

Json array_of(Dtype dtype, const Shape& shape, const void* data, std::shared_ptr<const void> owner, bool writable) {
  return {{"type", info(dtype).numpy_name},
          {"shape", shape},
          {"data", reinterpret_cast<uintptr_t>(data)},
          {"writable", writable},
          {"owner", address_of(std::const_pointer_cast<void>(std::move(owner)))}};
}

Operand Operand::transposed() const { return {view.transposed(), shape_of(view.cols, view.rows)}; }

Operand operand_of(const Arguments& given, const char* name) {
  const Json& array = given.json(name);
  Operand out = {{}, array.at("shape").get<Shape>()};
  element_count(name, out.shape);
  out.view = {reinterpret_cast<const float*>(array.at("data").get<uintptr_t>()),
              static_cast<int64_t>(matrix_rows(out.shape)), static_cast<int64_t>(matrix_cols(out.shape)),
              array.at("row_stride").get<int64_t>(), array.at("col_stride").get<int64_t>()};
  return out;
}

Bytes bytes_of(const Arguments& given, const char* name) {
  const Json& array = given.json(name);
  return {reinterpret_cast<const uint8_t*>(array.at("data").get<uintptr_t>()), array.at("type").get<std::string>(),
          array.at("shape").get<Shape>()};
}

}  // namespace fp4::python

extern "C" {

// The result, {"value": ..} or {"error": .., "exit_code": ..}, to be given to fp4py_free; null without memory for it.
__attribute__((visibility("default"))) char* fp4py_call(const char* name, const char* arguments) noexcept {
  return fp4::python::told(fp4::python::call(name, arguments));
}

// Without JSON on the way: null where all went well, else as fp4py_call.
__attribute__((visibility("default"))) char* fp4d_linear(void* layers, fp4::python::LinearCall* call) noexcept {
  const fp4::python::Json result = fp4::python::guarded([&] {
    std::dynamic_pointer_cast<fp4::python::Layers>(fp4::python::held_by(layers))->run(*call);
    return fp4::python::Json();
  });
  return result.contains("error") ? fp4::python::told(result) : nullptr;
}

// The number of two functions, either null; they stay for the process. -1 without memory.
__attribute__((visibility("default"))) int fp4py_register(uint32_t (*round)(double, uint32_t),
                                                          double (*scale)(const float*, int64_t)) noexcept {
  try {
    auto calls = std::make_unique<fp4::python::Callables>();
    calls->round_of = round;
    calls->scale_of = scale;
    if (round != nullptr) calls->round = &fp4::python::round_by;
    if (scale != nullptr) calls->scale = &fp4::python::scale_by;
    return fp4::register_calls(*calls.release());
  } catch (...) {
    return -1;
  }
}

__attribute__((visibility("default"))) void fp4py_free(char* text) noexcept { std::free(text); }

__attribute__((visibility("default"))) void fp4py_drop(void* handle) noexcept {
  delete static_cast<std::shared_ptr<void>*>(handle);
}

}  // extern "C"
