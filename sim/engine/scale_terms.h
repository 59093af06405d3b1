// Decides: gradients through block scales, sixteen 1 x B blocks at a time (fp4/estimator.h).
#pragma once

#include "fp4/block.h"
#include "sim/kernels/train_kernels.h"

namespace fp4::sim {

/// out = upstream * slope + the scale term of each element. codes: of the scales of the sixteen blocks in b, whose
/// is_live is set here.
void scale_terms(const Kernels& k, const EstimatorSpec& e, const Quantizer& q, TensorFactor t,
                 const uint32_t (&codes)[16], TermBlocks b, float* out);

}  // namespace fp4::sim
