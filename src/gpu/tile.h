// A tile of an operand in shared memory: its shape, loading it, the Hadamard, and maxima. tile_codes.h makes scales and
// codes of it.
#pragma once

#include "fp4/hadamard.h"
#include "src/gpu/group.h"
#include "src/gpu/operand.h"

namespace fp4::gpu {

inline constexpr int chunk_size = 8;
inline constexpr int tile_elements = 4096;  // 16 x 256, or 64 x 64 where both directions are cut into blocks
inline constexpr int tile_chunks = tile_elements / chunk_size;
inline constexpr int tile_words = tile_elements + 64 * 4;  // rows are padded by 4 floats: fewer bank conflicts

// `long_rows`: 16 x 256 for long blocks and transforms. Extents are powers of two, so divisions are shifts.
struct TileShape {
  int rows_log2 = 4;
  int cols_log2 = 8;
  FP4_HD int rows() const { return 1 << rows_log2; }
  FP4_HD int cols() const { return 1 << cols_log2; }
  FP4_HD int pitch() const { return cols() + 4; }
};
inline constexpr TileShape long_tile = {4, 8};
inline constexpr TileShape square_tile = {6, 6};

// A tile seen along the axis that blocks follow: `cols` runs along blocks. The transposed copy swaps the strides.
struct TileView {
  float* data = nullptr;
  int rows_log2 = 0;
  int cols_log2 = 0;
  int row_stride = 0;
  int col_stride = 1;
  int64_t first_row = 0;  // of the operand
  int64_t first_col = 0;

