// fp32_block where no order of the sums rounds (TileKind::exact), on the chip's floating-point matrix units at their
// full rate. Operands are whole numbers of quanta: bf16 made by DecodeToBf16, or e2m1 codes with one exponent per 32
// relative to the tile's lowest, made by PackCodes. The sum is a whole number below 2^24; one power of two makes it the
// result.
#pragma once

#include "src/gpu/exact_unit.h"
#include "src/gpu/matrix_tile.h"

namespace fp4::gpu {

// Operands of a unit that scales: packed codes [rows, row_bytes], zero beyond K, and their exponents, 127 standing for
// the tile's lowest. One thread per row and run of 32.
struct PackCodes {
  static constexpr int shared_words = 1;
  static constexpr int groups_at_once = 1;
  static constexpr int run = 32;
  Operand operand;
  Expanded e;  // runs of 32
  uint8_t* codes = nullptr;
  uint32_t* exponents = nullptr;  // [row_bytes / 16, rows]
  int64_t row_bytes = 0;          // a multiple of 128: 256 codes

  FP4_HD int64_t runs() const { return row_bytes * 2 / run; }
  FP4_HD void operator()(Group group, int64_t number, uint32_t*) const {
    group.for_each(group_threads, [&](int64_t thread) {
      const int64_t i = number * group_threads + thread;
      if (i >= operand.rows * runs()) return;
      const int64_t row = i / runs();
      const int64_t j = i % runs();
      auto* to = reinterpret_cast<uint32_t*>(codes + row * row_bytes + j * run / 2);
      for (int word = 0; word < run / 8; ++word) {
        uint32_t packed = 0;
        for (int n = 0; n < 8; ++n) {
          const int64_t k = j * run + word * 8 + n;
          if (k < operand.cols) packed |= operand.code(row, k) << (4 * n);
        }
        to[word] = packed;
      }
      const uint32_t word = j < e.runs() ? e.words[j * e.rows + row] : 0u;
      const TileFacts& f = e.facts[row / matrix_tile];
      const bool is_zero = (word & 0x7FFFFFu) == 0;
      exponents[j * operand.rows + row] =
          is_zero ? neutral_exponent : neutral_exponent + (word >> 23) - static_cast<uint32_t>(f.lowest_used);
    });
  }
};

template <class Unit>
struct ExactGemm {
  static constexpr int groups_at_once = 2;
  static constexpr int shared_words = matrix_shared_words;
  static constexpr int runs_at_once = 2 * matrix_k / PackCodes::run;  // of a unit that scales
  using Registers = PerThread<ExactFragments<Unit>, group_threads>;

  struct Side {
    const void* values = nullptr;
    const uint32_t* exponents = nullptr;  // of units that scale
    int64_t rows = 0;
  };
  PlainGemm plain;  // operands, finish, output
  TileRule rule;
  Side a;
  Side b;
  int64_t row_bytes = 0;  // a multiple of 128

  FP4_HD void operator()(Group group, int64_t number, uint32_t* shared) const {
    const int64_t across = plain.groups_across(matrix_tile);
    const int64_t tile_a = number / across;
    const int64_t tile_b = number % across;
    if (rule.kind(tile_a, tile_b) != TileKind::exact) return;
    uint32_t* values_a = shared;
    uint32_t* values_b = shared + words_of_values;
    uint32_t* scales_a = shared + 2 * words_of_values;
    uint32_t* scales_b = scales_a + words_of_scales;
    Registers registers;
    for (int64_t k = 0; k < row_bytes; k += matrix_k) {
      load_values(group, a.values, a.rows, row_bytes, tile_a * matrix_tile, k, values_a);
      load_values(group, b.values, b.rows, row_bytes, tile_b * matrix_tile, k, values_b);
      if constexpr (Unit::has_scales) {
        const int64_t run = 2 * k / PackCodes::run;
        load_words<runs_at_once>(group, a.exponents, a.rows, tile_a * matrix_tile, run, ~0u, neutral_exponent, 0,
                                 scales_a);
        load_words<runs_at_once>(group, b.exponents, b.rows, tile_b * matrix_tile, run, ~0u, neutral_exponent, 0,
                                 scales_b);
      }
      group.barrier();
      group.for_each_warp(Unit::lanes,
                          [&](int warp) { multiply_chunk(warp, values_a, values_b, scales_a, scales_b, registers); });
      group.barrier();
    }
    // Scaled codes are multiples of 1/2, decoded ones of 1.
    const float factor = finish_factor(plain);
    const float quantum = power_of_two(rule.exact_log2(tile_a, tile_b) - (Unit::has_scales ? rule.quantum_log2 : 0));
    group.for_each_warp(Unit::lanes, [&](int warp) {
      registers.for_each_lane(warp * Unit::lanes, [&](int lane, ExactFragments<Unit>& f) {
        for_outputs<Unit>(plain, tile_a, tile_b, warp, lane, [&](int64_t row, int64_t col, int m, int n, int v) {
          const float sum = f.acc[m][n][v];
          plain.c[row * plain.b.rows + col] = canonical((sum == 0.0f ? 0.0f : sum * quantum) * factor);
        });
      });
    });
  }

 private:
  FP4_HD void multiply_chunk(int warp, const uint32_t* values_a, const uint32_t* values_b,
                             [[maybe_unused]] const uint32_t* scales_a, [[maybe_unused]] const uint32_t* scales_b,
                             Registers& registers) const {
    const int first = warp * Unit::lanes;
    for (int step = 0; step < matrix_k / Unit::step_bytes; ++step) {
      registers.for_each_lane(first, [&](int lane, ExactFragments<Unit>& f) {
        FP4_UNROLL
        for (int m = 0; m < Unit::tiles_m; ++m) {
          const int row = first_m<Unit>(warp) + m * Unit::m;
          FP4_UNROLL
          for (int j = 0; j < Unit::words_a; ++j) {
            f.a[m][j] = values_a[(row + Unit::row_a(lane, j)) * row_words +
                                 (step * Unit::step_bytes + Unit::byte_a(lane, j)) / 4];
          }
          if constexpr (Unit::has_scales) {
            f.scale_a[m] = scales_a[run_of(step, lane) * matrix_tile + row + Unit::row_a(lane, 0)];
          }
        }
      });
      FP4_UNROLL
      for (int n = 0; n < Unit::tiles_n; ++n) {
        registers.for_each_lane(first, [&](int lane, ExactFragments<Unit>& f) {
          const int row = first_n<Unit>(warp) + n * Unit::n + Unit::row_b(lane);
          FP4_UNROLL
          for (int j = 0; j < Unit::words_b; ++j) {
            f.b[j] = values_b[row * row_words + (step * Unit::step_bytes + Unit::byte_b(lane, j)) / 4];
          }
          if constexpr (Unit::has_scales) f.scale_b = scales_b[run_of(step, lane) * matrix_tile + row];
        });
        FP4_UNROLL
        for (int m = 0; m < Unit::tiles_m; ++m) Unit::multiply(registers, first, m, n);
      }
    }
  }
  FP4_HD static int run_of(int step, int lane) { return (step * Unit::step_bytes + Unit::byte_a(lane, 0)) / 16; }
};

}  // namespace fp4::gpu
