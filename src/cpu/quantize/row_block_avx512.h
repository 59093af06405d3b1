// Sixteen rows of 32 elements into a panel along the rows: their bytes change places instead of their floats.
#pragma once

#include "src/cpu/quantize/fold_avx512.h"
#include "src/cpu/quantize/fp4_codes_body.h"

namespace fp4::avx512 {

inline constexpr int row_block_width = 32;

FP4_SIMD I row_maxima(const float* x, int64_t stride) { return block_maxima<row_block_width / panel_rows>(x, stride); }

// table_bytes (fp4_codes_body.h) of rows `stride` apart; `inverse` has a lane for each.
FP4_SIMD I row_table_bytes(const TableConstants& c, const float* x, int64_t stride, F inverse, int8_t* out) {
  alignas(64) float factors[panel_rows];
  store(factors, inverse * all(c.steps));
  const F magic = all(to_integer);
  // 128 bits L of a pair: four columns from 4L of its first row, four from 16 + 4L, the same of its second row.
  __m512i pair[8];
#pragma GCC unroll 8
  for (int j = 0; j < 8; ++j) {
    I s[4];
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
      const int row = 2 * j + i / 2;
      const F u = load(x + row * stride + i % 2 * panel_rows);
      const F factor = all(factors[row]);
      s[i] = bits(fma_down(u, factor, magic)) - bits(negated_fma_down(u, factor, magic));
    }
    B index = {_mm512_packs_epi16(_mm512_packs_epi32(s[0].v, s[1].v), _mm512_packs_epi32(s[2].v, s[3].v))};
    if (c.clamp) index = within(index, -63, 63);
    pair[j] = look_up(c.table, index).v;
  }
  I squares = all(0);
#pragma GCC unroll 2
  for (int half = 0; half < 2; ++half) {
    __m512i rows[4];  // 128 bits L of rows[g]: columns 16 half + 4L .. of rows 4g .. 4g + 3
#pragma GCC unroll 4
    for (int g = 0; g < 4; ++g) {
      const __m512 a = _mm512_castsi512_ps(pair[2 * g]);
      const __m512 b = _mm512_castsi512_ps(pair[2 * g + 1]);
      rows[g] = _mm512_castps_si512(half == 0 ? _mm512_shuffle_ps(a, b, 0x88) : _mm512_shuffle_ps(a, b, 0xDD));
    }
    B columns[4];
    transpose_quarters(rows, columns);
#pragma GCC unroll 4
    for (int q = 0; q < 4; ++q) {
      store(out + (half * 4 + q) * 64, columns[q]);
      squares = add_squares(squares, columns[q]);
    }
  }
  return squares;
}

}  // namespace fp4::avx512
