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

inline __attribute__((always_inline)) void narrow(const float* x, int64_t count, uint16_t* out) {
  for (int64_t i = 0; i < count; ++i) {
    uint32_t bits;
    std::memcpy(&bits, x + i, 4);
    const auto size = static_cast<int32_t>(bits & 0x7fffffff);
    const uint32_t rounded = bits + (size < 0x7f800000 ? 0x7fffu + (bits >> 16 & 1) : 0u);
    out[i] = static_cast<uint16_t>(rounded >> 16 | (size > 0x7f800000 ? 0x40u : 0u));
  }
}

int32_t amax_plain(const float* x, int64_t n) { return largest_below<uint32_t, int32_t, 16>(x, n, 0x7f800000); }
int16_t amax16_plain(const void* x, int64_t n, int16_t top) { return largest_below<uint16_t, int16_t, 32>(x, n, top); }
void narrow_plain(const float* x, int64_t n, uint16_t* out) { narrow(x, n, out); }

struct Loops {
  int32_t (*amax)(const float*, int64_t) = amax_plain;
  int16_t (*amax16)(const void*, int64_t, int16_t) = amax16_plain;
  void (*narrow)(const float*, int64_t, uint16_t*) = narrow_plain;
};

#if defined(__x86_64__)
__attribute__((target("avx2"))) int32_t amax_avx2(const float* x, int64_t n) {
  return largest_below<uint32_t, int32_t, 32>(x, n, 0x7f800000);
}
__attribute__((target("avx2"))) int16_t amax16_avx2(const void* x, int64_t n, int16_t top) {
  return largest_below<uint16_t, int16_t, 64>(x, n, top);
}
__attribute__((target("avx2"))) void narrow_avx2(const float* x, int64_t n, uint16_t* out) { narrow(x, n, out); }
Loops widest() { return __builtin_cpu_supports("avx2") ? Loops{amax_avx2, amax16_avx2, narrow_avx2} : Loops{}; }
#else
Loops widest() { return {}; }
#endif

const Loops& loops() {
  static const Loops chosen = widest();
  return chosen;
}

}  // namespace

float finite_amax(const float* x, int64_t count) { return float_of(static_cast<uint32_t>(loops().amax(x, count))); }

uint16_t finite_amax_bits(const void* x, int64_t count, uint16_t infinity) {
  return static_cast<uint16_t>(loops().amax16(x, count, static_cast<int16_t>(infinity)));
}

void narrow_to_bf16(const float* x, int64_t count, uint16_t* out) { loops().narrow(x, count, out); }

}  // namespace fp4
