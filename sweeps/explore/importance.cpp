#include "sweeps/explore/importance.h"

#include <Eigen/Dense>
#include <algorithm>
#include <cmath>
#include <map>

namespace fp4::sweeps {

std::vector<double> inclusion_probabilities(const std::vector<double>& z, double budget, const std::vector<bool>& open,
                                            double floor) {
  std::vector<double> weight(z.size());
  double count = 0;
  for (size_t i = 0; i < z.size(); ++i) {
    weight[i] = std::max(std::exp(-std::max(z[i], 0.0)), floor);
    count += open.empty() || open[i];
  }
  if (budget >= count) return std::vector<double>(z.size(), 1.0);
  const auto total = [&](double c) {
    double sum = 0;
    for (size_t i = 0; i < z.size(); ++i) sum += open.empty() || open[i] ? std::min(1.0, c * weight[i]) : 0;
    return sum;
  };
  double low = 0;
  double high = 1;
  while (total(high) < budget) high *= 2;
  for (int i = 0; i < 200; ++i) {
    const double middle = 0.5 * (low + high);
    (total(middle) < budget ? low : high) = middle;
  }
  std::vector<double> probability(z.size());
  for (size_t i = 0; i < z.size(); ++i) probability[i] = std::min(1.0, high * weight[i]);
  return probability;
}

namespace {

// One-hot columns of axis values and tasks; a dead axis ("") is a value of its own.
class Features {
 public:
  explicit Features(const std::vector<const ConfigResult*>& configs) {
    for (const ConfigResult* config : configs) {
      for (const std::string& name : names(*config))
        columns_.try_emplace(name, static_cast<Eigen::Index>(columns_.size() + 1));
    }
  }
  Eigen::Index size() const { return static_cast<Eigen::Index>(columns_.size() + 1); }
  Eigen::VectorXd row(const ConfigResult& config) const {
    Eigen::VectorXd row = Eigen::VectorXd::Zero(size());
    row[0] = 1;
    for (const std::string& name : names(config)) row[columns_.at(name)] = 1;
    return row;
  }

 private:
  static std::vector<std::string> names(const ConfigResult& config) {
    std::vector<std::string> names = {"task=" + config.record.task};
    for (size_t i = 0; i < config.labels.size(); ++i) names.push_back(std::to_string(i) + "=" + config.labels[i]);
    return names;
  }
  std::map<std::string, Eigen::Index> columns_;
};

}  // namespace

Prediction predict_gaps(const std::vector<const ConfigResult*>& all, const std::vector<const ConfigResult*>& pilot,
                        const std::vector<double>& gaps) {
  const Features features(all);
  const auto rows = static_cast<Eigen::Index>(pilot.size());
  Eigen::MatrixXd x(rows, features.size());
  Eigen::VectorXd y(rows);
  for (Eigen::Index i = 0; i < rows; ++i) {
    x.row(i) = features.row(*pilot[static_cast<size_t>(i)]);
    y[i] = std::log(std::max(gaps[static_cast<size_t>(i)], 0.0) + 1e-4);
  }
  Eigen::MatrixXd penalty = Eigen::MatrixXd::Identity(features.size(), features.size());
  penalty(0, 0) = 0;
  const Eigen::VectorXd weights = (x.transpose() * x + penalty).ldlt().solve(x.transpose() * y);
  Prediction prediction;
  const double freedom = std::max(1.0, static_cast<double>(rows) - 1);
  prediction.residual_sd = std::sqrt((y - x * weights).squaredNorm() / freedom);
  for (const ConfigResult* config : all) prediction.value.push_back(features.row(*config).dot(weights));
  return prediction;
}

}  // namespace fp4::sweeps
