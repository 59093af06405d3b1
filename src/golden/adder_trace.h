// One output of a product step by step, as a designer compares it with signals: every term with its exponent, the unit
// that it is cut to, the bits that fall off, the exact sum and the word it becomes.
#pragma once

#include <string>
#include <vector>

#include "src/golden/packed_operand.h"

namespace fp4::golden {

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
