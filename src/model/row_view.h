// Rows of a tensor in another order than the file has them (ModelTensor::is_turned).
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "src/model/weight_reader.h"

namespace fp4 {

// [E, in, out] as rows of [E, out, in]: panels of at most 32 MB of float32 are read as the file has them and turned.
// Copies of a reader share them; two panels are held, for threads on both sides of an end.
class TransposedRows {
 public:
  explicit TransposedRows(const ModelTensor& tensor);
  void read(int64_t first, int64_t count, float* out);
  bool reads_anywhere() const { return inner_.reads_anywhere(); }

 private:
  using Panel = std::shared_ptr<const std::vector<float>>;
  Panel panel(int64_t number);
  Panel turned(int64_t number);

  std::mutex mutex_ = {};
  WeightReader inner_;
  int64_t rows_, cols_;      // of an expert, as they are given
  int64_t height_, panels_;  // rows of a panel, panels of an expert
  std::vector<std::pair<int64_t, Panel>> held_ = {};
};

}  // namespace fp4
