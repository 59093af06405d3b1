// C = A B of fp32 matrices as they lie, by fma in ascending k per output: heads, attention and unquantised layers. Many
// products of one shape go in one launch (the heads of all sequences). Slower than OrderedGemm, which has its operands
// in its own order.
#pragma once

#include "src/gpu/group.h"

namespace fp4::gpu {

// Element (i, j) of product number n at data[n / inner * outer_step + n % inner * inner_step + i * row + j * col].
template <class T>
struct Strided {
  T* data = nullptr;
  int64_t row = 0;
  int64_t col = 1;
  int64_t outer_step = 0;
  int64_t inner_step = 0;

  FP4_HD T* of(int64_t number, int inner) const {
    return data + number / inner * outer_step + number % inner * inner_step;
  }
};

struct StridedGemm {
  static constexpr int side = 64;  // of a group's tile of C
  static constexpr int depth = 16;
  static constexpr int padded = side + 4;  // keeps rows aligned for Four and spreads columns over the banks
  static constexpr int shared_words = 2 * depth * padded;
  static constexpr int groups_at_once = 2;
  static constexpr int each = 4;  // rows and columns of a thread
  struct State {
    static constexpr int lanes = 32;
    float acc[each][each];
  };
  using Registers = PerThread<State, group_threads>;

  Strided<float> c;
  Strided<const float> a;  // (i, k)
  Strided<const float> b;  // (k, j)
  int m = 0;
  int n = 0;
  int k = 0;
  int inner = 1;

  FP4_HD int64_t groups_of_one() const { return tiles_over(m, side) * tiles_over(n, side); }

  FP4_HD void operator()(Group group, int64_t number, uint32_t* shared) const {
    const int64_t product = number / groups_of_one();
    const int64_t tile = number % groups_of_one();
    const int64_t across = tiles_over(n, side);
    const auto top = static_cast<int>(tile / across * side);
    const auto left = static_cast<int>(tile % across * side);
    const float* of_a = a.of(product, inner);
    const float* of_b = b.of(product, inner);
    auto* tile_a = reinterpret_cast<float*>(shared);
    float* tile_b = tile_a + depth * padded;
    Registers registers;
    for (int first = 0; first < k; first += depth) {
      group.for_threads([&](int thread) {
        // Neighbouring threads read neighbouring numbers, whichever way a matrix lies.
        fetch(tile_a, thread, a.col == 1, [&](int i, int d) {
          return top + i < m && first + d < k ? of_a[(top + i) * a.row + (first + d) * a.col] : 0.0f;
        });
        fetch(tile_b, thread, b.row == 1, [&](int j, int d) {
          return left + j < n && first + d < k ? of_b[(first + d) * b.row + (left + j) * b.col] : 0.0f;
        });
      });
      group.barrier();
      group.for_threads([&](int thread) {
        State& state = registers.of(thread);
        const float* column = tile_a + thread / 16 * each;
        const float* row = tile_b + thread % 16 * each;
        FP4_UNROLL
        for (int d = 0; d < depth; ++d) {
          const Four x = *reinterpret_cast<const Four*>(column + d * padded);
          const Four y = *reinterpret_cast<const Four*>(row + d * padded);
          FP4_UNROLL
          for (int i = 0; i < each; ++i) {
            FP4_UNROLL
            for (int j = 0; j < each; ++j) state.acc[i][j] = __builtin_fmaf(x.v[i], y.v[j], state.acc[i][j]);
          }
        }
      });
      group.barrier();
    }
    float* of_c = c.of(product, inner);
    group.for_threads([&](int thread) {
      const State& state = registers.of(thread);
      FP4_UNROLL
      for (int i = 0; i < each; ++i) {
        FP4_UNROLL
        for (int j = 0; j < each; ++j) {
          const int row = top + thread / 16 * each + i;
          const int col = left + thread % 16 * each + j;
          // An exactly zero sum is +0 (fp4/gemm.h), whatever the zeros beyond K have made of it.
          if (row < m && col < n) of_c[row * c.row + col * c.col] = state.acc[i][j] + 0.0f;
        }
      }
    });
  }

 private:
  // A tile [depth][side] of value(place along the side, place along K).
  template <class Value>
  FP4_HD static void fetch(float* to, int thread, bool is_deep, const Value& value) {
    FP4_UNROLL
    for (int part = 0; part < side * depth / group_threads; ++part) {
      const int i = part * group_threads + thread;
      const int place = is_deep ? i / depth : i % side;
      const int d = is_deep ? i % depth : i / side;
      to[d * padded + place] = value(place, d);
    }
  }
};

}  // namespace fp4::gpu
