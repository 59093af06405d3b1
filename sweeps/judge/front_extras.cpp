#include "sweeps/judge/front_extras.h"

#include <algorithm>
#include <cmath>

namespace fp4::sweeps {

namespace {

class Sensitivity {
 public:
  Sensitivity(const ContextFront& front, const Costs& costs, const std::string& x)
      : front_(front), costs_(costs), x_(x) {}

  // Factors of a weight in [1/4, 4], in quarter octaves from 1 outwards, until some point dominates this one.
  Interval range(const FrontPoint& point, const std::string& weight) const {
    std::vector<const FrontPoint*> rivals;
    for (const FrontPoint& other : front_.points) {
      const bool compared = front_.raced ? other.candidate : true;
      if (&other == &point || !compared || !is_usable(other) || other.y.mean > point.y.mean) continue;
      // Costs are monotone in a weight: who is dearer at both ends is dearer in between.
      const auto cheaper_at = [&](double factor) { return cost(other, weight, factor) <= cost(point, weight, factor); };
      if (cheaper_at(0.25) || cheaper_at(4)) rivals.push_back(&other);
    }
    Interval range{1, 1};
    for (int step = 1; step <= 8 && !dominated(point, rivals, weight, std::exp2(step / 4.0)); ++step)
      range.high = std::exp2(step / 4.0);
    for (int step = 1; step <= 8 && !dominated(point, rivals, weight, std::exp2(-step / 4.0)); ++step)
      range.low = std::exp2(-step / 4.0);
    return range;
  }

 private:
  double cost(const FrontPoint& point, const std::string& weight, double factor) const {
    return cost_column(costs_.weighted(*point.config, weight, factor), x_);
  }

  bool dominated(const FrontPoint& point, const std::vector<const FrontPoint*>& rivals, const std::string& weight,
                 double factor) const {
    const double x = cost(point, weight, factor);
    return std::any_of(rivals.begin(), rivals.end(), [&](const FrontPoint* rival) {
      const double other = cost(*rival, weight, factor);
      return other < x || (other == x && rival->y.mean < point.y.mean);
    });
  }

  const ContextFront& front_;
  const Costs& costs_;
  const std::string& x_;
};

}  // namespace

bool is_usable(const FrontPoint& point) { return point.y.n > point.diverged; }

void add_sensitivity(ContextFront& front, const Costs& costs, const std::string& x) {
  const Sensitivity sensitivity(front, costs, x);
  for (FrontPoint& point : front.points) {
    if (!point.on_front) continue;
    for (const std::string& weight : costs.model().weights)
      point.sensitivity[weight] = sensitivity.range(point, weight);
  }
}

void add_units(ContextFront& front, const Results& results, const TokenCurves& curves, std::optional<double> target) {
  const ConfigResult* reference = results.find(front.context);
  if (reference == nullptr) return;
  front.scale = loss_scale(results, *reference);
  if (has_constant_rate(reference->record.config))
    front.target = target ? target : default_target(validation_curve(results, *reference, front.raced));
  for (FrontPoint& point : front.points) {
    const bool fresh = front.raced && point.candidate;
    point.extra_fp32 = curves.over(*point.config, "fp32", fresh, target);
    point.extra_mxfp8 = curves.over(*point.config, "mxfp8", fresh, target);
    // Quartet's (arXiv 2505.14669) question: data efficiency times speed. The parameter efficiency of its scaling law
    // needs several model sizes and stays 1 here.
    if (point.extra_fp32 && point.extra_fp32->bound == Bound::exact)
      point.quartet = point.cost.speedup_bf16 / (1 + point.extra_fp32->share);
    if (!front.target) continue;
    const LossCurve curve = validation_curve(results, *point.config, fresh);
    if (curve.loss.empty() || point.diverged > 0) continue;
    const Crossing reached = crossing(curve.tokens, curve.mean(), *front.target);
    if (reached.reach != Crossing::Reach::never) point.tokens_to_target = reached.tokens;
  }
}

}  // namespace fp4::sweeps
