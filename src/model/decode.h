// FP4 codes back to numbers in the order of operations of a scheme's owner.
#pragma once

#include "src/backends/backends.h"
#include "src/model/scheme.h"

namespace fp4 {

// What decodes a scheme's codes and scales.
QuantSpec reading_spec(const CheckpointScheme& scheme);

// FP4 codes in blocks along the row under q.spec and at most one factor, to float32 [rows, cols]. Equal bit for bit to
// the core's decoding; orders that the fast backends decline are done here.
void decode_weight(const Dispatcher& backend, const Quantized& q, float* out, int threads);

}  // namespace fp4
