// See race.h. Levels are walked from cheap to expensive; `steps` are the leaders found so far.
#include "sweeps/judge/race.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "src/text/error.h"

namespace fp4::sweeps {

std::string_view word(FrontStatus status) {
  static constexpr std::string_view words[] = {"",     "screening", "on",
                                               "tied", "off",       "undecided"};  // as the enumerators
  return words[static_cast<size_t>(status)];
}

size_t race_pairs(std::span<const Racer> racers) {
  size_t rungs = 0;
  for (const Racer& racer : racers) rungs += racer.loss.size();
  return rungs < 2 ? 1 : rungs * (rungs - 1) / 2;
}

double race_level(const RaceRules& rules, size_t pairs, size_t seeds) {
  const size_t all = std::accumulate(rules.rounds.begin(), rules.rounds.end(), size_t{0});
  return rules.alpha * static_cast<double>(seeds) / static_cast<double>(all * pairs);
}

double largest_failure(std::span<const Racer> racers) {
  std::vector<const std::vector<double>*> rungs;
  size_t seeds = 0;
  for (const Racer& racer : racers)
    for (const std::vector<double>& rung : racer.loss) rungs.push_back(&rung), seeds = std::max(seeds, rung.size());
  std::vector<std::vector<double>> own(rungs.size());  // by rung, above the median of its seed
  for (size_t s = 0; s < seeds; ++s) {
    std::vector<double> values;
    for (const std::vector<double>* rung : rungs)
      if (s < rung->size() && std::isfinite((*rung)[s])) values.push_back((*rung)[s]);
    const double middle = quantile(values, 0.5);
    for (size_t i = 0; i < rungs.size(); ++i)
      if (s < rungs[i]->size() && std::isfinite((*rungs[i])[s])) own[i].push_back((*rungs[i])[s] - middle);
  }
  double largest = 0;
  for (const std::vector<double>& values : own)
    if (!values.empty())
      largest = std::max(largest, *std::max_element(values.begin(), values.end()) - quantile(values, 0.5));
  return largest;
}

namespace {

constexpr double most_diverged = 0.01;  // share of the seeds on which a tied candidate or a step may diverge alone

class RaceJudge {
 public:
  RaceJudge(std::span<const Racer> racers, const RaceRules& rules)
      : racers_(racers), rules_(rules), pairs_(race_pairs(racers)) {
    if (rules.rounds.empty() || rules.rounds.front() < 3 ||
        std::adjacent_find(rules.rounds.begin(), rules.rounds.end(), std::greater_equal<>()) != rules.rounds.end()) {
      throw Error("race: rounds: expected rising numbers of seeds from 3");
    }
    if (!(rules.delta >= 0)) throw Error("race: delta: expected a number from 0");
    state_.verdicts.resize(racers.size());
  }

  RaceState judge() {
    failure_ = largest_failure(racers_);
    for (const std::vector<size_t>& level : levels()) walk(level);
    for (size_t i = 0; i < racers_.size(); ++i) {
      RaceVerdict& verdict = state_.verdicts[i];
      verdict.rungs = in_play(i);
      if (verdict.word != FrontStatus::undecided && is_sure(i)) continue;
      // Whoever is worse than a rival without a record waits for the rival's seeds, where its rung gets any.
      const size_t rung = verdict.difference.low_at.theirs;
      const bool waits =
          verdict.word == FrontStatus::off && !has_record(verdict.rival, rung) && in_play(verdict.rival)[rung];
      verdict.word = FrontStatus::undecided;
      if (waits)
        state_.verdicts[verdict.rival].draws = true;
      else if (!is_shown_to_diverge(i))
        ask_for_seeds(i);
    }
    return std::move(state_);
  }

  // Of the last look that both have had.
  const PairedDifference& compare(size_t a, size_t b) const {
    const auto [known, fresh] = known_.try_emplace({a, b});
    if (const size_t seeds = fresh ? last_look(a, b) : 0; seeds > 0)
      known->second = difference_at_best(racers_[a].loss, racers_[b].loss, seeds, race_level(rules_, pairs_, seeds));
    return known->second;
  }

 private:
  // Up to the last seed that was run: what lacks some, up to a tenth at the end, is compared on those that it has.
  static size_t seeds_of(const std::vector<double>& losses) {
    size_t seeds = losses.size();
    while (seeds > 0 && std::isnan(losses[seeds - 1])) --seeds;
    return seeds;
  }
  static size_t seeds_of(const RungLosses& losses) {
    size_t most = 0;
    for (const std::vector<double>& rung : losses) most = std::max(most, seeds_of(rung));
    return most;
  }

  size_t last_look(size_t a, size_t b) const {
    const size_t seeds = std::min(seeds_of(racers_[a].loss), seeds_of(racers_[b].loss));
    size_t look = 0;
    for (const size_t round : rules_.rounds)
      if (round - round / 10 <= seeds) look = round;
    return look;
  }

