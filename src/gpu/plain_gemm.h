// C = Q(A) Q(B)^T by the core's own dot(), one thread an output: every spec and accumulator, and the tiles that faster
// kernels leave out.
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
  // Set: a group is a 128 x 128 tile, and most find that another kernel makes theirs.
  bool only_remaining = false;
  TileRule rule;

  // What a sum is multiplied by: one factor for all of C, where no operand has factors of its own per 128.
  FP4_HD float finish_factor() const { return finish.factor(a.factor(0, 0).g * b.factor(0, 0).g); }
  FP4_HD void store(int64_t row, int64_t col, float sum) const {
    c.set(row * b.rows + col, bias.data != nullptr ? sum + bias.at(col) : sum);
  }
  FP4_HD int64_t groups_across(int extent) const { return tiles_over(b.rows, extent); }
  FP4_HD void operator()(Group group, int64_t number, uint32_t*) const {
    const int extent = only_remaining ? matrix_tile : side;
    const int64_t tile_a = number / groups_across(extent);
    const int64_t tile_b = number % groups_across(extent);
    if (only_remaining && rule.fits(tile_a, tile_b)) return;
    const int squares = extent / side;
    for (int square = 0; square < squares * squares; ++square) {
      group.for_each(side * side, [&](int64_t i) {
        const int64_t row = tile_a * extent + square / squares * side + i / side;
        const int64_t col = tile_b * extent + square % squares * side + i % side;
        if (row >= a.rows || col >= b.rows) return;
        store(row, col, gemm_output(accumulator, RowOfCodes(a, row), RowOfCodes(b, col), a.cols, finish));
      });
    }
  }
};

}  // namespace fp4::gpu
