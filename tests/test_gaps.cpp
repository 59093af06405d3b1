// Paired gaps: planted planes are found, a cell that the fit has not seen is predicted, and the committed ladder says
// what was computed from it by hand in exact least squares elsewhere.
#include <catch2/catch.hpp>
#include <cmath>
#include <random>

#include "sweeps/judge/gaps.h"
#include "sweeps/judge/orders.h"
#include "tools/cli/sweep/law_result.h"

using namespace fp4::sweeps;

namespace {

// Losses on eight (N, D) and two seeds; the seeds move both recipes alike.
std::vector<LawPoint> runs(double a, double x, double y, double noise, uint64_t stream) {
  std::mt19937_64 engine(stream);
  std::normal_distribution<double> normal;
  std::vector<LawPoint> points;
  for (const double n : {2e4, 6e4, 2e5})
    for (const double d : {4e5, 1.6e6, 6.4e6})
      for (const uint64_t seed : {uint64_t{1}, uint64_t{2}})
        points.push_back({n, d, seed,
                          std::exp(1 + 0.1 * static_cast<double>(seed) - 0.1 * std::log(n) + a + x * std::log(n) +
                                   y * std::log(d) + noise * normal(engine))});
  return points;
}

}  // namespace

TEST_CASE("a plane of gaps is found whatever the losses are", "[quick]") {
  const auto cells = gap_cells(runs(0.3, -0.02, 0.015, 0, 1), runs(0, 0, 0, 0, 2));
  REQUIRE(cells.size() == 9);
  CHECK(cells[0].seeds == 2);
  const PlaneFit fit = fit_plane(cells);
  REQUIRE(fit.missing.empty());
  CHECK(fit.by_n == Approx(-0.02));
  CHECK(fit.by_d == Approx(0.015));
  CHECK(plane_at(fit, 1e6, 1e8).value == Approx(0.3 - 0.02 * std::log(1e6) + 0.015 * std::log(1e8)));
  CHECK(fit.left_out < 1e-12);
}

TEST_CASE("intervals hold the planted gap of a size that was kept out in 95 of 100 ladders", "[quick]") {
  const double n = 8e5, d = 1.6e7, truth = 0.05 - 0.004 * std::log(n) + 0.01 * std::log(d);
  size_t inside = 0, slopes = 0;
  constexpr size_t ladders = 1000;
  for (size_t i = 0; i < ladders; ++i) {
    const PlaneFit fit = fit_plane(gap_cells(runs(0.05, -0.004, 0.01, 0.01, 2 * i), runs(0, 0, 0, 0.01, 2 * i + 1)));
    // The mean of two seeds there, each side with its own noise.
    std::mt19937_64 engine(7 * i + 3);
    std::normal_distribution<double> normal;
    const double seen = truth + 0.01 * normal(engine);
    const Interval interval = plane_at(fit, n, d).interval();
    inside += interval.low <= seen && seen <= interval.high;
    slopes += fit.by_d_interval.low <= 0.01 && 0.01 <= fit.by_d_interval.high;
  }
  CHECK(inside >= 930);
  CHECK(inside <= 970);
  CHECK(slopes >= 930);
  CHECK(slopes <= 970);
}

TEST_CASE("the error of a cell left out is that of fits without it", "[quick]") {
  const auto cells = gap_cells(runs(0.05, -0.004, 0.01, 0.02, 5), runs(0, 0, 0, 0.02, 6));
  double squares = 0;
  for (size_t i = 0; i < cells.size(); ++i) {
    std::vector<PlaneCell> rest = cells;
    rest.erase(rest.begin() + static_cast<std::ptrdiff_t>(i));
    squares += std::pow(cells[i].value - plane_at(fit_plane(rest), cells[i].n, cells[i].d).value, 2);
  }
  CHECK(fit_plane(cells).left_out == Approx(std::sqrt(squares / static_cast<double>(cells.size()))));
}

