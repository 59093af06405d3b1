// Payloads of a block in the orders of operations of arithmetic.h, as floats: the fp32 result where the order rounds to
// fp32, else the exact quotient rounded to odd (format_lanes_body.h says why that is enough).
#pragma once

#include "src/cpu/quantize/load_body.h"
#include "src/cpu/quantize/scales_body.h"
#include "src/cpu/simd/lanes.h"

namespace fp4::FP4_ISA {

using cpu::PayloadPath;

// Beyond every element format's largest value, within reach of float-to-integer tricks.
FP4_SIMD F clamped_payload(F u) { return smaller(larger(u, all(-0x1p20f)), all(0x1p20f)); }

// 1/s of e8m0 codes.
FP4_SIMD F inverse_power(I code) { return as_float(larger(shift_left<23>(all(254) - code), all(0x00400000))); }

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

// The ratio of an exact payload to its element as first * (1 + second), within 2^-43, or 1/s and s (has_short_divisor);
// or, where an order rounds to fp32, the divisor (`divide`), the factor (`multiply`), or a divisor and a factor
// (`encode`): tensor factor and stored multiplier, or s and S.
struct PayloadFactors {
  F first;
  F second;
};

// Whether exact payloads are x/s with s of at most 8 bits: remainders are exact in fp32 then.
inline bool has_short_divisor(const QuantPlan& p) {
  return p.payload_path == PayloadPath::exact && !p.has_tensor_factor && p.q.prescale == 1.0f &&
         p.spec.scale != Scale::fp32;
}

// false: lanes with scales of 0 or NaN, or far from 1, which need more.
FP4_SIMD bool exact_factors(const QuantPlan& p, const LaneScales& s, const LaneFactor& t, PayloadFactors& out) {
  if (p.payload_path == PayloadPath::encode_exact) return false;
  F f;
  F e;
  if (has_short_divisor(p)) {
    f = all(1.0f) / s.value;
    e = s.value;
  } else if (p.spec.scale == Scale::fp32) {  // products with 24-bit scales are exact in fp64 only
    const PayloadRatio r = payload_ratio(p, s, t);
    const D ratio = r.numerator / r.denominator;
    f = narrowed(ratio);
    e = narrowed(ratio - widened(f)) / f;
  } else {
    f = all(p.q.prescale) / (s.value * t.g);
    const F product = f * s.value;
    const F rest = fma(f, s.value, all(0.0f) - product);
    const F missing = fma(all(0.0f) - product, t.g, all(p.q.prescale)) - rest * t.g;
    e = missing * all(1.0f / p.q.prescale);
    e = fma(e, e, e);
  }
  out = {f, e};
  return !any(~((f < all(0x1p60f)) & (f > all(0x1p-60f))));
}

FP4_SIMD F magnitude(F x) { return as_float(bits(x) & all(0x7FFFFFFF)); }

// The exact payload rounded to odd: x*f*(1 + e) = high + low, both within 2^-43, from fused operations. Odd follows
// from the sign of low, unless low is so small (2^-41) that its sign, or its being zero, is in doubt: not `sure`.
FP4_SIMD F odd_estimate(F x, const PayloadFactors& c, M& sure) {
  const F product = x * c.first;
  const F rest = fma(product, c.second, fma(x, c.first, all(0.0f) - product));
  const F high = product + rest;
  const F low = rest - (high - product);
  const F size = magnitude(high);
  sure = (magnitude(low) > size * all(0x1p-41f)) & (size > all(0x1p-60f));
  return odd_beside(high, low);
}

// The same by a division: the quotient is within an ulp once corrected, and its remainder, zero or of the right sign,
// is exact while |x| > 2^-110. Exact quotients are common: all of those by a power of two are.
FP4_SIMD F odd_short_quotient(F x, const PayloadFactors& c, M& sure) {
  const F first = x * c.first;
  const F quotient = fma(negated_fma(first, c.second, x), c.first, first);
  const F rest = negated_fma(quotient, c.second, x);
  const F size = magnitude(quotient);
  sure = (size > all(0x1p-50f)) & (size < all(0x1p60f));
  return select(rest == all(0.0f), quotient, odd_beside(quotient, rest));
}

template <bool has_short>
FP4_SIMD F exact_odd_payload(F x, const PayloadFactors& c, M& sure) {
  const M zero = x == all(0.0f);
  M found;
  const F u = has_short ? odd_short_quotient(x, c, found) : odd_estimate(x, c, found);
  sure = sure & (zero | found);
  return select(zero, x, clamped_payload(u));
}

template <bool has_short>
FP4_SIMD bool odd_payloads(const PayloadFactors& c, Columns x, int n, LaneBuffer u) {
  M sure = mask_from_bits(0xFFFF);
  for (int k = 0; k < n; ++k) store(u[k], exact_odd_payload<has_short>(load(x[k]), c, sure));
  return !any(~sure);
}

// false: some element was in doubt, u is not to be used.
FP4_SIMD bool quick_odd_payloads(const QuantPlan& p, const LaneScales& s, const LaneFactor& t, Columns x, int n,
                                 LaneBuffer u) {
  PayloadFactors c;
  if (!exact_factors(p, s, t, c)) return false;
  return has_short_divisor(p) ? odd_payloads<true>(c, x, n, u) : odd_payloads<false>(c, x, n, u);
}

// Factors of the orders that round to fp32.
FP4_SIMD PayloadFactors rounded_factors(const QuantPlan& p, const LaneScales& s, const LaneFactor& t) {
  const M dead = s.stored == all(0.0f);
  const F scale = select(is_nan(s.value), all(1.0f), s.value);  // NaN blocks hold zeros by now: their codes are 0
  const F zero = all(0.0f);
  if (p.q.stores_multiplier()) return {t.g, s.stored};
  switch (p.q.order_of_payload()) {
    case PayloadOrder::of_arithmetic: break;
    case PayloadOrder::divide: return {select(dead, all(0x1p127f), scale * t.g), zero};
    case PayloadOrder::divide_global: return {select(dead, all(0x1p127f), scale / t.te_multiplier), zero};
    case PayloadOrder::divide_then_multiply: return {select(dead, as_float(all(0x7F800000)), scale), t.te_multiplier};
    case PayloadOrder::te: return {smaller(all(1.0f) / (scale * t.g), all(float_of(float_largest_bits))), zero};
    case PayloadOrder::vllm: return {select(dead, zero, all(1.0f) / (scale * t.g)), zero};
    case PayloadOrder::reciprocal: return {select(dead, zero, all(1.0f) / t.g / scale), zero};
    case PayloadOrder::multiply_global: return {select(dead, zero, t.te_multiplier / scale), zero};
  }
  return {zero, zero};
}

template <PayloadPath path>
FP4_SIMD F rounded_payload(const QuantPlan& p, F x, const PayloadFactors& c) {
  F y;
  if constexpr (path == PayloadPath::encode) {
    y = x / c.first * c.second;
  } else {  // divisors may underflow to 0, factors overflow
    y = select(x == all(0.0f), x, path == PayloadPath::divide ? x / c.first : x * c.first);
  }
  if (p.q.prescale != 1.0f) y = y * all(p.q.prescale);
  return clamped_payload(y);
}

// One exact product with the scale's inverse and the prescale, rounded to odd so that directed roundings see an
// underflow; `plain` where neither counts.
inline bool has_plain_powers(const QuantPlan& p) { return p.q.prescale == 1.0f && !p.is_directed; }
FP4_SIMD F power_payload(const QuantPlan& p, F x, F inverse, bool plain) {
  if (plain) return clamped_payload(x * inverse);
  const D scale = widened(inverse) * all_double(static_cast<double>(p.q.prescale));
  return clamped_payload(narrowed_to_odd(widened(x) * scale));
}

// A scale of 0 (`keep`) gives payload +-0, but for `te`. One copy: nine would be a third of a backend's code.
FP4_TARGET __attribute__((noinline)) inline void form_payloads(const QuantPlan& p, const LaneScales& s,
                                                               const LaneFactor& t, Columns x, int n, LaneBuffer u) {
  switch (p.payload_path) {
    case PayloadPath::divide: {
      const M dead = s.stored == all(0.0f);
      const PayloadFactors c = rounded_factors(p, s, t);
      for (int k = 0; k < n; ++k) {
        const F y = rounded_payload<PayloadPath::divide>(p, load(x[k]), c);
        store(u[k], select(dead, as_float(bits(y) & all(0x80000000u)), y));
      }
      return;
    }
    case PayloadPath::multiply: {
      const PayloadFactors c = rounded_factors(p, s, t);
      for (int k = 0; k < n; ++k) store(u[k], rounded_payload<PayloadPath::multiply>(p, load(x[k]), c));
      return;
    }
    case PayloadPath::encode: {
      const PayloadFactors c = rounded_factors(p, s, t);
      for (int k = 0; k < n; ++k) store(u[k], rounded_payload<PayloadPath::encode>(p, load(x[k]), c));
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
    case PayloadPath::power: {
      const F inverse = inverse_power(s.code);
      const bool plain = has_plain_powers(p);
      for (int k = 0; k < n; ++k) store(u[k], power_payload(p, load(x[k]), inverse, plain));
      return;
    }
    case PayloadPath::power_in_bf16: {
      const F inverse = inverse_power(s.code);
      const F most = all(p.largest_element);
      for (int k = 0; k < n; ++k)
        store(u[k], nearest_bf16(smaller(larger(load(x[k]) * inverse, all(0.0f) - most), most)));
      return;
    }
    case PayloadPath::none:
      for (int k = 0; k < n; ++k) store(u[k], load(x[k]));
      return;
    case PayloadPath::scalar: return;
  }
}

}  // namespace fp4::FP4_ISA
