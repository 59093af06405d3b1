// An operand as whole numbers under scales with up to 8 significant bits, for the kernels of wide_gemm.h, and what is
// known of each 128 rows of it: whether its products with another 128 rows fit 64-bit integers (TileRule).
#pragma once

#include "src/gpu/group.h"
#include "src/gpu/operand.h"

namespace fp4::gpu {

inline constexpr int matrix_tile = 128;  // outputs of a group, both ways
inline constexpr int matrix_k = 128;     // bytes of k in shared memory at a time

// The least and the largest exponent field of some scales.
struct TileFacts {
  uint32_t lowest = 0xFF;
  uint32_t highest = 0;

  FP4_HD TileFacts joined(const TileFacts& o) const { return {smaller(lowest, o.lowest), larger(highest, o.highest)}; }
};

// What the threads of a group found, joined: find(thread) is a TileFacts. `shared`: 2 * group_threads words.
template <class Find>
FP4_HD TileFacts joined_facts(Group group, uint32_t* shared, const Find& find) {
  uint32_t* const lowest = shared;
  uint32_t* const highest = shared + group_threads;
  const auto put = [&](int64_t i, const TileFacts& f) { lowest[i] = f.lowest, highest[i] = f.highest; };
  const auto at = [&](int64_t i) { return TileFacts{lowest[i], highest[i]}; };
  group.for_threads([&](int thread) { put(thread, find(thread)); });
  group.barrier();
  for (int half = group_threads / 2; half > 0; half /= 2) {
    group.for_each(half, [&](int64_t i) { put(i, at(i).joined(at(i + half))); });
    group.barrier();
  }
  const TileFacts all = at(0);
  group.barrier();
  return all;
}

// Element values as signed bytes (multiples of the format's quantum) and the bits of the scale of each run.
struct Expanded {
  static constexpr int run = 16;
  static constexpr int batch = 4;  // runs whose facts, of 128 rows, stand together
  int8_t* values = nullptr;        // [rows, padded_k], zero beyond K
  uint32_t* words = nullptr;       // [padded_k / run, rows], 1 beyond K
  TileFacts* facts = nullptr;      // [ceil(rows / 128), batches()]
  int64_t rows = 0;
  int64_t padded_k = 0;

  FP4_HD int64_t batches() const { return padded_k / (run * batch); }
  FP4_HD TileFacts tile_facts(Group group, int64_t tile, uint32_t* shared) const {
    return joined_facts(group, shared, [&](int thread) {
      TileFacts own;
      for (int64_t i = thread; i < batches(); i += group_threads) own = own.joined(facts[tile * batches() + i]);
      return own;
    });
  }
};

// A group is 128 rows and a batch of runs: neighbours of a row are neighbouring threads'.
struct ExpandOperand {
  static constexpr int shared_words = 2 * group_threads;
  static constexpr int groups_at_once = 1;
  Operand operand;
  Expanded out;

  FP4_HD int64_t groups() const { return tiles_over(out.rows, matrix_tile) * out.batches(); }
  FP4_HD void operator()(Group group, int64_t number, uint32_t* shared) const {
    constexpr int batch = Expanded::batch;
    const int64_t first_row = number / out.batches() * matrix_tile;
    const int64_t first_run = number % out.batches() * batch;
    const TileFacts found = joined_facts(group, shared, [&](int thread) {
      TileFacts own;
      for (int i = thread; i < matrix_tile * batch; i += group_threads)
        if (first_row + i / batch < out.rows) own = own.joined(expand(first_row + i / batch, first_run + i % batch));
      return own;
    });
    group.for_each(1, [&](int64_t) { out.facts[number] = found; });
  }

 private:
  FP4_HD TileFacts expand(int64_t row, int64_t run) const {
    const int64_t first = run * Expanded::run;
    uint32_t* values = reinterpret_cast<uint32_t*>(out.values + row * out.padded_k + first);
    for (int j = 0; j < Expanded::run; j += 4) {
      uint32_t packed = 0;
      for (int i4 = 0; i4 < 4; ++i4) {
        const int64_t k = first + j + i4;
        if (k >= operand.cols) continue;
        const auto v = static_cast<int32_t>(decode_fixed(operand.quantizer.element, operand.code(row, k)));
        packed |= (static_cast<uint32_t>(v) & 0xFFu) << (8 * i4);
      }
      values[j / 4] = packed;
    }
    const uint32_t word = bits_of(first >= operand.cols ? 1.0f : operand.scale(row, first));
    out.words[run * out.rows + row] = word;
    return {word >> 23, word >> 23};
  }
};

// Which 128 x 128 tiles of C are made in 64-bit integers: those of normal scales whose products spread no further than
// that many exponents.
struct TileRule {
  int quantum_log2 = -2;  // of a product of two elements
  int widest_spread = -1;

  FP4_HD bool fits(const TileFacts& a, const TileFacts& b) const {
    const bool is_normal = a.lowest > 0 && b.lowest > 0 && a.highest < 255 && b.highest < 255;
    return is_normal && static_cast<int>(a.highest - a.lowest + b.highest - b.lowest) <= widest_spread;
  }
};

}  // namespace fp4::gpu
