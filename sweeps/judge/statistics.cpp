// Eigen supplies the incomplete beta function, of which Student's t and the binomial are made (DLMF 8.17); everything
// else is a few lines over it. A spread of exactly 0 (equal digests, or a deterministic offset) is not an error: the
// interval is then one number.
#include "sweeps/judge/statistics.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <mutex>
#include <numeric>
#include <unsupported/Eigen/SpecialFunctions>
#include <utility>

namespace fp4::sweeps {

namespace {

// The x with I_x(a, b) = probability, to the last bit that I_x can tell: bit patterns of positive doubles are in the
// order of the numbers, so halving them needs 62 steps from 0 to 1, however small x is.
double inverse_beta(double a, double b, double probability) {
  if (probability <= 0) return 0;
  uint64_t low = 0, high = std::bit_cast<uint64_t>(1.0);
  while (high - low > 1) {
    const uint64_t middle = low + (high - low) / 2;
    (Eigen::numext::betainc(a, b, std::bit_cast<double>(middle)) < probability ? low : high) = middle;
  }
  return std::bit_cast<double>(high);
}

// P(|T| > t) = I_x(n/2, 1/2) with x = n / (n + t^2), and its complement with 1 - x: each where it loses no digits.
double upper_t_quantile(double tail, double n) {
  if (tail < 1e-3) {
    const double x = inverse_beta(n / 2, 0.5, 2 * tail);
    return std::sqrt(n * (1 - x) / x);
  }
  const double y = inverse_beta(0.5, n / 2, 1 - 2 * tail);
  return std::sqrt(n * y / (1 - y));
}

}  // namespace

double t_quantile(double probability, double degrees_of_freedom) {
  // Tables ask for the same few quantiles thousands of times: remember them.
  static std::mutex mutex;
  static std::map<std::pair<double, double>, double> known;
  const std::lock_guard lock(mutex);
  const auto [entry, fresh] = known.try_emplace({probability, degrees_of_freedom}, 0.0);
  if (fresh) {
    const double upper = upper_t_quantile(std::min(probability, 1 - probability), degrees_of_freedom);
    entry->second = probability < 0.5 ? -upper : upper;
  }
  return entry->second;
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

double detectable_effect(size_t n, double power, double alpha) {
  if (n < 2) return std::numeric_limits<double>::infinity();
  const auto freedom = static_cast<double>(n - 1);
  return (t_quantile(1 - alpha / 2, freedom) + t_quantile(power, freedom)) / std::sqrt(static_cast<double>(n));
}

double detectable_effect(const Interval& held, double mean, double low_error, double high_error, size_t n) {
  const double t = t_quantile(0.8, static_cast<double>(n - 1));
  return std::max(mean - held.low + t * low_error, held.high - mean + t * high_error);
}

Interval clopper_pearson(size_t successes, size_t trials, double alpha) {
  // P(X >= k) = I_p(k, n - k + 1): the p at which seeing so many, or so few, has probability alpha / 2.
  const auto n = static_cast<double>(trials), k = static_cast<double>(successes);
  return {successes == 0 ? 0 : inverse_beta(k, n - k + 1, alpha / 2),
          successes == trials ? 1 : inverse_beta(k + 1, n - k, 1 - alpha / 2)};
}

WeightedMean hajek(std::span<const double> y, std::span<const double> probability) {
  double weights = 0, squares = 0, total = 0;
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
  int64_t score = 0, untied_a = 0, untied_b = 0;
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
  const double position = q * static_cast<double>(values.size() - 1);
  const auto below = values.begin() + static_cast<std::ptrdiff_t>(position);
  std::nth_element(values.begin(), below, values.end());
  const double above = below + 1 == values.end() ? *below : *std::min_element(below + 1, values.end());
  return *below + (position - std::floor(position)) * (above - *below);
}

}  // namespace fp4::sweeps
