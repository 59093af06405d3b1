// `fp4sim advise`: which recipe to train a model with on a chip: what each costs until it has bf16's loss, from a
// ladder's law and the cost model, what that rests on, and what would turn the order.
#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "src/error.h"
#include "src/spec_text.h"
#include "sweeps/cost/hardware.h"
#include "sweeps/judge/advice.h"
#include "tools/cli/advice_words.h"
#include "tools/cli/cost_options.h"
#include "tools/cli/law_input.h"
#include "tools/cli/options.h"
#include "tools/cli/provenance.h"
#include "tools/cli/sweep_view.h"
#include "tools/cli/table_print.h"

namespace fp4::tools {
namespace {

using nlohmann::ordered_json;
using sweeps::Advice;
using sweeps::AdviceRow;
using sweeps::AdviceWord;
using sweeps::Interval;

// What others measured at sizes of billions, beside our extrapolation: where they give tokens over fp8, how many.
struct Published {
  const char* recipe;
  double low, high;  // extra tokens over fp8 as shares; 0: the result is of another kind
  const char* result;
  const char* source;
};
constexpr Published published_results[] = {
    {"mxfp4_fprop", 0.08, 0.09, "8 to 9 % more tokens than fp8", "2605.09825"},
    {"mxfp4_fprop_dgrad", 0.10, 0.11, "10 to 11 % more tokens than fp8", "2605.09825"},
    {"mxfp4_all", 0.26, 0.27, "26 to 27 % more tokens than fp8; 36 % more than nvfp4 at 8B", "2605.09825; 2509.25149"},
    {"mxfp4_all_h16", 0.08, 0.09, "8 to 9 % more tokens than fp8", "2605.09825"},
    {"nvfp4_te", 0, 0, "loss 1.5 % above bf16's at 8B (mxfp4: 2.5 %)", "2509.25149"},
    {"quartet", 0, 0, "effN .64, effD .94", "2505.14669, table 3"},
};

struct AdviseOptions {
  CostArguments cost;
  std::string ladder = built_in_ladder, baseline = "bf16", form = "quartet", objective = "time", max_gap = "0";
  std::string transfer = "tokens";
  double tokens = 0;
  size_t samples = 200;
};

// "1%" or "0.01".
double share_of(const std::string& text) {
  const bool percent = text.ends_with('%');
  const double value = number_from_text(percent ? text.substr(0, text.size() - 1) : text, "--max-gap");
  if (!(value >= 0)) throw Error("--max-gap: expected a share from 0, such as 1% or 0.01, not '" + text + "'");
  return percent ? value / 100 : value;
}

sweeps::Transfer transfer_of(const AdviseOptions& o) {
  return o.transfer == "law" ? sweeps::Transfer::law : sweeps::Transfer::tokens;
}

std::string more_percent(double ratio) {
  return std::isfinite(ratio) ? fmt::format("{:+.3g}", 100 * (ratio - 1)) : "never";
}
std::string factor(double ratio) { return std::isfinite(ratio) ? fmt::format("{:.3g}", ratio) : "never"; }

std::string range(const Interval& i) { return i.low == i.high ? "" : factor(i.low) + ".." + factor(i.high); }

void print(const AdviseOptions& o, const LadderRuns& ladder, const sweeps::LawStudy& study, const Advice& advice,
           double d) {
  if (const std::string text = extrapolation(study, advice.n, d, transfer_of(o)); !text.empty()) print_wrapped(text);
  const char* unit = o.objective == "time" ? "s" : o.objective == "price" ? "US dollars" : "J";
  print_wrapped(fmt::format("{} on {}: {} until the loss of {} at D {:.3g}{}; a step of {} takes {:.4g} {}",
                            o.cost.model, o.cost.hardware, o.objective, o.baseline, d,
                            o.max_gap == "0" ? "" : " plus " + o.max_gap, o.baseline, advice.baseline_step, unit));
  Table table{{{"recipe"},
               {"tokens x", Align::right},
               {"95 %", Align::right},
               {"step x", Align::right},
               {"cost x", Align::right},
               {"95 %", Align::right},
               {""}},
              {}};
  for (const AdviceRow& row : advice.rows)
    table.rows.push_back({row.recipe, row.tokens ? factor(*row.tokens) : "never",
                          row.tokens_interval ? range(*row.tokens_interval) : "", factor(row.step), factor(row.cost),
                          range(row.interval), std::string(word(row.word))});
  print_table(table);
  print_wrapped(
      "cost x: the median draw of tokens x times step x, FP4 steps slower by up to 29 %; alike: some of the middle "
      "95 % of draws find it cheaper than the first.");
  for (const auto& [name, recipe] : study.recipes)
    if (!recipe.missing.empty()) print_wrapped(fmt::format("{}: no law: {}", name, recipe.missing));
  for (const std::string& name : ladder.left_out) print_wrapped(name + ": every run of the ladder diverged");
  print_wrapped(
      fmt::format("Rests on {} runs of {} at {} (N, D), ladder {}; {} draws of the law's bootstrap and of the cost "
                  "model's doubts (factor 1.5 on efficiency, bandwidth and issue rate; FP4 steps up to 29 % slower: "
                  "results/cost_validation).",
                  study.fit.runs, o.baseline, study.fit.cells,
                  o.ladder == built_in_ladder ? "results/ladder_small (built-in)" : o.ladder, study.samples.size()));
  for (const Published& p : published_results) {
    const auto row =
        std::find_if(advice.rows.begin(), advice.rows.end(), [&](const AdviceRow& r) { return r.recipe == p.recipe; });
    if (row == advice.rows.end()) continue;
    const std::string cost = p.high > 0 ? fmt::format(": cost x {:.2g}..{:.2g} if fp8 needs no more tokens than {}",
                                                      row->step * (1 + p.low), row->step * (1 + p.high), o.baseline)
                                        : "";
    print_wrapped(fmt::format("published: {}: {} ({}){}", p.recipe, p.result, p.source, cost));
  }
  const AdviceRow& best = advice.rows.front();
  std::string text = fmt::format("take {}", best.recipe);
  if (advice.rows.size() > 1) {
    const AdviceRow& next = advice.rows[1];
    text += fmt::format("; runner-up {}, {}", next.recipe,
                        next.word == AdviceWord::alike
                            ? "which the draws do not tell from it"
                            : fmt::format("dearer by {:.2g} %", 100 * (next.cost / best.cost - 1)));
    if (best.tokens && std::isfinite(next.cost))
      text += fmt::format(". They change places where {} needs {} % more tokens than {}, or its step takes {} of {}'s",
                          best.recipe, more_percent(advice.turning_tokens), o.baseline, factor(advice.turning_step),
                          o.baseline);
  }
  print_wrapped(text);
}

ordered_json ends_json(const Interval& i) {
  const auto value = [](double x) { return std::isfinite(x) ? ordered_json(x) : ordered_json(); };
  return ordered_json::array({value(i.low), value(i.high)});
}

ordered_json json_of(const AdviseOptions& o, const sweeps::LawStudy& study, const Advice& advice, double d,
                     const Invocation& invocation) {
  ordered_json json = {{"schema", 1},
                       {"model", o.cost.model},
                       {"hardware", o.cost.hardware},
                       {"objective", o.objective},
                       {"transfer", o.transfer},
                       {"baseline", o.baseline},
                       {"ladder", o.ladder},
                       {"n", advice.n},
                       {"d", d},
                       {"extrapolated_n", beyond(advice.n, study.n)},
                       {"extrapolated_d", beyond(d, study.d)},
                       {"baseline_step", advice.baseline_step},
                       {"rows", ordered_json::array()}};
  for (const AdviceRow& row : advice.rows)
    json["rows"].push_back({{"recipe", row.recipe},
                            {"tokens", row.tokens ? ordered_json(*row.tokens) : ordered_json()},
                            {"tokens_interval", row.tokens_interval ? ends_json(*row.tokens_interval) : ordered_json()},
                            {"step", row.step},
                            {"cost", std::isfinite(row.cost) ? ordered_json(row.cost) : ordered_json()},
                            {"cost_interval", ends_json(row.interval)},
                            {"against_best", ends_json(row.against_best)},
                            {"word", word(row.word)}});
  json["turning_tokens"] = advice.turning_tokens;
  json["turning_step"] = advice.turning_step;
  json["provenance"] = provenance(invocation);
  return json;
}

void run_advise(const AdviseOptions& o, Invocation& invocation) {
  const LadderRuns ladder = read_ladder(o.ladder);
  const sweeps::LawStudy study =
      study_law(ladder.points, o.baseline, o.form == "quartet" ? sweeps::LawForm::quartet : sweeps::LawForm::chinchilla,
                o.samples);
  const cost::Model model = cost::load_model(o.cost.model);
  const auto objective = o.objective == "time"    ? sweeps::Objective::time
                         : o.objective == "price" ? sweeps::Objective::price
                                                  : sweeps::Objective::energy;
  const double d = o.tokens > 0 ? o.tokens : usual_tokens(model);
  const Advice advice = advise(study, recipe_facts(ladder, o.cost.steps), model, cost::load_hardware(o.cost.hardware),
                               {.d = d,
                                .max_gap = share_of(o.max_gap),
                                .objective = objective,
                                .transfer = transfer_of(o),
                                .cost = o.cost.options(),
                                .doubt = {}});
  if (o.cost.json) return print_json(json_of(o, study, advice, d, invocation));
  print(o, ladder, study, advice, d);
}

void add_advise(CLI::App& app, Invocation& invocation) {
  auto o = std::make_shared<AdviseOptions>();
  app.add_option("LADDER", o->ladder,
                 "Folder of a sweep of the task lm over sizes and budgets, or its `sweep export`; left out: the ladder "
                 "that the program carries, results/ladder_small")
      ->type_name("DIR|CSV");
  o->cost.add_to(app);
  app.add_option("--tokens", o->tokens, "Tokens of the baseline (default: 20 for each parameter)")->check(above_zero());
  app.add_option("--max-gap", o->max_gap, "Reach the baseline's loss plus this share of it: 1% or 0.01")
      ->capture_default_str();
  app.add_option("--objective", o->objective, "What is to be small: time, price or energy")
      ->type_name("time|price|energy")
      ->check(CLI::IsMember({"time", "price", "energy"}))
      ->capture_default_str();
  app.add_option("--transfer", o->transfer,
                 "What a ladder of small models says of this one. tokens: a recipe needs as many times the baseline's "
                 "tokens as at the ladder's largest size; law: effN and effD stay what they are")
      ->check(CLI::IsMember({"tokens", "law"}))
      ->capture_default_str();
  app.add_option("--baseline", o->baseline, "The recipe whose runs give the law and whose loss is to be reached")
      ->capture_default_str();
  app.add_option("--form", o->form, "quartet: six parameters; chinchilla: gamma = 1")
      ->check(CLI::IsMember({"quartet", "chinchilla"}))
      ->capture_default_str();
  app.add_option("--samples", o->samples, "Draws")->check(CLI::Range(40, 100000))->capture_default_str();
  app.callback([o, &invocation] { run_advise(*o, invocation); });
  set_example(app, "fp4sim advise --hardware b200 --model llama3_8b --max-gap 1%");
}

}  // namespace

Command command_advise() {
  return {"advise", "Which recipe: what each costs on a chip until it has bf16's loss", add_advise};
}

}  // namespace fp4::tools
