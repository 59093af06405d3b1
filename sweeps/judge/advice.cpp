// See advice.h.
#include "sweeps/judge/advice.h"

#include <algorithm>
#include <cmath>
#include <random>

#include "src/error.h"

namespace fp4::sweeps {

namespace {

double per_step(const cost::CostResult& result, Objective objective, const std::string& chip) {
  if (objective == Objective::time) return result.step_time_s;
  const std::optional<double> value = objective == Objective::price ? result.price : result.energy_j;
  if (!value) throw Error("advise: " + chip + " has no " + (objective == Objective::price ? "price" : "power figures"));
  return *value;
}

bool is_fp4(const cost::RecipeFacts& recipe) {
  for (int gemm = 0; gemm < 3; ++gemm)
    if (cost::format_class(cost::gemm_of(recipe, gemm)) == "fp4") return true;
  return false;
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

// One draw of what the cost model may have wrong.
struct Doubt {
  cost::CostOptions options;
  double fp4 = 1;
};
Doubt draw_doubt(const AdviceOptions& o, std::mt19937_64& engine) {
  constexpr double sds_of_95_percent = 1.959964;
  const double sd = std::log(o.doubt.factor) / sds_of_95_percent;
  std::normal_distribution<double> normal;
  Doubt doubt{o.cost, 1};
  doubt.options.formulas = false;
  for (double cost::CostWeights::*field :
       {&cost::CostWeights::efficiency, &cost::CostWeights::bandwidth, &cost::CostWeights::issue})
    doubt.options.weights.*field *= std::exp(sd * normal(engine));
  doubt.fp4 = 1 + o.doubt.fp4_slower * std::uniform_real_distribution<double>(0, 1)(engine);
  return doubt;
}

}  // namespace

Advice advise(const LawStudy& study, const std::map<std::string, cost::RecipeFacts>& recipes, const cost::Model& model,
              const cost::Hardware& hardware, const AdviceOptions& o) {
  Advice advice{.n = static_cast<double>(model.linear_parameters())};
  cost::CostOptions plain = o.cost;
  plain.formulas = false;
  const auto step_of = [&](const cost::RecipeFacts& facts, const cost::CostOptions& options) {
    return per_step(evaluate(facts, model, hardware, options), o.objective, hardware.name);
  };
  const Place at = o.transfer == Transfer::law ? Place{advice.n, o.d} : Place{study.n.high, study.d.high};
  const cost::RecipeFacts& baseline = recipes.at(study.baseline);
  advice.baseline_step = step_of(baseline, plain);
  std::vector<Doubt> doubts;
  std::vector<double> baseline_steps;
  for (size_t i = 0; i < study.samples.size(); ++i) {
    std::mt19937_64 engine(i + 1);
    doubts.push_back(draw_doubt(o, engine));
    baseline_steps.push_back(step_of(baseline, doubts.back().options));
  }
  std::map<std::string, std::vector<double>> draws;
  for (const auto& [name, facts] : recipes) {
    const bool is_baseline = name == study.baseline;
    if (!is_baseline && !study.recipes.at(name).missing.empty()) continue;
    const Efficiency own = is_baseline ? Efficiency{} : study.recipes.at(name).efficiency;
    AdviceRow row{.recipe = name};
    if (const double ratio = token_ratio(study.fit.law, own, at, o.max_gap); std::isfinite(ratio)) row.tokens = ratio;
    row.step = step_of(facts, plain) / advice.baseline_step;
    std::vector<double> tokens;
    for (size_t i = 0; i < study.samples.size(); ++i) {
      const LawSample& sample = study.samples[i];
      tokens.push_back(token_ratio(sample.law, is_baseline ? Efficiency{} : sample.efficiency.at(name), at, o.max_gap));
      draws[name].push_back(tokens.back() * (is_fp4(facts) ? doubts[i].fp4 : 1) * step_of(facts, doubts[i].options) /
                            baseline_steps[i]);
    }
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
