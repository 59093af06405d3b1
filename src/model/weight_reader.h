// The values of a model's tensor, by rows, whatever scheme keeps them, as rows of its shape.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "src/backends/backends.h"
#include "src/files/tensor_reader.h"
#include "src/model/model_tensors.h"
#include "src/stream/quantize_bands.h"

namespace fp4 {

// Whether the tensor has real values: FP4 and FP8 weights, numbers of plain types; not integers by themselves, codes,
// GGUF types that are only listed, and weights with a fault.
bool has_values(const ModelTensor& tensor);

class TransposedRows;

class WeightReader : public RowReader {
 public:
  // A tensor of a model. Error, naming file and tensor, when it has no values, its parts do not fit, or its factor is
  // not a finite number above 0. `options` says what a .npy or raw file cannot say itself.
  explicit WeightReader(const ModelTensor& tensor, const OpenOptions& options = {});

  const std::string& name() const { return name_; }  // FILE: TENSOR, opens messages
  int64_t rows() const override { return rows_; }    // [product of the leading axes, last axis]
  int64_t cols() const override { return cols_; }
  std::vector<std::string> notes() const;
  bool reads_anywhere() const override;
  std::unique_ptr<RowReader> copy() const override { return std::make_unique<WeightReader>(*this); }

  // FP4 is decoded in the order of operations of the scheme's owner; FP8 is fl32(q * s), Q8_0 fl32(d * q). What
  // multiplies the columns (ModelTensor::columns) multiplies these, rounded once.
  void read_rows(int64_t first, int64_t count, float* out, int threads = 1) override;
  // 16-bit numbers are not widened for it.
  float finite_amax(int64_t first, int64_t count, int threads = 1) override;

  // Of an FP4 weight that is not transposed: codes and scales of these rows as the core has them (low nibble first,
  // row-major). Of an FP8 weight its codes, with the first row all of its scales.
  const Quantized& read_quantized(int64_t first, int64_t count);
  // The factors as the file has them.
  const std::vector<float>& factors() const { return factors_; }

 private:
  void read_values(int64_t first, int64_t count, float* out, int threads);
  void open_factors(const ModelTensor& tensor, size_t part);
  void open_fp8(const ModelTensor& tensor);
  void read_transposed(int64_t first, int64_t count, float* out);
  void read_fp8(int64_t first, int64_t count, float* out);
  void read_q8_0(int64_t first, int64_t count, float* out);
  void read_codes(int64_t first, int64_t count);
  void read_blocks(int64_t first, int64_t count);

  std::string name_;
  int64_t rows_ = 0, cols_ = 0;
  const CheckpointScheme* scheme_ = nullptr;
  GgufValues blocks_ = GgufValues::plain;
  golden::CodeLayout nibbles_ = golden::CodeLayout::low_first;
  std::optional<TensorReader> codes_{}, scales_{};               // of a scheme; codes_ alone: a plain tensor
  std::shared_ptr<const std::vector<uint8_t>> linear_scales_{};  // of a layout in tiles, read whole
  int64_t transposed_rows_ = 0;                                  // of an expert; 0: blocks run along rows
  int stored_block_ = 0;  // elements of a scale in the file; 32 where MXFP4 is read as NVFP4
  std::optional<int> exact_power_{};
  Fp8Grid grid_ = {};
  std::shared_ptr<const std::vector<float>> fp8_scales_{}, fp8_values_{};  // of blocks; of the 256 codes
  Bytes gguf_{};
  std::uint64_t gguf_offset_ = 0, gguf_row_bytes_ = 0;
  std::vector<float> factors_{1.0f};
  std::vector<int64_t> factor_ends_{};        // the row behind the last that each multiplies
  std::shared_ptr<TransposedRows> turned_{};  // where rows are columns of the file (row_view.cpp)
  std::vector<float> columns_{};              // multiply the columns; empty: nothing does
  Dispatcher backend_{};
  Quantized q_{};
  std::vector<unsigned char> stored_{};
};

// Rows of a tensor in another order than the file has them (ModelTensor::is_turned): [E, in, out] as rows of [E, out,
// in]: panels of at most 32 MB of float32 are read as the file has them and turned. Copies of a reader share them; two
// panels are held, for threads on both sides of an end.
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
