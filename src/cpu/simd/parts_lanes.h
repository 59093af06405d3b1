// Floats, 32-bit integers and truth values of sixteen lanes in parts of 32 bytes (AVX2) or 16 bytes (generic), in the
// vector extensions that g++ and clang compile for any machine. What has better instructions for one part stands in
// native_avx2.h and native.h. There is no embedded rounding here: rounding down goes through exact products, toward
// zero through a correction.
#pragma once

#if FP4_CPU == 256
#include "src/cpu/simd/native_avx2.h"
#else
#include "src/cpu/simd/native.h"
#endif

namespace fp4::FP4_ISA {

using fp4::is_nan;
using fp4::larger;
using fp4::smaller;

inline constexpr bool has_vnni = false;     // an instruction adds four products of bytes to an int32
inline constexpr bool rounds_down = false;  // only exact products can be rounded down
inline constexpr int parts = 16 / part_lanes;

struct F {
  vf v[parts];
};
struct I {
  vi v[parts];
};
struct M {  // lanes of ones where true
  vi v[parts];
};
struct D {
  vd v[2 * parts];
};
struct B {  // 64 bytes: 16 lanes of four
  vb v[parts];
};

#define FP4_EACH(T, expression)                          \
  T r;                                                   \
  for (int i = 0; i < parts; ++i) r.v[i] = (expression); \
  return r

FP4_SIMD vu unsigned_of(vi x) { return reinterpret_cast<vu>(x); }
template <class T>
FP4_SIMD vi signed_of(T x) {
  return reinterpret_cast<vi>(x);
}
FP4_SIMD vi lane_numbers(int part) {
  vi x = {};
  for (int l = 0; l < part_lanes; ++l) x[l] = part * part_lanes + l;
  return x;
}

FP4_SIMD I all(int32_t x) { FP4_EACH(I, vi{} + x); }
FP4_SIMD I all(uint32_t x) { return all(static_cast<int32_t>(x)); }
FP4_SIMD F all(float x) { FP4_EACH(F, same_part(x)); }
FP4_SIMD F broadcast(const float* p) { return all(*p); }
FP4_SIMD I lane_numbers() { FP4_EACH(I, lane_numbers(i)); }
FP4_SIMD I load(const int32_t* p) { FP4_EACH(I, load_part<vi>(p + part_lanes * i)); }
FP4_SIMD I load(const uint32_t* p) { FP4_EACH(I, load_part<vi>(p + part_lanes * i)); }
FP4_SIMD void store(int32_t* p, I x) {
  for (int i = 0; i < parts; ++i) store_part(p + part_lanes * i, x.v[i]);
}
FP4_SIMD void store(uint32_t* p, I x) { store(reinterpret_cast<int32_t*>(p), x); }

FP4_SIMD M operator&(M x, M y) { FP4_EACH(M, x.v[i] & y.v[i]); }
FP4_SIMD M operator|(M x, M y) { FP4_EACH(M, x.v[i] | y.v[i]); }
FP4_SIMD M operator~(M x) { FP4_EACH(M, ~x.v[i]); }
FP4_SIMD uint32_t to_bits(M x) {
  uint32_t bits = 0;
  for (int i = 0; i < parts; ++i) bits |= bits_of_part(x.v[i]) << (part_lanes * i);
  return bits;
}
FP4_SIMD bool any(M x) {
  vi some = x.v[0];
  for (int i = 1; i < parts; ++i) some |= x.v[i];
  return bits_of_part(some) != 0;
}
FP4_SIMD M mask_from_bits(uint32_t bits) {
  const vi word = vi{} + static_cast<int32_t>(bits);
  FP4_EACH(M, (word & (vi{} + 1) << lane_numbers(i)) != 0);
}
FP4_SIMD M first_lanes(int n) { FP4_EACH(M, lane_numbers(i) < n); }

FP4_SIMD void prefetch(const float* p) { __builtin_prefetch(p); }
FP4_SIMD F load(const float* p) { FP4_EACH(F, load_part<vf>(p + part_lanes * i)); }
FP4_SIMD F load(const float* p, M m) { FP4_EACH(F, load_part(p + part_lanes * i, m.v[i])); }
FP4_SIMD void store(float* p, F x) {
  for (int i = 0; i < parts; ++i) store_part(p + part_lanes * i, x.v[i]);
}
FP4_SIMD void store(float* p, F x, M m) {
  for (int i = 0; i < parts; ++i) store_part(p + part_lanes * i, x.v[i], m.v[i]);
}
FP4_SIMD F operator+(F x, F y) { FP4_EACH(F, x.v[i] + y.v[i]); }
FP4_SIMD F operator-(F x, F y) { FP4_EACH(F, x.v[i] - y.v[i]); }
FP4_SIMD F operator*(F x, F y) { FP4_EACH(F, x.v[i] * y.v[i]); }
FP4_SIMD F operator/(F x, F y) { FP4_EACH(F, x.v[i] / y.v[i]); }
FP4_SIMD F smaller(F x, F y) { FP4_EACH(F, smaller_part(x.v[i], y.v[i])); }  // y where one is NaN
FP4_SIMD F larger(F x, F y) { FP4_EACH(F, larger_part(x.v[i], y.v[i])); }
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
FP4_SIMD I smaller(I x, I y) { FP4_EACH(I, smaller_part(x.v[i], y.v[i])); }
FP4_SIMD I larger(I x, I y) { FP4_EACH(I, larger_part(x.v[i], y.v[i])); }
FP4_SIMD I smaller_unsigned(I x, I y) {
  FP4_EACH(I, signed_of(smaller_part(unsigned_of(x.v[i]), unsigned_of(y.v[i]))));
}
FP4_SIMD I larger_unsigned(I x, I y) { FP4_EACH(I, signed_of(larger_part(unsigned_of(x.v[i]), unsigned_of(y.v[i])))); }
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
FP4_SIMD I shift_left(I x, I n) { FP4_EACH(I, signed_of(shifted_left(unsigned_of(x.v[i]), unsigned_of(n.v[i])))); }
FP4_SIMD I shift_right(I x, I n) { FP4_EACH(I, signed_of(shifted_right(unsigned_of(x.v[i]), unsigned_of(n.v[i])))); }
FP4_SIMD I shift_left(I x, int n) { FP4_EACH(I, n > 31 ? vi{} : signed_of(unsigned_of(x.v[i]) << n)); }
FP4_SIMD I shift_right(I x, int n) { FP4_EACH(I, n > 31 ? vi{} : signed_of(unsigned_of(x.v[i]) >> n)); }
FP4_SIMD I add_where(M m, I x, I y) { FP4_EACH(I, signed_of(unsigned_of(x.v[i]) + unsigned_of(m.v[i] & y.v[i]))); }
FP4_SIMD I or_where(M m, I x, I y) { FP4_EACH(I, x.v[i] | (m.v[i] & y.v[i])); }
FP4_SIMD M no_bits(I x, int32_t mask) { return (x & all(mask)) == all(0); }
FP4_SIMD M some_bits(I x, int32_t mask) { return ~no_bits(x, mask); }
FP4_SIMD I odd_index(I x) { return (shift_right<14>(x) & all(0x7F)) | all(1); }  // (x >> 14 | 1) mod 128
FP4_SIMD I gather(const uint32_t* base, I index) { FP4_EACH(I, gathered_part(base, index.v[i])); }
FP4_SIMD I gather_bytes(const uint8_t* base, I offset) { FP4_EACH(I, gathered_part(base, offset.v[i])); }
FP4_SIMD F look_up_16(const float* table, I index) { FP4_EACH(F, entries_part<16>(table, index.v[i])); }
FP4_SIMD F look_up_32(const float* table, I index) { FP4_EACH(F, entries_part<32>(table, index.v[i])); }
FP4_SIMD int32_t largest_lane(I x) {
  vi most = x.v[0];
  for (int i = 1; i < parts; ++i) most = larger_part(most, x.v[i]);
  int32_t lane = most[0];
  for (int l = 1; l < part_lanes; ++l) lane = larger(lane, most[l]);
  return lane;
}
FP4_SIMD int32_t smallest_lane(I x) { return -1 - largest_lane(all(-1) - x); }

FP4_SIMD I bits(F x) { FP4_EACH(I, reinterpret_cast<vi>(x.v[i])); }
FP4_SIMD F as_float(I x) { FP4_EACH(F, reinterpret_cast<vf>(x.v[i])); }
FP4_SIMD F to_float(I x) { FP4_EACH(F, __builtin_convertvector(x.v[i], vf)); }
FP4_SIMD I truncated(F x) { FP4_EACH(I, truncated_part(x.v[i])); }
// 0 <= x < 2^32: from 2^31 on a float is a whole number, so half the range is taken off first.
FP4_SIMD I truncated_unsigned(F x) {
  const M high = x >= all(0x1p31f);
  return truncated(select(high, x - all(0x1p31f), x)) ^ select(high, all(0x80000000u), all(0));
}
// Ties to even: from 2^23 on a float is a whole number.
FP4_SIMD I rounded_unsigned(F x) {
  return truncated_unsigned(select(x < all(0x1p23f), (x + all(0x1p23f)) - all(0x1p23f), x));
}
// Exact for the whole numbers below 2^24 and for the floats that truncated_unsigned took apart.
FP4_SIMD F unsigned_to_float(I x) {
  const M high = x < all(0);
  return to_float(x & all(0x7FFFFFFF)) + select(high, all(0x1p31f), all(0.0f));
}
FP4_SIMD F floor_of(F x) { FP4_EACH(F, floor_part(x.v[i])); }
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

}  // namespace fp4::FP4_ISA
