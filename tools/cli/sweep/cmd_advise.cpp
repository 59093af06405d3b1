// `fp4sim advise`: which recipe to train a model with on a chip: what each costs until it has bf16's loss, from a
// ladder's law and the cost model, what that rests on, and what would turn the order.
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "src/arith/spec_text.h"
#include "src/text/error.h"
#include "sweeps/cost/hardware.h"
#include "sweeps/judge/advice.h"
#include "tools/cli/cost/cost_options.h"
#include "tools/cli/options.h"
#include "tools/cli/provenance.h"
#include "tools/cli/sweep/advice_words.h"
#include "tools/cli/sweep/law_input.h"
#include "tools/cli/sweep/sweep_view.h"
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
  bool loss = false;  // the result is a loss
};
constexpr Published published_results[] = {
    {"mxfp4_fprop", 0.08, 0.09, "8 to 9 % more tokens than fp8", "2605.09825"},
    {"mxfp4_fprop_dgrad", 0.10, 0.11, "10 to 11 % more tokens than fp8", "2605.09825"},
    {"mxfp4_all", 0.26, 0.27, "26 to 27 % more tokens than fp8; 36 % more than nvfp4 at 8B", "2605.09825; 2509.25149"},
    {"mxfp4_all_h16", 0.08, 0.09, "8 to 9 % more tokens than fp8", "2605.09825"},
    {"nvfp4_te", 0, 0, "loss 1.5 % above bf16's at 8B (mxfp4: 2.5 %)", "2509.25149", true},
    {"quartet", 0, 0, "effN .64, effD .94", "2505.14669, table 3"},
};

struct AdviseOptions {
  CostArguments cost;
  std::string ladder = built_in_ladder, baseline = "bf16", form = "quartet", objective = "time", max_gap = "0";
  std::string transfer = "gaps";
  double tokens = 0;
  size_t samples = 200;
};

// "1%" or "0.01".
double share_of(const std::string& text) {
  const bool percent = text.ends_with('%');
  const double value = number_from_text(percent ? text.substr(0, text.size() - 1) : text, "--max-gap");
  const double share = percent ? value / 100 : value;
  if (!(share >= 0 && share < 1))
    throw Error("--max-gap: expected a share from 0 to below 1, such as 1% or 0.01, not '" + text + "'");
  return share;
}

sweeps::Transfer transfer_of(const AdviseOptions& o) {
  return o.transfer == "law"      ? sweeps::Transfer::law
         : o.transfer == "tokens" ? sweeps::Transfer::tokens
                                  : sweeps::Transfer::gaps;
}

std::string more_percent(double ratio) {
  return std::isfinite(ratio) ? fmt::format("{:+.3g}", 100 * (ratio - 1)) : "never";
}
std::string factor(double ratio) { return std::isfinite(ratio) ? fmt::format("{:.3g}", ratio) : "never"; }

std::string range(const Interval& i) { return i.low == i.high ? "" : factor(i.low) + ".." + factor(i.high); }

// A recipe with tokens that others published: what it costs by them, with the doubts of its step.
struct PublishedCost {
  const Published* row;
  const AdviceRow* advice;
  double middle;
  Interval interval;
};
std::vector<PublishedCost> published_costs(const Advice& advice) {
  std::vector<PublishedCost> list;
  for (const Published& p : published_results)
    for (const AdviceRow& row : advice.rows)
      if (row.recipe == p.recipe && p.high > 0)
        list.push_back({&p,
                        &row,
                        row.step * (1 + (p.low + p.high) / 2),
                        {row.step_interval.low * (1 + p.low), row.step_interval.high * (1 + p.high)}});
  // The recipe that they count from.
  static constexpr Published fp8 = {"mxfp8", 0, 0, "taken to need bf16's tokens", "2605.09825"};
  for (const AdviceRow& row : advice.rows)
    if (row.recipe == fp8.recipe) list.push_back({&fp8, &row, row.step, row.step_interval});
  std::sort(list.begin(), list.end(), [](const auto& a, const auto& b) { return a.middle < b.middle; });
  return list;
}

std::string marked_recipe(const AdviceRow& row) { return row.recipe + (row.decoded.empty() ? "" : " *"); }

