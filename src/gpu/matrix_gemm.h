// fp32_block on the integer matrix units:
//   acc <- RN32(acc + 2^(ea+eb-256) * D),  D = sum over the block of (2a)(2b), an integer below 2^22 in magnitude.
// Powers of two (`power`): the 32-bit sum starts at the bits of the float 1.5*2^23 * 2^(ea+eb-256), so after the
// product its BITS are that float plus D*2^(ea+eb-256); subtracting the start is exact and adding the difference is the
// one rounding. No convert, no multiply. Valid for 107 <= ea+eb <= 360, where the start is a normal number (other
// elements: 2^q for 2^-2, q the sum of both quanta, moves these numbers); other tiles are left out (TileRule). Scales
// with mantissa (`mantissa`): float(D)*(sA*sB) is exact while the bits of D, sA and sB together are at most 24 (NVFP4:
// 12 + 4 + 4), then one addition.
#pragma once

#include "src/gpu/matrix_tile.h"
#include "src/gpu/matrix_unit.h"

namespace fp4::gpu {

template <class Unit, ScaleMode mode, int halves>
struct MatrixGemm {
  static constexpr int groups_at_once = 2;
  static constexpr int shared_words = matrix_shared_words;
  using Registers = PerThread<Fragments<Unit>, group_threads>;

  PlainGemm plain;  // operands, finish, output
  Expanded a;
  Expanded b;
  TileRule rule;  // power only

  FP4_HD void operator()(Group group, int64_t number, uint32_t* shared) const {
    const int64_t across = plain.groups_across(matrix_tile);
    const int64_t tile_a = number / across;
    const int64_t tile_b = number % across;
    if (mode == ScaleMode::power && rule.kind(tile_a, tile_b) != TileKind::matrix) return;
    const Layout at = {shared, shared + words_of_values, shared + 2 * words_of_values,
                       shared + 2 * words_of_values + words_of_scales};
    Registers registers;
    for (int64_t k = 0; k < a.padded_k; k += matrix_k) {
      load(group, a, tile_a * matrix_tile, k, at.values_a, at.words_a, 0);
      load(group, b, tile_b * matrix_tile, k, at.values_b, at.words_b, offset_of_b());
      group.barrier();
      group.for_each_warp(Unit::lanes, [&](int warp) { multiply_chunk(warp, at, registers); });
      group.barrier();
    }
    const float factor = finish_factor(plain);
    group.for_each_warp(Unit::lanes, [&](int warp) {
      registers.for_each_lane(warp * Unit::lanes, [&](int lane, Fragments<Unit>& f) {
        for_outputs<Unit>(plain, tile_a, tile_b, warp, lane, [&](int64_t row, int64_t col, int m, int n, int v) {
          plain.c[row * plain.b.rows + col] = canonical(f.acc[m][n][v] * factor);
        });
      });
    });
  }

 private:
  struct Layout {
    uint32_t* values_a;
    uint32_t* values_b;
    uint32_t* words_a;
    uint32_t* words_b;
  };

  // What a word of b gets besides: the rest of the start's bits, added modulo 2^32; mantissa mode multiplies instead.
  FP4_HD uint32_t offset_of_b() const {
    return mode == ScaleMode::power ? 0x400000u - (static_cast<uint32_t>(rule.start_bias()) << 23) : 0u;
  }
  FP4_HD void load(Group group, const Expanded& e, int64_t first, int64_t k, uint32_t* values, uint32_t* words,
                   uint32_t offset) const {
    constexpr bool is_power = mode == ScaleMode::power;
    load_values(group, e.values, e.rows, e.padded_k, first, k, values);
    constexpr int run = unit_k / halves;
    load_words<matrix_k / run>(group, e.words, e.rows, first, k / run, is_power ? 0xFF800000u : 0xFFFFFFFFu,
                               is_power ? neutral_exponent << 23 : 0u, offset, words);
  }

