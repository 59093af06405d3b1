// Products whose definition is acc = fma(a, b, acc) in ascending k: operands without block scales (fp32, bf16), and the
// accumulator fma_sequential. Every thread keeps 8 x 8 sums and goes through k in order, so that each output is made by
// the same fused operations as dot() in accumulate.h; only independent outputs run side by side.
#pragma once

#include "src/gpu/plain_gemm.h"

namespace fp4::gpu {

inline constexpr int ordered_k = 16;  // columns of a batch in shared memory

// Decoded values as the product reads them: [tile of 128 rows][k][128], zeros beyond the rows and beyond K. A group
// gives 128 rows x 16 columns.
struct DecodeInOrder {
  static constexpr int shared_words = 1;
  static constexpr int groups_at_once = 4;
  static constexpr int per_thread = ordered_k * matrix_tile / group_threads;
  Operand operand;
  float* out = nullptr;
  int64_t batches = 0;  // ceil(cols / 16)

  FP4_HD void operator()(Group group, int64_t number, uint32_t*) const {
    const int64_t tile = number / batches;
    const int64_t first = number % batches * ordered_k;
    group.for_threads([&](int thread) {
      const int r = thread % matrix_tile;
      const int64_t row = tile * matrix_tile + r;
      const int64_t begin = first + thread / matrix_tile * per_thread;
      float* to = out + (tile * batches * ordered_k + begin) * matrix_tile + r;
      FP4_NO_UNROLL
      for (int j = 0; j < per_thread; ++j) {
        to[j * matrix_tile] = row < operand.rows && begin + j < operand.cols ? value(row, begin + j) : 0.0f;
      }
    });
  }

 private:
  // Formats that are the upper bits of fp32 need no decoding.
  FP4_HD float value(int64_t row, int64_t k) const {
    const Quantizer& q = operand.quantizer;
    const bool is_float = q.element.exponent_bits == 8 && q.element.is_signed && !q.has_scale() && q.prescale == 1.0f;
    if (is_float && q.element.mantissa_bits == 23) return canonical(float_of(operand.code(row, k)));
    if (is_float && q.element.mantissa_bits == 7) return canonical(float_of(operand.code(row, k) << 16));
    return RowOfCodes(operand, row).value(k);
  }
};

struct OrderedGemm {
  static constexpr int groups_at_once = 2;
  static constexpr int stages = 3;
  static constexpr int side_words = ordered_k * matrix_tile;  // of one operand
  static constexpr int shared_words = stages * 2 * side_words;
  static constexpr int quads = 2;  // of 4 rows, and of 4 columns, of a thread
  struct State {
    static constexpr int lanes = 32;
    float acc[4 * quads][4 * quads];
  };
  using Registers = PerThread<State, group_threads>;

  PlainGemm plain;
  const float* a = nullptr;  // as DecodeInOrder writes them
  const float* b = nullptr;
  int64_t batches = 0;

  FP4_HD void operator()(Group group, int64_t number, uint32_t* shared) const {
    const int64_t across = plain.groups_across(matrix_tile);
    const int64_t tile_a = number / across;
    const int64_t tile_b = number % across;
    const float* of_a = a + tile_a * batches * side_words;
    const float* of_b = b + tile_b * batches * side_words;
    const auto count = static_cast<int>(batches);
    Registers registers;
    for (int batch = 0; batch < stages - 1; ++batch) start(group, of_a, of_b, batch, count, shared);
    FP4_NO_UNROLL
    for (int batch = 0; batch < count; ++batch) {
      wait_for_batches<stages - 2>();
      group.barrier();  // this batch is there, and nobody reads the one before any more
      start(group, of_a, of_b, batch + stages - 1, count, shared);
      const auto* values = reinterpret_cast<const float*>(shared + batch % stages * 2 * side_words);
      const auto terms = static_cast<int>(smaller<int64_t>(ordered_k, plain.a.cols - int64_t{batch} * ordered_k));
      group.for_threads([&](int thread) {
        State& state = registers.of(thread);
        const float* column = values + row_of(thread, 0);
        const float* row = values + side_words + col_of(thread, 0);
        if (terms == ordered_k) {
          FP4_UNROLL
          for (int k = 0; k < ordered_k; ++k) add(column + k * matrix_tile, row + k * matrix_tile, state);
        } else {  // zeros would turn a sum of -0 into +0
          FP4_NO_UNROLL
          for (int k = 0; k < terms; ++k) add(column + k * matrix_tile, row + k * matrix_tile, state);
        }
      });
    }
    group.for_threads([&](int thread) { store(registers.of(thread), tile_a, tile_b, thread); });
  }

 private:
  // A warp makes 64 x 32 outputs: its reads of a column of `a` are 128 neighbouring bytes, those of `b` 64.
  FP4_HD static int row_of(int thread, int i) {
    return thread / 32 % 2 * 64 + thread % 32 / 4 * 4 + i / 4 * 32 + i % 4;
  }
  FP4_HD static int col_of(int thread, int j) { return thread / 64 * 32 + thread % 4 * 4 + j / 4 * 16 + j % 4; }

  FP4_HD static void start(Group group, const float* a, const float* b, int batch, int count, uint32_t* shared) {
    if (batch < count) {
      uint32_t* to = shared + batch % stages * 2 * side_words;
      const float* from_a = a + int64_t{batch} * side_words;
      const float* from_b = b + int64_t{batch} * side_words;
      group.for_threads([&](int thread) {
        FP4_UNROLL
        for (int i = thread * 4; i < side_words; i += group_threads * 4) {
          copy_async(to + i, from_a + i, true);
          copy_async(to + side_words + i, from_b + i, true);
        }
      });
    }
    finish_batch();
  }

  FP4_HD static void add(const float* column, const float* row, State& state) {
    float x[4 * quads];
    float y[4 * quads];
    FP4_UNROLL
    for (int i = 0; i < 4 * quads; ++i) {
      x[i] = reinterpret_cast<const Four*>(column + i / 4 * 32)->v[i % 4];
      y[i] = reinterpret_cast<const Four*>(row + i / 4 * 16)->v[i % 4];
    }
    FP4_UNROLL
    for (int i = 0; i < 4 * quads; ++i) {
      FP4_UNROLL
      for (int j = 0; j < 4 * quads; ++j) state.acc[i][j] = __builtin_fmaf(x[i], y[j], state.acc[i][j]);
    }
  }

  FP4_HD void store(const State& state, int64_t tile_a, int64_t tile_b, int thread) const {
    FP4_UNROLL
    for (int i = 0; i < 4 * quads; ++i) {
      const int64_t row = tile_a * matrix_tile + row_of(thread, i);
      FP4_UNROLL
      for (int j = 0; j < 4 * quads; ++j) {
        const int64_t col = tile_b * matrix_tile + col_of(thread, j);
        if (row < plain.a.rows && col < plain.b.rows) plain.store(row, col, finished(state.acc[i][j]));
      }
    }
  }
  // As gemm_output() ends.
  FP4_HD float finished(float acc) const {
    acc = snapped(acc, plain.accumulator.snap_log2);
    const float divisor = plain.finish.hadamard_divisor;
    return canonical(divisor != 1.0f ? acc * (1.0f / divisor) : acc);
  }
};

}  // namespace fp4::gpu