  FP4_HD float at(int r, int c) const { return data[r * row_stride + c * col_stride]; }
  // Elements c .. c+7 of row r by two wide reads where they are neighbours.
  FP4_HD void read_chunk(int r, int c, float (&x)[chunk_size]) const {
    if (col_stride == 1) {
      const Four* from = reinterpret_cast<const Four*>(data + r * row_stride + c);
      FP4_UNROLL
      for (int j = 0; j < chunk_size; ++j) x[j] = from[j / 4].v[j % 4];
      return;
    }
    FP4_UNROLL
    for (int j = 0; j < chunk_size; ++j) x[j] = at(r, c + j);
  }
  FP4_HD int chunks() const { return 1 << (rows_log2 + cols_log2 - 3); }
  FP4_HD int chunk_row(int64_t i) const { return static_cast<int>(i) >> (cols_log2 - 3); }
  FP4_HD int chunk_col(int64_t i) const { return (static_cast<int>(i) << 3) & ((1 << cols_log2) - 1); }
};

// Threads follow the contiguous direction of the source, so that neighbours read neighbouring words.
FP4_HD inline void load_tile(Group group, const OperandElements& x, TileShape shape, int64_t first_row,
                             int64_t first_col, float* tile) {
  const int pitch = shape.pitch();
  const bool whole = first_row + shape.rows() <= x.rows && first_col + shape.cols() <= x.cols;
  const bool aligned = x.col_stride == 1 && x.row_stride % 4 == 0 && first_col % 4 == 0 && x.data.is_aligned();
  if (whole && aligned) {
    group.for_threads([&](int thread) {
      constexpr int count = tile_elements / 4 / group_threads;
      Four v[count];
      const auto row = [&](int i) { return (i * group_threads + thread) >> (shape.cols_log2 - 2); };
      const auto col = [&](int i) { return ((i * group_threads + thread) << 2) & (shape.cols() - 1); };
      FP4_UNROLL
      for (int i = 0; i < count; ++i) v[i] = x.data.raw((first_row + row(i)) * x.row_stride + first_col + col(i));
      FP4_UNROLL
      for (int i = 0; i < count; ++i) *reinterpret_cast<Four*>(tile + row(i) * pitch + col(i)) = x.data.widened(v[i]);
    });
    return;
  }
  const bool down = x.col_stride != 1;
  group.for_each(tile_elements, [&](int64_t i) {
    const int n = static_cast<int>(i);
    const int r = down ? n & (shape.rows() - 1) : n >> shape.cols_log2;
    const int c = down ? n >> shape.rows_log2 : n & (shape.cols() - 1);
    tile[r * pitch + c] = x.at(first_row + r, first_col + c);
  });
}

// hadamard_tile() of hadamard.h with a barrier after each stride; the same operations on each element in the same
// order.
FP4_HD inline void transform_tile(Group group, const HadamardSpec& h, const HadamardSignMask& signs, bool inverse,
                                  TileShape shape, float* tile) {
  const int pitch = shape.pitch();
  const auto place = [&](int64_t i) {
    return (static_cast<int>(i) >> shape.cols_log2) * pitch + (static_cast<int>(i) & (shape.cols() - 1));
  };
  const auto flip = [&](float x, int64_t i) { return signs.is_minus(static_cast<int>(i) & (h.size - 1)) ? -x : x; };
  if (!inverse) {
    group.for_each(tile_elements, [&](int64_t i) { tile[place(i)] = flip(tile[place(i)], i); });
    group.barrier();
  }
  for (int stride = 1; stride < h.size; stride *= 2) {
    group.for_each(tile_elements / 2, [&](int64_t i) {
      const int n = static_cast<int>(i);
      float* x = tile + place(((n & ~(stride - 1)) << 1) | (n & (stride - 1)));
      const float a = x[0];
      const float b = x[stride];
      x[0] = a + b;
      x[stride] = a - b;
    });
    group.barrier();
  }
  const float factor = inverse ? inverse_factor(h) : forward_factor(h);
  group.for_each(tile_elements, [&](int64_t i) {
    float x = tile[place(i)];
    if (factor != 1.0f) x = x * factor;
    tile[place(i)] = canonical(inverse ? flip(x, i) : x);
  });
  group.barrier();
}

// A maximum in one word: magnitude bits of the largest finite element, top bit set when an element is not finite.
FP4_HD inline uint32_t with_element(uint32_t maximum, float x) {
  const uint32_t bits = magnitude_bits(x);
  if (bits >= float_infinity_bits) return maximum | float_sign_bit;
  return (maximum & float_sign_bit) | larger(maximum & ~float_sign_bit, bits);
}
FP4_HD inline uint32_t joined(uint32_t a, uint32_t b) {
  return ((a | b) & float_sign_bit) | larger(a & ~float_sign_bit, b & ~float_sign_bit);
}
FP4_HD inline BlockMaximum maximum_of(uint32_t word) {
  return {float_of(word & ~float_sign_bit), (word & float_sign_bit) != 0};
}
// A tensor's factor by its largest magnitude.
FP4_HD inline TensorFactor factor_of(const Quantizer& q, float amax) {
  return tensor_factor(q.arithmetic, amax, q.target, decode(q.element, q.element.largest_code));
}
// shared[0] becomes the maximum of all threads' words; the words are written and a barrier passed before.
FP4_HD inline void join_all(Group group, uint32_t* shared) {
  for (int length = group_threads; length > 1; length /= 16) {
    const int rest = length / 16;
    group.for_each(rest, [&](int64_t i) {
      for (int64_t j = i + rest; j < length; j += rest) shared[i] = joined(shared[i], shared[j]);
    });
    group.barrier();
  }
}

FP4_HD inline void chunk_maxima(Group group, const TileView& tile, uint32_t* maxima) {
  group.for_each(tile.chunks(), [&](int64_t i) {
    float x[chunk_size] = {};
    tile.read_chunk(tile.chunk_row(i), tile.chunk_col(i), x);
    uint32_t maximum = 0;
    FP4_UNROLL
    for (int j = 0; j < chunk_size; ++j) maximum = with_element(maximum, x[j]);
    maxima[i] = maximum;
  });
}

}  // namespace fp4::gpu
