#include "src/golden/suite.h"
#include "src/text/error.h"

namespace fp4::golden {

float activated(Activation how, float x) {
  const auto v = static_cast<double>(x);
  switch (how) {
    case Activation::none: return x;
    case Activation::relu: return x > 0.0f || is_nan(x) ? x : 0.0f;
    case Activation::gelu: return static_cast<float>(0.5 * v * std::erfc(-v * 0.70710678118654752440));
    case Activation::gelu_tanh:
      return static_cast<float>(0.5 * v * (1.0 + std::tanh(0.79788456080286535588 * (v + 0.044715 * v * v * v))));
    case Activation::silu: return static_cast<float>(v / (1.0 + std::exp(-v)));
  }
  return x;
}

void CaseEpilogue::check(const std::string& name, int64_t rows, int64_t cols) const {
  const auto expect = [&](const char* what, const std::vector<float>& v, int64_t count) {
    if (!v.empty() && static_cast<int64_t>(v.size()) != count)
      throw Error("verify " + std::string(what) + ": " + std::to_string(v.size()) + " numbers; case " + name +
                  " needs " + std::to_string(count));
  };
  expect("--c", c, rows * cols);
  expect("--bias", bias, cols);
}

float CaseEpilogue::value(float product, size_t i, size_t cols) const {
  const float v = epilogue_value(how, product, c.empty() ? 0.0f : c[i], bias.empty() ? 0.0f : bias[i % cols]);
  return rounded_to(output, activated(activation, v));
}

void CaseEpilogue::apply(std::vector<float>& product, int64_t cols) const {
  if (!is_said()) return;
  for (size_t i = 0; i < product.size(); ++i) product[i] = value(product[i], i, static_cast<size_t>(cols));
}

}  // namespace fp4::golden
