// `fp4sim pareto`: the fronts of a sweep, one for each task and training, with what every axis does on average.
#include <fmt/core.h>

#include <cmath>

#include "src/files/output.h"
#include "src/text/member_json.h"
#include "src/text/named_rows.h"
#include "src/text/words.h"
#include "sweeps/judge/attribution.h"
#include "sweeps/judge/pareto.h"
#include "tools/cli/options.h"
#include "tools/cli/sweep/advice_words.h"
#include "tools/cli/sweep/effects_print.h"
#include "tools/cli/sweep/front_print.h"
#include "tools/cli/sweep/sweep_view.h"
#include "tools/cli/table_print.h"

namespace fp4::tools {
namespace {

struct ParetoOptions {
  ViewOptions view;
  sweeps::FrontOptions front;
  std::vector<std::string> tasks;
  std::string json;
  size_t limit = 30;
  bool force = false, no_effects = false;
};

using nlohmann::ordered_json;

constexpr sweeps::Interval unknown_ends = {NAN, NAN};

// {share, bound, raw_low, raw_high}; null where there is nothing to compare.
ordered_json extra_json(const std::optional<sweeps::ExtraTokens>& extra) {
  if (!extra) return nullptr;
  const sweeps::Interval raw = extra->raw.value_or(unknown_ends);
  return {{"share", number(extra->share)},
          {"bound", extra->bound == sweeps::Bound::exact   ? "exact"
                    : extra->bound == sweeps::Bound::above ? "above"
                                                           : "below"},
          {"raw_low", number(raw.low)},
          {"raw_high", number(raw.high)}};
}

ordered_json point_json(const sweeps::Results& results, const sweeps::ContextFront& front,
                        const sweeps::FrontPoint& point, const std::string& y) {
  ordered_json sensitivity = ordered_json::object();
  for (const auto& [weight, range] : point.sensitivity) sensitivity[weight] = {range.low, range.high};
  ordered_json axes = ordered_json::object();
  for (size_t i = 0; i < point.config->labels.size(); ++i) axes[results.axes()[i]] = point.config->labels[i];
  const bool has_y = point.y.n > 0;
  const bool raced = front.raced && point.candidate;
  const bool simultaneous = raced && y.ends_with("gap");
  const sweeps::Interval interval = (simultaneous ? point.raced_gap.interval : point.y.interval).value_or(unknown_ends);
  const double mean = shown_mean(point, y);
  ordered_json json = {
      {"config_hash", point.config->record.hash},
      {"task", front.task},
      {"context", front.context},
      {"x", number(point.x)},
      {"y", has_y ? number(mean) : nullptr},
      {"y_low", number(interval.low)},
      {"y_high", number(interval.high)},
      {"interval", simultaneous ? "simultaneous" : "raw"},
      {"on_front", point.on_front},
      {"status", word(point.status)},
      {"sensitivity", sensitivity},
      {"recipe", point.config->record.recipe},
      {"reference", !point.config->in_plan},
      {"axes", axes},
      {"n", shown_seeds(point, y)},
      {"sd", point.y.n > 1 ? number(point.y.sd) : nullptr},
      {"diverged", point.diverged},
      {"candidate", point.candidate},
      {"overhead_interval", nullptr},
      {"speedup_bf16", number(point.cost.speedup_bf16)},
      {"decoded", point.cost.decoded},
  };
  json["at"] = word(point.config->record.at);
  if (point.overhead_range)
    json["overhead_interval"] = {number(point.overhead_range->first), number(point.overhead_range->second)};
  if (raced) {
    json["gap_interval"] = ends(point.raced_gap.interval);
    json["rival"] = nullptr;
    if (point.rival != nullptr) json["rival"] = point.rival->record.hash;
    json["difference"] = point.difference.n > 0 ? number(point.difference.mean) : nullptr;
    json["difference_interval"] = ends(point.difference.interval);
    json["detectable_effect"] = number(point.detectable);
    json["rates_differ"] = point.rates_differ;
  }
  json["relative_gap"] = y == "loss_gap" && has_y ? number(mean / front.scale.loss) : nullptr;
  json["extra_tokens"] = {{"fp32", extra_json(point.extra_fp32)}, {"mxfp8", extra_json(point.extra_mxfp8)}};
  json["quartet"] = number(point.quartet);
  if (front.target) json["tokens_to_target"] = number(point.tokens_to_target);
  return json;
}

ordered_json context_json(const sweeps::ContextFront& front) {
  ordered_json json = FP4_NAMED(front.context, front.task, front.description);
  json["front"] = front.raced ? "raced" : "screening";
  json["at"] = front.at_best ? "best" : "fixed";
  json.update(FP4_NAMED(front.seeds, front.comparisons, front.delta));
  json["candidates_left_out"] = front.left_out;
  json["left_out_chance"] = front.left_out_chance;
  json["noise_floor"] = front.noise_floor ? number(front.noise_floor->sd) : nullptr;
  json["paired_sd"] = number(front.paired_sd);
  json["detectable_effect"] = number(front.detectable);
  json["relative_to"] = number(front.scale.loss);
  json["above_irreducible"] = front.scale.above_irreducible;
  json["target"] = number(front.target);
  return json;
}

void print_average(const sweeps::Results& results, sweeps::Metric metric) {
  fmt::print("\nAverage gap over the whole space (Hajek, effective sample size):\n");
  for (const auto& [task, mean] : sweeps::space_average(results, metric))
    fmt::print("  {:<12} {:.4g}  ({:.0f})\n", task, mean.mean, mean.effective_n);
}

void run_pareto(ParetoOptions& o, const Invocation& invocation) {
  o.front.x = sweeps::cost_word(o.front.x);
  const SweepView view = open_view(o.view, /*with_curves=*/true);
  const sweeps::Results& results = view.results;
  for (const std::string& task : o.tasks) accepted_index("--task", task, results.grid().tasks);
  std::vector<sweeps::ContextFront> fronts = sweeps::fronts(results, view.costs, o.front);
  const auto wanted = [&](const std::string& task) { return o.tasks.empty() || contains(o.tasks, task); };
  std::erase_if(fronts, [&](const sweeps::ContextFront& front) { return !wanted(front.task); });
  const auto metric = o.front.y.rfind("loss_hp", 0) == 0 ? sweeps::Metric::loss_hp : sweeps::Metric::loss;
  std::vector<sweeps::Effect> effects;
  // Of one axis the front says all: what it does on average would only say it again.
  if (!o.no_effects && results.axes().size() > 1)
    effects = sweeps::attribute(results, metric, sweeps::delta_by_task(fronts));
  std::erase_if(effects, [&](const sweeps::Effect& effect) { return !wanted(effect.task); });
  const bool sampled = results.grid().explore == sweeps::Explore::importance;

  const std::string &model = view.costs.model().model, &hardware = view.costs.model().hardware;
  const std::string priced = model + " on " + hardware;
  const std::vector<std::string> advice =
      usual_answer(model_word(o.view, results.grid()), hardware_word(o.view, results.grid()), o.view.weights);
  ordered_json json = {{"schema", 1},
                       {"x", o.front.x},
                       {"y", o.front.y},
                       {"hardware", hardware},
                       {"model", model},
                       {"price", priced + ", modelled"},
                       {"advice", advice},
                       {"points", ordered_json::array()},
                       {"contexts", ordered_json::array()}};
  for (const sweeps::ContextFront& front : fronts) {
    json["contexts"].push_back(context_json(front));
    json["contexts"].back()["answer"] = front_answer(results, front, o.front, priced);
    for (const sweeps::FrontPoint& point : front.points)
      json["points"].push_back(point_json(results, front, point, o.front.y));
  }
  json["effects"] = sweeps::row_objects(effect_table(effects));
  if (sampled)
    for (const auto& [task, mean] : sweeps::space_average(results, metric))
      json["space_average"][task] = {{"mean", number(mean.mean)}, {"effective_n", number(mean.effective_n)}};
  const std::vector<sweeps::RaisedAlarm> alarms = sweeps::alarms(results, fronts);
  json["alarms"] = alarms_json(alarms);
  json["provenance"] = view_provenance(view, invocation);
  if (o.json == "-") return print_json(json);
  if (!o.json.empty()) write_file(o.json, json_text(json) + "\n", o.force);

  for (const std::string& answer : front_answers(results, fronts, o.front, priced)) print_wrapped(answer);
  print_wrapped(advice[1]);
  fmt::print("\n");
  print_sentence("Fronts of '{}': {} of small networks against {} of {}, modelled.", printable(view.name), o.front.y,
                 o.front.x, priced);
  if (const std::string unsaid = unsaid_text(results); !unsaid.empty()) print_wrapped(unsaid);
  for (const sweeps::ContextFront& front : fronts) print_front(results, front, o.front, o.limit);
  fmt::print("\n");
  print_effects(results, effects);
  if (sampled) print_average(results, metric);
  print_alarms(alarms);
}

}  // namespace

void command_pareto(CLI::App& app, Invocation& invocation) {
  auto o = std::make_shared<ParetoOptions>();
  add_view_options(app, o->view);
  add_front_options(app, o->front);
  option(app, "-t,--task TASK,..", o->tasks, "Only these tasks");
  app.add_option("--delta", o->front.delta,
                 "Differences within +-delta do not matter (default: the grid's, 2 % of mxfp4's gap)")
      ->check(from_zero());
  app.add_option("--target", o->front.target, "Loss for tokens-to-target (default: from the fp32 runs)")
      ->check(above_zero());
  option(app, "--json FILE", o->json, "Write JSON to this file (alone or `-`: to the terminal)")
      ->expected(0, 1)
      ->default_str("-");
  defaulted(app, "--limit", o->limit, "Points listed for each front, 0 = all");
  app.add_flag("--no-effects", o->no_effects, "Leave out what every axis does on average");
  add_force_option(app, o->force);
  app.callback([o, &invocation] { run_pareto(*o, invocation); });
  set_example(app, "fp4sim pareto quick.sweep --hardware b200 --json front.json");
}

}  // namespace fp4::tools
