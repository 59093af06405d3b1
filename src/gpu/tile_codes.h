// Scales and codes of a tile in shared memory (tile.h), chunk by chunk of 8 elements. A chunk never straddles a block
// (blocks are multiples of 8, or found beforehand) nor a row, and its codes are whole bytes, so chunks are written by
// different threads without a race.
#pragma once

#include "src/gpu/native_e2m1.h"
#include "src/gpu/quick_e2m1.h"
#include "src/gpu/tile.h"

namespace fp4::gpu {

// Seed and step where the device has them; a framework writes them.
struct Clock {
  uint64_t seed = 0;
  uint64_t step = 0;
};
FP4_HD inline RandomPlace at_clock(RandomPlace place, const Clock* clock) {
  if (clock == nullptr) return place;
  return {clock->seed, place.stream, static_cast<uint32_t>(clock->step)};
}

// A tensor's maxima, and where its factor goes: each group that needs it joins them for itself, which costs less than a
// launch that all of them wait for, and the operand's first group writes it down.
struct Measured {
  static constexpr int most = 512;                 // groups that find maxima: a wave of them
  static constexpr int words = group_threads + 3;  // of shared memory
  const uint32_t* partial = nullptr;               // null: the factor is where the operand has it
  int64_t count = 0;
  TensorFactor* factor = nullptr;
  float* amax = nullptr;
};

// One operand to be written: where it stands, and where its random draws are.
struct QuantizeJob {
  Operand out;
  RandomPlace place;
  int64_t row_offset = 0;
  bool use_native = false;  // the device's own conversion, where it applies: proven equal by ProbeNative
  // Codes of blocks that are no part of a row, found beforehand (BlockScales); else the tile finds its own.
  const uint32_t* block_scales = nullptr;
  const Clock* clock = nullptr;  // its seed and step in place of place's, where it is not null
  Measured measured;

