// Do the words of each converter give its codes? The model here is a list of a format's numbers and a search in it, in
// doubles: it shares no line with the core.
#include <catch2/catch.hpp>
#include <cmath>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "fp4/converters.h"
#include "fp4/random_words.h"
#include "src/arith/spec_text.h"
#include "src/backends/backends.h"

using namespace fp4;

namespace {

// Codes 0, 1, .. of a format without its sign bit.
std::vector<double> numbers_of(int exponent_bits, int mantissa_bits, double largest) {
  const int bias = (1 << (exponent_bits - 1)) - 1;
  std::vector<double> out;
  for (int code = 0;; ++code) {
    const int exponent = code >> mantissa_bits;
    const double fraction = std::ldexp(code & ((1 << mantissa_bits) - 1), -mantissa_bits);
    const double value = exponent == 0 ? std::ldexp(fraction, 1 - bias) : std::ldexp(1 + fraction, exponent - bias);
    if (value > largest) return out;
    out.push_back(value);
  }
}

enum class To { nearest, zero, positive, random };

struct Model {
  std::vector<double> numbers;
  To to = To::nearest;
  bool drops_sign_of_zero = false;
  bool is_scaled = false;  // by a power of two that differs from block to block
  int lost_bits = 22;      // of a normal number, for To::random with 32 bits: AMD's
};

// The magnitude's code. `bits` of `width` are a fraction of the step, added before the cut.
int code_of(const Model& m, double x, uint32_t bits = 0, int width = 16) {
  size_t below = m.numbers.size() - 1;
  while (m.numbers[below] > x) --below;
  const bool is_last = below + 1 == m.numbers.size();
  const double step = is_last ? m.numbers[below] - m.numbers[below - 1] : m.numbers[below + 1] - m.numbers[below];
  const double part = (x - m.numbers[below]) / step;
  bool up = false;
  switch (m.to) {
    case To::nearest: up = part > 0.5 || (part == 0.5 && below % 2 == 1); break;
    case To::zero: break;
    case To::positive: up = part > 0; break;
    case To::random: up = std::floor(std::ldexp(part, width)) + bits >= std::ldexp(1.0, width); break;
  }
  if (is_last) return static_cast<int>(below);
  return static_cast<int>(below) + (up ? 1 : 0);
}

const std::vector<double>& e2m1() {
  static const std::vector<double> numbers = numbers_of(2, 1, 6);
  return numbers;
}
std::vector<double> ue5m3() { return numbers_of(5, 3, 114688); }

const std::map<std::string, Model> models = {
    {"ptx_rn_e2m1", {.numbers = e2m1()}},
    {"ptx_rn_scaled_e2m1", {.numbers = e2m1(), .is_scaled = true}},
    {"ptx_rz_e2m1", {.numbers = e2m1(), .to = To::zero}},
    {"ptx_rz_e2m3", {.numbers = numbers_of(2, 3, 7.5), .to = To::zero}},
    {"ptx_rz_e3m2", {.numbers = numbers_of(3, 2, 28), .to = To::zero}},
    {"ptx_rz_e4m3", {.numbers = numbers_of(4, 3, 448), .to = To::zero}},
    {"ptx_rz_e5m2", {.numbers = numbers_of(5, 2, 57344), .to = To::zero}},
    {"ptx_pzo_e2m1", {.numbers = e2m1(), .drops_sign_of_zero = true}},
    {"ptx_rs_e2m1", {.numbers = e2m1(), .to = To::random}},
    {"ptx_rs_e4m3", {.numbers = numbers_of(4, 3, 448), .to = To::random}},
    {"ptx_rn_ue5m3", {.numbers = ue5m3()}},
    {"ptx_rp_ue5m3", {.numbers = ue5m3(), .to = To::positive}},
    {"ptx_rz_ue5m3", {.numbers = ue5m3(), .to = To::zero}},
    {"ptx_rn_ue5m3_nan", {.numbers = ue5m3()}},
    {"amd_rn_fp4", {.numbers = e2m1()}},
    {"amd_sr_fp4", {.numbers = e2m1(), .to = To::random}},
};

float ulps_away(float x, int ulps) {
  for (; ulps > 0; --ulps) x = std::nextafter(x, INFINITY);
  for (; ulps < 0; ++ulps) x = std::nextafter(x, 0.0f);
  return x;
}

// Numbers of a format, the middles between them and what lies within 2 ulp, and numbers drawn over all its binades.
float drawn(const Model& m, std::mt19937& rng) {
  const size_t i = rng() % m.numbers.size();
  const double next = i + 1 < m.numbers.size() ? m.numbers[i + 1] : m.numbers[i] + (m.numbers[i] - m.numbers[i - 1]);
  const double share = rng() % 3 == 0 ? 0 : rng() % 2 == 0 ? 0.5 : std::ldexp(rng() & 0xFFFFFF, -24);
  const auto x = static_cast<float>(m.numbers[i] + share * (next - m.numbers[i]));
  return ulps_away(x, x == 0 ? 0 : static_cast<int>(rng() % 5) - 2);
}

// The bits of a packed draw for each element, one word a group, as QuantizeCall::random_words wants them.
std::vector<uint32_t> packed_words(const RandomPackingInfo& p, const std::vector<uint32_t>& words, size_t count) {
  std::vector<uint32_t> out(count * static_cast<size_t>(p.bits) / 32);
  for (size_t i = 0; i < count; ++i) {
    const auto group = static_cast<size_t>(p.group);
    const uint32_t draw = bits_in_word(p.id, words[i / group], static_cast<uint32_t>(i % group));
    const size_t first = i * static_cast<size_t>(p.bits);
    out[first / 32] |= draw << (first % 32);
  }
  return out;
}

Quantized codes_of(const char* backend, const QuantSpec& s, const std::vector<float>& x, int64_t cols,
                   const std::vector<uint32_t>& words = {}) {
  Quantized q;
  QuantizeCall call = {.x = view_of(x.data(), static_cast<int64_t>(x.size()) / cols, cols), .spec = s};
  call.random_words = words;
  Dispatcher(backend).quantize(call, q);
  return q;
}

}  // namespace

