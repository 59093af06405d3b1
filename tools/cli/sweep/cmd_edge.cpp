// `fp4sim edge`: the stability edge of every configuration of a grid, the largest learning rate at which most seeds
// train stably, and its ratio to bf16's.
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "src/text/error.h"
#include "src/text/member_json.h"
#include "src/text/version.h"
#include "src/text/words.h"
#include "src/threads/parallel.h"
#include "sweeps/explore/edges.h"
#include "sweeps/explore/sweep.h"
#include "tools/cli/options.h"
#include "tools/cli/provenance.h"
#include "tools/cli/stop.h"
#include "tools/cli/sweep/sweep_progress.h"
#include "tools/cli/sweep/sweep_view.h"
#include "tools/cli/table_print.h"

namespace fp4::tools {
namespace {

using nlohmann::ordered_json;
using sweeps::EdgeFound;
using sweeps::EdgeRules;

struct EdgeOptions {
  std::string grid, out, backend = "auto";
  EdgeRules rules;
  int jobs = 0;
  bool quiet = false, json = false;
};

// What a task and its training have in common: arms[0] is bf16, the others are compared with it.
struct EdgeContext {
  std::string task;
  int steps = 0;
  EdgeRules rules;
  std::vector<sweeps::EdgeArm> arms;
  std::vector<std::string> hashes;
  sweeps::EdgeOutcome outcome;
};

// The values of the grid's axes, without those that are alike for all; the recipe where none is left.
std::string name_of(const sweeps::Plan& plan, const sweeps::ConfigRecord& config) {
  const auto point = std::find_if(plan.points.begin(), plan.points.end(),
                                  [&](const sweeps::PointRecord& p) { return p.hash == config.hash; });
  std::string name;
  for (size_t axis = 0; point != plan.points.end() && axis < plan.axes.size(); ++axis) {
    const std::string& label = point->labels[axis];
    const bool alike = std::all_of(plan.points.begin(), plan.points.end(),
                                   [&](const sweeps::PointRecord& p) { return p.labels[axis] == label; });
    if (!alike && !label.empty()) add_word(name, label);
  }
  return name.empty() ? config.recipe : name;
}

std::vector<EdgeContext> contexts_of(const sweeps::Plan& plan, const sweeps::Simulator& simulator,
                                     const EdgeRules& rules) {
  std::map<std::string, EdgeContext> by_reference;
  for (const sweeps::ConfigRecord& record : plan.configs) {
    const sweeps::Json config = sweeps::Json::parse(record.config);
    const auto [entry, fresh] = by_reference.try_emplace(record.reference);
    EdgeContext& context = entry->second;
    if (fresh) {
      const sweeps::Json bf16 =
          simulator.canonical({{"task", config["task"]}, {"train", config["train"]}, {"recipe", "bf16"}});
      context.task = record.task;
      context.steps = bf16["train"]["steps"];
      context.rules = rules;
      context.rules.ladder.start = bf16["train"]["lr"];
      context.arms.push_back({"bf16", bf16});
      context.hashes.push_back(simulator.hash(bf16));
    }
    if (record.hash == context.hashes.front()) continue;
    context.arms.push_back({name_of(plan, record), config});
    context.hashes.push_back(record.hash);
  }
  std::vector<EdgeContext> contexts;
  for (auto& [reference, context] : by_reference) contexts.push_back(std::move(context));
  return contexts;
}

std::string rung_text(const EdgeRules& rules, std::optional<int> rung) {
  return rung ? fmt::format("{:.4g}", rung_value(rules.ladder, *rung)) : "";
}

std::string edge_text(const EdgeRules& rules, const sweeps::Edge& edge) {
  if (edge.rung) return rung_text(rules, edge.rung);
  const int widest = edge.is_above ? rules.widest : -rules.widest;
  return (edge.is_above ? ">=" : "<") + rung_text(rules, widest);
}

// "a .. b", with "?" for an end that these seeds do not show.
template <class T>
std::string range_text(const std::optional<T>& low, const std::optional<T>& high, auto&& text) {
  if (!low && !high) return "";
  return fmt::format("{} .. {}", low ? text(*low) : "?", high ? text(*high) : "?");
}

void print_context(const EdgeContext& context) {
  const EdgeRules& rules = context.rules;
  print_sentence("{}, {} steps: the largest train.lr at which {:.3g} % of {} seeds are stable. Intervals: {:.3g} %.",
                 context.task, context.steps, 100 * rules.share, rules.seeds, 100 * (1 - 2 * rules.alpha));
  Table table{{">edge", ">interval", ">x bf16", ">interval", ">rungs", "setting"}, {}};
  const auto number = [](double value) { return fmt::format("{:.3g}", value); };
  for (size_t i = 0; i < context.arms.size(); ++i) {
    const EdgeFound& found = context.outcome.arms[i];
    const sweeps::EdgeRatio ratio = edge_ratio(rules, found.edge, context.outcome.arms[0].edge);
    table.rows.push_back({edge_text(rules, found.edge),
                          range_text(found.edge.low, found.edge.high, [&](int rung) { return rung_text(rules, rung); }),
                          ratio.ratio ? number(*ratio.ratio) : "",
                          i == 0 ? "" : range_text(ratio.low, ratio.high, number), std::to_string(found.counts.size()),
                          context.arms[i].name});
  }
  print_table(table);
}

ordered_json arm_json(const EdgeContext& context, size_t i) {
  const EdgeRules& rules = context.rules;
  const EdgeFound& found = context.outcome.arms[i];
  const auto value = [&](std::optional<int> rung) {
    return rung ? ordered_json(rung_value(rules.ladder, *rung)) : ordered_json();
  };
  const sweeps::EdgeRatio ratio = edge_ratio(rules, found.edge, context.outcome.arms[0].edge);
  ordered_json json = {
      {"setting", context.arms[i].name},  {"hash", context.hashes[i]},
      {"edge", value(found.edge.rung)},   {"beyond", found.edge.rung ? "" : found.edge.is_above ? "above" : "below"},
      {"low", value(found.edge.low)},     {"high", value(found.edge.high)},
      {"ratio", or_null(ratio.ratio)},    {"ratio_low", or_null(ratio.low)},
      {"ratio_high", or_null(ratio.high)}};
  json["rungs"] = ordered_json::array();
  for (const auto& [rung, count] : found.counts) {
    json["rungs"].push_back({{"lr", rung_value(rules.ladder, rung)},
                             {"stable", count.stable},
                             {"failed", count.failed},
                             {"loss", or_null(count.mean_loss())}});
  }
  return json;
}

void run_edge(const EdgeOptions& o, Invocation& invocation) {
  catch_stop_signals();
  sweeps::Grid grid = load_grid(o.grid);
  grid.tune.clear();  // the searched rate takes its place
  const std::filesystem::path out = o.out.empty() ? grid.name + ".edge" : o.out;
  const sweeps::Simulator simulator = sweeps::real_simulator(o.backend);
  std::vector<EdgeContext> contexts = contexts_of(sweeps::expand(grid, simulator), simulator, o.rules);
  sweeps::Store store = sweeps::Store::open(out, sweeps::identity_of(simulator, grid, version(), ""));
  const std::string name = grid.name + " edge";
  if (const std::string held = store.meta("name"); !held.empty() && held != name) {
    throw Error(store.file().string() + ": holds the sweep '" + held + "', not '" + name +
                "'; give --out another folder");
  }
  store.set_meta("name", name);
  store.set_meta("command", invocation.command_line);
  SweepProgress progress(o.quiet);
  const sweeps::EngineOptions engine = {.jobs = o.jobs > 0 ? o.jobs : threads_of_machine(),
                                        .stop = &stop_requested(),
                                        .progress = [&](const sweeps::Progress& p) { progress.update(p); }};
  bool interrupted = false;
  for (EdgeContext& context : contexts) {
    context.outcome =
        find_edges(context.arms, context.rules, simulator, store, engine, [&](const std::vector<sweeps::Job>& jobs) {
          progress.stage({.name = context.task, .jobs = jobs}, jobs.size());
        });
    interrupted |= context.outcome.interrupted;
    if (interrupted) break;
  }
  progress.finish();
  store.finish();
  if (interrupted) {
    print_error("interrupted; every finished run is stored, and the same command continues");
    invocation.exit_code = stop_exit_code();
    return;
  }
  if (!o.json) {
    for (const EdgeContext& context : contexts) {
      if (&context != &contexts.front()) fmt::print("\n");
      print_context(context);
    }
    return;
  }
  ordered_json json = {{"schema", 1}, {"sweep", name}, {"share", o.rules.share}, {"seeds", o.rules.seeds}};
  json["contexts"] = ordered_json::array();
  for (const EdgeContext& context : contexts) {
    ordered_json one = {{"task", context.task}, {"steps", context.steps}, {"start", context.rules.ladder.start}};
    one["settings"] = ordered_json::array();
    for (size_t i = 0; i < context.arms.size(); ++i) one["settings"].push_back(arm_json(context, i));
    json["contexts"].push_back(std::move(one));
  }
  json["provenance"] = provenance(invocation);
  print_json(json);
}

}  // namespace

void command_edge(CLI::App& app, Invocation& invocation) {
  auto o = std::make_shared<EdgeOptions>();
  option(app, "GRID GRID", o->grid,
         "A grid file or the name of a built-in grid; each of its configurations is searched")
      ->required();
  option(app, "-o,--out DIR", o->out, "Folder of the runs (default: NAME.edge); an existing one is continued");
  defaulted(app, "--seeds", o->rules.seeds, "Runs at each rate; 42 and more can show a share of 0.9")
      ->check(CLI::Range(2, 10000));
  defaulted(app, "--share", o->rules.share, "The share of seeds that has to be stable")->check(CLI::Range(0.01, 0.99));
  defaulted(app, "--widest", o->rules.widest, "No rate further from bf16's own than this many factors of sqrt(2)")
      ->check(CLI::Range(1, 60));
  app.add_option("-j,--jobs,--threads", o->jobs, "Runs at a time (default: all cores); never changes a result")
      ->check(CLI::Range(1, 4096));
  add_backend_option(app, o->backend, ": never changes a result")->capture_default_str();
  app.add_flag("-q,--quiet", o->quiet, "No progress");
  add_json_option(app, o->json);
  app.callback([o, &invocation] { run_edge(*o, invocation); });
  set_example(app, "fp4sim edge quick.json --seeds 4 --out quick.edge");
}

}  // namespace fp4::tools
