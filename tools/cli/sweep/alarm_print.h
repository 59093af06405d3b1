// Alarms (sweeps/judge/alarms.h) as terminals and JSON show them.
#pragma once

#include <nlohmann/json.hpp>
#include <vector>

#include "sweeps/judge/alarms.h"

namespace fp4::tools {

// "alarm: CONTEXT: at edge: 2 tuned values ..", wrapped; the first 8, nothing where there is none.
void print_alarms(const std::vector<sweeps::RaisedAlarm>& alarms);
// [{"alarm": .., "context": .., "text": ..}, ..]
nlohmann::ordered_json alarms_json(const std::vector<sweeps::RaisedAlarm>& alarms);

}  // namespace fp4::tools
