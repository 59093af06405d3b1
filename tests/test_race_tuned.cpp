// Words after tuning, replayed from stored trainings (results/racing/tuned.csv): sixteen recipes that are told apart by
// nothing but random bits, at six learning rates. Each chooses its rungs by a ladder on a few tuning seeds; whatever is
// then said of two of them beside `tied`, `equal` and `undecided` is false. The same with failures and divergences laid
// over them, by the procedure of every grid of the program that races or judges.
#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <numeric>
#include <random>
#include <sstream>

#include "sweeps/grid/grid.h"
#include "sweeps/judge/comparison.h"
#include "sweeps/judge/race.h"
#include "tests/support/share.h"
#include "tests/support/support.h"

using namespace fp4::sweeps;

namespace {

constexpr size_t recipes = 16;
constexpr double race_delta = 0.01, study_delta = 0.002;

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

// What is laid over the pool's losses. Curves of all recipes, or of every second one, so that minima are equal at
// unequal rates, lie half a rung lower. Who fails loses .2 more in a share of the seeds and is as much better in the
// others, so that means stay equal; not on the seeds of tuning, where a failure may cost a recipe its best rung.
enum class Lower { none, all, every_second };
struct Plant {
  const char* name;
  Lower lower = Lower::none;
  double step_fails = 0, others_fail = 0, step_diverges = 0;  // shares of the seeds; the step is the first recipe
};
constexpr double failure = 0.2;
constexpr Plant plants[] = {{"null"},
                            {"all lower", Lower::all},
                            {"every second lower", Lower::every_second},
                            {"step fails in 1 %", Lower::every_second, 0.01},
                            {"step fails in 2 %", Lower::every_second, 0.02},
                            {"step fails in 5 %", Lower::every_second, 0.05},
                            {"others fail in 1 %", Lower::every_second, 0, 0.01},
                            {"others fail in 3 %", Lower::every_second, 0, 0.03},
                            {"others fail in 5 %", Lower::every_second, 0, 0.05},
                            {"step diverges in 10 %", Lower::every_second, 0, 0, 0.1}};

// How rungs are chosen and judged: `judged` best ones of each recipe, or, `shared`, one rung for all but those whose
// own is shown to be better on the tuning seeds. Then a race of so many seeds, or a study of so many.
struct Way {
  size_t tuning_seeds;
  size_t judged;
  bool shared = false;
  Ladder ladder{.start = 1, .factor = 2, .rungs = 3, .parts = 2};
  size_t race_seeds = 320, study_seeds = 40;
};

constexpr size_t rungs = 5;
constexpr size_t first_tuning = 1000;  // numbers of seeds that judge nothing

// One replay: losses by recipe, rung and seed, each seed a line of the pool, dealt anew to the recipes at every rung.
class World {
 public:
  World(const Pool& pool, uint64_t number, const Plant& plant) : pool_(pool), random_(number), plant_(plant) {}

  double loss(size_t recipe, size_t rung, size_t seed) {
    while (lines_.size() <= seed) lines_.push_back(random_() % pool_[0].size());
    const bool lower = plant_.lower == Lower::all || (plant_.lower == Lower::every_second && recipe % 2 == 1);
    const size_t row = lower ? rung + 1 : rung;
    std::vector<double>& dealt = dealt_[row][seed];
    if (dealt.empty()) {
      dealt = pool_[row][lines_[seed]];
      std::shuffle(dealt.begin(), dealt.end(), random_);
    }
    const auto happens = [&](double share) { return share > 0 && std::bernoulli_distribution(share)(random_); };
    if (recipe == 0 && happens(plant_.step_diverges)) return INFINITY;
    const double share = seed >= first_tuning ? 0 : recipe == 0 ? plant_.step_fails : plant_.others_fail;
    return dealt[recipe] - share * failure + (happens(share) ? failure : 0);
  }

