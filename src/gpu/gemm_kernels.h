// C = Q(A) Q(B)^T on a device. PlainGemm gives every accumulator by the core's own dot(), one thread an output.
// MatrixGemm gives fp32_block on the integer matrix units:
//   acc <- RN32(acc + 2^(ea+eb-256) * D),  D = sum over the block of (2a)(2b), an integer below 2^22 in magnitude.
// Powers of two (`power`): the 32-bit sum starts at the bits of the float 1.5*2^23 * 2^(ea+eb-256), so after the
// product its BITS are that float plus D*2^(ea+eb-256); subtracting the start is exact and adding the difference is the
// one rounding. No convert, no multiply. Valid for 107 <= ea+eb <= 360, where the start is a normal number (other
// elements: 2^q for 2^-2, q the sum of both quanta, moves these numbers); a tile outside goes through the core, output
// by output. Scales with mantissa (`mantissa`): float(D)*(sA*sB) is exact while the bits of D, sA and sB together are
// at most 24 (NVFP4: 12 + 4 + 4), then one addition.
#pragma once

#include "src/gpu/matrix_unit.h"
#include "src/gpu/operand.h"

namespace fp4::gpu {

enum class ScaleMode : uint8_t { power, mantissa };

inline constexpr int matrix_tile = 128;          // outputs of a group, both ways
inline constexpr int matrix_k = 128;             // bytes of k in shared memory at a time
inline constexpr int row_pitch = matrix_k + 16;  // bytes; 36 words: eight rows lie in different banks
inline constexpr uint32_t neutral_exponent = 127;

// An operand made ready for the matrix units: element values as signed bytes (multiples of the format's quantum), one
// word per row and run of `run` elements, and per row the range of its scale exponents.
struct Expanded {
  int8_t* values = nullptr;    // [rows, padded_k], zero beyond K
  uint32_t* words = nullptr;   // [padded_k / run, rows]: exponent << 23; mantissa mode: the bits of the scale
  int32_t* lowest = nullptr;   // [rows]
  int32_t* highest = nullptr;  // [rows]; a NaN scale makes it too high for any tile
  int64_t rows = 0;
  int64_t padded_k = 0;
};

// One thread per row and run.
struct ExpandOperand {
  static constexpr int shared_words = 1;
  static constexpr int groups_at_once = 1;
  Operand operand;
  Expanded out;
  int run = 32;
  ScaleMode mode = ScaleMode::power;

  FP4_HD void operator()(Group group, int64_t number, uint32_t*) const {
    const int64_t runs = out.padded_k / run;
    group.for_each(group_threads, [&](int64_t thread) {
      const int64_t i = number * group_threads + thread;
      if (i >= operand.rows * runs) return;
      const int64_t row = i / runs;
      const int64_t first = i % runs * run;
      uint32_t* values = reinterpret_cast<uint32_t*>(out.values + row * out.padded_k + first);
      bool is_zero = true;
      for (int j = 0; j < run; j += 4) {
        uint32_t packed = 0;
        for (int i4 = 0; i4 < 4; ++i4) {
          const int64_t k = first + j + i4;
          if (k >= operand.cols) continue;
          const int64_t v = decode_fixed(operand.quantizer.element, operand.code(row, k));
          packed |= (static_cast<uint32_t>(v) & 0xFFu) << (8 * i4);
        }
        is_zero = is_zero && packed == 0;
        values[j / 4] = packed;
      }
      out.words[i % runs * out.rows + row] = word(row, first, is_zero);
    });
  }
  FP4_HD uint32_t word(int64_t row, int64_t first, bool is_zero) const {
    const bool is_outside = first >= operand.cols;
    if (mode == ScaleMode::mantissa) return is_outside ? 0u : bits_of(operand.scale(row, first));
    uint32_t exponent = is_outside ? neutral_exponent : operand.scales[operand.scale_index(row, first)];
    // A zero block adds nothing whatever its scale: dead columns would push whole tiles off the fast path.
    if (is_zero && exponent != 0xFFu) exponent = neutral_exponent;
    return exponent << 23;
  }
};

// One thread per row.
struct ExponentRange {
  static constexpr int shared_words = 1;
  static constexpr int groups_at_once = 1;
  Expanded out;
  int64_t runs = 0;

