#include "sweeps/judge/comparison.h"

#include <algorithm>
#include <cmath>

#include "sweeps/judge/race.h"

namespace fp4::sweeps {

namespace {

constexpr size_t least_seeds = RaceRules{}.least, least_alone = RaceRules{}.least_alone;
constexpr double enough = 4;  // deltas beyond which fewer seeds do

size_t seeds_of(const Comparison& comparison) {
  size_t seeds = 0;
  for (const Setting& setting : comparison.settings)
    for (const RungLosses* side : {&setting.mine, &setting.theirs})
      for (const std::vector<double>& rung : *side) seeds = std::max(seeds, rung.size());
  return seeds;
}

size_t pairs_of(const Comparison& comparison) {
  size_t pairs = 0;
  for (const Setting& setting : comparison.settings)
    pairs = std::max(pairs, pairs_of_rungs(setting.mine.size(), setting.theirs.size()));
  return pairs;
}

// Mean difference over the settings at the rungs `at`, by seed; seeds that some setting lacks are left out.
std::vector<double> means_of(const Comparison& comparison, const std::vector<RungPair>& at) {
  std::vector<double> means;
  const size_t seeds = seeds_of(comparison);
  for (size_t s = 0; s < seeds; ++s) {
    double sum = 0;
    for (size_t i = 0; i < comparison.settings.size(); ++i) {
      const std::vector<double>& mine = comparison.settings[i].mine[at[i].mine];
      const std::vector<double>& theirs = comparison.settings[i].theirs[at[i].theirs];
      sum += s < mine.size() && s < theirs.size() ? mine[s] - theirs[s] : NAN;
    }
    if (std::isfinite(sum)) means.push_back(sum / static_cast<double>(comparison.settings.size()));
  }
  return means;
}

// Counts of the runs that diverged, and of the seeds on which more settings of one side did.
struct RunDivergence {
  size_t mine = 0, theirs = 0, seeds = 0, rival_seeds = 0;
};

RunDivergence divergence_of(const Comparison& comparison, const std::vector<RungPair>& at) {
  RunDivergence count;
  const size_t seeds = seeds_of(comparison);
  for (size_t s = 0; s < seeds; ++s) {
    size_t alone = 0, rival_alone = 0;
    for (size_t i = 0; i < comparison.settings.size(); ++i) {
      const std::vector<double>& mine = comparison.settings[i].mine[at[i].mine];
      const std::vector<double>& theirs = comparison.settings[i].theirs[at[i].theirs];
      if (s >= mine.size() || s >= theirs.size() || std::isnan(mine[s]) || std::isnan(theirs[s])) continue;
      count.mine += std::isinf(mine[s]);
      count.theirs += std::isinf(theirs[s]);
      alone += std::isinf(mine[s]) && !std::isinf(theirs[s]);
      rival_alone += std::isinf(theirs[s]) && !std::isinf(mine[s]);
    }
    count.seeds += alone > rival_alone;
    count.rival_seeds += rival_alone > alone;
  }
  return count;
}

// What the interval says, once a failure that the seeds have not shown (race.h) may add to either side.
Verdict verdict_of(const Comparison& comparison, const std::vector<double>& differences) {
  if (std::all_of(differences.begin(), differences.end(), [](double d) { return d == 0; })) return Verdict::equal;
  const auto [low, high] = *comparison.interval;
  const double delta = comparison.delta;
  if (low > enough * delta) return Verdict::worse;
  if (high < -enough * delta) return Verdict::better;
  const size_t n = differences.size();
  const double middle = quantile(differences, 0.5);
  double largest = 0;
  for (const double d : differences) largest = std::max(largest, std::fabs(d - middle));
  const double unseen = 3 * largest / static_cast<double>(n);
  if (n >= least_alone && low - unseen > 0) return Verdict::worse;
  if (n >= least_alone && high + unseen < 0) return Verdict::better;
  return n >= least_seeds && low - unseen >= -delta && high + unseen <= delta ? Verdict::equal : Verdict::undecided;
}

void judge_one(Comparison& comparison, double level) {
  std::vector<RungPair> mean_at, low_at, high_at;
  const size_t seeds = seeds_of(comparison);
  bool known = !comparison.settings.empty();
  for (const Setting& setting : comparison.settings) {
    const PairedDifference d = difference_at_best(setting.mine, setting.theirs, seeds, level);
    known &= d.interval.has_value();
    mean_at.push_back(d.mean_at);
    low_at.push_back(d.low_at);
    high_at.push_back(d.high_at);
  }
  const std::vector<double> differences = means_of(comparison, mean_at);
  Summary& summary = comparison.summary = summarise(differences);
  if (summary.n == 0) summary.mean = NAN;
  if (summary.n < 2) summary.sd = NAN;
  const RunDivergence divergence = divergence_of(comparison, mean_at);
  comparison.diverged = divergence.mine;
  comparison.rival_diverged = divergence.theirs;
  comparison.interval.reset(), comparison.detectable = INFINITY;
  const Summary low = summarise(means_of(comparison, low_at), 1 - level);
  const Summary high = summarise(means_of(comparison, high_at), 1 - level);
  if (known && low.interval && high.interval) {
    comparison.interval = {low.interval->low, high.interval->high};
    comparison.detectable = detectable_effect(*comparison.interval, summary.mean, low.error(), high.error(), summary.n);
  }
  comparison.verdict = Verdict::undecided;
  if (diverges_more_often(divergence.seeds, divergence.rival_seeds, level)) {
    comparison.verdict = Verdict::worse;
  } else if (diverges_more_often(divergence.rival_seeds, divergence.seeds, level)) {
    comparison.verdict = Verdict::better;
  } else if (comparison.interval) {
    comparison.verdict = verdict_of(comparison, differences);
  }
}

}  // namespace

std::string_view word(Verdict verdict) {
  static constexpr std::string_view words[] = {"better", "worse", "equal", "undecided"};  // as the enumerators
  return words[static_cast<size_t>(verdict)];
}

void judge(std::vector<Comparison>& family, double alpha) {
  size_t pairs = 0;
  for (const Comparison& comparison : family)
    if (means_of(comparison, std::vector<RungPair>(comparison.settings.size())).size() >= 3)
      pairs += pairs_of(comparison);
  const double level = alpha / static_cast<double>(std::max<size_t>(1, pairs));
  for (Comparison& comparison : family) judge_one(comparison, level);
}

}  // namespace fp4::sweeps
