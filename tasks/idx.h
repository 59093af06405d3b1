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
  double mean = 0, deviation = 1;  // of the bytes
  std::vector<float> images;       // [count, pixels]
  std::vector<int32_t> labels;
};

/// Where the first image begins in a file of images.
inline constexpr int64_t idx_image_bytes = 16;

/// A pixel as the trainer sees it.
inline float standardised(uint8_t byte, double mean, double deviation) {
  return static_cast<float>((byte - mean) / deviation);
}

/// Throws Error for files that are absent, truncated, of another type, or do not belong together.
IdxImages read_idx(const std::string& images, const std::string& labels);

}  // namespace fp4::tasks
