// Is a trained network judged under a recipe as training judges it? Its own recipe must give its own metrics bit for
// bit, another one those of a run that stands on the same weights.
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "sim/rules/recipe.h"
#include "sim/train/checkpoint.h"
#include "src/text/error.h"
#include "tasks/run.h"
#include "tests/support/support.h"

using namespace fp4;
using Catch::Matchers::Contains;
using sim::Json;

namespace {

Json run_of(const char* task, const Json& recipe, Json train) {
  train["curve_points"] = 2;
  return tasks::canonical({{"task", {{"name", task}}}, {"recipe", recipe}, {"train", train}});
}

sim::History trained(const Json& config, const std::string& checkpoint) {
  sim::RunOptions options;
  options.checkpoint_to = checkpoint;
  return tasks::run(config, 7, options);
}

}  // namespace

TEST_CASE("a network under its own recipe has the metrics of its training", "[train]") {
  const test::TemporaryFolder folder;
  const Json phased = {{"base", "mxfp4_all_sr"},
                       {"phases", {{{"until", 0.5}}, {{"fprop", {{"*", {{"preset", "nvfp4"}}}}}}}},
                       {"layers", {{{"first", 1}, {"recipe", "bf16"}}}}};
  // Held amaxes, random bits of validation, rules and phases: all that a recipe may carry into an evaluation.
  for (const Json& recipe : {Json("ue5m3_hold50"), Json("tetrajet"), Json("fp32"), phased}) {
    const Json config = run_of("regression", recipe, {{"steps", 6}});
    const sim::History h = trained(config, folder / "c");
    for (const Json& asked : {Json(), recipe}) {
      const tasks::Evaluated e = tasks::evaluate(folder / "c", asked);
      INFO(recipe.dump());
      CHECK(e.result.metrics == h.metrics);  // doubles, compared bit for bit but for NaN
    }
  }
}

TEST_CASE("a network under another recipe is what a run under it sees on those weights", "[train]") {
  const test::TemporaryFolder folder;
  // With a learning rate of 0 and no decay every run ends on its initial weights, which no recipe changes.
  const Json still = {{"steps", 3}, {"lr", 0}};
  const sim::History plain = trained(run_of("classifier", "fp32", still), folder / "c");
  for (const char* recipe : {"mxfp4", "nvfp4", "quartet", "mxfp4@fprop", "nvfp4@weights"}) {
    const sim::History other = tasks::run(run_of("classifier", recipe, still), 7);
    const tasks::Evaluated e = tasks::evaluate(folder / "c", recipe);
    INFO(recipe);
    CHECK(e.result.metrics == other.metrics);
    CHECK(e.result.metrics.at("loss") != plain.metrics.at("loss"));
    CHECK(e.result.metrics.at("loss_hp") == plain.metrics.at("loss_hp"));
  }
}

TEST_CASE("NAME@weights is 4-bit weights in the forward product, and bf16", "[train]") {
  const sim::TrainingRecipe r = sim::recipe_from_json("nvfp4_te@weights"), whole = sim::recipe_from_json("nvfp4_te"),
                            bf16 = sim::recipe_from_json("bf16");
  CHECK(r.fprop.b.quant == whole.fprop.b.quant);
  CHECK(r.fprop.a.quant == bf16.fprop.a.quant);
  CHECK(r.dgrad.b.quant == bf16.dgrad.b.quant);
  CHECK(r.wgrad.a.quant == bf16.wgrad.a.quant);
  CHECK(r.name == "nvfp4_te@weights");
}

