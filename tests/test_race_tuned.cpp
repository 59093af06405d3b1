// Words after tuning, replayed from stored trainings (results/racing/tuned.csv): sixteen recipes that are told apart by
// nothing but random bits, at six learning rates. Each chooses its rungs by a ladder on a few tuning seeds; whatever is
// then said of two of them beside `tied`, `equal` and `undecided` is false.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <fstream>
#include <map>
#include <numeric>
#include <random>
#include <sstream>

#include "sweeps/grid/ladder.h"
#include "sweeps/judge/comparison.h"
#include "sweeps/judge/race.h"
#include "tests/support/share.h"

using namespace fp4::sweeps;

namespace {

constexpr size_t recipes = 16;

// results/racing/tuned.csv: `lr,seed` and a column for each recipe; lines by learning rate, then seed.
using Pool = std::vector<std::vector<std::vector<double>>>;  // [rung][seed][recipe]

Pool read_pool() {
  std::ifstream file("results/racing/tuned.csv");
  REQUIRE(file);
  std::string line, word, rate;
  std::getline(file, line);
  Pool pool;
  while (std::getline(file, line)) {
    std::istringstream words(line);
    std::getline(words, word, ',');
    if (word != rate) pool.emplace_back();
    rate = word;
    std::getline(words, word, ',');
    std::vector<double>& row = pool.back().emplace_back();
    while (std::getline(words, word, ',')) row.push_back(std::stod(word));
    REQUIRE(row.size() == recipes);
  }
  REQUIRE(pool.size() == 6);
  return pool;
}

// How a study chooses the rungs that it judges: `judged` best ones of each recipe, or, `shared`, one rung for all but
// those whose own is shown to be better on the tuning seeds.
struct Way {
  size_t tuning_seeds;
  size_t judged;
  bool shared = false;
};

// One study of the null: losses by recipe, rung and seed, each seed a line of the pool, dealt anew to the recipes at
// every rung. `shifted`: every second recipe has its curve one rung lower, so that minima are equal at unequal rates.
class World {
 public:
  World(const Pool& pool, uint64_t number, bool shifted) : pool_(pool), random_(number), shifted_(shifted) {}

  double loss(size_t recipe, size_t rung, size_t seed) {
    while (lines_.size() <= seed) lines_.push_back(random_() % pool_[0].size());
    const size_t row = shifted_ && recipe % 2 == 1 ? rung + 1 : rung;
    auto [dealt, fresh] = dealt_.try_emplace({row, seed});
    if (fresh) {
      dealt->second = pool_[row][lines_[seed]];
      std::shuffle(dealt->second.begin(), dealt->second.end(), random_);
    }
    return dealt->second[recipe];
  }

