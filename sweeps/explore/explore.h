// Which runs to do, in stages: every stage is a pure function of the grid and of the runs of the stages before, so an
// interrupted sweep, a merged one and an undisturbed one ask for the same runs.
//   all         one stage
//   importance  a pilot at random, then configurations near the predicted front (after Cocktail's importance sampling)
// With `tune`, ladders on tuning seeds (grid/tuning.h) come first, and every configuration above runs at its own best;
// with `tune_best` the stages above run at the fixed values, and only the best share of them, with the references, is
// tuned. Then, with `race`, rounds of fresh seeds for the screened candidates that are still undecided (judge/race.h).
#pragma once

#include <set>
#include <string>
#include <vector>

#include "sweeps/engine/run_list.h"
#include "sweeps/grid/tuning.h"
#include "sweeps/judge/pareto.h"

namespace fp4::sweeps {

struct Stage {
  std::string name;
  std::vector<Job> jobs;           // sorted; pointers into the planner
  std::vector<std::string> notes;  // whole sentences for people: what was kept and why
};

class Planner {
 public:
  // `models`: the cost models whose fronts choose candidates, one for each chip of the grid.
  // `part` is 1 of 1 but where is_dealt_by_number(grid): then its points alone are planned.
  Planner(Grid grid, const Simulator& simulator, std::vector<CostModel> models, Part part = {});

  const Grid& grid() const { return grid_; }
  const Plan& plan() const { return plan_; }
  const Part& part() const { return part_; }
  size_t stages() const { return steps_.size(); }
  const std::string& stage_name(size_t index) const { return steps_[index].name; }

  // `runs`: everything known so far. Stage 0 needs none; a later one needs all runs of the stages before.
  Stage stage(size_t index, const std::vector<RunRecord>& runs);

  // What the store shall hold: axes, configurations taken so far with their probabilities, references, points of them.
  struct Contents {
    std::vector<std::string> axes;
    std::vector<ConfigRecord> configs;
    std::vector<PointRecord> points;
    std::vector<size_t> numbers;  // of the points of a part; else empty
  };
  Contents contents() const;

 private:
  using Taken = std::map<std::string, ConfigRecord>;

  enum class Kind : uint8_t { explore, tune, at_best, race };
  struct Step {
    Kind kind;
    size_t index;  // among the steps of its kind
    std::string name;
  };

  void plan_steps();
  Results results(const std::vector<RunRecord>& runs) const;
  void explore(size_t index, const std::vector<RunRecord>& runs, Stage& stage);
  void take(const std::vector<const ConfigRecord*>& configs, Stage& stage);
  // Tuning and races: explore_tuned.cpp.
  std::vector<const ConfigRecord*> families(const std::vector<RunRecord>& runs) const;
  std::vector<const ConfigRecord*> with_references(const std::vector<const ConfigRecord*>& families) const;
  void tune(size_t round, const std::vector<RunRecord>& runs, Stage& stage);
  void take_at_best(const std::vector<RunRecord>& runs, Stage& stage);
  ConfigRecord at_best(const ConfigRecord& family, const Tuner::MeanLoss& losses,
                       std::vector<ConfigRecord>& near) const;
  void take_near(const std::vector<ConfigRecord>& near, const std::string& reference, bool in_plan, Stage& stage);
  void race(size_t round, const std::vector<RunRecord>& runs, Stage& stage);
  std::vector<const ConfigRecord*> important(const Results& results, Stage& stage);

  Grid grid_;
  const Simulator& simulator_;
  std::vector<CostModel> models_;
  Tuner tuner_;
  Part part_;
  Plan plan_;
  std::vector<Step> steps_;
  Taken taken_;  // by hash, stable addresses for jobs
  std::map<std::string, ConfigRecord> references_;
  std::map<std::string, ConfigRecord> rungs_;      // configurations that only tuning runs
  std::map<std::string, std::string> at_best_of_;  // hash in the plan -> hash at its own best
  std::set<std::string> near_;                     // hashes of rungs near a best that are judged as well
};

// The best `share` of the configurations: by the front they are on (the first, then that of the rest, ..), within one
// by loss. Those that diverged are left out.
std::vector<const ConfigResult*> best_share(const std::vector<const ConfigResult*>& configs, const Results& results,
                                            const Costs& costs, double share);

// Importance sampling of configurations: what a pilot says of the others, and the chance that each shall have.
struct Prediction {
  std::vector<double> value;  // of ln(gap), by configuration
  double residual_sd = 0;     // on the pilot
};

// Ridge regression of ln(gap + 1e-4) on the pilot (penalty 1, intercept free): additive in the axes, which is enough to
// tell promising corners from hopeless ones; the probabilities make up for where it is wrong.
Prediction predict_gaps(const std::vector<const ConfigResult*>& all, const std::vector<const ConfigResult*>& pilot,
                        const std::vector<double>& gaps);

// Inclusion probabilities: pi = min(1, c * max(exp(-z), floor)), c such that those of the `open` entries (all, when it
// is empty) add up to the budget, or all 1 when it covers them.
std::vector<double> inclusion_probabilities(const std::vector<double>& z, double budget,
                                            const std::vector<bool>& open = {}, double floor = 0.05);

}  // namespace fp4::sweeps
