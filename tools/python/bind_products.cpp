// gemm: floats or quantised tensors on either side.
#include <fmt/format.h>

#include "src/backends.h"
#include "src/error.h"
#include "src/spec_text.h"
#include "tools/python/tensor.h"

namespace fp4::python {
namespace {

Accumulator accumulator_of(const std::string& words) {
  if (words.starts_with('{')) return accumulator_from(parse_json(words, "--accumulator"), "--accumulator");
  return accumulator_from_words(words, "--accumulator");
}

// One side of a product: a tensor that is quantised, or floats and how to quantise them.
struct Side {
  std::shared_ptr<Tensor> ready;
  Operand input;
  QuantizeCall call;

  Side(const py::object& x, const char* name, const std::string& words, const HadamardSpec& hadamard, RandomPlace place,
       int threads) {
    if (py::isinstance<Tensor>(x)) {
      ready = x.cast<std::shared_ptr<Tensor>>();
      if (hadamard.size > 0)
        throw Error(std::string("--hadamard: ") + name + " is quantised; accepted: floats on both sides");
      return;
    }
    call.spec = quant_spec_from_words(words, std::string(name) == "b" ? "--spec-b" : "--spec");
    input = operand_of(x, name);
    call.x = input.view;
    call.hadamard = hadamard;
    call.place = place;
    call.threads = threads;
  }
  int64_t rows() const { return ready ? ready->quantized().rows : call.x.rows; }
  int64_t cols() const { return ready ? ready->quantized().cols : call.x.cols; }
};

py::array gemm(const py::object& a_given, const py::object& b_given, const std::string& words,
               const std::string& words_b, const std::string& accumulator, const std::string& factor,
               const nlohmann::json& rotation, const Way& how) {
  MultiplyCall call;
  call.options.factor = product_factor_of("--factor", factor);
  call.options.accumulator = accumulator_of(accumulator);
  HadamardSpec hadamard;
  set_hadamard(hadamard, rotation, "--hadamard");
  call.options.hadamard_divisor = hadamard.product_divisor();
  call.options.threads = how.threads;
  const Dispatcher backend(how.backend);
  const Side a(a_given, "a", words, hadamard, how.place, how.threads);
  const Side b(b_given, "b", words_b, hadamard, how.place.second_operand(), how.threads);
  if (a.cols() != b.cols())
    throw Error(fmt::format("gemm: a has K = {} and b has K = {}; both are [rows, K]", a.cols(), b.cols()));
  py::array_t<float> c = new_floats({static_cast<uint64_t>(a.rows()), static_cast<uint64_t>(b.rows())});
  float* to = c.mutable_data();
  call.c = to;
  call.c_stride = b.rows();
  compute([&] {
    if (!a.ready && !b.ready) {
      call.a = a.call;
      call.b = b.call;
      return backend.multiply(call);
    }
    Quantized made;
    if (!a.ready || !b.ready) backend.quantize(a.ready ? b.call : a.call, made);
    backend.gemm(a.ready ? a.ready->quantized() : made, b.ready ? b.ready->quantized() : made, call.options, to,
                 b.rows());
  });
  return c;
}

}  // namespace

void bind_products(py::module_& m) {
  m.def("gemm", [](const py::object& a, const py::object& b, const std::string& words, const std::string& words_b,
                   const std::string& accumulator, const std::string& factor, int hadamard, const std::string& signs,
                   const std::string& normalise, uint64_t seed, uint32_t stream, uint32_t step,
                   const std::string& backend, int threads) {
    return gemm(a, b, words, words_b, accumulator, factor,
                {{"size", hadamard}, {"signs", signs}, {"normalise", normalise}},
                way(seed, stream, step, backend, threads));
  });
}

}  // namespace fp4::python
