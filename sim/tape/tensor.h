// Decides: where numbers live. A Tensor is a view of row-major fp32; its memory belongs to an Arena (values,
// gradients and tape of one step, given back as a whole) or to Parameters.
#pragma once

#include <cstdint>

#include "src/threads/scratch.h"

namespace fp4::sim {

struct Tensor {
  float* data = nullptr;
  int rows = 0;
  int cols = 0;

  int64_t size() const { return int64_t{rows} * cols; }
  float* row(int r) const { return data + int64_t{r} * cols; }
};

class Arena : public Scratch {
 public:
  using Scratch::Scratch;
  Tensor tensor(int rows, int cols) { return {take<float>(int64_t{rows} * cols), rows, cols}; }
};

}  // namespace fp4::sim
