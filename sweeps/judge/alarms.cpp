#include "sweeps/judge/alarms.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

namespace fp4::sweeps {

namespace {

constexpr double least_effective_batch = 64;
constexpr double least_improvement = 0.01;

std::string named(const ConfigResult& config) { return config.record.recipe + " " + config.record.hash; }

// Points with results of their own, without the references fp32 and bf16.
std::vector<const FrontPoint*> compared(const ContextFront& front) {
  std::vector<const FrontPoint*> points;
  for (const FrontPoint& point : front.points) {
    if (point.y.n > 0 && point.config->in_plan && point.config->record.hash != front.context) points.push_back(&point);
  }
  return points;
}

// By an interval that holds together with those of all others.
bool is_surely_below_zero(const std::vector<double>& gaps, size_t tests) {
  const Summary gap = summarise(gaps, 1 - 0.05 / static_cast<double>(tests));
  return gap.sd > 0 && gap.interval && gap.interval->high < 0;
}

std::string better_than_fp32(const ContextFront& front, const Results& results) {
  const std::vector<const FrontPoint*> points = compared(front);
  const FrontPoint* best = nullptr;
  size_t count = 0;
  for (const FrontPoint* point : points) {
    const std::vector<double> gaps = results.gaps(*point->config, front.raced && point->candidate);
    const bool raced = front.raced && point->candidate && point->raced_gap.interval;
    if (!(raced ? point->raced_gap.interval->high < 0 : is_surely_below_zero(gaps, points.size()))) continue;
    ++count;
    if (best == nullptr || point->y.mean < best->y.mean) best = point;
  }
  if (best == nullptr) return "";
  return fmt::format("{} of {} configurations lose less than fp32, most of all {}; tune fp32 before you believe it",
                     count, points.size(), named(*best->config));
}

std::string at_edge(const ContextFront& front) {
  size_t count = 0;
  const ConfigResult* first = nullptr;
  for (const FrontPoint& point : front.points) {
    if (point.y.n == 0 || point.config->record.at != At::edge) continue;
    if (count++ == 0) first = point.config;
  }
  if (count == 0) return "";
  return fmt::format("{} tuned values lie at an end of their ladder, such as that of {}; start the ladder nearer",
                     count, named(*first));
}

double effective_batch(const Json& config) {
  const Json& task = config.at("task");
  double t = 0;
  if (const auto outliers = task.find("outliers"); outliers != task.end()) t = outliers->value("token", 0.0);
  return config.at("train").value("batch", least_effective_batch) * task.value("context", 1.0) / std::exp(t * t);
}

std::string small_batch(const ContextFront& front, const Results& results) {
  const ConfigResult* fp32 = results.find(front.context);
  if (fp32 == nullptr) return "";
  const double left = effective_batch(Json::parse(fp32->record.config));
  if (left >= least_effective_batch) return "";
  return fmt::format("the batch has {:.3g} effective examples, fewer than {:g}", left, least_effective_batch);
}

// What fp32 runs share that a better learning rate, clip or warm-up leaves alone.
std::string family(const ConfigResult& fp32) {
  Json config = Json::parse(fp32.record.config);
  for (const char* key : {"lr", "clip", "warmup"}) config.at("train").erase(key);
  return config.dump();
}

std::optional<double> mean_loss(const ConfigResult& config) {
  double sum = 0;
  size_t count = 0;
  for (const RunRecord& run : config.runs) {
    if (run.role == Role::tune) continue;
    if (!run.loss) return std::nullopt;
    sum += *run.loss;
    ++count;
  }
  if (count < 2) return std::nullopt;
  return sum / static_cast<double>(count);
}

std::string untuned_reference(const ContextFront& front, const Results& results,
                              const std::map<std::string, const ConfigResult*>& best_of_family) {
  const ConfigResult* fp32 = results.find(front.context);
  if (fp32 == nullptr) return "";
  const ConfigResult& best = *best_of_family.at(family(*fp32));
  const std::optional<double> own = mean_loss(*fp32), other = mean_loss(best);
  if (!own || !other || *other > *own * (1 - least_improvement)) return "";
  const Json train = Json::parse(best.record.config).at("train");
  return fmt::format("fp32 reaches {:.4g} here and {:.4g} with lr {:g}, clip {:g}, warm-up {:g} ({})", *own, *other,
                     train.value("lr", 0.0), train.value("clip", 0.0), train.value("warmup", 0.0), best.record.hash);
}

std::string no_delta(const ContextFront& front, const Results& results) {
  if (!front.raced) return "";
  if (!(front.delta > 0))
    return "delta is 0, so no candidate can be tied: name mxfp4 among the grid's recipes or references, or give "
           "race.delta";
  const auto& race = results.grid().race;
  if (!race || race->delta || race->delta_of_task.contains(front.task)) return "";
  for (const FrontPoint& point : front.points) {
    if (!results.is_plain(*point.config, "mxfp4")) continue;
    const Summary gap = summarise(results.all_gaps(*point.config));
    if (gap.interval && gap.interval->low <= 0 && gap.interval->high >= 0)
      return fmt::format("delta is a share of mxfp4's gap, {:+.2g}, which is not told apart from 0: give race.delta",
                         gap.mean);
  }
  return "";
}

// Whether two configurations have equal digests on every seed that both ran on; none without such a seed.
std::optional<bool> are_equal_runs(const ConfigResult& a, const ConfigResult& b) {
  std::optional<bool> equal;
  for (const RunRecord& run : a.runs) {
    const RunRecord* const other = b.run(run.seed);
    if (other == nullptr || run.digest.empty() || other->digest.empty()) continue;
    if (run.digest != other->digest) return false;
    equal = true;
  }
  return equal;
}

// Pairs of values of an axis that no pair of configurations tells apart which differ in it alone.
std::string no_effect(const ContextFront& front, const Results& results) {
  std::string text;
  for (size_t axis = 0; axis < results.axes().size(); ++axis) {
    std::map<std::pair<std::string, std::vector<std::string>>, std::vector<const ConfigResult*>> groups;
    for (const FrontPoint* point : compared(front)) {
      std::vector<std::string> others = point->config->labels;
      if (others.at(axis).empty()) continue;
      others[axis].clear();
      groups[{point->config->record.recipe, others}].push_back(point->config);
    }
    std::map<std::pair<std::string, std::string>, bool> equal;
    for (const auto& [others, configs] : groups)
      for (size_t second = 1; second < configs.size(); ++second)
        for (size_t first = 0; first < second; ++first)
          if (const auto same = are_equal_runs(*configs[first], *configs[second])) {
            const auto pair = std::minmax(configs[first]->labels[axis], configs[second]->labels[axis]);
            const auto known = equal.try_emplace({pair.first, pair.second}, true).first;
            known->second = known->second && *same;
          }
    for (const auto& [pair, same] : equal)
      if (same)
        text += fmt::format("{}{}: {} and {}", text.empty() ? "" : "; ", results.axes()[axis], pair.first, pair.second);
  }
  if (text.empty()) return "";
  return text +
         " have equal digests on every seed: another setting hides the difference (a tensor scale brings block scales "
         "into the range of each format), and only their costs differ";
}

}  // namespace

std::vector<RaisedAlarm> alarms(const Results& results, const std::vector<ContextFront>& fronts) {
  std::map<std::string, const ConfigResult*> best_of_family;
  for (const ContextFront& front : fronts) {
    const ConfigResult* fp32 = results.find(front.context);
    if (fp32 == nullptr) continue;
    const ConfigResult*& best = best_of_family.try_emplace(family(*fp32), fp32).first->second;
    const std::optional<double> own = mean_loss(*fp32), least = mean_loss(*best);
    if (own && (!least || *own < *least)) best = fp32;
  }
  std::vector<RaisedAlarm> raised;
  for (const ContextFront& front : fronts) {
    const auto raise = [&](Alarm alarm, std::string text) {
      if (!text.empty()) raised.push_back({alarm, front.description, std::move(text)});
    };
    raise(Alarm::better_than_fp32, better_than_fp32(front, results));
    raise(Alarm::at_edge, at_edge(front));
    raise(Alarm::small_batch, small_batch(front, results));
    raise(Alarm::no_delta, no_delta(front, results));
    raise(Alarm::no_effect, no_effect(front, results));
    raise(Alarm::untuned_reference, untuned_reference(front, results, best_of_family));
  }
  return raised;
}

}  // namespace fp4::sweeps
