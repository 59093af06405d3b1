#include "sweeps/explore/sweep.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "src/text/error.h"
#include "src/text/words.h"

namespace fp4::sweeps {

namespace {

using Key = std::pair<std::string, uint64_t>;

std::vector<RunRecord> known_runs(const Store& store, const SweepOptions& options, std::set<std::string>& told) {
  std::vector<RunRecord> runs = store.runs();
  for (const std::filesystem::path& folder : options.seen) {
    // A store that its writer left half-made says nothing; its runs are done again.
    try {
      const Store other = Store::read(folder);
      if (!other.identity().agrees_with(store.identity()) || other.meta("name") != store.meta("name")) continue;
      std::vector<RunRecord> theirs = other.runs();
      runs.insert(runs.end(), std::make_move_iterator(theirs.begin()), std::make_move_iterator(theirs.end()));
    } catch (const Error& error) {
      if (options.note && told.insert(error.what()).second) options.note(std::string("not used: ") + error.what());
    }
  }
  return runs;
}

void add(Progress& total, const Progress& part) {
  total.done += part.done;
  total.total += part.total;
  total.diverged += part.diverged;
  total.failed += part.failed;
  total.seconds += part.seconds;
}

// Runs of the stage that are known only as failed.
size_t failed_jobs(const Stage& stage, const std::vector<RunRecord>& runs) {
  return missing_jobs(stage, runs, /*retry_failed=*/true).size() - missing_jobs(stage, runs).size();
}

int put_plan(const Planner& planner, Store& store) {
  const Planner::Contents contents = planner.contents();
  // With the recipes, whoever reads the store needs none of the grid's files.
  const std::map<std::string, Json>& recipes = planner.plan().recipes;
  const auto [index, count] = planner.part();
  return store.put_plan(
      contents.axes, contents.configs, contents.points,
      {{"grid", planner.grid().source.dump()}, {"recipes", recipes.empty() ? "" : Json(recipes).dump()}},
      count > 1 ? std::to_string(index) + "/" + std::to_string(count) : "", contents.numbers);
}

std::map<Key, bool> succeeded(const std::vector<RunRecord>& runs) {
  std::map<Key, bool> known;
  for (const RunRecord& run : runs) known[{run.hash, run.seed}] |= run.status != Status::failed;
  return known;
}

}  // namespace

void plan_sweep(Planner& planner, Store& store) {
  store.set_meta("name", planner.grid().name);
  for (size_t i = 0; i < planner.stages(); ++i) {
    const Stage stage = planner.stage(i, store.runs());
    put_plan(planner, store);
    if (!missing_jobs(stage, store.runs()).empty()) return;
  }
}

Identity identity_of(const Simulator& simulator, const Grid& grid, const std::string& version,
                     const std::string& host) {
  Identity identity{.signature = simulator.signature, .train_signatures = {}, .version = version, .host = host};
  for (const std::string& task : grid.tasks) identity.train_signatures[task] = simulator.train_signature(task);
  return identity;
}

std::vector<Job> missing_jobs(const Stage& stage, const std::vector<RunRecord>& runs, bool retry_failed) {
  const std::map<Key, bool> known = succeeded(runs);
  std::vector<Job> missing;
  for (const Job& job : stage.jobs) {
    const auto found = known.find({job.config->hash, job.seed});
    if (found == known.end() || (retry_failed && !found->second)) missing.push_back(job);
  }
  return missing;
}

SweepOutcome run_sweep(Planner& planner, const Simulator& simulator, Store& store, const SweepOptions& options) {
  const std::string name = store.meta("name");
  if (!name.empty() && name != planner.grid().name) {
    throw Error(store.file().string() + ": holds the sweep '" + name + "', not '" + planner.grid().name +
                "'; give this grid another --out");
  }
  store.set_meta("name", planner.grid().name);
  SweepOutcome outcome;
  std::set<Key> counted;
  std::set<std::string> told;
  for (size_t i = 0; i < planner.stages(); ++i) {
    std::vector<RunRecord> runs = known_runs(store, options, told);
    Stage stage = planner.stage(i, runs);
    if (put_plan(planner, store) > 0) runs = known_runs(store, options, told);
    std::map<Key, Role> roles;
    for (const RunRecord& run : runs) roles[{run.hash, run.seed}] = run.role;
    for (const Job& job : stage.jobs) {
      const auto at = roles.find({job.config->hash, job.seed});
      if (at != roles.end() && job.role < at->second) store.raise_role(job.config->hash, job.seed, job.role);
    }
    // Dealt from the full list and not from what is missing, so that every machine deals alike at any time.
    Stage share = stage;
    share.jobs = shard_of(stage.jobs, options.shard, options.shards);
    std::vector<Job> missing = missing_jobs(share, runs, options.retry_failed);
    if (options.smallest_first)
      std::stable_sort(missing.begin(), missing.end(),
                       [](const Job& a, const Job& b) { return a.config->static_cost < b.config->static_cost; });
    std::set<Key> asked, absent;  // what no earlier stage asked for
    for (const Job& job : share.jobs) asked.insert({job.config->hash, job.seed});
    std::erase_if(asked, [&](const Key& key) { return counted.contains(key); });
    for (const Job& job : missing)
      if (const Key key = {job.config->hash, job.seed}; asked.contains(key)) absent.insert(key);
    outcome.wanted += asked.size();
    outcome.present += asked.size() - absent.size();
    counted.merge(asked);
    if (options.on_stage) options.on_stage(share, missing.size());
    if (!missing.empty()) {
      const Progress progress = execute(missing, simulator, store, options.engine);
      add(outcome.progress, progress);
      outcome.interrupted = progress.done < missing.size();
      if (outcome.interrupted) return outcome;
    }
    const std::vector<RunRecord> now = known_runs(store, options, told);
    outcome.failed += failed_jobs(share, now);
    const size_t elsewhere = missing_jobs(stage, now).size();
    if (elsewhere > 0 && i + 1 < planner.stages()) {
      outcome.waiting = "stage '" + planner.stage_name(i + 1) + "' needs " + std::to_string(elsewhere) +
                        " runs of other shards: merge the shards and run the grid on the merged folder";
      return outcome;
    }
  }
  outcome.complete = true;
  return outcome;
}

std::vector<Gap> find_gaps(Planner& planner, const std::vector<RunRecord>& runs) {
  std::vector<Gap> gaps;
  bool whole = true;
  for (size_t i = 0; i < planner.stages(); ++i) {
    if (!whole) {
      gaps.push_back({.stage = planner.stage_name(i), .reached = false});
      continue;
    }
    const Stage stage = planner.stage(i, runs);
    // A later stage is chosen as soon as every run was tried.
    whole = missing_jobs(stage, runs).empty();
    gaps.push_back({.stage = stage.name,
                    .wanted = stage.jobs.size(),
                    .missing = missing_jobs(stage, runs, /*retry_failed=*/true).size(),
                    .failed = failed_jobs(stage, runs)});
  }
  return gaps;
}

void StoredPlan::add(const Store& store) {
  const auto hashes = store.planned();
  if (!hashes) return;
  configs.insert(hashes->begin(), hashes->end());
  const std::string text = store.meta("part");
  is_whole |= !hashes->empty() && text.empty();
  if (!text.empty())
    for (const std::string& part : split(text, ' ')) parts.insert(part);
  std::map<std::string, size_t> seen;  // of each number of shares
  for (const std::string& part : parts) ++seen[split(part, '/').back()];
  for (const auto& [of, count] : seen) is_whole |= std::to_string(count) == of;
}

std::vector<Gap> find_gaps(const Grid& grid, const StoredPlan& plan, const std::vector<RunRecord>& runs) {
  if (!has_one_stage(grid) || (!plan.is_whole && plan.parts.empty())) {
    const Simulator simulator = real_simulator("auto", /*with_signature=*/false);
    Planner planner(grid, simulator, cost_models_of(grid));
    return find_gaps(planner, runs);
  }
  const std::map<Key, bool> known = succeeded(runs);
  Gap gap{.stage = "runs", .wanted = plan.configs.size() * grid.seeds.size()};
  for (const std::string& hash : plan.configs)
    for (const uint64_t seed : grid.seeds) {
      const auto found = known.find({hash, seed});
      gap.failed += found != known.end() && !found->second;
      gap.missing += found == known.end() || !found->second;
    }
  if (plan.is_whole) return {gap};
  return {gap, {.stage = fmt::format("other shards ({} are here)", plan.parts.size()), .reached = false}};
}

}  // namespace fp4::sweeps
