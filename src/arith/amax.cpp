#include "src/arith/amax.h"

#include <algorithm>
#include <cstring>

#include "fp4/bits.h"

namespace fp4 {
namespace {

// One running maximum a lane, joined at the end; words are compared as signed, whose maximum is one instruction.
template <class Word, class Signed, int parts>
inline __attribute__((always_inline)) Signed largest_below(const void* from, int64_t count, Signed infinity) {
  const auto* bytes = static_cast<const unsigned char*>(from);
  constexpr auto magnitude = static_cast<Signed>(static_cast<Word>(~Word{0}) >> 1);
  Signed largest[parts] = {};
  const auto take = [&](int64_t i, int part) __attribute__((always_inline)) {
    Signed bits;
    std::memcpy(&bits, bytes + i * static_cast<int64_t>(sizeof bits), sizeof bits);
    bits = static_cast<Signed>(bits & magnitude);
    const Signed kept = bits < infinity ? bits : Signed{0};
    largest[part] = kept > largest[part] ? kept : largest[part];
  };
  int64_t i = 0;
  for (; i + parts <= count; i += parts)
    for (int part = 0; part < parts; ++part) take(i + part, part);
  for (; i < count; ++i) take(i, 0);
  return *std::max_element(largest, largest + parts);
}

}  // namespace

#if defined(__x86_64__)
#define FP4_AVX2_TOO __attribute__((target_clones("default", "avx2")))
#else
#define FP4_AVX2_TOO
#endif

FP4_AVX2_TOO float finite_amax(const float* x, int64_t count) {
  return float_of(static_cast<uint32_t>(largest_below<uint32_t, int32_t, 32>(x, count, 0x7f800000)));
}

FP4_AVX2_TOO uint16_t finite_amax_bits(const void* x, int64_t count, uint16_t infinity) {
  return static_cast<uint16_t>(largest_below<uint16_t, int16_t, 64>(x, count, static_cast<int16_t>(infinity)));
}

FP4_AVX2_TOO void narrow_to_bf16(const float* x, int64_t count, uint16_t* out) {
  for (int64_t i = 0; i < count; ++i) {
    uint32_t bits;
    std::memcpy(&bits, x + i, 4);
    const auto size = static_cast<int32_t>(bits & 0x7fffffff);
    const uint32_t rounded = bits + (size < 0x7f800000 ? 0x7fffu + (bits >> 16 & 1) : 0u);
    out[i] = static_cast<uint16_t>(rounded >> 16 | (size > 0x7f800000 ? 0x40u : 0u));
  }
}

}  // namespace fp4
