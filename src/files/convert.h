// Elements of a file to float32. float16 and bfloat16 widen exactly, bit for bit (signalling NaNs and payloads stay);
// float64 rounds to nearest even; integers of up to 24 bits are exact, wider ones round to nearest
// even. These are IEEE 754 interchange formats and C++ types; the project's own formats are decoded by include/fp4.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

#include "src/files/dtype.h"

namespace fp4 {

// float16 (1+5+10 bits, bias 15) -> the bits of the equal float32. Total: every pattern has an answer.
constexpr std::uint32_t f16_to_f32_bits(std::uint16_t half) {
  const std::uint32_t sign = static_cast<std::uint32_t>(half & 0x8000u) << 16;
  const std::uint32_t magnitude = half & 0x7fffu;
  // Rebias by 112 = 127 - 15; exponent 31 (inf, NaN) needs another 112 to become 255.
  const std::uint32_t normal = (magnitude << 13) + (112u << 23) + (magnitude >= 0x7c00u ? 112u << 23 : 0u);
  // Subnormals count steps of 2^-24; a 10-bit integer converts exactly. No branches, so that loops vectorise.
  const std::uint32_t subnormal = std::bit_cast<std::uint32_t>(static_cast<float>(magnitude & 0x3ffu) * 0x1p-24f);
  return sign | (magnitude < 0x400u ? subnormal : normal);
}

// bfloat16 is the upper half of a float32.
constexpr std::uint32_t bf16_to_f32_bits(std::uint16_t bits) { return static_cast<std::uint32_t>(bits) << 16; }

// `count` elements, little endian, of a real or integer dtype -> float32. `elements` need not be aligned; it must not
// overlap `out`. Throws std::logic_error for codes, which callers refuse first.
void to_float32(Dtype dtype, const void* elements, std::size_t count, float* out);

// Reverses the bytes of each of `count` elements of `bytes_each` (1, 2, 4 or 8) bytes in place.
void swap_bytes(void* elements, std::size_t bytes_each, std::size_t count);

}  // namespace fp4
