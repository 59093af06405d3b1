// Blocks of 16 or 32 along rows: how the payloads of a spec come from its elements.
#pragma once

#include "src/cpu/quantize/blocks_body.h"
#include "src/cpu/simd/lanes.h"

namespace fp4::FP4_ISA {

// How a payload comes from an element: `power` and `product` have a factor that gives it (the product rounded to fp32),
// `quotient` two that enclose the exact one.
enum class RunKind : uint8_t { none, power, product, quotient };

// Whether codes come from draws of eight bits on the code axis of e2m1.
inline bool draws_for_runs(const QuantPlan& p) {
  return p.code_path == CodePath::stochastic_fp4 && p.q.rounding == Rounding::stochastic && p.q.random_bits == 8;
}

// How the payloads of blocks of 16 or 32 come from their elements, whatever their rounding.
inline RunKind payload_kind(const QuantPlan& p) {
  if (is_real(p.spec.scale) || p.spec.block.kind != BlockKind::vector) return RunKind::none;
  if (p.spec.block.size != 16 && p.spec.block.size != 32) return RunKind::none;
  switch (p.payload_path) {
    case PayloadPath::power: return RunKind::power;
    case PayloadPath::multiply: return p.q.prescale == 1.0f ? RunKind::product : RunKind::none;
    case PayloadPath::exact:
    case PayloadPath::encode_exact: return RunKind::quotient;
    case PayloadPath::power_in_bf16:
    case PayloadPath::divide:
    case PayloadPath::encode:
    case PayloadPath::none:
    case PayloadPath::scalar: break;
  }
  return RunKind::none;
}

// What the elements of sixteen blocks are multiplied by to be `steps` times their payloads; of a quotient an estimate
// within 2^-23 + 2^-46. false: some block's is out of reach.
FP4_SIMD bool block_factors(const QuantPlan& p, RunKind kind, float steps, I amax, const LaneScales& s,
                            const LaneFactor& t, F& factor) {
  const M zero = amax == all(0);
  if (kind == RunKind::power) {
    if (any((s.code < all(27)) & ~zero)) return false;
    factor = inverse_power(s.code) * all(p.q.prescale * steps);
  } else if (kind == RunKind::product) {
    factor = rounded_factors(p, s, t).first;
    if (any((factor == as_float(all(0x7F800000))) & ~zero)) return false;  // times 0: NaN
  } else {
    const bool encode = p.payload_path == PayloadPath::encode_exact;
    const F full = all(steps * p.q.prescale);
    const F divisor = encode ? t.g : s.value * t.g;
    factor = (encode ? full * s.stored : full) / divisor;
    if (any(~((factor < all(0x1p100f)) & (factor > all(0x1p-100f)) & (divisor > all(0x1p-100f))) & ~zero)) return false;
  }
  factor = select(zero, all(1.0f), factor);
  return true;
}

}  // namespace fp4::FP4_ISA
