// Embedding tables on the host: rows are stored and read by the backends, bags summed by include/fp4/embedding.h or by
// loops that give the same bits.
#pragma once

#include <cstdint>
#include <vector>

#include "fp4/embedding.h"
#include "src/backends/backends.h"

namespace fp4 {

struct RowTable {
  RowFormat format = RowFormat::fp32;
  int64_t rows = 0;
  int64_t cols = 0;
  Quantized stored;                 // rows of float and block formats
  std::vector<uint8_t> codes;       // [rows, cols] of integer rows, one a byte
  std::vector<IntegerRow> integer;  // what each of them carries
};

/// How numbers become stored ones; stochastic modes draw number r*cols + c of `place` for row r.
struct RowRounding {
  Rounding mode = Rounding::nearest_even;
  int random_bits = 16;
  RandomPlace place = {};
};

/// x: [rows, cols]. `out` keeps its storage.
void encode_rows(RowFormat format, const MatrixView& x, const RowRounding& how, const Dispatcher& backend,
                 RowTable& out);
/// out: [rows, cols].
void decode_rows(const RowTable& table, const Dispatcher& backend, float* out);

/// Bag i sums the rows ids[first[i]] .. ids[first[i + 1] - 1]; an empty one is 0. Ids lie in the table.
struct Bags {
  const int32_t* ids = nullptr;
  const int32_t* first = nullptr;  // [count + 1]
  int64_t count = 0;
};

/// out: [bags, cols], the sums of decoded rows [.., cols]. `fused` means sequential here: decoded rows have no codes.
void embedding_bag(BagOrder order, const float* rows, int64_t cols, const Bags& bags, float* out);
/// The same from a stored table, whose integer rows know `fused`.
void embedding_bag(BagOrder order, const RowTable& table, const Bags& bags, const Dispatcher& backend, float* out);

/// One bag of `n` decoded rows by BagSum, and by integers of 64 bits or a loop over columns. The fast one gives the
/// same bits or declines (false): an exact sum of numbers more than about 2^30 apart, very small or very large.
void bag_by_reference(BagOrder order, const float* rows, int64_t cols, const int32_t* ids, int64_t n, float* out);
bool bag_by_columns(BagOrder order, const float* rows, int64_t cols, const int32_t* ids, int64_t n, float* out);

}  // namespace fp4
