// Does the C interface give the bits of the definitions, and messages instead of crashes? fp4sim.h must be C.
#include <bit>
#include <catch2/catch.hpp>
#include <cfenv>
#include <cstring>
#include <vector>

#include "src/fp4sim.h"
#include "tests/support/host_floats.h"
#include "tests/support/support.h"

TEST_CASE("the worked block of eight through C", "[quick]") {
  const float x[8] = {6.5f, -3.5f, 2.5f, 1.5f, 0.75f, -0.25f, 5, 0.5f};
  const char* spec = "mxfp4,block=8,scale_rule=rceil";
  fp4sim_array_shape shape;
  REQUIRE(fp4sim_shape(spec, 1, 8, &shape) == 0);
  CHECK(shape.code_row_bytes == 4);
  CHECK(shape.scale_rows * shape.scale_cols * shape.scale_bytes == 1);
  CHECK(shape.tensor_scales == 1);
  uint8_t codes[4], scale;
  float g, y[8];
  REQUIRE(fp4sim_quantize(spec, x, 1, 8, {0, 0, 0}, codes, &scale, &g) == 0);
  const uint8_t expected[4] = {0xC5, 0x22, 0x81, 0x04};
  CHECK(std::memcmp(codes, expected, 4) == 0);
  CHECK(scale == 128);
  REQUIRE(fp4sim_dequantize(spec, 1, 8, codes, &scale, &g, y) == 0);
  const float decoded[8] = {6, -4, 2, 2, 1, -0.0f, 4, 0};
  CHECK(std::memcmp(y, decoded, sizeof y) == 0);
}

TEST_CASE("products and transforms through C", "[quick]") {
  float a[128] = {}, b[128] = {}, c = 0;
  a[0] = 0x1p22f;
  a[32] = a[64] = 1.5f;
  b[0] = 4;
  b[32] = b[64] = 1;
  REQUIRE(fp4sim_gemm("mxfp4", "mxfp4", "k64_rz", a, b, 1, 1, 128, {0, 0, 0}, &c) == 0);
  CHECK(c == 16777218.0f);
  float e[16] = {1}, h[16];
  REQUIRE(fp4sim_hadamard(e, 1, 16, 16, "none", "sqrt", {0, 0, 0}, h) == 0);
  for (const float v : h) CHECK(v == 0.25f);
}

// 16777218 = 2^24 + 2. fl32(16777218 + 1.5) = 16777220: the tie 16777219.5 is none, 16777220 is nearer.
TEST_CASE("products of given codes with alpha, beta, bias and 16-bit outputs through C", "[quick]") {
  float a[128] = {}, b[128] = {};
  a[0] = 0x1p22f;
  a[32] = a[64] = 1.5f;
  b[0] = 4;
  b[32] = b[64] = 1;
  uint8_t a_codes[64], b_codes[64], a_scales[4], b_scales[4];
  float a_g, b_g, c = 0;
  REQUIRE(fp4sim_quantize("mxfp4", a, 1, 128, {0, 0, 0}, a_codes, a_scales, &a_g) == 0);
  REQUIRE(fp4sim_quantize("mxfp4", b, 1, 128, {0, 0, 0}, b_codes, b_scales, &b_g) == 0);
  const fp4sim_operand left = {"mxfp4", a_codes, a_scales, &a_g}, right = {"mxfp4", b_codes, b_scales, &b_g};
  const auto product = [&](const fp4sim_epilogue* e, void* d) {
    return fp4sim_gemm_codes(&left, &right, "k64_rz", 1, 1, 128, e, d);
  };
  REQUIRE(product(nullptr, &c) == 0);
  CHECK(c == 16777218.0f);
  const float bias = 1.5f, old = 2;
  const fp4sim_epilogue plain = {1, 0, nullptr, &bias, "fp32"};
  REQUIRE(product(&plain, &c) == 0);
  CHECK(c == 16777220.0f);
  // fl32(2^-24 * 16777218) = 1.00000011920929 (1 + 2^-23), - 0.5 * 2 leaves 2^-23, + 1.5.
  const fp4sim_epilogue all = {0x1p-24f, -0.5f, &old, &bias, "fp32"};
  REQUIRE(product(&all, &c) == 0);
  CHECK(c == 1.5f + 0x1p-23f);
  uint16_t d = 0;
  const fp4sim_epilogue half = {0x1p-10f, 0, nullptr, nullptr, "fp16"};  // 16384.002 to 16384
  REQUIRE(product(&half, &d) == 0);
  CHECK(d == 0x7400);
  const fp4sim_epilogue over = {1, 0, nullptr, nullptr, "fp16"};
  REQUIRE(product(&over, &d) == 0);
  CHECK(d == 0x7C00);
  const fp4sim_epilogue brain = {-1.5f, 0, nullptr, nullptr, "bf16"};  // -25165827 to -25165824 = -1.5 * 2^24
  REQUIRE(product(&brain, &d) == 0);
  CHECK(d == 0xCBC0);
  const fp4sim_epilogue wrong = {1, 0, nullptr, nullptr, "fp8"};
  CHECK(product(&wrong, &d) == 2);
  CHECK_THAT(fp4sim_last_error(), Catch::Contains("fp8") && Catch::Contains("bf16"));
  const fp4sim_epilogue hollow = {1, 1, nullptr, nullptr, "fp32"};
  CHECK(product(&hollow, &c) == 2);
}

