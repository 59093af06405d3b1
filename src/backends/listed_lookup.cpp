#include "src/backends/listed_lookup.h"

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

#if defined(__x86_64__)
#define FP4_LOOK_UP      __attribute__((target("avx512f")))
#define FP4_LOOK_UP_PART inline __attribute__((always_inline, target("avx512f")))

namespace {

constexpr int at_once = 16;

FP4_LOOK_UP_PART __mmask16 first_lanes(int64_t n) {
  return static_cast<__mmask16>(n >= at_once ? 0xFFFF : (1 << n) - 1);
}
FP4_LOOK_UP_PART __m512i magnitude_of(__m512i bits) { return _mm512_and_epi32(bits, _mm512_set1_epi32(0x7fffffff)); }

// Where sixteen numbers lie in a list.
struct Lookup {
  __m512i bucket;
  __mmask16 is_above, is_unsure;
};

FP4_LOOK_UP_PART void look_up(const ListedLookUp& list, __m512i bits, __m512 size, Lookup& out) {
  const __m512 v = _mm512_min_ps(size, _mm512_set1_ps(2 * ListedLookUp::buckets));  // a NaN becomes the limit
  const __m512i negative = _mm512_slli_epi32(_mm512_srli_epi32(bits, 31), 4);
  const __m512i whole = _mm512_min_epi32(_mm512_cvttps_epi32(v), _mm512_set1_epi32(ListedLookUp::buckets - 1));
  out.bucket = _mm512_or_epi32(whole, negative);
  const __m512 middle = _mm512_permutex2var_ps(_mm512_load_ps(list.middle), out.bucket,
                                               _mm512_load_ps(list.middle + ListedLookUp::buckets));
  out.is_above = _mm512_cmp_ps_mask(v, middle, _CMP_GT_OQ);
  const __m512 off = _mm512_sub_ps(v, middle);
  const __m512i away = magnitude_of(_mm512_castps_si512(off));
  const __m512 near = _mm512_mul_ps(middle, _mm512_set1_ps(0x1p-20f));
  const __mmask16 is_near = _mm512_cmple_epi32_mask(away, _mm512_castps_si512(near));
  const __mmask16 is_not_finite = _mm512_cmpge_epi32_mask(magnitude_of(bits), _mm512_set1_epi32(0x7f800000));
  out.is_unsure = static_cast<__mmask16>(is_near | is_not_finite);
}

// Of each lane's bucket what stands below its midpoint or above, 32 bits each: codes or values.
FP4_LOOK_UP_PART void sides_of(const void* below, const void* above, const Lookup& at, __m512i& out) {
  const auto* low = static_cast<const int32_t*>(below);
  const auto* high = static_cast<const int32_t*>(above);
  constexpr int negative = ListedLookUp::buckets;
  const __m512i of_low =
      _mm512_permutex2var_epi32(_mm512_load_si512(low), at.bucket, _mm512_load_si512(low + negative));
  const __m512i of_high =
      _mm512_permutex2var_epi32(_mm512_load_si512(high), at.bucket, _mm512_load_si512(high + negative));
  out = _mm512_mask_mov_epi32(of_low, at.is_above, of_high);
}

// |x| * multiplier, without 2^e where there are exponents.
FP4_LOOK_UP_PART void sizes_of(__m512i bits, const ListedUnits& u, int64_t at, __mmask16 kept, __m512& out) {
  out = _mm512_mul_ps(_mm512_castsi512_ps(magnitude_of(bits)), _mm512_set1_ps(u.multiplier));
  if (u.exponents == nullptr) return;
  const __m512i e = _mm512_maskz_loadu_epi32(kept, u.exponents + at);
  const __m512i power = _mm512_slli_epi32(_mm512_sub_epi32(_mm512_set1_epi32(127), e), 23);
  out = _mm512_mul_ps(out, _mm512_castsi512_ps(power));
}

// Writes the codes of x[at..), and how many lanes are undecided.
FP4_LOOK_UP_PART void store_codes(const ListedLookUp& list, const Lookup& found, const ListedUnits& u, int64_t at,
                                  __mmask16 kept, uint32_t* out, int& left) {
  __m512i code;
  sides_of(list.below, list.above, found, code);
  if (u.exponents != nullptr) {
    const __m512i e = _mm512_maskz_loadu_epi32(kept, u.exponents + at);
    code = _mm512_or_epi32(code, _mm512_sll_epi32(e, _mm_cvtsi32_si128(u.base_bits)));
  }
  const auto unsure = static_cast<__mmask16>(found.is_unsure & kept);
  code = _mm512_mask_mov_epi32(code, unsure, _mm512_set1_epi32(-1));
  _mm512_mask_storeu_epi32(out + at, kept, code);
  left += __builtin_popcount(unsure);
}

// The largest of each part of `per` lanes (a power of two), in all of them.
FP4_LOOK_UP_PART void share_largest(__m512i& x, int per) {
  if (per >= 2) x = _mm512_max_epi32(x, _mm512_shuffle_epi32(x, static_cast<_MM_PERM_ENUM>(0xB1)));
  if (per >= 4) x = _mm512_max_epi32(x, _mm512_shuffle_epi32(x, static_cast<_MM_PERM_ENUM>(0x4E)));
  if (per >= 8) x = _mm512_max_epi32(x, _mm512_shuffle_i32x4(x, x, 0xB1));
  if (per >= 16) x = _mm512_max_epi32(x, _mm512_shuffle_i32x4(x, x, 0x4E));
}

}  // namespace

