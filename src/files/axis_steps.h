// Rows of a matrix whose elements lie in the file in another order: Fortran order, or the transpose of either order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "src/files/stored_array.h"

namespace fp4 {

// How far one step along an axis of the file goes in the matrix.
struct FileAxis {
  std::uint64_t extent = 1;
  std::uint64_t row_step = 0, col_step = 0;
};

// The axes of `array` from slowest to fastest in the file, as steps in its matrix [rows, cols] (dtype.h) or, with
// `transposed`, in [cols, rows].
std::vector<FileAxis> file_axes(const StoredArray& array, bool transposed);

// Copies rows [first, first + count) of the matrix with `cols` columns into `out` (row-major, elements as stored), in
// one pass over the file in rising offsets. Extra memory: at most 2 MiB. Elements of 1, 2, 4 or 8 bytes.
void gather_rows(const StoredArray& array, const std::vector<FileAxis>& axes, std::uint64_t cols, std::uint64_t first,
                 std::uint64_t count, unsigned char* out);

}  // namespace fp4
