// Decides: what a trained network costs in use, from the terms of a training step: the forward product of every layer,
// the quantisers of its inputs, attention and head. Weights are quantised once, before the first request, and cost
// their bytes alone; phases and what serves the backward pass cost nothing; "other" (norms, activations, launches) is
// the forward third of a step's.
#pragma once

#include "sweeps/cost/cost.h"

namespace fp4::cost {

/// Terms of one forward pass over `tokens` tokens (of convolutional networks: images), on the whole chip.
std::vector<Term> inference_terms(const RecipeFacts& recipe, const Model& model, const Hardware& hardware,
                                  int64_t tokens, const CostOptions& options = {});

/// Their seconds.
double inference_seconds(const RecipeFacts& recipe, const Model& model, const Hardware& hardware, int64_t tokens,
                         const CostOptions& options = {});

}  // namespace fp4::cost