bool has_listed_look_up() {
  static const bool has = __builtin_cpu_supports("avx512f") != 0;
  return has;
}

FP4_LOOK_UP static void wide_maxima(const float* x, int64_t cols, int64_t step, int32_t* out) {
  for (int64_t first = 0; first < cols; first += step) {
    const int64_t end = std::min(cols, first + step);
    __m512i most = _mm512_setzero_si512();
    for (int64_t k = first; k < end; k += at_once)
      most =
          _mm512_max_epi32(most, magnitude_of(_mm512_castps_si512(_mm512_maskz_loadu_ps(first_lanes(end - k), x + k))));
    *out++ = _mm512_reduce_max_epi32(most);
  }
}

FP4_LOOK_UP int look_up_codes(const ListedLookUp& list, const float* x, int64_t n, ListedUnits u, uint32_t* out) {
  int left = 0;
  for (int64_t k = 0; k < n; k += at_once) {
    const __mmask16 kept = first_lanes(n - k);
    const __m512i bits = _mm512_castps_si512(_mm512_maskz_loadu_ps(kept, x + k));
    __m512 size;
    sizes_of(bits, u, k, kept, size);
    Lookup found;
    look_up(list, bits, size, found);
    store_codes(list, found, u, k, kept, out, left);
  }
  return left;
}

FP4_LOOK_UP int look_up_errors(const ListedLookUp& list, const float* x, int64_t n, ListedUnits u, float s, float g,
                               float unit, TrialError kind, uint32_t* out, float& error) {
  int left = 0;
  __m512 sum = _mm512_setzero_ps();
  for (int64_t k = 0; k < n; k += at_once) {
    const __mmask16 kept = first_lanes(n - k);
    const __m512 number = _mm512_maskz_loadu_ps(kept, x + k);
    const __m512i bits = _mm512_castps_si512(number);
    __m512 size;
    sizes_of(bits, u, k, kept, size);
    Lookup found;
    look_up(list, bits, size, found);
    store_codes(list, found, u, k, kept, out, left);
    __m512i value;
    sides_of(list.value_below, list.value_above, found, value);
    const __m512 decoded =
        _mm512_mul_ps(_mm512_mul_ps(_mm512_castsi512_ps(value), _mm512_set1_ps(s)), _mm512_set1_ps(g));
    const __m512 scaled = _mm512_mul_ps(_mm512_sub_ps(number, decoded), _mm512_set1_ps(unit));
    const __m512 off = _mm512_castsi512_ps(magnitude_of(_mm512_castps_si512(scaled)));
    if (kind == TrialError::max) {
      sum = _mm512_mask_max_ps(sum, kept, sum, off);
    } else {
      sum = _mm512_mask_add_ps(sum, kept, sum, kind == TrialError::mse ? _mm512_mul_ps(off, off) : off);
    }
  }
  error = kind == TrialError::max ? _mm512_reduce_max_ps(sum) : _mm512_reduce_add_ps(sum);
  return left;
}

