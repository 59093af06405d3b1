// The bytes of FP4 blocks of 16 and 32 in lanes: sixteen columns at a time, by table or by draws of 8 or 16 bits on the
// code axis of e2m1 (run_codes_avx512.h, run_draws_avx512.h). A block in doubt is left to encode_body.h.
#pragma once

#include "src/cpu/quantize/blocks_body.h"
#include "src/cpu/quantize/run_draws_avx512.h"

namespace fp4::avx512 {

// How draws come in: of eight bits to exact sums, of eight or sixteen to estimates, which a block in doubt does not
// use. Estimates serve every rounding of the sum that decides at its middle.
enum class Drawing : uint8_t { none, exact, estimates, wide_estimates };

constexpr bool estimates(Drawing d) { return d == Drawing::estimates || d == Drawing::wide_estimates; }

// Draws of sixteen bits leave estimates three places. They come 2^15 down, as signed words, and the sum starts with
// that.
inline constexpr float wide_estimate_magic = 6144.0f + 128.0f + 0x1p-9f + 2 * 0x1p-11f;

// Columns whose draws are made together, and the bytes of one in sixteen rows.
constexpr int drawn_together(Drawing d) { return d == Drawing::wide_estimates ? 16 : 32; }
template <Drawing drawing>
inline constexpr int draw_bytes = 2 * panel_rows * 16 / drawn_together(drawing);

// The draws of those columns, from `first` on: [column / 4][row][column % 4], of sixteen bits [column / 2][row]
// [column % 2].
struct ColumnDraws {
  int64_t first = -1;
  alignas(64) uint8_t draw[2 * panel_rows * 16];
};

struct ColumnCodes;
// Bytes of `count` adjacent blocks with their scales, and of power payloads the sums of their squares; returns a bit
// for each block that is left to do.
using ColumnEncoder = uint32_t (*)(const Quantization&, const ColumnCodes&, const Block*, int count, ColumnDraws&,
                                   int8_t*, I* squares);
struct ColumnCodes {
  ColumnEncoder encode = nullptr;  // null: not such blocks
  bool has_squares = false;
  CodePlan plan;
  RunKeys keys;
  NibbleTable values;  // of e2m1 codes with their signs
};

template <Drawing drawing>
FP4_SIMD void fill_column_draws(const QuantPlan& p, const RunKeys& k, int64_t row0, int64_t column, ColumnDraws& out) {
  constexpr int together = drawn_together(drawing);
  constexpr int per_block = together / 2;  // draws of a Philox block
  if (out.first == column / together * together) return;
  out.first = column / together * together;
  const auto step = static_cast<uint32_t>(p.cols / per_block);
  const uint32_t first =
      static_cast<uint32_t>(p.row_offset + row0) * step + static_cast<uint32_t>(out.first / per_block);
  const I blocks = multiply_low(lane_numbers(), all(step)) + all(first);
  const RunWords w = run_words(k, blocks, blocks + all(1));
  const __m512i flip = _mm512_set1_epi32(drawing == Drawing::wide_estimates ? static_cast<int>(0x80008000u) : 0);
#pragma GCC unroll 2
  for (int i = 0; i < 4; i += 2) {
#pragma GCC unroll 4
    for (int j = 0; j < 4; ++j) {
      const __m512i odd = _mm512_slli_epi64(w.c[i + 1][j], 32);
      const __m512i words = _mm512_mask_blend_epi32(0xAAAA, w.c[i][j], odd);
      _mm512_store_si512(out.draw + i * 128 + j * 64, _mm512_xor_si512(words, flip));
    }
  }
}

// Byte i of every lane.
template <int i>
FP4_SIMD I draw_of_lanes(I draws) {
  if (i == 0) return draws & all(0xFF);
  if (i == 3) return shift_right<24>(draws);
  return {_mm512_maskz_shuffle_epi8(
      0x1111111111111111u, draws.v,
      _mm512_broadcast_i32x4(_mm_setr_epi8(i, 0, 0, 0, 4 + i, 0, 0, 0, 8 + i, 0, 0, 0, 12 + i, 0, 0, 0)))};
}

// Sums of four columns with their draws, which start at `draw`: a weight picks a column's draw out of its lane's dword,
// but for bytes of estimates, whose weights have too little room.
template <Drawing drawing>
FP4_SIMD void add_draws(const uint8_t* draw, I (&sum)[4]) {
  const I words = load(reinterpret_cast<const uint32_t*>(draw));
  if constexpr (drawing == Drawing::exact) {
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) sum[i].v = _mm512_dpbusd_epi32(sum[i].v, words.v, _mm512_set1_epi32(1 << 8 * i));
  } else if constexpr (drawing == Drawing::estimates) {
    sum[0] = add_draw_to_estimate(sum[0], draw_of_lanes<0>(words));
    sum[1] = add_draw_to_estimate(sum[1], draw_of_lanes<1>(words));
    sum[2] = add_draw_to_estimate(sum[2], draw_of_lanes<2>(words));
    sum[3] = add_draw_to_estimate(sum[3], draw_of_lanes<3>(words));
  } else {
    const I more = load(reinterpret_cast<const uint32_t*>(draw + 64));
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
      const __m512i weight = _mm512_set1_epi32(8 << 16 * (i % 2));
      sum[i].v = _mm512_dpwssd_epi32(sum[i].v, (i < 2 ? words : more).v, weight);
    }
  }
}