TEST_CASE("what cannot be fitted says why", "[quick]") {
  const auto all = gap_cells(runs(0, 0, 0, 0.01, 1), runs(0, 0, 0, 0.01, 2));
  CHECK(fit_plane(std::span(all).first(4)).missing.find("4 (N, D)") != std::string::npos);
  std::vector<PlaneCell> line;  // D always 20 N
  for (const double n : {1e4, 2e4, 4e4, 8e4, 1.6e5}) line.push_back({n, 20 * n, 0.1, 1});
  CHECK(fit_plane(line).missing.find("apart") != std::string::npos);
  CHECK(gap_cells(runs(0, 0, 0, 0, 1), {}).empty());
}

// The numbers of a second program (least squares by Gauss and Jordan in exact order, Python).
TEST_CASE("the committed ladder predicts the gaps of 0.8M and 3.2M weights", "[quick]") {
  auto points = fp4::tools::read_ladder("results/ladder_small/runs.csv").points;
  const GapRule rule = gap_rule(points, "bf16");
  const PlaneFit& mxfp4 = rule.planes.at("mxfp4_all");
  REQUIRE(mxfp4.cells == 8);
  CHECK(mxfp4.by_d == Approx(0.0209).margin(5e-5));
  CHECK(mxfp4.by_n == Approx(-0.0063).margin(5e-5));
  CHECK(mxfp4.left_out == Approx(0.0136).margin(5e-5));
  const auto held = fp4::tools::read_ladder("results/ladder/runs.csv").points;
  const auto cells = gap_cells(held.at("mxfp4_all"), held.at("bf16"));
  REQUIRE(cells.size() == 2);
  CHECK(cells[0].value == Approx(0.0845).margin(5e-5));
  const PlaneAt there = plane_at(mxfp4, cells[0].n, cells[0].d);
  CHECK(there.value == Approx(0.0825).margin(5e-5));
  CHECK(there.interval().high - there.value == Approx(0.0413).margin(1e-4));
  CHECK(plane_at(mxfp4, cells[1].n, cells[1].d).value == Approx(0.0691).margin(5e-5));
}

TEST_CASE("a plane has skill where it foretells better than no change, and else the nearest size speaks", "[quick]") {
  using Ladder = std::map<std::string, std::vector<LawPoint>>;
  // Sizes 2e4, 6e4 and 2e5: the largest is foretold from the two others, at three D.
  const auto rule = [](double by_n, double by_d, double noise) {
    return gap_rule(Ladder{{"a", runs(0.3, by_n, by_d, noise, 1)}, {"bf16", runs(0, 0, 0, noise, 2)}}, "bf16");
  };
  const GapRule grows = rule(0.05, 0.01, 1e-4), stays = rule(0, 0, 0.01);
  CHECK(grows.skill.gaps == 3);
  CHECK(grows.skill.plane_has_skill());
  CHECK(grows.skill.nearest == Approx(0.05 * std::log(10.0 / 3)).epsilon(0.01));
  CHECK(grows.at("a", 1e6, 6.4e6).value == Approx(0.3 + 0.05 * std::log(1e6) + 0.01 * std::log(6.4e6)).epsilon(0.01));
  CHECK_FALSE(stays.skill.plane_has_skill());
  CHECK(stays.at("a", 1e6, 1e8).value == stays.cells.at("a").back().value);
  CHECK(stays.at("a", 1e6, 1e8).error == stays.skill.nearest);
  CHECK(stays.at("a", 1.9e5, 4.5e5).value == stays.cells.at("a")[6].value);  // 2e5 weights, 4e5 tokens
  // Nothing to foretell: the spread of the cells.
  Ladder one = {{"a", runs(0.3, 0, 0, 0.01, 1)}, {"bf16", runs(0, 0, 0, 0.01, 2)}};
  for (auto& [name, points] : one) std::erase_if(points, [](const LawPoint& p) { return p.n != 2e4; });
  const GapRule small = gap_rule(one, "bf16");
  CHECK(small.skill.gaps == 0);
  CHECK(small.at("a", 1e6, 1e8).error > 0);
  CHECK(small.at("a", 1e6, 1e8).freedom == 2);
}

