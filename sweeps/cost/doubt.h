// Decides: how far a modelled step may be off. Draws of what the cost model does not know, the same for all recipes on
// a chip: efficiency of products, memory bandwidth, issue rate and `other`, each log-normal, and how much slower than
// modelled a step with FP4 operands is (results/cost_validation: within a factor of 1.5; FP4 steps up to 29 % too
// fast).
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "sweeps/cost/cost.h"

namespace fp4::cost {

struct CostDoubt {
  double factor = 1.5;       // 95 % of the factors on each of the four lie within it
  double fp4_slower = 0.29;  // a step with FP4 operands takes up to this much longer, uniform
};

struct CostDraw {
  CostOptions options;
  double fp4 = 1;
};
/// Draw `number` of what `options` may have wrong; the same number gives the same draw.
CostDraw draw_cost(const CostOptions& options, const CostDoubt& doubt, uint64_t number);

/// Whether some product takes FP4 operands.
bool has_fp4_operands(const RecipeFacts& recipe);

/// The middle 95 % of draws, and the value as modelled. FP4 steps are drawn slower alone, by 0 to 29 %: their modelled
/// step is one end of what is believed, and most draws lie beyond it.
struct CostRange {
  double low = 0, high = 0;
  CostRange with(double value) const { return {std::min(low, value), std::max(high, value)}; }
};
struct CostDoubts {
  CostRange step;         // as multiples of the modelled step
  CostRange overhead;     // over the ideal step under the same draw
  CostRange against;      // of the step, as a multiple of the quickest recipe's under the same draw
  bool quickest = false;  // as modelled
};
inline constexpr int cost_draws = 200;
std::vector<CostDoubts> cost_doubts(const std::vector<RecipeFacts>& recipes, const Model& model,
                                    const Hardware& hardware, const CostOptions& options, const CostDoubt& doubt = {});

}  // namespace fp4::cost
