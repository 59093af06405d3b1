#include "src/golden/inputs.h"

#include <algorithm>
#include <cmath>

#include "fp4/backend.h"
#include "src/backends/backends.h"

namespace fp4::golden {
namespace {

// Draws of the generator itself, away from those of any operand: the top bit of the stream is set.
uint32_t draw(RandomPlace place, uint64_t i, uint32_t which) {
  return random_draw({place.seed ^ 0x9E3779B97F4A7C15u, 0x80000000u | place.stream << 3 | which, place.step}, i, 32);
}

float normal(RandomPlace place, uint64_t i, uint32_t which) {
  const float u0 = static_cast<float>(draw(place, 2 * i, which) >> 8) * 0x1p-24f;
  const float u1 = static_cast<float>(draw(place, 2 * i + 1, which) >> 8) * 0x1p-24f;
  return __builtin_sqrtf(-2.0f * elementary::log(1.0f - u0)) * elementary::cos(6.28318531f * u1);
}

float nudged(float x, int ulps) {
  const int64_t bits = static_cast<int64_t>(magnitude_bits(x)) + ulps;
  const int64_t clamped = smaller<int64_t>(larger<int64_t>(bits, 0), float_largest_bits);
  return float_of(static_cast<uint32_t>(clamped));
}

// The amax that a tensor factor is made from: 32 to 8192, of any significand, so that orders of operations round g, S
// and what they make of them in different ways. An amax of 6*2^7 has S = 3.5, under which all of them agree.
float factor_amax(RandomPlace place, uint64_t group) {
  const uint32_t w = draw(place, group, 7);
  return float_of((w & 0x7FFFFFu) | (132u + (w >> 24) % 8u) << 23);
}

// A maximum whose scale is hard to get right: near a binade, near M times a midpoint of two scale codes, or anything;
// times the factor that the tensor scale divides by, `g`, where there is one. Then the midpoints are those of all
// codes.
float hard_maximum(const QuantSpec& spec, RandomPlace place, uint64_t block, float g) {
  const uint32_t w = draw(place, block, 2);
  const int ulps = static_cast<int>(w % 9) - 4;
  const FloatFormat& scale = format_of(spec.scale);
  const float largest = decode(format_of(spec.element), format_of(spec.element).largest_code);
  const auto scaled = [&](float x) { return nudged(x * g, ulps); };
  switch (w >> 8 & 3) {
    case 0: return scaled(power_of_two(static_cast<int>(w >> 16 & 15) - 8));
    case 1: {
      if (!spec.has_scale()) break;
      const uint32_t one = code_of_one(scale);
      const bool all = spec.has_tensor_scale() && scale.has_zero;
      const uint32_t span = all ? scale.largest_code - 1 : smaller(one, scale.largest_code - one) / 2 + 1;
      const uint32_t code = all ? (w >> 16) % span : one - span / 2 + (w >> 16) % span;
      const double middle =
          0.5 * (static_cast<double>(decode(scale, code)) + static_cast<double>(decode(scale, code + 1)));
      return nudged(static_cast<float>(static_cast<double>(largest) * middle * static_cast<double>(g)), ulps);
    }
    case 2: return scaled(largest * power_of_two(static_cast<int>(w >> 16 & 15) - 8));
    default: break;
  }
  return float_of((w & 0x7FFFFFu) | (120u + (w >> 24) % 16u) << 23);
}

// d at which the draw of a stochastic mode flips: t + r = 2^n with t rounded as the mode says; 1/2 for the others.
double threshold(const QuantSpec& spec, RandomPlace place, uint64_t position) {
  if (!is_stochastic(spec.rounding)) return 0.5;
  const double range = static_cast<double>(uint64_t{1} << spec.random_bits);
  const double needed = range - static_cast<double>(random_draw(place, position, spec.random_bits));
  return (spec.rounding == Rounding::stochastic_truncated ? needed : needed - 0.5) / range;
}

std::vector<float> boundary_input(const QuantSpec& spec, int64_t rows, int64_t cols, RandomPlace place) {
  const BlockGeometry g = geometry_of(spec, rows, cols);
  std::vector<float> x(static_cast<size_t>(rows * cols), 0.0f);
  const auto at = [&](int64_t r, int64_t c) -> float& { return x[static_cast<size_t>(r * cols + c)]; };
  const Quantizer resolved = resolve(spec);
  const int64_t factor_cols = spec.tensor_scale_cols(cols);  // 0: one factor for all
  for (int64_t r = 0; r < rows; r += g.block_rows) {
    for (int64_t c = 0; c < cols; c += g.block_cols) {
      const int64_t column = factor_cols > 1 ? c / outer_scale_width : 0;
      const float amax = factor_amax(place, static_cast<uint64_t>(factor_cols == 0 ? 0 : r * factor_cols + column));
      const bool opens = (factor_cols == 0 ? r == 0 : true) && (factor_cols > 1 ? c % outer_scale_width == 0 : c == 0);
      const float m = spec.has_tensor_scale() ? tensor_factor(resolved, amax).g : 1.0f;
      const float hard = hard_maximum(spec, place, static_cast<uint64_t>(r * cols + c), m);
      at(r, c) = !spec.has_tensor_scale() ? hard : opens ? amax : smaller(hard, amax);
    }
  }
  QuantSpec plain = spec;  // the scales that these maxima give
  plain.rounding = Rounding::nearest_even;
  Quantized q;
  reference_backend().quantize({.x = view_of(x.data(), rows, cols), .spec = plain, .place = place}, q);
  const FloatFormat& element = resolved.element;
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < cols; ++c) {
      if (r % g.block_rows == 0 && c % g.block_cols == 0) continue;
      const auto i = static_cast<uint64_t>(r * cols + c);
      const uint32_t w = draw(place, i, 3);
      const float amax = at(r - r % g.block_rows, c - c % g.block_cols);
      float s = 1.0f;
      if (spec.has_scale()) {
        const auto index = static_cast<size_t>(q.scale_index(r, c));
        s = is_real(spec.scale) ? q.real_scales[index] : scale_value(resolved, q.scales[index]);
      }
      const uint32_t code = w % element.largest_code;
      const double low = decode(element, code);
      const double high = decode(element, code + 1);
      const double share = (w >> 20 & 3) == 0 ? 0.0 : threshold(spec, place, i);
      const double value = (low + share * (high - low)) * static_cast<double>(s) *
                           static_cast<double>(q.tensor_multiplier_at(r, c)) / static_cast<double>(spec.prescale);
      float v = nudged(static_cast<float>(value), static_cast<int>(w >> 12 & 7) % 5 - 2);
      if (!(v <= amax)) v = amax;
      at(r, c) = (w >> 30 & 1) != 0 ? -v : v;
    }
  }
  return x;
}

