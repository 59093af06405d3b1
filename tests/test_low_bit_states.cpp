// Do moments of few bits, bf16 weights, Muon and slow weights equal their definitions, and survive a checkpoint? By
// hand.
#include <catch2/catch.hpp>
#include <cmath>
#include <set>

#include "fp4/rng.h"
#include "sim/rules/recipe.h"
#include "sim/train/low_bit_states.h"
#include "sim/train/muon.h"
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

TEST_CASE("dynamic maps, by hand", "[quick]") {
  // 4 bits with a sign: .01 * .55; .1 * (.325, .775); .2125, .4375, .6625, .8875; both signs, 0 and 1.
  const std::vector<float> map = sim::dynamic_map(true, 4);
  const std::vector<float> positive = {0, 0.0055f, 0.0325f, 0.0775f, 0.2125f, 0.4375f, 0.6625f, 0.8875f, 1};
  REQUIRE(map.size() == 16);
  CHECK(std::vector<float>(map.begin() + 7, map.end()) == positive);
  for (size_t i = 0; i < 7; ++i) CHECK(map[i] == -map[14 - i]);
  const std::vector<float> eight = sim::dynamic_map(true, 8), second = sim::dynamic_map(false, 8);
  CHECK(eight.size() == 256);
  CHECK(second.size() == 256);
  CHECK(eight[128] == 5.5e-7f);  // the smallest above 0: 10^-6 * .55
  CHECK(second[1] == 3.25e-7f);  // two parts: .325 and .775
  CHECK(second[2] == 7.75e-7f);
  CHECK(second[254] == Approx(1 - .9 / 256));  // 128 parts: 1 - .45 / 128
  CHECK(std::is_sorted(second.begin(), second.end()));
  CHECK(sim::nearest_of({0, 1, 3}, 2) == 3);  // halfway: the larger
  CHECK(sim::nearest_of({0, 1, 3}, 1.99f) == 1);
  CHECK(sim::nearest_of({0, 1, 3}, -5) == 0);
  CHECK(sim::nearest_of({0, 1, 3}, 5) == 3);
}

TEST_CASE("moments are kept block by block, small tensors as they are", "[quick]") {
  std::vector<float> m(4096, 0.0f);
  m[0] = 2, m[1] = 1.3f, m[2] = -0.5f, m[127] = 0.2f;  // amax 2: .65 -> .6625, -.25 -> -.2125, .1 -> .0775
  m[128] = -4, m[129] = 4;                             // its own block: -1 -> -.8875, 1
  sim::store_moment(sim::Moments::dynamic4, false, m.data(), 4096);
  CHECK(m[0] == 2);
  CHECK(m[1] == 1.325f);
  CHECK(m[2] == -0.425f);
  CHECK(m[127] == 0.155f);
  CHECK(m[128] == -3.55f);
  CHECK(m[129] == 4);
  CHECK(m[3] == 0);
  std::vector<float> v(4096, 0.0f);
  v[0] = 8, v[1] = 0.3f;  // sixteenths of 8, from 1 on: 0 becomes .5, .3 too
  sim::store_moment(sim::Moments::dynamic4, true, v.data(), 4096);
  CHECK(v[0] == 8);
  CHECK(v[1] == 0.5f);
  CHECK(v[2] == 0.5f);
  CHECK(v[128] == 1e-12f / 16);  // a block of zeros
  std::vector<float> small(4095, 0.3f);
  sim::store_moment(sim::Moments::dynamic8, false, small.data(), 4095);
  CHECK(small[7] == 0.3f);
  CHECK(sim::moment_bytes(sim::Moments::dynamic8) == 1.015625);
  CHECK(sim::moment_bytes(sim::Moments::dynamic4) == 0.53125);
}

