// What quantisation did to a tensor, counted: the numbers that quantize, compare and whole models print.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "fp4/backend.h"
#include "src/arith/amax.h"

namespace fp4 {

// Over finite elements and finite decoded values.
struct QuantizeReport {
  int64_t rows = 0, cols = 0;
  double error_squares = 0, squares = 0;  // NMSE = their quotient
  int64_t clipped = 0;                    // beyond the largest code: |x| > |decoded| and the code is the largest
  int64_t zeros = 0;                      // decoded to zero
  int64_t underflows = 0;                 // of these, x was not zero
  int64_t nonfinite = 0;                  // elements left out
  double largest_error = 0;               // |x - decoded|
  uint64_t bytes = 0;                     // of codes, scales and tensor scales, as files hold them without headers
  std::string backend;                    // that did the work
  // Adds another tensor's, or another part's, of the same spec.
  void add(const QuantizeReport& other);
  double bits_per_element() const { return share(8 * static_cast<int64_t>(bytes)); }
  bool has_finite() const { return nonfinite == 0 || nonfinite < rows * cols; }
  double decibels() const {  // signal to noise; infinite without an error, NaN where no element is finite
    if (!has_finite()) return std::numeric_limits<double>::quiet_NaN();
    return error_squares > 0 ? 10 * std::log10(squares / error_squares) : std::numeric_limits<double>::infinity();
  }
  double nmse() const {
    if (!has_finite()) return std::numeric_limits<double>::quiet_NaN();
    return squares > 0 ? error_squares / squares : 0.0;
  }
  double share(int64_t count) const {
    const double all = static_cast<double>(rows) * static_cast<double>(cols);
    return all > 0 ? static_cast<double>(count) / all : 0.0;
  }
};

struct RowStatistics {
  double error_squares = 0, squares = 0, largest_error = 0;
  int64_t clipped = 0, zeros = 0, underflows = 0, nonfinite = 0;
};

// x [rows, cols] against its decoded values y, row-major, row by row. Each row is summed in eight interleaved parts
// (column mod 8), which are added in ascending order; rows are added to a report in ascending order: the same digits
// for any number of threads, bands and instruction sets.
std::vector<RowStatistics> row_statistics(const Quantized& q, const MatrixView& x, const float* y, int threads);
void add_rows(QuantizeReport& report, const std::vector<RowStatistics>& rows);

// Both at once.
void add_statistics(QuantizeReport& report, const Quantized& q, const MatrixView& x, const float* y, int threads);

bool has_nan(const float* x, int64_t count);

}  // namespace fp4
