// The worked examples of the definitions, and the ranges of scaled maxima that each scale rule promises.
#include <catch2/catch.hpp>
#include <cmath>

#include "src/arith/spec_text.h"
#include "src/backends/backends.h"

using namespace fp4;

namespace {

Quantized quantized(const char* words, const std::vector<float>& x, int64_t rows, RandomPlace place = {}) {
  QuantizeCall call;
  call.spec = quant_spec_from_words(words, "test");
  call.x = view_of(x.data(), rows, static_cast<int64_t>(x.size()) / rows);
  call.place = place;
  Quantized q;
  Dispatcher("reference").quantize(call, q);
  return q;
}

std::vector<float> decoded(const Quantized& q) {
  std::vector<float> out(static_cast<size_t>(q.rows * q.cols));
  reference_backend().dequantize(q, out.data(), 1);
  return out;
}

using Bytes = std::vector<uint8_t>;

}  // namespace

TEST_CASE("a block of eight under each power-of-two rule", "[quick]") {
  const std::vector<float> x = {6.5f, -3.5f, 2.5f, 1.5f, 0.75f, -0.25f, 5, 0.5f};
  for (const char* rule : {"floor", "even", "uos"}) {
    const Quantized q = quantized((std::string("mxfp4,block=8,scale_rule=") + rule).c_str(), x, 1);
    CHECK(q.scales == Bytes{127});
    CHECK(q.codes == Bytes{0xE7, 0x34, 0x82, 0x16});
    CHECK(decoded(q) == std::vector<float>{6, -4, 2, 1.5f, 1, -0.0f, 4, 0.5f});
    CHECK(is_negative(decoded(q)[5]));
  }
  for (const char* rule : {"rceil", "ceil"}) {
    const Quantized q = quantized((std::string("mxfp4,block=8,scale_rule=") + rule).c_str(), x, 1);
    CHECK(q.scales == Bytes{128});
    CHECK(q.codes == Bytes{0xC5, 0x22, 0x81, 0x04});
    CHECK(decoded(q) == std::vector<float>{6, -4, 2, 2, 1, -0.0f, 4, 0});
  }
}

TEST_CASE("the maximum on both sides of each rule's threshold", "[quick]") {
  const auto code = [](const char* rule, float amax) {
    return static_cast<int>(quantized((std::string("mxfp4,block=8,scale_rule=") + rule).c_str(), {amax}, 1).scales[0]);
  };
  const auto below = [](float x) { return float_of(bits_of(x) - 1); };
  const auto above = [](float x) { return float_of(bits_of(x) + 1); };
  CHECK(code("floor", 7) == 127);
  CHECK(code("uos", 7) == 127);
  CHECK(code("even", 7) == 128);
  CHECK(code("even", below(7)) == 127);
  CHECK(code("floor", 8) == 128);
  CHECK(code("floor", below(8)) == 127);
  CHECK(code("rceil", 6) == 127);
  CHECK(code("rceil", above(6)) == 128);
  CHECK(code("ceil", 6) == 128);
  CHECK(code("ceil", 4) == 127);
  CHECK(code("ceil", above(4)) == 128);
  CHECK(code("uos", 7.25f) == 127);
  CHECK(code("uos", above(7.25f)) == 128);
  const float root = 6 * 1.41421354f;  // the float below 6*sqrt(2) and the next
  CHECK(code("nearest_log2", below(root)) == 127);
  CHECK(code("nearest_log2", above(above(root))) == 128);
  // exponents from bits: 1 ulp below a power of two stays below, where a float log2 would round up
  for (int e = -120; e < 120; e += 7) {
    CHECK(code("floor", below(std::ldexp(1.0f, e))) == 127 + e - 3);
    CHECK(code("floor", std::ldexp(1.0f, e)) == 127 + e - 2);
  }
  CHECK(code("floor", float_of(1)) == 0);  // 2^-149: clamped to 2^-127
}

TEST_CASE("two levels of scales: nvfp4", "[quick]") {
  std::vector<float> x(32, 0.0f);
  x[0] = 21;
  const float tail[] = {10, 4, -3, 1, 0.75f};
  std::copy(std::begin(tail), std::end(tail), x.begin() + 16);
  const Quantized q = quantized("nvfp4", x, 1);
  CHECK(q.tensor_scale == std::vector<float>{0x1p-7f});
  CHECK(q.scales == Bytes{0x7E, 0x75});
  CHECK(q.code(0, 0) == 7);
  const uint32_t expected_codes[] = {7, 4, 12, 1, 1};
  const float expected[] = {9.75f, 3.25f, -3.25f, 0.8125f, 0.8125f};
  for (int64_t k = 0; k < 5; ++k) {
    CHECK(q.code(0, 16 + k) == expected_codes[k]);
    CHECK(decoded(q)[static_cast<size_t>(16 + k)] == expected[k]);
  }
}

