// The statistics of studies: t intervals, exact intervals of shares, and weighted averages over an importance sample.
// Runs are paired by seed: a comparison takes the differences of two configurations on the same seeds, never two
// intervals, because the spread of a difference is 3-100 times smaller.
// Sources: Student 1908 (t), Dunn 1961 (Bonferroni's intervals), Hajek 1971 (ratio estimator), Kish 1965 (effective
// sample size).
#pragma once

#include <cmath>
#include <cstddef>
#include <optional>
#include <span>
#include <vector>

namespace fp4::sweeps {

struct Interval {
  double low = 0;
  double high = 0;
};

// n values: mean, SD (n - 1 in the denominator; 0 below n = 2) and mean +- t * SD / sqrt(n); no interval below n = 3.
struct Summary {
  size_t n = 0;
  double mean = 0;
  double sd = 0;
  std::optional<Interval> interval;
  double error() const { return n == 0 ? 0 : sd / std::sqrt(static_cast<double>(n)); }  // of the mean
};

double t_quantile(double probability, double degrees_of_freedom);

Summary summarise(std::span<const double> values, double confidence = 0.95);

// Smallest true paired difference, in SDs of that difference, that n seeds find with the given power at a level alpha:
// (t(1 - alpha/2, n-1) + t(power, n-1)) / sqrt(n); at 5 %: 3.1 for n = 3, 1.7 (5), 1.0 (10), 0.66 (20). Infinite below
// n = 2.
double detectable_effect(size_t n, double power = 0.8, double alpha = 0.05);

// The same at 80 % for a difference of minima (rungs.h), whose ends come from other pairs of rungs than its mean: the
// effect of either sign that puts an end t(.8, n-1) of its pair's standard errors beyond 0.
double detectable_effect(const Interval& held, double mean, double low_error, double high_error, size_t n);

// The exact interval of a share of which `successes` of `trials` were seen: each end is wrong with probability alpha /
// 2 at most (Clopper and Pearson 1934).
Interval clopper_pearson(size_t successes, size_t trials, double alpha = 0.05);

// Hajek's estimate sum(y/p) / sum(1/p) over a sample with inclusion probabilities p, and the effective sample size
// (sum w)^2 / sum w^2 with w = 1/p.
struct WeightedMean {
  double mean = 0;
  double effective_n = 0;
};
WeightedMean hajek(std::span<const double> y, std::span<const double> probability);

// Kendall's tau-b of two equally long lists (ties allowed); 0 when either list is constant.
double kendall_tau(std::span<const double> a, std::span<const double> b);

// The value below which a share q of the sorted copy lies, linear between neighbours (type 7 of Hyndman and Fan).
double quantile(std::vector<double> values, double q);

}  // namespace fp4::sweeps
