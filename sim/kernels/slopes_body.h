// Payloads and slopes of the estimators, for runs of elements that share a scale.
#pragma once

#include "sim/kernels/set.h"
#if FP4_CPU == 512
#include "sim/kernels/powers_avx512.h"
#endif

namespace fp4::sim::FP4_ISA {

#if FP4_CPU != 512
static void powers(float* out, const float* x, float y, int64_t n) {
  for (int64_t i = 0; i < n; ++i) out[i] = elementary::pow(x[i], y);
}
#endif

// Payloads of elements first .. first + n - 1 of a row, each rounded once, as saved_payload (fp4/estimator.h) defines
// them.
static bool payloads(float* __restrict u, const float* __restrict x, int first, int n, const SlopeRule& r) {
  const float prescale = r.prescale;
  uint64_t ambiguous = 0;
  for (int begin = 0; begin < n;) {
    const int block = (first + begin) / r.block;
    const int left = (block + 1) * r.block - first;
    const int end = n < left ? n : left;
    switch (r.payload) {
      case SlopeRule::Payload::times: {
        const float factor = r.factor[block];
        for (int i = begin; i < end; ++i) u[i] = (x[i] * factor) * prescale;
        break;
      }
      case SlopeRule::Payload::over: {
        const float factor = r.factor[block];
        for (int i = begin; i < end; ++i) u[i] = (x[i] / factor) * prescale;
        break;
      }
      case SlopeRule::Payload::wide: {
        const double numerator = r.ratio[2 * block], denominator = r.ratio[2 * block + 1];
        for (int i = begin; i < end; ++i) {
          const double q = static_cast<double>(x[i]) * numerator / denominator;
          u[i] = static_cast<float>(q);
          // A quotient that fp64 puts exactly between two floats may have been rounded onto that place.
          ambiguous |= static_cast<uint64_t>((__builtin_bit_cast(uint64_t, q) & 0x1FFFFFFFu) == 0x10000000u);
        }
        break;
      }
    }
    begin = end;
  }
  return ambiguous == 0;
}

// The bucket of w in [0, M] on the element grid, by truncating the mantissa (bucket_of in fp4/estimator.h). Its width
// is a power of two, so that multiplying by `per_delta` is dividing by delta.
struct Step {
  float low, delta, per_delta, middle;
};
struct BucketOf {
  float below_largest;
  int32_t least_field, mantissa_bits;
  inline __attribute__((always_inline)) Step operator()(float w) const {
    const float v = w < below_largest ? w : below_largest;
    const int32_t field = static_cast<int32_t>(bits_of(v) >> 23);
    const int32_t step_field = (field > least_field ? field : least_field) - mantissa_bits;
    const float delta = float_of(static_cast<uint32_t>(step_field) << 23);
    const float per_delta = float_of(static_cast<uint32_t>(254 - step_field) << 23);
    const float low = static_cast<float>(static_cast<int32_t>(v * per_delta)) * delta;
    return {low, delta, per_delta, low + 0.5f * delta};
  }
};

constexpr int slope_piece = 256;

// Estimators that act at the upper end of the range only.
static bool is_at_upper_end(Estimator e) {
  return e == Estimator::dge_raw_as_published || e == Estimator::sigmoid_as_published ||
         e == Estimator::spline_as_published;
}

static void slopes_of(float* __restrict slope, const float* __restrict u, int n, const SlopeRule& r) {
  float base[slope_piece], power[slope_piece];
  const EstimatorSpec e = r.estimator;
  const float largest = r.largest;
  const BucketOf bucket = {float_of(bits_of(largest) - 1u), r.least_exponent + 127, r.mantissa_bits};
  const auto clamped = [=](float v) { return magnitude(v) < largest ? magnitude(v) : largest; };
  switch (e.estimator) {
    case Estimator::ste:
      for (int i = 0; i < n; ++i) slope[i] = 1.0f;
      break;
    case Estimator::clipped_ste:
      for (int i = 0; i < n; ++i) slope[i] = magnitude(u[i]) <= largest ? 1.0f : 0.0f;
      break;
    case Estimator::dge:
      for (int i = 0; i < n; ++i) {
        const Step b = bucket(clamped(u[i]));
        base[i] = magnitude(2.0f * (clamped(u[i]) - b.low) * b.per_delta - 1.0f);
      }
      powers(power, base, 1.0f / e.estimator_k - 1.0f, n);
      for (int i = 0; i < n; ++i) {
        const float s = 1.0f / e.estimator_k * power[i];
        slope[i] = base[i] == 0.0f || e.estimator_cap < s ? e.estimator_cap : s;
      }
      break;
    case Estimator::dge_raw:
    case Estimator::dge_raw_as_published:
      for (int i = 0; i < n; ++i) base[i] = magnitude(clamped(u[i]) - bucket(clamped(u[i])).middle);
      powers(power, base, 1.0f / e.estimator_k - 1.0f, n);
      for (int i = 0; i < n; ++i) {
        const float s = bucket(clamped(u[i])).delta / 2.0f * (1.0f / e.estimator_k) * power[i];
        slope[i] = base[i] == 0.0f ? 0.0f : s;
      }
      break;
    case Estimator::sigmoid:
    case Estimator::sigmoid_as_published:
      for (int i = 0; i < n; ++i) {
        const Step b = bucket(clamped(u[i]));
        const float sg = elementary::sigmoid((clamped(u[i]) - b.middle) * 12.0f * b.per_delta / e.temperature);
        const float s = sg * (1.0f - sg) * 12.0f / e.temperature;
        slope[i] = s < e.lb ? e.lb : (s > e.ub ? e.ub : s);
      }
      break;
    case Estimator::spline:
    case Estimator::spline_as_published: {
      const float step = 2.0f * largest / 39.0f;
      for (int i = 0; i < n; ++i) {
        const float position = (clamped(u[i]) + largest) / step;
        const float s = r.spline[position >= 38.0f ? 38 : static_cast<int>(position)];
        slope[i] = s < e.lb ? e.lb : (s > e.ub ? e.ub : s);
      }
      break;
    }
  }
  if (is_at_upper_end(e.estimator))
    for (int i = 0; i < n; ++i) slope[i] = u[i] >= largest ? slope[i] : 1.0f;
}

// A mask of payloads that are one product: all of it in one loop.
static void clipped(float* __restrict out, const float* __restrict upstream, const float* __restrict x, int n,
                    const SlopeRule& r) {
  const float prescale = r.prescale, largest = r.largest;
  for (int begin = 0; begin < n; begin += r.block) {
    const int end = n - begin < r.block ? n : begin + r.block;
    const float factor = r.factor[begin / r.block];
    for (int i = begin; i < end; ++i)
      out[i] = upstream[i] * (magnitude((x[i] * factor) * prescale) <= largest ? 1.0f : 0.0f);
  }
}

static bool slopes(float* out, const float* upstream, const float* x, int n, const SlopeRule& r) {
  if (r.estimator.estimator == Estimator::clipped_ste && r.payload == SlopeRule::Payload::times) {
    clipped(out, upstream, x, n, r);
    return true;
  }
  float u[slope_piece], slope[slope_piece];
  for (int begin = 0; begin < n; begin += slope_piece) {
    const int count = n - begin < slope_piece ? n - begin : slope_piece;
    if (!payloads(u, x + begin, begin, count, r)) return false;
    slopes_of(slope, u, count, r);
    for (int i = 0; i < count; ++i) out[begin + i] = upstream[begin + i] * slope[i];
  }
  return true;
}

}  // namespace fp4::sim::FP4_ISA
