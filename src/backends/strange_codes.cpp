#include "src/backends/strange_codes.h"

#include <algorithm>

#include "fp4/codec.h"

namespace fp4 {
namespace {

// 1 by code where a list, without its micro-exponents, holds no number; empty where all are. For codes of 4 bits by
// byte: where one of its two is such a code.
std::vector<uint8_t> special_codes(const FloatFormat& f) {
  const FloatFormat& base = f.has_micro() ? format_of(static_cast<Element>(f.grid->base)) : f;
  const uint32_t count = 1u << base.code_bits();
  std::vector<uint8_t> out;
  for (uint32_t code = 0; code < count; ++code) out.push_back(is_finite(decode(base, code)) ? 0 : 1);
  if (std::count(out.begin(), out.end(), 1) == 0) return {};
  if (f.code_bits() != 4) return out;
  std::vector<uint8_t> by_byte;
  for (uint32_t byte = 0; byte < 256; ++byte)
    by_byte.push_back(static_cast<uint8_t>(out[byte & 15 & (count - 1)] | out[byte >> 4 & (count - 1)]));
  return by_byte;
}

// Whether one of `count` codes from (row, k) on is such a code.
bool holds_one(const Quantized& q, const std::vector<uint8_t>& special, int64_t row, int64_t k, int64_t count) {
  uint8_t found = 0;
  if (q.is_packed()) {
    const uint8_t* const bytes = q.codes.data() + row * q.code_row_bytes() + k / 2;
    for (int64_t i = 0; i < count / 2; ++i) found |= special[bytes[i]];
    if (count % 2 != 0) found |= special[17 * q.code(row, k + count - 1)];
  } else {
    for (int64_t i = k; i < k + count; ++i) found |= special[q.code(row, i) & (special.size() - 1)];
  }
  return found != 0;
}

}  // namespace

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
  // By the flag of a block's scale: the element itself, and the other of a choice.
  const std::vector<uint8_t> special[2] = {
      special_codes(f), q.spec.choice.is_on ? special_codes(format_of(q.spec.choice.other)) : std::vector<uint8_t>()};
  if (special[0].empty() && special[1].empty()) return false;
  const int64_t run = q.spec.choice.is_on ? q.geometry.block_cols : q.cols;
  for (int64_t row = 0; row < q.rows; ++row) {
    const uint8_t* scale = q.spec.choice.is_on ? q.scales.data() + q.scale_index(row, 0) : nullptr;
    for (int64_t k = 0; k < q.cols; k += run) {
      const std::vector<uint8_t>& codes = special[scale != nullptr && (*scale++ & choice_flag) != 0 ? 1 : 0];
      if (!codes.empty() && holds_one(q, codes, row, k, std::min(run, q.cols - k))) return true;
    }
  }
  return false;
}

}  // namespace fp4
