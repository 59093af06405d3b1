#pragma once

#include <cmath>
#include <string>
#include <vector>

#include "fp4/epilogue.h"
#include "src/golden/inputs.h"

namespace fp4::golden {

// What a kernel does after alpha*P + beta*C + bias. gelu_tanh is x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))).
enum class Activation : uint8_t { none, relu, gelu, gelu_tanh, silu };
struct ActivationInfo {
  Activation id;
  const char* name;
  const char* doc;
  const char* source;
  double least;  // no output lies below it
};
inline constexpr ActivationInfo activation_table[] = {
    {Activation::none, "none", "the sum itself", "definition", -HUGE_VAL},
    {Activation::relu, "relu", "max(x, 0)", "CUBLASLT_EPILOGUE_RELU", 0.0},
    {Activation::gelu, "gelu", "x/2 (1 + erf(x/sqrt 2))", "PyTorch gelu", -0.17},
    {Activation::gelu_tanh, "gelu_tanh", "GELU by tanh", "CUBLASLT_EPILOGUE_GELU; PyTorch gelu, approximate=tanh",
     -0.1705},
    {Activation::silu, "silu", "x/(1 + exp(-x))", "SwiGLU kernels", -0.2785},
};
static_assert(ids_are_indices(activation_table));

// Worked out in fp64 and rounded once to fp32: kernels' own erf and tanh err by an ulp or two, which an output in bf16
// or fp16 hides but for one in some thousands.
float activated(Activation how, float x);

// What a kernel does to a product before it stores it, when that is said: alpha*P + beta*C + bias as fp4/epilogue.h, an
// activation, then one rounding.
struct CaseEpilogue {
  Epilogue how;
  RealType output = RealType::fp32;
  std::vector<float> c{}, bias{};  // [M, N] and [N]; empty where there is none
  Activation activation = Activation::none;

  bool is_said() const {
    return how.alpha != 1.0f || how.beta != 0.0f || how.has_bias || output != RealType::fp32 ||
           activation != Activation::none;
  }
  // Error, naming the case, when c or bias has another size.
  void check(const std::string& name, int64_t rows, int64_t cols) const;
  float value(float product, size_t i, size_t cols) const;
  void apply(std::vector<float>& product, int64_t cols) const;
};

}  // namespace fp4::golden