TEST_CASE("the words of a converter are legal, and its packing is a word", "[quick]") {
  for (const ConverterInfo& row : converter_table) {
    INFO(row.name);
    const QuantSpec s = quant_spec_from_words(row.words);
    CHECK(invalid_reason(s).empty());
    const bool draws = is_stochastic(s.rounding);
    CHECK(draws == (row.packing[0] != '\0'));
    if (!draws) continue;
    const RandomPackingInfo* packing = find_row(random_packing_table, std::string_view(row.packing));
    REQUIRE(packing != nullptr);
    CHECK(packing->bits == s.random_bits);
    CHECK((row.evidence != fp4::Evidence::measured || packing->evidence == fp4::Evidence::measured));
  }
}

TEST_CASE("the words of a converter of elements give its codes", "[quick]") {
  std::mt19937 rng(7);
  for (const ConverterInfo& row : converter_table) {
    if (std::string(row.name).find("_ue") != std::string::npos) continue;
    INFO(row.name);
    REQUIRE(models.contains(row.name));
    const Model& m = models.at(row.name);
    const QuantSpec s = quant_spec_from_words(row.words);
    const int cols = 32, rows = 200;
    std::vector<float> x;
    std::vector<int> scales;  // log2
    for (int i = 0; i < rows * cols; ++i) {
      if (i % cols == 0) scales.push_back(m.is_scaled ? static_cast<int>(rng() % (rng() % 2 == 0 ? 8 : 220)) - 127 : 0);
      // The first of each block lies in the binade of the largest number, so that the block's scale is 1.
      const double binade = std::ldexp(1.0, std::ilogb(m.numbers.back()));
      const double first = binade * (1 + std::ldexp(rng() & 0xFFFFFF, -24));
      float v = i % cols == 0 ? static_cast<float>(first) : std::min(drawn(m, rng), static_cast<float>(1.99 * binade));
      if (i % cols != 0 && i % 17 == 1) v = std::ldexp(1.0f, -126 + static_cast<int>(rng() % 20));
      v = std::ldexp(v, scales.back());
      x.push_back(rng() % 2 == 0 ? v : -v);
    }
    std::vector<uint32_t> words(x.size()), packed;
    for (uint32_t& w : words) w = static_cast<uint32_t>(rng());
    const RandomPackingInfo* packing = find_row(random_packing_table, std::string_view(row.packing));
    if (packing != nullptr) packed = packed_words(*packing, words, x.size());
    for (const char* backend : {"reference", "auto"}) {
      INFO(backend);
      const Quantized q = codes_of(backend, s, x, cols, packed);
      const auto sign = static_cast<int>(format_of(s.element).sign_code());
      int different = 0;
      for (size_t block = 0; m.is_scaled && block < scales.size(); ++block)
        different += q.scales[block] == 127 + scales[block] ? 0 : 1;
      for (size_t i = 0; i < x.size(); ++i) {
        const bool is_flushed = m.is_scaled && std::fabs(x[i]) < 0x1p-126f;
        const double size = is_flushed ? 0 : std::fabs(static_cast<double>(x[i]));
        const double a = std::ldexp(size, -scales[i / static_cast<size_t>(cols)]);
        int code = 0;
        if (packing == nullptr || packing->bits == 16) {
          const uint32_t bits =
              packing == nullptr ? 0 : bits_in_word(packing->id, words[i / 4], static_cast<uint32_t>(i % 4));
          code = code_of(m, a, bits);
        } else {  // AMD: the word's high 22 bits
          code = code_of(m, a, words[i / 2] >> 10, m.lost_bits);
        }
        if (std::signbit(x[i]) && !(code == 0 && m.drops_sign_of_zero)) code |= sign;
        different += static_cast<int>(q.code(static_cast<int64_t>(i) / cols, static_cast<int64_t>(i) % cols)) != code;
      }
      CHECK(different == 0);
    }
  }
}

