// Decides: how the forward products of linear layers are called when a trained network is judged (`calls` of a recipe).
// A server that decodes and a trainer may share every format and adder and still call their products otherwise:
//   rows        tokens a call. X is cut into calls of so many rows; each is quantised by itself, so that a tensor scale
//               is that of the call, and draws its random bits from row 0 on. 0: one call
//   split_k     parts of K. Where K has B units of whole blocks, part p of n holds the units floor(p B / n) to
//               floor((p + 1) B / n) - 1. The adder sums each part from 0 and finishes it as a product (fp4/gemm.h);
//               results are added in fp32, ascending, as split-K kernels and their reductions do
//   split_rows  a call of more rows is not split; 0: all are. What a token gives then depends on its neighbours: the
//               kernel is not batch-invariant
// A unit has 16 elements, or as many as the largest block along K; 128 where factors change every 128.
#pragma once

#include <cstdint>
#include <vector>

#include "fp4/backend.h"
#include "src/text/json_reader.h"

namespace fp4::sim {

struct Calls {
  int rows = 0;
  int split_k = 1;
  int split_rows = 0;
  bool any() const { return rows > 0 || split_k > 1; }
  int parts_of(int64_t call_rows) const { return split_rows > 0 && call_rows > split_rows ? 1 : split_k; }
  friend bool operator==(const Calls&, const Calls&) = default;
};

/// {"rows", "split_k", "split_rows"} laid over `start`, and back.
Calls calls_from(const JsonReader& given, Calls start);
Json calls_to(const Calls& calls);

/// Elements of a unit of K that no cut divides.
int64_t unit_of_k(const QuantSpec& a, const QuantSpec& b);
/// The ends of the parts, ascending; the last is k. Fewer than `parts` where K has fewer units.
std::vector<int64_t> part_ends(int64_t k, int64_t unit, int parts);
/// Columns [first, last) of an operand with their scales and factors; `first` is a multiple of unit_of_k.
Quantized columns_of(const Quantized& q, int64_t first, int64_t last);

}  // namespace fp4::sim
