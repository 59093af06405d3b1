// Does each rounding mode move up exactly when its definition says so? Ties, both sides of each tie, all random words.
#include <catch2/catch.hpp>

#include "fp4/codec.h"
#include "fp4/rng.h"

using namespace fp4;

namespace {

// d = numerator / 2^64 for a fraction of few bits.
Fraction fraction(double d) { return {static_cast<uint64_t>(d * 0x1p63) << 1, false}; }

uint32_t e2m1_code(float x, Rounding mode, int n = 8, uint32_t r = 0) {
  const FloatFormat& f = format_of(Element::e2m1);
  return encode(f, exact_magnitude(x), is_negative(x), {mode, n, r});
}

float e2m1_value(float x, Rounding mode) { return decode(format_of(Element::e2m1), e2m1_code(x, mode)); }

}  // namespace

TEST_CASE("ties of e2m1 go where each mode sends them", "[quick]") {
  struct Tie {
    float x, even, away, toward_zero;
  };
  const Tie ties[] = {{.25f, 0, .5f, 0}, {.75f, 1, 1, .5f}, {1.25f, 1, 1.5f, 1}, {1.75f, 2, 2, 1.5f},
                      {2.5f, 2, 3, 2},   {3.5f, 4, 4, 3},   {5.0f, 4, 6, 4}};
  for (const Tie& t : ties) {
    CHECK(e2m1_value(t.x, Rounding::nearest_even) == t.even);
    CHECK(e2m1_value(t.x, Rounding::nearest_away) == t.away);
    CHECK(e2m1_value(t.x, Rounding::nearest_toward_zero) == t.toward_zero);
    const float below = float_of(bits_of(t.x) - 1);
    const float above = float_of(bits_of(t.x) + 1);
    const float low = e2m1_value(t.x, Rounding::toward_zero);
    const float high = e2m1_value(t.x, Rounding::away_from_zero);
    for (const Rounding mode : {Rounding::nearest_even, Rounding::nearest_away, Rounding::nearest_toward_zero}) {
      CHECK(e2m1_value(below, mode) == low);
      CHECK(e2m1_value(above, mode) == high);
    }
  }
}

TEST_CASE("directed modes look at the sign", "[quick]") {
  CHECK(e2m1_value(2.1f, Rounding::toward_positive) == 3);
  CHECK(e2m1_value(2.1f, Rounding::toward_negative) == 2);
  CHECK(e2m1_value(-2.1f, Rounding::toward_positive) == 2);  // magnitudes: the sign is added by the caller
  CHECK(e2m1_value(-2.1f, Rounding::toward_negative) == 3);
  CHECK(e2m1_value(3.0f, Rounding::away_from_zero) == 3);
  CHECK(e2m1_value(3.0000002f, Rounding::away_from_zero) == 4);
  CHECK(e2m1_value(2.9999998f, Rounding::toward_zero) == 2);
}

TEST_CASE("finite values saturate whatever the mode", "[quick]") {
  for (const RoundingInfo& mode : rounding_table) {
    CHECK(e2m1_code(6.0f, mode.id, 8, 255) == 7);
    CHECK(e2m1_code(float_of(float_largest_bits), mode.id, 8, 0) == 7);
    CHECK(e2m1_code(0.0f, mode.id, 8, 255) == 0);
  }
}

