// Which runs to do, in stages: every stage is a pure function of the grid and of the runs of the stages before, so an
// interrupted sweep, a merged one and an undisturbed one ask for the same runs.
//   all, random   one stage
//   halving       one stage a rung; the best share goes on with its own full, longer schedule
//   importance    a pilot at random, then configurations near the predicted front (after Cocktail's importance
//   sampling)
// and, with `confirm`, a last stage: the screened candidates on fresh seeds.
#pragma once

#include <string>
#include <vector>

#include "sweeps/pareto.h"
#include "sweeps/run.h"

namespace fp4::sweeps {

struct Stage {
  std::string name;
  std::vector<Job> jobs;           // sorted; pointers into the planner
  std::vector<std::string> notes;  // whole sentences for people: what was kept and why
};

class Planner {
 public:
  // `models`: the cost models whose fronts choose candidates, one for each chip of the grid.
  Planner(Grid grid, const Simulator& simulator, std::vector<CostModel> models);

  const Grid& grid() const { return grid_; }
  const Plan& plan(size_t rung = 0) const { return plans_[rung]; }
  size_t stages() const { return stage_names_.size(); }
  const std::string& stage_name(size_t index) const { return stage_names_[index]; }

  // `runs`: everything known so far. Stage 0 needs none; a later one needs all runs of the stages before.
  Stage stage(size_t index, const std::vector<RunRecord>& runs);

  // What the store shall hold: axes, configurations taken so far with their probabilities, references, points of them.
  struct Contents {
    std::vector<std::string> axes;
    std::vector<ConfigRecord> configs;
    std::vector<PointRecord> points;
  };
  Contents contents() const;

 private:
  using Taken = std::map<std::string, ConfigRecord>;

  Results results(const std::vector<RunRecord>& runs) const;
  void take(const std::vector<const ConfigRecord*>& configs, size_t rung, Stage& stage);
  std::vector<const ConfigRecord*> smallest(size_t count, const std::string& salt) const;
  std::vector<const ConfigRecord*> promoted(size_t rung, const Results& results, Stage& stage);
  std::vector<const ConfigRecord*> important(const Results& results, Stage& stage);
  void confirm(const Results& results, Stage& stage);

  Grid grid_;
  std::vector<CostModel> models_;
  std::vector<Plan> plans_;  // one, or one a rung
  std::vector<std::string> stage_names_;
  Taken taken_;  // by hash, stable addresses for jobs
  std::map<std::string, ConfigRecord> references_;
};

}  // namespace fp4::sweeps
