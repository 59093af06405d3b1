// The scalar truth as a backend.
#pragma once

#include "fp4/backend.h"

namespace fp4 {

const Backend& reference_backend();

// ms_eden: the scales of x [rows, K], after its Hadamard, once its codes and their values are known (eden.h). Blocks of
// zeros and those with a NaN scale stay.
void correct_scales(const QuantizeCall& call, const MatrixView& x, const float* decoded, Quantized& out);

}  // namespace fp4
