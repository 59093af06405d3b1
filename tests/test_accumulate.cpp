// Does each accumulator add up as its row says? The worked example of the definitions, edges of range, identities.
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>

#include "fp4/gemm.h"
#include "src/arith/spec_text.h"
#include "src/backends/backends.h"
#include "tests/support/filled_codes.h"

using namespace fp4;

namespace {

float product(const std::vector<float>& a, const std::vector<float>& b, const Json& accumulator,
              const char* words = "mxfp4", const char* words_b = nullptr) {
  MultiplyCall call;
  call.a.spec = quant_spec_from_words(words, "test");
  call.b.spec = quant_spec_from_words(words_b != nullptr ? words_b : words, "test");
  call.a.x = view_of(a.data(), 1, static_cast<int64_t>(a.size()));
  call.b.x = view_of(b.data(), 1, static_cast<int64_t>(b.size()));
  call.options.accumulator = accumulator_from(accumulator, "test");
  float c = -1;
  call.c = &c;
  call.c_stride = 1;
  Dispatcher("reference").multiply(call);
  return c;
}

const char* operands_of(const Accumulator& row) {
  return row.kind == AccumulatorKind::integer ? "mxfp4,element=int4" : "mxfp4";
}

std::vector<float> sparse(size_t n, std::initializer_list<std::pair<size_t, float>> entries) {
  std::vector<float> v(n, 0.0f);
  for (const auto& [at, value] : entries) v[at] = value;
  return v;
}

}  // namespace

TEST_CASE("four accumulators, four answers", "[quick]") {
  const auto a = sparse(128, {{0, 0x1p22f}, {32, 1.5f}, {64, 1.5f}});
  const auto b = sparse(128, {{0, 4.0f}, {32, 1.0f}, {64, 1.0f}});
  CHECK(product(a, b, "exact") == 16777220.0f);
  CHECK(product(a, b, "fp32_block") == 16777220.0f);
  CHECK(product(a, b, "k64_rz") == 16777218.0f);
  CHECK(product(a, b, "fused35_rz") == 16777216.0f);
}

TEST_CASE("accumulators described by parameters equal the named rows", "[quick]") {
  std::vector<float> a(300);
  std::vector<float> b(300);
  for (size_t i = 0; i < a.size(); ++i) {
    a[i] = random_uniform({1, 0, 0}, i) * std::ldexp(1.0f, static_cast<int>(i % 37) - 18);
    b[i] = random_uniform({1, 1, 0}, i) - 0.5f;
  }
  const Json k64 = {{"kind", "group"}, {"group", 64}, {"rounding", "toward_zero"}};
  const Json fused = {
      {"kind", "aligned"}, {"group", 64}, {"inner", 16}, {"fraction_bits", 35}, {"rounding", "toward_zero"}};
  CHECK(product(a, b, k64, "nvfp4") == product(a, b, "k64_rz", "nvfp4"));
  CHECK(product(a, b, fused, "nvfp4") == product(a, b, "fused35_rz", "nvfp4"));
  CHECK(to_json(accumulator_from(k64, "test")) == "k64_rz");
}

// One group: a block of zeros beside a product of 1.5*2^-38. Under the older rule the zeros weigh as their scales,
// 1 * 2^-2, so the cut is at 2^-37 and nothing is left; under the later one they weigh 2^-139 and the product decides.
TEST_CASE("zeros of aligned sums weigh as their rule says", "[quick]") {
  const auto a = sparse(64, {{32, 0x1p-38f}});
  const std::vector<float> b(64, 1.5f);
  CHECK(bits_of(product(a, b, "fused35_rz")) == 0u);
  CHECK(product(a, b, "fused35_rz_2026_08") == 0x1.8p-38f);
  CHECK(product(a, b, "fused35_rz", "mxfp4,zero_block=limit") == 0x1.8p-38f);  // zeros of scale 2^-127 weigh little
  // products that cancel are no zeros: they weigh 2^-4 under either rule, the cut is at 2^-39
  const auto c = sparse(64, {{0, 1.0f}, {1, -1.0f}, {32, 0x1p-40f}});
  const auto d = sparse(64, {{0, 1.0f}, {1, 1.0f}, {32, 1.0f}});
  CHECK(bits_of(product(c, d, "fused35_rz")) == 0u);
  CHECK(bits_of(product(c, d, "fused35_rz_2026_08")) == 0u);
  // 32 products of 2^-152 beside an accumulator of zero, which weighs 2^-126 or 2^-133: cuts at 2^-151 and 2^-158
  const std::vector<float> tiny(32, 0x1p-76f);
  CHECK(bits_of(product(tiny, tiny, "fused25_rz")) == 0u);
  CHECK(product(tiny, tiny, "fused25_rz_2026_08") == 0x1p-147f);
  // a sum so far is no zero: 1 in the first group cuts what the second takes away, at 2^-35
  const auto e = sparse(128, {{0, 1.0f}, {96, -0x1p-36f}});
  const auto f = sparse(128, {{0, 1.0f}, {96, 1.0f}});
  CHECK(product(e, f, "fused35_rz_2026_08") == 1.0f);
}

