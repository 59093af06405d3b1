// Is a run a function of (configuration, seed) and of nothing else: threads, backend, evaluations, interruption,
// other runs? Do all recipes run on all tasks?
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <thread>

#include "sim/rules/recipe.h"
#include "sim/train/checkpoint.h"
#include "sim/train/optim.h"
#include "src/text/error.h"
#include "tasks/run.h"
#include "tasks/task_data.h"
#include "tasks/wasserstein.h"
#include "tests/support/support.h"

using namespace fp4;
using sim::History;
using sim::Json;
using sim::RunOptions;

namespace {

Json short_run(const std::string& task, const Json& recipe, int steps, Json parameters = Json::object()) {
  Json section = {{"name", task}};
  section.update(parameters);
  if (task == "lm") section.update({{"width", 32}, {"heads", 2}, {"ffn", 48}, {"context", 16}});
  return tasks::canonical({{"task", section},
                           {"recipe", recipe},
                           {"train", {{"steps", steps}, {"batch", task == "lm" ? 4 : 32}, {"curve_points", 3}}}});
}

}  // namespace

TEST_CASE("the result does not depend on threads, backend or the runs before", "[train]") {
  for (const char* task : {"classifier", "lm"})
    for (const char* recipe : {"fp32", "mxfp4"}) {
      const Json config = short_run(task, recipe, 3);
      const std::string digest = tasks::run(config, 1).digest;
      INFO(task << " " << recipe);
      RunOptions two;
      two.threads = 2;
      CHECK(tasks::run(config, 1, two).digest == digest);
      RunOptions reference;
      reference.backend = "reference";
      CHECK(tasks::run(config, 1, reference).digest == digest);
      CHECK(tasks::run(config, 2).digest != digest);
    }
}

TEST_CASE("large products are split over threads without a change", "[train]") {
  // 256 rows x 128 x 256 is above the size from which a product is split.
  const Json config = tasks::canonical({{"task", {{"name", "regression"}, {"width", 256}}},
                                        {"recipe", "fp32"},
                                        {"train", {{"steps", 2}, {"batch", 256}, {"curve_points", 1}}}});
  RunOptions two;
  two.threads = 2;
  CHECK(tasks::run(config, 1, two).digest == tasks::run(config, 1).digest);
}

TEST_CASE("runs side by side do not touch each other, and a larger pool changes nothing", "[train]") {
  const Json config = short_run("regression", "mxfp4", 4, {{"data_seed", 77}});
  const std::string alone = tasks::run(config, 3).digest;
  std::string first, second;
  std::thread other([&] { first = tasks::run(config, 3).digest; });
  second = tasks::run(config, 3).digest;
  other.join();
  CHECK(first == alone);
  CHECK(second == alone);
  for (const char* task : {"regression", "classifier", "diffusion", "lm", "recommender"}) {
    const Json small = short_run(task, "fp32", 3, {{"data_seed", 78}});
    const std::string before = tasks::run(small, 1).digest;
    tasks::run(short_run(task, "fp32", 9, {{"data_seed", 78}}), 1);
    CHECK(tasks::run(small, 1).digest == before);
  }
}

TEST_CASE("a resumed run equals an uninterrupted one", "[train]") {
  const test::TemporaryFolder folder;
  const std::string file = folder / "checkpoint";
  Json recipe = "ue5m3_hold50";  // held amaxes are part of the state
  Json config = short_run("regression", recipe, 7);
  config["recipe"]["loss_scaling"] = true;
  for (const char* optimizer : {"adam", "adamw", "sgd"}) {
    config["train"]["optimizer"] = optimizer;
    const History whole = tasks::run(config, 5);
    RunOptions half, rest;
    half.stop_at = 4, half.checkpoint_to = file;
    rest.resume_from = file;
    tasks::run(config, 5, half);
    const History resumed = tasks::run(config, 5, rest);
    INFO(optimizer);
    CHECK(resumed.digest == whole.digest);
    CHECK(resumed.metrics == whole.metrics);
    CHECK_THROWS_AS(tasks::run(config, 6, rest), Error);
  }
  test::write_text(folder / "broken", "no checkpoint");
  RunOptions broken;
  broken.resume_from = folder / "broken";
  CHECK_THROWS_AS(tasks::run(config, 5, broken), Error);
}