const Published* published_of(const std::string& recipe) {
  const auto* row = std::find_if(std::begin(published_results), std::end(published_results),
                                 [&](const Published& p) { return p.recipe == recipe; });
  return row == std::end(published_results) ? nullptr : row;
}

// FP4 recipes with published results that say nothing of tokens.
std::string without_tokens(const Advice& advice) {
  std::string text;
  for (const AdviceRow& row : advice.rows)
    if (const Published* p = published_of(row.recipe); p != nullptr && p->high == 0)
      text += fmt::format("{}{}", text.empty() ? "" : ", ", row.recipe);
  return text;
}

// What cannot be said comes first. Then both answers: that of the ladder and that of what others measured where models
// are large.
std::string headline(const AdviseOptions& o, const Advice& advice) {
  const std::vector<PublishedCost> published = published_costs(advice);
  const std::string ladder = advice.rows.front().recipe;
  std::string start;
  if (!advice.verdict) {
    const std::string unknown = without_tokens(advice);
    start = "No recipe can be recommended from data: (1) the ladder says nothing of a model so much larger";
    if (!unknown.empty()) start += fmt::format("; (2) no tokens are published for {}", unknown);
    start += ". ";
  }
  if (published.empty())
    return start + (advice.verdict ? fmt::format("The ladder has {} cheapest; nothing is published beside it", ladder)
                                   : "Nothing is published of these recipes");
  const PublishedCost& best = published.front();
  std::string text = fmt::format("{}By published tokens {} is cheapest ({} of {}'s {}, 95 %: {})", start,
                                 best.row->recipe, factor(best.middle), o.baseline, o.objective, range(best.interval));
  std::string alike;
  for (const PublishedCost& other : published)
    if (&other != &best && other.interval.low <= best.interval.high && other.middle < 1)
      alike += (alike.empty() ? "" : ", ") + std::string(other.row->recipe);
  if (!alike.empty()) text += ", not told from " + alike;
  if (!advice.verdict) return text;
  return text + (ladder == best.row->recipe ? "; the ladder has " + ladder + " cheapest, too"
                                            : "; the ladder, of other sizes, has " + ladder + " cheapest");
}

void print_published(const AdviseOptions& o, const Advice& advice) {
  const std::vector<PublishedCost> costs = published_costs(advice);
  for (const Published& p : published_results) {
    const auto row =
        std::find_if(advice.rows.begin(), advice.rows.end(), [&](const AdviceRow& r) { return r.recipe == p.recipe; });
    if (row == advice.rows.end()) continue;
    const auto cost = std::find_if(costs.begin(), costs.end(), [&](const auto& c) { return c.row == &p; });
    print_wrapped(fmt::format("published: {}: {} ({}){}", p.recipe, p.result, p.source,
                              cost == costs.end()
                                  ? ""
                                  : fmt::format(": cost x {} [{}] if fp8 needs no more tokens than {}",
                                                factor(cost->middle), range(cost->interval), o.baseline)));
  }
}

void print_decoded(const AdviseOptions& o, const Advice& advice) {
  std::set<std::string> formats;
  for (const AdviceRow& row : advice.rows) formats.insert(row.decoded.begin(), row.decoded.end());
  std::string text;
  for (const std::string& format : formats) text += (text.empty() ? "" : "; ") + format;
  if (!text.empty())
    print_wrapped(
        fmt::format("* {} does not multiply {}: priced as bf16 products of decoded operands", o.cost.hardware, text));
}

