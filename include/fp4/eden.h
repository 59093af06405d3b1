// MS-EDEN (Quartet II, 2601.22813): elements rounded to nearest, and an unbiased decode by what the block scales are
// rounded to afterwards. Block scales first bring the maximum to M / (17/16 * 0.93), which leaves them room to grow
// (tensor scales aim at 255.99); the codes come from those. Then, per row and 128 elements,
//   S = sum x^2 / sum x*xhat   (fp64, ascending k; 1 where the denominator is 0)
// multiplies the block scales, fl32(s * S), and each is rounded stochastically to its format; the codes stay. Unbiased
// over the signs of a Hadamard of 128 and the draws. The authors' kernels take x and xhat in units of their own block.
#pragma once

#include "fp4/block.h"

namespace fp4 {

inline constexpr int eden_width = 128;

struct EdenSums {
  double squares = 0.0;
  double products = 0.0;

  FP4_HD void add(float x, float decoded) {
    squares = squares + static_cast<double>(x) * static_cast<double>(x);
    products = products + static_cast<double>(x) * static_cast<double>(decoded);
  }
  FP4_HD double correction() const { return products > 0.0 ? squares / products : 1.0; }
};

// The final code of a block scale whose first one was `code`; `random` is the draw of the block's scale.
FP4_HD inline uint32_t eden_scale_code(const Quantizer& q, uint32_t code, double correction, uint32_t random) {
  const auto s = static_cast<float>(static_cast<double>(decode(q.scale, code)) * correction);
  return apply_scale_policies(
      q, encode(q.scale, magnitude_or_overflow(s), false, {Rounding::stochastic, q.random_bits, random}));
}

}  // namespace fp4