TEST_CASE("four_over_six keeps the scale of smaller error", "[quick]") {
  const Quantized q = quantized("nvfp4,scale_rule=four_over_six,tensor_scale=none", {10, 20, 30, 40}, 1);
  CHECK(q.scales == Bytes{0x52});
  CHECK(decoded(q) == std::vector<float>{10, 20, 30, 40});
  const Quantized six = quantized("nvfp4,tensor_scale=none", {10, 20, 30, 40}, 1);
  CHECK(six.scales == Bytes{0x4D});
  CHECK(decoded(six) == std::vector<float>{9.75f, 19.5f, 26, 39});
}

TEST_CASE("stochastic rounding with the draws of a place", "[quick]") {
  const std::vector<float> x = {1.25f, 2.0771484375f, 0.125f, -5.37890625f};
  const RandomPlace at = {5, 3, 2};
  CHECK(decoded(quantized("mxfp4,rounding=stochastic", x, 1, at)) == std::vector<float>{1, 3, 0.5f, -4});
  CHECK(decoded(quantized("mxfp4,rounding=stochastic_midpoint", x, 1, at)) == std::vector<float>{1, 3, 0.5f, -6});
  CHECK(decoded(quantized("mxfp4,rounding=stochastic_truncated", x, 1, at)) == std::vector<float>{1, 2, 0.5f, -4});
}

TEST_CASE("scaled maxima lie where the rules promise", "[quick]") {
  struct Range {
    const char* rule;
    double low, high;
    bool low_closed, high_closed;
  };
  const Range ranges[] = {{"floor", 4, 8, true, false},      {"ceil", 2, 4, false, true},
                          {"rceil", 3, 6, false, true},      {"even", 3.5, 7, true, false},
                          {"uos", 3.625, 7.25, false, true}, {"nearest_log2", 4.242, 8.486, true, true}};
  for (const Range& r : ranges) {
    QuantSpec s = quant_spec_from_words(std::string("mxfp4,scale_rule=") + r.rule, "test");
    const Quantizer q = resolve(s);
    for (uint32_t bits = 0x03000000u; bits < 0x7E000000u; bits += 9973) {
      const float amax = float_of(bits);
      const BlockView block = {&amax, 1, 1, 1, 1, 1};
      const double u =
          static_cast<double>(amax) / static_cast<double>(scale_value(q, block_scale_code(q, block, {}, 0)));
      const bool fine = (r.low_closed ? u >= r.low : u > r.low) && (r.high_closed ? u <= r.high : u < r.high);
      if (!fine) FAIL_CHECK(r.rule << " amax bits " << bits << " scaled " << u);
      if (std::string(r.rule) == "floor" && !(0.75 * u < 6)) FAIL_CHECK("3/4 of floor clips at bits " << bits);
    }
  }
}

TEST_CASE("policies at the edges", "[quick]") {
  const float inf = INFINITY;
  const std::vector<float> zeros = {0, -0.0f, 0, 0};
  CHECK(quantized("mxfp4", zeros, 1).scales == Bytes{0x7F});
  CHECK(quantized("mxfp4", zeros, 1).codes[0] == 0x80);
  CHECK(quantized("mxfp4,negative_zero=drop", zeros, 1).codes[0] == 0x00);
  CHECK(quantized("mxfp4,zero_block=limit", zeros, 1).scales == Bytes{0x00});
  CHECK(quantized("nvfp4,zero_block=limit,zero_scale=keep", zeros, 1).scales == Bytes{0x00});
  CHECK(quantized("torchao_nvfp4", zeros, 1).scales == Bytes{0x08});  // clamped at 2^-6
  CHECK(quantized("mxfp4,scale_rule=encode,zero_block=limit", zeros, 1).scales == Bytes{0xFE});
  const std::vector<float> bad = {1, inf, 2, -3};
  CHECK(quantized("mxfp4", bad, 1).scales == Bytes{0xFF});
  CHECK(quantized("mxfp4", bad, 1).codes[0] == 0x00);
  for (const float v : decoded(quantized("mxfp4", bad, 1))) CHECK(bits_of(v) == canonical_nan_bits);
  const Quantized saturated = quantized("mxfp4,nonfinite=saturate", {1, inf, -inf, NAN}, 1);
  CHECK(saturated.code(0, 1) == 7);
  CHECK(saturated.code(0, 2) == 15);
  CHECK(saturated.code(0, 3) == 0);
  CHECK(quantized("nvfp4,scale=ue5m2,tensor_scale=none", bad, 1).code(0, 1) == 7);  // no NaN code: saturates
  const std::vector<float> tiny = {1e-9f};
  CHECK(quantized("nvfp4,tensor_scale=none", tiny, 1).scales == Bytes{0x01});
  CHECK(quantized("nvfp4,tensor_scale=none,zero_scale=one", tiny, 1).scales == Bytes{0x38});
  CHECK(quantized("nvfp4,tensor_scale=none,zero_scale=keep", tiny, 1).scales == Bytes{0x00});
  CHECK(bits_of(decode(format_of(Element::bf16), quantized("bf16", {inf}, 1).code(0, 0))) == float_infinity_bits);
}