TEST_CASE("a described accumulator may name the weight of zeros", "[quick]") {
  Json row = {{"kind", "aligned"}, {"group", 64}, {"inner", 16}, {"fraction_bits", 35}, {"rounding", "toward_zero"}};
  CHECK(to_json(accumulator_from(row, "test")) == "fused35_rz");
  row["zero_exponent"] = -139;
  CHECK(to_json(accumulator_from(row, "test")) == "fused35_rz_2026_08");
  row["zero_exponent"] = -20;
  CHECK(to_json(accumulator_from(row, "test"))["zero_exponent"] == -20);
  const auto a = sparse(64, {{32, 0x1p-56f}});
  CHECK(bits_of(product(a, std::vector<float>(64, 1.5f), row)) == 0u);  // cut at 2^-55
  row["zero_exponent"] = nullptr;
  CHECK(to_json(accumulator_from(row, "test")) == "fused35_rz");
  row["fraction_bits"] = 36;  // files written before the field existed stay as they are
  CHECK(!to_json(accumulator_from(row, "test")).contains("zero_exponent"));
  row["zero_exponent"] = -201;
  CHECK_THROWS_WITH(accumulator_from(row, "test"), Catch::Contains("zero_exponent") && Catch::Contains("-200"));
}

// MMA-Sim's model of Hopper's FP8: cut to 13 bits below the largest exponent, and so is the sum.
TEST_CASE("sums of 13 bits", "[quick]") {
  const char* e4m3 = "mxfp8,scale=none";
  const auto sum = [&](std::initializer_list<std::pair<size_t, float>> a,
                       std::initializer_list<std::pair<size_t, float>> b) {
    return product(sparse(40, a), sparse(40, b), "hopper_fp8", e4m3);
  };
  CHECK(sum({{0, 1.0f}, {1, 0x1p-7f}}, {{0, 1.0f}, {1, 0x1p-7f}}) == 1.0f);             // 2^-14 is cut
  CHECK(sum({{0, 1.0f}, {1, 0x1p-7f}}, {{0, 1.0f}, {1, 0x1p-6f}}) == 1.0f + 0x1p-13f);  // 2^-13 is not
  // 1 + 2^-14 - 1: the terms are cut before they meet
  CHECK(sum({{0, 1.0f}, {1, 0x1p-7f}, {2, -1.0f}}, {{0, 1.0f}, {1, 0x1p-7f}, {2, 1.0f}}) == 0.0f);
  // 2 + 2^-13: its own exponent is 1; one group, since the next would cut it as well
  CHECK(product(sparse(32, {{0, 1.0f}, {1, 0x1p-7f}, {2, 1.0f}}), sparse(32, {{0, 1.0f}, {1, 0x1p-6f}, {2, 1.0f}}),
                "hopper_fp8", e4m3) == 2.0f);
  CHECK(sum({{0, 1.0f}, {33, 0x1p-7f}}, {{0, 1.0f}, {33, 0x1p-6f}}) == 1.0f + 0x1p-13f);  // two groups of 32
  CHECK(sum({{0, -1.0f}, {1, 0x1p-9f}}, {{0, 1.0f}, {1, 0x1p-5f}}) == -1.0f);
  // FP4 with block scales goes the same way: 1.5 * 2^-14 beside 4
  const auto a = sparse(64, {{0, 4.0f}, {32, 0x1.8p-12f}});
  CHECK(product(a, sparse(64, {{0, 1.0f}, {32, 1.0f}}), "hopper_fp8") == 4.0f);
}

