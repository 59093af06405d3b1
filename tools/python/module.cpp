// The extension fp4sim._core: its exception, its threads, and what it knows by name.
#include "tools/python/module.h"

#include <atomic>

#include "src/embedded.h"
#include "src/error.h"
#include "src/parallel.h"
#include "src/signature.h"
#include "src/spec_text.h"
#include "src/version.h"
#include "sweeps/data.h"
#include "tools/cli/catalogue.h"

namespace fp4::python {
namespace {

std::atomic<int> default_threads = 0;

}  // namespace

int thread_count(int wanted) {
  const int count = wanted > 0 ? wanted : default_threads.load();
  return count > 0 ? count : threads_of_machine();
}

Way way(uint64_t seed, uint32_t stream, uint32_t step, const std::string& backend, int threads) {
  return {{seed, stream, step}, backend, thread_count(threads)};
}

py::object to_python(const nlohmann::ordered_json& value) {
  using Type = nlohmann::ordered_json::value_t;
  switch (value.type()) {
    case Type::object: {
      py::dict out;
      for (const auto& [key, entry] : value.items()) out[py::str(key)] = to_python(entry);
      return out;
    }
    case Type::array: {
      py::list out;
      for (const auto& entry : value) out.append(to_python(entry));
      return out;
    }
    case Type::string: return py::str(value.get<std::string>());
    case Type::boolean: return py::bool_(value.get<bool>());
    case Type::number_integer: return py::int_(value.get<int64_t>());
    case Type::number_unsigned: return py::int_(value.get<uint64_t>());
    case Type::number_float: return py::float_(value.get<double>());
    case Type::null:
    case Type::binary:
    case Type::discarded: break;
  }
  return py::none();
}

void bind_words(py::module_& m) {
  m.def("version", &version);
  m.def("signature", [] { return compute([] { return arithmetic_signature(); }); });
  m.def("set_num_threads", [](int threads) { default_threads = threads; });
  m.def("get_num_threads", [] { return thread_count(0); });
  // (topic, name, doc, source) of everything that has a name, as `fp4sim list` shows it.
  m.def("catalogue", [] {
    py::list rows;
    for (const std::string& topic : tools::catalogue_topics())
      for (const tools::CatalogueRow& row : tools::catalogue_rows(topic))
        rows.append(py::make_tuple(topic, row.name, row.doc, row.source));
    return rows;
  });
  m.def("show",
        [](const std::string& name, const std::string& kind) { return to_python(tools::catalogue_show(name, kind)); });
  // (name, doc, default, accepted words; None for numbers) of the fields of a spec, and all fields of the one that
  // words describe.
  m.def("spec_fields", [] {
    py::list rows;
    for (const auto& field : quant_fields()) {
      const py::object accepted = field.words == nullptr ? py::object(py::none()) : py::cast(field.words());
      rows.append(py::make_tuple(field.name, field.doc, to_python(field.get({})), accepted));
    }
    return rows;
  });
  m.def("spec", [](const std::string& words) { return to_python(to_json(quant_spec_from_words(words, "--spec"))); });
}

PYBIND11_MODULE(_core, m) {
  register_embedded(sweeps_data());
  py::dict of_class;  // an Error raised from Python has no exit code of its own: it is about words or input
  of_class["exit_code"] = 2;
  static PyObject* const error = PyErr_NewExceptionWithDoc(
      "fp4sim.Error",
      "Wrong words or input, or work that failed: the message of the command line. `exit_code` is its exit code.",
      PyExc_ValueError, of_class.ptr());
  m.attr("Error") = py::reinterpret_borrow<py::object>(error);
  py::register_exception_translator([](std::exception_ptr problem) {
    try {
      if (problem) std::rethrow_exception(problem);
    } catch (const Error& e) {
      py::object value = py::reinterpret_borrow<py::object>(error)(e.what());
      value.attr("exit_code") = e.exit_code;
      PyErr_SetObject(error, value.ptr());
    }
  });
  bind_words(m);
  bind_tensors(m);
  bind_products(m);
  bind_experiments(m);
  bind_layers(m);
}

}  // namespace fp4::python
