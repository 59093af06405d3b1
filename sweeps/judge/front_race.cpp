// See front_race.h.
#include "sweeps/judge/front_race.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "sweeps/judge/pareto.h"

namespace fp4::sweeps {

std::vector<double> race_losses(const Results& results, const ConfigResult& config) {
  std::vector<double> losses;
  for (size_t i = 0; i < results.grid().race->seeds; ++i) {
    const RunRecord* run = config.run(first_race_seed + i);
    const std::optional<double> loss = run == nullptr ? std::nullopt : metric_of(*run, Metric::loss);
    if (!loss) break;
    losses.push_back(*loss);
  }
  return losses;
}

std::vector<RaceField> race_fields(const Results& results, const std::vector<CostModel>& models) {
  const Grid& grid = results.grid();
  std::map<std::string, RaceField> fields;
  std::vector<Costs> costs;
  costs.reserve(models.size());
  for (const CostModel& model : models) {
    costs.emplace_back(results, model);
    for (const ContextFront& front : fronts(results, costs.back(), {.screening_only = true})) {
      if (!grid.tune.empty() && !front.at_best) continue;
      RaceField& field = fields[front.context];
      field.context = front.context;
      field.description = front.description;
      field.rules = {.delta = front.delta, .rounds = grid.race->rounds()};
      for (const FrontPoint& point : front.points) {
        const bool known = std::find(field.configs.begin(), field.configs.end(), point.config) != field.configs.end();
        if (point.candidate && !known) field.configs.push_back(point.config);
      }
    }
  }
  std::vector<RaceField> list;
  for (auto& [context, field] : fields) {
    std::sort(field.configs.begin(), field.configs.end(),
              [](const ConfigResult* a, const ConfigResult* b) { return a->record.hash < b->record.hash; });
    for (const ConfigResult* config : field.configs) {
      field.losses.push_back(race_losses(results, *config));
      field.diverged.push_back(Results::diverged(*config));
    }
    for (const Costs& chip : costs) {
      std::vector<double>& column = field.costs.emplace_back();
      for (const ConfigResult* config : field.configs) column.push_back(chip.of(*config).overhead);
    }
    list.push_back(std::move(field));
  }
  return list;
}

std::vector<bool> still_racing(const RaceField& field) {
  std::vector<bool> draws(field.configs.size(), false);
  for (const std::vector<double>& costs : field.costs) {
    std::vector<Racer> racers;
    for (size_t i = 0; i < field.configs.size(); ++i)
      racers.push_back({.cost = costs[i], .loss = field.losses[i], .diverged = field.diverged[i]});
    const RaceState state = judge_race(racers, field.rules);
    for (size_t i = 0; i < draws.size(); ++i) draws[i] = draws[i] || state.verdicts[i].draws;
  }
  return draws;
}

}  // namespace fp4::sweeps
