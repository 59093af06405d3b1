// Products with a sparse operand, as tensor cores take it: of every four elements of a row of A two are kept (2:4), or
// of every eight two pairs of four (4:8, FP4). What is left out is absent on both sides before anything is classified,
// so a sum runs over K/2 products, and a block of 32 of K has 16 of them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "src/backends/backends.h"

namespace fp4 {

enum class Sparsity : uint8_t { none, two_of_four, four_of_eight };

struct SparsityInfo {
  Sparsity id;
  const char* name;
  const char* doc;
  const char* source;
  int width;             // elements that are kept or left out together
  double metadata_bits;  // an element of the dense row: two bits for each of the two that are kept
  double mask_ops;       // slots an element of making the mask by magnitude, counted below
};
// Of four sizes the two largest: six comparisons, eight additions to count each one's wins, four selects and the
// metadata, 19 slots; sizes of pairs take four additions more, and each select serves two elements.
inline constexpr SparsityInfo sparsity_table[] = {
    {Sparsity::none, "none", "every element", "definition", 0, 0, 0},
    {Sparsity::two_of_four, "2:4", "two of every four elements of a row", "PTX ISA mma.sp of 8 and 16 bits", 1, 1,
     19.0 / 4},
    {Sparsity::four_of_eight, "4:8", "two of every four pairs of a row", "PTX ISA mma.sp of FP4: pairs of elements", 2,
     0.5, 27.0 / 8},
};
static_assert(ids_are_indices(sparsity_table));

// Columns of A that are kept: [rows][cols / 2], ascending in each row.
struct SparseMask {
  int64_t rows = 0, cols = 0;
  std::vector<int32_t> kept;
  const int32_t* row(int64_t r) const { return kept.data() + r * (cols / 2); }
};

// Columns of one row that are kept, ascending, into `kept` (room for cols / 2 + 2); how many. Kept are the two largest
// magnitudes of four, of pairs the two largest sums, and the earlier of equals; NaN is largest. A row that ends inside
// a group keeps what is largest of its rest: of 1 or 2 elements (pairs) all.
int64_t largest_of_row(Sparsity sparsity, const float* row, int64_t cols, int32_t* kept);

// From a tensor [rows, cols] whose elements other than 0 are kept, or from metadata as instructions take it: [rows,
// cols/4] (elements) or [rows, cols/8] (pairs) of numbers i | j << 2, the two of four that are kept, i < j. Throws
// Error with the row and column of what is neither 2:4 nor 4:8.
SparseMask sparse_mask(const std::string& place, const std::vector<float>& values, int64_t value_cols, int64_t rows,
                       int64_t cols);

// What largest_of_row keeps.
SparseMask largest_kept(const std::string& place, Sparsity sparsity, const std::vector<float>& values, int64_t rows,
                        int64_t cols);
// Its metadata: [rows, cols/4], of pairs [rows, cols/8].
std::vector<uint8_t> metadata_of(const SparseMask& mask, Sparsity sparsity);
// Zeros for what is left out, so that it counts in no maximum: of a row with `count` columns kept, of all rows.
void clear_others(const int32_t* kept, int64_t count, int64_t cols, float* row);
void clear_others(const SparseMask& mask, std::vector<float>& values);

// Error, which `which` opens, for specs that have no sparse product: blocks below 16, outer128.
void check_sparse(const QuantSpec& spec, const std::string& which);

// C [a.rows, b.rows] = A B^T over what the mask of A keeps. Throws Error where
// check_sparse() does.
void sparse_gemm(const Dispatcher& backend, const Quantized& a, const Quantized& b, const SparseMask& mask,
                 const GemmOptions& options, float* c, int64_t c_stride);

// The same where B is sparse, the weights of a layer: of its row r the columns from kept[ends[r - 1]] (0) to before
// kept[ends[r]] count, ascending.
void gemm_of_sparse_b(const Dispatcher& backend, const Quantized& a, const Quantized& b,
                      const std::vector<int32_t>& kept, const std::vector<int64_t>& ends, const GemmOptions& options,
                      float* c, int64_t c_stride);

// Whether zeros in place of what is left out give the same bits under this adder: its sums know no groups of K and no
// exponent of a zero product. `tame`: products of elements other than 0 lie between 2^-96 and 2^118, so that no zero
// meets an infinity and no sum becomes -0, which +0 would turn.
bool zeros_are_absent(const Accumulator& row, const QuantSpec& a, const QuantSpec& b, bool tame);

}  // namespace fp4
