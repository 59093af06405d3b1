// An operand of a dot product as hardware has it: codes side by side in words, the first in the lowest bits, and beside
// them the scale codes of its blocks. In the shape that accumulate.h reads; without tensor scale.
#pragma once

#include <string>
#include <vector>

#include "fp4/gemm.h"
#include "fp4/spec.h"

namespace fp4 {

struct PackedOperand {
  const FloatFormat* element = nullptr;
  const FloatFormat* scales_of = nullptr;  // null: no scales
  int64_t block_size = 0;
  const uint32_t *codes = nullptr, *scale_codes = nullptr;

  static uint32_t field(const uint32_t* words, int64_t i, int bits) {
    const int64_t at = i * bits, shift = at % 32;
    const uint64_t low = words[at / 32], high = shift + bits > 32 ? words[at / 32 + 1] : 0;
    return static_cast<uint32_t>((low | high << 32) >> shift) & ((1u << bits) - 1u);
  }
  uint32_t code(int64_t k) const { return field(codes, k, element->code_bits()); }
  int64_t fixed(int64_t k) const { return decode_fixed(*element, code(k)); }
  float scale(int64_t k) const {
    return has_scale() ? decode(*scales_of, field(scale_codes, k / block_size, 8)) : 1.0f;
  }
  float unscaled(int64_t k) const { return decode(*element, code(k)); }
  float scaled(int64_t k) const { return unscaled(k) * scale(k); }
  float value(int64_t k) const { return scaled(k); }
  int64_t block() const { return has_scale() ? block_size : 0; }
  const FloatFormat& format() const { return *element; }
  int scale_min_exponent() const { return scales_of->min_exponent(); }
  bool has_scale() const { return scales_of != nullptr; }
};

// Whether codes fill words so, and sums of their products are integers times a power of two.
inline bool is_packable(const FloatFormat& element) {
  return element.code_bits() <= 8 && element.max_exponent() - element.quantum_log2() < 62 && !element.has_micro();
}

}  // namespace fp4

namespace fp4::golden {

// One output of a product step by step, as a designer compares it with signals: every term with its exponent, the unit
// that it is cut to, the bits that fall off, the exact sum and the word it becomes.
struct TraceLine {
  int64_t first = 0, last = 0;  // products of K; none: the accumulator, or the sum of a step
  std::string what;             // "C", "term", "sum", "result"
  std::string value;            // hexadecimal integer times a power of two
  std::string weight, unit;     // exponents: what it is aligned by, what it is cut to; "" where nothing is cut
  std::string cut;              // bits that fall off, in hexadecimal
};

// Error for a kind of adder whose terms are not integers in a common unit.
std::vector<TraceLine> adder_trace(const Accumulator& row, const PackedOperand& a, const PackedOperand& b, int64_t k);

}  // namespace fp4::golden
