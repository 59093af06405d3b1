// See advice.h.
#include "sweeps/judge/advice.h"

#include <algorithm>
#include <cmath>
#include <random>

#include "src/text/error.h"

namespace fp4::sweeps {

namespace {

double per_step(const cost::CostResult& result, Objective objective, const std::string& chip) {
  if (objective == Objective::time) return result.step_time_s;
  const std::optional<double> value = objective == Objective::price ? result.price : result.energy_j;
  if (!value) throw Error("advise: " + chip + " has no " + (objective == Objective::price ? "price" : "power figures"));
  return *value;
}

// The value at a share of the sorted list, by rank: infinite values stay what they are.
double at_rank(std::vector<double> values, double share) {
  const auto rank = static_cast<size_t>(std::lround(share * static_cast<double>(values.size() - 1)));
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(rank), values.end());
  return values[rank];
}
Interval middle(const std::vector<double>& values) { return {at_rank(values, 0.025), at_rank(values, 0.975)}; }

// Where the ratio of tokens is read.
struct Place {
  double n, d;
};

// Tokens as a multiple of those with which the baseline reaches the same loss; infinite when they never do.
double token_ratio(const Law& law, const Efficiency& efficiency, const Place& at, double max_gap) {
  const double n = at.n, loss = law.loss(n, at.d) * (1 + max_gap);
  const auto mine = tokens_to_reach(law, efficiency, n, loss), theirs = tokens_to_reach(law, {}, n, loss);
  return mine && theirs ? *mine / *theirs : INFINITY;
}

// The tokens that make up a gap: ln L falls by `slope` an e-fold of tokens, and the gap itself changes by `by_d`. The
// baseline reaches a loss larger by the share `max_gap` with fewer tokens, where the gap is another one.
double tokens_for_gap(double gap, double slope, double by_d, double max_gap) {
  const double left = gap - by_d * std::log1p(max_gap) / slope;
  if (slope <= by_d) return left <= 0 ? 1 : INFINITY;
  return std::exp(left / (slope - by_d));
}

// Draw i of the gap's own error, of each recipe by itself.
double draw_error(const std::string& recipe, size_t i, const PlaneAt& gap) {
  std::seed_seq seed(recipe.begin(), recipe.end());
  std::mt19937_64 engine(seed);
  engine.discard(64 * i);
  std::student_t_distribution<double> student(gap.freedom);
  return gap.error * student(engine);
}

// Draw i of what the distance from the ladder adds to a gap, the same factor for all recipes.
double draw_transfer(double sd, size_t i) {
  std::mt19937_64 engine(1000 + i);
  std::normal_distribution<double> normal;
  return std::exp(sd * normal(engine));
}

double slope_of(const Law& law, const Place& at) {
  constexpr double h = 1e-3;
  return (std::log(law.loss(at.n, at.d * std::exp(-h))) - std::log(law.loss(at.n, at.d * std::exp(h)))) / (2 * h);
}

// The factor on a gap that lies so many e-folds of N and D from where it was measured.
double transfer_sd(double e_folds) {
  constexpr double sds_of_95_percent = 1.959964, seen = 3, over = 7.8;  // a factor of 3 from 3.2M to 8B weights
  return std::log(seen) / sds_of_95_percent * e_folds / over;
}

}  // namespace

double times_outside(double value, const Interval& range) {
  return std::max({1.0, value / range.high, range.low / value});
}

