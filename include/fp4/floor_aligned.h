// The adder of AMD's CDNA3 for products of 16 and 8 bits, as MMA-Sim models it. In each group of products:
//   1. every product is aligned to the largest exponent of the group's and cut toward zero to `fraction_bits` (24)
//      below it; their sum s is exact
//   2. s and the accumulator are aligned to the larger of their exponents and rounded down (toward -infinity), s to 7
//      bits more than the accumulator (31 and 24)
//   3. their sum is rounded to fp32, to nearest even
// 8-bit products form two sums, of even and odd places, which step 1 rounds down to the larger of their exponents
// before it adds them; then an accumulator more than a bit below its last place is dropped. The exponent of a product
// is the sum of its factors', none below its format's smallest normal one; zero has -126.
#pragma once

#include <climits>

#include "fp4/codec.h"

namespace fp4 {

// A factor of a product: (-1)^negative * m, aligned by `weight`. An element with a block scale enters as the fp32
// number fl32(element * scale), which kernels for this unit multiply; it has no model of its own.
struct AlignedFactor {
  Magnitude m;
  int weight = -126;
  bool negative = false;
};

template <class R>
FP4_HD AlignedFactor aligned_factor(const R& r, int64_t k) {
  const float x = r.scaled(k);
  const Magnitude m = exact_magnitude(x);
  if (m.is_zero()) return {m, -126, is_negative(x)};
  return {m, larger(m.log2_floor(), r.has_scale() ? -126 : r.format().min_exponent()), is_negative(x)};
}

// What infinities and NaN make of a group: NaN or an infinity; 0 where there are none.
template <class A, class B>
FP4_HD float infinite_sum(const A& a, const B& b, int64_t first, int64_t last, float acc) {
  float sum = is_finite(acc) ? 0.0f : acc;
  for (int64_t k = first; k < last; ++k) {
    const float x = a.scaled(k), y = b.scaled(k);
    if (!is_finite(x) || !is_finite(y)) sum = sum + x * y;
  }
  return sum;
}

// And what products from 2^128 on do, where there are none.
template <class A, class B>
FP4_HD float sum_beyond_range(const A& a, const B& b, int64_t first, int64_t last, float acc) {
  float sum = infinite_sum(a, b, first, last, acc);
  if (sum != 0.0f) return sum;
  for (int64_t k = first; k < last; ++k) {
    const float x = a.scaled(k), y = b.scaled(k);
    const Magnitude p = exact_product(exact_magnitude(x), exact_magnitude(y));
    if (p.is_zero() || p.log2_floor() < 128) continue;
    sum = sum + float_of(float_infinity_bits | (is_negative(x) != is_negative(y) ? float_sign_bit : 0u));
  }
  return sum;
}

// n * 2^unit with a coarser unit, rounded down; or a finer one, exactly.
FP4_HD constexpr int64_t in_units(int64_t n, int coarser_by) {
  if (coarser_by <= 0) return n * (int64_t{1} << -coarser_by);
  return n >> smaller(coarser_by, 63);
}

// A sum n * 2^(weight - fraction_bits) of cut products k = first, first + step, ..
struct CutSum {
  int64_t n = 0;
  int weight = INT_MIN;
};

template <class A, class B>
FP4_HD CutSum sum_of_cut_products(const A& a, const B& b, int64_t first, int64_t last, int64_t step,
                                  int fraction_bits) {
  CutSum sum;
  for (int64_t k = first; k < last; k += step)
    sum.weight = larger(sum.weight, aligned_factor(a, k).weight + aligned_factor(b, k).weight);
  for (int64_t k = first; k < last; k += step) {
    const AlignedFactor x = aligned_factor(a, k), y = aligned_factor(b, k);
    const Magnitude p = exact_product(x.m, y.m);
    const int drop = sum.weight - fraction_bits - p.exponent;
    const auto cut = static_cast<int64_t>(drop >= 64  ? 0
                                          : drop >= 0 ? p.significand >> drop
                                                      : p.significand << smaller(-drop, 63));
    sum.n += x.negative != y.negative ? -cut : cut;
  }
  return sum;
}

template <class A, class B>
FP4_HD float floor_aligned_dot(int64_t group, int fraction_bits, bool pairs, const A& a, const B& b, int64_t begin,
                               int64_t end, float acc) {
  for (int64_t first = begin; first < end; first += group) {
    const int64_t last = smaller(end, first + group);
    const float special = sum_beyond_range(a, b, first, last, acc);
    if (special != 0.0f) {  // NaN as well
      acc = special;
      continue;
    }
    CutSum sum = sum_of_cut_products(a, b, first, last, pairs ? 2 : 1, fraction_bits);
    if (pairs && last - first > 1) {
      const CutSum odd = sum_of_cut_products(a, b, first + 1, last, 2, fraction_bits);
      const int weight = larger(sum.weight, odd.weight);
      sum = {in_units(sum.n, weight - sum.weight) + in_units(odd.n, weight - odd.weight), weight};
    }
    const Magnitude m = exact_magnitude(acc);
    const int acc_weight = m.is_zero() ? -126 : larger(m.log2_floor(), -126);
    const int weight = larger(sum.weight, acc_weight);
    const int unit = weight - fraction_bits - 7;
    const auto signed_m = static_cast<int64_t>(is_negative(acc) ? ~m.significand + 1 : m.significand);
    const bool dropped = pairs && acc_weight < weight - fraction_bits - 1;
    const int64_t carried = dropped ? 0 : in_units(signed_m, unit + 7 - m.exponent);
    const int64_t total = in_units(sum.n, weight - sum.weight - 7) + carried * 128;
    acc = round_to_float({static_cast<uint64_t>(total < 0 ? -total : total), unit, false}, total < 0,
                         Rounding::nearest_even);
  }
  return acc;
}

}  // namespace fp4
