// Stability edges: the search and its interval by hand, and edges of a made-up trainer whose limits are known.
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <optional>
#include <random>

#include "src/text/error.h"
#include "sweeps/explore/edges.h"
#include "sweeps/explore/sweep.h"
#include "sweeps/judge/statistics.h"
#include "tests/support/made_up_training.h"
#include "tests/support/support.h"

using namespace fp4::sweeps;
using fp4::test::MadeUp;

namespace {

// Answers a search until it ends: `finishing(rung)` of the seeds are stable.
struct Answered {
  Edge edge;
  std::vector<int> asked;
};
template <class F>
Answered answer(const EdgeRules& rules, F finishing) {
  Answered a;
  std::map<int, RungCount> counts;
  for (a.edge = find_edge(rules, counts); a.edge.wanted; a.edge = find_edge(rules, counts)) {
    const int rung = *a.edge.wanted;
    REQUIRE_FALSE(counts.contains(rung));
    a.asked.push_back(rung);
    const size_t finished = finishing(rung);
    counts[rung] = {finished, rules.seeds - finished};
  }
  return a;
}

}  // namespace

TEST_CASE("exact intervals of a share", "[quick]") {
  // None or all of n: 1 - (alpha / 2)^(1 / n). 5 of 10: Clopper and Pearson's chart, .187 to .813.
  CHECK(clopper_pearson(0, 10).low == 0);
  CHECK(clopper_pearson(0, 10).high == Approx(1 - std::pow(0.025, 0.1)));
  CHECK(clopper_pearson(10, 10).low == Approx(std::pow(0.025, 0.1)));
  CHECK(clopper_pearson(10, 10).high == 1);
  CHECK(clopper_pearson(5, 10).low == Approx(0.1871).margin(5e-5));
  CHECK(clopper_pearson(5, 10).high == Approx(0.8129).margin(5e-5));
}

TEST_CASE("the edge is enclosed by steps of 1, 2, 4, .. rungs and halved", "[quick]") {
  const EdgeRules rules;  // 50 seeds, a share of .9
  const auto up_to = [](int last) { return [last](int rung) { return rung <= last ? size_t{50} : size_t{0}; }; };
  const Answered five = answer(rules, up_to(5));
  CHECK(five.asked == std::vector<int>{0, 1, 3, 7, 5, 6});
  CHECK(five.edge.rung == 5);
  CHECK(five.edge.low == 5);
  CHECK(five.edge.high == 6);
  const Answered below = answer(rules, up_to(-3));
  CHECK(below.asked == std::vector<int>{0, -1, -3, -2});
  CHECK(below.edge.rung == -3);
  const Answered always = answer({.widest = 8}, up_to(1000));
  CHECK(always.asked == std::vector<int>{0, 1, 3, 7, 8});
  CHECK_FALSE(always.edge.rung);
  CHECK(always.edge.is_above);
  const Answered never = answer({.widest = 8}, up_to(-1000));
  CHECK_FALSE(never.edge.rung);
  CHECK_FALSE(never.edge.is_above);
  CHECK_THROWS_AS(find_edge({.share = 1}, {}), fp4::Error);
}

TEST_CASE("the interval reaches to the first rung on either side that is sure", "[quick]") {
  // 50, 50, 49, 46, 45, 40, 30, 0 of 50 finish at the rungs -3 .. 4. 45 of 50 are .9: rung 1 passes, rung 2 does not.
  // .0125^(1/50) = .916: 50 of 50 show more than .9, 49 of 50 ([.880, .9998]) do not. 40 of 50 end at .910, above
  // .9, so the first that surely fails is rung 3 with 30 of 50.
  const std::map<int, size_t> finishing = {{-3, 50}, {-2, 50}, {-1, 49}, {0, 46}, {1, 45}, {2, 40}, {3, 30}};
  const auto of = [&](int rung) { return rung < -3 ? size_t{50} : rung > 3 ? size_t{0} : finishing.at(rung); };
  const Answered a = answer({}, of);
  CHECK(a.edge.rung == 1);
  CHECK(a.edge.low == -2);
  CHECK(a.edge.high == 3);
  // .0125^(1/41) = .8986: 41 seeds can never show .9 from below, 42 can.
  const auto all = [](size_t seeds) { return [seeds](int rung) { return rung <= 0 ? seeds : size_t{0}; }; };
  CHECK_FALSE(answer({.seeds = 41}, all(41)).edge.low);
  CHECK(answer({.seeds = 42}, all(42)).edge.low == 0);
}

TEST_CASE("a run that ends at the trivial predictor's loss is not stable", "[quick]") {
  const auto run = [](Status status, std::optional<double> loss, double trivial) {
    RunRecord record;
    record.status = status;
    record.loss = loss;
    record.metrics = {{"tokens", 1e6}, {"trivial_loss", trivial}};
    return record;
  };
  CHECK(is_stable(run(Status::finished, 1.97, 2)));
  CHECK_FALSE(is_stable(run(Status::finished, 1.99, 2)));
  CHECK_FALSE(is_stable(run(Status::finished, 5, 2)));
  CHECK_FALSE(is_stable(run(Status::finished, std::numeric_limits<double>::quiet_NaN(), 2)));
  CHECK_FALSE(is_stable(run(Status::diverged, std::nullopt, 2)));
  RunRecord untold = run(Status::finished, 5, 2);
  untold.metrics.clear();  // a task that does not say
  CHECK(is_stable(untold));
}