TEST_CASE("eval names what it cannot judge", "[train]") {
  const test::TemporaryFolder folder;
  trained(run_of("regression", "fp32", {{"steps", 2}}), folder / "c");
  CHECK_THROWS_WITH(tasks::evaluate(folder / "c", "mxfp5"), Contains("mxfp5") && Contains("mxfp4"));
  CHECK_THROWS_WITH(tasks::evaluate(folder / "none", Json()), Contains("none"));
  sim::Checkpoint c = sim::read_checkpoint(folder / "c");
  const auto refused = [&](const char* part) {
    sim::write_checkpoint(folder / "d", c);
    CHECK_THROWS_WITH(tasks::evaluate(folder / "d", Json()), Contains(folder / "d") && Contains(part));
  };
  c.train_signature = "0123456789abcdef";
  refused("made under train signature 0123456789abcdef");
  c = sim::read_checkpoint(folder / "c");
  c.weights.pop_back();
  refused("weights");
  c = sim::read_checkpoint(folder / "c");
  c.step = 3;  // of 2
  refused("step");
}

TEST_CASE("eval prints its own recipe first, and the same numbers as train", "[cli]") {
  const test::TemporaryFolder folder;
  const std::string run = "--task regression --recipe nvfp4 --steps 5 --seed 3";
  const auto train = test::run_cli("train " + run + " --json --quiet --checkpoint " + (folder / "c"));
  REQUIRE(train.exit_code == 0);
  const std::string eval = "eval --checkpoint " + (folder / "c");
  const auto json = test::run_cli(eval + " --recipe mxfp4,bf16 --json");
  INFO(json.err);
  REQUIRE(json.exit_code == 0);
  const Json rows = Json::parse(json.out)["rows"];
  REQUIRE(rows.size() == 3);
  CHECK(rows[0]["own"] == true);
  CHECK(rows[0]["metrics"] == Json::parse(train.out)["metrics"]);
  CHECK(rows[2]["recipe"] == "bf16");
  // --set lies over each recipe: bf16 activations leave the weights.
  const auto set = test::run_cli(eval + " --recipe mxfp4 --set fprop.a.preset=bf16 --json");
  const auto weights = test::run_cli(eval + " --recipe mxfp4@weights --json");
  CHECK(Json::parse(set.out)["rows"][1]["metrics"] == Json::parse(weights.out)["rows"][1]["metrics"]);
  CHECK(test::run_cli(eval + " --set fprop.a.preset=bf16").exit_code == 2);
  const auto unknown = test::run_cli(eval + " --recipe mxfp4 --set lr=2");
  CHECK(unknown.exit_code == 2);
  CHECK_THAT(unknown.err, Contains("lr"));
  const auto text = test::run_cli(eval + " --recipe mxfp4");
  CHECK_THAT(text.out, Contains("nvfp4 (its own)") && Contains("over fp32"));
}

TEST_CASE("answers of an evaluation are what its accuracy counts, and follow the rounding seed", "[train]") {
  const test::TemporaryFolder folder;
  trained(run_of("classifier", "bf16", {{"steps", 30}}), folder / "c");
  sim::RunOptions options;
  const auto judged = [&](const Json& recipe) { return tasks::evaluate(folder / "c", recipe, options).result; };
  const Json stochastic = {{"base", "mxfp4"}, {"fprop", {{"*", {{"rounding", "stochastic"}}}}}};
  const sim::Evaluation nearest = judged("mxfp4"), random = judged(stochastic);
  REQUIRE(nearest.answers.chosen.size() == 4096);
  double right = 0;
  for (size_t i = 0; i < 4096; ++i) right += nearest.answers.chosen[i] == nearest.answers.labels[i];
  CHECK(right / 4096 == nearest.metrics.at("accuracy"));
  options.rounding_seed = 7;  // the checkpoint's own
  CHECK(judged(stochastic).answers.chosen == random.answers.chosen);
  options.rounding_seed = 8;
  const sim::Evaluation other = judged(stochastic);
  CHECK(other.metrics.at("loss") != random.metrics.at("loss"));
  CHECK(other.metrics.at("loss_hp") == random.metrics.at("loss_hp"));
  CHECK(judged("mxfp4").metrics == nearest.metrics);
  trained(run_of("regression", "fp32", {{"steps", 2}}), folder / "r");
  CHECK(tasks::evaluate(folder / "r", Json()).result.answers.chosen.empty());
}