TEST_CASE("the number of evaluations never changes the weights", "[train]") {
  const test::TemporaryFolder folder;
  std::vector<std::vector<float>> weights;
  for (int points : {3, 30}) {
    Json config = short_run("regression", "ue5m3_hold50", 30);
    config["train"]["curve_points"] = points;
    RunOptions options;
    options.checkpoint_to = folder / "end";
    const History h = tasks::run(config, 1, options);
    CHECK(static_cast<int>(h.curve.size()) == points);
    weights.push_back(sim::read_checkpoint(folder / "end").weights);
  }
  CHECK(weights[0] == weights[1]);
}

TEST_CASE("every recipe gives the reference's bits on the fast backends", "[train]") {
  for (const std::string& recipe : sim::recipe_names()) {
    Json config = short_run("regression", recipe, 3, {{"inputs", 40}, {"width", 24}, {"outputs", 8}});
    config["train"]["curve_points"] = 1;
    RunOptions reference;
    reference.backend = "reference";
    INFO(recipe);
    CHECK(tasks::run(config, 1).digest == tasks::run(config, 1, reference).digest);
  }
}

TEST_CASE("every task gives the reference's bits on the fast backends", "[train]") {
  for (const char* task : {"regression", "classifier", "diffusion", "lm", "recommender"})
    for (const char* recipe : {"bf16", "mxfp8", "nvfp4_te", "four_over_six", "quartet", "dge_wang", "ue5m3_hold50"}) {
      const bool is_lm = task == std::string("lm");
      Json config = short_run(task, recipe, 4, is_lm ? Json{{"layers", 1}} : Json{{"width", 24}});
      config["train"]["curve_points"] = 1;
      config["train"]["batch"] = is_lm ? 2 : 24;
      RunOptions reference;
      reference.backend = "reference";
      reference.stop_at = 3;  // without the final evaluation: the reference needs seconds for it
      RunOptions fast = reference;
      fast.backend = "auto";
      INFO(task << " " << recipe);
      CHECK(tasks::run(config, 1, fast).digest == tasks::run(config, 1, reference).digest);
    }
}

TEST_CASE("NAME@GEMM quantises one product and leaves bf16 in the others", "[train]") {
  const Json recipe = short_run("classifier", "mxfp4@wgrad", 1).at("recipe");
  CHECK(recipe.at("name") == "mxfp4@wgrad");
  CHECK(recipe.at("wgrad").at("a").at("element") == "e2m1");
  CHECK(recipe.at("fprop").at("b").at("element") == "bf16");
  CHECK(recipe.at("dgrad").at("a").at("element") == "bf16");
  CHECK_THROWS_AS(short_run("classifier", "mxfp4@forward", 1), Error);
}

