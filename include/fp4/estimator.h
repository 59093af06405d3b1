// Gradient estimators: the backward of the quantisers of fprop. With G the gradient of the decoded operand,
//   dL/dx = G * Q'(u)  +  scale-gradient term,   fp32 in the order written.
// Sources: STE; QuEST 2502.05003 (mask); Wang et al. 2501.17116 (DGE); 2509.17791 (dge_raw, sigmoid, spline, scale
// terms).
// `*_as_published` keep the slips of that paper's code (estimators at u >= +M only, G left out of decoded parts), so
// that its finding "STE is as good" can be tested again.
#pragma once

#include "fp4/block.h"

namespace fp4 {

enum class Estimator : uint8_t {
  ste,
  clipped_ste,
  dge,
  dge_raw,
  sigmoid,
  spline,
  dge_raw_as_published,
  sigmoid_as_published,
  spline_as_published
};
enum class ScaleGradient : uint8_t {
  none,
  absmax,
  absmax_diagonal,
  hardsoftmax,
  softsoftmax,
  absmax_as_published,
  hardsoftmax_as_published,
  softsoftmax_as_published
};

struct EstimatorInfo {
  Estimator id;
  const char* name;
  const char* doc;
  const char* source;
  int ops;         // vector operations per element in backward
  int saved_bits;  // kept per element from forward to backward: nothing, a mask, the payload in bf16
};
struct ScaleGradientInfo {
  ScaleGradient id;
  const char* name;
  const char* doc;
  const char* source;
  int ops;
};

// clang-format off
inline constexpr EstimatorInfo estimator_table[] = {
    {Estimator::ste, "ste", "1", "Bengio et al. 1308.3432", 0, 0},
    {Estimator::clipped_ste, "clipped_ste", "1 where |u| <= M, else 0", "QuEST 2502.05003", 1, 1},
    {Estimator::dge, "dge", "(1/k) |2(w-lo)/delta - 1|^(1/k-1), capped", "2501.17116", 15, 16},
    {Estimator::dge_raw, "dge_raw", "(delta/2)(1/k) |w-c|^(1/k-1)", "2509.17791 (baseline)", 15, 16},
    {Estimator::sigmoid, "sigmoid", "slope of a sigmoid step, clipped to [lb, ub]", "2509.17791", 12, 16},
    {Estimator::spline, "spline", "slope of the interpolant through 40 points, clipped", "2509.17791", 6, 16},
    {Estimator::dge_raw_as_published, "dge_raw_as_published", "dge_raw at u >= +M only", "2509.17791, released code", 15, 16},
    {Estimator::sigmoid_as_published, "sigmoid_as_published", "sigmoid at u >= +M only", "2509.17791, released code", 12, 16},
    {Estimator::spline_as_published, "spline_as_published", "spline at u >= +M only", "2509.17791, released code", 6, 16},
};
inline constexpr ScaleGradientInfo scale_gradient_table[] = {
    {ScaleGradient::none, "none", "the scale is a constant", "STE", 0},
    {ScaleGradient::absmax, "absmax", "full block vector-Jacobian product at the arg-max", "2509.17791, corrected", 2},
    {ScaleGradient::absmax_diagonal, "absmax_diagonal", "its diagonal", "2509.17791, corrected", 2},
    {ScaleGradient::hardsoftmax, "hardsoftmax", "arg-max spread by a softmax", "2509.17791, corrected", 12},
    {ScaleGradient::softsoftmax, "softsoftmax", "smooth maximum forward and backward", "2509.17791, corrected", 12},
    {ScaleGradient::absmax_as_published, "absmax_as_published", "G missing in the decoded part", "2509.17791, released code", 2},
    {ScaleGradient::hardsoftmax_as_published, "hardsoftmax_as_published", "G missing in the decoded part", "2509.17791, released code", 12},
    {ScaleGradient::softsoftmax_as_published, "softsoftmax_as_published", "G missing in the decoded part", "2509.17791, released code", 12},
};
// clang-format on
static_assert(ids_are_indices(estimator_table) && ids_are_indices(scale_gradient_table));

struct EstimatorSpec {
  Estimator estimator = Estimator::ste;
  ScaleGradient scale_gradient = ScaleGradient::none;
  Estimator scale_estimator = Estimator::ste;  // ste, dge, dge_raw or sigmoid on the scale grid
  float estimator_k = 5.0f;
  float estimator_cap = 3.0f;
  float temperature = 0.5f;
  float lb = 0.5f;
  float ub = 1e4f;
  float alpha = 1.0f;