  // Which rungs of a racer may be its best.
  std::vector<bool> in_play(size_t racer) const {
    const size_t seeds = last_look(racer, racer);
    if (seeds == 0) return std::vector<bool>(racers_[racer].loss.size(), true);
    return rungs_in_play(racers_[racer].loss, seeds, race_level(rules_, pairs_, seeds));
  }

  std::vector<std::vector<size_t>> levels() {
    std::vector<size_t> order(racers_.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return racers_[a].cost < racers_[b].cost; });
    std::vector<std::vector<size_t>> levels;
    double first = 0;
    for (const size_t i : order) {
      const double end = std::max(first + rules_.level_width, first * rules_.cost_doubt * rules_.cost_doubt);
      if (levels.empty() || racers_[i].cost >= end) {
        levels.emplace_back();
        first = racers_[i].cost;
      }
      levels.back().push_back(i);
      state_.verdicts[i].level = levels.size() - 1;
    }
    return levels;
  }

  bool is_tie(const PairedDifference& d) const {
    return d.interval && d.interval->low >= -rules_.delta && d.interval->high <= rules_.delta && !d.diverges_more;
  }
  static bool is_better(const PairedDifference& d) { return !d.diverges_more && d.interval && d.interval->high < 0; }

  // How much a failure that n seeds have not shown may add to a mean loss.
  double unseen(size_t n) const { return 3.0 / static_cast<double>(n) * failure_; }

  bool is_steady(const PairedDifference& d, size_t diverged) const {
    return d.n >= rules_.least && static_cast<double>(diverged) <= most_diverged * static_cast<double>(d.n);
  }

  // Whether a dearer candidate is better than a step though it may fail rarely.
  bool beats(const PairedDifference& d) const {
    return is_better(d) && d.n >= rules_.least_alone && is_steady(d, d.diverged) && d.interval->high + unseen(d.n) < 0;
  }

  // Seeds on which a racer diverged though somebody finished, of those run, at the rung of least share and most seeds.
  std::pair<size_t, size_t> divergence_of(size_t racer) const {
    std::pair<size_t, size_t> least{0, 0};
    for (const std::vector<double>& losses : racers_[racer].loss) {
      const size_t n = seeds_of(losses);
      size_t alone = 0;
      for (size_t s = 0; s < n; ++s)
        alone += std::isinf(losses[s]) && std::any_of(racers_.begin(), racers_.end(), [&](const Racer& other) {
                   return s < other.loss[0].size() && std::isfinite(other.loss[0][s]);
                 });
      const size_t own = alone * least.second, other = least.first * n;  // shares, times the seeds of both
      if (own < other || (own == other && n > least.second)) least = {alone, n};
    }
    return least;
  }

  bool is_shown_to_diverge(size_t racer) const {
    const auto [alone, n] = divergence_of(racer);
    return n > 0 && clopper_pearson(alone, n, race_level(rules_, pairs_, rules_.rounds.front())).low > most_diverged;
  }

  // Whether a rung has the seeds in which a failure of one in a hundred shows.
  bool has_record(size_t racer, size_t rung) const { return seeds_of(racers_[racer].loss[rung]) >= rules_.least_alone; }

  // The rung of another racer that ran most seeds with this one; none where it ran too many alone. Its losses take the
  // seeds' own part away.
  const std::vector<double>* witness_of(size_t racer, const std::vector<double>& losses) const {
    const std::vector<double>* witness = nullptr;
    size_t most = rules_.least_alone - 1;
    for (size_t i = 0; i < racers_.size(); ++i)
      for (const std::vector<double>& other : racers_[i].loss) {
        size_t common = 0;
        for (size_t s = 0; s < std::min(losses.size(), other.size()); ++s)
          common += std::isfinite(losses[s]) && std::isfinite(other[s]);
        if (i != racer && common > most) most = common, witness = &other;
      }
    return witness;
  }

  // `off` is said of an interval that holds when the rival has its record: minus what the rival lost, on seeds that the
  // pair has not, above its worst seed of the pair, and minus what it may still hide.
  bool is_shown_worse(size_t racer) const {
    const auto& [word, level, rival, d, draws, rungs] = state_.verdicts[racer];
    if (d.diverges_more) return true;
    const std::vector<double>& losses = racers_[rival].loss[d.low_at.theirs];
    const std::vector<double>* witness = witness_of(rival, losses);
    const size_t pair = last_look(racer, rival),
                 all = std::min(losses.size(), witness ? witness->size() : losses.size());
    double worst = -INFINITY;
    std::vector<double> more;
    for (size_t s = 0; s < all; ++s) {
      const double loss = losses[s] - (witness ? (*witness)[s] : 0);
      if (!std::isfinite(loss)) continue;
      if (s < pair) worst = std::max(worst, loss);
      more.push_back(std::max(0.0, loss - worst));
    }
    return more.size() >= rules_.least_alone &&
           d.interval->low - summarise(more).interval->high - unseen(more.size()) > 0;
  }

