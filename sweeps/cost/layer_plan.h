// Decides: which part of a model's linear layers follows which products: the recipe's, those of a rule, or bf16.
#pragma once

#include <vector>

#include "sweeps/cost/model.h"
#include "sweeps/cost/workload.h"

namespace fp4::cost {

/// `blocks` repetitions of one fused linear, of whose output columns `quantised` are computed as the recipe says and
/// `high` in high precision.
struct PlannedLinear {
  const Linear* linear = nullptr;
  int64_t blocks = 0;
  int64_t quantised = 0;
  int64_t high = 0;
  RecipeFacts::LayerFacts facts = nullptr;  // what the quantised columns follow by rules; null: the recipe
};

/// Layers are counted in the order of the forward pass; a share below 1 is of all quantisable layers, rounded to
/// nearest, half up. Names that match no layer of the model are an error.
std::vector<PlannedLinear> plan_layers(const Model& model, const RecipeFacts& recipe);

/// `blocks` repetitions of a product of attention, "qk" or "pv"; null facts: high precision.
struct PlannedProduct {
  const char* name = "";
  int64_t blocks = 0;
  RecipeFacts::LayerFacts facts = nullptr;
};
/// Empty for a model without attention.
std::vector<PlannedProduct> plan_attention(const Model& model, const RecipeFacts& recipe);

}  // namespace fp4::cost
