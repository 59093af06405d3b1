// Does a branch go on from its trunk as one run would, and is a trunk trained once for all that share it?
#include <catch2/catch.hpp>
#include <filesystem>
#include <iterator>

#include "src/text/error.h"
#include "sweeps/grid/grid.h"
#include "tasks/run.h"
#include "tests/support/support.h"

using namespace fp4;
using sim::Json;

namespace {

Json config_of(const Json& recipe, const Json& branch = nullptr, const char* task = "classifier", int steps = 40) {
  Json given = {{"task", {{"name", task}, {"width", 32}}},
                {"recipe", recipe},
                {"train", {{"steps", steps}, {"curve_points", 4}}}};
  if (!branch.is_null()) given["branch"] = branch;
  return tasks::canonical(given);
}

Json from(const char* recipe, double at) { return {{"recipe", recipe}, {"at", at}}; }

size_t files(const test::TemporaryFolder& folder) {
  const std::filesystem::directory_iterator all(folder.path());
  return static_cast<size_t>(std::distance(begin(all), end(all)));
}

}  // namespace

TEST_CASE("a branch equals the run whose first phase is its trunk", "[train]") {
  const Json phases = Json::array({{{"until", 0.45}, {"recipe", "bf16"}}, Json::object()});
  const std::string whole = tasks::run(config_of({{"base", "mxfp4_all_sr"}, {"phases", phases}}), 1).digest;
  for (const double at : {0.45, 18.0})
    CHECK(tasks::run(config_of("mxfp4_all_sr", from("bf16", at)), 1).digest == whole);
  CHECK(tasks::run(config_of("mxfp4", from("mxfp4", 0.5)), 1).digest == tasks::run(config_of("mxfp4"), 1).digest);
  const sim::History branch = tasks::run(config_of("mxfp4", from("bf16", 0.5)), 1);
  REQUIRE(branch.parent);
  CHECK(branch.parent->step == 20);
  CHECK(branch.parent->recipe == "bf16");
  CHECK(branch.products[0] == sim::PrecisionCounts{{"bf16", 40}, {"e2m1", 40}, {"fp32", 40}});
  CHECK(branch.curve.size() == 4);
}

TEST_CASE("recipes share the checkpoint of one trunk, whoever trained it", "[train]") {
  const test::TemporaryFolder folder;
  sim::RunOptions options;
  options.trunks = folder.path();
  const auto run = [&](const char* recipe, uint64_t seed, double at) {
    return tasks::run(config_of(recipe, from("bf16", at)), seed, options).parent->checkpoint;
  };
  const std::string trunk = run("mxfp4", 1, 0.5);
  CHECK(files(folder) == 1);
  CHECK(run("nvfp4", 1, 20) == trunk);
  CHECK(files(folder) == 1);
  CHECK(run("mxfp4", 2, 0.5) != trunk);
  CHECK(run("mxfp4", 1, 0.6) != trunk);
  CHECK(files(folder) == 3);
  // A trunk that was cut short is trained on.
  const Json config = config_of("mxfp4", from("bf16", 0.5));
  const std::string digest = tasks::run(config, 3).digest;
  sim::RunOptions cut = options;
  cut.progress = [](const sim::Progress& p) { return p.step < 7; };
  CHECK(tasks::run(config, 3, cut).status == sim::Status::stopped);
  CHECK(files(folder) == 4);
  CHECK(tasks::run(config, 3, options).digest == digest);
}

TEST_CASE("what a branch accepts", "[train]") {
  const test::TemporaryFolder folder;
  sim::RunOptions trunk, branch;
  trunk.checkpoint_to = branch.resume_from = folder / "c";
  trunk.stop_at = 20;
  branch.branch = true;
  tasks::run(config_of("bf16"), 1, trunk);
  // Another length and another recipe, under its own schedule.
  CHECK(tasks::run(config_of("mxfp4", nullptr, "classifier", 30), 1, branch).steps_done == 30);
  // The trunk's points after steps 10 and 20, then its own after 40, 60 and 80.
  CHECK(tasks::run(config_of("mxfp4", nullptr, "classifier", 80), 1, branch).curve.size() == 5);
  CHECK_THROWS_WITH(tasks::run(config_of("mxfp4", nullptr, "regression"), 1, branch), Catch::Contains("another task"));
  CHECK_THROWS_WITH(tasks::run(config_of("mxfp4", nullptr, "classifier", 20), 1, branch),
                    Catch::Contains("after step 20"));
  branch.branch = false;
  CHECK_THROWS_WITH(tasks::run(config_of("mxfp4"), 1, branch), Catch::Contains("another configuration"));
  CHECK_THROWS_WITH(config_of("mxfp4", from("bf16", 40)), Catch::Contains("40 of 40 steps"));
  CHECK_THROWS_WITH(config_of("mxfp4", from("bf61", 0.5)), Catch::Contains("bf61"));
  CHECK(tasks::config_hash(config_of("mxfp4", from("bf16", 0.5))) != tasks::config_hash(config_of("mxfp4")));
  CHECK(tasks::config_hash(config_of("mxfp4", from("bf16", 0.5))) !=
        tasks::config_hash(config_of("mxfp4", from("mxfp8", 0.5))));
}

TEST_CASE("a grid's marks are an axis", "[quick]") {
  const sweeps::Grid grid = sweeps::parse_grid(
      R"({"name": "g", "task": "classifier", "axes": {"recipe": ["mxfp4", "nvfp4"]}, "train": {"steps": 40},
          "branch": {"recipe": "bf16", "at": [0, 0.5, 30]}})",
      "grid");
  const sweeps::Plan plan = sweeps::expand(grid, sweeps::real_simulator("auto", false));
  CHECK(plan.counts.distinct == 6);
  CHECK(plan.axes == std::vector<std::string>{"recipe", "branch"});
  CHECK(plan.points[2].labels == std::vector<std::string>{"mxfp4", "bf16@30"});
  int branches = 0;
  for (const sweeps::ConfigRecord& config : plan.configs) branches += Json::parse(config.config).contains("branch");
  CHECK(branches == 4);
}
