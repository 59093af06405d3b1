// The trainer's loops over rows and columns, on a device, in the orders of sim/kernels/train_kernels.h: a sum along a
// row has 16 partial lanes (element i goes to lane i mod 16, ascending) and one tree; a sum down a column goes row by
// row.
#pragma once

#include "fp4/elementary.h"
#include "src/gpu/floats.h"
#include "src/gpu/train_elements.h"

namespace fp4::gpu {

inline constexpr int row_lanes = 16;
inline constexpr int rows_of_group = group_threads / row_lanes;

// Sixteen partial sums or maxima joined as the CPU's `tree` and `tree_of_maxima`.
FP4_HD inline float tree_of_sums(const float* v) {
  float four[4];
  for (int i = 0; i < 4; ++i) four[i] = (v[i] + v[i + 8]) + (v[i + 4] + v[i + 12]);
  return (four[0] + four[2]) + (four[1] + four[3]);
}
// NaN on the right is passed over.
FP4_HD inline float larger_of(float left, float right) { return right > left ? right : left; }
FP4_HD inline float tree_of_maxima(const float* v) {
  float four[4];
  for (int i = 0; i < 4; ++i) {
    four[i] = larger_of(larger_of(v[i], v[i + 8]), larger_of(v[i + 4], v[i + 12]));
  }
  return larger_of(larger_of(four[0], four[2]), larger_of(four[1], four[3]));
}

// A matrix that a group works through by sixteen rows, a thread a lane of a row.
struct RowPart {
  int64_t rows = 0;
  int cols = 0;

  // f(row, lane, the thread's number) for the rows of the group.
  template <class F>
  FP4_HD void for_lanes(Group group, int64_t number, const F& f) const {
    group.for_threads([&](int thread) {
      const int64_t row = number * rows_of_group + thread / row_lanes;
      if (row < rows) f(row, thread % row_lanes, thread);
    });
  }
  template <class F>
  FP4_HD void for_columns(int lane, const F& f) const {
    for (int c = lane; c < cols; c += row_lanes) f(c);
  }
  // The lanes of a thread's row.
  FP4_HD static const float* lanes_of(const float* shared, int thread) {
    return shared + thread / row_lanes * row_lanes;
  }
};

// p = softmax(logits) and row_loss = -ln p[label]. With `causal` a tile of [cols, cols] after the other, in place:
// softmax(factor * p) of the columns up to the row's number in its tile, and no loss. A loss needs p apart from the
// logits, whose label's entry it reads last.
struct SoftmaxRows {
  static constexpr int shared_words = 2 * group_threads;
  static constexpr int groups_at_once = 4;
  RowPart part;
  float* p = nullptr;
  float* row_loss = nullptr;
  const float* logits = nullptr;
  const int32_t* labels = nullptr;
  bool is_causal = false;
  float factor = 1.0f;

  FP4_HD void operator()(Group group, int64_t number, uint32_t* shared) const {
    auto* maxima = reinterpret_cast<float*>(shared);
    float* sums = maxima + group_threads;
    part.for_lanes(group, number, [&](int64_t row, int lane, int thread) {
      const float* x = logits + row * part.cols;
      const int end = end_of(row);
      float top = x[0];
      for (int c = lane; c < end; c += row_lanes) top = larger_of(top, value(row, c));
      maxima[thread] = top;
    });
    group.barrier();
    part.for_lanes(group, number, [&](int64_t row, int lane, int thread) {
      const float top = tree_of_maxima(RowPart::lanes_of(maxima, thread));
      const int end = end_of(row);
      float sum = 0.0f;
      part.for_columns(lane, [&](int c) {
        const float shifted = c < end ? value(row, c) - top : 0.0f;
        const float e = c < end ? elementary::exp(is_causal ? factor * shifted : shifted) : 0.0f;
        p[row * part.cols + c] = e;
        sum = sum + e;
      });
      sums[thread] = sum;
    });
    group.barrier();
    part.for_lanes(group, number, [&](int64_t row, int lane, int thread) {
      const float total = tree_of_sums(RowPart::lanes_of(sums, thread));
      const float inverse = 1.0f / total;
      const int end = end_of(row);
      for (int c = lane; c < end; c += row_lanes) {
        p[row * part.cols + c] = p[row * part.cols + c] * inverse;
      }
      if (row_loss == nullptr || lane != 0) return;
      const float top = tree_of_maxima(RowPart::lanes_of(maxima, thread));
      row_loss[row] = elementary::log(total) - (logits[row * part.cols + labels[row]] - top);
    });
  }

