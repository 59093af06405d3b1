// Sixteen doubles in parts of half as many lanes as those of floats.
#pragma once

#include "src/cpu/simd/parts_lanes.h"

namespace fp4::FP4_ISA {

inline constexpr int part_doubles = part_lanes / 2;

#define FP4_EACH_D(expression)                               \
  D r;                                                       \
  for (int i = 0; i < 2 * parts; ++i) r.v[i] = (expression); \
  return r
FP4_SIMD D all_double(double x) { FP4_EACH_D(same_part(x)); }
FP4_SIMD D broadcast_double(const double* p) { return all_double(*p); }
FP4_SIMD D widened(F x) { FP4_EACH_D(i % 2 == 0 ? widened_low(x.v[i / 2]) : widened_high(x.v[i / 2])); }
FP4_SIMD D to_double(I x) { FP4_EACH_D(i % 2 == 0 ? widened_low(x.v[i / 2]) : widened_high(x.v[i / 2])); }
FP4_SIMD D load_widened(const float* p) { return widened(load(p)); }
FP4_SIMD F narrowed(D x) { FP4_EACH(F, narrowed_part(x.v[2 * i], x.v[2 * i + 1])); }
FP4_SIMD D operator*(D x, D y) { FP4_EACH_D(x.v[i] * y.v[i]); }
FP4_SIMD D operator/(D x, D y) { FP4_EACH_D(x.v[i] / y.v[i]); }
FP4_SIMD D operator+(D x, D y) { FP4_EACH_D(x.v[i] + y.v[i]); }
FP4_SIMD D operator-(D x, D y) { FP4_EACH_D(x.v[i] - y.v[i]); }
FP4_SIMD D fma(D x, D y, D z) { FP4_EACH_D(fused(x.v[i], y.v[i], z.v[i])); }
// x*y + z where x*y is a double.
FP4_SIMD D exact_fma(D x, D y, D z) { FP4_EACH_D(has_fma ? fused(x.v[i], y.v[i], z.v[i]) : x.v[i] * y.v[i] + z.v[i]); }
FP4_SIMD D load_double(const double* p) { FP4_EACH_D(load_part<vd>(p + part_doubles * i)); }
FP4_SIMD void store(double* p, D x) {
  for (int i = 0; i < 2 * parts; ++i) store_part(p + part_doubles * i, x.v[i]);
}
// 8 floats of each of `count` rows, `stride` floats apart, as doubles.
FP4_SIMD void widen_rows(const float* p, int64_t stride, int count, double* out) {
  for (int k = 0; k < count; ++k) {
    for (int i = 0; i < 8; i += part_lanes) {
      const vf x = load_part<vf>(p + k * stride + i);
      store_part(out + 8 * k + i, widened_low(x));
      store_part(out + 8 * k + i + part_doubles, widened_high(x));
    }
  }
}

FP4_SIMD vl wide_mask(M m, int i) { return i % 2 == 0 ? wide_mask_low(m.v[i / 2]) : wide_mask_high(m.v[i / 2]); }
FP4_SIMD M operator!=(D x, D y) { FP4_EACH(M, low_words(x.v[2 * i] != y.v[2 * i], x.v[2 * i + 1] != y.v[2 * i + 1])); }
FP4_SIMD M operator<(D x, D y) { FP4_EACH(M, low_words(x.v[2 * i] < y.v[2 * i], x.v[2 * i + 1] < y.v[2 * i + 1])); }
// Sign and exponent field of each double.
FP4_SIMD I exponent_fields(D x) {
  FP4_EACH(I, low_words(reinterpret_cast<vq>(x.v[2 * i]) >> 52, reinterpret_cast<vq>(x.v[2 * i + 1]) >> 52));
}
FP4_SIMD D select(M m, D yes, D no) { FP4_EACH_D(chosen(wide_mask(m, i), yes.v[i], no.v[i])); }
FP4_SIMD D truncated_whole(D x) { FP4_EACH_D(truncated_whole(x.v[i])); }
// The last bit set in the lanes of m.
FP4_SIMD D made_odd(D x, M m) {
  FP4_EACH_D(reinterpret_cast<vd>(reinterpret_cast<vl>(x.v[i]) | (wide_mask(m, i) & 1)));
}
FP4_SIMD vl is_halfway(vd x) { return (reinterpret_cast<vl>(x) & 0x1FFFFFFF) == 0x10000000; }
// Doubles halfway between two floats: the low 29 bits are 1000..0.
FP4_SIMD M between_floats(D x) { FP4_EACH(M, low_words(is_halfway(x.v[2 * i]), is_halfway(x.v[2 * i + 1]))); }
// One unit of the last place toward the part that a sum lost, in the lanes of m.
FP4_SIMD vd nudged(vd s, vd error, vl m) {
  const vd product = s * error;
  const vd zero = {};
  const vl step = reinterpret_cast<vl>(product < zero) - reinterpret_cast<vl>(product > zero);
  return reinterpret_cast<vd>(reinterpret_cast<vl>(s) + (step & m));
}
FP4_SIMD D nudged(D s, D error, M m) { FP4_EACH_D(nudged(s.v[i], error.v[i], wide_mask(m, i))); }
// To nearest, then one float toward zero where that went too far (infinity becomes the largest float).
FP4_SIMD F narrowed_toward_zero(D x) {
  const F nearest = narrowed(x);
  const D rounded = widened(as_float(bits(nearest) & all(0x7FFFFFFF)));
  D exact = x;
  for (vd& v : exact.v) v = reinterpret_cast<vd>(reinterpret_cast<vl>(v) & INT64_MAX);
  return as_float(add_where(exact < rounded, bits(nearest), all(-1)));
}
#undef FP4_EACH_D

}  // namespace fp4::FP4_ISA
