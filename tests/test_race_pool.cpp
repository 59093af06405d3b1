// Races replayed from stored losses of real trainings (results/racing): no wrong word in 95 % of 400 races, neither
// among 60 labels of one recipe nor among 40 settings whose true order the whole pool tells.
#include <algorithm>
#include <catch2/catch.hpp>
#include <fstream>
#include <numeric>
#include <random>
#include <sstream>

#include "tests/support/race_replay.h"
#include "tests/support/share.h"

using namespace fp4::sweeps;
using namespace fp4::test;

namespace {

// results/racing/NAME.csv: a line of labels, a line of overheads, then one line of losses for each seed.
struct Pool {
  std::vector<std::string> labels;
  std::vector<double> cost;
  std::vector<std::vector<double>> loss;  // [seed][label]
};

Pool read_pool(const std::string& name) {
  std::ifstream file("results/racing/" + name + ".csv");
  REQUIRE(file);
  Pool pool;
  std::string line, word;
  for (size_t row = 0; std::getline(file, line); ++row) {
    std::istringstream words(line);
    std::getline(words, word, ',');
    std::vector<double> values;
    while (std::getline(words, word, ',')) {
      if (row == 0) {
        pool.labels.push_back(word);
      } else {
        values.push_back(std::stod(word));
      }
    }
    if (row == 1) pool.cost = values;
    if (row > 1) pool.loss.push_back(values);
    if (row > 0) REQUIRE(values.size() == pool.labels.size());
  }
  return pool;
}

// The mean over all seeds of the pool: the truth, when a race draws its seeds from them with replacement.
std::vector<Truth> truth_of(const Pool& pool) {
  std::vector<Truth> truth;
  for (size_t i = 0; i < pool.labels.size(); ++i) {
    double sum = 0;
    for (const std::vector<double>& row : pool.loss) sum += row[i];
    truth.push_back({.cost = pool.cost[i], .mean = sum / static_cast<double>(pool.loss.size())});
  }
  return truth;
}

const size_t replays = std::max<size_t>(40, 400 / share());

// `test_race_pool -s` prints the numbers of results/racing/README.md.
void judge(const char* what, const ReplayTally& tally) {
  INFO(what << ": decided " << tally.decided << " of the candidates with " << tally.runs << " of the runs");
  CHECK(tally.wrong <= replays / 20);
}

}  // namespace

TEST_CASE("races between 60 labels of one recipe are wrong in at most 5 %", "[quick]") {
  const Pool pool = read_pool("null");
  REQUIRE(pool.labels.size() == 60);
  // Labels of one line are exchangeable: dealt anew in every race and on every seed they have one mean exactly.
  std::vector<Truth> truth;
  for (size_t i = 0; i < 60; ++i) truth.push_back({.cost = 0.02 + 0.003 * static_cast<double>(i), .mean = 1});
  for (const double delta : {0.002, 0.01}) {
    const RaceRules rules = {.delta = delta};
    ReplayTally tally;
    for (size_t race = 0; race < replays; ++race) {
      std::mt19937_64 random(race);
      std::vector<std::vector<double>> dealt;
      const auto loss = [&](size_t racer, size_t seed) {
        while (dealt.size() <= seed) {
          dealt.push_back(pool.loss[random() % pool.loss.size()]);
          std::shuffle(dealt.back().begin(), dealt.back().end(), random);
        }
        return dealt[seed][racer];
      };
      tally.add(replay_race(truth, rules, loss), truth.size(), rules.rounds.back());
    }
    judge(delta < 0.005 ? "null, delta .002" : "null, delta .01", tally);
  }
}

TEST_CASE("races between 40 settings find the order of the whole pool", "[quick]") {
  const Pool pool = read_pool("pool");
  const std::vector<Truth> truth = truth_of(pool);
  REQUIRE(truth.size() >= 30);
  const RaceRules rules = {.delta = 0.002};
  ReplayTally tally;
  for (size_t race = 0; race < replays; ++race) {
    std::mt19937_64 random(race);
    std::vector<size_t> drawn;
    const auto loss = [&](size_t racer, size_t seed) {
      while (drawn.size() <= seed) drawn.push_back(random() % pool.loss.size());
      return pool.loss[drawn[seed]][racer];
    };
    tally.add(replay_race(truth, rules, loss), truth.size(), rules.rounds.back());
  }
  judge("pool", tally);
  CHECK(tally.decided >= 0.8);
  CHECK(tally.runs <= 0.7);
}
