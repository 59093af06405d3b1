#include "src/backends/listed_lanes.h"

#include <cstring>
#include <limits>

#include "fp4/bits.h"

namespace fp4 {
namespace listed_lanes {
namespace {

constexpr int width = 16, lanes = 8;
typedef float Floats __attribute__((vector_size(4 * lanes)));
typedef int32_t Ints __attribute__((vector_size(4 * lanes)));
typedef double Doubles __attribute__((vector_size(32)));
typedef int64_t Longs __attribute__((vector_size(32)));
typedef float FourFloats __attribute__((vector_size(16)));
typedef int32_t FourInts __attribute__((vector_size(16)));
static_assert(Thresholds::most % 4 == 0);

// Reads and writes four at a time, up to three beyond count.
inline __attribute__((always_inline)) void set(const double* middle, int count, double divisor, double doubt,
                                               Thresholds& out) {
  constexpr double largest = static_cast<double>(std::numeric_limits<float>::max());
  FourInts any = {};
  out.count = count;
  for (int j = 0; j < count; j += 4) {
    Doubles exact;
    std::memcpy(&exact, middle + j, sizeof exact);
    exact *= divisor;
    const Doubles clamped = exact < largest ? exact : Doubles{} + largest;
    const FourFloats nearest = __builtin_convertvector(clamped, FourFloats);
    const Doubles back = __builtin_convertvector(nearest, Doubles), off = back - exact, margin = exact * doubt;
    const Longs is_near = (off <= margin) & (-off <= margin), is_above = back > exact;
    const FourInts near = __builtin_convertvector(is_near, FourInts);
    const FourInts bits = (FourInts)nearest;
    const FourInts below = bits + __builtin_convertvector(is_above, FourInts);  // -1 where above
    const FourInts tie = near != 0 ? bits : FourInts{} + static_cast<int32_t>(canonical_nan_bits);
    std::memcpy(out.below + j, &below, sizeof below);
    std::memcpy(out.tie + j, &tie, sizeof tie);
    for (int i = 0; i < 4; ++i) any[i] |= j + i < count ? near[i] : 0;
  }
  out.has_tie = (any[0] | any[1] | any[2] | any[3]) != 0;
}

inline __attribute__((always_inline)) void compare(const Thresholds& t, const Floats& size, Ints& rank, Ints& unsure) {
  for (int j = 0; j < t.count; ++j) rank -= size > t.below[j];
  for (int j = 0; t.has_tie && j < t.count; ++j) unsure |= size == t.tie[j];
}

// Of x[0..8).
inline __attribute__((always_inline)) void rank_lanes(const Thresholds& positive, const Thresholds* other,
                                                      const float* x, Ints& bits, Ints& rank, Ints& unsure) {
  std::memcpy(&bits, x, sizeof bits);
  rank = unsure = Ints{};
  const Ints size = bits & (other == nullptr ? 0x7fffffff : -1), negated = bits ^ std::numeric_limits<int32_t>::min();
  compare(positive, (Floats)size, rank, unsure);
  if (other != nullptr) compare(*other, (Floats)negated, rank, unsure);  // one of both is 0
}

inline __attribute__((always_inline)) void ranks(const Thresholds& positive, const Thresholds* other,
                                                 const float (&x)[width], int32_t (&rank)[width],
                                                 int32_t (&unsure)[width]) {
  for (int i = 0; i < width; i += lanes) {
    Ints bits, above, ties;
    rank_lanes(positive, other, x + i, bits, above, ties);
    std::memcpy(rank + i, &above, sizeof above);
    std::memcpy(unsure + i, &ties, sizeof ties);
  }
}

inline __attribute__((always_inline)) bool straight(const Thresholds& positive, const Thresholds* other,
                                                    const StraightCodes& codes, const float (&x)[width],
                                                    uint32_t (&out)[width]) {
  Ints any = {};
  for (int i = 0; i < width; i += lanes) {
    Ints bits, rank, unsure;
    rank_lanes(positive, other, x + i, bits, rank, unsure);
    any |= unsure | ((bits & 0x7fffffff) >= static_cast<int32_t>(float_infinity_bits));
    const Ints is_negative = bits < 0;
    const Ints first = is_negative ? Ints{} + codes.first[1] : Ints{} + codes.first[0];
    const Ints step = is_negative ? Ints{} + codes.step[1] : Ints{} + codes.step[0];
    const Ints code = (first + step * rank) & codes.mask;
    std::memcpy(out + i, &code, sizeof code);
  }
  int32_t found = 0;
  for (int i = 0; i < lanes; ++i) found |= any[i];
  return found == 0;
}

// v and its share d err by less than 2^-22 and v/gap*2^-22. A value that v passes by that error is another rank and d
// near 0 in place of near 1: no threshold that is `clear` of both ends tells them apart.
inline __attribute__((always_inline)) bool between(const ListedSteps& list, float inverse, const float (&x)[width],
                                                   const float (&threshold)[width], int32_t (&rank)[width],
                                                   int32_t (&unsure)[width]) {
  constexpr float clear = 0x1p-12f, margin = 0x1p-20f;
  Ints any = {};
  for (int i = 0; i < width; i += lanes) {
    Ints bits, below = {};
    Floats level, low, per_gap;
    std::memcpy(&bits, x + i, sizeof bits);
    std::memcpy(&level, threshold + i, sizeof level);
    const Ints is_negative = bits < 0;
    const Floats v = (Floats)(bits & 0x7fffffff) * inverse;
    if (list.per_step > 0.0f) {
      const Floats steps = v * list.per_step, last = is_negative ? Floats{} + list.last[1] : Floats{} + list.last[0];
      below = __builtin_convertvector(steps < last ? steps : last, Ints);
    } else {
      for (size_t j = 1; j < static_cast<size_t>(list.count); ++j)
        below -= v >= (is_negative ? Floats{} + list.value[1][j] : Floats{} + list.value[0][j]);
    }
    for (int j = 0; j < lanes; ++j) {
      const auto at = static_cast<size_t>(below[j]);
      low[j] = list.value[bits[j] < 0 ? 1 : 0][at], per_gap[j] = list.per_gap[bits[j] < 0 ? 1 : 0][at];
    }
    const Floats share = (v - low) * per_gap, off = share - level, least = (v * per_gap + 1.0f) * margin;
    const Ints result = below - (off > 0.0f);
    const Ints doubt = ~(((off > least) | (-off > least)) & (level > clear) & (level < 1.0f - clear));
    std::memcpy(rank + i, &result, sizeof result);
    std::memcpy(unsure + i, &doubt, sizeof doubt);
    any |= doubt;
  }
  int32_t found = 0;
  for (int i = 0; i < lanes; ++i) found |= any[i];
  return found != 0;
}

struct Loops {
  bool (*between)(const ListedSteps&, float, const float (&)[width], const float (&)[width], int32_t (&)[width],
                  int32_t (&)[width]);
  void (*set)(const double*, int, double, double, Thresholds&);
  void (*ranks)(const Thresholds&, const Thresholds*, const float (&)[width], int32_t (&)[width], int32_t (&)[width]);
  bool (*straight)(const Thresholds&, const Thresholds*, const StraightCodes&, const float (&)[width],
                   uint32_t (&)[width]);
};

#define FP4_LISTED_LOOPS(NAME, ATTRIBUTE)                                                                         \
  ATTRIBUTE bool between_##NAME(const ListedSteps& list, float inverse, const float(&x)[width],                   \
                                const float(&threshold)[width], int32_t(&rank)[width], int32_t(&unsure)[width]) { \
    return between(list, inverse, x, threshold, rank, unsure);                                                    \
  }                                                                                                               \
  ATTRIBUTE void set_##NAME(const double* middle, int count, double divisor, double doubt, Thresholds& out) {     \
    set(middle, count, divisor, doubt, out);                                                                      \
  }                                                                                                               \
  ATTRIBUTE void ranks_##NAME(const Thresholds& positive, const Thresholds* other, const float(&x)[width],        \
                              int32_t(&rank)[width], int32_t(&unsure)[width]) {                                   \
    ranks(positive, other, x, rank, unsure);                                                                      \
  }                                                                                                               \
  ATTRIBUTE bool straight_##NAME(const Thresholds& positive, const Thresholds* other, const StraightCodes& codes, \
                                 const float(&x)[width], uint32_t(&out)[width]) {                                 \
    return straight(positive, other, codes, x, out);                                                              \
  }

