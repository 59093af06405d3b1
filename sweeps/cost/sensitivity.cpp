// One factor at a time; the efficiency of GEMMs is capped at 1, so doubling 0.65 gives 1.
#include "sweeps/cost/sensitivity.h"

#include <cmath>

namespace fp4::cost {

namespace {

// Overheads closer than this are one point: below any model's accuracy, above rounding.
constexpr double equal_overhead = 1e-6;

int order(double a, double b) { return std::abs(a - b) < equal_overhead ? 0 : a < b ? -1 : 1; }

std::vector<int> ranks(const std::vector<double>& overhead) {
  std::vector<int> rank;
  for (const double mine : overhead) {
    int cheaper = 0;
    for (const double other : overhead) cheaper += order(other, mine) < 0 ? 1 : 0;
    rank.push_back(cheaper + 1);
  }
  return rank;
}

}  // namespace

Sensitivity sensitivity(const std::vector<RecipeFacts>& recipes, const Model& model, const Hardware& hardware,
                        const CostOptions& options) {
  const struct {
    const char* name;
    double CostWeights::*field;
    double factor;
  } variations[] = {{"as stated", &CostWeights::efficiency, 1},
                    {"efficiency/2", &CostWeights::efficiency, 0.5},
                    {"efficiency*2", &CostWeights::efficiency, 2},
                    {"bandwidth/2", &CostWeights::bandwidth, 0.5},
                    {"bandwidth*2", &CostWeights::bandwidth, 2},
                    {"issue/2", &CostWeights::issue, 0.5},
                    {"issue*2", &CostWeights::issue, 2}};
  Sensitivity out;
  for (const auto& variation : variations) {
    CostOptions changed = options;
    changed.formulas = false;
    changed.weights.*variation.field *= variation.factor;
    Variation row{variation.name, {}, {}};
    for (const RecipeFacts& recipe : recipes)
      row.overhead.push_back(evaluate(recipe, model, hardware, changed).overhead);
    row.rank = ranks(row.overhead);
    out.rows.push_back(std::move(row));
  }
  for (size_t i = 0; i < recipes.size(); ++i)
    for (size_t j = i + 1; j < recipes.size(); ++j) {
      bool below = false, above = false;
      for (const Variation& row : out.rows) {
        const int sign = order(row.overhead[i], row.overhead[j]);
        below = below || sign < 0;
        above = above || sign > 0;
      }
      ++out.pairs;
      if (!(below && above)) ++out.stable_pairs;
    }
  return out;
}

}  // namespace fp4::cost
