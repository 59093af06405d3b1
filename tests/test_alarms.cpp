// Are comparisons that cannot be believed named as such, and the others left alone? On a made-up trainer.
#include <catch2/catch.hpp>
#include <cmath>

#include "sweeps/judge/alarms.h"
#include "sweeps/judge/attribution.h"
#include "tests/support/made_up_study.h"

using namespace fp4::sweeps;
using fp4::test::made_up_costs;
using fp4::test::MadeUp;
using fp4::test::Study;

namespace {

// The words of the alarms that a grid raises.
std::vector<std::string> raised(const std::string& grid, const MadeUp& world = {}) {
  const Study study(grid, world);
  const Results results = study.results();
  const Costs costs(results, made_up_costs());
  std::vector<std::string> words;
  for (const RaisedAlarm& alarm : alarms(results, fronts(results, costs, {}))) {
    INFO(alarm.text);
    CHECK(!alarm.context.empty());
    words.emplace_back(word(alarm.alarm));
  }
  return words;
}

using Words = std::vector<std::string>;

}  // namespace

TEST_CASE("a sound comparison raises no alarm", "[quick]") {
  CHECK(raised(R"({"name": "a", "task": "alpha", "base": "mxfp4", "seeds": 6, "train": {"batch": 64},
                   "axes": {"wgrad.hadamard.size": [0, 16]}})")
            .empty());
}

TEST_CASE("a batch of few examples, by itself or by its weights", "[quick]") {
  CHECK(raised(R"({"name": "a", "task": "alpha", "base": "mxfp4", "seeds": 3, "train": {"batch": 63}})") ==
        Words{"small batch"});
  // 128 / exp(.8^2) = 67.5, 128 / exp(.9^2) = 56.9
  const std::string weighted = R"({"name": "a", "task": "alpha", "base": "mxfp4", "seeds": 3,
    "train": {"batch": 128}, "axes": {"task.alpha.outliers.token": [)";
  CHECK(raised(weighted + "0.8]}}").empty());
  CHECK(raised(weighted + "0.9]}}") == Words{"small batch"});
}

TEST_CASE("a recipe that is better than fp32", "[quick]") {
  MadeUp world;
  world.truth = [](const Json& config) {
    return config["recipe"]["wgrad"]["a"]["element"] == "e2m1" ? -0.05 : 0.0;  // five times the noise of one run
  };
  const std::string grid = R"({"name": "a", "task": "alpha", "base": "mxfp4", "seeds": 6, "train": {"batch": 64}})";
  CHECK(raised(grid, world) == Words{"better than fp32"});
  world.truth = [](const Json&) { return 0.0; };
  CHECK(raised(grid, world).empty());
}

TEST_CASE("tuned values at an end of their ladder", "[quick]") {
  MadeUp world;
  world.seed_noise = 0;
  world.truth = [](const Json& config) {
    const bool far = config["recipe"]["wgrad"]["hadamard"]["size"] == 16;
    const double away = std::log2(config["train"].value("lr", 1.0)) - (far ? 9 : 0);
    return MadeUp::default_truth(config) + 0.02 * away * away;
  };
  const std::string axes = R"({"name": "a", "task": "alpha", "base": "mxfp4", "seeds": 3, "train": {"batch": 64},
    "tune": {"train.lr": {"start": 1, "factor": 2, "rungs": 4, "seeds": 2}}, "axes": {"wgrad.hadamard.size": )";
  CHECK(raised(axes + "[0]}}", world).empty());
  CHECK(raised(axes + "[0, 16]}}", world) == Words{"at edge"});
}

TEST_CASE("recipes that quantise more products than others: no alarm, a note at the effect", "[quick]") {
  const auto products = [](const std::string& recipes) {
    const std::string grid =
        R"({"name": "a", "task": "alpha", "seeds": 3, "train": {"batch": 64}, "axes": {"recipe": )";
    CHECK(raised(grid + recipes + "}}").empty());
    return attribute(Study(grid + recipes + "}}", {}).results(), Metric::loss, {}).at(0).products;
  };
  CHECK_FALSE(products(R"(["mxfp4@wgrad", "mxfp4@dgrad"])"));
  const auto unequal = products(R"(["mxfp4@wgrad", "mxfp4"])");
  REQUIRE(unequal);
  CHECK(unequal->first == 3 * unequal->second);  // all three products against one
}

TEST_CASE("a reference that another learning rate would improve", "[quick]") {
  MadeUp world;
  world.seed_noise = 0;
  world.truth = [](const Json& config) {
    return MadeUp::default_truth(config) + (config["train"].value("lr", 1.0) == 1.0 ? 0.0 : 0.02);
  };
  const std::string grid = R"({"name": "a", "task": "alpha", "base": "mxfp4", "seeds": 3, "train": {"batch": 64},
                               "axes": {"train.lr": )";
  CHECK(raised(grid + "[1]}}", world).empty());
  CHECK(raised(grid + "[1, 2]}}", world) == Words{"untuned reference"});
}

TEST_CASE("values of an axis that no run tells apart", "[quick]") {
  // Digests as a store has them: of the Hadamard's sizes 16 and 32 alike, of the rest by configuration.
  const auto raised_with = [](bool differs_once) {
    Study study(R"({"name": "a", "task": "alpha", "base": "mxfp4", "seeds": 3, "train": {"batch": 64},
                    "axes": {"wgrad.hadamard.size": [0, 16, 32], "wgrad.a.rounding": ["nearest_even", "stochastic"]}})",
                {});
    const Results plain = study.results();
    const size_t size = plain.axes()[0] == "wgrad.hadamard.size" ? 0 : 1;
    for (RunRecord& run : study.runs) {
      const ConfigResult* const config = plain.find(run.hash);
      run.digest = run.hash + std::to_string(run.seed);
      if (config == nullptr || config->labels.size() != 2) continue;
      const std::string &label = config->labels[size], &rule = config->labels[1 - size];
      if (label == "16" || label == "32") run.digest = rule + std::to_string(run.seed);
      if (differs_once && label == "32" && rule == "stochastic" && run.seed == plain.configs()[0].runs[0].seed)
        run.digest = "x";
    }
    const Results results = study.results();
    const Costs costs(results, made_up_costs());
    std::vector<std::string> texts;
    for (const RaisedAlarm& alarm : alarms(results, fronts(results, costs, {})))
      if (alarm.alarm == Alarm::no_effect) texts.push_back(alarm.text);
    return texts;
  };
  const std::vector<std::string> texts = raised_with(false);
  REQUIRE(texts.size() == 1);
  CHECK_THAT(texts[0], Catch::StartsWith("wgrad.hadamard.size: 16 and 32 have equal digests"));
  CHECK(raised_with(true) == std::vector<std::string>{});
}
