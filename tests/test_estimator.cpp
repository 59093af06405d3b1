// Is each estimator the derivative it claims to be? Finite differences of the smooth functions, literals of the spline,
// and the scale gradient against finite differences of the block's loss.
#include <catch2/catch.hpp>
#include <cmath>

#include "fp4/presets.h"

using namespace fp4;

namespace {

const FloatFormat& e2m1 = format_of(Element::e2m1);

float slope(Estimator which, float u, EstimatorSpec e = {}) { return estimator_multiplier(which, e, e2m1, u); }

}  // namespace

TEST_CASE("masks and their thresholds", "[quick]") {
  CHECK(slope(Estimator::ste, 100) == 1);
  CHECK(slope(Estimator::clipped_ste, 6) == 1);
  CHECK(slope(Estimator::clipped_ste, -6) == 1);
  CHECK(slope(Estimator::clipped_ste, float_of(bits_of(6.0f) + 1)) == 0);
  CHECK(slope(Estimator::clipped_ste, -6.0000005f) == 0);
}

TEST_CASE("dge is the derivative of Wang's differentiable quantiser", "[quick]") {
  // f(w) = lo + delta/2 * (1 + sign(z)|z|^(1/k)), z = 2(w-lo)/delta - 1: f' = (1/k)|z|^(1/k - 1)
  for (const double w : {0.05, 0.3, 0.6, 0.9, 1.1, 1.4, 2.2, 2.7, 3.3, 3.9, 4.2, 5.7}) {
    const double grid[] = {0, .5, 1, 1.5, 2, 3, 4, 6};
    int b = 0;
    while (b < 6 && w >= grid[b + 1]) ++b;
    const double lo = grid[b];
    const double delta = grid[b + 1] - lo;
    const auto f = [&](double x) {
      const double z = 2 * (x - lo) / delta - 1;
      return lo + delta / 2 * (1 + (z < 0 ? -1 : 1) * std::pow(std::abs(z), 0.2));
    };
    const double h = 1e-6;
    const double derivative = (f(w + h) - f(w - h)) / (2 * h);
    CHECK(slope(Estimator::dge, static_cast<float>(w)) == Approx(std::min(derivative, 3.0)).epsilon(1e-4));
    CHECK(slope(Estimator::dge, static_cast<float>(-w)) == slope(Estimator::dge, static_cast<float>(w)));
    const double c = lo + delta / 2;
    CHECK(slope(Estimator::dge_raw, static_cast<float>(w)) ==
          Approx(delta / 2 * 0.2 * std::pow(std::abs(w - c), -0.8)).epsilon(1e-4));
  }
  CHECK(slope(Estimator::dge, 5) == 3);      // middle of [4, 6]: infinite, capped
  CHECK(slope(Estimator::dge_raw, 5) == 0);  // defined 0 there
  CHECK(slope(Estimator::dge, 100) == slope(Estimator::dge, 6));
}

TEST_CASE("sigmoid is the derivative of a sigmoid step", "[quick]") {
  // g(w) = 1/(1 + exp(-(w-c)*12/delta/T)): g' = g(1-g)*12/(delta T); the published form leaves 1/delta out
  for (const double w : {0.2, 0.27, 1.2, 2.4, 2.6, 4.9, 5.2}) {
    const Bucket b = bucket_of(e2m1, static_cast<float>(w));
    const auto g = [&](double x) { return 1 / (1 + std::exp(-(x - b.middle) * 12 / b.delta / 0.5)); };
    const double derivative = (g(w + 1e-6) - g(w - 1e-6)) / 2e-6 * b.delta;
    CHECK(slope(Estimator::sigmoid, static_cast<float>(w)) == Approx(std::max(0.5, derivative)).epsilon(2e-4));
  }
  CHECK(slope(Estimator::sigmoid, 5) == 6);  // the peak: 3/T
}

TEST_CASE("spline slopes of e2m1 are 0, 1.625, 3.25 and 6.5, clipped", "[quick]") {
  EstimatorSpec unclipped;
  unclipped.lb = 0;
  int seen[4] = {};
  for (int i = 0; i < 6000; ++i) {
    const float s = slope(Estimator::spline, static_cast<float>(i) * 0.001f, unclipped);
    const float values[] = {0, 1.625f, 3.25f, 6.5f};
    bool known = false;
    for (int v = 0; v < 4; ++v) {
      if (std::abs(s - values[v]) < 1e-5f) {
        ++seen[v];
        known = true;
      }
    }
    if (!known) FAIL_CHECK("slope " << s << " at " << i * 0.001);
  }
  for (const int n : seen) CHECK(n > 0);
  CHECK(slope(Estimator::spline, 0.05f) >= 0.5f);
}

TEST_CASE("as published: only at +M and beyond", "[quick]") {
  CHECK(slope(Estimator::sigmoid_as_published, 5.9f) == 1);
  CHECK(slope(Estimator::sigmoid_as_published, -7) == 1);
  CHECK(slope(Estimator::sigmoid_as_published, 6) == slope(Estimator::sigmoid, 6));
  CHECK(slope(Estimator::dge_raw_as_published, 5) == 1);
  CHECK(slope(Estimator::spline_as_published, 6) == slope(Estimator::spline, 6));
}