  FP4_HD RandomPlace now() const { return at_clock(place, clock); }
  // own: what measured_factor() gave.
  FP4_HD TensorFactor factor(const TensorFactor* own, int64_t row, int64_t col) const {
    return own != nullptr ? *own : out.factor(row, col);
  }
  // The code of a block's scale, whose first element is (row, col) of the operand; it is stored, too.
  FP4_HD uint32_t scale_code(const BlockView& block, uint32_t maximum, const TensorFactor* own, int64_t row,
                             int64_t col) const {
    const Quantizer& q = out.quantizer;
    const int64_t index = out.scale_index(row_offset + row, col);
    const uint32_t draw = is_stochastic(q.scale_rounding)
                              ? random_draw(now().scale_rounding(), static_cast<uint64_t>(index), q.random_bits)
                              : 0u;
    const uint32_t code = block_scale_code(q, block, maximum_of(maximum), factor(own, row, col), draw);
    out.store_scale(out.scale_index(row, col), code);
    return code;
  }
};

// The tensor factor of a job that is measured, in shared memory of Measured::words; else null. Ends with a barrier.
FP4_HD inline const TensorFactor* measured_factor(Group group, const QuantizeJob& job, bool writes, uint32_t* shared) {
  const Measured& m = job.measured;
  if (m.partial == nullptr) return nullptr;
  group.for_threads([&](int thread) {
    uint32_t maximum = 0;
    for (int64_t i = thread; i < m.count; i += group_threads) maximum = joined(maximum, m.partial[i]);
    shared[thread] = maximum;
  });
  group.barrier();
  join_all(group, shared);
  auto* const factor = reinterpret_cast<TensorFactor*>(shared + group_threads);
  group.for_each(1, [&](int64_t) {
    const float amax = maximum_of(shared[0]).amax;
    *factor = factor_of(job.out.quantizer, amax);
    if (writes) *m.factor = *factor, *m.amax = amax;
  });
  group.barrier();
  return factor;
}

// Scale codes of the blocks of a tile, all of which it holds whole, from the chunk maxima; stored, and left in
// codes[first chunk of block].
FP4_HD inline void tile_scales(Group group, const TileView& tile, const QuantizeJob& job, const TensorFactor* own,
                               const uint32_t* maxima, uint32_t* codes) {
  const Operand& out = job.out;
  const int block_rows = static_cast<int>(out.block_rows);
  const int chunks_per_block = static_cast<int>(out.block_cols) / chunk_size;
  const int chunks_per_row = tile.chunks() >> tile.rows_log2;
  group.for_each(tile.chunks() / (chunks_per_block * block_rows), [&](int64_t i) {
    const int along = static_cast<int>(i) * chunks_per_block;  // as if a block were a row of its own
    const int across = along & (chunks_per_row - 1);
    const int first = (along - across) * block_rows + across;
    const int r = tile.chunk_row(first);
    const int c = tile.chunk_col(first);
    const int64_t row = tile.first_row + r;
    const int64_t col = tile.first_col + c;
    if (row >= out.rows || col >= out.cols) return;
    uint32_t maximum = 0;
    for (int k = 0; k < block_rows; ++k) {
      for (int j = 0; j < chunks_per_block; ++j) maximum = joined(maximum, maxima[first + k * chunks_per_row + j]);
    }
    const BlockView block = {tile.data + r * tile.row_stride + c * tile.col_stride,
                             tile.row_stride,
                             tile.col_stride,
                             smaller(out.block_rows, out.rows - row),
                             smaller(out.block_cols, out.cols - col),
                             out.block_rows * out.block_cols};
    codes[first] = job.scale_code(block, maximum, own, row, col);
  });
}

// Draws of neighbouring positions share a Philox block: 128 / bits of them, a power of two.
class DrawCache {
 public:
  FP4_HD DrawCache(RandomPlace place, int bits)
      : place_(place),
        bits_(static_cast<uint32_t>(bits)),
        per_block_log2_(7 - floor_log2(static_cast<uint64_t>(bits))) {}
  FP4_HD uint32_t draw(uint64_t position) {
    if (position >> per_block_log2_ != block_) {
      block_ = position >> per_block_log2_;
      words_ = random_block(place_, block_);
    }
    const uint32_t bit = (static_cast<uint32_t>(position) & ((1u << per_block_log2_) - 1u)) * bits_;
    const uint32_t index = bit / 32;  // selects instead of an indexed read keep the words in registers
    const uint32_t low = index == 0 ? words_.word[0] : words_.word[1];
    const uint32_t high = index == 2 ? words_.word[2] : words_.word[3];
    const uint32_t word = (index < 2 ? low : high) >> (bit % 32);
    return bits_ == 32 ? word : word & ((1u << bits_) - 1u);
  }

