// How a front is found: screen by means, gather candidates, judge them on fresh seeds by paired differences whose
// intervals hold together.
#include "sweeps/judge/pareto.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>
#include <tuple>
#include <utility>

#include "src/text/error.h"
#include "sweeps/judge/front_extras.h"
#include "sweeps/judge/front_race.h"

namespace fp4::sweeps {

std::vector<bool> undominated(const std::vector<double>& x, const std::vector<double>& y) {
  std::vector<size_t> order(x.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(),
            [&](size_t a, size_t b) { return std::tie(x[a], y[a]) < std::tie(x[b], y[b]); });
  std::vector<bool> result(x.size(), false);
  double best = INFINITY;  // least y of all smaller x
  double level_x = NAN;    // the x being looked at, and the least y there
  double level_y = INFINITY;
  for (const size_t i : order) {
    if (std::isnan(x[i]) || std::isnan(y[i])) continue;
    if (x[i] != level_x) {
      best = std::min(best, level_y);
      level_x = x[i];
      level_y = y[i];
    }
    result[i] = y[i] < best && y[i] == level_y;
  }
  return result;
}

std::vector<int> dominated_ranks(const std::vector<double>& x, std::vector<double> y) {
  std::vector<int> ranks(x.size(), -1);
  for (int rank = 0;; ++rank) {
    const std::vector<bool> best = undominated(x, y);
    bool any = false;
    for (size_t i = 0; i < best.size(); ++i) {
      if (!best[i]) continue;
      ranks[i] = rank;
      y[i] = NAN;
      any = true;
    }
    if (!any) return ranks;
  }
}

namespace {

constexpr double screening_width = 3;  // standard errors above the screened front that still make a candidate

struct YColumn {
  Metric metric = Metric::loss;
  bool gap = true;
};

YColumn y_column(const std::string& name) {
  if (name == "loss_gap") return {Metric::loss, true};
  if (name == "loss_hp_gap") return {Metric::loss_hp, true};
  if (name == "loss") return {Metric::loss, false};
  if (name == "loss_hp") return {Metric::loss_hp, false};
  throw unknown_word("column y", name, {"loss_gap", "loss_hp_gap", "loss", "loss_hp"});
}

class ContextJudge {
 public:
  ContextJudge(const Results& results, const Costs& costs, const TokenCurves& curves, const FrontOptions& options,
               ContextFront& front)
      : results_(results), costs_(costs), curves_(curves), options_(options), y_(y_column(options.y)), front_(front) {}

  void judge_context() {
    screen();
    describe();
    if (options_.screening_only) return;
    if (front_.raced) race();
    for (FrontPoint& point : front_.points)
      if (point.candidate && !front_.raced) point.status = FrontStatus::screening;
    if (options_.sensitivity) add_sensitivity(front_, costs_, options_.x);
    for (FrontPoint& point : front_.points)
      if (point.on_front || (front_.raced && point.candidate))
        point.overhead_range = costs_.overhead_range(*point.config);
    add_units(front_, results_, curves_, options_.target);
  }

 private:
  std::vector<double> values(const ConfigResult& config, bool confirm) const {
    if (y_.gap) return results_.gaps(config, confirm, y_.metric);
    std::vector<double> values;
    for (const RunRecord& run : config.runs) {
      if (results_.is_confirm(run.seed) != confirm) continue;
      if (const auto value = metric_of(run, y_.metric)) values.push_back(*value);
    }
    return values;
  }

  // Differences of two configurations on the seeds that both have.
  std::vector<double> paired(const ConfigResult& a, const ConfigResult& b, bool confirm) const {
    std::vector<double> differences;
    for (const RunRecord& run : a.runs) {
      if (results_.is_confirm(run.seed) != confirm) continue;
      const RunRecord* other = b.run(run.seed);
      if (other == nullptr) continue;
      const auto mine = metric_of(run, y_.metric);
      const auto theirs = metric_of(*other, y_.metric);
      if (mine && theirs) differences.push_back(*mine - *theirs);
    }
    return differences;
  }

