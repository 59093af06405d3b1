// Floats, 32-bit integers and truth values of sixteen lanes as four vectors of 16 bytes, in the vector extensions that
// g++ and clang compile for any machine. What a target has a better instruction for stands in native.h.
#pragma once

#include <cstdint>

#include "fp4/bits.h"
#include "src/cpu/simd/native.h"

#define FP4_TARGET
#define FP4_SIMD __attribute__((always_inline)) inline
#define FP4_ISA  generic

namespace fp4::generic {

using namespace fp4::native;
using fp4::is_nan;
using fp4::larger;
using fp4::smaller;

inline constexpr bool has_vnni = false;  // an instruction adds four products of bytes to an int32
inline constexpr bool rounds_down = false;  // only exact products can be rounded down
inline constexpr int float_rows = 2;        // rows of a float tile: 2 x 2 sums of four registers fill sixteen

struct F {
  using Part = f4;
  f4 v[4];
};
struct I {
  using Part = i4;
  i4 v[4];
};
struct M {  // lanes of ones where true
  i4 v[4];
};
struct D {
  d2 v[8];
};
struct B {  // 64 bytes: 16 lanes of four
  i4 v[4];
};

#define FP4_EACH(T, expression)                      \
  T r;                                               \
  for (int i = 0; i < 4; ++i) r.v[i] = (expression); \
  return r

FP4_SIMD I all(int32_t x) { FP4_EACH(I, (i4{x, x, x, x})); }
FP4_SIMD I all(uint32_t x) { return all(static_cast<int32_t>(x)); }
FP4_SIMD F all(float x) { FP4_EACH(F, (f4{x, x, x, x})); }
FP4_SIMD F broadcast(const float* p) { return all(*p); }
FP4_SIMD I lane_numbers() { FP4_EACH(I, (i4{4 * i, 4 * i + 1, 4 * i + 2, 4 * i + 3})); }
FP4_SIMD I load(const int32_t* p) { FP4_EACH(I, load_part<i4>(p + 4 * i)); }
FP4_SIMD I load(const uint32_t* p) { FP4_EACH(I, load_part<i4>(p + 4 * i)); }
FP4_SIMD void store(int32_t* p, I x) {
  for (int i = 0; i < 4; ++i) store_part(p + 4 * i, x.v[i]);
}
FP4_SIMD void store(uint32_t* p, I x) { store(reinterpret_cast<int32_t*>(p), x); }

FP4_SIMD M operator&(M x, M y) { FP4_EACH(M, x.v[i] & y.v[i]); }
FP4_SIMD M operator|(M x, M y) { FP4_EACH(M, x.v[i] | y.v[i]); }
FP4_SIMD M operator~(M x) { FP4_EACH(M, ~x.v[i]); }
FP4_SIMD uint32_t to_bits(M x) {
  const i4 low = {1, 2, 4, 8};
  const i4 b = (x.v[0] & low) | (x.v[1] & low << 4) | (x.v[2] & low << 8) | (x.v[3] & low << 12);
  return static_cast<uint32_t>(b[0] | b[1] | b[2] | b[3]);
}
FP4_SIMD bool any(M x) {
  const auto b = reinterpret_cast<l2>((x.v[0] | x.v[1]) | (x.v[2] | x.v[3]));
  return (b[0] | b[1]) != 0;
}
FP4_SIMD M mask_from_bits(uint32_t bits) {
  const auto word = static_cast<int32_t>(bits);
  const i4 low = {1, 2, 4, 8};
  FP4_EACH(M, (word & low << 4 * i) == low << 4 * i);
}
FP4_SIMD M first_lanes(int n) { FP4_EACH(M, (i4{4 * i, 4 * i + 1, 4 * i + 2, 4 * i + 3}) < n); }

FP4_SIMD void prefetch(const float* p) { __builtin_prefetch(p); }
FP4_SIMD F load(const float* p) { FP4_EACH(F, load_part<f4>(p + 4 * i)); }
FP4_SIMD F load(const float* p, M m) {  // reads nothing where m is false
  const uint32_t on = to_bits(m);
  if (on == 0xFFFF) return load(p);
  alignas(16) float x[16] = {};
  for (int l = 0; l < 16; ++l) {
    if ((on >> l & 1u) != 0) x[l] = p[l];
  }
  return load(x);
}
FP4_SIMD void store(float* p, F x) {
  for (int i = 0; i < 4; ++i) store_part(p + 4 * i, x.v[i]);
}
FP4_SIMD void store(float* p, F x, M m) {
  const uint32_t on = to_bits(m);
  if (on == 0xFFFF) return store(p, x);
  alignas(16) float y[16];
  store(y, x);
  for (int l = 0; l < 16; ++l) {
    if ((on >> l & 1u) != 0) p[l] = y[l];
  }
}
FP4_SIMD F operator+(F x, F y) { FP4_EACH(F, x.v[i] + y.v[i]); }
FP4_SIMD F operator-(F x, F y) { FP4_EACH(F, x.v[i] - y.v[i]); }
FP4_SIMD F operator*(F x, F y) { FP4_EACH(F, x.v[i] * y.v[i]); }
FP4_SIMD F operator/(F x, F y) { FP4_EACH(F, x.v[i] / y.v[i]); }
FP4_SIMD F smaller(F x, F y) { FP4_EACH(F, chosen(x.v[i] < y.v[i], x.v[i], y.v[i])); }  // y where one is NaN
FP4_SIMD F larger(F x, F y) { FP4_EACH(F, chosen(x.v[i] > y.v[i], x.v[i], y.v[i])); }
FP4_SIMD F fma(F x, F y, F z) { FP4_EACH(F, fused(x.v[i], y.v[i], z.v[i])); }
FP4_SIMD F negated_fma(F x, F y, F z) { FP4_EACH(F, fused(-x.v[i], y.v[i], z.v[i])); }  // z - x*y
FP4_SIMD M operator<(F x, F y) { FP4_EACH(M, x.v[i] < y.v[i]); }
FP4_SIMD M operator>(F x, F y) { FP4_EACH(M, x.v[i] > y.v[i]); }
FP4_SIMD M operator>=(F x, F y) { FP4_EACH(M, x.v[i] >= y.v[i]); }
FP4_SIMD M operator==(F x, F y) { FP4_EACH(M, x.v[i] == y.v[i]); }
FP4_SIMD M is_nan(F x) { FP4_EACH(M, x.v[i] != x.v[i]); }
FP4_SIMD F select(M m, F yes, F no) { FP4_EACH(F, chosen(m.v[i], yes.v[i], no.v[i])); }

FP4_SIMD I operator+(I x, I y) { FP4_EACH(I, signed_of(unsigned_of(x.v[i]) + unsigned_of(y.v[i]))); }
FP4_SIMD I operator-(I x, I y) { FP4_EACH(I, signed_of(unsigned_of(x.v[i]) - unsigned_of(y.v[i]))); }
FP4_SIMD I multiply_low(I x, I y) { FP4_EACH(I, signed_of(unsigned_of(x.v[i]) * unsigned_of(y.v[i]))); }
FP4_SIMD I operator&(I x, I y) { FP4_EACH(I, x.v[i] & y.v[i]); }
FP4_SIMD I operator|(I x, I y) { FP4_EACH(I, x.v[i] | y.v[i]); }
FP4_SIMD I operator^(I x, I y) { FP4_EACH(I, x.v[i] ^ y.v[i]); }
FP4_SIMD M operator==(I x, I y) { FP4_EACH(M, x.v[i] == y.v[i]); }
FP4_SIMD M operator>(I x, I y) { FP4_EACH(M, x.v[i] > y.v[i]); }
FP4_SIMD M operator<(I x, I y) { FP4_EACH(M, x.v[i] < y.v[i]); }
FP4_SIMD M operator>=(I x, I y) { FP4_EACH(M, x.v[i] >= y.v[i]); }
FP4_SIMD M less_unsigned(I x, I y) { FP4_EACH(M, signed_of(unsigned_of(x.v[i]) < unsigned_of(y.v[i]))); }
FP4_SIMD I select(M m, I yes, I no) { FP4_EACH(I, chosen(m.v[i], yes.v[i], no.v[i])); }
FP4_SIMD I smaller(I x, I y) { return select(x < y, x, y); }
FP4_SIMD I larger(I x, I y) { return select(x > y, x, y); }
FP4_SIMD I smaller_unsigned(I x, I y) { return select(less_unsigned(x, y), x, y); }
FP4_SIMD I larger_unsigned(I x, I y) { return select(less_unsigned(x, y), y, x); }
template <int n>
FP4_SIMD I shift_left(I x) {
  FP4_EACH(I, signed_of(unsigned_of(x.v[i]) << n));
}
template <int n>
FP4_SIMD I shift_right(I x) {
  FP4_EACH(I, signed_of(unsigned_of(x.v[i]) >> n));
}
template <int n>
FP4_SIMD I shift_right_signed(I x) {
  FP4_EACH(I, x.v[i] >> n);
}
// By counts from 0 on; from 32 on nothing is left.
FP4_SIMD I shift_left(I x, I n) {
  FP4_EACH(I, signed_of(unsigned_of(x.v[i]) << unsigned_of(n.v[i] & 31)) & (unsigned_of(n.v[i]) < 32u));
}
FP4_SIMD I shift_right(I x, I n) {
  FP4_EACH(I, signed_of(unsigned_of(x.v[i]) >> unsigned_of(n.v[i] & 31)) & (unsigned_of(n.v[i]) < 32u));
}
FP4_SIMD I shift_left(I x, int n) {
  FP4_EACH(I, n > 31 ? i4{} : signed_of(unsigned_of(x.v[i]) << static_cast<uint32_t>(n)));
}
FP4_SIMD I shift_right(I x, int n) {
  FP4_EACH(I, n > 31 ? i4{} : signed_of(unsigned_of(x.v[i]) >> static_cast<uint32_t>(n)));
}
FP4_SIMD I add_where(M m, I x, I y) { FP4_EACH(I, signed_of(unsigned_of(x.v[i]) + unsigned_of(m.v[i] & y.v[i]))); }
FP4_SIMD I or_where(M m, I x, I y) { FP4_EACH(I, x.v[i] | (m.v[i] & y.v[i])); }
FP4_SIMD M no_bits(I x, int32_t mask) { return (x & all(mask)) == all(0); }
FP4_SIMD M some_bits(I x, int32_t mask) { return ~no_bits(x, mask); }
FP4_SIMD I odd_index(I x) { return (shift_right<14>(x) & all(0x7F)) | all(1); }  // (x >> 14 | 1) mod 128
FP4_SIMD M is_odd(I x) { return some_bits(x, 1); }
// Lane l of the result is read from the place that lane l of an index names.
template <class T, class Load>
FP4_SIMD T each_lane(I index, const Load& read) {
  FP4_EACH(T, (typename T::Part{read(index.v[i][0]), read(index.v[i][1]), read(index.v[i][2]), read(index.v[i][3])}));
}
FP4_SIMD I gather(const uint32_t* base, I index) {
  return each_lane<I>(index, [base](int32_t i) { return static_cast<int32_t>(base[i]); });
}
FP4_SIMD I gather_bytes(const uint8_t* base, I offset) {  // four bytes each
  return each_lane<I>(offset, [base](int32_t i) {
    int32_t four;
    __builtin_memcpy(&four, base + i, 4);
    return four;
  });
}
FP4_SIMD F look_up_16(const float* table, I index) {
  return each_lane<F>(index, [table](int32_t i) { return table[i & 15]; });
}
FP4_SIMD F look_up_32(const float* table, I index) {
  return each_lane<F>(index, [table](int32_t i) { return table[i & 31]; });
}
FP4_SIMD int32_t largest_lane(I x) {
  i4 most = x.v[0];
  for (int i = 1; i < 4; ++i) most = chosen(most > x.v[i], most, x.v[i]);
  return larger(larger(most[0], most[1]), larger(most[2], most[3]));
}
FP4_SIMD int32_t smallest_lane(I x) { return -1 - largest_lane(all(-1) - x); }

FP4_SIMD I bits(F x) { FP4_EACH(I, reinterpret_cast<i4>(x.v[i])); }
FP4_SIMD F as_float(I x) { FP4_EACH(F, reinterpret_cast<f4>(x.v[i])); }
FP4_SIMD F to_float(I x) { FP4_EACH(F, __builtin_convertvector(x.v[i], f4)); }
FP4_SIMD I truncated(F x) { FP4_EACH(I, truncated_part(x.v[i])); }
// 0 <= x < 2^32: from 2^31 on a float is a whole number, so half the range is taken off first.
FP4_SIMD I truncated_unsigned(F x) {
  const M high = x >= all(0x1p31f);
  return truncated(select(high, x - all(0x1p31f), x)) ^ select(high, all(0x80000000u), all(0));
}
// Of magnitudes, ties to even: from 2^23 on a float is a whole number.
FP4_SIMD F rounded_magnitude(F x) { return select(x < all(0x1p23f), (x + all(0x1p23f)) - all(0x1p23f), x); }
FP4_SIMD I rounded_unsigned(F x) { return truncated_unsigned(rounded_magnitude(x)); }
// Exact for the whole numbers below 2^24 and for the floats that truncated_unsigned took apart.
FP4_SIMD F unsigned_to_float(I x) {
  const M high = x < all(0);
  return to_float(x & all(0x7FFFFFFF)) + select(high, all(0x1p31f), all(0.0f));
}
FP4_SIMD F floor_of(F x) {
  const I magnitude = bits(x) & all(0x7FFFFFFF);
  const F near = as_float(bits(rounded_magnitude(as_float(magnitude))) | (bits(x) ^ magnitude));
  return select(near > x, near - all(1.0f), near);
}
// fp16 codes: the exponent moves by 112, by a product that is exact for subnormal codes, too.
FP4_SIMD F from_half(I code) {
  const I magnitude = code & all(0x7FFF);
  const I value = bits(as_float(shift_left<13>(magnitude)) * all(0x1p112f));
  return as_float(or_where(magnitude >= all(0x7C00), value, all(0x7F800000)) | shift_left<16>(code & all(0x8000)));
}

// floor(x*y) and floor(-x*y) as integers on top of 1.5 * 2^23; the products here are exact.
FP4_SIMD F fma_down(F x, F y, F z) { return floor_of(x * y) + z; }
FP4_SIMD F multiply_down(F x, F y) { return x * y; }
FP4_SIMD F negated_fma_down(F x, F y, F z) { return floor_of(all(0.0f) - x * y) + z; }

}  // namespace fp4::generic
