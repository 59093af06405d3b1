#include "sweeps/judge/front_extras.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "sweeps/judge/tokens.h"

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
      const bool compared = front_.confirmed ? other.candidate && other.same_as.empty() : true;
      if (&other == &point || !compared || !is_usable(other) || other.y.mean > point.y.mean) continue;
      // Costs are monotone in a weight: who is dearer at both ends is dearer in between.
      const auto cheaper_at = [&](double factor) { return cost(other, weight, factor) <= cost(point, weight, factor); };
      if (cheaper_at(0.25) || cheaper_at(4)) rivals.push_back(&other);
    }
    Interval range{1, 1};
    for (int step = 1; step <= 8 && !dominated(point, rivals, weight, std::exp2(step / 4.0)); ++step) {
      range.high = std::exp2(step / 4.0);
    }
    for (int step = 1; step <= 8 && !dominated(point, rivals, weight, std::exp2(-step / 4.0)); ++step) {
      range.low = std::exp2(-step / 4.0);
    }
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

// Step at which each of the runs that count reaches the target, by seed; none where it does not.
using StepBySeed = std::map<uint64_t, std::optional<double>>;
StepBySeed steps_to_target(const ContextFront& front, const Results& results, const ConfigResult& config) {
  StepBySeed steps;
  for (const RunRecord& run : config.runs) {
    if (results.is_confirm(run.seed) == front.confirmed) steps[run.seed] = step_to_target(run.curve, *front.target);
  }
  return steps;
}

void add_tokens(FrontPoint& point, const StepBySeed& steps, const StepBySeed& of_reference) {
  if (steps.empty()) return;
  double sum = 0;
  double base = 0;
  size_t reached = 0;
  std::vector<double> extra;
  for (const auto& [seed, step] : steps) {
    if (!step) continue;
    ++reached;
    sum += *step;
    const auto other = of_reference.find(seed);
    if (other == of_reference.end() || !other->second) continue;
    base += *other->second;
    extra.push_back(*step / *other->second - 1);
  }
  point.extra_tokens = summarise(extra);
  if (reached < steps.size()) {
    point.tokens_note = reached == 0 ? "not reached" : fmt::format("reached by {} of {} seeds", reached, steps.size());
    return;
  }
  point.tokens_to_target = sum / static_cast<double>(reached) * tokens_per_step(point.config->record.config);
  // Quartet's (arXiv 2505.14669) question at a fixed target: data efficiency times speed. The parameter efficiency of
  // its scaling law needs several model sizes and stays 1 here.
  if (extra.size() == reached) point.quartet = base / sum * point.cost.speedup_bf16;
}

}  // namespace

bool is_usable(const FrontPoint& point) { return point.diverged == 0 && point.y.n > 0; }

void add_sensitivity(ContextFront& front, const Costs& costs, const std::string& x) {
  const Sensitivity sensitivity(front, costs, x);
  for (FrontPoint& point : front.points) {
    if (!point.on_front) continue;
    for (const std::string& weight : costs.model().weights)
      point.sensitivity[weight] = sensitivity.range(point, weight);
  }
}

void add_tokens(ContextFront& front, const Results& results, std::optional<double> target) {
  const ConfigResult* reference = results.find(front.context);
  if (reference == nullptr || !has_constant_rate(reference->record.config)) return;
  front.target = target ? target : default_target(*reference);
  if (!front.target) return;
  const StepBySeed of_reference = steps_to_target(front, results, *reference);
  for (FrontPoint& point : front.points) {
    add_tokens(point, steps_to_target(front, results, *point.config), of_reference);
  }
}

}  // namespace fp4::sweeps
