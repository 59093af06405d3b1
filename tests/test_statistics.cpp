// Statistics against printed tables (Student's t: NIST/SEMATECH e-Handbook 1.3.6.7.2), hand-worked examples and the
// promises a study makes: intervals that hold 95 %, null studies that call no winner.
#include <catch2/catch.hpp>
#include <cmath>
#include <random>

#include "sweeps/judge/statistics.h"

using namespace fp4::sweeps;

TEST_CASE("t quantiles equal the printed table", "[quick]") {
  CHECK(t_quantile(0.975, 2) == Approx(4.303).margin(5e-4));
  CHECK(t_quantile(0.975, 4) == Approx(2.776).margin(5e-4));
  CHECK(t_quantile(0.975, 9) == Approx(2.262).margin(5e-4));
  CHECK(t_quantile(0.9, 30) == Approx(1.310).margin(5e-4));
  CHECK(t_quantile(0.025, 4) == Approx(-2.776).margin(5e-4));
  CHECK(t_two_sided_p(2.776, 4) == Approx(0.05).margin(5e-5));
  CHECK(t_two_sided_p(-4.303, 2) == Approx(0.05).margin(5e-5));
  CHECK(t_two_sided_p(INFINITY, 4) == 0);
}

TEST_CASE("a summary of 1..5 by hand", "[quick]") {
  const std::vector<double> values = {1, 2, 3, 4, 5};
  const Summary summary = summarise(values);
  CHECK(summary.n == 5);
  CHECK(summary.mean == 3);
  CHECK(summary.sd == Approx(std::sqrt(2.5)));
  // 3 +- 2.776445 * sqrt(2.5 / 5)
  CHECK(summary.interval->low == Approx(3 - 2.776445 * std::sqrt(0.5)));
  CHECK(summary.interval->high == Approx(3 + 2.776445 * std::sqrt(0.5)));
}

TEST_CASE("no interval below three values, none at all from nothing", "[quick]") {
  CHECK_FALSE(summarise(std::vector<double>{1, 2}).interval);
  CHECK(summarise(std::vector<double>{1, 2, 3}).interval);
  CHECK(summarise(std::vector<double>{7}).sd == 0);
  CHECK(summarise(std::vector<double>{}).n == 0);
}

TEST_CASE("Holm's example: 0.01, 0.04, 0.03, 0.005", "[quick]") {
  // Sorted .005 .01 .03 .04 times 4, 3, 2, 1 = .02 .03 .06 .04, made monotone: .02 .03 .06 .06.
  const std::vector<double> adjusted = holm(std::vector<double>{0.01, 0.04, 0.03, 0.005});
  CHECK(adjusted[0] == Approx(0.03));
  CHECK(adjusted[1] == Approx(0.06));
  CHECK(adjusted[2] == Approx(0.06));
  CHECK(adjusted[3] == Approx(0.02));
  CHECK(holm(std::vector<double>{0.9, 0.8})[0] == 1);
}

TEST_CASE("the four words of a comparison", "[quick]") {
  std::vector<Comparison> family(6);
  family[0].differences = {-1.0, -1.1, -0.9, -1.05};  // far below 0
  family[1].differences = {1.0, 1.1, 0.9, 1.05};
  family[2].differences = {0.001, -0.001, 0.0005, -0.0004};  // within +-0.1
  family[3].differences = {-1, 1, -2, 2};
  family[4].differences = {-5, -5};  // two seeds decide nothing
  family[5].decided_by_divergence = Verdict::worse;
  judge(family, 0.1);
  CHECK(family[0].verdict == Verdict::better);
  CHECK(family[1].verdict == Verdict::worse);
  CHECK(family[2].verdict == Verdict::equal);
  CHECK(family[3].verdict == Verdict::undecided);
  CHECK(family[4].verdict == Verdict::undecided);
  CHECK(family[5].verdict == Verdict::worse);
  judge(family, 0);  // "no effect" without a delta is not a finding
  CHECK(family[2].verdict == Verdict::undecided);
}

TEST_CASE("equal digests differ by exactly nothing, a constant offset is certain", "[quick]") {
  std::vector<Comparison> family(2);
  family[0].differences = {0, 0, 0};
  family[1].differences = {-0.25, -0.25, -0.25};
  judge(family, 0.01);
  CHECK(family[0].p == 1);
  CHECK(family[0].verdict == Verdict::equal);
  CHECK(family[1].p == 0);
  CHECK(family[1].verdict == Verdict::better);
  judge(family, 0);
  CHECK(family[0].verdict == Verdict::equal);
}

