// The scalar truth as a backend.
#pragma once

#include <vector>

#include "fp4/backend.h"

namespace fp4 {

const Backend& reference_backend();

// The factors of x [rows, K], after its Hadamard: of every row and 128 elements, of every row, or the one of all. Fills
// out.tensor_scale and out.amax.
std::vector<TensorFactor> tensor_factors(const QuantizeCall& call, const Quantizer& q, const MatrixView& x,
                                         Quantized& out);
// ms_eden: the scales of x [rows, K], after its Hadamard, once its codes and their values are known (eden.h). Blocks of
// zeros and those with a NaN scale stay.
void correct_scales(const QuantizeCall& call, const MatrixView& x, const float* decoded, Quantized& out);

}  // namespace fp4
