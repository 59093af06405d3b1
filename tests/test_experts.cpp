// Is a mixture of experts the weighted sum of those that each token chose, forward and backward? Against the formula in
// fp64 and its central differences.
#include <catch2/catch.hpp>
#include <cmath>

#include "sim/engine/quantized_linear.h"
#include "sim/net/experts.h"
#include "sim/rules/recipe.h"
#include "sim/train/example_pool.h"
#include "tasks/run.h"
#include "tests/support/support.h"

using namespace fp4;
using namespace fp4::sim;

namespace {

using Doubles = std::vector<double>;
constexpr int width = 4, ffn = 3, experts = 3, tokens = 7;

// Parameters in the order of their declaration: router, then gate, up and down of each expert.
struct Formula {
  int top;
  double balance;
  std::vector<Doubles> parameters;
  Doubles x, upstream;
  std::vector<std::vector<int>> chosen;  // held while values move

  double dot(const Doubles& w, int row, const double* v, int n) const {
    double sum = 0;
    for (int i = 0; i < n; ++i) sum += w[static_cast<size_t>(row * n + i)] * v[i];
    return sum;
  }
  Doubles probabilities(int t) const {
    Doubles p(experts);
    double sum = 0;
    for (int i = 0; i < experts; ++i)
      sum += p[static_cast<size_t>(i)] = std::exp(dot(parameters[0], i, &x[static_cast<size_t>(t * width)], width));
    for (double& v : p) v /= sum;
    return p;
  }
  void choose() {
    chosen.assign(tokens, {});
    for (int t = 0; t < tokens; ++t) {
      const Doubles p = probabilities(t);
      for (int i = 0; i < experts; ++i) {
        int larger = 0;
        for (int j = 0; j < experts; ++j) larger += p[static_cast<size_t>(j)] > p[static_cast<size_t>(i)];
        if (larger < top) chosen[static_cast<size_t>(t)].push_back(i);
      }
    }
  }
  Doubles output(int t) const {
    const Doubles p = probabilities(t);
    const double* in = &x[static_cast<size_t>(t * width)];
    double sum = 0;
    for (const int i : chosen[static_cast<size_t>(t)]) sum += p[static_cast<size_t>(i)];
    Doubles y(width);
    for (const int i : chosen[static_cast<size_t>(t)]) {
      const auto first = static_cast<size_t>(1 + 3 * i);
      Doubles hidden(ffn);
      for (int f = 0; f < ffn; ++f) {
        const double gate = dot(parameters[first], f, in, width), up = dot(parameters[first + 1], f, in, width);
        hidden[static_cast<size_t>(f)] = gate / (1 + std::exp(-gate)) * up;
      }
      for (int d = 0; d < width; ++d)
        y[static_cast<size_t>(d)] +=
            p[static_cast<size_t>(i)] / (top == 1 ? 1 : sum) * dot(parameters[first + 2], d, hidden.data(), ffn);
    }
    return y;
  }
  double loss() const {
    Doubles share(experts), mean(experts);
    double sum = 0;
    for (int t = 0; t < tokens; ++t) {
      const Doubles y = output(t), p = probabilities(t);
      for (int d = 0; d < width; ++d) sum += upstream[static_cast<size_t>(t * width + d)] * y[static_cast<size_t>(d)];
      for (const int i : chosen[static_cast<size_t>(t)]) share[static_cast<size_t>(i)] += 1.0 / (tokens * top);
      for (size_t i = 0; i < experts; ++i) mean[i] += p[i] / tokens;
    }
    for (size_t i = 0; i < experts; ++i) sum += balance * experts * share[i] * mean[i];
    return sum;
  }
};

Doubles copied(const float* from, int64_t n) { return {from, from + n}; }

}  // namespace