TEST_CASE("a word agrees with the interval it was read from", "[quick]") {
  std::mt19937_64 engine(7);
  std::normal_distribution<double> noise;
  for (int study = 0; study < 200; ++study) {
    std::vector<Comparison> family(8);
    for (size_t i = 0; i < family.size(); ++i) {
      for (int s = 0; s < 5; ++s) family[i].differences.push_back(noise(engine) + 0.6 * static_cast<double>(i));
    }
    judge(family, 0.5);
    for (const Comparison& comparison : family) {
      const bool excludes = comparison.holm_interval->low > 0 || comparison.holm_interval->high < 0;
      const bool decided = comparison.verdict == Verdict::better || comparison.verdict == Verdict::worse;
      CHECK(excludes == decided);
    }
  }
}

TEST_CASE("the detectable effect of 3, 5, 10 and 20 seeds", "[quick]") {
  CHECK(detectable_effect(3) == Approx(3.1).margin(0.05));
  CHECK(detectable_effect(5) == Approx(1.7).margin(0.05));
  CHECK(detectable_effect(10) == Approx(1.0).margin(0.05));
  CHECK(detectable_effect(20) == Approx(0.66).margin(0.005));
  CHECK(std::isinf(detectable_effect(1)));
}

TEST_CASE("intervals hold 93 to 97 percent of the time and null families call at most 5 percent", "[quick]") {
  std::mt19937_64 engine(2026);
  std::normal_distribution<double> noise(0.3, 2.0);
  for (const int n : {3, 5, 10}) {
    int held = 0;
    const int studies = 20000;
    for (int study = 0; study < studies; ++study) {
      std::vector<double> values;
      for (int s = 0; s < n; ++s) values.push_back(noise(engine));
      const Interval interval = *summarise(values).interval;
      held += interval.low <= 0.3 && 0.3 <= interval.high;
    }
    CHECK(held >= 0.93 * studies);
    CHECK(held <= 0.97 * studies);
  }
  std::normal_distribution<double> null(0, 1);
  int called = 0;
  const int studies = 4000;
  for (int study = 0; study < studies; ++study) {
    std::vector<Comparison> family(20);
    for (Comparison& comparison : family) {
      for (int s = 0; s < 5; ++s) comparison.differences.push_back(null(engine));
    }
    judge(family, 0);
    bool any = false;
    for (const Comparison& comparison : family) any |= comparison.verdict != Verdict::undecided;
    called += any;
  }
  CHECK(called <= 0.05 * studies + 3 * std::sqrt(studies * 0.05 * 0.95));
  CHECK(called >= 0.03 * studies);  // a correction that never calls anything would be useless
}

TEST_CASE("Hajek's mean and its effective size by hand", "[quick]") {
  // Weights 1 and 4: (1*10 + 4*20) / 5 = 18; (1 + 4)^2 / (1 + 16) = 25/17.
  const WeightedMean mean = hajek(std::vector<double>{10, 20}, std::vector<double>{1, 0.25});
  CHECK(mean.mean == Approx(18));
  CHECK(mean.effective_n == Approx(25.0 / 17));
}

TEST_CASE("Kendall's tau with and without ties", "[quick]") {
  CHECK(kendall_tau(std::vector<double>{1, 2, 3, 4}, std::vector<double>{1, 2, 3, 4}) == Approx(1));
  CHECK(kendall_tau(std::vector<double>{1, 2, 3, 4}, std::vector<double>{4, 3, 2, 1}) == Approx(-1));
  CHECK(kendall_tau(std::vector<double>{1, 2, 3, 4}, std::vector<double>{1, 2, 4, 3}) == Approx(4.0 / 6));
  CHECK(kendall_tau(std::vector<double>{1, 1, 2}, std::vector<double>{1, 2, 3}) == Approx(2 / std::sqrt(2.0 * 3)));
  CHECK(kendall_tau(std::vector<double>{1, 1}, std::vector<double>{1, 2}) == 0);
}

TEST_CASE("quantiles interpolate between neighbours", "[quick]") {
  CHECK(quantile({4, 1, 3, 2}, 0) == 1);
  CHECK(quantile({4, 1, 3, 2}, 1) == 4);
  CHECK(quantile({4, 1, 3, 2}, 0.5) == Approx(2.5));
  CHECK(std::isnan(quantile({}, 0.5)));
}
