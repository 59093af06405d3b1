// From a block maximum to a scale code. Exponents come from bits, never from log2f: float log2 is wrong for maxima 1-4
// ulp below a power of two. Rules of the power-of-two family work on a' = a/g exactly in every order of operations; the
// others round a number given by arithmetic.h. four_over_six and mse try several codes: block.h runs their trials.
#pragma once

#include "fp4/arithmetic.h"

namespace fp4 {

enum class ScaleRule : uint8_t {
  floor,
  ceil,
  rceil,
  even,
  uos,
  nearest_log2,
  quest_floor,
  quest_nearest,
  amax,
  encode,
  four_over_six,
  mse,
  ms_eden,
  even_above,
  nearest_log2_amax,
  floor_plus_one
};

// What a rule reads of a block and what it gives: an exponent from the maximum, an exponent from the variance, a number
// from the maximum to be rounded, or such a number and its rivals, of which the least squared error wins.
enum class ScaleFamily : uint8_t { power, variance, quotient, trials };

struct ScaleRuleInfo {
  ScaleRule id;
  const char* name;
  const char* doc;
  const char* source;
  int extra_ops;  // vector operations per element beyond amax, multiply, convert and pack
  ScaleFamily family;
};

inline constexpr ScaleRuleInfo scale_rule_table[] = {
    {ScaleRule::floor, "floor", "2^(floor(log2 a) - emax)", "OCP MX 1.0, 6.3", 0, ScaleFamily::power},
    {ScaleRule::ceil, "ceil", "floor, one up unless a is a power of two", "torchao CEIL", 0, ScaleFamily::power},
    {ScaleRule::rceil, "rceil", "2^ceil(log2(a/M)): never clips", "PTX cvt.rp.ue8m0, TetraJet 2502.20853", 0,
     ScaleFamily::power},
    {ScaleRule::even, "even", "floor, one up from (2-2^-(m+1))*2^k", "torchao EVEN, Quark, ALTO", 0,
     ScaleFamily::power},
    {ScaleRule::uos, "uos", "2^ceil(log2(a/7.25)), e2m1 only", "ALTO", 0, ScaleFamily::power},
    {ScaleRule::nearest_log2, "nearest_log2", "2^round(log2(a/M))", "log-nearest exponent", 0, ScaleFamily::power},
    {ScaleRule::quest_floor, "quest_floor", "Gaussian-optimal clip from the variance, exponent floored", "Quartet code",
     2, ScaleFamily::variance},
    {ScaleRule::quest_nearest, "quest_nearest", "the same, exponent rounded", "Quartet 2505.14669", 2,
     ScaleFamily::variance},
    {ScaleRule::amax, "amax", "round(a/(M*g)) to the scale format", "NVFP4", 0, ScaleFamily::quotient},
    {ScaleRule::encode, "encode", "stores the multiplier round(N*g/a)", "Graphcore 2509.17791", 0,
     ScaleFamily::quotient},
    {ScaleRule::four_over_six, "four_over_six", "amax to 6 or to 4, smaller squared error", "2512.02010", 6,
     ScaleFamily::trials},
    {ScaleRule::mse, "mse", "the amax code or one of its four neighbours, least squared error", "search", 12,
     ScaleFamily::trials},
    {ScaleRule::ms_eden, "ms_eden", "amax to 5.35 or so, then corrected and rounded stochastically (eden.h)",
     "Quartet II 2601.22813", 5, ScaleFamily::quotient},
    {ScaleRule::even_above, "even_above", "floor, one up above (2-2^-(m+1))*2^k, not at it", "FBGEMM even", 0,
     ScaleFamily::power},
    {ScaleRule::nearest_log2_amax, "nearest_log2_amax", "2^(round(log2 a) - emax)", "FBGEMM nearest", 0,
     ScaleFamily::power},
    {ScaleRule::floor_plus_one, "floor_plus_one", "2^(floor(log2 a) - emax + 1): never clips",
     "AWS Trainium3, nki.isa.quantize_mx", 0, ScaleFamily::power},
};
static_assert(ids_are_indices(scale_rule_table));

// Where rules of the power family take log2 from. Float log2 rounds to a power of two that the maximum does not reach.
enum class Exponent : uint8_t { bits, float_log2 };

inline constexpr AxisRow<Exponent> exponent_table[] = {
    {Exponent::bits, "bits", "exact", "definition"},
    {Exponent::float_log2, "float_log2",
     "of log2 rounded to fp32 (to bf16 under compute=bf16): one high up to 44 ulp below 2^-117, 1 ulp below 2^3",
     "microxcaling, FBGEMM, Model-Optimizer MXFP4, ggml, MLX"},
};
static_assert(ids_are_indices(exponent_table));

// What the rules that try several codes minimise over a block.
enum class TrialError : uint8_t { mse, mae, max };

// How that error is worked out. In fp32 each operation is rounded, sums run along a row of the block, and the rows of a
// square block are added in halves: row r and row r + B/2, and so on.
enum class ErrorOrder : uint8_t { fp64, decoded_amax, decoded_factor, scaled };

inline constexpr AxisRow<ErrorOrder> error_order_table[] = {
    {ErrorOrder::fp64, "fp64", "x minus the decoded value, in fp64, ascending k", "definition"},
    {ErrorOrder::decoded_amax, "decoded_amax", "fl32(fl32(fl32(fl32(q*s)*A) / fl32(target*M)) - x), in fp32",
     "Transformer Engine 4over6"},
    {ErrorOrder::decoded_factor, "decoded_factor", "fl32(fl32(fl32(q*s)*g) - x), in fp32",
     "FlashInfer 4over6, since 2026-08"},
    {ErrorOrder::scaled, "scaled",
     "fl32(q*s - fl32(x*S)), in fp32, without S fl32(q*s - fl32(x/g)); q*s is exact in fp16",
     "Transformer Engine and FlashInfer 4over6, fast math; RaZeR"},
};
static_assert(ids_are_indices(error_order_table));

inline constexpr AxisRow<TrialError> trial_error_table[] = {
    {TrialError::mse, "mse", "sum of squared errors", "2512.02010"},
    {TrialError::mae, "mae", "sum of absolute errors", "2512.02010; Transformer Engine"},
    {TrialError::max, "max", "largest absolute error", "2512.02010"},
};
static_assert(ids_are_indices(trial_error_table));

FP4_HD constexpr ScaleFamily family_of(ScaleRule r) {
  switch (r) {
    case ScaleRule::floor:
    case ScaleRule::ceil:
    case ScaleRule::rceil:
    case ScaleRule::even:
    case ScaleRule::uos:
    case ScaleRule::nearest_log2:
    case ScaleRule::even_above:
    case ScaleRule::nearest_log2_amax:
    case ScaleRule::floor_plus_one: return ScaleFamily::power;
    case ScaleRule::quest_floor:
    case ScaleRule::quest_nearest: return ScaleFamily::variance;
    case ScaleRule::amax:
    case ScaleRule::encode:
    case ScaleRule::ms_eden: return ScaleFamily::quotient;
    case ScaleRule::four_over_six:
    case ScaleRule::mse: return ScaleFamily::trials;
  }
  return ScaleFamily::quotient;
}
static_assert(rows_agree(scale_rule_table, [](const ScaleRuleInfo& r) { return r.family == family_of(r.id); }));

FP4_HD constexpr bool is_quest(ScaleRule r) { return family_of(r) == ScaleFamily::variance; }
FP4_HD constexpr bool tries_codes(ScaleRule r) { return family_of(r) == ScaleFamily::trials; }
FP4_HD constexpr bool is_power_of_two_rule(ScaleRule r) { return family_of(r) == ScaleFamily::power || is_quest(r); }

// What the maximum is divided by to be the scale before rounding.
FP4_HD constexpr Divisor rule_divisor(ScaleRule rule, const FloatFormat& element) {
  switch (rule) {
    case ScaleRule::floor:
    case ScaleRule::ceil:
    case ScaleRule::even:
    case ScaleRule::even_above:
    case ScaleRule::nearest_log2_amax:
    case ScaleRule::floor_plus_one:
    case ScaleRule::quest_floor:  // of constant blocks
    case ScaleRule::quest_nearest: return {{1, element.max_exponent(), false}, 1};
    case ScaleRule::uos: return {{29, 0, false}, 4};
    case ScaleRule::ms_eden: return {exact_product(element.largest(), {1600, 0, false}), 1581};  // 17/16 * 0.93
    case ScaleRule::rceil:
    case ScaleRule::nearest_log2:
    case ScaleRule::amax:
    case ScaleRule::encode:
    case ScaleRule::four_over_six:  // or two thirds of it
    case ScaleRule::mse: break;
  }
  return {element.largest(), 1};
}

// How much of M the maximum of a block is meant to take, of the rules amax, four_over_six and mse. A scale of three
// mantissa bits is rounded down by at most 1/17, which is then no clipping, so that stochastic rounding has no bias.
enum class Headroom : uint8_t { none, unbiased };

inline constexpr AxisRow<Headroom> headroom_table[] = {
    {Headroom::none, "none", "block maxima reach M", "definition"},
    {Headroom::unbiased, "unbiased", "they reach 16/17 of M, and so does the tensor scale's target*M",
     "Quartet II 2601.22813; fouroversix, round_style=stochastic_unbiased"},
};
static_assert(ids_are_indices(headroom_table));

FP4_HD constexpr Divisor with_headroom(Divisor m, Headroom h) {
  if (h == Headroom::none) return m;
  return {exact_product(m.numerator, {16, 0, false}), m.denominator * 17};
}

// ceil(log2 x) of an exact positive number.
FP4_HD constexpr int log2_ceil(Magnitude x) { return x.log2_floor() + (x.is_power_of_two() ? 0 : 1); }

// Whether x >= (numerator/2^bits) * 2^floor(log2 x), numerator in [2^bits, 2^(bits+1)).
FP4_HD constexpr bool significand_at_least(Magnitude x, uint64_t numerator, int bits) {
  const int top = floor_log2(x.significand);
  return top >= bits ? (x.significand >> (top - bits)) >= numerator : (x.significand << (bits - top)) >= numerator;
}

// k = round(log2 x): up when x^2 > 2^(2k+1). No ties, and the 62-bit quotient decides: sqrt(2)*2^63 =
// 13043817825332782212.3 and a quotient of 24- by 27-bit integers stays 2^-54 away from sqrt(2).
FP4_HD constexpr int log2_nearest(Magnitude x) {
  const int top = floor_log2(x.significand);
  const uint64_t normalized = x.significand << (63 - top);
  return x.log2_floor() + (normalized > 13043817825332782212u ? 1 : 0);
}

// Whether both are one number; neither is zero.
FP4_HD constexpr bool is_equal(Magnitude a, Magnitude b) {
  const int top_a = floor_log2(a.significand);
  const int top_b = floor_log2(b.significand);
  return !a.sticky && !b.sticky && a.exponent + top_a == b.exponent + top_b &&
         a.significand << (63 - top_a) == b.significand << (63 - top_b);
}

// The significand of x > 0 as an integer of 24 bits.
FP4_HD constexpr uint32_t significand_of_24_bits(float x) {
  const Magnitude m = exact_magnitude(x);
  return static_cast<uint32_t>(m.significand << (23 - floor_log2(m.significand)));
}

// log2 of the binade that holds the numbers next to k != 0 on the side of minus (or plus) infinity.
FP4_HD constexpr int log2_beside(int k, bool below) {
  const auto size = static_cast<uint64_t>(k < 0 ? -k : k);
  const int m = floor_log2(size);
  return (k > 0) == below && (size & (size - 1)) == 0 ? m - 1 : m;
}

// floor(ln 2 * 2^m): ulps of a significand within half an fp32 step of log2 in the binade m.
FP4_HD constexpr uint32_t ulps_of_log2(int m) {
  constexpr uint32_t ulps[] = {0, 1, 2, 5, 11, 22, 44, 88};
  return m < 0 ? 0 : ulps[m];
}

// The smallest 24-bit significand below 2^k whose log2, rounded to fp32 and then to bf16, is k: 2^24 * 2^-(h + h32)
// with h and h32 half the steps of both formats. A tie goes to the even k.
FP4_HD constexpr uint32_t least_bf16_log2(int k, int m) {
  constexpr uint32_t least[] = {16754518, 16731851, 16686608, 16596490, 16417710,
                                16065907, 15384755, 14107864, 11863221};
  return m == 7 && k % 2 != 0 ? 11863346u : least[m + 1];
}

// floor(log2 x), log2 x rounded to nearest in the type of the computation.
FP4_HD constexpr int float_log2_floor(float x, Compute c) {
  const int k = exact_magnitude(x).log2_floor() + 1;
  if (k == 0) return -1;  // log2 is fine beside 0
  const int m = log2_beside(k, true);
  const uint32_t least = c == Compute::bf16 ? least_bf16_log2(k, m) : (1u << 24) - ulps_of_log2(m);
  return significand_of_24_bits(x) >= least ? k : k - 1;
}

// ceil(fl32(log2 x)).
FP4_HD constexpr int float_log2_ceil(float x) {
  const int k = exact_magnitude(x).log2_floor();
  const uint32_t above = significand_of_24_bits(x) - (1u << 23);
  if (k == 0) return above == 0 ? 0 : 1;
  return above <= ulps_of_log2(log2_beside(k, false) - 1) ? k : k + 1;
}

// round(fl32(log2 x)), halves away from zero or to even. fl32(log2 x) is k + 1/2 for the significands within
// .4901 * 2^m of sqrt(2) * 2^23 = 11863283.2, m the binade of k + 1/2.
FP4_HD constexpr int float_log2_nearest(float x, bool half_to_even) {
  const int k = exact_magnitude(x).log2_floor();
  const int twice = 2 * k + 1;  // of k + 1/2
  const int m = floor_log2(static_cast<uint64_t>(twice < 0 ? -twice : twice)) - 1;
  constexpr uint32_t first[] = {11863283, 11863283, 11863283, 11863282, 11863280,
                                11863276, 11863268, 11863252, 11863221};
  constexpr uint32_t last[] = {11863283, 11863283, 11863284, 11863285, 11863287,
                               11863291, 11863298, 11863314, 11863345};
  const uint32_t s = significand_of_24_bits(x);
  if (k == 0) return s > last[0] ? 1 : 0;  // steps below 1/2 are half as long
  if (s < first[m + 1]) return k;
  if (s > last[m + 1]) return k + 1;
  return (half_to_even ? (k & 1) != 0 : k >= 0) ? k + 1 : k;
}

// The same rules by float log2 of fl32(a/g), or of fl32(fl32(a/M)/g); amax > 0. invalid_reason refuses the other rules.
FP4_HD constexpr int float_rule_exponent(ScaleRule rule, float amax, float g, const FloatFormat& element, Compute c) {
  const int emax = element.max_exponent();
  const float a = amax / g;
  const uint32_t half_step = 1u << (22 - element.mantissa_bits);
  if (rule == ScaleRule::rceil || rule == ScaleRule::nearest_log2) {
    const float largest = round_to_float(element.largest(), false, Rounding::nearest_even);
    const float quotient_of_largest = amax / largest / g;
    if (quotient_of_largest == 0.0f) return -149;
    return rule == ScaleRule::rceil ? float_log2_ceil(quotient_of_largest)
                                    : float_log2_nearest(quotient_of_largest, /*half_to_even=*/false);
  }
  if (a == 0.0f) return -149 - emax;
  if (!is_finite(a)) return 128 - emax;
  if (rule == ScaleRule::ceil) return float_log2_ceil(a) - emax;
  if (rule == ScaleRule::nearest_log2_amax) return float_log2_nearest(a, /*half_to_even=*/true) - emax;
  const uint32_t added = rule == ScaleRule::even ? half_step : rule == ScaleRule::even_above ? half_step - 1 : 0;
  const float moved = float_of(bits_of(a) + added);
  return (is_finite(moved) ? float_log2_floor(moved, c) : 128) - emax;
}

// Exponent of the power-of-two rules that read the amax only; amax > 0.
FP4_HD constexpr int power_rule_exponent(ScaleRule rule, float amax, float g, const FloatFormat& element) {
  const Magnitude a = quotient(exact_magnitude(amax), exact_magnitude(g));
  const Magnitude a_over_m = quotient(exact_magnitude(amax), exact_product(element.largest(), exact_magnitude(g)));
  const int emax = element.max_exponent();
  switch (rule) {
    case ScaleRule::ceil: return log2_ceil(a) - emax;
    case ScaleRule::rceil: return log2_ceil(a_over_m);
    case ScaleRule::even: {
      const int m = element.mantissa_bits;  // threshold (2 - 2^-(m+1)) = (2^(m+2) - 1)/2^(m+1): 1.75 for e2m1
      return a.log2_floor() - emax + (significand_at_least(a, (uint64_t{1} << (m + 2)) - 1, m + 1) ? 1 : 0);
    }
    case ScaleRule::uos: {
      const Magnitude scaled = exact_product(exact_magnitude(amax), {4, 0, false});  // 7.25 = 29/4
      return log2_ceil(quotient(scaled, exact_product({29, 0, false}, exact_magnitude(g))));
    }
    case ScaleRule::nearest_log2: return log2_nearest(a_over_m);
    case ScaleRule::even_above: {
      const uint64_t threshold = (uint64_t{1} << (element.mantissa_bits + 2)) - 1;
      const int bits = element.mantissa_bits + 1;
      const Magnitude at = {threshold, a.log2_floor() - bits, false};
      return a.log2_floor() - emax + (significand_at_least(a, threshold, bits) && !is_equal(a, at) ? 1 : 0);
    }
    case ScaleRule::nearest_log2_amax: return log2_nearest(a) - emax;
    case ScaleRule::floor_plus_one: return a.log2_floor() - emax + 1;
    case ScaleRule::floor:
    case ScaleRule::quest_floor:  // constant blocks fall back to floor
    case ScaleRule::quest_nearest:
    case ScaleRule::amax:
    case ScaleRule::encode:
    case ScaleRule::four_over_six:
    case ScaleRule::mse:
    case ScaleRule::ms_eden: break;
  }
  return a.log2_floor() - emax;
}

// floor(log2 v) of a positive double, from its bits.
FP4_HD constexpr int floor_log2_of_double(double v) {
  const uint64_t bits = bits_of(v);
  const int field = static_cast<int>(bits >> 52);
  return field != 0 ? field - 1023 : floor_log2(bits) - 1074;
}

// The clip of least Gaussian error, 2.92247856 standard deviations, over the largest value of e2m1.
inline constexpr double quest_clip = 2.92247856 / 6.0;

// Exponent from v = c*c*var (QuEST 2502.05003). Quartet's code adds 1e-8 to sqrt(v): `added` > 0 gives the largest k
// with 2^k <= added, or v >= (2^k - added)^2 in fp64, and a constant block has no rule of its own.
FP4_HD constexpr int quest_exponent(ScaleRule rule, double sum, double sum_of_squares, double count, int floor_exponent,
                                    float added = 0.0f) {
  const double mean = sum / count;
  const double variance = sum_of_squares / count - mean * mean;
  const double v = quest_clip * quest_clip * variance;
  if (added > 0.0f) {
    const auto more = static_cast<double>(added);
    int k = floor_log2_of_double(more);
    if (v > 0.0) {
      const int e = floor_log2_of_double(v);
      k = larger(k, e >= 0 ? e / 2 : -((1 - e) / 2));
    }
    const double gap = 2.0 * static_cast<double>(power_of_two(k)) - more;  // the sum may reach the next power
    return v >= gap * gap ? k + 1 : k;
  }
  if (!(v > 0.0)) return floor_exponent;
  const int e = floor_log2_of_double(v) + (rule == ScaleRule::quest_nearest ? 1 : 0);
  return e >= 0 ? e / 2 : -((1 - e) / 2);  // floor(e/2)
}

// Code of 2^e, e clamped to the format's powers of two.
FP4_HD constexpr uint32_t power_code(const FloatFormat& scale, int e) {
  const int lowest = scale.has_zero ? scale.quantum_log2() : scale.min_exponent();
  return encode(scale, {1, smaller(larger(e, lowest), scale.max_exponent()), false}, false, {});
}

}  // namespace fp4
