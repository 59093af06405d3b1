// `fp4sim sweep replay`: random, halving and importance sampling explore a grid whose table is known, many times, and
// are judged by the share of the front that they find.
#include <fmt/core.h>

#include "src/error.h"
#include "sweeps/explore/replay.h"
#include "sweeps/judge/statistics.h"
#include "tools/cli/options.h"
#include "tools/cli/progress_line.h"
#include "tools/cli/provenance.h"
#include "tools/cli/sweep_commands.h"
#include "tools/cli/sweep_view.h"
#include "tools/cli/table_print.h"

namespace fp4::tools {
namespace {

using nlohmann::ordered_json;
using sweeps::Explore;
using sweeps::Replayed;

struct ReplayOptions {
  std::string grid, table, task;
  std::vector<double> budgets = {0.1, 0.25, 0.5}, rung_sd;
  std::vector<int> rungs;
  int replays = 200;
  bool json = false;
};

struct ReplayRow {
  const char* explore;
  double budget = 0;
  std::vector<Replayed> replays;
  sweeps::Summary summary(double Replayed::*value) const {
    std::vector<double> values;
    for (const Replayed& r : replays) values.push_back(r.*value);
    return sweeps::summarise(values);
  }
};

std::string share_text(const sweeps::Summary& s) {
  if (!s.interval) return fmt::format("{:.3f}", s.mean);
  return fmt::format("{:.3f} [{:.3f}, {:.3f}]", s.mean, s.interval->low, s.interval->high);
}

ordered_json json_of(const sweeps::Summary& s) {
  ordered_json json = {{"mean", s.mean}, {"sd", s.sd}};
  if (s.interval) json["interval"] = {s.interval->low, s.interval->high};
  return json;
}

void run_replay(const ReplayOptions& o, Invocation& invocation) {
  const sweeps::Simulator simulator = sweeps::real_simulator("auto", /*with_signature=*/false);
  const sweeps::Grid grid = load_grid(o.grid);
  const std::string task = o.task.empty() ? grid.tasks.front() : o.task;
  const sweeps::KnownGaps known = sweeps::read_known_gaps(o.table, task);
  const sweeps::Replay replay(grid, task, simulator, known);
  if (!o.rungs.empty() && o.rung_sd.size() + 1 != o.rungs.size())
    throw Error(fmt::format("--rung-sd: {} numbers for {} rungs; accepted: one for each rung but the last",
                            o.rung_sd.size(), o.rungs.size()));
  std::vector<std::pair<const char*, Explore>> ways = {{"random", Explore::random},
                                                       {"importance", Explore::importance}};
  if (!o.rungs.empty()) ways.emplace_back("halving", Explore::halving);
  std::vector<ReplayRow> rows;
  ProgressLine line(
      o.json, [](double rate) { return fmt::format("{:.3g} rows/s", rate); }, 2);
  const size_t all = o.budgets.size() * ways.size();
  for (const double budget : o.budgets)
    for (const auto& [name, explore] : ways) {
      rows.push_back({name, budget,
                      replay.run({.explore = explore,
                                  .budget = budget,
                                  .rungs = o.rungs,
                                  .rung_sd = o.rung_sd,
                                  .delta = replay.delta(),
                                  .replays = static_cast<size_t>(o.replays)})});
      line.update({.done = static_cast<double>(rows.size()),
                   .all = static_cast<double>(all),
                   .count = fmt::format("{}/{}", rows.size(), all),
                   .more = name});
    }
  if (o.json) {
    ordered_json list = ordered_json::array();
    for (const ReplayRow& row : rows) {
      list.push_back({{"explore", row.explore},
                      {"budget", row.budget},
                      {"work", json_of(row.summary(&Replayed::work))},
                      {"recall", json_of(row.summary(&Replayed::recall))},
                      {"alike", json_of(row.summary(&Replayed::alike))}});
      for (const Replayed& r : row.replays) list.back()["alike_by_replay"].push_back(r.alike);
    }
    return print_json({{"schema", 1},
                       {"grid", grid.name},
                       {"task", task},
                       {"configurations", replay.configurations()},
                       {"front", replay.front()},
                       {"delta", replay.delta()},
                       {"seed_sd", known.sd},
                       {"rows", list},
                       {"provenance", provenance(invocation)}});
  }
  print_wrapped(
      fmt::format("{}, {}: {} configurations, {} on the front of their means; SD of a seed's gap {:.3g}; as "
                  "good: half a point of overhead and {:.3g} of loss; {} replays",
                  grid.name, task, replay.configurations(), replay.front(), known.sd, replay.delta(), o.replays));
  Table table{{{"budget", Align::right}, {"work", Align::right}, {"explore"}, {"front found"}, {"or as good"}}, {}};
  for (const ReplayRow& row : rows)
    table.rows.push_back({fmt::format("{:g} %", 100 * row.budget),
                          fmt::format("{:.1f} %", 100 * row.summary(&Replayed::work).mean), row.explore,
                          share_text(row.summary(&Replayed::recall)), share_text(row.summary(&Replayed::alike))});
  print_table(table);
}

}  // namespace

void add_sweep_replay(CLI::App& app, Invocation& invocation) {
  auto o = std::make_shared<ReplayOptions>();
  app.add_option("GRID", o->grid, "Grid that was run whole: a name or a .json file")->required()->type_name("GRID");
  app.add_option("--table", o->table, "Its `fp4sim table --group --csv`")->required()->type_name("FILE");
  app.add_option("--task", o->task, "One of the grid's; left out: the first")->type_name("TASK");
  app.add_option("--budgets", o->budgets, "Shares of the work of all configurations")
      ->delimiter(',')
      ->check(CLI::Range(0.001, 1.0))
      ->capture_default_str();
  app.add_option("--rungs", o->rungs, "Steps of halving's rungs, the last the grid's own; left out: no halving")
      ->delimiter(',')
      ->check(CLI::Range(1, 1000000000));
  app.add_option("--rung-sd", o->rung_sd, "SD of ln(gap) of each rung but the last, beyond the noise of seeds")
      ->delimiter(',')
      ->check(CLI::Range(0.0, 100.0));
  app.add_option("--replays", o->replays, "Of each way and budget")
      ->check(CLI::Range(1, 100000))
      ->capture_default_str();
  add_json_option(app, o->json);
  app.callback([o, &invocation] { run_replay(*o, invocation); });
  set_example(
      app, "fp4sim sweep replay design_space --table results/design_space/table.csv --budgets 0.1,0.25 --replays 50");
}

}  // namespace fp4::tools
