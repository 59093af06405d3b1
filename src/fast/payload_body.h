// Payloads of a block in the orders of operations of arithmetic.h, as floats: the fp32 result where the order rounds to
// fp32, else the exact quotient rounded to odd (format_lanes_body.h says why that is enough).
#pragma once

#include "src/fast/load_body.h"
#include "src/fast/scales_body.h"

namespace fp4::FP4_ISA {

using fast::PayloadPath;

// Beyond every element format's largest value, within reach of float-to-integer tricks.
FP4_SIMD F clamped_payload(F u) { return smaller(larger(u, all(-0x1p20f)), all(0x1p20f)); }

// 1/s of e8m0 codes.
FP4_SIMD F inverse_power(I code) { return as_float(larger(shift_left<23>(all(254) - code), all(0x00400000))); }

// The exact quotient x*a/b rounded to odd, where a/b is p/(s*g), or mu*p/g for stored multipliers: a/b = f*(1 + e) and
// then x*f*(1 + e) = high + low, both within 2^-43, from fused operations. Odd follows from the sign of low, unless
// low is so small (2^-41) that its sign, or its being zero, is in doubt. false: some element was, u is not to be used.
FP4_SIMD bool quick_odd_payloads(const QuantPlan& p, const LaneScales& s, const LaneFactor& t, Columns x, int n,
                                 LaneBuffer u) {
  const bool is_wide = p.spec.scale == Scale::fp32;  // products with 24-bit scales are inexact
  if (is_wide && (p.has_tensor_factor || (p.payload_path == PayloadPath::encode_exact && p.q.prescale != 1.0f)))
    return false;
  F f;
  F e;
  if (p.payload_path == PayloadPath::encode_exact) {
    const F a = s.stored * all(p.q.prescale);
    f = a / t.g;
    e = fma(all(0.0f) - f, t.g, a) / a;
  } else {
    f = all(p.q.prescale) / (s.value * t.g);
    const F product = f * s.value;
    const F rest = fma(f, s.value, all(0.0f) - product);
    const F missing = fma(all(0.0f) - product, t.g, all(p.q.prescale)) - rest * t.g;
    e = missing * all(1.0f / p.q.prescale);
  }
  e = fma(e, e, e);
  // Lanes with scales of 0 or NaN, or far from 1, take the other way.
  if (any(~((f < all(0x1p60f)) & (f > all(0x1p-60f))))) return false;
  M sure = mask_from_bits(0xFFFF);
  const I magnitude = all(0x7FFFFFFF);
  for (int k = 0; k < n; ++k) {
    const F v = load(x[k]);
    const F product = v * f;
    const F rest = fma(product, e, fma(v, f, all(0.0f) - product));
    const F high = product + rest;
    const F low = rest - (high - product);
    const F size = as_float(bits(high) & magnitude);
    const M zero = v == all(0.0f);
    sure = sure & (zero | ((as_float(bits(low) & magnitude) > size * all(0x1p-41f)) & (size > all(0x1p-60f))));
    const I toward_zero = bits(high) + shift_right_signed<31>(bits(high) ^ bits(low));
    store(u[k], select(zero, v, clamped_payload(as_float(toward_zero | all(1)))));
  }
  return !any(~sure);
}

// The exact payload x*p/(s*g), or x*mu*p/g of stored multipliers, as a quotient; dead lanes have a scale of 0.
struct PayloadRatio {
  D numerator;
  D denominator;
  bool divides;
  M dead;
};

FP4_SIMD PayloadRatio payload_ratio(const QuantPlan& p, const LaneScales& s, const LaneFactor& t) {
  const bool encode = p.payload_path == PayloadPath::encode_exact;
  const M dead = s.stored == all(0.0f);
  const F scale = select(is_nan(s.value), all(1.0f), s.value);
  const D prescale = all_double(static_cast<double>(p.q.prescale));
  if (encode) return {widened(s.stored) * prescale, widened(t.g), p.has_tensor_factor, dead};
  return {prescale, widened(select(dead, all(0x1p127f), scale)) * widened(t.g), true, dead};
}
FP4_SIMD D exact_payload(const PayloadRatio& r, F x) {
  const D y = widened(x) * r.numerator;
  return r.divides ? odd_quotient(y, r.denominator) : y;
}

// A scale of 0 (`keep`) gives payload +-0, but for `te`.
FP4_SIMD void form_payloads(const QuantPlan& p, const LaneScales& s, const LaneFactor& t, Columns x, int n,
                            LaneBuffer u) {
  const F prescale = all(p.q.prescale);
  const bool has_prescale = p.q.prescale != 1.0f;
  const M dead = s.stored == all(0.0f);
  const F scale = select(is_nan(s.value), all(1.0f), s.value);  // NaN blocks hold zeros by now: their codes are 0
  switch (p.payload_path) {
    case PayloadPath::divide: {
      const F divisor = select(dead, all(0x1p127f), scale * t.g);
      for (int k = 0; k < n; ++k) {
        const F v = load(x[k]);
        F y = select(v == all(0.0f), v, v / divisor);  // s*g may underflow to 0
        if (has_prescale) y = y * prescale;
        store(u[k], clamped_payload(select(dead, as_float(bits(y) & all(0x80000000u)), y)));
      }
      return;
    }
    case PayloadPath::multiply: {
      const bool te = p.q.arithmetic == Arithmetic::te;
      const F factor = te ? smaller(all(1.0f) / (scale * t.g), all(float_of(float_largest_bits)))
                          : select(dead, all(0.0f), all(1.0f) / t.g / scale);
      for (int k = 0; k < n; ++k) {
        const F v = load(x[k]);
        F y = select(v == all(0.0f), v, v * factor);
        if (has_prescale) y = y * prescale;
        store(u[k], clamped_payload(y));
      }
      return;
    }
    case PayloadPath::encode: {
      for (int k = 0; k < n; ++k) {
        F y = load(x[k]) / t.g * s.stored;
        if (has_prescale) y = y * prescale;
        store(u[k], clamped_payload(y));
      }
      return;
    }
    case PayloadPath::exact:
    case PayloadPath::encode_exact: {
      if (quick_odd_payloads(p, s, t, x, n, u)) return;
      const PayloadRatio ratio = payload_ratio(p, s, t);
      for (int k = 0; k < n; ++k) {
        const F v = load(x[k]);
        const F odd = narrowed_to_odd(exact_payload(ratio, v));
        store(u[k], clamped_payload(select(ratio.dead, as_float(bits(v) & all(0x80000000u)), odd)));
      }
      return;
    }
    case PayloadPath::power: {  // one exact product; rounded to odd so that directed roundings see an underflow
      const F inverse = inverse_power(s.code);
      const D scale = widened(inverse) * all_double(static_cast<double>(p.q.prescale));
      const bool plain = !has_prescale && !p.is_directed;
      for (int k = 0; k < n; ++k) {
        const F v = load(x[k]);
        store(u[k], clamped_payload(plain ? v * inverse : narrowed_to_odd(widened(v) * scale)));
      }
      return;
    }
    case PayloadPath::none:
      for (int k = 0; k < n; ++k) store(u[k], load(x[k]));
      return;
    case PayloadPath::scalar: return;
  }
}

}  // namespace fp4::FP4_ISA
