// `fp4sim cost`: the cost model by itself. This file: one recipe, `compare`, `explain`, `weights`; the studies
// (recommend, sensitivity, validate) are in cmd_cost_study.cpp, measurements (calibrate, measure) in
// cmd_cost_measure.cpp.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "sim/rules/recipe.h"
#include "src/text/error.h"
#include "src/text/member_json.h"
#include "src/text/words.h"
#include "sweeps/cost/adapt.h"
#include "sweeps/cost/doubt.h"
#include "tools/cli/command.h"
#include "tools/cli/cost/cost_options.h"
#include "tools/cli/options.h"
#include "tools/cli/table_print.h"

namespace fp4::tools {

// The subcommands that live in files of their own.
void add_cost_studies(CLI::App& app, Invocation& invocation);       // recommend, sensitivity, validate
void add_cost_measurements(CLI::App& app, Invocation& invocation);  // calibrate, measure
void add_cost_stalls(CLI::App& app, Invocation& invocation);        // stalls
void add_cost_embedding(CLI::App& app, Invocation& invocation);     // embedding
void add_cost_new_chip(CLI::App& app, Invocation& invocation);      // new-chip, new-model

namespace {

using cost::CostOptions;
using cost::CostResult;
using nlohmann::ordered_json;

struct Context {
  cost::Model model;
  cost::Hardware hardware;
  CostOptions options;
  explicit Context(const CostArguments& arguments)
      : model(cost::load_model(arguments.model)),
        hardware(cost::load_hardware(arguments.hardware)),
        options(arguments.options()) {
    if (arguments.what_if) hardware = cost::with_undocumented(hardware);
  }
  CostResult evaluate(const std::string& recipe) const {
    return cost::evaluate(sim::recipe_from_json(recipe), model, hardware, options);
  }
  CostResult with_what_if(const std::string& recipe) const {
    return cost::evaluate(sim::recipe_from_json(recipe), model, cost::with_undocumented(hardware), options);
  }
  std::vector<cost::RecipeFacts> facts(const std::vector<std::string>& recipes) const {
    std::vector<cost::RecipeFacts> facts;
    for (const std::string& recipe : recipes)
      facts.push_back(cost::facts_of(sim::recipe_from_json(recipe), options.steps));
    return facts;
  }
  std::vector<cost::CostDoubts> doubts(const std::vector<std::string>& recipes) const {
    return cost::cost_doubts(facts(recipes), model, hardware, options);
  }
};

std::string or_unknown(const std::optional<double>& value, const char* unit, const char* field) {
  return value ? format_number(*value) + unit : fmt::format("unknown (the profile lacks {})", field);
}

// "fp4 82.1 %, bf16 17.9 %", the narrowest first.
std::string precision_text(const CostResult& result) {
  std::vector<std::string> shares;
  for (const char* word : {"fp4", "fp6", "fp8", "bf16", "fp32"})
    if (const auto found = result.precisions.find(word); found != result.precisions.end())
      shares.push_back(fmt::format("{} {:.1f} %", word, 100 * found->second));
  return joined(shares);
}

using SummaryFields = std::vector<std::pair<std::string, std::string>>;

// Whole percents, outwards, so that what lies inside is seen to.
std::string percent_range(const cost::CostRange& range) {
  return fmt::format("{:.0f}..{:.0f} %", std::floor(100 * range.low), std::ceil(100 * range.high));
}

// Intervals of what the model does not know: those of step time hold for price and energy, too.
void add_doubts(ordered_json& json, const CostResult& result, const cost::CostDoubts& doubts) {
  const auto scaled = [&](const std::optional<double>& value) {
    return value ? ordered_json::array({*value * doubts.step.low, *value * doubts.step.high}) : ordered_json();
  };
  json["step_time_interval"] = scaled(result.step_time_s);
  json["overhead_interval"] = {doubts.overhead.low, doubts.overhead.high};
  json["energy_interval"] = scaled(result.energy_j);
  json["price_interval"] = scaled(result.price);
}

constexpr const char* doubts_note =
    "95 %: draws of what the model does not know, by factors: 1.16 on an efficiency or `other` that was fitted to "
    "steps of the chip, else 1.5; 1.5 on bandwidth and issue rate; 1.12 on FP4 steps (results/cost_validation)";
constexpr const char* alike = "alike";

// A large part of a step, and a fit.
void print_other(const CostResult& result, const cost::Hardware& chip) {
  const double other = cost::group_seconds(result, "other");
  if (other < 0.1 * result.compute_s) return;
  const std::string& source = chip.other_s_per_token.source;
  print_sentence("other: {} of the step: {}; {}{}.", format_percent(other / result.compute_s), cost::other_doc,
                 chip.other_s_per_token.kind == "fitted" ? "fitted" : "estimated",
                 source.empty() ? "" : " (" + source + ")");
}

// "--devices 4 fits them" where some recipe needs more memory than an accelerator has: the fewest that do, shared as
// asked, or with everything shared out.
std::string way_to_fit(const std::vector<std::string>& recipes, const Context& context) {
  const std::vector<cost::RecipeFacts> facts = context.facts(recipes);
  CostOptions options = context.options;
  const char* const them = recipes.size() == 1 ? "it" : "all of them";
  if (const auto devices = cost::devices_that_fit(facts, context.model, context.hardware, options))
    return fmt::format("with --devices {} {} fit{}", *devices, them, recipes.size() == 1 ? "s" : "");
  options.parallel.sharding = cost::Sharding::full;
  if (const auto devices = cost::devices_that_fit(facts, context.model, context.hardware, options))
    return fmt::format("with --devices {} --shard full {} fit{}", *devices, them, recipes.size() == 1 ? "s" : "");
  return "no count of them does; --tensor and --pipeline split the model, --recompute 1 keeps fewer activations";
}

std::string with_doc(const std::string& name, const std::string& doc) { return doc.empty() ? name : name + ": " + doc; }

// What a sequence keeps, and what several accelerators send.
void add_cache_and_transfers(SummaryFields& fields, const CostResult& result, const Context& context) {
  if (const auto& cache = result.cache) {
    fields.emplace_back("KV cache",
                        fmt::format("{:.4g} bits an element, {} a token (bf16 {})", cache->bits,
                                    format_bytes(cache->token_bytes), format_bytes(cache->bf16_token_bytes)));
    fields.emplace_back("reading it",
                        fmt::format("{} for a token after {} (bf16 {}), bound by {}{}", format_seconds(cache->read_s),
                                    context.model.sequence, format_seconds(cache->bf16_read_s), cache->binding,
                                    cache->decode_ops > 0 ? fmt::format(", {:.4g} slots to decode", cache->decode_ops)
                                                          : ", codes multiplied as they are"));
  }
  const cost::Communication& c = result.communication;
  if (c.devices > 1) {
    fields.emplace_back("stalls", fmt::format("interconnect {}, network {}", format_percent(c.interconnect_stall),
                                              format_percent(c.network_stall)));
    fields.emplace_back("transfers",
                        fmt::format("links busy {}, network {}; {} of it hidden", format_seconds(c.interconnect_s),
                                    format_seconds(c.network_s), format_seconds(c.hidden_s)));
  }
  if (c.coding_s > 0) fields.emplace_back("coding of gradients", format_seconds(c.coding_s));
  if (context.options.parallel.replica() > 1)
    fields.emplace_back("a replica",
                        fmt::format("{} x {}: bubble {}, tensor groups {}, between stages {}",
                                    context.options.parallel.tensor, context.options.parallel.pipeline,
                                    format_seconds(c.bubble_s), format_seconds(c.tensor_s), format_seconds(c.stage_s)));
  if (c.t2_s > c.tm_s)
    fields.emplace_back("stalls of inputs", fmt::format("preparation {}, fetch {}", format_percent(c.preparation_stall),
                                                        format_percent(c.fetch_stall)));
}

void print_summary(const std::string& recipe, const CostResult& result, const cost::CostDoubts& doubts,
                   const Context& context) {
  const double tokens = static_cast<double>(context.model.tokens_per_step) * result.communication.replicas;
  const cost::CostRange& step = doubts.step;
  std::string limits;
  for (const auto& [what, share] : result.limits)
    if (share >= 0.0005) add_word(limits, fmt::format("{} {:.1f} %", what, share * 100));
  SummaryFields fields = {
      {"recipe", recipe},
      {"model", with_doc(context.model.name, context.model.doc)},
      {"hardware",
       with_doc(fmt::format("{} x {}", context.options.devices, context.hardware.name), context.hardware.doc)},
      {"step", fmt::format("{} for {:.6g} tokens, {} tokens/s [{} .. {}]", format_seconds(result.step_time_s), tokens,
                           format_number(result.tokens_per_second), format_seconds(result.step_time_s * step.low),
                           format_seconds(result.step_time_s * step.high))},
      {"overhead", fmt::format("{} [{}] over the ideal step of {}", format_percent(result.overhead),
                               percent_range(doubts.overhead), format_seconds(result.ideal_s))},
      {"quantisation overhead",
       fmt::format("{} over the same step with free quantisation", format_percent(result.quantisation_overhead))},
      {"time", fmt::format("{:.3f} x bf16's step, {:.3f} x mxfp8's, without communication", 1 / result.speedup_bf16,
                           1 / result.speedup_fp8)},
      {"bit operations", fmt::format("{:.3f} x fp8 (forward {:.3f}, backward {:.3f})", result.bops.training,
                                     result.bops.forward, result.bops.backward)},
      {"multiply-adds", precision_text(result) + (result.decoded.empty() ? "" : ", by codes *")},
      {"energy", or_unknown(result.energy_j, " J a step, modelled", "board_w")},
      {"price", or_unknown(result.price, " USD a step", "price_per_hour") +
                    (result.price ? fmt::format(" [{} .. {}]", format_number(*result.price * step.low),
                                                format_number(*result.price * step.high))
                                  : "")},
      {"points", result.points ? format_number(*result.points) : "none"},
      {"memory",
       fmt::format("{}{}", format_bytes(result.memory.total()),
                   result.memory.fits ? "" : ", MORE than the accelerator has: " + way_to_fit({recipe}, context))},
      {"step waits for", limits}};
  if (!result.decoded.empty())
    fields.emplace_back("* not native", decoded_words(context.hardware.name, joined(result.decoded, "; ")));
  if (const CostResult other = context.with_what_if(recipe); other.decoded != result.decoded)
    fields.emplace_back("what if", fmt::format("{} [undocumented; --what-if] where the chip multiplies its codes",
                                               format_seconds(other.step_time_s)));
  if (const auto names = cost::estimated_fields(context.hardware); !names.empty())
    fields.emplace_back("estimates", fmt::format("{} of {}", joined(names), context.hardware.name));
  if (!result.dense.empty())
    fields.emplace_back("priced dense",
                        fmt::format("{} has no sparse rate for {}", context.hardware.name, joined(result.dense, "; ")));
  add_cache_and_transfers(fields, result, context);
  print_fields(fields);
}

void print_groups(const CostResult& result) {
  Table table{{"part", ">time", ">share", "bound by"}, {}};
  for (const std::string& group : cost::cost_groups()) {
    const double seconds = cost::group_seconds(result, group);
    if (seconds == 0) continue;
    std::string bindings;
    for (const cost::Term& term : result.terms)
      if (term.group == group && bindings.find(term.binding) == std::string::npos) add_word(bindings, term.binding);
    table.rows.push_back({group, format_seconds(seconds), format_percent(seconds / result.compute_s), bindings});
  }
  fmt::print("\n");
  print_table(table);
}

// The same recipe under the four ways of organising its quantisers.
void print_views(const std::string& recipe, Context context, ordered_json* json) {
  Table table{{"view", ">step", ">overhead", ">of it quantisation"}, {}};
  for (const bool fused : {false, true})
    for (const bool one_pass : {true, false}) {
      context.options.fused = fused;
      context.options.one_pass = one_pass;
      const CostResult result = context.evaluate(recipe);
      const std::string name = fmt::format("{}, {}", fused ? "fused into the producer" : "own kernels",
                                           one_pass ? "one pass for both copies" : "one pass a copy");
      table.rows.push_back({name, format_seconds(result.step_time_s), format_percent(result.overhead),
                            format_percent(result.quantisation_overhead)});
      if (json != nullptr)
        json->push_back(FP4_NAMED(fused, one_pass, result.step_time_s, result.overhead, result.quantisation_overhead));
    }
  if (json != nullptr) return;
  fmt::print("\n");
  print_table(table);
}

void run_cost(const CostArguments& arguments, const std::string& recipe) {
  const Context context(arguments);
  const CostResult result = context.evaluate(recipe);
  const cost::CostDoubts doubts = context.doubts({recipe}).front();
  if (arguments.json) {
    ordered_json json = cost_json(recipe, result, true);
    add_doubts(json, result, doubts);
    json["arguments"] = arguments.describe();
    json["estimated"] = cost::estimated_fields(context.hardware);
    json["view_table"] = ordered_json::array();
    print_views(recipe, context, &json["view_table"]);
    return print_json(json);
  }
  print_summary(recipe, result, doubts, context);
  print_groups(result);
  print_other(result, context.hardware);
  print_views(recipe, context, nullptr);
}

void run_compare(const CostArguments& arguments, const std::vector<std::string>& recipes) {
  const Context context(arguments);
  std::vector<std::pair<std::string, CostResult>> rows;
  for (const std::string& recipe : recipes) rows.emplace_back(recipe, context.evaluate(recipe));
  const std::vector<cost::CostDoubts> doubts = context.doubts(recipes);
  if (arguments.json) {
    ordered_json json = {{"arguments", arguments.describe()}, {"rows", ordered_json::array()}};
    for (size_t i = 0; i < rows.size(); ++i) {
      json["rows"].push_back(cost_json(rows[i].first, rows[i].second, false));
      add_doubts(json["rows"].back(), rows[i].second, doubts[i]);
      json["rows"].back()["against_quickest"] = {doubts[i].against.low, doubts[i].against.high};
    }
    return print_json(json);
  }
  const int replica = context.options.parallel.replica();
  print_sentence("{} on {} x {}: time of a step of {:.6g} tokens on each {}", context.model.name,
                 context.options.devices, context.hardware.name, static_cast<double>(context.model.tokens_per_step),
                 replica == 1 ? "accelerator" : fmt::format("replica of {} accelerators", replica));
  fmt::print("\n");
  fmt::print("{}\n", cost_bars(rows, terminal_width(), stdout_has_styles()));
  Table table{{"recipe", ">step", ">overhead", ">95 %", ">x quickest", ">x bf16", ">energy J", ">memory"}, {}};
  for (size_t i = 0; i < rows.size(); ++i) {
    const auto& [recipe, result] = rows[i];
    const cost::CostRange& against = doubts[i].against;
    table.rows.push_back({marked(recipe, result), format_seconds(result.step_time_s), format_percent(result.overhead),
                          percent_range(doubts[i].overhead),
                          doubts[i].quickest    ? "quickest"
                          : against.low <= 1.01 ? alike
                                                : fmt::format("{:.2f}..{:.2f}", against.low, against.high),
                          fmt::format("{:.3f}", 1 / result.speedup_bf16),
                          result.energy_j ? format_number(*result.energy_j) : "",
                          format_bytes(result.memory.total()) + (result.memory.fits ? "" : " !")});
  }
  print_table(table);
  const std::string decoded = decoded_note(rows, context.hardware.name);
  if (!decoded.empty()) print_wrapped(decoded);
  if (std::any_of(rows.begin(), rows.end(), [](const auto& row) { return !row.second.memory.fits; }))
    print_sentence("!: more than the {} of {}; {}", format_bytes(context.hardware.memory_bytes.value),
                   context.hardware.name, way_to_fit(recipes, context));
  print_wrapped(
      "x quickest, x bf16: times of a step as multiples, without communication; below 1 is quicker. overhead: time "
      "over an ideal step, products at the chip's fastest rate and free quantisation");
  const auto is_alike = [](const auto& row) { return std::find(row.begin(), row.end(), alike) != row.end(); };
  const bool any_alike = std::any_of(table.rows.begin(), table.rows.end(), is_alike);
  print_wrapped(doubts_note + std::string(any_alike ? ". alike: within 1 % of the quickest in some of them" : ""));
}

void run_explain(const CostArguments& arguments, const std::string& recipe) {
  const Context context(arguments);
  const CostResult result = context.evaluate(recipe);
  if (arguments.json) {
    ordered_json json = cost_json(recipe, result, true);
    json["arguments"] = arguments.describe();
    json["hardware"] = ordered_json(cost::to_json(context.hardware));
    return print_json(json);
  }
  Table table{{"term", ">time", ">share", "bound by", "formula"}, {}};
  for (const cost::Term& term : result.terms)
    table.rows.push_back({term.name, format_seconds(term.seconds), format_percent(term.seconds / result.compute_s),
                          term.binding, term.formula});
  print_table(table);
  fmt::print("\n");
  print_fields({{"total", format_seconds(result.compute_s)},
                {"ideal", format_seconds(result.ideal_s) +
                              "  (every quantisable GEMM at the fastest low-precision rate, free quantisation)"},
                {"overhead", format_percent(result.overhead)}});
  fmt::print("\nNumbers of {}\n", context.hardware.name);
  Table numbers{{"figure", ">value", "kind", "source"}, {}};
  const cost::Json hardware = cost::to_json(context.hardware);
  const auto add = [&](const std::string& name, const cost::Json& quantity) {
    if (!quantity.is_object() || !quantity.contains("value")) return;
    const cost::Json& value = quantity["value"];
    numbers.rows.push_back({name, value.is_number() ? format_number(value.get<double>()) : value.get<std::string>(),
                            quantity["kind"], quantity["source"]});
  };
  for (const auto& [key, quantity] : hardware.at("rates").items()) add("rates." + key, quantity);
  if (const auto masks = hardware.find("sparse_rates"); masks != hardware.end())
    for (const auto& [mask, rates] : masks->items())
      for (const auto& [key, quantity] : rates.items()) add("sparse_rates." + mask + "." + key, quantity);
  for (const auto& [key, quantity] : hardware.items()) add(key, quantity);
  print_table(numbers);
}

void run_weights(bool json) {
  const cost::CostWeights defaults;
  if (json) {
    ordered_json rows = ordered_json::array();
    for (const cost::WeightRow& row : cost::weight_table())
      rows.push_back({{"name", row.name}, {"default", defaults.*row.field}, {"doc", row.doc}});
    return print_json({{"rows", rows}});
  }
  Table table{{"weight", ">default", "meaning"}, {}};
  for (const cost::WeightRow& row : cost::weight_table())
    table.rows.push_back({row.name, format_number(defaults.*row.field), row.doc});
  print_table(table);
}

}  // namespace

void command_cost(CLI::App& app, Invocation& invocation) {
  static CostArguments own, comparing, explaining;
  static std::string recipe, explained;
  static std::vector<std::string> compared;
  static bool weights_json = false;
  app.require_subcommand(0, 1);
  option(app, "-r,--recipe RECIPE", recipe, "Recipe: a name, NAME@GEMM, NAME@weights or a file ending in .json");
  own.add_to(app);
  app.callback([&app] {
    if (!app.get_subcommands().empty()) return;
    if (recipe.empty()) throw Error("cost: --recipe is missing; `fp4sim list recipes` shows the names");
    run_cost(own, recipe);
  });
  set_example(app, "fp4sim cost --recipe nvfp4_te --hardware gb200");

  CLI::App* compare = app.add_subcommand("compare", "Recipes side by side, as stacked bars and a table");
  keep_older_names(option(*compare, "recipes,--recipes,--recipe RECIPE", compared, "Recipes")->required());
  comparing.add_to(*compare);
  compare->callback([] { run_compare(comparing, compared); });
  set_example(*compare, "fp4sim cost compare bf16 mxfp8 nvfp4_te mxfp4_all_h16 --hardware mi355x");

  CLI::App* explain = app.add_subcommand("explain", "Every term with its formula, its numbers and their sources");
  option(*explain, "-r,--recipe RECIPE", explained, "Recipe")->required();
  explaining.add_to(*explain);
  explain->callback([] { run_explain(explaining, explained); });
  set_example(*explain, "fp4sim cost explain --recipe mxfp4_sr_rht --hardware b200");

  CLI::App* weights = app.add_subcommand("weights", "The weights that --weight and grids may override");
  weights->add_flag("--json", weights_json, "Print JSON");
  weights->callback([] { run_weights(weights_json); });
  set_example(*weights, "fp4sim cost weights");

  add_cost_studies(app, invocation);
  add_cost_measurements(app, invocation);
  add_cost_stalls(app, invocation);
  add_cost_embedding(app, invocation);
  add_cost_new_chip(app, invocation);
}

}  // namespace fp4::tools
