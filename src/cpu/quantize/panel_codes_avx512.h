// Bytes of 16 x 16 elements of a panel whose factors are known, read down sixteen lanes or along sixteen rows.
#pragma once

#include "src/cpu/quantize/row_block_avx512.h"
#include "src/cpu/quantize/run_draws_avx512.h"

namespace fp4::avx512 {

// How draws come in: of eight bits to exact sums, of eight or sixteen to estimates, which a block in doubt does not
// use. Estimates serve every rounding of the sum that decides at its middle.
enum class Drawing : uint8_t { none, exact, estimates, wide_estimates };

constexpr bool estimates(Drawing d) { return d == Drawing::estimates || d == Drawing::wide_estimates; }

// Draws of sixteen bits leave estimates three places. They come 2^15 down, as signed words, and the sum starts with
// that.
inline constexpr float wide_estimate_magic = 6144.0f + 128.0f + 0x1p-9f + 2 * 0x1p-11f;

// Elements of a row whose draws are made together.
template <Drawing drawing>
inline constexpr int drawn_together = drawing == Drawing::wide_estimates ? 16 : 32;

// What the codes of a panel need besides factors.
struct PanelCodes {
  RunPlan run;
  NibbleTable values;  // of e2m1 codes with their signs
};

// Draws of 32 columns of a panel: by rows [column / 16][row][column % 16], else [column / 4][row][column % 4]; of
// sixteen bits those of 16 columns: by rows [row][column], else [column / 2][row][column % 2].
struct PanelDraws {
  alignas(64) uint8_t draw[2 * panel_rows * 16];
};

template <bool by_rows, Drawing drawing>
FP4_SIMD void fill_panel_draws(const RunKeys& k, uint32_t first, uint32_t row_step, PanelDraws& out) {
  constexpr bool wide = drawing == Drawing::wide_estimates;
  const I in_memory = lanes_in_memory();
  RunWords w;
  if (by_rows && wide) {  // two blocks of each row, one after another
    const I blocks = multiply_low(shift_right<1>(in_memory), all(row_step)) + (in_memory & all(1)) + all(first);
    w = run_words(k, blocks, blocks + all(8 * row_step));
  } else {
    const I blocks = multiply_low(by_rows ? in_memory : lane_numbers(), all(row_step)) + all(first);
    w = run_words(k, blocks, blocks + all(1));
  }
  if (wide) {
    for (auto& chain : w.c) {
      for (__m512i& word : chain) word = _mm512_xor_si512(word, _mm512_set1_epi32(static_cast<int>(0x80008000u)));
    }
  }
#pragma GCC unroll 2
  for (int i = 0; i < 4; i += 2) {
    uint8_t* half = out.draw + i / 2 * 256;
    if (by_rows) {
      store_blocks(w.c[i], w.c[i + 1], half);
      continue;
    }
#pragma GCC unroll 4
    for (int j = 0; j < 4; ++j) {
      const __m512i odd = _mm512_slli_epi64(w.c[i + 1][j], 32);
      _mm512_store_si512(half + j * 64, _mm512_mask_blend_epi32(0xAAAA, w.c[i][j], odd));
    }
  }
}

// Four columns of sixteen lanes, or four rows of sixteen columns, to bytes, lane by lane; `doubt` where a code may be
// another one.
template <RunKind kind>
FP4_SIMD B table_bytes_of(const PanelCodes& c, ByteTable table, const F (&x)[4], const F (&low)[4], const F (&high)[4],
                          __mmask64& doubt) {
  I index[4];
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) index[i] = code_index<kind>(x[i], low[i], high[i], c.run.steps);
  const I merged = merged_bytes(index);
  if (kind == RunKind::quotient) {  // a whole number of steps lies between the bounds, and it is not zero
    const __mmask64 even = _mm512_testn_epi8_mask(merged.v, _mm512_set1_epi8(1));
    doubt |= _mm512_mask_cmpneq_epi8_mask(even, merged.v, _mm512_set1_epi8(-128));
  }
  return look_up(table, bytes_of(merged));
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

// The draws of columns column .. column + 3 for drawn_sum<drawing, false>: what a lane's dword holds besides its own,
// drawn_sum leaves out, but bytes of estimates, which have too little room in their weights.
template <Drawing drawing>
FP4_SIMD void column_draws(const uint8_t* draw, int column, I (&out)[4]) {
  if constexpr (drawing == Drawing::wide_estimates) {
    out[0] = out[1] = load(reinterpret_cast<const uint32_t*>(draw + column * 32));
    out[2] = out[3] = load(reinterpret_cast<const uint32_t*>(draw + column * 32 + 64));
  } else {
    const I words = load(reinterpret_cast<const uint32_t*>(draw + column * 16));
    const bool apart = drawing == Drawing::estimates;
    out[0] = apart ? draw_of_lanes<0>(words) : words;
    out[1] = apart ? draw_of_lanes<1>(words) : words;
    out[2] = apart ? draw_of_lanes<2>(words) : words;
    out[3] = apart ? draw_of_lanes<3>(words) : words;
  }
}

// Sixteen draws of a row, for drawn_sum<drawing, true>.
template <Drawing drawing>
FP4_SIMD I row_draws(const uint8_t* draw, int row) {
  if constexpr (drawing == Drawing::wide_estimates) {
    return {_mm512_cvtepi16_epi32(_mm256_load_si256(reinterpret_cast<const __m256i*>(draw + row * 32)))};
  } else {
    return sixteen_draws(draw + row * 16);
  }
}

// The sum with the draw of column i of four, which lies where it was stored, or of a row, which is alone in its lane.
template <Drawing drawing, bool by_rows>
FP4_SIMD I drawn_sum(I sum, I draws, int i) {
  if (drawing == Drawing::exact) {
    return {_mm512_dpbusd_epi32(sum.v, draws.v, _mm512_set1_epi32(by_rows ? 1 : 1 << 8 * i))};
  }
  if (drawing == Drawing::estimates) return add_draw_to_estimate(sum, draws);
  return {_mm512_dpwssd_epi32(sum.v, draws.v, _mm512_set1_epi32(by_rows ? 8 : 8 << 16 * (i % 2)))};
}

template <RunKind kind, Drawing drawing, bool by_rows>
FP4_SIMD B drawn_bytes_of(const PanelCodes& c, const F (&x)[4], const F (&low)[4], const F (&high)[4],
                          const F (&third)[4], const I (&draw)[4], __mmask64& doubt) {
  constexpr bool estimated = estimates(drawing);
  constexpr float offset =
      drawing == Drawing::wide_estimates ? wide_estimate_magic : (estimated ? estimate_magic : to_integer);
  I sum[4];
  I signs[4];
  __mmask16 sure = 0xFFFF;
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    signs[i] = bits(x[i]);
    sum[i] = sum_before_draw<kind, estimated>(x[i], low[i], high[i], third[i], offset);
    sum[i] = drawn_sum<drawing, by_rows>(sum[i], draw[i], i);
    if (estimated) sure = still_sure(sure, sum[i]);
  }
  if (estimated) doubt |= static_cast<uint16_t>(~sure);
  return {_mm512_shuffle_epi8(c.values.v, merged_codes<codes_at<kind, estimated>>(sum, signs).v)};
}