// MMA-Sim's model of CDNA3: products cut toward zero, the accumulator and their sum rounded down.
TEST_CASE("sums that are rounded down", "[quick]") {
  const std::pair<size_t, float> tiny = {0, -0x1p-10f}, tiny_b = {0, 0x1p-10f};
  // one group of 8: -2^-20 beside 1024 is cut toward zero; two groups: the accumulator goes down to -2^-14
  const auto f16 = [&](size_t at) {
    return product(sparse(16, {tiny, {at, 32.0f}}), sparse(16, {tiny_b, {at, 32.0f}}), "cdna3_16bit", "fp16");
  };
  CHECK(f16(1) == 1024.0f);
  CHECK(f16(8) == 1024.0f - 0x1p-14f);
  // the sum of a group goes down to a multiple of 2^-31: 1 + 2^-24 is a tie, 1 + 2^-24 + 2^-31 is beyond it, and so is
  // -1 - 2^-24 - 2^-33
  const auto near_tie = [&](float sign, float tiny) {
    return product(sparse(16, {{0, sign}, {8, sign * 0x1p-12f}, {9, sign * tiny}}),
                   sparse(16, {{0, 1.0f}, {8, 0x1p-12f}, {9, 0x1p-16f}}), "cdna3_16bit", "bf16");
  };
  CHECK(near_tie(1.0f, 0x1p-17f) == 1.0f);
  CHECK(near_tie(1.0f, 0x1p-15f) == 1.0f + 0x1p-23f);
  CHECK(near_tie(-1.0f, 0x1p-17f) == -1.0f - 0x1p-23f);
  const auto fp8 = [&](size_t at, float small) {
    return product(sparse(32, {{0, -small}, {at, 32.0f}}), sparse(32, {{0, small}, {at, 32.0f}}), "cdna3_fp8",
                   "mxfp8,element=e5m2,scale=none");
  };
  CHECK(fp8(2, 0x1p-10f) == 1024.0f);             // both at even places
  CHECK(fp8(1, 0x1p-10f) == 1024.0f - 0x1p-14f);  // an odd and an even one: two sums
  CHECK(fp8(16, 0x1p-7f) == 1024.0f - 0x1p-14f);  // an accumulator of -2^-14
  CHECK(fp8(16, 0x1p-8f) == 1024.0f);             // -2^-16 is more than 25 bits below 2^10: dropped
  // what is not finite
  const auto bf16 = [&](float x, float y, float z) {
    return product({x, y, 1.0f}, {x, 0x1p120f, z}, "cdna3_16bit", "bf16");
  };
  CHECK(bf16(0x1p100f, 1.0f, 1.0f) == INFINITY);       // a product of 2^200
  CHECK(std::isnan(bf16(0x1p100f, -0x1p100f, 1.0f)));  // and one of -2^220
  CHECK(bf16(1.0f, 1.0f, -INFINITY) == -INFINITY);
  CHECK(std::isnan(bf16(INFINITY, -INFINITY, 1.0f)));
  CHECK(std::isnan(product({INFINITY}, {0.0f}, "hopper_fp8", "bf16")));
}

