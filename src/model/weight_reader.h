// The values of a model's tensor, by rows, whatever scheme keeps them.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "src/backends.h"
#include "src/model/checkpoint.h"
#include "src/tensor_file/tensor_reader.h"

namespace fp4 {

// Whether the tensor has real values: FP4 weights, numbers of plain types; not integers by themselves, codes and GGUF
// types that are only listed.
bool has_values(const ModelTensor& tensor);

class WeightReader {
 public:
  // A tensor of a model. Error, naming file and tensor, when it has no values or its parts do not fit. `options` says
  // what a .npy or raw file cannot say itself.
  explicit WeightReader(const ModelTensor& tensor, const OpenOptions& options = {});

  const std::string& name() const { return name_; }  // FILE: TENSOR, opens messages
  int64_t rows() const { return rows_; }             // [product of the leading axes, last axis]
  int64_t cols() const { return cols_; }
  std::vector<std::string> notes() const;
  // Whether a copy can read other rows at the same time, in any order.
  bool reads_anywhere() const;

  // Rows [first, first + count) as float32 [count, cols()]. FP4 is decoded by the core in the scheme's spec; Q8_0 is
  // fl32(d * q).
  void read_rows(int64_t first, int64_t count, float* out, int threads = 1);
  // The largest finite magnitude of these rows; 16-bit numbers are not widened for it.
  float finite_amax(int64_t first, int64_t count, int threads = 1);

 private:
  void read_parts(int64_t first, int64_t count, float* out, int threads);
  void read_codes(int64_t first, int64_t count);
  void read_blocks(int64_t first, int64_t count);

  std::string name_;
  int64_t rows_ = 0, cols_ = 0;
  const CheckpointScheme* scheme_ = nullptr;
  GgufValues blocks_ = GgufValues::plain;
  std::optional<TensorReader> codes_{}, scales_{};  // of a scheme; codes_ alone: a plain tensor
  Bytes gguf_{};
  std::uint64_t gguf_offset_ = 0, gguf_row_bytes_ = 0;
  std::vector<float> factors_{1.0f};  // g of equal runs of rows
  Dispatcher backend_{};
  Quantized q_{};
  std::vector<unsigned char> stored_{};
  std::vector<float> values_{};
};

}  // namespace fp4
