// See sweep_report.h. Nothing is decided here: statistics come from the sweep library, drawing is the page's.
#include "tools/cli/sweep/sweep_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <tuple>

#include "sim/rules/recipe.h"
#include "sweeps/cost/adapt.h"
#include "sweeps/cost/cost.h"
#include "sweeps/judge/alarms.h"
#include "sweeps/judge/attribution.h"
#include "tasks/run.h"
#include "tools/cli/sweep/front_print.h"
#include "tools/cli/table_print.h"

namespace fp4::tools {

namespace {

// Paths of `value` that differ from `base`, down to the leaves.
void differences(const Json& value, const Json& base, const std::string& path, std::map<std::string, Json>& out) {
  for (const auto& [key, v] : value.items()) {
    const std::string here = path.empty() ? key : path + "." + key;
    const auto other = base.find(key);
    if (other != base.end() && *other == v) continue;
    if (v.is_object() && other != base.end() && other->is_object() && key != "layers") {
      differences(v, *other, here, out);
    } else {
      out[here] = v;
    }
  }
}

// A bound is a missing mean with one known end.
ReportEstimate estimate_of(const std::optional<sweeps::ExtraTokens>& extra) {
  if (!extra) return {};
  if (extra->bound == sweeps::Bound::exact) return estimate(extra->share, extra->raw);
  return extra->bound == sweeps::Bound::above ? ReportEstimate{.low = extra->share}
                                              : ReportEstimate{.high = extra->share};
}

// What tasks measure besides the loss (metrics of a run); a page has the columns that its runs have.
const std::vector<ReportColumn> measured_columns = {
    {"accuracy", "share", "right answers on the validation set", false},
    {"auc", "", "area under the ROC curve on the validation set", false},
    {"normalised_entropy", "", "log loss over the entropy of the click rate"},
    {"bits_per_byte", "", "validation loss in bits for a byte of text"},
    {"table_bytes", "bytes", "what the embedding tables take"},
};

sweeps::Summary summary_of(const sweeps::Results& results, const sweeps::ConfigResult& config, bool confirm,
                           const std::string& column) {
  if (column == "loss_gap") return sweeps::summarise(results.gaps(config, confirm, sweeps::Metric::loss));
  if (column == "loss_hp_gap") return sweeps::summarise(results.gaps(config, confirm, sweeps::Metric::loss_hp));
  std::vector<double> values;
  for (const sweeps::RunRecord& run : config.runs) {
    if (results.is_confirm(run.seed) != confirm) continue;
    if (const auto value = measured(run, column)) {
      values.push_back(*value);
      continue;
    }
    if (column != "loss" && column != "loss_hp") continue;
    const auto metric = column == "loss" ? sweeps::Metric::loss : sweeps::Metric::loss_hp;
    if (const auto value = sweeps::metric_of(run, metric)) values.push_back(*value);
  }
  return sweeps::summarise(values);
}

std::vector<ReportColumn> quality_columns(const sweeps::Results& results) {
  std::vector<ReportColumn> columns = {
      {"loss_gap", "", "validation loss minus that of fp32 with the same seed, forward as trained"},
      {"loss_hp_gap", "", "the same with quantisation off in the evaluation: what was learned"},
      {"loss", "",
       "validation loss, forward as trained: nats of classifier, lm and recommender, squared error of regression and "
       "diffusion"},
      {"loss_hp", "", "validation loss of the same weights with quantisation off"},
      {"relative_gap", "share",
       "loss gap as a share of fp32's loss (above its irreducible part where the task knows it)"},
      {"extra_tokens_fp32", "share", "tokens above those of fp32 for the same loss; > and < are bounds"},
      {"extra_tokens_mxfp8", "share", "tokens above those of mxfp8 for the same loss; > and < are bounds"}};
  for (const ReportColumn& column : measured_columns) {
    const auto has_it = [&](const sweeps::ConfigResult& config) {
      return std::any_of(config.runs.begin(), config.runs.end(),
                         [&](const sweeps::RunRecord& run) { return measured(run, column.name).has_value(); });
    };
    if (std::any_of(results.configs().begin(), results.configs().end(), has_it)) columns.push_back(column);
  }
  return columns;
}

// Bits in which a weight and its share of a scale are stored, under the recipe that the network is judged by.
double weight_bits(const std::string& config) {
  const Json all = Json::parse(config);
  const Json& recipe = all.contains("eval") ? all["eval"]["recipe"] : all["recipe"];
  return cost::facts_of(sim::recipe_from_json(recipe, "configuration")).fprop.b.stored_bits();
}

ReportRun run_of(const sweeps::Results& results, const sweeps::ConfigResult& config, const sweeps::RunRecord& run,
                 const std::vector<ReportColumn>& columns) {
  ReportRun row{.task = config.record.task,
                .config_hash = config.record.hash,
                .seed = static_cast<std::int64_t>(run.seed),
                .status = std::string(word(run.status)),
                .role = std::string(word(run.role)),
                .qualities = {},
                .digest = run.digest,
                .seconds = run.seconds};
  row.qualities = {results.gap(config, run, sweeps::Metric::loss).value_or(report_unknown),
                   results.gap(config, run, sweeps::Metric::loss_hp).value_or(report_unknown),
                   sweeps::metric_of(run, sweeps::Metric::loss).value_or(report_unknown),
                   sweeps::metric_of(run, sweeps::Metric::loss_hp).value_or(report_unknown)};
  // Columns between these and the measured ones compare curves of several runs.
  for (size_t k = row.qualities.size(); k < columns.size(); ++k)
    row.qualities.push_back(measured(run, columns[k].name).value_or(report_unknown));
  return row;
}

ReportPoint point_of(const SweepView& view, const sweeps::ContextFront& front, const sweeps::FrontPoint& point,
                     const std::vector<ReportColumn>& columns) {
  const sweeps::ConfigResult& config = *point.config;
  ReportPoint row;
  row.task = config.record.task;
  row.context = front.description;
  row.config_hash = config.record.hash;
  row.name = config.record.recipe;
  row.baseline = !config.in_plan;
  row.front = std::string(word(point.status));
  if (point.status == sweeps::FrontStatus::tied && point.rival != nullptr) row.rival = point.rival->record.hash;
  row.axis_values = config.labels;
  for (const std::string& column : sweeps::cost_columns()) row.costs.push_back(cost_column(point.cost, column));
  if (point.overhead_range) std::tie(row.overhead_low, row.overhead_high) = *point.overhead_range;
  row.costs.push_back(point.cost.fp4_share);
  row.costs.push_back(weight_bits(config.record.config));
  const bool confirm = front.raced && point.candidate;
  for (const char* column : {"loss_gap", "loss_hp_gap", "loss", "loss_hp"})
    row.qualities.push_back(estimate(summary_of(view.results, config, confirm, column)));
  if (front.raced && confirm && point.raced_gap.interval)
    row.qualities.front() = estimate(point.raced_gap.mean, point.raced_gap.interval);
  const ReportEstimate& gap = row.qualities.front();
  const double loss = front.scale.loss;
  row.qualities.push_back({.mean = gap.mean / loss, .low = gap.low / loss, .high = gap.high / loss});
  row.qualities.push_back(estimate_of(point.extra_fp32));
  row.qualities.push_back(estimate_of(point.extra_mxfp8));
  for (size_t k = row.qualities.size(); k < columns.size(); ++k)
    row.qualities.push_back(estimate(summary_of(view.results, config, confirm, columns[k].name)));
  row.seeds = static_cast<int>(shown_seeds(point, "loss_gap"));
  row.diverged = static_cast<int>(point.diverged);
  for (const sweeps::RunRecord& run : config.runs) row.failed += run.status == sweeps::Status::failed;
  row.reference_hash = config.record.reference;
  const sweeps::PricedRecipe priced = sweeps::priced_recipe(config.record.config);
  row.cost_terms = view.costs.model().groups(priced.recipe, priced.steps);
  for (const auto& [weight, range] : point.sensitivity) row.sensitivity.push_back({weight, range.low, range.high});
  row.config = config.record.config;
  row.command = reproduce_command(config.record);
  return row;
}

ReportEffect effect_of(const sweeps::Effect& effect) {
  return {.task = effect.task,
          .axis = effect.axis,
          .value = effect.value,
          .reference = effect.reference,
          .effect = estimate(effect.comparison.summary.mean, effect.comparison.interval),
          .q10 = effect.low_decile,
          .q90 = effect.high_decile,
          .share = effect.same_sign,
          .verdict = std::string(word(effect.comparison.verdict)) + (effect.rates_differ > 0 ? ", rates differ" : "")};
}

std::vector<std::string> notes_of(const SweepView& view, const std::vector<sweeps::ContextFront>& fronts) {
  std::vector<std::string> notes;
  for (const sweeps::ContextFront& front : fronts) {
    std::string note = front.description + ": ";
    note += front.raced
                ? fmt::format("race on up to {} fresh seeds, simultaneous 95 % intervals of {} pairs, {}", front.seeds,
                              front.comparisons, front.at_best ? "every recipe at its own best" : "at fixed settings")
                : fmt::format("screening on {} seeds, the best of many are lucky", front.seeds);
    notes.push_back(note + ". " + spread_text(front));
    if (const std::string decoded = decoded_text(view.results, front); !decoded.empty())
      notes.push_back(front.description + ": " + decoded + ".");
  }
  for (const sweeps::RaisedAlarm& raised : sweeps::alarms(view.results, fronts))
    notes.push_back(fmt::format("{}: alarm, {}: {}.", raised.context, word(raised.alarm), raised.text));
  if (view.hidden > 0) notes.push_back(fmt::format("{} runs of other signatures are not shown.", view.hidden));
  return notes;
}

}  // namespace

ReportEstimate estimate(double mean, const std::optional<sweeps::Interval>& interval) {
  return interval ? ReportEstimate{mean, interval->low, interval->high} : ReportEstimate{.mean = mean};
}
ReportEstimate estimate(const sweeps::Summary& summary) {
  return summary.n == 0 ? ReportEstimate{} : estimate(summary.mean, summary.interval);
}

std::string reproduce_command(const sweeps::ConfigRecord& record) {
  const Json config = Json::parse(record.config);
  // Without the file of a recipe, which may be gone, or say something else by now.
  const std::string recipe = sweeps::names_file(record.recipe) ? "fp32" : record.recipe;
  const Json base = tasks::canonical({{"task", record.task}, {"recipe", recipe}});
  std::map<std::string, Json> changed;
  differences(config["recipe"], base["recipe"], "", changed);
  std::string command = "fp4sim train --task " + record.task + " --recipe " + recipe;
  for (const char* section : {"task", "train"}) {
    std::map<std::string, Json> own;
    differences(config[section], base[section], "", own);
    for (auto& [path, value] : own) changed[std::string(section) + "." + path] = std::move(value);
  }
  if (config.contains("branch")) {
    changed["branch.recipe"] = config["branch"]["recipe"];
    changed["branch.at"] = config["branch"]["at"];
    if (config["branch"].contains("distil")) changed["branch.distil"] = config["branch"]["distil"];
  }
  if (config.contains("eval")) changed["eval.recipe"] = config["eval"]["recipe"];
  for (const auto& [path, value] : changed)
    command += " --set " + shell_quoted(path + "=" + (value.is_string() ? value.get<std::string>() : value.dump()));
  return command + " --seed {seed}";
}

ReportInput report_input(const SweepView& view, const std::vector<sweeps::ContextFront>& fronts,
                         const sweeps::FrontOptions& options) {
  const sweeps::Results& results = view.results;
  ReportInput input;
  input.name = view.name;
  input.chip = view.costs.model().hardware;
  input.workload = view.costs.model().model + " on " + view.costs.model().hardware;
  for (const sweeps::ContextFront& front : fronts)
    input.answers.push_back({front.description, front_answer(results, front, options, input.workload)});
  input.notes = notes_of(view, fronts);
  input.x = options.x;
  input.y = options.y;
  for (size_t i = 0; i < results.axes().size(); ++i) {
    ReportAxis axis{.name = results.axes()[i], .doc = {}, .reference = {}};
    for (const sweeps::Axis& own : results.grid().axes) {
      if (own.path == axis.name) axis.reference = own.labels.front();
    }
    input.axes.push_back(std::move(axis));
  }
  input.cost_columns = {
      {"overhead", "share", "step time above an ideal FP4 step with free quantisation"},
      {"quantisation_overhead", "share", "step time above the same recipe with free quantisation"},
      {"step_time_s", "s", "modelled time of a training step"},
      {"energy_j", "J", "modelled energy of a training step"},
      {"price", "USD", "rent of one accelerator for a training step"},
      {"points", "", "switched-on techniques, a point each (score of arXiv 2509.17791)"},
      {"fp4_share", "share", "multiply-adds in FP4, of all with attention and head"},
      {"weight_bits", "bits",
       "a weight with its share of a scale and a mask, under the recipe that the network is judged by, in "
       "layers that follow no rule"}};
  for (const std::string& group : cost::cost_groups())
    input.cost_terms.push_back({group, group != "other" ? "" : cost::other_doc});
  input.quality_columns = quality_columns(results);
  for (const sweeps::ContextFront& front : fronts)
    for (const sweeps::FrontPoint& point : front.points)
      input.points.push_back(point_of(view, front, point, input.quality_columns));
  for (const sweeps::ConfigResult& config : results.configs())
    for (const sweeps::RunRecord& run : config.runs)
      input.runs.push_back(run_of(results, config, run, input.quality_columns));
  // Of one axis the front says all: what it does on average would only say it again.
  if (results.axes().size() > 1)
    for (const sweeps::Effect& effect : sweeps::attribute(results, sweeps::Metric::loss, sweeps::delta_by_task(fronts)))
      input.effects.push_back(effect_of(effect));
  const std::set<std::string> kept = report_curve_hashes(input);
  for (const sweeps::ConfigResult& config : results.configs()) {
    if (!kept.contains(config.record.hash)) continue;
    for (const sweeps::RunRecord& run : config.runs) {
      input.curves.push_back({.config_hash = config.record.hash,
                              .seed = static_cast<std::int64_t>(run.seed),
                              .step = run.curve.step,
                              .train_loss = run.curve.train_loss,
                              .validation_loss = run.curve.validation_loss});
    }
  }
  return input;
}

}  // namespace fp4::tools
