// Decides: which way of exploring finds a grid's front for a share of its work. The sweep's own planner (explore.h)
// explores a grid whose configurations have all been run before: what it asks for is answered from a table of means,
// with fresh noise, and what it has run at full length at the end is compared with the front of those means.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "sweeps/explore/explore.h"

namespace fp4::sweeps {

/// What a table says of a configuration: mean gap to fp32, NaN where it diverged.
struct KnownGap {
  double gap = 0;
};
struct KnownGaps {
  std::map<std::string, KnownGap> by_hash;
  double sd = 0;  // of the gap of one seed: root of the mean variance over the table
};

/// Rows of `fp4sim table --group --csv` of one task (role run; where the grid's own rate is a configuration's best, the
/// table calls that row `best`). Throws Error naming file and column.
KnownGaps read_known_gaps(const std::string& table, const std::string& task);

struct ReplaySettings {
  Explore explore = Explore::random;
  double budget = 0.25;         // share of the work of all configurations
  std::vector<int> rungs;       // of halving: steps, the last being the grid's
  std::vector<double> rung_sd;  // of ln(gap) at each rung but the last, beyond the noise of seeds
  double delta = 0;             // losses that differ by less are as good
  size_t replays = 200;
};

struct Replayed {
  double work = 0;    // share of that of all configurations
  double recall = 0;  // share of the front's configurations that were run at full length
  double alike = 0;   // share for which one as good was: no more than half a point of overhead and delta of loss above
};

class Replay {
 public:
  /// One task of the grid, in the chips' order of the grid the first.
  Replay(const Grid& grid, const std::string& task, const Simulator& simulator, const KnownGaps& known);

  size_t configurations() const { return x_.size(); }
  size_t front() const { return front_.size(); }
  /// 2 % of the gap of the recipe mxfp4; 0 where the table lacks it.
  double delta() const { return delta_; }
  std::vector<Replayed> run(const ReplaySettings& settings) const;

 private:
  Replayed judge(const std::vector<std::string>& run, double delta) const;

  struct Memory;
  Simulator shortened(const Simulator& real);
  CostModel shortened(const CostModel& real);

  Grid grid_;
  const KnownGaps& known_;
  std::shared_ptr<Memory> memory_;
  Simulator real_, simulator_;
  CostModel model_;
  std::map<std::string, double> x_;  // overheads of the configurations in the table, by hash
  std::vector<std::string> front_;
  double delta_ = 0;
};

/// The share of configurations that halving may promote so that its work is `budget`: the root of
/// r0/s + keep * r1/s + keep^2 * r2/s + .. = budget, s the last rung. Throws Error where the first rung alone costs
/// more.
double keep_for_budget(const std::vector<int>& rungs, double budget);

}  // namespace fp4::sweeps
