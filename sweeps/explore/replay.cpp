// See replay.h.
#include "sweeps/explore/replay.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <fstream>
#include <memory>
#include <mutex>
#include <numbers>
#include <set>

#include "fp4/elementary.h"
#include "fp4/rng.h"
#include "src/csv.h"
#include "src/error.h"

namespace fp4::sweeps {

namespace {

constexpr double as_cheap = 0.005;  // overheads that differ by half a point are one price
constexpr double share_that_matters = 0.02;
constexpr double base_loss = 1;  // of fp32: only gaps count

// Standard normal, by position (Box and Muller 1958).
double normal(uint32_t replay, uint32_t stream, uint64_t position) {
  const RandomPlace place{replay, stream, 1};
  const float u = 1.0f - random_uniform(place, 2 * position), v = random_uniform(place, 2 * position + 1);
  const float angle = 2 * std::numbers::pi_v<float> * v;
  return static_cast<double>(std::sqrt(-2.0f * elementary::log(u)) * elementary::cos(angle));
}

}  // namespace

// Configurations by hash. Replays read them thousands of times, so what the planner carries about has the hash alone
// for a recipe, and its cost is computed once.
struct Replay::Memory {
  std::mutex mutex;
  std::map<std::string, Json> full;
  std::map<std::string, Cost> costs;

