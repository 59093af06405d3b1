// The stages of a sweep that tunes and races: ladders for chosen configurations and their references, then everybody at
// its own best, then rounds of fresh seeds for those that the front cannot place yet. See explore.h.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "src/text/words.h"
#include "sweeps/explore/explore.h"
#include "sweeps/judge/front_race.h"

namespace fp4::sweeps {

// Mean losses over the tuning seeds, by configuration.
static Tuner::MeanLoss tuning_losses(const std::vector<RunRecord>& runs) {
  std::map<std::string, std::map<uint64_t, double>> losses;
  for (const RunRecord& run : runs) {
    if (run.seed < first_tuning_seed || run.status == Status::failed) continue;
    losses[run.hash][run.seed] = run.status == Status::finished && run.loss ? *run.loss : INFINITY;
  }
  return [losses = std::move(losses)](const std::string& hash, size_t seeds) -> std::optional<double> {
    const auto of_hash = losses.find(hash);
    if (of_hash == losses.end()) return std::nullopt;
    double sum = 0;
    for (uint64_t seed = first_tuning_seed; seed < first_tuning_seed + seeds; ++seed) {
      const auto loss = of_hash->second.find(seed);
      if (loss == of_hash->second.end()) return std::nullopt;
      sum += loss->second;
    }
    return sum / static_cast<double>(seeds);
  };
}

std::vector<const ConfigRecord*> Planner::families(const std::vector<RunRecord>& runs) const {
  std::vector<const ConfigRecord*> chosen;
  if (grid_.tune_best == 0) {
    for (const ConfigRecord& config : plan_.configs) chosen.push_back(&config);
    return chosen;
  }
  const Results screened = results(runs);
  std::map<std::string, const ConfigRecord*> by_hash;
  for (const ConfigRecord& config : plan_.configs) by_hash[config.hash] = &config;
  std::set<std::string> hashes;
  for (const CostModel& model : models_) {
    const Costs costs(screened, model);
    std::map<std::string, std::vector<const ConfigResult*>> contexts;
    for (const ConfigResult& config : screened.configs())
      if (by_hash.contains(config.record.hash) && config.record.at == At::fixed)
        contexts[config.record.reference].push_back(&config);
    for (const auto& [context, configs] : contexts)
      for (const ConfigResult* config : best_share(configs, screened, costs, grid_.tune_best))
        hashes.insert(config->record.hash);
  }
  for (const std::string& hash : hashes) chosen.push_back(by_hash.at(hash));
  return chosen;
}

std::vector<const ConfigRecord*> Planner::with_references(const std::vector<const ConfigRecord*>& families) const {
  std::map<std::string, const ConfigRecord*> all;
  for (const ConfigRecord* family : families) {
    all[family->hash] = family;
    for (const std::string& hash : plan_.context.at(family->reference))
      all.try_emplace(hash, &plan_.references.at(hash));
  }
  std::vector<const ConfigRecord*> list;
  for (const auto& [hash, record] : all) list.push_back(record);
  return list;
}

void Planner::tune(size_t round, const std::vector<RunRecord>& runs, Stage& stage) {
  const Tuner::MeanLoss losses = tuning_losses(runs);
  const std::vector<const ConfigRecord*> all = with_references(families(runs));
  size_t climbing = 0;
  for (const ConfigRecord* family : all) {
    const std::vector<Json> rungs = tuner_.rungs(Json::parse(family->config), round, losses);
    climbing += !rungs.empty();
    for (const Json& rung : rungs) {
      ConfigRecord record = *family;
      record.hash = simulator_.hash(rung);
      record.config = rung.dump();
      record.static_cost = simulator_.static_cost(rung);
      const ConfigRecord& stored = rungs_.try_emplace(record.hash, record).first->second;
      for (uint64_t i = 0; i < tuner_.seeds(round); ++i)
        stage.jobs.push_back({&stored, first_tuning_seed + i, Role::tune});
    }
  }
  stage.notes.push_back(fmt::format("{} of {} configurations climb", climbing, all.size()));
}

ConfigRecord Planner::at_best(const ConfigRecord& family, const Tuner::MeanLoss& losses,
                              std::vector<ConfigRecord>& near) const {
  const Tuned tuned = tuner_.best(Json::parse(family.config), losses);
  const auto at = [&](const Json& config, At word) {
    ConfigRecord record = family;
    record.hash = simulator_.hash(config);
    record.config = config.dump();
    record.static_cost = simulator_.static_cost(config);
    record.at = word;
    return record;
  };
  for (const Json& config : tuned.near) near.push_back(at(config, At::near));
  return at(tuned.config, tuned.at_edge ? At::edge : At::best);
}

void Planner::take_near(const std::vector<ConfigRecord>& near, const std::string& reference, bool in_plan,
                        Stage& stage) {
  for (ConfigRecord record : near) {
    record.reference = reference;
    near_.insert(record.hash);
    // What runs at the grid's values anyway stays what it is.
    const ConfigRecord& stored = in_plan || taken_.contains(record.hash)
                                     ? taken_.try_emplace(record.hash, record).first->second
                                     : references_.try_emplace(record.hash, record).first->second;
    for (const uint64_t seed : grid_.seeds)
      stage.jobs.push_back({&stored, seed, in_plan ? Role::run : Role::reference});
  }
}

void Planner::take_at_best(const std::vector<RunRecord>& runs, Stage& stage) {
  const Tuner::MeanLoss losses = tuning_losses(runs);
  const std::vector<const ConfigRecord*> chosen = families(runs);
  std::map<std::string, std::string> reference;  // of a context in the plan -> its fp32 at best
  std::map<std::string, std::vector<ConfigRecord>> near_references;
  size_t edges = 0;
  for (const ConfigRecord* family : chosen) {
    for (const std::string& hash : plan_.context.at(family->reference)) {
      if (at_best_of_.contains(hash) && references_.contains(at_best_of_.at(hash))) continue;
      const ConfigRecord record = at_best(plan_.references.at(hash), losses, near_references[hash]);
      at_best_of_[hash] = record.hash;
      references_[record.hash] = record;
    }
    reference[family->reference] = at_best_of_.at(family->reference);
  }
  for (const auto& [context, best] : reference) {
    for (const std::string& hash : plan_.context.at(context)) {
      ConfigRecord& record = references_.at(at_best_of_.at(hash));
      record.reference = best;
      for (const uint64_t seed : grid_.seeds) stage.jobs.push_back({&record, seed, Role::reference});
      take_near(near_references[hash], best, false, stage);
    }
  }
  for (const ConfigRecord* family : chosen) {
    std::vector<ConfigRecord> near;
    ConfigRecord record = at_best(*family, losses, near);
    record.reference = reference.at(family->reference);
    at_best_of_[family->hash] = record.hash;
    edges += record.at == At::edge;
    ConfigRecord& stored = taken_[record.hash];
    stored = record;
    for (const uint64_t seed : grid_.seeds) stage.jobs.push_back({&stored, seed, Role::run});
    take_near(near, record.reference, true, stage);
  }
  stage.notes.push_back(
      fmt::format("{} configurations at their own best, {} of them at an end of their ladder", chosen.size(), edges));
}

void Planner::race(size_t round, const std::vector<RunRecord>& runs, Stage& stage) {
  const std::vector<size_t> rounds = grid_.race->rounds();
  const size_t seen = round == 0 ? 0 : rounds[round - 1];
  std::vector<RunRecord> known;  // screening, and the seeds of the rounds before
  double seconds = 0;
  for (const RunRecord& run : runs) {
    const bool racing = run.seed >= first_race_seed && run.seed < first_race_seed + grid_.race->seeds;
    if (racing && run.seed >= first_race_seed + seen) continue;
    if (racing) seconds += run.seconds;
    known.push_back(run);
  }
  if (grid_.race->hours && seconds >= 3600 * *grid_.race->hours) {
    stage.notes.push_back(fmt::format("the race's budget of {} hours of computing is spent", *grid_.race->hours));
    return;
  }
  const Results so_far = results(known);
  for (const RaceField& field : race_fields(so_far, models_)) {
    const std::vector<std::vector<bool>> draws = still_racing(field);
    const auto any = [](const std::vector<bool>& rungs) { return contains(rungs, true); };
    const auto active = std::count_if(draws.begin(), draws.end(), any);
    stage.notes.push_back(
        fmt::format("{}: {} of {} candidates draw seeds", field.description, active, field.configs.size()));
    if (active == 0) continue;
    const auto draw = [&](const std::string& hash) {
      const auto taken = taken_.find(hash);
      const ConfigRecord& stored = taken != taken_.end() ? taken->second : references_.at(hash);
      const Role role = taken != taken_.end() ? Role::confirm : Role::reference;
      for (size_t s = 0; s < rounds[round]; ++s) stage.jobs.push_back({&stored, first_race_seed + s, role});
    };
    for (size_t i = 0; i < field.configs.size(); ++i) {
      const ConfigResult& config = *field.configs[i];
      if (draws[i][0] || config.record.hash == field.context) draw(config.record.hash);  // gaps are above fp32
      for (size_t k = 0; k < config.near.size(); ++k)
        if (draws[i][k + 1] && near_.contains(config.near[k].record.hash)) draw(config.near[k].record.hash);
    }
  }
}

}  // namespace fp4::sweeps
