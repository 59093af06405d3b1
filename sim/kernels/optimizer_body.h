// Updates of the weights, one pass over weights, moments and gradients.
#pragma once

#include "sim/kernels/set.h"

namespace fp4::sim::FP4_ISA {

// AdamW (Loshchilov and Hutter): decay outside the moments. weight_decay = 0 is Adam.
static bool adam_plain(float* __restrict w, float* __restrict m, float* __restrict v, const float* __restrict g,
                       int64_t n, const AdamStep& s) {
  const AdamStep p = s;
  uint32_t bad = 0;
  for (int64_t i = 0; i < n; ++i) {
    const float d = g[i] * p.gradient_scale;
    m[i] = p.beta1 * m[i] + (1.0f - p.beta1) * d;
    v[i] = p.beta2 * v[i] + (1.0f - p.beta2) * (d * d);
    const float step = (m[i] * p.correction1) / (__builtin_sqrtf(v[i] * p.correction2) + p.eps);
    w[i] = w[i] - p.lr * (step + p.weight_decay * w[i]);
    bad |= static_cast<uint32_t>(magnitude_bits(w[i]) >= float_infinity_bits);
  }
  return bad == 0;
}
#if FP4_CPU != 512
constexpr auto adam = adam_plain;
#endif

static bool sgd(float* __restrict w, float* __restrict m, const float* __restrict g, int64_t n, float lr,
                float momentum, float weight_decay, float gradient_scale) {
  uint32_t bad = 0;
  for (int64_t i = 0; i < n; ++i) {
    m[i] = momentum * m[i] + (g[i] * gradient_scale + weight_decay * w[i]);
    w[i] = w[i] - lr * m[i];
    bad |= static_cast<uint32_t>(magnitude_bits(w[i]) >= float_infinity_bits);
  }
  return bad == 0;
}

}  // namespace fp4::sim::FP4_ISA