TEST_CASE("canonical configurations", "[train]") {
  const Json config = short_run("classifier", "nvfp4_te", 5);
  // A fixed point, and readable as a configuration again.
  CHECK(tasks::canonical(config) == config);
  CHECK(config.at("task").at("outliers").at("channel") == 0.5);
  CHECK(config.at("train").at("lr") == 0.016);
  CHECK(config.at("task").at("data_seed") == -1);
  // Names, docs and dead fields do not enter the hash; live ones do.
  Json renamed = config;
  renamed["recipe"]["name"] = "mine";
  renamed["recipe"]["doc"] = "";
  CHECK(tasks::config_hash(renamed) == tasks::config_hash(config));
  const auto hash = [](const Json& recipe) { return tasks::config_hash(short_run("classifier", recipe, 5)); };
  const Json base = {{"base", "mxfp4"}};
  Json dead = base, alive = base;
  dead["fprop"] = {{"a", {{"random_bits", 16}}}};
  alive["fprop"] = {{"a", {{"random_bits", 16}, {"rounding", "stochastic"}}}};
  CHECK(hash(dead) == hash(base));
  CHECK(hash(alive) != hash(base));
  CHECK(tasks::static_cost(config) > 0);
  const auto fails = [](Json given, const std::string& word) {
    try {
      tasks::canonical(given);
      return false;
    } catch (const Error& e) {
      return std::string(e.what()).find(word) != std::string::npos;
    }
  };
  CHECK(fails({{"task", "clasifier"}}, "classifier"));
  CHECK(fails({{"task", {{"name", "lm"}, {"contxt", 3}}}}, "context"));
  CHECK(fails({{"task", "lm"}, {"train", {{"schedule", "cosinus"}}}}, "cosine"));
  CHECK(fails({{"task", "lm"}, {"train", {{"steps", 0}}}}, "steps"));
  CHECK(fails({{"task", "lm"}, {"train", {{"steps", "many"}}}}, "whole number"));
  CHECK(fails({{"task", "lm"}, {"recipe", {{"fprop", {{"a", {{"elemnt", "e2m1"}}}}}}}}, "element"));
  CHECK(fails({{"task", "lm"}, {"recipe", "mxfp5"}}, "mxfp4"));
}

TEST_CASE("layer policies count quantisable layers only", "[train]") {
  const auto quantised = [](const Json& policy) {
    Json config = short_run("lm", {{"base", "mxfp4"}, {"layers", policy}}, 1);
    return tasks::run(config, 1).products[0]["e2m1"];
  };
  CHECK(quantised("all") == 14);
  CHECK(quantised({{"skip_last", 0.15}}) == 12);  // floor(2.1 + .5) = 2 of 14 left out
  CHECK(quantised({{"skip_first", 3}}) == 11);
  CHECK(quantised({{"names", {"block0.q", "block1.down"}}}) == 2);
  CHECK_THROWS_AS(quantised({{"names", {"block7.q"}}}), Error);
  // An MLP of two or three quantisable layers keeps them all at 15 %, and its first layer has no dgrad.
  const History h = tasks::run(short_run("classifier", {{"base", "mxfp4"}, {"layers", {{"skip_last", 0.15}}}}, 1), 1);
  CHECK(h.products[0].at("e2m1") == 2);
  CHECK(h.products[1].at("e2m1") == 1);
  CHECK(h.products[2].at("e2m1") == 2);
}

TEST_CASE("the sliced distance sorts numbers and is that of shifted points", "[train]") {
  std::vector<float> x = sim::DataSource{1, 1}.normals(1000);
  x[1] = 0.0f, x[2] = -0.0f, x[3] = 3e38f, x[4] = -3e38f, x[5] = 1e-42f, x[6] = x[7];
  std::vector<float> sorted = x;
  std::sort(sorted.begin(), sorted.end());
  tasks::sort_floats(x.data(), x.size());
  CHECK(x == sorted);
  // In one dimension every direction is +-1: a shift by d is at distance |d|.
  std::vector<float> data = sim::DataSource{1, 2}.normals(500), moved = data;
  for (float& v : moved) v += 0.75f;
  const tasks::SlicedDistance distance(data, 1, 8, sim::DataSource{1, 3});
  CHECK(distance(data) == 0);
  CHECK(distance(moved) == Approx(0.75));
  moved[3] = std::numeric_limits<float>::quiet_NaN();
  CHECK(std::isinf(distance(moved)));
}