// Of two rows, one with pairs alike and one with pairs of either sign, the large products cancel.
float cancelling_value(RandomPlace place, uint64_t row, uint64_t k, uint64_t i) {
  const uint32_t w = draw(place, row, 2);
  const bool is_small = k / 32 % 2 == 1, is_odd = (w & 1) != 0;
  const int of_row = (w >> 8) % 2 == 0 ? -60 - static_cast<int>((w >> 16) % 16) : 0;
  if (draw(place, i / 2, 1) % 8 == 0) return 0.0f;
  if (is_small) return std::ldexp(normal(place, i, 4), of_row - static_cast<int>(draw(place, i / 16, 5) % 32));
  const float v = std::ldexp(normal(place, i - k % 2, 4), of_row);
  return is_odd && k % 2 == 1 ? -v : v;
}

float special_value(uint32_t w) {
  constexpr uint32_t patterns[] = {0x00000000u, 0x80000000u, 0x7F800000u, 0xFF800000u, 0x7FC00000u,
                                   0x7F7FFFFFu, 0xFF7FFFFFu, 0x00000001u, 0x80000001u, 0x00800000u,
                                   0x007FFFFFu, 0x3F800000u, 0xFFC00000u};
  return float_of(patterns[w % 13]);
}

}  // namespace

float rounded_to(RealType type, float x) {
  if (type == RealType::fp32 || !is_finite(x) || x == 0.0f) return x;
  const RealTypeInfo& t = row_of(real_type_table, type);
  const double step = std::ldexp(1.0, std::max(std::ilogb(x), t.smallest_exponent) - t.digits + 1);
  const double y = std::nearbyint(static_cast<double>(x) / step) * step;
  return std::abs(y) > t.largest ? std::copysign(float_of(float_infinity_bits), x) : static_cast<float>(y);
}

void round_words(RealType type, std::vector<uint32_t>& words) {
  if (type == RealType::fp32) return;
  for (uint32_t& word : words) word = bits_of(rounded_to(type, float_of(word)));
}

std::vector<float> make_input(InputKind kind, const QuantSpec& spec, int64_t rows, int64_t cols, RandomPlace place) {
  if (kind == InputKind::boundary) return boundary_input(spec, rows, cols, place);
  std::vector<float> x(static_cast<size_t>(rows * cols));
  for (uint64_t i = 0; i < x.size(); ++i) {
    const uint32_t w = draw(place, i, 1);
    switch (kind) {
      case InputKind::boundary: break;
      case InputKind::gaussian:
        x[i] = normal(place, i, 4) *
               elementary::exp(0.693147181f * static_cast<float>(draw(place, i / 32, 5) >> 8) * 0x1p-24f);
        break;
      case InputKind::heavy_tailed: x[i] = normal(place, i, 4) * elementary::exp(3.0f * normal(place, i, 6)); break;
      case InputKind::spread:
        x[i] = std::ldexp(normal(place, i, 4), static_cast<int>(draw(place, i / 16, 5) % 25) - 12);
        break;
      case InputKind::cancelling: {
        const auto width = static_cast<uint64_t>(cols);
        x[i] = cancelling_value(place, i / width, i % width, i);
        break;
      }
      case InputKind::subnormal: x[i] = float_of((w & float_sign_bit) | (w >> 4 & 0xFFFFFu) >> (w % 21)); break;
      case InputKind::special: {
        // blocks without specials beside blocks with one: most of a row must stay comparable
        const bool is_special = w % 61 == 0;
        x[i] = is_special ? special_value(w >> 8) : float_of((w & 0x807FFFFFu) | (118u + (w >> 23 & 15u)) << 23);
        if (i / 64 % 7 == 3) x[i] = (w & 1) != 0 ? -0.0f : 0.0f;  // all-zero blocks
        break;
      }
    }
  }
  return x;
}

}  // namespace fp4::golden