Advice advise(const LawStudy& study, const std::map<std::string, PlaneFit>& gaps,
              const std::map<std::string, cost::RecipeFacts>& recipes, const cost::Model& model,
              const cost::Hardware& hardware, const AdviceOptions& o) {
  Advice advice{.n = static_cast<double>(model.linear_parameters())};
  advice.far_n = times_outside(advice.n, study.n), advice.far_d = times_outside(o.d, study.d);
  const bool by_gaps = o.transfer == Transfer::gaps;
  advice.verdict = !by_gaps || std::max(advice.far_n, advice.far_d) <= farthest_advice;
  cost::CostOptions plain = o.cost;
  plain.formulas = false;
  const auto step_of = [&](const cost::RecipeFacts& facts, const cost::CostOptions& options) {
    return per_step(evaluate(facts, model, hardware, options), o.objective, hardware.name);
  };
  const Place edge{study.n.high, study.d.high};
  const Place at = o.transfer == Transfer::law || (by_gaps && advice.verdict) ? Place{advice.n, o.d} : edge;
  const double doubt_of_gap =
      by_gaps && advice.verdict ? transfer_sd(std::log(advice.far_n) + std::log(advice.far_d)) : 0;
  const cost::RecipeFacts& baseline = recipes.at(study.baseline);
  advice.baseline_step = step_of(baseline, plain);
  std::vector<cost::CostDraw> doubts;
  std::vector<double> baseline_steps;
  for (size_t i = 0; i < study.samples.size(); ++i) {
    doubts.push_back(cost::draw_cost(o.cost, o.doubt, i));
    baseline_steps.push_back(step_of(baseline, doubts.back().options));
  }
  std::map<std::string, std::vector<double>> draws;
  for (const auto& [name, facts] : recipes) {
    const bool is_baseline = name == study.baseline;
    const auto gap = gaps.find(name);
    if (!is_baseline &&
        (by_gaps ? gap == gaps.end() || !gap->second.missing.empty() : !study.recipes.at(name).missing.empty()))
      continue;
    AdviceRow row{.recipe = name};
    std::vector<double> tokens, steps, relative;
    const auto ratio_of = [&](const Law& law, const Efficiency& own) {
      return is_baseline ? 1 : token_ratio(law, own, at, o.max_gap);
    };
    if (by_gaps && !is_baseline) {
      const PlaneAt here = plane_at(gap->second, at.n, at.d);
      row.gap = here.value;
      row.tokens = tokens_for_gap(here.value, slope_of(study.fit.law, edge), gap->second.by_d, o.max_gap);
      for (size_t i = 0; i < study.samples.size(); ++i) {
        relative.push_back((here.value + draw_error(name, i, here)) * draw_transfer(doubt_of_gap, i));
        tokens.push_back(
            tokens_for_gap(relative.back(), slope_of(study.samples[i].law, edge), gap->second.by_d, o.max_gap));
      }
      row.gap_interval = middle(relative);
    } else {
      row.tokens = ratio_of(study.fit.law, is_baseline ? Efficiency{} : study.recipes.at(name).efficiency);
      for (const LawSample& sample : study.samples)
        tokens.push_back(ratio_of(sample.law, is_baseline ? Efficiency{} : sample.efficiency.at(name)));
    }
    if (!std::isfinite(*row.tokens)) row.tokens.reset();
    row.step = step_of(facts, plain) / advice.baseline_step;
    row.decoded = decoded_formats(facts, model, hardware);
    for (size_t i = 0; i < study.samples.size(); ++i) {
      steps.push_back((cost::has_fp4_operands(facts) ? doubts[i].fp4 : 1) * step_of(facts, doubts[i].options) /
                      baseline_steps[i]);
      draws[name].push_back(tokens[i] * steps[i]);
    }
    row.step_interval = middle(steps);
    // FP4 steps are drawn slower alone (cost/doubt.h).
    row.step_interval.low = std::min(row.step_interval.low, row.step);
    row.step_interval.high = std::max(row.step_interval.high, row.step);
    if (!is_baseline) row.tokens_interval = middle(tokens);
    row.cost = at_rank(draws[name], 0.5);
    row.interval = middle(draws[name]);
    advice.rows.push_back(std::move(row));
  }
  std::stable_sort(advice.rows.begin(), advice.rows.end(),
                   [](const AdviceRow& a, const AdviceRow& b) { return a.cost < b.cost; });
  AdviceRow& best = advice.rows.front();
  for (AdviceRow& row : advice.rows) {
    std::vector<double> ratios;
    for (size_t i = 0; i < study.samples.size(); ++i)
      ratios.push_back(std::isfinite(draws[row.recipe][i]) ? draws[row.recipe][i] / draws[best.recipe][i] : INFINITY);
    row.against_best = middle(ratios);
    row.word = &row == &best                 ? AdviceWord::best
               : !std::isfinite(row.cost)    ? AdviceWord::never
               : row.against_best.low <= 1.0 ? AdviceWord::alike
                                             : AdviceWord::dearer;
  }
  if (advice.rows.size() > 1 && best.tokens) {
    const double share = advice.rows[1].cost / best.cost;
    advice.turning_tokens = *best.tokens * share;
    advice.turning_step = best.step * share;
  }
  return advice;
}

}  // namespace fp4::sweeps