TEST_CASE("weights in bf16 move up as often as their low half says", "[quick]") {
  float near[] = {1.0f + 0x1p-8f, 1.0f + 0x1p-8f + 0x1p-20f, 1.0f + 0x3p-8f, -1.0f - 0x1p-9f};
  sim::round_to_bf16(near, 4);  // ties to even
  CHECK(near[0] == 1.0f);
  CHECK(near[1] == 1.0f + 0x1p-7f);
  CHECK(near[2] == 1.0f + 0x1p-6f);
  CHECK(near[3] == -1.0f);
  // 3/4 of the way from 1 to 1 + 2^-7.
  std::vector<float> w(40000, 1.0f + 0x3p-9f);
  sim::store_weights(w.data(), 40000, 5, 3);
  int up = 0;
  const RandomPlace place = {5, stream_number((1u << 25) - 1, 0, 0, Purpose::weights), 3};
  for (size_t i = 0; i < w.size(); ++i) {
    up += w[i] > 1;
    CHECK(w[i] == (random_draw(place, i, 16) >= 0x4000u ? 1.0f + 0x1p-7f : 1.0f));
  }
  CHECK(std::abs(up - 30000) < 5 * std::sqrt(40000 * .75 * .25));
  float kept[] = {1.5f, -INFINITY};
  sim::store_weights(kept, 2, 5, 3);
  CHECK(kept[0] == 1.5f);
  CHECK(std::isinf(kept[1]));
}

TEST_CASE("Newton and Schulz, by hand", "[quick]") {
  const Dispatcher backend("reference");
  const sim::Kernels& k = sim::kernels("reference");
  // A diagonal matrix stays diagonal, each value s going to a s + b s^3 + c s^5; here one step from (.6, .8) and (1,
  // 0).
  sim::UpdateRules rules;
  rules.iterations = 1;
  rules.products = "fp32";
  const auto step = [](double s) { return 3.4445 * s - 4.7750 * s * s * s + 2.0315 * s * s * s * s * s; };
  std::vector<float> u = {3, 0, 0, 0, 0, 4};
  sim::orthogonalise(rules, backend, k, u.data(), 2, 3);
  CHECK(u[0] == Approx(step(.6)).epsilon(1e-6));
  CHECK(u[5] == Approx(step(.8)).epsilon(1e-6));
  CHECK((u[1] == 0 && u[2] == 0 && u[3] == 0 && u[4] == 0));
  // The transpose gives the transpose.
  std::vector<float> v = {3, 0, 0, 0, 0, 4};  // [3, 2]: (3 0; 0 0; 0 4)
  sim::orthogonalise(rules, backend, k, v.data(), 3, 2);
  CHECK(v[0] == u[0]);
  CHECK(v[5] == u[5]);
  // Five steps in bf16: singular values near 1, as published (.68 to 1.13), of a matrix that is no diagonal.
  rules = {};
  std::vector<float> w = {1, 2, 3, -1, .5f, 2};
  sim::orthogonalise(rules, backend, k, w.data(), 2, 3);
  const double aa = w[0] * w[0] + w[1] * w[1] + w[2] * w[2], bb = w[3] * w[3] + w[4] * w[4] + w[5] * w[5];
  const double ab = w[0] * w[3] + w[1] * w[4] + w[2] * w[5], root = std::hypot((aa - bb) / 2, ab);
  CHECK(std::sqrt((aa + bb) / 2 + root) < 1.2);
  CHECK(std::sqrt((aa + bb) / 2 - root) > 0.65);
  for (const float x : w) CHECK((bits_of(x) & 0xFFFFu) == 0);  // stored in bf16
}