TEST_CASE("a converter gives infinities and NaN the codes that its row says", "[quick]") {
  std::vector<float> x(32, 1.0f);
  x[0] = 4.0f, x[1] = INFINITY, x[2] = -INFINITY, x[3] = NAN, x[4] = -NAN;
  for (const ConverterInfo& row : converter_table) {
    const std::string words = row.words;
    const bool keeps = words.find("nonfinite=max_signed") != std::string::npos;
    if (words.find("nonfinite=max") == std::string::npos || words.find("element=") != std::string::npos) continue;
    INFO(row.name);
    const std::vector<uint32_t> zeros(row.packing[0] == '\0' ? 0 : 32);
    const Quantized q = codes_of("auto", quant_spec_from_words(row.words), x, 32, zeros);
    CHECK(q.code(0, 1) == 7);
    CHECK(q.code(0, 2) == 15);
    CHECK(q.code(0, 3) == 7);
    CHECK(q.code(0, 4) == (keeps ? 15 : 7));
  }
}

TEST_CASE("the words of a converter of scales give its codes", "[quick]") {
  std::mt19937 rng(11);
  for (const ConverterInfo& row : converter_table) {
    const std::string name = row.name;
    if (name.find("_ue") == std::string::npos) continue;
    INFO(name);
    const QuantSpec s = quant_spec_from_words(row.words);
    const int cols = s.block.size, rows = 4000;
    std::vector<float> x(static_cast<size_t>(rows * cols), 0.0f), maxima;
    const bool is_power = name == "ptx_rp_ue8m0";
    REQUIRE((is_power || models.contains(name)));
    for (int r = 0; r < rows; ++r) {
      float a = std::ldexp(1.0f, static_cast<int>(rng() % 240) - 120);
      a = rng() % 2 == 0 ? a * 6 : a * static_cast<float>(1 + std::ldexp(rng() & 0xFFFFFF, -24));
      if (!is_power) a = rng() % 50 == 0 ? 7e5f + static_cast<float>(rng() % 100000) : drawn(models.at(name), rng) * 6;
      maxima.push_back(ulps_away(a, static_cast<int>(rng() % 5) - 2));
      x[static_cast<size_t>(r * cols) + rng() % static_cast<uint32_t>(cols)] =
          rng() % 2 == 0 ? maxima.back() : -maxima.back();
    }
    const Quantized q = codes_of("auto", s, x, cols);
    int different = 0;
    for (int r = 0; r < rows; ++r) {
      const float sixth = maxima[static_cast<size_t>(r)] / 6.0f;
      int code = 0;
      if (is_power) {
        int exponent = 0;
        const float fraction = std::frexp(sixth, &exponent);  // in [1/2, 1)
        code = 127 + exponent - (fraction == 0.5f ? 1 : 0);
      } else {
        code = code_of(models.at(name), static_cast<double>(sixth));
        // Half a step above 114688 lies 118784, which still rounds to that even code.
        if (name == "ptx_rn_ue5m3_nan" && sixth > 118784.0f) code = 0xFF;
      }
      different += q.scales[static_cast<size_t>(r)] != code;
    }
    CHECK(different == 0);
  }
}