TEST_CASE("operands without block scales go through adders that take them", "[quick]") {
  for (const AccumulatorInfo& row : accumulator_table) {
    INFO(row.name);
    const bool takes_bf16 = takes(row.row, false, format_of(Element::bf16));
    const bool takes_fp32 = takes(row.row, false, format_of(Element::fp32));
    int differ = 0;
    for (uint32_t sum = 0; sum < 16; ++sum) {
      std::vector<float> a(300), b(300);
      for (size_t i = 0; i < a.size(); ++i) {
        a[i] = random_uniform({1, 0, sum}, i) - 0.5f;
        b[i] = random_uniform({1, 1, sum}, i) - 0.5f;
      }
      if (takes_bf16) differ += product(a, b, row.name, "bf16") != product(a, b, "fma_sequential", "bf16") ? 1 : 0;
      if (takes_fp32) product(a, b, row.name, "fp32");
      // what it does not take is refused, with the names of rows that do: never summed another way
      const std::string refusal = "accumulator " + to_json(row.row).get<std::string>() + " takes no operand of ";
      if (!takes_bf16)
        CHECK_THROWS_WITH(product(a, b, row.name, "bf16"),
                          Catch::Contains(refusal + "bf16") && Catch::Contains("b200_16bit"));
      if (!takes_bf16) CHECK_THROWS_WITH(product(a, b, row.name, "bf16", "mxfp4"), Catch::Contains(refusal + "bf16"));
      if (!takes_fp32) CHECK_THROWS_WITH(product(a, b, row.name, "fp32"), Catch::Contains(refusal + "fp32"));
    }
    // the products of bf16 are fp32 numbers: rounding them changes nothing
    const bool is_fma = is_plain_fma(row.row, false, false) || row.row.kind == AccumulatorKind::sequential;
    CHECK((differ > 0) == (takes_bf16 && !is_fma));
  }
  const auto refused = [](Json row, const char* words) {
    CHECK_THROWS_WITH(accumulator_from(row, "test"), Catch::Contains(words));
  };
  refused({{"kind", "block"}, {"unscaled", true}}, "unscaled needs kind aligned with inner 1");
  refused({{"kind", "aligned"}, {"inner", 2}, {"unscaled", true}}, "unscaled needs kind aligned with inner 1");
  refused({{"kind", "aligned"}, {"result_bits", 13}}, "result_bits needs kind aligned and rounding toward_zero");
  refused({{"kind", "floor_aligned"}, {"fraction_bits", 29}}, "at most 28");
}

// One product each: 2^24 + 1 + 1 tells one rounding from many; 1 + 2^-24 - 1 a wide sum from fp32.
TEST_CASE("sums of operands without scales are what their accumulator says", "[quick]") {
  const std::vector<float> big = {0x1p12f, 1, 1}, one = {0x1p12f, 1, 1};
  CHECK(product(big, one, "exact", "bf16") == 0x1p24f + 2);
  CHECK(product(big, one, "double", "bf16") == 0x1p24f + 2);
  CHECK(product(big, one, "k64_rz", "bf16") == 0x1p24f + 2);
  CHECK(product(big, one, "fp32_sequential", "bf16") == 0x1p24f);
  CHECK(product(big, one, "fp32_block", "bf16") == 0x1p24f);
  CHECK(product(big, one, "exact", "bf16", "fp32") == 0x1p24f + 2);
  CHECK(product({0x1p24f, 1, 1}, {1, 1, 1}, "exact", "fp32", "mxfp4") == 0x1p24f + 2);
  CHECK(product({1, 0x1p-24f, -1}, {1, 1, 1}, "exact", "fp32") == 0x1p-24f);
  CHECK(product({0x1p127f, 0x1p127f}, {0x1p127f, -0x1p127f}, "exact", "fp32") == 0.0f);
  CHECK(product({INFINITY, 1}, {2, 1}, "exact", "bf16") == INFINITY);
  CHECK(product({INFINITY, 1}, {2, 1}, "k64_rz", "bf16") == INFINITY);
  CHECK(std::isnan(product({INFINITY, 1}, {0, 1}, "exact", "bf16")));
  CHECK(std::isnan(product({INFINITY, -INFINITY}, {1, 1}, "exact", "bf16")));
  const Json toward_zero = {{"kind", "block"}, {"rounding", "toward_zero"}};  // a product is a block
  CHECK(product({1, 0x1.8p-24f}, {1, 1}, toward_zero, "bf16") == 1.0f);
  CHECK(product({1, 0x1.8p-24f}, {1, 1}, "fp32_block", "bf16") == 1.0f + 0x1p-23f);
  // tf32 clears the last 13 bits of fp32 elements
  CHECK(product({0x1.003ffep0f}, {1}, "b200_tf32", "fp32") == 0x1.0p0f);
  CHECK(product({0x1.004002p0f}, {1}, "b200_tf32", "fp32") == 0x1.004p0f);
  // a sum of 2^-140 weighs as 2^-126, whose last bit is 2^-151: eight terms of 2^-152 are cut
  std::vector<float> tiny(24, 0x1p-76f);
  std::fill_n(tiny.begin(), 16, 0.0f);
  tiny[0] = 0x1p-70f;
  CHECK(product(tiny, tiny, "hopper_16bit", "bf16") == 0x1p-140f);
  CHECK(product(tiny, tiny, "exact", "bf16") == 0x1p-140f + 0x1p-149f);
  // sums in fp16: 2048 + 1 is a tie, 2048 + 3 rounds up, 65520 overflows
  const char* e5m2 = "mxfp8,element=e5m2,scale=none";
  CHECK(product({2048, 1}, {1, 1}, "b200_f16_d", e5m2) == 2048.0f);
  CHECK(product({2048, 3}, {1, 1}, "b200_f16_d", e5m2) == 2052.0f);
  CHECK(product({256, 4}, {256, 1}, "b200_f16_d", e5m2) == INFINITY);
}

