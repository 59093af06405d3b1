// Accumulators that round a group of products, or nothing before the end, in 64-bit integers: kind `group` (exact,
// k64_rz) and kind `aligned` with dots of 16 (fused35_rz), on byte elements with 8-bit scales. A term is the dot of 16
// elements times both scales: an integer D*mA*mB (at most 18 + 8 + 8 bits) times a power of two. Terms of a tile whose
// exponents spread too far for 64 bits, and scales that are NaN, zero or subnormal, are PlainGemm's
// (TileRule::widest_spread).
#pragma once

#include "src/gpu/plain_gemm.h"

namespace fp4::gpu {

inline constexpr int wide_term = Expanded::run;  // elements of a term, 16
inline constexpr int wide_group = 64;            // elements of a group

FP4_HD constexpr int signed_byte_of(uint32_t word, int i) { return static_cast<int8_t>(word >> (8 * i)); }

// sum + the dot of four signed bytes each.
FP4_HD inline int32_t dot_of_bytes(uint32_t a, uint32_t b, int32_t sum) {
#if defined(__CUDA_ARCH__)
  return __dp4a(static_cast<int>(a), static_cast<int>(b), sum);
#else
  for (int i = 0; i < 4; ++i) sum += signed_byte_of(a, i) * signed_byte_of(b, i);
  return sum;
#endif
}

// A normal scale as 8 significant bits: significand * 2^exponent.
struct ShortScale {
  int32_t significand = 0;
  int32_t exponent = 0;
};
FP4_HD inline ShortScale short_scale(uint32_t bits) {
  return {static_cast<int32_t>((bits >> 16 & 0x7Fu) | 0x80u), static_cast<int32_t>(bits >> 23) - 134};
}

// a + b toward zero: the error of the nearest sum (Knuth) tells whether it lies beyond the exact one.
FP4_HD inline float add_toward_zero(float a, float b) {
  const float s = a + b;
  if (!is_finite(s)) return add_rounded(a, b, Rounding::toward_zero);
  const float part = s - a;
  const float error = (a - (s - part)) + (b - part);
  return error != 0.0f && is_negative(error) != is_negative(s) ? float_of(bits_of(s) - 1) : s;
}

FP4_HD inline uint64_t magnitude_of(int64_t x) {
  return x < 0 ? uint64_t{0} - static_cast<uint64_t>(x) : static_cast<uint64_t>(x);
}

// |x| * 2^shift cut toward zero, with the sign of x.
FP4_HD inline int64_t shifted(int64_t x, int shift) {
  const uint64_t m = magnitude_of(x);
  const uint64_t moved = shift >= 0 ? m << shift : (shift > -64 ? m >> -shift : 0);
  return x < 0 ? -static_cast<int64_t>(moved) : static_cast<int64_t>(moved);
}

struct WideGemm {
  static constexpr int side = 32;  // outputs of a group, both ways; a thread gives 2 x 2
  static constexpr int per_thread = 2;
  static constexpr int threads_across = side / per_thread;
  static constexpr int runs = matrix_k / wide_term;
  static constexpr int row_words = (matrix_k + 16) / 4;  // padded: eight rows lie in different banks
  static constexpr int groups_at_once = 2;
  static constexpr int shared_words = 2 * side * (row_words + runs);
  struct State {
    static constexpr int lanes = 32;
    int64_t sum[per_thread * per_thread];  // exact: all of K
    float acc[per_thread * per_thread];
  };
  using Registers = PerThread<State, group_threads>;

  PlainGemm plain;
  TileRule rule;
  Expanded a;
  Expanded b;
  int least_exponent_a = 0;  // of the scale formats: aligned terms weigh no less
  int least_exponent_b = 0;

  FP4_HD void operator()(Group group, int64_t number, uint32_t* shared) const {
    const int64_t first_row = number / plain.groups_across(side) * side;
    const int64_t first_col = number % plain.groups_across(side) * side;
    const TileFacts of_a = a.tile_facts(group, first_row / matrix_tile, shared);
    const TileFacts of_b = b.tile_facts(group, first_col / matrix_tile, shared);
    if (!rule.fits(of_a, of_b)) return plain.square(group, number, side);
    // The lowest exponent that a product of two short scales and two elements has in this tile.
    const int lowest = static_cast<int>(of_a.lowest + of_b.lowest) - 2 * 134 + rule.quantum_log2;
    uint32_t* values_b = shared + side * row_words;
    uint32_t* words_a = values_b + side * row_words;
    uint32_t* words_b = words_a + side * runs;
    Registers registers;
    for (int64_t k = 0; k < plain.a.cols; k += matrix_k) {
      load(group, a, first_row, k, shared, words_a);
      load(group, b, first_col, k, values_b, words_b);
      group.barrier();
      group.for_each(group_threads, [&](int64_t thread) {
        State& state = registers.of(static_cast<int>(thread));
        for (int64_t first = k; first < smaller<int64_t>(plain.a.cols, k + matrix_k); first += wide_group) {
          const auto j = static_cast<int>(first - k) / wide_term;
          const auto terms = static_cast<int>(
              smaller<int64_t>((plain.a.cols - first + wide_term - 1) / wide_term, wide_group / wide_term));
          FP4_UNROLL
          for (int i = 0; i < per_thread * per_thread; ++i) {
            const int r = row_of(thread, i);
            const int c = col_of(thread, i);
            const Row row = {shared + r * row_words + j * 4, words_a + r * runs + j};
            const Row col = {values_b + c * row_words + j * 4, words_b + c * runs + j};
            add_group(row, col, terms, lowest, state.sum[i], state.acc[i]);
          }
        }
      });
      group.barrier();
    }
    const float factor = plain.finish_factor();
    group.for_each(group_threads, [&](int64_t thread) {
      State& state = registers.of(static_cast<int>(thread));
      FP4_UNROLL
      for (int i = 0; i < per_thread * per_thread; ++i) {
        const int64_t row = first_row + row_of(thread, i);
        const int64_t col = first_col + col_of(thread, i);
        if (row >= plain.a.rows || col >= plain.b.rows) continue;
        const float dot = is_one_sum() ? rounded(state.sum[i], lowest, plain.accumulator.group_rounding) : state.acc[i];
        plain.store(row, col, canonical(snapped(dot, plain.accumulator.snap_log2) * factor));
      }
    });
  }

