#include "tools/cli/sweep/effects_print.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "tools/cli/sweep/sweep_view.h"
#include "tools/cli/table_print.h"

namespace fp4::tools {

namespace {

using sweeps::Cell;
using sweeps::Effect;

Cell finite(double value) { return std::isfinite(value) ? Cell(value) : Cell(); }

bool same_table(const Effect& a, const Effect& b) {
  return a.task == b.task && a.axis == b.axis && a.reference == b.reference;
}

std::vector<std::string> effect_row(const Effect& effect, bool grouped) {
  const sweeps::Comparison& comparison = effect.comparison;
  const double mean = comparison.summary.mean;
  const auto known = [](const char* form, double value) {
    return std::isnan(value) ? "" : fmt::format(fmt::runtime(form), value);
  };
  std::vector<std::string> row;
  if (grouped) row.push_back(effect.group);
  row.push_back(effect.value);
  if (grouped) row.push_back(known("{:.3g}", effect.reference_gap));
  row.push_back(known("{:+.2g}", mean));
  const double above = comparison.interval ? comparison.interval->high - mean : NAN,
               below = comparison.interval ? mean - comparison.interval->low : NAN;
  const bool leans = std::fabs(above - below) > 0.02 * (above + below);
  row.push_back(leans ? fmt::format("{:+.2g} .. {:+.2g}", mean - below, mean + above) : known("+-{:.2g}", above));
  row.push_back(std::isfinite(comparison.detectable) ? fmt::format("{:.2g}", comparison.detectable) : "");
  if (!grouped) row.push_back(known("{:+.1g}..", effect.low_decile) + known("{:+.1g}", effect.high_decile));
  row.push_back(known("{:.0f}% of ", 100 * effect.same_sign) + std::to_string(effect.settings));
  row.push_back(std::string(word(comparison.verdict)) + (effect.rates_differ > 0 ? ", rates differ" : ""));
  if (comparison.diverged + comparison.rival_diverged > 0)
    row.back() += fmt::format(", {} against {} diverged", comparison.diverged, comparison.rival_diverged);
  return row;
}

}  // namespace

sweeps::ResultTable effect_table(const std::vector<Effect>& effects) {
  sweeps::ResultTable table;
  table.columns = {
      "task",         "axis",       "value",       "reference",     "group",    "effect",      "low",
      "high",         "detectable", "noise_floor", "delta",         "verdict",  "comparisons", "seeds",
      "sd",           "raw_low",    "raw_high",    "reference_gap", "settings", "diverged",    "reference_diverged",
      "rates_differ", "decile_low", "decile_high", "same_sign",     "weighted", "products",    "reference_products"};
  for (const Effect& effect : effects) {
    const sweeps::Comparison& comparison = effect.comparison;
    const auto end = [](const std::optional<sweeps::Interval>& interval, double sweeps::Interval::*which) {
      return interval ? Cell((*interval).*which) : Cell();
    };
    const auto &held = comparison.interval, &raw = comparison.summary.interval;
    const auto products = effect.products.value_or(std::pair<double, double>(NAN, NAN));
    constexpr auto low = &sweeps::Interval::low, high = &sweeps::Interval::high;
    sweeps::add_cells(table.rows.emplace_back(), effect.task, effect.axis, effect.value, effect.reference, effect.group,
                      finite(comparison.summary.mean), end(held, low), end(held, high), finite(comparison.detectable),
                      finite(effect.noise_floor), comparison.delta, word(comparison.verdict), effect.family,
                      comparison.summary.n, finite(comparison.summary.sd), end(raw, low), end(raw, high),
                      finite(effect.reference_gap), effect.settings, comparison.diverged, comparison.rival_diverged,
                      effect.rates_differ, finite(effect.low_decile), finite(effect.high_decile),
                      finite(effect.same_sign), effect.weighted, finite(products.first), finite(products.second));
  }
  return table;
}

void print_effects(const sweeps::Results& results, const std::vector<Effect>& effects) {
  if (effects.empty()) return;
  const bool grouped = std::any_of(effects.begin(), effects.end(), [](const auto& e) { return !e.group.empty(); });
  const bool tuned = !results.grid().tune.empty() && results.grid().tune_best == 0;
  const std::vector<std::string> names = short_axis_names(results.axes());
  print_sentence(
      "What one value does on average over the settings of the other axes, {}, on every seed that both sides have. All "
      "95 % intervals below hold together; `detects` is the smallest effect that these seeds find with 80 % power; "
      "`same sign`: the share of the settings that agree.",
      tuned ? "every recipe at its own best" : "at the grid's fixed settings");
  for (size_t begin = 0, end = 0; begin < effects.size(); begin = end) {
    const Effect& first = effects[begin];
    Table table;
    if (grouped) table.columns = {{"where"}};
    table.columns.push_back({"value"});
    if (grouped) table.columns.push_back(">its gap");
    for (const char* name : {">effect", ">95 %", ">detects"}) table.columns.push_back(name);
    if (!grouped) table.columns.push_back(">10..90 %");
    table.columns.push_back(">same sign");
    table.columns.push_back({"word"});
    for (end = begin; end < effects.size() && same_table(effects[end], first); ++end)
      table.rows.push_back(effect_row(effects[end], grouped));
    const auto at = std::find(results.axes().begin(), results.axes().end(), first.axis) - results.axes().begin();
    fmt::print("\n");
    print_sentence("{}: {} against {}{}", first.task, names[static_cast<size_t>(at)], first.reference,
                   std::isnan(first.noise_floor)
                       ? ":"
                       : fmt::format(" (noise floor, SD of bf16 - fp32: {:.2g}):", first.noise_floor));
    print_table(table);
    for (size_t i = begin; i < end; ++i)
      if (const auto& products = effects[i].products)
        print_sentence("{}: {:g} quantised products a step against {:g}; the side with more has more to lose.",
                       effects[i].value, products->first, products->second);
  }
}

void print_alarms(const std::vector<sweeps::RaisedAlarm>& alarms) {
  constexpr size_t most = 8;
  if (!alarms.empty()) fmt::print("\n");
  for (size_t i = 0; i < alarms.size() && i < most; ++i)
    print_sentence("alarm: {}: {}: {}.", alarms[i].context, word(alarms[i].alarm), alarms[i].text);
  if (alarms.size() > most) fmt::print("{} more alarms; `pareto --json` lists all\n", alarms.size() - most);
}

nlohmann::ordered_json alarms_json(const std::vector<sweeps::RaisedAlarm>& alarms) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const sweeps::RaisedAlarm& raised : alarms)
    list.push_back({{"alarm", word(raised.alarm)}, {"context", raised.context}, {"text", raised.text}});
  return list;
}

}  // namespace fp4::tools
