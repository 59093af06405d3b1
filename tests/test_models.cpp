// Whole models in every checkpoint format, made and judged by numpy (models.py).
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdlib>
#include <limits>

#include "fp4/arithmetic.h"
#include "src/arith/amax.h"
#include "src/arith/quantize_statistics.h"
#include "src/arith/row_sums.h"
#include "src/arith/spec_text.h"
#include "src/backends/backends.h"
#include "tests/support/share.h"
#include "tests/support/support.h"

namespace {

void check_by_numpy(const std::string& program) {
  const char* given = std::getenv("FP4SIM_PYTHON");
  const std::string python = given != nullptr ? given : "/usr/bin/python3";
  const auto result = fp4::test::run_shell(python + " tests/" + program + " '" + fp4::test::fp4sim_path() + "'");
  INFO(result.out + result.err);
  CHECK(result.exit_code == 0);
}

}  // namespace

TEST_CASE("numpy agrees with whole models in every checkpoint format", "[cli]") { check_by_numpy("models.py"); }

TEST_CASE("numpy agrees on every kind of checkpoint that is read, carried over, refused or left", "[cli]") {
  check_by_numpy("model_kinds.py");
}

TEST_CASE("models at the edges: no rows, what an index leaves out, marks, split files, places", "[cli]") {
  check_by_numpy("model_edges.py");
}

// Counted by hand: 11 columns, so that a step of eight and a part of one are taken.
TEST_CASE("statistics count what was clipped, became zero or is not finite", "[quick]") {
  const float infinity = std::numeric_limits<float>::infinity();
  const std::vector<float> x = {7, -8, 6, 0, 0.2f, -0.2f, infinity, 1, 2, 9, 0};
  const std::vector<float> y = {6, -6, 6, 0, 0, -0.0f, 6, 1, 2, 6, 0};
  for (const fp4::Element element : {fp4::Element::e2m1, fp4::Element::e4m3}) {
    fp4::Quantized q;
    q.spec.element = element;
    q.rows = 1;
    q.cols = 11;
    q.geometry = fp4::geometry_of(q.spec, 1, 11);
    q.codes.assign(static_cast<size_t>(q.code_row_bytes()), 0);
    const bool is_packed = element == fp4::Element::e2m1;
    const uint32_t largest = is_packed ? 7 : 0x7e, sign = is_packed ? 8 : 0x80;
    for (const int k : {0, 2, 6, 9}) q.set_code(0, k, largest);
    q.set_code(0, 1, largest | sign);
    fp4::QuantizeReport report;
    fp4::add_statistics(report, q, fp4::view_of(x.data(), 1, 11), y.data(), 1);
    CHECK(report.nonfinite == 1);
    CHECK(report.clipped == 3);  // 7, -8 and 9; 6 is the largest value itself
    CHECK(report.zeros == 4);
    CHECK(report.underflows == 2);  // 0.2 and -0.2
    CHECK(report.largest_error == 3.0);
    CHECK(report.error_squares == Approx(1 + 4 + 9 + 2 * 0.04));
    CHECK(report.squares == Approx(49 + 64 + 36 + 2 * 0.04 + 1 + 4 + 81));
  }
  CHECK(fp4::finite_amax(x.data(), 11) == 9.0f);
}

// The same loop written out: column k belongs to part k mod 8, parts and rows are added in ascending order.
TEST_CASE("sums of rows have the same digits in every instruction set", "[quick]") {
  for (const int64_t cols : {1, 7, 8, 15, 16, 17, 40, 64, 129})
    for (const int bits : {4, 8, 16, 32}) {
      std::vector<float> x(static_cast<size_t>(cols)), y(x.size());
      std::vector<uint8_t> codes((x.size() * static_cast<size_t>(bits) + 7) / 8);
      double errors[8] = {}, squares[8] = {};
      fp4::RowStatistics wanted;
      for (size_t k = 0; k < x.size(); ++k) {
        const auto draw = static_cast<uint32_t>((k + 1) * 2654435761u + static_cast<uint32_t>(cols) * 40503u);
        x[k] = fp4::float_of((draw & 0x807fffff) | (100 + draw % 50) << 23);
        y[k] = k % 5 == 4 ? (k % 2 == 0 ? 0.0f : -0.0f) : x[k] * (k % 3 == 0 ? 0.875f : 1.0625f);
        if (k % 11 == 10) x[k] = 0;
        if (k % 13 == 12) x[k] = std::numeric_limits<float>::infinity();
        if (k % 17 == 16) y[k] = std::numeric_limits<float>::quiet_NaN();
        const uint32_t code = draw >> 7 & 15;  // its highest byte counts, too: a sign that the mask leaves out
        const auto bytes = static_cast<size_t>(bits / 8);
        if (bits == 4)
          codes[k / 2] = static_cast<uint8_t>(codes[k / 2] | code << 4 * (k % 2));
        else
          codes[k * bytes] = static_cast<uint8_t>(code),
                    codes[k * bytes + bytes - 1] |= static_cast<uint8_t>(draw & 128);
        if (!std::isfinite(x[k]) || !std::isfinite(y[k])) {
          ++wanted.nonfinite;
          continue;
        }
        const double error = static_cast<double>(x[k]) - static_cast<double>(y[k]);
        errors[k % 8] += error * error;
        squares[k % 8] += static_cast<double>(x[k]) * static_cast<double>(x[k]);
        wanted.largest_error = std::max(wanted.largest_error, std::abs(error));
        wanted.zeros += y[k] == 0 ? 1 : 0;
        wanted.underflows += y[k] == 0 && x[k] != 0 ? 1 : 0;
        wanted.clipped += y[k] != 0 && std::abs(x[k]) > std::abs(y[k]) && (code & 7) == 7 ? 1 : 0;
      }
      for (int part = 0; part < 8; ++part) {
        wanted.error_squares += errors[part];
        wanted.squares += squares[part];
      }
      const fp4::StatisticsRow row = {x.data(), y.data(), codes.data(), bits, cols, 7, 7};
      INFO(cols << " columns, codes of " << bits << " bits");
      for (const fp4::RowStatistics& found : {fp4::sum_row(row), fp4::sum_row_plain(row)}) {
        CHECK(found.error_squares == wanted.error_squares);
        CHECK(found.squares == wanted.squares);
        CHECK(found.largest_error == wanted.largest_error);
        CHECK(found.clipped == wanted.clipped);
        CHECK(found.zeros == wanted.zeros);
        CHECK(found.underflows == wanted.underflows);
        CHECK(found.nonfinite == wanted.nonfinite);
      }
    }
}

