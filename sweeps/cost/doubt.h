// Decides: how far a modelled step may be off. Draws of what the cost model does not know, the same for all recipes on
// a chip: efficiency of products, memory bandwidth, issue rate and `other`, and a factor on steps with FP4 products.
// Each is log-normal about what the profile says, so the modelled step is the median. Figures that were fitted to steps
// of the chip are known better than estimates (results/cost_validation).
// And which conclusions survive wrong numbers: the overhead and rank of recipes when the efficiency of GEMMs, the
// memory bandwidth and the issue rate are half or twice what a profile says. A front may rely on ranks that hold in all
// of them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sweeps/cost/cost.h"

namespace fp4::cost {

struct CostDoubt {
  double factor = 1.5;   // 95 % of the factors on each of the four lie within it
  double fitted = 1.16;  // where it was fitted to, or measured on, steps of the chip
  double fp4 = 1.12;     // 95 % of the factors on a step with FP4 products
};

struct CostDraw {
  CostOptions options;
  double fp4 = 1;
};
/// Draw `number` of what `options` may have wrong; the same number gives the same draw.
CostDraw draw_cost(const CostOptions& options, const CostDoubt& doubt, const Hardware& hardware, uint64_t number);

/// Whether some product runs as one of FP4 operands.
bool runs_fp4(const RecipeFacts& recipe, const Hardware& hardware);

/// The middle 95 % of draws.
struct CostRange {
  double low = 0, high = 0;
};
struct CostDoubts {
  CostRange step;         // as multiples of the modelled step
  CostRange overhead;     // over the ideal step under the same draw
  CostRange against;      // of the step, as a multiple of the quickest recipe's under the same draw
  bool quickest = false;  // as modelled
};
inline constexpr int cost_draws = 200;
CostRange middle(std::vector<double> values);
std::vector<CostDoubts> cost_doubts(const std::vector<RecipeFacts>& recipes, const Model& model,
                                    const Hardware& hardware, const CostOptions& options, const CostDoubt& doubt = {});

struct Variation {
  std::string name;              // "as stated", "efficiency/2", ...
  std::vector<double> overhead;  // by recipe
  std::vector<int> rank;         // 1 = cheapest; equal overheads share a rank
};

/// First row: as stated. `stable_pairs` of the pairs of recipes keep their order (or stay equal) in all rows.
struct Sensitivity {
  std::vector<Variation> rows;
  int pairs = 0, stable_pairs = 0;
};

Sensitivity sensitivity(const std::vector<RecipeFacts>& recipes, const Model& model, const Hardware& hardware,
                        const CostOptions& options);

}  // namespace fp4::cost
