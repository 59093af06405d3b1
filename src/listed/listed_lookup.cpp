#include "src/listed/listed_lookup.h"

#include <algorithm>
#include <cmath>

#include "fp4/bits.h"
#if defined(__x86_64__)
#include "src/cpu/simd/intrinsics.h"
#endif

namespace fp4 {
namespace {

constexpr double far_from_ends = 1e-3;  // of a midpoint from the ends of its bucket

// The buckets of one side's midpoints; false where two share one or one lies near an end.
bool bucket_of_each(const ListedSide& s, double per_unit, int (&out)[ElementGrid::most_values]) {
  for (int j = 0; j + 1 < s.count; ++j) {
    const double at = s.middle[j] * per_unit;
    out[j] = static_cast<int>(at);
    const bool is_apart = j == 0 || out[j] > out[j - 1];
    if (out[j] >= ListedLookUp::buckets || !is_apart || std::fabs(at - std::round(at)) < far_from_ends) return false;
  }
  return true;
}

}  // namespace

ListedLookUp::ListedLookUp(const ListedElement& element, const Quantizer& q) {
  const FloatFormat& f = element.format;
  int bucket[2][ElementGrid::most_values];
  double top = 0.0;
  for (const ListedSide& s : element.side) {
    if (s.count > buckets + 1) return;
    if (s.count > 1) top = std::max(top, s.middle[s.count - 2]);
  }
  if (f.code_bits() > 8 || f.overflows || q.negative_zero != NegativeZero::keep || !(top > 0.0) ||
      !has_listed_look_up())
    return;
  for (int shrunk = 0; shrunk < 64 && !is_on; ++shrunk) {
    per_unit = static_cast<float>((buckets - 0.01 - 0.13 * shrunk) / top);
    is_on = bucket_of_each(element.side[0], static_cast<double>(per_unit), bucket[0]) &&
            bucket_of_each(element.side[1], static_cast<double>(per_unit), bucket[1]);
  }
  for (int negative = 0; is_on && negative < 2; ++negative) {
    const ListedSide& s = element.side[negative];
    const uint32_t sign = negative != 0 ? f.sign_code() : 0u;
    int rank = 0;
    for (int b = 0; b < buckets; ++b) {
      const bool has_middle = rank + 1 < s.count && bucket[negative][rank] == b;
      const int at = negative * buckets + b, next = has_middle ? rank + 1 : rank;
      middle[at] = has_middle ? static_cast<float>(s.middle[rank] * static_cast<double>(per_unit)) : 0x1p60f;
      below[at] = static_cast<int32_t>(s.code[rank] | sign), above[at] = static_cast<int32_t>(s.code[next] | sign);
      value_below[at] = element.decoded[s.code[rank] | sign], value_above[at] = element.decoded[s.code[next] | sign];
      rank = next;
    }
  }
}

float listed_multiplier(float per_unit, double divisor) {
  const double m = static_cast<double>(per_unit) / divisor;
  return m > 0x1p-110 && m < 0x1p110 ? static_cast<float>(m) : 0.0f;
}

namespace {

struct Loops {
  void (*maxima)(const float*, int64_t, int64_t, int32_t*) = nullptr;
  int (*codes)(const ListedLookUp&, const float*, int64_t, const ListedUnits&, uint32_t*) = nullptr;
  void (*errors)(const ListedLookUp&, const float*, int64_t, int64_t, float, TrialError, uint32_t*,
                 ListedTrial*) = nullptr;
  bool (*exponents)(const Quantizer&, const float*, int64_t, float, int (&)[most_micro_width]) = nullptr;
  int64_t (*decode)(const float*, bool, const uint8_t*, int64_t, float, float, float*) = nullptr;
};

#if defined(__x86_64__)
#define FP4_LOOK_UP      __attribute__((target("avx512f")))
#define FP4_LOOK_UP_PART inline __attribute__((always_inline, target("avx512f")))
namespace sixteen {

constexpr int at_once = 16;
typedef float Floats __attribute__((vector_size(64)));
typedef int32_t Ints __attribute__((vector_size(64)));
using Mask = __mmask16;

FP4_LOOK_UP_PART Mask first_lanes(int64_t n) { return static_cast<Mask>(n >= at_once ? 0xFFFF : (1 << n) - 1); }
FP4_LOOK_UP_PART void load(const void* from, Mask kept, Ints& out) { out = (Ints)_mm512_maskz_loadu_epi32(kept, from); }
FP4_LOOK_UP_PART void store(uint32_t* to, Mask kept, const Ints& x) { _mm512_mask_storeu_epi32(to, kept, (__m512i)x); }
FP4_LOOK_UP_PART Mask above(const Floats& a, const Floats& b) {
  return _mm512_cmp_ps_mask((__m512)a, (__m512)b, _CMP_GT_OQ);
}
FP4_LOOK_UP_PART Mask at_most(const Ints& a, const Ints& b) { return _mm512_cmple_epi32_mask((__m512i)a, (__m512i)b); }
FP4_LOOK_UP_PART int count(Mask m) { return __builtin_popcount(m); }
FP4_LOOK_UP_PART void choose(Mask m, const Ints& x, Ints& out) {
  out = (Ints)_mm512_mask_mov_epi32((__m512i)out, m, (__m512i)x);
}
FP4_LOOK_UP_PART void pick(const void* table, const Ints& index, Ints& out) {
  const auto* from = static_cast<const int32_t*>(table);
  out = (Ints)_mm512_permutex2var_epi32(_mm512_load_si512(from), (__m512i)index, _mm512_load_si512(from + at_once));
}
FP4_LOOK_UP_PART int32_t largest_of(const Ints& x) { return _mm512_reduce_max_epi32((__m512i)x); }
FP4_LOOK_UP_PART float sum_of(const Floats& x) { return _mm512_reduce_add_ps((__m512)x); }
FP4_LOOK_UP_PART void turn(const Ints& x, int by, Ints& out) {
  const auto v = (__m512i)x;
  out = (Ints)(by == 1   ? _mm512_shuffle_epi32(v, static_cast<_MM_PERM_ENUM>(0xB1))
               : by == 2 ? _mm512_shuffle_epi32(v, static_cast<_MM_PERM_ENUM>(0x4E))
                         : _mm512_shuffle_i32x4(v, v, 0xB1));
  if (by == 8) out = (Ints)_mm512_shuffle_i32x4(v, v, 0x4E);
}
FP4_LOOK_UP_PART void decoded(const float* values, bool is_packed, const uint8_t* from, Floats& out) {
  if (is_packed) {
    const __m512i wide = _mm512_cvtepu8_epi64(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(from)));
    const __m512i code = _mm512_and_si512(_mm512_or_si512(wide, _mm512_slli_epi64(wide, 28)), _mm512_set1_epi32(0xF));
    out = (Floats)_mm512_permutexvar_ps(code, _mm512_loadu_ps(values));
  } else {
    const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
    out = (Floats)_mm512_i32gather_ps(_mm512_cvtepu8_epi32(bytes), values, 4);
  }
}
#include "src/listed/listed_lookup_body.h"

}  // namespace sixteen
#undef FP4_LOOK_UP
#undef FP4_LOOK_UP_PART
#define FP4_LOOK_UP      __attribute__((target("avx2")))
#define FP4_LOOK_UP_PART inline __attribute__((always_inline, target("avx2")))
namespace eight {

constexpr int at_once = 8;
typedef float Floats __attribute__((vector_size(32)));
typedef int32_t Ints __attribute__((vector_size(32)));
using Mask = Ints;

FP4_LOOK_UP_PART Mask first_lanes(int64_t n) {
  return Ints{0, 1, 2, 3, 4, 5, 6, 7} < static_cast<int32_t>(std::min<int64_t>(n, at_once));
}
FP4_LOOK_UP_PART void load(const void* from, Mask kept, Ints& out) {
  out = (Ints)_mm256_maskload_epi32(static_cast<const int*>(from), (__m256i)kept);
}
FP4_LOOK_UP_PART void store(uint32_t* to, Mask kept, const Ints& x) {
  _mm256_maskstore_epi32(reinterpret_cast<int*>(to), (__m256i)kept, (__m256i)x);
}
FP4_LOOK_UP_PART Mask above(const Floats& a, const Floats& b) { return a > b; }
FP4_LOOK_UP_PART Mask at_most(const Ints& a, const Ints& b) { return a <= b; }
FP4_LOOK_UP_PART int count(Mask m) { return __builtin_popcount(static_cast<uint32_t>(_mm256_movemask_ps((__m256)m))); }
FP4_LOOK_UP_PART void choose(Mask m, const Ints& x, Ints& out) { out = (x & m) | (out & ~m); }
FP4_LOOK_UP_PART void pick(const void* table, const Ints& index, Ints& out) {
  const auto* from = static_cast<const __m256i*>(table);
  const auto at = (__m256i)index;
  const auto second = (__m256)(index << 28), negative = (__m256)(index << 27);
  const auto a = (__m256)_mm256_permutevar8x32_epi32(from[0], at), b = (__m256)_mm256_permutevar8x32_epi32(from[1], at),
             c = (__m256)_mm256_permutevar8x32_epi32(from[2], at), d = (__m256)_mm256_permutevar8x32_epi32(from[3], at);
  out = (Ints)_mm256_blendv_ps(_mm256_blendv_ps(a, b, second), _mm256_blendv_ps(c, d, second), negative);
}
FP4_LOOK_UP_PART void turn(const Ints& x, int by, Ints& out) {
  const auto v = (__m256i)x;
  out = (Ints)(by == 1   ? _mm256_shuffle_epi32(v, 0xB1)
               : by == 2 ? _mm256_shuffle_epi32(v, 0x4E)
                         : _mm256_permute2x128_si256(v, v, 1));
}
FP4_LOOK_UP_PART int32_t largest_of(Ints x) {
  for (int by = 1; by < at_once; by *= 2) {
    Ints other;
    turn(x, by, other);
    x = x > other ? x : other;
  }
  return x[0];
}
FP4_LOOK_UP_PART float sum_of(Floats x) {
  for (int by = 1; by < at_once; by *= 2) {
    Ints other;
    turn((Ints)x, by, other);
    x = x + (Floats)other;
  }
  return x[0];
}
FP4_LOOK_UP_PART void decoded(const float* values, bool is_packed, const uint8_t* from, Floats& out) {
  uint64_t bytes = 0;
  __builtin_memcpy(&bytes, from, is_packed ? 4 : 8);
  const __m128i there = _mm_cvtsi64_si128(static_cast<int64_t>(bytes));
  __m256i code;
  if (is_packed) {
    const __m256i wide = _mm256_cvtepu8_epi64(there);
    code = _mm256_and_si256(_mm256_or_si256(wide, _mm256_slli_epi64(wide, 28)), _mm256_set1_epi32(0xF));
  } else {
    code = _mm256_cvtepu8_epi32(there);
  }
  out = (Floats)_mm256_i32gather_ps(values, code, 4);
}
#include "src/listed/listed_lookup_body.h"

}  // namespace eight
#endif

// Null where this machine has none.
const Loops& loops() {
  static const Loops chosen = [] {
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx512f"))
      return Loops{sixteen::maxima, sixteen::codes, sixteen::errors, sixteen::exponents, sixteen::decode};
    if (__builtin_cpu_supports("avx2"))
      return Loops{eight::maxima, eight::codes, eight::errors, eight::exponents, eight::decode};
#endif
    return Loops{};
  }();
  return chosen;
}

}  // namespace

