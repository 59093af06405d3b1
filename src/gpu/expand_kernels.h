// An operand made ready for the matrix units, and what is known of each 128 rows of it: which way its products with
// another 128 rows may go (TileKind).
#pragma once

#include "src/gpu/group.h"
#include "src/gpu/operand.h"

namespace fp4::gpu {

enum class ScaleMode : uint8_t { power, mantissa };

inline constexpr int matrix_tile = 128;  // outputs of a group, both ways
inline constexpr int matrix_k = 128;     // bytes of k in shared memory at a time
inline constexpr uint32_t neutral_exponent = 127;

// 128 rows of an operand. Exponents are the fields of floats; of scales with mantissa only the range counts.
struct TileFacts {
  int32_t lowest = neutral_exponent;       // scale exponents, those of zero blocks (neutral) included
  int32_t highest = neutral_exponent;      // a NaN scale makes it too high for any tile
  int32_t lowest_used = neutral_exponent;  // of blocks that are not zero
  int32_t unused = 0;
  uint64_t largest_square = 0;  // of a row's Euclidean norm, counted in quanta of the lowest used exponent
};
inline constexpr uint64_t too_large_square = uint64_t{1} << 62;

// Element values as signed bytes (multiples of the format's quantum) and one word per row and run of `run` elements:
//   power     exponent << 23, plus the sum of the run's squared values (below 2^19) in the bits that are free
//   mantissa  the bits of the scale, 1 beyond K
struct Expanded {
  int8_t* values = nullptr;    // [rows, padded_k], zero beyond K
  uint32_t* words = nullptr;   // [padded_k / run, rows]
  TileFacts* facts = nullptr;  // [ceil(rows / 128)]
  int64_t rows = 0;
  int64_t padded_k = 0;
  int run = 32;

  FP4_HD int64_t runs() const { return padded_k / run; }
};

// One thread per row and run.
struct ExpandOperand {
  static constexpr int shared_words = 1;
  static constexpr int groups_at_once = 1;
  Operand operand;
  Expanded out;
  ScaleMode mode = ScaleMode::power;

  FP4_HD void operator()(Group group, int64_t number, uint32_t*) const {
    group.for_each(group_threads, [&](int64_t thread) {
      const int64_t i = number * group_threads + thread;
      if (i >= operand.rows * out.runs()) return;
      const int64_t row = i / out.runs();
      const int64_t first = i % out.runs() * out.run;
      uint32_t* values = reinterpret_cast<uint32_t*>(out.values + row * out.padded_k + first);
      uint32_t squares = 0;
      for (int j = 0; j < out.run; j += 4) {
        uint32_t packed = 0;
        for (int i4 = 0; i4 < 4; ++i4) {
          const int64_t k = first + j + i4;
          if (k >= operand.cols) continue;
          const auto v = static_cast<int32_t>(decode_fixed(operand.quantizer.element, operand.code(row, k)));
          packed |= (static_cast<uint32_t>(v) & 0xFFu) << (8 * i4);
          squares += static_cast<uint32_t>(v * v);
        }
        values[j / 4] = packed;
      }
      out.words[i % out.runs() * out.rows + row] = word(row, first, squares);
    });
  }
  FP4_HD uint32_t word(int64_t row, int64_t first, uint32_t squares) const {
    const bool is_outside = first >= operand.cols;
    if (mode == ScaleMode::mantissa) return is_outside ? bits_of(1.0f) : bits_of(operand.scale(row, first));
    uint32_t exponent = is_outside ? neutral_exponent : operand.scales[operand.scale_index(row, first)];
    // A zero block adds nothing whatever its scale: dead columns would push whole tiles off the fast path.
    if (squares == 0 && exponent != 0xFFu) exponent = neutral_exponent;
    return exponent << 23 | squares;
  }
};

// One group per 128 rows; two threads share a row.
struct FindTileFacts {
  static constexpr int shared_words = 3 * group_threads;
  static constexpr int groups_at_once = 1;
  static constexpr int sharers = group_threads / matrix_tile;
  Expanded e;

