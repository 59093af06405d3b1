// Decides: how gradients change weights. SGD, Adam/AdamW (Loshchilov and Hutter 1711.05101), learning-rate schedules,
// clipping by the global norm, dynamic loss scaling. Everything runs over the one buffer of Parameters, in its order.
// Weights that a ramp slows (oscillation.h) leave it for a step: Adam's update of each in the steps that are due, with
// its mean gradient and lr times the steps waited; weight decay in every step.
#pragma once

#include <string>
#include <vector>

#include "sim/net/layers.h"
#include "sim/net/row_tables.h"
#include "sim/rules/config.h"
#include "sim/rules/oscillation.h"
#include "src/backends/backends.h"

namespace fp4::sim {

/// What the run says of the update.
struct UpdateContext {
  const Dispatcher* backend = nullptr;    // of products with quantised rows
  uint64_t seed = 0;                      // of the bits that round such rows
  const DeviceKernels* device = nullptr;  // where parameters and moments lie; null: on the host
};

class Optimizer {
 public:
  /// `train`: canonical "train" section; `name` replaces its optimizer unless empty (a recipe's wish).
  Optimizer(const Json& train, const std::string& name, bool loss_scaling, Parameters& parameters,
            UpdateContext context = {});

  /// Whether weights can be updated in some steps only.
  bool can_wait() const { return kind_ != Kind::sgd; }

  /// Learning rate of step 1, 2, .., steps: linear warm-up, then cosine, linear or constant.
  float learning_rate(int step) const;
  float loss_scale() const { return loss_scale_; }
  /// Updates the weights from the gradients (which carry the loss scale). False: a gradient is not finite and
  /// loss scaling is off; with loss scaling the step is left out and the scale halved.
  bool step(Parameters& parameters, const Kernels& k, int step, const std::vector<SlowWeights>& slow = {});

  /// After a step.
  bool weights_are_finite() const { return weights_are_finite_; }

  /// Moments, counters and loss scale: what a checkpoint must keep.
  std::vector<float> state() const;
  /// `step`: done when the state was taken. Throws Error for a state of another size or with counters of no such step.
  void restore(const std::vector<float>& state, int step);

 private:
  enum class Kind : uint8_t { adam, adamw, sgd };  // in the order of their words
  bool adam(Parameters& parameters, const Kernels& k, const AdamStep& s, const std::vector<SlowWeights>& slow);

  Kind kind_;
  float lr_, final_share_, beta1_, beta2_, eps_, weight_decay_, momentum_, clip_;
  std::string schedule_;
  int steps_, warmup_;
  bool loss_scaling_;
  UpdateContext context_;

  Arena memory_;
  TableScratch tables_;
  float *m_, *v_;
  int64_t total_, dense_;           // floats of all parameters; of those that are no tables
  double power1_ = 1, power2_ = 1;  // beta^t
  float loss_scale_ = 1.0f;
  bool weights_are_finite_ = true;
  int good_steps_ = 0;
  size_t tensors_ = 0;
};

}  // namespace fp4::sim
