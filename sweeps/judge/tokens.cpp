// See tokens.h.
#include "sweeps/judge/tokens.h"

#include <cmath>

namespace fp4::sweeps {

namespace {

struct Smoothed {
  std::vector<double> step;
  std::vector<double> loss;
};

Smoothed smooth(const Curve& curve) {
  Smoothed raw;
  for (size_t i = 0; i < curve.step.size(); ++i) {
    if (std::isnan(curve.validation_loss[i])) continue;
    raw.step.push_back(curve.step[i]);
    raw.loss.push_back(curve.validation_loss[i]);
  }
  Smoothed smoothed = raw;
  for (size_t i = 1; i + 1 < raw.loss.size(); ++i) {
    smoothed.loss[i] = (raw.loss[i - 1] + raw.loss[i] + raw.loss[i + 1]) / 3;
  }
  return smoothed;
}

double at_step(const Smoothed& curve, double step) {
  for (size_t i = 1; i < curve.step.size(); ++i) {
    if (curve.step[i] < step) continue;
    const double share = (step - curve.step[i - 1]) / (curve.step[i] - curve.step[i - 1]);
    return curve.loss[i - 1] + share * (curve.loss[i] - curve.loss[i - 1]);
  }
  return curve.loss.back();
}

}  // namespace

std::optional<double> step_to_target(const Curve& curve, double target) {
  const Smoothed smoothed = smooth(curve);
  for (size_t i = 0; i < smoothed.loss.size(); ++i) {
    if (smoothed.loss[i] > target) continue;
    if (i == 0) return smoothed.step[0];
    const double above = smoothed.loss[i - 1] - target;
    const double fall = smoothed.loss[i - 1] - smoothed.loss[i];
    return smoothed.step[i - 1] + above / fall * (smoothed.step[i] - smoothed.step[i - 1]);
  }
  return std::nullopt;
}

bool has_constant_rate(const std::string& config) {
  const Json train = Json::parse(config).at("train");
  return train.value("schedule", "") == "constant";
}

double tokens_per_step(const std::string& config) {
  const Json json = Json::parse(config);
  const double batch = json.at("train").value("batch", 1.0);
  return batch * json.at("task").value("context", 1.0);
}

std::optional<double> default_target(const ConfigResult& reference) {
  double sum = 0;
  size_t count = 0;
  for (const RunRecord& run : reference.runs) {
    const Smoothed smoothed = smooth(run.curve);
    if (run.status != Status::finished || smoothed.loss.size() < 3) continue;
    sum += at_step(smoothed, 0.75 * smoothed.step.back());
    ++count;
  }
  if (count == 0) return std::nullopt;
  return sum / static_cast<double>(count);
}

}  // namespace fp4::sweeps