  FP4_HD void operator()(Group group, int64_t number, uint32_t* shared) const {
    uint32_t* lowest = shared;
    uint32_t* highest = shared + group_threads;
    uint32_t* lowest_used = shared + 2 * group_threads;
    group.for_each(group_threads, [&](int64_t thread) {
      lowest[thread] = lowest_used[thread] = 0xFFu;
      highest[thread] = 0;
      for_words(number, thread, [&](uint32_t exponent, uint32_t squares) {
        lowest[thread] = smaller(lowest[thread], exponent);
        highest[thread] = larger(highest[thread], exponent);
        if (squares != 0) lowest_used[thread] = smaller(lowest_used[thread], exponent);
      });
    });
    group.barrier();
    fold(group, [&](int64_t i, int64_t j) {
      lowest[i] = smaller(lowest[i], lowest[j]);
      highest[i] = larger(highest[i], highest[j]);
      lowest_used[i] = smaller(lowest_used[i], lowest_used[j]);
    });
    TileFacts f;
    f.lowest = static_cast<int32_t>(lowest[0]);
    f.highest = highest[0] == 0xFFu ? 1 << 16 : static_cast<int32_t>(highest[0]);
    f.lowest_used = lowest_used[0] == 0xFFu ? neutral_exponent : static_cast<int32_t>(lowest_used[0]);
    group.barrier();  // the words are used again
    auto* squares_of = reinterpret_cast<uint64_t*>(shared);
    group.for_each(group_threads, [&](int64_t thread) {
      uint64_t sum = 0;
      for_words(number, thread, [&](uint32_t exponent, uint32_t squares) {
        const int above = static_cast<int>(exponent) - f.lowest_used;
        if (squares == 0) return;
        const uint64_t term = above > 15 ? too_large_square : static_cast<uint64_t>(squares) << (2 * above);
        sum = smaller(sum + term, too_large_square);
      });
      squares_of[thread] = sum;
    });
    group.barrier();
    // Threads r and r + 128 hold the two parts of row r: they are added, then rows are compared.
    fold(group, [&](int64_t i, int64_t j) {
      squares_of[i] = j - i == matrix_tile ? smaller(squares_of[i] + squares_of[j], too_large_square)
                                           : larger(squares_of[i], squares_of[j]);
    });
    group.for_each(1, [&](int64_t) {
      f.largest_square = squares_of[0];
      e.facts[number] = f;
    });
  }

 private:
  template <class F>
  FP4_HD void for_words(int64_t number, int64_t thread, const F& f) const {
    const int64_t row = number * matrix_tile + thread % matrix_tile;
    if (row >= e.rows) return;
    for (int64_t j = thread / matrix_tile; j < e.runs(); j += sharers) {
      const uint32_t word = e.words[j * e.rows + row];
      f(word >> 23, word & 0x7FFFFFu);
    }
  }
  template <class Join>
  FP4_HD static void fold(Group group, const Join& join) {
    for (int half = group_threads / 2; half > 0; half /= 2) {
      group.for_each(half, [&](int64_t i) { join(i, i + half); });
      group.barrier();
    }
  }
};

// How a 128 x 128 tile of C is made under fp32_block:
//   exact   every partial sum, in any order, is a whole number of quanta below 2^24 (a row's absolute products sum up
//   to
//           at most the product of the norms), so no order rounds: a floating-point unit that keeps 24 bits will do
//   matrix  exponent sums lie where the integer units' trick works (matrix_gemm.h); other accumulators: sums of normal
//           scales spread no further than 64-bit integers bear (wide_gemm.h)
//   plain   output by output
enum class TileKind : uint8_t { exact, matrix, plain };

struct TileRule {
  const TileFacts* a = nullptr;
  const TileFacts* b = nullptr;
  int quantum_log2 = -2;  // of a product of two elements
  bool has_exact_unit = false;
  bool assumes_exact = false;  // a probe looks at sums that it knows
  int widest_spread = -1;      // not negative: the rule of wide_gemm.h

