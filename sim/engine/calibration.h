// Decides: what a layer keeps of its inputs for a recipe's `ptq` (post_training.h), and how its weights then become
// codes.
#pragma once

#include <vector>

#include "sim/rules/post_training.h"
#include "sim/tape/tensor.h"
#include "src/backends/backends.h"

namespace fp4::sim {

/// The weights of a layer after calibration.
struct CalibratedWeights {
  std::vector<float> smooth;  // columns of X are divided by these; empty: none
  Quantized codes;
  /// X as the codes expect it.
  Tensor smoothed(Arena& arena, Tensor x) const;
};

/// X^T X of all rows of a layer's input X [., cols], where `ptq` asks for it, and the largest magnitudes of its
/// columns.
class InputStatistics {
 public:
  InputStatistics(int cols, const PostTraining& ptq);
  void count(Tensor x);
  /// Codes of w [out, cols]; `fprop` is how the layer's forward product quantises it.
  CalibratedWeights codes_of(Tensor w, const PostTraining& ptq, const Dispatcher& backend, QuantizeCall fprop) const;

 private:
  std::vector<double> hessian_of(const std::vector<float>& smooth, const Dispatcher& backend,
                                 const QuantizeCall& fprop) const;

  int cols_;
  std::vector<double> gram_;
  std::vector<float> largest_;
};

}  // namespace fp4::sim
