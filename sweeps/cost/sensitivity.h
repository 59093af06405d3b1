// Decides: which conclusions survive wrong numbers: the overhead and rank of recipes when the efficiency of GEMMs, the
// memory bandwidth and the issue rate are half or twice what a profile says. A front may rely on ranks that hold in
// all of them.
#pragma once

#include <string>
#include <vector>

#include "sweeps/cost/cost.h"

namespace fp4::cost {

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
