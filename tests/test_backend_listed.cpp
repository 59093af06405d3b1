// The fast path of lists of values, choices and micro-exponents against the core, one element at a time: inputs beside
// every midpoint of a scale that the block takes, tiny, huge and non-finite ones.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "fp4/codec.h"
#include "src/arith/backend_reference.h"
#include "src/arith/spec_text.h"
#include "src/listed/backend_listed.h"
#include "tests/support/filled_codes.h"
#include "tests/support/same_floats.h"
#include "tests/support/share.h"

using namespace fp4;

namespace {

const char* const specs[] = {"nvint4",
                             "if4",
                             "mixfp4",
                             "razer",
                             "hifloat4",
                             "mx6",
                             "mx9",
                             "nf4",
                             "af4",
                             "mxfp4,element=int4",
                             "mxfp4,element=nf4,scale=ue5m3,scale_rule=amax,block=16",
                             "nvfp4,element=e2m1_no_subnormals",
                             "nvfp4,element=int4_6",
                             "mxfp4,element=e2m1_plus_5,scale=bf16,scale_rule=amax",
                             "mxfp4,element=s1p2",
                             "mxfp4,element=nf4,scale=bf16,scale_rule=amax,block=row",
                             "mxfp4,element=int4,scale=fp32,scale_rule=amax,block=row",
                             "mxfp4,element=int4,scale_rule=rceil",
                             "mxfp4,element=nf4,scale_rule=ceil",
                             "mxfp4,element=nf4,scale_rule=amax",
                             "nvfp4,element=nf4,scale_rounding=toward_zero",
                             "mxfp4,element=s1p6,block=64",
                             "nvfp4,choice=e2m1|int4,error=mae",
                             "nvfp4,choice=int4_6|nf4,error=max",
                             "mxfp4,element=int4,prescale=0.75",
                             "nvfp4,element=tests/golden/grids/tilted.json",
                             "nvfp4,element=tests/golden/grids/cubic.json",
                             "mxfp4,element=tests/golden/grids/two_levels.json,block=16",
                             "nvfp4,element=tests/golden/grids/wrapped.json"};
const char* const roundings[] = {
    "nearest_even", "nearest_away", "nearest_toward_zero", "nearest_toward_positive", "toward_zero",
    "stochastic",   "odd"};
const char* const zeros[] = {"keep", "drop", "of_rounding"};

// Rows of numbers whose largest makes the block's scale, and midpoints of values times it, an fp32 step to either side.
std::vector<float> beside_midpoints(const FloatFormat& f, int64_t rows, int64_t cols, std::mt19937& random) {
  std::vector<double> values;
  for (uint32_t code = 0; code < 1u << f.code_bits(); ++code)
    if (f.is_finite_code(code) && !is_nan(decode(f, code))) values.push_back(static_cast<double>(decode(f, code)));
  std::sort(values.begin(), values.end());
  const double top = std::max(std::fabs(values.front()), std::fabs(values.back()));
  std::vector<float> x(static_cast<size_t>(rows * cols));
  std::normal_distribution<float> normal;
  const auto draw = [&](size_t n) { return std::uniform_int_distribution<size_t>(0, n - 1)(random); };
  for (int64_t r = 0; r < rows; ++r) {
    const int binade =
        static_cast<int>(draw(8)) == 0 ? static_cast<int>(draw(250)) - 140 : static_cast<int>(draw(9)) - 4;
    // 8 significant bits: scales that formats hold
    const double scale = std::ldexp(1.0 + static_cast<double>(draw(8)) / 8, binade);
    for (int64_t k = 0; k < cols; ++k) {
      float& v = x[static_cast<size_t>(r * cols + k)];
      const size_t i = draw(values.size() - 1);
      v = static_cast<float>((values[i] + values[i + 1]) / 2 * scale);
      switch (draw(12)) {
        case 0: v = normal(random) * static_cast<float>(scale); break;
        case 1: v = static_cast<float>(values[i] * scale); break;
        case 2: v = draw(2) == 0 ? 0.0f : -0.0f; break;
        case 3: v = std::ldexp(normal(random), -140); break;
        case 4: v = static_cast<float>(top * scale) * (draw(2) == 0 ? 1.0f : -1.0f); break;
        case 5: v = static_cast<float>(static_cast<double>(v) * (1 + 0x1p-20 * normal(random))); break;
        case 6: v = draw(40) == 0 ? INFINITY : v; break;
        case 7: v = draw(40) == 0 ? NAN : v; break;
        default: break;
      }
      if (draw(3) == 0) v = std::nextafter(v, draw(2) == 0 ? INFINITY : -INFINITY);
    }
  }
  return x;
}

// Few values at scales of their own in every eight columns: sums that cancel, and ties.
std::vector<float> few_values(int64_t rows, int64_t cols, std::mt19937& random) {
  std::vector<float> x(static_cast<size_t>(rows * cols));
  const float values[] = {0.0f, 1.0f, -1.0f, 6.0f, -6.0f, 2.5f};
  float scale = 1.0f;
  for (size_t i = 0; i < x.size(); ++i) {
    if (i % 8 == 0) scale = std::ldexp(1.0f, static_cast<int>(random() % 14));
    x[i] = i % 8 == 7 ? 7.0f * scale : values[random() % 6] * scale;
  }
  x[3] = NAN;  // of one block of the first row
  return x;
}

}  // namespace

