// How a GEMM adds up. An accumulator is a row of numbers: a kind (block, group, aligned, sequential, sequential_double,
// fma) and its parameters, so a chip's adder is described by data. Sources per row; the models of Hopper, Blackwell and
// CDNA3 are models of published probes (2609.02846; MMA-Sim), not the hardware: a result "equals model X". No public
// model of CDNA4 exists.
//
// dot() is templated on operand readers A and B, which give for an index k along the contraction axis
//   fixed(k)      element value as an integer multiple of 2^format().quantum_log2()
//   scale(k)      decode-side block scale (NaN allowed)        scaled(k)  fl32(element * scale)
//   value(k)      fully decoded value, g and p included        block()    block length along K (0: one block)
//   format()      element FloatFormat                          scale_min_exponent()        has_scale()
#pragma once

#include <climits>

#include "fp4/exact_sum.h"
#include "fp4/floor_aligned.h"

namespace fp4 {

enum class AccumulatorKind : uint8_t {
  block,
  group,
  aligned,
  sequential,
  sequential_double,
  fma,
  floor_aligned,
  floor_aligned_pairs
};

struct AccumulatorKindInfo {
  AccumulatorKind id;
  const char* name;
  const char* doc;
};
inline constexpr AccumulatorKindInfo accumulator_kind_table[] = {
    {AccumulatorKind::block, "block", "acc = round(acc + dot*sA*sB), one rounding a block"},
    {AccumulatorKind::group, "group", "groups summed exactly, rounded to fp32, added in order"},
    {AccumulatorKind::aligned, "aligned", "terms aligned to the largest exponent, cut to fraction_bits, added exactly"},
    {AccumulatorKind::sequential, "sequential", "acc = round(acc + round(a*b)) element by element"},
    {AccumulatorKind::sequential_double, "sequential_double", "the same in fp64, one rounding to fp32 at the end"},
    {AccumulatorKind::fma, "fma", "acc = fma(a, b, acc) on fully decoded values"},
    {AccumulatorKind::floor_aligned, "floor_aligned", "products aligned and cut; their sum and acc aligned, rounded down, added"},
    {AccumulatorKind::floor_aligned_pairs, "floor_aligned_pairs", "the same, even and odd products summed apart"},
};
static_assert(ids_are_indices(accumulator_kind_table));

inline constexpr int no_snap = INT_MIN;
inline constexpr int no_zero_exponent = INT_MIN;
inline constexpr int fp32_result_bits = 23;

struct Accumulator {
  AccumulatorKind kind = AccumulatorKind::block;
  int group = 0;                                     // products per group; 0: all of K
  int inner = 1;                                     // aligned: products summed exactly before alignment
  int fraction_bits = 24;                            // aligned: bits kept after the point of the largest exponent
  Rounding group_rounding = Rounding::nearest_even;  // of a group's sum; sequential: of a product
  Rounding rounding = Rounding::nearest_even;        // of each addition (aligned: of its result)
  int snap_log2 = no_snap;  // the final sum to the nearest multiple of 2^snap_log2, ties to even
  // aligned: exponent of what is zero because all of its factors' products are: the accumulator, a term whose products
  // are all zero, or one under a zero scale. None: a zero accumulator or scale has -126 and a zero dot its scales' own.
  int zero_exponent = no_zero_exponent;
  int result_bits = fp32_result_bits;  // aligned, toward zero: bits after the point that a sum keeps
  // Operands without block scales of at most 16 bits go through the adder as well; else they are summed by fma. Aligned
  // sums of single products and the floor kinds can.
  bool unscaled = false;

