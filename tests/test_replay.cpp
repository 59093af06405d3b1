// Do replays judge the explorers that a sweep runs? Tables of a known truth: what chance must find, what a perfect
// short run must find, and that a space in which axes multiply is one that importance sampling knows.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>

#include "src/error.h"
#include "sweeps/explore/replay.h"
#include "sweeps/judge/statistics.h"
#include "tests/support/share.h"
#include "tests/support/support.h"

using namespace fp4;
using namespace fp4::sweeps;
using Catch::Matchers::Contains;

namespace {

const Simulator& simulator() {
  static const Simulator s = real_simulator("reference", /*with_signature=*/false);
  return s;
}

Grid small_grid() {
  return parse_grid(R"({"name": "small", "task": "regression", "base": "mxfp4", "seeds": 2, "train": {"steps": 60},
    "references": ["bf16", "mxfp4"], "axes": {
      "*.*.block": [16, 32],
      "fprop.*.estimator": ["ste", "clipped_ste", "dge"],
      "dgrad|wgrad.a.rounding": ["nearest_even", "stochastic"],
      "dgrad|wgrad.hadamard": [{"label": "none", "size": 0}, {"label": "H16", "size": 16, "signs": "none"},
                               {"label": "H32", "size": 32, "signs": "none"}],
      "dgrad": [{"label": "fp4"}, "bf16.dgrad"],
      "wgrad": [{"label": "fp4"}, "bf16.wgrad"]}})",
                    "grid small");
}

// A factor for each label of each axis: ln(gap) is a sum over the axes, which importance sampling supposes.
KnownGaps multiplied(const Grid& grid) {
  KnownGaps known;
  for (const PointRecord& point : expand(grid, simulator()).points) {
    double gap = 0.1;
    for (size_t axis = 0; axis < point.labels.size(); ++axis)
      gap *= 1 + 0.9 * uniform_hash("factor", std::to_string(axis), point.labels[axis]);
    known.by_hash[point.hash].gap = gap;
  }
  return known;
}

Summary of(const std::vector<Replayed>& replays, double Replayed::*value) {
  std::vector<double> values;
  for (const Replayed& r : replays) values.push_back(r.*value);
  return summarise(values);
}

}  // namespace

TEST_CASE("halving's share follows from its budget", "[quick]") {
  CHECK(keep_for_budget({100, 300}, 0.5) == Approx(1.0 / 6));                         // 1/3 + k = 1/2
  CHECK(keep_for_budget({75, 150, 300}, 1) == Approx((-0.5 + std::sqrt(3.25)) / 2));  // 1/4 + k/2 + k^2 = 1
  CHECK_THROWS_WITH(keep_for_budget({100, 300}, 0.3), Contains("first rung"));
}

TEST_CASE("replays find what chance, short runs and structure must find", "[quick]") {
  const Grid grid = small_grid();
  KnownGaps known = multiplied(grid);
  const Replay replay(grid, "regression", simulator(), known);
  const auto all = static_cast<double>(replay.configurations());
  REQUIRE(replay.configurations() == known.by_hash.size());
  REQUIRE(replay.front() >= 3);
  const size_t replays = std::max<size_t>(6, 60 / test::share());
  const auto run = [&](Explore explore, double budget, std::vector<double> rung_sd = {}) {
    return replay.run({.explore = explore,
                       .budget = budget,
                       .rungs = explore == Explore::halving ? std::vector<int>{20, 60} : std::vector<int>{},
                       .rung_sd = std::move(rung_sd),
                       .delta = 0,
                       .replays = replays});
  };
  // Everything was run: all of the front.
  CHECK(of(run(Explore::random, 1), &Replayed::recall).mean == 1);
  CHECK(of(run(Explore::random, 1), &Replayed::work).mean == 1);
  // A random sample of n holds each configuration with probability n / N.
  const Summary random = of(run(Explore::random, 0.5), &Replayed::recall);
  CHECK(std::abs(random.mean - std::round(0.5 * all) / all) < 4 * random.sd / std::sqrt(static_cast<double>(replays)));
  CHECK(of(run(Explore::random, 0.5), &Replayed::work).mean == Approx(0.5).margin(0.01));
  // Rungs that rank as the full length does promote the front, which is the first that halving peels; rungs of noise do
  // not.
  const auto perfect = run(Explore::halving, 0.5, {0});
  CHECK(of(perfect, &Replayed::recall).mean == 1);
  CHECK(of(perfect, &Replayed::work).mean == Approx(0.5).margin(0.02));
  const double noise = of(run(Explore::halving, 0.5, {50}), &Replayed::recall).mean;
  // Importance sampling fits ln(gap) by a sum over the axes, which is the truth here.
  const Summary important = of(run(Explore::importance, 0.5), &Replayed::recall);
  if (test::share() == 1) {  // a few replays tell neither
    CHECK(noise < 0.8);
    CHECK(important.interval->low > random.interval->high);
  }
  // Noise changes choices and leaves what was run: the same draws twice.
  known.sd = 0.01;
  const auto noisy = run(Explore::importance, 0.5);
  CHECK(of(noisy, &Replayed::recall).mean == of(run(Explore::importance, 0.5), &Replayed::recall).mean);
  // Whatever loses by less than delta is as good: with a delta above all gaps, the cheapest of each sample decides.
  CHECK(of(noisy, &Replayed::alike).mean >= of(noisy, &Replayed::recall).mean);
}

TEST_CASE("tables of a grid are read, or refused by file and column", "[quick]") {
  const test::TemporaryFolder folder;
  const std::string file = folder / "t.csv";
  const auto read = [&](const std::string& text) {
    test::write_text(file, text);
    return read_known_gaps(file, "lm");
  };
  const std::string head = "recipe,task,role,at,config_hash,loss_gap,loss_gap_sd\n";
  const KnownGaps known =
      read(head +
           "\"a, b\",lm,run,fixed,0001,0.5,0.3\nb,lm,run,fixed,0002,,\nc,lm,run,best,0003,0.1,0.1\n"
           "d,classifier,run,fixed,0004,0.1,9\ne,lm,confirm,fixed,0005,0.1,9\nf,lm,run,fixed,0006,0.2,0.1\n");
  REQUIRE(known.by_hash.size() == 4);
  CHECK(known.by_hash.at("0001").gap == 0.5);
  CHECK(known.by_hash.at("0003").gap == 0.1);  // the grid's own rate is its best
  CHECK(std::isnan(known.by_hash.at("0002").gap));
  CHECK(known.sd == Approx(std::sqrt((0.09 + 0.01 + 0.01) / 3)));
  CHECK_THROWS_WITH(read("task,role\n"), Contains("t.csv") && Contains("config_hash"));
  CHECK_THROWS_WITH(read(head), Contains("no run of lm"));
  test::write_text(file, head + "a,regression,run,fixed,0001,0.5,0.3\n");
  const KnownGaps few = read_known_gaps(file, "regression");
  CHECK_THROWS_WITH(Replay(small_grid(), "regression", simulator(), few), Contains("lacks configuration"));
}