  FP4_HD void operator()(Group group, int64_t number, uint32_t*) const {
    group.for_each(group_threads, [&](int64_t thread) {
      const int64_t row = number * group_threads + thread;
      if (row >= out.rows) return;
      int32_t low = 255;
      int32_t high = 0;
      for (int64_t j = 0; j < runs; ++j) {
        const auto exponent = static_cast<int32_t>(out.words[j * out.rows + row] >> 23);
        low = smaller(low, exponent);
        high = larger(high, exponent == 0xFF ? 1 << 16 : exponent);
      }
      out.lowest[row] = low;
      out.highest[row] = high;
    });
  }
};

// Which 128 x 128 tiles of C the fast path may give: those whose exponent sums all lie in its range.
struct RegularTiles {
  Expanded a;
  Expanded b;
  int start_bias = 0;  // the start's exponent field is ea + eb - start_bias

  FP4_HD static void widen(const Expanded& e, int64_t first, int32_t& low, int32_t& high) {
    for (int64_t r = first; r < smaller<int64_t>(e.rows, first + matrix_tile); ++r) {
      low = smaller(low, e.lowest[r]);
      high = larger(high, e.highest[r]);
    }
  }
  FP4_HD bool contains(int64_t first_row, int64_t first_col) const {
    constexpr auto neutral = static_cast<int32_t>(neutral_exponent);  // rows beyond the edge
    int32_t low_a = neutral, high_a = neutral, low_b = neutral, high_b = neutral;
    widen(a, first_row, low_a, high_a);
    widen(b, first_col, low_b, high_b);
    return low_a + low_b > start_bias && high_a + high_b <= start_bias + 254;
  }
};

struct PlainGemm {
  static constexpr int shared_words = 1;
  static constexpr int groups_at_once = 1;
  static constexpr int side = 16;  // a group gives 16 x 16 outputs
  Operand a;
  Operand b;
  Accumulator accumulator;
  GemmFinish finish;
  float* c = nullptr;  // [a.rows, b.rows]
  bool only_irregular = false;
  RegularTiles regular;

  FP4_HD int64_t groups_across() const { return (b.rows + side - 1) / side; }
  FP4_HD void operator()(Group group, int64_t number, uint32_t* shared) const {
    const int64_t first_row = number / groups_across() * side;
    const int64_t first_col = number % groups_across() * side;
    if (only_irregular) {
      group.for_each(1, [&](int64_t) {
        shared[0] =
            regular.contains(first_row - first_row % matrix_tile, first_col - first_col % matrix_tile) ? 1u : 0u;
      });
      group.barrier();
      if (shared[0] != 0) return;
    }
    group.for_each(side * side, [&](int64_t i) {
      const int64_t row = first_row + i / side;
      const int64_t col = first_col + i % side;
      if (row >= a.rows || col >= b.rows) return;
      c[row * b.rows + col] = gemm_output(accumulator, RowOfCodes(a, row), RowOfCodes(b, col), a.cols, finish);
    });
  }
};

template <class Unit, ScaleMode mode>
struct MatrixGemm {
  static constexpr int groups_at_once = 2;
  static constexpr int words_of_values = 2 * matrix_tile * row_pitch / 4;
  static constexpr int largest_runs = matrix_k / 16;
  static constexpr int shared_words = words_of_values + 2 * matrix_tile * largest_runs + 1;
  using Registers = PerThread<Fragments<Unit>, group_threads>;

  PlainGemm plain;  // operands, finish, output; it also gives the tiles that are left out here
  RegularTiles operands;
  int run = 32;  // 32 or 16

