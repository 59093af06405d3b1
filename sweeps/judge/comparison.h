// Comparisons of a study, judged together: the differences of two recipes on the same seeds, averaged over the settings
// that both were run in, each recipe at its best rung (rungs.h).
#pragma once

#include <string_view>
#include <vector>

#include "sweeps/judge/rungs.h"

namespace fp4::sweeps {

// better, worse: the interval excludes 0, or an exact test says that one side diverges more often. equal: the interval
// lies inside +-delta, or every pair has the same loss. undecided: none of these. An interval of fewer seeds than the
// steps of a race need (300) says `better` or `worse` where it ends beyond 4 delta, one of fewer than a tie's (100)
// never `equal`; else it is widened by what a rare failure may hide (race.h).
enum class Verdict { better, worse, equal, undecided };
std::string_view word(Verdict verdict);

// Losses of both sides by rung and seed, in one order of the seeds.
struct Setting {
  RungLosses mine, theirs;
};

struct Comparison {
  std::vector<Setting> settings;  // with the same seeds
  double delta = 0;               // the smallest difference that matters
  // Filled by judge(); negative means that `mine` is better.
  Summary summary;  // of the means over settings, by seed, its interval its own; NaN where no seed says it
  std::optional<Interval> interval;  // simultaneous: those of the whole family hold together
  double detectable = 0;             // smallest true difference found with 80 % power; infinite below three seeds
  size_t diverged = 0, rival_diverged = 0;  // runs, over all settings, at the rungs of the mean
  Verdict verdict = Verdict::undecided;
};

// Judges a family of comparisons together: each pair of rungs gets the paired t interval of level 1 - alpha / m, m the
// number of pairs of rungs of all comparisons with three seeds or more, so that with probability 1 - alpha all
// intervals hold (Bonferroni: whatever the comparisons share). Settings share seeds and are no replicates, so an
// interval is that of their mean over the seeds that all of them have. Fewer than three seeds are undecided. Holm's
// steps would decide a little more, but the intervals that fit them do not hold together.
void judge(std::vector<Comparison>& family, double alpha = 0.05);

// The same for what has a comparison among its members.
template <class Effect>
void judge_all(std::vector<Effect>& effects) {
  std::vector<Comparison> family;
  for (Effect& effect : effects) family.push_back(std::move(effect.comparison));
  judge(family);
  for (size_t i = 0; i < effects.size(); ++i) effects[i].comparison = std::move(family[i]);
}

}  // namespace fp4::sweeps
