// Does the linear layer hand every estimator the right payloads, scales, basis and upstream gradient? The expected
// gradient is the central difference, in fp64, of a smooth stand-in for the quantised operand, built here from the
// definitions: decoded value + slope * (payload - its value), with the scale as a function of the block's maximum.
#include <catch2/catch.hpp>
#include <functional>
#include <memory>

#include "fp4/hadamard.h"
#include "tests/support/linear_layer.h"

using namespace fp4;
using namespace fp4::sim;
using test::distance;
using test::Doubles;
using test::OneLayer;

namespace {

// Values of a format from 0 up.
Doubles grid_of(const FloatFormat& f) {
  Doubles g;
  for (uint32_t c = 0; c <= f.largest_code; ++c) g.push_back(static_cast<double>(decode(f, c)));
  return g;
}
// Payloads and unrounded scales are kept in fp32: the largest element of a row lands on the end of the grid by that.
double single(double x) { return static_cast<double>(static_cast<float>(x)); }
double nearest(const Doubles& grid, double x) {
  double best = grid[0];
  for (double v : grid) best = std::fabs(v - x) < std::fabs(best - x) ? v : best;
  return best;
}

// dQ/du of the curve that an estimator stands for, at payload u: the central difference of that curve.
double slope_at(Estimator which, const EstimatorSpec& e, const Doubles& grid, double u) {
  const double largest = grid.back(), k = static_cast<double>(e.estimator_k);
  const double temperature = static_cast<double>(e.temperature);
  const auto within = [&](double s) { return std::clamp(s, static_cast<double>(e.lb), static_cast<double>(e.ub)); };
  switch (which) {  // the released code: only at the upper end
    case Estimator::dge_raw_as_published: return u < largest ? 1 : slope_at(Estimator::dge_raw, e, grid, u);
    case Estimator::sigmoid_as_published: return u < largest ? 1 : slope_at(Estimator::sigmoid, e, grid, u);
    case Estimator::spline_as_published: return u < largest ? 1 : slope_at(Estimator::spline, e, grid, u);
    default: break;
  }
  const double w = std::min(std::fabs(u), largest);
  size_t i = 0;
  while (i + 2 < grid.size() && grid[i + 1] <= w) ++i;
  const double low = grid[i], delta = grid[i + 1] - low, middle = low + delta / 2;
  const auto difference = [&](const auto& curve) {
    const double h = 1e-6 * delta;
    return (curve(w + h) - curve(w - h)) / (2 * h);
  };
  const auto odd_power = [&](double t) { return std::copysign(std::pow(std::fabs(t), 1 / k), t); };
  switch (which) {
    case Estimator::clipped_ste: return std::fabs(u) <= largest ? 1 : 0;
    case Estimator::dge:
      return std::min(static_cast<double>(e.estimator_cap), difference([&](double v) {
                        return low + delta / 2 * (1 + odd_power(2 * (v - low) / delta - 1));
                      }));
    case Estimator::dge_raw: return difference([&](double v) { return delta / 2 * odd_power(v - middle); });
    case Estimator::sigmoid:
      return within(difference(
          [&](double v) { return low + delta / (1 + std::exp(-(v - middle) * 12 / (delta * temperature))); }));
    case Estimator::spline: {
      const double step = 2 * largest / 39;
      const int j = std::min(38, static_cast<int>((w + largest) / step));
      const auto q = [&](int n) {
        const double v = n * step - largest;
        return std::copysign(nearest(grid, std::fabs(v)), v);
      };
      return within((q(j + 1) - q(j)) / step);
    }
    default: return 1;
  }
}

// One block of an operand: indices into it, and what the quantiser makes of it.
class Block {
 public:
  Block(const OperandSpec& spec, const Doubles& x, std::vector<size_t> where) : spec_(spec), where_(std::move(where)) {
    const QuantSpec& q = spec.quant;
    elements_ = grid_of(format_of(q.element));
    for (size_t i : where_) base_.push_back(x[i]);
    for (size_t i = 0; i < base_.size(); ++i)
      if (std::fabs(base_[i]) > std::fabs(base_[top_])) top_ = i;
    hard_ = std::fabs(base_[top_]);
    maximum_ = is_soft_maximum(spec.estimator.scale_gradient) ? smooth(base_) : hard_;
    unrounded_ = single(unrounded(maximum_));
    if (q.scale == Scale::fp32) {
      stored_ = unrounded_;
    } else if (q.scale_rule == ScaleRule::floor) {
      stored_ = std::exp2(std::floor(std::log2(unrounded_)));
    } else {
      const Doubles scales = grid_of(format_of(q.scale));
      stored_ = nearest(scales, unrounded_);
      scale_slope_ = slope_at(spec.estimator.scale_estimator, spec.estimator, scales, unrounded_);
    }
    for (double v : base_) {
      const double u = single(payload(v, stored_));
      value_.push_back(std::copysign(nearest(elements_, std::fabs(u)), u));
      slope_.push_back(slope_at(spec.estimator.estimator, spec.estimator, elements_, u));
    }
  }