 private:
  RandomPlace place_;
  uint32_t bits_;
  int per_block_log2_;
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
  const float stored = q.has_scale() ? decode(q.scale, scale_code) : 1.0f;
  if (!(stored > 0.0f)) return plan;
  const bool is_inverse = q.has_scale() && q.stores_multiplier();
  const float g = q.has_scale() ? t.g : 1.0f;
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

// Eight packed codes by the device's conversion; false where it does not apply.
FP4_HD inline bool native_codes(const TileView& tile, const Quantizer& q, const ChunkPlan& plan, int r, int c,
                                uint32_t& packed) {
  if (!has_native_e2m1 || !plan.is_exact || q.rounding != Rounding::nearest_even) return false;
  if (q.negative_zero != NegativeZero::keep) return false;
  float x[chunk_size] = {};
  tile.read_chunk(r, c, x);
  bool is_finite_chunk = true;
  packed = 0;
  FP4_UNROLL
  for (int j = 0; j < chunk_size; j += 2) {
    is_finite_chunk = is_finite_chunk && is_finite(x[j]) && is_finite(x[j + 1]);
    // An overflowing payload becomes infinity and saturates like the largest float.
    packed |= native_e2m1(x[j] * plan.multiplier, x[j + 1] * plan.multiplier) << (4 * j);
  }
  return is_finite_chunk;
}

// The first `count` of eight packed 4-bit codes; all eight are one aligned word where rows allow it.
FP4_HD inline void store_packed(const Operand& out, int64_t row, int64_t col, uint32_t packed, int count) {
  uint8_t* bytes = out.codes + row * out.code_row_bytes + col / 2;
  if (count == chunk_size && out.code_row_bytes % 4 == 0) {
    *reinterpret_cast<uint32_t*>(bytes) = packed;
    return;
  }
  for (int j = 0; 2 * j < count; ++j) bytes[j] = static_cast<uint8_t>(packed >> (8 * j));
}

// A code of more than 4 bits.
FP4_HD inline void store_wide(const Operand& out, int64_t row, int64_t k, uint32_t code) {
  uint8_t* bytes = out.codes + row * out.code_row_bytes;
  if (out.code_bits <= 8) {
    bytes[k] = static_cast<uint8_t>(code);
  } else if (out.code_bits <= 16) {
    reinterpret_cast<uint16_t*>(bytes)[k] = static_cast<uint16_t>(code);
  } else {
    reinterpret_cast<uint32_t*>(bytes)[k] = code;
  }
}

// Codes of a tile, block padding included (code 0); `codes` holds the scale codes that tile_scales left.
FP4_HD inline void tile_codes(Group group, const TileView& tile, const QuantizeJob& job, const TensorFactor* own,
                              const uint32_t* codes) {
  const Operand& out = job.out;
  const Quantizer& q = out.quantizer;
  const int chunks_per_block = static_cast<int>(out.block_cols) / chunk_size;
  const bool is_packed = out.code_bits == 4;
  group.for_each(tile.chunks(), [&](int64_t i) {
    const int r = tile.chunk_row(i);
    const int c = tile.chunk_col(i);
    const int64_t row = tile.first_row + r;
    const int64_t col = tile.first_col + c;
    if (row >= out.rows || col >= out.padded_cols) return;
    const bool is_padding = col >= out.cols;
    uint32_t scale_code = 0;
    if (q.has_scale() && !is_padding) {
      scale_code = job.block_scales != nullptr
                       ? job.block_scales[out.scale_index(row, col)]
                       : codes[i - i % chunks_per_block -
                               (r & (static_cast<int>(out.block_rows) - 1)) * (tile.chunks() >> tile.rows_log2)];
    }
    const bool is_zero = is_padding || (q.has_scale() && q.scale.is_nan_code(scale_code));
    const int count = static_cast<int>(smaller<int64_t>(chunk_size, out.padded_cols - col));
    const int valid = is_zero ? 0 : static_cast<int>(smaller<int64_t>(chunk_size, out.cols - col));
    const ChunkPlan plan = plan_chunk(q, scale_code, is_zero ? TensorFactor{} : job.factor(own, row, col));
    uint32_t packed = 0;
    if (job.use_native && is_packed && valid == chunk_size && native_codes(tile, q, plan, r, c, packed)) {
      return store_packed(out, row, col, packed, count);
    }
    packed = 0;
    DrawCache draws(job.now(), q.random_bits);
    const auto first_position = static_cast<uint64_t>((job.row_offset + row) * out.cols + col);
    const int turn = static_cast<int>(i) / 4;
    for (int step = 0; step < chunk_size; ++step) {
      // Neighbouring threads start elsewhere in their chunks: every 8th word of a row lies in one of four banks.
      const int j = (step + turn) % chunk_size;
      uint32_t code = 0;
      if (j < valid) code = chunk_code(q, plan, tile.at(r, c + j), draws, first_position + static_cast<uint64_t>(j));
      if (is_packed) {
        packed |= code << (4 * j);
      } else if (j < count) {
        store_wide(out, row, col + j, code);
      }
    }
    if (is_packed) store_packed(out, row, col, packed, count);
  });
}

}  // namespace fp4::gpu
