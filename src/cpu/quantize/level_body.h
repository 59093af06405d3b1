// Level panels. Where the scales of a row are powers of two within a few bits of each other, its bytes can carry the
// differences: every element is then an integer times the smallest scale of its row, and a product of two level rows is
// one sum of integers times one power of two. By Cauchy and Schwarz no sum over any subset of its products exceeds
// |a||b|; if that is at most 2^24, every partial sum in every order is a float, so the accumulators that differ only in
// how they group and round (accumulate.h) agree, and the integer sum is their result.
#pragma once

#include "src/cpu/quantize/load_body.h"
#include "src/cpu/simd/lanes.h"

namespace fp4::FP4_ISA {

// Elements along K for which sums of squares of bytes stay below 2^31.
inline constexpr int64_t longest_level = int64_t{1} << 17;

// Whether level bytes fit, block by block.
struct LevelSoFar {
  I least;  // scale bits of blocks that hold something
  I largest;
  I fraction;
  I norm;  // sum of squares of level bytes, in terms of `least`
};

FP4_SIMD LevelSoFar no_level_yet() { return {all(0x7F800000), all(0), all(0), all(0)}; }

// A block with these sums of squares and scale bits. Zero blocks say nothing.
FP4_SIMD void note_level(LevelSoFar& l, I squares, I s) {
  const M dead = (squares == all(0)) | (s == all(0));
  const I lower = smaller(l.least, select(dead, l.least, s));
  l.norm = shift_left(l.norm, shift_right<22>(l.least - lower)) +
           select(dead, all(0), shift_left(squares, shift_right<22>(s - lower)));
  l.largest = larger(l.largest, select(dead, all(0), s));
  l.fraction = l.fraction | select(dead, all(0), s);
  l.least = lower;
}

// `room` is how far the largest element can be shifted.
FP4_SIMD void decide_level(Panels& p, int64_t panel, int room, const LevelSoFar& l) {
  const I least = select(l.largest == all(0), all(0), l.least);
  const M uneven = some_bits(l.fraction, 0x7FFFFF) | (shift_right<23>(l.largest - least) > all(room));
  p.level[panel] = {!any(uneven) && p.padded <= longest_level, false, static_cast<uint32_t>(largest_lane(l.norm))};
  store(p.row_scale + panel * panel_rows, as_float(least));
}

FP4_TARGET inline void measure_level(Panels& p, int64_t panel, int room) {
  const float* scale = p.panel_scales(panel);
  const int8_t* bytes = p.panel_bytes(panel);
  const int64_t block = smaller(p.block, p.padded);
  LevelSoFar level = no_level_yet();
  for (int64_t i = 0; i < p.scales_per_panel; ++i) {
    I squares = all(0);
    for (int64_t k = 0; k < block; k += 4)
      squares = add_squares(squares, load_bytes(bytes + (i * block + k) * panel_rows));
    note_level(level, squares, bits(load(scale + i * panel_rows)));
  }
  decide_level(p, panel, room, level);
}

}  // namespace fp4::FP4_ISA