// IEEE 754-2019, 7.4, and every cast of a machine: what rounds beyond the largest value is infinity, but the modes that
// round it toward zero keep the largest value. FP8 and narrower saturate, with a scale or without (OFP8 1.0).
TEST_CASE("bf16 and fp16 overflow, narrower formats saturate", "[quick]") {
  const auto code = [](const std::string& words, float x) {
    return static_cast<int>(quantized(words.c_str(), {x}, 1).code(0, 0));
  };
  const float largest = float_of(float_largest_bits);
  CHECK(code("bf16", float_of(0x7F7F7FFFu)) == 0x7F7F);  // below the half step
  CHECK(code("bf16", float_of(0x7F7F8000u)) == 0x7F80);  // its tie: to the even code, infinity
  CHECK(code("bf16,rounding=nearest_toward_zero", float_of(0x7F7F8000u)) == 0x7F7F);
  CHECK(code("bf16", largest) == 0x7F80);
  CHECK(code("bf16", -largest) == 0xFF80);
  CHECK(code("fp16", 65519.996f) == 0x7BFF);
  CHECK(code("fp16", 65520.0f) == 0x7C00);
  CHECK(code("fp16", -largest) == 0xFC00);
  CHECK(code("fp16,prescale=0.75", 80000.0f) == 0x7B53);  // 60000 = 1875 * 2^5
  CHECK(code("fp16,prescale=0.75", 87360.0f) == 0x7C00);  // 65520
  for (const char* words : {"bf16", "fp16"}) {
    const auto under = [&](const char* mode, float x) { return code(std::string(words) + ",rounding=" + mode, x); };
    const int most = words[0] == 'b' ? 0x7F7F : 0x7BFF;
    CHECK(under("nearest_away", largest) == most + 1);
    CHECK(under("nearest_toward_zero", largest) == most + 1);
    CHECK(under("away_from_zero", largest) == most + 1);
    CHECK(under("toward_zero", largest) == most);
    CHECK(under("toward_zero", -largest) == (most | 0x8000));
    CHECK(under("toward_positive", largest) == most + 1);
    CHECK(under("toward_positive", -largest) == (most | 0x8000));
    CHECK(under("toward_negative", largest) == most);
    CHECK(under("toward_negative", -largest) == ((most + 1) | 0x8000));
  }
  for (const char* mode : {"stochastic", "stochastic_midpoint", "stochastic_truncated"})
    CHECK(code(std::string("fp16,rounding=") + mode, 65536.0f) == 0x7C00);
  CHECK(std::isinf(decoded(quantized("bf16", {largest}, 1))[0]));
  CHECK(code("mxfp8,element=e5m2,scale=none", largest) == 0x7B);
  CHECK(code("mxfp8,scale=none", -largest) == 0xFE);
  CHECK(code("mxfp4,scale=none", largest) == 7);
}