TEST_CASE("bad input gives a code and a message", "[quick]") {
  float x = 1;
  uint8_t byte;
  CHECK(fp4sim_quantize("mxfp5", &x, 1, 1, {0, 0, 0}, &byte, &byte, &x) == 2);
  CHECK(std::string(fp4sim_last_error()).find("mxfp5") != std::string::npos);
  CHECK(fp4sim_quantize("mxfp4", nullptr, 1, 1, {0, 0, 0}, &byte, &byte, &x) == 2);
  fp4sim_array_shape shape;
  CHECK(fp4sim_shape("mxfp4", INT64_MAX, INT64_MAX, &shape) == 2);
  CHECK(fp4sim_shape("mxfp4", 1, 32, &shape) == 0);
  CHECK(std::string(fp4sim_last_error()).empty());
}

TEST_CASE("fp4sim.h is C99", "[quick]") {
  const auto r = fp4::test::run_shell(
      "printf '#include \"src/fp4sim.h\"\\nint main(void) { return 0; }\\n' | "
      "cc -std=c99 -Wall -Wextra -Werror -I. -fsyntax-only -x c -");
  INFO(r.err);
  CHECK(r.exit_code == 0);
}

namespace {

constexpr int64_t rows = 8, cols = 128;

// Numbers of many sizes: near 1, near 2^-120, whose products are subnormal, and subnormal ones, which DAZ reads as 0.
std::vector<float> operand() {
  std::vector<float> x(rows * cols);
  for (size_t i = 0; i < x.size(); ++i) {
    const auto bits = static_cast<uint32_t>(i * 2654435761u);
    const uint32_t exponent = i / cols == 3 ? 7 : 120 + (bits >> 26 & 7);
    x[i] = std::bit_cast<float>((bits & 0x807FFFFFu) | (i / cols == 5 ? 0 : exponent << 23));
  }
  return x;
}

// Everything that the interface computes from it: codes, scales, decoded values, products, transforms.
std::vector<uint8_t> all_results(const std::vector<float>& x) {
  std::vector<uint8_t> all;
  const auto add = [&](const void* data, size_t bytes) {
    all.insert(all.end(), static_cast<const uint8_t*>(data), static_cast<const uint8_t*>(data) + bytes);
  };
  for (const char* spec : {"mxfp4", "nvfp4", "nvfp4,rounding=stochastic", "mxfp4,scale=fp32,scale_rule=amax"}) {
    fp4sim_array_shape shape;
    REQUIRE(fp4sim_shape(spec, rows, cols, &shape) == 0);
    std::vector<uint8_t> codes(static_cast<size_t>(rows * shape.code_row_bytes));
    std::vector<uint8_t> scales(static_cast<size_t>(shape.scale_rows * shape.scale_cols * shape.scale_bytes));
    std::vector<float> tensor(static_cast<size_t>(shape.tensor_scales)), y(x.size()), c(rows * rows);
    REQUIRE(fp4sim_quantize(spec, x.data(), rows, cols, {1, 2, 3}, codes.data(), scales.data(), tensor.data()) == 0);
    REQUIRE(fp4sim_dequantize(spec, rows, cols, codes.data(), scales.data(), tensor.data(), y.data()) == 0);
    add(codes.data(), codes.size());
    add(scales.data(), scales.size());
    add(tensor.data(), tensor.size() * sizeof(float));
    add(y.data(), y.size() * sizeof(float));
    for (const char* accumulator : {"fp32_block", "k64_rz"}) {
      REQUIRE(fp4sim_gemm(spec, spec, accumulator, x.data(), x.data(), rows, rows, cols, {1, 2, 3}, c.data()) == 0);
      add(c.data(), c.size() * sizeof(float));
    }
  }
  std::vector<float> h(x.size());
  REQUIRE(fp4sim_hadamard(x.data(), rows, cols, 32, "per_step", "sqrt", {1, 2, 3}, h.data()) == 0);
  add(h.data(), h.size() * sizeof(float));
  return all;
}

}  // namespace

TEST_CASE("the host's rounding mode and flush-to-zero change no bit, and are given back", "[quick]") {
  const std::vector<float> x = operand();
  const std::vector<uint8_t> expected = all_results(x);
  for (const fp4::test::HostFloats& host : fp4::test::host_environments()) {
    std::fenv_t before;
    std::fegetenv(&before);
    fp4::test::set_host_floats(host);
    const uint64_t control = fp4::test::float_control();
    const std::vector<uint8_t> got = all_results(x);
    const uint64_t after = fp4::test::float_control();
    std::fesetenv(&before);
    INFO(host.name);
    CHECK(got == expected);
    CHECK(after == control);
  }
}
