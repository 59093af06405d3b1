// The GPU kernels without a GPU: the same bodies, run by host loops (tests/support/host_device.h) in several launches.
// The matrix units of both vendors are emulated lane by lane.
#include <catch2/catch.hpp>
#include <random>

#include "fp4/exact_sum.h"
#include "src/arith/spec_text.h"
#include "src/backends/backends.h"
#include "src/gpu/gpu_backend.h"
#include "src/gpu/pipeline.h"
#include "tests/support/gpu_cases.h"
#include "tests/support/host_device.h"
#include "tools/bench/device_rates.h"

namespace fp4 {
namespace {

// First of all cases: the others ask.
TEST_CASE("gpu backend: auto asks for no device", "[quick]") {
  const std::vector<float> x(64 * 64, 1.5f);
  const Dispatcher dispatcher("auto");
  MultiplyCall call;
  call.a = {.x = view_of(x.data(), 64, 64), .spec = nvfp4_spec};
  call.b = {.x = view_of(x.data(), 64, 64), .spec = mxfp4_spec};
  std::vector<float> c(64 * 64);
  call.c = c.data();
  call.c_stride = 64;
  dispatcher.multiply(call);
  Quantized q;
  dispatcher.quantize(call.a, q);
  dispatcher.dequantize(q, c.data(), 1);
  CHECK_FALSE(gpu_was_asked());
}

TEST_CASE("long division equals the compiler's 128-bit division", "[quick]") {
  std::mt19937_64 random(1);
  for (int i = 0; i < 20000; ++i) {
    uint64_t divisor = random() | uint64_t{1} << 63;
    if (i % 5 == 0) divisor = ~uint64_t{0} << (random() % 63 + 1) | uint64_t{1} << 63;  // extreme digits
    if (i % 7 == 0) divisor = uint64_t{1} << 63;
    uint64_t numerator = random() | uint64_t{1} << 63;
    if (i % 3 == 0) numerator = divisor - random() % 3;
    if (numerator >> 63 == 0) numerator = ~uint64_t{0};
    const uint128 wide = static_cast<uint128>(numerator) << 63;
    const LongQuotient q = long_division(numerator >> 1, numerator << 63, divisor);
    REQUIRE(q.quotient == static_cast<uint64_t>(wide / divisor));
    REQUIRE(q.remainder == static_cast<uint64_t>(wide % divisor));
  }
}

TEST_CASE("gpu bodies: quantisers", "[quick]") {
  gpu::HostDevice device(gpu::MatrixKind::none);
  SECTION("every rounding") { test::compare_roundings(device); }
  SECTION("every scale rule and order of operations") { test::compare_scale_rules(device); }
  SECTION("formats, blocks, policies, presets") { test::compare_formats(device); }
  SECTION("Hadamards, transposes, bands, smooth maxima") { test::compare_hadamards(device); }
  SECTION("row and column copies in one pass") { test::compare_both_ways(device); }
  SECTION("whole runs of 32") { test::compare_runs(device); }
  SECTION("bit comparison") { test::compare_bit_comparison(device); }
}

TEST_CASE("gpu bodies: every accumulator on plain arithmetic", "[quick]") {
  gpu::HostDevice device(gpu::MatrixKind::none);
  test::compare_accumulators(device);
  test::compare_wide_products(device);
  test::compare_ordered_products(device);
  test::compare_zero_scales(device);
}

constexpr gpu::MatrixKind units[] = {gpu::MatrixKind::nvidia, gpu::MatrixKind::amd};

TEST_CASE("gpu bodies: fp32_block on the matrix units", "[quick]") {
  for (const gpu::MatrixKind unit : units) {
    gpu::HostDevice device(unit, 2);
    test::compare_block_products(device);
    test::compare_extreme_products(device);
    test::compare_zero_scales(device);
  }
  const Accumulator& exact = accumulator_table[0].row;
  CHECK_FALSE(gpu::matrix_plan(mxfp4_spec, mxfp4_spec, exact).fits);
  CHECK(gpu::matrix_plan(mxfp4_spec, nvfp4_spec, fp32_block).fits);
  const QuantSpec wide = quant_spec_from_words("nvfp4,scale=ue1m6");  // 2 + 7 bits are none of bf16's 8
  CHECK_FALSE(gpu::matrix_plan(wide, wide, fp32_block).fits);
  const QuantSpec mxfp8 = quant_spec_from_words("mxfp8");  // sums of 2^31 quanta
  CHECK_FALSE(gpu::matrix_plan(mxfp8, mxfp8, fp32_block).fits);
}

// The addition in fp64, rounded to odd, against exact sums.
TEST_CASE("gpu bodies: a sum with a power of two outside rounds once", "[quick]") {
  std::mt19937 random(7);
  int ties = 0;
  for (int i = 0; i < 100000; ++i) {
    const auto whole = static_cast<int32_t>(random() % 1037) - 518;
    const int log2 = static_cast<int>(random() % 509) - 254;
    const int gap = static_cast<int>(random() % 60) - 30;  // where the two meet
    uint32_t bits = random() & 0x807FFFFFu;
    if (i % 3 == 0) bits &= 0x80000003u;  // near powers of two, where ties lie
    const int field = std::clamp(log2 + 127 + gap, 0, 254);
    const float acc = float_of(bits | static_cast<uint32_t>(field) << 23);
    const float got = gpu::add_far(acc, static_cast<float>(whole), log2);
    ExactSum sum;
    sum.add(acc);
    sum.add(int128{whole}, log2);
    const float expected = sum.round(Rounding::nearest_even);
    INFO("acc " << acc << " d " << whole << " log2 " << log2);
    REQUIRE(bits_of(got + 0.0f) == bits_of(expected + 0.0f));
    ties += got == acc && whole != 0 ? 1 : 0;
  }
  CHECK(ties > 1000);
}

// Sets how many bits the emulated floating-point units keep, for the life of the object.
class EmulatedBits {
 public:
  explicit EmulatedBits(int bits) : before_(gpu::emulated_fraction_bits) { gpu::emulated_fraction_bits = bits; }
  ~EmulatedBits() { gpu::emulated_fraction_bits = before_; }

