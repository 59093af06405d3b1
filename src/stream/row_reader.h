// Rows of a matrix as float32, whatever keeps them: what streams read.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "src/arith/amax.h"

namespace fp4 {

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

}  // namespace fp4
