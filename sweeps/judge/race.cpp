// See race.h. Levels are walked from cheap to expensive; `steps` are the leaders found so far.
#include "sweeps/judge/race.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "src/error.h"

namespace fp4::sweeps {

std::string_view word(RaceWord word) {
  switch (word) {
    case RaceWord::on: return "on";
    case RaceWord::tied: return "tied";
    case RaceWord::off: return "off";
    case RaceWord::undecided: return "undecided";
  }
  return "";
}

size_t race_pairs(size_t racers) { return racers < 2 ? 1 : racers * (racers - 1) / 2; }

double race_level(const RaceRules& rules, size_t racers, size_t seeds) {
  const size_t all = std::accumulate(rules.rounds.begin(), rules.rounds.end(), size_t{0});
  return rules.alpha * static_cast<double>(seeds) / static_cast<double>(all * race_pairs(racers));
}

namespace {

class RaceJudge {
 public:
  RaceJudge(std::span<const Racer> racers, const RaceRules& rules) : racers_(racers), rules_(rules) {
    if (rules.rounds.empty() || rules.rounds.front() < 3 ||
        std::adjacent_find(rules.rounds.begin(), rules.rounds.end(), std::greater_equal<>()) != rules.rounds.end()) {
      throw Error("race: rounds: expected rising numbers of seeds from 3");
    }
    if (!(rules.delta >= 0)) throw Error("race: delta: expected a number from 0");
    state_.verdicts.resize(racers.size());
  }

  RaceState judge() {
    for (const std::vector<size_t>& level : levels()) walk(level);
    for (size_t i = 0; i < racers_.size(); ++i) {
      if (state_.verdicts[i].word == RaceWord::undecided) ask_for_seeds(i);
    }
    return std::move(state_);
  }

  // What all looks at a pair have in common; a look ends a round, so a pair is looked at as often as alpha is split.
  PairedDifference compare(size_t a, size_t b) const {
    const std::vector<double>& mine = racers_[a].loss;
    const std::vector<double>& theirs = racers_[b].loss;
    std::vector<double> differences;
    for (size_t i = 0; i < std::min(mine.size(), theirs.size()); ++i) {
      if (std::isnan(mine[i]) || std::isnan(theirs[i])) break;
      differences.push_back(mine[i] - theirs[i]);
    }
    PairedDifference result;
    for (const size_t round : rules_.rounds) {
      if (round > differences.size()) break;
      const double confidence = 1 - race_level(rules_, racers_.size(), round);
      const Summary look = summarise(std::span(differences).first(round), confidence);
      result = {look.n, look.mean, look.sd, common(result.interval, *look.interval)};
    }
    return result;
  }

 private:
  std::vector<std::vector<size_t>> levels() {
    std::vector<size_t> order(racers_.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return racers_[a].cost < racers_[b].cost; });
    std::vector<std::vector<size_t>> levels;
    double first = 0;
    for (const size_t i : order) {
      if (levels.empty() || racers_[i].cost - first >= rules_.level_width) {
        levels.emplace_back();
        first = racers_[i].cost;
      }
      levels.back().push_back(i);
      state_.verdicts[i].level = levels.size() - 1;
    }
    return levels;
  }

  // Intervals without common points happen when one of them misses the truth: then the one of more seeds is kept.
  static Interval common(const std::optional<Interval>& before, const Interval& look) {
    if (!before) return look;
    const Interval both = {std::max(before->low, look.low), std::min(before->high, look.high)};
    return both.low <= both.high ? both : look;
  }

  bool is_tie(const PairedDifference& d) const {
    return d.interval && d.interval->low >= -rules_.delta && d.interval->high <= rules_.delta;
  }
  static bool is_worse(const PairedDifference& d) { return d.interval && d.interval->low > 0; }
  static bool is_better(const PairedDifference& d) { return d.interval && d.interval->high < 0; }

  // Settles a candidate that is tied with one of the rivals or worse than one. Among ties the nearest is named, among
  // better rivals the one that leaves least doubt, else the rival that is hardest to tell from the candidate.
  bool settle(size_t racer, const std::vector<size_t>& rivals) {
    RaceVerdict& verdict = state_.verdicts[racer];
    const auto doubt = [](const PairedDifference& d) {  // how far the interval is from excluding 0 below
      return d.interval ? -d.interval->low : INFINITY;
    };
    const auto name = [&](size_t rival, const PairedDifference& d) {
      verdict.rival = rival;
      verdict.difference = d;
    };
    for (const size_t rival : rivals) {
      const PairedDifference d = compare(racer, rival);
      const bool tie = is_tie(d);
      const bool worse = !tie && is_worse(d);
      if (verdict.word == RaceWord::tied && !(tie && std::fabs(d.mean) < std::fabs(verdict.difference.mean))) continue;
      if (verdict.word == RaceWord::off && !tie && !(worse && doubt(d) < doubt(verdict.difference))) continue;
      if (tie) {
        verdict.word = RaceWord::tied;
      } else if (worse) {
        verdict.word = RaceWord::off;
      } else if (verdict.rival != no_rival && std::fabs(d.mean) >= std::fabs(verdict.difference.mean)) {
        continue;
      }
      name(rival, d);
    }
    return verdict.word != RaceWord::undecided;
  }

  bool has_run(size_t racer) const {
    const std::vector<double>& loss = racers_[racer].loss;
    return loss.size() >= rules_.rounds.front() &&
           std::none_of(loss.begin(), loss.begin() + static_cast<ptrdiff_t>(rules_.rounds.front()),
                        [](double value) { return std::isnan(value); });
  }

  void walk(const std::vector<size_t>& level) {
    const std::vector<size_t> cheaper = state_.steps;
    std::vector<size_t> open, contenders;
    for (const size_t i : level) {
      if (racers_[i].diverged) {
        state_.verdicts[i].word = RaceWord::off;
        continue;
      }
      if (settle(i, cheaper)) continue;
      open.push_back(i);
      const bool beats_all =
          std::all_of(cheaper.begin(), cheaper.end(), [&](size_t step) { return is_better(compare(i, step)); });
      if (beats_all && has_run(i)) contenders.push_back(i);
    }
    if (contenders.empty()) return;
    size_t leader = contenders.front();
    for (const size_t i : contenders) {
      if (compare(i, leader).mean < 0) leader = i;
    }
    state_.verdicts[leader].word = RaceWord::on;
    state_.steps.push_back(leader);
    for (const size_t i : open) {
      if (i == leader) continue;
      settle(i, {leader});
    }
  }

  // An undecided candidate and the steps that it cannot be told from, up to its own level.
  void ask_for_seeds(size_t racer) {
    RaceVerdict& verdict = state_.verdicts[racer];
    verdict.draws = true;
    for (const size_t step : state_.steps) {
      if (state_.verdicts[step].level > verdict.level) continue;
      const PairedDifference d = compare(racer, step);
      if (!is_better(d) || state_.verdicts[step].level == verdict.level) state_.verdicts[step].draws = true;
    }
  }

  std::span<const Racer> racers_;
  const RaceRules& rules_;
  RaceState state_;
};

}  // namespace

RaceState judge_race(std::span<const Racer> racers, const RaceRules& rules) { return RaceJudge(racers, rules).judge(); }

PairedDifference race_difference(std::span<const Racer> racers, const RaceRules& rules, size_t a, size_t b) {
  return RaceJudge(racers, rules).compare(a, b);
}

}  // namespace fp4::sweeps
