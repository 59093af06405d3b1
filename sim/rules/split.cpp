// See split.h; the parts are multiplied in split_product.cpp.
#include "sim/rules/split.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

namespace fp4::sim {

Channels choose_channels(Arena& arena, MatrixView x, double share) {
  const int n = static_cast<int>(x.cols);
  std::vector<float> largest(static_cast<size_t>(n), 0.0f);
  for (int64_t r = 0; r < x.rows; ++r)
    for (int c = 0; c < n; ++c) {
      const float magnitude = std::isnan(x.at(r, c)) ? INFINITY : std::fabs(x.at(r, c));
      largest[static_cast<size_t>(c)] = std::max(largest[static_cast<size_t>(c)], magnitude);
    }
  const int hot_count = std::min(n - 1, static_cast<int>(std::floor(share * n + 0.5)));
  std::vector<int32_t> order(static_cast<size_t>(n));
  std::iota(order.begin(), order.end(), 0);
  std::nth_element(order.begin(), order.begin() + hot_count, order.end(), [&](int32_t a, int32_t b) {
    const float first = largest[static_cast<size_t>(a)], second = largest[static_cast<size_t>(b)];
    return first > second || (first == second && a < b);
  });
  std::sort(order.begin(), order.begin() + hot_count);
  std::sort(order.begin() + hot_count, order.end());
  int32_t* const stored = arena.take<int32_t>(n);
  std::copy(order.begin(), order.end(), stored);
  return {stored, stored + hot_count, hot_count, n - hot_count};
}

Tensor gathered_columns(Arena& arena, MatrixView x, const int32_t* index, int count) {
  const Tensor out = arena.tensor(static_cast<int>(x.rows), count);
  for (int r = 0; r < out.rows; ++r) {
    const float* const from = x.data + r * x.row_stride;
    float* const to = out.row(r);
    for (int c = 0; c < count; ++c) to[c] = from[index[c] * x.col_stride];
  }
  return out;
}

Clamped clamped(const Tape& tape, MatrixView x, double share) {
  const int rows = static_cast<int>(x.rows), cols = static_cast<int>(x.cols);
  const Clamped out = {tape.arena.tensor(rows, cols), tape.arena.tensor(rows, cols)};
  for (int r = 0; r < rows; ++r)
    for (int c = 0; c < cols; ++c) out.inside.row(r)[c] = x.at(r, c);
  const int64_t n = out.inside.size();
  std::fill(out.beyond.data, out.beyond.data + n, 0.0f);
  const auto tail = static_cast<int64_t>(std::floor(share * static_cast<double>(n)));
  if (tail == 0 || !tape.k.all_finite(out.inside.data, n)) return out;
  std::vector<float> sorted(out.inside.data, out.inside.data + n);
  std::nth_element(sorted.begin(), sorted.begin() + tail, sorted.end());
  const float low = sorted[static_cast<size_t>(tail)];
  std::nth_element(sorted.begin(), sorted.begin() + (n - 1 - tail), sorted.end());
  const float high = sorted[static_cast<size_t>(n - 1 - tail)];
  for (int64_t i = 0; i < n; ++i) {
    const float all = out.inside.data[i];
    const float kept = all < low ? low : all > high ? high : all;
    out.inside.data[i] = kept;
    out.beyond.data[i] = all - kept;
  }
  return out;
}

}  // namespace fp4::sim
