#include "tasks/wasserstein.h"

#include <array>
#include <cmath>
#include <limits>

#include "fp4/bits.h"

namespace fp4::tasks {

void sort_floats(float* x, size_t n) {
  constexpr int digit_bits = 11, digits = 3;
  constexpr uint32_t mask = (1u << digit_bits) - 1;
  // Order of the keys as unsigned integers = order of the numbers.
  const auto key_of = [](float v) {
    const uint32_t b = bits_of(v);
    return b ^ ((b >> 31) != 0 ? 0xFFFFFFFFu : 0x80000000u);
  };
  const auto number_of = [](uint32_t k) { return float_of(k ^ ((k >> 31) != 0 ? 0x80000000u : 0xFFFFFFFFu)); };
  std::vector<uint32_t> from(n), to(n);
  std::array<std::array<uint32_t, mask + 1>, digits> starts = {};
  for (size_t i = 0; i < n; ++i) {
    from[i] = key_of(x[i]);
    for (int d = 0; d < digits; ++d) ++starts[static_cast<size_t>(d)][from[i] >> (digit_bits * d) & mask];
  }
  for (auto& counts : starts) {
    uint32_t before = 0;
    for (uint32_t& c : counts) {
      const uint32_t count = c;
      c = before;
      before += count;
    }
  }
  for (int d = 0; d < digits; ++d) {
    for (const uint32_t k : from) to[starts[static_cast<size_t>(d)][k >> (digit_bits * d) & mask]++] = k;
    std::swap(from, to);
  }
  for (size_t i = 0; i < n; ++i) x[i] = number_of(from[i]);
}

SlicedDistance::SlicedDistance(const std::vector<float>& data, int width, int directions, sim::DataSource source)
    : width_(width),
      directions_(directions),
      count_(data.size() / static_cast<size_t>(width)),
      direction_(source.normals(int64_t{directions} * width)),
      projection_(static_cast<size_t>(directions) * count_) {
  const std::vector<float> columns = columns_of(data);
  for (int k = 0; k < directions; ++k) {
    float* d = direction_.data() + int64_t{k} * width;
    float norm = 0;
    for (int c = 0; c < width; ++c) norm += d[c] * d[c];
    for (int c = 0; c < width; ++c) d[c] /= std::sqrt(norm);
    sorted_projection(projection_.data() + static_cast<size_t>(k) * count_, columns, k);
  }
}

std::vector<float> SlicedDistance::columns_of(const std::vector<float>& rows) const {
  const size_t width = static_cast<size_t>(width_);
  std::vector<float> columns(rows.size());
  for (size_t i = 0; i < count_; ++i)
    for (size_t c = 0; c < width; ++c) columns[c * count_ + i] = rows[i * width + c];
  return columns;
}

void SlicedDistance::sorted_projection(float* out, const std::vector<float>& columns, int direction) const {
  for (size_t i = 0; i < count_; ++i) out[i] = 0;
  for (int c = 0; c < width_; ++c) {
    const float d = direction_[static_cast<size_t>(direction * width_ + c)];
    const float* column = columns.data() + static_cast<size_t>(c) * count_;
    for (size_t i = 0; i < count_; ++i) out[i] += d * column[i];
  }
  sort_floats(out, count_);
}

double SlicedDistance::operator()(const std::vector<float>& samples) const {
  if (!sim::kernels().all_finite(samples.data(), static_cast<int64_t>(samples.size())))
    return std::numeric_limits<double>::infinity();
  const std::vector<float> columns = columns_of(samples);
  double total = 0;
  std::vector<float> p(count_);
  for (int k = 0; k < directions_; ++k) {
    sorted_projection(p.data(), columns, k);
    const float* q = projection_.data() + static_cast<size_t>(k) * count_;
    for (size_t i = 0; i < count_; ++i) {
      const double e = static_cast<double>(p[i]) - static_cast<double>(q[i]);
      total += e * e;
    }
  }
  return std::sqrt(total / (directions_ * static_cast<double>(count_)));
}

}  // namespace fp4::tasks
