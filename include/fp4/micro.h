// Micro-exponents: exponents of a few bits that parts of a block share below its scale (MX6, MX9: Rouhani et al.,
// 2302.08007; HiFloat4: 2602.11287). An element reads q * 2^e * s*g/p, e the sum of those of its parts. A part takes,
// level after level, the largest exponent that its maximum needs to reach the top binade of the element,
//   e = floor(log2 u) - emax - (what the levels below can add), between 0 and 2^bits - 1,
// u the maximum's payload without what the levels above took. HiFloat4: 1 where u >= 4, then 1 where u >= 2.
#pragma once

#include "fp4/block.h"

namespace fp4 {

inline constexpr int most_micro_width = 128;  // elements of a 1 x B block

/// The exponents of a block's elements under its scale, in `out`; exponent_of(amax): floor(log2 u) of a part's maximum.
template <class ExponentOf>
void share_exponents(const Quantizer& q, const BlockView& x, const ExponentOf& exponent_of,
                     int (&out)[most_micro_width]) {
  const ElementGrid& grid = *q.element.grid;
  const int emax = format_of(static_cast<Element>(grid.base)).max_exponent();
  for (int64_t k = 0; k < x.cols; ++k) out[k] = 0;
  int below = 0;
  for (const MicroLevel& level : grid.micro) below += (1 << level.bits) - 1;
  for (const MicroLevel& level : grid.micro) {
    if (level.per == 0) continue;
    const int most = (1 << level.bits) - 1;
    below -= most;
    for (int64_t first = 0; first < x.cols; first += level.per) {
      const int64_t count = smaller<int64_t>(level.per, x.cols - first);
      const float amax = block_maximum({&x.data[first * x.col_stride], 0, x.col_stride, 1, count, count}).amax;
      if (amax == 0.0f) continue;
      const int e = smaller(larger(exponent_of(amax) - out[first] - emax - below, 0), most);
      for (int64_t k = first; k < first + count; ++k) out[k] += e;
    }
  }
}

/// The same under a scale code; 0 under a scale of 0.
inline void micro_exponents(const Quantizer& q, const BlockView& x, uint32_t scale_code, TensorFactor t,
                            int (&out)[most_micro_width]) {
  const float stored = decode(q.scale, scale_code);
  for (int64_t k = 0; k < x.cols; ++k) out[k] = 0;
  if (stored == 0.0f) return;
  share_exponents(
      q, x,
      [&](float amax) {
        const float a = at_most_largest(computed(q.compute, amax));
        const Magnitude u = payload(q.arithmetic, a, stored, t, q.prescale, q.compute_of_payload(), q.payload);
        return u.is_zero() ? -127 : u.log2_floor();  // rounded to zero: it needs no exponent
      },
      out);
}

/// The code of an element whose parts have the exponent sum e.
inline uint32_t micro_code(const Quantizer& q, float x, uint32_t scale_code, int e, TensorFactor t, uint32_t random) {
  Quantizer of_base = q;
  of_base.element = format_of(static_cast<Element>(q.element.grid->base));
  t.g = t.g * power_of_two(e);
  return element_code(of_base, x, scale_code, t, random) | static_cast<uint32_t>(e) << q.element.grid->base_bits;
}

}  // namespace fp4
