#include "sweeps/cost/doubt.h"

#include <algorithm>
#include <cmath>
#include <random>

namespace fp4::cost {

CostDraw draw_cost(const CostOptions& options, const CostDoubt& doubt, const Hardware& hardware, uint64_t number) {
  constexpr double sds_of_95_percent = 1.959964;
  std::mt19937_64 engine(number + 1);
  std::normal_distribution<double> normal;
  const auto within = [&](double factor) { return std::exp(std::log(factor) / sds_of_95_percent * normal(engine)); };
  const auto known = [&](const Quantity& figure) {
    return within(figure.kind == "fitted" || figure.kind == "measured" ? doubt.fitted : doubt.factor);
  };
  CostDraw draw{options, 1};
  draw.options.formulas = false;
  CostWeights& weights = draw.options.weights;
  weights.efficiency *= known(hardware.efficiency);
  weights.bandwidth *= within(doubt.factor);
  weights.issue *= within(doubt.factor);
  weights.other *= known(hardware.other_s_per_token);
  draw.fp4 = within(doubt.fp4);
  return draw;
}

bool runs_fp4(const RecipeFacts& recipe, const Hardware& hardware) {
  for (int gemm = 0; gemm < 3; ++gemm)
    if (executed_class(gemm_of(recipe, gemm), hardware) == "fp4") return true;
  return std::any_of(recipe.phases.begin(), recipe.phases.end(),
                     [&](const RecipeFacts& phase) { return runs_fp4(phase, hardware); });
}

CostRange middle(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const auto at = [&](double share) {
    return values[static_cast<size_t>(std::lround(share * static_cast<double>(values.size() - 1)))];
  };
  return {at(0.025), at(0.975)};
}

std::vector<CostDoubts> cost_doubts(const std::vector<RecipeFacts>& recipes, const Model& model,
                                    const Hardware& hardware, const CostOptions& options, const CostDoubt& doubt) {
  std::vector<double> modelled;
  for (const RecipeFacts& recipe : recipes) modelled.push_back(step_seconds(recipe, model, hardware, options));
  const auto quickest = static_cast<size_t>(std::min_element(modelled.begin(), modelled.end()) - modelled.begin());
  RecipeFacts ideal = ideal_recipe(hardware);
  ideal.free_quantisation = true;
  std::vector<std::vector<double>> step(recipes.size()), overhead(recipes.size()), against(recipes.size());
  for (uint64_t i = 0; i < cost_draws; ++i) {
    const CostDraw draw = draw_cost(options, doubt, hardware, i);
    // Where FP4 products are quicker than said, so are those of the ideal step: none is quicker than that.
    const double best =
        step_seconds(ideal, model, hardware, draw.options) * (runs_fp4(ideal, hardware) ? std::min(1.0, draw.fp4) : 1);
    std::vector<double> seconds;
    for (const RecipeFacts& recipe : recipes)
      seconds.push_back(step_seconds(recipe, model, hardware, draw.options) *
                        (runs_fp4(recipe, hardware) ? draw.fp4 : 1));
    for (size_t r = 0; r < recipes.size(); ++r) {
      step[r].push_back(seconds[r] / modelled[r]);
      overhead[r].push_back(seconds[r] / best - 1);
      against[r].push_back(seconds[r] / seconds[quickest]);
    }
  }
  std::vector<CostDoubts> list;
  for (size_t r = 0; r < recipes.size(); ++r) {
    const Communication whole = evaluate(recipes[r], model, hardware, options).communication;
    const CostRange own = middle(step[r]);
    list.push_back({{whole.step_s(own.low) / whole.t2_s, whole.step_s(own.high) / whole.t2_s},
                    middle(overhead[r]),
                    middle(against[r]),
                    r == quickest});
  }
  return list;
}

namespace {

// Overheads closer than this are one point: below any model's accuracy, above rounding.
constexpr double equal_overhead = 1e-6;

int order(double a, double b) { return std::abs(a - b) < equal_overhead ? 0 : a < b ? -1 : 1; }

std::vector<int> ranks(const std::vector<double>& overhead) {
  std::vector<int> rank;
  for (const double mine : overhead) {
    int cheaper = 0;
    for (const double other : overhead) cheaper += order(other, mine) < 0 ? 1 : 0;
    rank.push_back(cheaper + 1);
  }
  return rank;
}

}  // namespace

// One factor at a time; the efficiency of GEMMs is capped at 1, so doubling 0.65 gives 1.
Sensitivity sensitivity(const std::vector<RecipeFacts>& recipes, const Model& model, const Hardware& hardware,
                        const CostOptions& options) {
  const struct {
    const char* name;
    double CostWeights::*field;
    double factor;
  } variations[] = {{"as stated", &CostWeights::efficiency, 1},
                    {"efficiency/2", &CostWeights::efficiency, 0.5},
                    {"efficiency*2", &CostWeights::efficiency, 2},
                    {"bandwidth/2", &CostWeights::bandwidth, 0.5},
                    {"bandwidth*2", &CostWeights::bandwidth, 2},
                    {"issue/2", &CostWeights::issue, 0.5},
                    {"issue*2", &CostWeights::issue, 2}};
  Sensitivity out;
  for (const auto& variation : variations) {
    CostOptions changed = options;
    changed.formulas = false;
    changed.weights.*variation.field *= variation.factor;
    Variation row{variation.name, {}, {}};
    for (const RecipeFacts& recipe : recipes)
      row.overhead.push_back(evaluate(recipe, model, hardware, changed).overhead);
    row.rank = ranks(row.overhead);
    out.rows.push_back(std::move(row));
  }
  for (size_t i = 0; i < recipes.size(); ++i)
    for (size_t j = i + 1; j < recipes.size(); ++j) {
      bool below = false, above = false;
      for (const Variation& row : out.rows) {
        const int sign = order(row.overhead[i], row.overhead[j]);
        below = below || sign < 0;
        above = above || sign > 0;
      }
      ++out.pairs;
      if (!(below && above)) ++out.stable_pairs;
    }
  return out;
}

}  // namespace fp4::cost
