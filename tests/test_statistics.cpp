// Statistics against printed tables (Student's t: NIST/SEMATECH e-Handbook 1.3.6.7.2), hand-worked examples and the
// promises a study makes: intervals that hold 95 %, null studies that call no winner.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <random>

#include "sweeps/judge/comparison.h"
#include "tests/support/share.h"

using namespace fp4::sweeps;

TEST_CASE("t quantiles equal the printed table", "[quick]") {
  CHECK(t_quantile(0.975, 2) == Approx(4.303).margin(5e-4));
  CHECK(t_quantile(0.975, 4) == Approx(2.776).margin(5e-4));
  CHECK(t_quantile(0.975, 9) == Approx(2.262).margin(5e-4));
  CHECK(t_quantile(0.9, 30) == Approx(1.310).margin(5e-4));
  CHECK(t_quantile(0.025, 4) == Approx(-2.776).margin(5e-4));
}

TEST_CASE("t quantiles equal the closed forms of 1, 2 and 4 degrees of freedom, far into the tails", "[quick]") {
  // Shaw 2006, Sampling Student's T distribution, section 4: tan; 2 a / sqrt(alpha / 2), .. with a = p - 1/2,
  // alpha = 4 p (1 - p).
  const double pi = std::acos(-1.0);
  for (const double tail : {1e-14, 1e-9, 1e-5, 9.99e-4, 1.001e-3, 0.01, 0.2, 0.4, 0.499}) {
    const double alpha = 4 * tail * (1 - tail), away = 0.5 - tail;
    INFO(tail);
    CHECK(-t_quantile(tail, 1) == Approx(tail < 0.25 ? 1 / std::tan(pi * tail) : std::tan(pi * away)).epsilon(1e-10));
    CHECK(-t_quantile(tail, 2) == Approx(2 * away / std::sqrt(alpha / 2)).epsilon(1e-10));
    const double q = std::cos(std::acos(std::sqrt(alpha)) / 3) / std::sqrt(alpha);
    CHECK(-t_quantile(tail, 4) == Approx(2 * std::sqrt(q - 1)).epsilon(tail > 0.49 ? 1e-7 : 1e-10));
  }
  CHECK(t_quantile(0.5, 7) == 0);
  CHECK(t_quantile(0.975, 1e6) == Approx(1.959966).margin(1e-6));  // nearly the normal distribution's 1.959964
}

