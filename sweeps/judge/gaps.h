// Planes a + x ln N + y ln D through the cells (N, D) of a ladder, N weights. Two quantities are fitted so:
//   the gap of a recipe to a baseline, run by run on the same seed: ln(L_recipe / L_baseline), D tokens. What both runs
//   share, data, start and most of the law, cancels, so a gap is known far better than either loss;
//   a recipe's own loss: ln L, D optimizer steps. Where the batch grows with N, tokens would count as steps.
// Fitted by least squares to the mean of each cell; intervals are Student's, with the spread of the means about the
// plane.
#pragma once

#include <array>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "sweeps/judge/law.h"

namespace fp4::sweeps {

// One (N, D): the mean over seeds.
struct PlaneCell {
  double n = 0, d = 0, value = 0;
  size_t seeds = 0;
};
// Of ln(L_recipe / L_baseline), over the seeds that both ran.
std::vector<PlaneCell> gap_cells(std::span<const LawPoint> recipe, std::span<const LawPoint> baseline);
// Of ln L, D steps; runs whose steps are not known are left out.
std::vector<PlaneCell> loss_cells(std::span<const LawPoint> runs);

struct PlaneFit {
  size_t cells = 0, runs = 0;
  double mean = 0;         // at the means of ln N and ln D
  double by_n = 0;         // x: change for e times the weights
  double by_d = 0;         // y: change for e times the tokens
  Interval by_n_interval;  // 95 %, each by itself
  Interval by_d_interval;
  double spread = 0;    // of the cells about the plane
  double left_out = 0;  // root mean square error for a cell that the fit has not seen
  std::string missing;  // why there is no fit

  // The fit's own: means of ln N and ln D, and the inverse of the normal matrix of (1, ln N, ln D) about them.
  double at_n = 0, at_d = 0;
  std::array<double, 9> inverse = {};
};

// `missing` is set below five cells, and where N and D do not vary apart from each other.
PlaneFit fit_plane(std::span<const PlaneCell> cells);

struct PlaneAt {
  double value = 0;
  double error = 0;  // standard error of the mean of runs there, the spread of a cell included
  double freedom = 1;
  Interval interval() const;  // 95 %
};
PlaneAt plane_at(const PlaneFit& fit, double n, double d);

// How well two rules foretell the gaps of sizes that they have not seen: the plane, and no change from the nearest size
// that was trained, in ln N and then in ln D.
struct GapSkill {
  size_t gaps = 0;     // foretold: a recipe at an (N, D)
  double plane = 0;    // root mean square error of ln(L / L_baseline)
  double nearest = 0;  // the same of no change
  bool plane_has_skill() const { return gaps > 0 && plane < nearest; }
};

// The gaps of a ladder's recipes to its baseline, and which rule carries them to another (N, D).
struct GapRule {
  std::map<std::string, std::vector<PlaneCell>> cells;  // of the recipes but the baseline
  std::map<std::string, PlaneFit> planes;
  GapSkill skill;

  // By the plane where it has shown skill, else that of the nearest size, whose error is the skill's or, where nothing
  // was foretold, the spread of the recipe's cells. `by_plane`: by that rule whatever the skill.
  PlaneAt at(const std::string& recipe, double n, double d, std::optional<bool> by_plane = {}) const;
};

// `points` make the rule; `unseen` are sizes kept out, from which its skill is known. Without them each recipe's
// largest size is foretold from its smaller ones, where these make a plane.
GapRule gap_rule(const std::map<std::string, std::vector<LawPoint>>& points, const std::string& baseline,
                 const std::map<std::string, std::vector<LawPoint>>& unseen = {});

}  // namespace fp4::sweeps
