#include "tasks/idx.h"

#include <algorithm>
#include <cmath>

#include "src/text/error.h"
#include "src/text/input_file.h"

namespace fp4::tasks {

namespace {

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
