#pragma once

#include <string>
#include <vector>

#include "fp4/epilogue.h"
#include "src/golden/inputs.h"

namespace fp4::golden {

// What a kernel does to a product before it stores it, when that is said: alpha*P + beta*C + bias as fp4/epilogue.h,
// then one rounding.
struct CaseEpilogue {
  Epilogue how;
  RealType output = RealType::fp32;
  std::vector<float> c, bias;  // [M, N] and [N]; empty where there is none

  bool is_said() const { return how.alpha != 1.0f || how.beta != 0.0f || how.has_bias || output != RealType::fp32; }
  // Error, naming the case, when c or bias has another size.
  void check(const std::string& name, int64_t rows, int64_t cols) const;
  float value(float product, size_t i, size_t cols) const;
  void apply(std::vector<float>& product, int64_t cols) const;
};

}  // namespace fp4::golden
