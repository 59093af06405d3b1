// Decides: where the curve of a training has points, what they hold of the losses between them, and when losses say
// that a training diverged.
#pragma once

#include <optional>
#include <vector>

#include "sim/train/checkpoint.h"

namespace fp4::sim {

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

}  // namespace fp4::sim
