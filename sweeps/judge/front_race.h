// The race of a sweep's front: which configurations run, what each costs on each chip, and which of them need more
// seeds. One field for each context (task and training); its intervals protect all pairs of the field, so the words of
// every chip hold together.
#pragma once

#include <string>
#include <vector>

#include "sweeps/judge/costs.h"
#include "sweeps/judge/race.h"

namespace fp4::sweeps {

struct RaceField {
  std::string context;  // hash of its fp32 configuration
  std::string description;
  std::vector<const ConfigResult*> configs;  // the candidates of all chips and the references
  std::vector<std::vector<double>> costs;    // by chip, in the order of `configs`
  std::vector<RungLosses> losses;            // by number of the race's seed
  RaceRules rules;
};

// Losses of a configuration on the race's seeds, by rung.
RungLosses race_losses(const Results& results, const ConfigResult& config, Metric metric = Metric::loss);

// What a race of the grid goes by on a context of this delta.
RaceRules race_rules(const Grid& grid, double delta);

// Candidates by the screening of `results`, whose runs on race seeds count as losses only.
std::vector<RaceField> race_fields(const Results& results, const std::vector<CostModel>& models);

// By candidate and rung, who draws the next round's seeds: who is undecided on some chip, or is compared with such a
// one, at the rungs that may be its best.
std::vector<std::vector<bool>> still_racing(const RaceField& field);

}  // namespace fp4::sweeps
