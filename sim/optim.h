// Decides: how gradients change weights. SGD, Adam/AdamW (Loshchilov and Hutter 1711.05101), StableSPAM
// (2502.17055: AdaClip, AdaGN, momentum reset), learning-rate schedules, clipping by the global norm, dynamic loss
// scaling. Everything runs over the one buffer of Parameters, in its order.
#pragma once

#include <string>
#include <vector>

#include "sim/config.h"
#include "sim/layers.h"

namespace fp4::sim {

/// Rows of the "train" section that belong to the optimizer.
Schema optimizer_schema();

class Optimizer {
 public:
  /// `train`: canonical "train" section; `name` replaces its optimizer unless empty (a recipe's wish).
  Optimizer(const Json& train, const std::string& name, bool loss_scaling, const Parameters& parameters);

  /// Learning rate of step 1, 2, .., steps: linear warm-up, then cosine, linear or constant.
  float learning_rate(int step) const;
  float loss_scale() const { return loss_scale_; }
  /// Updates the weights from the gradients (which carry the loss scale). False: a gradient is not finite and
  /// loss scaling is off; with loss scaling the step is left out and the scale halved.
  bool step(Parameters& parameters, const Kernels& k, int step);

  /// After a step.
  bool weights_are_finite() const { return weights_are_finite_; }

  /// Moments, counters and loss scale: what a checkpoint must keep.
  std::vector<float> state() const;
  void restore(const std::vector<float>& state);

 private:
  enum class Kind : uint8_t { sgd, adam, adamw, stable_spam };
  void stabilise(Parameters& parameters, const Kernels& k);

  Kind kind_;
  float lr_, final_share_, beta1_, beta2_, eps_, weight_decay_, momentum_, clip_;
  std::string schedule_;
  int steps_, warmup_;
  bool loss_scaling_;

  Arena memory_;
  float *m_, *v_;
  int64_t total_;
  double power1_ = 1, power2_ = 1;  // beta^t
  float loss_scale_ = 1.0f;
  bool weights_are_finite_ = true;
  int good_steps_ = 0;
  struct Spam {  // per parameter tensor: running maximum and moments of the norm
    float maximum = 0, norm = 0, square = 0;
  };
  std::vector<Spam> spam_;
  int spam_step_ = 0;
};

}  // namespace fp4::sim
