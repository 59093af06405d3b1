// Products of elements too wide for bytes (src/cpu/gemm/pairs_body.h) from codes chosen here: elements with and without
// bits below a unit on either side, or below the quantum of the pairs, the largest ones everywhere, ties at the
// rounding of a block and beside them by one part in 2^18 and in far more, scale products at both ends of fp32 and far
// apart. Expected values come from the reference.
#include <catch2/catch.hpp>
#include <cmath>

#include "tests/support/compare_products.h"
#include "tests/support/filled_codes.h"

namespace fp4 {
namespace {

using namespace test;

void compare(const Quantized& a, const Quantized& b, const std::string& what) {
  for (const char* accumulator : {"fp32_block", "exact", "k64_rz"}) {
    compare_products(a, b, accumulator_from_words(accumulator), what + " " + accumulator);
  }
}

constexpr const char* formats[][2] = {{"mxfp8", "mxfp8"},
                                      {"mxfp8", "mxfp4"},
                                      {"mxfp4", "mxfp8"},
                                      {"mxfp8", "mxfp6_e2m3"},
                                      {"mxfp6_e3m2", "mxfp6_e3m2"},
                                      {"mxfp6_e3m2", "mxfp8"},
                                      {"mxfp4,block=16", "mxfp6_e3m2"},
                                      {"mxfp8,block=16", "mxfp8"},
                                      {"mxfp8", "mxfp8,block=64"},
                                      {"mxfp8,tensor_scale=outer128", "mxfp8"},
                                      {"mxfp8,element=e5m2", "mxfp8"},
                                      {"mxfp8,element=e5m2", "mxfp8,element=e5m2"},
                                      {"mxfp4", "mxfp8,element=e5m2"},
                                      {"ue5m3fp4,element=e5m2", "mxfp8,element=e5m2,block=16"},
                                      // Blocks that exact sums take in pieces.
                                      {"mxfp8,block=64", "mxfp8,block=128"},
                                      {"mxfp8,block=row", "mxfp8,block=row"},
                                      {"mxfp8,element=e5m2,block=tensor", "mxfp8,scale=bf16,block=row"},
                                      {"mxfp8,scale=fp32,block=row", "mxfp8,scale=fp32,block=tensor"},
                                      {"mxfp4,block=row", "mxfp4,element=e3m0,block=tensor"},
                                      {"mxfp6_e3m2,block=row", "mxfp4,block=128"},
                                      // Scale products of 8 bits, of 16 and 24, and blocks of 8.
                                      {"mxfp8,scale=ue4m3,block=16", "mxfp8,scale=ue5m3"},
                                      {"mxfp8,scale=bf16", "mxfp8,scale=ue5m3,block=16"},
                                      {"mxfp8,scale=fp32,block=16", "mxfp8,element=e5m2,scale=fp32,block=16"},
                                      {"mxfp8,block=8", "mxfp8,block=8"},
                                      {"mxfp8,block=128", "mxfp8,scale=ue4m3,block=128"},
                                      {"mxfp8,scale=bf16,block=8", "mxfp8,scale=fp32,block=16"},
                                      {"mxfp6_e3m2,block=8", "mxfp8,element=e5m2,block=8"}};

TEST_CASE("elements with bits below a unit, on either side", "[quick]") {
  Random random(1);
  for (const auto& format : formats) {
    for (const Codes a : all_codes) {
      for (const Codes b : all_codes) {
        for (const int spread : {0, 3, 13, 30}) {
          const bool has_signs = pick(random, 4) != 0;
          const int64_t k = 1 + pick(random, 130);
          const Quantized qa = filled(format[0], 1 + pick(random, 20), k, {a, has_signs, -10, spread}, random);
          Quantized qb = filled(format[1], 1 + pick(random, 40), k, {b, has_signs, -3, spread}, random);
          Quantized wide = qa;
          if (qa.spec.has_outer_scale()) {
            wide.tensor_scale.assign(static_cast<size_t>(qa.rows * outer_scale_cols(k)), 0.75f);
          }
          compare(wide, qb,
                  std::string(format[0]) + " | " + format[1] + " codes " + std::to_string(static_cast<int>(a)) + " " +
                      std::to_string(static_cast<int>(b)) + " spread " + std::to_string(spread));
        }
      }
    }
  }
}

// A tile's sums of int32 are largest here.
TEST_CASE("products of the largest elements everywhere", "[quick]") {
  Random random(2);
  for (const auto& format : formats) {
    for (const bool negative : {false, true}) {
      Quantized a = filled(format[0], 16, 96, {Codes::largest, false, 0, 0}, random);
      const Quantized b = filled(format[1], 33, 96, {Codes::largest, false, 0, 0}, random);
      if (a.spec.has_outer_scale()) a.tensor_scale.assign(16, 1.0f);
      const FloatFormat& f = format_of(a.spec.element);
      for (int64_t k = 0; negative && k < a.cols; ++k) a.set_code(3, k, f.sign_code() | f.largest_code);
      compare(a, b, std::string(format[0]) + " | " + format[1]);
    }
  }
}

// Two blocks of e4m3: the first leaves an accumulator of 24 bits (15 * 2^20 + odd), the second adds half of its last
// place, give or take the product of two subnormals or of elements on either side of a unit, with either sign.
TEST_CASE("ties at the rounding of a block, and beside them", "[quick]") {
  const FloatFormat& f = format_of(Element::e4m3);
  const auto code = [](float x) { return encode(f, exact_magnitude(x), x < 0.0f, {}); };
  for (const float odd : {0.0f, 1.0f, 2.0f, 3.0f}) {
    for (const float sign : {1.0f, -1.0f}) {
      for (const float x : {0.0f, 0x1p-9f, 7 * 0x1p-9f, 0x1p-3f, 0x1.2p-6f, 1.875f}) {
        for (const float y : {0x1p-9f, -0x1p-9f, -7 * 0x1p-9f, 0x1p-6f, -0x1.ep-4f}) {
          for (const int first : {0, 3, 12}) {
            Quantized a = operand("mxfp8", 9, 64, 0);
            Quantized b = operand("mxfp8", 20, 64, 0);
            for (int64_t r = 0; r < a.rows; ++r) {
              a.set_code(r, 0, code(sign * 256.0f));
              a.set_code(r, 1, code(sign * odd));
              a.set_code(r, 32, code(2.0f));  // with its scale: half of the last place of 15 * 2^(first + 12)
              a.set_code(r, 33, code(x));
              a.set_code(r, 34, code(r % 2 == 0 ? x : -x));
            }
            for (int64_t r = 0; r < b.rows; ++r) {
              b.set_code(r, 0, code(240.0f));
              b.set_code(r, 1, code(0x1p-9f * static_cast<float>(r % 3 + 1)));
              b.set_code(r, 32, code(r % 2 == 0 ? 1.0f : -1.0f));
              b.set_code(r, 33, code(y));
              b.set_code(r, 34, code(r % 4 == 0 ? y : 0.0f));
            }
            // 256 * 240 lies in [2^15, 2^16): its last place is 2^-8.
            for (size_t r = 0; r < static_cast<size_t>(a.rows); ++r) {
              a.scales[2 * r] = static_cast<uint8_t>(127 + first);
              a.scales[2 * r + 1] = static_cast<uint8_t>(127 + first - 10);
            }
            compare(a, b, "ties");
          }
        }
      }
    }
  }
}

// Three blocks: a sum, what ties with it where scales are right, and a little more. The first product of the second
// block is large_a * large_b, its second `tiny` quanta of A times one, or a quantum.
struct TiedBlocks {
  Quantized a;
  Quantized b;
};
TiedBlocks tied_blocks(const char* words, float large_a, float large_b, float tiny) {
  const QuantSpec spec = quant_spec_from_words(words);
  const FloatFormat& f = format_of(spec.element);
  const int64_t block = spec.block.size;
  const auto code = [&f](float x) { return encode(f, exact_magnitude(x), x < 0.0f, {}); };
  const float least = std::ldexp(1.0f, f.quantum_log2());
  TiedBlocks t = {operand(spec, 9, 3 * block, 0), operand(spec, 34, 3 * block, 0)};
  for (int64_t r = 0; r < t.a.rows; ++r) {
    t.a.set_code(r, 0, code(r % 3 == 0 ? -256.0f : 256.0f));
    t.a.set_code(r, 1, code(static_cast<float>(r % 4)));
    t.a.set_code(r, block, code(large_a));
    t.a.set_code(r, block + 1, code(tiny * least));
    t.a.set_code(r, 2 * block, code(r % 2 == 0 ? 1.75f : 0.0f));
  }
  for (int64_t c = 0; c < t.b.rows; ++c) {
    t.b.set_code(c, 0, code(256.0f));
    t.b.set_code(c, 1, code(0x1p-9f * static_cast<float>(c % 3 + 1)));
    t.b.set_code(c, block, code(c % 2 == 0 ? large_b : -large_b));
    t.b.set_code(c, block + 1, code(c % 3 == 0 ? least : 1.0f));
    t.b.set_code(c, 2 * block, code(c % 5 == 0 ? least : 0.0f));
  }
  return t;
}

// The second block ends in a tie that its largest product makes, or its sum leaves, and something far smaller beside
// it: from one alignment to the next the distance grows beyond what 24, and 53, bits hold.
TEST_CASE("ties of blocks far apart, and beside them", "[quick]") {
  for (const char* words : {"mxfp8", "mxfp8,element=e5m2", "mxfp8,block=16", "mxfp8,block=128"}) {
    for (const float large : {8.0f, 32.0f, 256.0f}) {
      for (const float tiny : {0.0f, 1.0f, -1.0f, 3.0f, -64.0f}) {
        for (int shift = -44; shift <= 4; ++shift) {
          TiedBlocks t = tied_blocks(words, large, large, tiny);
          for (int64_t r = 0; r < t.a.rows; ++r) {
            t.a.scales[static_cast<size_t>(3 * r)] = static_cast<uint8_t>(127 + r % 2);
            t.a.scales[static_cast<size_t>(3 * r + 1)] = static_cast<uint8_t>(127 + shift / 2);
          }
          for (int64_t c = 0; c < t.b.rows; ++c) {
            t.b.scales[static_cast<size_t>(3 * c + 1)] = static_cast<uint8_t>(127 + shift - shift / 2);
          }
          compare(t.a, t.b, std::string(words) + " shift " + std::to_string(shift));
        }
      }
    }
  }
}

float scale_value(const QuantSpec& s, bool is_odd, int exponent) {
  const float significand = is_odd ? 2.0f - std::ldexp(1.0f, -format_of(s.scale).mantissa_bits) : 1.0f;
  return std::ldexp(significand, exponent);
}

// The last bit of a scale product decides: for some shift it lies at half of the last place of the sum, with what its
// largest product leaves, or far smaller products, beside it.
TEST_CASE("ties by the bits of scales, and beside them", "[quick]") {
  for (const char* words : {"mxfp8,scale=ue4m3,block=16", "mxfp8,scale=bf16,block=8", "mxfp8,scale=fp32",
                            "mxfp8,element=e5m2,scale=fp32,block=16"}) {
    const QuantSpec spec = quant_spec_from_words(words);
    for (const float large : {8.0f, 160.0f}) {
      for (const float tiny : {0.0f, 1.0f, -1.0f, 3.0f, -64.0f}) {
        for (int shift = spec.scale == Scale::ue4m3 ? -10 : -40; shift <= 4; ++shift) {
          TiedBlocks t = tied_blocks(words, large, 8.0f, tiny);
          for (int64_t r = 0; r < t.a.rows; ++r) {
            set_scale(t.a, 3 * r, scale_value(spec, r % 4 == 3, 0));
            set_scale(t.a, 3 * r + 1, scale_value(spec, r % 2 == 0, shift / 2));
          }
          for (int64_t c = 0; c < t.b.rows; ++c) {
            set_scale(t.b, 3 * c + 1, scale_value(spec, c % 4 >= 2, shift - shift / 2));
          }
          compare(t.a, t.b, std::string(words) + " shift " + std::to_string(shift));
        }
      }
    }
  }
}

// Dots of whole rows that no fp32 holds: e2m3 from 4,661 columns on, e3m0 from 4,097.
TEST_CASE("long rows of small elements", "[quick]") {
  Random random(9);
  for (const char* words :
       {"mxfp4,element=e2m3,block=row", "mxfp4,element=e3m0,block=row", "mxfp4,element=e2m3,scale=fp32,block=row",
        "mxfp4,element=e3m0,scale=ue4m3,block=tensor", "mxfp4,element=e2m3,block=row,tensor_scale=current"}) {
    for (const Codes codes : {Codes::largest, Codes::any}) {
      for (const int64_t k : {4096, 4097, 4660, 4661, 6001}) {
        const bool has_signs = codes == Codes::any;
        const Quantized a = filled(words, 3, k, {codes, has_signs, 0, 1}, random);
        compare(a, filled(words, 5, k, {codes, has_signs, 0, 1}, random), std::string(words) + " long row");
      }
    }
  }
}

// Negative dots times a scale of zero are -0, and sums of those +0.
TEST_CASE("negative rows under scales of zero", "[quick]") {
  Random random(8);
  for (const char* words :
       {"mxfp8,scale=ue4m3,block=16", "mxfp8,scale=ue5m3,block=8", "mxfp8,scale=fp32", "mxfp8,scale=bf16",
        "mxfp6_e3m2,scale=ue4m3,block=16", "mxfp8,element=e5m2,scale=ue5m3", "nvfp4", "ue5m3fp4", "nvfp4,scale=fp32",
        "nvfp4,scale=bf16,block=8", "nvfp4,block=row", "mxfp8,scale=ue4m3,block=row"}) {
    for (const int64_t k : {7, 64, 200}) {
      Quantized a = filled(words, 12, k, {Codes::large, false, 0, 1}, random);
      const Quantized b = filled(words, 19, k, {Codes::large, false, 0, 1}, random);
      const FloatFormat& f = format_of(a.spec.element);
      for (int64_t r = 0; r < a.rows; ++r) {
        for (int64_t i = 0; i < k; ++i) a.set_code(r, i, f.sign_code() | a.code(r, i));
        // Whole rows, rows but for their first block, and none.
        for (int64_t i = r % 3 == 0 ? 0 : 1; r % 3 != 2 && i < a.geometry.scale_cols; ++i) {
          set_scale(a, r * a.geometry.scale_cols + i, 0.0f);
        }
      }
      for (const char* accumulator :
           {"fp32_block", "exact", "k64_rz", "k64_rz_snap", "fused35_rz", "fused25_rz", "fp32_sequential", "double"}) {
        compare_products(a, b, accumulator_from_words(accumulator), std::string(words) + " " + accumulator);
        compare_products(b, a, accumulator_from_words(accumulator), std::string(words) + " " + accumulator);
      }
    }
  }
}

// One such element in all of a tile: in either half of a panel, in either panel, or at the end of K.
TEST_CASE("elements beside and below the quantum of pairs", "[quick]") {
  Random random(6);
  const FloatFormat& f = format_of(Element::e5m2);
  for (const char* other : {"mxfp8,element=e5m2", "mxfp8", "mxfp4"}) {
    for (const float x : {0.25f, 0.375f, 0.625f, 0.75f, 0.875f, 1.25f, 1.75f, 0x1p-3f, 0x1p-16f, 3 * 0x1p-16f}) {
      for (int trial = 0; trial < 4; ++trial) {
        const int64_t k = 40 + pick(random, 90);
        Quantized q[2] = {filled("mxfp8,element=e5m2", 17, k, {Codes::large, true, 0, trial}, random),
                          filled(other, 40, k, {Codes::large, true, 0, trial}, random)};
        const bool in_b = other == std::string("mxfp8,element=e5m2") && pick(random, 2) == 0;
        Quantized& deep = q[in_b ? 1 : 0];
        deep.set_code(pick(random, static_cast<int>(deep.rows)), pick(random, 3) == 0 ? k - 1 : pick(random, 40),
                      encode(f, exact_magnitude(x), pick(random, 2) == 0, {}));
        compare(q[0], q[1], std::string(other) + " " + std::to_string(x));
        compare(q[1], q[0], std::string(other) + " on the left " + std::to_string(x));
      }
    }
  }
}

// Sums of blocks pass 2^128, once with either sign, and stay infinite.
TEST_CASE("blocks of wide elements that overflow", "[quick]") {
  Random random(7);
  for (const auto& format : formats) {
    for (const int sum : {85, 88, 90, 110}) {
      for (const bool negative : {false, true}) {
        const int64_t k = 1024;
        const auto fill = [&](const char* words, int64_t rows, int exponent) {
          Quantized q = filled(words, rows, k, {Codes::largest, false, exponent, 0}, random);
          if (q.spec.has_outer_scale()) {
            q.tensor_scale.assign(static_cast<size_t>(rows * outer_scale_cols(k)), 1.0f);
          }
          return q;
        };
        Quantized a = fill(format[0], 10, sum / 2);
        const FloatFormat& f = format_of(a.spec.element);
        for (int64_t i = 0; i < k; ++i) {
          a.set_code(3, i, f.sign_code() | f.largest_code);
          if (negative && i >= k / 2) a.set_code(4, i, f.sign_code() | f.largest_code);
        }
        const Quantized b = fill(format[1], 18, sum - sum / 2);
        const std::string what =
            std::string(format[0]) + " | " + format[1] + " overflow, exponent sum " + std::to_string(sum);
        compare(a, b, what);
        for (const char* accumulator : {"fused35_rz", "fused25_rz", "fp32_sequential", "double"}) {
          compare_products(a, b, accumulator_from_words(accumulator), what + " " + accumulator);
        }
      }
    }
  }
}

TEST_CASE("wide elements at both ends of fp32", "[quick]") {
  Random random(4);
  for (const auto& format : formats) {
    for (const int sum :
         {-254, -160, -150, -140, -130, -127, -118, -112, -111, -110, -109, -100, 80, 89, 90, 91, 100, 120, 200, 250}) {
      const int ea = sum / 2;
      const auto fill = [&](const char* words, int64_t rows, int exponent) {
        Quantized q = filled(words, rows, 100, {one_of(random, all_codes), true, smaller(exponent, 126), 1}, random);
        if (q.spec.has_outer_scale()) q.tensor_scale.assign(static_cast<size_t>(rows), 1.0f);
        return q;
      };
      compare(fill(format[0], 10, ea), fill(format[1], 18, sum - ea),
              std::string(format[0]) + " | " + format[1] + " exponent sum " + std::to_string(sum));
    }
  }
}

}  // namespace
}  // namespace fp4
