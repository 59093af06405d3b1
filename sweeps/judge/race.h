// A race decides which configurations belong on a front of cost against loss, with as few seeds as that takes.
//
// Candidates run on fresh seeds in rounds (10, 20, 40, ... seeds in all). After each round every candidate that still
// matters is compared with the steps of the front found so far and with the leader of its own cost level, always by the
// differences of losses on the same seeds. A candidate whose interval decides draws no more seeds.
//
// The intervals hold together: with K candidates and R rounds each is a paired t interval of level
// alpha / (R * K*(K-1)/2), by Bonferroni over all pairs and all looks. A leader is chosen by the same numbers that it
// is compared by, so its comparisons must be protected as all pairs are; the width grows slowly with K (at 160 seeds,
// alpha = .05, R = 6: 4.75 standard errors for K = 60, 4.2 for K = 20). Every word below then holds for all candidates
// and rounds at once with probability 1 - alpha, whenever one looks. Intervals of earlier looks stay valid: the
// interval of a pair is what all its looks have in common. Sources: Hsu 1984 (comparisons with the best), Nelson and
// Matejcik 1995 (common random numbers), Schuirmann 1987 (equality inside +-delta).
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "sweeps/judge/statistics.h"

namespace fp4::sweeps {

// A candidate of a race.
struct Racer {
  double cost = 0;           // overhead, a share of time
  std::vector<double> loss;  // by number of the race's seed; NaN: not run
  bool diverged = false;     // some run of the race diverged: no candidate for a step
};

struct RaceRules {
  double delta = 0;            // the smallest difference of losses that matters
  double alpha = 0.05;         // chance that any word of the race is wrong
  double level_width = 0.005;  // costs that differ by less are one level: only the loss counts within it
  std::vector<size_t> rounds = {10, 20, 40, 80, 160, 320};  // seeds in all after each round, rising
};

// on: a step of the front: better than every cheaper step by the interval, not tied with one, leader of its level.
// tied: the difference to a step lies inside +-delta: costs as much or more and brings nothing that matters.
// off: worse than a step that costs no more. undecided: none of these (yet).
enum class RaceWord { on, tied, off, undecided };
std::string_view word(RaceWord word);

// Loss of a candidate minus that of another on the seeds that both have run.
struct PairedDifference {
  size_t n = 0;
  double mean = 0;
  double sd = 0;
  std::optional<Interval> interval;  // simultaneous; none before the first round is complete
};

inline constexpr size_t no_rival = static_cast<size_t>(-1);

struct RaceVerdict {
  RaceWord word = RaceWord::undecided;
  size_t level = 0;         // 0 is the cheapest
  size_t rival = no_rival;  // the step that decided, or the nearest undecided one; for `on` the nearest cheaper step
  PairedDifference difference;  // to the rival
  bool draws = false;           // needs the seeds of the next round
};

struct RaceState {
  std::vector<RaceVerdict> verdicts;  // in the order of the racers
  std::vector<size_t> steps;          // racers that are `on`, from cheap to expensive
};

// Throws Error when the rules make no sense (rounds that do not rise, delta below 0).
RaceState judge_race(std::span<const Racer> racers, const RaceRules& rules);

// The error that one look at one pair may make after so many seeds, so that all of the race stay below alpha.
double race_level(const RaceRules& rules, size_t racers, size_t seeds);

// The difference of two racers with its simultaneous interval.
PairedDifference race_difference(std::span<const Racer> racers, const RaceRules& rules, size_t a, size_t b);

// How many pairs a race of so many candidates protects.
size_t race_pairs(size_t racers);

}  // namespace fp4::sweeps
