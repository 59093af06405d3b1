// Effects of axis values, and alarms (sweeps/judge/alarms.h): rows for CSV and JSON, text for the terminal.
#pragma once

#include <nlohmann/json.hpp>
#include <vector>

#include "sweeps/judge/alarms.h"
#include "sweeps/judge/attribution.h"
#include "sweeps/report/table.h"

namespace fp4::tools {

// One row for each effect. `low` and `high` are the simultaneous interval, `raw_low` and `raw_high` that of the
// comparison alone; `detectable` is in units of the loss.
sweeps::ResultTable effect_table(const std::vector<sweeps::Effect>& effects);
// One table for each axis of a task.
void print_effects(const sweeps::Results& results, const std::vector<sweeps::Effect>& effects);

// "alarm: CONTEXT: at edge: 2 tuned values ..", wrapped; the first 8, nothing where there is none.
void print_alarms(const std::vector<sweeps::RaisedAlarm>& alarms);
// [{"alarm": .., "context": .., "text": ..}, ..]
nlohmann::ordered_json alarms_json(const std::vector<sweeps::RaisedAlarm>& alarms);

}  // namespace fp4::tools
