// A raced front for the terminal: a short list of steps, and under each the members that are tied with it.
#pragma once

#include "sweeps/judge/pareto.h"

namespace fp4::tools {

// `members`: most tied members named under a step, 0 for all.
void print_race(const sweeps::Results& results, const sweeps::ContextFront& front, const sweeps::FrontOptions& options,
                size_t members);

}  // namespace fp4::tools
