// Kernels that turn elements into codes and back: the fused quantiser (load, Hadamard, scales, codes), row and column
// copies in one pass, the Hadamard alone, dequantisation. Each body equals the loops of backend_reference.cpp bit for
// bit.
#pragma once

#include "src/gpu/scale_kernels.h"

namespace fp4::gpu {

// How tiles cover an operand.
struct Tiling {
  TileShape shape;
  int64_t tiles_across = 1;
  FP4_HD int64_t first_row(int64_t tile) const { return tile / tiles_across * shape.rows(); }
  FP4_HD int64_t first_col(int64_t tile) const { return tile % tiles_across * shape.cols(); }
};

// The signs of a Hadamard by the device's clock.
struct SignsOfClock {
  static constexpr int shared_words = 1;
  static constexpr int groups_at_once = 1;
  HadamardSpec hadamard;
  RandomPlace place;
  const Clock* clock = nullptr;
  HadamardSignMask* signs = nullptr;

  FP4_HD void operator()(Group group, int64_t, uint32_t*) const {
    group.for_each(1, [&](int64_t) { *signs = hadamard_signs(hadamard, at_clock(place, clock)); });
  }
};

struct Signs {
  HadamardSignMask known;
  const HadamardSignMask* written = nullptr;  // by SignsOfClock, in their place
  FP4_HD const HadamardSignMask& mask() const { return written == nullptr ? known : *written; }
};

// The quantiser: one tile per group.
struct QuantizeTile {
  static constexpr int shared_words = tile_words + 2 * tile_chunks + Measured::words;
  static constexpr int groups_at_once = 3;
  OperandElements x;
  Tiling tiling;
  HadamardSpec hadamard;
  Signs signs;
  QuantizeJob job;

  FP4_HD void operator()(Group group, int64_t number, uint32_t* shared) const {
    float* tile = reinterpret_cast<float*>(shared);
    uint32_t* maxima = shared + tile_words;
    uint32_t* codes = maxima + tile_chunks;
    const TileShape shape = tiling.shape;
    const TileView view = {tile, shape.rows_log2,          shape.cols_log2,         shape.pitch(),
                           1,    tiling.first_row(number), tiling.first_col(number)};
    load_tile(group, x, shape, view.first_row, view.first_col, tile);
    const TensorFactor* const own = measured_factor(group, job, number == 0, codes + tile_chunks);
    group.barrier();
    if (hadamard.size != 0) transform_tile(group, hadamard, signs.mask(), false, shape, tile);
    if (job.out.quantizer.has_scale() && job.block_scales == nullptr) {
      chunk_maxima(group, view, maxima);
      group.barrier();
      tile_scales(group, view, job, own, maxima, codes);
      group.barrier();
    }
    tile_codes(group, view, job, own, codes);
  }
};

// Both copies of a matrix that training needs, blocks along rows and blocks along columns, from one reading.
struct QuantizeBothWays {
  static constexpr int shared_words = tile_words + 2 * tile_chunks;
  static constexpr int groups_at_once = 2;
  OperandElements x;
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
      tile_scales(group, view, job, nullptr, maxima, codes);
      group.barrier();
      tile_codes(group, view, job, nullptr, codes);
      group.barrier();
    }
  }
};

// A tile's Hadamard, or with size 0 the tile as it is.
struct HadamardTile {
  OperandElements x;
  Tiling tiling;
  HadamardSpec hadamard;
  Signs signs;
  bool inverse = false;
  int64_t rows = 0;
  int64_t cols = 0;  // padded to whole transforms
  float* y = nullptr;

  // seen(thread, value) for all that is written.
  template <class F>
  FP4_HD void rotate(Group group, int64_t number, float* tile, const F& seen) const {
    const TileShape shape = tiling.shape;
    const int64_t first_row = tiling.first_row(number);
    const int64_t first_col = tiling.first_col(number);
    load_tile(group, x, shape, first_row, first_col, tile);
    group.barrier();
    if (hadamard.size != 0) transform_tile(group, hadamard, signs.mask(), inverse, shape, tile);
    group.for_each(tile_elements, [&](int64_t i) {
      const int r = static_cast<int>(i) >> shape.cols_log2;
      const int c = static_cast<int>(i) & (shape.cols() - 1);
      if (first_row + r < rows && first_col + c < cols) {
        const float value = tile[r * shape.pitch() + c];
        y[(first_row + r) * cols + first_col + c] = value;
        seen(static_cast<int>(i) % group_threads, value);
      }
    });
    group.barrier();
  }
};

// What is to be known of an operand before its codes: the maxima of it as it is, or as its Hadamard leaves it.
struct Measure {
  static constexpr int shared_words = tile_words + group_threads;
  static constexpr int groups_at_once = 1;
  TensorMaximum maximum;  // without a Hadamard; its groups and their words count for both
  HadamardTile rotation;
  int64_t tiles = 0;  // to be rotated; 0: none

  FP4_HD void operator()(Group group, int64_t number, uint32_t* shared) const {
    if (tiles == 0) return maximum(group, number, shared);
    uint32_t* const maxima = shared + tile_words;
    group.for_threads([&](int thread) { maxima[thread] = 0; });
    group.barrier();
    for (int64_t tile = number; tile < tiles; tile += maximum.groups) {
      rotation.rotate(group, tile, reinterpret_cast<float*>(shared),
                      [&](int thread, float value) { maxima[thread] = with_element(maxima[thread], value); });
    }
    if (maximum.partial == nullptr) return;
    join_all(group, maxima);
    group.for_each(1, [&](int64_t) { maximum.partial[number] = maxima[0]; });
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