// With an fp32 scale the block function is smooth wherever no element crosses a code boundary: the codes stay put and
// the decoded values move with the scale alone, so finite differences see the scale gradient (q' = 1).
TEST_CASE("the scale gradient is a vector-Jacobian product", "[quick]") {
  QuantSpec spec;
  spec.scale = Scale::fp32;
  spec.scale_rule = ScaleRule::amax;
  spec.block = {BlockKind::vector, 8};
  Quantizer q = resolve(spec);
  const std::vector<float> x = {1.3f, -6.1f, 2.2f, 0.4f, -3.1f, 4.7f, 0.1f, 5.2f};
  const std::vector<float> g = {0.7f, -1.1f, 0.3f, 2.0f, -0.6f, 0.9f, 1.4f, -0.2f};
  for (const ScaleGradient which : {ScaleGradient::absmax, ScaleGradient::softsoftmax}) {
    EstimatorSpec e;
    e.scale_gradient = which;
    q.soft_alpha = is_soft_maximum(which) ? e.alpha : 0.0f;
    const auto decode_all = [&](const std::vector<double>& v) {  // codes held at x, the scale follows v
      std::vector<float> xf(v.begin(), v.end());
      const BlockView now = {xf.data(), 8, 1, 1, 8, 8};
      const BlockView then = {x.data(), 8, 1, 1, 8, 8};
      const uint32_t code = block_scale_code(q, then, {}, 0);
      const float amax = block_maximum(now).amax;
      const double maximum = which == ScaleGradient::absmax ? amax : [&] {
        double sum = 0;
        for (const double t : v) sum += std::exp(std::abs(t) - amax);
        return amax + std::log(sum);
      }();
      std::vector<double> out;
      for (size_t i = 0; i < 8; ++i) {
        out.push_back(decode(q.element, element_code(q, x[i], code, {}, 0)) * maximum / 6);
      }
      return out;
    };
    std::vector<float> decoded(8);
    std::vector<float> gradient(8);
    const BlockView block = {x.data(), 8, 1, 1, 8, 8};
    const uint32_t code = block_scale_code(q, block, {}, 0);
    for (size_t i = 0; i < 8; ++i) {
      decoded[i] = element_value(q, element_code(q, x[i], code, {}, 0), scale_value(q, code), 1.0f);
    }
    block_gradient(q, e, block, code, {}, {g.data(), decoded.data(), gradient.data()});
    for (size_t j = 0; j < 8; ++j) {
      std::vector<double> up(x.begin(), x.end());
      std::vector<double> down = up;
      const double h = 1e-3;
      up[j] += h;
      down[j] -= h;
      const auto fu = decode_all(up);
      const auto fd = decode_all(down);
      // d xhat_i / d s * ds/dx_j with the codes held, minus the straight-through share x_i Q'_i/s that q(x/s) carries
      double expected = g[j];  // Q' = 1
      double ds = 0;
      for (size_t i = 0; i < 8; ++i) {
        const double dxhat = (fu[i] - fd[i]) / (2 * h);
        ds += g[i] * dxhat *
              (1 - static_cast<double>(x[i]) / static_cast<double>(decoded[i] == 0.0f ? 1.0f : decoded[i]) *
                       (decoded[i] == 0.0f ? 0 : 1));
        if (decoded[i] == 0.0f) {
          const double scale_up = (fu[1] / fd[1] - 1) / (2 * h);  // relative change of the scale
          ds -= g[i] * static_cast<double>(x[i]) * scale_up;
        }
      }
      expected += ds;
      CHECK(gradient[j] == Approx(expected).epsilon(2e-3).margin(2e-3));
    }
  }
}

TEST_CASE("gradients that are no derivative keep their formula", "[quick]") {
  const Quantizer q = resolve(nvfp4_spec);
  const std::vector<float> x = {1, -2, 6, 6};
  const std::vector<float> g = {1, 1, 1, 2};
  const BlockView block = {x.data(), 4, 1, 1, 4, 16};
  const uint32_t code = block_scale_code(q, block, {}, 0);
  CHECK(decode(q.scale, code) == 1.0f);
  std::vector<float> out(4);
  const auto run = [&](ScaleGradient which) {
    EstimatorSpec e;
    e.scale_gradient = which;
    block_gradient(q, e, block, code, {}, {g.data(), x.data(), out.data()});
    return out;
  };
  CHECK(run(ScaleGradient::none) == g);
  CHECK(run(ScaleGradient::absmax) == g);  // decoded = x: Sum = 0
  // (|xhat|/(g a) - G Q') at every arg-max: 1 - 1 = 0 and 1 - 2 = -1
  CHECK(run(ScaleGradient::absmax_as_published) == std::vector<float>{1, 1, 1, 1});
}