TEST_CASE("codes and scales of lists equal the core's beside every midpoint", "[quick]") {
  std::mt19937 random(11);
  int64_t taken = 0;
  for (const std::string words : specs)
    for (const std::string rounding : roundings)
      for (const std::string zero : zeros) {
        if (!test::next_case_runs()) continue;
        QuantizeCall call;
        call.spec = quant_spec_from_words(words + ",rounding=" + rounding + ",negative_zero=" + zero, "test");
        const FloatFormat& f = format_of(call.spec.element);
        for (const int64_t cols : {int64_t{96}, int64_t{77}}) {
          const int64_t rows = 24;
          const std::vector<float> x = beside_midpoints(f, rows, cols, random);
          for (const bool is_transposed : {false, true}) {
            call.x = view_of(x.data(), rows, cols);
            if (is_transposed) call.x = call.x.transposed();
            call.place = RandomPlace{};
            REQUIRE(listed_backend().supports_quantize(call));
            Quantized expected, got;
            reference_backend().quantize(call, expected);
            listed_backend().quantize(call, got);
            ++taken;
            CAPTURE(words, rounding, zero, cols, is_transposed);
            CHECK(got.scales == expected.scales);
            CHECK(got.codes == expected.codes);
            CHECK(test::same_floats(got.real_scales, expected.real_scales));
            std::vector<float> a(static_cast<size_t>(call.x.rows * call.x.cols)), b = a;
            reference_backend().dequantize(expected, a.data(), 1);
            if (listed_backend().supports_dequantize(got)) {
              listed_backend().dequantize(got, b.data(), 1);
              CHECK(test::same_floats(a, b));
            }
          }
        }
      }
  CHECK(taken > 0);
}

