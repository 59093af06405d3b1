// See law.h. Parameters are fitted as logarithms, which keeps them above 0 and makes one step fit all of them.
#include "sweeps/judge/law.h"

#include <fmt/format.h>

#include <Eigen/Dense>
#include <algorithm>
#include <cmath>
#include <functional>
#include <random>
#include <set>

#include "src/text/error.h"

namespace fp4::sweeps {

namespace {

using Residuals = std::function<Eigen::VectorXd(const Eigen::VectorXd&)>;

double huber(const Eigen::VectorXd& residuals) {
  double total = 0;
  for (const double r : residuals) {
    const double size = std::abs(r);
    total += size <= law_huber ? size * size / 2 : law_huber * (size - law_huber / 2);
  }
  return total;
}

struct Minimum {
  Eigen::VectorXd at;
  double value = INFINITY;
};

// Levenberg and Marquardt with Huber's weights min(1, threshold / |r|), derivatives by central differences.
Minimum minimise(const Residuals& residuals, Eigen::VectorXd at) {
  Eigen::VectorXd r = residuals(at);
  double value = huber(r), damping = 1e-3;
  for (int round = 0; round < 400 && std::isfinite(value) && damping < 1e12; ++round) {
    Eigen::MatrixXd jacobian(r.size(), at.size());
    for (Eigen::Index j = 0; j < at.size(); ++j) {
      constexpr double h = 1e-6;
      Eigen::VectorXd up = at, down = at;
      up[j] += h, down[j] -= h;
      jacobian.col(j) = (residuals(up) - residuals(down)) / (2 * h);
    }
    const Eigen::VectorXd weight = r.unaryExpr([](double x) { return std::min(1.0, law_huber / std::abs(x)); });
    const Eigen::MatrixXd normal = jacobian.transpose() * weight.asDiagonal() * jacobian;
    const Eigen::VectorXd slope = jacobian.transpose() * (weight.asDiagonal() * r);
    bool better = false;
    for (; !better && damping < 1e12; damping *= better ? 0.3 : 4) {
      Eigen::MatrixXd damped = normal;
      damped.diagonal() += damping * (normal.diagonal().array() + 1e-12).matrix();
      const Eigen::VectorXd next = at - damped.ldlt().solve(slope);
      if (!next.allFinite()) continue;
      const Eigen::VectorXd there = residuals(next);
      const double found = huber(there);
      better = std::isfinite(found) && found < value;
      if (!better) continue;
      const bool still = value - found < 1e-13 * value;
      at = next, r = there, value = found;
      if (still) return {at, value};
    }
  }
  return {at, value};
}

Law law_of(const Eigen::VectorXd& p) {
  return {std::exp(p[0]), std::exp(p[1]), std::exp(p[2]), std::exp(p[3]), p.size() > 5 ? std::exp(p[5]) : 1.0,
          std::exp(p[4])};
}

Eigen::VectorXd vector_of(const Law& law, LawForm form) {
  Eigen::VectorXd p(static_cast<Eigen::Index>(parameters_of(form)));
  constexpr double least_floor = 1e-12;  // of a loss; an E that underflowed to 0 has no logarithm to go on from
  p.head(5) << std::log(law.A), std::log(law.B), std::log(law.alpha), std::log(law.beta),
      std::log(std::max(law.E, least_floor));
  if (form == LawForm::quartet) p[5] = std::log(law.gamma);
  return p;
}

Eigen::VectorXd residuals_of(const Law& law, const Efficiency& efficiency, std::span<const LawPoint> points) {
  Eigen::VectorXd r(static_cast<Eigen::Index>(points.size()));
  for (size_t i = 0; i < points.size(); ++i)
    r[static_cast<Eigen::Index>(i)] =
        std::log(law.loss(points[i].n, points[i].d, efficiency)) - std::log(points[i].loss);
  return r;
}

double rms(const Eigen::VectorXd& r) { return r.size() == 0 ? 0 : r.norm() / std::sqrt(static_cast<double>(r.size())); }

// The seeds of each (N, D).
using Cells = std::map<std::pair<double, double>, std::set<uint64_t>>;
Cells cells_of(std::span<const LawPoint> points, Cells cells = {}) {
  for (const LawPoint& p : points) cells[{p.n, p.d}].insert(p.seed);
  return cells;
}

// The terms of weights and of tokens stand at half the reducible loss each, in the middle of the points.
std::vector<Law> starts(std::span<const LawPoint> points, LawForm form) {
  double least = INFINITY, n = 0, d = 0, loss = 0;
  const auto count = static_cast<double>(points.size());
  for (const LawPoint& p : points) {
    least = std::min(least, p.loss);
    n += std::log(p.n) / count, d += std::log(p.d) / count, loss += p.loss / count;
  }
  std::vector<Law> list;
  const std::vector<double> gammas = form == LawForm::quartet ? std::vector{0.3, 1.0} : std::vector{1.0};
  for (const double share : {0.1, 0.5, 0.9})  // of the least loss
    for (const double alpha : {0.3, 1.0})
      for (const double beta : {0.3, 1.0})
        for (const double gamma : gammas) {
          const double half = std::pow(loss - share * least, 1 / gamma) / 2;
          list.push_back({half * std::exp(n * alpha), half * std::exp(d * beta), alpha, beta, gamma, share * least});
        }
  return list;
}

// Draws of the bootstrap: for every (N, D), which of its seeds take part; the same for all recipes. Few seeds are drawn
// too close together, by (k - 1) / k in variance; their distances from the mean are widened by as much.
class Draws {
 public:
  Draws(const std::map<std::string, std::vector<LawPoint>>& points, uint64_t seed) : engine_(seed) {
    Cells cells;
    for (const auto& [recipe, list] : points) cells = cells_of(list, std::move(cells));
    for (const auto& [cell, set] : cells) {
      const std::vector<uint64_t> all(set.begin(), set.end());
      for (size_t i = 0; i < all.size(); ++i) drawn_[cell].push_back(all[engine_() % all.size()]);
    }
  }
  std::vector<LawPoint> operator()(std::span<const LawPoint> points) const {
    std::vector<LawPoint> out;
    for (const auto& [cell, seeds] : drawn_) {
      std::map<uint64_t, LawPoint> here;
      double mean = 0;
      for (const LawPoint& p : points)
        if (std::pair(p.n, p.d) == cell) here.emplace(p.seed, p), mean += p.loss;
      const auto count = static_cast<double>(here.size());
      mean /= count;
      const double wider = count > 1 ? std::sqrt(count / (count - 1)) : 1;
      for (const uint64_t seed : seeds) {
        const auto found = here.find(seed);
        if (found == here.end()) continue;
        out.push_back(found->second);
        out.back().loss = mean + wider * (out.back().loss - mean);
      }
    }
    return out;
  }

