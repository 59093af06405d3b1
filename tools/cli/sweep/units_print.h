// Gaps in units that others publish in: shares of fp32's loss, and tokens for the same loss.
#pragma once

#include <string>
#include <vector>

#include "sweeps/judge/pareto.h"

namespace fp4::tools {

// "12.3 %": the shown mean of column `y` over what `scale_text` names; "" where it is unknown.
std::string relative_text(const sweeps::ContextFront& front, const sweeps::FrontPoint& point, const std::string& y);
// What the shares of a front are shares of.
std::string scale_text(const sweeps::ContextFront& front);

// Extra tokens of these points over fp32 and mxfp8; nothing where the sweep has no curves of loss over tokens.
void print_tokens(const sweeps::Results& results, const sweeps::ContextFront& front,
                  const std::vector<const sweeps::FrontPoint*>& points);

}  // namespace fp4::tools
