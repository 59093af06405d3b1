// A fixed-point number wide enough for every sum that an accumulator model forms: sums are exact, and one rounding
// at the end gives a float (Kulisch). Range: products of two lists of values (>= 2^-86, element_grid.h) times two fp32
// scales (>= 2^-149 each) need bits from 2^-384; products below 2^80 times two scales below 2^128 summed over 2^40
// terms stay below 2^376.
#pragma once

#include "fp4/codec.h"

namespace fp4 {

class ExactSum {
 public:
  // += value * factor * 2^exponent; value any 128-bit integer, exponent >= -384. Their product may have 192 bits.
  FP4_HD constexpr void add(int128 value, int exponent, uint64_t factor = 1) {
    const bool negative = value < 0;
    const uint128 m = negative ? ~static_cast<uint128>(value) + 1 : static_cast<uint128>(value);
    const uint128 low = static_cast<uint64_t>(m), high = m >> 64;
    if (low != 0) add_magnitude(low * factor, exponent, negative);
    if (high != 0) add_magnitude(high * factor, exponent + 64, negative);
  }
  FP4_HD constexpr void add_magnitude(uint128 m, int exponent, bool negative) {
    const int bit = exponent - lowest_log2;
    const int first = bit / 64;
    const int shift = bit % 64;
    const uint64_t low = static_cast<uint64_t>(m);
    const uint64_t high = static_cast<uint64_t>(m >> 64);
    const uint64_t parts[3] = {low << shift, shift == 0 ? high : (low >> (64 - shift)) | (high << shift),
                               shift == 0 ? 0 : high >> (64 - shift)};
    uint64_t carry = 0;
    for (int i = first; i < words; ++i) {
      const uint64_t part = i - first < 3 ? parts[i - first] : 0;
      if (i - first >= 3 && carry == 0) break;
      const uint128 sum =
          negative ? static_cast<uint128>(word_[i]) - part - carry : static_cast<uint128>(word_[i]) + part + carry;
      word_[i] = static_cast<uint64_t>(sum);
      carry = static_cast<uint64_t>(sum >> 64) & 1;
    }
  }
  // += a finite float.
  FP4_HD constexpr void add(float x) {
    const Magnitude m = exact_magnitude(x);
    add_magnitude(m.significand, m.exponent, is_negative(x));
  }
  FP4_HD constexpr bool is_zero() const {
    for (uint64_t w : word_) {
      if (w != 0) return false;
    }
    return true;
  }
  FP4_HD constexpr bool is_negative_sum() const { return (word_[words - 1] >> 63) != 0; }

  // |sum| with 64 leading bits and a sticky bit.
  FP4_HD constexpr Magnitude magnitude_of_sum() const {
    uint64_t w[words] = {};
    uint64_t carry = 1;
    for (int i = 0; i < words; ++i) {
      w[i] = word_[i];
      if (is_negative_sum()) {
        w[i] = ~word_[i] + carry;
        carry = carry != 0 && w[i] == 0 ? 1 : 0;
      }
    }
    int top = words - 1;
    while (top > 0 && w[top] == 0) --top;
    if (w[top] == 0) return {};
    const int lead = floor_log2(w[top]);
    const uint64_t below = top > 0 ? w[top - 1] : 0;
    const uint64_t significand = lead == 63 ? w[top] : (w[top] << (63 - lead)) | (below >> (lead + 1));
    bool sticky = lead == 63 ? below != 0 : (below << (63 - lead)) != 0;
    for (int i = 0; i + 1 < top; ++i) sticky = sticky || w[i] != 0;
    return {significand, lowest_log2 + 64 * top + lead - 63, sticky};
  }

  // One rounding; an exactly zero sum is +0.
  FP4_HD constexpr float round(Rounding mode) const {
    return round_to_float(magnitude_of_sum(), is_negative_sum(), mode);
  }

 private:
  static constexpr int words = 12;
  static constexpr int lowest_log2 = -384;
  uint64_t word_[words] = {};  // two's complement, little end first
};

}  // namespace fp4