// What src/golden/README.md says of MXDOTP: sixteen products of FP4 exactly, added by one rounding. In fp64, which
// holds every sum here: multiples of 2^-14 below 2^25.
TEST_CASE("exact steps with one rounding are aligned sums of wide windows", "[quick]") {
  const Json step = {{"kind", "aligned"}, {"group", 16}, {"inner", 16}, {"fraction_bits", 120}};
  const float e2m1[] = {0, .5f, 1, 1.5f, 2, 3, 4, 6};
  int differs = 0;
  for (uint64_t draw = 0; draw < 2000; ++draw) {
    std::vector<float> a(256), b(256);
    for (size_t i = 0; i < a.size(); ++i) {
      const auto word = [&](uint32_t of) { return random_draw({draw, of, 0}, i, 32); };
      const auto one = [&](uint32_t of) {  // the first of a block says its scale
        const int scale = static_cast<int>(random_draw({draw, of, 1}, i / 32, 8) % 13) - 6;
        const float value = std::ldexp(i % 32 == 0 ? 6.0f : e2m1[word(of) % 8], scale);
        return (word(of) & 8u) != 0 ? -value : value;
      };
      a[i] = one(0), b[i] = one(1);
    }
    float sum = 0;
    for (size_t i = 0; i < a.size(); i += 16) {
      auto exact = static_cast<double>(sum);
      for (size_t k = i; k < i + 16; ++k) exact += static_cast<double>(a[k]) * static_cast<double>(b[k]);
      sum = static_cast<float>(exact);
    }
    const float got = product(a, b, step);
    if (bits_of(got) != bits_of(sum)) CHECK(bits_of(got) == bits_of(sum));
    differs += product(a, b, "fp32_block") != sum;
  }
  CHECK(differs > 100);  // blocks of 32 round less often
}

TEST_CASE("described accumulators say where a field belongs", "[quick]") {
  const auto refused = [](Json row, const char* words) {
    CHECK_THROWS_WITH(accumulator_from(row, "test"), Catch::Contains(words));
  };
  refused({{"kind", "aligned"}, {"tf32", true}}, "tf32 needs kind aligned and unscaled");
  refused({{"kind", "group"}, {"sum", "fp16"}}, "sum fp16 needs kind aligned");
  refused({{"kind", "aligned"}, {"sum", "bf16"}}, "fp16");
  refused({{"kind", "aligned"}, {"scale_bits", 3}}, "need kind windowed");
  refused({{"kind", "windowed"}}, "needs rounding toward_zero");
  for (const AccumulatorInfo& info : accumulator_table) {
    const Accumulator again = accumulator_from(fields_of(info.row), "test");
    CHECK(again == info.row);
  }
}

