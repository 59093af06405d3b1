// `fp4sim cost recommend`, `sensitivity` and `validate`: what to rent, what survives wrong numbers, and how the model
// compares with published measurements.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

#include "sim/rules/recipe.h"
#include "src/files/output.h"
#include "src/text/csv.h"
#include "src/text/error.h"
#include "src/text/member_json.h"
#include "sweeps/cost/adapt.h"
#include "sweeps/cost/doubt.h"
#include "sweeps/cost/published.h"
#include "sweeps/cost/recommend.h"
#include "tools/cli/cost/cost_options.h"
#include "tools/cli/options.h"
#include "tools/cli/sweep/advice_words.h"
#include "tools/cli/table_print.h"

namespace fp4::tools {
namespace {

using cost::PublishedRow;
using nlohmann::ordered_json;

// Recipes of the default comparison: baselines, those of known tokens, and one of each school.
const std::vector<std::string> kUsual = {
    "bf16",         "mxfp8",    "mxfp4_all",    "mxfp4_all_h16", "mxfp4_fprop", "mxfp4_fprop_dgrad", "nvfp4",
    "mxfp4_sr_rht", "nvfp4_te", "ue5m3_hold50", "quartet",       "tetrajet",    "four_over_six"};

std::vector<cost::RecipeFacts> facts_of(const std::vector<std::string>& names, int steps = 0) {
  std::vector<cost::RecipeFacts> facts;
  for (const std::string& name : names) {
    facts.push_back(cost::facts_of(sim::recipe_from_json(name), steps));
    facts.back().name = name;
  }
  return facts;
}

struct RecommendArguments {
  CostArguments cost;
  std::vector<std::string> recipes = kUsual, hardware;
  double tokens = 0, hours = 0, global_tokens = 1 << 22;
  int max_devices = 4096;
  bool all = false;
};

std::string rented(const cost::Recommendation& row) {
  return fmt::format("{} x {} for {:.1f} h, {}{}: {:.0f} USD [{:.0f} .. {:.0f}]{}", row.devices, row.hardware,
                     row.hours, row.recipe, row.decoded.empty() ? "" : " *", row.price, row.price * row.doubt.low,
                     row.price * row.doubt.high,
                     row.energy_kwh ? fmt::format(", {:.3g} MWh", *row.energy_kwh / 1000) : "");
}

std::string limited(const cost::Recommendation& row) {
  return fmt::format("{} {:.0f}%", row.limit, row.limit_share * 100);
}

// Where no chip holds the model: what would take memory off each accelerator, has not been asked for, and can be.
void print_nothing_fits(const CostArguments& given, const cost::Model& model, const std::vector<cost::Hardware>& chips,
                        int max_devices) {
  std::vector<std::string> ways;
  if (given.shard != "full") ways.emplace_back("--shard full");
  int joined = 8;  // tensor groups of this size, 8 at most, lie within the links of every chip
  for (const cost::Hardware& chip : chips) joined = std::gcd(joined, chip.node_size);
  if (joined > given.tensor && joined * given.pipeline <= max_devices)
    ways.push_back(fmt::format("--tensor {}", joined));
  if (const int stages = 2 * given.pipeline; model.blocks % stages == 0 && given.tensor * stages <= max_devices)
    ways.push_back(fmt::format("--pipeline {}", stages));
  std::string text = "nothing fits: no chip holds the model";
  for (const std::string& way : ways)
    text += (&way == &ways.front() ? "; try " : &way == &ways.back() ? " or " : ", ") + way;
  print_wrapped(text);
}

// The first row of the table in words, what comes next, and what decides between the two.
void print_answer(const std::vector<cost::Recommendation>& rows) {
  const cost::Recommendation& best = rows.front();
  std::vector<std::pair<std::string, std::string>> fields = {
      {best.in_time ? "rent" : "fastest", rented(best) + (best.in_time ? "" : "; nothing is in time")}};
  // Of another chip: the same chip's next recipe says little about what to rent.
  const auto other = std::find_if(rows.begin(), rows.end(),
                                  [&](const cost::Recommendation& row) { return row.hardware != best.hardware; });
  const auto hourly = [](const cost::Recommendation& row) { return row.price / row.chip_hours(); };
  std::string why = fmt::format("{:.0f} chip-hours at {:.3g} USD", best.chip_hours(), hourly(best));
  if (other != rows.end()) {
    const double more = best.in_time ? other->price / best.price - 1 : other->hours / best.hours - 1;
    // What is not known of two chips is not the same: their ratio is known within both factors, by squares.
    const bool told = std::log1p(more) > std::hypot(std::log(best.doubt.high), std::log(other->doubt.low));
    fields.emplace_back("runner-up",
                        fmt::format("{}; {:.1f} % {}{}", rented(*other), more * 100, best.in_time ? "dearer" : "slower",
                                    told ? "" : ", which the model does not tell apart"));
    why += fmt::format(" against {:.0f} at {:.3g}", other->chip_hours(), hourly(*other));
  }
  why += fmt::format("; its step waits most for {}", limited(best));
  if (!best.native_fp4) {
    const auto fp4 = std::find_if(rows.begin(), rows.end(), [](const auto& row) { return row.native_fp4; });
    why += fmt::format("; {} has no FP4 units", best.hardware);
    if (fp4 != rows.end() && fp4 != other) fields.emplace_back("with FP4 units", rented(*fp4));
  }
  fields.emplace_back("why", why);
  print_fields(fields);
  fmt::print("\n");
}

void print_recommended(const RecommendArguments& arguments, const std::vector<cost::Recommendation>& rows) {
  Table table{{"hardware", "FP4", "recipe", ">count", ">hours", ">USD", ">95 %", ">MWh", ">link stall", ">net stall",
               "waits for", ">GB"},
              {}};
  std::set<std::string> seen;
  for (const cost::Recommendation& row : rows)
    if (seen.insert(row.hardware).second || arguments.all)
      table.rows.push_back(
          {row.hardware, row.native_fp4 ? "yes" : "no",
           row.recipe + (row.decoded.empty() ? "" : " *") + (row.tokens_x ? "" : " ?"), std::to_string(row.devices),
           fmt::format("{:.1f}{}", row.hours, row.in_time ? "" : " late"), fmt::format("{:.0f}", row.price),
           fmt::format("{:.2g}..{:.2g}k", row.price * row.doubt.low / 1000, row.price * row.doubt.high / 1000),
           row.energy_kwh ? fmt::format("{:.3g}", *row.energy_kwh / 1000) : "", format_percent(row.interconnect_stall),
           format_percent(row.network_stall), limited(row), fmt::format("{:.0f}", row.memory_bytes / 1e9)});
  print_table(table);
  fmt::print("\n{}\n{:.4g} tokens of {} in {:.4g} h, {:.4g} tokens a step.\n",
             arguments.all ? "All pairs of chip and recipe, each with its cheapest count."
                           : "The best recipe of each chip with its cheapest count (--all: every pair).",
             arguments.tokens, arguments.cost.model, arguments.hours, arguments.global_tokens);
  print_wrapped(
      "FP4: the chip has FP4 matrix units; *: it does not multiply the recipe's format, priced as bf16 products of "
      "decoded operands. Modelled; 95 %: by what the model does not know of the step, a recipe's extra tokens "
      "included; ?: these are not known, and none is priced. Counts are accelerators; clouds rent whole instances. "
      "Prices are list prices with sources in `fp4sim show NAME`.");
}

void run_recommend(const RecommendArguments& arguments) {
  if (!(arguments.tokens > 0)) throw Error("cost recommend: --tokens: expected a positive number");
  if (!(arguments.hours > 0)) throw Error("cost recommend: --time-budget: expected hours above 0");
  if (!(arguments.global_tokens >= 1) || arguments.max_devices < 1)
    throw Error("cost recommend: --global-tokens and --max-devices: expected at least 1");
  std::vector<cost::Hardware> chips;
  for (const std::string& name : arguments.hardware) chips.push_back(cost::load_hardware(name));
  if (chips.empty())
    for (const std::string& name : cost::hardware_names())
      if (const cost::Hardware chip = cost::load_hardware(name);
          chip.price_per_hour && chip.node_size % arguments.cost.tensor == 0)
        chips.push_back(chip);
  if (chips.empty())
    throw Error(fmt::format("cost recommend: --tensor {}: divides the links of no chip that has a price",
                            arguments.cost.tensor));
  cost::RecommendOptions options{arguments.tokens, arguments.hours, arguments.global_tokens, arguments.max_devices,
                                 arguments.cost.options()};
  const cost::Model model = cost::load_model(arguments.cost.model);
  sweeps::AdviceOptions asked = {.objective = sweeps::Objective::price, .cost = options.cost};
  const LadderRuns ladder = read_ladder(built_in_ladder);
  for (const sweeps::AdviceRow& row : advice_of(ladder, model, chips.front(), {}).rows)  // alike on all chips
    if (row.tokens) options.tokens_x[row.recipe] = *row.tokens;
  const auto rows = cost::recommend(model, chips, facts_of(arguments.recipes, arguments.cost.steps), options);
  std::vector<std::string> answer;
  ordered_json named;
  if (!rows.empty()) {
    const auto chip = std::find_if(chips.begin(), chips.end(),
                                   [&](const cost::Hardware& c) { return c.name == rows.front().hardware; });
    asked.cost.devices = asked.cost.parallel.replica();  // as few as `advise` asks of
    const sweeps::Advice advice = advice_of(ladder, model, *chip, asked);
    answer = advice_answer(advice, model, chip->name, asked);
    if (advice.best() != nullptr) named = advice.best()->recipe;
  }
  if (arguments.cost.json) {
    ordered_json json =
        joined_json({FP4_NAMED(arguments.cost.model, arguments.tokens, arguments.hours, arguments.global_tokens),
                     {{"best", named}, {"answer", answer}, {"rows", ordered_json::array()}}});
    for (const cost::Recommendation& row : rows)
      json["rows"].push_back(joined_json(
          {FP4_NAMED(row.hardware, row.recipe, row.devices, row.hours, row.price, row.tokens_x, row.energy_kwh,
                     row.interconnect_stall, row.network_stall, row.memory_bytes, row.native_fp4, row.decoded),
           {{"price_interval", {row.price * row.doubt.low, row.price * row.doubt.high}}},
           FP4_NAMED(row.limit, row.limit_share, row.in_time)}));
    return print_json(json);
  }
  if (rows.empty()) return print_nothing_fits(arguments.cost, model, chips, arguments.max_devices);
  print_answer(rows);
  for (const std::string& sentence : answer) print_wrapped(sentence);
  fmt::print("\n");
  print_recommended(arguments, rows);
}

Table sensitivity_table(const cost::Sensitivity& result, const std::vector<std::string>& recipes) {
  Table table{{"recipe"}, {}};
  for (const cost::Variation& row : result.rows) {
    std::string title = row.name;  // the resource, as `cost explain` calls it: seven columns fit a terminal
    if (title.starts_with("efficiency")) title.replace(0, 10, "matrix");
    if (title.starts_with("bandwidth")) title.replace(0, 9, "memory");
    table.columns.push_back({title, Align::right});
  }
  for (size_t i = 0; i < recipes.size(); ++i) {
    std::vector<std::string> cells = {recipes[i]};
    for (const cost::Variation& row : result.rows)
      cells.push_back(fmt::format("{}: {:.1f}", row.rank[i], row.overhead[i] * 100));
    table.rows.push_back(std::move(cells));
  }
  return table;
}

void run_sensitivity(const CostArguments& arguments, const std::vector<std::string>& recipes) {
  const cost::Sensitivity result =
      cost::sensitivity(facts_of(recipes, arguments.steps), cost::load_model(arguments.model),
                        cost::load_hardware(arguments.hardware), arguments.options());
  if (arguments.json) {
    ordered_json json =
        joined_json({{{"arguments", arguments.describe()}, {"recipes", recipes}, {"rows", ordered_json::array()}},
                     FP4_NAMED(result.pairs, result.stable_pairs)});
    for (const cost::Variation& row : result.rows)
      json["rows"].push_back({{"variation", row.name}, {"overhead", row.overhead}, {"rank", row.rank}});
    return print_json(json);
  }
  fmt::print("Rank and overhead in % of {} on {}\n\n", arguments.model, arguments.hardware);
  print_table(sensitivity_table(result, recipes));
  fmt::print("\n{} of {} pairs of recipes keep their order in all columns.\n", result.stable_pairs, result.pairs);
}

// Without a power of ten: 39310, not 3.931e+04.
std::string four_digits(double x) { return x < 1e4 ? fmt::format("{:.4g}", x) : fmt::format("{:.0f}", x); }

std::string shown(const PublishedRow& row, double value) {
  if (row.unit != "share of time") return four_digits(value) + " " + row.unit;
  // Papers quote shares of time or of throughput: both are given.
  return fmt::format("{:.2f} % of time ({:.2f} % of throughput)", value * 100, cost::throughput_share(value) * 100);
}

std::string verdict(const PublishedRow& row) {
  switch (row.kind) {
    case PublishedRow::Class::held_out:
      return fmt::format("{} (factor {:.2f})", row.met() ? "met" : "missed", row.factor());
    case PublishedRow::Class::bound: return row.met() ? "met" : "missed";
    default: return "";
  }
}

std::string comparison_csv(const std::vector<PublishedRow>& rows) {
  std::string out = "id,hardware,what,unit,published,model,low,high,factor,class,met,source,note\n";
  for (const PublishedRow& row : rows)
    out += fmt::format("{},{},{},{},{},{},{},{},{},{},{},{},{}\n", row.id, row.chip, csv_field(row.what), row.unit,
                       row.published, row.model, row.interval ? fmt::to_string(row.interval->low) : "",
                       row.interval ? fmt::to_string(row.interval->high) : "", row.factor(), cost::class_name(row.kind),
                       row.met() ? 1 : 0, csv_field(row.source), csv_field(row.note));
  return out;
}

ordered_json comparison_json(const std::vector<PublishedRow>& rows) {
  ordered_json out = {{"schema", 1}, {"rows", ordered_json::array()}};
  for (const PublishedRow& row : rows)
    out["rows"].push_back(
        joined_json({{{"id", row.id}, {"hardware", row.chip}},
                     FP4_NAMED(row.what, row.unit, row.published, row.model),
                     {{"interval", row.interval ? ordered_json{row.interval->low, row.interval->high} : ordered_json()},
                      {"factor", row.factor()},
                      {"class", cost::class_name(row.kind)}},
                     FP4_NAMED(row.met(), row.source, row.note)}));
  return out;
}

Table comparison_table(const std::vector<PublishedRow>& rows) {
  Table table{{"hardware", "published", "value", "model", "95 %", "class", "verdict"}, {}};
  for (const PublishedRow& row : rows)
    table.rows.push_back({row.chip, row.what,
                          (row.kind == PublishedRow::Class::bound ? "at most " : "") + shown(row, row.published),
                          shown(row, row.model),
                          row.interval ? four_digits(row.interval->low) + ".." + four_digits(row.interval->high) : "",
                          cost::class_name(row.kind), verdict(row)});
  return table;
}

std::string comparison_markdown(const std::vector<PublishedRow>& rows) {
  Table table = comparison_table(rows);
  table.columns.push_back({"source; remarks"});
  for (size_t i = 0; i < rows.size(); ++i)
    table.rows[i].push_back(rows[i].source + (rows[i].note.empty() ? "" : "; " + rows[i].note));
  return markdown_table(table);
}

// Ranks on every chip with FP4: what a front may rely on.
std::string ranks_markdown() {
  const std::vector<cost::RecipeFacts> facts = facts_of(kUsual);
  std::string out;
  for (const std::string& name : cost::hardware_names()) {
    const cost::Hardware chip = cost::load_hardware(name);
    if (!cost::has_fp4(chip) || name == "host") continue;  // host: the simulator itself, no chip
    const cost::Sensitivity result = cost::sensitivity(facts, cost::load_model("llama3_8b"), chip, {});
    out += fmt::format("\n## {}\n\n{}\n{} of {} pairs keep their order in all columns.\n", name,
                       markdown_table(sensitivity_table(result, kUsual)), result.stable_pairs, result.pairs);
  }
  return out;
}

void run_validate(const std::string& out, bool force, bool json, const std::string& command) {
  const std::vector<PublishedRow> rows = cost::published_comparison();
  if (!out.empty()) {
    StagedFolder folder(out, force);
    const std::string made = "Made by `" + command + "`; README.md explains the columns.\n\n";
    const std::pair<const char*, std::string> files[] = {
        {"table.csv", comparison_csv(rows)},
        {"table.json", comparison_json(rows).dump(2) + "\n"},
        {"table.md", "# Cost model against published measurements\n\n" + made + comparison_markdown(rows)},
        {"ranks.md", "# Rank and overhead of recipes when a profile is wrong by a factor of two\n\n" + made +
                         "llama3_8b; rank: overhead over the ideal step in %.\n" + ranks_markdown()}};
    for (const auto& [name, text] : files) write_file(folder.file(name), text, true);
    folder.commit();
  }
  if (json) return print_json(comparison_json(rows));
  print_table(comparison_table(rows));
  int steps = 0, inside = 0, others = 0, within = 0;
  double widest = 1;
  for (const PublishedRow& row : rows) {
    if (row.kind != PublishedRow::Class::held_out) continue;
    ++(row.interval ? steps : others);
    (row.interval ? inside : within) += row.met() ? 1 : 0;
    if (row.interval) widest = std::max(widest, row.interval->high / row.interval->low);
  }
  fmt::print("\n");
  print_sentence(
      "{} of {} steps held out lie inside the model's intervals, at most a factor {:.2f} from end to end; {} of {} "
      "other values held out within a factor 1.5.",
      inside, steps, widest, within, others);
}

}  // namespace

void add_cost_studies(CLI::App& app, Invocation& invocation) {
  static RecommendArguments renting;
  static CostArguments varying;
  static std::vector<std::string> varied = kUsual;
  static std::string out;
  static bool force = false, json = false;

  CLI::App* recommend = app.add_subcommand("recommend", "The cheapest chip, count and recipe within a time budget");
  renting.cost.add_to(*recommend, false);
  recommend->add_option("--tokens", renting.tokens, "Tokens to train on")->required();
  recommend->add_option("--time-budget", renting.hours, "Hours")->required();
  option(*recommend, "--hardware HARDWARE,..", renting.hardware, "Chips to consider; default all with a price");
  keep_older_names(option(*recommend, "--recipes,--recipe RECIPE,..", renting.recipes,
                          "Recipes to consider; default one of each school"));
  defaulted(*recommend, "--global-tokens", renting.global_tokens, "Tokens of one optimizer step");
  defaulted(*recommend, "--max-devices", renting.max_devices, "Largest count tried");
  recommend->add_flag("--all", renting.all, "All pairs of chip and recipe, not only the best of each chip");
  recommend->callback([] { run_recommend(renting); });
  set_example(*recommend, "fp4sim cost recommend --model llama3_8b --tokens 160e9 --time-budget 72");

  CLI::App* sensitivity =
      app.add_subcommand("sensitivity", "Ranks under halved and doubled efficiency, bandwidth and issue rate");
  keep_older_names(
      option(*sensitivity, "recipes,--recipes,--recipe RECIPE", varied, "Recipes; default one of each school"));
  varying.add_to(*sensitivity);
  sensitivity->callback([] { run_sensitivity(varying, varied); });
  set_example(*sensitivity, "fp4sim cost sensitivity bf16 mxfp8 nvfp4_te mxfp4_all_h16 --hardware b200");

  CLI::App* validate = app.add_subcommand("validate", "The model beside published measurements");
  validate->add_option("-o,--out", out, "Folder for table.csv, table.json, table.md and ranks.md");
  validate->add_flag("-f,--force", force, "Overwrite them");
  validate->add_flag("--json", json, "Print JSON");
  validate->callback([&invocation] { run_validate(out, force, json, invocation.command_line); });
  set_example(*validate, "fp4sim cost validate --out results/cost_validation --force");
}

}  // namespace fp4::tools
