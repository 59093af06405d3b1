// Does every format row say what its document says? Literals from numerics definitions: OCP MX 1.0, OFP8 1.0 and the
// papers named in the rows.
#include <catch2/catch.hpp>

#include "fp4/codec.h"
#include "fp4/presets.h"

using namespace fp4;

TEST_CASE("element formats have the values of their documents", "[quick]") {
  const auto values = [](Element e) {
    std::vector<float> v;
    for (uint32_t c = 0; c <= format_of(e).largest_code; ++c) v.push_back(decode(format_of(e), c));
    return v;
  };
  CHECK(values(Element::e2m1) == std::vector<float>{0, .5f, 1, 1.5f, 2, 3, 4, 6});
  CHECK(values(Element::e1m2) == std::vector<float>{0, .25f, .5f, .75f, 1, 1.25f, 1.5f, 1.75f});
  CHECK(values(Element::e3m0) == std::vector<float>{0, .25f, .5f, 1, 2, 4, 8, 16});
  CHECK(values(Element::e2m3).back() == 7.5f);
  CHECK(values(Element::e3m2).back() == 28.0f);
  CHECK(values(Element::e4m3).back() == 448.0f);
  CHECK(values(Element::e5m2).back() == 57344.0f);
  CHECK(is_nan(decode(format_of(Element::e4m3), 0x7F)));
  CHECK(is_nan(decode(format_of(Element::e4m3), 0xFF)));
  CHECK(decode(format_of(Element::e5m2), 0x7C) == INFINITY);
  CHECK(decode(format_of(Element::e5m2), 0xFC) == -INFINITY);
  CHECK(is_nan(decode(format_of(Element::e5m2), 0x7D)));
  CHECK(bits_of(decode(format_of(Element::e2m1), 8)) == 0x80000000u);
}

TEST_CASE("scale formats have the codes of their documents", "[quick]") {
  struct Literal {
    Scale id;
    uint32_t smallest_code;
    float smallest;
    uint32_t largest_code;
    float largest;
    uint32_t one;
    std::vector<uint32_t> nans;
  };
  const Literal literals[] = {
      {Scale::e8m0, 0x00, 0x1p-127f, 0xFE, 0x1p127f, 0x7F, {0xFF}},
      {Scale::ue4m3, 0x01, 0x1p-9f, 0x7E, 448, 0x38, {0x7F}},
      {Scale::ue5m3, 0x01, 0x1p-17f, 0xFE, 114688, 0x78, {0xFF}},
      {Scale::ue5m3_61440, 0x01, 0x1p-17f, 0xF7, 61440, 0x78, {0xF8, 0xF9, 0xFA, 0xFB, 0xFC, 0xFD, 0xFE, 0xFF}},
      {Scale::ue5m3_122880, 0x01, 0x1p-17f, 0xFF, 122880, 0x78, {}},
      {Scale::ue5m2, 0x01, 0x1p-16f, 0x7F, 114688, 0x3C, {}},
      {Scale::ue3m4, 0x01, 0x1p-6f, 0x7F, 31, 0x30, {}},
      {Scale::ue2m5, 0x01, 0x1p-5f, 0x7F, 7.875f, 0x20, {}},
      {Scale::ue1m6, 0x01, 0x1p-5f, 0x7F, 3.96875f, 0x20, {}},
  };
  for (const Literal& l : literals) {
    INFO(row_of(scale_table, l.id).name);
    const FloatFormat& f = format_of(l.id);
    CHECK(decode(f, l.smallest_code) == l.smallest);
    CHECK(decode(f, l.largest_code) == l.largest);
    CHECK(f.largest_code == l.largest_code);
    CHECK(code_of_one(f) == l.one);
    CHECK(decode(f, l.one) == 1.0f);
    for (const uint32_t c : l.nans) CHECK(is_nan(decode(f, c)));
    if (f.has_nan()) CHECK(f.nan_code == 0xFFu >> (f.code_bits() == 7 ? 1 : 0));
    uint32_t nan_count = 0;
    for (uint32_t c = 0; c < (1u << f.code_bits()); ++c) nan_count += is_nan(decode(f, c)) ? 1 : 0;
    CHECK(nan_count == l.nans.size());
  }
}

TEST_CASE("all codes of all formats round-trip and are monotonic", "[quick]") {
  const auto check = [](const char* name, const FloatFormat& f) {
    INFO(name);
    const uint32_t step = f.code_bits() > 16 ? 65521u : 1u;  // fp32 is sampled
    float previous = -1.0f;
    for (uint64_t c = 0; c <= f.largest_code; c += step) {
      const auto code = static_cast<uint32_t>(c);
      const float v = decode(f, code);
      const bool fine = encode(f, exact_magnitude(v), false, {}) == code && v > previous &&
                        (!f.is_signed || bits_of(decode(f, code | f.sign_code())) == (bits_of(v) | float_sign_bit));
      if (!fine) FAIL_CHECK("code " << code << " value " << v);
      previous = v;
    }
  };
  for (const auto& row : element_table) {
    if (!row.format.is_grid()) check(row.name, row.format);  // lists: test_element_grids
  }
  for (const auto& row : scale_table) {
    if (row.id != Scale::none) check(row.name, row.format);
  }
}

TEST_CASE("every preset is a possible spec", "[quick]") {
  for (const Preset& p : preset_table) {
    INFO(p.name);
    CHECK(invalid_reason(p.spec).empty());
  }
}
