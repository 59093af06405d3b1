#include "src/listed/listed_lanes.h"

#include <cstring>

#include "fp4/bits.h"

namespace fp4 {

// v and its share d err by less than 2^-22 and v/gap*2^-22, twice that of even steps. A value that v passes by that
// error is another rank and d near 0 in place of near 1: no threshold that is `clear` of both ends tells them apart.
#if defined(__x86_64__)
__attribute__((target_clones("default", "avx2")))
#endif
bool ranks_between(const ListedSteps& list, float inverse, const float (&x)[16], const float (&threshold)[16],
                   int32_t (&rank)[16], int32_t (&unsure)[16]) {
  constexpr int width = 16, lanes = 8;
  typedef float Floats __attribute__((vector_size(4 * lanes)));
  typedef int32_t Ints __attribute__((vector_size(4 * lanes)));
  constexpr float clear = 0x1p-12f, margin = 0x1p-20f;
  Ints any = {};
  for (int i = 0; i < width; i += lanes) {
    Ints bits, below = {};
    Floats level, share, least;
    std::memcpy(&bits, x + i, sizeof bits);
    std::memcpy(&level, threshold + i, sizeof level);
    const Ints is_negative = bits < 0;
    const Floats v = (Floats)(bits & 0x7fffffff) * inverse;
    if (list.per_step > 0.0f) {
      const Floats steps = v * list.per_step, last = is_negative ? Floats{} + list.last[1] : Floats{} + list.last[0];
      const Floats within = steps < last ? steps : last;
      below = __builtin_convertvector(within, Ints);
      share = within - __builtin_convertvector(below, Floats) + (v - v);  // NaN where x is no number
      least = (within + 1.0f) * margin;
    } else {
      Floats low = {}, per_gap = {};
      for (size_t at = 0; at < static_cast<size_t>(list.count); ++at) {
        const Floats value = is_negative ? Floats{} + list.value[1][at] : Floats{} + list.value[0][at];
        const Ints is_past = at == 0 ? ~Ints{} : v >= value;
        low = is_past ? value : low, below -= is_past;
        per_gap = is_past ? (is_negative ? Floats{} + list.per_gap[1][at] : Floats{} + list.per_gap[0][at]) : per_gap;
      }
      below -= 1;
      share = (v - low) * per_gap, least = (v * per_gap + 1.0f) * margin;
    }
    const Floats off = share - level;
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

}  // namespace fp4