TEST_CASE("token weights that ruin the batch are refused", "[quick]") {
  const auto reason = [](const char* task, double token, int batch) {
    return tasks::invalid_reason(tasks::canonical({{"task", {{"name", task}, {"outliers", {{"token", token}}}}},
                                                   {"recipe", "fp32"},
                                                   {"train", {{"batch", batch}}}}));
  };
  // 64 exp(1.5^2) = 607.2
  CHECK(reason("classifier", 1.5, 608).empty());
  CHECK(reason("classifier", 1.5, 607) ==
        "task classifier: outliers.token 1.5 leaves an effective batch of 63.98; batch 608 keeps 64");
  CHECK(reason("regression", 1, 128).find("effective batch of 47.09; batch 174 keeps 64") != std::string::npos);
  CHECK(reason("classifier", 0, 1).empty());  // a small batch by itself is the user's choice
  CHECK(reason("lm", 1.5, 10).empty());       // 64 bytes a sequence
  CHECK(!reason("lm", 1.5, 9).empty());
  CHECK_THROWS_AS(tasks::run(short_run("regression", "fp32", 2, {{"outliers", {{"token", 2.0}}}}), 1), Error);
}

TEST_CASE("divergence is a result", "[train]") {
  Json config = short_run("regression", "fp32", 60);
  config["train"]["lr"] = 10.0;
  const History h = tasks::run(config, 1);
  CHECK(h.status == sim::Status::diverged);
  CHECK(h.steps_done < 60);
  CHECK(h.metrics.count("loss") == 0);
  CHECK(!h.curve.empty());
  CHECK(h.digest.size() == 16);
}

TEST_CASE("schedules start and end where they say", "[train]") {
  sim::Parameters parameters;
  Json train = sim::canonical(sim::train_schema(), {{"steps", 100}, {"lr", 1.0}, {"warmup", 10}}, "train");
  const auto rate = [&](int step) {
    return static_cast<double>(sim::Optimizer(train, "", false, parameters).learning_rate(step));
  };
  CHECK(rate(1) == Approx(0.1));
  CHECK(rate(10) == Approx(1.0));
  CHECK(rate(11) == Approx(1.0));
  CHECK(rate(100) == Approx(0.1));
  train["warmup"] = 0;
  CHECK(rate(1) == Approx(1.0));
  CHECK(rate(100) == Approx(0.1));
  train["schedule"] = "linear";
  CHECK(rate(34) == Approx(0.7));
  train["schedule"] = "constant";
  CHECK(rate(100) == Approx(1.0));
}

TEST_CASE("a size sets shape and steps, and what is given goes before it", "[train]") {
  const Json task = {{"name", "lm"}, {"size", "50k"}, {"tokens_per_weight", 20}};
  const Json config = tasks::canonical({{"task", task}, {"recipe", "fp32"}});
  CHECK(config["task"]["ffn"] == 64);
  CHECK(config["train"]["steps"] == 560);  // 20 * 2 (4 * 64^2 + 3 * 64 * 64) bytes in batches of 16 * 128
  CHECK(config["train"]["warmup"] == 17);  // 3 %
  Json other = task;
  other["ffn"] = 32;
  const Json given = tasks::canonical({{"task", other}, {"recipe", "fp32"}, {"train", {{"lr", 0.5}}}});
  CHECK(given["train"]["steps"] == 440);
  CHECK(given["train"]["lr"] == 0.5);
  // Tokens a weight are bytes read: a smaller batch takes more steps.
  const Json small = tasks::canonical({{"task", task}, {"recipe", "fp32"}, {"train", {{"batch", 4}}}});
  CHECK(small["train"]["steps"] == 2240);
  CHECK(small["train"]["warmup"] == 67);
  CHECK_THROWS(tasks::canonical({{"task", task}, {"recipe", "fp32"}, {"train", {{"batch", 0}}}}));
  CHECK_THROWS(tasks::canonical({{"task", task}, {"recipe", "fp32"}, {"train", {{"batch", "16"}}}}));
  // The default is the model without a size.
  const Json plain = tasks::canonical({{"task", "lm"}, {"recipe", "fp32"}});
  CHECK(plain["task"]["width"] == 128);
  CHECK(plain["train"]["steps"] == 300);
}

