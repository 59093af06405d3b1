// The largest magnitude of adjacent floats.
#pragma once

#include "src/cpu/quantize/block_scales_body.h"
#include "src/cpu/simd/lanes.h"

namespace fp4::FP4_ISA {

// Bits of the largest magnitude of adjacent floats, NaN above all. Eight pages are read side by side, as one alone
// comes at the pace of memory's latency, and the last ones first: the pass after this one finds the first ones in
// cache.
FP4_TARGET inline uint32_t largest_bits(const float* x, int64_t n) {
  constexpr int64_t page = 1024;
  constexpr int64_t pages = 8;
  const I magnitude = all(0x7FFFFFFF);
  I m[4] = {all(0), all(0), all(0), all(0)};
  int64_t group = n - n % (pages * page);
  int64_t i = group;
  for (; i + 4 * panel_rows <= n; i += 4 * panel_rows) {
#pragma GCC unroll 4
    for (int j = 0; j < 4; ++j) m[j] = larger(m[j], bits(load(x + i + j * panel_rows)) & magnitude);
  }
  for (; i < n; i += panel_rows) {
    m[0] = larger(m[0], bits(load(x + i, first_lanes(static_cast<int>(smaller<int64_t>(n - i, 16))))) & magnitude);
  }
  while (group > 0) {
    group -= pages * page;
    for (int64_t k = group; k < group + page; k += panel_rows) {
#pragma GCC unroll 8
      for (int j = 0; j < pages; ++j) m[j % 4] = larger(m[j % 4], bits(load(x + k + j * page)) & magnitude);
    }
  }
  return static_cast<uint32_t>(largest_lane(larger(larger(m[0], m[1]), larger(m[2], m[3]))));
}

}  // namespace fp4::FP4_ISA
