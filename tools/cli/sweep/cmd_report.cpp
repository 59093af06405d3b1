// `fp4sim report`: a sweep as one self-contained web page, alone, beside another sweep, or while it runs.
#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <thread>

#include "src/files/output.h"
#include "src/text/error.h"
#include "src/text/json_reader.h"
#include "sweeps/explore/sweep.h"
#include "sweeps/training.h"
#include "tools/cli/options.h"
#include "tools/cli/stop.h"
#include "tools/cli/sweep/front_print.h"
#include "tools/cli/sweep/sweep_report.h"
#include "tools/cli/table_print.h"

namespace fp4::tools {
namespace {

struct ReportOptions {
  ViewOptions view;
  sweeps::FrontOptions front;
  std::string out, against, effects;
  std::vector<std::string> chips;
  bool force = false, watch = false;
  double every = 10;
};

// --effects FILE, else the effects.csv of the folder, where it has one.
std::vector<ReportComparison> comparisons_of(const ReportOptions& o) {
  const std::filesystem::path beside = std::filesystem::path(o.view.folder) / "effects.csv";
  const std::string file = !o.effects.empty() ? o.effects : std::filesystem::exists(beside) ? beside.string() : "";
  if (file.empty()) return {};
  const NamedText text = read_text_file(file, "effects");
  return read_comparisons(text.text, text.place);
}

void write_report(const ReportOptions& o, const Invocation& invocation, bool force, bool running) {
  const SweepView view = open_view(o.view, /*with_curves=*/true);
  ReportInput input = report_input(view, sweeps::fronts(view.results, view.costs, o.front), o.front);
  input.provenance = json_text(view_provenance(view, invocation));
  input.comparisons = comparisons_of(o);
  for (const std::string& chip : o.chips) {
    ViewOptions other = o.view;
    other.hardware = chip;
    input.chips.push_back(chip_beside(input, open_view(other), o.front));
  }
  if (!o.against.empty()) {
    ViewOptions other = o.view;
    other.folder = o.against;
    other.hardware = hardware_word(o.view, view.results.grid());
    input.against = sweep_beside(view, input, open_view(other), o.front);
  }
  input.reload_seconds = running ? o.every : 0;
  const std::string page = make_report(input);
  write_file(o.out, page, force);
  fmt::print("{}: {} configurations, {} runs, {:.2f} MB\n", o.out, input.points.size(), input.runs.size(),
             static_cast<double>(page.size()) / 1e6);
  if (running) return;
  for (const ReportAnswer& answer : input.answers)
    print_wrapped((input.answers.size() > 1 ? answer.context + ": " : "") + answer.text);
}

// Whether every run that the grid asks for is there.
bool complete(const std::string& folder) {
  const sweeps::Store store = sweeps::Store::read(folder);
  const sweeps::Grid grid = sweeps::stored_grid(store);
  sweeps::StoredPlan plan;
  plan.add(store);
  const std::vector<sweeps::Gap> gaps = sweeps::find_gaps(grid, plan, store.runs());
  return std::all_of(gaps.begin(), gaps.end(), [](const sweeps::Gap& gap) { return gap.reached && gap.missing == 0; });
}

// Writes the page again and again until the sweep is complete or Ctrl-C; the last page does not read itself again.
void watch_report(const ReportOptions& o, const Invocation& invocation) {
  if (!(o.every >= 1)) throw Error("report: --every: expected at least 1 second");
  catch_stop_signals();
  bool force = o.force;
  for (bool running = true; running;) {
    running = !stop_requested() && !complete(o.view.folder);
    write_report(o, invocation, force, running);
    force = true;  // the page it wrote itself
    const auto next = std::chrono::steady_clock::now() + std::chrono::duration<double>(o.every);
    while (running && !stop_requested() && std::chrono::steady_clock::now() < next)
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
}

void run_report(ReportOptions& o, const Invocation& invocation) {
  o.front.x = sweeps::cost_word(o.front.x);
  if (o.out.empty()) {
    const std::filesystem::path folder = std::filesystem::absolute(o.view.folder + "/.").parent_path();
    o.out = folder.stem().string() + ".html";
  }
  if (o.watch)
    watch_report(o, invocation);
  else
    write_report(o, invocation, o.force, false);
}

}  // namespace

void command_report(CLI::App& app, Invocation& invocation) {
  auto o = std::make_shared<ReportOptions>();
  add_view_options(app, o->view);
  option(app, "-o,--out FILE", o->out, "The page to write (default: NAME.html of NAME.sweep, here)");
  add_front_options(app, o->front);
  option(app, "--chips HARDWARE,..", o->chips, "Further chips that the page switches to, names or files");
  option(app, "--against DIR", o->against, "Another sweep that the page compares with");
  option(app, "--effects FILE", o->effects, "A study's effects.csv as a forest plot (default: DIR/effects.csv)");
  app.add_flag("--watch", o->watch, "Write the page again while the sweep runs, until it is complete");
  defaulted(app, "--every", o->every, "Seconds between two pages of --watch");
  add_force_option(app, o->force);
  app.callback([o, &invocation] { run_report(*o, invocation); });
  set_example(app, "fp4sim report quick.sweep --out report.html");
}

}  // namespace fp4::tools
