// Maxima of sixteen adjacent blocks, lane = block, and from their scales what elements are multiplied by.
#pragma once

#include "src/cpu/quantize/fold_avx512.h"
#include "src/cpu/quantize/run_codes_avx512.h"

namespace fp4::avx512 {

// false: some block's factor, or a payload, is out of reach.
FP4_SIMD bool find_factors(const QuantPlan& p, const CodePlan& r, I amax, const LaneScales& s, const LaneFactor& t,
                           RunFactors& out) {
  F factor;
  if (!block_factors(p, r.kind, r.steps, amax, s, t, factor)) return false;
  if (r.codes == RunCodes::bytes) {
    store(out.low, factor);
    return true;
  }
  if (r.codes == RunCodes::draws) {
    const bool exact = r.kind != RunKind::product;  // 256 times a payload's slope in each part of the code axis
    store(out.low, factor * all(exact ? 512.0f : 1.0f));
    store(out.high, factor * all(256.0f));
    store(out.third, factor * all(128.0f));
    if (r.kind == RunKind::power) store(out.end, s.value * all(r.end));
    return true;
  }
  // floor + ceil must stay below 64.
  const float largest = r.kind == RunKind::product ? 32.0f / r.steps : (r.kind == RunKind::power ? 32.0f : 31.0f);
  if (any(~(as_float(amax) * factor < all(largest)))) return false;
  if (r.kind == RunKind::quotient) {  // the estimate is within 2^-23 + 2^-46
    store(out.low, factor * all(1.0f - 0x1p-22f));
    store(out.high, factor * all(1.0f + 0x1p-22f));
  } else {
    store(out.low, factor);
  }
  return true;
}

}  // namespace fp4::avx512
