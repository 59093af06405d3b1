#include "src/model/row_view.h"

#include <fmt/format.h>

#include <algorithm>

#include "src/text/error.h"

namespace fp4 {
namespace {

constexpr int64_t panel_bytes = int64_t{32} << 20;
constexpr int64_t window_bytes = int64_t{1} << 20;

ModelTensor as_stored(ModelTensor tensor) {
  tensor.view = {};
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

// The rows of a view, which are made of rows of this reader, of its members or of nothing in the file.
void WeightReader::read_viewed(int64_t first, int64_t count, float* out, int threads) {
  if (!view_->values.empty()) {
    std::copy_n(view_->values.begin() + first * cols_, count * cols_, out);
  } else if (!members_.empty()) {
    const int64_t each = rows_ / static_cast<int64_t>(members_.size());
    for (int64_t done = 0; done < count;) {
      const int64_t row = first + done, part = std::min(count - done, each - row % each);
      members_[static_cast<size_t>(row / each)].read_rows(row % each, part, out + done * cols_, threads);
      done += part;
    }
  } else if (transposed_ != nullptr) {
    transposed_->read(first, count, out);
  } else if (view_->heads > 0) {
    // A bias of one row has its heads along the columns.
    const bool is_bias = rows_ == 1;
    const int64_t size = (is_bias ? cols_ : rows_) / view_->heads;
    if (is_bias) {
      std::vector<float> stored(static_cast<size_t>(cols_));
      read_stored(0, 1, stored.data(), threads);
      for (int64_t k = 0; k < cols_; ++k) out[k] = stored[static_cast<size_t>(row_of_pairs(k, size))];
    } else {
      for (int64_t i = 0; i < count; ++i) read_stored(row_of_pairs(first + i, size), 1, out + i * cols_, threads);
    }
  } else {
    read_stored(first, count, out, threads);
  }
  if (view_->add != 0)
    for (int64_t i = 0; i < count * cols_; ++i) out[i] += view_->add;
}

const Quantized& WeightReader::read_quantized_viewed(int64_t first, int64_t count) {
  std::vector<uint8_t> codes, scales;
  const auto take = [&](const Quantized& q) {
    codes.insert(codes.end(), q.codes.begin(), q.codes.end());
    scales.insert(scales.end(), q.scales.begin(), q.scales.end());
  };
  if (transposed_ != nullptr) throw Error(name_ + ": blocks cannot be transposed as they are");
  if (!members_.empty()) {
    const int64_t each = rows_ / static_cast<int64_t>(members_.size());
    for (int64_t done = 0; done < count;) {
      const int64_t row = first + done, part = std::min(count - done, each - row % each);
      take(members_[static_cast<size_t>(row / each)].read_quantized(row % each, part));
      done += part;
    }
  } else {
    const int64_t size = view_->heads > 0 ? rows_ / view_->heads : 1;
    for (int64_t i = 0; i < count; ++i)
      take(read_quantized_stored(view_->heads > 0 ? row_of_pairs(first + i, size) : first + i, 1));
  }
  q_.rows = count;
  q_.cols = cols_;
  q_.geometry = geometry_of(q_.spec, count, cols_);
  q_.codes = std::move(codes);
  q_.scales = std::move(scales);
  return q_;
}

void WeightReader::open_view(const ModelTensor& tensor) {
  view_ = std::make_shared<const RowView>(tensor.view);
  if (view_->transposed) transposed_ = std::make_shared<TransposedRows>(tensor);
  for (const ModelTensor& member : view_->members) members_.emplace_back(member);
  const int64_t heads = view_->heads, along = rows_ == 1 ? cols_ : rows_;
  if (heads > 0 && (along % heads != 0 || along / heads % 2 != 0))
    throw Error(fmt::format("{}: {} rows are no {} heads of pairs", name_, along, heads));
  if (members_.empty()) return;
  factors_.clear();
  factor_ends_.clear();
  const int64_t each = rows_ / static_cast<int64_t>(members_.size());
  for (size_t i = 0; i < members_.size(); ++i) {
    factors_.push_back(members_[i].factors().front());
    factor_ends_.push_back(static_cast<int64_t>(i + 1) * each);
  }
}

}  // namespace fp4