  friend constexpr bool operator==(const EstimatorSpec&, const EstimatorSpec&) = default;
  // Whether the multiplier is 1 everywhere and the scale carries no gradient.
  constexpr bool is_straight_through() const {
    return estimator == Estimator::ste && scale_gradient == ScaleGradient::none;
  }
};

FP4_HD constexpr bool is_soft_maximum(ScaleGradient g) {
  return g == ScaleGradient::softsoftmax || g == ScaleGradient::softsoftmax_as_published;
}

// The bucket [lo, hi) of w on a format's grid (the last one closed), w in [0, M].
struct Bucket {
  float low, delta, middle;
};
FP4_HD constexpr Bucket bucket_of(const FloatFormat& f, float w) {
  uint32_t code = encode(f, exact_magnitude(w), false, {Rounding::toward_zero, 0, 0});
  if (code >= f.largest_code) code = f.largest_code - 1;
  const float low = decode(f, code);
  const float delta = decode(f, code + 1) - low;
  return {low, delta, low + 0.5f * delta};
}

// What nearest-even Q rises by from point j to the next of 40 equidistant ones on [-M, M] (e2m1: 0, 0.5, 1 or 2).
FP4_HD constexpr float spline_rise(const FloatFormat& f, int j) {
  const auto q = [&](int i) {  // Q at point i: -M + i*2M/39 = M*(2i - 39)/39, exactly
    const int n = 2 * i - 39;
    const Magnitude point =
        quotient(exact_product(f.largest(), {static_cast<uint64_t>(n < 0 ? -n : n), 0, false}), {39, 0, false});
    const float value = decode(f, encode(f, point, n < 0, {}));
    return n < 0 ? -value : value;
  };
  return q(j + 1) - q(j);
}

FP4_HD constexpr float clip(float x, float low, float high) { return x < low ? low : (x > high ? high : x); }

// Q'(u) on the grid of `f`. u: payload, signed, not clamped.
FP4_HD inline float estimator_multiplier(Estimator which, const EstimatorSpec& e, const FloatFormat& f, float u) {
  const float largest = decode(f, f.largest_code), w = clip(magnitude(u), 0.0f, largest);
  const bool is_published = which == Estimator::dge_raw_as_published || which == Estimator::sigmoid_as_published ||
                            which == Estimator::spline_as_published;
  if (is_published && !(u >= largest)) return 1.0f;
  const auto bucket = [&] { return bucket_of(f, w); };
  switch (which) {
    case Estimator::ste: return 1.0f;
    case Estimator::clipped_ste: return magnitude(u) <= largest ? 1.0f : 0.0f;
    case Estimator::dge:
    case Estimator::dge_raw:
    case Estimator::dge_raw_as_published: {
      const Bucket b = bucket();
      const bool is_raw = which != Estimator::dge;
      const float base = is_raw ? magnitude(w - b.middle) : magnitude(2.0f * (w - b.low) / b.delta - 1.0f);
      if (base == 0.0f) return is_raw ? 0.0f : e.estimator_cap;
      const float power = elementary::pow(base, 1.0f / e.estimator_k - 1.0f);
      return is_raw ? b.delta / 2.0f * (1.0f / e.estimator_k) * power
                    : clip(1.0f / e.estimator_k * power, 0.0f, e.estimator_cap);
    }
    case Estimator::sigmoid:
    case Estimator::sigmoid_as_published: {
      const Bucket b = bucket();
      const float sg = elementary::sigmoid((w - b.middle) * 12.0f / b.delta / e.temperature);
      return clip(sg * (1.0f - sg) * 12.0f / e.temperature, e.lb, e.ub);
    }
    case Estimator::spline:
    case Estimator::spline_as_published: {  // slope of the interpolant through those points
      const float step = 2.0f * largest / 39.0f, position = (w + largest) / step;
      return clip(spline_rise(f, position >= 38.0f ? 38 : static_cast<int>(position)) / step, e.lb, e.ub);
    }
  }
  return 1.0f;
}

// The payload of an element as saved by fprop: one fp32 rounding of the exact payload (the others are fp32 already).
FP4_HD constexpr float saved_payload(const Quantizer& q, float x, uint32_t scale_code, TensorFactor t) {
  if (magnitude_bits(x) == 0 || !is_finite(x)) return x;
  const float stored = q.has_scale() ? decode(q.scale, scale_code) : 1.0f;
  if (is_nan(stored)) return stored;
  if (stored == 0.0f && q.order_of_payload() != PayloadOrder::te) return 0.0f;
  const Magnitude u = q.has_scale() && q.stores_multiplier()
                          ? multiplier_payload(q.arithmetic, x, stored, t, q.prescale)
                          : payload(q.arithmetic, x, stored, t, q.prescale, Compute::fp32, q.payload);
  return round_to_float(u, is_negative(x), Rounding::nearest_even);
}

// s~: the stored scale of a block before rounding, from its (smooth) maximum. `code` chooses between the two of 4/6.
FP4_HD inline float unrounded_scale(const Quantizer& q, float amax, TensorFactor t, uint32_t code) {
  const auto fl32 = [](Magnitude m) { return round_to_float(m, false, Rounding::nearest_even); };
  // Rules of powers work on a/g in every order of operations, and `multiply` has no amax of y here.
  const bool is_exact = is_power_of_two_rule(q.scale_rule) || q.arithmetic == Arithmetic::multiply;
  const Arithmetic order = is_exact ? Arithmetic::exact : q.arithmetic;
  if (q.stores_multiplier()) {
    const Magnitude n = q.scale.has_zero ? q.element.largest() : Magnitude{1, q.element.max_exponent(), false};
    return fl32(multiplier_quotient(q.arithmetic, amax, n, t));
  }
  const Divisor divisor = q.divisor();
  const float plain = fl32(scale_quotient(order, amax, divisor, t));
  if (q.scale_rule != ScaleRule::four_over_six) return plain;
  const float four = fl32(larger_scale_quotient(order, amax, divisor, q.two_thirds(), t));
  const float chosen = decode(q.scale, code);
  return magnitude(chosen - plain) <= magnitude(chosen - four) ? plain : four;
}

// dL/dx of one block. `upstream`, `decoded` and `out` have the strides of x; scale_code is the block's stored code.
struct BlockGradient {
  const float* upstream;
  const float* decoded;
  float* out;
};

FP4_HD inline void block_gradient(const Quantizer& q, const EstimatorSpec& e, const BlockView& x, uint32_t scale_code,
                                  TensorFactor t, const BlockGradient& io) {
  const auto at = [&](int64_t r, int64_t c) { return r * x.row_stride + c * x.col_stride; };
  const auto slope = [&](int64_t r, int64_t c) {
    return estimator_multiplier(e.estimator, e, q.element, saved_payload(q, x.at(r, c), scale_code, t));
  };
  for (int64_t r = 0; r < x.rows; ++r) {
    for (int64_t c = 0; c < x.cols; ++c) io.out[at(r, c)] = io.upstream[at(r, c)] * slope(r, c);
  }
  const float hard_amax = block_maximum(x).amax;
  const float stored = q.has_scale() ? decode(q.scale, scale_code) : 0.0f;
  if (e.scale_gradient == ScaleGradient::none || hard_amax == 0.0f || !(stored > 0.0f)) return;

  const bool soft = is_soft_maximum(e.scale_gradient);
  const float amax = soft ? soft_maximum(x, hard_amax, e.alpha) : hard_amax;
  const float unrounded = unrounded_scale(q, amax, t, scale_code);
  const float q_prime = estimator_multiplier(e.scale_estimator, e, q.scale, unrounded);
  const float ratio = q_prime * (unrounded / stored);
  const auto weight = [&](float x) { return elementary::exp(e.alpha * (magnitude(x) - hard_amax)); };
  float sum = 0.0f;  // Sum = sum_i G_i (xhat_i - x_i Q'_i)
  float softmax_sum = 0.0f;
  for (int64_t r = 0; r < x.rows; ++r) {
    for (int64_t c = 0; c < x.cols; ++c) {
      sum = sum + io.upstream[at(r, c)] * (io.decoded[at(r, c)] - x.at(r, c) * slope(r, c));
      softmax_sum = softmax_sum + weight(x.at(r, c));
    }
  }
  bool found = false;
  for (int64_t r = 0; r < x.rows; ++r) {
    for (int64_t c = 0; c < x.cols; ++c) {
      const float xj = x.at(r, c);
      const float sign = xj == 0.0f ? 0.0f : (xj < 0.0f ? -1.0f : 1.0f);
      const float gj = io.upstream[at(r, c)];
      const float decoded = io.decoded[at(r, c)];
      const bool is_maximum = magnitude(xj) == hard_amax;
      const float softmax = weight(xj) / softmax_sum;
      float term = 0.0f;
      switch (e.scale_gradient) {
        case ScaleGradient::none: break;
        case ScaleGradient::absmax: term = is_maximum && !found ? ratio * (sign / amax) * sum : 0.0f; break;
        case ScaleGradient::absmax_diagonal:
          term = is_maximum && !found ? ratio * (sign / amax) * (gj * (decoded - xj * slope(r, c))) : 0.0f;
          break;
        case ScaleGradient::hardsoftmax:
        case ScaleGradient::softsoftmax: term = ratio * (sign * (softmax / amax)) * sum; break;
        case ScaleGradient::absmax_as_published:
          term = is_maximum ? ratio * (magnitude(decoded) / (t.g * amax) - gj * slope(r, c)) : 0.0f;
          break;
        case ScaleGradient::hardsoftmax_as_published:
        case ScaleGradient::softsoftmax_as_published:
          term = q_prime * softmax * (sign * decoded / t.g - magnitude(xj) * gj * slope(r, c)) / amax;
          break;
      }
      found = found || is_maximum;
      io.out[at(r, c)] = io.out[at(r, c)] + term;
    }
  }
}

}  // namespace fp4
