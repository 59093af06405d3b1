// Adders that cut to a common unit: the terms of a group, and the accumulator, are aligned to the largest exponent, cut
// toward zero to the row's fraction bits below it and added exactly; the sum is rounded once. The exponent of a product
// is the sum of its factors' exponents, none below its format's smallest normal one: products are not normalised.
#pragma once

#include "fp4/accumulator.h"
#include "fp4/exact_sum.h"
#include "fp4/floor_aligned.h"

namespace fp4 {

// Length of the runs over which both scales are constant; `end` when neither operand has blocks along K.
template <class A, class B>
FP4_HD int64_t scale_run(const A& a, const B& b, int64_t end) {
  const int64_t run_a = a.block() > 0 ? a.block() : end;
  const int64_t run_b = b.block() > 0 ? b.block() : end;
  return larger<int64_t>(smaller(run_a, run_b), 1);
}

template <class A, class B>
FP4_HD int128 integer_dot(const A& a, const B& b, int64_t begin, int64_t end) {
  int128 sum = 0;
  for (int64_t k = begin; k < end; ++k) sum += static_cast<int128>(a.fixed(k)) * b.fixed(k);
  return sum;
}

// P = sA*sB, exact.
FP4_HD constexpr Magnitude scale_product(float sa, float sb) {
  return exact_product(exact_magnitude(sa), exact_magnitude(sb));
}

template <class A, class B>
FP4_HD int product_quantum_log2(const A& a, const B& b) {
  return a.format().quantum_log2() + b.format().quantum_log2();
}

// A term of an aligned sum: (-1)^negative * significand * 2^exponent, aligned by `weight_log2`.
struct AlignedTerm {
  uint128 significand = 0;
  int exponent = 0;
  int weight_log2 = INT_MIN;
  bool negative = false;
};

// e(s): floor(log2 s), not below the format's smallest normal exponent; zero has -126.
FP4_HD constexpr int alignment_exponent(float s, int min_exponent) {
  return s == 0.0f ? -126 : larger(exact_magnitude(s).log2_floor(), min_exponent);
}

// Whether a term of row.zero_exponent: no product differs from zero. A dot that cancels to zero is none.
template <class A, class B>
FP4_HD bool is_nothing(const A& a, const B& b, int64_t begin, int64_t end) {
  if (a.scale(begin) == 0.0f || b.scale(begin) == 0.0f) return true;
  for (int64_t k = begin; k < end; ++k) {
    if (a.fixed(k) != 0 && b.fixed(k) != 0) return false;
  }
  return true;
}

template <class R>
FP4_HD int element_exponent(const R& r, int64_t k) {
  const int64_t v = r.fixed(k);
  const int e = floor_log2(static_cast<uint64_t>(v < 0 ? -v : v)) + r.format().quantum_log2();
  return larger(e, r.format().min_exponent());
}

// The term of one product, where an operand has no block scale (floor_aligned.h).
template <class A, class B>
FP4_HD AlignedTerm unscaled_term(const Accumulator& row, const A& a, const B& b, int64_t k) {
  const AlignedFactor x = aligned_factor(a, k), y = aligned_factor(b, k);
  const Magnitude p = exact_product(x.m, y.m);
  if (p.is_zero()) return {0, 0, row.zero_exponent, false};
  return {p.significand, p.exponent, x.weight + y.weight, x.negative != y.negative};
}

// The term of products begin..end (one block of each operand). inner = 1 weighs a product by its elements' exponents
// too, and a zero product is no term; longer dots weigh by the scales alone, also when the dot is 0. A zero_exponent
// is the weight of either kind's zeros.
template <class A, class B>
FP4_HD AlignedTerm aligned_term(const Accumulator& row, const A& a, const B& b, int64_t begin, int64_t end) {
  if (!a.has_scale() || !b.has_scale()) return unscaled_term(row, a, b, begin);
  if (row.zero_exponent != no_zero_exponent && is_nothing(a, b, begin, end)) return {0, 0, row.zero_exponent, false};
  const bool single = row.inner == 1;
  const float sa = a.scale(begin);
  const float sb = b.scale(begin);
  const int128 dot = integer_dot(a, b, begin, end);
  if (single && (dot == 0 || sa == 0.0f || sb == 0.0f)) return {};
  AlignedTerm term;
  const Magnitude p = scale_product(sa, sb);
  term.negative = dot < 0;
  term.significand = static_cast<uint128>(dot < 0 ? -dot : dot) * p.significand;
  term.exponent = p.exponent + product_quantum_log2(a, b);
  term.weight_log2 = alignment_exponent(sa, a.scale_min_exponent()) + alignment_exponent(sb, b.scale_min_exponent());
  if (single) term.weight_log2 += element_exponent(a, begin) + element_exponent(b, begin);
  return term;
}

// Truncates a term toward zero to a multiple of 2^unit_log2 and adds it.
FP4_HD constexpr void add_truncated(ExactSum& sum, const AlignedTerm& term, int unit_log2) {
  const int drop = unit_log2 - term.exponent;
  if (drop >= 128) return;
  if (drop > 0) {
    sum.add_magnitude(term.significand >> drop, unit_log2, term.negative);
  } else {
    sum.add_magnitude(term.significand, term.exponent, term.negative);
  }
}

// A finite sum cut toward zero to its first bits after the point, below 2^-126 to multiples of 2^(-126 - bits).
FP4_HD constexpr float cut_to(float sum, int bits) {
  return is_finite(sum) ? float_of(bits_of(sum) >> (fp32_result_bits - bits) << (fp32_result_bits - bits)) : sum;
}

// The number that a group's sum becomes: fp32 or fp16, cut to result_bits; from 2^128 (fp16: 65520) on infinity. Any
// zero is +0: a negative sum below 2^-149 is cut to it.
FP4_HD constexpr float rounded_sum(const Accumulator& row, const ExactSum& sum) {
  const Magnitude total = sum.magnitude_of_sum();
  float out = 0.0f;
  if (row.is_half) {
    constexpr FloatFormat half_format = {5, 10, 15, true, true, true, 0x7BFF, 0x7FFF, true};
    out = decode(half_format, encode(half_format, total, false, {row.rounding, 0, 0}));
    if (sum.is_negative_sum()) out = -out;
  } else {
    const bool overflows = !total.is_zero() && total.log2_floor() >= 128;
    out = round_to_float(total, sum.is_negative_sum(), overflows ? Rounding::nearest_even : row.rounding);
    out = cut_to(out, row.result_bits);
  }
  return out == 0.0f ? 0.0f : out;
}

// fp32 elements as a tf32 unit reads them: the last 13 bits are cleared first, so that a NaN whose payload lies there
// becomes infinity.
template <class R>
struct CutToTf32 {
  const R& r;
  FP4_HD int64_t fixed(int64_t k) const { return r.fixed(k); }
  FP4_HD float scale(int64_t k) const { return r.scale(k); }
  FP4_HD float scaled(int64_t k) const {
    return r.has_scale() ? r.scaled(k) : float_of(bits_of(r.scaled(k)) & ~0x1FFFu);
  }
  FP4_HD int64_t block() const { return r.block(); }
  FP4_HD auto format() const { return r.format(); }
  FP4_HD int scale_min_exponent() const { return r.scale_min_exponent(); }
  FP4_HD bool has_scale() const { return r.has_scale(); }
};

// Where the dot that starts at k ends, in a group [first, last): after `inner` products, or where a scale does.
FP4_HD constexpr int64_t end_of_dot(int64_t k, int64_t first, int64_t last, int64_t run, int64_t inner) {
  return smaller(last, smaller((k / run + 1) * run, first + ((k - first) / inner + 1) * inner));
}

// The sum of [begin, end) on top of `acc`, which a device calls C.
template <class A, class B>
FP4_HD float aligned_dot(const Accumulator& row, const A& a, const B& b, int64_t begin, int64_t end, float acc) {
  const int64_t run = scale_run(a, b, end);
  const int64_t group = row.group > 0 ? row.group : larger<int64_t>(end - begin, 1);
  const int zero_exponent = row.zero_exponent == no_zero_exponent ? -126 : row.zero_exponent;
  const int least_exponent = row.is_half ? -14 : -126;
  const bool has_scales = a.has_scale() && b.has_scale();
  for (int64_t first = begin; first < end && (is_finite(acc) || !has_scales); first += group) {
    const int64_t last = smaller(end, first + group);
    if (const float special = has_scales ? 0.0f : infinite_sum(a, b, first, last, acc); special != 0.0f) {
      acc = special;
      continue;
    }
    const Magnitude m = exact_magnitude(acc);
    AlignedTerm carried{m.significand, m.exponent, m.is_zero() ? zero_exponent : larger(m.log2_floor(), least_exponent),
                        is_negative(acc)};
    int largest = carried.weight_log2;
    for (int64_t k = first, next = 0; k < last; k = next) {
      next = end_of_dot(k, first, last, run, row.inner);
      largest = larger(largest, aligned_term(row, a, b, k, next).weight_log2);
    }
    ExactSum sum;
    add_truncated(sum, carried, largest - row.fraction_bits);
    for (int64_t k = first, next = 0; k < last; k = next) {
      next = end_of_dot(k, first, last, run, row.inner);
      add_truncated(sum, aligned_term(row, a, b, k, next), largest - row.fraction_bits);
    }
    acc = rounded_sum(row, sum);
  }
  return acc;
}

}  // namespace fp4
