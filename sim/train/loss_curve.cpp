#include "sim/train/loss_curve.h"

#include <algorithm>

namespace fp4::sim {

LossCurve::LossCurve(int steps, int points, double trivial_loss) : trivial_loss_(trivial_loss) {
  for (int64_t i = 1; i <= points; ++i) {
    const int step = static_cast<int>(i * steps / points);
    if (step > 0 && (steps_.empty() || step > steps_.back())) steps_.push_back(step);
  }
  recent_.reserve(window + 1);
}

void LossCurve::add(float loss) {
  sum_ += static_cast<double>(loss), ++count_;
  recent_.push_back(loss);
  if (recent_.size() > window) recent_.erase(recent_.begin());
}

bool LossCurve::is_far_above_trivial() const {
  double mean = 0;
  for (const float loss : recent_) mean += static_cast<double>(loss) / window;
  return recent_.size() == window && mean > 3 * trivial_loss_;
}

std::optional<double> LossCurve::mean_loss() const {
  if (count_ == 0) return std::nullopt;
  return sum_ / count_;
}

void LossCurve::go_to(int step) {
  next_ = static_cast<size_t>(std::upper_bound(steps_.begin(), steps_.end(), step) - steps_.begin());
}

void LossCurve::save(Checkpoint& to) const {
  to.next_point = next_;
  to.recent = recent_;
  to.curve_sum = sum_;
  to.curve_count = count_;
}

void LossCurve::restore(const Checkpoint& from) {
  recent_ = from.recent;
  sum_ = from.curve_sum, count_ = from.curve_count;
}

}  // namespace fp4::sim
