// gemm: floats or quantised tensors on either side.
#include <fmt/format.h>

#include "src/arith/spec_text.h"
#include "src/backends/backends.h"
#include "src/text/error.h"
#include "tools/python/bound_tensor.h"

namespace fp4::python {

Accumulator accumulator_of(const std::string& words) {
  if (words.starts_with('{')) return accumulator_from(parse_json(words, "--accumulator"), "--accumulator");
  return accumulator_from_words(words, "--accumulator");
}

namespace {

// One side of a product: a tensor that is quantised, or floats and how to quantise them.
struct Side {
  std::shared_ptr<Tensor> ready;
  QuantizeCall call;

  Side(const Arguments& given, const char* name, const char* words, const HadamardSpec& hadamard, RandomPlace place) {
    if (given.json(name).is_number()) {
      ready = given.object<Tensor>(name);
      if (hadamard.size > 0)
        throw Error(std::string("--hadamard: ") + name + " is quantised; accepted: floats on both sides");
      return;
    }
    call.spec = quant_spec_from_words(given.text(words), std::string(name) == "b" ? "--spec-b" : "--spec");
    call.x = operand_of(given, name).view;
    call.hadamard = hadamard;
    call.place = place;
    call.threads = given.threads();
  }
  int64_t rows() const { return ready ? ready->quantized().rows : call.x.rows; }
  int64_t cols() const { return ready ? ready->quantized().cols : call.x.cols; }
};

Json gemm(const Arguments& given) {
  MultiplyCall call;
  call.options.factor = product_factor_of("--factor", given.text("factor"));
  call.options.accumulator = accumulator_of(given.text("accumulator"));
  HadamardSpec hadamard;
  set_hadamard(
      hadamard,
      {{"size", given.get<int>("hadamard")}, {"signs", given.text("signs")}, {"normalise", given.text("normalise")}},
      "--hadamard");
  call.options.hadamard_divisor = hadamard.product_divisor();
  call.options.threads = given.threads();
  const Dispatcher backend(given.backend());
  const Side a(given, "a", "words", hadamard, given.place());
  const Side b(given, "b", "words_b", hadamard, given.place().second_operand());
  if (a.cols() != b.cols())
    throw Error(fmt::format("gemm: a has K = {} and b has K = {}; both are [rows, K]", a.cols(), b.cols()));
  std::vector<float> c(static_cast<size_t>(a.rows() * b.rows()));
  call.c = c.data();
  call.c_stride = b.rows();
  if (!a.ready && !b.ready) {
    call.a = a.call;
    call.b = b.call;
    backend.multiply(call);
  } else {
    Quantized made;
    if (!a.ready || !b.ready) backend.quantize(a.ready ? b.call : a.call, made);
    backend.gemm(a.ready ? a.ready->quantized() : made, b.ready ? b.ready->quantized() : made, call.options, c.data(),
                 b.rows());
  }
  return array_of(Dtype::f32, {static_cast<uint64_t>(a.rows()), static_cast<uint64_t>(b.rows())}, std::move(c));
}

}  // namespace

const std::vector<Function>& product_functions() {
  static const std::vector<Function> table = {{"gemm", &gemm}};
  return table;
}

}  // namespace fp4::python
