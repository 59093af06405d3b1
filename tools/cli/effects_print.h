// Effects of axis values for the terminal and for JSON.
#pragma once

#include <nlohmann/json.hpp>
#include <vector>

#include "sweeps/judge/attribution.h"

namespace fp4::tools {

// The number, or null where it is not finite.
nlohmann::ordered_json number(double value);
nlohmann::ordered_json effect_json(const sweeps::Effect& effect);
// One table for each task.
void print_effects(const sweeps::Results& results, const std::vector<sweeps::Effect>& effects);

}  // namespace fp4::tools
