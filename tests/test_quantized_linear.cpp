// Is the quantised linear layer the three products of its definition? Expected values: plain fp64 products, the formula
// of each quantiser and mask written out here, and published error figures.
#include <catch2/catch.hpp>
#include <cmath>
#include <utility>
#include <vector>

#include "sim/engine/estimator_gradient.h"
#include "tests/support/linear_layer.h"

using namespace fp4;
using namespace fp4::sim;
using test::distance;
using test::Doubles;
using test::OneLayer;
using test::rotated;
using test::times;

namespace {

// 1 where |x| / 2^(floor(log2 amax) - 2) <= 6, blocks of 32 along the rows.
Doubles floor_mask(const Doubles& x) {
  Doubles mask(x.size());
  for (size_t b = 0; b < x.size(); b += 32) {
    double amax = 0;
    for (size_t i = b; i < b + 32; ++i) amax = std::max(amax, std::fabs(x[i]));
    const double scale = std::exp2(std::floor(std::log2(amax)) - 2);
    for (size_t i = b; i < b + 32; ++i) mask[i] = std::fabs(x[i]) / scale <= 6 ? 1 : 0;
  }
  return mask;
}

}  // namespace

TEST_CASE("with quantisation off every recipe gives the plain products", "[train]") {
  OneLayer layer({48, 64, 80});
  const OneLayer::Result plain = layer.plain();
  for (const std::string& name : recipe_names()) {
    sim::TrainingRecipe recipe = recipe_from_json(name);
    recipe.quantise = false;
    recipe.layers = {};
    const OneLayer::Result r = layer.run(recipe, 7);
    INFO(name);
    // fp32 rounding of sums over 48..80 terms, and of the Hadamards.
    CHECK(distance(r.y, plain.y) < 5e-7);
    CHECK(distance(r.dx, plain.dx) < 5e-7);
    CHECK(distance(r.dw, plain.dw) < 5e-7);
    if (recipe.fprop.hadamard.size == 0 && recipe.dgrad.hadamard.size == 0)
      CHECK(r.dx == layer.run(recipe_from_json("fp32")).dx);
  }
}

TEST_CASE("bf16 layers add as the recipe, a rule or a phase says", "[train]") {
  OneLayer layer({24, 48, 40});
  const Json hopper = {{"*", {{"preset", "bf16"}}}, {"accumulator", "hopper_16bit"}};
  // Each product by the reference: strides of A, then of B.
  const auto product = [](const Doubles& a, MatrixView of_a, const Doubles& b, MatrixView of_b) {
    const std::vector<float> values[] = {{a.begin(), a.end()}, {b.begin(), b.end()}};
    of_a.data = values[0].data(), of_b.data = values[1].data();
    Quantized q[2];
    reference_backend().quantize({.x = of_a, .spec = quant_spec_from_words("bf16")}, q[0]);
    reference_backend().quantize({.x = of_b, .spec = quant_spec_from_words("bf16")}, q[1]);
    GemmOptions options;
    options.accumulator = accumulator_from_words("hopper_16bit");
    std::vector<float> c(static_cast<size_t>(of_a.rows * of_b.rows));
    reference_backend().gemm(q[0], q[1], options, c.data(), of_b.rows);
    return Doubles(c.begin(), c.end());
  };
  const Doubles y = product(layer.x(), {nullptr, 24, 48, 48, 1}, layer.w(), {nullptr, 40, 48, 48, 1});
  const Doubles dx = product(layer.g(), {nullptr, 24, 40, 40, 1}, layer.w(), {nullptr, 48, 40, 1, 48});
  const Doubles dw = product(layer.g(), {nullptr, 40, 24, 1, 40}, layer.x(), {nullptr, 48, 24, 1, 48});
  CHECK(layer.run(recipe_from_json("bf16")).y != y);
  const Json first_phase = {{"until", 0.5}, {"all", hopper}};
  for (const Json& recipe : {Json{{"base", "bf16"}, {"all", {{"accumulator", "hopper_16bit"}}}},
                             Json{{"base", "mxfp4"}, {"layers", {{{"last", 1}, {"all", hopper}}}}},
                             Json{{"base", "mxfp4"}, {"phases", {first_phase, {{"fprop", "mxfp4.fprop"}}}}}}) {
    INFO(recipe);
    const OneLayer::Result r = layer.run(recipe_from_json(recipe));
    CHECK((r.y == y && r.dx == dx && r.dw == dw));
  }
}

TEST_CASE("both operands of a product draw random bits of their own", "[train]") {
  // X X^T is symmetric while both X are rounded alike.
  OneLayer layer({32, 64, 32});
  layer.take_input_as_weights();
  const auto is_symmetric = [&](const char* rounding) {
    const Doubles y = layer.run(recipe_from_json({{"base", "mxfp4"}, {"fprop", {{"*", {{"rounding", rounding}}}}}})).y;
    for (size_t i = 0; i < 32; ++i)
      for (size_t j = 0; j < i; ++j)
        if (y[i * 32 + j] != y[j * 32 + i]) return false;
    return true;
  };
  CHECK(is_symmetric("nearest_even"));
  CHECK_FALSE(is_symmetric("stochastic"));
}

