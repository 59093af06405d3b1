// How a GEMM adds up: dot() under an accumulator (accumulator.h), with the simple kinds here and those of matrix units
// in aligned.h, windowed.h and floor_aligned.h.
//
// dot() is templated on operand readers A and B, which give for an index k along the contraction axis
//   fixed(k)      element value as an integer multiple of 2^format().quantum_log2()
//   scale(k)      decode-side block scale (NaN allowed)        scaled(k)  fl32(element * scale)
//   value(k)      fully decoded value, g and p included        block()    block length along K (0: one block)
//   format()      element FloatFormat                          scale_min_exponent()        has_scale()
#pragma once

#include "fp4/windowed.h"

namespace fp4 {

// a + b in fp32 under a rounding mode; infinities and NaN as IEEE.
FP4_HD constexpr float add_rounded(float a, float b, Rounding mode) {
  if (mode == Rounding::nearest_even || !is_finite(a) || !is_finite(b)) return a + b;
  ExactSum sum;
  sum.add(a);
  sum.add(b);
  return sum.round(mode);
}

FP4_HD constexpr float multiply_rounded(float a, float b, Rounding mode) {
  if (mode == Rounding::nearest_even || !is_finite(a) || !is_finite(b)) return a * b;
  return round_to_float(exact_product(exact_magnitude(a), exact_magnitude(b)), is_negative(a) != is_negative(b), mode);
}

FP4_HD constexpr float snapped(float sum, int snap_log2) {
  if (snap_log2 == no_snap || !is_finite(sum)) return sum;
  const GridPosition p = position_on_grid(exact_magnitude(sum), snap_log2);
  if (p.rest.bits == 0 && !p.rest.sticky) return sum == 0.0f ? 0.0f : sum;
  const uint64_t steps = p.whole + (rounds_up(Rounding::nearest_even, p.rest, (p.whole & 1) != 0, false, 0, 0) ? 1 : 0);
  return round_to_float({steps, snap_log2, false}, steps != 0 && is_negative(sum), Rounding::nearest_even);
}

FP4_HD constexpr bool has_more_than_8_bits(float s) {
  const uint64_t m = exact_magnitude(s).significand;
  return m != 0 && m / (m & (~m + 1)) >= 256;
}

// sum += dot(begin..end) * sA * sB, the scales constant over the run.
template <class A, class B>
FP4_HD void add_scaled_dot(ExactSum& sum, const A& a, const B& b, int64_t begin, int64_t end) {
  const Magnitude p = scale_product(a.scale(begin), b.scale(begin));
  sum.add(integer_dot(a, b, begin, end), p.exponent + product_quantum_log2(a, b), p.significand);
}

// A factor of a product, exact: element times block scale.
template <class R>
FP4_HD Magnitude exact_factor(const R& r, int64_t k) {
  if (!r.has_scale()) return exact_magnitude(r.scaled(k));
  const int64_t v = r.fixed(k);
  return exact_product({static_cast<uint64_t>(v < 0 ? -v : v), r.format().quantum_log2(), false},
                       exact_magnitude(r.scale(k)));
}

template <class R>
FP4_HD bool is_special(const R& r, int64_t k) {
  return !r.has_scale() && !is_finite(r.scaled(k));
}

// sum += the products of [begin, end) where an operand has no scales. Gives what infinities and NaN among them make of
// it; 0 where there are none.
template <class A, class B>
FP4_HD float add_products(ExactSum& sum, const A& a, const B& b, int64_t begin, int64_t end) {
  float special = 0.0f;
  for (int64_t k = begin; k < end; ++k) {
    const float x = a.scaled(k), y = b.scaled(k);
    if (is_special(a, k) || is_special(b, k)) {
      special = special + x * y;
    } else {
      const Magnitude p = exact_product(exact_factor(a, k), exact_factor(b, k));
      sum.add_magnitude(p.significand, p.exponent, is_negative(x) != is_negative(y));
    }
  }
  return special;
}

// acc + dot*sA*sB with one rounding. Takes fl32(sA*sB) where a scale has more than 8 significant bits (fp32 scales,
// most 1/mu), else the exact product. Where fl32(sA*sB) is infinite, so is the sum, under every rounding, unless the
// dot is 0; infinity stays.
FP4_HD inline float add_block(float acc, int128 dot, int quantum_log2, float sa, float sb, Rounding rounding) {
  const bool rounds = has_more_than_8_bits(sa) || has_more_than_8_bits(sb);
  if (rounds && dot != 0 && !is_finite(sa * sb)) return float_of(float_infinity_bits | (dot < 0 ? 0x80000000u : 0u));
  const Magnitude p = rounds ? exact_magnitude(sa * sb) : scale_product(sa, sb);
  ExactSum sum;
  sum.add(acc);
  sum.add(dot, p.exponent + quantum_log2, p.significand);
  return sum.round(rounding);
}

template <class A, class B>
FP4_HD float block_dot(const Accumulator& row, const A& a, const B& b, int64_t begin, int64_t end, float acc) {
  const bool has_scales = a.has_scale() && b.has_scale();
  for (int64_t k = begin; k < end && !has_scales; ++k) {  // every product is a block
    ExactSum sum;
    const float special = add_products(sum, a, b, k, k + 1);
    if (is_finite(acc)) sum.add(acc);
    acc = special == 0.0f && is_finite(acc) ? sum.round(row.rounding) : acc + special;
  }
  if (!has_scales) return acc;
  const int64_t run = scale_run(a, b, end);
  for (int64_t k = begin; k < end && is_finite(acc); k = (k / run + 1) * run) {
    const int128 dot = integer_dot(a, b, k, smaller(end, (k / run + 1) * run));
    acc = add_block(acc, dot, product_quantum_log2(a, b), a.scale(k), b.scale(k), row.rounding);
  }
  return acc;
}

// A block's integers in int32 from 0, group by group, then as a block's dot.
template <class A, class B>
FP4_HD float integer_block_dot(const Accumulator& row, const A& a, const B& b, int64_t begin, int64_t end, float acc) {
  constexpr int64_t least = INT32_MIN, most = INT32_MAX;
  const int64_t run = scale_run(a, b, end);
  const int64_t group = row.group > 0 ? row.group : larger<int64_t>(end - begin, 1);
  for (int64_t k = begin, next = 0; k < end && is_finite(acc); k = next) {
    next = smaller(end, (k / run + 1) * run);
    int64_t sum = 0;
    for (int64_t first = k; first < next; first += group) {
      sum += static_cast<int64_t>(integer_dot(a, b, first, smaller(next, first + group)));
      sum = row.clamps ? larger(least, smaller(most, sum)) : static_cast<int32_t>(static_cast<uint32_t>(sum));
    }
    acc = add_block(acc, sum, product_quantum_log2(a, b), a.scale(k), b.scale(k), row.rounding);
  }
  return acc;
}

template <class A, class B>
FP4_HD float group_dot(const Accumulator& row, const A& a, const B& b, int64_t begin, int64_t end, float acc) {
  const bool has_scales = a.has_scale() && b.has_scale();
  const int64_t run = has_scales ? scale_run(a, b, end) : larger<int64_t>(end - begin, 1);
  const int64_t group = row.group > 0 ? row.group : larger<int64_t>(end - begin, 1);
  for (int64_t first = begin; first < end; first += group) {
    const int64_t last = smaller(end, first + group);
    ExactSum sum;
    float special = 0.0f;
    if (!has_scales) special = add_products(sum, a, b, first, last);
    for (int64_t k = has_scales ? first : last; k < last; k = (k / run + 1) * run)
      add_scaled_dot(sum, a, b, k, smaller(last, (k / run + 1) * run));
    if (row.group == 0 && is_finite(acc)) sum.add(acc);
    const float rounded = special != 0.0f ? special : sum.round(row.group_rounding);
    acc = row.group > 0 || !is_finite(acc) ? add_rounded(acc, rounded, row.rounding) : rounded;
  }
  return acc;
}

// A block's dot by fp32 fma from 0, times its scales with one rounding, added in fp32.
template <class A, class B>
FP4_HD float fma_block_dot(const Accumulator& row, const A& a, const B& b, int64_t begin, int64_t end, float acc) {
  const int64_t run = scale_run(a, b, end);
  const int64_t group = row.group > 0 ? row.group : larger<int64_t>(end - begin, 1);
  for (int64_t k = begin, next = 0; k < end; k = next) {
    next = end_of_dot(k, begin, end, run, group);
    float sum = 0.0f;
    for (int64_t i = k; i < next; ++i) {
      const auto x = static_cast<float>(a.fixed(i)), y = static_cast<float>(b.fixed(i));
      sum = __builtin_fmaf(x, y, sum);
    }
    const Magnitude p = scale_product(a.scale(k), b.scale(k)), m = exact_magnitude(sum);
    const int below = larger(-m.exponent, 0);  // bits below 1: zeros, for the sum is a whole number
    ExactSum scaled;
    scaled.add_magnitude(static_cast<uint128>(m.significand >> smaller(below, 63)) * p.significand,
                         m.exponent + below + p.exponent + product_quantum_log2(a, b), is_negative(sum));
    acc = acc + scaled.round(Rounding::nearest_even);
  }
  return acc;
}

template <class A, class B>
FP4_HD float sequential_dot(const Accumulator& row, const A& a, const B& b, int64_t begin, int64_t end, float acc) {
  for (int64_t k = begin; k < end; ++k)
    acc = add_rounded(acc, multiply_rounded(a.scaled(k), b.scaled(k), row.group_rounding), row.rounding);
  return acc;
}

template <class A, class B>
FP4_HD float double_dot(const A& a, const B& b, int64_t begin, int64_t end, float start = 0.0f) {
  double acc = static_cast<double>(start);
  for (int64_t k = begin; k < end; ++k) acc = acc + static_cast<double>(a.scaled(k)) * static_cast<double>(b.scaled(k));
  return static_cast<float>(acc);
}

template <class A, class B>
FP4_HD float fma_dot(const A& a, const B& b, int64_t begin, int64_t end, float acc) {
  for (int64_t k = begin; k < end; ++k) acc = __builtin_fmaf(a.value(k), b.value(k), acc);
  return acc;
}

// Sum over [begin, end) under the accumulator on top of `acc`, before any snap.
template <class A, class B>
FP4_HD float plain_dot(const Accumulator& row, const A& a, const B& b, int64_t begin, int64_t end, float acc) {
  switch (row.kind) {
    case AccumulatorKind::block: return block_dot(row, a, b, begin, end, acc);
    case AccumulatorKind::group: return group_dot(row, a, b, begin, end, acc);
    case AccumulatorKind::aligned:
      if (row.tf32) return aligned_dot(row, CutToTf32<A>{a}, CutToTf32<B>{b}, begin, end, acc);
      return aligned_dot(row, a, b, begin, end, acc);
    case AccumulatorKind::sequential: return sequential_dot(row, a, b, begin, end, acc);
    case AccumulatorKind::sequential_double: return double_dot(a, b, begin, end, acc);
    case AccumulatorKind::fma: return fma_dot(a, b, begin, end, acc);
    case AccumulatorKind::floor_aligned:
    case AccumulatorKind::floor_aligned_pairs: {
      const int64_t group = row.group > 0 ? row.group : larger<int64_t>(end - begin, 1);
      const bool pairs = row.kind == AccumulatorKind::floor_aligned_pairs;
      return floor_aligned_dot(group, row.fraction_bits, pairs, a, b, begin, end, acc);
    }
    case AccumulatorKind::windowed: return windowed_dot(row, a, b, begin, end, acc);
    case AccumulatorKind::fma_blocks: return fma_block_dot(row, a, b, begin, end, acc);
    case AccumulatorKind::integer:
#if FP4_DEVICE_CODE
      break;  // known_words.cpp keeps the kind from devices
#else
      return integer_block_dot(row, a, b, begin, end, acc);
#endif
  }
  return 0.0f;
}

// Sum over [begin, end) under the accumulator, scales finite; `snap` applied, not yet multiplied by tensor scales.
// `start` is what it adds to: the C of a device's instruction.
template <class A, class B>
FP4_HD float dot(const Accumulator& row, const A& a, const B& b, int64_t begin, int64_t end, float start = 0.0f) {
  return snapped(plain_dot(row, a, b, begin, end, start), row.snap_log2);
}

}  // namespace fp4
