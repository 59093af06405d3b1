// exponent=float_log2 differs from exponent=bits for maxima a few ulp below a power of two alone (scale_rule.h: at most
// 88 ulp), in one block of 100,000. Under scale_rule=floor a fast backend does the rest, and those blocks are coded
// again by the definition.
#pragma once

#include "fp4/backend.h"

namespace fp4 {

// Whether exact exponents (exponent=bits) give the result of `call` but for blocks with such a maximum.
bool differs_near_powers_only(const QuantizeCall& call);

// The same call with exact exponents.
QuantizeCall with_exact_exponents(const QuantizeCall& call);

// Codes the blocks of `out`, which has the codes and scales of exact exponents, as `call` says.
void recode_near_powers(const QuantizeCall& call, Quantized& out);

}  // namespace fp4
