#include "src/backends/strange_codes.h"

#include <algorithm>

#include "src/arith/code_order.h"

namespace fp4 {

bool has_strange_scales(const Quantized& q) {
  if (!q.spec.has_scale()) return false;
  const FloatFormat& f = format_of(q.spec.scale);
  const uint32_t cut = q.spec.scale == Scale::bf16 ? 0xFFFFu : 0u;
  uint32_t used = 0;
  for (const uint8_t s : q.scales) used |= s;
  return (!q.spec.choice.is_on && (used & ~f.magnitude_mask()) != 0) ||
         std::any_of(q.real_scales.begin(), q.real_scales.end(), [&](float s) {
           return !is_nan(s) && (is_negative(s) || !is_finite(s) || (bits_of(s) & cut) != 0);
         });
}

bool has_special_codes(const Quantized& q) {
  const FloatFormat& f = format_of(q.spec.element);
  if (!q.spec.has_scale()) return false;
  if (!f.is_grid() && !q.spec.choice.is_on) {  // one byte each, where it has more codes than numbers
    if (f.largest_code == f.magnitude_mask()) return false;
    const auto mask = static_cast<uint8_t>(f.magnitude_mask()), largest = static_cast<uint8_t>(f.largest_code);
    uint8_t beyond = 0;
    for (const uint8_t code : q.codes) beyond |= static_cast<uint8_t>((code & mask) > largest);
    return beyond != 0;
  }
  for (int64_t row = 0; row < q.rows; ++row)
    for (int64_t k = 0; k < q.cols; ++k)
      if (!is_finite(decode(element_of_block(q, row, k), q.code(row, k)))) return true;
  return false;
}

}  // namespace fp4
