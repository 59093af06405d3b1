// Payloads of adjacent elements in any order of operations: what blocks need is worked out for sixteen of them at a
// time (lane = block), and each vector of elements takes its own block's.
#pragma once

#include "src/cpu/quantize/payload_body.h"
#include "src/cpu/simd/avx512.h"

namespace fp4::avx512 {

inline constexpr int longest_segment = 16 * 256;  // elements: sixteen tiles of the longest Hadamard
inline constexpr int usual_segment = 1024;        // that many wherever sixteen blocks are fewer

// PayloadFactors of blocks in memory.
struct SegmentFactors {
  alignas(64) float first[longest_segment / 8 + 1];  // two may be read at once
  alignas(64) float second[longest_segment / 8];
};

// Those of sixteen blocks from `block` on. false: some block needs the ways of the lanes.
FP4_SIMD bool segment_factors(const QuantPlan& p, int block, I amax, const LaneScales& s, const LaneFactor& t,
                              SegmentFactors& out) {
  const M zero = amax == all(0);
  PayloadFactors c = {all(1.0f), all(0.0f)};
  M known = mask_from_bits(0xFFFF);
  switch (p.payload_path) {
    case PayloadPath::none: break;
    case PayloadPath::power: c.first = inverse_power(s.code); break;
    case PayloadPath::exact:
    case PayloadPath::encode_exact: {
      LaneScales alive = s;  // zeros need no scale
      alive.value = select(zero, all(1.0f), s.value);
      alive.stored = select(zero, all(1.0f), s.stored);
      if (!exact_factors(p, alive, t, c)) return false;
      break;
    }
    case PayloadPath::divide:
    case PayloadPath::multiply:
    case PayloadPath::encode: {
      const bool te = p.payload_path == PayloadPath::multiply && p.q.arithmetic == Arithmetic::te;
      c = rounded_factors(p, s, t);
      known = (s.stored > all(0.0f)) & (c.first < all(float_of(float_infinity_bits)));
      if (te) known = mask_from_bits(0xFFFF);
      break;
    }
    case PayloadPath::scalar: return false;
  }
  store(out.first + block, select(zero, all(1.0f), c.first));
  store(out.second + block, select(zero, all(0.0f), c.second));
  return !any(~(known | zero));
}

// A block has `1 << log2` elements, at least 8.
template <bool halves>
FP4_SIMD PayloadFactors factors_of_vector(const SegmentFactors& f, int v, int log2) {
  if constexpr (halves) {
    const M first = first_lanes(8);
    return {select(first, all(f.first[2 * v]), all(f.first[2 * v + 1])),
            select(first, all(f.second[2 * v]), all(f.second[2 * v + 1]))};
  }
  const int block = v >> (log2 - 4);
  return {all(f.first[block]), all(f.second[block])};
}

template <PayloadPath path, bool halves>
FP4_SIMD bool segment_payloads(const QuantPlan& p, const SegmentFactors& f, int log2, const float* x, int vectors,
                               LaneBuffer u) {
  M sure = mask_from_bits(0xFFFF);
  const bool plain = has_plain_powers(p);
  const bool has_short = has_short_divisor(p);
  for (int v = 0; v < vectors; ++v) {
    const F e = load(x + v * panel_rows);
    const PayloadFactors c = factors_of_vector<halves>(f, v, log2);
    if constexpr (path == PayloadPath::exact) {
      store(u[v], has_short ? exact_odd_payload<true>(e, c, sure) : exact_odd_payload<false>(e, c, sure));
    } else if constexpr (path == PayloadPath::power) {
      store(u[v], power_payload(p, e, c.first, plain));
    } else {
      store(u[v], rounded_payload<path>(p, e, c));
    }
  }
  return !any(~sure);
}

template <bool halves>
FP4_TARGET __attribute__((noinline)) bool segment_payloads(const QuantPlan& p, const SegmentFactors& f, int log2,
                                                           const float* x, int vectors, LaneBuffer u) {
  switch (p.payload_path) {
    case PayloadPath::divide: return segment_payloads<PayloadPath::divide, halves>(p, f, log2, x, vectors, u);
    case PayloadPath::multiply: return segment_payloads<PayloadPath::multiply, halves>(p, f, log2, x, vectors, u);
    case PayloadPath::encode: return segment_payloads<PayloadPath::encode, halves>(p, f, log2, x, vectors, u);
    case PayloadPath::power: return segment_payloads<PayloadPath::power, halves>(p, f, log2, x, vectors, u);
    default: return segment_payloads<PayloadPath::exact, halves>(p, f, log2, x, vectors, u);
  }
}

}  // namespace fp4::avx512