 private:
  int before_;
};

// The first instruction of a block of 32 products of e3m2 hands on sums of 22 bits.
TEST_CASE("gpu probe: a unit that keeps too few bits is refused", "[quick]") {
  for (const gpu::MatrixKind kind : units) {
    gpu::HostDevice device(kind);
    gpu::Pool pool(device);
    for (const int bits : {12, 20, 21, 24}) {
      const EmulatedBits emulated(bits);
      INFO("unit " << static_cast<int>(kind) << ", " << bits << " bits");
      CHECK(gpu::probe_matrix_unit(pool, kind) == (bits >= 21));
    }
  }
}

// Only that it measures what it says, on data that small.
TEST_CASE("gpu bench: bits first, then ratios", "[quick]") {
  gpu::HostDevice device(gpu::MatrixKind::nvidia);
  const gpu::BenchSize small = {32, 64, {16}, 8, 1};
  const std::vector<gpu::Measurement> rows = gpu::bench(device, small);
  REQUIRE(rows.size() == 20);
  for (const gpu::Measurement& row : rows) {
    INFO(row.what);
    CHECK(row.is_equal);
    CHECK(row.seconds > 0);
    CHECK((row.yardstick == "copy") == (row.unit == "GB/s" && row.what != "copy"));
  }
  // A unit that keeps too few bits must show as a difference, and is not timed.
  const EmulatedBits too_few(6);
  const std::vector<gpu::Measurement> wrong = gpu::bench(device, {0, 0, {16}, 8, 1});
  REQUIRE(wrong.front().what == "gemm mxfp4 fp32_block");
  CHECK_FALSE(wrong.front().is_equal);
  CHECK(wrong.front().seconds == 0);
  if (gpu_backend().available()) return;
  CHECK_THROWS_WITH(gpu::bench(), Catch::Contains(gpu_status()));
}

TEST_CASE("gpu backend: memory is pooled, a missing device is named", "[quick]") {
  gpu::HostDevice device(gpu::MatrixKind::nvidia);
  {
    gpu::Pool pool(device);
    for (int step = 0; step < 5; ++step) gpu::Buffer<float>(pool, 1000 + step);
    CHECK(pool.allocations() == 1);
  }
  CHECK_FALSE(gpu::make_backend(nullptr)->available());
  gpu::Pool pool(device);
  CHECK_FALSE(gpu::probe_native(pool));  // host loops have no conversion of their own
  if (gpu_backend().available()) return;
  CHECK_THROWS_WITH(Dispatcher("gpu"), Catch::Contains(gpu_status()));
}

}  // namespace
}  // namespace fp4
