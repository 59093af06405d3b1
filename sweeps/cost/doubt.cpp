// See doubt.h.
#include "sweeps/cost/doubt.h"

#include <algorithm>
#include <cmath>
#include <random>

namespace fp4::cost {

CostDraw draw_cost(const CostOptions& options, const CostDoubt& doubt, uint64_t number) {
  constexpr double sds_of_95_percent = 1.959964;
  std::mt19937_64 engine(number + 1);
  std::normal_distribution<double> normal;
  const double sd = std::log(doubt.factor) / sds_of_95_percent;
  CostDraw draw{options, 1};
  draw.options.formulas = false;
  for (double CostWeights::*field :
       {&CostWeights::efficiency, &CostWeights::bandwidth, &CostWeights::issue, &CostWeights::other})
    draw.options.weights.*field *= std::exp(sd * normal(engine));
  draw.fp4 = 1 + doubt.fp4_slower * std::uniform_real_distribution<double>(0, 1)(engine);
  return draw;
}

bool has_fp4_operands(const RecipeFacts& recipe) {
  for (int gemm = 0; gemm < 3; ++gemm)
    if (format_class(gemm_of(recipe, gemm)) == "fp4") return true;
  return std::any_of(recipe.phases.begin(), recipe.phases.end(),
                     [](const auto& phase) { return has_fp4_operands(phase.second); });
}

namespace {

CostRange middle(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const auto at = [&](double share) {
    return values[static_cast<size_t>(std::lround(share * static_cast<double>(values.size() - 1)))];
  };
  return {at(0.025), at(0.975)};
}

}  // namespace

std::vector<CostDoubts> cost_doubts(const std::vector<RecipeFacts>& recipes, const Model& model,
                                    const Hardware& hardware, const CostOptions& options, const CostDoubt& doubt) {
  std::vector<double> modelled;
  for (const RecipeFacts& recipe : recipes) modelled.push_back(step_seconds(recipe, model, hardware, options));
  const auto quickest = static_cast<size_t>(std::min_element(modelled.begin(), modelled.end()) - modelled.begin());
  RecipeFacts ideal = ideal_recipe(hardware);
  ideal.free_quantisation = true;
  const double ideal_seconds = step_seconds(ideal, model, hardware, options);
  std::vector<std::vector<double>> step(recipes.size()), overhead(recipes.size()), against(recipes.size());
  for (uint64_t i = 0; i < cost_draws; ++i) {
    const CostDraw draw = draw_cost(options, doubt, i);
    const double best = step_seconds(ideal, model, hardware, draw.options);
    std::vector<double> seconds;
    for (const RecipeFacts& recipe : recipes)
      seconds.push_back(step_seconds(recipe, model, hardware, draw.options) *
                        (has_fp4_operands(recipe) ? draw.fp4 : 1));
    for (size_t r = 0; r < recipes.size(); ++r) {
      step[r].push_back(seconds[r] / modelled[r]);
      overhead[r].push_back(seconds[r] / best - 1);
      against[r].push_back(seconds[r] / seconds[quickest]);
    }
  }
  std::vector<CostDoubts> list;
  for (size_t r = 0; r < recipes.size(); ++r)
    list.push_back({middle(step[r]).with(1), middle(overhead[r]).with(modelled[r] / ideal_seconds - 1),
                    middle(against[r]).with(modelled[r] / modelled[quickest]), r == quickest});
  return list;
}

}  // namespace fp4::cost
