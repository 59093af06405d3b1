// One row of elements against its decoded values, with the widest vectors of the machine.
#pragma once

#include "src/arith/quantize_statistics.h"

namespace fp4 {

struct StatisticsRow {
  const float* x;
  const float* y;
  const uint8_t* codes;  // as arrays have them: of 4 bits two a byte, else little-endian
  int code_bits;         // 4, 8, 16 or 32
  int64_t cols;
  int32_t mask, largest;  // of the magnitude of a code
};

// Column k adds to part k mod 8, in ascending order; the parts are added in ascending order.
RowStatistics sum_row(const StatisticsRow& row);

// The same without instructions beyond those that every machine of the architecture has.
RowStatistics sum_row_plain(const StatisticsRow& row);

}  // namespace fp4
