#include "tasks/glyphs.h"

#include <algorithm>
#include <cmath>

#include "fp4/elementary.h"

namespace fp4::tasks {

namespace {

constexpr int strokes = 4;

// Squared distance of (x, y) from the segment a-b.
float squared_distance(float x, float y, const float* a, const float* b) {
  const float dx = b[0] - a[0], dy = b[1] - a[1];
  const float length = dx * dx + dy * dy;
  const float along = length > 0 ? ((x - a[0]) * dx + (y - a[1]) * dy) / length : 0.0f;
  const float t = std::min(1.0f, std::max(0.0f, along));
  const float ex = x - (a[0] + t * dx), ey = y - (a[1] + t * dy);
  return ex * ex + ey * ey;
}

}  // namespace

Glyphs::Glyphs(int classes, int side, uint64_t data_seed) : classes_(classes), side_(side) {
  std::vector<float> points = source(data_seed, DataSet::shapes).uniforms(int64_t{classes} * strokes * 4);
  for (float& p : points) p = 1.0f + p * static_cast<float>(side - 3);  // pixel centres 1 .. side - 2
  pictures_.resize(static_cast<size_t>(classes) * 9 * static_cast<size_t>(pixels()));
  size_t at = 0;
  for (int c = 0; c < classes; ++c)
    for (int shift = 0; shift < 9; ++shift)
      for (int y = 0; y < side; ++y)
        for (int x = 0; x < side; ++x) {
          const float px = static_cast<float>(x - (shift % 3 - 1)), py = static_cast<float>(y - (shift / 3 - 1));
          float nearest = 1e9f;
          for (int s = 0; s < strokes; ++s) {
            const float* p = points.data() + (c * strokes + s) * 4;
            nearest = std::min(nearest, squared_distance(px, py, p, p + 2));
          }
          pictures_[at++] = elementary::exp(-2.0f * nearest);
        }
}

void Glyphs::examples(float* images, int32_t* labels, int64_t first, int64_t n, DataSource choices, DataSource noise,
                      float noise_sd) const {
  const int64_t size = pixels();
  std::vector<float> u(static_cast<size_t>(n * 4));  // class, shift x, shift y, brightness
  choices.uniforms(u.data(), first * 4, n * 4);
  noise.normals(images, first * size, n * size);
  for (int64_t i = 0; i < n; ++i) {
    const float* v = u.data() + i * 4;
    const int label = static_cast<int>(v[0] * static_cast<float>(classes_));
    const int shift = static_cast<int>(v[1] * 3.0f) + 3 * static_cast<int>(v[2] * 3.0f);
    const float* picture = pictures_.data() + (int64_t{label} * 9 + shift) * size;
    const float brightness = 0.5f + v[3];
    labels[i] = label;
    for (int64_t p = 0; p < size; ++p) images[i * size + p] = brightness * picture[p] + noise_sd * images[i * size + p];
  }
}

}  // namespace fp4::tasks
