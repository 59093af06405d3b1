#include "sweeps/judge/front_race.h"

#include <algorithm>
#include <map>
#include <numeric>

#include "src/text/words.h"
#include "sweeps/judge/advice.h"
#include "sweeps/judge/pareto.h"

namespace fp4::sweeps {

RungLosses race_losses(const Results& results, const ConfigResult& config, Metric metric) {
  std::vector<uint64_t> seeds(results.grid().race->seeds);
  std::iota(seeds.begin(), seeds.end(), first_race_seed);
  return Results::losses(config, seeds, metric);
}

RaceRules race_rules(const Grid& grid, double delta) {
  return {.delta = delta, .cost_doubt = CostDoubt{}.factor, .rounds = grid.race->rounds()};
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
      field.rules = race_rules(grid, front.delta);
      for (const FrontPoint& point : front.points)
        if (point.candidate && !contains(field.configs, point.config)) field.configs.push_back(point.config);
    }
  }
  std::vector<RaceField> list;
  for (auto& [context, field] : fields) {
    std::sort(field.configs.begin(), field.configs.end(),
              [](const ConfigResult* a, const ConfigResult* b) { return a->record.hash < b->record.hash; });
    for (const ConfigResult* config : field.configs) field.losses.push_back(race_losses(results, *config));
    for (const Costs& chip : costs) {
      std::vector<double>& column = field.costs.emplace_back();
      for (const ConfigResult* config : field.configs) column.push_back(chip.of(*config).overhead);
    }
    list.push_back(std::move(field));
  }
  return list;
}

std::vector<std::vector<bool>> still_racing(const RaceField& field) {
  std::vector<std::vector<bool>> draws;
  for (const RungLosses& losses : field.losses) draws.emplace_back(losses.size(), false);
  for (const std::vector<double>& costs : field.costs) {
    std::vector<Racer> racers;
    for (size_t i = 0; i < field.configs.size(); ++i) racers.push_back({.cost = costs[i], .loss = field.losses[i]});
    const RaceState state = judge_race(racers, field.rules);
    for (size_t i = 0; i < draws.size(); ++i)
      for (size_t rung = 0; rung < draws[i].size(); ++rung)
        if (state.verdicts[i].draws && state.verdicts[i].rungs[rung]) draws[i][rung] = true;
  }
  return draws;
}

}  // namespace fp4::sweeps