  const Json& of(const std::string& hash) {
    const std::lock_guard lock(mutex);
    return full.at(hash);
  }
};

namespace {

std::string hash_in(const Json& config) { return config.at("recipe").at("hash"); }

}  // namespace

Simulator Replay::shortened(const Simulator& real) {
  Simulator out = real;
  out.canonical = [real, memory = memory_](const Json& given) {
    Json full = real.canonical(given);
    const std::string hash = real.hash(full);
    const Json brief = {{"task", full.at("task")}, {"train", full.at("train")}, {"recipe", {{"hash", hash}}}};
    const std::lock_guard lock(memory->mutex);
    memory->full.emplace(hash, std::move(full));
    return brief;
  };
  out.hash = hash_in;
  out.invalid_reason = [real, memory = memory_](const Json& brief) {
    return real.invalid_reason(memory->of(hash_in(brief)));
  };
  out.static_cost = [real, memory = memory_](const Json& brief) {
    return real.static_cost(memory->of(hash_in(brief)));
  };
  return out;
}

CostModel Replay::shortened(const CostModel& real) {
  CostModel out = real;
  out.evaluate = [real, memory = memory_](const Json& recipe, int steps, const CostWeights& weights) {
    const std::string hash = recipe.at("hash");
    {
      const std::lock_guard lock(memory->mutex);
      if (const auto found = memory->costs.find(hash); found != memory->costs.end()) return found->second;
    }
    const Cost cost = real.evaluate(memory->of(hash).at("recipe"), steps, weights);
    const std::lock_guard lock(memory->mutex);
    return memory->costs[hash] = cost;
  };
  return out;
}

namespace {

// A grid that only explores, one task.
Grid exploring(const Grid& grid, const std::string& task) {
  Grid out = grid;
  out.tasks = {task};
  out.tune.clear();
  out.tune_best = 0;
  out.race.reset();
  out.confirm.clear();
  out.explore = Explore::all;
  return out;
}

int steps_of(const ConfigRecord& config) { return Json::parse(config.config).at("train").at("steps"); }

}  // namespace

KnownGaps read_known_gaps(const std::string& table, const std::string& task) {
  std::ifstream file(table);
  if (!file) throw Error(table + ": cannot be read");
  std::string line;
  std::getline(file, line);
  const std::vector<std::string> head = csv_fields(line);
  const auto column = [&](const char* name) {
    const auto found = std::find(head.begin(), head.end(), name);
    if (found == head.end())
      throw Error(table + ": no column " + name + "; accepted: what `fp4sim table --group --csv` writes");
    return static_cast<size_t>(found - head.begin());
  };
  const size_t hash = column("config_hash"), of_task = column("task"), role = column("role"), gap = column("loss_gap"),
               sd = column("loss_gap_sd");
  const auto number = [&](const std::string& cell) {
    double value = unknown;
    std::from_chars(cell.data(), cell.data() + cell.size(), value);
    return value;
  };
  KnownGaps known;
  double variance = 0, count = 0;
  while (std::getline(file, line)) {
    const std::vector<std::string> cells = csv_fields(line);
    if (cells.size() != head.size()) throw Error(table + ": a line of " + std::to_string(cells.size()) + " cells");
    if (cells[of_task] != task || cells[role] != "run") continue;
    known.by_hash[cells[hash]] = {number(cells[gap])};
    if (const double s = number(cells[sd]); std::isfinite(s)) variance += s * s, ++count;
  }
  if (known.by_hash.empty()) throw Error(table + ": no run of " + task);
  known.sd = count > 0 ? std::sqrt(variance / count) : 0;
  return known;
}

double keep_for_budget(const std::vector<int>& rungs, double budget) {
  const auto work = [&](double keep) {
    double sum = 0, share = 1;
    for (const int steps : rungs) sum += share * steps / rungs.back(), share *= keep;
    return sum;
  };
  if (work(0) > budget) throw Error("the first rung alone costs more than the budget; accepted: fewer steps");
  double low = 0, high = 1;
  for (int i = 0; i < 60; ++i) (work((low + high) / 2) < budget ? low : high) = (low + high) / 2;
  return high;
}

Replay::Replay(const Grid& grid, const std::string& task, const Simulator& simulator, const KnownGaps& known)
    : grid_(exploring(grid, task)),
      known_(known),
      memory_(std::make_shared<Memory>()),
      real_(simulator),
      simulator_(shortened(simulator)),
      model_(shortened(cost_models_of(grid_).front())) {
  const Plan plan = expand(grid_, simulator_);
  const Results space(grid_, plan.axes, plan.configs, plan.points, {}, {});
  const Costs costs(space, model_);
  std::vector<std::string> hashes;
  std::vector<double> x, y;
  for (const ConfigResult& config : space.configs()) {
    const auto found = known.by_hash.find(config.record.hash);
    if (found == known.by_hash.end())
      throw Error("the table lacks configuration " + config.record.hash + " of grid " + grid.name);
    x_[config.record.hash] = costs.of(config).overhead;
    if (!std::isfinite(found->second.gap)) continue;
    hashes.push_back(config.record.hash);
    x.push_back(x_[config.record.hash]);
    y.push_back(found->second.gap);
  }
  const std::vector<bool> on = undominated(x, y);
  for (size_t i = 0; i < on.size(); ++i)
    if (on[i]) front_.push_back(hashes[i]);
  for (const auto& [hash, record] : plan.references)
    if (const auto found = known.by_hash.find(hash); record.recipe == "mxfp4" && found != known.by_hash.end())
      delta_ = share_that_matters * found->second.gap;
}

Replayed Replay::judge(const std::vector<std::string>& run, double delta) const {
  Replayed out;
  const std::set<std::string> done(run.begin(), run.end());
  for (const std::string& hash : front_) {
    const double x = x_.at(hash), y = known_.by_hash.at(hash).gap;
    out.recall += done.contains(hash);
    out.alike += std::any_of(run.begin(), run.end(), [&](const std::string& other) {
      return x_.at(other) <= x + as_cheap && known_.by_hash.at(other).gap <= y + delta;
    });
  }
  out.recall /= static_cast<double>(front_.size());
  out.alike /= static_cast<double>(front_.size());
  return out;
}

std::vector<Replayed> Replay::run(const ReplaySettings& settings) const {
  Grid grid = grid_;
  grid.explore = settings.explore;
  const double all = static_cast<double>(x_.size());
  grid.sample = static_cast<size_t>(std::lround(settings.budget * all));
  if (settings.explore == Explore::halving) {
    grid.rungs = settings.rungs;
    grid.keep = keep_for_budget(settings.rungs, settings.budget);
  }
  const Planner planner(grid, simulator_, {model_});
  // A rung's configuration, by hash: its number, its rung, and the hash at full length.
  struct Place {
    uint64_t number;
    size_t rung;
    std::string full;
  };
  std::map<std::string, Place> places;
  const bool halves = settings.explore == Explore::halving;
  const size_t rungs = halves ? settings.rungs.size() : 1;
  int full_steps = 0;
  for (const ConfigRecord& config : planner.plan(rungs - 1).configs) full_steps = steps_of(config);
  for (size_t rung = 0; rung < rungs; ++rung)
    for (const ConfigRecord& config : planner.plan(rung).configs) {
      Json json = memory_->of(config.hash);
      json["train"]["steps"] = full_steps;
      const std::string full = rung + 1 == rungs ? config.hash : real_.hash(real_.canonical(json));
      const auto number = static_cast<uint64_t>(std::distance(x_.begin(), x_.find(full)));
      places[config.hash] = {number, rung, full};
    }
  std::vector<Replayed> out;
  for (uint32_t replay = 1; replay <= settings.replays; ++replay) {
    Planner own(planner, "replay " + std::to_string(replay));
    std::vector<RunRecord> runs;
    std::set<std::pair<std::string, uint64_t>> done;
    std::vector<std::string> at_full;
    double steps = 0;
    for (size_t s = 0; s < own.stages(); ++s)
      for (const Job& job : own.stage(s, runs).jobs) {
        if (!done.insert({job.config->hash, job.seed}).second) continue;
        RunRecord run;
        run.hash = job.config->hash, run.seed = job.seed, run.task = job.config->task, run.loss = base_loss;
        if (const auto place = places.find(run.hash); place != places.end()) {
          const Place& p = place->second;
          const bool is_last = p.rung + 1 == rungs;
          double gap = known_.by_hash.at(p.full).gap;
          if (!is_last && gap > 0)
            gap *= std::exp(settings.rung_sd.at(p.rung) * normal(replay, 64 + static_cast<uint32_t>(p.rung), p.number));
          const auto stream = static_cast<uint32_t>(p.rung + 8 * job.seed + 128);
          run.loss = base_loss + gap + known_.sd * normal(replay, stream, p.number);
          if (!std::isfinite(gap)) run.status = Status::diverged, run.loss.reset();
          if (job.role == Role::run) {
            steps += halves ? settings.rungs[p.rung] : full_steps;
            if (is_last && job.seed == grid.seeds.front()) at_full.push_back(p.full);
          }
        }
        runs.push_back(std::move(run));
      }
    Replayed result = judge(at_full, settings.delta);
    result.work = steps / (all * full_steps * static_cast<double>(grid.seeds.size()));
    out.push_back(result);
  }
  return out;
}

}  // namespace fp4::sweeps
