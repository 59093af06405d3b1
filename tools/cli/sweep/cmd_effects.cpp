// `fp4sim effects`: one axis of a sweep under named conditions: what a value does against another, by task and by the
// values of other axes. Where `pareto` lists everything on average, this answers one question of a study. With --study,
// the comparisons that a study's file lists, of tables or of a sweep, as effects.csv, tables of a page and a figure.
#include <fmt/core.h>

#include <charconv>
#include <filesystem>

#include "src/files/output.h"
#include "src/text/csv.h"
#include "src/text/error.h"
#include "src/text/input_file.h"
#include "src/text/json_reader.h"
#include "src/text/words.h"
#include "sweeps/judge/attribution.h"
#include "sweeps/judge/pareto.h"
#include "sweeps/judge/study.h"
#include "sweeps/report/forest.h"
#include "sweeps/report/table.h"
#include "tools/cli/options.h"
#include "tools/cli/sweep/effects_print.h"
#include "tools/cli/sweep/sweep_report.h"
#include "tools/cli/sweep/sweep_view.h"
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
  bool times = false;  // of a figure
  // Of a study.
  std::string study, page, figure, title, note;
  std::vector<std::string> tables;
  size_t family = 0;  // of --values
  bool values = false;
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

std::vector<ReportComparison> comparisons_of(const sweeps::StudyResult& result) {
  std::vector<ReportComparison> rows;
  for (const sweeps::StudyEffect& effect : result.effects)
    rows.push_back({effect.group, effect.name, effect.task,
                    estimate(effect.comparison.summary.mean, effect.comparison.interval), effect.comparison.delta});
  return rows;
}

void add_table(sweeps::StudyTable& table, const EffectsOptions& o, const std::string& word) {
  if (std::filesystem::is_directory(word)) {
    ViewOptions view = o.view;
    view.folder = word;
    const SweepView sweep = open_view(view);
    return table.add(sweeps::to_csv(sweeps::result_table(sweep.results, sweep.costs, {.grouped = true})), word);
  }
  table.add(read_text_file(word, "table").text, word);
}

void run_study(const EffectsOptions& o) {
  sweeps::StudyTable table;
  add_table(table, o, o.view.folder);
  for (const std::string& more : o.tables) add_table(table, o, more);
  const NamedText study = open_named_json(o.study, "studies", "study");
  const sweeps::StudyResult result = sweeps::judge_study(table, study.text, study.place);
  const std::string name = std::filesystem::path(o.study).stem().string();
  if (!o.csv.empty()) write_csv(o.csv, sweeps::study_csv(result), o.force);
  note_input(o.page, /*may_be_replaced=*/true);
  if (!o.page.empty())
    write_file(o.page, sweeps::study_page(result, read_text_file(o.page, "page").text, o.page), /*force=*/true);
  if (!o.figure.empty())
    write_file(o.figure, forest_svg(comparisons_of(result), {o.title.empty() ? name : o.title, o.note, o.times}),
               o.force);
  if (o.csv == "-") return;
  std::string group;
  size_t decided = 0;
  for (const sweeps::StudyEffect& effect : result.effects) {
    decided += effect.comparison.verdict != sweeps::Verdict::undecided;
    if (effect.group == group) continue;
    group = effect.group;
    fmt::print("\n{}\n\n{}", group, sweeps::study_table(result, group));
  }
  if (!result.effects.empty())
    fmt::print("\n{} intervals, 95 % together; {} decided\n", result.effects.size(), decided);
  if (!result.orders.empty()) fmt::print("\nPublished orders and ours\n\n{}", sweeps::study_orders_table(result));
}

// Means of lists of numbers with t intervals that hold together: a name and its values on each line.
void run_values(const EffectsOptions& o) {
  std::vector<std::pair<std::string, std::vector<double>>> lists;
  size_t at = 0;
  for (std::string line : split(read_text_file(o.view.folder, "values").text, '\n')) {
    ++at;
    if (!line.empty() && line.back() == '\r') line.pop_back();
    if (line.empty()) continue;
    const std::vector<std::string> fields = csv_fields(line);
    std::vector<double>& values = lists.emplace_back(fields[0], std::vector<double>()).second;
    for (size_t i = 1; i < fields.size(); ++i) {
      double value = 0;
      const char* end = fields[i].data() + fields[i].size();
      if (std::from_chars(fields[i].data(), end, value).ptr != end || fields[i].empty())
        throw Error(fmt::format("{}, line {}: expected a number, not '{}'", o.view.folder, at, fields[i]));
      values.push_back(value);
    }
  }
  const size_t family = o.family > 0 ? o.family : lists.size();
  nlohmann::ordered_json json = nlohmann::ordered_json::array();
  for (const auto& [name, values] : lists) {
    const sweeps::Summary all = sweeps::summarise(values, 1 - 0.05 / static_cast<double>(family));
    const ReportEstimate known = estimate(all);
    json.push_back({{"name", name},
                    {"n", all.n},
                    {"mean", number(known.mean)},
                    {"low", number(known.low)},
                    {"high", number(known.high)}});
  }
  print_json(json);
}

