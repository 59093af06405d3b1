#include "sim/engine/backend_check.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "src/arith/known_words.h"
#include "src/arith/spec_text.h"

namespace fp4::sim {

// One row by one. The Dispatcher has several ways to a product, so asking whether a backend knows both specs would
// refuse too much.
static void multiply_zeros(const Dispatcher& backend, const GemmSpec& s, const QuantSpec& of_a, const QuantSpec& of_b) {
  const auto block = [](const QuantSpec& q) { return q.has_scale() ? std::max(1, q.block.size) : 1; };
  const int k = std::lcm(std::lcm(block(of_a), block(of_b)), std::max(1, s.hadamard.size));
  const std::vector<float> zeros(static_cast<size_t>(k));
  float c = 0;
  MultiplyCall call;
  call.a.x = call.b.x = {zeros.data(), 1, k, k, 1};
  call.a.spec = of_a, call.b.spec = of_b;
  call.a.hadamard = call.b.hadamard = s.hadamard;
  call.options.accumulator = s.accumulator;
  call.options.hadamard_divisor = s.hadamard.product_divisor();
  call.c = &c, call.c_stride = 1;
  backend.multiply(call);
}

std::string unknown_words(const QuantSpec& s) {
  std::string words;
  for (const SpecField<QuantSpec>& field : quant_fields()) {
    QuantSpec one;
    const Json value = field.get(s);
    field.set(one, {value, "spec"});
    if (is_known(one)) continue;
    words += (words.empty() ? "" : ",") + std::string(field.name) + "=";
    words += value.is_string() ? value.get<std::string>() : value.dump();
  }
  return words;
}

void require_kernels(const Dispatcher& backend, const GemmSpec& s, const std::string& place) {
  if (backend.name() == "auto" || backend.name() == "reference") return;  // they take everything
  try {
    multiply_zeros(backend, s, s.a.quant, s.b.quant);
    if (*row_of(split_table, s.split.kind).high != 0) multiply_zeros(backend, s, s.split.high, s.split.high);
  } catch (const Error& error) {
    std::string words = unknown_words(s.a.quant);
    if (words.empty()) words = unknown_words(s.b.quant);
    throw NoKernels(place + ": " + (words.empty() ? "" : words + ": ") + error.what());
  }
}

}  // namespace fp4::sim
