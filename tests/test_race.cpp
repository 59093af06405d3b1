// Races: words by hand on losses whose differences are known, and replays of races whose truth is known: words that are
// wrong in at most 5 % of them, on equal candidates as on unequal ones, with normal and with heavy-tailed losses.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <random>

#include "src/error.h"
#include "sweeps/judge/race.h"
#include "tests/support/race_replay.h"
#include "tests/support/share.h"

using namespace fp4::sweeps;
using namespace fp4::test;

namespace {

// `n` losses around `mean` whose differences to another racer of the same `shape` are exactly the means' difference,
// plus `wiggle` on every second seed.
Racer steady(double cost, double mean, size_t n, double wiggle = 0) {
  Racer racer{.cost = cost, .loss = {}};
  for (size_t i = 0; i < n; ++i) racer.loss.push_back(mean + std::sin(static_cast<double>(i)) + (i % 2 ? wiggle : 0));
  return racer;
}

const RaceRules rules_of_ten = {.delta = 0.01, .rounds = {10, 20}};

}  // namespace

TEST_CASE("a race's words by hand", "[quick]") {
  // Exact differences: every interval has width 0.
  const std::vector<Racer> racers = {
      steady(0.020, 0.50, 10),   // cheapest level, its best: on
      steady(0.022, 0.505, 10),  // same level (0.2 points dearer), .005 worse: tied
      steady(0.024, 0.60, 10),   // same level, .1 worse: off
      steady(0.050, 0.495, 10),  // dearer, better by less than delta: tied with the first
      steady(0.100, 0.40, 10),   // dearer and better: on
      steady(0.200, 0.45, 10),   // beats the first step, not the second: off
      steady(0.300, 0.30, 10),   // diverged
  };
  std::vector<Racer> with_divergence = racers;
  with_divergence[6].diverged = true;
  const RaceState state = judge_race(with_divergence, rules_of_ten);
  const std::vector<RaceWord> expected = {RaceWord::on, RaceWord::tied, RaceWord::off, RaceWord::tied,
                                          RaceWord::on, RaceWord::off,  RaceWord::off};
  for (size_t i = 0; i < racers.size(); ++i) {
    INFO(i);
    CHECK(state.verdicts[i].word == expected[i]);
    CHECK_FALSE(state.verdicts[i].draws);
  }
  CHECK(state.steps == std::vector<size_t>{0, 4});
  CHECK(state.verdicts[1].rival == 0);
  CHECK(state.verdicts[3].rival == 0);
  CHECK(state.verdicts[5].rival == 4);
  CHECK(state.verdicts[5].difference.mean == Approx(0.05));
  CHECK(state.verdicts[6].rival == no_rival);
  CHECK(state.verdicts[2].level == 0);
  CHECK(state.verdicts[3].level == 1);
}

TEST_CASE("nothing is decided before the first round is complete", "[quick]") {
  std::vector<Racer> racers = {steady(0.02, 0.5, 9), steady(0.05, 0.1, 9)};
  RaceState state = judge_race(racers, rules_of_ten);
  for (const RaceVerdict& verdict : state.verdicts) {
    CHECK(verdict.word == RaceWord::undecided);
    CHECK(verdict.draws);
    CHECK_FALSE(verdict.difference.interval);
  }
  CHECK(state.steps.empty());
  racers[0] = steady(0.02, 0.5, 10);
  state = judge_race(racers, rules_of_ten);
  CHECK(state.verdicts[0].word == RaceWord::on);
  CHECK(state.verdicts[0].draws);  // its rival has not run
  CHECK(state.verdicts[1].word == RaceWord::undecided);
}

TEST_CASE("an interval is that of all pairs and all rounds", "[quick]") {
  // Two racers, one pair, rounds of 10 and 20 seeds: the first look has 10/30 of .05, t(1 - .05/6, 9) = 2.933324;
  // differences +-.5 around .2, SD .527046.
  const std::vector<Racer> racers = {steady(0.02, 0.5, 10), steady(0.05, 0.2, 10, 1.0)};
  const RaceVerdict verdict = judge_race(racers, rules_of_ten).verdicts[1];
  CHECK(verdict.difference.n == 10);
  CHECK(verdict.difference.mean == Approx(0.2));
  const double half = 2.9333241 * 0.5270463 / std::sqrt(10.0);
  CHECK(verdict.difference.interval->low == Approx(0.2 - half).epsilon(1e-6));
  CHECK(verdict.difference.interval->high == Approx(0.2 + half).epsilon(1e-6));
  CHECK(verdict.word == RaceWord::undecided);
  CHECK(race_pairs(60) == 1770);
  CHECK(race_pairs(1) == 1);
}

