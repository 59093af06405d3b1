// `fp4sim effects`: one axis of a sweep under named conditions: what a value does against another, by task and by the
// values of other axes. Where `pareto` lists everything on average, this answers one question of a study.
#include <fmt/core.h>

#include "src/error.h"
#include "src/words.h"
#include "sweeps/judge/attribution.h"
#include "sweeps/judge/pareto.h"
#include "tools/cli/alarm_print.h"
#include "tools/cli/effects_print.h"
#include "tools/cli/options.h"
#include "tools/cli/sweep_view.h"
#include "tools/cli/table_print.h"

namespace fp4::tools {
namespace {

struct EffectsOptions {
  ViewOptions view;
  sweeps::Contrast contrast;
  std::vector<std::string> where;
  std::string y = "loss_gap";
  std::string csv;
  std::optional<double> delta;
  bool json = false, force = false;
};

// A whole axis path, or the shortest ending of it that `pareto` prints.
std::string axis_of(const sweeps::Results& results, const std::string& place, const std::string& word) {
  const std::vector<std::string> names = short_axis_names(results.axes());
  for (size_t i = 0; i < names.size(); ++i) {
    if (word == names[i] || word == results.axes()[i]) return results.axes()[i];
  }
  throw unknown_word(place, word, results.axes());
}

std::map<std::string, std::vector<std::string>> conditions(const sweeps::Results& results,
                                                           const std::vector<std::string>& where) {
  std::map<std::string, std::vector<std::string>> conditions;
  for (const std::string& text : where) {
    const size_t at = text.find('=');
    if (at == std::string::npos || at == 0) throw Error("--where '" + text + "': expected AXIS=VALUE or AXIS=X|Y");
    std::vector<std::string>& values = conditions[axis_of(results, "--where", text.substr(0, at))];
    for (std::string& value : split(text.substr(at + 1), '|')) values.push_back(std::move(value));
  }
  return conditions;
}

void run_effects(EffectsOptions& o, const Invocation& invocation) {
  if (o.csv == "-" && o.json) throw Error("effects: --csv and --json: the terminal takes one of them");
  const SweepView view = open_view(o.view);
  const sweeps::Results& results = view.results;
  sweeps::Contrast contrast = o.contrast;
  contrast.axis = axis_of(results, "--axis", contrast.axis);
  for (std::string& axis : contrast.by) axis = axis_of(results, "--by", axis);
  contrast.where = conditions(results, o.where);
  sweeps::FrontOptions front;
  front.y = o.y;
  front.delta = o.delta;
  front.screening_only = true;  // nothing but delta is wanted of the fronts
  const std::vector<sweeps::ContextFront> fronts = sweeps::fronts(results, view.costs, front);
  const std::map<std::string, double> delta = sweeps::delta_by_task(fronts);
  const std::vector<sweeps::RaisedAlarm> alarms = sweeps::alarms(results, fronts);
  const auto metric = o.y == "loss_gap" ? sweeps::Metric::loss : sweeps::Metric::loss_hp;
  const std::vector<sweeps::Effect> effects = sweeps::attribute(results, metric, delta, contrast);
  if (effects.empty()) throw Error("no pair of runs differs in " + contrast.axis + " alone under these conditions");
  const sweeps::ResultTable table = effect_table(effects);
  if (!o.csv.empty()) write_csv(o.csv, sweeps::to_csv(table), o.force);
  if (o.json) {
    nlohmann::ordered_json json = {{"schema", 1}, {"y", o.y}, {"effects", sweeps::row_objects(table)}};
    json["alarms"] = alarms_json(alarms);
    json["provenance"] = view_provenance(view, invocation);
    return print_json(json);
  }
  if (!o.csv.empty()) return;
  print_effects(results, effects);
  fmt::print("\n");
  for (const auto& [task, value] : delta) {
    if (value > 0) {
      fmt::print("`equal` on {}: the interval lies within +-{:.3g}\n", task, value);
    } else {
      print_wrapped(
          fmt::format("`equal` is never said on {}: no mxfp4 in this sweep to take 10 % of; --delta sets it", task));
    }
  }
  print_alarms(alarms);
}

void add_effects(CLI::App& app, Invocation& invocation) {
  auto o = std::make_shared<EffectsOptions>();
  add_view_options(app, o->view);
  app.add_option("--axis", o->contrast.axis, "The axis whose values are compared (path, or its ending)")
      ->required()
      ->type_name("AXIS");
  app.add_option("--against", o->contrast.reference, "The value compared with (default: the grid's first)");
  app.add_option("--by", o->contrast.by, "Separately for each value of these axes")
      ->type_name("AXIS,..")
      ->delimiter(',');
  app.add_option("--where", o->where, "Only where AXIS=VALUE or AXIS=X|Y (repeatable)")->type_name("AXIS=VALUE");
  app.add_option("--y", o->y, "Quality that is compared")
      ->type_name("loss_gap|loss_hp_gap")
      ->capture_default_str()
      ->check(CLI::IsMember({"loss_gap", "loss_hp_gap"}));
  app.add_option("--delta", o->delta, "Differences within +-delta count as `equal` (default: 10 % of mxfp4's gap)")
      ->check(from_zero());
  app.add_option("--csv", o->csv, "Write CSV to this file instead (`-`: to the terminal)")->type_name("FILE");
  add_json_option(app, o->json);
  add_force_option(app, o->force);
  app.callback([o, &invocation] { run_effects(*o, invocation); });
  set_example(app, "fp4sim effects wgrad.sweep --axis wgrad.hadamard --by token --where rounding=nearest_even");
}

}  // namespace

Command command_effects() {
  return {"effects", "One axis of a sweep under conditions: which value is better", add_effects};
}

}  // namespace fp4::tools
