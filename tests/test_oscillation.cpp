// Do averages and resets act on oscillating weights as they are defined, and survive a checkpoint? Cases by hand.
#include <catch2/catch.hpp>
#include <map>

#include "fp4/presets.h"
#include "sim/rules/oscillation.h"
#include "sim/rules/recipe.h"
#include "src/backends/backends.h"
#include "src/text/error.h"
#include "tasks/run.h"
#include "tests/support/support.h"

using namespace fp4;
using sim::Json;

namespace {

Json config_of(const Json& weights, int steps) {
  return tasks::canonical({{"task", {{"name", "classifier"}, {"width", 32}}},
                           {"recipe", {{"base", "mxfp4"}, {"weights", weights}}},
                           {"train", {{"steps", steps}, {"curve_points", 2}}}});
}

const Json rules = {{"average", {{"decay", 0.75}, {"from", 3}}},
                    {"reset", {{"every", 10}, {"window", 4}, {"threshold", 1.5}}}};

}  // namespace

TEST_CASE("the neighbour nearer to the average, by hand", "[quick]") {
  // Scale 1 (the maximum is 6): 2.4 lies between 2 and 3, -0.6 between -0.5 and -1, 1.5 is on the grid.
  const std::vector<float> w = {6, 2.4f, -0.6f, 1.5f};
  const auto leaning = [&](std::vector<float> average) {
    Quantized q;
    reference_backend().quantize({.x = view_of(w.data(), 1, 4), .spec = mxfp4_spec}, q);
    sim::lean_to_average(w.data(), average.data(), q);
    std::vector<float> out(4);
    reference_backend().dequantize(q, out.data(), 1);
    return out;
  };
  CHECK(leaning({6, 2.4f, -0.6f, 1.5f}) == std::vector<float>{6, 2, -0.5f, 1.5f});
  CHECK(leaning({2, 2.6f, -0.8f, 3}) == std::vector<float>{6, 3, -1, 1.5f});
  CHECK(leaning({6, -4, 4, 0}) == std::vector<float>{6, 2, -0.5f, 1.5f});
  CHECK(leaning({6, 2.5f, -0.75f, 0}) == std::vector<float>{6, 2, -0.5f, 1.5f});  // halfway: as rounded
}

TEST_CASE("what oscillates and what only moves, by hand", "[quick]") {
  // Three steps: 2.25 2.75 2.25 2.75 hops between 2 and 3 three times, 3 over 1.5; the second walks 1.5 and hops once.
  sim::Oscillation o;
  const std::vector<std::vector<float>> w = {{2.25f, 2}, {2.75f, 2.5f}, {2.25f, 3}, {2.75f, 3.5f}};
  const std::vector<std::vector<float>> q = {{2, 2}, {3, 2}, {2, 3}, {3, 3}};
  o.begin(w[0].data(), q[0].data(), 2);
  for (size_t i = 1; i < 4; ++i) o.add(w[i].data(), q[i].data());
  CHECK(o.ratio() == 4.0 / 3);
  CHECK(o.share(2) == 0.5);
  CHECK(o.share(2.5f) == 0);
  std::vector<float> weights = w[3];
  sim::reset(o, 2, q[3].data(), weights.data());
  CHECK(weights == std::vector<float>{3, 3.5f});
  // Windows of 4 in 10: steps 7 to 10, 17 to 20.
  const sim::WeightRules r = {.every = 10, .window = 4};
  for (const int step : {7, 10, 17, 20}) CHECK(r.is_in_window(step));
  for (const int step : {1, 6, 11, 16}) CHECK_FALSE(r.is_in_window(step));
  CHECK((r.resets_after(10) && !r.resets_after(9)));
}

TEST_CASE("resuming inside a window and behind an average changes no bit", "[train]") {
  const sim::History whole = tasks::run(config_of(rules, 24), 1);
  CHECK(whole.digest != tasks::run(config_of(Json::object(), 24), 1).digest);
  for (const char* one : {"average", "reset"})
    CHECK(tasks::run(config_of({{one, rules.at(one)}}, 24), 1).digest != whole.digest);
  const test::TemporaryFolder folder;
  for (const int stop : {2, 3, 6, 8, 10, 19}) {
    sim::RunOptions first, second;
    first.checkpoint_to = second.resume_from = folder / "c";
    first.stop_at = stop;
    tasks::run(config_of(rules, 24), 1, first);
    INFO(stop);
    CHECK(tasks::run(config_of(rules, 24), 1, second).digest == whole.digest);
  }
  // No rules: the text, and so the hash, of a recipe stays.
  CHECK_FALSE(config_of(Json::object(), 24).at("recipe").contains("weights"));
  CHECK(sim::to_json(sim::canonical(sim::recipe_from_json(config_of(rules, 24).at("recipe")))) ==
        config_of(rules, 24).at("recipe"));
}

TEST_CASE("a trace says how weights oscillate, and changes no bit", "[train]") {
  std::map<std::string, int> rows;
  sim::RunOptions traced;
  traced.trace_every = 10;
  traced.trace = [&](const sim::TraceRow& r) {
    if (r.quantity == "oscillation" || r.quantity == "oscillating_share") {
      ++rows[r.layer + " " + r.quantity];
      CHECK(r.value >= 0);
    }
  };
  CHECK(tasks::run(config_of(Json::object(), 24), 1, traced).digest ==
        tasks::run(config_of(Json::object(), 24), 1).digest);
  // Steps 1, 11 and 21; the first has nothing to look back on.
  CHECK(rows == std::map<std::string, int>{{"hidden0 oscillation", 2},
                                           {"hidden0 oscillating_share", 2},
                                           {"hidden1 oscillation", 2},
                                           {"hidden1 oscillating_share", 2}});
}

TEST_CASE("weight rules say what they accept", "[quick]") {
  const auto fails = [](const Json& weights, const char* words) {
    CHECK_THROWS_WITH(sim::recipe_from_json({{"base", "mxfp4"}, {"weights", weights}}), Catch::Contains(words));
  };
  fails({{"averge", {{"decay", 0.9}}}}, "average");
  fails({{"reset", {{"every", 10}, {"window", 11}}}}, "window");
  fails({{"average", Json::object()}}, "decay");
  CHECK_THROWS_WITH(tasks::run(tasks::canonical({{"task", "classifier"},
                                                 {"recipe", {{"base", "quartet"}, {"weights", rules}}},
                                                 {"train", {{"steps", 1}}}}),
                               1),
                    Catch::Contains("Hadamard"));
}