// Too far: the step, which the chip decides, and what is published.
void print_without_verdict(const AdviseOptions& o, const Advice& advice) {
  Table table{{{"recipe"},
               {"step x", Align::right},
               {"95 %", Align::right},
               {"tokens x", Align::right},
               {"cost x", Align::right},
               {"95 %", Align::right},
               {"note"}},
              {}};
  // By cost where tokens are published, then by step.
  const std::vector<PublishedCost> costs = published_costs(advice);
  std::set<std::string> priced;
  for (const PublishedCost& cost : costs) {
    priced.insert(cost.advice->recipe);
    table.rows.push_back({marked_recipe(*cost.advice), factor(cost.advice->step), range(cost.advice->step_interval),
                          factor(1 + (cost.row->low + cost.row->high) / 2), factor(cost.middle), range(cost.interval),
                          cost.row->high == 0 ? "supposed" : ""});
  }
  std::vector<const AdviceRow*> rows;
  for (const AdviceRow& row : advice.rows)
    if (!priced.contains(row.recipe)) rows.push_back(&row);
  std::stable_sort(rows.begin(), rows.end(), [](const auto* a, const auto* b) { return a->step < b->step; });
  for (const AdviceRow* row : rows) {
    const bool is_baseline = row->recipe == o.baseline;
    const Published* p = published_of(row->recipe);
    table.rows.push_back({marked_recipe(*row), factor(row->step), range(row->step_interval),
                          is_baseline ? "1" : "unknown", is_baseline ? "1" : "", "",
                          p == nullptr ? ""
                          : p->loss    ? "only its loss is published"
                                       : "only effN, effD are"});
  }
  print_table(table);
  print_decoded(o, advice);
  print_wrapped(fmt::format(
      "step x: {0} of a step as a multiple of {1}'s; 95 % of draws of the cost model's doubts. tokens x: as "
      "published over fp8, if fp8 needs {1}'s tokens; cost x: their product.",
      o.objective, o.baseline));
}

void print_with_verdict(const AdviseOptions& o, const Advice& advice) {
  const bool by_gaps = o.transfer == "gaps";
  Table table{{{"recipe"}}, {}};
  if (by_gaps) table.columns.insert(table.columns.end(), {{"gap %", Align::right}, {"95 %", Align::right}});
  table.columns.insert(table.columns.end(),
                       {{"tokens x", Align::right}, {"step x", Align::right}, {"cost x", Align::right}});
  if (!by_gaps) table.columns.push_back({"95 %", Align::right});
  table.columns.insert(table.columns.end(), {{"x first", Align::right}, {""}});
  for (const AdviceRow& row : advice.rows) {
    std::vector<std::string> cells = {marked_recipe(row)};
    if (by_gaps) {
      cells.push_back(row.gap ? fmt::format("{:.2g}", 100 * std::expm1(*row.gap)) : "");
      cells.push_back(row.gap ? fmt::format("{:.2g}..{:.2g}", 100 * std::expm1(row.gap_interval->low),
                                            100 * std::expm1(row.gap_interval->high))
                              : "");
    }
    cells.insert(cells.end(), {row.tokens ? factor(*row.tokens) : "never", factor(row.step), factor(row.cost)});
    if (!by_gaps) cells.push_back(range(row.interval));
    cells.insert(cells.end(), {range(row.against_best), std::string(word(row.word))});
    table.rows.push_back(std::move(cells));
  }
  print_table(table);
  print_decoded(o, advice);
  print_wrapped(
      "cost x: the median draw of tokens x times step x, FP4 steps slower by up to 29 %; alike: some of the middle "
      "95 % of draws find it cheaper than the first.");
}

void print_turning(const AdviseOptions& o, const Advice& advice) {
  const AdviceRow& best = advice.rows.front();
  std::string text = fmt::format("take {}", best.recipe);
  if (advice.rows.size() > 1) {
    const AdviceRow& next = advice.rows[1];
    text += fmt::format("; runner-up {}, {}", next.recipe,
                        next.word == AdviceWord::alike
                            ? "which the draws do not tell from it"
                            : fmt::format("dearer by {:.2g} %", 100 * (next.cost / best.cost - 1)));
    if (best.recipe == o.baseline && std::isfinite(next.cost))
      text += fmt::format(". They change places where {} costs {} of what is modelled", next.recipe,
                          factor(best.cost / next.cost));
    else if (best.tokens && std::isfinite(next.cost))
      text += fmt::format(". They change places where {} needs {} % more tokens than {}, or its step takes {} of {}'s",
                          best.recipe, more_percent(advice.turning_tokens), o.baseline, factor(advice.turning_step),
                          o.baseline);
  }
  print_wrapped(text);
}

