// What `fp4sim advise` and the report's picture of it share: the recipes of a ladder as the cost model takes them, and
// the words for what comes out.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "sweeps/cost/cost.h"
#include "sweeps/judge/advice.h"
#include "tools/cli/sweep/law_input.h"

namespace fp4::tools {

/// cheapest, alike, dearer, never.
std::string_view word(sweeps::AdviceWord word);

/// Every recipe of a ladder by its name; `steps`: of the training, 0 where not known. Throws Error for a name that is
/// no recipe of the program.
std::map<std::string, cost::RecipeFacts> recipe_facts(const LadderRuns& ladder, int steps = 0);

/// 20 tokens for each parameter (2203.15556).
double usual_tokens(const cost::Model& model);

/// What has to be supposed at `n` weights and `d` tokens, a sentence; "" inside the ladder.
std::string extrapolation(const sweeps::LawStudy& study, double n, double d, sweeps::Transfer transfer);

}  // namespace fp4::tools
