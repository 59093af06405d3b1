// Elements that no float format describes, as data: a list of values by code, such as a codebook of 16 numbers. Values
// are fp32 numbers, and each is a whole number of steps of 2^quantum_log2, so that midpoints are compared exactly.
//   signed    values are magnitudes, and a sign bit stands above their code: int4's twin 0 .. 7 has codes 0 .. 15
//   unsigned  a code is an index of the list, negative values included: nf4 has its zero at code 7
// A value given twice is written with its first code. A NaN in the list is a code that is never written.
#pragma once

#include <cstddef>

#include "fp4/bits.h"

namespace fp4 {

/// One level of shared exponents below the block scale: `per` elements share `bits` bits e and read 2^e as much.
struct MicroLevel {
  int per = 0;
  int bits = 0;
  friend constexpr bool operator==(const MicroLevel&, const MicroLevel&) = default;
};
inline constexpr int most_micro_levels = 2;

/// Calls of a user in place of the core's arithmetic, on the reference path only. `round` gives the code of a payload
/// under a draw of random bits; `scale` the decode-side scale of a block's [count] numbers before it is rounded to a
/// scale code. Both run on any thread.
struct ElementCalls {
  uint32_t (*round)(const ElementCalls& self, double payload, uint32_t bits) = nullptr;
  double (*scale)(const ElementCalls& self, const float* block, int64_t count) = nullptr;
};

struct ElementGrid {
  static constexpr int most_values = 256;
  static constexpr int most_codes = 512;  // of micro-exponents over 8-bit elements
  static constexpr int most_steps_log2 = 30;
  static constexpr int lowest_log2 = -43;  // of values, and what they stay below: sums of products fit ExactSum
  static constexpr int highest_log2 = 40;

  int code_bits = 0;  // sign included
  bool is_signed = false;
  int quantum_log2 = 0;
  uint32_t zero_code = 0;
  uint32_t largest_code = 0;       // magnitude code, or code, of the largest magnitude
  float value[most_codes] = {};    // by code; NaN where none
  int32_t steps[most_codes] = {};  // value / 2^quantum_log2
  // Codes that are written, by magnitude from zero on: of values >= 0, and of values <= 0 (unsigned lists).
  int count[2] = {};
  uint16_t by_magnitude[2][most_values] = {};
  // Micro-exponents: a code is their sum, then a code of the element `base` (an enumerator) below it.
  MicroLevel micro[most_micro_levels] = {};
  int base = -1;
  int base_bits = 0;
  int tie_code = -1;  // what nearest_toward_zero takes of two neighbours at one distance
  const ElementCalls* calls = nullptr;