TEST_CASE("a Muon update, by hand", "[quick]") {
  const Dispatcher backend("reference");
  sim::UpdateRules rules;
  rules.iterations = 1, rules.products = "fp32", rules.momentum = 0.5f;
  OneMatrix one(1, 4, {1, 1, 1, 1});
  one.gradient({2, 0, 0, 0});
  sim::Optimizer muon(training("muon", 0.1, 0.9, 0.95), "", false, one.parameters, {rules, {0}, &backend, 1});
  CHECK_FALSE(muon.can_wait());
  REQUIRE(muon.step(one.parameters, one.k, 1));
  // One row of norm 1: X = a + b + c = .701; times .2 sqrt(4) lr.
  CHECK(one.parameters.values()[0] == Approx(1 - 0.1 * 0.4 * 0.701).epsilon(1e-6));
  CHECK(one.parameters.values()[1] == 1);
  // m = .5 * 1 + .5 * 0 = .5, u = .5 * 0 + .5 * m: the direction of the first gradient again, halved by nothing.
  one.gradient({0, 0, 0, 0});
  muon.step(one.parameters, one.k, 2);
  CHECK(one.parameters.values()[0] == Approx(1 - 2 * 0.1 * 0.4 * 0.701).epsilon(1e-6));
  // Another direction: m = .5 (1, 0) + .5 (0, 2) = (.5, 1), and one step ahead u = .5 (0, 2) + .5 m = (.25, 1.5).
  OneMatrix turned(1, 4, {1, 1, 1, 1});
  sim::Optimizer ahead(training("muon", 0.1, 0.9, 0.95), "", false, turned.parameters, {rules, {0}, &backend, 1});
  turned.gradient({2, 0, 0, 0});
  ahead.step(turned.parameters, turned.k, 1);
  turned.gradient({0, 2, 0, 0});
  ahead.step(turned.parameters, turned.k, 2);
  CHECK(turned.parameters.values()[0] == Approx(1 - 0.1 * 0.4 * 0.701 * (1 + 0.25 / std::sqrt(2.3125))).epsilon(1e-6));
  CHECK(turned.parameters.values()[1] == Approx(1 - 0.1 * 0.4 * 0.701 * 1.5 / std::sqrt(2.3125)).epsilon(1e-6));
  // A parameter that is no hidden matrix takes AdamW: its first step is lr, whatever the gradient.
  OneMatrix other(1, 4, {1, 1, 1, 1});
  other.gradient({2, -3, 0.5f, 0});
  sim::Optimizer adamw(training("muon", 0.1, 0.9, 0.95), "", false, other.parameters, {rules, {}, &backend, 1});
  adamw.step(other.parameters, other.k, 1);
  CHECK(other.parameters.values()[0] == Approx(0.9));
  CHECK(other.parameters.values()[1] == Approx(1.1));
}

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

TEST_CASE("states, Muon and ramps resume by bits", "[train]") {
  const Json ramp = {{"weights", {{"ramp", {{"every", 8}, {"window", 3}, {"threshold", 0.25}, {"factor", 2}}}}}};
  const std::vector<Json> all = {ramp,
                                 {{"states", {{"moments", "8bit"}}}},
                                 {{"states", {{"moments", "4bit"}, {"weights", "bf16"}}}},
                                 {{"optimizer", "muon"}, {"states", {{"weights", "bf16"}}}},
                                 {{"optimizer", "muon"}, {"muon", {{"products", "mxfp8"}}}}};
  const std::string plain = tasks::run(config_of(Json::object(), 12), 1).digest;
  const test::TemporaryFolder folder;
  std::set<std::string> digests = {plain};
  for (const Json& changes : all) {
    const Json config = config_of(changes, 12);
    INFO(changes.dump());
    const sim::History whole = tasks::run(config, 1);
    CHECK(whole.status == sim::Status::finished);
    CHECK(digests.insert(whole.digest).second);
    for (const int stop : {2, 6, 10}) {
      sim::RunOptions first, second;
      first.checkpoint_to = second.resume_from = folder / "c";
      first.stop_at = stop;
      tasks::run(config, 1, first);
      CHECK(tasks::run(config, 1, second).digest == whole.digest);
    }
    CHECK(sim::to_json(sim::canonical(sim::recipe_from_json(config.at("recipe")))) == config.at("recipe"));
  }
  CHECK_FALSE(config_of(Json::object(), 12).at("recipe").contains("states"));
  CHECK_THROWS_WITH(tasks::run(config_of({{"optimizer", "muon"}, {"weights", ramp.at("weights")}}, 3), 1),
                    Catch::Contains("ramp"));
}