TEST_CASE("presets follow their library at zeros and ties", "[quick]") {
  // FBGEMM's default takes ceil(log2 amax) - 2: 6.5 -> 2^1, and 2.5 -> 1.25 -> 1.5, away from zero; zeros get 2^-127
  const std::vector<float> x = {6.5f, 2.5f};
  CHECK(quantized("fbgemm_mx4", x, 1).scales == Bytes{128});
  CHECK(quantized("fbgemm_mx4", x, 1).code(0, 1) == 3);
  // one ulp below 2^3 log2 is 3 in fp32, two below it is not; exact, both are below
  CHECK(quantized("microxcaling_even", {float_of(bits_of(8.0f) - 1)}, 1).scales == Bytes{128});
  CHECK(quantized("microxcaling_even", {float_of(bits_of(8.0f) - 2)}, 1).scales == Bytes{127});
  CHECK(quantized("mxfp4", {float_of(bits_of(8.0f) - 1)}, 1).scales == Bytes{127});
  for (const char* words : {"fbgemm_mx4", "microxcaling_even", "microxcaling_default"})
    CHECK(quantized(words, {0.0f}, 1).scales == Bytes{0x00});
  // 1536 = 6 * 256 makes g = 1; 2^-9/6 and 2^-9/4 round to the scale code 0, which stays
  std::vector<float> pair(32, 0.0f);
  pair[0] = 1536.0f;
  pair[16] = 0x1p-9f;
  CHECK(quantized("fouroversix", pair, 1).scales == Bytes{0x78, 0x00});
  CHECK(quantized("fouroversix", pair, 1).code(0, 16) == 0);
  CHECK(quantized("fouroversix", {0.0f}, 1).scales == Bytes{0x00});
}

// By hand, e2m1 with E8M0 blocks of 32 along 128: M/A = 6/5 = 1.2, and .2 * 256 = 51.2, so S = 1 + 51/256 = 307/256.
// Then 5 S = 5.996 -> 6 and 1 S = 1.199 -> 1 under scale 1; decoded 6/S = 5.0033 and 1/S = .8339.
TEST_CASE("factors of eight mantissa bits and powers of two", "[quick]") {
  std::vector<float> x(160, 0.0f);
  x[0] = 5, x[1] = 1, x[128] = 12;
  Quantized q = quantized("mxfp4,tensor_scale=outer128,factor_format=mantissa8,arithmetic=multiply", x, 1);
  CHECK(q.tensor_scale == std::vector<float>{1.0f / (307.0f / 256), 1.0f});  // 6/12 = .5: f = 0
  CHECK(q.code(0, 0) == 7);
  CHECK(q.code(0, 1) == 2);
  CHECK(q.scales == Bytes{127, 127, 127, 127, 128});
  CHECK(decoded(q)[0] == Approx(6.0 * 256 / 307));
  CHECK(decoded(q)[128] == 12);
  // A tie that fl32(1/S) would break: S = 1.5 for A = 4, and .5 S = .75 goes to the even code, that of 1.
  x[0] = 4, x[1] = 0.5f;
  q = quantized("mxfp4,tensor_scale=outer128,factor_format=mantissa8,arithmetic=multiply", x, 1);
  CHECK(q.tensor_scale[0] == 1.0f / 1.5f);
  CHECK(q.code(0, 0) == 7);
  CHECK(q.code(0, 1) == 2);
  // Powers of two: 10.5 / (448 * 6) = 2^-8 stays, the next number goes up to 2^-7.
  x[0] = 10.5f;
  CHECK(quantized("nvfp4,factor_format=power_of_two", x, 1).tensor_scale == std::vector<float>{0x1p-7f});  // of 12
  x[128] = 0;
  CHECK(quantized("nvfp4,factor_format=power_of_two", x, 1).tensor_scale == std::vector<float>{0x1p-8f});
  x[0] = std::nextafter(10.5f, 11.0f);
  CHECK(quantized("nvfp4,factor_format=power_of_two", x, 1).tensor_scale == std::vector<float>{0x1p-7f});
  CHECK_THROWS_WITH(quant_spec_from_words("nvfp4,factor_format=mantissa8", "test"),
                    Catch::Contains("scale must be e8m0"));
}

// compressed-tensors on bf16: 1/A = 2.959538 becomes 2.953125, 2688 times that is 7938, and bf16 has 7936 and 7968
// there. Of A = .02 2688 * 50 is beyond fp16, of A = 2^-126 beyond bf16.
TEST_CASE("factors in bf16 and fp16 round 1/A, too, and are 1 where they would be infinite", "[quick]") {
  std::vector<float> x(16, 0.0f);
  const auto factor_of = [&](float amax, const std::string& words) {
    x[0] = amax;
    return quantized(("nvfp4,arithmetic=divide_global,decode=divide_global," + words).c_str(), x, 1).tensor_scale[0];
  };
  CHECK(factor_of(.337890625f, "factor_format=bf16") == 7936);
  CHECK(factor_of(.337890625f, "factor_format=bf16,factor_order=divide") == 7968);
  CHECK(factor_of(0.5f, "factor_format=fp16") == 5376);
  CHECK(factor_of(0.02f, "factor_format=fp16") == 1);
  CHECK(factor_of(0x1p-126f, "factor_format=bf16") == 1);
}