TEST_CASE("rules that make no sense are errors", "[quick]") {
  const std::vector<Racer> racers = {steady(0.02, 0.5, 10)};
  CHECK_THROWS_AS(judge_race(racers, {.delta = 0.1, .rounds = {}}), fp4::Error);
  CHECK_THROWS_AS(judge_race(racers, {.delta = 0.1, .rounds = {10, 10}}), fp4::Error);
  CHECK_THROWS_AS(judge_race(racers, {.delta = 0.1, .rounds = {2, 10}}), fp4::Error);
  CHECK_THROWS_AS(judge_race(racers, {.delta = -1, .rounds = {10}}), fp4::Error);
  CHECK(judge_race({}, rules_of_ten).verdicts.empty());
}

namespace {

template <class Noise>
ReplayTally replay_many(size_t races, const std::vector<Truth>& truth, const RaceRules& rules, double sd,
                        Noise&& noise) {
  ReplayTally tally;
  for (size_t i = 0; i < races; ++i) {
    std::mt19937_64 random(i);
    std::vector<double> shared;  // the part that runs of one seed have in common
    const auto loss = [&](size_t racer, size_t seed) {
      while (shared.size() <= seed) shared.push_back(noise(random));
      return truth[racer].mean + shared[seed] + sd * noise(random);
    };
    tally.add(replay_race(truth, rules, loss), truth.size(), rules.rounds.back());
  }
  UNSCOPED_INFO("wrong " << tally.wrong << " of " << races << ", decided " << tally.decided << ", runs " << tally.runs);
  CHECK(tally.wrong <= races / 20);
  return tally;
}

double normal(std::mt19937_64& random) { return std::normal_distribution<double>()(random); }
// Student's t with 4 degrees of freedom, of variance 1: one loss in 400 lies beyond four standard deviations.
double heavy(std::mt19937_64& random) { return std::student_t_distribution<double>(4)(random) / std::sqrt(2.0); }

// Candidates of equal loss under many labels, at costs from 2 to 20 %.
std::vector<Truth> equal_candidates(size_t count) {
  std::vector<Truth> truth;
  for (size_t i = 0; i < count; ++i) truth.push_back({.cost = 0.02 + 0.003 * static_cast<double>(i), .mean = 1});
  return truth;
}

// Steps at 2, 5 and 20 % with members tied by .1 to .3 delta and worse ones from 3 to 40 delta.
std::vector<Truth> planted_front(double delta) {
  std::vector<Truth> truth;
  for (const Truth& step : {Truth{0.02, 1.0}, Truth{0.05, 0.985}, Truth{0.20, 0.96}}) {
    truth.push_back(step);
    for (const double away : {0.1, 0.2, 0.3, 3.0, 4.0, 6.0, 10.0, 20.0, 40.0}) {
      truth.push_back({.cost = step.cost + 0.0001 * away, .mean = step.mean + away * delta});
    }
  }
  return truth;
}

}  // namespace

// Of each kind; an instrumented program replays some.
const size_t replays = std::max<size_t>(40, 200 / fp4::test::share());

TEST_CASE("a race of equal candidates calls none on or off in 95 % of replays", "[quick]") {
  const RaceRules rules = {.delta = 0.002};
  for (const double sd : {0.004, 0.02}) {
    replay_many(replays, equal_candidates(60), rules, sd, normal);
    replay_many(replays, equal_candidates(60), rules, sd, heavy);
  }
}

TEST_CASE("a race finds a planted front and uses fewer runs than all seeds for all", "[quick]") {
  const double delta = 0.002;
  for (const bool tails : {false, true}) {
    const ReplayTally tally = tails ? replay_many(replays, planted_front(delta), {.delta = delta}, 0.003, heavy)
                                    : replay_many(replays, planted_front(delta), {.delta = delta}, 0.003, normal);
    CHECK(tally.decided >= 0.95);
    CHECK(tally.runs <= 0.6);
  }
}
