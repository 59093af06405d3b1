// Short ways of encoding blocks in formats that have no table: bf16 by integer rounding of its bit pattern, e3m0,
// powers of two, by the exponent of an fp32 estimate of the payload, and values alone by adding a power of two. Lanes
// with infinities and NaN are the caller's.
#pragma once

#include "src/cpu/quantize/block_scales_body.h"
#include "src/cpu/simd/lanes.h"

namespace fp4::FP4_ISA {

inline bool is_nearest_bf16(const Quantization& z) {
  const QuantPlan& p = *z.plan;
  return z.element.is_bf16 && p.payload_path == PayloadPath::none && p.q.rounding == Rounding::nearest_even &&
         p.q.negative_zero != NegativeZero::drop && z.stored == nullptr && z.out->values != nullptr &&
         z.out->bytes == nullptr;
}

// n columns to the nearest bf16. false: infinities or NaN are among them, what is written is not to be used.
FP4_TARGET inline bool quick_bf16_columns(Columns x, int n, float* out) {
  I largest = all(0);
  for (int k = 0; k < n; ++k) {
    const F v = load(x[k]);
    largest = larger_unsigned(largest, bits(v) & all(0x7FFFFFFF));
    store(out + k * panel_rows, nearest_bf16(v));
  }
  return !any(largest >= all(0x7F800000));
}

// The nearest value of a format that has a zero and a mantissa. 2^23 steps of the payload's binade have a unit in the
// last place of one step, so adding them rounds, ties to an even number of steps; that is the even code, but for powers
// of two, where it is always the upper one.
struct NearestValue {
  I largest;
  I least;     // exponent field of subnormals
  I to_steps;  // of a binade's field

  FP4_SIMD F of_magnitude(F u) const {
    const I a = smaller(bits(u), largest);
    const F steps = as_float(larger(a & all(0x7F800000), least) + to_steps);
    return (as_float(a) + steps) - steps;
  }
  FP4_SIMD F operator()(F u) const { return as_float(bits(of_magnitude(magnitude(u))) | (bits(u) & all(0x80000000u))); }
};

FP4_SIMD NearestValue nearest_value(const FormatLanes& f) {
  return {bits(all(f.largest_value)), all(f.least_field << 23), all((23 - f.mantissa_bits) << 23)};
}

// Element values to nearest, without codes. false: not such a block, nothing is written.
FP4_TARGET inline bool quick_values(const Quantization& z, const Block& b, float* out) {
  const QuantPlan& p = *z.plan;
  const FormatLanes& f = z.element;
  const bool bare = z.options.values == Values::element || (!p.q.has_scale() && p.q.prescale == 1.0f);
  if (!bare || f.overflows || !f.has_zero || f.mantissa_bits == 0 || p.q.rounding != Rounding::nearest_even ||
      p.q.negative_zero == NegativeZero::drop) {
    return false;
  }
  const NearestValue nearest = nearest_value(f);
  const bool power = p.payload_path == PayloadPath::power && p.q.prescale == 1.0f;
  const F factor = power ? inverse_power(b.scales.code) : all(1.0f);
  if (!power) form_payloads(p, b.scales, b.factor, b.x, b.n, b.u);
  const Columns x = power ? b.x : Columns(b.u);
  for (int k = 0; k < b.n; ++k) store(out + k * panel_rows, nearest(load(x[k]) * factor));
  return true;
}

// Payloads x*p/(s*g) to multiples of the quantum, for formats of powers of two and zero. The estimate is at most 2^-22
// off in relation; boundaries lie at 1.5 times a power of two and at half of the smallest one, and an estimate within 8
// units of the last place of one of them sends the whole block to the caller. false: so it is, or not such a block.
FP4_TARGET inline bool quick_power_bytes(const Quantization& z, const Block& b, int8_t* out) {
  const QuantPlan& p = *z.plan;
  if (z.element.mantissa_bits != 0 || !z.element.has_zero || p.payload_path != PayloadPath::exact ||
      p.q.rounding != Rounding::nearest_even) {
    return false;
  }
  const F divisor = b.scales.value * b.factor.g;
  const F factor = all(p.q.prescale) / divisor;
  if (any(~((as_float(b.amax) * factor < all(0x1p20f)) & (factor < all(0x1p100f)) & (factor > all(0x1p-100f)) &
            (divisor > all(0x1p-100f))))) {
    return false;
  }
  const int least_field = z.element.least_field;
  const I least = all(least_field);
  const I largest = all(least_field + z.element.largest_code - 1);
  const I half_of_least = all((least_field - 1) << 23);
  M unsure = mask_from_bits(0);
  for (int k = 0; k < b.n; k += 4) {
    I fixed[4];
    for (int i = 0; i < 4; ++i) {
      const I u = bits(load(b.x[k + i]) * factor);
      const I a = u & all(0x7FFFFFFF);
      const I raised = a + all(0x400000);
      const I from_half = a - half_of_least;
      unsure = unsure | no_bits(raised + all(8), 0x7FFFF0) | less_unsigned(from_half + all(8), all(16));
      const I field = smaller(larger(shift_right<23>(raised), least), largest);
      const I magnitude = select(from_half < all(0), all(0), shift_left(all(1), field - least));
      fixed[i] = select(u < all(0), all(0) - magnitude, magnitude) + all(z.options.byte_offset);
    }
    store(out + k * panel_rows, packed_lanes_unsigned(fixed[0], fixed[1], fixed[2], fixed[3]));
  }
  return !any(unsure);
}

}  // namespace fp4::FP4_ISA
