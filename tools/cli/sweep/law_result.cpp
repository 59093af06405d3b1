#include "tools/cli/sweep/law_result.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <span>
#include <tuple>

#include "src/text/byte_source.h"
#include "src/text/embedded.h"
#include "src/text/error.h"
#include "src/text/member_json.h"
#include "sweeps/engine/runs_csv.h"
#include "sweeps/judge/results.h"

namespace fp4 {
std::span<const EmbeddedFile> ladder_data();  // made by fp4_embed
}

namespace fp4::tools {

using nlohmann::ordered_json;
using sweeps::Interval;
using sweeps::LawPoint;

static std::vector<sweeps::RunRow> rows_of(const std::string& path, LadderRuns& ladder) {
  if (path == built_in_ladder) {
    std::vector<sweeps::RunRow> rows;
    for (const EmbeddedFile& file : ladder_data())
      for (sweeps::RunRow& row : sweeps::parse_runs_csv(std::string(file.content), path))
        rows.push_back(std::move(row));
    return rows;
  }
  if (!std::filesystem::is_directory(path)) return sweeps::parse_runs_csv(read_file(path), path);
  const sweeps::Store store = sweeps::Store::read(path);
  if (!store.meta("recipes").empty()) ladder.recipes = sweeps::stored_grid(store).recipes;
  return sweeps::parse_runs_csv(sweeps::runs_csv(store), path);
}

LadderRuns read_ladder(const std::string& path) {
  LadderRuns ladder;
  std::map<std::string, size_t> diverged;
  std::map<std::tuple<std::string, double, double>, std::string> hashes;
  for (const sweeps::RunRow& row : rows_of(path, ladder)) {
    if (row.recipe.empty() || row.run.role == sweeps::Role::tune) continue;
    if (!row.run.loss) {
      ++ladder.diverged, ++diverged[row.recipe];
      continue;
    }
    const double n = measured(row.run, "weights").value_or(0), d = measured(row.run, "tokens").value_or(0);
    if (!(n > 0) || !(d > 0)) continue;
    const auto [entry, is_new] = hashes.try_emplace({row.recipe, n, d}, row.run.hash);
    if (!is_new && entry->second != row.run.hash)
      throw Error(
          fmt::format("{}: recipe '{}' has two configurations at N {:.4g}, D {:.4g} ({} and {}); a law needs one",
                      row.place, row.recipe, n, d, entry->second, row.run.hash));
    const int steps = static_cast<int>(row.run.curve.step.empty() ? 0 : row.run.curve.step.back());
    ladder.points[row.recipe].push_back({n, d, row.run.seed, *row.run.loss, steps});
  }
  if (ladder.points.empty())
    throw Error(path + ": no finished run has the metrics `weights` and `tokens`; a law needs runs of the task lm");
  for (auto& [recipe, points] : ladder.points) {
    const auto key = [](const LawPoint& p) { return std::tuple(p.n, p.d, p.seed); };
    std::ranges::sort(points, {}, key);  // a fit may not depend on the order of the rows
    if (const auto twice = std::ranges::adjacent_find(points, {}, key); twice != points.end())
      throw Error(fmt::format("{}: recipe '{}' has seed {} twice at N {:.4g}, D {:.4g}", path, recipe, twice->seed,
                              twice->n, twice->d));
  }
  for (const auto& [recipe, count] : diverged)
    if (!ladder.points.contains(recipe)) ladder.left_out.push_back(recipe);
  return ladder;
}

void check(const LawJob& o) {
  if (o.form != "quartet" && o.form != "chinchilla") throw unknown_word("--form", o.form, {"quartet", "chinchilla"});
  if (!o.at.empty() && o.at.size() != 2)
    throw Error("--at: " + std::to_string(o.at.size()) + " numbers; accepted: N,D");
}

// Steps that read `d` tokens where all runs read as many in a step, to a tenth; else the most of any run.
static double steps_at(const std::vector<LawPoint>& points, double d) {
  double most = 0, smallest = 0, largest = 0;
  for (const LawPoint& p : points) {
    if (p.steps <= 0) continue;
    const double tokens = p.d / p.steps;
    most = std::max(most, static_cast<double>(p.steps));
    smallest = smallest > 0 ? std::min(smallest, tokens) : tokens;
    largest = std::max(largest, tokens);
  }
  return most > 0 && largest <= 1.1 * smallest ? d / largest : most;
}

LawOutcome study_ladder(const LawJob& o, const LadderRuns& ladder) {
  std::map<std::string, std::vector<LawPoint>> fitted, kept_points;
  std::map<std::tuple<std::string, double, double>, std::vector<double>> kept_out;
  for (const auto& [recipe, points] : ladder.points)
    for (const LawPoint& p : points) {
      const bool is_kept_out = o.held_out > 0 && p.n >= o.held_out;
      (is_kept_out ? kept_points : fitted)[recipe].push_back(p);
      if (is_kept_out) kept_out[{recipe, p.n, p.d}].push_back(p.loss);
    }
  LawOutcome outcome;
  outcome.study = sweeps::study_law(
      fitted, o.baseline, o.form == "quartet" ? sweeps::LawForm::quartet : sweeps::LawForm::chinchilla, o.samples);
  outcome.gaps = sweeps::gap_rule(fitted, o.baseline, kept_points);
  for (const auto& [recipe, points] : fitted)
    if (const auto cells = sweeps::loss_cells(points); !cells.empty()) outcome.losses[recipe] = fit_plane(cells);
  for (const auto& [recipe, fit] : outcome.gaps.planes)
    if (fit.missing.empty())
      for (const sweeps::PlaneCell& cell : sweeps::gap_cells(kept_points[recipe], kept_points[o.baseline]))
        outcome.held_out_gaps.push_back(
            {recipe, cell, plane_at(fit, cell.n, cell.d), outcome.gaps.at(recipe, cell.n, cell.d, /*by_plane=*/false)});
  for (const auto& [recipe, fit] : outcome.losses)
    if (fit.missing.empty())
      for (const sweeps::PlaneCell& cell : sweeps::loss_cells(kept_points[recipe]))
        outcome.held_out_losses.push_back({recipe, cell, plane_at(fit, cell.n, cell.d), {}});
  for (const sweeps::PublishedOrder& order : sweeps::published_orders())
    if (auto found = sweeps::agreement(order, ladder.points, o.baseline, 1000))
      outcome.orders.emplace_back(&order, std::move(*found));
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
  outcome.steps = steps_at(fitted[o.baseline], outcome.d);
  if (!o.at.empty()) predict(outcome.study, "", outcome.n, outcome.d);  // refuses what lies too far away
  return outcome;
}

namespace {

template <class Quantity>
std::optional<Interval> spread(const sweeps::LawStudy& study, const std::string& recipe, const Quantity& quantity) {
  std::vector<double> values;
  for (const sweeps::LawSample& s : study.samples)
    if (const std::optional<double> v = quantity(s.law, s.efficiency.at(recipe))) values.push_back(*v);
  return sweeps::sample_interval(std::move(values), study.samples.size());
}

ordered_json interval_json(const std::optional<Interval>& interval) {
  return interval && std::isfinite(interval->low) ? ordered_json{interval->low, interval->high} : ordered_json();
}

// What a plane's value and its second axis are called.
struct PlaneNames {
  std::string value, d;
};

ordered_json planes_json(const std::map<std::string, sweeps::PlaneFit>& fits, double n, double d,
                         const PlaneNames& names, const sweeps::GapRule* gaps = nullptr) {
  ordered_json list = ordered_json::array();
  for (const auto& [recipe, fit] : fits) {
    ordered_json one = {{"recipe", recipe}, {"cells", fit.cells}, {"runs", fit.runs}, {"missing", fit.missing}};
    if (fit.missing.empty()) {
      const sweeps::PlaneAt there = gaps != nullptr ? gaps->at(recipe, n, d) : plane_at(fit, n, d);
      one[names.value] = there.value;
      one[names.value + "_interval"] = interval_json(there.interval());
      one["by_n"] = fit.by_n;
      one["by_n_interval"] = interval_json(fit.by_n_interval);
      one["by_" + names.d] = fit.by_d;
      one["by_" + names.d + "_interval"] = interval_json(fit.by_d_interval);
      one["left_out_error"] = fit.left_out;
    }
    list.push_back(std::move(one));
  }
  return list;
}

ordered_json cells_json(const std::vector<HeldOutCell>& cells, const PlaneNames& names) {
  ordered_json list = ordered_json::array();
  for (const HeldOutCell& h : cells) {
    list.push_back({{"recipe", h.recipe},
                    {"n", h.measured.n},
                    {names.d, h.measured.d},
                    {"seeds", h.measured.seeds},
                    {"measured", h.measured.value},
                    {"predicted", h.predicted.value},
                    {"interval", interval_json(h.predicted.interval())}});
    if (h.unchanged) list.back()["no_change"] = h.unchanged->value;
  }
  return list;
}

}  // namespace

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

ordered_json law_json(const LawJob& o, const LadderRuns& ladder, const LawOutcome& outcome) {
  const sweeps::LawStudy& s = outcome.study;
  const sweeps::Law& law = s.fit.law;
  ordered_json json = {
      {"schema", 1},
      {"baseline", o.baseline},
      {"form", o.form},
      {"law", FP4_NAMED(law.A, law.B, law.alpha, law.beta, law.gamma, law.E, s.fit.error, s.fit.runs, s.fit.cells)},
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
  const PlaneNames gaps = {"gap", "d"}, losses = {"log_loss", "steps"};
  const sweeps::GapSkill& skill = outcome.gaps.skill;
  json["gaps"] = planes_json(outcome.gaps.planes, outcome.n, outcome.d, gaps, &outcome.gaps);
  json["skill"] = {{"gaps", skill.gaps},
                   {"plane", skill.plane},
                   {"no_change", skill.nearest},
                   {"rule", skill.plane_has_skill() ? "plane" : "no change"}};
  json["held_out_gaps"] = cells_json(outcome.held_out_gaps, gaps);
  json["steps"] = outcome.steps;
  json["losses"] = planes_json(outcome.losses, outcome.n, outcome.steps, losses);
  json["held_out_losses"] = cells_json(outcome.held_out_losses, losses);
  json["orders"] = ordered_json::array();
  const auto tau_json = [](const sweeps::Tau& tau) {
    return ordered_json{
        {"tau_b", tau.value}, {"median", tau.median}, {"interval", interval_json(tau.interval)}, {"p", tau.chance}};
  };
  for (const auto& [order, found] : outcome.orders)
    json["orders"].push_back(joined_json({FP4_NAMED(order->source, order->what, found.recipes),
                                          {{"all", tau_json(found.all)}, {"fp4", tau_json(found.fp4)}}}));
  json["held_out"] = ordered_json::array();
  for (const HeldOut& h : outcome.held_out) {
    ordered_json one = FP4_NAMED(h.recipe, h.n, h.d, h.runs, h.measured);
    one["predicted"] = h.predicted ? ordered_json(h.predicted->loss) : ordered_json();
    one["interval"] = h.predicted ? interval_json(h.predicted->interval) : ordered_json();
    one["reason"] = h.reason;
    json["held_out"].push_back(std::move(one));
  }
  return json;
}

}  // namespace fp4::tools