  void screen() {
    std::vector<double> x, y;
    for (FrontPoint& point : front_.points) {
      point.y = summarise(values(*point.config, false));
      for (const RunRecord& run : point.config->runs) {
        point.diverged += run.status == Status::diverged;
        point.runs += run.status != Status::failed;
      }
      point.cost = costs_.of(*point.config);
      point.x = cost_column(point.cost, options_.x);
      front_.raced |= results_.grid().may_race() && !values(*point.config, true).empty();
    }
    std::sort(front_.points.begin(), front_.points.end(), [](const FrontPoint& a, const FrontPoint& b) {
      return std::tie(a.x, a.y.mean, a.config->record.hash) < std::tie(b.x, b.y.mean, b.config->record.hash);
    });
    for (const FrontPoint& point : front_.points) {
      front_.seeds = std::max(front_.seeds, point.y.n);
      x.push_back(is_usable(point) ? point.x : NAN);
      y.push_back(is_usable(point) ? point.y.mean : NAN);
    }
    // Half the seeds or fewer is a run still going on: such a mean is no front yet, only luck.
    for (size_t i = 0; i < front_.points.size(); ++i) {
      if (2 * front_.points[i].y.n <= front_.seeds && front_.seeds > 1) x[i] = NAN;
    }
    const std::vector<bool> best = undominated(x, y);
    for (size_t i = 0; i < best.size(); ++i) front_.points[i].on_front = best[i];
    gather_candidates(x);
  }

  // Distance of each point above the front, in standard errors of its paired difference to the front point that stands
  // at its x or left of it. With two or three seeds an SD is itself a lottery: never trust one below the context's
  // typical (median) SD.
  void gather_candidates(const std::vector<double>& x) {
    std::vector<Summary> differences(front_.points.size());
    std::vector<double> spreads, compared;  // the latter with the steps of the front, each against the one before it
    const FrontPoint *leader = nullptr, *before = nullptr;
    for (size_t i = 0, next = 0; i < front_.points.size(); ++i) {
      // Points are sorted by x: everything with an x not above this one's may lead it.
      for (; next < front_.points.size() && !(front_.points[next].x > front_.points[i].x); ++next) {
        if (front_.points[next].on_front) before = std::exchange(leader, &front_.points[next]);
      }
      if (std::isnan(x[i]) || leader == nullptr) continue;
      const FrontPoint& point = front_.points[i];
      const FrontPoint* const rival = leader == &point ? before : leader;
      if (rival == nullptr) continue;
      differences[i] = summarise(paired(*point.config, *rival->config, false));
      if (differences[i].n < 2) continue;
      if (rival == leader) spreads.push_back(differences[i].sd);
      if (point.config->in_plan || rival->config->in_plan) compared.push_back(differences[i].sd);
    }
    const double typical = spreads.empty() ? 0 : quantile(spreads, 0.5);
    if (!compared.empty()) front_.paired_sd = quantile(compared, 0.5);
    front_.detectable = detectable_effect(front_.seeds) * front_.paired_sd;
    std::vector<size_t> candidates;
    for (size_t i = 0; i < front_.points.size(); ++i) {
      FrontPoint& point = front_.points[i];
      if (std::isnan(x[i])) continue;
      const Summary& difference = differences[i];
      const double error =
          std::max(difference.sd, typical) / std::sqrt(static_cast<double>(std::max<size_t>(1, difference.n)));
      point.distance = point.on_front || difference.mean <= 0 ? 0 : difference.mean / error;
      if (point.distance <= screening_width) candidates.push_back(i);
    }
    std::stable_sort(candidates.begin(), candidates.end(), [&](size_t a, size_t b) {
      return std::make_tuple(!front_.points[a].on_front, front_.points[a].distance) <
             std::make_tuple(!front_.points[b].on_front, front_.points[b].distance);
    });
    const size_t limit = results_.grid().candidates;
    for (size_t k = 0; k < candidates.size(); ++k) {
      // Baselines are candidates too, wherever they stand: a front without bf16 would not say what FP4 buys.
      front_.points[candidates[k]].candidate = k < limit || front_.points[candidates[k]].on_front;
      if (!front_.points[candidates[k]].candidate) leave_out(front_.points[candidates[k]]);
    }
    for (FrontPoint& point : front_.points)
      if (!point.config->in_plan && is_usable(point)) point.candidate = true;
  }

