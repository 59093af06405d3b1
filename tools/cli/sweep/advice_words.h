// Which recipe, in words: what `fp4sim advise`, `cost recommend`, fronts by cost and the report of a ladder say of a
// model on a chip comes from here, so that screen, JSON and Python agree.
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "sweeps/cost/cost.h"
#include "sweeps/judge/advice.h"
#include "tools/cli/sweep/law_result.h"

namespace fp4::tools {

/// cheapest, alike, dearer, never, unknown.
std::string_view word(sweeps::AdviceWord word);

/// "1.27"; what is infinite never arrives.
std::string multiple(double ratio);

/// Every recipe of a ladder by its name, and those of which tokens over fp8 are published; `steps`: of the training, 0
/// where not known. Throws Error for a name that is no recipe of the program.
std::map<std::string, cost::RecipeFacts> recipe_facts(const LadderRuns& ladder, int steps = 0);

/// What a ladder and published tokens say of a model on a chip; tokens left out: 20 for each parameter (2203.15556).
sweeps::Advice advice_of(const LadderRuns& ladder, const cost::Model& model, const cost::Hardware& hardware,
                         sweeps::AdviceOptions options);

/// Three sentences: what is known of tokens, what is modelled of the chip and hence cheapest, what is not known.
std::vector<std::string> advice_answer(const sweeps::Advice& advice, const cost::Model& model,
                                       const std::string& hardware, const sweeps::AdviceOptions& options);

/// The three sentences of a model's time on a chip, both by their words, under weights "NAME=VALUE".
std::vector<std::string> usual_answer(const std::string& model, const std::string& hardware,
                                      const std::vector<std::string>& weights);

/// {"best", "answer", "rows"}: null where a number is not known.
nlohmann::ordered_json advice_json(const sweeps::Advice& advice, const std::vector<std::string>& answer);

}  // namespace fp4::tools
