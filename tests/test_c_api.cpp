// Does the C interface give the bits of the definitions, and messages instead of crashes? fp4sim.h must be C.
#include <catch2/catch.hpp>
#include <cstring>

#include "src/fp4sim.h"
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