  FP4_HD int64_t groups_across() const { return (plain.b.rows + matrix_tile - 1) / matrix_tile; }
  FP4_HD void operator()(Group group, int64_t number, uint32_t* shared) const {
    const Expanded& a = operands.a;
    const Expanded& b = operands.b;
    const int64_t first_row = number / groups_across() * matrix_tile;
    const int64_t first_col = number % groups_across() * matrix_tile;
    if constexpr (mode == ScaleMode::power) {
      group.for_each(1, [&](int64_t) { shared[0] = operands.contains(first_row, first_col) ? 1u : 0u; });
      group.barrier();
      const bool is_regular = shared[0] != 0;
      group.barrier();
      if (!is_regular) return;
    }
    Registers registers;
    for (int64_t k = 0; k < a.padded_k; k += matrix_k) {
      load(group, a, first_row, k, shared, shared + words_of_values, 0);
      load(group, b, first_col, k, shared + matrix_tile * row_pitch / 4,
           shared + words_of_values + matrix_tile * largest_runs, offset_of_b());
      group.barrier();
      group.for_each_warp(Unit::lanes, [&](int warp) { multiply_chunk(warp, shared, registers); });
      group.barrier();
    }
    group.for_each_warp(Unit::lanes, [&](int warp) { store(warp, first_row, first_col, registers); });
  }

 private:
  // What a word of b gets besides: the rest of the start's bits, added modulo 2^32; mantissa mode multiplies instead.
  FP4_HD uint32_t offset_of_b() const { return 0x400000u - (static_cast<uint32_t>(operands.start_bias) << 23); }
  FP4_HD int quantum_log2() const {
    return plain.a.quantizer.element.quantum_log2() + plain.b.quantizer.element.quantum_log2();
  }

  // 128 rows x 128 bytes and their words; rows beyond the edge are zeros with a harmless scale.
  FP4_HD void load(Group group, const Expanded& e, int64_t first, int64_t k, uint32_t* values, uint32_t* words,
                   uint32_t offset) const {
    constexpr int per_row = matrix_k / static_cast<int>(sizeof(FourWords));
    group.for_each(matrix_tile * per_row, [&](int64_t i) {
      const int r = static_cast<int>(i) / per_row;
      const int c = static_cast<int>(i) % per_row;
      FourWords v = {};
      if (first + r < e.rows) {
        v = *reinterpret_cast<const FourWords*>(e.values + (first + r) * e.padded_k + k + c * 16);
      }
      *reinterpret_cast<FourWords*>(values + r * (row_pitch / 4) + c * 4) = v;
    });
    group.for_each(matrix_tile * (matrix_k / run), [&](int64_t i) {
      const int r = static_cast<int>(i) % matrix_tile;
      const int j = static_cast<int>(i) / matrix_tile;
      const bool is_inside = first + r < e.rows;
      uint32_t word = mode == ScaleMode::power ? neutral_exponent << 23 : 0u;
      if (is_inside) word = e.words[(k / run + j) * e.rows + first + r];
      if (mode == ScaleMode::power) word += offset;
      words[j * matrix_tile + r] = word;
    });
  }

  FP4_HD static int first_m(int warp) { return warp % Unit::warps_down * Unit::tiles_m * Unit::m; }
  FP4_HD static int first_n(int warp) { return warp / Unit::warps_down * Unit::tiles_n * Unit::n; }

