// See gaps.h.
#include "sweeps/judge/gaps.h"

#include <fmt/format.h>

#include <Eigen/Dense>
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

namespace {

std::vector<PlaneCell> means(const std::map<std::pair<double, double>, std::vector<double>>& values) {
  std::vector<PlaneCell> cells;
  for (const auto& [where, list] : values) {
    PlaneCell cell{.n = where.first, .d = where.second, .seeds = list.size()};
    for (const double value : list) cell.value += value / static_cast<double>(list.size());
    cells.push_back(cell);
  }
  return cells;
}

}  // namespace

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

std::map<std::string, PlaneFit> gap_fits(const std::map<std::string, std::vector<LawPoint>>& points,
                                         const std::string& baseline) {
  std::map<std::string, PlaneFit> fits;
  const auto base = points.find(baseline);
  if (base == points.end()) return fits;
  for (const auto& [name, list] : points)
    if (name != baseline) fits[name] = fit_plane(gap_cells(list, base->second));
  return fits;
}

Interval PlaneAt::interval() const { return around(value, error, freedom); }

}  // namespace fp4::sweeps
