// See advice_words.h.
#include "tools/cli/sweep/advice_words.h"

#include <fmt/core.h>

#include <algorithm>

#include "sim/rules/recipe.h"
#include "sweeps/cost/adapt.h"

namespace fp4::tools {

std::string_view word(sweeps::AdviceWord word) {
  using sweeps::AdviceWord;
  switch (word) {
    case AdviceWord::best: return "cheapest";
    case AdviceWord::alike: return "alike";
    case AdviceWord::dearer: return "dearer";
    case AdviceWord::never: return "never";
  }
  return "";
}

std::map<std::string, cost::RecipeFacts> recipe_facts(const LadderRuns& ladder, int steps) {
  std::map<std::string, cost::RecipeFacts> facts;
  for (const auto& [name, points] : ladder.points) {
    const auto kept = ladder.recipes.find(name);
    const sim::Json given = kept != ladder.recipes.end() ? kept->second : sim::Json(name);
    facts[name] = cost::facts_of(sim::recipe_from_json(given), steps);
  }
  return facts;
}

double usual_tokens(const cost::Model& model) { return 20 * static_cast<double>(model.parameters()); }

std::string extrapolation(const sweeps::LawStudy& study, double n, double d, sweeps::Transfer transfer) {
  const double far_n = sweeps::times_outside(n, study.n), far_d = sweeps::times_outside(d, study.d);
  if (far_n == 1 && far_d == 1) return "";
  if (transfer == sweeps::Transfer::gaps && std::max(far_n, far_d) > sweeps::farthest_advice)
    return fmt::format(
        "NO VERDICT FROM THE LADDER: N {:.3g} lies {:.2g} times, D {:.3g} {:.2g} times outside it (N {:.3g} .. {:.3g}, "
        "D "
        "{:.3g} .. {:.3g}); beyond {:g} times its gaps say nothing.",
        n, far_n, d, far_d, study.n.low, study.n.high, study.d.low, study.d.high, sweeps::farthest_advice);
  return fmt::format(
      "EXTRAPOLATED: N {:.3g} lies {:.2g} times, D {:.3g} {:.2g} times outside the ladder (N {:.3g} .. {:.3g}, D "
      "{:.3g} .. {:.3g}). It is supposed that {}; no run here shows it.",
      n, far_n, d, far_d, study.n.low, study.n.high, study.d.low, study.d.high,
      transfer == sweeps::Transfer::law ? "effN and effD stay what they are"
      : transfer == sweeps::Transfer::gaps
          ? std::string(
                "gaps change with N and D as they do in the ladder, within a factor that grows with the distance")
          : fmt::format("a recipe needs as many times {}'s tokens as at the ladder's largest N and D", study.baseline));
}

}  // namespace fp4::tools
