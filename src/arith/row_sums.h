// One row of elements against its decoded values, with the widest vectors of the machine.
#pragma once

#include "src/arith/quantize_statistics.h"

namespace fp4 {

struct StatisticsRow {
  const float* x;
  const float* y;
  const uint8_t* packed;  // FP4 codes, two a byte; nullptr: codes one by one
  const uint32_t* codes;
  int64_t cols;
  int32_t mask, largest;  // of the magnitude of a code
};

// Column k adds to part k mod 8, in ascending order; the parts are added in ascending order.
RowStatistics sum_row(const StatisticsRow& row);

// The same without instructions beyond those that every machine of the architecture has.
RowStatistics sum_row_plain(const StatisticsRow& row);

}  // namespace fp4
