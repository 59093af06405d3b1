// Scale codes of block maxima in fp64: those of the core, or none where fp64 cannot tell.
#pragma once

#include <bit>
#include <cstdint>

#include "fp4/block.h"
#include "fp4/codec.h"

namespace fp4 {

class ListedScales {
 public:
  /// Of blocks whose elements are `element`.
  ListedScales(const Quantizer& q, const FloatFormat& element, TensorFactor t);

  /// block_scale_code of a block with the finite maximum amax > 0, the choice between grids aside; -1 where the core
  /// must say it.
  int64_t code(float amax) const;

  /// What a scale code stands for; NaN codes give NaN.
  double value(uint32_t code) const {
    const uint32_t field = code >> scale_.mantissa_bits;
    if (code > scale_.largest_code || (scale_.has_zero && field == 0)) return static_cast<double>(decode(scale_, code));
    return std::bit_cast<double>((static_cast<uint64_t>(code) << (52 - scale_.mantissa_bits)) +
                                 (static_cast<uint64_t>(1023 - scale_.bias) << 52));
  }

 private:
  enum class Way : uint8_t { none, nearest, floor, ceil };

  int64_t nearest_code(double scale) const;
  int64_t power_code_of(double scale) const;

  FloatFormat scale_;
  Way way_ = Way::none;
  double factor_ = 0.0;  // amax * factor_ is rounded, to 2^-50
  int down_ = 0;         // what is taken from the exponent
  double smallest_normal_ = 0.0, largest_ = 0.0, step_ = 0.0;
};

}  // namespace fp4