TEST_CASE("experts equal their formula and its derivatives", "[quick]") {
  for (const int top : {1, 2}) {
    INFO(top);
    const Dispatcher backend;
    LinearEngine engine(recipe_from_json("fp32"), backend);
    Parameters parameters;
    Builder build(parameters, engine);
    const Experts layer(build, "block0.", {width, ffn, experts, top, 1.0f, 0.25f});
    engine.finish();
    parameters.allocate(kernels(), 5);
    Arena memory;
    Pass pass;
    pass.step = 1;
    Tape tape(memory, kernels(), pass);
    Var x = tape.variable(tokens, width, true);
    DataSource{3, 1}.normals(x->value.data, 0, x->value.size());
    const std::vector<float> upstream = DataSource{3, 2}.normals(tokens * width);
    const Var y = layer(tape, x);
    Var loss = tape.variable(1, 1, true);
    tape.record(loss, [y, &upstream](Tape& t) {
      float* g = t.new_gradient(y);
      std::copy(upstream.begin(), upstream.end(), g);
      t.add_gradient(y, g);
    });
    tape.backward(loss);
    parameters.finish_gradients(tape);

    Formula formula{top, 0.25, {}, copied(x->value.data, x->value.size()), Doubles(upstream.begin(), upstream.end()),
                    {}};
    for (int i = 0; i < parameters.count(); ++i)
      formula.parameters.push_back(copied(parameters.value(i).data, parameters.value(i).size()));
    formula.choose();
    for (int t = 0; t < tokens; ++t) {
      const Doubles expected = formula.output(t);
      for (int d = 0; d < width; ++d)
        CHECK(static_cast<double>(y->value.row(t)[d]) == Approx(expected[static_cast<size_t>(d)]).margin(1e-5));
    }
    const auto derivative = [&](double& value) {
      const double before = value, h = 1e-5;
      value = before + h;
      const double above = formula.loss();
      value = before - h;
      const double below = formula.loss();
      value = before;
      return (above - below) / (2 * h);
    };
    for (size_t i = 0; i < formula.x.size(); ++i)
      CHECK(static_cast<double>(x->grad[i]) == Approx(derivative(formula.x[i])).margin(2e-5));
    for (int k = 0; k < parameters.count(); ++k)
      for (size_t i = 0; i < formula.parameters[static_cast<size_t>(k)].size(); ++i)
        CHECK(static_cast<double>(parameters.gradient(k)[i]) ==
              Approx(derivative(formula.parameters[static_cast<size_t>(k)][i])).margin(2e-5));
  }
}

TEST_CASE("language models of experts train, count and resume", "[train]") {
  const auto config_of = [](const char* recipe, int experts_of, int top) {
    return tasks::canonical({{"task",
                              {{"name", "lm"},
                               {"width", 32},
                               {"layers", 2},
                               {"heads", 2},
                               {"ffn", 32},
                               {"context", 32},
                               {"experts", experts_of},
                               {"top", top}}},
                             {"recipe", recipe},
                             {"train", {{"steps", 14}, {"batch", 2}, {"curve_points", 2}}}});
  };
  const test::TemporaryFolder folder;
  for (const char* recipe : {"moe_mxfp8", "moe_alto", "moe_nvfp4", "tetrajet2", "tetrajet_qema"}) {
    INFO(recipe);
    const Json config = config_of(recipe, 8, 2);
    REQUIRE(tasks::invalid_reason(config).empty());
    const History whole = tasks::run(config, 1);
    CHECK(whole.status == Status::finished);
    // 4 * 32^2 + 3 * 32 * 32 weights a token and expert: two experts of eight.
    CHECK(whole.metrics.at("weights") == 2 * (4 * 1024 + 3 * 1024 * 2));
    CHECK(whole.metrics.at("all_weights") == 2 * (4 * 1024 + 3 * 1024 * 8));
    RunOptions first, second;
    first.checkpoint_to = second.resume_from = folder / "c";
    first.stop_at = 11;
    tasks::run(config, 1, first);
    CHECK(tasks::run(config, 1, second).digest == whole.digest);
  }
  // What a recipe for experts keeps: attention in bf16.
  for (const LayerInfo& l : tasks::layers(config_of("moe_nvfp4", 4, 1)))
    if (l.quantisable) CHECK(l.precisions[0] == (l.name.find("expert") == std::string::npos ? "bf16" : "e2m1"));
  // One expert is the dense model, bit for bit; two that are both chosen are not.
  CHECK(tasks::run(config_of("mxfp4", 1, 1), 1).digest != tasks::run(config_of("mxfp4", 2, 2), 1).digest);
  CHECK_FALSE(config_of("mxfp4", 1, 1) == config_of("mxfp4", 2, 2));
  CHECK(tasks::invalid_reason(config_of("mxfp4", 1, 2)) == "lm: top must be at most experts");
}
