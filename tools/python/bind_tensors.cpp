// quantize, quantised tensors, decoding, Hadamards, random draws, and products of floats or quantised tensors.
#include <fmt/format.h>

#include "src/arith/report_json.h"
#include "src/arith/spec_text.h"
#include "src/backends/backends.h"
#include "src/text/error.h"
#include "tools/cli/options.h"
#include "tools/python/bound_tensor.h"

namespace fp4::python {
namespace {

Json quantize(const Arguments& given) {
  QuantizeCall call;
  call.spec = quant_spec_from_words(given.text("words"), "--spec");
  Operand input = operand_of(given, "x");
  if (given.get<bool>("transpose")) input = input.transposed();
  call.x = input.view;
  call.place = given.place();
  call.threads = given.threads();
  Quantized q;
  Dispatcher(given.backend()).quantize(call, q);
  // One answer for all that Python asks at once: a small tensor takes less time than a call.
  const auto tensor = std::make_shared<Tensor>(std::move(q), input.shape, call.spec);
  Json statistics = nullptr;
  if (given.get<bool>("statistics"))
    statistics =
        report_json(tensor->report(call.x, call.threads), {"nmse", "clipped", "zeros", "underflows", "nonfinite"});
  return {{"tensor", handle_of(tensor)}, {"shape", tensor->shape()}, {"statistics", std::move(statistics)}};
}

Json from_arrays(const Arguments& given) {
  const auto shape = given.get<Shape>("shape");
  const QuantSpec spec = quant_spec_from_words(given.text("words"), "--spec");
  return handle_of(std::make_shared<Tensor>(quantized_of(spec, shape, given), shape));
}

Json hadamard(const Arguments& given) {
  const HadamardSpec h = hadamard_of(given, "size", "hadamard");
  if (h.size == 0) throw Error("hadamard --size: 0 is no transform; accepted: 16, 32, 64, 128, 256");
  const Dispatcher backend(given.backend());
  const Operand x = operand_of(given, "x");
  const int64_t cols = hadamard_padded(h, x.view.cols);
  std::vector<float> y(static_cast<size_t>(x.view.rows * cols));
  backend.hadamard(x.view, h, given.place().hadamard_signs(), given.get<bool>("inverse"), y.data(), given.threads());
  return array_of(Dtype::f32, shape_of(x.view.rows, cols), std::move(y));
}

Json random(const Arguments& given) {
  const int bits = given.get<int>("bits");
  const auto first = given.get<uint64_t>("first"), count = given.get<uint64_t>("count");
  tools::check_draws(bits, first, count);
  std::vector<uint32_t> draws(count);
  for (uint64_t i = 0; i < count; ++i) draws[i] = random_draw(given.place(), first + i, bits);
  return array_of(Dtype::u32, {count}, std::move(draws));
}

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
  const HadamardSpec hadamard = hadamard_of(given, "hadamard", "--hadamard");
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
  return array_of(Dtype::f32, shape_of(a.rows(), b.rows()), std::move(c));
}

}  // namespace

const std::vector<Function>& tensor_functions() {
  static const std::vector<Function> table = {
      {"quantize", &quantize},
      {"from_arrays", &from_arrays},
      {"hadamard", &hadamard},
      {"random", &random},
      {"gemm", &gemm},
      {"tensor_spec", [](const Arguments& given) -> Json { return to_json(given.object<Tensor>("tensor")->spec()); }},
      {"tensor_decoding",
       [](const Arguments& given) -> Json { return to_json(given.object<Tensor>("tensor")->quantized().spec); }},
      {"tensor_array",
       [](const Arguments& given) { return given.object<Tensor>("tensor")->array(given.text("name")); }},
      {"tensor_dequantize",
       [](const Arguments& given) { return given.object<Tensor>("tensor")->dequantize(given.threads()); }},
      {"tensor_to_layout",
       [](const Arguments& given) {
         return given.object<Tensor>("tensor")->to_layout(given.text("scales"), given.text("nibbles"));
       }},
  };
  return table;
}

}  // namespace fp4::python
