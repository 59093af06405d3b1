// IDX files (MNIST's format): big-endian magic 00 00 08 nd, nd sizes, then bytes. Pixels are standardised by the
// mean and deviation of the whole file.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace fp4::tasks {

struct IdxImages {
  int64_t count = 0;
  int pixels = 0, classes = 0;
  std::vector<float> images;  // [count, pixels]
  std::vector<int32_t> labels;
};

/// Throws Error for files that are absent, truncated, of another type, or do not belong together.
IdxImages read_idx(const std::string& images, const std::string& labels);

}  // namespace fp4::tasks
