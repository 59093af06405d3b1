// Decides: how a network is judged on the validation set: at the points of a curve, at the end of a training, and when
// a checkpoint is evaluated.
#pragma once

#include <map>
#include <string>

#include "sim/engine/quantized_linear.h"
#include "sim/rules/schedule.h"
#include "sim/train/task.h"
#include "sim/train/train.h"

namespace fp4::sim {

class Validation {
 public:
  /// Random bits are those of `seed`, or of the options' rounding_seed; all ranks evaluate alike.
  Validation(Model& model, Tape& tape, uint64_t seed, const RunOptions& options)
      : model_(model), tape_(tape), seed_(options.rounding_seed.value_or(seed)), log_(options.forward_log) {}

  /// Mean loss of the first `examples`, 0: all, in the recipe's formats or in fp32. What the network answers under the
  /// recipe goes to `answers`.
  double loss(int examples, bool quantise, Answers* answers = nullptr);
  /// Over all examples: loss, loss_hp in fp32, and the model's own metrics. The loss.
  double judge(std::map<std::string, double>& metrics, Answers* answers = nullptr);
  /// Reads the first batches of the training in fp32; then the layers' weights become codes (post_training.h).
  void calibrate(LinearEngine& engine, int batches);

 private:
  Model& model_;
  Tape& tape_;
  uint64_t seed_;
  ForwardLog* log_;
};

/// 16 hex digits of the SHA-256 of the weights, little-endian fp32 in parameter order, then the losses of the curve as
/// fp64. One NaN stands for all.
std::string training_digest(const Parameters& parameters, const std::vector<CurvePoint>& curve);

}  // namespace fp4::sim