  // One column of instructions after the other: few fragments of b live at a time, so that 128 registers do.
  FP4_HD void multiply_chunk(int warp, const Layout& at, Registers& registers) const {
    const int first = warp * Unit::lanes;
    FP4_NO_UNROLL
    for (int step = 0; step < matrix_k / unit_k; ++step) {
      registers.for_each_lane(first, [&](int lane, Fragments<Unit>& f) {
        FP4_UNROLL
        for (int m = 0; m < Unit::tiles_m; ++m) {
          FP4_UNROLL
          for (int j = 0; j < Unit::words_a; ++j) {
            const int row = first_m<Unit>(warp) + m * Unit::m + Unit::row_a(lane, j);
            f.a[m][j] = at.values_a[row * row_words + (step * unit_k + Unit::byte_a(lane, j)) / 4];
          }
        }
      });
      for (int half = 0; half < halves; ++half) {
        const int run = step * halves + half;
        load_words_a(warp, at.words_a + run * matrix_tile, registers);
        FP4_UNROLL
        for (int n = 0; n < Unit::tiles_n; ++n) {
          if (n % 4 == 0) Unit::hold_reads();
          load_b(warp, n, step, at.values_b, at.words_b + run * matrix_tile, registers);
          FP4_UNROLL
          for (int m = 0; m < Unit::tiles_m; ++m) one_product(first, m, n, halves == 1 ? both_halves : half, registers);
        }
      }
    }
  }
  FP4_HD void load_words_a(int warp, const uint32_t* words, Registers& registers) const {
    registers.for_each_lane(warp * Unit::lanes, [&](int lane, Fragments<Unit>& f) {
      FP4_UNROLL
      for (int m = 0; m < Unit::tiles_m; ++m) {
        FP4_UNROLL
        for (int r = 0; r < Fragments<Unit>::rows_d; ++r) {
          f.word_a[m][r] = words[first_m<Unit>(warp) + m * Unit::m + Unit::row_d(lane, r * Unit::cols_d)];
        }
      }
    });
  }
  FP4_HD void load_b(int warp, int n, int step, const uint32_t* values, const uint32_t* words,
                     Registers& registers) const {
    registers.for_each_lane(warp * Unit::lanes, [&](int lane, Fragments<Unit>& f) {
      FP4_UNROLL
      for (int j = 0; j < Unit::words_b; ++j) {
        const int row = first_n<Unit>(warp) + n * Unit::n + Unit::row_b(lane);
        f.b[j] = values[row * row_words + (step * unit_k + Unit::byte_b(lane, j)) / 4];
      }
      FP4_UNROLL
      for (int c = 0; c < Unit::cols_d; ++c) {
        f.word_b[c] = words[first_n<Unit>(warp) + n * Unit::n + Unit::col_d(lane, c)];
      }
    });
  }

  // One matrix instruction and the one rounding of its outputs.
  FP4_HD void one_product(int first, int m, int n, int half, Registers& registers) const {
    registers.for_each_lane(first, [&](int, Fragments<Unit>& f) {
      FP4_UNROLL
      for (int v = 0; v < 4; ++v) {
        f.d[v] = mode == ScaleMode::power ? static_cast<int32_t>(f.word_of_a(m, v) + f.word_of_b(v)) : 0;
      }
    });
    Unit::multiply(registers, first, m, half);
    [[maybe_unused]] const float quantum = power_of_two(rule.quantum_log2);
    registers.for_each_lane(first, [&](int, Fragments<Unit>& f) {
      FP4_UNROLL
      for (int v = 0; v < 4; ++v) {
        float product = 0.0f;
        if constexpr (mode == ScaleMode::power) {
          product = float_of(static_cast<uint32_t>(f.d[v])) - float_of(f.word_of_a(m, v) + f.word_of_b(v));
        } else {
          product = static_cast<float>(f.d[v]) * quantum * (float_of(f.word_of_a(m, v)) * float_of(f.word_of_b(v)));
        }
        f.acc[m][n][v] = f.acc[m][n][v] + product;
      }
    });
  }
};

}  // namespace fp4::gpu