 private:
  // Where a causal row's columns end: the last one in use, rounded up to sixteen.
  FP4_HD int end_of(int64_t row) const {
    const auto i = static_cast<int>(row % part.cols);
    return is_causal ? smaller(part.cols, (i / row_lanes + 1) * row_lanes) : part.cols;
  }
  FP4_HD float value(int64_t row, int c) const {
    if (is_causal && c > row % part.cols) return float_of(0xFF800000u);  // -inf
    return logits[row * part.cols + c];
  }
};

// In place of dp: factor * p * (dp - sum_j dp p).
struct SoftmaxBackward {
  static constexpr int shared_words = group_threads;
  static constexpr int groups_at_once = 4;
  RowPart part;
  float* dp = nullptr;
  const float* p = nullptr;
  float factor = 1.0f;

  FP4_HD void operator()(Group group, int64_t number, uint32_t* shared) const {
    auto* sums = reinterpret_cast<float*>(shared);
    part.for_lanes(group, number, [&](int64_t row, int lane, int thread) {
      float sum = 0.0f;
      part.for_columns(lane, [&](int c) {
        const int64_t at = row * part.cols + c;
        sum = sum + dp[at] * p[at];
      });
      sums[thread] = sum;
    });
    group.barrier();
    part.for_lanes(group, number, [&](int64_t row, int lane, int thread) {
      const float mean = tree_of_sums(RowPart::lanes_of(sums, thread));
      part.for_columns(lane, [&](int c) {
        const int64_t at = row * part.cols + c;
        dp[at] = factor * (p[at] * (dp[at] - mean));
      });
    });
  }
};

// row_loss = mean over columns of (y - target)^2.
struct SquareLoss {
  static constexpr int shared_words = group_threads;
  static constexpr int groups_at_once = 4;
  RowPart part;
  float* row_loss = nullptr;
  const float* y = nullptr;
  const float* target = nullptr;

  FP4_HD void operator()(Group group, int64_t number, uint32_t* shared) const {
    auto* sums = reinterpret_cast<float*>(shared);
    part.for_lanes(group, number, [&](int64_t row, int lane, int thread) {
      float sum = 0.0f;
      part.for_columns(lane, [&](int c) {
        const float d = y[row * part.cols + c] - target[row * part.cols + c];
        sum = sum + d * d;
      });
      sums[thread] = sum;
    });
    group.barrier();
    part.for_lanes(group, number, [&](int64_t row, int lane, int thread) {
      if (lane != 0) return;
      row_loss[row] = tree_of_sums(RowPart::lanes_of(sums, thread)) / static_cast<float>(part.cols);
    });
  }
};

// y = x * r * gain with r = 1 / sqrt(mean(x^2) + eps); with `dy` its backward, y being dx.
struct RmsNormRows {
  static constexpr int shared_words = group_threads;
  static constexpr int groups_at_once = 4;
  RowPart part;
  float* y = nullptr;
  float* r = nullptr;
  const float* x = nullptr;
  const float* gain = nullptr;
  const float* dy = nullptr;
  float eps = 0.0f;

