// `fp4sim law`: a scaling law of the runs of a ladder, what each recipe's weights and tokens count in it, and how well
// it says the loss of sizes that were kept out of the fit.
#include <fmt/core.h>

#include <cmath>

#include "src/error.h"
#include "sweeps/judge/law.h"
#include "tools/cli/law_input.h"
#include "tools/cli/options.h"
#include "tools/cli/provenance.h"
#include "tools/cli/sweep_view.h"
#include "tools/cli/table_print.h"

namespace fp4::tools {
namespace {

using nlohmann::ordered_json;
using sweeps::Interval;
using sweeps::LawPoint;

struct LawOptions {
  std::string ladder, baseline = "bf16", form = "quartet";
  std::vector<double> at;
  double held_out = 0;
  size_t samples = 200;
  bool json = false;
};

// A recipe at an (N, D) that was kept out: the mean of its runs and what the law says.
struct HeldOut {
  std::string recipe;
  double n = 0, d = 0, measured = 0;
  size_t runs = 0;
  std::optional<sweeps::Predicted> predicted;
  std::string reason;  // why nothing is predicted
  bool inside() const { return measured >= predicted->interval.low && measured <= predicted->interval.high; }
};

struct LawOutcome {
  sweeps::LawStudy study;
  std::vector<HeldOut> held_out;
  double n = 0, d = 0;  // where extra tokens are asked for
};

LawOutcome study(const LawOptions& o, const LadderRuns& ladder) {
  std::map<std::string, std::vector<LawPoint>> fitted;
  std::map<std::tuple<std::string, double, double>, std::vector<double>> kept_out;
  for (const auto& [recipe, points] : ladder.points)
    for (const LawPoint& p : points) {
      if (o.held_out > 0 && p.n >= o.held_out)
        kept_out[{recipe, p.n, p.d}].push_back(p.loss);
      else
        fitted[recipe].push_back(p);
    }
  LawOutcome outcome;
  outcome.study = sweeps::study_law(
      fitted, o.baseline, o.form == "quartet" ? sweeps::LawForm::quartet : sweeps::LawForm::chinchilla, o.samples);
  for (const auto& [key, losses] : kept_out) {
    HeldOut h{.recipe = std::get<0>(key), .n = std::get<1>(key), .d = std::get<2>(key)};
    for (const double loss : losses) h.measured += loss / static_cast<double>(losses.size());
    h.runs = losses.size();
    const auto recipe = outcome.study.recipes.find(h.recipe);
    if (h.recipe != o.baseline && (recipe == outcome.study.recipes.end() || !recipe->second.missing.empty()))
      h.reason = "no fit below this size";
    else
      try {
        h.predicted = predict(outcome.study, h.recipe, h.n, h.d);
      } catch (const Error& error) {
        h.reason = error.what();
      }
    outcome.held_out.push_back(std::move(h));
  }
  outcome.n = o.at.empty() ? outcome.study.n.high : o.at[0];
  outcome.d = o.at.empty() ? outcome.study.d.high : o.at[1];
  if (!o.at.empty()) predict(outcome.study, "", outcome.n, outcome.d);  // refuses what lies too far away
  return outcome;
}

template <class Quantity>
std::optional<Interval> spread(const sweeps::LawStudy& study, const std::string& recipe, const Quantity& quantity) {
  std::vector<double> values;
  for (const sweeps::LawSample& s : study.samples)
    if (const std::optional<double> v = quantity(s.law, s.efficiency.at(recipe))) values.push_back(*v);
  return sweeps::sample_interval(std::move(values), study.samples.size());
}

std::string interval_text(const std::optional<Interval>& interval, double scale = 1) {
  return interval ? fmt::format("{:.3g} .. {:.3g}", scale * interval->low, scale * interval->high) : "";
}

ordered_json interval_json(const std::optional<Interval>& interval) {
  return interval && std::isfinite(interval->low) ? ordered_json{interval->low, interval->high} : ordered_json();
}

// The three numbers of a recipe, with intervals.
struct RecipeLine {
  std::optional<double> extra;
  std::optional<Interval> n, d, extra_interval;
};
RecipeLine line_of(const LawOutcome& o, const std::string& name) {
  using sweeps::Efficiency, sweeps::Law;
  const sweeps::LawRecipe& recipe = o.study.recipes.at(name);
  const auto some = [](double x) { return std::optional<double>(x); };
  const auto tokens = [&](const Law& law, const Efficiency& e) { return extra_tokens(law, e, o.n, o.d); };
  return {tokens(o.study.fit.law, recipe.efficiency),
          spread(o.study, name, [&](const Law&, const Efficiency& e) { return some(e.n); }),
          spread(o.study, name, [&](const Law&, const Efficiency& e) { return some(e.d); }),
          spread(o.study, name, tokens)};
}

void print(const LawOptions& o, const LadderRuns& ladder, const LawOutcome& outcome) {
  const sweeps::LawStudy& s = outcome.study;
  const sweeps::Law& law = s.fit.law;
  print_wrapped(fmt::format("{}: L = (A/(N effN)^alpha + B/(D effD)^beta)^gamma + E, {} runs at {} (N, D)", o.baseline,
                            s.fit.runs, s.fit.cells));
  print_fields({{"A, alpha", fmt::format("{:.4g}, {:.4g}", law.A, law.alpha)},
                {"B, beta", fmt::format("{:.4g}, {:.4g}", law.B, law.beta)},
                {"gamma, E", fmt::format("{:.4g}, {:.4g}", law.gamma, law.E)},
                {"fit error", fmt::format("{:.2g} % of the loss (root mean square)", 100 * s.fit.error)},
                {"N, D", fmt::format("{:.3g} .. {:.3g}, {:.3g} .. {:.3g}", s.n.low, s.n.high, s.d.low, s.d.high)}});
  if (s.fit.single > 0)
    print_wrapped(
        fmt::format("{} of {} (N, D) have one seed: their scatter is in no interval", s.fit.single, s.fit.cells));
  fmt::print("\nextra tokens to reach {}'s loss at N {:.3g}, D {:.3g}; 95 % of {} bootstrap samples\n", o.baseline,
             outcome.n, outcome.d, o.samples);
  Table table{{{"recipe"},
               {"effN", Align::right},
               {"interval", Align::right},
               {"effD", Align::right},
               {"interval", Align::right},
               {"extra %", Align::right},
               {"interval", Align::right}},
              {}};
  for (const auto& [name, recipe] : s.recipes) {
    if (!recipe.missing.empty()) continue;
    const RecipeLine line = line_of(outcome, name);
    table.rows.push_back({name, fmt::format("{:.3g}", recipe.efficiency.n), interval_text(line.n),
                          fmt::format("{:.3g}", recipe.efficiency.d), interval_text(line.d),
                          line.extra ? fmt::format("{:.3g}", 100 * *line.extra) : "never",
                          interval_text(line.extra_interval, 100)});
  }
  print_table(table);
  for (const auto& [name, recipe] : s.recipes)
    if (!recipe.missing.empty()) print_wrapped(fmt::format("{}: no fit: {}", name, recipe.missing));
  for (const std::string& name : ladder.left_out) fmt::print("{}: every run diverged\n", name);
  if (outcome.held_out.empty()) return;
  fmt::print("\nkept out of the fit: N >= {:.4g}\n", o.held_out);
  Table kept{{{"recipe"},
              {"N", Align::right},
              {"D", Align::right},
              {"runs", Align::right},
              {"measured", Align::right},
              {"predicted", Align::right},
              {"interval", Align::right},
              {"inside"}},
             {}};
  for (const HeldOut& h : outcome.held_out)
    kept.rows.push_back(
        {h.recipe, fmt::format("{:.3g}", h.n), fmt::format("{:.3g}", h.d), std::to_string(h.runs),
         fmt::format("{:.4f}", h.measured), h.predicted ? fmt::format("{:.4f}", h.predicted->loss) : "",
         h.predicted ? fmt::format("{:.4f} .. {:.4f}", h.predicted->interval.low, h.predicted->interval.high) : "",
         h.predicted ? h.inside() ? "yes" : "no" : h.reason});
  print_table(kept);
}

ordered_json json_of(const LawOptions& o, const LadderRuns& ladder, const LawOutcome& outcome,
                     const Invocation& invocation) {
  const sweeps::LawStudy& s = outcome.study;
  const sweeps::Law& law = s.fit.law;
  ordered_json json = {{"schema", 1},
                       {"baseline", o.baseline},
                       {"form", o.form},
                       {"law",
                        {{"A", law.A},
                         {"B", law.B},
                         {"alpha", law.alpha},
                         {"beta", law.beta},
                         {"gamma", law.gamma},
                         {"E", law.E},
                         {"error", s.fit.error},
                         {"runs", s.fit.runs},
                         {"cells", s.fit.cells}}},
                       {"n", {s.n.low, s.n.high}},
                       {"d", {s.d.low, s.d.high}},
                       {"at", {outcome.n, outcome.d}},
                       {"samples", o.samples},
                       {"diverged", ladder.diverged}};
  json["recipes"] = ordered_json::array();
  for (const auto& [name, recipe] : s.recipes) {
    ordered_json one = {{"recipe", name}, {"runs", recipe.runs}, {"cells", recipe.cells}, {"missing", recipe.missing}};
    if (recipe.missing.empty()) {
      const RecipeLine line = line_of(outcome, name);
      one["eff_n"] = recipe.efficiency.n;
      one["eff_n_interval"] = interval_json(line.n);
      one["eff_d"] = recipe.efficiency.d;
      one["eff_d_interval"] = interval_json(line.d);
      one["extra_tokens"] = line.extra ? ordered_json(*line.extra) : ordered_json();
      one["extra_tokens_interval"] = interval_json(line.extra_interval);
      one["error"] = recipe.error;
    }
    json["recipes"].push_back(std::move(one));
  }
  json["held_out"] = ordered_json::array();
  for (const HeldOut& h : outcome.held_out) {
    ordered_json one = {{"recipe", h.recipe}, {"n", h.n}, {"d", h.d}, {"runs", h.runs}, {"measured", h.measured}};
    one["predicted"] = h.predicted ? ordered_json(h.predicted->loss) : ordered_json();
    one["interval"] = h.predicted ? interval_json(h.predicted->interval) : ordered_json();
    one["reason"] = h.reason;
    json["held_out"].push_back(std::move(one));
  }
  json["provenance"] = provenance(invocation);
  return json;
}

void run_law(const LawOptions& o, Invocation& invocation) {
  const LadderRuns ladder = read_ladder(o.ladder);
  const LawOutcome outcome = study(o, ladder);
  if (o.json) return print_json(json_of(o, ladder, outcome, invocation));
  print(o, ladder, outcome);
}

void add_law(CLI::App& app, Invocation& invocation) {
  auto o = std::make_shared<LawOptions>();
  app.add_option("LADDER", o->ladder, "Folder of a sweep of the task lm over sizes and budgets, or its `sweep export`")
      ->required()
      ->type_name("DIR|CSV");
  app.add_option("--baseline", o->baseline, "The recipe whose runs give the law")->capture_default_str();
  app.add_option("--form", o->form, "quartet: six parameters; chinchilla: gamma = 1")
      ->check(CLI::IsMember({"quartet", "chinchilla"}))
      ->capture_default_str();
  app.add_option("--at", o->at, "N,D: where extra tokens are asked for (default: the largest of both)")
      ->type_name("N,D")
      ->delimiter(',')
      ->expected(2);
  app.add_option("--held-out", o->held_out,
                 "Keep runs with this many weights and more out of the fit, and predict them")
      ->type_name("N")
      ->check(CLI::PositiveNumber);
  app.add_option("--samples", o->samples, "Bootstrap samples")->check(CLI::Range(40, 100000))->capture_default_str();
  add_json_option(app, o->json);
  app.callback([o, &invocation] { run_law(*o, invocation); });
  set_example(app, "fp4sim law ladder.csv --held-out 8e5");
}

}  // namespace

Command command_law() { return {"law", "Scaling law of a ladder of sizes: what a recipe costs in tokens", add_law}; }

}  // namespace fp4::tools
