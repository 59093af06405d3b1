// Whole models in every checkpoint format, made and judged by numpy (models.py).
#include <catch2/catch.hpp>
#include <cstdlib>

#include "src/backends.h"
#include "src/quantize_statistics.h"
#include "src/spec_text.h"
#include "tests/support/support.h"

TEST_CASE("numpy agrees with whole models in every checkpoint format", "[cli]") {
  const char* given = std::getenv("FP4SIM_PYTHON");
  const std::string python = given != nullptr ? given : "/usr/bin/python3";
  const auto result = fp4::test::run_shell(python + " tests/models.py '" + fp4::test::fp4sim_path() + "'");
  INFO(result.out + result.err);
  CHECK(result.exit_code == 0);
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

// Maxima within 100 ulp below and 3 above every power of two: where a float log2 is one too high, and where not.
TEST_CASE("float log2 costs a few blocks the definition, and no bit", "[quick]") {
  std::vector<float> x;
  for (int k = -140; k < 128; ++k)
    for (int ulp = -100; ulp <= 3; ++ulp)
      for (int i = 0; i < 32; ++i) {
        const auto bits = static_cast<uint32_t>(static_cast<int>(fp4::bits_of(std::ldexp(1.0f, k))) + ulp);
        const float top = fp4::float_of(bits);
        x.push_back(i == 7 ? top : (i % 2 == 0 ? -top : top) * static_cast<float>(i) / 33.0f);
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
