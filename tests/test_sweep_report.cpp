// The command that the report prints for a configuration must describe that very configuration.
#include <catch2/catch.hpp>

#include "sweeps/grid/grid.h"
#include "tasks/run.h"
#include "tools/cli/run_words.h"
#include "tools/cli/sweep_report.h"

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

TEST_CASE("every built-in grid expands", "[quick]") {
  const fp4::sweeps::Simulator simulator = fp4::sweeps::real_simulator("auto", /*with_signature=*/false);
  for (const char* name : {"quick", "design_space", "wgrad", "wgrad_tokens", "sr_rht_variance", "scale_formats",
                           "estimators", "rounding_backward", "accumulators", "free_lunch"}) {
    const fp4::sweeps::Grid grid = fp4::tools::load_grid(name);
    const fp4::sweeps::Plan plan = fp4::sweeps::expand(grid, simulator);
    INFO(name);
    CHECK(grid.name == name);
    CHECK(plan.counts.distinct > 10);
    if (grid.name == "quick") CHECK(plan.counts.distinct == 30);
    if (grid.name != "design_space") continue;
    CHECK(plan.counts.distinct >= 5000);
    CHECK(plan.counts.distinct * grid.seeds.size() >= 10000);  // trainings before tuning and race
  }
}