bool has_listed_look_up() { return loops().codes != nullptr; }

int look_up_codes(const ListedLookUp& list, const float* x, int64_t n, ListedUnits u, uint32_t* out) {
  return loops().codes(list, x, n, u, out);
}
void look_up_errors(const ListedLookUp& list, const float* x, int64_t cols, int64_t step, float g, TrialError kind,
                    uint32_t* out, ListedTrial* trials) {
  loops().errors(list, x, cols, step, g, kind, out, trials);
}
bool look_up_exponents(const Quantizer& q, const float* x, int64_t n, float multiplier, int (&out)[most_micro_width]) {
  return loops().exponents(q, x, n, multiplier, out);
}

void listed_maxima(const float* x, int64_t cols, int64_t step, int32_t* out) {
  if (has_listed_look_up()) return loops().maxima(x, cols, step, out);
  for (int64_t first = 0; first < cols; first += step, ++out) {
    *out = 0;
    for (int64_t k = first; k < std::min(cols, first + step); ++k)
      *out = std::max(*out, static_cast<int32_t>(magnitude_bits(x[k])));
  }
}

void pack_codes(const uint32_t* codes, int64_t pairs, uint8_t* out) {
  for (int64_t i = 0; i < pairs; ++i) out[i] = static_cast<uint8_t>(codes[2 * i] | codes[2 * i + 1] << 4);
}

void decode_codes(const float* values, bool is_packed, const uint8_t* codes, int64_t first, int64_t n, float size,
                  float factor, float* out) {
  const uint8_t* from = codes + (is_packed ? first / 2 : first);
  for (int64_t k = has_listed_look_up() ? loops().decode(values, is_packed, from, n, size, factor, out) : 0; k < n;
       ++k) {
    const uint32_t code = is_packed ? from[k / 2] >> 4 * (k % 2) & 0xFu : uint32_t{from[k]};
    out[k] = canonical(values[code] * size * factor);
  }
}

}  // namespace fp4
