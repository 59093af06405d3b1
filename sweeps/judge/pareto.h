// Fronts of cost against quality, one for each task and training (a context: the configurations that share an fp32
// reference). Thousands of points on few seeds are a screening, and the best of them are lucky: candidates are all
// within 3 standard errors of the screened front; where they raced on fresh seeds, the front, its numbers and its words
// come from those alone.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "sweeps/judge/costs.h"
#include "sweeps/judge/race.h"
#include "sweeps/judge/tokens.h"

namespace fp4::sweeps {

struct FrontOptions {
  std::string x = "overhead";
  std::string y = "loss_gap";    // loss_gap, loss_hp_gap, loss, loss_hp
  std::optional<double> delta;   // smallest difference that matters; none: that of the grid's race, 2 % of mxfp4's gap
  std::optional<double> target;  // of tokens-to-target; none: see tokens.h
  bool screening_only = false;   // candidates alone: no sensitivity, nothing judged (used to choose who races)
  bool sensitivity = true;
};

struct FrontPoint {
  const ConfigResult* config = nullptr;
  const ConfigResult* rung = nullptr;  // where its gap is told: `config`, or of a race the best of its judged rungs
  Cost cost;
  std::optional<std::pair<double, double>> overhead_range;  // 95 % by the cost model's doubt; of what raced or leads
  double x = 0;
  Summary y;  // over the seeds that count; n = 0 when none finished
  size_t diverged = 0;
  size_t runs = 0;  // that finished or diverged
  bool candidate = false;
  bool on_front = false;  // undominated by means; of a race: leads its level, `on` or not sure yet
  FrontStatus status = FrontStatus::unjudged;
  double distance = 0;                  // above the screened front, in standard errors of the paired difference
  const ConfigResult* rival = nullptr;  // of a race: the step that it is tied with, worse or not told from
  const ConfigResult *own_rung = nullptr, *rival_rung = nullptr;  // that `difference` compares
  PairedDifference difference;                                    // to the rival, with its simultaneous interval
  bool rates_differ = false;                                      // these have other values of a tuned field
  double detectable = unknown;                  // smallest difference to the rival found with 80 % power
  PairedDifference raced_gap;                   // to fp32, likewise
  std::map<std::string, Interval> sensitivity;  // factors of a cost weight over which it stays undominated
  std::optional<double> tokens_to_target;       // of the mean curve; none: no target, or not reached
  std::optional<ExtraTokens> extra_fp32;        // tokens for the same loss, above those of fp32
  std::optional<ExtraTokens> extra_mxfp8;       // and of mxfp8, where it was run
  std::optional<double> quartet;                // data efficiency x speed-up over bf16
};

// What tables show of the column `y`: of a raced gap the difference of the best judged rungs, which its interval is of;
// else the mean of the point's own runs.
inline double shown_mean(const FrontPoint& point, std::string_view y) {
  return y.ends_with("gap") && point.raced_gap.interval ? point.raced_gap.mean : point.y.mean;
}
inline size_t shown_seeds(const FrontPoint& point, std::string_view y) {
  return y.ends_with("gap") && point.raced_gap.interval ? point.raced_gap.n : point.y.n;
}

struct ContextFront {
  std::string context;  // hash of its fp32 configuration
  std::string task;
  std::string description;             // task and the task and training axes that it has values for
  bool raced = false;                  // the front comes from the fresh seeds of a race
  bool at_best = false;                // every configuration at its own best, else all at the grid's values
  size_t seeds = 0;                    // most runs of a compared point
  std::optional<Summary> noise_floor;  // bf16 - fp32
  double paired_sd = unknown;          // median SD of the paired differences by which points are compared
  double detectable = unknown;         // smallest difference that such a comparison finds with 80 % power (median)
  double delta = 0;
  LossScale scale;               // what a gap is divided by to become a share
  std::optional<double> target;  // loss of tokens-to-target
  size_t comparisons = 0;        // whose intervals hold together
  // Points within 3 standard errors of the screened front that did not race: beyond the grid's limit, or not run yet;
  // and the chance that one of them is truly below that front at its cost, each taken by itself with a flat prior.
  size_t left_out = 0;
  double left_out_chance = 0;
  std::vector<FrontPoint> points;  // by x, then y
};

// All contexts of the sweep, by task; of a task the raced ones first.
std::vector<ContextFront> fronts(const Results& results, const Costs& costs, const FrontOptions& options);

// What `equal` means on each task: the delta of its first context.
std::map<std::string, double> delta_by_task(const std::vector<ContextFront>& fronts);

// Marks the points that no other point beats in both coordinates (equal points keep each other).
std::vector<bool> undominated(const std::vector<double>& x, const std::vector<double>& y);

// Fronts peeled one by one: 0 for the undominated, 1 for those undominated without them, and so on; -1 for NaN.
std::vector<int> dominated_ranks(const std::vector<double>& x, std::vector<double> y);

}  // namespace fp4::sweeps
