// What is known of an operand before its elements are quantised: tensor amax and factors, and the scales of blocks that
// are no part of a row (2-D, whole rows, the whole tensor). Each body equals the loops of backend_reference.cpp bit for
// bit.
#pragma once

#include "src/gpu/tile_codes.h"

namespace fp4::gpu {

// Maxima of the finite elements, one word per group; `groups` groups walk through the operand together. Measure is the
// kernel.
struct TensorMaximum {
  OperandElements x;
  int64_t groups = 1;
  uint32_t* partial = nullptr;  // [groups]

  FP4_HD void operator()(Group group, int64_t number, uint32_t* shared) const {
    // Threads follow the contiguous direction: a transposed source is walked as its transpose.
    const bool down = x.col_stride != 1;
    const int64_t inner = down ? x.rows : x.cols;
    const int64_t outer_stride = down ? x.col_stride : x.row_stride;
    const int64_t inner_stride = down ? x.row_stride : x.col_stride;
    const int64_t total = x.rows * x.cols;
    const int64_t step = groups * group_threads;
    const bool is_dense =
        inner_stride == 1 && outer_stride == inner && x.data.is_aligned();  // no divisions, wide reads
    group.for_each(group_threads, [&](int64_t thread) {
      uint32_t maximum = 0;
      const int64_t first = number * group_threads + thread;
      const int64_t fours = is_dense ? total / 4 : 0;
      constexpr int at_once = 8;  // reads that wait together
      int64_t next = first;
      for (; next + (at_once - 1) * step < fours; next += at_once * step) {
        Four four[at_once];
        FP4_UNROLL
        for (int j = 0; j < at_once; ++j) four[j] = x.data.raw(4 * (next + j * step));
        FP4_UNROLL
        for (int j = 0; j < at_once; ++j) {
          for (const float v : x.data.widened(four[j]).v) maximum = with_element(maximum, v);
        }
      }
      for (; next < fours; next += step) {
        for (const float v : x.data.widened(x.data.raw(4 * next)).v) maximum = with_element(maximum, v);
      }
      for (int64_t i = 4 * fours + first; i < total; i += step) {
        maximum = with_element(maximum, x.data.at(i / inner * outer_stride + i % inner * inner_stride));
      }
      shared[thread] = maximum;
    });
    group.barrier();
    join_all(group, shared);
    group.for_each(1, [&](int64_t) { partial[number] = shared[0]; });
  }
};

// One factor per row and 128 elements along K.
struct OuterFactors {
  static constexpr int shared_words = 1;
  static constexpr int groups_at_once = 1;
  Quantizer quantizer;
  OperandElements x;
  TensorFactor* factors = nullptr;  // [rows, ceil(cols/128)]

  FP4_HD int64_t per_row() const { return outer_scale_cols(x.cols); }
  FP4_HD void operator()(Group group, int64_t number, uint32_t*) const {
    group.for_each(group_threads, [&](int64_t thread) {
      const int64_t i = number * group_threads + thread;
      if (i >= x.rows * per_row()) return;
      const int64_t row = i / per_row();
      const int64_t first = i % per_row() * outer_scale_width;
      uint32_t maximum = 0;
      for (int64_t k = first; k < smaller<int64_t>(x.cols, first + outer_scale_width); ++k) {
        maximum = with_element(maximum, x.at(row, k));
      }
      factors[i] = factor_of(quantizer, maximum_of(maximum).amax);
    });
  }
};

// One block per group: a row, the tensor, or 2-D and beyond a tile. Rules that read elements in order (trials, QuEST,
// smooth maximum) run on one thread.
struct BlockScales {
  static constexpr int shared_words = group_threads + Measured::words;
  static constexpr int groups_at_once = 2;
  OperandElements x;  // fp32
  QuantizeJob job;
  uint32_t* scale_codes = nullptr;
  const uint32_t* partial = nullptr;  // maxima whose join is the block's, for a block that is the tensor; else nullptr
  int64_t partial_count = 0;

  FP4_HD void operator()(Group group, int64_t number, uint32_t* shared) const {
    const Operand& out = job.out;
    const TensorFactor* const own = measured_factor(group, job, false, shared + group_threads);
    const int64_t row = number / out.scale_cols * out.block_rows;
    const int64_t col = number % out.scale_cols * out.block_cols;
    const BlockView block = {x.data.data + row * x.row_stride + col * x.col_stride,
                             x.row_stride,
                             x.col_stride,
                             smaller(out.block_rows, out.rows - row),
                             smaller(out.block_cols, out.cols - col),
                             out.block_rows * out.block_cols};
    group.for_each(group_threads, [&](int64_t thread) {
      uint32_t maximum = 0;
      if (partial != nullptr) {
        for (int64_t i = thread; i < partial_count; i += group_threads) maximum = joined(maximum, partial[i]);
      } else if (block.rows == 1) {
        for (int64_t i = thread; i < block.cols; i += group_threads) maximum = with_element(maximum, block.at(0, i));
      } else {
        for (int64_t i = thread; i < block.rows * block.cols; i += group_threads) {
          maximum = with_element(maximum, block.at(i / block.cols, i % block.cols));
        }
      }
      shared[thread] = maximum;
    });
    group.barrier();
    join_all(group, shared);
    group.for_each(1, [&](int64_t) { scale_codes[number] = job.scale_code(block, shared[0], own, row, col); });
  }
};

}  // namespace fp4::gpu
