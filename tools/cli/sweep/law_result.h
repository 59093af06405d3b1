// The runs of a ladder of sizes, from a sweep's folder or a table of `sweep export`, and their scaling law, as `fp4sim
// law` prints it: what each recipe's weights and tokens count, and how well it says the loss of sizes that were kept
// out of the fit.
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "sweeps/judge/gaps.h"
#include "sweeps/judge/orders.h"
#include "sweeps/training.h"

namespace fp4::tools {

struct LadderRuns {
  std::map<std::string, std::vector<sweeps::LawPoint>> points;  // by recipe
  size_t diverged = 0;                                          // runs without a loss, left out
  std::vector<std::string> left_out;                            // recipes of which every run diverged
  std::map<std::string, sweeps::Json> recipes;                  // those of files, in full, where a store has them
};

/// The word for the ladder that the program carries: runs.csv and held_out.csv of results/ladder_fixed.
inline constexpr const char* built_in_ladder = "built-in";

/// `path`: a sweep's folder, a table, or `built_in_ladder`. Finished runs that have the metrics `weights` and `tokens`
/// (task lm). Throws Error where none has, or where two configurations of one recipe stand at one (N, D): then the
/// recipe's name does not say which was meant.
LadderRuns read_ladder(const std::string& path);

struct LawJob {
  std::string ladder, baseline = "bf16", form = "quartet";
  std::vector<double> at;
  double held_out = 0;
  size_t samples = 200;
};

// A recipe at an (N, D) that was kept out: the mean of its runs and what the law says.
struct HeldOut {
  std::string recipe;
  double n = 0, d = 0, measured = 0;
  size_t runs = 0;
  std::optional<sweeps::Predicted> predicted;
  std::string reason;  // why nothing is predicted
  bool inside() const { return measured >= predicted->interval.low && measured <= predicted->interval.high; }
};

// The paired gap of a recipe, or the logarithm of its loss, at a cell that was kept out.
struct HeldOutCell {
  std::string recipe;
  sweeps::PlaneCell measured;
  sweeps::PlaneAt predicted;
  std::optional<sweeps::PlaneAt> unchanged;  // the gap of the nearest size
};

struct LawOutcome {
  sweeps::LawStudy study;
  sweeps::GapRule gaps;
  std::map<std::string, sweeps::PlaneFit> losses;  // of all, over steps; none of a ladder without curves
  std::vector<HeldOutCell> held_out_gaps, held_out_losses;
  std::vector<std::pair<const sweeps::PublishedOrder*, sweeps::Agreement>> orders;
  std::vector<HeldOut> held_out;
  double n = 0, d = 0;  // where extra tokens are asked for
  double steps = 0;     // of d where every step reads as many tokens, else the most of the baseline; 0: not known
};

/// Throws Error for a form that is none, and for a point that is not N,D.
void check(const LawJob& job);
/// Of a job that was checked. Throws Error for what sweeps::study_law refuses.
LawOutcome study_ladder(const LawJob& job, const LadderRuns& ladder);

// The three numbers of a recipe, with intervals.
struct RecipeLine {
  std::optional<double> extra;
  std::optional<sweeps::Interval> n, d, extra_interval;
};
RecipeLine line_of(const LawOutcome& outcome, const std::string& recipe);

/// All but where it comes from.
nlohmann::ordered_json law_json(const LawJob& job, const LadderRuns& ladder, const LawOutcome& outcome);

}  // namespace fp4::tools
