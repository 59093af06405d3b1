// Gradients through the scales of sixteen blocks at a time, a block a lane: sums run along a block, in the order of
// block_gradient (fp4/estimator.h), which is the definition.
#pragma once

#include "sim/kernels/set.h"

namespace fp4::sim::FP4_ISA {

static bool reads_softmax(ScaleGradient g) {
  return g == ScaleGradient::hardsoftmax || g == ScaleGradient::softsoftmax ||
         g == ScaleGradient::hardsoftmax_as_published || g == ScaleGradient::softsoftmax_as_published;
}

static void scale_sums(const TermBlocks& b, const float* hard, float* sum, float* softmax_sum) {
  const float alpha = b.alpha;
  float s[16] = {}, e[16] = {}, top[16];
  __builtin_memcpy(top, hard, sizeof top);
  for (int i = 0; i < b.length; ++i) {
    for (int l = 0; l < 16; ++l) {
      const int64_t at = int64_t{l} * b.length + i;
      s[l] = s[l] + b.upstream[at] * (b.decoded[at] - b.x[at] * b.slope[at]);
    }
  }
  for (int i = 0; reads_softmax(b.kind) && i < b.length; ++i) {
    for (int l = 0; l < 16; ++l) {
      e[l] = e[l] + elementary::exp(alpha * (magnitude(b.x[int64_t{l} * b.length + i]) - top[l]));
    }
  }
  __builtin_memcpy(sum, s, sizeof s);
  __builtin_memcpy(softmax_sum, e, sizeof e);
}

// Kind by kind, so that each loop has one formula. term(i, l, x, g, decoded, slope, sign) of a live block.
template <class Term>
static inline __attribute__((always_inline)) void add_terms(float* __restrict out, const TermBlocks& b,
                                                            const Term& term) {
  for (int i = 0; i < b.length; ++i) {
    float y[16];
    for (int l = 0; l < 16; ++l) {
      const int64_t at = int64_t{l} * b.length + i;
      const float x = b.x[at], g = b.upstream[at], plain = g * b.slope[at];
      const float sign = x == 0.0f ? 0.0f : (x < 0.0f ? -1.0f : 1.0f);
      y[l] = b.is_live[l] ? plain + term(l, x, g, b.decoded[at], b.slope[at], sign) : plain;
    }
    for (int l = 0; l < 16; ++l) out[int64_t{l} * b.length + i] = y[l];
  }
}

static void scale_terms(float* out, const TermBlocks& b, const ScaleFactors& f) {
  const float alpha = b.alpha, g = b.tensor_factor;
  const auto softmax = [&](int l, float x) {
    return elementary::exp(alpha * (magnitude(x) - f.hard[l])) / f.softmax_sum[l];
  };
  float is_open[16];  // no maximum so far
  for (int l = 0; l < 16; ++l) is_open[l] = 1.0f;
  // Whether x is the first maximum of its block.
  const auto is_first = [&](int l, float x) {
    const bool first = magnitude(x) == f.hard[l] && is_open[l] != 0.0f;
    is_open[l] = first ? 0.0f : is_open[l];
    return first;
  };
  switch (b.kind) {
    case ScaleGradient::none: break;
    case ScaleGradient::absmax:
      return add_terms(out, b, [&](int l, float x, float, float, float, float sign) {
        const float term = f.ratio[l] * (sign / f.amax[l]) * f.sum[l];
        return is_first(l, x) ? term : 0.0f;
      });
    case ScaleGradient::absmax_diagonal:
      return add_terms(out, b, [&](int l, float x, float up, float decoded, float slope, float sign) {
        const float term = f.ratio[l] * (sign / f.amax[l]) * (up * (decoded - x * slope));
        return is_first(l, x) ? term : 0.0f;
      });
    case ScaleGradient::hardsoftmax:
    case ScaleGradient::softsoftmax:
      return add_terms(out, b, [&](int l, float x, float, float, float, float sign) {
        return f.ratio[l] * (sign * (softmax(l, x) / f.amax[l])) * f.sum[l];
      });
    case ScaleGradient::absmax_as_published:
      return add_terms(out, b, [&](int l, float x, float up, float decoded, float slope, float) {
        const float term = f.ratio[l] * (magnitude(decoded) / (g * f.amax[l]) - up * slope);
        return magnitude(x) == f.hard[l] ? term : 0.0f;
      });
    case ScaleGradient::hardsoftmax_as_published:
    case ScaleGradient::softsoftmax_as_published:
      return add_terms(out, b, [&](int l, float x, float up, float decoded, float slope, float sign) {
        return f.slope[l] * softmax(l, x) * (sign * decoded / g - magnitude(x) * up * slope) / f.amax[l];
      });
  }
}

}  // namespace fp4::sim::FP4_ISA