TEST_CASE("fold gives the same products as sqrt with quantisation off", "[train]") {
  OneLayer layer({48, 64, 80});
  const OneLayer::Result plain = layer.plain();
  for (const char* source : {"high_precision", "fprop_quantised"}) {
    const Json h = {{"size", 32}, {"signs", "per_step"}, {"normalise", "fold"}};
    sim::TrainingRecipe recipe = recipe_from_json({{"base", "quartet"},
                                                   {"all", {{"hadamard", h}}},
                                                   {"quantise", false},
                                                   {"dgrad", {{"b", {{"source", source}}}}},
                                                   {"wgrad", {{"b", {{"source", source}}}}}});
    const OneLayer::Result r = layer.run(recipe);
    INFO(source);
    CHECK(distance(r.y, plain.y) < 5e-7);
    CHECK(distance(r.dx, plain.dx) < 5e-7);
    CHECK(distance(r.dw, plain.dw) < 5e-7);
  }
}

TEST_CASE("estimators multiply the gradient at fprop's payload, in fprop's basis", "[train]") {
  OneLayer layer({32, 64, 96});
  const OneLayer::Result plain = layer.plain();
  Json all = {{"all", {{"*", {{"preset", "fp32"}}}}},
              {"fprop", {{"*", {{"preset", "mxfp4"}, {"estimator", "clipped_ste"}}}}}};
  SECTION("without a Hadamard") {
    const OneLayer::Result r = layer.run(recipe_from_json(all));
    CHECK(distance(r.dx, times(plain.dx, floor_mask(layer.x()))) < 1e-6);
    CHECK(distance(r.dw, times(plain.dw, floor_mask(layer.w()))) < 1e-6);
  }
  SECTION("with one the mask lives in the rotated basis") {
    for (const char* normalise : {"sqrt", "fold"}) {
      // 64: sqrt(64) is a power of two, so that `fold` moves no element across the threshold.
      all["fprop"]["hadamard"] = {{"size", 64}, {"signs", "none"}, {"normalise", normalise}};
      const OneLayer::Result r = layer.run(recipe_from_json(all));
      const auto expected = [](const Doubles& gradient, const Doubles& operand) {
        return rotated(times(rotated(gradient, 64, 64), floor_mask(rotated(operand, 64, 64))), 64, 64);
      };
      INFO(normalise);
      // An element within fp32 rounding of the threshold may fall on either side; none does with these numbers.
      CHECK(distance(r.dx, expected(plain.dx, layer.x())) < 1e-6);
      CHECK(distance(r.dw, expected(plain.dw, layer.w())) < 1e-6);
    }
  }
}

TEST_CASE("vectorised slopes are those of the definition, element by element", "[train]") {
  const int n = 240;
  std::vector<float> x = DataSource{9, 1}.normals(n), upstream = DataSource{9, 2}.normals(n), out(n);
  for (int i = 0; i < 64; ++i)
    x[static_cast<size_t>(i)] = static_cast<float>(i - 32) * 0.25f;  // bucket edges and middles
  x[64] = -0.0f, x[65] = 1e-42f, x[66] = 3e38f;
  for (const ElementInfo& element : element_table)
    for (const EstimatorInfo& info : estimator_table)
      for (const char* scale : {"e8m0", "ue4m3"}) {
        if (element.format.is_grid() || element.id == Element::fp32 || element.id == Element::bf16 ||
            element.id == Element::fp16)
          continue;
        for (const auto& order : arithmetic_table)
          for (float prescale : {1.0f, 0.75f}) {
            QuantSpec spec;
            spec.element = element.id, spec.arithmetic = order.id, spec.prescale = prescale;
            spec.scale = find_row(scale_table, scale)->id;
            spec.scale_rule = spec.scale == Scale::e8m0 ? ScaleRule::floor : ScaleRule::amax;
            const Quantizer q = resolve(spec);
            EstimatorSpec e;
            e.estimator = info.id;
            const uint32_t code = spec.scale == Scale::e8m0 ? 126 : 0x35;
            const TensorFactor t = {0.37f, 1.0f / 0.37f};
            for (const auto& [k, finite] : {std::pair{&kernels("generic"), true},
                                            {&kernels("generic"), false},
                                            {&kernels(), true},
                                            {&kernels(), false}}) {
              x[67] = finite ? 1.0f : INFINITY, x[68] = finite ? 2.0f : -INFINITY, x[69] = finite ? 3.0f : NAN;
              std::fill(out.begin(), out.end(), -5.0f);
              if (!slope_row(*k, e, q, code, t, x.data(), upstream.data(), out.data(), n)) continue;
              for (size_t i = 0; i < n; ++i) {
                const float u = saved_payload(q, x[i], code, t);
                const float expected = upstream[i] * estimator_multiplier(e.estimator, e, q.element, u);
                INFO(element.name << " " << info.name << " " << order.name << " x = " << x[i]);
                REQUIRE(bits_of(out[i]) == bits_of(expected));
              }
            }
          }
      }
}

