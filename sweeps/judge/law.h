// A scaling law of the loss: L(N, D) = (A / (N effN)^alpha + B / (D effD)^beta)^gamma + E, N weights and D tokens
// (2505.14669). A, B, alpha, beta, gamma and E come from the runs of a baseline; effN and effD say, for each other
// recipe, how many of its weights and tokens count beside the baseline's. Fits minimise the sum of Huber's loss of
// log(predicted) - log(measured) (2203.15556) by Levenberg and Marquardt's method from a fixed list of starts.
// Intervals come from a bootstrap: seeds are drawn again inside every (N, D), the same ones for all recipes.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "sweeps/judge/statistics.h"

namespace fp4::sweeps {

struct LawPoint {
  double n = 0, d = 0;  // weights, tokens
  uint64_t seed = 0;
  double loss = 0;  // nats
  int steps = 0;    // of the optimizer; 0: not known
};

// `quartet` has the six parameters above; `chinchilla` holds gamma at 1.
enum class LawForm : uint8_t { quartet, chinchilla };
size_t parameters_of(LawForm form);  // 6, 5

struct Efficiency {
  double n = 1, d = 1;
};

struct Law {
  double A = 0, B = 0, alpha = 0, beta = 0, gamma = 1, E = 0;
  double loss(double n, double d, const Efficiency& efficiency = {}) const;
};

// Huber's threshold for differences of log L: a thousandth is quadratic, more is linear.
inline constexpr double law_huber = 1e-3;

struct LawFit {
  Law law;
  double error = 0;  // root of the mean squared difference of log L
  size_t runs = 0, cells = 0;
  size_t single = 0;  // cells of one seed, which add nothing to any interval
};

// Throws Error where there are fewer (N, D) than parameters and one more. `start`: one start in place of the list.
LawFit fit_law(std::span<const LawPoint> points, LawForm form, const Law* start = nullptr);

// effN and effD that fit the points best, the law held. Throws Error below three (N, D), or where N or D never varies.
Efficiency fit_efficiency(const Law& law, std::span<const LawPoint> points, const Efficiency& start = {});

// How many times the tokens D the recipe needs to reach the loss that the baseline reaches at (N, D), less 1; none when
// it never does.
std::optional<double> extra_tokens(const Law& law, const Efficiency& efficiency, double n, double d);

struct LawSample {
  Law law;
  std::map<std::string, Efficiency> efficiency;
};

struct LawRecipe {
  Efficiency efficiency;
  double error = 0;
  size_t runs = 0, cells = 0;
  std::string missing;  // why there is no fit
};

struct LawStudy {
  LawForm form = LawForm::quartet;
  std::string baseline;
  LawFit fit;
  std::map<std::string, LawRecipe> recipes;  // without the baseline
  std::vector<LawSample> samples;            // of the bootstrap
  Interval n, d;                             // what the baseline's runs span
};

LawStudy study_law(const std::map<std::string, std::vector<LawPoint>>& points, const std::string& baseline,
                   LawForm form, size_t samples);

// The loss of a recipe ("" or the baseline's name: the baseline) with the interval in which the mean of runs at (N, D)
// is expected: the bootstrap's spread and the law's own error together. Throws Error where N or D lies further than ten
// times outside what was fitted.
struct Predicted {
  double loss = 0;
  Interval interval;
};
Predicted predict(const LawStudy& study, const std::string& recipe, double n, double d);

// The middle 95 % of the samples of a quantity; none of `samples` when the quantity is absent in over 2.5 % of them.
std::optional<Interval> sample_interval(std::vector<double> values, size_t samples);

}  // namespace fp4::sweeps