  FP4_HD constexpr bool has_micro() const { return micro[0].per > 0; }
  /// Bits an element takes with its share of micro-exponents, block scale apart: 4.375 of HiFloat4.
  constexpr double packed_bits() const {
    if (!has_micro()) return code_bits;
    double bits = base_bits;
    for (const MicroLevel& level : micro) bits += level.per > 0 ? static_cast<double>(level.bits) / level.per : 0.0;
    return bits;
  }
  /// Whether `code` holds the largest value on its side of zero, or beyond which nothing is written.
  constexpr bool is_end(uint32_t code) const {
    const int side = !is_signed && steps[code] < 0 ? 1 : 0;
    const uint32_t magnitude = is_signed ? code & ((1u << (code_bits - 1)) - 1u) : code;
    return count[side] > 1 && by_magnitude[side][count[side] - 1] == magnitude;
  }
};

namespace grid_detail {

constexpr int trailing_zeros(uint64_t x) {
  int n = 0;
  for (; (x & 1) == 0; x >>= 1) ++n;
  return n;
}

constexpr int bits_to_count(int n) {
  int bits = 1;
  while ((1 << bits) < n) ++bits;
  return bits;
}

// The codes of one side in ascending magnitude, each value once.
constexpr void sort_side(ElementGrid& g, int codes, int side) {
  int n = 0;
  for (int code = 0; code < codes; ++code) {
    if (is_nan(g.value[code]) || (side == 0 ? g.steps[code] < 0 : g.steps[code] > 0)) continue;
    const int64_t size = g.steps[code] < 0 ? -int64_t{g.steps[code]} : g.steps[code];
    const auto size_at = [&](int i) {
      const int64_t s = g.steps[g.by_magnitude[side][i]];
      return s < 0 ? -s : s;
    };
    int at = n;
    while (at > 0 && size_at(at - 1) > size) --at;
    if (at > 0 && size_at(at - 1) == size) continue;
    for (int i = n; i > at; --i) g.by_magnitude[side][i] = g.by_magnitude[side][i - 1];
    g.by_magnitude[side][at] = static_cast<uint16_t>(code);
    ++n;
  }
  g.count[side] = n;
}

}  // namespace grid_detail

/// Why `count` values are no grid; null when they are one.
constexpr const char* grid_problem(const float* values, int count, bool is_signed) {
  if (count < 2) return "a grid has at least 2 values";
  if (count > (is_signed ? ElementGrid::most_values / 2 : ElementGrid::most_values))
    return is_signed ? "a signed grid has at most 128 magnitudes" : "a grid has at most 256 values";
  bool has_zero = false;
  float largest = 0.0f;
  int lowest = 1000;
  for (int i = 0; i < count; ++i) {
    if (is_nan(values[i])) continue;
    if (is_infinite(values[i])) return "values must be finite";
    if (is_signed && is_negative(values[i]) && values[i] != 0.0f)
      return "the values of a signed grid are magnitudes: none may be negative";
    largest = larger(largest, magnitude(values[i]));
    if (values[i] == 0.0f) {
      has_zero = true;
      continue;
    }
    const Magnitude m = exact_magnitude(values[i]);
    lowest = smaller(lowest, m.exponent + grid_detail::trailing_zeros(m.significand));
  }
  if (!has_zero) return "a grid needs a 0: pads are written as it";
  if (largest == 0.0f) return "a grid needs a value besides 0";
  if (exact_magnitude(largest).log2_floor() - lowest >= ElementGrid::most_steps_log2)
    return "all values must be multiples of one power of two, the largest less than 2^30 times it";
  if (lowest < ElementGrid::lowest_log2 || largest >= power_of_two(ElementGrid::highest_log2))
    return "values must be multiples of 2^-43 below 2^40: block scales carry the rest";
  return nullptr;
}

/// The grid of these values by code; grid_problem() is null.
constexpr ElementGrid make_grid(const float* values, int count, bool is_signed) {
  ElementGrid g;
  int lowest = 1000;
  for (int i = 0; i < count; ++i) {
    if (is_nan(values[i]) || values[i] == 0.0f) continue;
    const Magnitude m = exact_magnitude(values[i]);
    lowest = smaller(lowest, m.exponent + grid_detail::trailing_zeros(m.significand));
  }
  const int bits = grid_detail::bits_to_count(count);
  g.code_bits = bits + (is_signed ? 1 : 0);
  g.is_signed = is_signed;
  g.quantum_log2 = lowest;
  for (int code = 0; code < 1 << g.code_bits; ++code) {
    const int index = is_signed ? code & ((1 << bits) - 1) : code;
    const bool negative = is_signed && code >> bits != 0;
    if (index >= count || is_nan(values[index])) {
      g.value[code] = float_of(canonical_nan_bits);
      continue;
    }
    const float v = values[index] == 0.0f ? 0.0f : values[index];
    g.value[code] = negative ? float_of(bits_of(v) | float_sign_bit) : v;
    const Magnitude m = exact_magnitude(v);
    const int shift = v == 0.0f ? 0 : m.exponent - lowest;
    const uint64_t size = shift >= 0 ? m.significand << shift : m.significand >> -shift;
    g.steps[code] = negative || is_negative(v) ? -static_cast<int32_t>(size) : static_cast<int32_t>(size);
  }
  const int written = smaller(count, 1 << bits);
  grid_detail::sort_side(g, written, 0);
  if (!is_signed) grid_detail::sort_side(g, written, 1);
  g.zero_code = g.by_magnitude[0][0];
  const uint32_t top = g.by_magnitude[0][g.count[0] - 1];
  g.largest_code = top;
  if (!is_signed) {
    const uint32_t bottom = g.by_magnitude[1][g.count[1] - 1];
    if (-int64_t{g.steps[bottom]} > g.steps[top]) g.largest_code = bottom;
  }
  return g;
}

template <std::size_t N>
constexpr ElementGrid make_grid(const float (&values)[N], bool is_signed) {
  return make_grid(values, static_cast<int>(N), is_signed);
}

/// Micro-exponents over an element with `base_bits` code bits and these values by code; `base` is its enumerator.
constexpr ElementGrid make_micro_grid(int base, int base_bits, const float* values, const MicroLevel (&micro)[2]) {
  ElementGrid g;
  int sum = 0;
  for (const MicroLevel& level : micro) sum += (1 << level.bits) - 1;
  g.base = base;
  g.base_bits = base_bits;
  g.micro[0] = micro[0];
  g.micro[1] = micro[1];
  g.code_bits = base_bits + grid_detail::bits_to_count(sum + 1);
  int lowest = 1000;
  for (int i = 0; i < 1 << base_bits; ++i) {
    if (is_nan(values[i]) || values[i] == 0.0f) continue;
    const Magnitude m = exact_magnitude(values[i]);
    lowest = smaller(lowest, m.exponent + grid_detail::trailing_zeros(m.significand));
  }
  g.quantum_log2 = lowest;
  for (int code = 0; code < 1 << g.code_bits; ++code) {
    const int e = code >> base_bits;
    const float v = values[code & ((1 << base_bits) - 1)];
    if (e > sum || is_nan(v)) {
      g.value[code] = float_of(canonical_nan_bits);
      continue;
    }
    g.value[code] = v * power_of_two(e);
    const Magnitude m = exact_magnitude(v);
    const int shift = v == 0.0f ? 0 : m.exponent - lowest + e;
    const uint64_t size = shift >= 0 ? m.significand << shift : m.significand >> -shift;
    g.steps[code] = is_negative(v) ? -static_cast<int32_t>(size) : static_cast<int32_t>(size);
    if (g.steps[code] > g.steps[g.largest_code]) g.largest_code = static_cast<uint32_t>(code);
  }
  return g;
}

// ---- grids with names

inline constexpr float no_value = __builtin_nanf("");

// Two's complement; code 8, -8, is not written.
inline constexpr float int4_values[] = {0, 1, 2, 3, 4, 5, 6, 7, no_value, -7, -6, -5, -4, -3, -2, -1};
inline constexpr ElementGrid int4_grid = make_grid(int4_values, false);

// The same codes over the range of e2m1: k*6/7 to the nearest fp32, so that both share a scale.
inline constexpr float int4_6_values[] = {
    0,        6.0f / 7, 12.0f / 7,    18.0f / 7,    24.0f / 7,    30.0f / 7,    36.0f / 7,    6.0f,
    no_value, -6.0f,    -(36.0f / 7), -(30.0f / 7), -(24.0f / 7), -(18.0f / 7), -(12.0f / 7), -(6.0f / 7)};
inline constexpr ElementGrid int4_6_grid = make_grid(int4_6_values, false);

inline constexpr float e2m1_no_subnormals_values[] = {0, 0, 1, 1.5f, 2, 3, 4, 6};
inline constexpr ElementGrid e2m1_no_subnormals_grid = make_grid(e2m1_no_subnormals_values, true);

inline constexpr float nf4_values[] = {-1.0f,
                                       -0.6961928009986877f,
                                       -0.5250730514526367f,
                                       -0.39491748809814453f,
                                       -0.28444138169288635f,
                                       -0.18477343022823334f,
                                       -0.09105003625154495f,
                                       0.0f,
                                       0.07958029955625534f,
                                       0.16093020141124725f,
                                       0.24611230194568634f,
                                       0.33791524171829224f,
                                       0.44070982933044434f,
                                       0.5626170039176941f,
                                       0.7229568362236023f,
                                       1.0f};
inline constexpr ElementGrid nf4_grid = make_grid(nf4_values, false);

// e2m1 whose code 8 is another number than -0, which wins its ties: RaZeR takes what is strictly nearer than it.
constexpr ElementGrid make_razer_grid(const float (&values)[16]) {
  ElementGrid g = make_grid(values, false);
  g.tie_code = 8;
  return g;
}
inline constexpr float e2m1_minus_5_values[] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6, -5, -0.5f, -1, -1.5f, -2, -3, -4, -6};
inline constexpr ElementGrid e2m1_minus_5_grid = make_razer_grid(e2m1_minus_5_values);
inline constexpr float e2m1_plus_5_values[] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6, 5, -0.5f, -1, -1.5f, -2, -3, -4, -6};
inline constexpr ElementGrid e2m1_plus_5_grid = make_razer_grid(e2m1_plus_5_values);

// Sign, one bit before the point and `fraction_bits` after it: k / 2^fraction_bits.
template <int fraction_bits>
constexpr ElementGrid make_fixed_point_grid() {
  float values[2 << fraction_bits] = {};
  for (int k = 0; k < 2 << fraction_bits; ++k) values[k] = static_cast<float>(k) * power_of_two(-fraction_bits);
  return make_grid(values, true);
}
inline constexpr ElementGrid s1p2_grid = make_fixed_point_grid<2>();
inline constexpr ElementGrid s1p3_grid = make_fixed_point_grid<3>();
inline constexpr ElementGrid s1p6_grid = make_fixed_point_grid<6>();

inline constexpr float af4_values[] = {
    -1.0f,       -0.69441008f, -0.51243739f, -0.3736951f, -0.25607552f, -0.14982478f, -0.04934812f, 0.0f,
    0.04273164f, 0.12934483f,  0.21961274f,  0.31675666f, 0.42563882f,  0.55496234f,  0.72424863f,  1.0f};
inline constexpr ElementGrid af4_grid = make_grid(af4_values, false);

}  // namespace fp4
