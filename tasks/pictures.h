// Decides: small pictures, by formula or from the user's files.
//   formula  per class 4 straight strokes between random points (margin 1), profile exp(-2 d^2) of the distance to the
//            nearest stroke; an image is that picture shifted by -1..1 in x and y, times U(.5, 1.5), plus noise
//   file     IDX (MNIST's format): big-endian magic 00 00 08 nd, nd sizes, then bytes. Pixels are standardised by the
//            mean and deviation of the whole file
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tasks/task_data.h"

namespace fp4::tasks {

class Glyphs {
 public:
  Glyphs(int classes, int side, uint64_t data_seed);

  /// Images and labels of examples first .. first + n - 1 of a data set; noise = standard deviation per pixel.
  void examples(float* images, int32_t* labels, int64_t first, int64_t n, DataSource choices, DataSource noise,
                float noise_sd) const;
  int pixels() const { return side_ * side_; }

 private:
  int classes_, side_;
  std::vector<float> pictures_;  // [class][shift y][shift x][pixel], shifts 0..2 standing for -1..1
};

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
