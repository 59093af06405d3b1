// Operands of codes and scales chosen at random, for the products of fast backends.
#pragma once

#include <cmath>
#include <random>
#include <string>

#include "src/arith/spec_text.h"

namespace fp4::test {

using Random = std::mt19937;

inline int pick(Random& random, int n) { return static_cast<int>(random() % static_cast<uint32_t>(n)); }

template <class T, size_t n>
T one_of(Random& random, const T (&choices)[n]) {
  return choices[pick(random, static_cast<int>(n))];
}

// Magnitude codes of one kind.
enum class Codes { any, largest, subnormal, large, beside_units, sparse };
inline constexpr Codes all_codes[] = {Codes::any,   Codes::largest,      Codes::subnormal,
                                      Codes::large, Codes::beside_units, Codes::sparse};

inline uint32_t magnitude(Codes kind, const FloatFormat& f, Random& random) {
  const int largest = static_cast<int>(f.largest_code);
  const int subnormals = 1 << f.mantissa_bits;
  const int code = pick(random, largest + 1);
  switch (kind) {
    case Codes::any: return static_cast<uint32_t>(code);
    case Codes::largest: return f.largest_code;
    case Codes::subnormal: return static_cast<uint32_t>(pick(random, subnormals));
    case Codes::large: return static_cast<uint32_t>(largest - pick(random, smaller(largest, 3 * subnormals)));
    case Codes::beside_units:  // binades in which the last bit lies below, at and above a unit
      return static_cast<uint32_t>(pick(random, 8) == 0 ? largest : smaller(largest, pick(random, 10 * subnormals)));
    case Codes::sparse:  // large, but for one in forty
      return static_cast<uint32_t>(pick(random, 40) == 0 ? code : largest - pick(random, smaller(largest, subnormals)));
  }
  return 0;
}

// set_code would leave the bits of a packed one.
inline void clear_code(Quantized& q, int64_t r, int64_t k) {
  uint8_t* row = q.codes.data() + r * q.code_row_bytes();
  if (!q.is_packed()) return q.set_code(r, k, 0);
  row[k / 2] = static_cast<uint8_t>(row[k / 2] & (k % 2 == 0 ? 0xF0 : 0x0F));
}

// The code of the scale 2^exponent.
inline uint8_t scale_code(const QuantSpec& s, int exponent) {
  const FloatFormat& f = format_of(s.scale);
  return static_cast<uint8_t>((f.bias + exponent) << f.mantissa_bits);
}

// An operand of zeros with all scales 2^exponent.
inline Quantized operand(const QuantSpec& spec, int64_t rows, int64_t k, int exponent) {
  Quantized q;
  q.spec = spec;
  q.rows = rows;
  q.cols = k;
  q.geometry = geometry_of(q.spec, rows, k);
  q.codes.assign(static_cast<size_t>(rows * q.code_row_bytes()), 0);
  const auto scales = static_cast<size_t>(q.geometry.scale_rows * q.geometry.scale_cols);
  if (is_real(q.spec.scale)) {
    q.real_scales.assign(scales, std::ldexp(1.0f, exponent));
  } else {
    q.scales.assign(scales, scale_code(q.spec, exponent));
  }
  q.tensor_scale = {1.0f};
  return q;
}
inline Quantized operand(const char* words, int64_t rows, int64_t k, int exponent) {
  return operand(quant_spec_from_words(words), rows, k, exponent);
}

inline void set_scale(Quantized& q, int64_t i, float value) {
  const auto at = static_cast<size_t>(i);
  if (is_real(q.spec.scale)) {
    q.real_scales[at] = value;
    return;
  }
  const FloatFormat& f = format_of(q.spec.scale);
  q.scales[at] = static_cast<uint8_t>(is_nan(value) ? f.nan_code : encode(f, exact_magnitude(value), false, {}));
}

// A number in [1, 2): ends of the binade, few bits, or all 24.
inline float significand(Random& random) {
  constexpr float ends[] = {1.0f, 1.0f + 0x1p-23f, 1.5f, 2.0f - 0x1p-23f};
  return pick(random, 2) == 0 ? ends[pick(random, 4)] : 1.0f + static_cast<float>(random() >> 9) * 0x1p-23f;
}

struct Filling {
  Codes codes;
  bool has_signs;
  int exponent;  // of the scales, up to `spread` more
  int spread;
};

inline Quantized filled(const char* words, int64_t rows, int64_t k, const Filling& how, Random& random) {
  Quantized q = operand(words, rows, k, how.exponent);
  const FloatFormat& f = format_of(q.spec.element);
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t i = 0; i < k; ++i) {
      const uint32_t sign = how.has_signs && pick(random, 2) == 0 ? f.sign_code() : 0u;
      q.set_code(r, i, magnitude(how.codes, f, random) | sign);
    }
  }
  const int steps = 1 << format_of(q.spec.scale).mantissa_bits;
  for (uint8_t& s : q.scales) s = static_cast<uint8_t>(s + pick(random, how.spread + 1) * steps + pick(random, steps));
  const uint32_t kept = q.spec.scale == Scale::bf16 ? 0xFFFF0000u : 0xFFFFFFFFu;
  for (float& s : q.real_scales) {
    s = float_of(bits_of(std::ldexp(s, pick(random, how.spread + 1)) * significand(random)) & kept);
  }
  return q;
}

}  // namespace fp4::test