// The figure of an effects.csv that is there already.
void run_figure(const EffectsOptions& o) {
  const std::vector<ReportComparison> rows =
      read_comparisons(read_text_file(o.view.folder, "effects").text, o.view.folder);
  write_file(o.figure, forest_svg(rows, {o.title, o.note, o.times}), o.force);
}

void run_effects(EffectsOptions& o, const Invocation& invocation) {
  if (o.csv == "-" && o.json) throw Error("effects: --csv and --json: the terminal takes one of them");
  if (!o.study.empty()) return run_study(o);
  if (o.values) return run_values(o);
  if (o.contrast.axis.empty() && !o.figure.empty()) return run_figure(o);
  if (o.contrast.axis.empty()) throw Error("effects: give --axis, what is compared in a sweep, or --study");
  const SweepView view = open_view(o.view);
  const sweeps::Results& results = view.results;
  sweeps::Contrast contrast = o.contrast;
  contrast.axis = axis_of(results, "--axis", contrast.axis);
  for (std::string& axis : contrast.by) axis = axis_of(results, "--by", axis);
  contrast.where = conditions(results, o.where);
  sweeps::FrontOptions front = {.y = o.y, .delta = o.delta};
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
      print_sentence("`equal` is never said on {}: no mxfp4 in this sweep to take a share of; --delta sets it", task);
    }
  }
  print_alarms(alarms);
}

}  // namespace

void command_effects(CLI::App& app, Invocation& invocation) {
  auto o = std::make_shared<EffectsOptions>();
  add_view_options(app, o->view);
  option(app, "--axis AXIS", o->contrast.axis, "The axis whose values are compared (path, or its ending)");
  app.add_option("--against", o->contrast.reference, "The value compared with (default: the grid's first)");
  option(app, "--by AXIS,..", o->contrast.by, "Separately for each value of these axes");
  option(app, "--where AXIS=VALUE", o->where, "Only where AXIS=VALUE or AXIS=X|Y (repeatable)");
  defaulted(app, "--y loss_gap|loss_hp_gap", o->y, "Quality that is compared")
      ->check(CLI::IsMember({"loss_gap", "loss_hp_gap"}));
  app.add_option("--delta", o->delta,
                 "Differences within +-delta count as `equal` (default: the grid's, 2 % of mxfp4's gap)")
      ->check(from_zero());
  CLI::Option* study = option(app, "--study STUDY", o->study,
                              "The comparisons that this study lists, a name or a file, of a sweep or of tables that "
                              "`fp4sim table --group --csv` wrote; DIR is the first of them");
  app.get_option("--axis")->excludes(study);
  option(app, "--table FILE", o->tables, "A further sweep or table of the study (repeatable)")->needs(study);
  option(app, "--page FILE.md", o->page,
         "Write the study's tables into this page, below its lines <!-- effects: GROUP -->")
      ->needs(study);
  option(app, "--figure FILE.svg", o->figure,
         "Write forest plots as SVG to this file; without --study and --axis those of an effects.csv, given as DIR");
  app.add_flag("--values", o->values,
               "DIR is a CSV with a name and its values on each line: their means with t intervals, as JSON")
      ->excludes(study);
  app.add_option("--family", o->family, "Of --values: so many intervals hold together at 95 % (default: all lines)")
      ->check(CLI::Range(size_t{1}, size_t{1'000'000}));
  option(app, "--title TEXT", o->title, "Title of the figure (default: the study's name)");
  option(app, "--note TEXT", o->note, "The line below the figure");
  app.add_flag("--times", o->times, "The figure's numbers are factors less 1: its axis shows the factors");
  option(app, "--csv FILE", o->csv, "Write CSV to this file instead (`-`: to the terminal)");
  add_json_option(app, o->json);
  add_force_option(app, o->force);
  app.callback([o, &invocation] { run_effects(*o, invocation); });
  set_example(app, "fp4sim effects wgrad.sweep --axis wgrad.hadamard --by token --where rounding=nearest_even");
}

}  // namespace fp4::tools
