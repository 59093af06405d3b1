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

// A scale of 0 (`keep`) gives payload +-0, but for `te`.
FP4_SIMD void form_payloads(const QuantPlan& p, const LaneScales& s, const LaneFactor& t, LaneBuffer x, int n,
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
      const bool encode = p.payload_path == PayloadPath::encode_exact;
      const D numerator = encode ? widened(s.stored) * all_double(static_cast<double>(p.q.prescale))
                                 : all_double(static_cast<double>(p.q.prescale));
      const D denominator = encode ? widened(t.g) : widened(select(dead, all(0x1p127f), scale)) * widened(t.g);
      const bool divides = !encode || p.has_tensor_factor;
      for (int k = 0; k < n; ++k) {
        D y = widened(load(x[k])) * numerator;
        if (divides) y = y / denominator;
        F odd = narrowed_to_odd(y);
        store(u[k], clamped_payload(select(dead, as_float(bits(odd) & all(0x80000000u)), odd)));
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
