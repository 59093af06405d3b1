// Elements that are lists of values: what a list may be, how codes follow from it, and that a list, a choice of two and
// micro-exponents go through words and JSON unchanged. Their numbers are judged by tests/golden/grids.txt.
#include <catch2/catch.hpp>
#include <cmath>
#include <vector>

#include "fp4/codec.h"
#include "src/arith/code_order.h"
#include "src/arith/element_grids.h"
#include "src/arith/spec_text.h"
#include "src/backends/backends.h"

using namespace fp4;

namespace {

std::string refusal(const Json& element) {
  try {
    element_from({element, "test"});
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}

Json list_of(std::vector<double> values) { return {{"values", values}}; }

QuantSpec spec_of(const std::string& words) { return quant_spec_from_words(words, "--spec"); }

}  // namespace

TEST_CASE("the list of a float format gives the codes of that format", "[quick]") {
  // e2m1 written as a list: every rounding, on both sides of each threshold, saturation included
  std::vector<float> magnitudes;
  for (uint32_t code = 0; code < 8; ++code) magnitudes.push_back(decode(format_of(Element::e2m1), code));
  const FloatFormat& listed = format_of(add_element("e2m1_again", magnitudes, true, "test"));
  const FloatFormat& e2m1 = format_of(Element::e2m1);
  CHECK(listed.code_bits() == 4);
  CHECK(listed.sign_code() == 8);
  for (const RoundingInfo& mode : rounding_table)
    for (int eighths = 0; eighths <= 60; ++eighths)
      for (const int ulps : {-1, 0, 1})
        for (const bool negative : {false, true})
          for (const uint32_t draw : {0u, 100u, 255u}) {
            const float x = float_of(static_cast<uint32_t>(static_cast<int>(bits_of(static_cast<float>(eighths) / 8)) +
                                                           (eighths == 0 ? 0 : ulps)));
            const RoundingDraw how = {mode.id, 8, draw};
            const uint32_t code = encode(listed, exact_magnitude(x), negative, how);
            if (code != encode(e2m1, exact_magnitude(x), negative, how)) FAIL_CHECK(mode.name << " of " << x);
          }
}

TEST_CASE("codes of a list stand in the order given, zero where it is", "[quick]") {
  const FloatFormat& nf4 = format_of(Element::nf4);
  CHECK(nf4.zero_code() == 7);
  CHECK(encode(nf4, exact_magnitude(5.0f), false, {}) == 15);
  CHECK(encode(nf4, exact_magnitude(5.0f), true, {}) == 0);
  CHECK(decode(nf4, 7) == 0.0f);
  CHECK(nf4.is_negative_code(6));
  CHECK_FALSE(nf4.is_negative_code(8));
  const FloatFormat& int4 = format_of(Element::int4);  // two's complement
  CHECK(decode(int4, 15) == -1.0f);
  CHECK(is_nan(decode(int4, 8)));
  CHECK_FALSE(int4.is_finite_code(8));
  CHECK(encode(int4, exact_magnitude(7.4f), true, {}) == 9);
}

TEST_CASE("ties between values that are no neighbours in a float format go to the even code", "[quick]") {
  // codes 0 1 2 3 of 0, 0.1, 0.3, 1 as fp32: the midpoint of 0.1 and 0.3 is no fp32 number, 0.65 nearly none
  const FloatFormat& f = format_of(add_element("", {0.0f, 0.1f, 0.3f, 1.0f}, true, "test"));
  const float low = 0.1f, high = 0.3f;
  const float middle = static_cast<float>((static_cast<double>(low) + static_cast<double>(high)) / 2);
  const bool lies_above = static_cast<double>(middle) * 2 > static_cast<double>(low) + static_cast<double>(high);
  CHECK(encode(f, exact_magnitude(std::nextafter(middle, 0.0f)), false, {}) == 1);
  CHECK(encode(f, exact_magnitude(std::nextafter(middle, 1.0f)), false, {}) == 2);
  CHECK((encode(f, exact_magnitude(middle), false, {}) == 2) == lies_above);
  const FloatFormat& steps = format_of(add_element("", {0.0f, 1.0f, 3.0f, 4.0f}, true, "test"));
  CHECK(encode(steps, exact_magnitude(0.5f), false, {}) == 0);  // 0 is even
  CHECK(encode(steps, exact_magnitude(2.0f), false, {}) == 2);  // 1 is odd
  CHECK(encode(steps, exact_magnitude(3.5f), false, {}) == 2);
}

TEST_CASE("what is no grid is refused with the reason", "[quick]") {
  CHECK(refusal(list_of({1, 2})).find("needs a 0") != std::string::npos);
  CHECK(refusal(list_of({0, 0})).find("a value besides 0") != std::string::npos);
  CHECK(refusal(list_of({0, 1e-30, 1})).find("2^30") != std::string::npos);
  CHECK(refusal(list_of({0, 1e-20})).find("2^-43") != std::string::npos);
  CHECK(refusal(list_of({0, 1e13})).find("2^40") != std::string::npos);
  CHECK(refusal({{"values", {0, -1}}, {"signed", true}}).find("magnitudes") != std::string::npos);
  CHECK(refusal({{"values", {0, 1}}, {"name", "e2m1"}}).find("another name") != std::string::npos);
  CHECK(refusal({{"values", {0, 1}}, {"name", "A b"}}).find("small letters") != std::string::npos);
  CHECK(refusal({{"values", {0, "0x1.8p"}}}).find("is no number") != std::string::npos);
  CHECK(refusal({{"values", {0, 1}}, {"sign", true}}).find("signed") != std::string::npos);
  CHECK(refusal("nf5").find("nf4") != std::string::npos);
  CHECK(refusal(3).find("an element's name") != std::string::npos);
  std::vector<double> many(257);
  for (size_t i = 0; i < many.size(); ++i) many[i] = static_cast<double>(i);
  CHECK(refusal(list_of(many)).find("at most 256") != std::string::npos);
  many.pop_back();
  CHECK(refusal(list_of(many)).empty());
  CHECK(refusal({{"base", "hif4"}, {"micro", {{{"per", 8}, {"bits", 1}}}}}).find("of its own") != std::string::npos);
  // 8 bits below a sum of 0 .. 14: 12 bits, more codes than a grid has room for.
  const Json wide = {{"base", "s1p6"}, {"micro", {{{"per", 16}, {"bits", 3}}, {{"per", 4}, {"bits", 3}}}}};
  CHECK(refusal(wide).find("more than 9 bits") != std::string::npos);
  CHECK(
      refusal({{"base", "s1p2"}, {"micro", {{{"per", 4}, {"bits", 1}}, {{"per", 8}, {"bits", 1}}}}}).find("divides") !=
      std::string::npos);
}

TEST_CASE("elements go through JSON unchanged, equal ones are one", "[quick]") {
  const Json given = {{"name", "mine"}, {"signed", false}, {"values", {0, 0.1, "0x1p-1", nullptr, -0.25}}};
  const Element first = element_from({given, "test"});
  const Json written = element_json(first);
  CHECK(written["values"][1] == 0.1);
  CHECK(written["values"][3].is_null());
  CHECK(element_from({written, "test"}) == first);
  CHECK(element_json(Element::nf4) == "nf4");
  // a row's own values under its name are the row
  Json values = Json::array();
  for (uint32_t code = 0; code < 16; ++code) values.push_back(decode(format_of(Element::af4), code));
  const Json named = {{"name", "af4"}, {"values", values}};
  CHECK(element_from({named, "test"}) == Element::af4);
  const Json hif4 = {
      {"name", "hif4"}, {"base", "s1p2"}, {"micro", {{{"per", 8}, {"bits", 1}}, {{"per", 4}, {"bits", 1}}}}};
  CHECK(element_from({hif4, "test"}) == Element::hif4);
  for (const char* words : {"if4", "hifloat4", "mxfp4,element=tests/golden/grids/two_levels.json,block=16",
                            "nvfp4,choice=tests/golden/grids/half_step.json|e2m1,error=mae", "nf4"}) {
    const QuantSpec spec = spec_of(words);
    QuantSpec again = mxfp4_spec;
    set_quant(again, to_json(spec), "test");
    CHECK(again == spec);
    CHECK(canonical(again) == canonical(spec));
  }
}

TEST_CASE("a choice writes its flag where the scale has no bit of its own", "[quick]") {
  const std::vector<float> x = {7, 6, 5, 4, 3,    2, 1,    0, -7, -6, -5, -4, -3,    -2, -1,    0,   // int4's
                                6, 4, 3, 2, 1.5f, 1, 0.5f, 0, -6, -4, -3, -2, -1.5f, -1, -0.5f, 0};  // e2m1's
  QuantizeCall call;
  call.spec = spec_of("mixfp4,tensor_scale=none");
  call.x = view_of(x.data(), 1, 32);
  Quantized q;
  Dispatcher("auto").quantize(call, q);
  REQUIRE(q.scales.size() == 2);
  CHECK(q.scales[0] == (0x38 | 0x80));  // 1.0
  CHECK(q.scales[1] == 0x38);
  std::vector<float> y(32);
  Dispatcher("auto").dequantize(q, y.data());
  CHECK(y == x);
  CHECK(element_of_block(q, 0, 0).is_grid());
  CHECK_FALSE(element_of_block(q, 0, 16).is_grid());
  const auto reason = [](const std::string& words) {
    try {
      spec_of(words);
    } catch (const Error& e) {
      return std::string(e.what());
    }
    return std::string();
  };
  CHECK(reason("mxfp4,choice=e2m1|int4").find("unused bit") != std::string::npos);
  CHECK(reason("nvfp4,choice=e2m1|s1p3").find("same bits") != std::string::npos);
  CHECK(reason("nvfp4,choice=e2m1|int4|nf4").find("two elements") != std::string::npos);
  CHECK(reason("hifloat4,scale_rule=mse").find("micro-exponents") != std::string::npos);
  CHECK(reason("mxfp4,element=nf4,scale_rule=even").find("float format") != std::string::npos);
}

TEST_CASE("neighbours of codes follow their values", "[quick]") {
  const FloatFormat& int4 = format_of(Element::int4);
  CHECK(next_code(int4, 1, false, true) == 2u);
  CHECK(next_code(int4, 15, true, true) == 14u);
  CHECK(next_code(int4, 15, true, false) == 0u);
  CHECK_FALSE(next_code(int4, 9, true, true).has_value());
  CHECK(is_end_code(int4, 9));
  CHECK(is_end_code(int4, 7));
  CHECK_FALSE(is_end_code(int4, 1));
  const FloatFormat& hif4 = format_of(Element::hif4);  // 2 above 4 bits
  CHECK(next_code(hif4, 0x13, false, true) == 0x14u);
  CHECK(is_end_code(hif4, 0x27));
  CHECK(next_code(format_of(Element::e2m1), 7, false, true) == std::nullopt);
  CHECK(next_code(format_of(Element::e4m3), 0x7D, true, true) == 0xFEu);
  CHECK(next_code(format_of(Element::e4m3), 0x7E, false, true) == std::nullopt);  // 0x7F is NaN
  CHECK(next_code(format_of(Element::e5m2), 0x7B, false, true) == std::nullopt);  // 0x7C is infinity
}