  // A point at z standard errors above the front is truly below it with probability Phi(-z).
  void leave_out(const FrontPoint& point) {
    const double below = std::erfc(point.distance / std::numbers::sqrt2) / 2;
    front_.left_out_chance = 1 - (1 - front_.left_out_chance) * (1 - below);
    ++front_.left_out;
  }

  // Points with fresh runs, their numbers taken from those alone.
  std::vector<FrontPoint*> fresh_points() {
    std::vector<FrontPoint*> judged;
    front_.seeds = 0;
    for (FrontPoint& point : front_.points) {
      point.on_front = false;
      const std::vector<double> fresh = values(*point.config, true);
      const bool ran = std::any_of(point.config->runs.begin(), point.config->runs.end(),
                                   [&](const RunRecord& run) { return results_.is_confirm(run.seed); });
      // Whoever has fresh runs is compared, whatever this chip's screening says: choosing again here, by numbers that
      // chose the candidates, would bring the luck back in.
      if (point.candidate && !ran && point.config->in_plan) leave_out(point);
      point.candidate = ran;
      if (!ran) continue;
      point.y = summarise(fresh);
      front_.seeds = std::max(front_.seeds, point.y.n);
      judged.push_back(&point);
    }
    return judged;
  }

  void race() {
    const std::vector<FrontPoint*> judged = fresh_points();
    const std::vector<double> overheads = as_overheads(judged);
    std::vector<Racer> racers;
    for (size_t i = 0; i < judged.size(); ++i)
      racers.push_back({.cost = overheads[i], .loss = race_losses(results_, *judged[i]->config, y_.metric)});
    const RaceRules rules = race_rules(results_.grid(), front_.delta);
    const RaceState state = judge_race(racers, rules);
    const auto fp32 = std::find_if(judged.begin(), judged.end(), [&](const FrontPoint* point) {
      return point->config->record.hash == front_.context;
    });
    front_.raced = true;
    front_.comparisons = race_pairs(racers);
    for (size_t i = 0; i < judged.size(); ++i) {
      const RaceVerdict& verdict = state.verdicts[i];
      FrontPoint& point = *judged[i];
      point.status = verdict.word;
      point.on_front = std::find(state.steps.begin(), state.steps.end(), i) != state.steps.end();
      if (verdict.rival != no_rival) {
        point.rival = judged[verdict.rival]->config;
        point.own_rung = &point.config->rung(verdict.difference.mean_at.mine);
        point.rival_rung = &point.rival->rung(verdict.difference.mean_at.theirs);
        point.rates_differ = results_.rates_differ(*point.own_rung, *point.rival_rung);
      }
      point.difference = verdict.difference;
      if (const PairedDifference& d = verdict.difference; d.interval)
        point.detectable = detectable_effect(*d.interval, d.mean, d.low_at.error, d.high_at.error, d.n);
      if (fp32 == judged.end()) continue;
      point.raced_gap = race_difference(racers, rules, i, static_cast<size_t>(fp32 - judged.begin()));
      if (&point == *fp32) point.raced_gap.mean = point.raced_gap.sd = 0, point.raced_gap.interval = Interval{};
      point.rung = &point.config->rung(point.raced_gap.mean_at.mine);
    }
    std::vector<double> spreads, detectable;
    for (const FrontPoint* point : judged) {
      if (!point->difference.interval) continue;
      spreads.push_back(point->difference.sd);
      detectable.push_back(point->detectable);
    }
    front_.paired_sd = quantile(spreads, 0.5);
    front_.detectable = quantile(detectable, 0.5);
    // The noise floor is taken from the same seeds.
    front_.noise_floor = noise_floor(true);
  }

  // The spread of bf16 - fp32, which one seed does not have.
  std::optional<Summary> noise_floor(bool confirm) const {
    if (bf16_ == nullptr) return std::nullopt;
    const Summary gaps = summarise(results_.gaps(*bf16_, confirm, y_.metric));
    return gaps.n >= 2 ? std::optional(gaps) : std::nullopt;
  }

