// See costs.h. A recipe is told apart by its canonical text.
#include "sweeps/judge/costs.h"

#include <tbb/parallel_for.h>

#include <string_view>

#include "src/error.h"

namespace fp4::sweeps {

namespace {

// The text of "recipe" inside a canonical configuration without parsing the rest: the sections are objects, and a brace
// inside a string would need a quote, which ends the count. Thousands of configurations share few recipes.
std::string_view recipe_text(const std::string& config) {
  static constexpr std::string_view key = "\"recipe\":";
  // Keys are sorted: a branch and an evaluation, whose recipes may hold others, stand in front. "task" follows.
  size_t begin = config.find(key);
  if (config.starts_with("{\"branch\":") || config.starts_with("{\"eval\":")) {
    const Json whole = Json::parse(config, nullptr, /*allow_exceptions=*/false);
    if (whole.is_object() && whole.contains("recipe")) begin = config.find(std::string(key) + whole["recipe"].dump());
  }
  if (begin == std::string::npos) throw Error("a configuration without a recipe: " + config.substr(0, 100), 1);
  size_t at = begin + key.size();
  int depth = 0;
  bool quoted = false;
  for (; at < config.size(); ++at) {
    const char c = config[at];
    if (quoted) {
      if (c == '\\') ++at;
      if (c == '"') quoted = false;
      continue;
    }
    if (c == '"') quoted = true;
    if (c == '{') ++depth;
    if (c == '}' && --depth == 0) break;
  }
  return std::string_view(config).substr(begin + key.size(), at + 1 - begin - key.size());
}

PricedRecipe parse_recipe(std::string_view text, const std::string& config) {
  PricedRecipe priced{Json::parse(text, nullptr, /*allow_exceptions=*/false)};
  if (!priced.recipe.is_object()) throw Error("a configuration whose recipe is not an object", 1);
  if (priced.recipe.contains("phases")) priced.steps = Json::parse(config).at("train").at("steps");
  return priced;
}

}  // namespace

PricedRecipe priced_recipe(const std::string& config) { return parse_recipe(recipe_text(config), config); }

Costs::Costs(const Results& results, CostModel model) : model_(std::move(model)) {
  std::map<std::pair<std::string_view, int>, size_t> known;  // a recipe with phases once for each number of steps
  std::vector<const std::string*> configs;
  for (const ConfigResult& config : results.configs()) {
    const std::string_view text = recipe_text(config.record.config);
    const bool has_phases = text.find("\"phases\":") != std::string_view::npos;
    const int steps = has_phases ? priced_recipe(config.record.config).steps : 0;
    const auto [entry, fresh] = known.try_emplace({text, steps}, known.size());
    if (fresh) configs.push_back(&config.record.config);
    recipe_of_[config.record.hash] = entry->second;
  }
  recipes_.resize(configs.size());
  plain_.resize(configs.size());
  tbb::parallel_for(size_t{0}, configs.size(), [&](size_t i) {
    recipes_[i] = priced_recipe(*configs[i]);
    plain_[i] = evaluate(i, {});
  });
}

Cost Costs::evaluate(size_t recipe, const CostWeights& weights) const {
  return model_.evaluate(recipes_[recipe].recipe, recipes_[recipe].steps, weights);
}

const Cost& Costs::of(const ConfigResult& config) const { return plain_[recipe_of_.at(config.record.hash)]; }

Cost Costs::weighted(const ConfigResult& config, const std::string& weight, double factor) const {
  const size_t recipe = recipe_of_.at(config.record.hash);
  auto& known = weighted_[{weight, factor}];
  const auto [entry, fresh] = known.try_emplace(recipe);
  if (fresh) entry->second = evaluate(recipe, {{weight, factor}});
  return entry->second;
}

void Costs::prepare(const std::string& weight, double factor) const {
  Table table(recipes_.size());
  tbb::parallel_for(size_t{0}, recipes_.size(), [&](size_t i) { table[i] = evaluate(i, {{weight, factor}}); });
  auto& known = weighted_[{weight, factor}];
  for (size_t i = 0; i < table.size(); ++i) known[i] = table[i];
}

const std::vector<std::string>& cost_columns() {
  static const std::vector<std::string> names = {"overhead", "quantisation_overhead", "step_time_s", "energy_j"};
  return names;
}

double cost_column(const Cost& cost, const std::string& name) {
  if (name == "overhead") return cost.overhead;
  if (name == "quantisation_overhead") return cost.quantisation_overhead;
  if (name == "step_time_s") return cost.step_time_s;
  if (name == "energy_j") return cost.energy_j;
  throw unknown_word("column", name, cost_columns());
}

std::vector<CostModel> cost_models_of(const Grid& grid) {
  std::vector<CostModel> models;
  for (const std::string& hardware : grid.hardware)
    models.push_back(
        at_place(grid.place + ": hardware or model", [&] { return real_cost_model(hardware, grid.model); }));
  return models;
}

}  // namespace fp4::sweeps
