#include "src/listed/listed_scales.h"

#include <cmath>

#include "src/listed/listed_codes.h"

namespace fp4 {
namespace {

constexpr uint64_t doubtful = 64;  // units of 2^-52; two products and two quotients err by less than 4

double as_double(const Magnitude& m) { return std::ldexp(static_cast<double>(m.significand), m.exponent); }

}  // namespace

ListedScales::ListedScales(const Quantizer& q, const FloatFormat& element, TensorFactor t) : scale_(q.scale) {
  const bool is_plain = q.has_scale() && !q.scale.is_grid() && q.arithmetic == Arithmetic::exact &&
                        q.compute == Compute::fp32 && q.subnormals == Subnormals::keep && !(q.soft_alpha > 0.0f) &&
                        !(q.scale_floor > 0.0f) && !(q.scale_ceiling > 0.0f) && q.exponent == Exponent::bits;
  if (!is_plain || !is_finite(t.g) || !(t.g > 0.0f)) return;
  Quantizer own = q;
  own.element = element;
  const double g = static_cast<double>(t.g), largest = as_double(element.largest());
  double divisor = 0.0;
  switch (q.scale_rule) {
    case ScaleRule::amax:
      if (!is_listed_nearest(q.scale_rounding)) return;
      way_ = Way::nearest;
      divisor = as_double(own.divisor().numerator) * g / own.divisor().denominator;
      break;
    case ScaleRule::rceil: way_ = Way::ceil, divisor = largest * g; break;
    case ScaleRule::ceil: way_ = Way::ceil, divisor = g, down_ = element.max_exponent(); break;
    case ScaleRule::floor: way_ = Way::floor, divisor = g, down_ = element.max_exponent(); break;
    default: return;
  }
  factor_ = 1.0 / divisor;
  smallest_normal_ = std::ldexp(1.0, scale_.min_exponent());
  largest_ = as_double(scale_.largest());
  step_ = std::ldexp(1.0, scale_.quantum_log2());
}

int64_t ListedScales::code(float amax) const {
  if (way_ == Way::none) return -1;
  const double scale = static_cast<double>(amax) * factor_;
  return way_ == Way::nearest ? nearest_code(scale) : power_code_of(scale);
}

int64_t ListedScales::nearest_code(double scale) const {
  if (!(scale < largest_)) return -1;
  int64_t code = 0;
  if (scale < smallest_normal_) {
    if (!scale_.has_zero) return -1;
    const double steps = scale / step_, whole = std::floor(steps);
    if (std::fabs(steps - whole - 0.5) < 0x1p-20) return -1;
    code = static_cast<int64_t>(whole) + (steps - whole > 0.5 ? 1 : 0);
  } else {
    const int shift = 52 - scale_.mantissa_bits;
    const uint64_t bits = bits_of(scale), half = uint64_t{1} << (shift - 1), rest = bits & (2 * half - 1);
    if (rest + doubtful > half && rest < half + doubtful) return -1;
    const auto whole = static_cast<int64_t>(bits >> shift);
    code = whole + (rest > half ? 1 : 0) - (int64_t{1023 - scale_.bias} << scale_.mantissa_bits);
  }
  return code <= (scale_.has_zero ? 0 : -1) || code > static_cast<int64_t>(scale_.largest_code) ? -1 : code;
}

int64_t ListedScales::power_code_of(double scale) const {
  const uint64_t bits = bits_of(scale), rest = bits & ((uint64_t{1} << 52) - 1);
  if (!(scale > 0x1p-1000 && scale < 0x1p1000) || rest < doubtful || rest > (uint64_t{1} << 52) - doubtful) return -1;
  const int exponent = static_cast<int>(bits >> 52) - 1023 + (way_ == Way::ceil ? 1 : 0) - down_;
  if (exponent < scale_.min_exponent() || exponent > scale_.max_exponent()) return -1;
  return static_cast<int64_t>(exponent + scale_.bias) << scale_.mantissa_bits;
}

}  // namespace fp4