// Eight-bit integers with a scale a row: 127 = s1p6's largest. 133,200 products of 127 * 127 are 2,148,382,800, beyond
// 2^31 - 1 = 2,147,483,647; modulo 2^32 that is -2,146,584,496.
TEST_CASE("integers wrap or clamp at the ends of int32", "[quick]") {
  const char* words = "mxfp4,element=s1p6,scale=fp32,scale_rule=amax,block=row";
  const auto as_fp32 = [](double sum) { return static_cast<float>(sum); };
  std::vector<float> ones(133200, 127.0f), minus(133200, -127.0f);
  CHECK(product(ones, ones, "exact", words) == as_fp32(2148382800.0));
  CHECK(product(ones, ones, "int32_wrap", words) == as_fp32(-2146584496.0));
  CHECK(product(ones, ones, "int32_clamp", words) == as_fp32(2147483647.0));
  CHECK(product(ones, minus, "int32_wrap", words) == as_fp32(2146584496.0));
  CHECK(product(ones, minus, "int32_clamp", words) == as_fp32(-2147483648.0));
  // What was clamped is gone: 32 products of -127 * 127 later the sum is 516,128 below the end, and a wrapped one
  // right.
  minus = ones;
  std::fill(minus.end() - 32, minus.end(), -127.0f);
  CHECK(product(ones, minus, "exact", words) == as_fp32(2147350544.0));
  CHECK(product(ones, minus, "int32_wrap", words) == as_fp32(2147350544.0));
  std::vector<float> twice(133248, 127.0f), back(133248, 127.0f);
  std::fill(back.end() - 32, back.end(), -127.0f);
  CHECK(product(twice, back, "int32_clamp", words) == as_fp32(2147483647.0 - 516128.0));
  const std::vector<float> odd(1041, 127.0f);  // 16,790,289, beyond 2^24: rounded once, after the sum
  CHECK(product(odd, odd, "int32_wrap", words) == as_fp32(16790289.0));
  CHECK_THROWS_WITH(product({1}, {1}, "int32_wrap", "mxfp4"), Catch::Contains("takes no operand of e2m1"));
}

TEST_CASE("overflow and tiny products", "[quick]") {
  const std::vector<float> huge(64, 0x1p126f);
  CHECK(product(huge, huge, "fp32_block") == INFINITY);
  CHECK(product(huge, huge, "exact") == INFINITY);
  CHECK(product(huge, huge, "fused35_rz") == INFINITY);
  // groups round to nearest (infinity here), so only the running sum can stay at the largest float
  std::vector<float> a(192, 0.0f);
  std::vector<float> b(192, 0.0f);
  for (const size_t at : {0u, 64u, 128u}) {
    a[at] = 0x1p64f * 1.5f;
    b[at] = 0x1p63f;
  }
  CHECK(product(a, b, "k64_rz") == float_of(float_largest_bits));
  CHECK(product(a, b, "fp32_block") == INFINITY);
  const std::vector<float> tiny(32, 0x1p-126f);
  CHECK(bits_of(product(tiny, tiny, "fp32_block")) == 0);
  // exact also where P = sA*sB leaves fp32: 2^-127 * 2^127
  CHECK(product(sparse(32, {{0, 0x1p-126f}}), sparse(32, {{0, 0x1p126f}}), "fp32_block") == 1.0f);
}

TEST_CASE("an infinite product of scales makes the sum infinite under every rounding", "[quick]") {
  // fp32 scales of more than 8 bits: fl32(sA*sB) overflows, though dot*sA*sB truncated toward zero would not
  const Json toward_zero = {{"kind", "block"}, {"rounding", "toward_zero"}};
  const char* words = "nvfp4,tensor_scale=none,scale=fp32";
  const std::vector<float> huge(16, 6.0f * 0x1.234568p70f);
  std::vector<float> mixed = huge;  // dot 0: sixteen products that cancel
  for (size_t i = 0; i < 8; ++i) mixed[i] = -mixed[i];
  std::vector<float> negative = huge;
  for (float& v : negative) v = -v;
  CHECK(product(huge, huge, toward_zero, words) == INFINITY);
  CHECK(product(negative, huge, toward_zero, words) == -INFINITY);
  CHECK(bits_of(product(mixed, huge, toward_zero, words)) == 0);
  CHECK(product(huge, huge, "fp32_block", words) == INFINITY);
  // scales of 8 bits take the exact product, and truncation stops at the largest float
  const std::vector<float> round_number(16, 0x1p100f);
  CHECK(product(round_number, round_number, toward_zero, "mxfp4,block=16") == float_of(float_largest_bits));
}

