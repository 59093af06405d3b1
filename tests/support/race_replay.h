// Replays of races whose truth is known: how often a race says a wrong word, how much it decides, how many runs it
// takes.
#pragma once

#include <cmath>
#include <cstddef>
#include <functional>
#include <vector>

#include "sweeps/judge/race.h"

namespace fp4::test {

struct Truth {
  double cost = 0;
  double mean = 0;
};

// What one race said, against the truth.
struct Replay {
  size_t wrong = 0;    // words on, tied and off that the truth contradicts
  size_t decided = 0;  // candidates
  size_t runs = 0;
};

// One race; `loss` gives that of a candidate on a seed (from 0) and is asked once for each.
inline Replay replay_race(const std::vector<Truth>& truth, const sweeps::RaceRules& rules,
                          const std::function<double(size_t, size_t)>& loss) {
  std::vector<sweeps::Racer> racers;
  for (const Truth& t : truth) racers.push_back({.cost = t.cost, .loss = {{}}});
  std::vector<bool> draws(truth.size(), true);
  sweeps::RaceState state;
  Replay replay;
  for (const size_t round : rules.rounds) {
    for (size_t i = 0; i < truth.size(); ++i) {
      for (size_t seed = racers[i].loss[0].size(); draws[i] && seed < round; ++seed) {
        racers[i].loss[0].push_back(loss(i, seed));
        ++replay.runs;
      }
    }
    state = sweeps::judge_race(racers, rules);
    bool any = false;
    for (size_t i = 0; i < truth.size(); ++i) any |= draws[i] = state.verdicts[i].draws;
    if (!any) break;
  }
  for (size_t i = 0; i < truth.size(); ++i) {
    const sweeps::RaceVerdict& verdict = state.verdicts[i];
    const double difference = verdict.rival == sweeps::no_rival ? 0 : truth[i].mean - truth[verdict.rival].mean;
    replay.wrong += verdict.word == sweeps::FrontStatus::off && !(difference > 0);
    replay.wrong += verdict.word == sweeps::FrontStatus::tied && std::fabs(difference) > rules.delta;
    replay.decided += verdict.word != sweeps::FrontStatus::undecided;
  }
  for (size_t k = 1; k < state.steps.size(); ++k) {
    if (state.verdicts[state.steps[k]].word != sweeps::FrontStatus::on) continue;
    for (size_t j = 0; j < k; ++j) replay.wrong += truth[state.steps[k]].mean >= truth[state.steps[j]].mean;
  }
  return replay;
}

// Of many replays.
struct ReplayTally {
  size_t races = 0;
  size_t wrong = 0;    // races with at least one wrong word
  double decided = 0;  // share of the candidates
  double runs = 0;     // share of all candidates on all seeds

  void add(const Replay& replay, size_t candidates, size_t seeds) {
    ++races;
    wrong += replay.wrong > 0;
    const auto mean = [&](double before, double value) {
      return before + (value - before) / static_cast<double>(races);
    };
    decided = mean(decided, static_cast<double>(replay.decided) / static_cast<double>(candidates));
    runs = mean(runs, static_cast<double>(replay.runs) / static_cast<double>(candidates * seeds));
  }
};

}  // namespace fp4::test
