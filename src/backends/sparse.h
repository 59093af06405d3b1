// Products with a sparse operand, as tensor cores take it: of every four elements of a row of A two are kept (2:4), or
// of every eight two pairs of four (4:8, FP4). What is left out is absent on both sides before anything is classified,
// so a sum runs over K/2 products, and a block of 32 of K has 16 of them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "src/backends/backends.h"

namespace fp4 {

// Columns of A that are kept: [rows][cols / 2], ascending in each row.
struct SparseMask {
  int64_t rows = 0, cols = 0;
  std::vector<int32_t> kept;
  const int32_t* row(int64_t r) const { return kept.data() + r * (cols / 2); }
};

// From a tensor [rows, cols] whose elements other than 0 are kept, or from metadata as instructions take it: [rows,
// cols/4] (elements) or [rows, cols/8] (pairs) of numbers i | j << 2, the two of four that are kept, i < j. Throws
// Error with the row and column of what is neither 2:4 nor 4:8.
SparseMask sparse_mask(const std::string& place, const std::vector<float>& values, int64_t value_cols, int64_t rows,
                       int64_t cols);

// C [a.rows, b.rows] = A B^T over what the mask of A keeps. Blocks are 1 x B of at least 16, or whole rows; throws
// Error for others and for outer128.
void sparse_gemm(const Dispatcher& backend, const Quantized& a, const Quantized& b, const SparseMask& mask,
                 const GemmOptions& options, float* c, int64_t c_stride);

}  // namespace fp4
