// The answer of a front in one sentence: which setting to take at which price.
#pragma once

#include <string>
#include <vector>

#include "sweeps/judge/pareto.h"

namespace fp4::tools {

// "At 2 % overhead ue5m3_hold50 loses 0.031, at 3.3 % nvfp4 loses 0.026; from 22.5 % mxfp8 loses nothing that matters."
// A setting loses nothing that matters when its whole interval lies below delta. Of more than four steps the first two
// and the last two are named. Says as well that nothing raced, that something is undecided, or that all runs diverged.
std::string front_answer(const sweeps::Results& results, const sweeps::ContextFront& front,
                         const sweeps::FrontOptions& options);

// The answers of all fronts, each after the name of its context where there are several.
std::vector<std::string> front_answers(const sweeps::Results& results, const std::vector<sweeps::ContextFront>& fronts,
                                       const sweeps::FrontOptions& options);

}  // namespace fp4::tools
