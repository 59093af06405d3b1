#include "sim/train/validation.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "src/files/sha256.h"

namespace fp4::sim {

double Validation::loss(int examples, bool quantise, Answers* answers) {
  Pass& pass = tape_.pass;
  pass.training = false;
  pass.quantise = quantise;
  pass.seed = seed_;
  pass.answers = quantise ? answers : nullptr;
  pass.log = quantise ? log_ : nullptr;
  return model_.validation_loss(tape_, examples);
}

double Validation::judge(std::map<std::string, double>& metrics, Answers* answers) {
  const double own = metrics["loss"] = loss(0, true, answers);
  model_.metrics(tape_, metrics);
  metrics["loss_hp"] = loss(0, false);
  return own;
}

void Validation::calibrate(LinearEngine& engine, int batches) {
  engine.begin_calibration();
  tape_.pass.training = tape_.pass.quantise = false;
  for (int batch = 1; batch <= batches; ++batch) {
    tape_.reset();
    model_.training_loss(tape_, batch);
  }
  engine.finish_calibration(tape_);
}

double mean_over_batches(Tape& tape, int count, int batch, const std::function<Var(int begin, int n)>& loss) {
  double total = 0;
  for (int begin = 0; begin < count; begin += batch) {
    const int n = std::min(batch, count - begin);
    tape.reset();
    total += static_cast<double>(loss(begin, n)->value.data[0]) * n;
  }
  return total / count;
}

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

std::string training_digest(const Parameters& parameters, const std::vector<CurvePoint>& curve) {
  Sha256 sha;
  float* const values = parameters.host_values();
  for (int i = 0; i < parameters.count(); ++i) {
    Tensor v = parameters.value(i);
    v.data = values + (v.data - parameters.values());
    for (int64_t j = 0; j < v.size(); ++j) {
      const float x = fp4::canonical(v.data[j]);
      if (bits_of(x) != bits_of(v.data[j])) v.data[j] = x;
    }
    sha.update(v.data, sizeof(float) * static_cast<size_t>(v.size()));
  }
  for (const CurvePoint& p : curve)
    for (const auto& loss : {p.train_loss, p.validation_loss})
      if (loss) {
        const double l = std::isnan(*loss) ? std::numeric_limits<double>::quiet_NaN() : *loss;
        sha.update(&l, sizeof l);
      }
  return sha.hex().substr(0, 16);
}

}  // namespace fp4::sim
