// Decides: K and V as a recipe's `attn.kv` stores them (attention_rules.h).
#pragma once

#include "sim/engine/layer.h"

namespace fp4::sim {

/// While calibrating: the largest magnitude counts.
void count_in_cache(Layer& product, Tensor x);

/// x as it is read back, in place; blocks along the columns, or the rows with `by_column`.
void store_in_cache(const AttentionRules& rules, const Dispatcher& backend, const Pass& pass, const Layer& product,
                    int part, Tensor x, bool by_column);

}  // namespace fp4::sim