FP4_LOOK_UP bool look_up_exponents(const Quantizer& q, const float* x, int64_t n, float multiplier,
                                   int (&out)[most_micro_width]) {
  const ElementGrid& grid = *q.element.grid;
  const int emax = format_of(static_cast<Element>(grid.base)).max_exponent();
  int all = 0, widest = at_once;
  for (const MicroLevel& level : grid.micro) {
    all += (1 << level.bits) - 1;
    if (level.per == 0) continue;
    if (level.per > widest || (level.per & (level.per - 1)) != 0) return false;
    widest = level.per;
  }
  __mmask16 unsure = 0;
  for (int64_t k = 0; k < n; k += at_once) {
    const __mmask16 kept = first_lanes(n - k);
    const __m512i size = magnitude_of(_mm512_castps_si512(_mm512_maskz_loadu_ps(kept, x + k)));
    __m512i sum = _mm512_setzero_si512();
    int below = all;
    for (const MicroLevel& level : grid.micro) {
      if (level.per == 0) continue;
      const int most = (1 << level.bits) - 1;
      below -= most;
      __m512i largest = size;
      share_largest(largest, level.per);
      const __m512i v = _mm512_castps_si512(_mm512_mul_ps(_mm512_castsi512_ps(largest), _mm512_set1_ps(multiplier)));
      const __m512i fraction = _mm512_and_epi32(_mm512_add_epi32(v, _mm512_set1_epi32(8)), _mm512_set1_epi32(0x7fffff));
      unsure = static_cast<__mmask16>(unsure | _mm512_mask_cmple_epi32_mask(_mm512_test_epi32_mask(largest, largest),
                                                                            fraction, _mm512_set1_epi32(16)));
      const __m512i exponent = _mm512_sub_epi32(_mm512_srli_epi32(v, 23), _mm512_set1_epi32(127 + emax + below));
      const __m512i e = _mm512_max_epi32(_mm512_sub_epi32(exponent, sum), _mm512_setzero_si512());
      sum = _mm512_add_epi32(sum, _mm512_min_epi32(e, _mm512_set1_epi32(most)));
    }
    _mm512_mask_storeu_epi32(out + k, kept, sum);
  }
  return unsure == 0;
}

FP4_LOOK_UP static int64_t wide_pack(const uint32_t* codes, int64_t pairs, uint8_t* out) {
  int64_t i = 0;
  for (; i + 8 <= pairs; i += 8) {
    const __m512i two = _mm512_loadu_si512(codes + 2 * i);
    const __m128i bytes = _mm512_cvtepi64_epi8(_mm512_or_si512(two, _mm512_srli_epi64(two, 28)));
    _mm_storel_epi64(reinterpret_cast<__m128i*>(out + i), bytes);
  }
  return i;
}

