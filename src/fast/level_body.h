// Level panels. Where the scales of a row are powers of two within a few bits of each other, its bytes can carry the
// differences: every element is then an integer times the smallest scale of its row, and a product of two level rows is
// one sum of integers times one power of two. By Cauchy and Schwarz no sum over any subset of its products exceeds
// |a||b|; if that is at most 2^24, every partial sum in every order is a float, so the accumulators that differ only in
// how they group and round (accumulate.h) agree, and the integer sum is their result.
// Included once per instruction set, after isa_*.h.
#pragma once

#include "src/fast/load_body.h"

namespace fp4::FP4_ISA {

// Elements along K for which sums of squares of bytes stay below 2^31.
inline constexpr int64_t longest_level = int64_t{1} << 17;

// Whether level bytes fit: `room` is how far the largest element can be shifted. Zero blocks say nothing.
FP4_TARGET inline void measure_level(Panels& p, int64_t panel, int room) {
  const float* scale = p.panel_scales(panel);
  const int8_t* bytes = p.panel_bytes(panel);
  const int64_t block = smaller(p.block, p.padded);
  I least = all(0x7F800000);
  I largest = all(0);
  I fraction = all(0);
  I norm = all(0);
  for (int64_t i = 0; i < p.scales_per_panel; ++i) {
    I squares = all(0);
    for (int64_t k = 0; k < block; k += 4)
      squares = add_squares(squares, load_bytes(bytes + (i * block + k) * panel_rows));
    const I s = bits(load(scale + i * panel_rows));
    const M dead = (squares == all(0)) | (s == all(0));
    const I lower = smaller(least, select(dead, least, s));
    norm = shift_left(norm, shift_right<22>(least - lower)) +
           select(dead, all(0), shift_left(squares, shift_right<22>(s - lower)));
    largest = larger(largest, select(dead, all(0), s));
    fraction = fraction | select(dead, all(0), s);
    least = lower;
  }
  least = select(largest == all(0), all(0), least);
  const M uneven = some_bits(fraction, 0x7FFFFF) | (shift_right<23>(largest - least) > all(room));
  fast::Level& level = p.level[panel];
  level = {!any(uneven) && p.padded <= longest_level, false, static_cast<uint32_t>(largest_lane(norm))};
  store(p.row_scale + panel * panel_rows, as_float(least));
}

// Moves the differences of scales into the bytes.
FP4_TARGET inline void make_level(Panels& p, int64_t panel) {
  float* scale = p.scale + panel * p.scales_per_panel * panel_rows;
  auto* bytes = reinterpret_cast<int32_t*>(p.bytes + panel * p.padded * panel_rows);
  const int64_t block = smaller(p.block, p.padded);
  const F row = load(p.row_scale + panel * panel_rows);
  for (int64_t i = 0; i < p.scales_per_panel; ++i) {
    const I s = bits(load(scale + i * panel_rows));
    store(scale + i * panel_rows, row);
    if (!any(~(s == bits(row)))) continue;
    const I by = shift_right<23>(s - bits(row));  // of dead blocks anything: their bytes become or are 0
    I kept = shift_left(all(0xFF), by) & all(0xFF);
    kept = kept | shift_left<8>(kept);
    kept = select(s == all(0), all(0), kept | shift_left<16>(kept));
    for (int64_t k = i * block; k < (i + 1) * block; k += 4) {
      store(bytes + k * 4, shift_left(load(bytes + k * 4), by) & kept);
    }
  }
  p.level[panel].done = true;
}

// Signed bytes to unsigned ones, 128 up.
FP4_TARGET inline void make_unsigned(Panels& p, int64_t panel) {
  auto* bytes = reinterpret_cast<int32_t*>(p.bytes + panel * p.padded * panel_rows);
  for (int64_t k = 0; k < p.padded * 4; k += panel_rows) store(bytes + k, load(bytes + k) ^ all(0x80808080u));
}

}  // namespace fp4::FP4_ISA
