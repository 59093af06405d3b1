// Maxima of sixteen blocks that lie along rows, lane = block.
#pragma once

#include "src/cpu/quantize/load_body.h"
#include "src/cpu/simd/lanes.h"

namespace fp4::avx512 {

// Where lane j of folded maxima finds its other half: 16 and more is the second vector.
struct FoldOrder {
  alignas(64) int32_t lane[panel_rows];
};
constexpr FoldOrder fold_order(int d) {
  FoldOrder order = {};
  for (int j = 0; j < panel_rows; ++j) order.lane[j] = (j ^ d) + ((j & d) != 0 ? panel_rows : 0);
  return order;
}

// Lane j: the larger of a[j] and a[j + d] where j has no bit d, of b[j - d] and b[j] where it has.
template <int d>
FP4_SIMD I folded_maxima(I a, I b) {
  constexpr __mmask16 high = d == 1 ? 0xAAAA : (d == 2 ? 0xCCCC : (d == 4 ? 0xF0F0 : 0xFF00));
  static constexpr FoldOrder order = fold_order(d);
  const __m512i other = _mm512_permutex2var_epi32(a.v, _mm512_load_si512(order.lane), b.v);
  return {_mm512_max_epu32(_mm512_mask_blend_epi32(high, a.v, b.v), other)};
}

// Bits of the largest magnitudes of blocks first, first + d, first + 2d ... in lanes that repeat them. A block has
// `width` vectors, the next one is `stride` elements on.
template <int width, int d = 1>
FP4_SIMD I block_maxima(const float* x, int64_t stride, int first = 0) {
  if constexpr (d == panel_rows) {
    const I magnitude = all(0x7FFFFFFF);
    I m = bits(load(x + first * stride)) & magnitude;
    for (int i = 1; i < width; ++i) m = larger_unsigned(m, bits(load(x + first * stride + i * panel_rows)) & magnitude);
    return m;
  } else {
    return folded_maxima<d>(block_maxima<width, 2 * d>(x, stride, first),
                            block_maxima<width, 2 * d>(x, stride, first + d));
  }
}

}  // namespace fp4::avx512
