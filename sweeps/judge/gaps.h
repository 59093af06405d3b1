// Planes a + x ln N + y ln D through the cells (N, D) of a ladder, N weights. Two quantities are fitted so:
//   the gap of a recipe to a baseline, run by run on the same seed: ln(L_recipe / L_baseline), D tokens. What both runs
//   share, data, start and most of the law, cancels, so a gap is known far better than either loss;
//   a recipe's own loss: ln L, D optimizer steps. Where the batch grows with N, tokens would count as steps.
// Fitted by least squares to the mean of each cell; intervals are Student's, with the spread of the means about the
// plane.
#pragma once

#include <array>
#include <map>
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

// Of every recipe but the baseline; none where the baseline has no runs.
std::map<std::string, PlaneFit> gap_fits(const std::map<std::string, std::vector<LawPoint>>& points,
                                         const std::string& baseline);

}  // namespace fp4::sweeps
