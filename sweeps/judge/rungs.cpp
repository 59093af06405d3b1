#include "sweeps/judge/rungs.h"

#include <algorithm>
#include <cmath>

namespace fp4::sweeps {

namespace {

PairedDifference pair_of(const std::vector<double>& mine, const std::vector<double>& theirs, size_t seeds,
                         double level) {
  PairedDifference pair;
  std::vector<double> differences;
  seeds = std::min({seeds, mine.size(), theirs.size()});
  differences.reserve(seeds);
  for (size_t s = 0; s < seeds; ++s) {
    if (std::isnan(mine[s]) || std::isnan(theirs[s])) continue;
    const bool mine_diverged = std::isinf(mine[s]), theirs_diverged = std::isinf(theirs[s]);
    pair.diverged += mine_diverged && !theirs_diverged;
    pair.rival_diverged += theirs_diverged && !mine_diverged;
    if (!mine_diverged && !theirs_diverged) differences.push_back(mine[s] - theirs[s]);
  }
  const Summary summary = summarise(differences, 1 - level);
  pair.n = summary.n, pair.mean = summary.mean, pair.sd = summary.sd, pair.interval = summary.interval;
  pair.mean_at.error = pair.low_at.error = pair.high_at.error = summary.error();
  pair.diverges_more = diverges_more_often(pair.diverged, pair.rival_diverged, level);
  pair.rival_diverges_more = diverges_more_often(pair.rival_diverged, pair.diverged, level);
  return pair;
}

// The hardest rival of one rung: the maxima over the rival's rungs in play of low, high and mean, each with its rungs.
PairedDifference against_all(const RungLosses& mine, size_t e, const RungLosses& theirs,
                             const std::vector<bool>& rivals, size_t seeds, double level) {
  PairedDifference hardest;
  Interval most{-INFINITY, -INFINITY};
  bool known = true;
  for (size_t f = 0; f < theirs.size(); ++f) {
    if (!rivals[f]) continue;
    PairedDifference pair = pair_of(mine[e], theirs[f], seeds, level);
    const RungPair here{e, f, pair.mean_at.error};
    pair.mean_at = here;
    pair.diverges_more |= hardest.diverges_more;
    pair.low_at = hardest.low_at, pair.high_at = hardest.high_at;
    known &= pair.interval.has_value();
    if (pair.interval && pair.interval->low > most.low) most.low = pair.interval->low, pair.low_at = here;
    if (pair.interval && pair.interval->high > most.high) most.high = pair.interval->high, pair.high_at = here;
    if (hardest.n == 0 || (pair.n > 0 && pair.mean > hardest.mean)) {
      hardest = pair;
    } else {
      hardest.low_at = pair.low_at, hardest.high_at = pair.high_at, hardest.diverges_more = pair.diverges_more;
    }
  }
  hardest.interval = known && most.low > -INFINITY ? std::optional(most) : std::nullopt;
  return hardest;
}

}  // namespace

bool diverges_more_often(size_t alone, size_t rival_alone, double level) {
  return alone > rival_alone && clopper_pearson(alone, alone + rival_alone, level).low > 0.5;
}

std::vector<bool> rungs_in_play(const RungLosses& losses, size_t seeds, double level) {
  std::vector<bool> ran(losses.size());
  for (size_t e = 0; e < losses.size(); ++e)
    for (size_t s = 0; s < std::min(seeds, losses[e].size()) && !ran[e]; ++s) ran[e] = !std::isnan(losses[e][s]);
  std::vector<bool> in_play = ran;
  for (size_t e = 0; e < losses.size(); ++e)
    for (size_t other = 0; other < losses.size() && in_play[e]; ++other)
      if (other != e && ran[other] && pair_of(losses[e], losses[other], seeds, level).is_worse()) in_play[e] = false;
  return in_play;
}

PairedDifference difference_at_best(const RungLosses& mine, const RungLosses& theirs, size_t seeds, double level) {
  if (mine.size() == 1 && theirs.size() == 1) return pair_of(mine[0], theirs[0], seeds, level);
  const std::vector<bool> rungs = rungs_in_play(mine, seeds, level), rivals = rungs_in_play(theirs, seeds, level);
  PairedDifference best;
  Interval least{INFINITY, INFINITY};
  bool any = false, known = true, diverges_more = true;
  for (size_t e = 0; e < mine.size(); ++e) {
    if (!rungs[e]) continue;
    PairedDifference hardest = against_all(mine, e, theirs, rivals, seeds, level);
    diverges_more &= hardest.diverges_more;
    known &= hardest.interval.has_value();
    RungPair low_at = best.low_at, high_at = best.high_at;
    if (hardest.interval && hardest.interval->low < least.low)
      least.low = hardest.interval->low, low_at = hardest.low_at;
    if (hardest.interval && hardest.interval->high < least.high)
      least.high = hardest.interval->high, high_at = hardest.high_at;
    if (!any || best.n == 0 || (hardest.n > 0 && hardest.mean < best.mean)) best = hardest;
    best.low_at = low_at, best.high_at = high_at;
    any = true;
  }
  if (!any) return {};
  best.interval = known ? std::optional(least) : std::nullopt;
  best.diverges_more = diverges_more;
  return best;
}

}  // namespace fp4::sweeps
