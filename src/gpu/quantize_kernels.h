// Kernels around quantisation: tensor amax and factors, 2-D block scales, the fused quantiser (load, Hadamard, scales,
// codes), row and column copies in one pass, the Hadamard alone, dequantisation. Each body equals the loops of
// backend_reference.cpp bit for bit.
#pragma once

#include "src/gpu/tile.h"

namespace fp4::gpu {

// Maxima of the finite elements, one word per group; `groups` groups walk through the rows.
struct TensorMaximum {
  static constexpr int shared_words = group_threads;
  static constexpr int groups_at_once = 1;
  Source x;
  int64_t groups = 1;
  uint32_t* partial = nullptr;  // [groups]

  FP4_HD void operator()(Group group, int64_t number, uint32_t* shared) const {
    group.for_each(group_threads, [&](int64_t thread) {
      uint32_t maximum = 0;
      // Threads follow the contiguous direction: a transposed source is walked as its transpose.
      const bool down = x.col_stride != 1;
      const int64_t outer = down ? x.cols : x.rows;
      const int64_t inner = down ? x.rows : x.cols;
      const int64_t outer_stride = down ? x.col_stride : x.row_stride;
      const int64_t inner_stride = down ? x.row_stride : x.col_stride;
      const int64_t total = outer * inner;
      const int64_t step = groups * group_threads;
      for (int64_t i = number * group_threads + thread; i < total; i += step) {
        maximum = with_element(maximum, x.data[i / inner * outer_stride + i % inner * inner_stride]);
      }
      shared[thread] = maximum;
    });
    group.barrier();
    group.for_each(1, [&](int64_t) {
      uint32_t maximum = 0;
      for (int i = 0; i < group_threads; ++i) maximum = joined(maximum, shared[i]);
      partial[number] = maximum;
    });
  }
};

// The factor of a tensor from its amax: given, or folded from the maxima.
struct TensorFactorOf {
  static constexpr int shared_words = 1;
  static constexpr int groups_at_once = 1;
  Quantizer quantizer;
  float held_amax = -1.0f;  // >= 0: use this one
  const uint32_t* partial = nullptr;
  int64_t count = 0;
  TensorFactor* factor = nullptr;
  float* amax = nullptr;

  FP4_HD void operator()(Group group, int64_t, uint32_t*) const {
    group.for_each(1, [&](int64_t) {
      uint32_t maximum = 0;
      for (int64_t i = 0; i < count; ++i) maximum = joined(maximum, partial[i]);
      const float a = held_amax >= 0.0f ? held_amax : maximum_of(maximum).amax;
      const bool is_used = quantizer.tensor_scale != TensorScale::none;
      *amax = is_used ? a : 0.0f;
      *factor = is_used ? tensor_factor(quantizer.arithmetic, a, quantizer.target,
                                        decode(quantizer.element, quantizer.element.largest_code))
                        : TensorFactor{};
    });
  }
};

// One factor per row and 128 elements along K.
struct OuterFactors {
  static constexpr int shared_words = 1;
  static constexpr int groups_at_once = 1;
  Quantizer quantizer;
  Source x;
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
      factors[i] = tensor_factor(quantizer.arithmetic, maximum_of(maximum).amax, quantizer.target,
                                 decode(quantizer.element, quantizer.element.largest_code));
    });
  }
};

// One 2-D block per group. Rules that read elements in order (trials, QuEST, smooth maximum) run on one thread.
struct SquareScales {
  static constexpr int shared_words = group_threads;
  static constexpr int groups_at_once = 1;
  Source x;
  QuantizeJob job;
  uint32_t* scale_codes = nullptr;

  FP4_HD void operator()(Group group, int64_t number, uint32_t* shared) const {
    const Operand& out = job.out;
    const int64_t row = number / out.scale_cols * out.block_rows;
    const int64_t col = number % out.scale_cols * out.block_cols;
    const BlockView block = {x.data + row * x.row_stride + col * x.col_stride,
                             x.row_stride,
                             x.col_stride,
                             smaller(out.block_rows, out.rows - row),
                             smaller(out.block_cols, out.cols - col),
                             out.block_rows * out.block_cols};
    group.for_each(group_threads, [&](int64_t thread) {
      uint32_t maximum = 0;
      for (int64_t i = thread; i < block.rows * block.cols; i += group_threads) {
        maximum = with_element(maximum, block.at(i / block.cols, i % block.cols));
      }
      shared[thread] = maximum;
    });
    group.barrier();
    group.for_each(1, [&](int64_t) {
      uint32_t maximum = 0;
      for (int i = 0; i < group_threads; ++i) maximum = joined(maximum, shared[i]);
      const int64_t index = job.row_offset / out.block_rows * out.scale_cols + number;
      const Quantizer& q = out.quantizer;
      const uint32_t draw = is_stochastic(q.scale_rounding)
                                ? random_draw(job.place.scale_rounding(), static_cast<uint64_t>(index), q.random_bits)
                                : 0u;
      const uint32_t code = block_scale_code(q, block, maximum_of(maximum), out.factor(row, col), draw);
      scale_codes[number] = code;
      out.store_scale(number, code);
    });
  }
};