TEST_CASE("NaN scales poison the outputs that read them", "[quick]") {
  auto a = std::vector<float>(64, 1.0f);
  const auto b = std::vector<float>(64, 1.0f);
  for (const AccumulatorInfo& row : accumulator_table) {
    INFO(row.name);
    CHECK(product(a, b, row.name, operands_of(row.row)) == 64.0f);
  }
  a[40] = NAN;
  for (const AccumulatorInfo& row : accumulator_table)
    CHECK(bits_of(product(a, b, row.name, operands_of(row.row))) == canonical_nan_bits);
}

TEST_CASE("zero sums are +0", "[quick]") {
  const std::vector<float> a = {1, -1};
  const std::vector<float> b = {1, 1};
  for (const AccumulatorInfo& row : accumulator_table)
    CHECK(bits_of(product(a, b, row.name, operands_of(row.row))) == 0u);
}

TEST_CASE("k64_rz_snap keeps multiples of 2^-10", "[quick]") {
  CHECK(product({0x1p-10f}, {1.5f}, "k64_rz_snap") == 0x1p-9f);  // 1.5 steps: tie to the even 2
  CHECK(product({0x1p-11f}, {1.0f}, "k64_rz_snap") == 0.0f);     // half a step: to 0
  CHECK(product({-0x1p-11f}, {1.5f}, "k64_rz_snap") == -0x1p-10f);
}

TEST_CASE("unscaled operands use one fused multiply-add a product", "[quick]") {
  const std::vector<float> a = {0x1.000002p0f, -1.0f};
  const std::vector<float> b = {0x1.000002p0f, 0x1.000004p0f};
  // a0*b0 = 1 + 2^-22 + 2^-46 rounds to 1 + 2^-22; fma(a1, b1, acc) is then exactly 0
  CHECK(product(a, b, "fp32_block", "fp32") == 0.0f);
  CHECK(product({1.0f, 0x1.000002p0f}, {-0x1.000004p0f, 0x1.000002p0f}, "exact", "fp32") == 0x1p-46f);
}

TEST_CASE("ExactSum is exact", "[quick]") {
  ExactSum sum;
  sum.add(0x1p127f);
  sum.add(0x1p-149f);
  sum.add(-0x1p127f);
  CHECK(sum.round(Rounding::nearest_even) == 0x1p-149f);
  sum.add(-0x1p-149f);
  CHECK(sum.is_zero());
  sum.add(static_cast<int128>(-3), -200);
  CHECK(sum.magnitude_of_sum().log2_floor() == -199);
  CHECK(sum.is_negative_sum());
  ExactSum rounding;
  rounding.add(16777216.0f);
  rounding.add(1.0f);
  CHECK(rounding.round(Rounding::nearest_even) == 16777216.0f);
  rounding.add(0x1p-100f);
  CHECK(rounding.round(Rounding::nearest_even) == 16777218.0f);
  CHECK(rounding.round(Rounding::toward_zero) == 16777216.0f);
}

TEST_CASE("the finish undoes prescale and folded Hadamards", "[quick]") {
  // 4 and 8 with FLOOR + 3/4: payloads 3 (s = 1, 2), so 9 * 2 * 16/9 = 32 up to the rounding of 16/9
  CHECK(product({4}, {8}, "fp32_block", "mxfp4,prescale=0.75") == 18.0f * (1.0f / 0.5625f));
  CHECK(product({4}, {8}, "fp32_block", "mxfp4,prescale=0.75", "mxfp4") == 24.0f * (1.0f / 0.75f));
  GemmFinish folded;
  folded.hadamard_divisor = 64;
  CHECK(folded.factor(0.5f) == 0.5f / 64);
}