TEST_CASE("enough failures decide a rung, as all of its seeds would", "[quick]") {
  const EdgeRules rules;
  // 39 of 50 end at .8995 (Clopper and Pearson at .025), 40 of 50 at .910.
  REQUIRE(deciding_failures(rules) == 11);
  CHECK(deciding_failures({.seeds = 1}) == 2);  // one seed cannot show less than .9
  CHECK(is_decided(rules, {0, 11}));
  CHECK_FALSE(is_decided(rules, {39, 10}));
  CHECK(is_decided(rules, {40, 10}));
  // Rungs whose seeds fail at drawn places: stopped at the eleventh failure and run to the end, the search finds the
  // same.
  std::mt19937 random(1);
  for (int round = 0; round < 300; ++round) {
    std::map<int, std::vector<bool>> seeds;
    const double steepness = 0.1 + 0.01 * round;
    const auto run = [&](int rung, bool early) {
      std::vector<bool>& failed = seeds[rung];
      while (failed.size() < rules.seeds)
        failed.push_back(std::bernoulli_distribution(1 / (1 + std::exp(steepness * (3 - rung))))(random));
      RungCount count;
      for (size_t i = 0; i < failed.size() && !(early && count.failed == 11); ++i)
        ++(failed[i] ? count.failed : count.stable);
      return count;
    };
    std::map<int, RungCount> full, early;
    Edge a, b;
    for (a = find_edge(rules, full); a.wanted; a = find_edge(rules, full)) full[*a.wanted] = run(*a.wanted, false);
    for (b = find_edge(rules, early); b.wanted; b = find_edge(rules, early)) early[*b.wanted] = run(*b.wanted, true);
    INFO(round);
    CHECK(a.rung == b.rung);
    CHECK(a.low == b.low);
    CHECK(a.high == b.high);
    CHECK(full.size() == early.size());
  }
}

TEST_CASE("ratios of edges are powers of the ladder's factor", "[quick]") {
  const EdgeRules rules;
  const EdgeRatio ratio = edge_ratio(rules, {.rung = 1, .low = -1, .high = 2}, {.rung = 3, .low = 3, .high = 4});
  CHECK(*ratio.ratio == Approx(0.5));
  CHECK(*ratio.low == Approx(std::pow(2, -2.5)));
  CHECK(*ratio.high == Approx(std::pow(2, -0.5)));
  CHECK_FALSE(edge_ratio(rules, {.rung = 1}, {.is_above = true}).ratio);
}

TEST_CASE("edges of a trainer with known limits, found on stored runs and found again without one", "[quick]") {
  // bf16 diverges above a rate of .04 and mxfp4 above .01; every tenth seed at half of it.
  Simulator simulator = MadeUp{}.simulator();
  const auto train = simulator.run;
  simulator.run = [&](const Json& config, uint64_t seed, const std::function<bool()>& stop) {
    RunRecord run = train(config, seed, stop);
    const double limit = config["recipe"]["wgrad"]["a"]["element"] == "bf16" ? 0.04 : 0.01;
    if (config["train"]["lr"].get<double>() > limit * (seed % 10 == 0 ? 0.5 : 1)) {
      run.status = Status::diverged;
      run.loss = run.loss_hp = std::nullopt;
    }
    return run;
  };
  const auto arm = [&](const std::string& name) {
    return EdgeArm{name,
                   simulator.canonical({{"task", {{"name", "alpha"}}}, {"train", {{"lr", 0.01}}}, {"recipe", name}})};
  };
  const std::vector<EdgeArm> arms = {arm("bf16"), arm("mxfp4")};
  const EdgeRules rules = {.ladder = {.start = 0.01, .factor = std::sqrt(2), .rungs = 1}};
  const fp4::test::TemporaryFolder folder;
  Store store =
      Store::open(folder / "edge", {simulator.signature, {{"alpha", simulator.train_signature("alpha")}}, "", ""});
  const EdgeOutcome stopped = find_edges(arms, rules, simulator, store, {.jobs = 1, .stop_after = 70});
  CHECK(stopped.interrupted);
  size_t rounds = 0, runs = 0;
  const EdgeOutcome found = find_edges(arms, rules, simulator, store, {.jobs = 2}, [&](const std::vector<Job>& jobs) {
    ++rounds;
    runs += jobs.size();
  });
  CHECK_FALSE(found.interrupted);
  CHECK(found.arms[0].edge.rung == 4);  // .01 * 2^(4/2) = .04; nine of ten seeds are .9
  CHECK(found.arms[1].edge.rung == 0);
  CHECK(*edge_ratio(rules, found.arms[1].edge, found.arms[0].edge).ratio == Approx(0.25));
  CHECK(found.arms[0].edge.low == 2);  // half of .04, at which all seeds finish
  CHECK(found.arms[0].edge.high == 5);
  size_t needed = 0;  // 11 seeds of a rung where all fail, else 50
  for (const EdgeFound& arm : found.arms)
    for (const auto& [rung, count] : arm.counts) needed += count.stable == 0 ? 11 : 50;
  CHECK(store.runs().size() == needed);
  // The mean loss of a rung's stable runs: the hash of a rung tells its runs.
  double sum = 0;
  size_t count = 0;
  Json rung = arms[1].config;
  rung["train"]["lr"] = 0.01;
  for (const RunRecord& run : store.runs())
    if (run.hash == simulator.hash(simulator.canonical(rung)) && run.loss) sum += *run.loss, ++count;
  REQUIRE(count == 45);  // all but every tenth seed
  REQUIRE(found.arms[1].counts.at(0).mean_loss());
  CHECK(*found.arms[1].counts.at(0).mean_loss() == Approx(sum / 45));
  REQUIRE(found.arms[1].counts.at(1).stable == 0);
  CHECK_FALSE(found.arms[1].counts.at(1).mean_loss());
  CHECK(runs < needed);
  const EdgeOutcome again = find_edges(arms, rules, simulator, store, {.jobs = 1},
                                       [](const std::vector<Job>&) { FAIL("a run was done twice"); });
  CHECK(again.arms[0].edge.rung == 4);
}
