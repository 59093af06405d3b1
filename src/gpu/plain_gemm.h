// C = Q(A) Q(B)^T by the core's own dot(), one thread an output: every spec and accumulator, and the outputs that
// faster kernels leave out.
#pragma once

#include "src/gpu/expand_kernels.h"

namespace fp4::gpu {

struct PlainGemm {
  static constexpr int shared_words = 1;
  static constexpr int groups_at_once = 1;
  static constexpr int side = 16;  // a group gives 16 x 16 outputs at a time
  Operand a;
  Operand b;
  Accumulator accumulator;
  GemmFinish finish;
  Floats<float> c;           // [a.rows, b.rows]
  Floats<const float> bias;  // [b.rows], added to each row; null: none

  // What a sum is multiplied by: one factor for all of C, where no operand has factors of its own per 128.
  FP4_HD float finish_factor() const { return finish.factor(a.factor(0, 0).g * b.factor(0, 0).g); }
  FP4_HD void store(int64_t row, int64_t col, float sum) const {
    c.set(row * b.rows + col, bias.data != nullptr ? sum + bias.at(col) : sum);
  }
  FP4_HD int64_t groups_across(int extent) const { return tiles_over(b.rows, extent); }
  FP4_HD void operator()(Group group, int64_t number, uint32_t*) const { square(group, number, side); }
  // Outputs of square `number` of that extent.
  FP4_GPU_APART FP4_HD void square(Group group, int64_t number, int extent) const {
    group.for_each(extent * extent, [&](int64_t i) {
      const int64_t row = number / groups_across(extent) * extent + i / extent;
      const int64_t col = number % groups_across(extent) * extent + i % extent;
      if (row >= a.rows || col >= b.rows) return;
      store(row, col, gemm_output(accumulator, RowOfCodes(a, row), RowOfCodes(b, col), a.cols, finish));
    });
  }
};

}  // namespace fp4::gpu
