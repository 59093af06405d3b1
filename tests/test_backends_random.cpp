// Products that nobody thought of: formats, blocks, scales, signs and accumulators all drawn, many of them at the ends
// of fp32, with sums that cancel, scales of zero and NaN, tensor factors of any size. Expected values come from the
// reference.
#include <algorithm>
#include <catch2/catch.hpp>

#include "src/cpu/gemm/kernel_table.h"
#include "src/text/error.h"
#include "tests/support/compare_products.h"
#include "tests/support/filled_codes.h"
#include "tests/support/kernel_uses.h"
#include "tests/support/share.h"

namespace fp4 {
namespace {

using namespace test;

// Spec words; some of those that chips multiply, and half of the time the usual element and scale.
std::string drawn_format(Random& random) {
  if (pick(random, 6) == 0) return one_of(random, {"mxfp8", "mxfp8", "mxfp4", "nvfp4,tensor_scale=none"});
  const char* element =
      one_of(random, {"e2m1", "e2m1", "e2m1", "e1m2", "e3m0", "e2m3", "e3m2", "e4m3", "e4m3", "e5m2"});
  const char* scale = one_of(random, {"e8m0", "e8m0", "e8m0", "ue4m3", "ue5m3", "ue5m3_122880", "ue5m2", "ue3m4",
                                      "ue2m5", "ue1m6", "bf16", "fp32"});
  const char* block =
      one_of(random, {"8", "16", "16", "32", "32", "64", "128", "row", "tensor", "8x8", "16x16", "32x32"});
  std::string words = std::string("mxfp4,element=") + element + ",scale=" + scale + ",block=" + block;
  if (pick(random, 10) == 0) words += ",scale_rule=encode,zero_scale=one";
  if (pick(random, 10) == 0) words += one_of(random, {",tensor_scale=outer128", ",tensor_scale=row"});
  return words;
}

// A drawn format that exists.
QuantSpec drawn_spec(Random& random, std::string& words) {
  for (;;) {
    words = drawn_format(random);
    try {
      return quant_spec_from_words(words);
    } catch (const Error&) {
    }
  }
}

enum class Signs { plus, minus, any };

// What both operands of a product have in common.
struct Drawing {
  int64_t k;
  bool cancels;  // every second product is the opposite of the one before it
  int zeros;     // one scale in so many
  int nans;
};

struct Operand {
  Codes codes;
  Signs signs;
  int exponent;  // of the scales
  int spread;
};

Operand drawn_operand(Random& random) {
  Operand o = {};
  o.codes = one_of(random, all_codes);
  o.signs = one_of(random, {Signs::plus, Signs::minus, Signs::any, Signs::any});
  o.exponent = pick(random, 2) == 0 ? pick(random, 20) - 10 : pick(random, 254) - 127;
  o.spread = one_of(random, {0, 0, 2, 6, 14, 40});
  return o;
}

float drawn_scale(const QuantSpec& s, const Operand& o, Random& random) {
  const FloatFormat& f = format_of(s.scale);
  const int exponent = std::clamp(o.exponent + pick(random, o.spread + 1), f.quantum_log2(), f.max_exponent());
  const float v = smaller(std::ldexp(significand(random), exponent), decode(f, f.largest_code));
  return decode(f, encode(f, exact_magnitude(v), false, {}));
}

Quantized drawn(const QuantSpec& spec, int64_t rows, const Drawing& d, const Operand& o, bool is_left, Random& random) {
  Quantized q = operand(spec, rows, d.k, 0);
  const FloatFormat& f = format_of(spec.element);
  for (int64_t r = 0; r < rows; ++r) {
    uint32_t code = 0;
    const bool is_empty = pick(random, 12) == 0;
    for (int64_t k = 0; k < d.k; ++k) {
      const bool repeats = d.cancels && k % 2 == 1;
      if (!repeats) {
        code = is_empty || pick(random, 9) == 0 ? 0u : magnitude(o.codes, f, random);
        if (o.signs == Signs::minus || (o.signs == Signs::any && pick(random, 2) == 0)) code |= f.sign_code();
      }
      const bool differs = repeats && pick(random, 60) == 0;
      q.set_code(r, k, differs ? f.largest_code : (repeats && is_left ? code ^ f.sign_code() : code));
    }
  }
  const int64_t scales = q.geometry.scale_rows * q.geometry.scale_cols;
  const FloatFormat& sf = format_of(spec.scale);
  for (int64_t i = 0; i < scales; ++i) {
    float v = drawn_scale(spec, o, random);
    if (d.zeros > 0 && pick(random, d.zeros) == 0 && sf.has_zero && spec.scale_rule != ScaleRule::encode) v = 0.0f;
    const bool is_nan = d.nans > 0 && pick(random, d.nans) == 0 && sf.nan_code != no_code;
    set_scale(q, i, is_nan ? float_of(canonical_nan_bits) : v);
  }
  q.tensor_scale.clear();
  const int64_t of_row = spec.tensor_scale_cols(d.k), factors = of_row > 0 ? rows * of_row : 1;
  for (int64_t i = 0; i < factors; ++i) {
    q.tensor_scale.push_back(one_of(random, {1.0f, 1.0f, 1.0f, 0.7f, 3.3f, 0x1.8p-100f, 0x1p100f, 0x1p-140f}));
  }
  return q;
}

Accumulator drawn_accumulator(Random& random) {
  constexpr int named = static_cast<int>(std::size(accumulator_table));
  if (pick(random, 3) != 0) return accumulator_table[pick(random, named)].row;
  Accumulator a;
  a.kind = one_of(random,
                  {AccumulatorKind::group, AccumulatorKind::aligned, AccumulatorKind::aligned, AccumulatorKind::aligned,
                   AccumulatorKind::floor_aligned, AccumulatorKind::floor_aligned_pairs, AccumulatorKind::fma_blocks});
  a.inner = one_of(random, {1, 1, 2, 4, 8, 12, 16, 16, 20, 32, 48, 64, 128});
  a.group = one_of(random, {4, 6, 8, 12, 16, 32, 40, 48, 64, 64, 96, 128, 160, 0});
  a.fraction_bits = 1 + pick(random, 45);
  a.rounding = one_of(random, {Rounding::nearest_even, Rounding::toward_zero, Rounding::toward_zero});
  if (a.kind == AccumulatorKind::aligned) a.rounding = Rounding::toward_zero;
  if (a.kind == AccumulatorKind::aligned && pick(random, 4) == 0) {
    a.inner = 1;
    a.is_half = true;
    a.rounding = Rounding::nearest_even;
  }
  if (a.kind != AccumulatorKind::group && a.kind != AccumulatorKind::aligned) a.fraction_bits = 1 + pick(random, 28);
  if (pick(random, 5) == 0) a.snap_log2 = -20 + pick(random, 30);
  return a;
}

void compare_drawn(int count, uint32_t seed) {
  for (int i = 0; i < count; ++i) {
    const uint32_t own_seed = seed + static_cast<uint32_t>(i);
    Random random(own_seed);
    std::string words[2];
    const QuantSpec a = drawn_spec(random, words[0]);
    QuantSpec b = drawn_spec(random, words[1]);
    if (pick(random, 2) == 0) b = a;
    const Drawing d = {pick(random, 10) == 0 ? 1 + pick(random, 1500) : 1 + pick(random, 200), pick(random, 4) == 0,
                       pick(random, 3) == 0 ? 1 + pick(random, 6) : 0, pick(random, 12) == 0 ? 20 : 0};
    Operand left = drawn_operand(random);
    Operand right = drawn_operand(random);
    // Half of the time sums of exponents that fp32 holds, or nearly holds.
    if (pick(random, 2) == 0) right.exponent = std::clamp(pick(random, 300) - 160 - left.exponent, -127, 127);
    const Quantized qa = drawn(a, 1 + pick(random, 19), d, left, true, random);
    const Quantized qb = drawn(b, 1 + pick(random, 35), d, right, false, random);
    for (int j = 0; j < 4; ++j) {
      compare_products(qa, qb, drawn_accumulator(random),
                       "seed " + std::to_string(own_seed) + " " + words[0] + " | " + (b == a ? "the same" : words[1]) +
                           " K " + std::to_string(d.k));
    }
  }
}

// IEEE 754: an infinity and a finite number make that infinity.
TEST_CASE("an infinite fp16 sum keeps its sign at any fraction bits", "[quick]") {
  const QuantSpec spec = quant_spec_from_words("mxfp8");
  std::vector<float> x(2 * 96, 256.0f), y(2 * 96, 256.0f);
  std::fill(x.begin() + 32, x.begin() + 96, -256.0f);  // row 0: 32 products of 65536, then 64 of their opposites
  Quantized a, b;
  Dispatcher("reference").quantize({.x = view_of(x.data(), 2, 96), .spec = spec}, a);
  Dispatcher("reference").quantize({.x = view_of(y.data(), 2, 96), .spec = spec}, b);
  for (const int bits : {1, 2, 3, 11, 25}) {
    const Accumulator row = {.kind = AccumulatorKind::aligned, .group = 32, .fraction_bits = bits, .is_half = true};
    float c[4];
    Dispatcher().gemm(a, b, {.accumulator = row}, c, 2);
    for (const float out : c) CHECK(out == std::numeric_limits<float>::infinity());
    compare_products(a, b, row, "an infinite sum");
  }
}

TEST_CASE("drawn products, which reach every kernel", "[quick]") {
  cpu::gemm_uses.reset();
  compare_drawn(1000, 1);
  check_uses(cpu::gemm_kernel_table, cpu::gemm_uses, "tiles",
             share() == 1);  // a twelfth of the cases need not reach all
}

TEST_CASE("many drawn products", "[exhaustive]") { compare_drawn(60000, 1000000); }

}  // namespace
}  // namespace fp4
