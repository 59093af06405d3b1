// A matrix of any size through one or more specs, band by band: what each loses, and its codes and decoded values for
// whoever keeps them.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "src/arith/amax.h"
#include "src/arith/quantize_statistics.h"
#include "src/backends/backends.h"
#include "src/backends/sparse.h"

namespace fp4 {

// Rows of a matrix as float32, whatever keeps them: what streams read.
class RowReader {
 public:
  virtual ~RowReader() = default;
  RowReader(const RowReader&) = default;
  RowReader(RowReader&&) = default;
  RowReader& operator=(const RowReader&) = default;
  RowReader& operator=(RowReader&&) = default;

  virtual int64_t rows() const = 0;
  virtual int64_t cols() const = 0;
  // Whether a copy can read other rows at the same time, in any order.
  virtual bool reads_anywhere() const = 0;
  virtual std::unique_ptr<RowReader> copy() const = 0;
  // Rows [first, first + count) as float32 [count, cols()].
  virtual void read_rows(int64_t first, int64_t count, float* out, int threads) = 0;
  // The largest finite magnitude of these rows.
  virtual float finite_amax(int64_t first, int64_t count, int threads) {
    values_.resize(static_cast<size_t>(count * cols()));
    read_rows(first, count, values_.data(), threads);
    return fp4::finite_amax(values_.data(), count * cols());
  }

 protected:
  RowReader() = default;

 private:
  std::vector<float> values_{};
};

// Bytes of codes, scales and tensor scales of [rows, cols], without headers, factors in the format that they have. Of a
// sparse row half of the codes and the metadata of its mask.
uint64_t stored_bytes(const QuantSpec& spec, int64_t rows, int64_t cols, Sparsity sparsity = Sparsity::none);

// Rows of one band of about `bytes` of float32: whole blocks of every spec, at least one; all rows where one block is
// the whole tensor.
int64_t band_rows(const std::vector<QuantSpec>& specs, int64_t rows, int64_t cols, int64_t bytes);

// Consecutive rows of a matrix under the first spec.
struct QuantizedBand {
  int64_t first;
  const Quantized& q;
  const std::vector<float>& decoded;  // with `keeps_decoded`
  const std::vector<RowStatistics>& rows;
};

struct BandOptions {
  RandomPlace place = {};
  std::vector<uint32_t> random_words = {};  // in place of Philox's bits
  std::string backend = "auto";
  int threads = 1;
  int64_t band_bytes = int64_t{2} << 20;  // of float32 handled at a time
  std::optional<float> amax = {};         // that the tensor scale is made of, instead of the tensor's own
  // What decodes; unset: the backend.
  std::function<void(const Quantized& q, float* out, int threads)> decode = {};
  // Each is given every band, in ascending order, by one thread at a time; while it has one, the sink in front of it
  // may have the next.
  std::vector<std::function<void(const QuantizedBand&)>> sinks = {};
  bool keeps_decoded = false;
  // Of each spec, empty: none. Its rows keep what largest_of_row() keeps; what is left out decodes to 0.
  std::vector<Sparsity> sparsity = {};
  std::function<void(uint64_t elements)> progress = {};  // after each band, likewise
};

// The largest finite magnitude of a matrix, and whether an element is NaN, where that was looked for.
struct TensorAmax {
  float finite = 0;
  bool has_nan = false;
  // What the tensor scale of a spec is made of: NaN under `tensor_nan` where there is one.
  float of(const QuantSpec& spec) const;
};

// Reads the matrix once.
TensorAmax largest_magnitude(RowReader& reader, int threads, bool looks_for_nan);

// One report a spec. Threads read, quantise and measure bands of their own. Reads the tensor once, and once
// more where a spec has a tensor scale and the tensor is longer than a piece of a band; only block=tensor holds it
// whole. A matrix without rows is one empty band.
std::vector<QuantizeReport> quantize_bands(RowReader& reader, const std::vector<QuantSpec>& specs,
                                           const BandOptions& options);

}  // namespace fp4
