// Stability edges of several configurations, found on stored runs: each round asks every search (judge/edge.h) for the
// rung that it needs and runs what the store lacks, so an interrupted search goes on where it was.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "sweeps/engine/run_list.h"
#include "sweeps/judge/edge.h"

namespace fp4::sweeps {

// One searched configuration: canonical, its `train.lr` replaced by each rung's.
struct EdgeArm {
  std::string name;
  Json config;
};

struct EdgeFound {
  Edge edge;
  std::map<int, RungCount> counts;  // what was run, by exponent
};

struct EdgeOutcome {
  std::vector<EdgeFound> arms;  // in the order given
  bool interrupted = false;
  Progress progress;  // added up over the rounds
};

// Runs have the seeds 1, 2, ..; a failed run (an error, not a divergence) throws Error with its message. `on_round`
// hears what a round will run before it starts.
EdgeOutcome find_edges(const std::vector<EdgeArm>& arms, const EdgeRules& rules, const Simulator& simulator,
                       Store& store, const EngineOptions& engine,
                       const std::function<void(const std::vector<Job>&)>& on_round = {});

}  // namespace fp4::sweeps