  friend constexpr bool operator==(const Accumulator&, const Accumulator&) = default;
};

struct AccumulatorInfo {
  const char* name;
  const char* doc;
  const char* source;
  Accumulator row;
};

// clang-format off
inline constexpr AccumulatorInfo accumulator_table[] = {
    {"exact", "exact sum over all K, one rounding", "Kulisch", {.kind = AccumulatorKind::group}},
    {"fp32_block", "one fp32 rounding a block", "OCP MX 1.0, 6.2 (general dot product)", {.kind = AccumulatorKind::block}},
    {"fp32_sequential", "dequantised fp32 loop, element by element", "PyTorch emulators", {.kind = AccumulatorKind::sequential}},
    {"k64_rz", "groups of 64 exact, added toward zero", "2609.02846 (Blackwell probe)",
     {.kind = AccumulatorKind::group, .group = 64, .rounding = Rounding::toward_zero}},
    {"k64_rz_snap", "k64_rz, then a multiple of 2^-10", "2609.02846 (comparator)",
     {.kind = AccumulatorKind::group, .group = 64, .rounding = Rounding::toward_zero, .snap_log2 = -10}},
    {"fused35_rz", "64 products, dots of 16 aligned, 35 fraction bits; zero blocks weigh as their scales",
     "MMA-Sim 2511.10909 as of January 2026, Blackwell mxf4/nvf4",
     {.kind = AccumulatorKind::aligned, .group = 64, .inner = 16, .fraction_bits = 35, .rounding = Rounding::toward_zero}},
    {"fused25_rz", "32 products aligned one by one, 25 fraction bits", "MMA-Sim 2511.10909 as of January 2026, mxf8f6f4",
     {.kind = AccumulatorKind::aligned, .group = 32, .inner = 1, .fraction_bits = 25, .rounding = Rounding::toward_zero}},
    {"double", "fp64 loop, rounded once at the end", "reference loops", {.kind = AccumulatorKind::sequential_double}},
    {"fma_sequential", "acc = fma(a, b, acc), the rule of unscaled operands", "fp32 GEMM in natural order", {.kind = AccumulatorKind::fma}},
    {"fused35_rz_2026_08", "fused35_rz, but all zeros weigh 2^-139", "MMA-Sim 2511.10909 as of August 2026, Blackwell mxf4/nvf4",
     {.kind = AccumulatorKind::aligned, .group = 64, .inner = 16, .fraction_bits = 35, .rounding = Rounding::toward_zero, .zero_exponent = -139}},
    {"fused25_rz_2026_08", "fused25_rz, but all zeros weigh 2^-133", "MMA-Sim 2511.10909 as of August 2026, mxf8f6f4",
     {.kind = AccumulatorKind::aligned, .group = 32, .inner = 1, .fraction_bits = 25, .rounding = Rounding::toward_zero, .zero_exponent = -133}},
    {"hopper_fp8", "32 products aligned one by one, 13 fraction bits, sums of 13 bits (E8M13)", "MMA-Sim 2511.10909 as of January 2026, Hopper wgmma e4m3, e5m2",
     {.kind = AccumulatorKind::aligned, .group = 32, .inner = 1, .fraction_bits = 13, .rounding = Rounding::toward_zero, .result_bits = 13, .unscaled = true}},
    {"cdna3_16bit", "8 products cut to 24 bits, their sum rounded down to 31, acc to 24", "MMA-Sim 2511.10909 as of January 2026, CDNA3 mfma f16, bf16; no public model of CDNA4 exists",
     {.kind = AccumulatorKind::floor_aligned, .group = 8, .unscaled = true}},
    {"cdna3_fp8", "16 products, even and odd apart, cut to 24 bits, their sum rounded down to 31, acc to 24",
     "MMA-Sim 2511.10909 as of January 2026, CDNA3 mfma fp8, bf8; no public model of CDNA4 exists",
     {.kind = AccumulatorKind::floor_aligned_pairs, .group = 16, .unscaled = true}},
};
// clang-format on

// Whether an operand goes through the adder or, since it has no block scales, is summed by fma.
FP4_HD constexpr bool takes(const Accumulator& row, bool has_scale, const FloatFormat& element) {
  return has_scale || (row.unscaled && element.code_bits() <= 16);
}

inline constexpr const Accumulator& fp32_block = accumulator_table[1].row;

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

FP4_HD constexpr bool has_more_than_8_bits(float s) {
  const uint64_t m = exact_magnitude(s).significand;
  return m != 0 && m / (m & (~m + 1)) >= 256;
}

// P = sA*sB, exact.
FP4_HD constexpr Magnitude scale_product(float sa, float sb) {
  return exact_product(exact_magnitude(sa), exact_magnitude(sb));
}

template <class A, class B>
FP4_HD int product_quantum_log2(const A& a, const B& b) {
  return a.format().quantum_log2() + b.format().quantum_log2();
}

// sum += dot(begin..end) * sA * sB, the scales constant over the run.
template <class A, class B>
FP4_HD void add_scaled_dot(ExactSum& sum, const A& a, const B& b, int64_t begin, int64_t end) {
  const Magnitude p = scale_product(a.scale(begin), b.scale(begin));
  const int128 dot = integer_dot(a, b, begin, end);
  sum.add(dot * static_cast<int128>(p.significand), p.exponent + product_quantum_log2(a, b));
}

// Takes fl32(sA*sB) where a scale has more than 8 significant bits (fp32 scales, most 1/mu), else the exact product.
// Where fl32(sA*sB) is infinite, so is the sum, under every rounding, unless the dot is 0; infinity stays.
template <class A, class B>
FP4_HD float block_dot(const Accumulator& row, const A& a, const B& b, int64_t begin, int64_t end) {
  const int64_t run = scale_run(a, b, end);
  float acc = 0.0f;
  for (int64_t k = begin; k < end && is_finite(acc); k = (k / run + 1) * run) {
    const float sa = a.scale(k);
    const float sb = b.scale(k);
    const bool rounds = has_more_than_8_bits(sa) || has_more_than_8_bits(sb);
    const int128 dot = integer_dot(a, b, k, smaller(end, (k / run + 1) * run));
    if (rounds && dot != 0 && !is_finite(sa * sb)) return float_of(float_infinity_bits | (dot < 0 ? 0x80000000u : 0u));
    const Magnitude p = rounds ? exact_magnitude(sa * sb) : scale_product(sa, sb);
    ExactSum sum;
    sum.add(acc);
    sum.add(dot * static_cast<int128>(p.significand), p.exponent + product_quantum_log2(a, b));
    acc = sum.round(row.rounding);
  }
  return acc;
}

template <class A, class B>
FP4_HD float group_dot(const Accumulator& row, const A& a, const B& b, int64_t begin, int64_t end) {
  const int64_t run = scale_run(a, b, end);
  const int64_t group = row.group > 0 ? row.group : larger<int64_t>(end - begin, 1);
  float acc = 0.0f;
  for (int64_t first = begin; first < end; first += group) {
    const int64_t last = smaller(end, first + group);
    ExactSum sum;
    for (int64_t k = first; k < last; k = (k / run + 1) * run) {
      add_scaled_dot(sum, a, b, k, smaller(last, (k / run + 1) * run));
    }
    const float rounded = sum.round(row.group_rounding);
    acc = row.group > 0 ? add_rounded(acc, rounded, row.rounding) : rounded;
  }
  return acc;
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

template <class A, class B>
FP4_HD float aligned_dot(const Accumulator& row, const A& a, const B& b, int64_t begin, int64_t end) {
  const int64_t run = scale_run(a, b, end);
  const int64_t group = row.group > 0 ? row.group : larger<int64_t>(end - begin, 1);
  const int zero_exponent = row.zero_exponent == no_zero_exponent ? -126 : row.zero_exponent;
  const auto next = [&](int64_t k, int64_t first, int64_t last) {  // end of the term that starts at k
    const int64_t by_block = (k / run + 1) * run;
    const int64_t by_inner = first + ((k - first) / row.inner + 1) * row.inner;
    return smaller(last, smaller(by_block, by_inner));
  };
  float acc = 0.0f;
  const bool has_scales = a.has_scale() && b.has_scale();
  for (int64_t first = begin; first < end && (is_finite(acc) || !has_scales); first += group) {
    const int64_t last = smaller(end, first + group);
    if (const float special = has_scales ? 0.0f : infinite_sum(a, b, first, last, acc); special != 0.0f) {
      acc = special;
      continue;
    }
    const Magnitude m = exact_magnitude(acc);
    AlignedTerm carried{m.significand, m.exponent, m.is_zero() ? zero_exponent : larger(m.log2_floor(), -126),
                        is_negative(acc)};
    int largest = carried.weight_log2;
    for (int64_t k = first; k < last; k = next(k, first, last)) {
      largest = larger(largest, aligned_term(row, a, b, k, next(k, first, last)).weight_log2);
    }
    ExactSum sum;
    add_truncated(sum, carried, largest - row.fraction_bits);
    for (int64_t k = first; k < last; k = next(k, first, last)) {
      add_truncated(sum, aligned_term(row, a, b, k, next(k, first, last)), largest - row.fraction_bits);
    }
    const Magnitude total = sum.magnitude_of_sum();
    const bool overflows = !total.is_zero() && total.log2_floor() >= 128;
    acc = round_to_float(total, sum.is_negative_sum(), overflows ? Rounding::nearest_even : row.rounding);
    acc = cut_to(acc, row.result_bits);
    if (acc == 0.0f) acc = 0.0f;  // any zero is +0: a negative sum below 2^-149 was truncated to -0
  }
  return acc;
}

template <class A, class B>
FP4_HD float sequential_dot(const Accumulator& row, const A& a, const B& b, int64_t begin, int64_t end) {
  float acc = 0.0f;
  for (int64_t k = begin; k < end; ++k) {
    acc = add_rounded(acc, multiply_rounded(a.scaled(k), b.scaled(k), row.group_rounding), row.rounding);
  }
  return acc;
}

template <class A, class B>
FP4_HD float double_dot(const A& a, const B& b, int64_t begin, int64_t end) {
  double acc = 0.0;
  for (int64_t k = begin; k < end; ++k) acc = acc + static_cast<double>(a.scaled(k)) * static_cast<double>(b.scaled(k));
  return static_cast<float>(acc);
}

template <class A, class B>
FP4_HD float fma_dot(const A& a, const B& b, int64_t begin, int64_t end) {
  float acc = 0.0f;
  for (int64_t k = begin; k < end; ++k) acc = __builtin_fmaf(a.value(k), b.value(k), acc);
  return acc;
}

// Sum over [begin, end) under the accumulator, scales finite; `snap` applied, not yet multiplied by tensor scales.
template <class A, class B>
FP4_HD float dot(const Accumulator& row, const A& a, const B& b, int64_t begin, int64_t end) {
  switch (row.kind) {
    case AccumulatorKind::block: return snapped(block_dot(row, a, b, begin, end), row.snap_log2);
    case AccumulatorKind::group: return snapped(group_dot(row, a, b, begin, end), row.snap_log2);
    case AccumulatorKind::aligned: return snapped(aligned_dot(row, a, b, begin, end), row.snap_log2);
    case AccumulatorKind::sequential: return snapped(sequential_dot(row, a, b, begin, end), row.snap_log2);
    case AccumulatorKind::sequential_double: return snapped(double_dot(a, b, begin, end), row.snap_log2);
    case AccumulatorKind::fma: return snapped(fma_dot(a, b, begin, end), row.snap_log2);
    case AccumulatorKind::floor_aligned:
    case AccumulatorKind::floor_aligned_pairs: {
      const int64_t group = row.group > 0 ? row.group : larger<int64_t>(end - begin, 1);
      const bool pairs = row.kind == AccumulatorKind::floor_aligned_pairs;
      return snapped(floor_aligned_dot(group, row.fraction_bits, pairs, a, b, begin, end), row.snap_log2);
    }
  }
  return 0.0f;
}

}  // namespace fp4
