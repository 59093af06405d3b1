// Decides: how a network is judged on the validation set: at the points of a curve, at the end of a training, and when
// a checkpoint is evaluated; where the curve of a training has points, what they hold of the losses between them, and
// when losses say that a training diverged.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "sim/engine/quantized_linear.h"
#include "sim/rules/schedule.h"
#include "sim/train/checkpoint.h"
#include "sim/train/task.h"

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

class LossCurve {
 public:
  static constexpr size_t window = 20;  // last losses by which divergence is judged

  /// Points after floor(i * steps / points) steps, i = 1 .. points, each once.
  LossCurve(int steps, int points, double trivial_loss);

  /// The loss of the next training step.
  void add(float loss);
  /// The mean of the last losses exceeds 3 times that of the trivial predictor.
  bool is_far_above_trivial() const;

  bool has_point_after(int step) const { return next_ < steps_.size() && step == steps_[next_]; }
  /// The mean of the losses since the last point, if there is one.
  std::optional<double> mean_loss() const;
  /// Begins the losses of the next point.
  void close_point() { sum_ = 0, count_ = 0, ++next_; }
  size_t next_point() const { return next_; }
  bool is_complete() const { return next_ == steps_.size(); }

  /// The next point is the first one after `step`.
  void go_to(int step);
  void save(Checkpoint& to) const;
  void restore(const Checkpoint& from);

 private:
  std::vector<int> steps_;
  double trivial_loss_;
  size_t next_ = 0;
  std::vector<float> recent_;
  double sum_ = 0;
  int count_ = 0;
};

/// 16 hex digits of the SHA-256 of the weights, little-endian fp32 in parameter order, then the losses of the curve as
/// fp64. One NaN stands for all.
std::string training_digest(const Parameters& parameters, const std::vector<CurvePoint>& curve);

}  // namespace fp4::sim