// Blocks whose maxima lie at midpoints and ends of two scale codes, and fp32 steps beside them.
TEST_CASE("scale codes of lists equal the core's beside every midpoint of two scales", "[quick]") {
  constexpr float amax = 5.7f;
  int64_t taken = 0;
  for (const std::string words : specs) {
    if (!test::next_case_runs()) continue;
    QuantizeCall call;
    call.spec = quant_spec_from_words(words, "test");
    if (call.spec.block.kind != BlockKind::vector) continue;
    const FloatFormat &scale = format_of(call.spec.scale), &element = format_of(call.spec.element);
    const auto top = static_cast<double>(decode(element, element.largest_code));
    const TensorFactor t = tensor_factor(resolve(call.spec), amax);
    const double unit = std::fabs(top) * (call.spec.tensor_scale == TensorScale::none ? 1.0 : static_cast<double>(t.g));
    std::vector<float> maxima = {amax};
    const uint32_t last = std::min(scale.largest_code, is_real(call.spec.scale) ? 0x40FFu : 0xFFu);
    for (uint32_t code = is_real(call.spec.scale) ? 0x3E00u : 0u; code < last; ++code)
      for (const double share : {0.0, 0.5}) {
        const auto low = static_cast<double>(decode(scale, code)), high = static_cast<double>(decode(scale, code + 1));
        const double at = (low + share * (high - low)) * unit;
        if (!(at > 0x1p-140) || at > static_cast<double>(amax)) continue;
        for (const double off : {-1e-6, -0x1p-24, 0.0, 0x1p-24, 1e-6})
          maxima.push_back(std::min(static_cast<float>(at * (1 + off)), amax));
      }
    const int64_t cols = call.spec.block.size;
    std::vector<float> x(maxima.size() * static_cast<size_t>(cols));
    for (size_t r = 0; r < maxima.size(); ++r)
      for (int64_t k = 0; k < cols; ++k)
        x[r * static_cast<size_t>(cols) + static_cast<size_t>(k)] = k == 3 ? maxima[r] : 0.1f * maxima[r];
    call.x = view_of(x.data(), static_cast<int64_t>(maxima.size()), cols);
    Quantized expected, got;
    reference_backend().quantize(call, expected);
    listed_backend().quantize(call, got);
    CAPTURE(words, maxima.size());
    CHECK(got.scales == expected.scales);
    CHECK(got.codes == expected.codes);
    CHECK(test::same_floats(got.real_scales, expected.real_scales));
    taken += static_cast<int64_t>(maxima.size());
  }
  CHECK(taken > (test::share() > 1 ? 0 : 5000));
}

TEST_CASE("sums of decoded lists and of their blocks equal the core's", "[quick]") {
  constexpr int64_t rows = 21, columns = 19, cols = 256;  // no whole tiles
  std::mt19937 random(12);
  const QuantSpec plain = quant_spec_from_words("nvfp4", "test");
  int64_t cases = 0, taken = 0, taken_of_chips = 0;
  for (const std::string words : specs)
    for (const bool is_mixed : {false, true})
      for (const bool is_few : {false, true}) {
        if (!test::next_case_runs()) continue;
        ++cases;
        QuantizeCall call;
        call.spec = quant_spec_from_words(words, "test");
        const std::vector<float> x = is_few
                                         ? few_values(rows + columns, cols, random)
                                         : beside_midpoints(format_of(call.spec.element), rows + columns, cols, random);
        Quantized a, b;
        call.x = view_of(x.data(), rows, cols);
        reference_backend().quantize(call, a);
        if (is_mixed) call.spec = plain;
        call.x = view_of(x.data() + rows * cols, columns, cols);
        reference_backend().quantize(call, b);
        for (const float divisor : {1.0f, 16.0f})
          for (const std::string name :
               {"fma_sequential", "fp32_block", "cdna3_16bit", "cdna3_fp8", "cdna4_isa", "int32_wrap", "int32_clamp"}) {
            GemmOptions options;
            options.accumulator = accumulator_from_words(name);
            options.hadamard_divisor = divisor;
            if (!invalid_reason(options.accumulator, a.spec, b.spec).empty()) continue;
            if (!listed_backend().supports_gemm(a.spec, b.spec, options)) continue;
            std::vector<float> c(rows * columns), d = c;
            reference_backend().gemm(a, b, options, c.data(), columns);
            listed_backend().gemm(a, b, options, d.data(), columns);
            ++(name == "fma_sequential" || name == "fp32_block" ? taken : taken_of_chips);
            CAPTURE(words, is_mixed, is_few, name, divisor);
            CHECK(test::same_floats(c, d));
          }
      }
  CHECK(cases > 0);
  CHECK(taken == cases * 4);
  if (test::share() > 1) return;
  CHECK(taken == static_cast<int64_t>(std::size(specs)) * 16);
  CHECK(taken_of_chips >= 200);
}