// The middle of nf4's -.0910500363 and 0 is -.0455250181, of 0 and .0795802996 .0397901498, all fp32 numbers.
TEST_CASE("ties go down in bitsandbytes, and to RaZeR's own value", "[quick]") {
  std::vector<float> x(64, 0.0f);
  x[0] = 1, x[1] = .039790149778f, x[2] = std::nextafter(x[1], 1.0f), x[3] = -.045525018126f;
  const Quantized q = quantized("nf4,rounding=nearest_below", x, 1);
  CHECK((q.code(0, 0) == 15 && q.code(0, 1) == 7 && q.code(0, 2) == 8 && q.code(0, 3) == 6));
  x = {6, 2.5f, -2.5f, -4.5f};
  x.resize(32, 0.0f);
  const Quantized e = quantized("mxfp4,rounding=nearest_below", x, 1);
  CHECK((e.code(0, 1) == 4 && e.code(0, 2) == 13));
  CHECK(quantized("razer,tensor_scale=none,rounding=nearest_toward_zero", x, 1).code(0, 3) == 8);
  CHECK(quantized("razer,tensor_scale=none", x, 1).code(0, 3) == 14);
}

// 16/17 of 6 is 5.647: 5.5 over it is .974 -> 1, over 6 .917 -> .9375; 5.5 over 448 * 96/17 is the tensor scale.
TEST_CASE("headroom aims at 16/17 of the range", "[quick]") {
  std::vector<float> x(16, 0.0f);
  x[0] = 5.5f;
  CHECK(quantized("nvfp4,tensor_scale=none", x, 1).scales == Bytes{0x37});
  const Quantized q = quantized("nvfp4,tensor_scale=none,headroom=unbiased", x, 1);
  CHECK(q.scales == Bytes{0x38});
  CHECK(q.code(0, 0) == 7);
  CHECK(quantized("nvfp4,headroom=unbiased", x, 1).tensor_scale == std::vector<float>{5.5f / 2529.88235294f});
  // the largest payload stays below 6 whatever the scale is rounded to: nothing clips under stochastic rounding
  for (int i = 0; i < 64; ++i) {
    x[0] = 1.0f + static_cast<float>(i) / 64;
    const Quantized s = quantized("nvfp4,tensor_scale=none,headroom=unbiased", x, 1);
    CHECK(x[0] <= 6 * decode(format_of(Scale::ue4m3), s.scales[0]));
  }
  for (const char* words : {"mxfp4,headroom=unbiased", "nvfp4,scale_rule=encode,headroom=unbiased"})
    CHECK_THROWS_WITH(quant_spec_from_words(words, "test"), Catch::Contains("headroom needs scale_rule amax"));
}

TEST_CASE("a NaN poisons its tensor, or its row", "[quick]") {
  std::vector<float> x(64, 1.0f);
  x[40] = NAN;
  const Quantized q = quantized("nvfp4,nonfinite=tensor_nan", x, 2);
  CHECK(q.scales == Bytes{0x7F, 0x7F, 0x7F, 0x7F});
  CHECK(bits_of(q.tensor_scale[0]) == canonical_nan_bits);
  for (const float v : decoded(q)) CHECK(std::isnan(v));
  const Quantized rows = quantized("nvfp4,nonfinite=tensor_nan,tensor_scale=row", x, 2);
  CHECK((rows.scales[0] != 0x7F && rows.scales[1] != 0x7F && rows.scales[2] == 0x7F && rows.scales[3] == 0x7F));
  x[40] = INFINITY;  // the amax of what is finite; the block alone
  const Quantized inf = quantized("nvfp4,nonfinite=tensor_nan", x, 2);
  CHECK(inf.scales == quantized("nvfp4", x, 2).scales);
  CHECK(inf.tensor_scale == quantized("nvfp4", x, 2).tensor_scale);
  CHECK_THROWS_WITH(quant_spec_from_words("mxfp4,nonfinite=tensor_nan", "test"),
                    Catch::Contains("tensor_nan needs a tensor scale"));
}

