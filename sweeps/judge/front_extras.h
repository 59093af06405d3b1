// What a judged front tells besides: how far each weight of the cost model may move before a point leaves it, and what
// a point takes to reach a loss.
#pragma once

#include "sweeps/judge/pareto.h"

namespace fp4::sweeps {

// A configuration with any diverged run is worse than every one without: it takes no part in a front.
bool is_usable(const FrontPoint& point);

// Fills `sensitivity` of the points on the front; `x` is the column of costs.
void add_sensitivity(ContextFront& front, const Costs& costs, const std::string& x);

// Fills the scale of shares, extra tokens over fp32 and mxfp8 and, of runs with a constant rate, the target, the tokens
// to it and Quartet's figure.
void add_units(ContextFront& front, const Results& results, const TokenCurves& curves, std::optional<double> target);

}  // namespace fp4::sweeps
