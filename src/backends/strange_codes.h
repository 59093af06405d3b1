// Codes and scales that nothing here writes, which arrays of others may hold. What they mean is said by the core alone.
#pragma once

#include "fp4/backend.h"

namespace fp4 {

// Scales that are no code of their format: a byte with a bit that it has not, a real one that is negative, infinite or
// has more bits than bf16.
bool has_strange_scales(const Quantized& q);

// Infinities and NaN among elements under scales.
bool has_special_codes(const Quantized& q);

}  // namespace fp4