// Sixteen columns down sixteen lanes; false: some code may be another one.
template <RunKind kind, Drawing drawing>
FP4_SIMD bool column_bytes(const PanelCodes& c, ByteTable table, const RunFactors& f, Columns x, const uint8_t* draw,
                           int8_t* out, I& squares) {
  constexpr bool draws = drawing != Drawing::none;
  const F low = load(f.low);
  const F high = draws || kind == RunKind::quotient ? load(f.high) : low;
  const F third = draws ? load(f.third) : low;
  const F lows[4] = {low, low, low, low};
  const F highs[4] = {high, high, high, high};
  const F thirds[4] = {third, third, third, third};
  __mmask64 doubt = 0;
#pragma GCC unroll 4
  for (int k = 0; k < panel_rows; k += 4) {
    const F columns[4] = {load(x[k]), load(x[k + 1]), load(x[k + 2]), load(x[k + 3])};
    B bytes;
    if constexpr (draws) {
      I four[4];
      column_draws<drawing>(draw, k, four);
      bytes = drawn_bytes_of<kind, drawing, false>(c, columns, lows, highs, thirds, four, doubt);
    } else {
      bytes = table_bytes_of<kind>(c, table, columns, lows, highs, doubt);
    }
    store(out + k * panel_rows, bytes);
    if (kind == RunKind::power) squares = add_squares(squares, bytes);
  }
  return doubt == 0;
}

// Sixteen rows, `stride` apart, of sixteen columns.
template <RunKind kind, Drawing drawing>
FP4_SIMD bool row_bytes(const PanelCodes& c, ByteTable table, const RunFactors& f, const float* x, int64_t stride,
                        const uint8_t* draw, int8_t* out, I& squares) {
  constexpr bool draws = drawing != Drawing::none;
  const __m512i to_rows = _mm512_broadcast_i32x4(_mm_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15));
  __mmask64 doubt = 0;
  __m512i quad[4];  // 128 bits L: columns 4L .. of rows 4g .. 4g + 3
#pragma GCC unroll 4
  for (int g = 0; g < 4; ++g) {
    F rows[4];
    F low[4];
    F high[4];
    F third[4];
    I four[4];
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
      const int row = 4 * g + i;
      rows[i] = load(x + row * stride);
      low[i] = all(f.low[row]);
      high[i] = draws || kind == RunKind::quotient ? all(f.high[row]) : low[i];
      third[i] = draws ? all(f.third[row]) : low[i];
      if (draws) four[i] = row_draws<drawing>(draw, row);
    }
    B bytes;
    if constexpr (draws) {
      bytes = drawn_bytes_of<kind, drawing, true>(c, rows, low, high, third, four, doubt);
    } else {
      bytes = table_bytes_of<kind>(c, table, rows, low, high, doubt);
    }
    quad[g] = _mm512_shuffle_epi8(bytes.v, to_rows);
  }
  B columns[4];
  transpose_quarters(quad, columns);
#pragma GCC unroll 4
  for (int q = 0; q < 4; ++q) {
    store(out + q * 64, columns[q]);
    if (kind == RunKind::power) squares = add_squares(squares, columns[q]);
  }
  return doubt == 0;
}

}  // namespace fp4::avx512
