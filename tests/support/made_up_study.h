// A grid whose stages all run in memory, on a made-up trainer.
#pragma once

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "sweeps/explore/explore.h"
#include "tests/support/made_up_training.h"

namespace fp4::test {

struct Study {
  sweeps::Simulator simulator;
  sweeps::Planner planner;
  std::vector<sweeps::RunRecord> runs;
  std::vector<sweeps::Stage> stages;

  // `salt` moves all noise; `known` stands for a store that holds runs already.
  Study(const std::string& grid, const MadeUp& world, uint64_t salt = 0, std::vector<sweeps::RunRecord> known = {})
      : simulator(world.simulator()),
        planner(sweeps::parse_grid(grid, "grid"), simulator, {made_up_costs()}),
        runs(std::move(known)) {
    std::set<std::pair<std::string, uint64_t>> done;
    for (const sweeps::RunRecord& run : runs) done.emplace(run.hash, run.seed);
    for (size_t i = 0; i < planner.stages(); ++i) {
      stages.push_back(planner.stage(i, runs));
      for (const sweeps::Job& job : stages.back().jobs) {
        if (!done.emplace(job.config->hash, job.seed).second) continue;
        const Json config = Json::parse(job.config->config);
        sweeps::RunRecord run = simulator.run(config, job.seed + 1'000'000 * salt, [] { return false; });
        run.hash = job.config->hash;
        run.seed = job.seed;
        run.role = job.role;
        runs.push_back(std::move(run));
      }
    }
  }
  sweeps::Results results() const {
    sweeps::Planner::Contents contents = planner.contents();
    return {planner.grid(), contents.axes, contents.configs, contents.points, {}, runs};
  }
};

}  // namespace fp4::test
