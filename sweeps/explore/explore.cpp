// The stages of an exploration. Random choices are order statistics and thresholds of content hashes, never a generator
// with a state: the same configurations are chosen whatever was interrupted, and on every machine.
#include "sweeps/explore/explore.h"

#include <fmt/format.h>

#include <Eigen/Dense>
#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

namespace fp4::sweeps {

Planner::Planner(Grid grid, const Simulator& simulator, std::vector<CostModel> models, Part part)
    : grid_(std::move(grid)),
      simulator_(simulator),
      models_(std::move(models)),
      tuner_(grid_.tune, simulator),
      part_(part),
      plan_(expand(grid_, simulator, part)) {
  plan_steps();
}

void Planner::plan_steps() {
  const auto add = [&](Kind kind, size_t index, std::string name) { steps_.push_back({kind, index, std::move(name)}); };
  const bool tunes = !grid_.tune.empty();
  if (!tunes || grid_.tune_best > 0) {
    if (grid_.explore == Explore::importance) {
      add(Kind::explore, 0, "pilot");
      add(Kind::explore, 1, "importance sample");
    }
    if (steps_.empty()) add(Kind::explore, 0, "runs");
  }
  for (size_t round = 0; round < tuner_.rounds(); ++round) add(Kind::tune, round, tuner_.round_name(round));
  if (tunes) add(Kind::at_best, 0, "runs at best");
  if (grid_.race) {
    const std::vector<size_t> rounds = grid_.race->rounds();
    for (size_t i = 0; i < rounds.size(); ++i) add(Kind::race, i, fmt::format("race, {} seeds", rounds[i]));
  }
}

void Planner::take(const std::vector<const ConfigRecord*>& configs, Stage& stage) {
  for (const ConfigRecord* config : configs) {
    const auto [entry, fresh] = taken_.try_emplace(config->hash, *config);
    // What is also a reference has its seeds already, but is now a row of the table.
    for (const uint64_t seed : grid_.seeds) stage.jobs.push_back({&entry->second, seed, Role::run});
  }
  std::set<std::string> contexts;
  for (const ConfigRecord* config : configs) contexts.insert(config->reference);
  for (const std::string& context : contexts)
    for (const std::string& hash : plan_.context.at(context)) {
      const auto [entry, fresh] = references_.try_emplace(hash, plan_.references.at(hash));
      for (const uint64_t seed : grid_.seeds) stage.jobs.push_back({&entry->second, seed, Role::reference});
    }
}

Results Planner::results(const std::vector<RunRecord>& runs) const {
  Contents all = contents();
  return {grid_, std::move(all.axes), std::move(all.configs), std::move(all.points), {}, runs};
}

Planner::Contents Planner::contents() const {
  Contents contents{.axes = plan_.axes, .configs = {}, .points = {}, .numbers = {}};
  if (part_.count > 1) contents.numbers = plan_.numbers;
  for (const auto& [hash, config] : taken_) contents.configs.push_back(config);
  for (const auto& [hash, config] : references_) {
    if (!taken_.contains(hash)) contents.configs.push_back(config);
  }
  for (const PointRecord& point : plan_.points) {
    const auto best = at_best_of_.find(point.hash);
    const auto taken = taken_.find(point.hash);
    if (taken != taken_.end() && taken->second.at != At::near) contents.points.push_back(point);
    if (best != at_best_of_.end() && best->second != point.hash && taken_.contains(best->second))
      contents.points.push_back({best->second, point.labels});
  }
  return contents;
}

void Planner::explore(size_t index, const std::vector<RunRecord>& runs, Stage& stage) {
  if (index > 0) return take(important(results(runs), stage), stage);
  std::vector<const ConfigRecord*> configs;
  for (const ConfigRecord& config : plan_.configs) configs.push_back(&config);
  if (grid_.explore == Explore::all) return take(configs, stage);
  // The pilot: the configurations of the smallest hashes, everyone with this chance; the second stage raises it for
  // those that it may add.
  const auto number = [&](const ConfigRecord* config) { return uniform_hash("pilot", grid_.name, config->hash); };
  std::sort(configs.begin(), configs.end(), [&](const ConfigRecord* a, const ConfigRecord* b) {
    return std::pair(number(a), a->hash) < std::pair(number(b), b->hash);
  });
  configs.resize(std::min(configs.size(), std::max<size_t>(20, grid_.sample / 4)));
  take(configs, stage);
  const double chance = static_cast<double>(configs.size()) / static_cast<double>(plan_.configs.size());
  for (auto& [hash, config] : taken_) config.probability = chance;
}

Stage Planner::stage(size_t index, const std::vector<RunRecord>& runs) {
  const Step& step = steps_[index];
  Stage stage{.name = step.name, .jobs = {}, .notes = {}};
  switch (step.kind) {
    case Kind::explore: explore(step.index, runs, stage); break;
    case Kind::tune: tune(step.index, runs, stage); break;
    case Kind::at_best: take_at_best(runs, stage); break;
    case Kind::race: race(step.index, runs, stage); break;
  }
  // A configuration may be asked for as a run and as a reference: the run counts.
  std::set<std::pair<std::string, uint64_t>> wanted;
  for (const Job& job : stage.jobs) {
    if (job.role != Role::reference) wanted.emplace(job.config->hash, job.seed);
  }
  std::set<std::pair<std::string, uint64_t>> seen;
  std::erase_if(stage.jobs, [&](const Job& job) {
    const std::pair key{job.config->hash, job.seed};
    return (job.role == Role::reference && wanted.contains(key)) || !seen.insert(key).second;
  });
  sort_jobs(stage.jobs);
  return stage;
}

std::vector<const ConfigResult*> best_share(const std::vector<const ConfigResult*>& configs, const Results& results,
                                            const Costs& costs, double share) {
  std::vector<double> x, y;
  for (const ConfigResult* config : configs) {
    const std::vector<double> gaps = results.gaps(*config, false);
    const bool whole = !gaps.empty() && !Results::diverged(*config);
    x.push_back(costs.of(*config).overhead);
    y.push_back(whole ? summarise(gaps).mean : NAN);
  }
  const std::vector<int> ranks = dominated_ranks(x, y);
  std::vector<size_t> order(configs.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::erase_if(order, [&](size_t i) { return ranks[i] < 0; });
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return std::tie(ranks[a], y[a]) < std::tie(ranks[b], y[b]); });
  const auto count = static_cast<size_t>(std::ceil(share * static_cast<double>(configs.size())));
  std::vector<const ConfigResult*> best;
  for (size_t k = 0; k < std::min(count, order.size()); ++k) best.push_back(configs[order[k]]);
  return best;
}

