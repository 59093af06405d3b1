// Quantises an operand into panels: sixteen rows in sixteen lanes, so that maxima, scale rules and rounding are plain
// vector code without shuffles. What has no vector path (see QuantPlan) goes lane by lane through the scalar core.
// Included once per instruction set, after load_body.h.
#pragma once

#include "src/fast/load_body.h"
#include "src/fast/quantize_plan.h"

namespace fp4::FP4_ISA {

using fast::CodePath;
using fast::PayloadPath;
using fast::ScalePath;

// 1.5 * 2^23: adding it to |t| < 2^22 leaves t, rounded to an integer, in the low bits.
inline constexpr float to_integer = 12582912.0f;

struct PanelOptions {
  int byte_offset = 0;        // added to every byte (side A: makes them unsigned)
  int correction_factor = 0;  // != 0: correction = -factor * sum of bytes over each run (side B)
  int64_t run = 0;            // elements along K between scale changes of the product
  bool neutral_zeros = true;  // all-zero blocks get scale 1, so that they never leave a fast path
};

// State of one block of 16 rows.
struct Block {
  int64_t row0;  // first row of the panel
  int rows;      // valid rows
  int64_t k0;    // first column of the block
  int n;         // columns
  LaneBuffer x;  // [n][16]
  I amax;        // bits of the block maxima
  M rare;        // lanes for the scalar core
  I scale_code;
  F scale;    // decode-side value
  F inverse;  // PayloadPath::power: p/s
};

struct DrawPlan {
  bool wanted = false;
  bool aligned = false;  // a row starts at a Philox block
  int bits = 8;
  int per_block = 16;  // draws in a Philox block
  int64_t first = 0;   // first position of the whole panel set: row_offset * cols
};

// The draws of columns k0..k0+n of 16 rows.
FP4_TARGET inline void fill_draws(const QuantPlan& p, const DrawPlan& d, int64_t row0, int64_t k0, int n,
                                  uint32_t (*draw)[panel_rows]) {
  const uint32_t mask = d.bits == 32 ? 0xFFFFFFFFu : (1u << d.bits) - 1u;
  const int per_word = 32 / d.bits;
  const auto cols = static_cast<uint64_t>(p.cols);
  const auto per_block = static_cast<uint64_t>(d.per_block);
  const uint64_t first = (static_cast<uint64_t>(p.row_offset + row0)) * cols + static_cast<uint64_t>(k0);
  if (d.aligned) {
    const I lane_step = multiply_low(lane_numbers(), all(static_cast<uint32_t>(cols / per_block)));
    for (int k = 0; k < n; k += d.per_block) {
      const I block = lane_step + all(static_cast<uint32_t>((first + static_cast<uint64_t>(k)) / per_block));
      const Words w = philox(block, p.place.stream, p.place.step, p.place.seed);
      for (int i = 0; i < d.per_block && k + i < n; ++i) {
        store(draw[k + i], shift_right(w.word[i / per_word], (i % per_word) * d.bits) & all(mask));
      }
    }
    return;
  }
  alignas(64) uint32_t words[128 / 4 + 8][panel_rows];
  alignas(64) uint32_t start[panel_rows];
  alignas(64) uint32_t phase[panel_rows];
  for (int lane = 0; lane < panel_rows; ++lane) {
    const uint64_t position = first + static_cast<uint64_t>(lane) * cols;
    start[lane] = static_cast<uint32_t>(position / per_block);
    phase[lane] = static_cast<uint32_t>(position % per_block);
  }
  const I lane_phase = load(phase);
  I block = load(start);
  for (int k = 0; k < n; k += 32) {  // 32 columns at a time touch at most 32/per_block + 1 Philox blocks
    const int count = n - k < 32 ? n - k : 32;
    const int blocks = (count + d.per_block - 1) / d.per_block + 1;
    for (int b = 0; b < blocks; ++b) {
      const Words w = philox(block + all(static_cast<uint32_t>(b)), p.place.stream, p.place.step, p.place.seed);
      for (int i = 0; i < 4; ++i) store(words[4 * b + i], w.word[i]);
    }
    for (int i = 0; i < count; ++i) {
      const I position = lane_phase + all(i);
      const I word = shift_right(position, __builtin_ctz(static_cast<unsigned>(per_word)));
      const I within_word = position & all(per_word - 1);
      const I value = gather(words[0], shift_left<4>(word) + lane_numbers());
      store(draw[k + i],
            shift_right(value, shift_left(within_word, __builtin_ctz(static_cast<unsigned>(d.bits)))) & all(mask));
    }
    block = block + all(32 / d.per_block);
  }
}

FP4_TARGET inline DrawPlan plan_draws(const QuantPlan& p) {
  DrawPlan d;
  d.wanted = is_stochastic(p.q.rounding);
  d.bits = p.q.random_bits;
  d.per_block = 128 / d.bits;
  d.aligned = p.cols % d.per_block == 0;
  return d;
}

FP4_SIMD I block_amax(LaneBuffer x, int n) {
  I m0 = all(0);
  I m1 = all(0);
  const I mask = all(0x7FFFFFFF);
  for (int k = 0; k < n; k += 2) {
    m0 = larger_unsigned(m0, bits(load(x[k])) & mask);
    m1 = larger_unsigned(m1, bits(load(x[k + 1])) & mask);
  }
  return larger_unsigned(m0, m1);
}

// Scale of ScalePath::power from the maxima; zero lanes included.
FP4_SIMD void power_scale(const QuantPlan& p, Block& b) {
  I code = shift_right<23>(b.amax + all(p.rule_add)) - all(p.rule_subtract);
  code = smaller(larger(code, all(0)), all(254));
  const M zero = b.amax == all(0);
  code = select(zero, all(p.zero_block_code), code);
  b.scale_code = code;
  b.scale = as_float(larger(shift_left<23>(code), all(0x00400000)));
  b.inverse = as_float(larger(shift_left<23>(all(254) - code), all(0x00400000))) * all(p.q.prescale);
  if (p.rule_subtract < 1) {  // e1m2: below 2^-126 the carry trick meets subnormals
    b.rare = b.rare | ((b.amax < all(0x00800000)) & ~zero);
  }
}

// Where s < 2^-100, factors like 2^17/s would overflow: such lanes are lifted by 2^64, which is exact both ways.
inline constexpr int tiny_scale_code = 27;
FP4_SIMD M tiny_scales(const Block& b) { return b.scale_code < all(tiny_scale_code); }

struct TableConstants {
  ByteTable table;
  float steps;
  bool clamp;
};

// Bytes of a block by table: index = floor(steps*u) + ceil(steps*u), which sees every tie exactly because the
// product is rounded once, down, to an integer.
// With `lifted` the elements of a lane are multiplied by 2^64 or 1 first.
template <bool lifted>
FP4_SIMD void table_bytes(const TableConstants& c, LaneBuffer x, int n, F inverse, F lift, int8_t* out) {
  const F factor = inverse * all(c.steps);
  const F magic = all(to_integer);
  for (int k = 0; k < n; k += 4) {
    I s[4];
    for (int i = 0; i < 4; ++i) {
      F u = load(x[k + i]);
      if (lifted) u = u * lift;
      s[i] = bits(fma_down(u, factor, magic)) - bits(negated_fma_down(u, factor, magic));
    }
    B index = packed_lanes(s[0], s[1], s[2], s[3]);
    if (c.clamp) index = within(index, -63, 63);
    store(out + k * panel_rows, look_up(c.table, index));
  }
}

// Stochastic rounding on the e2m1 grid: with step = max(2^(e-1), 1/2), |u| * 2^n/step rounded to an integer is
// 2^n*lo/step + rne(t), so one conversion gives code and fraction together.
template <Rounding mode>
FP4_SIMD I stochastic_fp4(F x, F inverse, uint32_t n_bits, I draw) {
  const I magnitude_mask = all(0x7FFFFFFF);
  const F a = as_float(bits(x) & magnitude_mask);
  const I one = all(0x3F800000);
  const I top = all(0x40C00000);  // 6: everything above saturates, so the exponent may stop at 4
  // Rounded down: u never crosses into a binade, or to 6, that p*x/s itself does not reach.
  const I u = smaller(bits(fma_down(a, inverse, all(0.0f))), top);
  const I binade = larger(u & all(0x7F800000), one);
  // 2^n/step = 2^(n + 1 - e); the midpoint variant needs one bit more
  const uint32_t extra = mode == Rounding::stochastic_midpoint ? 1 : 0;
  const F per_step = as_float(all((254u + n_bits + 1u + extra) << 23) - binade);
  I t;
  if (mode == Rounding::stochastic) {
    t = bits(fma(a, inverse * per_step, all(to_integer))) - all(0x4B400000);
  } else {
    t = bits(fma_down(a, inverse * per_step, all(to_integer))) - all(0x4B400000);
    if (mode == Rounding::stochastic_midpoint) t = shift_right<1>(t + all(1));
  }
  const I steps = shift_right(t + draw, static_cast<int>(n_bits));
  const I fixed = smaller(shift_left(steps, shift_right<23>(binade - one)), all(12));
  const I saturated = select(u >= top, all(12), fixed);
  const I sign = shift_right_signed<31>(bits(x));
  return (saturated ^ sign) - sign;
}

template <Rounding mode>
FP4_SIMD void stochastic_bytes(LaneBuffer x, int n, F inverse, F lift, uint32_t n_bits, int offset,
                               const uint32_t (*draw)[panel_rows], int8_t* out) {
  for (int k = 0; k < n; k += 4) {
    I v[4];
    for (int i = 0; i < 4; ++i) {
      v[i] = stochastic_fp4<mode>(load(x[k + i]) * lift, inverse, n_bits, load(draw[k + i]));
    }
    const B b = packed_lanes(v[0], v[1], v[2], v[3]);
    store(out + k * panel_rows, offset == 0 ? b : add_bytes(b, all_bytes(static_cast<int8_t>(offset))));
  }
}

// Everything a panel quantiser carries around.
struct Quantization {
  const QuantPlan* plan = nullptr;
  PanelOptions options;
  DrawPlan draws;
  TableConstants table;
  Panels* out = nullptr;
};

// A lane through the scalar core: scale code, then codes. `b.x` holds the untouched elements.
FP4_TARGET inline void quantize_lane(const Quantization& z, const Block& b, int lane, uint32_t scale_code,
                                     const uint32_t (*draw)[panel_rows], int8_t* out_bytes, float* out_values) {
  const QuantPlan& p = *z.plan;
  const bool is_nan_block = p.q.has_scale && p.q.scale.is_nan_code(scale_code);
  for (int k = 0; k < b.n; ++k) {
    const uint32_t random = z.draws.wanted ? draw[k][lane] : 0u;
    const uint32_t code = is_nan_block ? 0u : element_code(p.q, b.x[k][lane], scale_code, p.factor, random);
    if (out_bytes != nullptr) {
      out_bytes[(k / 4 * panel_rows + lane) * 4 + k % 4] =
          static_cast<int8_t>(decode_fixed(p.q.element, code) + z.options.byte_offset);
    } else {
      out_values[k * panel_rows + lane] = decode(p.q.element, code);
    }
  }
}

FP4_TARGET inline uint32_t scale_code_of_lane(const Quantization& z, const Block& b, int lane) {
  const QuantPlan& p = *z.plan;
  const int64_t valid = p.cols - b.k0 < b.n ? p.cols - b.k0 : b.n;
  if (valid <= 0 || lane >= b.rows) return p.zero_block_code;
  const BlockView view = {&b.x[0][lane], 0, panel_rows, 1, valid, b.n};
  uint32_t draw = 0;
  if (is_stochastic(p.q.scale_rounding)) {
    const int64_t row = (p.row_offset + b.row0 + lane) / p.geometry.block_rows;
    const int64_t index = row * p.geometry.scale_cols + b.k0 / p.geometry.block_cols;
    draw = random_draw(p.place.scale_rounding(), static_cast<uint64_t>(index), p.q.random_bits);
  }
  return block_scale_code(p.q, view, p.factor, draw);
}

FP4_TARGET inline void encode_block(const Quantization& z, Block& b, const uint32_t (*draw)[panel_rows],
                                    int8_t* out_bytes, float* out_values) {
  const QuantPlan& p = *z.plan;
  const M tiny = tiny_scales(b);
  const F lift = select(tiny, all(0x1p64f), all(1.0f));
  const F inverse = b.inverse * select(tiny, all(0x1p-64f), all(1.0f));
  const auto n_bits = static_cast<uint32_t>(p.q.random_bits);
  const bool vector = p.payload_path == PayloadPath::power && p.code_path != CodePath::generic && out_bytes != nullptr;
  if (!vector) {
    b.rare = mask_from_bits(0xFFFF);
  } else if (p.code_path == CodePath::table) {
    if (any(tiny)) {
      table_bytes<true>(z.table, b.x, b.n, inverse, lift, out_bytes);
    } else {
      table_bytes<false>(z.table, b.x, b.n, b.inverse, lift, out_bytes);
    }
  } else if (p.q.rounding == Rounding::stochastic) {
    stochastic_bytes<Rounding::stochastic>(b.x, b.n, inverse, lift, n_bits, z.options.byte_offset, draw, out_bytes);
  } else if (p.q.rounding == Rounding::stochastic_midpoint) {
    stochastic_bytes<Rounding::stochastic_midpoint>(b.x, b.n, inverse, lift, n_bits, z.options.byte_offset, draw,
                                                    out_bytes);
  } else {
    stochastic_bytes<Rounding::stochastic_truncated>(b.x, b.n, inverse, lift, n_bits, z.options.byte_offset, draw,
                                                     out_bytes);
  }
  if (any(b.rare)) {
    alignas(64) uint32_t codes[panel_rows];
    store(codes, b.scale_code);
    for (int lane = 0; lane < panel_rows; ++lane) {
      if ((to_bits(b.rare) >> lane & 1u) != 0) quantize_lane(z, b, lane, codes[lane], draw, out_bytes, out_values);
    }
  }
}

// Scales of a 1 x B block: vector rules, and the scalar core for lanes that hold Inf, NaN or another rule.
FP4_TARGET inline void find_scales(const Quantization& z, Block& b) {
  const QuantPlan& p = *z.plan;
  b.amax = block_amax(b.x, b.n);
  b.rare = ~(b.amax < all(0x7F800000));
  if (p.scale_path == ScalePath::power) {
    power_scale(p, b);
  } else {
    b.rare = mask_from_bits(0xFFFF);
    b.scale_code = all(0);
    b.scale = all(1.0f);
    b.inverse = all(1.0f);
  }
  if (!any(b.rare)) return;
  alignas(64) uint32_t codes[panel_rows];
  alignas(64) float scales[panel_rows];
  store(codes, b.scale_code);
  store(scales, b.scale);
  for (int lane = 0; lane < panel_rows; ++lane) {
    if ((to_bits(b.rare) >> lane & 1u) == 0) continue;
    codes[lane] = scale_code_of_lane(z, b, lane);
    scales[lane] = scale_value(p.q, codes[lane]);
  }
  b.scale_code = load(codes);
  b.scale = load(scales);
}

// Writes scales, ranges and NaN notes of a block.
struct Extremes {  // scale bits so far, lane by lane
  I least = {};
  I largest = {};
};

FP4_SIMD void note_scales(const Quantization& z, const Block& b, int64_t panel, Extremes& extremes) {
  Panels& out = *z.out;
  F scale = b.scale;
  const M nan = is_nan(scale);
  if (any(nan)) {
    out.nan_rows[panel] = static_cast<uint16_t>(out.nan_rows[panel] | to_bits(nan));
    scale = select(nan, all(1.0f), scale);
  }
  const M zero = b.amax == all(0);
  if (z.options.neutral_zeros) scale = select(zero, all(1.0f), scale);
  store(out.scale + (panel * out.scales_per_panel + b.k0 / out.block) * panel_rows, scale);
  const I s = bits(scale);
  extremes.least = smaller_unsigned(extremes.least, select(s == all(0), extremes.least, s));
  extremes.largest = larger(extremes.largest, s);
}

FP4_TARGET inline void note_corrections(const Quantization& z, int64_t panel) {
  Panels& out = *z.out;
  const int8_t* bytes = out.panel_bytes(panel);
  const auto factor = static_cast<uint8_t>(z.options.correction_factor);
  const int64_t runs = out.padded / z.options.run;
  for (int64_t run = 0; run < runs; ++run) {
    I sum = all(0);
    for (int64_t k = run * z.options.run; k < (run + 1) * z.options.run; k += 4) {
      sum = add_dots(sum, factor, load_bytes(bytes + k * panel_rows));
    }
    store(out.correction + (panel * runs + run) * panel_rows, all(0) - sum);
  }
}

// 1 x B blocks: one pass.
FP4_TARGET inline void quantize_vector_panel(const Quantization& z, int64_t panel) {
  const QuantPlan& p = *z.plan;
  Panels& out = *z.out;
  alignas(64) float buffer[largest_chunk][panel_rows];
  alignas(64) uint32_t draw[128][panel_rows];
  const int block = static_cast<int>(out.block);
  const int chunk = p.hadamard.size > block ? p.hadamard.size : block;
  out.nan_rows[panel] = 0;
  Extremes extremes = {all(0x7F800000), all(0)};
  for (int64_t k0 = 0; k0 < out.padded; k0 += chunk) {
    load_chunk(p, panel * panel_rows, k0, chunk, buffer);
    for (int64_t k = k0; k < k0 + chunk && k < out.padded; k += block) {
      Block b;
      b.row0 = panel * panel_rows;
      b.rows = static_cast<int>(p.rows - b.row0 < panel_rows ? p.rows - b.row0 : panel_rows);
      b.k0 = k;
      b.n = block;
      b.x = buffer + (k - k0);
      find_scales(z, b);
      if (z.draws.wanted) fill_draws(p, z.draws, b.row0, k, block, draw);
      encode_block(z, b, draw, out.bytes == nullptr ? nullptr : out.bytes + (panel * out.padded + k) * panel_rows,
                   out.values == nullptr ? nullptr : out.values + (panel * out.padded + k) * panel_rows);
      note_scales(z, b, panel, extremes);
    }
  }
  out.range[panel] = {static_cast<uint32_t>(smallest_lane(extremes.least)),
                      static_cast<uint32_t>(largest_lane(extremes.largest))};
  if (z.options.correction_factor != 0) note_corrections(z, panel);
}

}  // namespace fp4::FP4_ISA
