// Costs of configurations, computed when a table is read and never stored: distinct recipes are evaluated once, in
// parallel, whatever number of tasks, seeds and training lengths share them.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "sweeps/judge/results.h"

namespace fp4::sweeps {

// What a cost model reads of a configuration; `steps` is 0 for recipes without phases, whose steps all cost the same.
struct PricedRecipe {
  Json recipe;
  int steps = 0;
};
PricedRecipe priced_recipe(const std::string& config);

class Costs {
 public:
  Costs(const Results& results, CostModel model);

  const CostModel& model() const { return model_; }
  const Cost& of(const ConfigResult& config) const;
  // The 95 % interval of its overhead; none where the model states no doubt. Some 200 evaluations each time.
  std::optional<std::pair<double, double>> overhead_range(const ConfigResult& config) const;
  // The same with one weight multiplied by `factor`; remembered, since front points share their rivals.
  Cost weighted(const ConfigResult& config, const std::string& weight, double factor) const;
  // Evaluates one weight and factor for all recipes at once, in parallel.
  void prepare(const std::string& weight, double factor) const;

 private:
  using Table = std::vector<Cost>;
  Cost evaluate(size_t recipe, const CostWeights& weights) const;

  CostModel model_;
  std::vector<PricedRecipe> recipes_;
  std::unordered_map<std::string, size_t> recipe_of_;  // by config hash
  Table plain_;
  mutable std::map<std::pair<std::string, double>, std::unordered_map<size_t, Cost>> weighted_;
};

// The x column of a front. `energy` is short for energy_j; a chip without power figures or a price has NaN there.
std::string cost_word(const std::string& word);
double cost_column(const Cost& cost, const std::string& name);
const std::vector<std::string>& cost_columns();

// The models of a grid's chips, with the grid's model size.
std::vector<CostModel> cost_models_of(const Grid& grid);

}  // namespace fp4::sweeps
