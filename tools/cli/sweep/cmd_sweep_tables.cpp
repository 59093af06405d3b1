// `fp4sim sweep export | import`: a store as a table that git keeps, and back, so that a published study can be gone on
// with on any machine.
#include <fmt/core.h>

#include <algorithm>
#include <optional>

#include "src/files/output.h"
#include "src/text/byte_source.h"
#include "src/text/error.h"
#include "src/text/json_reader.h"
#include "sweeps/engine/runs_csv.h"
#include "sweeps/explore/sweep.h"
#include "sweeps/judge/results.h"
#include "sweeps/training.h"
#include "tools/cli/options.h"
#include "tools/cli/table_print.h"

namespace fp4::tools {
namespace {

struct TableFile {
  std::string from, out;
  bool force = false;
};

void run_export(const TableFile& o) {
  const sweeps::Store store = sweeps::Store::read(o.from);
  write_file(o.out, sweeps::runs_csv(store), o.force);
  const std::vector<sweeps::RunRecord> runs = store.runs();
  fmt::print("{}: {} runs\n", o.out, std::count_if(runs.begin(), runs.end(), [](const sweeps::RunRecord& run) {
               return run.status != sweeps::Status::failed;
             }));
}

// Gives the store the grid of the table and the plan that the runs allow; false where it belongs to another sweep, or
// where it cannot be planned here: a text that the runs read may be on another machine.
bool keep_grid(const sweeps::Grid& grid, const std::string& sweep, const TableFile& o, const sweeps::Simulator& program,
               const std::string& version) {
  sweeps::Store store = sweeps::Store::open(o.out, sweeps::identity_of(program, grid, version, ""));
  if (const std::string name = store.meta("name"); !name.empty() && name != sweep) return false;
  std::optional<sweeps::Planner> planner;
  try {
    planner.emplace(grid, program, sweeps::cost_models_of(grid));
  } catch (const Error& error) {
    print_sentence("the grid is left out, the runs are there: {}", error.what());
    return false;
  }
  sweeps::plan_sweep(*planner, store);
  store.finish();
  return true;
}

void run_import(const TableFile& o) {
  const std::string text = read_file(o.from);
  const std::vector<sweeps::RunRow> rows = sweeps::parse_runs_csv(text, o.from);
  if (rows.empty()) throw Error(o.from + ": holds no run");
  const sweeps::GridTexts texts = sweeps::parse_runs_grid(text, o.from);
  std::optional<sweeps::Grid> grid;  // before anything is kept
  if (!texts.grid.empty()) grid = sweeps::grid_of_texts(texts.grid, texts.recipes, o.from + ", line #grid");
  const sweeps::Simulator program = sweeps::real_simulator("auto");
  const size_t fresh = sweeps::import_runs(rows, o.out, program.signature, program.train_signature);
  fmt::print("{}: {} runs, {} of them new\n", o.out, rows.size(), fresh);
  if (grid && keep_grid(*grid, texts.name, o, program, rows.back().version)) {
    fmt::print("next: fp4sim pareto {}\n", o.out);
    return;
  }
  const std::string& sweep = rows.front().sweep;
  const std::vector<std::string> grids = named_json("grids");
  if (std::find(grids.begin(), grids.end(), sweep) != grids.end()) {
    fmt::print("next: fp4sim sweep run {} --out {}\n", sweep, o.out);
  } else {
    fmt::print("next: fp4sim sweep run GRID.json --out {}\n      GRID.json: the file of the grid '{}'\n", o.out,
               printable(sweep));
  }
}

}  // namespace

void add_sweep_export(CLI::App& app, Invocation&) {
  auto o = std::make_shared<TableFile>();
  option(app, "DIR DIR", o->from, "Folder of a sweep")->required();
  option(app, "-o,--out FILE", o->out,
         "CSV with one line for each run (metrics, curve, digest, a hash of the line), and one with the grid")
      ->required();
  add_force_option(app, o->force);
  app.callback([o] { run_export(*o); });
  set_example(app, "fp4sim sweep export quick.sweep --out runs.csv");
}

void add_sweep_import(CLI::App& app, Invocation&) {
  auto o = std::make_shared<TableFile>();
  option(app, "FILE FILE", o->from, "A table of `sweep export`; its runs need this program's signatures")->required();
  option(app, "-o,--out DIR", o->out, "Folder of the sweep, made where missing")->required();
  app.callback([o] { run_import(*o); });
  set_example(app, "fp4sim sweep import runs.csv --out quick.sweep");
}

}  // namespace fp4::tools
