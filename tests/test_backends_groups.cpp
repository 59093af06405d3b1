// Sums of groups of blocks. As integers (src/cpu/gemm/group_scales_body.h): spreads of scales at and beyond what 16 bits
// can carry, sums that need every bit of 32, groups cut short by K, blocks of zeros and of NaN. Expected values come
// from the reference.
#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <random>

#include "src/backends.h"
#include "src/spec_text.h"
#include "tests/support/backends_under_test.h"

namespace fp4 {
namespace {

constexpr float e2m1_values[] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6};

enum class Fill { mixed, largest, holes };

// Blocks whose scales are m * 2^e, m in 8..15, with e in 0..spread, the ends among the first two blocks of a row.
std::vector<float> spread_rows(int64_t rows, int64_t k, int block, int spread, Fill fill, uint32_t seed) {
  std::mt19937 random(seed);
  const auto pick = [&random](int n) { return static_cast<int>(random() % static_cast<uint32_t>(n)); };
  std::vector<float> x(static_cast<size_t>(rows * k));
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t k0 = 0; k0 < k; k0 += block) {
      const int up = k0 == 0 ? 0 : (k0 == block ? spread : pick(spread + 1));
      const float scale = std::ldexp(fill == Fill::largest ? 15.0f : static_cast<float>(8 + pick(8)), up - 6);
      const bool is_zero = fill == Fill::holes && pick(3) == 0;
      for (int64_t i = k0; i < std::min(k, k0 + block); ++i) {
        float u = i == k0 || fill == Fill::largest ? 6.0f : e2m1_values[pick(8)];
        if (fill != Fill::largest && pick(2) == 0) u = -u;
        x[static_cast<size_t>(r * k + i)] = is_zero ? 0.0f : u * scale;
      }
      if (fill == Fill::holes && pick(60) == 0) x[static_cast<size_t>(r * k + k0)] = float_of(canonical_nan_bits);
    }
  }
  return x;
}

struct Case {
  int spread;
  Fill fill;
  int64_t k;
  const char* accumulator;
};

void compare(const std::vector<const Backend*>& backends, const std::string& words, int block, const Case& c) {
  const int64_t rows_a = 19, rows_b = 37;
  const std::vector<float> a = spread_rows(rows_a, c.k, block, c.spread, c.fill, 1);
  const std::vector<float> b = spread_rows(rows_b, c.k, block, c.spread / 2, c.fill, 2);
  MultiplyCall call;
  call.a.x = view_of(a.data(), rows_a, c.k);
  call.b.x = view_of(b.data(), rows_b, c.k);
  call.a.spec = call.b.spec = quant_spec_from_words(words);
  for (const AccumulatorInfo& info : accumulator_table) {
    if (std::string(info.name) == c.accumulator) call.options.accumulator = info.row;
  }
  std::vector<float> expected(static_cast<size_t>(rows_a * rows_b), -7.0f);
  call.c = expected.data();
  call.c_stride = rows_b;
  Dispatcher("reference").multiply(call);
  for (const Backend* fast : backends) {
    std::vector<float> got(expected.size(), -7.0f);
    call.c = got.data();
    if (!fast->multiply(call)) continue;
    INFO(fast->name() << " " << words << " " << c.accumulator << " K " << c.k << " spread " << c.spread << " fill "
                      << static_cast<int>(c.fill));
    CHECK(std::memcmp(got.data(), expected.data(), got.size() * sizeof(float)) == 0);
  }
}

TEST_CASE("group sums of integers are those of the reference", "[quick]") {
  const std::vector<const Backend*> backends = test::backends_under_test();
  struct Format {
    const char* words;
    int block;
  };
  for (const Format& f : {Format{"ue5m3fp4", 16}, Format{"ue5m3fp4,block=8", 8}, Format{"ue5m3fp4,block=32", 32},
                          Format{"nvfp4,tensor_scale=none", 16}, Format{"ue5m3fp4,element=e1m2", 16},
                          Format{"ue5m3fp4,block=16x16", 16}, Format{"mxfp4,block=16", 16}}) {
    for (const char* accumulator : {"k64_rz", "k64_rz_snap", "exact"}) {
      for (Fill fill : {Fill::mixed, Fill::largest, Fill::holes}) {
        for (int spread = 0; spread <= 12; ++spread) {
          for (int64_t k : {64, 80, 128, 200}) compare(backends, f.words, f.block, {spread, fill, k, accumulator});
        }
      }
    }
  }
}

TEST_CASE("group sums over all of a long K", "[quick]") {
  const std::vector<const Backend*> backends = test::backends_under_test();
  for (Fill fill : {Fill::mixed, Fill::largest}) {
    for (int64_t k : {432, 464, 1040, 4096}) {
      for (int spread : {0, 3, 5, 6}) compare(backends, "ue5m3fp4", 16, {spread, fill, k, "exact"});
    }
  }
}

}  // namespace
}  // namespace fp4
