// A whole sweep: stage after stage, only what is missing, into a store. The command line is a thin layer over this.
#pragma once

#include <filesystem>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "sweeps/engine/run_list.h"
#include "sweeps/explore/explore.h"

namespace fp4::sweeps {

struct SweepOptions {
  EngineOptions engine;
  size_t shard = 1;  // 1-based
  size_t shards = 1;
  bool retry_failed = false;
  bool smallest_first = false;              // results come early and the last runs are the longest
  std::vector<std::filesystem::path> seen;  // other stores of this sweep whose runs need not be done again
  std::function<void(const Stage&, size_t missing)> on_stage = {};
  std::function<void(const std::string&)> note = {};
};

struct SweepOutcome {
  size_t wanted = 0;   // runs of the stages that were reached (of this shard), each counted once
  size_t present = 0;  // of them known before, failed ones among them
  size_t failed = 0;   // of them without a result at the end
  Progress progress;   // added up over the stages
  bool complete = false;
  bool interrupted = false;
  std::string waiting;  // why a later stage could not start: results of other shards are missing
};

// Who computes the runs of this grid.
Identity identity_of(const Simulator& simulator, const Grid& grid, const std::string& version, const std::string& host);

// Keeps the grid and its plan in the store, as far as the runs there reach, and runs nothing.
void plan_sweep(Planner& planner, Store& store);

// Throws Error when the store belongs to another sweep (another grid name).
SweepOutcome run_sweep(Planner& planner, const Simulator& simulator, Store& store, const SweepOptions& options);

// Runs of a stage that are not in `runs` (a failed run counts as present).
std::vector<Job> missing_jobs(const Stage& stage, const std::vector<RunRecord>& runs, bool retry_failed = false);

// What a store still lacks, stage by stage, found by comparing the list with the store.
struct Gap {
  std::string stage;
  size_t wanted = 0;
  size_t missing = 0;  // failed runs among them: they have no result
  size_t failed = 0;
  bool reached = true;  // false: the stage's list is not known before the one before it is complete
};
std::vector<Gap> find_gaps(Planner& planner, const std::vector<RunRecord>& runs);

// What stores of one sweep say of its plan.
struct StoredPlan {
  std::set<std::string> configs, parts;  // "3/5000": shares of a grid that is dealt by number
  bool is_whole = false;                 // one of them has all
  void add(const Store& store);
};
// From the stores, where the grid has one stage; else the grid is expanded.
std::vector<Gap> find_gaps(const Grid& grid, const StoredPlan& plan, const std::vector<RunRecord>& runs);

}  // namespace fp4::sweeps