// How tiles cover an operand.
struct Tiling {
  TileShape shape;
  int64_t tiles_across = 1;
  FP4_HD int64_t first_row(int64_t tile) const { return tile / tiles_across * shape.rows(); }
  FP4_HD int64_t first_col(int64_t tile) const { return tile % tiles_across * shape.cols(); }
};
FP4_HD constexpr int64_t tiles_over(int64_t length, int extent) { return (length + extent - 1) / extent; }

// The quantiser: one tile per group.
struct QuantizeTile {
  static constexpr int shared_words = tile_words + 2 * tile_chunks;
  static constexpr int groups_at_once = 1;
  Source x;
  Tiling tiling;
  HadamardSpec hadamard;
  HadamardSignMask signs;
  QuantizeJob job;

  FP4_HD void operator()(Group group, int64_t number, uint32_t* shared) const {
    float* tile = reinterpret_cast<float*>(shared);
    uint32_t* maxima = shared + tile_words;
    uint32_t* codes = maxima + tile_chunks;
    const TileShape shape = tiling.shape;
    const TileView view = {tile, shape.rows_log2,          shape.cols_log2,         shape.pitch(),
                           1,    tiling.first_row(number), tiling.first_col(number)};
    load_tile(group, x, shape, view.first_row, view.first_col, tile);
    group.barrier();
    if (hadamard.size != 0) transform_tile(group, hadamard, signs, false, shape, tile);
    if (job.out.quantizer.has_scale && job.square_scales == nullptr) {
      chunk_maxima(group, view, maxima);
      group.barrier();
      tile_scales(group, view, job, maxima, codes);
      group.barrier();
    }
    tile_codes(group, view, job, codes);
  }
};

// Both copies of a matrix that training needs, blocks along rows and blocks along columns, from one reading.
struct QuantizeBothWays {
  static constexpr int shared_words = QuantizeTile::shared_words;
  static constexpr int groups_at_once = 1;
  Source x;
  Tiling tiling;       // square tiles
  QuantizeJob along;   // operand [rows, cols]
  QuantizeJob across;  // operand [cols, rows]: the transpose

  FP4_HD void operator()(Group group, int64_t number, uint32_t* shared) const {
    float* tile = reinterpret_cast<float*>(shared);
    uint32_t* maxima = shared + tile_words;
    uint32_t* codes = maxima + tile_chunks;
    const TileShape shape = tiling.shape;
    const int64_t row = tiling.first_row(number);
    const int64_t col = tiling.first_col(number);
    load_tile(group, x, shape, row, col, tile);
    group.barrier();
    for (int way = 0; way < 2; ++way) {
      const TileView view = way == 0 ? TileView{tile, shape.rows_log2, shape.cols_log2, shape.pitch(), 1, row, col}
                                     : TileView{tile, shape.cols_log2, shape.rows_log2, 1, shape.pitch(), col, row};
      const QuantizeJob& job = way == 0 ? along : across;
      chunk_maxima(group, view, maxima);
      group.barrier();
      tile_scales(group, view, job, maxima, codes);
      group.barrier();
      tile_codes(group, view, job, codes);
      group.barrier();
    }
  }
};

struct HadamardTile {
  static constexpr int shared_words = tile_words;
  static constexpr int groups_at_once = 1;
  Source x;
  Tiling tiling;
  HadamardSpec hadamard;
  HadamardSignMask signs;
  bool inverse = false;
  int64_t rows = 0;
  int64_t cols = 0;  // padded to whole transforms
  float* y = nullptr;

  FP4_HD void operator()(Group group, int64_t number, uint32_t* shared) const {
    float* tile = reinterpret_cast<float*>(shared);
    const TileShape shape = tiling.shape;
    const int64_t first_row = tiling.first_row(number);
    const int64_t first_col = tiling.first_col(number);
    load_tile(group, x, shape, first_row, first_col, tile);
    group.barrier();
    if (hadamard.size != 0) transform_tile(group, hadamard, signs, inverse, shape, tile);
    group.for_each(tile_elements, [&](int64_t i) {
      const int r = static_cast<int>(i) >> shape.cols_log2;
      const int c = static_cast<int>(i) & (shape.cols() - 1);
      if (first_row + r < rows && first_col + c < cols) {
        y[(first_row + r) * cols + first_col + c] = tile[r * shape.pitch() + c];
      }
    });
  }
};

// out [rows, cols]; one thread per chunk.
struct Dequantize {
  static constexpr int shared_words = 1;
  static constexpr int groups_at_once = 1;
  Operand operand;
  float* out = nullptr;

  FP4_HD int64_t chunks_per_row() const { return (operand.cols + chunk_size - 1) / chunk_size; }
  FP4_HD void operator()(Group group, int64_t number, uint32_t*) const {
    group.for_each(group_threads, [&](int64_t thread) {
      const int64_t i = number * group_threads + thread;
      if (i >= operand.rows * chunks_per_row()) return;
      const int64_t row = i / chunks_per_row();
      const int64_t col = i % chunks_per_row() * chunk_size;
      const Quantizer& q = operand.quantizer;
      const float s = operand.scale(row, col);
      const float g = operand.factor(row, col).g;
      for (int64_t k = col; k < smaller<int64_t>(operand.cols, col + chunk_size); ++k) {
        out[row * operand.cols + k] = element_value(q, operand.code(row, k), s, g);
      }
    });
  }
};

}  // namespace fp4::gpu