 private:
  const Pool& pool_;
  std::mt19937_64 random_;
  bool shifted_;
  std::vector<size_t> lines_;
  std::map<std::pair<size_t, size_t>, std::vector<double>> dealt_;
};

constexpr size_t rungs = 5;
constexpr size_t first_tuning = 1000;  // numbers of seeds that judge nothing

double tuning_mean(World& world, size_t recipe, size_t rung, size_t seeds) {
  double sum = 0;
  for (size_t s = 0; s < seeds; ++s) sum += world.loss(recipe, rung, first_tuning + s);
  return sum / static_cast<double>(seeds);
}

// Rungs by mean loss as the planner's ladder finds them: rungs a factor 2 apart, then those beside the best.
std::vector<size_t> ranked(World& world, size_t recipe, size_t seeds) {
  std::map<int, double> known;
  const Ladder ladder{.start = 1, .factor = 2, .rungs = 3, .parts = 2};
  for (Climb step = climb(ladder, known); !step.wanted.empty(); step = climb(ladder, known))
    for (const int e : step.wanted)
      known[e] = e < -2 || e > 2 ? INFINITY : tuning_mean(world, recipe, static_cast<size_t>(e + 2), seeds);
  std::vector<std::pair<double, size_t>> order;
  for (const auto& [e, loss] : known)
    if (std::isfinite(loss)) order.emplace_back(loss, static_cast<size_t>(e + 2));
  std::sort(order.begin(), order.end());
  std::vector<size_t> list;
  for (const auto& [loss, rung] : order) list.push_back(rung);
  return list;
}

std::vector<std::vector<size_t>> chosen_rungs(World& world, const Way& way) {
  std::vector<std::vector<size_t>> chosen;
  if (!way.shared) {
    for (size_t i = 0; i < recipes; ++i) {
      chosen.push_back(ranked(world, i, way.tuning_seeds));
      chosen.back().resize(std::min(chosen.back().size(), way.judged));
    }
    return chosen;
  }
  size_t shared = 0;
  std::vector<double> mean(rungs);
  for (size_t rung = 0; rung < rungs; ++rung) {
    for (size_t i = 0; i < recipes; ++i) mean[rung] += tuning_mean(world, i, rung, way.tuning_seeds);
    if (mean[rung] < mean[shared]) shared = rung;
  }
  for (size_t i = 0; i < recipes; ++i) {
    const size_t own = ranked(world, i, way.tuning_seeds).front();
    std::vector<double> better;
    for (size_t s = 0; s < way.tuning_seeds; ++s)
      better.push_back(world.loss(i, own, first_tuning + s) - world.loss(i, shared, first_tuning + s));
    const Summary summary = summarise(better, 1 - 0.05 / recipes);
    chosen.push_back({summary.interval && summary.interval->high < 0 ? own : shared});
  }
  return chosen;
}

// Fifteen comparisons with the first recipe on 40 seeds: is any of them called better or worse?
bool family_errs(World& world, const std::vector<std::vector<size_t>>& chosen) {
  const auto losses = [&](size_t recipe) {
    RungLosses list;
    for (const size_t rung : chosen[recipe]) {
      std::vector<double>& row = list.emplace_back();
      for (size_t s = 0; s < 40; ++s) row.push_back(world.loss(recipe, rung, s));
    }
    return list;
  };
  std::vector<Comparison> family;
  for (size_t i = 1; i < recipes; ++i)
    family.push_back({.settings = {{.mine = losses(i), .theirs = losses(0)}}, .delta = 0.01});
  judge(family);
  return std::any_of(family.begin(), family.end(),
                     [](const Comparison& c) { return c.verdict == Verdict::better || c.verdict == Verdict::worse; });
}

struct Raced {
  bool wrong = false;
  double decided = 0;  // share of the recipes
  size_t runs = 0;
};

// A race at rising costs: is any recipe called off, or a step above a cheaper one?
Raced race(World& world, const std::vector<std::vector<size_t>>& chosen) {
  const RaceRules rules{.delta = 0.01};
  std::vector<Racer> racers;
  std::vector<std::vector<bool>> draws;
  for (size_t i = 0; i < recipes; ++i) {
    racers.push_back({.cost = 0.02 + 0.01 * static_cast<double>(i), .loss = RungLosses(chosen[i].size())});
    draws.emplace_back(chosen[i].size(), true);
  }
  Raced result;
  RaceState state;
  for (const size_t round : rules.rounds) {
    for (size_t i = 0; i < recipes; ++i)
      for (size_t k = 0; k < chosen[i].size(); ++k)
        for (size_t s = racers[i].loss[k].size(); draws[i][k] && s < round; ++s, ++result.runs)
          racers[i].loss[k].push_back(world.loss(i, chosen[i][k], s));
    state = judge_race(racers, rules);
    for (size_t i = 0; i < recipes; ++i)
      for (size_t k = 0; k < chosen[i].size(); ++k) draws[i][k] = state.verdicts[i].draws && state.verdicts[i].rungs[k];
  }
  for (size_t i = 0; i < recipes; ++i) {
    const RaceWord word = state.verdicts[i].word;
    result.wrong |= word == RaceWord::off || (word == RaceWord::on && i != state.steps.front());
    result.decided += word == RaceWord::undecided ? 0 : 1.0 / recipes;
  }
  return result;
}

const size_t replays = std::max<size_t>(40, 200 / fp4::test::share());

struct Tally {
  size_t families = 0, races = 0;  // with a false word
  double decided = 0, runs = 0;    // means of the races; runs a recipe
};

Tally replay(const Pool& pool, const Way& way, bool shifted) {
  Tally tally;
  for (size_t number = 0; number < replays; ++number) {
    World world(pool, number, shifted);
    const std::vector<std::vector<size_t>> chosen = chosen_rungs(world, way);
    tally.families += family_errs(world, chosen);
    const Raced raced = race(world, chosen);
    tally.races += raced.wrong;
    tally.decided += raced.decided / static_cast<double>(replays);
    tally.runs += static_cast<double>(raced.runs) / static_cast<double>(replays * recipes);
  }
  return tally;
}

std::string line(const Way& way, bool shifted, const Tally& tally) {
  std::ostringstream text;
  text << (shifted ? "shifted" : "null") << ", " << way.tuning_seeds << " tuning seeds, "
       << (way.shared ? "a shared rung" : std::to_string(way.judged) + " rungs") << ": families "
       << 100.0 * static_cast<double>(tally.families) / static_cast<double>(replays) << " %, races "
       << 100.0 * static_cast<double>(tally.races) / static_cast<double>(replays) << " %, decided "
       << 100 * tally.decided << " %, runs a recipe " << tally.runs;
  return text.str();
}

}  // namespace

// `test_race_tuned -s` prints the numbers of results/racing/README.md.
TEST_CASE("tuned recipes that do not differ get a false word in at most 5 % of families and races", "[quick]") {
  const Pool pool = read_pool();
  for (const bool shifted : {false, true}) {
    for (const size_t seeds : {size_t{3}, size_t{10}}) {
      const Way way{.tuning_seeds = seeds, .judged = 2};
      const Tally tally = replay(pool, way, shifted);
      INFO(line(way, shifted, tally));
      CHECK(tally.families <= replays / 20);
      CHECK(tally.races <= replays / 20);
    }
  }
}

// What the rules are held against: `test_race_tuned "[.ways]" -s`.
TEST_CASE("other ways to choose the rungs that are judged", "[.ways]") {
  const Pool pool = read_pool();
  for (const bool shifted : {false, true})
    for (const size_t seeds : {size_t{3}, size_t{5}, size_t{10}})
      for (const Way& way : {Way{seeds, 1}, Way{seeds, 2}, Way{seeds, 3}, Way{seeds, 1, true}})
        WARN(line(way, shifted, replay(pool, way, shifted)));
}
