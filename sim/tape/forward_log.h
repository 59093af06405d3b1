// Decides: how two evaluations of one network are compared product by product. A log notes every forward product of an
// evaluation, in order, by 64-bit hashes of its input x, its operands a and b as they were multiplied (decoded) and its
// result y, before the bias; one product may be kept in full. A log watches and never changes a bit.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sim/tape/tensor.h"

namespace fp4::sim {

class ForwardLog {
 public:
  enum Part { x, a, b, y };
  struct Product {
    std::string layer;
    int part = 0;  // of several products of a layer in a step: heads of all sequences
    std::array<uint64_t, 4> hashes = {};
  };
  struct Matrix {
    int rows = 0, cols = 0;
    std::vector<float> values;
  };

  /// `keep`: the number of the product whose four matrices are kept; -1: none.
  explicit ForwardLog(int64_t keep = -1) : keep_(keep) {}
  void product(const std::string& layer, int part, Tensor x, Tensor a, Tensor b, Tensor y);

  const std::vector<Product>& products() const { return products_; }
  const std::array<Matrix, 4>& kept() const { return kept_; }

 private:
  int64_t keep_;
  std::vector<Product> products_;
  std::array<Matrix, 4> kept_;
};

/// The first product, in the order of `second`, whose results differ: its numbers in both logs. Products that only one
/// of the two has (attention that one of them does not quantise) are passed over.
struct Pair {
  int64_t first, second;
};
std::optional<Pair> first_difference(const ForwardLog& first, const ForwardLog& second);

}  // namespace fp4::sim
