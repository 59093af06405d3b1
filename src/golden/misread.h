// How a kernel may read codes and scales that were stored rightly: nibbles the other way round, scales in another
// order or along the other axis, rows of the wrong place. Of a dump of decoded values, and of an operand of a product.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "fp4/backend.h"

namespace fp4::golden {

struct Misread {
  const char* axis;  // "nibbles", "scales"
  std::string word;
  std::string detail;
  // Where what is read at a place lies, of codes or scales row by row; beyond the last one it stays. Empty: signs of
  // codes are lost.
  std::function<int64_t(int64_t r, int64_t c)> from{};
};

// Those that can be of this operand: of its element format and its shape.
std::vector<Misread> misreads(const Quantized& q);

// Rows of an operand as they are read; without rows all of them, without a misread rightly.
Quantized read_rows(const Quantized& given, const Misread* how, const std::vector<int64_t>& rows);

}  // namespace fp4::golden
