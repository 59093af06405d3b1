// Do the instruction sets' powers have the bits of elementary::pow, close to every decision of the quick way too: next
// to the middles between two floats, where its results are too close to call, and at its ends?
#include <catch2/catch.hpp>
#include <cmath>
#include <vector>

#include "fp4/elementary.h"
#include "sim/kernels/train_kernels.h"
#include "src/text/error.h"

using namespace fp4;
using namespace fp4::sim;

namespace {

const float exponents[] = {-0.8f, 1.0f / 3.0f - 1.0f, -0.5f, -1.0f, 1.0f, 0.25f, -0.0f, -1.5f, 7.0f};

void check_powers(const Kernels& k, const std::vector<float>& x, float y) {
  std::vector<float> out(x.size());
  k.powers(out.data(), x.data(), y, static_cast<int64_t>(x.size()));
  size_t wrong = 0, first = 0;
  for (size_t i = x.size(); i-- > 0;) {
    if (bits_of(out[i]) == bits_of(elementary::pow(x[i], y))) continue;
    ++wrong, first = i;
  }
  INFO(k.name << " " << x[first] << "^" << y << " gives " << out[first]);
  CHECK(wrong == 0);
}

template <class Check>
void on_every_set(const Check& check) {
  for (const char* name : {"generic", "avx2", "avx512"}) {
    try {
      check(kernels(name));
    } catch (const Error&) {
    }
  }
}

// x whose power lies within 2^-33 of the middle between two floats, found in fp64 around every middle of a binade
// sampled at `stride`.
std::vector<float> close_calls(float y, int stride) {
  std::vector<float> found;
  for (uint32_t m = 0; m < 1u << 23; m += static_cast<uint32_t>(stride)) {
    const double middle = static_cast<double>(float_of(0x3F800000u + m)) + 0x1p-24;
    const auto x = static_cast<float>(std::pow(middle, 1 / static_cast<double>(y)));
    const double gap = std::pow(static_cast<double>(x), static_cast<double>(y)) / middle - 1;
    if (std::fabs(gap) < 0x1p-33) found.push_back(x);
  }
  return found;
}

}  // namespace

TEST_CASE("powers are those of elementary.h on every instruction set", "[train]") {
  std::vector<float> x;
  for (uint32_t b = 0; b < 0x80000000u; b += 16411) x.push_back(float_of(b));
  for (uint32_t edge : {0u, 0x00800000u, 0x3F800000u, 0x71800000u, 0x7F800000u, 0x80000000u}) {
    for (uint32_t near = 0; near < 40; ++near) x.push_back(float_of(edge + near - 20));
  }
  on_every_set([&](const Kernels& k) {
    for (float y : exponents) check_powers(k, x, y);
    for (size_t n = 1; n < 40; ++n) check_powers(k, {x.end() - static_cast<int64_t>(n), x.end()}, -0.8f);
  });
}

TEST_CASE("powers next to the middle of two floats are rounded as elementary.h rounds them", "[train]") {
  for (float y : {-0.8f, 1.0f / 3.0f - 1.0f, -0.5f}) {
    const std::vector<float> x = close_calls(y, 5);
    INFO(x.size());
    CHECK(x.size() > 1000);
    on_every_set([&](const Kernels& k) { check_powers(k, x, y); });
  }
}

TEST_CASE("powers of every float up to 8 are those of elementary.h", "[exhaustive]") {
  on_every_set([](const Kernels& k) {
    std::vector<float> x(1 << 16);
    for (uint32_t base = 0; base < 0x41000000u; base += 1 << 16) {
      for (uint32_t i = 0; i < 1 << 16; ++i) x[i] = float_of(base + i);
      check_powers(k, x, -0.8f);
    }
  });
}