  FP4_HD void operator()(Group group, int64_t number, uint32_t* shared) const {
    auto* sums = reinterpret_cast<float*>(shared);
    part.for_lanes(group, number, [&](int64_t row, int lane, int thread) {
      const float* a = x + row * part.cols;
      float sum = 0.0f;
      if (dy == nullptr) {
        part.for_columns(lane, [&](int c) { sum = sum + a[c] * a[c]; });
      } else {
        const float* d = dy + row * part.cols;
        part.for_columns(lane, [&](int c) { sum = sum + (d[c] * gain[c]) * a[c]; });
      }
      sums[thread] = sum;
    });
    group.barrier();
    part.for_lanes(group, number, [&](int64_t row, int lane, int thread) {
      const float sum = tree_of_sums(RowPart::lanes_of(sums, thread));
      const float* a = x + row * part.cols;
      float* to = y + row * part.cols;
      if (dy == nullptr) {
        const float s = 1.0f / square_root(sum / static_cast<float>(part.cols) + eps);
        if (lane == 0) r[row] = s;
        part.for_columns(lane, [&](int c) { to[c] = (a[c] * s) * gain[c]; });
      } else {
        const float* d = dy + row * part.cols;
        const float s = r[row];
        const float k = s * s * s * sum / static_cast<float>(part.cols);
        part.for_columns(lane, [&](int c) { to[c] = s * (d[c] * gain[c]) - k * a[c]; });
      }
    });
  }
};

enum class ColumnTerm : uint8_t { value, product, gain };

// Sums down the columns of x [rows, cols], rows ascending: of x, of x y, or of x (y s[row]). A group has `width`
// columns; one warp adds a tile of rows while the others fetch the next one. With `joins` the matrix is an array of
// `count` numbers, sixteen a row, whose sixteen sums end in one by the tree: sum and dot over whole arrays, which have
// one order whatever their length (one group; 4,096 numbers take about 1,300 cycles).
struct ColumnSums {
  static constexpr int tile = 4096;
  static constexpr int widest = 32;
  static constexpr int shared_words = 2 * tile + widest;
  static constexpr int groups_at_once = 2;
  ColumnTerm term = ColumnTerm::value;
  Floats<const float> x;
  const float* y = nullptr;
  const float* s = nullptr;
  int64_t rows = 0;
  int64_t cols = 0;
  int64_t count = 0;  // rows * cols, or less where the last row is not full
  int width = widest;
  bool joins = false;
  Floats<float> out;  // [cols], or [1]

  FP4_HD void operator()(Group group, int64_t number, uint32_t* shared) const {
    auto* tiles = reinterpret_cast<float*>(shared);
    float* sums = tiles + 2 * tile;
    const int64_t first = number * width;
    const int height = tile / width;
    const int64_t tiles_down = tiles_over(rows, height);
    group.for_threads([&](int thread) {
      if (thread < width) sums[thread] = 0.0f;
      fetch(tiles, 0, first, thread, group_threads);
    });
    group.barrier();
    for (int64_t t = 0; t < tiles_down; ++t) {
      const float* own = tiles + t % 2 * tile;
      const auto terms = static_cast<int>(smaller<int64_t>(height, rows - t * height));
      group.for_threads([&](int thread) {
        if (thread < widest) {
          if (thread < width) add(own, terms, t, first, thread, sums);
        } else {
          fetch(tiles + (t + 1) % 2 * tile, t + 1, first, thread - widest, group_threads - widest);
        }
      });
      group.barrier();
    }
    if (joins) {
      group.for_each(1, [&](int64_t) { out.set(0, tree_of_sums(sums)); });
    } else {
      group.for_each(width, [&](int64_t i) {
        if (first + i < cols) out.set(first + i, sums[i]);
      });
    }
  }

 private:
  FP4_HD void fetch(float* to, int64_t t, int64_t first, int thread, int threads) const {
    const int64_t top = t * (tile / width);
    if (top >= rows) return;
    for (int i = thread; i < tile; i += threads) {
      const int64_t row = top + i / width;
      const int64_t col = first + i % width;
      const int64_t at = row * cols + col;
      if (row < rows && col < cols && at < count) to[i] = value(at, row);
    }
  }
  FP4_HD float value(int64_t at, int64_t row) const {
    switch (term) {
      case ColumnTerm::value: return x.at(at);
      case ColumnTerm::product: return x.at(at) * y[at];
      case ColumnTerm::gain: return x.at(at) * (y[at] * s[row]);
    }
    return 0.0f;
  }
  FP4_HD void add(const float* own, int terms, int64_t t, int64_t first, int thread, float* sums) const {
    const int64_t top = t * (tile / width);
    if ((top + terms - 1) * cols + first + thread >= count) --terms;  // the last row may lack this column
    float sum = sums[thread];
    FP4_UNROLL_16
    for (int r = 0; r < terms; ++r) sum = sum + own[r * width + thread];
    sums[thread] = sum;
  }
};

}  // namespace fp4::gpu
