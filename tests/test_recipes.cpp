// Does every technique run on every task, go on from a checkpoint by the same bits, and cost something? The recipes
// that the program carries, and those lines of the table of techniques (sweeps/README.md) that are words without a
// recipe.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <regex>
#include <set>

#include "sim/recipe.h"
#include "src/error.h"
#include "src/words.h"
#include "sweeps/simulator.h"
#include "tasks/run.h"
#include "tests/support/support.h"

using namespace fp4;
using sim::Json;

namespace {

// Tasks as small as they go: a run of five steps takes some milliseconds.
const std::vector<Json>& small_tasks() {
  static const std::vector<Json> tasks = {
      {{"name", "regression"}, {"width", 32}},
      {{"name", "classifier"}, {"width", 32}},
      {{"name", "diffusion"}, {"width", 32}},
      {{"name", "lm"}, {"width", 32}, {"layers", 1}, {"heads", 2}, {"ffn", 32}, {"context", 32}},
      {{"name", "lm"},
       {"width", 32},
       {"layers", 1},
       {"heads", 2},
       {"ffn", 32},
       {"context", 32},
       {"experts", 4},
       {"top", 2}}};
  return tasks;
}

Json of_words(const std::string& words) {
  Json recipe = {{"base", "mxfp4"}};
  for (const std::string& word : split(words, ' ')) {
    const size_t equals = word.find('=');
    const std::string value = word.substr(equals + 1);
    sim::set_path(recipe, word.substr(0, equals), Json::accept(value) ? Json::parse(value) : Json(value));
  }
  return recipe;
}

std::vector<std::pair<std::string, Json>> techniques() {
  std::vector<std::pair<std::string, Json>> list;
  for (const std::string& name : sim::recipe_names()) list.emplace_back(name, name);
  for (const char* words :
       {"all.*.preset=nvfp4 all.*.tensor_scale=row",
        "all.*.preset=nvfp4 all.*.scale_rule=four_over_six all.*.error=mae",
        "all.*.preset=nvfp4 all.*.tensor_scale=outer128 all.*.factor_format=power_of_two", "optimizer=muon",
        "optimizer=muon muon.products=mxfp8", "states.moments=8bit states.weights=bf16", "states.moments=4bit",
        R"(phases=[{"until":2},{"fprop":"bf16.fprop"}])",
        R"(phases=[{"until":4},{"when":"gradient_noise_ratio\u0020<\u00209","fprop":"bf16.fprop"}])",
        R"(layers=[{"match":"head","optional":true,"recipe":"mxfp8"},{"first":1,"recipe":"bf16"}])"})
    list.emplace_back(words, of_words(words));
  return list;
}

// Cells of the rows of the table whose head begins with `head`.
std::vector<std::vector<std::string>> table_of(const std::string& page, const std::string& head) {
  std::vector<std::vector<std::string>> rows;
  bool inside = false;
  for (const std::string& line : split(page, '\n')) {
    inside = line.starts_with(head) || (inside && line.starts_with("|"));
    if (inside) rows.push_back(split(line, '|'));
  }
  if (rows.size() > 2) rows.erase(rows.begin(), rows.begin() + 2);  // the head and the rule below it
  return rows;
}

}  // namespace

TEST_CASE("every technique trains on every task and goes on from a checkpoint by the same bits", "[train]") {
  const test::TemporaryFolder folder;
  for (const auto& [name, recipe] : techniques())
    for (const Json& task : small_tasks()) {
      INFO(name << " on " << task.dump());
      const Json config = tasks::canonical(
          {{"task", task}, {"recipe", recipe}, {"train", {{"steps", 5}, {"curve_points", 2}, {"batch", 8}}}});
      REQUIRE(tasks::invalid_reason(config) == "");
      CHECK(to_json(sim::canonical(sim::recipe_from_json(config.at("recipe")))) == config.at("recipe"));
      const sim::History whole = tasks::run(config, 1);
      CHECK(whole.status == sim::Status::finished);
      CHECK(std::isfinite(whole.metrics.at("loss")));
      sim::RunOptions first, second;
      first.checkpoint_to = second.resume_from = folder / "c";
      first.stop_at = 3;
      tasks::run(config, 1, first);
      CHECK(tasks::run(config, 1, second).digest == whole.digest);
    }
}

TEST_CASE("every technique has a price", "[quick]") {
  for (const char* model : {"llama3_8b", "lm_moe"}) {
    const sweeps::CostModel cost = sweeps::real_cost_model("b200", model);
    for (const auto& [name, recipe] : techniques()) {
      INFO(name << " on " << model);
      const sweeps::Cost price = cost.evaluate(to_json(sim::canonical(sim::recipe_from_json(recipe))), 100, {});
      CHECK(price.step_time_s > 0);
      CHECK(std::isfinite(price.overhead));
    }
  }
}

TEST_CASE("recipes name their source, and the table of techniques names recipes that exist", "[quick]") {
  const std::vector<std::string> names = sim::recipe_names();
  for (const std::string& name : names) {
    INFO(name);
    const sim::Recipe recipe = sim::recipe_from_json(name);
    CHECK(recipe.name == name);
    CHECK(!recipe.doc.empty());
    CHECK(!recipe.source.empty());
  }
  const auto rows = table_of(test::read_text("sweeps/README.md"), "| technique |");
  REQUIRE(rows.size() >= 15);
  std::set<std::string> in_table;
  const std::regex word("`([^`]+)`");
  for (const auto& row : rows) {
    INFO(row.at(1));
    REQUIRE(row.size() >= 6);  // technique, words, recipe, cost, source, between empty ends
    for (const size_t column : {1u, 2u, 4u, 5u}) CHECK(row[column].find_first_not_of(' ') != std::string::npos);
    for (auto at = std::sregex_iterator(row[3].begin(), row[3].end(), word); at != std::sregex_iterator(); ++at) {
      CHECK(std::find(names.begin(), names.end(), (*at)[1].str()) != names.end());
      in_table.insert((*at)[1].str());
    }
  }
  // What uses a technique beyond formats, roundings and Hadamards stands in the table.
  for (const std::string& name : names) {
    const sim::Recipe r = sim::recipe_from_json(name);
    if (r.weights.any() || r.update.has_states() || r.update.has_muon() || r.center_keys || !r.phases.empty() ||
        r.fprop.split.any() || r.wgrad.split.any() || name.starts_with("moe_")) {
      INFO(name);
      CHECK(in_table.contains(name));
    }
  }
}
