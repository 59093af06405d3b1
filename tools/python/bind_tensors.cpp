// quantize, quantised tensors, decoding, Hadamards, random draws.
#include "src/backends.h"
#include "src/error.h"
#include "src/spec_text.h"
#include "tools/cli/options.h"
#include "tools/python/tensor.h"

namespace fp4::python {
namespace {

using Holder = std::shared_ptr<Tensor>;

Holder quantize(const py::object& x, const std::string& words, bool transpose, const Way& how) {
  QuantizeCall call;
  call.spec = quant_spec_from_words(words, "--spec");
  Operand input = operand_of(x, "x");
  if (transpose) input = input.transposed();
  call.x = input.view;
  call.place = how.place;
  call.threads = how.threads;
  const Dispatcher backend(how.backend);
  Quantized q;
  compute([&] { backend.quantize(call, q); });
  Shape shape = input.shape;
  return std::make_shared<Tensor>(std::move(q), std::move(shape), std::move(input));
}

py::array hadamard(const py::object& x, const nlohmann::json& spec, bool inverse, const Way& how) {
  HadamardSpec h;
  set_hadamard(h, spec, "hadamard");
  if (h.size == 0) throw Error("hadamard --size: 0 is no transform; accepted: 16, 32, 64, 128, 256");
  const Dispatcher backend(how.backend);
  const Operand input = operand_of(x, "x");
  py::array_t<float> y =
      new_floats({static_cast<uint64_t>(input.view.rows), static_cast<uint64_t>(hadamard_padded(h, input.view.cols))});
  float* to = y.mutable_data();
  compute([&] { backend.hadamard(input.view, h, how.place.hadamard_signs(), inverse, to, how.threads); });
  return y;
}

py::array random(int bits, uint64_t count, uint64_t first, RandomPlace place) {
  tools::check_draws(bits, first, count);
  py::array_t<uint32_t> out(static_cast<py::ssize_t>(count));
  uint32_t* to = out.mutable_data();
  compute([&] {
    for (uint64_t i = 0; i < count; ++i) to[i] = random_draw(place, first + i, bits);
  });
  return out;
}

}  // namespace

void bind_tensors(py::module_& m) {
  py::class_<Tensor, Holder> tensor(m, "Tensor");
  for (const char* name : {"codes", "scales", "tensor_scale"})
    tensor.def_property_readonly(name,
                                 [name](const py::object& self) { return self.cast<Tensor&>().array(self, name); });
  tensor.def_property_readonly("shape", [](const Tensor& t) { return py::tuple(py::cast(t.shape())); })
      .def_property_readonly("rows", [](const Tensor& t) { return t.quantized().rows; })
      .def_property_readonly("cols", [](const Tensor& t) { return t.quantized().cols; })
      .def("spec_fields", [](const Tensor& t) { return to_python(to_json(t.quantized().spec)); })
      .def("dequantize", &Tensor::dequantize)
      .def("to_layout", &Tensor::to_layout)
      .def("statistics", [](Tensor& t, int threads) {
        const QuantizeReport& r = t.report(threads);
        py::dict out;
        out["nmse"] = r.nmse();
        out["clipped"] = r.share(r.clipped);
        out["zeros"] = r.share(r.zeros);
        out["underflows"] = r.share(r.underflows);
        out["nonfinite"] = r.nonfinite;
        return out;
      });
  m.def("to_dlpack", &to_dlpack);
  m.def("from_arrays", [](const std::string& words, const Shape& shape, const py::object& codes,
                          const py::object& scales, const py::object& tensor_scale) {
    Quantized q = quantized_of(quant_spec_from_words(words, "--spec"), shape, codes, scales, tensor_scale);
    return std::make_shared<Tensor>(std::move(q), shape, Operand{});
  });
  m.def("quantize", [](const py::object& x, const std::string& words, bool transpose, uint64_t seed, uint32_t stream,
                       uint32_t step, const std::string& backend, int threads) {
    return quantize(x, words, transpose, way(seed, stream, step, backend, threads));
  });
  m.def("hadamard",
        [](const py::object& x, int size, const std::string& signs, const std::string& normalise, bool inverse,
           uint64_t seed, uint32_t stream, uint32_t step, const std::string& backend, int threads) {
          return hadamard(x, {{"size", size}, {"signs", signs}, {"normalise", normalise}}, inverse,
                          way(seed, stream, step, backend, threads));
        });
  m.def("random", [](int bits, uint64_t count, uint64_t first, uint64_t seed, uint32_t stream, uint32_t step) {
    return random(bits, count, first, {seed, stream, step});
  });
}

}  // namespace fp4::python
