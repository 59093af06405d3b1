// Do loss scales, clipping and slow weights equal their definitions, and survive a checkpoint? By hand.
#include <catch2/catch.hpp>
#include <cmath>

#include "sim/kernels/train_kernels.h"
#include "sim/rules/recipe.h"
#include "sim/train/optim.h"
#include "sim/train/train.h"
#include "src/text/error.h"
#include "tasks/run.h"
#include "tests/support/support.h"

using namespace fp4;
using sim::Json;

namespace {

Json config_of(const Json& changes, int steps) {
  Json recipe = {{"base", "mxfp4"}};
  recipe.update(changes);
  return tasks::canonical({{"task", {{"name", "classifier"}, {"width", 64}}},
                           {"recipe", recipe},
                           {"train", {{"steps", steps}, {"curve_points", 2}}}});
}

// One parameter [rows, cols] and one step of an optimizer.
struct OneMatrix {
  sim::Parameters parameters;
  const sim::Kernels& k = sim::kernels("reference");
  OneMatrix(int rows, int cols, const std::vector<float>& w) {
    parameters.declare("w", rows, cols, {});
    parameters.allocate(k, 1);
    std::copy(w.begin(), w.end(), parameters.values());
  }
  void gradient(const std::vector<float>& g) { std::copy(g.begin(), g.end(), parameters.gradients()); }
};

Json training(const char* optimizer, double lr, double beta1, double beta2) {
  Json train = sim::canonical(sim::train_schema(), Json::object(), "train");
  train.update({{"optimizer", optimizer},
                {"lr", lr},
                {"schedule", "constant"},
                {"beta1", beta1},
                {"beta2", beta2},
                {"eps", 0.0},
                {"steps", 100},
                {"warmup", 0},
                {"clip", 0.0},
                {"weight_decay", 0.0}});
  return train;
}

}  // namespace

TEST_CASE("a loss scale and clipping, by hand", "[quick]") {
  Json train = training("sgd", 1, 0, 0);
  train["clip"] = 1.0;
  OneMatrix one(1, 2, {0, 0});
  sim::Optimizer sgd(train, "", true, one.parameters);
  const float* w = one.parameters.values();
  CHECK(sgd.loss_scale() == 1024);
  one.gradient({3 * 1024, 4 * 1024});  // 3 and 4 under the scale: a norm of 5 becomes 1
  REQUIRE(sgd.step(one.parameters, one.k, 1));
  CHECK(w[0] == Approx(-0.6));
  CHECK(w[1] == Approx(-0.8));
  one.gradient({INFINITY, 1024});  // the step is left out, and the scale halved
  REQUIRE(sgd.step(one.parameters, one.k, 2));
  CHECK(w[1] == Approx(-0.8));
  CHECK(sgd.loss_scale() == 512);
  one.gradient({0.25f * 512, 0});  // shorter than the limit
  REQUIRE(sgd.step(one.parameters, one.k, 3));
  CHECK(w[0] == Approx(-0.85));
  sim::Optimizer plain(train, "", false, one.parameters);
  one.gradient({INFINITY, 1024});
  CHECK_FALSE(plain.step(one.parameters, one.k, 1));
}

TEST_CASE("slow weights wait and then move by their mean gradient, by hand", "[quick]") {
  // beta1 = 0, beta2 = 1/2, lr = 1/8; weight 1 has period 3.
  OneMatrix one(1, 2, {1, 1});
  std::vector<sim::SlowWeight> rows = {{1, 3}};
  sim::Optimizer adam(training("adam", 0.125, 0, 0.5), "", false, one.parameters);
  const std::vector<sim::SlowWeights> slow = {{one.parameters.values(), &rows}};
  for (int step = 1; step <= 2; ++step) {
    one.gradient({4, static_cast<float>(step)});
    adam.step(one.parameters, one.k, step, slow);
    CHECK(one.parameters.values()[1] == 1);
  }
  CHECK(one.parameters.values()[0] == 0.75f);  // m / sqrt(v) = 1 twice
  one.gradient({4, 6});
  adam.step(one.parameters, one.k, 3, slow);
  // Mean 3, v = 9/2, correction 1 / (1 - 1/8): 3 / sqrt(36/7), times 3 steps waited.
  CHECK(one.parameters.values()[1] == Approx(1 - 0.125 * 3 * 3 / std::sqrt(36.0 / 7)).epsilon(1e-6));
  CHECK((rows[0].waited == 0 && rows[0].sum == 0));
  // Periods: floor(d_Q / (k1 d_w)) k2 + 1, at most `every`.
  sim::Oscillation o;
  o.weight = o.quantised = {0, 0, 0, 0};
  o.moved = {1, 1, 1, 0}, o.jumped = {15.5f, 33, 1600, 5};
  const std::vector<sim::SlowWeight> found = sim::slow_weights(o, {.ramp_every = 200});
  REQUIRE(found.size() == 2);
  CHECK((found[0].index == 1 && found[0].period == 11));
  CHECK((found[1].index == 2 && found[1].period == 200));
  const sim::WeightRules r = {.ramp_every = 10, .ramp_window = 3};
  for (const int step : {1, 3, 11, 13}) CHECK(r.is_measured(step));
  for (const int step : {4, 10, 14}) CHECK_FALSE(r.is_measured(step));
  CHECK((r.ramps_after(3) && r.ramps_after(13) && !r.ramps_after(2)));
}

TEST_CASE("a ramp with periods of one changes no bit", "[train]") {
  const Json none = config_of({{"weights", {{"ramp", {{"every", 5}, {"window", 3}, {"threshold", 1e6}}}}}}, 12);
  CHECK(tasks::run(none, 1).digest == tasks::run(config_of(Json::object(), 12), 1).digest);
}

TEST_CASE("ramps resume by bits", "[train]") {
  const Json config =
      config_of({{"weights", {{"ramp", {{"every", 8}, {"window", 3}, {"threshold", 0.25}, {"factor", 2}}}}}}, 12);
  const test::TemporaryFolder folder;
  const sim::History whole = tasks::run(config, 1);
  CHECK(whole.status == sim::Status::finished);
  CHECK(whole.digest != tasks::run(config_of(Json::object(), 12), 1).digest);
  for (const int stop : {2, 6, 10}) {
    sim::RunOptions first, second;
    first.checkpoint_to = second.resume_from = folder / "c";
    first.stop_at = stop;
    tasks::run(config, 1, first);
    CHECK(tasks::run(config, 1, second).digest == whole.digest);
  }
  CHECK(sim::to_json(sim::canonical(sim::recipe_from_json(config.at("recipe")))) == config.at("recipe"));
  Json sgd = config;
  sgd["train"]["optimizer"] = "sgd";
  CHECK_THROWS_WITH(tasks::run(sgd, 1), Catch::Contains("ramp"));
}
