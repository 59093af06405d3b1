// Codes of sixteen blocks whose scales are known.
#pragma once

#include "src/cpu/quantize/quick_encode_body.h"
#include "src/cpu/simd/lanes.h"

namespace fp4::FP4_ISA {

// A lane through the scalar core. `b.x` holds the elements, the scale is known.
FP4_TARGET inline void encode_lane(const Quantization& z, const Block& b, int lane, const uint32_t (*draw)[panel_rows],
                                   const Sink& sink) {
  const QuantPlan& p = *z.plan;
  alignas(64) uint32_t codes[panel_rows];
  alignas(64) float values[panel_rows];
  alignas(64) float g[panel_rows];
  alignas(64) float multiplier[panel_rows];
  store(codes, b.scales.code);
  store(values, b.scales.value);
  store(g, b.factor.g);
  store(multiplier, b.factor.te_multiplier);
  const float s = values[lane];
  Quantizer q = p.q;
  // Elements that were prepared have the sign of zero that counts (load_body.h).
  if (p.prepares && q.negative_zero != NegativeZero::drop) q.negative_zero = NegativeZero::keep;
  for (int k = 0; k < b.n; ++k) {
    const uint32_t random = z.draws.wanted ? draw[k][lane] : 0u;
    const bool pads = b.k0 + k >= p.cols;
    const uint32_t code =
        is_nan(s) || pads ? 0u : element_code(q, b.x[k][lane], codes[lane], {g[lane], multiplier[lane]}, random);
    if (sink.codes != nullptr) sink.codes[k * panel_rows + lane] = code;
    if (sink.bytes != nullptr) {
      sink.bytes[(k / 4 * panel_rows + lane) * 4 + k % 4] =
          static_cast<int8_t>(decode_fixed(p.q.element, code) + z.options.byte_offset);
    }
    if (sink.values == nullptr) continue;
    float value = decode(p.q.element, code);
    if (z.options.values == Values::scaled) value = value * s;
    if (z.options.values == Values::decoded) value = element_value(p.q, code, s, g[lane]);
    sink.values[k * panel_rows + lane] = value;
  }
}

// Any format and rounding: payloads in b.u.
template <Rounding mode>
FP4_TARGET void encode_generic(const Quantization& z, const Block& b, const uint32_t (*draw)[panel_rows],
                               const Sink& sink) {
  const QuantPlan& p = *z.plan;
  const F to_fixed = all(power_of_two(-p.quantum_log2));
  const I sign_code = all(p.q.element.sign_code());
  const bool drops = p.q.negative_zero == NegativeZero::drop;
  for (int k0 = 0; k0 < b.n; k0 += 4) {
    I fixed[4];
    for (int i = 0; i < 4; ++i) {
      const int k = k0 + i;
      const F u = load(b.u[k]);
      const EncodedLanes e =
          encode_lanes<mode>(z.element, u, p.q.random_bits, is_stochastic(mode) ? load(draw[k]) : all(0));
      const I sign = bits(u) & all(0x80000000u);
      F value = as_float(bits(e.value) | sign);
      if (drops) value = select(e.code == all(0), all(0.0f), value);
      if (sink.codes != nullptr) {
        M negative = sign < all(0);
        if (drops) negative = negative & (e.code > all(0));
        store(sink.codes + k * panel_rows, or_where(negative, e.code, sign_code));
      }
      if (sink.values != nullptr) {
        if (z.options.values == Values::scaled) value = value * b.scales.value;
        if (z.options.values == Values::decoded) value = decoded_value(p, value, b.scales.value, b.factor.g);
        store(sink.values + k * panel_rows, value);
      }
      if (sink.bytes != nullptr) fixed[i] = truncated(value * to_fixed) + all(z.options.byte_offset);
    }
    if (sink.bytes != nullptr) {
      store(sink.bytes + k0 * panel_rows, packed_lanes_unsigned(fixed[0], fixed[1], fixed[2], fixed[3]));
    }
  }
}

FP4_TARGET inline void encode_any(const Quantization& z, const Block& b, const uint32_t (*draw)[panel_rows],
                                  const Sink& sink) {
  switch (z.plan->q.rounding) {
    case Rounding::nearest_even: return encode_generic<Rounding::nearest_even>(z, b, draw, sink);
    case Rounding::nearest_away: return encode_generic<Rounding::nearest_away>(z, b, draw, sink);
    case Rounding::nearest_toward_zero: return encode_generic<Rounding::nearest_toward_zero>(z, b, draw, sink);
    case Rounding::toward_zero: return encode_generic<Rounding::toward_zero>(z, b, draw, sink);
    case Rounding::away_from_zero: return encode_generic<Rounding::away_from_zero>(z, b, draw, sink);
    case Rounding::toward_positive: return encode_generic<Rounding::toward_positive>(z, b, draw, sink);
    case Rounding::toward_negative: return encode_generic<Rounding::toward_negative>(z, b, draw, sink);
    case Rounding::stochastic: return encode_generic<Rounding::stochastic>(z, b, draw, sink);
    case Rounding::stochastic_midpoint: return encode_generic<Rounding::stochastic_midpoint>(z, b, draw, sink);
    case Rounding::stochastic_truncated: return encode_generic<Rounding::stochastic_truncated>(z, b, draw, sink);
  }
}

// Whether the last half step below the largest value is rounded to it. Then larger payloads may stay there; with scales
// that hold amax/M the maximum is the largest value itself, a whole number of steps.
inline bool saturates_early(const QuantPlan& p) {
  const int top = 2 * static_cast<int>(p.steps * p.largest_element);
  return p.table[top - 1] == p.table[top] && p.table[128 - top + 1] == p.table[128 - top];
}

// Exact payloads fused with the table: an fp32 estimate of steps*p*x/(s*g), at most 2^-22 off in relation, is rounded
// to multiples of 2^-15; unless it lies within two of them of a rounding boundary (a whole number of steps; zero is
// none for these roundings) the exact payload has the same index, else the four vectors are formed anew through the
// exact quotient. false: not here, nothing is written.
FP4_TARGET inline bool fused_table_bytes(const Quantization& z, const Block& b, int8_t* out) {
  const QuantPlan& p = *z.plan;
  if (any(b.nonfinite)) return false;
  const F amax = as_float(b.amax);
  const bool encode = p.payload_path == PayloadPath::encode_exact && p.spec.scale != Scale::fp32;
  if ((p.payload_path != PayloadPath::exact && !encode) || p.is_directed) return false;
  const F full = all(p.steps * p.q.prescale);
  const F divisor = encode ? b.factor.g : b.scales.value * b.factor.g;
  const F factor = (encode ? full * b.scales.stored : full) / divisor;
  // Factors and products well inside fp32, indices inside the table.
  if (any(~((amax * factor < all(31.0f)) & (factor < all(0x1p100f)) & (factor > all(0x1p-100f)) &
            (divisor > all(0x1p-100f)))))
    return false;
  const F magic = all(384.0f);  // 1.5 * 2^8: units of 2^-15
  const bool clamps = is_real(p.spec.scale) && saturates_early(p);
  const F most = all(p.steps * p.largest_element - 0.5f);
  for (int k = 0; k < b.n; k += 4) {
    I index[4];
    M unsure = mask_from_bits(0);
    for (int i = 0; i < 4; ++i) {
      const F x = load(b.x[k + i]);
      const I v = bits(clamps ? larger(smaller(x * factor, most), all(0.0f) - most) + magic : fma(x, factor, magic));
      const I shifted = v + all(2);
      unsure = unsure | (no_bits(shifted, 0x7FFC) & some_bits(shifted, 0x3F8000));
      index[i] = odd_index(v);
    }
    if (any(unsure)) {
      form_payloads(p, b.scales, b.factor, b.x + k, 4, b.u);
      table_bytes<false>(z.table, b.u, 4, all(1.0f), all(1.0f), out + k * panel_rows);
      continue;
    }
    const B packed = packed_lanes(index[0], index[1], index[2], index[3]);
    store(out + k * panel_rows, look_up(z.table.table, packed));
  }
  return true;
}

// FP4 straight to bytes. For PayloadPath::power the elements are multiplied by 1/s inside the rounding; scales below
// 2^-100 would overflow factors like 2^17/s, so such lanes are lifted by 2^64, which is exact both ways.
FP4_TARGET inline void encode_fp4_bytes(const Quantization& z, const Block& b, const uint32_t (*draw)[panel_rows],
                                        int8_t* out) {
  const QuantPlan& p = *z.plan;
  const auto n_bits = static_cast<uint32_t>(p.q.random_bits);
  const int offset = z.options.byte_offset;
  // Where products cannot be rounded down in one step, they must be exact to be fused. Under a ceiling of scales they
  // have no bound, and need that of form_payloads.
  const bool power = p.payload_path == PayloadPath::power && p.q.scale_ceiling == 0.0f &&
                     (rounds_down || (p.q.prescale == 1.0f && !p.is_directed));
  if (p.code_path == CodePath::table && fused_table_bytes(z, b, out)) return;
  if (!power) form_payloads(p, b.scales, b.factor, b.x, b.n, b.u);
  const Columns x = power ? b.x : Columns(b.u);
  const M tiny = power ? b.scales.code < all(27) : mask_from_bits(0);
  const F lift = select(tiny, all(0x1p64f), all(1.0f));
  F inverse = all(1.0f);
  if (power) inverse = inverse_power(b.scales.code) * select(tiny, all(0x1p-64f), all(1.0f)) * all(p.q.prescale);
  if (p.code_path == CodePath::table) {
    if (any(tiny)) {
      table_bytes<true>(z.table, x, b.n, inverse, lift, out);
    } else {
      table_bytes<false>(z.table, x, b.n, inverse, lift, out);
    }
    return;
  }
  switch (p.q.rounding) {
    case Rounding::stochastic:
      return stochastic_bytes<Rounding::stochastic>(x, b.n, inverse, lift, n_bits, offset, draw, out);
    case Rounding::stochastic_midpoint:
      return stochastic_bytes<Rounding::stochastic_midpoint>(x, b.n, inverse, lift, n_bits, offset, draw, out);
    case Rounding::stochastic_truncated:
      return stochastic_bytes<Rounding::stochastic_truncated>(x, b.n, inverse, lift, n_bits, offset, draw, out);
  }
}

// Codes of sixteen blocks whose scales are known.
FP4_TARGET inline void encode_block(const Quantization& z, Block& b, const uint32_t (*draw)[panel_rows],
                                    const Sink& sink) {
  const QuantPlan& p = *z.plan;
  M scalar_lanes = b.nonfinite;
  if (p.payload_path == PayloadPath::scalar) {
    scalar_lanes = mask_from_bits(0xFFFF);
  } else {
    const bool bytes_only = sink.values == nullptr && sink.codes == nullptr;
    const bool values_only = sink.bytes == nullptr && sink.codes == nullptr;
    if (bytes_only && p.code_path != CodePath::generic) {
      encode_fp4_bytes(z, b, draw, sink.bytes);
    } else if (!(bytes_only && quick_power_bytes(z, b, sink.bytes)) &&
               !(values_only && quick_values(z, b, sink.values))) {
      form_payloads(p, b.scales, b.factor, b.x, b.n, b.u);
      encode_any(z, b, draw, sink);
    }
  }
  if (!any(scalar_lanes)) return;
  for (int lane = 0; lane < panel_rows; ++lane) {
    if ((to_bits(scalar_lanes) >> lane & 1u) != 0) encode_lane(z, b, lane, draw, sink);
  }
}

}  // namespace fp4::FP4_ISA