// Four columns to bytes, lane by lane; `doubt` where a code may be another one.
template <RunKind kind, Drawing drawing>
FP4_SIMD B column_bytes(const ColumnCodes& c, ByteTable table, Columns x, F low, F high, F third, const uint8_t* draw,
                        __mmask64& doubt) {
  const F column[4] = {load(x[0]), load(x[1]), load(x[2]), load(x[3])};
  I v[4];
  if constexpr (drawing == Drawing::none) {
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) v[i] = code_index<kind>(column[i], low, high, c.plan.steps);
    const I merged = merged_bytes(v);
    if (kind == RunKind::quotient) {  // a whole number of steps lies between the bounds, and it is not zero
      const __mmask64 even = _mm512_testn_epi8_mask(merged.v, _mm512_set1_epi8(1));
      doubt |= _mm512_mask_cmpneq_epi8_mask(even, merged.v, _mm512_set1_epi8(-128));
    }
    return look_up(table, bytes_of(merged));
  } else {
    constexpr bool estimated = estimates(drawing);
    constexpr float offset =
        drawing == Drawing::wide_estimates ? wide_estimate_magic : (estimated ? estimate_magic : to_integer);
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) v[i] = sum_before_draw<kind, estimated>(column[i], low, high, third, offset);
    add_draws<drawing>(draw, v);
    __mmask16 sure = 0xFFFF;
#pragma GCC unroll 4
    for (int i = 0; estimated && i < 4; ++i) sure = still_sure(sure, v[i]);
    doubt |= static_cast<uint16_t>(~sure);
    const I signs[4] = {bits(column[0]), bits(column[1]), bits(column[2]), bits(column[3])};
    return {_mm512_shuffle_epi8(c.values.v, merged_codes<codes_at<kind, estimated>>(v, signs).v)};
  }
}

template <RunKind kind, Drawing drawing>
FP4_TARGET uint32_t encode_columns(const Quantization& z, const ColumnCodes& c, const Block* blocks, int count,
                                   ColumnDraws& drawn, int8_t* bytes, I* squares) {
  constexpr bool draws = drawing != Drawing::none;
  const ByteTable table = z.table.table;
  RunFactors factors[most_blocks];
  uint32_t open = 0;
  for (int i = 0; i < count; ++i) {
    const Block& b = blocks[i];
    const bool usable =
        !any(b.nonfinite | b.scales.rare) && find_factors(*z.plan, c.plan, b.amax, b.scales, b.factor, factors[i]);
    open |= usable ? 0 : 1u << i;
  }
  for (int i = 0; i < count; ++i) {
    const Block& b = blocks[i];
    if ((open >> i & 1u) != 0) continue;
    const F low = load(factors[i].low);
    const F high = draws || kind == RunKind::quotient ? load(factors[i].high) : low;
    const F third = draws ? load(factors[i].third) : low;
    __mmask64 doubt = 0;
    I sum = all(0);
    int8_t* out = bytes + i * b.n * panel_rows;
    for (int k0 = 0; k0 < b.n; k0 += panel_rows) {
      const uint8_t* draw[4] = {};
      if constexpr (draws) {
        fill_column_draws<drawing>(*z.plan, c.keys, b.row0, b.k0 + k0, drawn);
        for (int j = 0; j < 4; ++j) draw[j] = drawn.draw + (b.k0 + k0 + 4 * j - drawn.first) * draw_bytes<drawing>;
      }
#pragma GCC unroll 4
      for (int j = 0; j < 4; ++j) {
        const int k = k0 + 4 * j;
        const B four = column_bytes<kind, drawing>(c, table, b.x + k, low, high, third, draw[j], doubt);
        store(out + k * panel_rows, four);
        if (kind == RunKind::power) sum = add_squares(sum, four);
      }
    }
    squares[i] = sum;
    if (doubt != 0) open |= 1u << i;
  }
  return open;
}

template <RunKind kind>
ColumnEncoder column_encoder(Drawing drawing) {
  switch (drawing) {
    case Drawing::none: return encode_columns<kind, Drawing::none>;
    case Drawing::exact:
      return encode_columns < kind, kind == RunKind::quotient ? Drawing::estimates : Drawing::exact > ;
    case Drawing::estimates: return encode_columns<kind, Drawing::estimates>;
    case Drawing::wide_estimates: return encode_columns<kind, Drawing::wide_estimates>;
  }
  return nullptr;
}

FP4_TARGET inline ColumnCodes plan_columns(const Quantization& z) {
  const QuantPlan& p = *z.plan;
  ColumnCodes c;
  const bool draws = p.code_path == CodePath::stochastic_fp4;
  const RunKind kind = payload_kind(p);
  Drawing drawing = Drawing::none;
  if (draws) {
    const bool middle = p.q.rounding == Rounding::stochastic_midpoint;
    if ((p.q.rounding != Rounding::stochastic && !middle) || (p.q.random_bits != 8 && p.q.random_bits != 16)) return c;
    if (p.cols % panel_rows != 0) return c;
    drawing = p.q.random_bits == 16 ? Drawing::wide_estimates
                                    : (middle || kind == RunKind::quotient ? Drawing::estimates : Drawing::exact);
    c.keys = run_keys(p.place);
  }
  if (p.code_path == CodePath::generic || z.options.byte_offset != 0) return c;
  c.plan.kind = kind;
  c.has_squares = kind == RunKind::power;
  c.plan.codes = draws ? RunCodes::draws : RunCodes::table;
  c.plan.steps = draws ? 1.0f : p.steps;
  constexpr int8_t values[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};
  c.values = load_nibble_table(values);
  switch (kind) {
    case RunKind::power: c.encode = column_encoder<RunKind::power>(drawing); break;
    case RunKind::product: c.encode = column_encoder<RunKind::product>(drawing); break;
    case RunKind::quotient: c.encode = column_encoder<RunKind::quotient>(drawing); break;
    case RunKind::none: break;
  }
  return c;
}

}  // namespace fp4::avx512
