// A race decides which configurations belong on a front of cost against loss, with as few seeds as that takes.
//
// Candidates run on fresh seeds in rounds (10, 20, 40, ... seeds in all). After each round every candidate that still
// matters is compared with the steps of the front found so far and with the leader of its own cost level, always by the
// differences of losses on the same seeds, each candidate at the best of the rungs that tuning left it (rungs.h). A
// candidate whose interval decides draws no more seeds.
//
// The intervals hold together, by Bonferroni over all pairs of rungs and all looks, because a leader is chosen by the
// same numbers that it is compared by. The look after s seeds gets the share s / (10 + 20 + 40 + ..) of alpha, so late
// looks, whose intervals decide ties, are not the widest: with K = 60 candidates of one rung, R = 6 rounds and alpha =
// .05, 4.64 standard errors after 160 seeds and 4.47 after 320 (an equal split: 4.75 and 4.68); 4.10 and 3.92 for K =
// 20. The word of a pair is read off the last look that both have. Sources: Hsu 1984 (comparisons with the best),
// Nelson and Matejcik 1995 (common random numbers), Schuirmann 1987 (equality inside +-delta).
//
// Rare failures. A loss that is .2 higher in 3 % of the seeds does not show in ten seeds, and would make ties and steps
// of what is worse, and `off` of what is better than a step that fails. `tied` is therefore said from `least` seeds on
// (of 100, 95 % show a failure that comes in 3 %), `on` from `least_alone` (of 300, those that come in 1 %), by an
// interval widened by (3 / n) times the largest failure that any candidate showed: so often may a candidate fail
// without having done so in n seeds. `off` is said of an interval of any number of seeds, but when the rival, alone,
// has `least_alone`: minus what it lost there above its worst seed of the pair (beside another candidate that ran these
// seeds, where one did), at the upper end of that mean's interval. Until then the rival draws and the candidate waits.
//
// Divergence counts one way everywhere: as a rate beside the loss of the runs that finished. A candidate is `off` when
// an exact test says that it diverges more often than a step; one of 640 does not say so. `tied` and `on`, the cheapest
// step's among them, need that at most 1 % of the seeds diverged alone; what is shown to diverge more leads nobody.
//
// A seed that a candidate lacks counts for no pair that it is in; the others do.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "sweeps/judge/rungs.h"

namespace fp4::sweeps {

// A candidate of a race.
struct Racer {
  double cost = 0;  // overhead, a share of time
  RungLosses loss;  // by rung and number of the race's seed
};

struct RaceRules {
  double delta = 0;     // the smallest difference of losses that matters
  double alpha = 0.05;  // chance that any word of the race is wrong
  // Costs are one level where the model cannot tell them apart: closer than half a point, or, as its rates are known to
  // within a factor, closer than that factor each way (2.0 and 3.3 % at 1.5). Only the loss counts within a level.
  double level_width = 0.005;
  double cost_doubt = 1;
  std::vector<size_t> rounds = {10, 20, 40, 80, 160, 320};  // seeds in all after each round, rising
  size_t least = 100;                                       // seeds of a pair that may be tied
  size_t least_alone = 300;                                 // of a step, and of whom others are worse than
};

// on: a step of the front: better than every cheaper step by the interval, not tied with one, leader of its level.
// tied: the difference to a step lies inside +-delta: costs as much or more and brings nothing that matters.
// off: worse than a step that costs no more, or than the best of its level. undecided: none of these (yet).
// Of points that no race has judged: screening near the front, unjudged elsewhere.
enum class FrontStatus : uint8_t { unjudged, screening, on, tied, off, undecided };
std::string_view word(FrontStatus status);  // "" for unjudged

inline constexpr size_t no_rival = static_cast<size_t>(-1);

struct RaceVerdict {
  FrontStatus word = FrontStatus::undecided;
  size_t level = 0;         // 0 is the cheapest
  size_t rival = no_rival;  // the step that decided, or the nearest undecided one; for `on` the nearest cheaper step
  PairedDifference difference;  // to the rival
  bool draws = false;           // needs the seeds of the next round
  std::vector<bool> rungs;      // which of its rungs may be its best: these draw
};

struct RaceState {
  std::vector<RaceVerdict> verdicts;  // in the order of the racers
  std::vector<size_t> steps;          // leaders from cheap to expensive, among them some that are not `on` yet
};

// Throws Error when the rules make no sense (rounds that do not rise, delta below 0).
RaceState judge_race(std::span<const Racer> racers, const RaceRules& rules);

// The error that one look at one pair of rungs may make after so many seeds, so that all of the race stay below alpha.
double race_level(const RaceRules& rules, size_t pairs, size_t seeds);

// The difference of two racers with its simultaneous interval.
PairedDifference race_difference(std::span<const Racer> racers, const RaceRules& rules, size_t a, size_t b);

// How many pairs of rungs a race protects.
size_t race_pairs(std::span<const Racer> racers);

// The largest failure that any racer showed: its loss above its own median, once what all racers lose on that seed
// (their median) is taken away.
double largest_failure(std::span<const Racer> racers);

}  // namespace fp4::sweeps