  FP4_HD void multiply_chunk(int warp, const uint32_t* shared, Registers& registers) const {
    const uint32_t* values_a = shared;
    const uint32_t* values_b = shared + matrix_tile * row_pitch / 4;
    const uint32_t* words_a = shared + words_of_values;
    const uint32_t* words_b = words_a + matrix_tile * largest_runs;
    const int first = warp * Unit::lanes;
    for (int step = 0; step < matrix_k / unit_k; ++step) {
      registers.for_each_lane(first, [&](int lane, Fragments<Unit>& f) {
        const int byte = step * unit_k;
        FP4_UNROLL
        for (int m = 0; m < Unit::tiles_m; ++m) {
          FP4_UNROLL
          for (int j = 0; j < Unit::words_a; ++j) {
            const int row = first_m(warp) + m * Unit::m + Unit::row_a(lane, j);
            f.a[m][j] = values_a[row * (row_pitch / 4) + (byte + Unit::byte_a(lane, j)) / 4];
          }
        }
        FP4_UNROLL
        for (int n = 0; n < Unit::tiles_n; ++n) {
          FP4_UNROLL
          for (int j = 0; j < Unit::words_b; ++j) {
            const int row = first_n(warp) + n * Unit::n + Unit::row_b(lane);
            f.b[n][j] = values_b[row * (row_pitch / 4) + (byte + Unit::byte_b(lane, j)) / 4];
          }
        }
      });
      const int halves = unit_k / run;
      for (int half = 0; half < halves; ++half) {
        const int j = step * halves + half;
        FP4_UNROLL
        for (int m = 0; m < Unit::tiles_m; ++m) {
          FP4_UNROLL
          for (int n = 0; n < Unit::tiles_n; ++n) {
            one_product(warp, m, n, halves == 1 ? both_halves : half, words_a + j * matrix_tile,
                        words_b + j * matrix_tile, registers);
          }
        }
      }
    }
  }

  // One matrix instruction and the one rounding of its outputs.
  FP4_HD void one_product(int warp, int m, int n, int half, const uint32_t* words_a, const uint32_t* words_b,
                          Registers& registers) const {
    const int first = warp * Unit::lanes;
    [[maybe_unused]] const float quantum = power_of_two(quantum_log2());
    const auto word = [&](int lane, int v, uint32_t& of_a, uint32_t& of_b) {
      of_a = words_a[first_m(warp) + m * Unit::m + Unit::row_d(lane, v)];
      of_b = words_b[first_n(warp) + n * Unit::n + Unit::col_d(lane, v)];
    };
    registers.for_each_lane(first, [&](int lane, Fragments<Unit>& f) {
      FP4_UNROLL
      for (int v = 0; v < 4; ++v) {
        uint32_t of_a = 0, of_b = 0;
        word(lane, v, of_a, of_b);
        f.d[v] = mode == ScaleMode::power ? static_cast<int32_t>(of_a + of_b) : 0;
      }
    });
    Unit::multiply(registers, first, m, n, half);
    registers.for_each_lane(first, [&](int lane, Fragments<Unit>& f) {
      FP4_UNROLL
      for (int v = 0; v < 4; ++v) {
        uint32_t of_a = 0, of_b = 0;
        word(lane, v, of_a, of_b);
        float product = 0.0f;
        if constexpr (mode == ScaleMode::power) {
          product = float_of(static_cast<uint32_t>(f.d[v])) - float_of(of_a + of_b);
        } else {
          product = static_cast<float>(f.d[v]) * quantum * (float_of(of_a) * float_of(of_b));
        }
        f.acc[m][n][v] = f.acc[m][n][v] + product;
      }
    });
  }

  FP4_HD void store(int warp, int64_t first_row, int64_t first_col, Registers& registers) const {
    registers.for_each_lane(warp * Unit::lanes, [&](int lane, Fragments<Unit>& f) {
      FP4_UNROLL
      for (int m = 0; m < Unit::tiles_m; ++m) {
        FP4_UNROLL
        for (int n = 0; n < Unit::tiles_n; ++n) {
          FP4_UNROLL
          for (int v = 0; v < 4; ++v) {
            const int64_t row = first_row + first_m(warp) + m * Unit::m + Unit::row_d(lane, v);
            const int64_t col = first_col + first_n(warp) + n * Unit::n + Unit::col_d(lane, v);
            if (row >= plain.a.rows || col >= plain.b.rows) continue;
            const float g = plain.a.factor(row, 0).g * plain.b.factor(col, 0).g;
            plain.c[row * plain.b.rows + col] = canonical(f.acc[m][n][v] * plain.finish.factor(g));
          }
        }
      }
    });
  }
};

}  // namespace fp4::gpu
