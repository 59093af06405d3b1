// The adders of Blackwell for FP4 with block scales, as measured (rows b200_nvf4, b200_mxf4). In each group of
// products, with r(x) the exponent of x, that of its format's smallest normal number for subnormals:
//   R  the largest r of a product (both elements' and both scales' summed), S  the largest r of its pair of scales,
//   both over products that are not zero; with none the sum stays, and a zero of either sign is +0
//   the accumulator C leads   (not 0, r(C) >= R): dots of `carried_inner` are cut to 2^(r(C) - carried_bits), C as well
//   products lead             dots of `inner` are cut to q = max(max(R, r(C)) - fraction_bits, S - scale_bits), C as
//     well; under cuts_outranked a dot whose largest product does not exceed r(C) is cut to r(C) - carried_bits first
//   subnormal_floor           where the result is subnormal, dots below 2^floor whose scales lie below S are left out
// Dots are exact, cuts go toward zero, their sum is exact and is rounded once, toward zero; from 2^128 on infinity.
#pragma once

#include "fp4/aligned.h"

namespace fp4 {

// What a dot has in common, over its products that are not zero.
struct DotRank {
  bool has_products = false;
  int product = INT_MIN;  // largest r of a product
  int scales = INT_MIN;   // r of its scales

  FP4_HD constexpr void join(const DotRank& other) {
    has_products = has_products || other.has_products;
    product = larger(product, other.product);
    scales = larger(scales, other.scales);
  }
};

// Of products [begin, end), which share their scales.
template <class A, class B>
FP4_HD DotRank rank_of(const A& a, const B& b, int64_t begin, int64_t end) {
  DotRank rank;
  const float sa = a.scale(begin), sb = b.scale(begin);
  if (sa == 0.0f || sb == 0.0f) return rank;
  const int scales = alignment_exponent(sa, a.scale_min_exponent()) + alignment_exponent(sb, b.scale_min_exponent());
  for (int64_t k = begin; k < end; ++k) {
    if (a.fixed(k) == 0 || b.fixed(k) == 0) continue;
    rank.join({true, scales + element_exponent(a, k) + element_exponent(b, k), scales});
  }
  return rank;
}

// The exact dot of [begin, end), which shares its scales.
template <class A, class B>
FP4_HD AlignedTerm exact_dot(const A& a, const B& b, int64_t begin, int64_t end) {
  const Magnitude p = scale_product(a.scale(begin), b.scale(begin));
  const int128 dot = integer_dot(a, b, begin, end);
  AlignedTerm term;
  term.negative = dot < 0;
  term.significand = static_cast<uint128>(dot < 0 ? -dot : dot) * p.significand;
  term.exponent = p.exponent + product_quantum_log2(a, b);
  return term;
}

// Whether a dot is less than 2^least once it is cut to 2^unit.
FP4_HD constexpr bool is_below(const AlignedTerm& term, int unit, int least) {
  const int drop = unit - term.exponent;
  const uint128 cut = drop >= 128 ? 0 : drop > 0 ? term.significand >> drop : term.significand;
  return cut == 0 || floor_log2(cut) + larger(unit, term.exponent) < least;
}

// One group on top of a finite `acc`.
template <class A, class B>
FP4_HD float windowed_group(const Accumulator& row, const A& a, const B& b, int64_t first, int64_t last, float acc) {
  const int64_t run = scale_run(a, b, last);
  DotRank all;
  for (int64_t k = first, next = 0; k < last; k = next) {
    next = end_of_dot(k, first, last, run, row.carried_inner);
    all.join(rank_of(a, b, k, next));
  }
  if (!all.has_products) return acc == 0.0f ? 0.0f : acc;
  const Magnitude m = exact_magnitude(acc);
  const AlignedTerm carried = {m.significand, m.exponent, m.is_zero() ? INT_MIN : larger(m.log2_floor(), -126),
                               is_negative(acc)};
  const bool leads = !m.is_zero() && carried.weight_log2 >= all.product;
  const int carried_unit = m.is_zero() ? INT_MIN : carried.weight_log2 - row.carried_bits;
  const int unit =
      leads ? carried_unit
            : larger(larger(all.product, carried.weight_log2) - row.fraction_bits, all.scales - row.scale_bits);
  const int64_t inner = leads ? row.carried_inner : row.inner;
  const auto sum_of = [&](int least) {
    ExactSum sum;
    add_truncated(sum, carried, unit);
    for (int64_t k = first, next = 0; k < last; k = next) {
      next = end_of_dot(k, first, last, run, inner);
      const DotRank rank = rank_of(a, b, k, next);
      if (!rank.has_products) continue;
      const bool outranked = row.cuts_outranked && !leads && carried.weight_log2 >= rank.product;
      const int own_unit = outranked ? larger(unit, carried_unit) : unit;
      const AlignedTerm term = exact_dot(a, b, k, next);
      if (rank.scales < all.scales && is_below(term, own_unit, least)) continue;
      add_truncated(sum, term, own_unit);
    }
    return rounded_sum(row, sum);
  };
  const float sum = sum_of(INT_MIN);
  const bool is_subnormal = sum != 0.0f && magnitude(sum) < 0x1p-126f;
  return row.subnormal_floor != no_subnormal_floor && !leads && is_subnormal ? sum_of(row.subnormal_floor) : sum;
}

template <class A, class B>
FP4_HD float windowed_dot(const Accumulator& row, const A& a, const B& b, int64_t begin, int64_t end, float acc) {
  const int64_t group = row.group > 0 ? row.group : larger<int64_t>(end - begin, 1);
  for (int64_t first = begin; first < end && is_finite(acc); first += group)
    acc = windowed_group(row, a, b, first, smaller(end, first + group), acc);
  return acc;
}

}  // namespace fp4
