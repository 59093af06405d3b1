// Is the transform orthogonal in integers, are signs what the words say, and do transforms cancel in a product?
#include <catch2/catch.hpp>

#include "fp4/hadamard.h"

using namespace fp4;

TEST_CASE("H H^T = h I in integers, Sylvester order", "[quick]") {
  for (const int h : hadamard_sizes) {
    const HadamardSpec spec = {h, HadamardSigns::none, HadamardNormalise::fold};
    std::vector<std::vector<float>> columns;
    for (int j = 0; j < h; ++j) {
      std::vector<float> e(static_cast<size_t>(h), 0.0f);
      e[static_cast<size_t>(j)] = 1;
      hadamard_tile(e.data(), spec, {});
      columns.push_back(e);
    }
    int wrong = 0;
    for (int i = 0; i < h; ++i) {
      for (int j = 0; j < h; ++j) {
        float dot = 0;
        for (int k = 0; k < h; ++k)
          dot += columns[static_cast<size_t>(i)][static_cast<size_t>(k)] *
                 columns[static_cast<size_t>(j)][static_cast<size_t>(k)];
        wrong += dot != (i == j ? static_cast<float>(h) : 0.0f);
        // Sylvester: entry (i, j) is (-1)^popcount(i & j)
        const float entry = __builtin_popcount(static_cast<unsigned>(i & j)) % 2 == 0 ? 1.0f : -1.0f;
        wrong += columns[static_cast<size_t>(j)][static_cast<size_t>(i)] != entry;
      }
    }
    INFO("h = " << h);
    CHECK(wrong == 0);
  }
}

TEST_CASE("inverse_root is the float nearest to 1/sqrt(h)", "[quick]") {
  for (const int h : hadamard_sizes)
    CHECK(inverse_root(h) == static_cast<float>(1.0 / std::sqrt(static_cast<double>(h))));
}

TEST_CASE("the fixed signs are Transformer Engine's sixteen, repeated", "[quick]") {
  const int signs[16] = {1, 1, 1, -1, 1, -1, -1, -1, -1, -1, -1, 1, -1, 1, -1, -1};
  const HadamardSignMask mask = hadamard_signs({64, HadamardSigns::fixed, HadamardNormalise::sqrt}, {});
  for (int j = 0; j < 64; ++j) CHECK(mask.is_minus(j) == (signs[j % 16] < 0));
}

TEST_CASE("random signs follow seed, stream and, per step, the step", "[quick]") {
  const auto mask = [](HadamardSigns signs, RandomPlace at) {
    return hadamard_signs({256, signs, HadamardNormalise::sqrt}, at);
  };
  const auto equal = [](const HadamardSignMask& a, const HadamardSignMask& b) {
    return std::equal(a.word, a.word + 8, b.word);
  };
  const RandomPlace at = {9, 34, 5};
  const RandomPlace later = {9, 34, 6};
  CHECK(equal(mask(HadamardSigns::per_layer, at), mask(HadamardSigns::per_layer, later)));
  CHECK(!equal(mask(HadamardSigns::per_step, at), mask(HadamardSigns::per_step, later)));
  CHECK(!equal(mask(HadamardSigns::per_step, at), mask(HadamardSigns::per_step, {9, 35, 5})));
  const HadamardSignMask m = mask(HadamardSigns::per_step, at);
  for (uint64_t j = 0; j < 256; ++j) CHECK(m.is_minus(static_cast<int>(j)) == (random_draw(at, j, 1) != 0));
}

TEST_CASE("inverse undoes the transform exactly on integers", "[quick]") {
  for (const int h : hadamard_sizes) {
    for (const HadamardNormalise normalise : {HadamardNormalise::fold, HadamardNormalise::sqrt}) {
      const HadamardSpec spec = {h, HadamardSigns::per_step, normalise};
      const HadamardSignMask mask = hadamard_signs(spec, {1, 2, 3});
      std::vector<float> x(static_cast<size_t>(h));
      for (size_t j = 0; j < x.size(); ++j) x[j] = static_cast<float>(j % 11) - 5;
      std::vector<float> y = x;
      hadamard_tile(y.data(), spec, mask);
      inverse_hadamard_tile(y.data(), spec, mask);
      for (size_t j = 0; j < x.size(); ++j) {
        const bool exact = normalise == HadamardNormalise::fold || h == 16 || h == 64 || h == 256;
        if (exact)
          CHECK(y[j] == x[j]);
        else
          CHECK(y[j] == Approx(x[j]).margin(1e-5));
      }
    }
  }
}
