// Do Gaussian error figures agree with the literature? N(0,1) with a factor 2^U(0,1) per block of 32; NMSE within 1 %
// of the published or independently computed values, and the gain of stochastic rounding with and without clipping.
#include <catch2/catch.hpp>
#include <cmath>
#include <random>

#include "src/arith/spec_text.h"
#include "src/backends/backends.h"

using namespace fp4;

namespace {

const std::vector<float>& gaussian_blocks() {
  static const std::vector<float> x = [] {
    std::mt19937_64 engine(20260101);
    std::normal_distribution<double> normal;
    std::uniform_real_distribution<double> uniform;
    std::vector<float> v(1 << 20);
    double factor = 1;
    for (size_t i = 0; i < v.size(); ++i) {
      if (i % 32 == 0) factor = std::exp2(uniform(engine));
      v[i] = static_cast<float>(normal(engine) * factor);
    }
    return v;
  }();
  return x;
}

struct Figures {
  double nmse, gain;
};

Figures figures(const char* words) {
  const std::vector<float>& x = gaussian_blocks();
  QuantizeCall call;
  call.spec = quant_spec_from_words(words, "test");
  call.x = view_of(x.data(), 1024, static_cast<int64_t>(x.size()) / 1024);
  call.place = {1, 0, 1};
  Quantized q;
  Dispatcher dispatcher;
  dispatcher.quantize(call, q);
  std::vector<float> y(x.size());
  dispatcher.dequantize(q, y.data());
  double error = 0;
  double power = 0;
  double cross = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    const double a = x[i];
    const double b = y[i];
    error += (a - b) * (a - b);
    power += a * a;
    cross += a * b;
  }
  return {error / power, cross / power};
}

}  // namespace

TEST_CASE("mean squared errors of the scale rules", "[quick]") {
  CHECK(figures("mxfp4").nmse == Approx(1.35e-2).epsilon(0.01));
  CHECK(figures("mxfp4,scale_rule=even").nmse == Approx(1.26e-2).epsilon(0.01));
  CHECK(figures("mxfp4,scale_rule=rceil").nmse == Approx(1.36e-2).epsilon(0.01));
  CHECK(figures("nvfp4").nmse == Approx(9.05e-3).epsilon(0.01));
  CHECK(figures("ue5m3fp4").nmse == Approx(9.05e-3).epsilon(0.01));
  CHECK(figures("fouroversix").nmse == Approx(7.56e-3).epsilon(0.01));
}

// The SD of the gain over seeds is 3e-4 on these 2^20 values: four of them are the margin.
TEST_CASE("stochastic rounding is unbiased unless FLOOR clips", "[quick]") {
  CHECK(figures("mxfp4,rounding=stochastic").gain == Approx(0.986).margin(0.001));
  CHECK(figures("mxfp4,rounding=stochastic,prescale=0.75").gain == Approx(1.0).margin(0.0012));
  CHECK(figures("mxfp4,rounding=stochastic,scale_rule=rceil").gain == Approx(1.0).margin(0.0012));
}