 private:
  std::mt19937_64 engine_;
  std::map<std::pair<double, double>, std::vector<uint64_t>> drawn_;
};

}  // namespace

size_t parameters_of(LawForm form) { return form == LawForm::quartet ? 6 : 5; }

double Law::loss(double n, double d, const Efficiency& e) const {
  return std::pow(A / std::pow(n * e.n, alpha) + B / std::pow(d * e.d, beta), gamma) + E;
}

LawFit fit_law(std::span<const LawPoint> points, LawForm form, const Law* start) {
  const Cells cells = cells_of(points);
  if (cells.size() <= parameters_of(form))
    throw Error(fmt::format("law: {} different (N, D) for {} parameters; at least {} are needed", cells.size(),
                            parameters_of(form), parameters_of(form) + 1));
  const auto residuals = [&](const Eigen::VectorXd& p) { return residuals_of(law_of(p), {}, points); };
  Minimum best;
  for (const Law& from : start ? std::vector<Law>{*start} : starts(points, form)) {
    Minimum found = minimise(residuals, vector_of(from, form));
    if (found.value < best.value) best = std::move(found);
  }
  if (!std::isfinite(best.value)) throw Error("law: no start leads to a fit", Error::failed);
  const auto single = std::count_if(cells.begin(), cells.end(), [](const auto& c) { return c.second.size() < 2; });
  return {law_of(best.at), rms(residuals(best.at)), points.size(), cells.size(), static_cast<size_t>(single)};
}

Efficiency fit_efficiency(const Law& law, std::span<const LawPoint> points, const Efficiency& start) {
  const Cells cells = cells_of(points);
  std::set<double> ns, ds;
  for (const auto& [cell, seeds] : cells) ns.insert(cell.first), ds.insert(cell.second);
  if (cells.size() < 3 || ns.size() < 2 || ds.size() < 2)
    throw Error(fmt::format("{} (N, D) with {} N and {} D; 3, 2 and 2 are needed", cells.size(), ns.size(), ds.size()));
  const auto of = [](const Eigen::VectorXd& p) { return Efficiency{std::exp(p[0]), std::exp(p[1])}; };
  const Eigen::Vector2d from(std::log(start.n), std::log(start.d));
  return of(minimise([&](const Eigen::VectorXd& p) { return residuals_of(law, of(p), points); }, from).at);
}

std::optional<double> extra_tokens(const Law& law, const Efficiency& e, double n, double d) {
  const double inside = law.A / std::pow(n, law.alpha) + law.B / std::pow(d, law.beta);
  const double left = inside - law.A / std::pow(n * e.n, law.alpha);
  if (!(left > 0)) return std::nullopt;
  return std::pow(law.B / left, 1 / law.beta) / e.d / d - 1;
}

LawStudy study_law(const std::map<std::string, std::vector<LawPoint>>& points, const std::string& baseline,
                   LawForm form, size_t samples) {
  const auto found = points.find(baseline);
  if (found == points.end()) throw Error("law: no runs of the baseline '" + baseline + "'");
  LawStudy study{.form = form, .baseline = baseline, .fit = fit_law(found->second, form)};
  study.n = study.d = {INFINITY, 0};
  for (const LawPoint& p : found->second) {
    study.n = {std::min(study.n.low, p.n), std::max(study.n.high, p.n)};
    study.d = {std::min(study.d.low, p.d), std::max(study.d.high, p.d)};
  }
  for (const auto& [name, list] : points) {
    if (name == baseline) continue;
    LawRecipe& recipe = study.recipes[name];
    recipe.runs = list.size();
    recipe.cells = cells_of(list).size();
    try {
      recipe.efficiency = fit_efficiency(study.fit.law, list);
      recipe.error = rms(residuals_of(study.fit.law, recipe.efficiency, list));
    } catch (const Error& error) {
      recipe.missing = error.what();
    }
  }
  for (size_t i = 0; i < samples; ++i) {
    const Draws draw(points, i + 1);
    LawSample sample{fit_law(draw(found->second), form, &study.fit.law).law, {}};
    for (const auto& [name, recipe] : study.recipes)
      if (recipe.missing.empty())
        sample.efficiency[name] = fit_efficiency(sample.law, draw(points.at(name)), recipe.efficiency);
    study.samples.push_back(std::move(sample));
  }
  return study;
}

std::optional<Interval> sample_interval(std::vector<double> values, size_t samples) {
  constexpr double tail = 0.025;
  if (values.size() < 40 || static_cast<double>(samples - values.size()) > tail * static_cast<double>(samples))
    return std::nullopt;
  return Interval{quantile(values, tail), quantile(values, 1 - tail)};
}

Predicted predict(const LawStudy& study, const std::string& recipe, double n, double d) {
  constexpr double most = 10;
  const auto is_too_far = [](double x, const Interval& fitted) {
    return !(x <= most * fitted.high && x >= fitted.low / most);  // NaN is nowhere near
  };
  if (is_too_far(n, study.n) || is_too_far(d, study.d))
    throw Error(
        fmt::format("law: N {:.4g}, D {:.4g} lie more than ten times outside the fitted N {:.4g} .. {:.4g}, D {:.4g} "
                    ".. {:.4g}; nothing is predicted there",
                    n, d, study.n.low, study.n.high, study.d.low, study.d.high));
  const bool is_baseline = recipe.empty() || recipe == study.baseline;
  const Efficiency own = is_baseline ? Efficiency{} : study.recipes.at(recipe).efficiency;
  // The law's own error, unbiased for its parameters, drawn as a normal number beside each sample.
  const double runs = static_cast<double>(study.fit.cells),
               free = runs - static_cast<double>(parameters_of(study.form));
  const double error = study.fit.error * std::sqrt(runs / free);
  std::mt19937_64 engine(1);
  std::normal_distribution<double> normal;
  std::vector<double> losses;
  for (const LawSample& sample : study.samples)
    losses.push_back(sample.law.loss(n, d, is_baseline ? Efficiency{} : sample.efficiency.at(recipe)) *
                     std::exp(error * normal(engine)));
  const double loss = study.fit.law.loss(n, d, own);
  return {loss,
          sample_interval(std::move(losses), study.samples.size()).value_or(Interval{std::nan(""), std::nan("")})};
}

}  // namespace fp4::sweeps
