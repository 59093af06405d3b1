// Binds fronts and tables to the cost model (sweeps/cost/cost.h).
#include <cmath>
#include <memory>

#include "sim/rules/recipe.h"
#include "src/text/named_rows.h"
#include "src/text/words.h"
#include "sweeps/cost/adapt.h"
#include "sweeps/cost/cost.h"
#include "sweeps/cost/doubt.h"
#include "sweeps/training.h"

namespace fp4::sweeps {

CostModel real_cost_model(const std::string& hardware_name, const std::string& model_name, const CostWeights& weights) {
  const auto hardware = std::make_shared<const cost::Hardware>(cost::load_hardware(hardware_name));
  const auto model = std::make_shared<const cost::Model>(cost::load_model(model_name));
  cost::CostOptions options;
  options.formulas = false;
  for (const auto& [name, value] : weights)
    options.weights.*named_row("cost weight", name, cost::weight_table()).field = value;
  const auto evaluate = [hardware, model, options](const Json& recipe, int steps, const CostWeights& factors) {
    cost::CostOptions turned = options;
    turned.steps = steps;
    for (const auto& [name, factor] : factors)
      turned.weights.*named_row("cost weight", name, cost::weight_table()).field *= factor;
    const cost::CostResult result = cost::evaluate(sim::recipe_from_json(recipe), *model, *hardware, turned);
    return Cost{.overhead = result.overhead,
                .quantisation_overhead = result.quantisation_overhead,
                .step_time_s = result.step_time_s,
                .energy_j = result.energy_j.value_or(std::nan("")),
                .price = result.price.value_or(std::nan("")),
                .points = result.points.value_or(0),
                .speedup_bf16 = result.speedup_bf16,
                .fp4_share = result.precisions.contains("fp4") ? result.precisions.at("fp4") : 0,
                .decoded = joined(result.decoded)};
  };
  const auto groups = [hardware, model, options](const Json& recipe, int steps) {
    cost::CostOptions of_run = options;
    of_run.steps = steps;
    const cost::CostResult result = cost::evaluate(sim::recipe_from_json(recipe), *model, *hardware, of_run);
    std::vector<std::pair<std::string, double>> list;
    for (const std::string& group : cost::cost_groups()) {
      if (const double seconds = cost::group_seconds(result, group); seconds > 0) list.emplace_back(group, seconds);
    }
    return list;
  };
  const auto overhead_range = [hardware, model, options](const Json& recipe, int steps) {
    cost::CostOptions of_run = options;
    of_run.steps = steps;
    const cost::RecipeFacts facts = cost::facts_of(sim::recipe_from_json(recipe), steps);
    const cost::CostRange range = cost::cost_doubts({facts}, *model, *hardware, of_run).front().overhead;
    return std::pair(range.low, range.high);
  };
  return {.evaluate = evaluate,
          .groups = groups,
          .overhead_range = overhead_range,
          .hardware = hardware->name,
          .model = model->name};
}

}  // namespace fp4::sweeps
