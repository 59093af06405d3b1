// An operand as whole numbers under scales with up to 8 significant bits, for the kernels of wide_gemm.h, and what is
// known of each 128 rows of it: whether its products with another 128 rows fit 64-bit integers (TileRule).
#pragma once

#include "src/gpu/group.h"
#include "src/gpu/operand.h"

namespace fp4::gpu {

inline constexpr int matrix_tile = 128;  // outputs of a group, both ways
inline constexpr int matrix_k = 128;     // bytes of k in shared memory at a time

// Of 128 rows: the least and the largest exponent field of a scale.
struct TileFacts {
  int32_t lowest = 0;
  int32_t highest = 0;
};

// Element values as signed bytes (multiples of the format's quantum) and the bits of the scale of each run.
struct Expanded {
  static constexpr int run = 16;
  int8_t* values = nullptr;    // [rows, padded_k], zero beyond K
  uint32_t* words = nullptr;   // [padded_k / run, rows], 1 beyond K
  TileFacts* facts = nullptr;  // [ceil(rows / 128)]
  int64_t rows = 0;
  int64_t padded_k = 0;

  FP4_HD int64_t runs() const { return padded_k / run; }
};

// One thread per row and run.
struct ExpandOperand {
  static constexpr int shared_words = 1;
  static constexpr int groups_at_once = 1;
  Operand operand;
  Expanded out;

  FP4_HD void operator()(Group group, int64_t number, uint32_t*) const {
    group.for_each(group_threads, [&](int64_t thread) {
      const int64_t i = number * group_threads + thread;
      if (i >= operand.rows * out.runs()) return;
      const int64_t row = i / out.runs();
      const int64_t first = i % out.runs() * out.run;
      uint32_t* values = reinterpret_cast<uint32_t*>(out.values + row * out.padded_k + first);
      for (int j = 0; j < out.run; j += 4) {
        uint32_t packed = 0;
        for (int i4 = 0; i4 < 4; ++i4) {
          const int64_t k = first + j + i4;
          if (k >= operand.cols) continue;
          const auto v = static_cast<int32_t>(decode_fixed(operand.quantizer.element, operand.code(row, k)));
          packed |= (static_cast<uint32_t>(v) & 0xFFu) << (8 * i4);
        }
        values[j / 4] = packed;
      }
      out.words[i % out.runs() * out.rows + row] = bits_of(first >= operand.cols ? 1.0f : operand.scale(row, first));
    });
  }
};

// One group per 128 rows; two threads share a row.
struct FindTileFacts {
  static constexpr int shared_words = 2 * group_threads;
  static constexpr int groups_at_once = 1;
  static constexpr int sharers = group_threads / matrix_tile;
  Expanded e;

  FP4_HD void operator()(Group group, int64_t number, uint32_t* shared) const {
    uint32_t* lowest = shared;
    uint32_t* highest = shared + group_threads;
    group.for_each(group_threads, [&](int64_t thread) {
      lowest[thread] = 0xFFu;
      highest[thread] = 0;
      const int64_t row = number * matrix_tile + thread % matrix_tile;
      if (row >= e.rows) return;
      for (int64_t j = thread / matrix_tile; j < e.runs(); j += sharers) {
        const uint32_t exponent = e.words[j * e.rows + row] >> 23;
        lowest[thread] = smaller(lowest[thread], exponent);
        highest[thread] = larger(highest[thread], exponent);
      }
    });
    group.barrier();
    for (int half = group_threads / 2; half > 0; half /= 2) {
      group.for_each(half, [&](int64_t i) {
        lowest[i] = smaller(lowest[i], lowest[i + half]);
        highest[i] = larger(highest[i], highest[i + half]);
      });
      group.barrier();
    }
    group.for_each(1, [&](int64_t) {
      e.facts[number] = {static_cast<int32_t>(lowest[0]), static_cast<int32_t>(highest[0])};
    });
  }
};

// Which 128 x 128 tiles of C are made in 64-bit integers: those of normal scales whose products spread no further than
// that many exponents.
struct TileRule {
  const TileFacts* a = nullptr;
  const TileFacts* b = nullptr;
  int quantum_log2 = -2;  // of a product of two elements
  int widest_spread = -1;

  FP4_HD bool fits(int64_t tile_a, int64_t tile_b) const {
    const TileFacts& fa = a[tile_a];
    const TileFacts& fb = b[tile_b];
    const bool is_normal = fa.lowest > 0 && fb.lowest > 0 && fa.highest < 255 && fb.highest < 255;
    return is_normal && fa.highest - fa.lowest + fb.highest - fb.lowest <= widest_spread;
  }
};

}  // namespace fp4::gpu
