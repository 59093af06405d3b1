#include "sim/train/example_pool.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "fp4/elementary.h"

namespace fp4::sim {

std::vector<int32_t> permutation(int n, DataSource source) {
  std::vector<int32_t> order(static_cast<size_t>(n));
  for (int i = 0; i < n; ++i) order[static_cast<size_t>(i)] = i;
  constexpr int chunk = 1024;  // draws at a time
  uint32_t words[chunk];
  const Kernels& k = kernels();
  for (int i = n - 1; i > 0; --i) {
    const int draw = n - 1 - i;
    if (draw % chunk == 0)
      k.philox(words, static_cast<uint64_t>(draw / 4), chunk / 4, source.seed, source.stream(), source.step);
    // Multiply-shift instead of a division: uniform to 2^-32 * n.
    const uint64_t j = (uint64_t{words[draw % chunk]} * static_cast<uint64_t>(i + 1)) >> 32;
    std::swap(order[static_cast<size_t>(i)], order[j]);
  }
  return order;
}

std::vector<float> channel_factors(int channels, double strength, DataSource source) {
  std::vector<float> f = source.normals(channels);
  double squares = 0;
  for (float& x : f) {
    x = elementary::exp(static_cast<float>(strength) * x);
    squares += static_cast<double>(x) * static_cast<double>(x);
  }
  const float rms = static_cast<float>(std::sqrt(squares / channels));
  for (float& x : f) x /= rms;
  return f;
}

void in_pieces(int64_t count, const std::function<bool()>& stop,
               const std::function<void(int64_t first, int64_t n)>& make) {
  constexpr int64_t piece = 1024;  // milliseconds of work
  for (int64_t first = 0; first < count; first += piece) {
    if (stop && stop()) throw DataStopped();
    make(first, std::min(piece, count - first));
  }
}

std::vector<float> token_weights(int64_t n, double t, DataSource source, const std::function<bool()>& stop) {
  std::vector<float> weights;
  weights.reserve(static_cast<size_t>(n));
  const float s = static_cast<float>(t), mean = static_cast<float>(t * t / 2);
  in_pieces(n, stop, [&](int64_t first, int64_t count) {
    weights.resize(static_cast<size_t>(first + count));
    source.normals(weights.data() + first, first, count);
    for (int64_t i = first; i < first + count; ++i) {
      float& weight = weights[static_cast<size_t>(i)];
      weight = elementary::exp(s * weight - mean);
    }
  });
  return weights;
}

}  // namespace fp4::sim