FP4_LISTED_LOOPS(plain, )
#if defined(__x86_64__)
FP4_LISTED_LOOPS(avx2, __attribute__((target("avx2"))))
#endif

const Loops& loops() {
  static const Loops chosen = [] {
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx2")) return Loops{between_avx2, set_avx2, ranks_avx2, straight_avx2};
#endif
    return Loops{between_plain, set_plain, ranks_plain, straight_plain};
  }();
  return chosen;
}

}  // namespace
}  // namespace listed_lanes

void set_thresholds(const double* middle, int count, double divisor, double doubt, Thresholds& out) {
  listed_lanes::loops().set(middle, count, divisor, doubt, out);
}
void thresholds_below(const Thresholds& positive, const Thresholds* other, const float (&x)[16], int32_t (&rank)[16],
                      int32_t (&unsure)[16]) {
  listed_lanes::loops().ranks(positive, other, x, rank, unsure);
}
bool ranks_between(const ListedSteps& list, float inverse, const float (&x)[16], const float (&threshold)[16],
                   int32_t (&rank)[16], int32_t (&unsure)[16]) {
  return listed_lanes::loops().between(list, inverse, x, threshold, rank, unsure);
}
bool straight_codes(const Thresholds& positive, const Thresholds* other, const StraightCodes& codes,
                    const float (&x)[16], uint32_t (&out)[16]) {
  return listed_lanes::loops().straight(positive, other, codes, x, out);
}

}  // namespace fp4