  void decode(Doubles& out) const {
    for (size_t i = 0; i < where_.size(); ++i) out[where_[i]] = times_scale(value_[i], stored_);
  }

  // dL/dx of the block for L = sum of upstream * decoded.
  void gradient(const Doubles& upstream, Doubles& out) const {
    const bool published = spec_.estimator.scale_gradient >= ScaleGradient::absmax_as_published;
    for (size_t j = 0; j < where_.size(); ++j) {
      const double h = 1e-5 * hard_;
      Doubles up = base_, down = base_;
      up[j] += h, down[j] -= h;
      out[where_[j]] = (loss(upstream, up, j) - loss(upstream, down, j)) / (2 * h);
      if (published) out[where_[j]] += published_term(upstream[where_[j]], j);
    }
  }

 private:
  bool stores_multiplier() const { return spec_.quant.scale_rule == ScaleRule::encode; }
  double payload(double x, double s) const { return stores_multiplier() ? x * s : x / s; }
  double times_scale(double v, double s) const { return stores_multiplier() ? v / s : v * s; }
  double unrounded(double maximum) const {
    if (stores_multiplier()) return elements_.back() / maximum;
    return spec_.quant.scale_rule == ScaleRule::floor ? maximum / 4 : maximum / elements_.back();
  }
  double smooth(const Doubles& x) const {
    const double alpha = static_cast<double>(spec_.estimator.alpha);
    double sum = 0;
    for (double v : x) sum += std::exp(alpha * (std::fabs(v) - hard_));
    return hard_ + std::log(sum) / alpha;
  }

  // The stored scale near the given point, to first order in its unrounded value.
  double scale(const Doubles& x) const {
    double maximum = maximum_;
    switch (spec_.estimator.scale_gradient) {
      case ScaleGradient::absmax:
      case ScaleGradient::absmax_diagonal: maximum = std::fabs(x[top_]); break;
      case ScaleGradient::hardsoftmax: maximum = hard_ + smooth(x) - smooth(base_); break;
      case ScaleGradient::softsoftmax: maximum = smooth(x); break;
      default: return stored_;
    }
    return stored_ + scale_slope_ * (unrounded(maximum) - unrounded_);
  }
  // Sum of upstream * stand-in when element `moved` has moved.
  double loss(const Doubles& upstream, const Doubles& x, size_t moved) const {
    double total = 0;
    const double s = scale(x);
    for (size_t i = 0; i < x.size(); ++i) {
      // The diagonal of the Jacobian: an element feels its own effect on the scale only.
      const bool feels = spec_.estimator.scale_gradient != ScaleGradient::absmax_diagonal || i == moved;
      const double si = feels ? s : stored_;
      total += upstream[where_[i]] *
               times_scale(value_[i] + slope_[i] * (payload(x[i], si) - payload(base_[i], stored_)), si);
    }
    return total;
  }
  // What the released code of 2509.17791 adds instead, in its own words.
  double published_term(double upstream, size_t j) const {
    const double decoded = times_scale(value_[j], stored_), alpha = static_cast<double>(spec_.estimator.alpha);
    if (spec_.estimator.scale_gradient == ScaleGradient::absmax_as_published)
      return j == top_ ? scale_slope_ * unrounded_ / stored_ * (std::fabs(decoded) / maximum_ - upstream * slope_[j])
                       : 0;
    double sum = 0;
    for (double v : base_) sum += std::exp(alpha * (std::fabs(v) - hard_));
    const double softmax = std::exp(alpha * (std::fabs(base_[j]) - hard_)) / sum;
    return scale_slope_ * softmax * (std::fabs(decoded) - std::fabs(base_[j]) * upstream * slope_[j]) / maximum_;
  }

