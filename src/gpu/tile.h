// A tile of an operand in shared memory and what the kernels do with it, phase by phase: load, Hadamard, maxima of
// 8-element chunks, block scales, codes. A chunk never straddles a block (blocks are multiples of 8) nor a row, and its
// codes are whole bytes, so chunks are written by different threads without a race.
#pragma once

#include "fp4/hadamard.h"
#include "src/gpu/group.h"
#include "src/gpu/native_e2m1.h"
#include "src/gpu/operand.h"
#include "src/gpu/quick_e2m1.h"

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
  FP4_HD int chunks() const { return 1 << (rows_log2 + cols_log2 - 3); }
  FP4_HD int chunk_row(int64_t i) const { return static_cast<int>(i) >> (cols_log2 - 3); }
  FP4_HD int chunk_col(int64_t i) const { return (static_cast<int>(i) << 3) & ((1 << cols_log2) - 1); }
};

// Threads follow the contiguous direction of the source, so that neighbours read neighbouring words.
FP4_HD inline void load_tile(Group group, const Source& x, TileShape shape, int64_t first_row, int64_t first_col,
                             float* tile) {
  const int pitch = shape.pitch();
  const bool whole = first_row + shape.rows() <= x.rows && first_col + shape.cols() <= x.cols;
  const bool aligned = x.col_stride == 1 && x.row_stride % 4 == 0 && first_col % 4 == 0 &&
                       reinterpret_cast<uintptr_t>(x.data) % sizeof(Four) == 0;
  if (whole && aligned) {
    group.for_each(tile_elements / 4, [&](int64_t i) {
      const int r = static_cast<int>(i) >> (shape.cols_log2 - 2);
      const int c = (static_cast<int>(i) << 2) & (shape.cols() - 1);
      *reinterpret_cast<Four*>(tile + r * pitch + c) =
          *reinterpret_cast<const Four*>(x.data + (first_row + r) * x.row_stride + first_col + c);
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
  const bool is_sqrt = h.normalise == HadamardNormalise::sqrt;
  const float factor = is_sqrt ? inverse_root(h.size) : (inverse ? 1.0f / static_cast<float>(h.size) : 1.0f);
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

FP4_HD inline void chunk_maxima(Group group, const TileView& tile, uint32_t* maxima) {
  group.for_each(tile.chunks(), [&](int64_t i) {
    const int r = tile.chunk_row(i);
    const int c = tile.chunk_col(i);
    uint32_t maximum = 0;
    for (int j = 0; j < chunk_size; ++j) maximum = with_element(maximum, tile.at(r, c + j));
    maxima[i] = maximum;
  });
}

// One operand to be written: where it stands, and where its random draws are.
struct QuantizeJob {
  Operand out;
  RandomPlace place;
  int64_t row_offset = 0;
  bool use_native = false;  // the device's own conversion, where it applies: proven equal by ProbeNative
  const uint32_t* square_scales = nullptr;  // codes of 2-D blocks, found beforehand; else the tile finds its own
};

// Scale codes of the 1 x B blocks of a tile, from the chunk maxima; stored, and left in codes[first chunk of block].
FP4_HD inline void tile_scales(Group group, const TileView& tile, const QuantizeJob& job, const uint32_t* maxima,
                               uint32_t* codes) {
  const Operand& out = job.out;
  const int chunks_per_block = static_cast<int>(out.block_cols) / chunk_size;
  group.for_each(tile.chunks() / chunks_per_block, [&](int64_t i) {
    const int64_t first = i * chunks_per_block;
    const int r = tile.chunk_row(first);
    const int c = tile.chunk_col(first);
    const int64_t row = tile.first_row + r;
    const int64_t col = tile.first_col + c;
    if (row >= out.rows || col >= out.cols) return;
    uint32_t maximum = 0;
    for (int j = 0; j < chunks_per_block; ++j) maximum = joined(maximum, maxima[first + j]);
    const BlockView block = {tile.data + r * tile.row_stride + c * tile.col_stride,
                             tile.row_stride,
                             tile.col_stride,
                             1,
                             smaller(out.block_cols, out.cols - col),
                             out.block_cols};
    const int64_t index = out.scale_index(row, col);
    const int64_t index_in_whole = (job.row_offset + row) * out.scale_cols + col / out.block_cols;
    const Quantizer& q = out.quantizer;
    const uint32_t draw =
        is_stochastic(q.scale_rounding)
            ? random_draw(job.place.scale_rounding(), static_cast<uint64_t>(index_in_whole), q.random_bits)
            : 0u;
    const uint32_t code = block_scale_code(q, block, maximum_of(maximum), out.factor(row, col), draw);
    codes[first] = code;
    out.store_scale(index, code);
  });
}

// Draws of neighbouring positions share a Philox block.
class DrawCache {
 public:
  FP4_HD DrawCache(RandomPlace place, int bits) : place_(place), bits_(static_cast<uint32_t>(bits)) {}
  FP4_HD uint32_t draw(uint64_t position) {
    const uint64_t per_block = 128u / bits_;
    if (position / per_block != block_) {
      block_ = position / per_block;
      words_ = random_block(place_, block_);
    }
    const uint32_t bit = static_cast<uint32_t>(position % per_block) * bits_;
    const uint32_t index = bit / 32;  // selects instead of an indexed read keep the words in registers
    const uint32_t low = index == 0 ? words_.word[0] : words_.word[1];
    const uint32_t high = index == 2 ? words_.word[2] : words_.word[3];
    const uint32_t word = (index < 2 ? low : high) >> (bit % 32);
    return bits_ == 32 ? word : word & ((1u << bits_) - 1u);
  }

 private:
  RandomPlace place_;
  uint32_t bits_;
  uint64_t block_ = ~uint64_t{0};
  PhiloxBlock words_ = {};
};

// What is the same for the eight elements of a chunk: the scale code and an fp32 guess of |payload| / |x|.
struct ChunkPlan {
  uint32_t scale_code = 0;
  TensorFactor t;
  float multiplier = 0.0f;  // 0: exact arithmetic only
  bool is_exact = false;
};

FP4_HD inline ChunkPlan plan_chunk(const Quantizer& q, uint32_t scale_code, TensorFactor t) {
  ChunkPlan plan = {scale_code, t, 0.0f, false};
  const bool is_e2m1 = q.element.exponent_bits == 2 && q.element.mantissa_bits == 1 && q.element.is_signed;
  if (!is_e2m1) return plan;
  const float stored = q.has_scale ? decode(q.scale, scale_code) : 1.0f;
  if (!(stored > 0.0f)) return plan;
  const bool is_inverse = q.has_scale && q.stores_multiplier();
  const float g = q.has_scale ? t.g : 1.0f;
  const float multiplier = is_inverse ? stored / g * q.prescale : q.prescale / (stored * g);
  // Outside, a step of the arithmetic (1/g, s*g) may leave the normal range and the guess its error bound; x/g may do
  // so for any g.
  const auto is_usual = [](float v) { return v >= 0x1p-120f && v <= 0x1p120f; };
  if (!is_usual(multiplier) || !is_usual(stored) || !is_usual(g)) return plan;
  if (is_inverse && g != 1.0f && q.arithmetic != Arithmetic::exact) return plan;
  const bool is_power = (bits_of(stored) & 0x7FFFFFu) == 0;
  plan.multiplier = multiplier;
  plan.is_exact = is_power && g == 1.0f && q.prescale == 1.0f;
  return plan;
}

FP4_HD inline uint32_t chunk_code(const Quantizer& q, const ChunkPlan& plan, float x, DrawCache& draws,
                                  uint64_t position) {
  if (plan.multiplier != 0.0f && is_finite(x)) {
    const bool negative = is_negative(x);
    const uint32_t code = quick_e2m1(q.rounding, q.random_bits, magnitude(x) * plan.multiplier, plan.is_exact, negative,
                                     [&] { return draws.draw(position); });
    if (code != no_answer) {
      const uint32_t sign = negative ? q.element.sign_code() : 0u;
      return code == 0 && q.negative_zero == NegativeZero::drop ? 0u : sign | code;
    }
  }
  return element_code(q, x, plan.scale_code, plan.t, is_stochastic(q.rounding) ? draws.draw(position) : 0u);
}

// Eight codes by the device's conversion; false where it does not apply.
FP4_HD inline bool native_codes(const TileView& tile, const Quantizer& q, const ChunkPlan& plan, int r, int c,
                                uint32_t* code) {
  if (!has_native_e2m1 || !plan.is_exact || q.rounding != Rounding::nearest_even) return false;
  if (q.negative_zero != NegativeZero::keep) return false;
  bool is_finite_chunk = true;
  for (int j = 0; j < chunk_size; j += 2) {
    const float first = tile.at(r, c + j);
    const float second = tile.at(r, c + j + 1);
    is_finite_chunk = is_finite_chunk && is_finite(first) && is_finite(second);
    // An overflowing payload becomes infinity and saturates like the largest float.
    const uint32_t pair = native_e2m1(first * plan.multiplier, second * plan.multiplier);
    code[j] = pair & 0xFu;
    code[j + 1] = pair >> 4;
  }
  return is_finite_chunk;
}

// Writes the first `count` codes of a chunk; a whole chunk of 4-bit codes is one aligned word where rows allow it.
// Loops of constant length keep the eight codes in registers.
FP4_HD inline void store_codes(const Operand& out, int64_t row, int64_t col, const uint32_t* code, int count) {
  uint8_t* bytes = out.codes + row * out.code_row_bytes;
  if (out.code_bits == 4) {
    uint32_t packed = 0;
    for (int j = 0; j < chunk_size; ++j) packed |= code[j] << (4 * j);
    if (count == chunk_size && out.code_row_bytes % 4 == 0) {
      *reinterpret_cast<uint32_t*>(bytes + col / 2) = packed;
      return;
    }
    for (int j = 0; 2 * j < count; ++j) bytes[col / 2 + j] = static_cast<uint8_t>(packed >> (8 * j));
    return;
  }
  for (int j = 0; j < chunk_size; ++j) {
    if (j >= count) continue;
    if (out.code_bits <= 8) {
      bytes[col + j] = static_cast<uint8_t>(code[j]);
    } else if (out.code_bits <= 16) {
      reinterpret_cast<uint16_t*>(bytes)[col + j] = static_cast<uint16_t>(code[j]);
    } else {
      reinterpret_cast<uint32_t*>(bytes)[col + j] = code[j];
    }
  }
}

// Codes of a tile, block padding included (code 0); `codes` holds the scale codes that tile_scales left.
FP4_HD inline void tile_codes(Group group, const TileView& tile, const QuantizeJob& job, const uint32_t* codes) {
  const Operand& out = job.out;
  const Quantizer& q = out.quantizer;
  const int chunks_per_block = static_cast<int>(out.block_cols) / chunk_size;
  group.for_each(tile.chunks(), [&](int64_t i) {
    const int r = tile.chunk_row(i);
    const int c = tile.chunk_col(i);
    const int64_t row = tile.first_row + r;
    const int64_t col = tile.first_col + c;
    if (row >= out.rows || col >= out.padded_cols) return;
    const bool is_padding = col >= out.cols;
    uint32_t scale_code = 0;
    if (q.has_scale && !is_padding) {
      scale_code =
          job.square_scales != nullptr ? job.square_scales[out.scale_index(row, col)] : codes[i - i % chunks_per_block];
    }
    const bool is_zero = is_padding || (q.has_scale && q.scale.is_nan_code(scale_code));
    const int count = static_cast<int>(smaller<int64_t>(chunk_size, out.padded_cols - col));
    uint32_t code[chunk_size] = {};
    if (!is_zero) {
      const ChunkPlan plan = plan_chunk(q, scale_code, out.factor(row, col));
      DrawCache draws(job.place, q.random_bits);
      const bool is_done = job.use_native && col + chunk_size <= out.cols && native_codes(tile, q, plan, r, c, code);
      for (int j = 0; j < chunk_size; ++j) {
        if (is_done || col + j >= out.cols) continue;
        const auto position = static_cast<uint64_t>((job.row_offset + row) * out.cols + col + j);
        code[j] = chunk_code(q, plan, tile.at(r, c + j), draws, position);
      }
    }
    store_codes(out, row, col, code, count);
  });
}

}  // namespace fp4::gpu