  // Whether the word of a racer holds though failures are rare: ties and steps alone can hide some.
  bool is_sure(size_t racer) const {
    const RaceVerdict& verdict = state_.verdicts[racer];
    if (verdict.word == FrontStatus::tied) {
      const PairedDifference& d = verdict.difference;
      return is_steady(d, std::max(d.diverged, d.rival_diverged)) && d.interval->low - unseen(d.n) >= -rules_.delta &&
             d.interval->high + unseen(d.n) <= rules_.delta;
    }
    if (verdict.word == FrontStatus::off) return is_shown_worse(racer);
    if (verdict.word != FrontStatus::on) return true;
    for (const size_t step : state_.steps) {
      if (step == racer) break;
      if (!beats(compare(racer, step))) return false;
    }
    const auto [alone, n] = divergence_of(racer);
    return n >= rules_.least_alone && static_cast<double>(alone) <= most_diverged * static_cast<double>(n);
  }

  // Settles a candidate that is tied with one of the rivals or worse than one. Among ties the nearest is named, among
  // better rivals the one that leaves least doubt, else the rival that is hardest to tell from the candidate.
  bool settle(size_t racer, const std::vector<size_t>& rivals) {
    RaceVerdict& verdict = state_.verdicts[racer];
    const auto doubt = [](const PairedDifference& d) {  // how far the interval is from excluding 0 below
      return d.interval ? -d.interval->low : INFINITY;
    };
    for (const size_t rival : rivals) {
      const PairedDifference d = compare(racer, rival);
      const bool tie = is_tie(d), worse = !tie && d.is_worse();
      if (verdict.word == FrontStatus::tied && !(tie && std::fabs(d.mean) < std::fabs(verdict.difference.mean)))
        continue;
      if (verdict.word == FrontStatus::off && !tie && !(worse && doubt(d) < doubt(verdict.difference))) continue;
      if (tie) {
        verdict.word = FrontStatus::tied;
      } else if (worse) {
        verdict.word = FrontStatus::off;
      } else if (verdict.rival != no_rival && std::fabs(d.mean) >= std::fabs(verdict.difference.mean)) {
        continue;
      }
      verdict.rival = rival, verdict.difference = d;
    }
    return verdict.word != FrontStatus::undecided;
  }

  void walk(const std::vector<size_t>& level) {
    const std::vector<size_t> cheaper = state_.steps;
    std::vector<size_t> open, contenders;
    for (const size_t i : level) {
      if (settle(i, cheaper)) continue;
      open.push_back(i);
      const bool beats_all =
          std::all_of(cheaper.begin(), cheaper.end(), [&](size_t step) { return is_better(compare(i, step)); });
      if (beats_all && last_look(i, i) > 0 && !is_shown_to_diverge(i)) contenders.push_back(i);
    }
    if (contenders.empty()) return;
    size_t leader = contenders.front();
    for (const size_t i : contenders)
      if (leads(i, leader)) leader = i;
    const size_t best = leader;
    // Of those tied with the best one the cheapest is the step: costs of a level are alike, not equal.
    for (const size_t i : contenders)
      if (racers_[i].cost < racers_[leader].cost && is_tie(compare(i, best))) leader = i;
    state_.verdicts[leader].word = FrontStatus::on;
    state_.steps.push_back(leader);
    for (const size_t i : open) {
      if (i == leader || settle(i, {leader})) continue;
      // Worse than the best of its level is off, though the step itself be a little worse than that.
      const PairedDifference d = compare(i, best);
      if (i == best || !d.is_worse()) continue;
      state_.verdicts[i].word = FrontStatus::off;
      state_.verdicts[i].rival = best;
      state_.verdicts[i].difference = d;
    }
  }

  // Who finishes more often leads where that is shown, else who loses less; nobody leads by runs that all diverged.
  bool leads(size_t racer, size_t leader) const {
    const PairedDifference d = compare(racer, leader);
    if (d.diverges_more || d.rival_diverges_more) return d.rival_diverges_more;
    return d.n == 0 ? d.rival_diverged > d.diverged : d.mean < 0;
  }

  // An undecided candidate and the steps that it cannot be told from, up to its own level.
  void ask_for_seeds(size_t racer) {
    RaceVerdict& verdict = state_.verdicts[racer];
    verdict.draws = true;
    for (const size_t step : state_.steps) {
      if (state_.verdicts[step].level > verdict.level) continue;
      const bool same_level = state_.verdicts[step].level == verdict.level;
      if (same_level || !beats(compare(racer, step))) state_.verdicts[step].draws = true;
    }
  }

  std::span<const Racer> racers_;
  const RaceRules& rules_;
  size_t pairs_;
  double failure_ = 0;
  mutable std::map<std::pair<size_t, size_t>, PairedDifference> known_;
  RaceState state_;
};

}  // namespace

RaceState judge_race(std::span<const Racer> racers, const RaceRules& rules) { return RaceJudge(racers, rules).judge(); }

PairedDifference race_difference(std::span<const Racer> racers, const RaceRules& rules, size_t a, size_t b) {
  return RaceJudge(racers, rules).compare(a, b);
}

}  // namespace fp4::sweeps