  // The start's exponent field is ea + eb - start_bias().
  FP4_HD constexpr int start_bias() const { return 104 - quantum_log2; }
  // log2 of the quantum of a tile's exact sums: exponents are biased by 127 each.
  FP4_HD int exact_log2(int64_t tile_a, int64_t tile_b) const {
    return a[tile_a].lowest_used + b[tile_b].lowest_used - 254 + quantum_log2;
  }
  FP4_HD TileKind kind(int64_t tile_a, int64_t tile_b) const {
    const TileFacts& fa = a[tile_a];
    const TileFacts& fb = b[tile_b];
    const bool is_finite = fa.highest < 255 && fb.highest < 255;
    if (has_exact_unit && is_finite && (assumes_exact || is_exact(fa, fb, exact_log2(tile_a, tile_b)))) {
      return TileKind::exact;
    }
    const int low = fa.lowest + fb.lowest;
    const int high = fa.highest + fb.highest;
    if (widest_spread >= 0) {
      const bool is_normal = fa.lowest > 0 && fb.lowest > 0 && is_finite;
      return is_normal && high - low <= widest_spread ? TileKind::matrix : TileKind::plain;
    }
    return low > start_bias() && high <= start_bias() + 254 ? TileKind::matrix : TileKind::plain;
  }

 private:
  // Quanta from 2^-149 (the lowest float) up, sums below 2^127.
  FP4_HD static bool is_exact(const TileFacts& fa, const TileFacts& fb, int log2) {
    constexpr uint64_t limit = (uint64_t{1} << 48) - 1;  // |a|^2 |b|^2: sums below 2^24
    return log2 >= -149 && log2 + 24 <= 127 &&
           (fa.largest_square == 0 || fb.largest_square <= limit / fa.largest_square);
  }
};

// Elements as whole numbers of quanta of their tile's lowest exponent, in bf16: 2^n times at most 7 bits, exact. Only
// for tiles that may be exact with some other; the rest is not written, and not read. One thread per row and 8
// elements, so that neighbours read and write neighbouring words.
struct DecodeToBf16 {
  static constexpr int shared_words = 1;
  static constexpr int groups_at_once = 1;
  static constexpr int per_thread = 8;
  Expanded e;
  uint16_t* out = nullptr;  // [rows, padded_k]

  FP4_HD int64_t threads() const { return e.rows * (e.padded_k / per_thread); }
  FP4_HD void operator()(Group group, int64_t number, uint32_t*) const {
    group.for_threads([&](int thread) {
      const int64_t i = number * group_threads + thread;
      if (i >= threads()) return;
      const int64_t row = i / (e.padded_k / per_thread);
      const int64_t k = i % (e.padded_k / per_thread) * per_thread;
      const TileFacts& f = e.facts[row / matrix_tile];
      if (f.largest_square >= too_large_square || f.highest > 255) return;
      const uint32_t word = e.words[k / e.run * e.rows + row];
      const float step = (word & 0x7FFFFFu) == 0 ? 0.0f : power_of_two(static_cast<int>(word >> 23) - f.lowest_used);
      const auto bytes = *reinterpret_cast<const uint64_t*>(e.values + row * e.padded_k + k);
      const auto half = [&](int n) {
        return bits_of(static_cast<float>(static_cast<int8_t>(bytes >> (8 * n))) * step) >> 16;
      };
      FourWords words;
      FP4_UNROLL
      for (int n = 0; n < 4; ++n) words.v[n] = half(2 * n) | half(2 * n + 1) << 16;
      *reinterpret_cast<FourWords*>(out + row * e.padded_k + k) = words;
    });
  }
};

}  // namespace fp4::gpu