// ---- importance ----

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
    for (const ConfigResult* config : configs)
      for (const std::string& name : names(*config))
        columns_.try_emplace(name, static_cast<Eigen::Index>(columns_.size() + 1));
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

// By how many residual SDs each lies above the predicted front of its context.
static std::vector<double> above_front(const std::vector<const ConfigResult*>& all, const Costs& costs,
                                       const Prediction& prediction) {
  std::map<std::string, std::vector<size_t>> contexts;
  for (size_t i = 0; i < all.size(); ++i) contexts[all[i]->record.reference].push_back(i);
  std::vector<double> z(all.size(), 0);
  for (auto& [context, order] : contexts) {
    std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
      const double xa = costs.of(*all[a]).overhead, xb = costs.of(*all[b]).overhead;
      return std::tie(xa, prediction.value[a]) < std::tie(xb, prediction.value[b]);
    });
    double best = INFINITY;
    for (const size_t i : order) {
      best = std::min(best, prediction.value[i]);
      if (prediction.residual_sd > 0) z[i] = (prediction.value[i] - best) / prediction.residual_sd;
    }
  }
  return z;
}

std::vector<const ConfigRecord*> Planner::important(const Results& pilot_results, Stage& stage) {
  // All configurations of the space with their labels, taken or not.
  const Results space(grid_, plan_.axes, plan_.configs, plan_.points, {}, {});
  const Costs costs(space, models_.front());
  std::vector<const ConfigResult*> all, pilot;
  std::vector<double> gaps;
  double worst = 0;
  std::vector<const ConfigResult*> lost;
  for (const ConfigResult& config : space.configs()) {
    all.push_back(&config);
    if (!taken_.contains(config.record.hash)) continue;
    const ConfigResult* result = pilot_results.find(config.record.hash);
    const std::vector<double> values = pilot_results.gaps(*result, false);
    if (values.empty() || Results::diverged(*result)) {
      lost.push_back(&config);
      continue;
    }
    pilot.push_back(&config);
    gaps.push_back(summarise(values).mean);
    worst = std::max(worst, gaps.back());
  }
  // A diverged pilot teaches too: as bad as the worst that finished.
  for (const ConfigResult* config : lost) {
    pilot.push_back(config);
    gaps.push_back(worst);
  }
  const Prediction prediction = predict_gaps(all, pilot, gaps);
  const std::vector<double> z = above_front(all, costs, prediction);
  const double budget = static_cast<double>(grid_.sample) - static_cast<double>(pilot.size());
  std::vector<bool> rest;
  for (const ConfigResult* config : all) rest.push_back(!taken_.contains(config->record.hash));
  const std::vector<double> chance = inclusion_probabilities(z, std::max(budget, 0.0), rest);
  const double pilot_chance = static_cast<double>(pilot.size()) / static_cast<double>(all.size());
  std::map<std::string, const ConfigRecord*> by_hash;
  for (const ConfigRecord& config : plan_.configs) by_hash[config.hash] = &config;
  std::vector<const ConfigRecord*> chosen;
  for (size_t i = 0; i < all.size(); ++i) {
    const std::string& hash = all[i]->record.hash;
    const double p = 1 - (1 - pilot_chance) * (1 - chance[i]);
    const bool pilot_member = taken_.contains(hash);
    if (!pilot_member && uniform_hash("importance", grid_.name, hash) >= chance[i]) continue;
    if (!pilot_member) chosen.push_back(by_hash.at(hash));
    const auto [entry, fresh] = taken_.try_emplace(hash, *by_hash.at(hash));
    entry->second.probability = p;
  }
  stage.notes.push_back(fmt::format("{} pilot configurations, residual SD {:.2f} of ln(gap); {} more by importance",
                                    pilot.size(), prediction.residual_sd, chosen.size()));
  return chosen;
}

}  // namespace fp4::sweeps
