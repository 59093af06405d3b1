#include "sweeps/explore/edges.h"

#include <algorithm>
#include <set>

#include "src/text/error.h"

namespace fp4::sweeps {

namespace {

ConfigRecord rung_of(const EdgeArm& arm, const EdgeRules& rules, int rung, const Simulator& simulator) {
  Json given = arm.config;
  given["train"]["lr"] = rung_value(rules.ladder, rung);
  const Json config = simulator.canonical(given);
  return {.hash = simulator.hash(config),
          .task = config.at("task").at("name"),
          .reference = {},
          .recipe = arm.name,
          .config = config.dump(),
          .static_cost = simulator.static_cost(config)};
}

class Searches {
 public:
  Searches(const std::vector<EdgeArm>& arms, const EdgeRules& rules, const Simulator& simulator)
      : arms_(arms), rules_(rules), simulator_(simulator) {}

  // What the runs say so far; the rungs that are wanted next become `records`.
  EdgeOutcome look(const std::vector<RunRecord>& runs) {
    std::map<std::string, RungCount> by_hash;
    for (const RunRecord& run : runs) {
      if (run.seed > rules_.seeds) continue;
      if (run.status == Status::failed)
        throw Error("edge: configuration " + run.hash + ": " + run.message, Error::failed);
      RungCount& count = by_hash[run.hash];
      const bool stable = is_stable(run);
      ++(stable ? count.stable : count.failed);
      if (stable) count.stable_loss += *run.loss;
    }
    EdgeOutcome outcome;
    for (const EdgeArm& arm : arms_) {
      EdgeFound found;
      // The search asks again for every rung that it once asked for, in the same order.
      for (found.edge = find_edge(rules_, {}); found.edge.wanted; found.edge = find_edge(rules_, found.counts)) {
        const auto at = by_hash.find(record(arm, *found.edge.wanted).hash);
        if (at == by_hash.end() || !is_decided(rules_, at->second)) break;
        found.counts[*found.edge.wanted] = at->second;
      }
      outcome.arms.push_back(std::move(found));
    }
    return outcome;
  }

  // Two names for one configuration ask for the same runs. As many seeds first as could decide by failing.
  std::vector<Job> jobs(const EdgeOutcome& outcome, const std::vector<RunRecord>& runs) {
    const size_t first = std::min(deciding_failures(rules_), rules_.seeds);
    std::set<std::pair<std::string, uint64_t>> done;
    std::map<std::string, size_t> begun;  // runs of the first seeds
    for (const RunRecord& run : runs) {
      done.emplace(run.hash, run.seed);
      begun[run.hash] += run.seed <= first;
    }
    std::vector<Job> jobs;
    for (size_t i = 0; i < arms_.size(); ++i) {
      if (!outcome.arms[i].edge.wanted) continue;
      const ConfigRecord& config = record(arms_[i], *outcome.arms[i].edge.wanted);
      const size_t last = begun[config.hash] < first ? first : rules_.seeds;
      for (uint64_t seed = 1; seed <= last; ++seed) {
        if (done.emplace(config.hash, seed).second) jobs.push_back({&config, seed, Role::run});
      }
    }
    sort_jobs(jobs);
    return jobs;
  }

 private:
  const ConfigRecord& record(const EdgeArm& arm, int rung) {
    const auto [entry, fresh] = records_.try_emplace({arm.name, rung});
    if (fresh) entry->second = rung_of(arm, rules_, rung, simulator_);
    return entry->second;
  }

  const std::vector<EdgeArm>& arms_;
  const EdgeRules& rules_;
  const Simulator& simulator_;
  std::map<std::pair<std::string, int>, ConfigRecord> records_;
};

}  // namespace

EdgeOutcome find_edges(const std::vector<EdgeArm>& arms, const EdgeRules& rules, const Simulator& simulator,
                       Store& store, const EngineOptions& engine,
                       const std::function<void(const std::vector<Job>&)>& on_round) {
  Searches searches(arms, rules, simulator);
  Progress total;
  for (;;) {
    const std::vector<RunRecord> runs = store.runs();
    EdgeOutcome outcome = searches.look(runs);
    const std::vector<Job> jobs = searches.jobs(outcome, runs);
    Progress progress;
    if (!jobs.empty()) {
      if (on_round) on_round(jobs);
      progress = execute(jobs, simulator, store, engine);
      total.done += progress.done;
      total.diverged += progress.diverged;
      total.seconds += progress.seconds;
    }
    outcome.progress = total;
    outcome.interrupted = progress.done < jobs.size();
    if (jobs.empty() || outcome.interrupted) return outcome;
  }
}

}  // namespace fp4::sweeps
