// Decides: what is kept of one layer's weights from step to step for the rules over weights (oscillation.h) and their
// trace: the running mean, open windows, weights that a ramp slows, moves since the last traced step.
#pragma once

#include <functional>
#include <vector>

#include "sim/rules/oscillation.h"
#include "sim/tape/tensor.h"

namespace fp4::sim {

/// Numbers of a checkpoint, taken one after another; Error where they end too early.
class WeightState {
 public:
  explicit WeightState(const std::vector<float>& state) : state_(state) {}
  void take(std::vector<float>& values, size_t n);
  bool is_used_up() const { return at_ == state_.size(); }

 private:
  const std::vector<float>& state_;
  size_t at_ = 0;
};

class WatchedWeights {
 public:
  /// [out, in], since the layer's first forward pass; no data before it.
  Tensor weight;
  WeightRules rules;  // none of a layer that does not follow the recipe

  bool has_average() const { return !average_.empty(); }
  /// Moves the codes of q, the weights as quantised, to the neighbours nearer to the running mean, where there is one.
  void lean(Quantized& q) const;
  /// Weights with a step of their own in this step; null: none. At the start of a window all of them are due.
  std::vector<SlowWeight>* slow_in(int step);

  /// After the optimizer's part of a step. `quantised` gives the values of the weights under fprop's quantiser and is
  /// asked once at most; with `watches` moves count from the step of the last trace on; `trace` may be empty.
  void after_step(int step, bool watches, const std::function<std::vector<float>()>& quantised,
                  const std::function<void(const char* quantity, double value)>& trace);

  /// What a checkpoint keeps, and back; `n` weights.
  void save(std::vector<float>& out) const;
  void restore(WeightState& from, int step, int64_t n);

 private:
  std::vector<float> average_;  // empty before the rule's first step
  Oscillation window_, ramp_window_, watched_;
  std::vector<SlowWeight> slow_;
};

}  // namespace fp4::sim
