// Decides: small pictures by formula. Per class 4 straight strokes between random points (margin 1), profile
// exp(-2 d^2) of the distance to the nearest stroke; an image is that picture shifted by -1..1 in x and y, times
// U(.5, 1.5), plus noise.
#pragma once

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

}  // namespace fp4::tasks
