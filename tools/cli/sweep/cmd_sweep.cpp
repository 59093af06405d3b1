// `fp4sim sweep run | status | merge | check | export | import`: experiments of many runs that survive whatever happens
// to the process.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <filesystem>

#include "src/text/error.h"
#include "src/text/member_json.h"
#include "src/text/version.h"
#include "src/text/words.h"
#include "src/threads/parallel.h"
#include "sweeps/explore/sweep.h"
#include "tasks/run.h"
#include "tools/cli/options.h"
#include "tools/cli/stop.h"
#include "tools/cli/streams.h"
#include "tools/cli/sweep/sweep_progress.h"
#include "tools/cli/sweep/sweep_view.h"
#include "tools/cli/table_print.h"

namespace fp4::tools {

// The subcommands that live in files of their own: what folders hold, putting them together, tables of them.
void add_sweep_status(CLI::App& app, Invocation& invocation);
void add_sweep_merge(CLI::App& app, Invocation& invocation);
void add_sweep_check(CLI::App& app, Invocation& invocation);
void add_sweep_export(CLI::App& app, Invocation& invocation);
void add_sweep_import(CLI::App& app, Invocation& invocation);

namespace {

namespace fs = std::filesystem;

std::string host_name() {
  std::array<char, 65> name{};
  gethostname(name.data(), name.size() - 1);
  return name.data();
}

struct RunOptions {
  std::string grid, out, shard, backend = "auto", store = "auto";
  std::vector<std::string> seen, fixed;
  int jobs = 0;
  double checkpoint_every = 300;
  bool smallest_first = false;
  bool dry_run = false, retry_failed = false, quiet = false, json = false;
};

// 1/4 .. 4/4.
std::pair<size_t, size_t> parse_shard(const std::string& text) {
  const size_t slash = std::min(text.find('/'), text.size());
  const auto index = integer_from_text<size_t>(text.substr(0, slash));
  const auto count = integer_from_text<size_t>(slash < text.size() ? text.substr(slash + 1) : "");
  if (!index || !count || *index < 1 || *index > *count)
    throw Error("--shard: expected I/N with I from 1 to N, such as 1/4, not '" + text + "'");
  return {*index, *count};
}

// Seconds per unit of static cost for a task: about a second of training the configuration of median cost. A first run
// builds the data pool, which a sweep does once.
double measured_seconds(const sweeps::Simulator& simulator, const sweeps::ConfigRecord& config) {
  const auto seconds_of = [&](int steps) {
    nlohmann::json shorter = nlohmann::json::parse(config.config);
    if (shorter.contains("branch")) {  // as far through
      const double share = tasks::branch_step(shorter) / shorter["train"]["steps"].get<double>();
      shorter["branch"]["at"] = std::clamp(std::lround(share * steps), 1L, std::max(1L, steps - 1L));
    }
    shorter["train"]["steps"] = steps;
    const nlohmann::json canonical = simulator.canonical(shorter);
    const auto start = std::chrono::steady_clock::now();
    simulator.run(canonical, 1, [] { return false; });
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    return seconds / simulator.static_cost(canonical);
  };
  const int steps = nlohmann::json::parse(config.config)["train"]["steps"].get<int>();
  seconds_of(std::min(steps, 5));
  double best = INFINITY;
  const auto start = std::chrono::steady_clock::now();
  for (int tried = std::min(steps, 10); std::chrono::steady_clock::now() - start < std::chrono::milliseconds(200);
       tried = std::min(steps, 2 * tried)) {
    best = std::min(best, seconds_of(tried));
  }
  return best;
}

double estimate_seconds(const sweeps::Simulator& simulator, const std::vector<sweeps::Job>& jobs, int workers) {
  std::map<std::string, std::vector<const sweeps::ConfigRecord*>> by_task;
  for (const sweeps::Job& job : jobs) by_task[job.config->task].push_back(job.config);
  double seconds = 0;
  for (auto& [task, configs] : by_task) {
    std::sort(configs.begin(), configs.end(), [](const auto* a, const auto* b) {
      return std::tie(a->static_cost, a->hash) < std::tie(b->static_cost, b->hash);
    });
    const double rate = measured_seconds(simulator, *configs[configs.size() / 2]);
    for (const sweeps::ConfigRecord* config : configs) seconds += rate * config->static_cost;
  }
  return seconds / workers;
}

void dry_run(const RunOptions& o, sweeps::Planner& planner, const sweeps::Simulator& simulator,
             const std::vector<sweeps::RunRecord>& known, std::pair<size_t, size_t> shard, int workers) {
  const sweeps::Counts& counts = planner.plan().counts;
  sweeps::Stage stage = planner.stage(0, known);
  stage.jobs = sweeps::shard_of(stage.jobs, shard.first, shard.second);
  const std::vector<sweeps::Job> missing = sweeps::missing_jobs(stage, known, o.retry_failed);
  const auto references =
      static_cast<size_t>(std::count_if(stage.jobs.begin(), stage.jobs.end(),
                                        [](const sweeps::Job& job) { return job.role == sweeps::Role::reference; }));
  const double seconds = missing.empty() ? 0 : estimate_seconds(simulator, missing, workers);
  size_t impossible = 0;
  for (const auto& [reason, count] : counts.impossible) impossible += count;
  if (o.json) {
    nlohmann::ordered_json json =
        joined_json({{{"grid", planner.grid().name}},
                     FP4_NAMED(counts.product, counts.excluded, counts.included, counts.impossible, counts.duplicates,
                               counts.equal_values, counts.distinct),
                     {{"references", references},
                      {"runs", stage.jobs.size()},
                      {"missing", missing.size()},
                      {"jobs", workers},
                      {"seconds", seconds}}});
    json["stages"] = nlohmann::ordered_json::array();
    for (size_t i = 0; i < planner.stages(); ++i) json["stages"].push_back(planner.stage_name(i));
    return print_json(json);
  }
  std::vector<std::pair<std::string, std::string>> fields = {{"grid", planner.grid().name},
                                                             {"product", std::to_string(counts.product)},
                                                             {"excluded", std::to_string(counts.excluded)},
                                                             {"included", std::to_string(counts.included)},
                                                             {"impossible", std::to_string(impossible)}};
  fields.emplace_back("duplicates", std::to_string(counts.duplicates));
  fields.emplace_back("distinct", std::to_string(counts.distinct));
  fields.emplace_back(stage.name, fmt::format("{} (of them {} references)", stage.jobs.size(), references));
  fields.emplace_back("to do", std::to_string(missing.size()));
  fields.emplace_back("time", fmt::format("about {} with {} jobs", duration(seconds), workers));
  for (size_t i = 1; i < planner.stages(); ++i)
    fields.emplace_back("then", planner.stage_name(i) + ": chosen from the results of the stage before");
  print_fields(fields);
  for (const auto& [values, count] : counts.equal_values)
    print_sentence("{} mean the same at {} point{}", values, count, count == 1 ? "" : "s");
  for (const auto& [reason, count] : counts.impossible) print_sentence("{} impossible: {}", count, reason);
}

void print_outcome(const RunOptions& o, const fs::path& out, const sweeps::Store& store,
                   const sweeps::SweepOutcome& outcome, bool sharded) {
  if (o.json) {
    return print_json(
        joined_json({{{"sweep", store.meta("name")},
                      {"folder", out.string()},
                      {"complete", outcome.complete && outcome.failed == 0}},
                     FP4_NAMED(outcome.interrupted, outcome.wanted, outcome.present, outcome.progress.done,
                               outcome.progress.diverged, outcome.failed, outcome.progress.seconds, outcome.waiting,
                               store.identity().signature, store.identity().train_signatures)}));
  }
  fmt::print("{}: {} runs, {} here {}before, {} done now in {}{}{}\n", out.string(), outcome.wanted, outcome.present,
             o.seen.empty() ? "" : "or seen ", outcome.progress.done, duration(outcome.progress.seconds),
             outcome.progress.diverged > 0 ? fmt::format(", {} diverged", outcome.progress.diverged) : "",
             outcome.failed > 0 ? fmt::format(", {} failed", outcome.failed) : "");
  if (outcome.interrupted) return;
  if (!outcome.waiting.empty()) {
    fmt::print("{}\n", outcome.waiting);
  } else if (!o.seen.empty()) {  // what was seen stays where it is
    fmt::print("next: fp4sim sweep merge {} {} --out FOLDER\n", out.string(), fmt::join(o.seen, " "));
  } else if (!sharded && outcome.failed == 0) {
    fmt::print("next: fp4sim pareto {0}; fp4sim table {0};\n      fp4sim report {0} --out report.html\n", out.string());
  }
}

// What a person must know beside the numbers; the exit code.
int judge_outcome(const fs::path& out, const sweeps::Store& store, const sweeps::SweepOutcome& outcome) {
  if (outcome.interrupted) {
    print_error("interrupted; every finished run is stored, and the same command continues");
    return stop_exit_code();
  }
  if (outcome.failed == 0) return 0;
  std::string first;
  for (const sweeps::RunRecord& run : store.runs()) {
    if (first.empty() && run.status == sweeps::Status::failed) first = run.hash + ": " + run.message;
  }
  print_error(fmt::format("{}: {} runs failed, the first: {}; --retry-failed does them again", out.string(),
                          outcome.failed, first));
  return 1;
}

// Every point of the product is made canonical and hashed before the first run: minutes for millions.
void say_large_product(const sweeps::Grid& grid) {
  size_t points = grid.tasks.size();
  for (const sweeps::Axis& axis : grid.axes)
    if (points <= 20'000'000) points *= axis.values.size();  // more is refused by the planner
  if (points >= 100'000)
    say("fp4sim: {}: a product of {} points; which of them are possible and distinct is found first\n", grid.place,
        points);
}

// A sweep of no run would end well and say nothing.
void refuse_without_points(const sweeps::Planner& planner) {
  const sweeps::Grid& grid = planner.grid();
  const sweeps::Counts& counts = planner.plan().counts;
  if (counts.distinct > 0 || planner.part().count > 1) return;
  if (counts.impossible.empty())
    throw Error(grid.place + ": exclude: leaves no point of " + std::to_string(counts.product));
  const std::string text = joined(counts.impossible, "; ", [](const auto& entry) {
    return fmt::format("{} impossible: {}", entry.second, entry.first);
  });
  const bool has_recipe = grid.source.contains("base") ||
                          std::any_of(grid.axes.begin(), grid.axes.end(),
                                      [](const sweeps::Axis& axis) { return axis.kind == sweeps::AxisKind::recipe; });
  throw Error(fmt::format("{}: no point can run ({}){}", grid.place, text,
                          has_recipe ? "" : R"(. There is no base, so the recipe is fp32: add "base": "nvfp4")"));
}

// A race at one rung, or at rungs far apart, would tell rates apart and call them recipes.
void refuse_coarse_race(const sweeps::Grid& grid) {
  for (const sweeps::TunedField& field : grid.tune)
    if (grid.race && !field.may_race())
      throw Error(
          fmt::format(R"({}: tune.{}: a race needs "judged" from 2 on and rungs a factor of 1.42 apart at most, )"
                      R"(such as "factor": 2 with "finer": true; leave "judged" and "finer" out)",
                      grid.place, field.path));
}

void run_sweep_command(const RunOptions& o, Invocation& invocation) {
  if (!o.dry_run) catch_stop_signals();  // before anything is opened: a signal never finds a half-made store
  std::pair<size_t, size_t> shard = o.shard.empty() ? std::pair<size_t, size_t>{1, 1} : parse_shard(o.shard);
  const sweeps::Grid grid = load_grid(o.grid, o.fixed);
  refuse_coarse_race(grid);
  const char* ending = o.fixed.empty() ? ".sweep" : ".fixed.sweep";  // beside the tuned one, never in its place
  const fs::path out = o.out.empty() ? fs::path(grid.name + ending) : fs::path(o.out);
  const int workers = o.jobs > 0 ? o.jobs : threads_of_machine();
  const sweeps::Simulator simulator = sweeps::real_simulator(o.backend);
  const bool is_sharded = shard.second > 1;
  sweeps::Part part;
  if (is_sharded && sweeps::is_dealt_by_number(grid))
    part = {std::exchange(shard.first, 1), std::exchange(shard.second, 1)};
  else if (!o.quiet)
    say_large_product(grid);
  sweeps::Planner planner(grid, simulator, sweeps::cost_models_of(grid), part);
  refuse_without_points(planner);
  const sweeps::Identity identity = sweeps::identity_of(simulator, grid, version(), host_name());
  if (o.dry_run) {  // writes nothing, not even a folder
    std::vector<sweeps::RunRecord> known;
    if (sweeps::Store::exists(out)) {
      const sweeps::Store store = sweeps::Store::read(out);
      if (store.identity().agrees_with(identity)) known = store.runs();
    }
    return dry_run(o, planner, simulator, known, shard, workers);
  }
  for (const auto& [values, count] : planner.plan().counts.equal_values)
    for (const sweeps::Axis& axis : grid.axes)
      if (values.starts_with(axis.path + ": ") && count * axis.values.size() == planner.plan().counts.product)
        print_notes({values + " mean the same at every point: an axis that comes later lies over this one"});
  const auto mode = o.store == "auto"    ? sweeps::StoreMode::automatic
                    : o.store == "local" ? sweeps::StoreMode::local
                                         : sweeps::StoreMode::network;
  sweeps::Store store = sweeps::Store::open(out, identity, mode);
  store.set_meta("command", invocation.command_line);
  SweepProgress progress(o.quiet);
  sweeps::SweepOptions options;
  options.engine = {
      .jobs = workers, .stop = &stop_requested(), .progress = [&](const sweeps::Progress& p) { progress.update(p); }};
  options.engine.checkpoints = out;
  options.engine.checkpoint_every = o.checkpoint_every;
  options.smallest_first = o.smallest_first;
  options.shard = shard.first;
  options.shards = shard.second;
  options.retry_failed = o.retry_failed;
  options.seen.assign(o.seen.begin(), o.seen.end());
  options.on_stage = [&](const sweeps::Stage& stage, size_t missing) { progress.stage(stage, missing); };
  options.note = [](const std::string& note) { print_error("note: " + note); };
  const sweeps::SweepOutcome outcome = sweeps::run_sweep(planner, simulator, store, options);
  progress.finish();
  invocation.exit_code = judge_outcome(out, store, outcome);
  store.finish();
  print_outcome(o, out, store, outcome, is_sharded);
}

void add_run(CLI::App& app, Invocation& invocation) {
  auto o = std::make_shared<RunOptions>();
  option(app, "GRID GRID", o->grid, "A grid file, or the name of a built-in grid (`fp4sim list grids`)")->required();
  option(app, "-o,--out DIR", o->out,
         "Folder of the results (default: NAME.sweep, NAME.fixed.sweep with --fixed); an existing one is continued");
  option(app, "--fixed PATH=NUMBER", o->fixed,
         "A tuned field at this value instead of its ladder: train.lr=0.002 (repeatable)")
      ->allow_extra_args(false);
  app.add_option("-j,--jobs,--threads", o->jobs, "Runs at a time (default: all cores); never changes a result")
      ->check(CLI::Range(1, 4096));
  option(app, "--shard I/N", o->shard, "Do part I of N of the runs; merge the folders afterwards");
  option(app, "--seen DIR", o->seen, "Other folders of this sweep whose runs need not be done again");
  add_backend_option(app, o->backend, ": never changes a result")->capture_default_str();
  defaulted(app, "--store", o->store, "Journal: local (WAL), network (rollback, exclusive), auto by the file system")
      ->check(CLI::IsMember({"auto", "local", "network"}));
  defaulted(app, "--checkpoint-every", o->checkpoint_every,
            "Seconds between checkpoints of a run in flight, which lie in the folder until it is stored")
      ->check(CLI::Range(0.001, 1e6));
  app.add_flag("--smallest-first", o->smallest_first, "Begin with the cheapest runs; by default the longest go first");
  app.add_flag("--retry-failed", o->retry_failed, "Do failed runs again");
  app.add_flag("-n,--dry-run", o->dry_run, "Count and estimate only; nothing is written");
  app.add_flag("-q,--quiet", o->quiet, "No progress");
  add_json_option(app, o->json);
  app.callback([o, &invocation] { run_sweep_command(*o, invocation); });
  set_example(app, "fp4sim sweep run quick --out quick.sweep");
}

}  // namespace

void command_sweep(CLI::App& app, Invocation& invocation) {
  app.require_subcommand(1);
  add_run(*app.add_subcommand("run", "Run what a grid asks for and a folder lacks"), invocation);
  add_sweep_status(*app.add_subcommand("status", "What is done, what is missing, what contradicts itself"), invocation);
  add_sweep_merge(*app.add_subcommand("merge", "Put the folders of shards together"), invocation);
  add_sweep_check(*app.add_subcommand("check", "Compare every row of a folder with its hash"), invocation);
  add_sweep_export(*app.add_subcommand("export", "The runs of a folder as a table that can be imported"), invocation);
  add_sweep_import(*app.add_subcommand("import", "Runs of such a table into a folder, to be gone on with"), invocation);
  set_example(app, "fp4sim sweep run quick --dry-run");
}

}  // namespace fp4::tools
