// Ladders by hand: a minimum inside, at an end that the ladder grows past, at an end that it does not, and divergence.
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdlib>
#include <limits>

#include "sweeps/grid/tuning.h"

using namespace fp4::sweeps;

namespace {

const double inf = std::numeric_limits<double>::infinity();

// Asks for rungs until the ladder is satisfied; `asked` counts the rounds.
template <class Loss>
Climb climb_all(const Ladder& ladder, Loss&& loss, int& asked, std::map<int, double>& known) {
  for (asked = 0;; ++asked) {
    const Climb step = climb(ladder, known);
    if (step.wanted.empty()) return step;
    for (const int e : step.wanted) known[e] = loss(e);
  }
}

}  // namespace

TEST_CASE("rungs stand around the start and are written with four digits", "[quick]") {
  const Ladder ladder = {.start = 0.002, .factor = 2, .rungs = 4};
  CHECK(rung_value(ladder, -2) == 0.0005);
  CHECK(rung_value(ladder, 0) == 0.002);
  CHECK(rung_value(ladder, 1) == 0.004);
  CHECK(rung_value({.start = 0.002, .factor = std::sqrt(2.0)}, 1) == 0.002828);
  CHECK(rung_value({.start = 0.0012345, .factor = 2}, 0) == 0.0012345);
  CHECK(climb(ladder, {}).wanted == std::vector<int>{-2, -1, 0, 1});
  CHECK(climb({.start = 1, .factor = 2, .rungs = 3}, {}).wanted == std::vector<int>{-1, 0, 1});
  CHECK(climb(ladder, {{-2, 1}, {0, 1}}).wanted == std::vector<int>{-1, 1});
}

TEST_CASE("a minimum inside needs no further rung", "[quick]") {
  int asked = 0;
  std::map<int, double> known;
  const Climb end = climb_all(
      {.start = 1}, [](int e) { return (e + 1) * (e + 1); }, asked, known);
  CHECK(end.best == -1);
  CHECK_FALSE(end.at_edge);
  CHECK(asked == 1);
  CHECK(known.size() == 4);
}

TEST_CASE("a minimum at an end makes the ladder grow there, three times at most", "[quick]") {
  int asked = 0;
  std::map<int, double> known;
  Climb end = climb_all(
      {.start = 1}, [](int e) { return (e - 3) * (e - 3); }, asked, known);
  CHECK(end.best == 3);  // rungs 2, 3 and 4 were added
  CHECK_FALSE(end.at_edge);
  CHECK(known.contains(4));
  CHECK(known.size() == 7);
  known.clear();
  end = climb_all(
      {.start = 1}, [](int e) { return e; }, asked, known);
  CHECK(end.best == -5);
  CHECK(end.at_edge);
  CHECK(known.size() == 7);
  CHECK(asked == 4);
}

TEST_CASE("a best rung with tried ones on both sides is not at the edge", "[quick]") {
  int asked = 0;
  std::map<int, double> known;
  // In half steps: three further rungs below end at -10, and -11 and -9 are tried beside it.
  for (const auto& [minimum, at_edge] : {std::pair(-9, false), std::pair(-10, false), std::pair(-11, true)}) {
    known.clear();
    const Climb end = climb_all(
        {.start = 1, .parts = 2}, [best = minimum](int e) { return std::abs(e - best); }, asked, known);
    CHECK(end.best == minimum);
    CHECK(end.at_edge == at_edge);
  }
  known.clear();
  CHECK(climb_all(
            {.start = 1, .parts = 2}, [](int) { return inf; }, asked, known)
            .at_edge);  // nothing finished
}

TEST_CASE("divergence is worse than every loss, and equal losses take the smaller value", "[quick]") {
  int asked = 0;
  std::map<int, double> known;
  Climb end = climb_all(
      {.start = 1}, [](int e) { return e >= 0 ? inf : 5.0 - e; }, asked, known);
  CHECK(end.best == -1);
  CHECK_FALSE(end.at_edge);
  known.clear();
  end = climb_all(
      {.start = 1}, [](int) { return inf; }, asked, known);
  CHECK(end.at_edge);  // nothing finished within three further rungs below
  CHECK(end.best == -5);
  known = {{-2, 4}, {-1, 3}, {0, 3}, {1, 4}};
  CHECK(climb({.start = 1}, known).best == -1);
}