// Codes that others wrote: what OFP8 1.0 and IEEE 754 make of infinities and NaN, by hand. e8m0 code 127 is 1.
TEST_CASE("infinities and NaN under scales are multiplied as IEEE says", "[quick]") {
  constexpr float inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  const char *e5m2 = "mxfp8,element=e5m2", *e4m3 = "mxfp8", *int4 = "mxfp4,element=int4";
  const char* real = "mxfp4,scale=fp32,scale_rule=amax";
  struct Case {
    const char* words;
    std::vector<uint32_t> a, b;  // the first codes of a row, zeros behind them
    float scale;                 // of A's first block
    float expected;
  };
  const Case cases[] = {
      {e5m2, {0x7C}, {0x3C}, 1, inf},               // infinity * 1
      {e5m2, {0x7C, 0x7B}, {0xBC, 0x7B}, 1, -inf},  // infinity * -1, and 57344 * 57344
      {e5m2, {0x7C}, {0x00}, 1, nan},               // infinity * 0
      {e5m2, {0x7C, 0x7C}, {0x3C, 0xBC}, 1, nan},   // infinity - infinity
      {e5m2, {0x7D}, {0x3C}, 1, nan},               // 0x7D to 0x7F are NaN
      {e5m2, {0xFF}, {0x00}, 1, nan},               // NaN * 0
      {e4m3, {0x7F}, {0x38}, 1, nan},               // 0x38 is 1
      {e4m3, {0xFF, 0x38}, {0x00, 0x38}, 1, nan},   //
      {e4m3, {0x7E, 0x38}, {0x38, 0x7E}, 1, 896},   // 448 + 448: no NaN beside them
      {int4, {0x8}, {0x1}, 1, nan},                 // -8 is no number of the list
      {int4, {0x1, 0x8}, {0x1, 0x1}, 1, nan},       // in the high half of a byte
      {int4, {0x7, 0x9}, {0x1, 0x1}, 1, 0},         // 7 - 7
      {real, {0x2, 0x3}, {0x2, 0x2}, -2, 5},        // a scale has no sign: (1 + 1.5) * 2
      {real, {0x2}, {0x2}, inf, 0x1.fffffep127f},   // and no infinity
      {real, {0x2}, {0x2}, nan, nan},
  };
  for (const char* accumulator : {"exact", "fp32_block", "k64_rz", "fused35_rz", "fused25_rz", "fp32_sequential"})
    for (const char* backend : {"auto", "reference"})
      for (const Case& c : cases) {
        Quantized q[2];
        for (int side : {0, 1}) {
          q[side] = test::operand(c.words, 2, 64, 0);
          for (size_t i = 0; i < c.a.size(); ++i)
            q[side].set_code(0, static_cast<int64_t>(i), (side == 0 ? c.a : c.b)[i]);
        }
        if (!q[0].real_scales.empty()) q[0].real_scales[0] = c.scale;
        GemmOptions options;
        options.accumulator = accumulator_from(accumulator, "test");
        float out[4];
        Dispatcher(backend).gemm(q[0], q[1], options, out, 2);
        INFO(c.words << " " << accumulator << " " << backend << " " << std::hex << c.a[0] << " " << c.b[0]);
        CHECK((std::isnan(c.expected) ? std::isnan(out[0]) : out[0] == c.expected));
        CHECK(out[3] == 0);
      }
}

// 2^18 times (57344 * (1 + 2^-23))^2, a product of 129 bits in steps: 1.53125 * 2^49 and 3 steps of 2^26 (and 2^-24 of
// one).
TEST_CASE("sums of products are exact beyond 128 bits", "[quick]") {
  Quantized q = test::operand("mxfp8,element=e5m2,block=row,scale=fp32,scale_rule=amax", 1, 1 << 18, 0);
  for (int64_t k = 0; k < q.cols; ++k) q.set_code(0, k, 0x7B);
  q.real_scales[0] = 1 + 0x1p-23f;
  for (const char* accumulator : {"exact", "k64_rz_snap"}) {
    GemmOptions options;
    options.accumulator = accumulator_from(accumulator, "test");
    options.accumulator.group = 0;
    float out = 0;
    Dispatcher("reference").gemm(q, q, options, &out, 1);
    CHECK(out == 0x1.88p49f + 0x3p26f);
  }
}
