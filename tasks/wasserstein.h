// Decides: how far samples are from a data set: the sliced Wasserstein-2 distance, the root of the mean squared
// difference of sorted projections onto fixed random directions.
#pragma once

#include <vector>

#include "sim/train/example_pool.h"

namespace fp4::tasks {

class SlicedDistance {
 public:
  SlicedDistance() = default;
  /// `data`: [count, width]; `directions` unit vectors drawn from `source`.
  SlicedDistance(const std::vector<float>& data, int width, int directions, sim::DataSource source);

  /// `samples`: as many rows as the data has. Infinite when one of them is not finite.
  double operator()(const std::vector<float>& samples) const;

 private:
  // Column by column, so that projections are sums of whole columns.
  std::vector<float> columns_of(const std::vector<float>& rows) const;
  void sorted_projection(float* out, const std::vector<float>& columns, int direction) const;

  int width_ = 0, directions_ = 0;
  size_t count_ = 0;
  std::vector<float> direction_;   // [directions, width]
  std::vector<float> projection_;  // [directions, count]: the data along each, ascending
};

/// Ascending order of finite numbers, by radix: three passes of eleven bits.
void sort_floats(float* x, size_t n);

}  // namespace fp4::tasks
