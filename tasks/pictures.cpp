#include "tasks/pictures.h"

#include <algorithm>
#include <cmath>

#include "fp4/elementary.h"
#include "src/text/byte_source.h"
#include "src/text/error.h"

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

struct Idx {
  std::vector<int64_t> sizes;
  std::vector<uint8_t> bytes;
};

Idx read(const std::string& path, int dimensions) {
  const std::string content = read_file(path);
  const std::vector<uint8_t> file(content.begin(), content.end());
  const size_t header = 4 + 4 * static_cast<size_t>(dimensions);
  if (file.size() < header || file[0] != 0 || file[1] != 0 || file[2] != 8 || file[3] != dimensions)
    throw Error(path + ": not an IDX file of unsigned bytes with " + std::to_string(dimensions) +
                " dimensions (magic 00 00 08 0" + std::to_string(dimensions) + "; compressed files must be unpacked)");
  Idx idx;
  uint64_t total = 1;
  for (int d = 0; d < dimensions; ++d) {
    const uint8_t* s = file.data() + 4 + 4 * d;
    const uint32_t size = uint32_t{s[0]} << 24 | uint32_t{s[1]} << 16 | uint32_t{s[2]} << 8 | s[3];
    idx.sizes.push_back(size);
    if (size == 0 || total > file.size() / size) throw Error(path + ": its header promises more bytes than it has");
    total *= size;
  }
  if (file.size() - header < total) throw Error(path + ": truncated");
  idx.bytes.assign(file.begin() + static_cast<std::ptrdiff_t>(header),
                   file.begin() + static_cast<std::ptrdiff_t>(header + total));
  return idx;
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

IdxImages read_idx(const std::string& images_path, const std::string& labels_path) {
  if (labels_path.empty()) throw Error("task classifier: images need labels (--labels FILE)");
  const Idx images = read(images_path, 3), labels = read(labels_path, 1);
  if (images.sizes[0] != labels.sizes[0])
    throw Error(labels_path + ": " + std::to_string(labels.sizes[0]) + " labels for " +
                std::to_string(images.sizes[0]) + " images");
  if (images.sizes[0] < 20) throw Error(images_path + ": fewer than 20 images");
  IdxImages r = {.count = images.sizes[0], .pixels = static_cast<int>(images.sizes[1] * images.sizes[2])};
  r.labels.assign(labels.bytes.begin(), labels.bytes.end());
  r.classes = *std::max_element(r.labels.begin(), r.labels.end()) + 1;
  double sum = 0, squares = 0;
  for (uint8_t b : images.bytes) sum += b, squares += double{1} * b * b;
  const double n = static_cast<double>(images.bytes.size()), mean = sum / n;
  const double deviation = std::sqrt(std::max(squares / n - mean * mean, 1e-12));
  r.images.reserve(images.bytes.size());
  for (uint8_t b : images.bytes) r.images.push_back(standardised(b, mean, deviation));
  r.mean = mean, r.deviation = deviation;
  return r;
}

}  // namespace fp4::tasks