  // Levels of cost are told apart by overheads (RaceRules::cost_doubt). Seconds, joules and dollars stand for the
  // overhead of the cheapest and what they are above it, in shares.
  std::vector<double> as_overheads(const std::vector<FrontPoint*>& judged) const {
    std::vector<double> costs;
    for (const FrontPoint* point : judged) costs.push_back(point->x);
    if (options_.x.ends_with("overhead") || options_.x == "points" || judged.empty()) return costs;
    const auto less = [](const FrontPoint* a, const FrontPoint* b) { return a->x < b->x; };
    const FrontPoint& cheapest = **std::min_element(judged.begin(), judged.end(), less);
    for (double& cost : costs) cost = (1 + cheapest.cost.overhead) * cost / cheapest.x - 1;
    return costs;
  }

  void describe() {
    const ConfigResult* mxfp4 = nullptr;
    for (const FrontPoint& point : front_.points) {
      if (results_.is_plain(*point.config, "bf16")) bf16_ = point.config;
      if (results_.is_plain(*point.config, "mxfp4")) mxfp4 = point.config;
      if (front_.description.empty() && point.config->in_plan) front_.description = description(*point.config);
    }
    if (front_.description.empty()) front_.description = front_.task;
    front_.noise_floor = noise_floor(false);
    std::optional<double> gap;
    if (mxfp4 != nullptr) gap = summarise(results_.all_gaps(*mxfp4, y_.metric)).mean;
    const auto& race = results_.grid().race;
    front_.delta = options_.delta ? *options_.delta : race.value_or(RaceSettings{}).delta_on(front_.task, gap);
  }

  std::string description(const ConfigResult& config) const {
    std::string text = front_.task;
    for (size_t i = 0; i < config.labels.size(); ++i) {
      const std::string& axis = results_.axes()[i];
      if (axis.rfind("task.", 0) != 0 && axis.rfind("train.", 0) != 0) continue;
      if (!config.labels[i].empty()) text += ", " + axis + " = " + config.labels[i];
    }
    return text;
  }

  const Results& results_;
  const Costs& costs_;
  const TokenCurves& curves_;
  const FrontOptions& options_;
  YColumn y_;
  ContextFront& front_;
  const ConfigResult* bf16_ = nullptr;
};

}  // namespace

std::vector<ContextFront> fronts(const Results& results, const Costs& costs, const FrontOptions& options) {
  cost_column({}, options.x);  // an unknown word throws before any work
  y_column(options.y);
  for (const ConfigResult& config : results.configs()) {
    if (!std::isnan(cost_column(costs.of(config), options.x))) continue;
    throw Error(fmt::format("--x {}: hardware {} states no {}", options.x, costs.model().hardware,
                            options.x == "price" ? "price_per_hour" : "power (board_w, idle_w, system_w)"));
  }
  std::map<std::tuple<std::string, std::string, bool>, ContextFront> contexts;
  for (const ConfigResult& config : results.configs()) {
    const std::string& task = config.record.task;
    const bool at_best = config.record.at != At::fixed;  // never mixed with what runs at the grid's values
    ContextFront& front = contexts[{task, config.record.reference, at_best}];
    front.task = task;
    front.at_best = at_best;
    front.context = config.record.reference;
    FrontPoint& point = front.points.emplace_back();
    point.config = point.rung = &config;
  }
  if (options.sensitivity && !options.screening_only) {
    for (const std::string& weight : costs.model().weights) {
      for (const double factor : {0.25, 4.0}) costs.prepare(weight, factor);
    }
  }
  const TokenCurves curves(results);
  std::vector<ContextFront> list;
  for (auto& [key, front] : contexts) {
    ContextJudge(results, costs, curves, options, front).judge_context();
    list.push_back(std::move(front));
  }
  const auto standing = [](const ContextFront& front) { return front.raced ? 0 : 1; };
  std::stable_sort(list.begin(), list.end(), [&](const ContextFront& a, const ContextFront& b) {
    return std::tuple(a.task, standing(a), a.description) < std::tuple(b.task, standing(b), b.description);
  });
  return list;
}

std::map<std::string, double> delta_by_task(const std::vector<ContextFront>& fronts) {
  std::map<std::string, double> delta;
  for (const ContextFront& front : fronts) delta.try_emplace(front.task, front.delta);
  return delta;
}

}  // namespace fp4::sweeps
