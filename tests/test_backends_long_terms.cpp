// Products with scales of 24 bits (fp32 scales, encode's multipliers), whose terms have more bits than a double: sums
// in parts of fp64 (src/cpu/gemm/wide_sums_avx512.h, src/cpu/gemm/gemm_long_terms_body.h), beside ties that what lies far below
// decides. Expected values come from the reference.
#include <catch2/catch.hpp>
#include <cmath>

#include "tests/support/compare_products.h"
#include "tests/support/filled_codes.h"

namespace fp4 {
namespace {

using namespace test;

void compare(const Quantized& a, const Quantized& b, const std::string& what) {
  for (const AccumulatorInfo& info : accumulator_table) compare_products(a, b, info.row, what + " " + info.name);
}

uint32_t code_of_one(const FloatFormat& f, bool negative) {
  return (static_cast<uint32_t>(f.bias) << f.mantissa_bits) | (negative ? f.sign_code() : 0u);
}

// Scales of 24 bits: rows begin with a float and half of its last bit (or a quarter, or a float beside), then come
// blocks of up to 60, 100 or 150 binades below, some of which cancel; groups of 64 end anywhere among them.
TEST_CASE("sums beside a tie that a block far below decides", "[quick]") {
  Random random(31);
  for (const char* words : {"mxfp4,scale=fp32,block=16", "mxfp8,scale=fp32,block=16", "mxfp4,scale=fp32,block=8",
                            "mxfp8,element=e5m2,scale=fp32", "mxfp4,scale=fp32,block=8x8"}) {
    for (int round = 0; round < 24; ++round) {
      const int64_t k = 200;
      const int depth = round % 4 == 0 ? 125 : (round % 4 == 1 ? 75 : 35);
      Quantized a = operand(words, 24, k, 0);
      Quantized b = operand(words, 40, k, 0);
      const FloatFormat& f = format_of(a.spec.element);
      const int64_t block = a.geometry.block_cols;
      for (int64_t r = 0; r < a.rows; ++r) {
        const int64_t first = pick(random, 3) * block;
        for (int64_t k0 = 0; k0 < k; k0 += block) {
          const bool negative = pick(random, 2) == 0;
          if (pick(random, 4) != 0) a.set_code(r, k0 + pick(random, 8), code_of_one(f, negative));
        }
        for (int64_t i = 0; i < a.geometry.scale_cols; ++i) {
          float& s = a.real_scales[static_cast<size_t>(r / a.geometry.block_rows * a.geometry.scale_cols + i)];
          const int64_t at = i * block - first;
          const int below = at == 0 ? 0 : (at == block ? 24 + pick(random, 2) : 26 + pick(random, depth));
          if (i > 0 && pick(random, 6) == 0) {
            s = (&s)[-1];  // cancels, or doubles
          } else {
            s = std::ldexp(pick(random, 2) == 0 ? 1.0f : significand(random), 40 - below);
          }
        }
      }
      for (int64_t r = 0; r < b.rows; ++r) {
        for (int64_t i = 0; i < k; ++i) b.set_code(r, i, code_of_one(f, pick(random, 8) == 0));
      }
      if (round % 3 == 0) {
        for (float& s : b.real_scales) s = significand(random);
      }
      compare(a, b, std::string(words) + " round " + std::to_string(round));
    }
  }
}

// A whole multiple of 2^exponent.
struct Whole {
  __int128 value;
  int exponent;
};

// Blocks 0 and 1 of a, whose scales have one exponent, times those of b.
Whole first_terms(const Quantized& a, int64_t row, const Quantized& b) {
  const FloatFormat& f = format_of(a.spec.element);
  Whole sum = {0, 0};
  for (int64_t block = 0; block < 2; ++block) {
    __int128 dot = 0;
    for (int64_t k = 8 * block; k < 8 * (block + 1); ++k) {
      dot += static_cast<__int128>(decode_fixed(f, a.code(row, k))) * decode_fixed(f, b.code(0, k));
    }
    const Magnitude sa = exact_magnitude(a.real_scales[static_cast<size_t>(row * a.geometry.scale_cols + block)]);
    const Magnitude sb = exact_magnitude(b.real_scales[static_cast<size_t>(block)]);
    sum.value += dot * static_cast<__int128>(sa.significand) * static_cast<__int128>(sb.significand);
    sum.exponent = sa.exponent + sb.exponent + 2 * f.quantum_log2();
  }
  return sum;
}

// The float of the leading 24 bits of |w|, which are taken off it.
float taken_off(Whole& w) {
  const bool negative = w.value < 0;
  unsigned __int128 rest = static_cast<unsigned __int128>(negative ? -w.value : w.value);
  int drop = 0;
  while (rest >> drop >= (1 << 24)) ++drop;
  const float leading = static_cast<float>(static_cast<uint32_t>(rest >> drop));
  rest -= rest >> drop << drop;
  w.value = negative ? -static_cast<__int128>(rest) : static_cast<__int128>(rest);
  return std::ldexp(leading, w.exponent + drop);
}

// Blocks of 8. 0 and 1: a term, and perhaps one that leaves little of it. 2 and 3: perhaps a float and half of its last
// bit. From 4 on: minus the leading 24 bits of what 0 and 1 leave, perhaps minus the next 24 and more. What is left is
// the sum, or decides how the others round, or that they are a tie.
TEST_CASE("sums that the last bits of a term decide", "[quick]") {
  Random random(32);
  const int blocks = 8;
  for (const char* words :
       {"mxfp4,scale=fp32,block=8", "mxfp8,scale=fp32,block=8", "mxfp8,element=e5m2,scale=fp32,block=8"}) {
    const FloatFormat& f = format_of(quant_spec_from_words(words).element);
    for (int round = 0; round < 40; ++round) {
      const int level = -pick(random, 45) - 2 * f.max_exponent();
      const int most = 1 + pick(random, 4);  // floats that are taken off
      Quantized a = operand(words, 20, 8 * blocks, level);
      Quantized b = operand(words, 20, 8 * blocks, 0);
      const auto any_code = [&] {
        return magnitude(Codes::large, f, random) | (pick(random, 4) == 0 ? f.sign_code() : 0u);
      };
      const float first_scale = significand(random);
      uint32_t codes[8];
      for (uint32_t& c : codes) c = any_code();
      for (int64_t r = 0; r < b.rows; ++r) {
        for (int64_t i = 0; i < 16; ++i) b.set_code(r, i, codes[i % 8]);
        for (int64_t i = 16; i < b.cols; ++i) b.set_code(r, i, code_of_one(f, pick(random, 40) == 0));
        for (int64_t i = 0; i < 2; ++i) b.real_scales[static_cast<size_t>(r * blocks + i)] = first_scale;
      }
      for (int64_t r = 0; r < a.rows; ++r) {
        float* scales = a.real_scales.data() + r * blocks;
        const bool cancels = pick(random, 2) == 0;
        for (int64_t i = 0; i < 8; ++i) {
          const uint32_t code = any_code();
          a.set_code(r, i, code);
          if (cancels) a.set_code(r, 8 + i, code ^ f.sign_code());
        }
        scales[0] = std::ldexp(significand(random), level);
        scales[1] = float_of(bits_of(scales[0]) ^ (1u + static_cast<uint32_t>(pick(random, 3))));
        Whole left = first_terms(a, r, b);
        const bool negative = left.value < 0;
        const bool has_tie = pick(random, 2) == 0;
        const int above = has_tie || pick(random, 2) == 0 ? 10 : level;
        const bool both = pick(random, 2) == 0;
        for (int64_t i = 2; i < 4; ++i) {
          scales[i] = std::ldexp(1.0f, i == 2 ? above : above - 24);
          if (has_tie) a.set_code(r, 8 * i, code_of_one(f, both));
        }
        for (int64_t i = 4; i < 4 + most && left.value != 0; ++i) {
          scales[i] = taken_off(left);
          a.set_code(r, 8 * i, code_of_one(f, !negative));
        }
      }
      compare(a, b, std::string(words) + " round " + std::to_string(round));
    }
  }
}

}  // namespace
}  // namespace fp4
