#include <algorithm>

#include "src/model/weight_reader.h"

namespace fp4 {
namespace {

constexpr int64_t panel_bytes = int64_t{32} << 20;
constexpr int64_t window_bytes = int64_t{1} << 20;

ModelTensor as_stored(ModelTensor tensor) {
  tensor.is_turned = false;
  std::swap(tensor.shape[1], tensor.shape[2]);
  return tensor;
}

}  // namespace

TransposedRows::TransposedRows(const ModelTensor& tensor)
    : inner_(as_stored(tensor)),
      rows_(static_cast<int64_t>(tensor.shape[1])),
      cols_(static_cast<int64_t>(tensor.shape[2])) {
  panels_ = std::max<int64_t>(1, (4 * rows_ * cols_ + panel_bytes - 1) / panel_bytes);
  height_ = std::max<int64_t>(1, (rows_ + panels_ - 1) / panels_);
  panels_ = (rows_ + height_ - 1) / height_;
}

void TransposedRows::read(int64_t first, int64_t count, float* out) {
  while (count > 0) {
    const int64_t expert = first / rows_, row = first % rows_, in_expert = row / height_;
    const int64_t begin = in_expert * height_, end = std::min(begin + height_, rows_);
    const int64_t part = std::min(count, end - row);
    const Panel held = panel(expert * panels_ + in_expert);
    std::copy_n(held->begin() + (row - begin) * cols_, part * cols_, out);
    out += part * cols_;
    first += part;
    count -= part;
  }
}

TransposedRows::Panel TransposedRows::panel(int64_t number) {
  const std::scoped_lock lock(mutex_);
  for (const auto& [held, panel] : held_)
    if (held == number) return panel;
  if (held_.size() > 1) held_.erase(held_.begin());
  held_.emplace_back(number, turned(number));
  return held_.back().second;
}

TransposedRows::Panel TransposedRows::turned(int64_t number) {
  const int64_t expert = number / panels_, begin = number % panels_ * height_;
  const int64_t height = std::min(height_, rows_ - begin), tile = 16;
  const int64_t band = std::max<int64_t>(1, window_bytes / (4 * rows_));
  auto panel = std::make_shared<std::vector<float>>(static_cast<size_t>(height * cols_));
  std::vector<float> stored(static_cast<size_t>(band * rows_));
  for (int64_t at = 0; at < cols_; at += band) {
    const int64_t part = std::min(band, cols_ - at);
    inner_.read_rows(expert * cols_ + at, part, stored.data(), 1);
    for (int64_t j = 0; j < height; j += tile)
      for (int64_t i = 0; i < part; ++i)
        for (int64_t k = j; k < std::min(j + tile, height); ++k)
          (*panel)[static_cast<size_t>(k * cols_ + at + i)] = stored[static_cast<size_t>(i * rows_ + begin + k)];
  }
  return panel;
}

}  // namespace fp4