void print(const AdviseOptions& o, const LadderRuns& ladder, const sweeps::LawStudy& study, const Advice& advice,
           double d) {
  if (o.transfer == "gaps") print_wrapped(headline(o, advice) + ".");
  if (const std::string text = extrapolation(study, advice.n, d, transfer_of(o)); !text.empty()) print_wrapped(text);
  const char* unit = o.objective == "time" ? "s" : o.objective == "price" ? "US dollars" : "J";
  print_wrapped(fmt::format("{} on {}: {} until the loss of {} at D {:.3g}{}; a step of {} takes {:.4g} {}",
                            o.cost.model, o.cost.hardware, o.objective, o.baseline, d,
                            o.max_gap == "0" ? "" : " plus " + o.max_gap, o.baseline, advice.baseline_step, unit));
  advice.verdict ? print_with_verdict(o, advice) : print_without_verdict(o, advice);
  for (const auto& [name, recipe] : study.recipes)
    if (!recipe.missing.empty()) print_wrapped(fmt::format("{}: no law: {}", name, recipe.missing));
  for (const std::string& name : ladder.left_out) print_wrapped(name + ": every run of the ladder diverged");
  print_wrapped(
      fmt::format("Rests on {} runs of {} at {} (N, D), ladder {}; {} draws of the law's bootstrap, of the gaps and of "
                  "the cost model's doubts (factor 1.5 on efficiency, bandwidth, issue rate and other; FP4 steps up to "
                  "29 % slower: results/cost_validation).",
                  study.fit.runs, o.baseline, study.fit.cells,
                  o.ladder == built_in_ladder ? "results/ladder_small (built-in)" : o.ladder, study.samples.size()));
  print_published(o, advice);
  if (advice.verdict) print_turning(o, advice);
}

ordered_json ends_json(const Interval& i) {
  const auto value = [](double x) { return std::isfinite(x) ? ordered_json(x) : ordered_json(); };
  return ordered_json::array({value(i.low), value(i.high)});
}

ordered_json json_of(const AdviseOptions& o, const Advice& advice, double d, const Invocation& invocation) {
  ordered_json json = {{"schema", 1},
                       {"model", o.cost.model},
                       {"hardware", o.cost.hardware},
                       {"objective", o.objective},
                       {"transfer", o.transfer},
                       {"baseline", o.baseline},
                       {"ladder", o.ladder},
                       {"n", advice.n},
                       {"d", d},
                       {"extrapolated_n", advice.far_n},
                       {"extrapolated_d", advice.far_d},
                       {"verdict", advice.verdict},
                       {"baseline_step", advice.baseline_step},
                       {"rows", ordered_json::array()}};
  for (const AdviceRow& row : advice.rows)
    json["rows"].push_back(
        {{"recipe", row.recipe},
         {"gap", row.gap ? ordered_json(std::expm1(*row.gap)) : ordered_json()},
         {"gap_interval", row.gap ? ends_json({std::expm1(row.gap_interval->low), std::expm1(row.gap_interval->high)})
                                  : ordered_json()},
         {"tokens", row.tokens ? ordered_json(*row.tokens) : ordered_json()},
         {"tokens_interval", row.tokens_interval ? ends_json(*row.tokens_interval) : ordered_json()},
         {"step", row.step},
         {"step_interval", ends_json(row.step_interval)},
         {"decoded", row.decoded},
         {"cost", std::isfinite(row.cost) ? ordered_json(row.cost) : ordered_json()},
         {"cost_interval", ends_json(row.interval)},
         {"against_best", ends_json(row.against_best)},
         {"word", advice.verdict ? word(row.word) : "no verdict"}});
  json["published"] = ordered_json::array();
  for (const PublishedCost& cost : published_costs(advice))
    json["published"].push_back({{"recipe", cost.row->recipe},
                                 {"cost", cost.middle},
                                 {"cost_interval", ends_json(cost.interval)},
                                 {"source", cost.row->source}});
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
  const Advice advice = advise(study, sweeps::gap_fits(ladder.points, o.baseline), recipe_facts(ladder, o.cost.steps),
                               model, cost::load_hardware(o.cost.hardware),
                               {.d = d,
                                .max_gap = share_of(o.max_gap),
                                .objective = objective,
                                .transfer = transfer_of(o),
                                .cost = o.cost.options(),
                                .doubt = {}});
  if (o.cost.json) return print_json(json_of(o, advice, d, invocation));
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
  app.add_option(
         "--transfer", o->transfer,
         "What a ladder of small models says of this one. gaps: paired gaps change with N and D as in the ladder, "
         "no verdict beyond 100 times its sizes; tokens: a recipe needs as many times the baseline's tokens as "
         "at the ladder's largest size; law: effN and effD stay what they are")
      ->check(CLI::IsMember({"gaps", "tokens", "law"}))
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