// Patterns of all kinds in every lane: against one comparison at a time, and the core's own rounding.
TEST_CASE("maxima and bfloat16 of many numbers are those of each", "[quick]") {
  std::vector<float> x;
  for (uint32_t i = 0; i < 70000; ++i) x.push_back(fp4::float_of(i * 2654435761u));
  for (const uint32_t bits :
       {0x7f800000u, 0xff800000u, 0x7f800001u, 0xffc00000u, 0x7f7fffffu, 0x3f808000u, 0x3f818000u})
    x.push_back(fp4::float_of(bits));
  std::vector<uint16_t> narrow(x.size());
  fp4::narrow_to_bf16(x.data(), static_cast<int64_t>(x.size()), narrow.data());
  for (size_t i = 0; i < x.size(); ++i) {
    const uint32_t rounded = fp4::bits_of(fp4::rounded_to_bf16(x[i])) >> 16;
    if (narrow[i] != (std::isnan(x[i]) ? rounded | 0x40 : rounded)) FAIL("bf16 of " << fp4::bits_of(x[i]));
  }
  for (const size_t count : {size_t{0}, size_t{1}, size_t{63}, size_t{64}, size_t{200}, x.size()}) {
    float amax = 0;
    uint32_t wide = 0, half = 0;
    for (size_t i = 0; i < count; ++i) {
      if (std::isfinite(x[i])) amax = std::max(amax, std::abs(x[i]));
      const uint32_t magnitude = narrow[i] & 0x7fffu;
      if (magnitude < 0x7f80) wide = std::max(wide, magnitude);
      if (magnitude < 0x7c00) half = std::max(half, magnitude);
    }
    const auto n = static_cast<int64_t>(count);
    CHECK(fp4::finite_amax(x.data(), n) == amax);
    CHECK(fp4::finite_amax_bits(narrow.data(), n, 0x7f80) == wide);
    CHECK(fp4::finite_amax_bits(narrow.data(), n, 0x7c00) == half);
  }
}

// Maxima within 100 ulp below and 3 above every power of two: where a float log2 is one too high, and where not.
TEST_CASE("float log2 costs a few blocks the definition, and no bit", "[quick]") {
  std::vector<float> x;
  for (int k = -140; k < 128; ++k) {
    if (!fp4::test::next_case_runs()) continue;
    for (int ulp = -100; ulp <= 3; ++ulp)
      for (int i = 0; i < 32; ++i) {
        const auto bits = static_cast<uint32_t>(static_cast<int>(fp4::bits_of(std::ldexp(1.0f, k))) + ulp);
        const float top = fp4::float_of(bits);
        x.push_back(i == 7 ? top : (i % 2 == 0 ? -top : top) * static_cast<float>(i) / 33.0f);
      }
  }
  x[5] = std::numeric_limits<float>::infinity();
  x[40] = -0.0f;
  const auto rows = static_cast<int64_t>(x.size() / 64);
  for (const char* words : {"ggml_mxfp4", "microxcaling_even", "mxfp4,exponent=float_log2,rounding=stochastic",
                            "mxfp8,scale_rule=floor,exponent=float_log2", "fp_quant_mxfp4"}) {
    INFO(words);
    fp4::Quantized fast, defined, exact;
    fp4::QuantizeCall call;
    call.x = fp4::view_of(x.data(), rows, 64);
    call.spec = fp4::quant_spec_from_words(words);
    call.place = {3, 256, 1};
    call.threads = 2;
    fp4::Dispatcher("auto").quantize(call, fast);
    fp4::Dispatcher("reference").quantize(call, defined);
    CHECK(fast.codes == defined.codes);
    CHECK(fast.scales == defined.scales);
    CHECK(fast.spec == defined.spec);
    call.spec.exponent = fp4::Exponent::bits;
    fp4::Dispatcher("reference").quantize(call, exact);
    CHECK(exact.scales != defined.scales);
  }
}
