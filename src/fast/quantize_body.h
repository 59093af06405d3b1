// Quantises an operand into panels: sixteen rows in sixteen lanes, so that maxima, scale rules and rounding are plain
// vector code without shuffles. What has no vector path (see QuantPlan) goes lane by lane through the scalar core.
// Included once per instruction set, after isa_*.h.
#pragma once

#include "src/fast/draws_body.h"
#include "src/fast/fp4_codes_body.h"
#include "src/fast/level_body.h"
#include "src/fast/payload_body.h"

namespace fp4::FP4_ISA {

using fast::CodePath;

// What becomes of the codes.
enum class Values : uint8_t {
  element,  // element values, scales apart
  scaled,   // fl32(element * scale)
  decoded   // the full value, tensor scale and prescale included
};

struct PanelOptions {
  Values values = Values::element;
  int byte_offset = 0;        // added to every byte (side A: makes them unsigned)
  int correction_factor = 0;  // != 0: correction = -factor * sum of bytes over each run (side B)
  int64_t run = 0;            // elements along K between scale changes of the product
  bool neutral_zeros = true;  // all-zero blocks get scale 0, which takes part in no range
  int level_room = -1;        // >= 0: panels may become level (level_body.h); elements can be shifted this far
  bool postpones = false;     // complete_panel is the caller's
  bool makes_unsigned = false;
};

// Sixteen blocks, one a lane.
struct Block {
  int64_t row0;  // first row of the panel
  int rows;      // valid rows
  int64_t k0;    // first column
  int n;         // columns
  LaneBuffer x;  // [n][16] elements
  LaneBuffer u;  // [n][16] payloads, scratch
  I amax;        // bits of the maxima over finite elements
  M nonfinite;   // lanes with Inf or NaN
  LaneFactor factor;
  LaneScales scales;
};

// Where a block goes; null pointers are not wanted.
struct Sink {
  int8_t* bytes;    // [n/4][16][4]
  float* values;    // [n][16]
  uint32_t* codes;  // [n][16], sign included
};

// Everything a panel quantiser carries around.
struct Quantization {
  const QuantPlan* plan = nullptr;
  PanelOptions options;
  DrawPlan draws;
  TableConstants table;
  FormatLanes element;
  FormatLanes scale;
  Panels* out = nullptr;
  Quantized* stored = nullptr;  // codes and scales in the files' layout instead of panels
};

FP4_SIMD void find_maxima(Block& b) {
  I m0 = all(0);
  I m1 = all(0);
  const I mask = all(0x7FFFFFFF);
  for (int k = 0; k < b.n; k += 2) {
    m0 = larger_unsigned(m0, bits(load(b.x[k])) & mask);
    m1 = larger_unsigned(m1, bits(load(b.x[k + 1])) & mask);
  }
  b.amax = larger_unsigned(m0, m1);
  b.nonfinite = b.amax >= all(0x7F800000);
  if (!any(b.nonfinite)) return;
  I finite = all(0);
  for (int k = 0; k < b.n; ++k) {
    const I a = bits(load(b.x[k])) & mask;
    finite = larger(finite, select(a >= all(0x7F800000), all(0), a));
  }
  b.amax = finite;
}

// Blocks whose scale becomes NaN: their codes are 0.
FP4_SIMD void poison_blocks(const QuantPlan& p, Block& b) {
  if (!any(b.nonfinite) || p.q.nonfinite != Nonfinite::block_nan || !p.q.scale.has_nan()) return;
  b.scales.code = select(b.nonfinite, all(p.q.scale.nan_code), b.scales.code);
  b.scales.value = select(b.nonfinite, as_float(all(canonical_nan_bits)), b.scales.value);
  b.scales.stored = select(b.nonfinite, all(1.0f), b.scales.stored);
  b.scales.rare = b.scales.rare & ~b.nonfinite;
  for (int k = 0; k < b.n; ++k) store(b.x[k], select(b.nonfinite, all(0.0f), load(b.x[k])));
  b.nonfinite = mask_from_bits(0);
}

// Decoded value fl32(fl32(q*s/p)*g).
FP4_SIMD F decoded_value(const QuantPlan& p, F value, F scale, F g) {
  if (p.q.prescale == 1.0f) return value * scale * g;
  const D product = widened(value) * widened(scale);  // 28 bits at most with 24-bit scales: exact
  return narrowed(product / all_double(static_cast<double>(p.q.prescale))) * g;
}

// Nearest-even e2m1 values of the payloads of a trial, when fp32 can tell: in the `te` order the fp32 product is the
// payload; in the exact order an estimate within 2^-22 decides unless it lies near a multiple of 1/4, where all
// rounding boundaries are. The step of the binade, at least 1/2, is the unit of 2^(e+22), so adding that rounds. false:
// it cannot.
FP4_TARGET inline bool quick_trial(const Quantization& z, const Block& b, const LaneScales& s, int valid,
                                   LaneBuffer out) {
  const QuantPlan& p = *z.plan;
  const bool exact = p.payload_path == PayloadPath::exact;
  const bool te = p.payload_path == PayloadPath::multiply && p.q.arithmetic == Arithmetic::te && p.q.prescale == 1.0f;
  if (p.spec.element != Element::e2m1 || !(exact || te)) return false;
  const F divisor = s.value * b.factor.g;
  const F factor = te ? smaller(all(1.0f) / divisor, all(float_of(float_largest_bits))) : all(p.q.prescale) / divisor;
  const F top = as_float(b.amax) * factor;
  if (any(~((top < all(1000.0f)) & (factor < all(0x1p100f)) & (divisor > all(0x1p-100f))))) return false;
  M unsure = mask_from_bits(0);
  for (int k = 0; k < valid; ++k) {
    const I x = bits(load(b.x[k]));
    const F a = smaller(as_float(x & all(0x7FFFFFFF)) * factor, all(15.0f));
    if (exact) {
      const I shifted = bits(fma(a, all(4.0f), all(384.0f))) + all(2);  // units of 2^-15 of a quarter
      unsure = unsure | (no_bits(shifted, 0x7FFC) & some_bits(shifted, 0x3F8000));
    }
    const F unit = as_float(larger(bits(a) & all(0x7F800000), all(0x3F800000)) + all(22 << 23));
    const F rounded = smaller((a + unit) - unit, all(6.0f));
    store(out[k], as_float(bits(rounded) | (x & all(0x80000000u))));
  }
  return !any(unsure);
}

// Squared error of a trial scale, fp64, ascending k (block.h, trial_error).
FP4_TARGET inline D trial_errors(const Quantization& z, const Block& b, const LaneScales& s) {
  const QuantPlan& p = *z.plan;
  D sum = all_double(0.0);
  const int valid = static_cast<int>(p.cols - b.k0 < b.n ? p.cols - b.k0 : b.n);
  if (!quick_trial(z, b, s, valid, b.u)) {
    form_payloads(p, s, b.factor, b.x, b.n, b.u);
    for (int k = 0; k < valid; ++k) {
      const F u = load(b.u[k]);
      const F q = encode_lanes<Rounding::nearest_even>(z.element, u, 8, all(0)).value;
      store(b.u[k], as_float(bits(q) | (bits(u) & all(0x80000000u))));
    }
  }
  for (int k = 0; k < valid; ++k) {
    const D error = widened(load(b.x[k])) - widened(decoded_value(p, load(b.u[k]), s.value, b.factor.g));
    sum = sum + error * error;
  }
  return sum;
}

// Lanes where the second scale has the smaller squared error, from sums in fp32. Each is within (n + 3) 2^-24 < 2^-17
// of the exact sum, so sums that differ by 2^-15 of their total have the order of the fp64 sums of trial_errors;
// magnitudes serve, as a nearest rounding is odd. false: some lane is undecided or a trial needs more than fp32
// (quick_trial).
FP4_TARGET inline bool quick_choice(const Quantization& z, const Block& b, const LaneScales (&trial)[2], M& second) {
  const QuantPlan& p = *z.plan;
  if (p.spec.element != Element::e2m1 || p.payload_path != PayloadPath::exact || p.q.prescale != 1.0f) return false;
  const int valid = static_cast<int>(p.cols - b.k0 < b.n ? p.cols - b.k0 : b.n);
  const M zero = b.amax == all(0);
  F factor[2];
  for (int i = 0; i < 2; ++i) {
    const F divisor = trial[i].value * b.factor.g;
    factor[i] = all(1.0f) / divisor;
    const F top = as_float(b.amax) * factor[i];
    if (any(~((top < all(1000.0f)) & (factor[i] < all(0x1p100f)) & (divisor > all(0x1p-100f))))) return false;
  }
  M unsure = mask_from_bits(0);
  F sum[2] = {all(0.0f), all(0.0f)};
  for (int k = 0; k < valid; ++k) {
    const F x = as_float(bits(load(b.x[k])) & all(0x7FFFFFFF));
    for (int i = 0; i < 2; ++i) {
      const F a = smaller(x * factor[i], all(15.0f));
      const I shifted = bits(fma(a, all(4.0f), all(384.0f))) + all(2);  // as in quick_trial
      unsure = unsure | (no_bits(shifted, 0x7FFC) & some_bits(shifted, 0x3F8000));
      const F unit = as_float(larger(bits(a) & all(0x7F800000), all(0x3F800000)) + all(22 << 23));
      const F rounded = smaller((a + unit) - unit, all(6.0f));
      const F error = x - rounded * trial[i].value * b.factor.g;
      sum[i] = fma(error, error, sum[i]);
    }
  }
  const F total = sum[0] + sum[1];
  const F difference = as_float(bits(sum[0] - sum[1]) & all(0x7FFFFFFF));
  const M decided = (difference > total * all(0x1p-15f)) & (total > all(0x1p-100f)) & (total < all(0x1p100f));
  second = sum[1] < sum[0];
  return !any(unsure | ~(decided | zero));
}

// four_over_six and mse: the code of least error, in the order of block.h.
FP4_TARGET inline void try_scales(const Quantization& z, Block& b, I draw) {
  const QuantPlan& p = *z.plan;
  const bool four_over_six = p.q.scale_rule == ScaleRule::four_over_six;
  const F amax = select(b.amax == all(0), all(1.0f), as_float(b.amax));
  const F y = scale_quotients(p, amax, b.factor, p.largest_element, 1.0f);
  const I raw = rounded_scale(p, z.scale, y, draw);
  const M zero = b.amax == all(0);
  M rare = ~is_ordinary(y);
  LaneScales best;
  best.code = raw;
  int trials = 5;
  if (four_over_six) {
    const F y4 = scale_quotients(p, amax, b.factor, 2.0f * p.largest_element, 3.0f);
    rare = rare | ~is_ordinary(y4);
    const I code4 = rounded_scale(p, z.scale, y4, draw);
    LaneScales trial[2];
    trial[0].code = apply_policies(p, raw);
    trial[1].code = apply_policies(p, code4);
    for (LaneScales& t : trial) finish_scales(p, z.scale, t);
    M four = mask_from_bits(0);
    if (!quick_choice(z, b, trial, four)) four = trial_errors(z, b, trial[1]) < trial_errors(z, b, trial[0]);
    best.code = select(four, code4, raw);
    trials = 0;
  }
  D least = all_double(0.0);
  constexpr int offsets[] = {0, -1, 1, -2, 2};
  for (int i = 0; i < trials; ++i) {
    const I code = raw + all(offsets[i]);
    const M possible = (code >= all(p.q.scale.has_zero ? 1 : 0)) & ~(code > all(z.scale.largest_code));
    LaneScales trial;
    trial.code = apply_policies(p, select(possible, code, all(1)));
    finish_scales(p, z.scale, trial);
    const D error = trial_errors(z, b, trial);
    const M better = i == 0 ? possible : possible & ((error < least) | ~best.rare);
    if (i == 0) best.rare = possible;  // here: lanes that have an error to compare with
    if (i > 0) best.rare = best.rare | possible;
    best.code = select(better, code, best.code);
    least = select(better, error, least);
  }
  best.code = select(zero, all(p.zero_block_code), apply_policies(p, best.code));
  best.rare = (rare & ~zero) | b.nonfinite;
  finish_scales(p, z.scale, best);
  b.scales = best;
}

// quest_*: fp64 sums of x/g and its square over the block, then quest_exponent (scale_rule.h) in lanes. Scales with a
// mantissa, and constant blocks whose maximum is subnormal or has a tensor factor, are left to the scalar core.
FP4_TARGET inline void scales_from_variance(const Quantization& z, Block& b) {
  const QuantPlan& p = *z.plan;
  b.scales.code = all(0);
  b.scales.rare = mask_from_bits(0xFFFF);
  if (p.spec.scale == Scale::e8m0) {
    D sum = all_double(0.0);
    D squares = all_double(0.0);
    const D g = widened(b.factor.g);
    const int64_t valid = p.cols - b.k0 < b.n ? p.cols - b.k0 : b.n;
    for (int k = 0; k < valid; ++k) {
      D v = widened(load(b.x[k]));
      if (p.has_tensor_factor) v = v / g;
      sum = sum + v;
      squares = squares + v * v;
    }
    const D count = all_double(static_cast<double>(b.n));
    const D mean = sum / count;
    const D v = all_double(quest_clip * quest_clip) * (squares / count - mean * mean);
    const I field = exponent_fields(v);
    const M varies = (all_double(0.0) < v) & (field > all(0));
    const int shift = p.q.scale_rule == ScaleRule::quest_nearest ? 1 : 0;
    const I twice = field - all(1023 - shift);
    const I amax_field = shift_right<23>(b.amax);
    const I constant = amax_field - all(127 + p.q.element.max_exponent());
    const I exponent = select(varies, shift_right_signed<1>(twice), constant);
    const I code = smaller(larger(exponent + all(127), all(0)), all(z.scale.largest_code));
    const M zero = b.amax == all(0);
    const M known =
        varies | (mask_from_bits(p.has_tensor_factor ? 0 : 0xFFFF) & (amax_field > all(0)) & ~(all_double(0.0) < v));
    b.scales.code = select(zero, all(p.zero_block_code), apply_policies(p, code));
    b.scales.rare = (~known & ~zero) | b.nonfinite;
  }
  finish_scales(p, z.scale, b.scales);
}

FP4_TARGET inline uint32_t scale_draw(const QuantPlan& p, int64_t row, int64_t k0) {
  if (!is_stochastic(p.q.scale_rounding) || is_power_of_two_rule(p.q.scale_rule)) return 0;
  const int64_t block_row = (p.row_offset + row) / p.geometry.block_rows;
  const int64_t index = block_row * p.geometry.scale_cols + k0 / p.geometry.block_cols;
  return random_draw(p.place.scale_rounding(), static_cast<uint64_t>(index), p.q.random_bits);
}

FP4_TARGET inline I scale_draws(const QuantPlan& p, const Block& b) {
  if (!is_stochastic(p.q.scale_rounding)) return all(0);
  alignas(64) uint32_t draws[panel_rows];
  for (int lane = 0; lane < panel_rows; ++lane) draws[lane] = scale_draw(p, b.row0 + lane, b.k0);
  return load(draws);
}

// Lanes that the vector rules could not decide. Without the elements (2-D blocks) only the maximum is known, which is
// all that the rules with such lanes read.
FP4_TARGET inline void redo_scales(const Quantization& z, Block& b, bool from_elements) {
  const QuantPlan& p = *z.plan;
  alignas(64) uint32_t codes[panel_rows];
  alignas(64) float values[panel_rows];
  alignas(64) float stored[panel_rows];
  alignas(64) float maxima[panel_rows];
  alignas(64) float g[panel_rows];
  alignas(64) float multiplier[panel_rows];
  store(codes, b.scales.code);
  store(values, b.scales.value);
  store(stored, b.scales.stored);
  store(maxima, as_float(b.amax));
  store(g, b.factor.g);
  store(multiplier, b.factor.te_multiplier);
  const int64_t valid = p.cols - b.k0 < b.n ? p.cols - b.k0 : b.n;
  for (int lane = 0; lane < panel_rows; ++lane) {
    if ((to_bits(b.scales.rare) >> lane & 1u) == 0) continue;
    const BlockView whole = {&b.x[0][lane], 0, panel_rows, 1, larger<int64_t>(valid, 0), b.n};
    const BlockView maximum = {&maxima[lane], 0, 1, 1, 1, 1};
    codes[lane] = block_scale_code(p.q, from_elements ? whole : maximum, {g[lane], multiplier[lane]},
                                   scale_draw(p, b.row0 + lane, b.k0));
    values[lane] = scale_value(p.q, codes[lane]);
    stored[lane] = decode(p.q.scale, codes[lane]);
  }
  b.scales.code = load(codes);
  b.scales.value = load(values);
  b.scales.stored = load(stored);
}

// Scales of 1 x B blocks.
FP4_TARGET inline void find_scales(const Quantization& z, Block& b) {
  const QuantPlan& p = *z.plan;
  find_maxima(b);
  switch (p.scale_path) {
    case ScalePath::power:
    case ScalePath::quotient: b.scales = scales_from_maxima(p, z.scale, b.amax, b.factor, scale_draws(p, b)); break;
    case ScalePath::trials: try_scales(z, b, scale_draws(p, b)); break;
    case ScalePath::variance: scales_from_variance(z, b); break;
    case ScalePath::scalar:
    case ScalePath::none:
      b.scales = {all(0), all(1.0f), all(1.0f), mask_from_bits(p.scale_path == ScalePath::scalar ? 0xFFFF : 0)};
      break;
  }
  if (any(b.scales.rare)) redo_scales(z, b, true);
}

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
  for (int k = 0; k < b.n; ++k) {
    const uint32_t random = z.draws.wanted ? draw[k][lane] : 0u;
    const uint32_t code =
        is_nan(s) ? 0u : element_code(p.q, b.x[k][lane], codes[lane], {g[lane], multiplier[lane]}, random);
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
      const I r = is_stochastic(mode) ? load(draw[k]) : all(0);
      EncodedLanes e = encode_lanes<mode>(z.element, u, p.q.random_bits, r);
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

// Payloads fused with the table. `multiply`: the fp32 product is formed on the fly. `exact`, `encode_exact`: an fp32
// estimate of steps*p*x/(s*g), at most 2^-22 off in relation, is rounded to multiples of 2^-15; unless it lies within
// two of them of a rounding boundary (a whole number of steps; zero is none for these roundings) the exact payload has
// the same index, else the four vectors are formed anew through the exact quotient. false: not here, nothing is
// written.
FP4_TARGET inline bool fused_table_bytes(const Quantization& z, const Block& b, int8_t* out) {
  const QuantPlan& p = *z.plan;
  if (any(b.nonfinite)) return false;
  const F amax = as_float(b.amax);
  if (p.payload_path == PayloadPath::multiply && p.q.prescale == 1.0f && p.q.arithmetic == Arithmetic::te) {
    const F factor = smaller(all(1.0f) / (b.scales.value * b.factor.g), all(float_of(float_largest_bits)));
    if (any(~(amax * factor < all(1000.0f)))) return false;
    table_bytes<true>(z.table, b.x, b.n, all(1.0f), factor, out);
    return true;
  }
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
  for (int k = 0; k < b.n; k += 4) {
    I index[4];
    M unsure = mask_from_bits(0);
    for (int i = 0; i < 4; ++i) {
      const I v = bits(fma(load(b.x[k + i]), factor, magic));
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
  // Where products cannot be rounded down in one step, they must be exact to be fused.
  const bool power = p.payload_path == PayloadPath::power && (rounds_down || (p.q.prescale == 1.0f && !p.is_directed));
  if (p.code_path == CodePath::table && fused_table_bytes(z, b, out)) return;
  if (!power) form_payloads(p, b.scales, b.factor, b.x, b.n, b.u);
  const LaneBuffer x = power ? b.x : b.u;
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
  } else if (p.q.rounding == Rounding::stochastic) {
    stochastic_bytes<Rounding::stochastic>(x, b.n, inverse, lift, n_bits, offset, draw, out);
  } else if (p.q.rounding == Rounding::stochastic_midpoint) {
    stochastic_bytes<Rounding::stochastic_midpoint>(x, b.n, inverse, lift, n_bits, offset, draw, out);
  } else {
    stochastic_bytes<Rounding::stochastic_truncated>(x, b.n, inverse, lift, n_bits, offset, draw, out);
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
    const bool short_way = p.code_path != CodePath::generic && sink.values == nullptr && sink.codes == nullptr;
    if (short_way) {
      encode_fp4_bytes(z, b, draw, sink.bytes);
    } else {
      form_payloads(p, b.scales, b.factor, b.x, b.n, b.u);
      encode_any(z, b, draw, sink);
    }
  }
  if (!any(scalar_lanes)) return;
  for (int lane = 0; lane < panel_rows; ++lane) {
    if ((to_bits(scalar_lanes) >> lane & 1u) != 0) encode_lane(z, b, lane, draw, sink);
  }
}

// Codes [n][16] of a block to the rows of a Quantized; 8, 4, 2 or 1 codes make a dword of a row.
FP4_TARGET inline void store_codes(Quantized& q, const Block& b, const uint32_t* codes) {
  const int width = q.is_packed() ? 4 : 8 * q.code_bytes();
  const int per_dword = 32 / width;
  const int64_t row_bytes = q.code_row_bytes();
  const int64_t first = b.k0 * width / 8;
  const int64_t left = row_bytes - first;
  if (left <= 0) return;
  alignas(64) uint32_t dwords[128][panel_rows];
  const int count = b.n / per_dword;
  for (int i = 0; i < count; ++i) {
    I packed = load(codes + i * per_dword * panel_rows);
    for (int j = 1; j < per_dword; ++j) {
      packed = packed | shift_left(load(codes + (i * per_dword + j) * panel_rows), j * width);
    }
    store(dwords[i], packed);
  }
  const int64_t whole = smaller<int64_t>(count, left / 4);
  const int64_t rest = smaller<int64_t>(count * 4, left) - whole * 4;
  for (int r = 0; r < b.rows; ++r) {
    uint8_t* out = q.codes.data() + (b.row0 + r) * row_bytes + first;
    for (int64_t i = 0; i < whole; ++i) std::memcpy(out + 4 * i, &dwords[i][r], 4);
    if (rest > 0) std::memcpy(out + 4 * whole, &dwords[whole][r], static_cast<size_t>(rest));
  }
}

FP4_TARGET inline void store_scales(const QuantPlan& p, Quantized& q, const Block& b) {
  if (b.k0 >= p.cols) return;
  alignas(64) uint32_t codes[panel_rows];
  store(codes, b.scales.code);
  const bool real = is_real(q.spec.scale);
  for (int r = 0; r < b.rows; ++r) {
    const int64_t row = b.row0 + r;
    if (row % q.geometry.block_rows != 0) continue;
    const auto index =
        static_cast<size_t>(row / q.geometry.block_rows * q.geometry.scale_cols + b.k0 / q.geometry.block_cols);
    if (real) {
      q.real_scales[index] = decode(p.q.scale, codes[r]);
    } else {
      q.scales[index] = static_cast<uint8_t>(codes[r]);
    }
  }
}

struct Extremes {  // scale bits so far, lane by lane
  I least = {};
  I largest = {};
};

// Writes the scales of a block and notes range and NaN.
FP4_SIMD void note_scales(const Quantization& z, const Block& b, int64_t panel, Extremes& extremes) {
  Panels& out = *z.out;
  if (z.stored != nullptr) return store_scales(*z.plan, *z.stored, b);
  F scale = b.scales.value;
  const M nan = is_nan(scale);
  if (any(nan)) {
    out.nan_rows[panel] = static_cast<uint16_t>(out.nan_rows[panel] | to_bits(nan));
    scale = select(nan, all(0.0f), scale);
  }
  if (z.options.neutral_zeros) scale = select(b.amax == all(0), all(0.0f), scale);
  store(out.scale + (panel * out.scales_per_panel + b.k0 / out.block) * panel_rows, scale);
  const I s = bits(scale);
  extremes.least = smaller_unsigned(extremes.least, select(s == all(0), extremes.least, s));
  extremes.largest = larger(extremes.largest, s);
}

FP4_TARGET inline void note_corrections(const PanelOptions& options, Panels& out, int64_t panel) {
  const int8_t* bytes = out.panel_bytes(panel);
  const auto factor = static_cast<uint8_t>(options.correction_factor);
  const int64_t runs = out.padded / options.run;
  I total = all(0);
  for (int64_t run = 0; run < runs; ++run) {
    I sum = all(0);
    for (int64_t k = run * options.run; k < (run + 1) * options.run; k += 4) {
      sum = add_dots(sum, factor, load_bytes(bytes + k * panel_rows));
    }
    store(out.correction + (panel * runs + run) * panel_rows, all(0) - sum);
    total = total - sum;
  }
  store(out.total + panel * panel_rows, total);
}

// What is left to do when all bytes and scales of a panel are there.
FP4_TARGET inline void complete_panel(const PanelOptions& options, Panels& out, int64_t panel, bool may_level) {
  if (may_level && out.level[panel].possible) make_level(out, panel);
  if (options.makes_unsigned) make_unsigned(out, panel);
  if (options.correction_factor != 0) note_corrections(options, out, panel);
}

FP4_TARGET inline void close_panel(const PanelOptions& options, Panels& out, int64_t panel) {
  if (options.level_room >= 0) measure_level(out, panel, options.level_room);
  if (!options.postpones) complete_panel(options, out, panel, options.level_room >= 0);
}

FP4_SIMD Sink sink_at(const Panels& out, int64_t panel, int64_t k) {
  const int64_t at = (panel * out.padded + k) * panel_rows;
  return {out.bytes == nullptr ? nullptr : out.bytes + at, out.values == nullptr ? nullptr : out.values + at, nullptr};
}

FP4_SIMD void note_outer(const Quantization& z, int64_t panel, int64_t column, F g) {
  const Panels& out = *z.out;
  if (z.stored == nullptr) return store(out.outer + (panel * out.outer_count() + column) * panel_rows, g);
  alignas(64) float factors[panel_rows];
  store(factors, g);
  for (int r = 0; r < panel_rows && panel * panel_rows + r < z.plan->rows; ++r) {
    z.stored->tensor_scale[static_cast<size_t>((panel * panel_rows + r) * out.outer_count() + column)] = factors[r];
  }
}

// The factors of 16 rows and 128 columns (tensor_scale.h, outer128).
FP4_TARGET inline LaneFactor outer_factor(const QuantPlan& p, LaneBuffer x, int n) {
  I m = all(0);
  for (int k = 0; k < n; ++k) {
    const I a = bits(load(x[k])) & all(0x7FFFFFFF);
    m = larger(m, select(a >= all(0x7F800000), all(0), a));
  }
  const M zero = m == all(0);
  const F amax = as_float(m);
  const F full = all(p.q.target * p.largest_element);
  const F most = all(float_of(float_largest_bits));
  LaneFactor f = {all(1.0f), all(1.0f)};
  if (p.q.arithmetic == Arithmetic::te) {
    f.te_multiplier = select(zero, f.te_multiplier, smaller(full / amax, most));
    f.g = all(1.0f) / f.te_multiplier;
  } else {
    const F g = smaller(amax / full, most);
    f.g = select(zero, f.g, select(g == all(0.0f), all(power_of_two(-149)), g));
  }
  return f;
}

// 1 x B blocks: one pass over the operand. Unscaled operands are cut into pieces of 32.
FP4_TARGET inline void quantize_vector_panel(const Quantization& z, int64_t panel) {
  const QuantPlan& p = *z.plan;
  Panels& out = *z.out;
  alignas(64) float buffer[largest_chunk][panel_rows];
  alignas(64) float payloads[128][panel_rows];
  alignas(64) uint32_t draw[128][panel_rows];
  alignas(64) uint32_t codes[128][panel_rows];
  const int block = p.q.has_scale ? static_cast<int>(out.block) : 32;
  const bool outer = p.q.tensor_scale == TensorScale::outer128;
  const int least_chunk = outer && block < outer_scale_width ? outer_scale_width : block;
  const int chunk = p.hadamard.size > least_chunk ? p.hadamard.size : least_chunk;
  if (out.nan_rows != nullptr) out.nan_rows[panel] = 0;
  Extremes extremes = {all(0x7F800000), all(0)};
  LaneFactor factor = {all(p.factor.g), all(p.factor.te_multiplier)};
  if (!p.q.has_scale && p.spec.element == Element::fp32 && p.payload_path == PayloadPath::none &&
      p.hadamard.size == 0 && out.values != nullptr) {  // nothing to round: straight into the panel
    for (int64_t k = 0; k < out.padded; k += block) {
      load_chunk(p, panel * panel_rows, k, block, reinterpret_cast<LaneBuffer>(sink_at(out, panel, k).values));
    }
    return;
  }
  for (int64_t k0 = 0; k0 < out.padded; k0 += chunk) {
    load_chunk(p, panel * panel_rows, k0, chunk, buffer);
    for (int64_t k = k0; k < k0 + chunk && k < out.padded; k += block) {
      if (outer && k % outer_scale_width == 0 && k < p.cols) {
        factor = outer_factor(p, buffer + (k - k0), outer_scale_width);
        note_outer(z, panel, k / outer_scale_width, factor.g);
      }
      Block b;
      b.row0 = panel * panel_rows;
      b.rows = static_cast<int>(p.rows - b.row0 < panel_rows ? p.rows - b.row0 : panel_rows);
      b.k0 = k;
      b.n = block;
      b.x = buffer + (k - k0);
      b.u = payloads;
      b.factor = factor;
      find_scales(z, b);
      if (p.q.has_scale) poison_blocks(p, b);
      if (z.draws.wanted) fill_draws(p, z.draws, b.row0, k, block, draw);
      Sink sink = sink_at(out, panel, k);
      if (z.stored != nullptr) sink.codes = codes[0];
      encode_block(z, b, draw, sink);
      if (z.stored != nullptr) store_codes(*z.stored, b, codes[0]);
      if (p.q.has_scale) note_scales(z, b, panel, extremes);
    }
  }
  if (out.range == nullptr) return;
  out.range[panel] = {static_cast<uint32_t>(smallest_lane(extremes.least)),
                      static_cast<uint32_t>(largest_lane(extremes.largest))};
  close_panel(z.options, out, panel);
}

}  // namespace fp4::FP4_ISA