// Amaxes 3 and 5: 15 / 36 448^2 by one division, or by its inverse; the sum of a product of codes is theirs alone.
TEST_CASE("products take their factor from amaxes", "[quick]") {
  std::vector<float> x(16, 0.0f), y(16, 0.0f);
  x[0] = 3, x[1] = 1, y[0] = 5, y[1] = 2;
  const Quantized a = quantized("te_nvfp4", x, 1), b = quantized("te_nvfp4", y, 1);
  const Dispatcher backend("auto");
  const auto product = [&](const Quantized& p, const Quantized& q, ProductFactor factor) {
    GemmOptions options;
    options.factor = factor;
    float c = 0;
    backend.gemm(p, q, options, &c, 1);
    return c;
  };
  const auto value = [](const Quantized& q, int64_t k) {
    return decode(format_of(Element::e2m1), q.code(0, k)) * decode(format_of(Scale::ue4m3), q.scales[0]);
  };
  const float sum = value(a, 0) * value(b, 0) + value(a, 1) * value(b, 1);
  CHECK(product(a, b, ProductFactor::tensor_scales) == sum * (a.tensor_scale[0] * b.tensor_scale[0]));
  CHECK(product(a, b, ProductFactor::amaxes) == sum * (15.0f / 7225344.0f));
  CHECK(product(a, b, ProductFactor::amaxes_inverse) == sum * (15.0f * (1.0f / 7225344.0f)));
  Quantized without = a;  // codes of a file: what they store is no amax
  without.amax = 0;
  CHECK_THROWS_WITH(product(without, b, ProductFactor::amaxes), Catch::Contains("decode=amax_first stores it"));
  CHECK_THROWS_WITH(product(quantized("mxfp4", x, 1), b, ProductFactor::amaxes),
                    Catch::Contains("tensor_scale current or hold"));
  Quantized stored = quantized("te_nvfp4,decode=amax_first", x, 1);
  stored.amax = 0;
  CHECK(product(stored, b, ProductFactor::amaxes) == sum * (15.0f / 7225344.0f));
}

TEST_CASE("a ceiling of scales that is no scale becomes the next one below", "[quick]") {
  const Quantized q = quantized("nvfp4,tensor_scale=none,scale_ceiling=103", std::vector<float>(16, 3000.0f), 1);
  CHECK(decode(format_of(q.spec.scale), q.scales[0]) == 96);  // 104 is nearer
}

TEST_CASE("ragged rows are padded or refused", "[quick]") {
  const std::vector<float> x(33, 1.0f);
  CHECK(quantized("mxfp4", x, 1).geometry.padded_cols == 64);
  CHECK(quantized("mxfp4", x, 1).scales.size() == 2);
  CHECK_THROWS_WITH(quantized("mxfp4,ragged=refuse", x, 1), Catch::Contains("33") && Catch::Contains("32"));
  CHECK_THROWS_WITH(quantized("mxfp4,block=32x32,ragged=refuse", x, 1), Catch::Contains("33"));
  const Quantized square = quantized("mxfp4,block=16x16", std::vector<float>(20 * 33, 1.0f), 20);
  CHECK(square.scales.size() == 2 * 3);
}

// log2 in extended precision, rounded to fp32, then to an integer. Beside sqrt(2) * 2^k the two roundings are not one.
TEST_CASE("the nearest integer to a logarithm in fp32, of subnormals, too", "[quick]") {
  int64_t wrong = 0, halves = 0;
  const auto compare = [&](uint32_t bits) {
    const float x = float_of(bits);
    const auto log = static_cast<float>(std::log2(static_cast<long double>(x)));
    halves += log - std::floor(log) == 0.5f ? 1 : 0;
    const bool is_right = float_log2_nearest(x, /*half_to_even=*/false) == static_cast<int>(std::round(log)) &&
                          float_log2_nearest(x, /*half_to_even=*/true) == static_cast<int>(std::nearbyint(log));
    wrong += is_right ? 0 : 1;
  };
  for (uint32_t bits = 1; bits < 0x00800000u; bits += 13) compare(bits);
  for (uint32_t top = 0; top < 22; ++top)  // sqrt(2) * 2^k as subnormals
    for (uint32_t i = 0; i < 256; ++i)
      if (const uint32_t near = (11863283u >> (1 + top)) + i; near > 128) compare(near - 128);
  for (uint32_t exponent = 1; exponent < 255; ++exponent)
    for (uint32_t i = 0; i < 256; ++i) compare((exponent << 23 | (11863283u & 0x7fffffu)) + i - 128);
  CHECK(wrong == 0);
  CHECK(halves > 1000);
}