TEST_CASE("2-D weights serve fprop and dgrad with the same codes", "[train]") {
  // A second quantisation would give other codes: stochastic rounding draws by position, searches add up errors in the
  // order of their elements, and a smooth maximum is the forward pass's alone. dX = dY Wq exactly when both products
  // see the same Wq: X = I makes Wq visible in Y.
  const int n = 64;
  for (const Json& weights : {Json{{"preset", "mxfp4"}, {"block", {32, 32}}, {"rounding", "stochastic"}},
                              Json{{"preset", "nvfp4"}, {"block", {16, 16}}, {"scale_rule", "mse"}},
                              Json{{"preset", "ue5m3fp4"}, {"block", {16, 16}}, {"scale_gradient", "softsoftmax"}}}) {
    INFO(weights.dump());
    Json recipe = {{"all", {{"*", {{"preset", "fp32"}}}}}};
    recipe["fprop"]["b"] = weights;
    recipe["dgrad"]["b"] = weights;
    recipe["dgrad"]["b"].erase("scale_gradient");
    const Dispatcher backend;
    LinearEngine engine(recipe_from_json(recipe), backend);
    engine.add_layer("layer", n, n, true);
    engine.finish();
    Arena memory;
    Pass pass;
    pass.step = 3;
    Tape tape(memory, kernels(), pass);
    Tensor identity = memory.tensor(n, n), w_value = memory.tensor(n, n);
    for (int i = 0; i < n; ++i)
      for (int j = 0; j < n; ++j) identity.row(i)[j] = i == j ? 1.0f : 0.0f;
    DataSource{3, 2}.normals(w_value.data, 0, w_value.size());
    Var x = tape.variable(identity, true), w = tape.variable(w_value, true);
    Var y = engine.forward(tape, 0, x, w, nullptr);
    Var loss = tape.variable(1, 1, true);
    tape.record(loss, [y, identity](Tape& t) {
      float* g = t.new_gradient(y);
      std::copy(identity.data, identity.data + identity.size(), g);
      t.add_gradient(y, g);
    });
    tape.backward(loss);
    for (int i = 0; i < n; ++i)
      for (int j = 0; j < n; ++j) REQUIRE(y->value.row(j)[i] == x->grad[i * n + j]);  // Wq^T and I Wq
  }
}

TEST_CASE("rounding errors of the real layers are those of Quartet and of 2502.20586", "[train]") {
  // W = I in fp32: Y is the quantised X. Gaussians with a factor 2^U(0,1) per block, so that every phase of a
  // power-of-two scale counts alike; floor with the 3/4 prescale, as in both papers' backward.
  const int rows = 4096, cols = 256;
  Arena memory;
  Tensor x_value = memory.tensor(rows, cols), identity = memory.tensor(cols, cols);
  DataSource{5, 1}.normals(x_value.data, 0, x_value.size());
  const std::vector<float> phase = DataSource{5, 2}.uniforms(x_value.size() / 32);
  for (int64_t i = 0; i < x_value.size(); ++i) x_value.data[i] *= std::exp2(phase[static_cast<size_t>(i / 32)]);
  for (int i = 0; i < cols; ++i)
    for (int j = 0; j < cols; ++j) identity.row(i)[j] = i == j ? 1.0f : 0.0f;
  const auto quantised = [&](const Json& operand) {
    const Dispatcher backend;
    LinearEngine engine(recipe_from_json({{"fprop", {{"a", operand}}}}), backend);
    engine.add_layer("layer", cols, cols, true);
    engine.finish();
    Pass pass;
    Arena step;
    Tape tape(step, kernels(), pass);
    Var y = engine.forward(tape, 0, tape.constant(x_value), tape.constant(identity), nullptr);
    return Doubles(y->value.data, y->value.data + y->value.size());
  };
  const Doubles x(x_value.data, x_value.data + x_value.size());
  const auto relative = [&](const Doubles& q) { return std::pow(distance(q, x), 2); };
  double along = 0, norm = 0;
  const Doubles rtn = quantised({{"preset", "mxfp4"}, {"prescale", 0.75}});
  for (size_t i = 0; i < x.size(); ++i) along += rtn[i] * x[i], norm += x[i] * x[i];
  CHECK(relative(rtn) == Approx(1.374e-2).epsilon(0.02));
  CHECK(1 - along / norm == Approx(9.3e-3).epsilon(0.05));  // misalignment: the part of x that rounding takes away
  const Doubles sr = quantised({{"preset", "mxfp4"}, {"rounding", "stochastic"}, {"prescale", 0.75}});
  CHECK(relative(sr) == Approx(2.79e-2).epsilon(0.03));
  along = 0;
  for (size_t i = 0; i < x.size(); ++i) along += sr[i] * x[i];
  CHECK(along / norm == Approx(1.0).margin(1e-3));  // unbiased with the prescale
}
