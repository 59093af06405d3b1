// Decides: the way from the gradient of a decoded forward operand to the gradient of the operand
// (fp4/estimator.h): into fprop's rotated basis, times Q' plus the scale terms block by block, and back.
#pragma once

#include "sim/tape/autograd.h"
#include "src/backends/backends.h"

namespace fp4::sim {

/// How fprop quantised an operand [rows, in].
struct ForwardOperand {
  EstimatorSpec estimator;
  HadamardSpec hadamard;
  RandomPlace signs;           // of the Hadamard
  float soft_alpha = 0.0f;     // of the smooth maximum
  Tensor x;                    // as the quantiser met it: [rows, in padded to the Hadamard]; read by estimators only
  const Quantized* quantized;  // what it gave; likewise
};

/// `raw`: the gradient of the decoded operand, [rows, in] or, when `is_rotated`, of x's shape. Result: `gradient`,
/// [rows, in].
void estimator_gradient(Tape& tape, const Dispatcher& backend, const ForwardOperand& operand, Tensor raw,
                        bool is_rotated, Tensor gradient);

/// out = upstream * Q'(u) for n elements under one scale code, by the vector kernel. False: it leaves this case to the
/// definition (scale terms, scales that are zero or NaN, a payload too close to call).
bool slope_row(const Kernels& k, const EstimatorSpec& e, const Quantizer& q, uint32_t scale_code, TensorFactor t,
               const float* x, const float* upstream, float* out, int n);

}  // namespace fp4::sim
