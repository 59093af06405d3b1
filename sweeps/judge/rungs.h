// Two recipes that were tuned, compared each at its best: a ladder on few seeds does not know for certain which of its
// rungs is best, so a recipe is judged at several of them, and what is told from the runs is the difference of the
// minima.
//
// L(e) and M(f) are the mean losses of two recipes at their rungs. min_e L(e) - min_f M(f) = min_e max_f (L(e) - M(f)),
// so intervals [low(e,f), high(e,f)] that hold together for all pairs of rungs give the interval
// [min_e max_f low(e,f), min_e max_f high(e,f)]. A rung that is plainly worse than another of its recipe does not widen
// it: it loses in the minimum. With one rung each it is the paired t interval.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "sweeps/judge/statistics.h"

namespace fp4::sweeps {

// Losses of a recipe by rung and number of the seed, the rung that tuning chose first. NaN: not run; infinite:
// diverged.
using RungLosses = std::vector<std::vector<double>>;

struct RungPair {
  size_t mine = 0, theirs = 0;
  double error = 0;  // standard error of the mean difference there
};

// Loss of one recipe minus that of another on the same seeds, each at its best rung.
struct PairedDifference {
  size_t n = 0;     // seeds on which both have a loss, at the rungs of the mean
  double mean = 0;  // difference of the least means
  double sd = 0;
  std::optional<Interval> interval;   // simultaneous; none where some pair of rungs has fewer than three seeds
  RungPair mean_at, low_at, high_at;  // the rungs that these numbers come from
  // Seeds on which one diverged and the other did not. `diverges_more`: too often for chance at the interval's level.
  size_t diverged = 0, rival_diverged = 0;
  bool diverges_more = false, rival_diverges_more = false;
  bool is_worse() const { return diverges_more || (interval && interval->low > 0); }
};

// The difference over the first `seeds` seeds, each pair of rungs on those that both ran; n = 0 without any. `level`:
// the chance that the interval of one pair of rungs may be wrong; rungs of a recipe that are worse than another of it
// by such an interval are left out.
PairedDifference difference_at_best(const RungLosses& mine, const RungLosses& theirs, size_t seeds, double level);

// Which rungs ran and are not shown to be worse than another one of the same recipe.
std::vector<bool> rungs_in_play(const RungLosses& losses, size_t seeds, double level);

// A one-sided exact test of divergence: of the seeds on which one of two recipes diverged alone, more are this one's
// than a fair coin gives with probability `level` / 2 (McNemar's test without its approximation).
bool diverges_more_often(size_t alone, size_t rival_alone, double level);

// Pairs of rungs, within two recipes and between them, that a comparison looks at: 1 for one rung each, 6 for two.
inline size_t pairs_of_rungs(size_t mine, size_t theirs) { return (mine + theirs) * (mine + theirs - 1) / 2; }

}  // namespace fp4::sweeps