TEST_CASE("over all random words the ups are rne(t), floor(t+1/2), floor(t)", "[quick]") {
  struct Case {
    double t;  // d * 2^n
    uint64_t rne, midpoint, truncated;
  };
  for (const int n : {4, 8, 16}) {
    const double gap = std::ldexp(1.0, n);
    const Case cases[] = {
        {0, 0, 0, 0},
        {0.25, 0, 0, 0},
        {0.5, 0, 1, 0},
        {0.75, 1, 1, 0},
        {1, 1, 1, 1},
        {1.5, 2, 2, 1},
        {2.5, 2, 3, 2},
        {7.5, 8, 8, 7},
        {8.5, 8, 9, 8},
        {11.25, 11, 11, 11},
        {gap - 1, static_cast<uint64_t>(gap) - 1, static_cast<uint64_t>(gap) - 1, static_cast<uint64_t>(gap) - 1},
        {gap - 0.5, static_cast<uint64_t>(gap), static_cast<uint64_t>(gap), static_cast<uint64_t>(gap) - 1}};
    for (const Case& c : cases) {
      uint64_t ups[3] = {};
      for (uint64_t r = 0; r < (uint64_t{1} << n); ++r) {
        const Fraction d = fraction(c.t / gap);
        const auto word = static_cast<uint32_t>(r);
        ups[0] += rounds_up(Rounding::stochastic, d, false, false, n, word) ? 1 : 0;
        ups[1] += rounds_up(Rounding::stochastic_midpoint, d, false, false, n, word) ? 1 : 0;
        ups[2] += rounds_up(Rounding::stochastic_truncated, d, false, false, n, word) ? 1 : 0;
      }
      INFO("n = " << n << ", t = " << c.t);
      CHECK(ups[0] == c.rne);
      CHECK(ups[1] == c.midpoint);
      CHECK(ups[2] == c.truncated);
    }
  }
}

TEST_CASE("a sticky bit breaks the tie of t", "[quick]") {
  // t = 3.5 + tiny: rne(t) = 4, the same as floor(t + 1/2); t = 2.5 + tiny: 3 instead of 2
  const Fraction exact = fraction(2.5 / 16);
  const Fraction above = {exact.bits, true};
  CHECK(!rounds_up(Rounding::stochastic, exact, false, false, 4, 13));  // 2 + 13 < 16
  CHECK(rounds_up(Rounding::stochastic, above, false, false, 4, 13));   // 3 + 13 = 16
}

TEST_CASE("32-bit draws at both ends", "[quick]") {
  CHECK(!rounds_up(Rounding::stochastic, fraction(0.5), false, false, 32, 0x7FFFFFFFu));
  CHECK(rounds_up(Rounding::stochastic, fraction(0.5), false, false, 32, 0x80000000u));
  CHECK(rounds_up(Rounding::stochastic, {~uint64_t{0}, true}, false, false, 32, 0));   // t rounds to 2^32
  CHECK(!rounds_up(Rounding::stochastic, {1, false}, false, false, 32, 0xFFFFFFFFu));  // t rounds to 0
}

TEST_CASE("Philox4x32-10 gives the known answers of Random123", "[quick]") {
  const auto words = [](PhiloxBlock counter, uint32_t k0, uint32_t k1) {
    const PhiloxBlock b = philox4x32_10(counter, k0, k1);
    return std::vector<uint32_t>(b.word, b.word + 4);
  };
  const uint32_t all = 0xFFFFFFFFu;
  CHECK(words({{0, 0, 0, 0}}, 0, 0) == std::vector<uint32_t>{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
  CHECK(words({{all, all, all, all}}, all, all) ==
        std::vector<uint32_t>{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
  CHECK(words({{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}}, 0xa4093822, 0x299f31d0) ==
        std::vector<uint32_t>{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});
  CHECK(words({{0, 0, 3, 2}}, 5, 0) == std::vector<uint32_t>{0x4FC3EC2A, 0x69D49677, 0x914F47B6, 0x85E8C7F1});
}

TEST_CASE("draws are cut from the low end of word 0", "[quick]") {
  const RandomPlace at = {5, 3, 2};
  CHECK(random_draw(at, 0, 8) == 0x2A);
  CHECK(random_draw(at, 1, 8) == 0xEC);
  CHECK(random_draw(at, 3, 8) == 0x4F);
  CHECK(random_draw(at, 4, 8) == 0x77);
  CHECK(random_draw(at, 0, 4) == 0xA);
  CHECK(random_draw(at, 1, 4) == 0x2);
  CHECK(random_draw(at, 3, 16) == 0x69D4);
  CHECK(random_draw(at, 3, 32) == 0x85E8C7F1u);
  CHECK(random_draw(at, 15, 8) == 0x85);
  CHECK(random_draw(at, 16, 8) == (random_block(at, 1).word[0] & 0xFF));
}
