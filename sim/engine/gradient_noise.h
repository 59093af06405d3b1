// Decides: how far a step's weight gradients stand above the noise of their operands, for phases that wait for it
// (`when` of a recipe): |g| / (sqrt(d) sigma_q) of 2505.19115 over the weight gradients g of all layers. d sigma_q^2 =
// sum over layers of M N K mean(dY^2) mean(X^2) (r_Y + r_X + r_Y r_X), with wgrad's [M, K] and [N, K] operands and r
// their squared errors as quantised, relative; errors are taken as independent.
#pragma once

#include <optional>

#include "sim/engine/product.h"

namespace fp4::sim {

class GradientNoise {
 public:
  /// Begins a step, whose products count or do not.
  void begin(bool counts) { counts_ = counts, signal_ = noise_ = 0; }
  bool counts() const { return counts_; }
  /// A weight gradient.
  void add(const ProductCall& p);
  /// Of the step so far; none where nothing counted or no operand had an error.
  std::optional<double> ratio() const;

 private:
  bool counts_ = false;
  double signal_ = 0, noise_ = 0;  // squared norms of the weight gradients and of their noise
};

}  // namespace fp4::sim
