// `fp4sim law`: a scaling law of the runs of a ladder, what each recipe's weights and tokens count in it, and how well
// it says the loss of sizes that were kept out of the fit.
#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "tools/cli/options.h"
#include "tools/cli/provenance.h"
#include "tools/cli/sweep/law_result.h"
#include "tools/cli/sweep/sweep_view.h"
#include "tools/cli/table_print.h"

namespace fp4::tools {
namespace {

using sweeps::Interval;

struct LawOptions : LawJob {
  bool json = false;
};

std::string gap_percent(double gap) { return fmt::format("{:.2f}", 100 * std::expm1(gap)); }

std::string slope_text(double value, const Interval& interval) {
  return fmt::format("{:+.2f} +- {:.2f}", 100 * value, 100 * (interval.high - value));
}

std::string law_loss_text(double logarithm) { return fmt::format("{:.4f}", std::exp(logarithm)); }

// How a plane's value is printed: a gap in %, a loss in nats.
struct PlaneWords {
  const char* value;
  const char* d;
  std::string (*text)(double);
};

std::string interval_words(const PlaneWords& words, const Interval& interval) {
  return words.text(interval.low) + ".." + words.text(interval.high);
}

void print_planes(const std::map<std::string, sweeps::PlaneFit>& fits, double n, double d, const PlaneWords& words,
                  const sweeps::GapRule* gaps = nullptr) {
  Table table{{"recipe", std::string(">") + words.value, ">95 %", ">x", ">y", ">left out"}, {}};
  for (const auto& [name, fit] : fits) {
    if (!fit.missing.empty()) continue;
    const sweeps::PlaneAt there = gaps != nullptr ? gaps->at(name, n, d) : plane_at(fit, n, d);
    table.rows.push_back({name, words.text(there.value), interval_words(words, there.interval()),
                          slope_text(fit.by_n, fit.by_n_interval), slope_text(fit.by_d, fit.by_d_interval),
                          fmt::format("{:.2f}", 100 * fit.left_out)});
  }
  if (!table.rows.empty()) print_table(table);
  for (const auto& [name, fit] : fits)
    if (!fit.missing.empty()) print_sentence("{}: no fit: {}", name, fit.missing);
}

void print_kept_out(const std::vector<HeldOutCell>& cells, const PlaneWords& words) {
  Table kept{{"recipe", ">N", std::string(">") + words.d, ">seeds", ">measured", ">predicted", ">95 %",
              cells.front().unchanged ? ">no change" : ">"},
             {}};
  for (const HeldOutCell& h : cells)
    kept.rows.push_back({h.recipe, fmt::format("{:.3g}", h.measured.n), fmt::format("{:.3g}", h.measured.d),
                         std::to_string(h.measured.seeds), words.text(h.measured.value), words.text(h.predicted.value),
                         interval_words(words, h.predicted.interval()),
                         h.unchanged ? words.text(h.unchanged->value) : ""});
  print_table(kept);
}

// Whether the plane foretells more than that nothing changes.
std::string skill_line(const sweeps::GapSkill& skill, const char* which) {
  const std::string rule = skill.plane_has_skill()
                               ? "the gaps below are the plane's"
                               : "the gaps below are those of the nearest size trained, with their spread";
  if (skill.gaps == 0) return "skill: no size was foretold; " + rule;
  return fmt::format(
      "skill: {} gaps {} are missed by {:.2f} points by the plane (root mean square) and by {:.2f} by no change from "
      "the nearest size: {}; {}",
      skill.gaps, which, 100 * skill.plane, 100 * skill.nearest,
      skill.plane_has_skill() ? "the plane has skill" : "the plane has no skill", rule);
}

// Gaps on the same seed, which a small ladder knows far better than losses.
void print_gaps(const LawOptions& o, const LawOutcome& outcome) {
  const PlaneWords words = {"gap %", "D", gap_percent};
  print_sentence(
      "gap to {} on the same seed, % of its loss: ln(L / L_{}) = a + x ln N + y ln D, at N {:.3g}, D {:.3g}; x and y: "
      "% for e times the weights, the tokens; left out: root mean square error for an (N, D) that the fit has not seen",
      o.baseline, o.baseline, outcome.n, outcome.d);
  print_wrapped(
      skill_line(outcome.gaps.skill, o.held_out > 0 ? "kept out" : "of the largest size, foretold from smaller ones,"));
  print_planes(outcome.gaps.planes, outcome.n, outcome.d, words, &outcome.gaps);
  if (!outcome.held_out_gaps.empty()) {
    fmt::print("\ngaps kept out of the fit, %: N >= {:.4g}\n", o.held_out);
    print_kept_out(outcome.held_out_gaps, words);
  }
  fmt::print("\n");
}

// The loss over steps: a batch that grows with N does not pass for tokens there.
void print_losses(const LawOptions& o, const LawOutcome& outcome) {
  if (outcome.losses.empty()) return;
  const PlaneWords words = {"loss", "steps", law_loss_text};
  print_sentence(
      "loss by weights and steps: ln L = a + x ln N + y ln S, S optimizer steps, at N {:.3g}, S {:.3g}; x and y: % for "
      "e times the weights, the steps; left out: root mean square error in % for an (N, S) that the fit has not seen",
      outcome.n, outcome.steps);
  print_planes(outcome.losses, outcome.n, outcome.steps, words);
  if (!outcome.held_out_losses.empty()) {
    fmt::print("\nlosses kept out of the fit: N >= {:.4g}\n", o.held_out);
    print_kept_out(outcome.held_out_losses, words);
  }
  fmt::print("\n");
}

void print_orders(const LawOutcome& outcome) {
  if (outcome.orders.empty()) return;
  print_wrapped(
      "published orders: Kendall's tau-b with the mean gaps on the runs that all have; median and 95 % of 1000 "
      "bootstrap samples of the runs; p: share of all orders that agree as well; fp4: without fp8");
  Table orders{{"source", ">recipes"}, {}};
  for (const char* which : {"tau-b", "fp4"})
    orders.columns.insert(orders.columns.end(), {std::string(">") + which, ">median", ">95 %", ">p"});
  for (const auto& [order, found] : outcome.orders) {
    std::vector<std::string>& row = orders.rows.emplace_back();
    row = {order->source, std::to_string(found.recipes.size())};
    for (const sweeps::Tau& tau : {found.all, found.fp4})
      row.insert(row.end(), {fmt::format("{:.2f}", tau.value), fmt::format("{:.2f}", tau.median),
                             fmt::format("{:.2f}..{:.2f}", tau.interval.low, tau.interval.high),
                             fmt::format("{:.2f}", tau.chance)});
  }
  print_table(orders);
  fmt::print("\n");
}

void print(const LawOptions& o, const LadderRuns& ladder, const LawOutcome& outcome) {
  const sweeps::LawStudy& s = outcome.study;
  print_gaps(o, outcome);
  print_losses(o, outcome);
  print_orders(outcome);
  const sweeps::Law& law = s.fit.law;
  print_sentence("{}: L = (A/(N effN)^alpha + B/(D effD)^beta)^gamma + E, {} runs at {} (N, D)", o.baseline, s.fit.runs,
                 s.fit.cells);
  print_fields({{"A, alpha", fmt::format("{:.4g}, {:.4g}", law.A, law.alpha)},
                {"B, beta", fmt::format("{:.4g}, {:.4g}", law.B, law.beta)},
                {"gamma, E", fmt::format("{:.4g}, {:.4g}", law.gamma, law.E)},
                {"fit error", fmt::format("{:.2g} % of the loss (root mean square)", 100 * s.fit.error)},
                {"N, D", fmt::format("{:.3g} .. {:.3g}, {:.3g} .. {:.3g}", s.n.low, s.n.high, s.d.low, s.d.high)}});
  if (s.fit.single > 0)
    print_sentence("{} of {} (N, D) have one seed: their scatter is in no interval", s.fit.single, s.fit.cells);
  fmt::print("\n");
  print_sentence("extra tokens to reach {}'s loss at N {:.3g}, D {:.3g}; 95 % of {} bootstrap samples", o.baseline,
                 outcome.n, outcome.d, o.samples);
  Table table{{"recipe", ">effN", ">interval", ">effD", ">interval", ">extra %", ">interval"}, {}};
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
    if (!recipe.missing.empty()) print_sentence("{}: no fit: {}", name, recipe.missing);
  for (const std::string& name : ladder.left_out) fmt::print("{}: every run diverged\n", name);
  if (outcome.held_out.empty()) return;
  fmt::print("\nkept out of the fit: N >= {:.4g}\n", o.held_out);
  Table kept{{"recipe", ">N", ">D", ">runs", ">measured", ">predicted", ">interval", "inside"}, {}};
  for (const HeldOut& h : outcome.held_out)
    kept.rows.push_back(
        {h.recipe, fmt::format("{:.3g}", h.n), fmt::format("{:.3g}", h.d), std::to_string(h.runs),
         fmt::format("{:.4f}", h.measured), h.predicted ? fmt::format("{:.4f}", h.predicted->loss) : "",
         h.predicted ? fmt::format("{:.4f} .. {:.4f}", h.predicted->interval.low, h.predicted->interval.high) : "",
         h.predicted ? h.inside() ? "yes" : "no" : "none"});
  print_table(kept);
  const auto far = std::find_if(outcome.held_out.begin(), outcome.held_out.end(),
                                [](const HeldOut& h) { return !h.predicted.has_value(); });
  if (far != outcome.held_out.end()) print_sentence("none, for {} as an example: {}", far->recipe, far->reason);
}

void run_law(const LawOptions& o, Invocation& invocation) {
  const LadderRuns ladder = read_ladder(o.ladder);
  const LawOutcome outcome = study_ladder(o, ladder);
  if (o.json) {
    nlohmann::ordered_json json = law_json(o, ladder, outcome);
    json["provenance"] = provenance(invocation);
    return print_json(json);
  }
  print(o, ladder, outcome);
}

}  // namespace

void command_law(CLI::App& app, Invocation& invocation) {
  auto o = std::make_shared<LawOptions>();
  option(app, "LADDER DIR|CSV", o->ladder,
         "Folder of a sweep of the task lm over sizes and budgets, or its `sweep export`")
      ->required();
  defaulted(app, "--baseline", o->baseline, "The recipe whose runs give the law");
  defaulted(app, "--form", o->form, "quartet: six parameters; chinchilla: gamma = 1")
      ->check(CLI::IsMember({"quartet", "chinchilla"}));
  option(app, "--at N,D", o->at, "N,D: where extra tokens are asked for (default: the largest of both)")
      ->delimiter(',')
      ->expected(2);
  option(app, "--held-out N", o->held_out, "Keep runs with this many weights and more out of the fit, and predict them")
      ->check(above_zero());
  defaulted(app, "--samples", o->samples, "Bootstrap samples")->check(CLI::Range(40, 100000));
  add_json_option(app, o->json);
  app.callback([o, &invocation] { run_law(*o, invocation); });
  set_example(app, "fp4sim law ladder.csv --held-out 8e5");
}

}  // namespace fp4::tools
