// Scale codes of sixteen blocks at a time, from their maxima: scale_rule.h and arithmetic.h in lanes. Quotients are
// formed in fp64 and rounded to odd; for every rounding boundary T (at most 21 bits) and quotient a/b of a 26-bit by a
// 27-bit number, |a/b - T| is zero or above 2^-48 T, so one fp64 rounding never crosses T.
#pragma once

#include "src/cpu/quantize/format_lanes_body.h"
#include "src/cpu/quantize/quantize_plan.h"
#include "src/cpu/simd/lanes.h"

namespace fp4::FP4_ISA {

using cpu::QuantPlan;
using cpu::ScalePath;

// What a block's elements are divided by. Lanes are rows.
struct LaneFactor {
  F g;              // tensor factor
  F te_multiplier;  // its twin of the `te` order
};

struct LaneScales {
  I code;
  F value;   // decode-side scale, NaN for NaN codes
  F stored;  // the code's value: the scale, or the multiplier of `encode`
  M rare;    // lanes that the scalar core must redo
};

// Whether y is far from both ends of fp32, where the lane arithmetic below is exact.
FP4_SIMD M is_ordinary(F y) { return (y < all(0x1p126f)) & (y > all(0x1p-110f)); }

FP4_SIMD I apply_policies(const QuantPlan& p, I code) {
  code = smaller(larger(code, all(p.least_scale_code)), all(p.most_scale_code));
  if (p.q.scale.has_zero) code = select(code == all(0), all(p.code_instead_of_zero), code);
  return code;
}

// Exponent rules from the bits of a/g (exact or odd): code of 2^e.
FP4_SIMD I power_rule_codes(const QuantPlan& p, const FormatLanes& f, I a_bits) {
  const I add = p.rule_adds == nullptr ? all(p.rule_add) : gather(p.rule_adds, shift_right<23>(a_bits));
  const I e8m0_code = shift_right<23>(a_bits + add) - all(p.rule_subtract);
  if (!f.has_zero) return smaller(larger(e8m0_code, all(0)), all(f.largest_code));
  const int m = f.mantissa_bits;
  const int lowest = f.least_field - m;  // biased exponent of the smallest subnormal
  const int highest = (f.largest_code >> m) + f.least_field - 1;
  const I field = smaller(larger(e8m0_code, all(lowest)), all(highest));
  const I normal = shift_left(field - all(f.least_field - 1), m);
  const I subnormal = shift_left(all(1), larger(field - all(lowest), all(0)));
  return select(field < all(f.least_field), subnormal, normal);
}

// Rounds a positive quotient to the scale format.
FP4_SIMD I rounded_scale(const QuantPlan& p, const FormatLanes& f, F y) {
  if (p.spec.scale == Scale::fp32) return bits(y);
  if (p.q.scale_rounding == Rounding::toward_positive)
    return encode_lanes<Rounding::toward_positive>(f, y, 8, all(0)).code;
  if (p.q.scale_rounding == Rounding::nearest_away) return encode_lanes<Rounding::nearest_away>(f, y, 8, all(0)).code;
  return encode_lanes<Rounding::nearest_even>(f, y, 8, all(0)).code;
}

// x + low rounded to odd, where low, not zero, is less than the last place of x.
FP4_SIMD F odd_beside(F x, F low) {
  const I toward_zero = bits(x) + shift_right_signed<31>(bits(x) ^ bits(low));
  return as_float(toward_zero | all(1));
}

// Whether numerator/denominator is a float: 2M/3 of e2m1 is, of e3m0 or e4m3 not.
inline bool is_exact_quotient(float numerator, float denominator) {
  return static_cast<double>(numerator / denominator) * static_cast<double>(denominator) ==
         static_cast<double>(numerator);
}

// a/(M*g) in the order of operations; `m` is M or 2M/3 as numerator/denominator.
FP4_SIMD F scale_quotients(const QuantPlan& p, F amax, const LaneFactor& t, float numerator, float denominator) {
  const float m_rounded = numerator / denominator;
  switch (p.q.arithmetic) {
    case Arithmetic::divide:
    case Arithmetic::reciprocal: return amax / all(m_rounded) / t.g;
    case Arithmetic::te: return amax * (t.te_multiplier * all(1.0f / m_rounded));
    case Arithmetic::vllm: return t.te_multiplier * (amax * all(1.0f / m_rounded));
    case Arithmetic::divide_global:
    case Arithmetic::fouroversix: return t.te_multiplier * (amax / all(m_rounded));
    case Arithmetic::modelopt: return amax / (all(m_rounded) * t.g);
    case Arithmetic::factor_first: return amax / t.g / all(m_rounded);
    case Arithmetic::exact:
    case Arithmetic::multiply: break;
  }
  const D n = widened(amax) * all_double(static_cast<double>(denominator));
  const D d = widened(t.g) * all_double(static_cast<double>(numerator));
  return p.spec.scale == Scale::fp32 ? narrowed(n / d) : narrowed_to_odd(odd_quotient(n, d));
}

// a/(M*g) for rounding to the scale format. Within fp32 the quotient is at most 3 units of the last place off; eight
// units away from the middle of two scales that rounds as the exact one does.
FP4_SIMD F quotients_to_round(const QuantPlan& p, const FormatLanes& f, F amax, const LaneFactor& t, float numerator,
                              float denominator) {
  const float m = numerator / denominator;
  const bool nearest = p.q.scale_rounding == Rounding::nearest_even || p.q.scale_rounding == Rounding::nearest_away;
  const bool applies =
      p.q.arithmetic == Arithmetic::exact && nearest && !f.is_fp32 && is_exact_quotient(numerator, denominator);
  if (applies) {
    const F y = amax * (all(1.0f) / (t.g * all(m)));
    const int cut = 23 - f.mantissa_bits;
    const I from_middle = (bits(y) & all((1 << cut) - 1)) - all((1 << (cut - 1)) - 8);
    const M unsure = less_unsigned(from_middle, all(16)) | (bits(y) < all(f.least_field << 23)) |
                     ~(is_ordinary(y) & (t.g > all(0x1p-90f)) & (t.g < all(0x1p90f)));
    if (!any(unsure)) return y;
  }
  return scale_quotients(p, amax, t, numerator, denominator);
}

// N*g/a of the `encode` rule.
FP4_SIMD F multiplier_quotients(const QuantPlan& p, const FormatLanes& f, F amax, const LaneFactor& t) {
  const float n = f.has_zero ? p.largest_element : p.largest_power;
  if (p.q.arithmetic != Arithmetic::exact) return all(n) / amax * t.g;
  const D product = widened(t.g) * all_double(static_cast<double>(n));
  return p.spec.scale == Scale::fp32 ? narrowed(product / widened(amax))
                                     : narrowed_to_odd(odd_quotient(product, widened(amax)));
}

// Values from codes; codes of NaN blocks are handled by the caller.
FP4_SIMD void finish_scales(const QuantPlan& p, const FormatLanes& f, LaneScales& s) {
  if (p.spec.scale == Scale::fp32) {
    s.stored = as_float(s.code);
  } else if (f.is_bf16) {
    s.stored = as_float(shift_left<16>(s.code));
  } else {
    s.stored = decode_scale_lanes(f, s.code);
  }
  s.value = p.q.stores_multiplier() ? all(1.0f) / s.stored : s.stored;
}

// Scales of positive quotients from the smallest normal one on, to nearest even, of formats with a mantissa that no
// policy touches there. false: others.
FP4_SIMD bool nearest_normal_scales(const QuantPlan& p, const FormatLanes& f, F y, LaneScales& s) {
  const bool has_bounds = p.least_scale_code > 0 || p.q.scale_ceiling > 0.0f;
  if (p.q.scale_rounding != Rounding::nearest_even || !f.has_zero || f.is_fp32 || has_bounds) return false;
  const I b = bits(y);
  if (any(b < all(f.least_field << 23))) return false;
  const int cut = 23 - f.mantissa_bits;
  const int below = (f.least_field - 1) << f.mantissa_bits;  // codes that a float's exponent has beside the format's
  const I to_even = b + all((1 << (cut - 1)) - 1) + (shift_right(b, cut) & all(1));
  const I rounded = smaller(shift_right(to_even, cut), all(f.largest_code + below));
  s.code = rounded - all(below);
  s.stored = as_float(shift_left(rounded, cut));
  s.value = p.q.stores_multiplier() ? all(1.0f) / s.stored : s.stored;
  return true;
}

// The rules that read nothing but the maximum; four_over_six starts from this.
FP4_SIMD LaneScales scales_from_maxima(const QuantPlan& p, const FormatLanes& f, I amax, const LaneFactor& t) {
  LaneScales s;
  s.rare = mask_from_bits(0);
  const M zero = amax == all(0);
  const F a = select(zero, all(1.0f), as_float(amax));
  if (p.scale_path == ScalePath::power) {
    I quotient = bits(a);
    if (p.has_tensor_factor) {
      const F y = narrowed_to_odd(widened(a) / widened(t.g));
      s.rare = ~is_ordinary(y);
      quotient = bits(y);
      if (p.rule_is_irrational) {  // within one unit of the threshold the odd float cannot tell
        const I mantissa = quotient & all(0x7FFFFF);
        const I distance = mantissa + all(p.rule_add) - all(0x7FFFFF);
        s.rare = s.rare | ((distance >= all(-1)) & (distance < all(3)));
      }
    } else if (p.rule_subtract < 1 || p.rule_adds != nullptr) {  // e1m2, log2 of subnormals: the carry trick meets them
      s.rare = bits(a) < all(0x00800000);
    }
    s.code = power_rule_codes(p, f, quotient);
  } else {
    const F y = p.q.stores_multiplier() ? multiplier_quotients(p, f, a, t)
                                        : quotients_to_round(p, f, a, t, p.largest_element, 1.0f);
    s.rare = ~is_ordinary(y) & ~zero;
    if (nearest_normal_scales(p, f, y, s)) {
      if (!any(zero)) return s;
      s.code = select(zero, all(p.zero_block_code), s.code);
      finish_scales(p, f, s);
      return s;
    }
    s.code = rounded_scale(p, f, y);
  }
  s.rare = s.rare & ~zero;
  s.code = select(zero, all(p.zero_block_code), apply_policies(p, s.code));
  finish_scales(p, f, s);
  return s;
}

}  // namespace fp4::FP4_ISA