 private:
  struct Row {
    const uint32_t* values;
    const uint32_t* words;
  };
  FP4_HD static int row_of(int64_t thread, int i) {
    return static_cast<int>(thread) / threads_across + i / per_thread * threads_across;
  }
  FP4_HD static int col_of(int64_t thread, int i) {
    return static_cast<int>(thread) % threads_across + i % per_thread * threads_across;
  }
  FP4_HD bool is_one_sum() const {
    return plain.accumulator.kind == AccumulatorKind::group && plain.accumulator.group == 0;
  }
  FP4_HD static float rounded(int64_t sum, int exponent, Rounding mode) {
    return round_to_float({magnitude_of(sum), exponent, false}, sum < 0, mode);
  }

  FP4_HD static void load(Group group, const Expanded& e, int64_t first, int64_t k, uint32_t* values, uint32_t* words) {
    constexpr int per_row = matrix_k / static_cast<int>(sizeof(FourWords));
    group.for_all<side * per_row, 1>([&](int i) {
      const int r = i / per_row;
      const int c = i % per_row;
      FourWords v = {};
      if (first + r < e.rows) v = *reinterpret_cast<const FourWords*>(e.values + (first + r) * e.padded_k + k + c * 16);
      *reinterpret_cast<FourWords*>(values + r * row_words + c * 4) = v;
    });
    group.for_all<side * runs, 1>([&](int i) {
      const int r = i % side;
      const int run = i / side;
      words[r * runs + run] = first + r < e.rows ? e.words[(k / wide_term + run) * e.rows + first + r] : 0x3F800000u;
    });
  }

  // Term j of a group: its value times 2^-exponent.
  FP4_HD static int64_t term(const Row& row, const Row& col, int j, int& exponent) {
    int32_t dot = 0;
    FP4_UNROLL
    for (int w = 0; w < 4; ++w) dot = dot_of_bytes(row.values[j * 4 + w], col.values[j * 4 + w], dot);
    const ShortScale sa = short_scale(row.words[j]);
    const ShortScale sb = short_scale(col.words[j]);
    exponent = sa.exponent + sb.exponent;
    return int64_t{dot} * (sa.significand * sb.significand);
  }

  FP4_HD void add_group(const Row& row, const Row& col, int terms, int lowest, int64_t& sum, float& acc) const {
    if (plain.accumulator.kind == AccumulatorKind::aligned) {
      acc = aligned_sum(row, col, terms, acc);
      return;
    }
    int64_t group_sum = 0;
    for (int j = 0; j < terms; ++j) {
      int exponent = 0;
      const int64_t t = term(row, col, j, exponent);
      group_sum += t << (exponent + rule.quantum_log2 - lowest);
    }
    if (is_one_sum()) {
      sum += group_sum;
      return;
    }
    const float part = rounded(group_sum, lowest, plain.accumulator.group_rounding);
    acc = plain.accumulator.rounding == Rounding::toward_zero ? add_toward_zero(acc, part) : acc + part;
  }

  // As aligned_dot(): everything cut to a multiple of 2^unit below the largest weight, added exactly, rounded once.
  FP4_HD float aligned_sum(const Row& row, const Row& col, int terms, float acc) const {
    if (!is_finite(acc)) return acc;
    const auto weight = [](uint32_t bits, int least) { return larger(static_cast<int>(bits >> 23) - 127, least); };
    const Magnitude carried = exact_magnitude(acc);
    int largest = carried.is_zero() ? -126 : larger(carried.log2_floor(), -126);
    for (int j = 0; j < terms; ++j) {
      largest = larger(largest, weight(row.words[j], least_exponent_a) + weight(col.words[j], least_exponent_b));
    }
    const int unit = largest - plain.accumulator.fraction_bits;
    const auto significand = static_cast<int64_t>(carried.significand);
    int64_t sum = shifted(is_negative(acc) ? -significand : significand, carried.exponent - unit);
    for (int j = 0; j < terms; ++j) {
      int exponent = 0;
      const int64_t t = term(row, col, j, exponent);
      sum += shifted(t, exponent + rule.quantum_log2 - unit);
    }
    if (sum == 0) return 0.0f;
    const bool overflows = floor_log2(magnitude_of(sum)) + unit >= 128;
    const float result = rounded(sum, unit, overflows ? Rounding::nearest_even : plain.accumulator.rounding);
    return result == 0.0f ? 0.0f : result;  // a negative sum below 2^-149 is +0
  }
};

}  // namespace fp4::gpu
