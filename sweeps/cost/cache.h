// Decides: what the KV cache of a recipe (`attn.kv`) costs. A token leaves K and V of every block in it, as codes and
// scales; a token that is generated after n others reads those of all n. Where a product takes the codes as they are,
// an operand in the same format and blocks on a chip that multiplies it, reading is all; elsewhere each element is
// decoded: a conversion and a multiplication by its scale.
#pragma once

#include "sweeps/cost/hardware.h"
#include "sweeps/cost/kernel_times.h"
#include "sweeps/cost/model.h"
#include "sweeps/cost/workload.h"

namespace fp4::cost {

struct CacheCost {
  double bits = 0;                               // an element, its share of the scales included
  double token_bytes = 0, bf16_token_bytes = 0;  // in all blocks
  double quantise_s = 0;                         // of a token's K and V, on the whole chip
  double read_s = 0, bf16_read_s = 0;            // by a token after `sequence` of the model's others, one stream
  double decode_ops = 0;                         // slots of these reads
  const char* binding = "none";                  // of read_s: memory, issue
};

/// Whether the codes of the cache are the operand b of a product as the chip multiplies it.
bool takes_codes(const GemmFacts& product, const OperandFacts& kv, bool along_k, const Hardware& hardware);

/// The kernel that writes K and V of `tokens` tokens.
QuantiseKernel cache_kernel(const CacheFacts& cache, const Model& model, double tokens, double read_bytes);

/// `recipe.cache` is there, and the model has attention.
CacheCost cache_cost(const RecipeFacts& recipe, const Model& model, const Hardware& hardware,
                     const CostWeights& weights);

}  // namespace fp4::cost