TEST_CASE("a text that its maker split is read as it is split, and a run says what it read", "[train]") {
  test::TemporaryFolder folder;
  std::string letters;
  while (letters.size() < 4000) letters += "abcd";
  test::write_text(folder / "train.txt", letters);
  test::write_text(folder / "validation.txt", std::string(400, 'e'));
  Json config = short_run("lm", "fp32", 3, {{"text", folder.path().string()}});
  History history = tasks::run(config, 1);
  CHECK(history.metrics.at("trivial_loss") == 0);  // one letter validates
  CHECK(history.metrics.at("tokens") == 3 * 4 * 16);
  CHECK(history.metrics.at("weights") == 2 * (4 * 32 * 32 + 3 * 32 * 48));
  CHECK(history.metrics.at("passes") == Approx(192 / 4000.0));
  CHECK(history.metrics.at("bits_per_byte") == Approx(history.metrics.at("loss") / std::log(2.0)));
  CHECK(history.metrics.at("loss") > 5);  // "e" never stood in the training text
  // Any third file makes it a folder of texts, whose last tenth validates.
  test::write_text(folder / "another.txt", letters);
  config = short_run("lm", "fp32", 3, {{"text", folder.path().string() + "/"}});
  CHECK(tasks::run(config, 1).metrics.at("trivial_loss") > 0);
}

TEST_CASE("a run that is asked to stop while its examples are made ends before its first step", "[train]") {
  for (const char* task : {"regression", "classifier", "diffusion", "lm", "recommender"}) {
    INFO(task);
    Json parameters = {{"data_seed", 987}};  // a pool that no other test has made
    if (std::string(task) == "lm") parameters["width"] = 32;
    const Json config = short_run(task, "fp32", 100, parameters);
    int asked = 0;
    RunOptions options;
    options.stop = [&] { return ++asked == 2; };
    const test::TemporaryFolder folder;
    options.checkpoint_to = folder / "c";
    const History history = tasks::run(config, 1, options);
    CHECK(history.status == sim::Status::stopped);
    CHECK(history.steps_done == 0);
    CHECK_THAT(history.message, Catch::Contains("before its first step"));
    CHECK(asked == 2);
    CHECK_FALSE(std::filesystem::exists(folder / "c"));
    CHECK(tasks::run(config, 1).status == sim::Status::finished);  // what was begun is made anew
  }
}

TEST_CASE("data is made in pieces, each example once and in order", "[quick]") {
  std::vector<int64_t> begins;
  int64_t next = 0;
  sim::in_pieces(2500, {}, [&](int64_t first, int64_t n) {
    CHECK(first == next);
    next = first + n;
    begins.push_back(first);
  });
  CHECK(next == 2500);
  CHECK(begins == std::vector<int64_t>{0, 1024, 2048});
  const std::vector<float> weights = sim::token_weights(2500, 1.5, tasks::source(7, tasks::DataSet::pool_weights), {});
  // Example i is the same whatever is made before it: normal 2,049 of the stream by itself.
  float normal = 0;
  tasks::source(7, tasks::DataSet::pool_weights).normals(&normal, 2049, 1);
  CHECK(weights[2049] == Approx(std::exp(1.5 * static_cast<double>(normal) - 1.125)).epsilon(1e-5));
}

TEST_CASE("examples that do not fit the memory are refused with both numbers", "[quick]") {
  const Json config = short_run("regression", "fp32", 1000);  // batch 32
  // 32,000 examples of 768 bytes and an index of 4 each: 24,704,000 bytes.
  CHECK_NOTHROW(tasks::check_room(config, 32000, 768, 24704000.0));
  CHECK_NOTHROW(tasks::check_room(config, 32000, 768, std::nullopt));
  CHECK_THROWS_WITH(tasks::check_room(config, 32000, 768, 20e6),
                    "task regression: 1000 steps x 32 = 32000 examples need 0.0247 GB of memory; this machine has "
                    "0.02 GB left");
  CHECK_THROWS_AS(tasks::check_room(config, 32000, 768, 1e6), tasks::NoRoom);
  CHECK_THROWS_WITH(tasks::check_room(config, int64_t{1} << 31, 1, std::nullopt), Catch::Contains("up to 2147483647"));
}