  const OperandSpec& spec_;
  std::vector<size_t> where_;
  Doubles elements_, base_, value_, slope_;
  size_t top_ = 0;
  double hard_ = 0, maximum_ = 0, unrounded_ = 0, stored_ = 1, scale_slope_ = 1;
};

// Near a bucket's middle these slopes have no bound, so that fp32 operands leave more of an error; k = 2 tames it.
bool is_steep(Estimator e) { return e == Estimator::dge_raw || e == Estimator::dge_raw_as_published; }

struct Operand {
  Doubles decoded;
  std::function<Doubles(const Doubles&)> gradient;  // from dL/d(decoded), both in the quantiser's basis
};

Operand quantised(const OperandSpec& spec, const Doubles& x, int rows, int cols) {
  const BlockGeometry g = geometry_of(spec.quant, rows, cols);
  auto blocks = std::make_shared<std::vector<Block>>();
  for (int r = 0; r < rows; r += static_cast<int>(g.block_rows))
    for (int c = 0; c < cols; c += static_cast<int>(g.block_cols)) {
      std::vector<size_t> where;
      for (int i = r; i < std::min<int>(rows, r + static_cast<int>(g.block_rows)); ++i)
        for (int j = c; j < c + static_cast<int>(g.block_cols); ++j) where.push_back(static_cast<size_t>(i * cols + j));
      blocks->emplace_back(spec, x, std::move(where));
    }
  Operand o = {Doubles(x.size()), {}};
  for (const Block& b : *blocks) b.decode(o.decoded);
  o.gradient = [blocks, n = x.size()](const Doubles& upstream) {
    Doubles out(n);
    for (const Block& b : *blocks) b.gradient(upstream, out);
    return out;
  };
  return o;
}

// Compares both gradients of the real layer with the expected ones. dgrad and wgrad are plain fp32.
void check(OneLayer& layer, const Json& forward, const std::string& source) {
  const sim::TrainingRecipe recipe = recipe_from_json(
      {{"fprop", forward}, {"dgrad", {{"b", {{"source", source}}}}}, {"wgrad", {{"b", {{"source", source}}}}}});
  if (!invalid_reason(recipe).empty()) return;
  const int rows = layer.shape.rows, in = layer.shape.in, out = layer.shape.out;
  const HadamardSpec& h = recipe.fprop.hadamard;
  const uint32_t step = 5;
  const RandomPlace place = {OneLayer::seed, stream_number(0, 0, 0, Purpose::rounding), step};
  const HadamardSignMask signs = hadamard_signs(h, place.hadamard_signs());
  // H diag(signs) x and its inverse.
  const auto turn = [&](Doubles x, bool inverse) {
    if (h.size == 0) return x;
    if (inverse) x = test::rotated(x, in, h.size);
    for (size_t i = 0; i < x.size(); ++i)
      if (signs.is_minus(static_cast<int>(i) % in % h.size)) x[i] = -x[i];
    return inverse ? x : test::rotated(x, in, h.size);
  };
  // The operands as the quantiser meets them: in fp32, where an element next to an edge falls on one side of it.
  const auto met = [&](const Doubles& values, int n) {
    if (h.size == 0) return values;
    const std::vector<float> from(values.begin(), values.end());
    std::vector<float> to(from.size());
    reference_backend().hadamard(view_of(from.data(), n, in), h, place.hadamard_signs(), false, to.data(), 1);
    const Doubles result(to.begin(), to.end());
    CHECK(distance(result, turn(values, false)) < 1e-6);
    return result;
  };
  const Operand x = quantised(recipe.fprop.a, met(layer.x(), rows), rows, in);
  const Operand w = quantised(recipe.fprop.b, met(layer.w(), out), out, in);
  const bool decoded = source == "fprop_quantised";  // then the product is in the rotated basis already
  const Doubles dx = decoded ? layer.dx(w.decoded) : turn(layer.dx(layer.w()), false);
  const Doubles dw = decoded ? layer.dw(x.decoded) : turn(layer.dw(layer.x()), false);
  const OneLayer::Result r = layer.run(recipe, step);
  const EstimatorSpec& e = recipe.fprop.a.estimator;
  const double tolerance = is_steep(e.estimator) || is_steep(e.scale_estimator) ? 1e-3 : 3e-5;
  INFO(forward.dump() << " " << source);
  CHECK(distance(r.dx, turn(x.gradient(dx), true)) < tolerance);
  CHECK(distance(r.dw, turn(w.gradient(dw), true)) < tolerance);
}

const Json formats[] = {
    {{"preset", "mxfp4"}},
    {{"preset", "nvfp4"}, {"tensor_scale", "none"}},
    {{"preset", "nvfp4"}, {"tensor_scale", "none"}, {"block", {16, 16}}},
    {{"preset", "ue5m3fp4"}, {"scale_rule", "encode"}},
    {{"element", "e2m1"}, {"scale", "fp32"}, {"block", "row"}, {"scale_rule", "amax"}},
};

}  // namespace

TEST_CASE("every estimator reaches both gradients as the derivative of its curve", "[train]") {
  OneLayer layer({32, 64, 48});
  for (const EstimatorInfo& info : estimator_table)
    for (Json operand : formats)
      for (const char* signs : {"", "none", "per_step"})
        for (const char* source : {"high_precision", "fprop_quantised"}) {
          operand["estimator"] = info.name;
          operand["estimator_k"] = is_steep(info.id) ? 2 : 5;
          Json forward = {{"*", operand}};
          if (*signs) forward["hadamard"] = {{"size", 32}, {"signs", signs}};
          check(layer, forward, source);
        }
}

TEST_CASE("every scale gradient reaches both gradients as the derivative through the scale", "[train]") {
  OneLayer layer({32, 64, 48});
  for (const ScaleGradientInfo& info : scale_gradient_table)
    for (Json operand : formats)
      for (const char* scale_estimator : {"ste", "dge", "dge_raw", "sigmoid"})
        for (bool rotates : {false, true}) {
          if (operand.value("scale", "") == "fp32" ||
              (operand["preset"] == "mxfp4" && scale_estimator != std::string("ste")))
            continue;
          operand["estimator"] = rotates ? "sigmoid" : "ste";
          operand["scale_gradient"] = info.name;
          operand["scale_estimator"] = scale_estimator;
          operand["estimator_k"] = scale_estimator == std::string("dge_raw") ? 2 : 5;
          operand["alpha"] = 2.5;
          Json forward = {{"*", operand}};
          if (rotates) forward["hadamard"] = {{"size", 16}, {"signs", "per_step"}};
          check(layer, forward, "high_precision");
        }
}