// The first block gives 36 * 2^14. Elements of the second are k*6/7 rounded to 24 bits, with k*y summing to 448: its
// dot is 384 and a few units of 2^-24. Under its scale 384 lies halfway between two fp32 sums, and fp64 drops the rest.
TEST_CASE("ties that fp64 does not see are decided as the core does", "[quick]") {
  test::Random random(13);
  const FloatFormat &list = format_of(Element::int4_6), &e2m1 = format_of(Element::e2m1);
  const auto code_of = [](const FloatFormat& f, float x) {
    uint32_t nearest = 0;
    for (uint32_t code = 0; code < 1u << f.code_bits(); ++code)
      if (std::fabs(decode(f, code) - x) < std::fabs(decode(f, nearest) - x)) nearest = code;
    return nearest;
  };
  GemmOptions options;
  options.accumulator = fp32_block;
  std::set<uint32_t> sums;
  for (int trial = 0; trial < 2000; ++trial) {
    Quantized a = test::operand("nvfp4,element=int4_6,tensor_scale=none", 1, 32, 0);
    Quantized b = test::operand("nvfp4,tensor_scale=none", 1, 32, 0);
    float left = 448.0f;
    for (int64_t k = 0; k < 32; ++k) {
      float x = k == 0 ? 7.0f : 0.0f, y = 6.0f;
      if (k >= 16) {
        x = static_cast<float>(1 + test::pick(random, 7)), y = test::one_of(random, {1.0f, 2.0f, 3.0f, 4.0f, 6.0f});
        if (k > 20 && left > 42.0f) x = 7.0f, y = 6.0f;
        while (x * y > left) x > 1.0f ? x -= 1.0f : y -= y > 4.0f ? 2.0f : 1.0f;
        left -= x * y;
      }
      a.set_code(0, k, code_of(list, x * 6.0f / 7.0f));
      b.set_code(0, k, code_of(e2m1, y));
    }
    for (Quantized* q : {&a, &b}) test::set_scale(*q, 0, 128.0f), test::set_scale(*q, 1, 0x1p-6f);
    if (left != 0.0f) continue;
    float expected = 0.0f, got = 0.0f;
    reference_backend().gemm(a, b, options, &expected, 1);
    REQUIRE(listed_backend().supports_gemm(a.spec, b.spec, options));
    listed_backend().gemm(a, b, options, &got, 1);
    CAPTURE(trial, expected, got);
    CHECK(bits_of(expected) == bits_of(got));
    sums.insert(bits_of(expected));
  }
  CHECK(sums.size() == 2);  // both neighbours of the tie
}

TEST_CASE("sums of integers beyond int32 are the core's", "[quick]") {
  QuantizeCall call;
  call.spec = quant_spec_from_words("mxfp4,element=s1p6,block=row,scale=fp32,scale_rule=amax", "test");
  for (const int64_t cols : {133144, 133145}) {  // 127 * 127 * 133,144 is the last sum below 2^31
    const std::vector<float> ones(static_cast<size_t>(cols), 1.0f);
    call.x = view_of(ones.data(), 1, cols);
    Quantized q;
    reference_backend().quantize(call, q);
    for (const char* name : {"int32_wrap", "int32_clamp"}) {
      GemmOptions options;
      options.accumulator = accumulator_from_words(name);
      REQUIRE(listed_backend().supports_gemm(q.spec, q.spec, options));
      float expected = 0, got = 0;
      reference_backend().gemm(q, q, options, &expected, 1);
      listed_backend().gemm(q, q, options, &got, 1);
      CHECK(bits_of(got) == bits_of(expected));
      CHECK((got < 0) == (cols == 133145 && name[6] == 'w'));
    }
  }
}
