// Effects of axis values: rows for CSV and JSON, tables for the terminal.
#pragma once

#include <nlohmann/json.hpp>
#include <vector>

#include "sweeps/judge/attribution.h"
#include "sweeps/report/table.h"

namespace fp4::tools {

// The number, or null where it is not finite.
nlohmann::ordered_json number(double value);
// One row for each effect. `low` and `high` are the simultaneous interval, `raw_low` and `raw_high` that of the
// comparison alone; `detectable` is in units of the loss.
sweeps::ResultTable effect_table(const std::vector<sweeps::Effect>& effects);
// One table for each axis of a task.
void print_effects(const sweeps::Results& results, const std::vector<sweeps::Effect>& effects);

}  // namespace fp4::tools
