// See effects_print.h.
#include "tools/cli/effects_print.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "tools/cli/sweep_view.h"
#include "tools/cli/table_print.h"

namespace fp4::tools {

nlohmann::ordered_json number(double value) {
  return std::isfinite(value) ? nlohmann::ordered_json(value) : nlohmann::ordered_json(nullptr);
}

nlohmann::ordered_json effect_json(const sweeps::Effect& effect) {
  const sweeps::Summary& summary = effect.comparison.summary;
  return {{"task", effect.task},
          {"axis", effect.axis},
          {"value", effect.value},
          {"reference", effect.reference},
          {"group", effect.group},
          {"reference_gap", number(effect.reference_gap)},
          {"effect", number(summary.mean)},
          {"low", summary.interval ? number(summary.interval->low) : nullptr},
          {"high", summary.interval ? number(summary.interval->high) : nullptr},
          {"p_holm", number(effect.comparison.p_holm)},
          {"verdict", word(effect.comparison.verdict)},
          {"seeds", summary.n},
          {"settings", effect.settings},
          {"diverged", effect.diverged},
          {"decile_low", number(effect.low_decile)},
          {"decile_high", number(effect.high_decile)},
          {"same_sign", number(effect.same_sign)},
          {"weighted", effect.weighted}};
}

void print_effects(const sweeps::Results& results, const std::vector<sweeps::Effect>& effects) {
  if (effects.empty()) return;
  const bool grouped = std::any_of(effects.begin(), effects.end(), [](const auto& e) { return !e.group.empty(); });
  const std::vector<std::string> names = short_axis_names(results.axes());
  const auto short_name = [&](const std::string& axis) {
    const auto at = std::find(results.axes().begin(), results.axes().end(), axis);
    return names[static_cast<size_t>(at - results.axes().begin())];
  };
  print_wrapped(
      "What one value does on average over the settings of the other axes (t interval over seeds, Holm over what is "
      "listed of an axis), and over how many settings how often with that sign:");
  for (size_t begin = 0; begin < effects.size();) {
    size_t end = begin;
    Table table;
    if (grouped) table.columns = {{"where"}};
    table.columns.insert(table.columns.end(), {{"axis"}, {"value"}, {"against"}});
    if (grouped) table.columns.push_back({"its gap", Align::right});
    for (const char* name : {"effect", "95 %", "10..90 %", "same sign"}) table.columns.push_back({name, Align::right});
    table.columns.push_back({"word"});
    for (; end < effects.size() && effects[end].task == effects[begin].task; ++end) {
      const sweeps::Effect& effect = effects[end];
      const auto& interval = effect.comparison.summary.interval;
      std::vector<std::string> row;
      if (grouped) row.push_back(effect.group);
      row.insert(row.end(), {short_name(effect.axis), effect.value, effect.reference});
      if (grouped) row.push_back(fmt::format("{:.3g}", effect.reference_gap));
      row.push_back(fmt::format("{:+.2g}", effect.comparison.summary.mean));
      row.push_back(interval ? fmt::format("+-{:.1g}", interval->high - effect.comparison.summary.mean) : "");
      row.push_back(effect.weighted ? "" : fmt::format("{:+.1g}..{:+.1g}", effect.low_decile, effect.high_decile));
      row.push_back(effect.weighted ? std::to_string(effect.settings)
                                    : fmt::format("{:.0f}% of {}", 100 * effect.same_sign, effect.settings));
      row.push_back(std::string(word(effect.comparison.verdict)));
      table.rows.push_back(std::move(row));
    }
    fmt::print("\n{}:\n", effects[begin].task);
    print_table(table);
    begin = end;
  }
}

}  // namespace fp4::tools