FP4_LOOK_UP static int64_t wide_decode(const float* values, bool is_packed, const uint8_t* from, int64_t n, float size,
                                       float factor, float* out) {
  const __m512 table = _mm512_loadu_ps(values);
  int64_t k = 0;
  for (; k + at_once <= n; k += at_once) {
    __m512 value;
    if (is_packed) {
      const __m512i wide = _mm512_cvtepu8_epi64(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(from + k / 2)));
      const __m512i code = _mm512_and_si512(_mm512_or_si512(wide, _mm512_slli_epi64(wide, 28)), _mm512_set1_epi32(0xF));
      value = _mm512_permutexvar_ps(code, table);
    } else {
      const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + k));
      value = _mm512_i32gather_ps(_mm512_cvtepu8_epi32(bytes), values, 4);
    }
    const __m512 decoded = _mm512_mul_ps(_mm512_mul_ps(value, _mm512_set1_ps(size)), _mm512_set1_ps(factor));
    const __mmask16 is_nan = _mm512_cmp_ps_mask(decoded, decoded, _CMP_UNORD_Q);
    const __m512 canonical_nan = _mm512_castsi512_ps(_mm512_set1_epi32(static_cast<int>(canonical_nan_bits)));
    _mm512_storeu_ps(out + k, _mm512_mask_mov_ps(decoded, is_nan, canonical_nan));
  }
  return k;
}

#else

bool has_listed_look_up() { return false; }
static void wide_maxima(const float*, int64_t, int64_t, int32_t*) {}
int look_up_codes(const ListedLookUp&, const float*, int64_t n, ListedUnits, uint32_t*) { return static_cast<int>(n); }
int look_up_errors(const ListedLookUp&, const float*, int64_t n, ListedUnits, float, float, float, TrialError,
                   uint32_t*, float&) {
  return static_cast<int>(n);
}
bool look_up_exponents(const Quantizer&, const float*, int64_t, float, int (&)[most_micro_width]) { return false; }
static int64_t wide_pack(const uint32_t*, int64_t, uint8_t*) { return 0; }
static int64_t wide_decode(const float*, bool, const uint8_t*, int64_t, float, float, float*) { return 0; }

#endif

void listed_maxima(const float* x, int64_t cols, int64_t step, int32_t* out) {
  if (has_listed_look_up()) return wide_maxima(x, cols, step, out);
  for (int64_t first = 0; first < cols; first += step, ++out) {
    *out = 0;
    for (int64_t k = first; k < std::min(cols, first + step); ++k)
      *out = std::max(*out, static_cast<int32_t>(magnitude_bits(x[k])));
  }
}

int64_t transpose_quads([[maybe_unused]] const float* x, [[maybe_unused]] int64_t stride,
                        [[maybe_unused]] int64_t count, [[maybe_unused]] int64_t cols, [[maybe_unused]] float* out) {
  int64_t k = 0;
#if defined(__x86_64__)
  for (; k + 4 <= cols; k += 4) {
    for (int64_t r = 0; r + 4 <= count; r += 4) {
      const float* from = x + k * stride + r;
      __m128 a = _mm_loadu_ps(from), b = _mm_loadu_ps(from + stride), c = _mm_loadu_ps(from + 2 * stride),
             d = _mm_loadu_ps(from + 3 * stride);
      _MM_TRANSPOSE4_PS(a, b, c, d);
      float* to = out + r * cols + k;
      _mm_storeu_ps(to, a), _mm_storeu_ps(to + cols, b), _mm_storeu_ps(to + 2 * cols, c);
      _mm_storeu_ps(to + 3 * cols, d);
    }
  }
#endif
  return k;
}

void pack_codes(const uint32_t* codes, int64_t pairs, uint8_t* out) {
  for (int64_t i = has_listed_look_up() ? wide_pack(codes, pairs, out) : 0; i < pairs; ++i)
    out[i] = static_cast<uint8_t>(codes[2 * i] | codes[2 * i + 1] << 4);
}

void decode_codes(const float* values, bool is_packed, const uint8_t* codes, int64_t first, int64_t n, float size,
                  float factor, float* out) {
  const uint8_t* from = codes + (is_packed ? first / 2 : first);
  for (int64_t k = has_listed_look_up() ? wide_decode(values, is_packed, from, n, size, factor, out) : 0; k < n; ++k) {
    const uint32_t code = is_packed ? from[k / 2] >> 4 * (k % 2) & 0xFu : uint32_t{from[k]};
    out[k] = canonical(values[code] * size * factor);
  }
}

}  // namespace fp4