// The numbers of a second program (normal equations by Gauss and Jordan, Python): the eight gaps of FP4 recipes at 401k
// and 803k weights, from all smaller sizes.
TEST_CASE("the committed ladder: no change from 221k weights beats the plane", "[quick]") {
  const auto small = fp4::tools::read_ladder("results/ladder_fixed/runs.csv").points;
  auto large = fp4::tools::read_ladder("results/ladder_fixed/held_out.csv").points;
  large.erase("fp32");
  const GapRule rule = gap_rule(small, "bf16", large);
  CHECK(rule.skill.gaps == 8);
  CHECK(rule.skill.plane == Approx(0.0158448).margin(1e-6));
  CHECK(rule.skill.nearest == Approx(0.0045586).margin(1e-6));
  CHECK_FALSE(rule.skill.plane_has_skill());
}

TEST_CASE("published results are read from their file", "[quick]") {
  REQUIRE(published_orders().size() == 4);
  const PublishedOrder& first = published_orders().front();
  CHECK(first.source == "2605.09825");
  CHECK(first.numbers.size() == 7);  // two stand beside what they do not mend
  CHECK(first.tokens.size() == 5);
  CHECK(first.tokens.at("mxfp4_all").low == Approx(1.26));
}

TEST_CASE("agreement with a published order", "[quick]") {
  const PublishedOrder order{"source", "loss", {{"mxfp8", 0}, {"good", 1}, {"bad", 2}, {"absent", 3}}};
  std::map<std::string, std::vector<LawPoint>> points = {{"base", runs(0, 0, 0, 0, 1)},
                                                         {"mxfp8", runs(0.001, 0, 0, 0, 2)},
                                                         {"good", runs(0.01, 0, 0, 0, 3)},
                                                         {"bad", runs(0.02, 0, 0, 0, 4)}};
  const auto found = agreement(order, points, "base", 100);
  REQUIRE(found.has_value());
  CHECK(found->recipes == std::vector<std::string>{"mxfp8", "good", "bad"});
  CHECK(found->all.value == 1);
  CHECK(found->all.median == 1);
  CHECK(found->all.interval.low == 1);
  CHECK(found->all.chance == Approx(1.0 / 6));  // one of the six orders of three
  CHECK(found->fp4.chance == 0.5);
  CHECK(found->fp4_recipes == 2);
  std::swap(points["good"], points["bad"]);
  const auto reversed = agreement(order, points, "base", 100);
  CHECK(reversed->all.value == Approx(1.0 / 3));  // one pair of three the wrong way
  CHECK(reversed->all.chance == 0.5);             // so do two others, and one agrees more
  CHECK(reversed->fp4.value == -1);
  CHECK(reversed->fp4.chance == 1);
  points.erase("bad"), points.erase("good");
  CHECK_FALSE(agreement(order, points, "base", 100).has_value());
}

// numpy.linalg.lstsq on ln L of the cells, ln N and ln(steps).
TEST_CASE("over steps, the small ladder foretells bf16's loss at 0.8M weights within 2 %, at 3.2M within 3 %",
          "[quick]") {
  const auto fit = fit_plane(loss_cells(fp4::tools::read_ladder("results/ladder_small/runs.csv").points.at("bf16")));
  REQUIRE(fit.cells == 8);
  CHECK(fit.by_n == Approx(-0.1002).margin(5e-5));
  CHECK(fit.by_d == Approx(-0.0742).margin(5e-5));
  const auto held = loss_cells(fp4::tools::read_ladder("results/ladder/runs.csv").points.at("bf16"));
  REQUIRE(held.size() == 2);
  CHECK(held[0].d == 3920);
  CHECK(std::abs(plane_at(fit, held[0].n, held[0].d).value - held[0].value) < 0.02);
  CHECK(std::abs(plane_at(fit, held[1].n, held[1].d).value - held[1].value) < 0.03);
}
