// Boost.Math supplies Student's t; everything else is a few lines over it. A spread of exactly 0 (equal digests, or a
// deterministic offset) is not an error: the t statistic is then 0 or infinite, and p is 1 or 0.
#include "sweeps/judge/statistics.h"

#include <algorithm>
#include <boost/math/distributions/students_t.hpp>
#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <mutex>
#include <numeric>
#include <utility>

namespace fp4::sweeps {

double t_quantile(double probability, double degrees_of_freedom) {
  // Tables ask for the same few quantiles thousands of times and Boost iterates for each: remember them.
  static std::mutex mutex;
  static std::map<std::pair<double, double>, double> known;
  const std::lock_guard lock(mutex);
  const auto [entry, fresh] = known.try_emplace({probability, degrees_of_freedom}, 0.0);
  if (fresh) entry->second = boost::math::quantile(boost::math::students_t(degrees_of_freedom), probability);
  return entry->second;
}

double t_two_sided_p(double t, double degrees_of_freedom) {
  if (std::isnan(t)) return 1;
  if (std::isinf(t)) return 0;
  const boost::math::students_t distribution(degrees_of_freedom);
  return std::min(1.0, 2 * boost::math::cdf(boost::math::complement(distribution, std::fabs(t))));
}

Summary summarise(std::span<const double> values, double confidence) {
  Summary summary{.n = values.size(), .interval = {}};
  if (values.empty()) return summary;
  const auto n = static_cast<double>(values.size());
  summary.mean = std::accumulate(values.begin(), values.end(), 0.0) / n;
  if (values.size() < 2) return summary;
  double squares = 0;
  for (const double value : values) squares += (value - summary.mean) * (value - summary.mean);
  summary.sd = std::sqrt(squares / (n - 1));
  if (values.size() < 3) return summary;
  const double half = t_quantile(0.5 + confidence / 2, n - 1) * summary.sd / std::sqrt(n);
  summary.interval = {summary.mean - half, summary.mean + half};
  return summary;
}

std::vector<double> holm(std::span<const double> p_values) {
  const size_t m = p_values.size();
  std::vector<size_t> order(m);
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return p_values[a] < p_values[b]; });
  std::vector<double> adjusted(m);
  double largest = 0;
  for (size_t rank = 0; rank < m; ++rank) {
    largest = std::max(largest, std::min(1.0, static_cast<double>(m - rank) * p_values[order[rank]]));
    adjusted[order[rank]] = largest;
  }
  return adjusted;
}

std::string_view word(Verdict verdict) {
  switch (verdict) {
    case Verdict::better: return "better";
    case Verdict::worse: return "worse";
    case Verdict::equal: return "equal";
    case Verdict::undecided: return "undecided";
  }
  return "";
}

namespace {

double paired_p(const Summary& summary) {
  if (summary.n < 3) return 1;
  const double standard_error = summary.sd / std::sqrt(static_cast<double>(summary.n));
  if (standard_error == 0) return summary.mean == 0 ? 1 : 0;
  return t_two_sided_p(summary.mean / standard_error, static_cast<double>(summary.n - 1));
}

}  // namespace

void judge(std::vector<Comparison>& family, double delta, double alpha) {
  std::vector<size_t> tested;
  std::vector<double> p_values;
  for (size_t i = 0; i < family.size(); ++i) {
    Comparison& comparison = family[i];
    comparison.summary = summarise(comparison.differences);
    comparison.p = paired_p(comparison.summary);
    if (comparison.decided_by_divergence) {
      comparison.verdict = *comparison.decided_by_divergence;
      continue;
    }
    tested.push_back(i);
    p_values.push_back(comparison.p);
  }
  const std::vector<double> adjusted = holm(p_values);
  // Step-down: the k-th smallest p is tested at alpha / (m - k); from the first that fails on, everything stays at the
  // level of that failure. The interval shown and used for `equal` is the one of that level.
  std::vector<double> sorted = p_values;
  std::sort(sorted.begin(), sorted.end());
  const size_t m = sorted.size();
  size_t rejected = 0;
  while (rejected < m && sorted[rejected] <= alpha / static_cast<double>(m - rejected)) ++rejected;
  for (size_t k = 0; k < m; ++k) {
    Comparison& comparison = family[tested[k]];
    comparison.p_holm = adjusted[k];
    comparison.verdict = Verdict::undecided;
    if (comparison.summary.n < 3) continue;
    const auto rank = static_cast<size_t>(std::lower_bound(sorted.begin(), sorted.end(), p_values[k]) - sorted.begin());
    const double level = alpha / static_cast<double>(m - std::min({rank, rejected, m - 1}));
    comparison.holm_interval = summarise(comparison.differences, 1 - level).interval;
    const Interval& interval = *comparison.holm_interval;
    if (comparison.p_holm <= alpha) {
      comparison.verdict = comparison.summary.mean < 0 ? Verdict::better : Verdict::worse;
    } else if (interval.low >= -delta && interval.high <= delta) {
      comparison.verdict = Verdict::equal;
    }
  }
}

double detectable_effect(size_t n, double power) {
  if (n < 2) return std::numeric_limits<double>::infinity();
  const auto freedom = static_cast<double>(n - 1);
  return (t_quantile(0.975, freedom) + t_quantile(power, freedom)) / std::sqrt(static_cast<double>(n));
}

WeightedMean hajek(std::span<const double> y, std::span<const double> probability) {
  double weights = 0;
  double squares = 0;
  double total = 0;
  for (size_t i = 0; i < y.size(); ++i) {
    const double weight = 1 / probability[i];
    weights += weight;
    squares += weight * weight;
    total += weight * y[i];
  }
  if (weights == 0) return {};
  return {.mean = total / weights, .effective_n = weights * weights / squares};
}

double kendall_tau(std::span<const double> a, std::span<const double> b) {
  // Rungs hold at most a few thousand configurations: the quadratic count is milliseconds and needs no second look.
  int64_t score = 0;
  int64_t untied_a = 0;
  int64_t untied_b = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    for (size_t j = i + 1; j < a.size(); ++j) {
      const int sign_a = (a[i] > a[j]) - (a[i] < a[j]);
      const int sign_b = (b[i] > b[j]) - (b[i] < b[j]);
      score += sign_a * sign_b;
      untied_a += sign_a != 0;
      untied_b += sign_b != 0;
    }
  }
  if (untied_a == 0 || untied_b == 0) return 0;
  return static_cast<double>(score) / std::sqrt(static_cast<double>(untied_a) * static_cast<double>(untied_b));
}

double quantile(std::vector<double> values, double q) {
  if (values.empty()) return std::numeric_limits<double>::quiet_NaN();
  std::sort(values.begin(), values.end());
  const double position = q * static_cast<double>(values.size() - 1);
  const auto below = static_cast<size_t>(position);
  const size_t above = std::min(below + 1, values.size() - 1);
  return values[below] + (position - static_cast<double>(below)) * (values[above] - values[below]);
}

}  // namespace fp4::sweeps
