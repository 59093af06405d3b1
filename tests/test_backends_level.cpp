// Products that become one sum of integers (src/cpu/quantize/level_body.h): scale spreads at and beyond what a byte can carry,
// sums at and beyond 2^24, blocks of zeros and of NaN, odd shapes. Expected values come from the reference.
#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <random>

#include "src/backends.h"
#include "src/spec_text.h"
#include "tests/support/share.h"

namespace fp4 {
namespace {

std::vector<const Backend*> fast_backends() {
  std::vector<const Backend*> list;
  for (const Backend* b : all_backends()) {
    const std::string name = b->name();
    if (name != "reference" && name != "gpu" && b->available()) list.push_back(b);
  }
  return list;
}

constexpr float half_units[] = {0, 1, 2, 3, 4, 6, 8, 12};  // e2m1 times 2

// Through both ways in: quantised on the way, and stored. false: declined.
bool same_as_reference(const Backend& fast, const MultiplyCall& prototype, int64_t rows_a, int64_t rows_b) {
  if (!test::next_case_runs()) return true;
  MultiplyCall call = prototype;
  const auto count = static_cast<size_t>(rows_a * rows_b);
  std::vector<float> got(count, -7.0f);
  std::vector<float> stored(count, -7.0f);
  std::vector<float> expected(count, -7.0f);
  call.c_stride = rows_b;
  call.c = expected.data();
  Dispatcher("reference").multiply(call);
  call.c = got.data();
  if (!fast.multiply(call)) return true;
  Quantized a;
  Quantized b;
  reference_backend().quantize(call.a, a);
  reference_backend().quantize(call.b, b);
  fast.gemm(a, b, call.options, stored.data(), rows_b);
  const bool same = std::memcmp(got.data(), expected.data(), count * sizeof(float)) == 0;
  const bool stored_same = std::memcmp(stored.data(), expected.data(), count * sizeof(float)) == 0;
  CHECK(same);
  CHECK(stored_same);
  return same && stored_same;
}

// Blocks of 32 whose scale exponents lie 0..spread above `base`; the first block of a row has the least, the second the
// largest. Some blocks are zero, and where asked some hold a NaN.
std::vector<float> spread_rows(int64_t rows, int64_t k, int base, int spread, bool with_nan, uint32_t seed) {
  std::mt19937 random(seed);
  const auto pick = [&random](int n) { return static_cast<int>(random() % static_cast<uint32_t>(n)); };
  std::vector<float> x(static_cast<size_t>(rows * k));
  for (int64_t r = 0; r < rows; ++r) {
    const int row_base = base + pick(3);
    for (int64_t k0 = 0; k0 < k; k0 += 32) {
      const int up = k0 == 0 ? 0 : (k0 == 32 ? spread : pick(spread + 1));
      const bool zero = k0 > 32 && pick(5) == 0;
      for (int64_t i = k0; i < std::min(k, k0 + 32); ++i) {
        const float unit = i == k0 ? 8.0f : half_units[pick(8)];
        x[static_cast<size_t>(r * k + i)] = zero ? 0.0f : std::ldexp(pick(2) == 0 ? unit : -unit, row_base + up - 1);
      }
      if (with_nan && pick(40) == 0) x[static_cast<size_t>(r * k + k0)] = float_of(canonical_nan_bits);
    }
  }
  return x;
}

TEST_CASE("scale spreads at and beyond what bytes can carry", "[quick]") {
  struct Case {
    int64_t m, n, k;
    int spread_a, spread_b;
    bool with_nan;
  };
  constexpr Case cases[] = {{33, 70, 160, 3, 3, false}, {33, 49, 100, 3, 4, false},  {17, 31, 97, 4, 3, false},
                            {8, 16, 64, 2, 3, true},    {40, 100, 33, 0, 0, false},  {1, 1, 200, 3, 0, false},
                            {24, 113, 520, 3, 2, true}, {19, 50, 1100, 1, 2, false}, {50, 33, 96, 7, 0, false}};
  uint32_t seed = 1;
  for (const Backend* fast : fast_backends()) {
    for (const AccumulatorInfo& row : accumulator_table) {
      for (const Case& c : cases) {
        for (const int base : {0, -20, -66, 58}) {
          const std::vector<float> a = spread_rows(c.m, c.k, base, c.spread_a, c.with_nan, seed++);
          const std::vector<float> b = spread_rows(c.n, c.k, base, c.spread_b, c.with_nan, seed++);
          MultiplyCall call;
          call.a.x = view_of(a.data(), c.m, c.k);
          call.b.x = view_of(b.data(), c.n, c.k);
          call.options.accumulator = row.row;
          INFO(fast->name() << " " << row.name << " " << c.m << "x" << c.n << "x" << c.k << " spreads " << c.spread_a
                            << " " << c.spread_b << " base " << base);
          same_as_reference(*fast, call, c.m, c.n);
        }
      }
    }
  }
}

// Level bytes of 96: the first block fixes the unit, 1820 elements of 6 * 2^3 give 1820 * 9216 = 2^24 - 4096, and 28
// times 144 plus 8 * 8 in the first block make it 2^24. One unit less and one more, signs mixed or not.
TEST_CASE("sums at and beyond 2^24", "[quick]") {
  constexpr int64_t k = 32 + 1824;
  constexpr int64_t rows = 16;
  std::mt19937 random(3);
  for (const Backend* fast : fast_backends()) {
    for (const AccumulatorInfo& row : accumulator_table) {
      for (const int extra : {-1, 0, 1, 3}) {
        for (const bool mixed : {false, true}) {
          std::vector<float> x(rows * k, 0.0f);
          for (int64_t r = 0; r < rows; ++r) {
            float* v = x.data() + r * k;
            for (int64_t i = 0; i < 28; ++i) v[i] = 6.0f;
            v[28] = extra < 0 ? 3.0f : 4.0f;              // 36 or 64 of 2^24's last 64
            if (extra < 0) v[29] = v[30] = v[31] = 1.5f;  // 27 more: one unit less
            for (int64_t i = 29; i < 29 + extra; ++i) v[i] = 0.5f;
            for (int64_t i = 0; i < 1820; ++i) v[32 + i] = 48.0f;
          }
          std::vector<float> y = x;
          for (float& v : y) v = mixed && random() % 2 == 0 ? -v : v;
          MultiplyCall call;
          call.a.x = view_of(x.data(), rows, k);
          call.b.x = view_of(y.data(), rows, k);
          call.options.accumulator = row.row;
          INFO(fast->name() << " " << row.name << " extra " << extra << " mixed " << mixed);
          same_as_reference(*fast, call, rows, rows);
        }
      }
    }
  }
}

TEST_CASE("level products of other formats, tensor factors and threads", "[quick]") {
  std::mt19937 random(9);
  std::normal_distribution<float> normal;
  for (const Backend* fast : fast_backends()) {
    for (const char* words :
         {"mxfp4,block=16", "mxfp4,element=e1m2", "mxfp4,element=e3m0", "mxfp6", "mxfp4,prescale=0.75",
          "mxfp4,tensor_scale=current", "mxfp4,zero_block=limit", "mxfp4,block=32x32", "mxfp4,block=tensor",
          "mxfp4,scale=ue5m3,scale_rule=floor,zero_scale=keep", "mxfp4,tensor_scale=outer128"}) {
      for (const char* name : {"fp32_block", "exact", "k64_rz_snap", "fused35_rz"}) {
        constexpr int64_t m = 35;
        constexpr int64_t n = 51;
        constexpr int64_t k = 170;
        std::vector<float> a(m * k);
        std::vector<float> b(n * k);
        for (float& v : a) v = normal(random);
        for (float& v : b) v = normal(random) * 1e-3f;
        for (int64_t i = 0; i < k; ++i) a[static_cast<size_t>(7 * k + i)] = 0.0f;  // a dead row
        MultiplyCall call;
        call.a.x = view_of(a.data(), m, k);
        call.b.x = view_of(b.data(), n, k);
        call.a.spec = call.b.spec = quant_spec_from_words(words);
        call.options.accumulator = accumulator_from_words(name);
        call.options.hadamard_divisor = 32.0f;
        INFO(fast->name() << " " << words << " " << name);
        same_as_reference(*fast, call, m, n);
      }
    }
  }
}

// Scales far apart: blocks whose terms are cut against each other and against the accumulator.
TEST_CASE("terms beyond the cut of aligned sums", "[quick]") {
  uint32_t seed = 50;
  for (const Backend* fast : fast_backends()) {
    for (const char* name : {"fused35_rz", "fused25_rz", "k64_rz", "exact", "fp32_block"}) {
      for (const char* words : {"mxfp4", "mxfp8", "mxfp8,element=e5m2", "mxfp6_e3m2,block=8", "nvfp4,tensor_scale=none",
                                "mxfp8,scale=ue5m3,scale_rule=amax,block=64", "mxfp4,zero_block=limit",
                                "mxfp8,tensor_scale=outer128", "mxfp8,block=row"}) {
        for (const int spread : {2, 9, 20, 40}) {
          constexpr int64_t m = 19;
          constexpr int64_t n = 34;
          constexpr int64_t k = 294;
          const std::vector<float> a = spread_rows(m, k, -10, spread, spread == 9, seed++);
          std::vector<float> b = spread_rows(n, k, -5, spread, false, seed++);
          std::mt19937 random(seed);
          for (float& v : b) v = random() % 8 == 0 ? std::ldexp(v, -static_cast<int>(random() % 12)) : v;
          MultiplyCall call;
          call.a.x = view_of(a.data(), m, k);
          call.b.x = view_of(b.data(), n, k);
          call.a.spec = call.b.spec = quant_spec_from_words(words);
          call.options.accumulator = accumulator_from_words(name);
          INFO(fast->name() << " " << words << " " << name << " spread " << spread);
          same_as_reference(*fast, call, m, n);
        }
      }
    }
  }
}

}  // namespace
}  // namespace fp4
