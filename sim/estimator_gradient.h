// Decides: the way from the gradient of a decoded forward operand to the gradient of the operand (numerics.md
// section 8): into fprop's rotated basis, times Q' plus the scale terms block by block, and back.
#pragma once

#include "sim/autograd.h"
#include "src/backends.h"

namespace fp4::sim {

/// `call`: how fprop quantised the operand [rows, in]; `q`: what it gave. `raw`: the gradient, [rows, in] or, when
/// `is_rotated`, [rows, in padded to the Hadamard]. Result: `gradient` [rows, in].
void estimator_gradient(Tape& tape, const Dispatcher& backend, const QuantizeCall& call, const EstimatorSpec& e,
                        const Quantized& q, Tensor raw, bool is_rotated, float* gradient);

/// out = upstream * Q'(u) for n <= 256 elements under one scale code, by the vector kernel. False: it leaves this case
/// to the definition (scale terms, scales that are zero or NaN, a payload too close to call).
bool slope_row(const Kernels& k, const EstimatorSpec& e, const Quantizer& q, uint32_t scale_code, TensorFactor t,
               const float* x, const float* upstream, float* out, int n);

}  // namespace fp4::sim
