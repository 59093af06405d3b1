// See costs.h. A recipe is told apart by its canonical text.
#include "sweeps/judge/costs.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "src/text/error.h"
#include "src/text/named_rows.h"
#include "src/threads/parallel.h"

namespace fp4::sweeps {

namespace {

// The text of a section of a canonical configuration, without parsing the rest: thousands of configurations share few
// recipes. Only keys of the outermost object count: a branch and an evaluation in front hold recipes of their own.
std::string_view section_text(std::string_view config, std::string_view name) {
  int depth = 0;
  size_t begin = 0;  // of the section, once it is found
  for (size_t at = 0; at < config.size(); ++at) {
    const char c = config[at];
    if (c == '"') {
      const size_t first = at + 1;
      for (++at; at < config.size() && config[at] != '"'; ++at) at += config[at] == '\\';
      if (depth == 1 && begin == 0 && config.substr(std::min(at, config.size())).starts_with("\":{") &&
          config.substr(first, at - first) == name)
        begin = at + 2;
    }
    if (c == '{') ++depth;
    if (c == '}' && --depth == 1 && begin != 0) return config.substr(begin, at + 1 - begin);
  }
  throw Error(fmt::format("a configuration without a {}: {}", name, config.substr(0, 100)), Error::failed);
}

PricedRecipe parse_recipe(std::string_view text, const std::string& config) {
  PricedRecipe priced{Json::parse(text, nullptr, /*allow_exceptions=*/false)};
  if (!priced.recipe.is_object()) throw Error("a configuration whose recipe is not an object", Error::failed);
  if (priced.recipe.contains("phases")) priced.steps = Json::parse(section_text(config, "train")).at("steps");
  return priced;
}

template <class Body>
void for_each_index(size_t count, const Body& body) {
  parallel_for(0, static_cast<int64_t>(count), 1, threads_of_machine(), 1,
               [&](int64_t i) { body(static_cast<size_t>(i)); });
}

}  // namespace

PricedRecipe priced_recipe(const std::string& config) { return parse_recipe(section_text(config, "recipe"), config); }

Costs::Costs(const Results& results, CostModel model) : model_(std::move(model)) {
  // A recipe with phases once for each training, whose steps decide what it costs.
  std::map<std::pair<std::string_view, std::string_view>, size_t> known;
  std::vector<std::pair<std::string_view, const std::string*>> fresh_recipes;
  const auto know = [&](const ConfigResult& config) {
    const std::string& text = config.record.config;
    const std::string_view recipe = section_text(text, "recipe");
    const bool has_phases = recipe.find("\"phases\":") != std::string_view::npos;
    const auto [entry, fresh] =
        known.try_emplace({recipe, has_phases ? section_text(text, "train") : ""}, known.size());
    if (fresh) fresh_recipes.emplace_back(recipe, &text);
    recipe_of_[config.record.hash] = entry->second;
  };
  for (const ConfigResult& config : results.configs()) {
    know(config);
    for (const ConfigResult& near : config.near) know(near);
  }
  recipes_.resize(fresh_recipes.size());
  plain_.resize(recipes_.size());
  for_each_index(recipes_.size(), [&](size_t i) {
    recipes_[i] = parse_recipe(fresh_recipes[i].first, *fresh_recipes[i].second);
    plain_[i] = evaluate(i, {});
  });
}

Cost Costs::evaluate(size_t recipe, const CostWeights& weights) const {
  return model_.evaluate(recipes_[recipe].recipe, recipes_[recipe].steps, weights);
}

const Cost& Costs::of(const ConfigResult& config) const { return plain_[recipe_of_.at(config.record.hash)]; }

std::optional<std::pair<double, double>> Costs::overhead_range(const ConfigResult& config) const {
  if (!model_.overhead_range) return std::nullopt;
  const PricedRecipe& priced = recipes_[recipe_of_.at(config.record.hash)];
  return model_.overhead_range(priced.recipe, priced.steps);
}

Cost Costs::weighted(const ConfigResult& config, const std::string& weight, double factor) const {
  const size_t recipe = recipe_of_.at(config.record.hash);
  auto& known = weighted_[{weight, factor}];
  const auto [entry, fresh] = known.try_emplace(recipe);
  if (fresh) entry->second = evaluate(recipe, {{weight, factor}});
  return entry->second;
}

void Costs::prepare(const std::string& weight, double factor) const {
  Table table(recipes_.size());
  for_each_index(recipes_.size(), [&](size_t i) { table[i] = evaluate(i, {{weight, factor}}); });
  auto& known = weighted_[{weight, factor}];
  for (size_t i = 0; i < table.size(); ++i) known[i] = table[i];
}

struct CostField {
  const char* name;
  double Cost::*value;
};
constexpr CostField columns[] = {{"overhead", &Cost::overhead},
                                 {"quantisation_overhead", &Cost::quantisation_overhead},
                                 {"step_time_s", &Cost::step_time_s},
                                 {"energy_j", &Cost::energy_j},
                                 {"price", &Cost::price},
                                 {"points", &Cost::points}};

const std::vector<std::string>& cost_columns() {
  static const std::vector<std::string> names = names_of(columns);
  return names;
}

std::string cost_word(const std::string& word) { return word == "energy" ? "energy_j" : word; }

double cost_column(const Cost& cost, const std::string& name) {
  return cost.*named_row("column", cost_word(name), columns).value;
}

std::vector<CostModel> cost_models_of(const Grid& grid) {
  std::vector<CostModel> models;
  for (const std::string& hardware : grid.hardware)
    models.push_back(
        at_place(grid.place + ": hardware or model", [&] { return real_cost_model(hardware, grid.model); }));
  return models;
}

}  // namespace fp4::sweeps
