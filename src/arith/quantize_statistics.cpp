// Reports of rows, and maxima.
#include "src/arith/quantize_statistics.h"

#include <algorithm>

#include "src/arith/code_order.h"
#include "src/arith/row_sums.h"
#include "src/threads/parallel.h"

namespace fp4 {

void QuantizeReport::add(const QuantizeReport& other) {
  if (cols == 0 || rows == 0) cols = 1;  // elements count from here on: share() is of rows * cols
  rows = rows * cols + other.rows * other.cols;
  cols = 1;
  error_squares += other.error_squares;
  squares += other.squares;
  clipped += other.clipped;
  zeros += other.zeros;
  underflows += other.underflows;
  nonfinite += other.nonfinite;
  largest_error = std::max(largest_error, other.largest_error);
  bytes += other.bytes;
}

std::vector<RowStatistics> row_statistics(const Quantized& q, const MatrixView& x, const float* y, int threads) {
  std::vector<RowStatistics> sums(static_cast<size_t>(q.rows));
  const FloatFormat& format = format_of(q.spec.element);
  const bool is_listed = format.is_grid() || q.spec.choice.is_on;  // ends are no single code
  parallel_for(0, q.rows, 1, threads, 64, [&](int64_t r) {
    std::vector<float> row;
    std::vector<uint8_t> ends;
    StatisticsRow given = {x.data + r * x.row_stride,
                           y + r * q.cols,
                           q.codes.data() + r * q.code_row_bytes(),
                           4,
                           q.cols,
                           static_cast<int32_t>(format.magnitude_mask()),
                           static_cast<int32_t>(format.largest_code)};
    if (!q.is_packed()) given.code_bits = 8 * q.code_bytes();
    if (x.col_stride != 1) {
      for (int64_t k = 0; k < q.cols; ++k) row.push_back(x.at(r, k));
      given.x = row.data();
    }
    if (is_listed) {
      for (int64_t k = 0; k < q.cols; ++k) ends.push_back(is_end_code(element_of_block(q, r, k), q.code(r, k)) ? 1 : 0);
      given.codes = ends.data();
      given.code_bits = 8;
      given.mask = given.largest = 1;
    }
    sums[static_cast<size_t>(r)] = sum_row(given);
  });
  return sums;
}

void add_rows(QuantizeReport& report, const std::vector<RowStatistics>& rows) {
  for (const RowStatistics& sum : rows) {
    report.error_squares += sum.error_squares;
    report.squares += sum.squares;
    report.clipped += sum.clipped;
    report.zeros += sum.zeros;
    report.underflows += sum.underflows;
    report.nonfinite += sum.nonfinite;
    report.largest_error = std::max(report.largest_error, sum.largest_error);
  }
}

void add_statistics(QuantizeReport& report, const Quantized& q, const MatrixView& x, const float* y, int threads) {
  add_rows(report, row_statistics(q, x, y, threads));
}

bool has_nan(const float* x, int64_t count) {
  return std::any_of(x, x + count, [](float v) { return is_nan(v); });
}

}  // namespace fp4
