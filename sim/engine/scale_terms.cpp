// See scale_terms.h. What is one number a block is computed here, in the words of block_gradient (fp4/estimator.h); the
// elements are the kernels'.
#include "sim/engine/scale_terms.h"

namespace fp4::sim {

void scale_terms(const Kernels& k, const EstimatorSpec& e, const Quantizer& q, TensorFactor t,
                 const uint32_t (&codes)[16], TermBlocks b, float* out) {
  ScaleFactors f;
  b.kind = e.scale_gradient;
  b.alpha = e.alpha;
  b.tensor_factor = t.g;
  float stored[16];
  for (int l = 0; l < 16; ++l) {
    f.hard[l] = block_maximum({b.x + int64_t{l} * b.length, 0, 1, 1, b.length, b.length}).amax;
    stored[l] = decode(q.scale, codes[l]);
    b.is_live[l] = f.hard[l] != 0.0f && stored[l] > 0.0f;
  }
  k.scale_sums(b, f.hard, f.sum, f.softmax_sum);
  for (int l = 0; l < 16; ++l) {
    f.amax[l] = f.slope[l] = f.ratio[l] = 1.0f;
    if (!b.is_live[l]) continue;
    if (is_soft_maximum(e.scale_gradient)) {
      f.amax[l] = at_most_largest(f.hard[l] + elementary::log(f.softmax_sum[l]) / e.alpha);
    } else {
      f.amax[l] = f.hard[l];
    }
    const float unrounded = unrounded_scale(q, f.amax[l], t, codes[l]);
    f.slope[l] = estimator_multiplier(e.scale_estimator, e, q.scale, unrounded);
    f.ratio[l] = f.slope[l] * (unrounded / stored[l]);
  }
  k.scale_terms(out, b, f);
}

}  // namespace fp4::sim
