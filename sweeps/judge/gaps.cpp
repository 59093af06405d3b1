#include "sweeps/judge/gaps.h"

#include <fmt/format.h>

#include <Eigen/Dense>
#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

namespace fp4::sweeps {

namespace {

constexpr size_t parameters = 3;

Eigen::Vector3d row_at(const PlaneFit& fit, double n, double d) {
  return {1, std::log(n) - fit.at_n, std::log(d) - fit.at_d};
}

Eigen::Matrix3d inverse_of(const PlaneFit& fit) { return Eigen::Map<const Eigen::Matrix3d>(fit.inverse.data()); }

Interval around(double middle, double error, double freedom) {
  const double half = t_quantile(0.975, freedom) * error;
  return {middle - half, middle + half};
}

}  // namespace

static std::vector<PlaneCell> means(const std::map<std::pair<double, double>, std::vector<double>>& values) {
  std::vector<PlaneCell> cells;
  for (const auto& [where, list] : values) {
    PlaneCell cell{.n = where.first, .d = where.second, .seeds = list.size()};
    for (const double value : list) cell.value += value / static_cast<double>(list.size());
    cells.push_back(cell);
  }
  return cells;
}

std::vector<PlaneCell> loss_cells(std::span<const LawPoint> runs) {
  std::map<std::pair<double, double>, std::vector<double>> losses;
  for (const LawPoint& p : runs)
    if (p.steps > 0) losses[{p.n, p.steps}].push_back(std::log(p.loss));
  return means(losses);
}

std::vector<PlaneCell> gap_cells(std::span<const LawPoint> recipe, std::span<const LawPoint> baseline) {
  std::map<std::pair<double, double>, std::map<uint64_t, double>> theirs;
  for (const LawPoint& p : baseline) theirs[{p.n, p.d}][p.seed] = p.loss;
  std::map<std::pair<double, double>, std::vector<double>> gaps;
  for (const LawPoint& p : recipe) {
    const auto cell = theirs.find({p.n, p.d});
    if (cell == theirs.end()) continue;
    if (const auto other = cell->second.find(p.seed); other != cell->second.end())
      gaps[cell->first].push_back(std::log(p.loss / other->second));
  }
  return means(gaps);
}

PlaneFit fit_plane(std::span<const PlaneCell> cells) {
  PlaneFit fit{.cells = cells.size()};
  for (const PlaneCell& cell : cells) fit.runs += cell.seeds;
  if (cells.size() < parameters + 2) {
    fit.missing = fmt::format("{} (N, D) with seeds in common, {} are needed", cells.size(), parameters + 2);
    return fit;
  }
  const auto count = static_cast<double>(cells.size());
  for (const PlaneCell& cell : cells) fit.at_n += std::log(cell.n) / count, fit.at_d += std::log(cell.d) / count;
  Eigen::MatrixXd rows(static_cast<Eigen::Index>(cells.size()), static_cast<Eigen::Index>(parameters));
  Eigen::VectorXd values(rows.rows());
  for (size_t i = 0; i < cells.size(); ++i) {
    rows.row(static_cast<Eigen::Index>(i)) = row_at(fit, cells[i].n, cells[i].d).transpose();
    values[static_cast<Eigen::Index>(i)] = cells[i].value;
  }
  const Eigen::Matrix3d normal = rows.transpose() * rows;
  const Eigen::FullPivLU<Eigen::Matrix3d> lu(normal);
  if (!lu.isInvertible()) {
    fit.missing = "N and D do not vary apart from each other";
    return fit;
  }
  const Eigen::Matrix3d inverse = lu.inverse();
  Eigen::Map<Eigen::Matrix3d>(fit.inverse.data()) = inverse;
  const Eigen::Vector3d plane = inverse * (rows.transpose() * values);
  fit.mean = plane[0], fit.by_n = plane[1], fit.by_d = plane[2];
  const double freedom = count - static_cast<double>(parameters);
  double squares = 0, left_out = 0;
  for (Eigen::Index i = 0; i < rows.rows(); ++i) {
    const Eigen::Vector3d row = rows.row(i).transpose();
    const double residual = values[i] - row.dot(plane), leverage = row.dot(inverse * row);
    squares += residual * residual;
    left_out += std::pow(residual / (1 - leverage), 2) / count;  // what the fit without this cell misses it by
  }
  fit.spread = std::sqrt(squares / freedom);
  fit.left_out = std::sqrt(left_out);
  fit.by_n_interval = around(fit.by_n, fit.spread * std::sqrt(inverse(1, 1)), freedom);
  fit.by_d_interval = around(fit.by_d, fit.spread * std::sqrt(inverse(2, 2)), freedom);
  return fit;
}

PlaneAt plane_at(const PlaneFit& fit, double n, double d) {
  const Eigen::Vector3d row = row_at(fit, n, d);
  return {.value = row.dot(Eigen::Vector3d(fit.mean, fit.by_n, fit.by_d)),
          .error = fit.spread * std::sqrt(1 + row.dot(inverse_of(fit) * row)),
          .freedom = static_cast<double>(fit.cells - parameters)};
}

namespace {

using Gaps = std::map<std::string, std::vector<PlaneCell>>;

Gaps gaps_of(const std::map<std::string, std::vector<LawPoint>>& points, const std::string& baseline) {
  Gaps gaps;
  if (const auto base = points.find(baseline); base != points.end())
    for (const auto& [name, list] : points)
      if (name != baseline) gaps[name] = gap_cells(list, base->second);
  return gaps;
}

const PlaneCell& nearest(const std::vector<PlaneCell>& cells, double n, double d) {
  const auto distance = [&](const PlaneCell& c) {
    return std::pair(std::abs(std::log(c.n / n)), std::abs(std::log(c.d / d)));
  };
  return *std::min_element(cells.begin(), cells.end(),
                           [&](const PlaneCell& a, const PlaneCell& b) { return distance(a) < distance(b); });
}

// Adds the squared errors of both rules, fitted to `seen`, for each of `unseen`.
void foretell(std::span<const PlaneCell> seen, std::span<const PlaneCell> unseen, GapSkill& skill) {
  const PlaneFit fit = fit_plane(seen);
  if (!fit.missing.empty()) return;
  for (const PlaneCell& cell : unseen) {
    ++skill.gaps;
    skill.plane += std::pow(plane_at(fit, cell.n, cell.d).value - cell.value, 2);
    skill.nearest += std::pow(nearest({seen.begin(), seen.end()}, cell.n, cell.d).value - cell.value, 2);
  }
}

}  // namespace

GapRule gap_rule(const std::map<std::string, std::vector<LawPoint>>& points, const std::string& baseline,
                 const std::map<std::string, std::vector<LawPoint>>& unseen) {
  GapRule rule{.cells = gaps_of(points, baseline)};
  const Gaps kept_out = gaps_of(unseen, baseline);
  for (const auto& [name, cells] : rule.cells) {
    rule.planes[name] = fit_plane(cells);
    if (const auto kept = kept_out.find(name); kept != kept_out.end()) foretell(cells, kept->second, rule.skill);
    if (!kept_out.empty() || cells.empty()) continue;
    const auto largest = std::find_if(cells.begin(), cells.end(), [n = cells.back().n](const PlaneCell& c) {
      return c.n == n;  // by N, then by D
    });
    foretell({cells.begin(), largest}, {largest, cells.end()}, rule.skill);
  }
  for (double* error : {&rule.skill.plane, &rule.skill.nearest})
    if (rule.skill.gaps > 0) *error = std::sqrt(*error / static_cast<double>(rule.skill.gaps));
  return rule;
}

PlaneAt GapRule::at(const std::string& recipe, double n, double d, std::optional<bool> by_plane) const {
  if (by_plane.value_or(skill.plane_has_skill() && planes.at(recipe).missing.empty()))
    return plane_at(planes.at(recipe), n, d);
  const std::vector<PlaneCell>& mine = cells.at(recipe);
  PlaneAt there{.value = nearest(mine, n, d).value, .error = skill.nearest};
  if (skill.gaps > 0) {
    there.freedom = static_cast<double>(skill.gaps);  // none of them goes into a mean
    return there;
  }
  std::vector<double> values;
  for (const PlaneCell& cell : mine) values.push_back(cell.value);
  there.error = summarise(values).sd;
  there.freedom = std::max(1.0, static_cast<double>(values.size()) - 1);
  return there;
}

Interval PlaneAt::interval() const { return around(value, error, freedom); }

}  // namespace fp4::sweeps
