// The command that the report prints for a configuration must describe that very configuration.
#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>

#include "sweeps/grid/grid.h"
#include "tasks/run.h"
#include "tests/support/made_up_study.h"
#include "tests/support/support.h"
#include "tools/cli/sweep/front_print.h"
#include "tools/cli/sweep/sweep_report.h"
#include "tools/cli/train/run_words.h"

namespace {

// The words of a command line with single quotes, as a shell would split it.
std::vector<std::string> words_of(const std::string& line) {
  std::vector<std::string> words(1);
  bool quoted = false;
  for (const char c : line) {
    if (c == '\'') {
      quoted = !quoted;
    } else if (c == ' ' && !quoted) {
      words.emplace_back();
    } else {
      words.back() += c;
    }
  }
  return words;
}

std::string hash_of_command(const std::string& command) {
  fp4::tools::RunWords run;
  const std::vector<std::string> words = words_of(command);
  for (size_t i = 2; i + 1 < words.size(); i += 2) {
    if (words[i] == "--task") run.task = words[i + 1];
    if (words[i] == "--recipe") run.recipe = words[i + 1];
    if (words[i] == "--set") run.sets.push_back(words[i + 1]);
  }
  return fp4::tasks::config_hash(run.config());
}

}  // namespace

TEST_CASE("the command of every configuration gives its hash", "[quick]") {
  const fp4::sweeps::Simulator simulator = fp4::sweeps::real_simulator("auto", /*with_signature=*/false);
  for (const char* name : {"quick", "wgrad", "scale_formats", "accumulators"}) {
    const fp4::sweeps::Plan plan = fp4::sweeps::expand(fp4::tools::load_grid(name), simulator);
    for (size_t i = 0; i < plan.configs.size(); i += plan.configs.size() / 20 + 1) {
      const std::string command = fp4::tools::reproduce_command(plan.configs[i]);
      INFO(command);
      CHECK(hash_of_command(command) == plan.configs[i].hash);
    }
  }
}

TEST_CASE("the command of a recipe's file gives its hash without the file", "[quick]") {
  const fp4::test::TemporaryFolder folder;
  fp4::test::write_text(folder / "mine.json", R"({"base": "mxfp4_all", "wgrad": {"*": {"rounding": "stochastic"},
    "hadamard": {"size": 16, "signs": "per_step"}}, "layers": {"skip_last": 1}})");
  fp4::test::write_text(folder / "grid.json",
                        R"({"name": "g", "task": "classifier", "axes": {"recipe": ["mine.json", "mxfp4"]}})");
  const fp4::sweeps::Simulator simulator = fp4::sweeps::real_simulator("auto", /*with_signature=*/false);
  const fp4::sweeps::Plan plan = fp4::sweeps::expand(fp4::tools::load_grid(folder / "grid.json"), simulator);
  std::filesystem::remove(folder / "mine.json");
  REQUIRE(plan.configs.size() == 2);
  for (const fp4::sweeps::ConfigRecord& config : plan.configs) {
    const std::string command = fp4::tools::reproduce_command(config);
    INFO(command);
    CHECK(command.find(".json") == std::string::npos);
    CHECK(hash_of_command(command) == config.hash);
  }
}

