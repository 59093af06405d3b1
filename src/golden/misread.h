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
  std::function<void(Quantized&)> apply;
};

// Those that can be of this operand: of its element format and its shape.
std::vector<Misread> misreads(const Quantized& q);

}  // namespace fp4::golden