TEST_CASE("at the ends of an exact interval for a share, so many or so few are as rare as it says", "[quick]") {
  const auto at_most = [](size_t k, size_t n, double p) {  // P(X <= k), by its sum
    double sum = 0, term = std::pow(1 - p, static_cast<double>(n));
    for (size_t i = 0; i <= k; ++i) {
      sum += term;
      term *= static_cast<double>(n - i) / static_cast<double>(i + 1) * p / (1 - p);
    }
    return sum;
  };
  for (const size_t n : {size_t{5}, size_t{50}}) {
    for (size_t k = 1; k < n; k += 3) {
      const Interval interval = clopper_pearson(k, n, 0.05);
      INFO(k << " of " << n);
      CHECK(at_most(k, n, interval.high) == Approx(0.025).epsilon(1e-9));
      CHECK(1 - at_most(k - 1, n, interval.low) == Approx(0.025).epsilon(1e-9));
    }
  }
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

namespace {

Comparison of(const std::vector<double>& differences) {
  Comparison comparison;
  comparison.settings = {{.mine = {differences}, .theirs = {std::vector<double>(differences.size(), 0)}}};
  return comparison;
}

void add(Comparison& comparison, double difference) {
  if (comparison.settings.empty()) comparison = of({});
  comparison.settings[0].mine[0].push_back(difference);
  comparison.settings[0].theirs[0].push_back(0);
}

void judge_with(std::vector<Comparison>& family, double delta) {
  for (Comparison& comparison : family) comparison.delta = delta;
  judge(family);
}

}  // namespace

TEST_CASE("the four words of a comparison", "[quick]") {
  std::vector<Comparison> family(6);
  family[0] = of({-1.0, -1.1, -0.9, -1.05});  // far below 0
  family[1] = of({1.0, 1.1, 0.9, 1.05});
  for (int s = 0; s < 160; ++s) add(family[2], s % 2 == 0 ? 0.001 : -0.001);  // within +-.1
  family[3] = of({-1, 1, -2, 2});
  family[4] = of({-5, -5});                           // two seeds decide nothing
  family[5] = of(std::vector<double>(12, INFINITY));  // diverged where the other side did not
  judge_with(family, 0.1);
  CHECK(family[0].verdict == Verdict::better);
  CHECK(family[1].verdict == Verdict::worse);
  CHECK(family[2].verdict == Verdict::equal);
  CHECK(family[3].verdict == Verdict::undecided);
  CHECK(family[4].verdict == Verdict::undecided);
  CHECK(family[5].verdict == Verdict::worse);
  judge_with(family, 0);  // "no effect" without a delta is not a finding
  CHECK(family[2].verdict == Verdict::undecided);
}

TEST_CASE("equal is what a failure that no seed has shown would leave equal, by hand", "[quick]") {
  // 159 differences of 0 and one of 3: mean .01875, standard error .01875, t(.975, 159) = 1.975, so the interval ends
  // at .0558. A failure of 3 at a rate of 3 / 160 adds .05625 to it: .1120.
  std::vector<double> differences(160, 0.0);
  differences[40] = 3;
  std::vector<Comparison> family = {of(differences)};
  judge_with(family, 0.11);
  CHECK(family[0].interval->high == Approx(0.05578).epsilon(1e-3));
  CHECK(family[0].verdict == Verdict::undecided);
  judge_with(family, 0.114);
  CHECK(family[0].verdict == Verdict::equal);
}

TEST_CASE("intervals of a family are Bonferroni's, by hand", "[quick]") {
  // Five comparisons with pairs, one whose runs all diverged, one of two pairs: m = 5, level .05 / 5 = .01, and the
  // printed table gives t(.995, 4) = 4.604, t(.8, 4) = .941. 1 .. 5 has mean 3 and SD sqrt(2.5).
  std::vector<Comparison> family(7);
  for (size_t i = 0; i < 5; ++i) family[i] = of({1, 2, 3, 4, 5});
  family[5] = of(std::vector<double>(5, INFINITY));
  family[6] = of({1, 2});
  judge(family);
  const double error = std::sqrt(2.5 / 5);
  for (size_t i = 0; i < 5; ++i) {
    CHECK(family[i].interval->low == Approx(3 - 4.604 * error).margin(5e-4));
    CHECK(family[i].interval->high == Approx(3 + 4.604 * error).margin(5e-4));
    CHECK(family[i].summary.interval->high == Approx(3 + 2.776 * error).margin(5e-4));  // raw: of one alone
    CHECK(family[i].detectable == Approx((4.604 + 0.941) * error).margin(1e-3));
    CHECK(family[i].verdict == Verdict::undecided);  // the raw interval leaves out 0, the family's does not
  }
  CHECK_FALSE(family[6].interval);
}

TEST_CASE("an effect as large as detectable is found four times in five, at one rung and at two", "[quick]") {
  // 20 seeds, rungs of one true mean. At one rung two settings share 24 of 25 parts of their variance, as runs of one
  // seed do, so that pairs of other rungs have a standard error five times as large. The planted effect is the median
  // of what 400 studies without one call detectable; found where no end holds 0. By the SD of the mean's pair alone,
  // two rungs would find a gain in 4 of 100 and a loss in 61.
  constexpr int studies = 400;
  std::mt19937_64 engine(5);
  std::normal_distribution<double> normal;
  for (const size_t rungs : {size_t{1}, size_t{2}}) {
    std::vector<double> detectable;
    double found[2] = {};
    for (const double sign : {0.0, 1.0, -1.0}) {
      const double effect = sign == 0 ? 0 : sign * quantile(detectable, 0.5);
      for (int i = 0; i < studies; ++i) {
        const RungLosses empty(rungs, std::vector<double>(20));
        std::vector<Comparison> family(1);
        Setting& setting = family[0].settings.emplace_back(Setting{empty, empty});
        for (size_t r = 0; r < rungs; ++r) {
          for (size_t s = 0; s < 20; ++s) {
            const double shared = std::sqrt(0.96) * normal(engine);
            setting.mine[r][s] = effect + shared + 0.2 * normal(engine);
            setting.theirs[r][s] = shared + 0.2 * normal(engine);
          }
        }
        judge(family);
        const Interval held = *family[0].interval;
        if (sign == 0) detectable.push_back(family[0].detectable);
        if (sign > 0) found[0] += held.low > 0;
        if (sign < 0) found[1] += held.high < 0;
      }
    }
    INFO(rungs << " rungs: " << found[0] << " and " << found[1] << " of " << studies);
    CHECK(std::min(found[0], found[1]) > 0.75 * studies);
    CHECK(std::min(found[0], found[1]) < 0.93 * studies);
  }
}

TEST_CASE("intervals of a family hold together in 95 of 100 studies, whatever they share", "[quick]") {
  // Twelve effects of five seeds, all far from 0; half of each difference is common to the study, as a shared reference
  // makes it. Intervals that shrink step by step for what is decided already (Holm's) fail here.
  std::mt19937_64 engine(11);
  std::normal_distribution<double> noise;
  const int studies = 4000 / static_cast<int>(fp4::test::share());
  for (const bool share : {false, true}) {
    int held = 0;
    for (int study = 0; study < studies; ++study) {
      std::vector<Comparison> family(12);
      for (int s = 0; s < 5; ++s) {
        const double common = share ? noise(engine) : 0;
        for (Comparison& comparison : family) add(comparison, 1000 + common + noise(engine));
      }
      judge(family);
      held += std::all_of(family.begin(), family.end(), [](const Comparison& comparison) {
        return comparison.interval->low <= 1000 && 1000 <= comparison.interval->high;
      });
    }
    CHECK(held >= 0.95 * studies - 3 * std::sqrt(studies * 0.05 * 0.95));
  }
}

TEST_CASE("equal digests differ by exactly nothing, a constant offset is certain", "[quick]") {
  std::vector<Comparison> family(2);
  family[0] = of({0, 0, 0});
  family[1] = of({-0.25, -0.25, -0.25});
  judge_with(family, 0.01);
  CHECK(family[0].verdict == Verdict::equal);
  CHECK(family[1].verdict == Verdict::better);
  judge_with(family, 0);
  CHECK(family[0].verdict == Verdict::equal);
}

TEST_CASE("a word agrees with the interval it was read from", "[quick]") {
  std::mt19937_64 engine(7);
  std::normal_distribution<double> noise;
  for (int study = 0; study < 200; ++study) {
    std::vector<Comparison> family(8);
    for (size_t i = 0; i < family.size(); ++i) {
      for (int s = 0; s < 5; ++s) add(family[i], noise(engine) + 0.6 * static_cast<double>(i));
    }
    judge_with(family, 0.5);
    for (const Comparison& comparison : family) {
      const bool excludes = comparison.interval->low > 0 || comparison.interval->high < 0;
      const bool decided = comparison.verdict == Verdict::better || comparison.verdict == Verdict::worse;
      const double near_end = std::max(comparison.interval->low, -comparison.interval->high);
      CHECK((excludes || !decided));
      CHECK((near_end > 4 * 0.5) == decided);  // five seeds
    }
  }
}

TEST_CASE("equal is said from a hundred seeds on, unless every run is the same", "[quick]") {
  std::vector<Comparison> family(3);
  for (int s = 0; s < 40; ++s) add(family[0], s % 2 == 0 ? 0.001 : -0.001);
  for (int s = 0; s < 160; ++s) add(family[1], s % 2 == 0 ? 0.001 : -0.001);
  for (int s = 0; s < 160; ++s) add(family[2], s == 0 ? 0.6 : 0);  // one failure of .6: 3/160 of it is .011
  judge_with(family, 0.011);
  CHECK(family[0].verdict == Verdict::undecided);
  CHECK(family[1].verdict == Verdict::equal);
  CHECK(family[2].verdict == Verdict::undecided);
}

TEST_CASE("better is said within 4 delta from three hundred seeds on", "[quick]") {
  std::vector<Comparison> family(4);
  for (int s = 0; s < 400; ++s) {
    const double loss = s % 2 == 0 ? -0.011 : -0.009;
    if (s < 299) add(family[0], loss);
    if (s < 300) add(family[1], loss);
    if (s < 300) add(family[2], loss - 0.04);  // 4 delta and more
    add(family[3], s == 0 ? -1.5 : loss);      // one failure of 1.5: 3/400 of it is more than .011
  }
  judge_with(family, 0.01);
  CHECK(family[0].verdict == Verdict::undecided);
  CHECK(family[1].verdict == Verdict::better);
  CHECK(family[2].verdict == Verdict::better);
  CHECK(family[3].verdict == Verdict::undecided);
}

TEST_CASE("unequal seeds, NaN and divergence by hand", "[quick]") {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  std::vector<Comparison> family(1);
  // Seeds 1..6: the second did not run on one side, the third diverged on the other, the last is missing altogether.
  family[0].settings = {{.mine = {{5, nan, 7, 8, 9}}, .theirs = {{4, 5, INFINITY, 7, 8, 2}}}};
  judge(family);
  CHECK(family[0].summary.n == 3);
  CHECK(family[0].summary.mean == 1);
  CHECK(family[0].diverged == 0);
  CHECK(family[0].rival_diverged == 1);
  CHECK(family[0].verdict == Verdict::worse);  // exactly 1 on every pair
}

TEST_CASE("a comparison of tuned recipes is that of their least means", "[quick]") {
  // Two settings; in the first my second rung is better by .3, in the second both are alike.
  std::vector<Comparison> family(1);
  family[0].settings = {{.mine = {{1, 1, 1}, {.7, .7, .7}}, .theirs = {{1, 1, 1}}},
                        {.mine = {{2, 2, 2}}, .theirs = {{2.1, 2.1, 2.1}}}};
  judge(family);
  CHECK(family[0].summary.mean == Approx(-0.2));
  CHECK(family[0].interval->low == Approx(-0.2));
  CHECK(family[0].interval->high == Approx(-0.2));
  CHECK(family[0].verdict == Verdict::better);
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
    const int studies = 20000 / static_cast<int>(fp4::test::share());
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
  const int studies = 4000 / static_cast<int>(fp4::test::share());
  for (int study = 0; study < studies; ++study) {
    std::vector<Comparison> family(20);
    for (Comparison& comparison : family) {
      for (int s = 0; s < 5; ++s) add(comparison, null(engine));
    }
    judge(family);
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
