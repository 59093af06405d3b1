// `fp4sim report`: a sweep as one self-contained web page.
#include <fmt/core.h>

#include "src/output.h"
#include "tools/cli/options.h"
#include "tools/cli/sweep_report.h"

namespace fp4::tools {
namespace {

struct ReportOptions {
  ViewOptions view;
  sweeps::FrontOptions front;
  std::string out;
  bool force = false;
};

void run_report(const ReportOptions& o, const Invocation& invocation) {
  const SweepView view = open_view(o.view, /*with_curves=*/true);
  const std::vector<sweeps::ContextFront> fronts = sweeps::fronts(view.results, view.costs, o.front);
  ReportInput input = report_input(view, fronts, o.front);
  input.provenance = view_provenance(view, invocation).dump();
  const std::string page = make_report(input);
  write_file(o.out, page, o.force);
  fmt::print("{}: {} configurations, {} runs, {:.2f} MB\n", o.out, input.points.size(), input.runs.size(),
             static_cast<double>(page.size()) / 1e6);
}

void add_report(CLI::App& app, Invocation& invocation) {
  auto o = std::make_shared<ReportOptions>();
  add_view_options(app, o->view);
  app.add_option("-o,--out", o->out, "The page to write")->required()->type_name("FILE");
  app.add_option("--x", o->front.x, "Cost that the front is judged by")->capture_default_str();
  app.add_option("--y", o->front.y, "Quality that the front is judged by")->capture_default_str();
  add_force_option(app, o->force);
  app.callback([o, &invocation] { run_report(*o, invocation); });
  set_example(app, "fp4sim report quick.sweep --out report.html");
}

}  // namespace

Command command_report() { return {"report", "A sweep as one web page that opens offline", add_report}; }

}  // namespace fp4::tools
