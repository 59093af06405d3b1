// Bytes of 16 x 16 elements of a panel whose factors are known, read down sixteen lanes or along sixteen rows.
#pragma once

#include "src/fast/row_block_avx512.h"
#include "src/fast/run_draws_avx512.h"

namespace fp4::avx512 {

// How draws of eight bits come in: to exact sums, or to estimates, which a block in doubt does not use. Estimates serve
// every rounding of the sum that decides at its middle.
enum class Drawing : uint8_t { none, exact, estimates };

// What the codes of a panel need besides factors.
struct PanelCodes {
  RunPlan run;
  NibbleTable values;  // of e2m1 codes with their signs
};

// Draws of 32 columns of a panel: by rows [column / 16][row][column % 16], else [column / 4][row][column % 4].
struct PanelDraws {
  alignas(64) uint8_t draw[2 * panel_rows * 16];
};

template <bool by_rows>
FP4_SIMD void fill_panel_draws(const RunKeys& k, uint32_t first, uint32_t row_step, PanelDraws& out) {
  const I in_memory = {_mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15)};  // as fill_run_draws
  const I blocks = multiply_low(by_rows ? in_memory : lane_numbers(), all(row_step)) + all(first);
  const RunWords w = run_words(k, blocks, blocks + all(1));
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

template <RunKind kind, bool estimates>
FP4_SIMD B drawn_bytes_of(const PanelCodes& c, const F (&x)[4], const F (&low)[4], const F (&high)[4],
                          const F (&third)[4], const I (&draw)[4], __mmask64& doubt) {
  I sum[4];
  I signs[4];
  __mmask16 sure = 0xFFFF;
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    signs[i] = bits(x[i]);
    sum[i] = sum_before_draw<kind, estimates>(x[i], low[i], high[i], third[i]);
    sum[i] = estimates ? add_draw_to_estimate(sum[i], draw[i]) : sum[i] + draw[i];
    if (estimates) sure = still_sure(sure, sum[i]);
  }
  if (estimates) doubt |= static_cast<uint16_t>(~sure);
  return {_mm512_shuffle_epi8(c.values.v, merged_codes<codes_at<kind, estimates>>(sum, signs).v)};
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
      const I words = load(reinterpret_cast<const uint32_t*>(draw + k * panel_rows));
      const I four[4] = {draw_of_lanes<0>(words), draw_of_lanes<1>(words), draw_of_lanes<2>(words),
                         draw_of_lanes<3>(words)};
      bytes = drawn_bytes_of<kind, drawing == Drawing::estimates>(c, columns, lows, highs, thirds, four, doubt);
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
      if (draws) four[i] = sixteen_draws(draw + row * 16);
    }
    B bytes;
    if constexpr (draws) {
      bytes = drawn_bytes_of<kind, drawing == Drawing::estimates>(c, rows, low, high, third, four, doubt);
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
