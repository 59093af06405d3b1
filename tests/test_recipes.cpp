// Does every technique run on every task, go on from a checkpoint by the same bits, and cost something? The recipes
// that the program carries, and those lines of the table of techniques (sweeps/guide/techniques.md) that are words
// without a recipe.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <regex>
#include <set>

#include "sim/rules/recipe.h"
#include "src/text/error.h"
#include "src/text/words.h"
#include "sweeps/training.h"
#include "tasks/run.h"
#include "tests/support/share.h"
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
      {{"name", "recommender"}, {"rows", 50}},
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
        "all.*.preset=nvfp4 all.*.tensor_scale=outer128 all.*.factor_format=power_of_two",
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
  // In a drawn run each technique has every sixth task, the next one begins at the task after.
  const size_t apart = std::min<size_t>(test::large_share(), small_tasks().size());
  size_t number = 0;
  for (const auto& [name, recipe] : techniques()) {
    const size_t begin = number++ % apart;
    for (size_t t = begin; t < small_tasks().size(); t += apart) {
      const Json& task = small_tasks()[t];
      INFO(name << " on " << task.dump());
      const Json config = tasks::canonical(
          {{"task", task}, {"recipe", recipe}, {"train", {{"steps", 5}, {"curve_points", 2}, {"batch", 8}}}});
      REQUIRE(tasks::invalid_reason(config) == "");
      CHECK(to_json(sim::canonical(sim::recipe_from_json(config.at("recipe")))) == config.at("recipe"));
      const sim::History whole = tasks::run(config, 1);
      CHECK(whole.status == sim::Status::finished);
      for (const char* metric : {"loss", "loss_hp"}) CHECK(std::isfinite(whole.metrics.at(metric)));
      if (t != begin && !task.contains("experts")) continue;  // one or two tasks show how it resumes
      sim::RunOptions first, second;
      first.checkpoint_to = second.resume_from = folder / "c";
      first.stop_at = 3;
      tasks::run(config, 1, first);
      CHECK(tasks::run(config, 1, second).digest == whole.digest);
    }
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
    const sim::TrainingRecipe recipe = sim::recipe_from_json(name);
    CHECK(recipe.name == name);
    CHECK(!recipe.doc.empty());
    CHECK(!recipe.source.empty());
  }
  const auto rows = table_of(test::read_text("sweeps/guide/techniques.md"), "| technique |");
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
    const sim::TrainingRecipe r = sim::recipe_from_json(name);
    if (r.weights.any() || r.center_keys || !r.phases.empty() || r.fprop.split.any() || r.wgrad.split.any() ||
        name.starts_with("moe_")) {
      INFO(name);
      CHECK(in_table.contains(name));
    }
  }
}

// By the papers' tables: what stands in each of the six operands.
TEST_CASE("recipes of 2025 and 2026 are what their papers say", "[quick]") {
  using sim::recipe_from_json;
  const auto each = [](const sim::TrainingRecipe& r, auto call) {
    for (const GemmSpec* g : {&r.fprop, &r.dgrad, &r.wgrad}) call(*g, g == &r.fprop);
  };
  const auto is_random = [](const QuantSpec& s) { return s.rounding == Rounding::stochastic; };
  const sim::TrainingRecipe ufp4 =
      recipe_from_json("ufp4");  // 2606.20381: E1M2, a random Hadamard thrice, SR of dY alone
  each(ufp4, [&](const GemmSpec& g, bool is_fprop) {
    CHECK((g.a.quant.element == Element::e1m2 && g.b.quant.element == Element::e1m2));
    CHECK((g.hadamard.size > 0 && g.hadamard.signs == HadamardSigns::per_step));
    CHECK((is_random(g.a.quant) == !is_fprop && !is_random(g.b.quant)));
  });
  const sim::TrainingRecipe quartet2 =
      recipe_from_json("quartet2");  // 2601.22813: 4/6 forward, MS-EDEN under RHT128 backward
  each(quartet2, [&](const GemmSpec& g, bool is_fprop) {
    for (const OperandSpec* o : {&g.a, &g.b})
      CHECK(o->quant.scale_rule == (is_fprop ? ScaleRule::four_over_six : ScaleRule::ms_eden));
    CHECK(g.hadamard.size == (is_fprop ? 0 : 128));
    if (!is_fprop) CHECK(g.b.source == Source::fprop_quantised);
  });
  const sim::TrainingRecipe late =
      recipe_from_json("nvfp4_2509_final_bf16");  // 2509.25149: bf16 forward for the last 18 %
  CHECK(sim::phase_ends(late, 50) == std::vector<int>{41, 50});
  const GemmSpec last = products_in(late, late, 1).fprop;
  CHECK((last.a.quant.element == Element::bf16 && last.b.quant.element == Element::bf16));
  CHECK(products_in(late, late, 1).wgrad == late.wgrad);
  const sim::TrainingRecipe tetrajet2 = recipe_from_json("tetrajet2");  // 2510.27527
  each(tetrajet2, [&](const GemmSpec& g, bool is_fprop) {
    for (const OperandSpec* o : {&g.a, &g.b}) {
      CHECK(o->quant.tensor_scale == TensorScale::outer128);
      CHECK(is_random(o->quant) == !is_fprop);
    }
    CHECK(g.hadamard.size == (is_fprop ? 0 : 16));
  });
  CHECK((tetrajet2.fprop.split.kind == Split::hot_channels && tetrajet2.fprop.split.share == 0.1));
  CHECK((tetrajet2.weights.every == 200 && tetrajet2.weights.window == 50));
  const sim::TrainingRecipe qema = recipe_from_json("tetrajet_qema"), ramp = recipe_from_json("tetrajet_qramping");
  CHECK((qema.weights.decay == 0.9983f && qema.weights.from == 10));  // 2502.20853
  CHECK((ramp.weights.ramp_window == 30 && ramp.weights.ramp_threshold == 16 && ramp.weights.ramp_factor == 5));
  const sim::TrainingRecipe occ = recipe_from_json("occ_wang");  // 2501.17116: the .99 quantile, DGE on weights
  CHECK((occ.fprop.split.kind == Split::clamp && occ.fprop.split.share == 0.01));
  CHECK((occ.fprop.split.high.element == Element::bf16 && occ.fprop.b.estimator.estimator == Estimator::dge));
  const sim::TrainingRecipe metis = recipe_from_json("metis");  // 2509.00404
  each(metis, [&](const GemmSpec& g, bool) { CHECK((g.split.kind == Split::low_rank && g.split.share == 0.01)); });
  // 2505.11594: P in two levels, its rows' largest at 448 * 6; K without its mean.
  const Json lm = tasks::canonical({{"task", "lm"}, {"recipe", "attn_fp4"}});
  const sim::TrainingRecipe attention = recipe_from_json(lm.at("recipe"));
  CHECK(attention.center_keys);
  const GemmSpec pv = products_at(attention, attention, {"block0.pv", -1, 14}, -1).fprop;
  CHECK((pv.a.quant.tensor_scale == TensorScale::row && resolve(pv.a.quant).top() == 448.0f * 6));
  const sim::TrainingRecipe mbs = recipe_from_json("mbs_alto");  // 2603.08713
  each(mbs, [&](const GemmSpec& g, bool) {
    CHECK((g.a.quant.factor_format == FactorFormat::mantissa8 && g.b.quant.has_outer_scale()));
  });
}
