// What the binding files share. `_core` takes plain positional values; names, defaults and checks of whole numbers
// stand in fp4sim/__init__.py.
#pragma once

#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <nlohmann/json.hpp>
#include <string>

#include "fp4/rng.h"
#include "src/float_environment.h"

namespace fp4::python {

namespace py = pybind11;

void bind_tensors(py::module_& m);
void bind_products(py::module_& m);
void bind_words(py::module_& m);
void bind_experiments(py::module_& m);
void bind_layers(py::module_& m);

/// Where random bits lie, and who computes: the last four arguments of every function that has them.
struct Way {
  RandomPlace place;
  std::string backend;
  int threads;
};
/// threads 0: what set_num_threads said, at first all cores.
Way way(uint64_t seed, uint32_t stream, uint32_t step, const std::string& backend, int threads);
int thread_count(int wanted);

/// work() without Python's lock and in the default floating-point environment, whatever another module has set.
template <class Work>
auto compute(const Work& work) {
  const py::gil_scoped_release unlocked;
  const DefaultFloatEnvironment floats;
  return work();
}

/// dict, list, str, int, float, bool, None.
py::object to_python(const nlohmann::ordered_json& value);

}  // namespace fp4::python
