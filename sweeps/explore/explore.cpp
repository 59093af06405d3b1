// The stages of an exploration. Random choices are order statistics and thresholds of content hashes, never a generator
// with a state: the same configurations are chosen whatever was interrupted, and on every machine.
#include "sweeps/explore/explore.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

#include "src/error.h"
#include "sweeps/explore/importance.h"

namespace fp4::sweeps {

Planner::Planner(Grid grid, const Simulator& simulator, std::vector<CostModel> models)
    : grid_(std::move(grid)), simulator_(simulator), models_(std::move(models)), tuner_(grid_.tune, simulator) {
  if (grid_.explore == Explore::halving) {
    for (const int steps : grid_.rungs) plans_.push_back(expand(grid_, simulator, steps));
  } else {
    plans_.push_back(expand(grid_, simulator));
  }
  plan_steps();
}

void Planner::plan_steps() {
  const auto add = [&](Kind kind, size_t index, std::string name) { steps_.push_back({kind, index, std::move(name)}); };
  const bool tunes = !grid_.tune.empty();
  if (!tunes || grid_.tune_best > 0) {
    for (size_t i = 0; i < plans_.size() && grid_.explore == Explore::halving; ++i)
      add(Kind::explore, i, fmt::format("rung of {} steps", grid_.rungs[i]));
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
  } else if (!grid_.confirm.empty()) {
    add(Kind::confirm, 0, "confirm");
  }
}

void Planner::take(const std::vector<const ConfigRecord*>& configs, size_t rung, Stage& stage) {
  for (const ConfigRecord* config : configs) {
    const auto [entry, fresh] = taken_.try_emplace(config->hash, *config);
    // What is also a reference has its seeds already, but is now a row of the table.
    for (const uint64_t seed : grid_.seeds) stage.jobs.push_back({&entry->second, seed, Role::run});
  }
  const Plan& plan = plans_[rung];
  std::set<std::string> contexts;
  for (const ConfigRecord* config : configs) contexts.insert(config->reference);
  for (const std::string& context : contexts) {
    for (const std::string& hash : plan.context.at(context)) {
      const auto [entry, fresh] = references_.try_emplace(hash, plan.references.at(hash));
      for (const uint64_t seed : grid_.seeds) stage.jobs.push_back({&entry->second, seed, Role::reference});
    }
  }
}

std::vector<const ConfigRecord*> Planner::smallest(size_t count, const std::string& salt) const {
  std::vector<std::pair<double, const ConfigRecord*>> order;
  for (const ConfigRecord& config : plans_[0].configs) {
    order.emplace_back(uniform_hash(salt, grid_.name, config.hash), &config);
  }
  std::sort(order.begin(), order.end(), [](const auto& a, const auto& b) {
    return std::tie(a.first, a.second->hash) < std::tie(b.first, b.second->hash);
  });
  std::vector<const ConfigRecord*> chosen;
  for (size_t i = 0; i < std::min(count, order.size()); ++i) chosen.push_back(order[i].second);
  return chosen;
}

Results Planner::results(const std::vector<RunRecord>& runs) const {
  Contents all = contents();
  return {grid_, std::move(all.axes), std::move(all.configs), std::move(all.points), {}, runs};
}

Planner::Contents Planner::contents() const {
  Contents contents{.axes = plans_[0].axes, .configs = {}, .points = {}};
  for (const auto& [hash, config] : taken_) contents.configs.push_back(config);
  for (const auto& [hash, config] : references_) {
    if (!taken_.contains(hash)) contents.configs.push_back(config);
  }
  for (const Plan& plan : plans_) {
    for (const PointRecord& point : plan.points) {
      const auto best = at_best_of_.find(point.hash);
      if (taken_.contains(point.hash)) contents.points.push_back(point);
      if (best != at_best_of_.end() && best->second != point.hash && taken_.contains(best->second))
        contents.points.push_back({best->second, point.labels});
    }
  }
  return contents;
}

void Planner::explore(size_t index, const std::vector<RunRecord>& runs, Stage& stage) {
  if (index > 0) {
    const bool halving = grid_.explore == Explore::halving;
    const Results so_far = results(runs);
    take(halving ? promoted(index, so_far, stage) : important(so_far, stage), halving ? index : 0, stage);
    return;
  }
  std::vector<const ConfigRecord*> configs;
  switch (grid_.explore) {
    case Explore::all:
    case Explore::halving:
      for (const ConfigRecord& config : plans_[0].configs) configs.push_back(&config);
      break;
    case Explore::random: configs = smallest(grid_.sample, "random"); break;
    case Explore::importance: configs = smallest(std::max<size_t>(20, grid_.sample / 4), "pilot"); break;
  }
  take(configs, 0, stage);
  if (grid_.explore == Explore::importance) {
    // Everyone had this chance; the second stage raises it for those it may add.
    const double chance = static_cast<double>(configs.size()) / static_cast<double>(plans_[0].configs.size());
    for (auto& [hash, config] : taken_) config.probability = chance;
  }
}

Stage Planner::stage(size_t index, const std::vector<RunRecord>& runs) {
  const Step& step = steps_[index];
  Stage stage{.name = step.name, .jobs = {}, .notes = {}};
  switch (step.kind) {
    case Kind::explore: explore(step.index, runs, stage); break;
    case Kind::tune: tune(step.index, runs, stage); break;
    case Kind::at_best: take_at_best(runs, stage); break;
    case Kind::confirm: confirm(results(runs), stage); break;
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

// ---- halving ----

namespace {

std::string point_key(const std::string& task, const std::vector<std::string>& labels) {
  std::string key = task;
  // The last label of a halving grid is its rung.
  for (size_t i = 0; i + 1 < labels.size(); ++i) key += "\n" + labels[i];
  return key;
}

}  // namespace

std::vector<const ConfigRecord*> Planner::promoted(size_t rung, const Results& results, Stage& stage) {
  const Plan& before = plans_[rung - 1];
  const Plan& next = plans_[rung];
  const Costs costs(results, models_.front());
  // The same point one rung up has another hash: found by its labels.
  std::map<std::string, const ConfigRecord*> of_point;
  std::map<std::string, const ConfigRecord*> by_hash;
  for (const ConfigRecord& config : next.configs) by_hash[config.hash] = &config;
  std::map<std::string, std::string> task_of;
  for (const ConfigRecord& config : before.configs) task_of[config.hash] = config.task;
  for (const PointRecord& point : next.points) {
    of_point[point_key(by_hash.at(point.hash)->task, point.labels)] = by_hash.at(point.hash);
  }
  std::map<std::string, std::vector<const ConfigResult*>> contexts;
  for (const ConfigRecord& config : before.configs) {
    const ConfigResult* result = results.find(config.hash);
    if (result != nullptr && taken_.contains(config.hash)) contexts[config.reference].push_back(result);
  }
  std::set<std::string> kept;
  for (const auto& [context, configs] : contexts) {
    const std::vector<const ConfigResult*> best = best_share(configs, results, costs, grid_.keep);
    for (const ConfigResult* config : best) kept.insert(config->record.hash);
    stage.notes.push_back(
        fmt::format("{}: {} of {} configurations go on", configs.front()->record.task, best.size(), configs.size()));
  }
  if (rung >= 2) {
    // Did the shorter rung rank as the longer one did? Compared on the configurations that both have.
    std::vector<double> shorter, longer;
    std::map<std::string, double> earlier;
    std::map<std::string, std::string> task_earlier;
    for (const ConfigRecord& config : plans_[rung - 2].configs) task_earlier[config.hash] = config.task;
    for (const PointRecord& point : plans_[rung - 2].points) {
      const ConfigResult* result = results.find(point.hash);
      if (result == nullptr || Results::diverged(*result)) continue;
      const std::vector<double> gaps = results.gaps(*result, false);
      if (!gaps.empty()) earlier[point_key(task_earlier.at(point.hash), point.labels)] = summarise(gaps).mean;
    }
    for (const PointRecord& point : before.points) {
      const ConfigResult* result = results.find(point.hash);
      const auto old = earlier.find(point_key(task_of.at(point.hash), point.labels));
      if (result == nullptr || Results::diverged(*result) || old == earlier.end()) continue;
      const std::vector<double> gaps = results.gaps(*result, false);
      if (gaps.empty()) continue;
      shorter.push_back(old->second);
      longer.push_back(summarise(gaps).mean);
    }
    stage.notes.push_back(fmt::format("Kendall's tau of the mean gaps at {} and {} steps: {:.2f} ({} configurations)",
                                      grid_.rungs[rung - 2], grid_.rungs[rung - 1], kendall_tau(shorter, longer),
                                      shorter.size()));
  }
  std::set<const ConfigRecord*> chosen;
  for (const PointRecord& point : before.points) {
    if (!kept.contains(point.hash)) continue;
    const auto up = of_point.find(point_key(task_of.at(point.hash), point.labels));
    if (up != of_point.end()) chosen.insert(up->second);
  }
  return {chosen.begin(), chosen.end()};
}

// ---- importance ----

std::vector<const ConfigRecord*> Planner::important(const Results& pilot_results, Stage& stage) {
  // All configurations of the space with their labels, taken or not.
  const Results space(grid_, plans_[0].axes, plans_[0].configs, plans_[0].points, {}, {});
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
  std::map<std::string, std::vector<size_t>> contexts;
  for (size_t i = 0; i < all.size(); ++i) contexts[all[i]->record.reference].push_back(i);
  std::vector<double> z(all.size(), 0);
  for (const auto& [context, members] : contexts) {
    std::vector<size_t> order = members;
    std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
      const double xa = costs.of(*all[a]).overhead;
      const double xb = costs.of(*all[b]).overhead;
      return std::tie(xa, prediction.value[a]) < std::tie(xb, prediction.value[b]);
    });
    double best = INFINITY;
    for (const size_t i : order) {
      best = std::min(best, prediction.value[i]);
      if (prediction.residual_sd > 0) z[i] = (prediction.value[i] - best) / prediction.residual_sd;
    }
  }
  const double budget = static_cast<double>(grid_.sample) - static_cast<double>(pilot.size());
  std::vector<bool> rest;
  for (const ConfigResult* config : all) rest.push_back(!taken_.contains(config->record.hash));
  const std::vector<double> chance = inclusion_probabilities(z, std::max(budget, 0.0), rest);
  const double pilot_chance = static_cast<double>(pilot.size()) / static_cast<double>(all.size());
  std::map<std::string, const ConfigRecord*> by_hash;
  for (const ConfigRecord& config : plans_[0].configs) by_hash[config.hash] = &config;
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

// ---- confirm ----

void Planner::confirm(const Results& results, Stage& stage) {
  std::set<std::string> candidates;
  std::map<std::string, size_t> left_out;
  for (const CostModel& model : models_) {
    const Costs costs(results, model);
    for (const ContextFront& front : fronts(results, costs, {.delta = {}, .target = {}, .screening_only = true})) {
      // Rungs below the last were only a way to choose.
      size_t count = 0;
      for (const FrontPoint& point : front.points) {
        const bool last_rung = grid_.rungs.empty() || !point.config->in_plan ||
                               point.config->labels.back() == std::to_string(grid_.rungs.back());
        if (!point.candidate || !point.config->in_plan || !last_rung) continue;
        candidates.insert(point.config->record.hash);
        ++count;
      }
      if (front.left_out > 0) {
        stage.notes.push_back(fmt::format("{} on {}: {} candidates beyond the limit of {} stay unconfirmed",
                                          front.description, model.hardware, front.left_out, grid_.candidates));
      }
      if (count == 0) continue;
      stage.notes.push_back(fmt::format("{} on {}: {} candidates", front.description, model.hardware, count));
      for (const FrontPoint& point : front.points) {
        if (!point.config->in_plan && references_.contains(point.config->record.hash)) {
          const ConfigRecord& reference = references_.at(point.config->record.hash);
          for (const uint64_t seed : grid_.confirm) stage.jobs.push_back({&reference, seed, Role::reference});
        }
      }
      // Where the grid names fp32 itself, it is no extra reference; its gap is needed all the same.
      candidates.insert(front.context);
    }
  }
  for (const std::string& hash : candidates) {
    const auto taken = taken_.find(hash);
    if (taken == taken_.end()) continue;
    for (const uint64_t seed : grid_.confirm) stage.jobs.push_back({&taken->second, seed, Role::confirm});
  }
}

}  // namespace fp4::sweeps