// Bytes and bits by hand: 8 tables of 1,000 rows of 32 numbers take 128 bytes a row in fp32, 40 in int8; nvfp4 stores 4
// bits and a scale of 8 for 16 numbers.
TEST_CASE("a report has what the task measured, and the bits of a weight as it is judged", "[cli]") {
  const fp4::test::TemporaryFolder folder;
  fp4::test::write_text(folder / "g.json", R"({"name": "g", "task": "recommender", "base": "fp32", "seeds": 1,
    "train": {"steps": 3}, "axes": {"task.*.row_format": ["fp32", "int8"]}, "eval": ["own", "nvfp4@weights"]})");
  const auto ran = fp4::test::run_cli("sweep run " + (folder / "g.json") + " --quiet --out " + (folder / "g"));
  INFO(ran.err);
  REQUIRE(ran.exit_code == 0);
  fp4::tools::ViewOptions options;
  options.folder = folder / "g";
  const fp4::tools::SweepView view = fp4::tools::open_view(options, /*with_curves=*/false);
  const fp4::sweeps::FrontOptions front;
  const fp4::ReportInput input =
      fp4::tools::report_input(view, fp4::sweeps::fronts(view.results, view.costs, front), front);
  const auto place = [](const std::vector<fp4::ReportColumn>& columns, const std::string& name) {
    const auto found =
        std::find_if(columns.begin(), columns.end(), [&](const fp4::ReportColumn& c) { return c.name == name; });
    REQUIRE(found != columns.end());
    return static_cast<size_t>(found - columns.begin());
  };
  const size_t bits = place(input.cost_columns, "weight_bits"), bytes = place(input.quality_columns, "table_bytes");
  const size_t auc = place(input.quality_columns, "auc");
  CHECK_FALSE(input.quality_columns[auc].lower_is_better);
  CHECK(std::none_of(input.quality_columns.begin(), input.quality_columns.end(),
                     [](const fp4::ReportColumn& c) { return c.name == "accuracy"; }));
  std::set<std::pair<double, double>> met;
  for (const fp4::ReportPoint& point : input.points) met.emplace(point.qualities[bytes].mean, point.costs[bits]);
  CHECK(met.contains({1'024'000, 32}));
  CHECK(met.contains({1'024'000, 4.5}));
  CHECK(met.contains({320'000, 32}));
  CHECK(met.contains({320'000, 4.5}));
  for (const fp4::ReportRun& run : input.runs) {
    REQUIRE(run.qualities.size() == input.quality_columns.size());
    CHECK((run.qualities[auc] > 0 && run.qualities[auc] < 1));
  }
}

TEST_CASE("every built-in grid expands", "[quick]") {
  const fp4::sweeps::Simulator simulator = fp4::sweeps::real_simulator("auto", /*with_signature=*/false);
  for (const char* name : {"quick", "design_space", "wgrad", "wgrad_tokens", "sr_rht_variance", "scale_formats",
                           "estimators", "rounding_backward", "accumulators", "free_lunch"}) {
    const fp4::sweeps::Grid grid = fp4::tools::load_grid(name);
    const fp4::sweeps::Plan plan = fp4::sweeps::expand(grid, simulator);
    INFO(name);
    CHECK(grid.name == name);
    CHECK(plan.counts.distinct > 10);
    if (grid.name == "quick") CHECK(plan.counts.distinct == 18);
    if (grid.name != "design_space") continue;
    CHECK(plan.counts.distinct >= 5000);
    CHECK(plan.counts.distinct * grid.seeds.size() >= 10000);  // trainings before tuning and race
  }
}

TEST_CASE("the answer tells a loss from its interval, and names who is undecided", "[quick]") {
  // bf16 and fp32 differ by an SD of .028 a seed; the Hadamard loses .02 in the mean of 320, told from 0 and above
  // delta.
  fp4::test::MadeUp world;
  world.noise = 0.02;
  world.truth = [](const fp4::test::Json& config) {
    const auto& wgrad = config["recipe"]["wgrad"];
    if (wgrad["a"]["element"] != "e2m1") return 0.0;
    return wgrad["hadamard"]["size"] == 16 ? 0.02 : 0.1;
  };
  const auto answer = [&](const std::string& race) {
    const fp4::test::Study sweep(R"({"name": "g", "task": "alpha", "base": "mxfp4", "seeds": 3, "axes": {
      "wgrad.hadamard.size": [0, 16]}, "race": )" +
                                     race + "}",
                                 world);
    const fp4::sweeps::Results results = sweep.results();
    const fp4::sweeps::Costs costs(results, fp4::test::made_up_costs());
    const fp4::sweeps::ContextFront front = fp4::sweeps::fronts(results, costs, {}).at(0);
    CHECK(front.noise_floor->sd > 0.015);
    const std::string text = fp4::tools::front_answer(results, front, {}, "one on toy");
    CHECK_THAT(text, Catch::StartsWith("Loss of a small alpha, step of one on toy as modelled"));
    return text;
  };
  CHECK_THAT(answer(R"({"seeds": 320, "delta": 0.005})"),
             Catch::Contains("loses 0.02") && !Catch::Contains("size=16 loses nothing"));
  CHECK_THAT(answer(R"({"seeds": 10, "delta": 0.005})"), Catch::Contains("undecided"));
}