 private:
  const Pool& pool_;
  std::mt19937_64 random_;
  Plant plant_;
  std::vector<size_t> lines_;
  std::array<std::array<std::vector<double>, first_tuning + 10>, rungs + 1> dealt_;  // by rung and seed
};

double tuning_mean(World& world, size_t recipe, size_t rung, size_t seeds) {
  double sum = 0;
  for (size_t s = 0; s < seeds; ++s) sum += world.loss(recipe, rung, first_tuning + s);
  return sum / static_cast<double>(seeds);
}

// Rungs by mean loss as the planner's ladder finds them; those of the pool lie a factor sqrt(2) apart.
std::vector<size_t> ranked(World& world, size_t recipe, const Way& way) {
  std::map<int, double> known;
  const double step = 2 * std::log2(way.ladder.factor) / way.ladder.parts;
  for (Climb next = climb(way.ladder, known); !next.wanted.empty(); next = climb(way.ladder, known))
    for (const int e : next.wanted) {
      const long rung = std::lround(e * step) + 2;
      known[e] = rung < 0 || rung >= static_cast<long>(rungs)
                     ? INFINITY
                     : tuning_mean(world, recipe, static_cast<size_t>(rung), way.tuning_seeds);
    }
  std::vector<std::pair<double, size_t>> order;
  for (const auto& [e, loss] : known)
    if (std::isfinite(loss)) order.emplace_back(loss, static_cast<size_t>(std::lround(e * step) + 2));
  std::sort(order.begin(), order.end());
  std::vector<size_t> list;
  for (const auto& [loss, rung] : order) list.push_back(rung);
  return list;
}

std::vector<std::vector<size_t>> chosen_rungs(World& world, const Way& way) {
  std::vector<std::vector<size_t>> chosen;
  if (!way.shared) {
    for (size_t i = 0; i < recipes; ++i) {
      chosen.push_back(ranked(world, i, way));
      if (chosen.back().empty()) chosen.back().push_back(2);  // all diverged on some tuning seed: the ladder's start
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
    const size_t own = ranked(world, i, way).front();
    std::vector<double> better;
    for (size_t s = 0; s < way.tuning_seeds; ++s)
      better.push_back(world.loss(i, own, first_tuning + s) - world.loss(i, shared, first_tuning + s));
    const Summary summary = summarise(better, 1 - 0.05 / recipes);
    chosen.push_back({summary.interval && summary.interval->high < 0 ? own : shared});
  }
  return chosen;
}

// Comparisons of all with the first recipe: is any of them called better or worse? Better than what diverges is true.
bool family_errs(World& world, const std::vector<std::vector<size_t>>& chosen, const Way& way, const Plant& plant) {
  const auto losses = [&](size_t recipe) {
    RungLosses list;
    for (const size_t rung : chosen[recipe]) {
      std::vector<double>& row = list.emplace_back();
      for (size_t s = 0; s < way.study_seeds; ++s) row.push_back(world.loss(recipe, rung, s));
    }
    return list;
  };
  std::vector<Comparison> family;
  const RungLosses base = losses(0);
  for (size_t i = 1; i < recipes; ++i)
    family.push_back({.settings = {{.mine = losses(i), .theirs = base}}, .delta = study_delta});
  judge(family);
  return std::any_of(family.begin(), family.end(), [&](const Comparison& c) {
    return c.verdict == Verdict::worse || (c.verdict == Verdict::better && plant.step_diverges == 0);
  });
}

struct Raced {
  bool wrong = false;
  double decided = 0;  // share of the recipes
  size_t runs = 0;
};

// A race at rising costs: is any recipe called off, a step above a cheaper one, or a step or tied though one diverges?
Raced race(World& world, const std::vector<std::vector<size_t>>& chosen, const Way& way, const Plant& plant) {
  const RaceRules rules{.delta = race_delta, .rounds = RaceSettings{.seeds = way.race_seeds}.rounds()};
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
  const bool diverges = plant.step_diverges > 0;
  const size_t steps = static_cast<size_t>(std::count_if(
      state.verdicts.begin(), state.verdicts.end(), [](const RaceVerdict& v) { return v.word == FrontStatus::on; }));
  for (size_t i = 0; i < recipes; ++i) {
    const RaceVerdict& verdict = state.verdicts[i];
    result.wrong |= verdict.word == FrontStatus::off;
    result.wrong |= diverges && i == 0 && (verdict.word == FrontStatus::on || verdict.word == FrontStatus::tied);
    result.wrong |= diverges && verdict.word == FrontStatus::tied && verdict.rival == 0;
    result.decided += verdict.word == FrontStatus::undecided ? 0 : 1.0 / recipes;
  }
  result.wrong |= steps > 1;
  return result;
}

// 40 under sanitizers.
const size_t replays = std::max<size_t>(40, 200 / fp4::test::share());

struct Tally {
  size_t families = 0, races = 0;  // with a false word
  double decided = 0, runs = 0;    // means of the races; runs a recipe
};

Tally replay(const Pool& pool, const Way& way, const Plant& plant) {
  Tally tally;
  for (size_t number = 0; number < replays; ++number) {
    World world(pool, number, plant);
    const std::vector<std::vector<size_t>> chosen = chosen_rungs(world, way);
    tally.families += way.study_seeds > 0 && family_errs(world, chosen, way, plant);
    if (way.race_seeds == 0) continue;
    const Raced raced = race(world, chosen, way, plant);
    tally.races += raced.wrong;
    tally.decided += raced.decided / static_cast<double>(replays);
    tally.runs += static_cast<double>(raced.runs) / static_cast<double>(replays * recipes);
  }
  return tally;
}

std::string line(const Way& way, const Plant& plant, const Tally& tally) {
  std::ostringstream text;
  text << plant.name << ", " << way.tuning_seeds << " tuning seeds, "
       << (way.shared ? "a shared rung" : std::to_string(way.judged) + " rungs of ") << way.ladder.rungs << ", race "
       << way.race_seeds << ", study " << way.study_seeds << ": families "
       << 100.0 * static_cast<double>(tally.families) / static_cast<double>(replays) << " %, races "
       << 100.0 * static_cast<double>(tally.races) / static_cast<double>(replays) << " %, decided "
       << 100 * tally.decided << " %, runs a recipe " << tally.runs;
  return text.str();
}

// The distinct procedures of the program's grids that tune, each with the grids that have it.
std::map<std::vector<double>, std::pair<Way, std::string>> shipped() {
  std::map<std::vector<double>, std::pair<Way, std::string>> ways;
  for (const auto& file : std::filesystem::directory_iterator("sweeps/grids")) {
    if (file.path().extension() != ".json") continue;
    const Grid grid = parse_grid(fp4::test::read_text(file.path().string()), file.path().string());
    for (const TunedField& field : grid.tune) {
      CHECK((!grid.race || grid.may_race()));
      Way way{.tuning_seeds = field.seeds, .judged = field.judged, .ladder = field.ladder};
      way.ladder.start = 1;
      way.race_seeds = grid.race ? grid.race->seeds : 0;
      way.study_seeds = grid.race ? 0 : grid.seeds.size();
      auto& [known, names] =
          ways[{static_cast<double>(way.tuning_seeds), static_cast<double>(way.judged), way.ladder.factor,
                static_cast<double>(way.ladder.rungs), static_cast<double>(way.ladder.parts),
                static_cast<double>(way.race_seeds), static_cast<double>(way.study_seeds)}];
      known = way;
      names += " " + grid.name;
    }
  }
  return ways;
}

}  // namespace

// `test_race_tuned -s` prints the numbers of results/racing/README.md.
TEST_CASE("by the procedure of every grid of the program at most 5 % of races and families have a false word",
          "[quick]") {
  const Pool pool = read_pool();
  const auto ways = shipped();
  REQUIRE(ways.size() >= 5);
  for (const auto& [key, shipped] : ways) {
    for (const Plant& plant : plants) {
      const Tally tally = replay(pool, shipped.first, plant);
      INFO(line(shipped.first, plant, tally) << ":" << shipped.second);
      CHECK(tally.families <= replays / 20);
      CHECK(tally.races <= replays / 20);
    }
  }
}

// What the rules are held against: `test_race_tuned "[.ways]" -s`.
TEST_CASE("other ways to choose the rungs that are judged", "[.ways]") {
  const Pool pool = read_pool();
  for (const Plant& plant : {plants[0], plants[2]})
    for (const size_t seeds : {size_t{3}, size_t{5}, size_t{10}})
      for (const Way& way : {Way{seeds, 1}, Way{seeds, 2}, Way{seeds, 3}, Way{seeds, 1, true}})
        WARN(line(way, plant, replay(pool, way, plant)));
}
