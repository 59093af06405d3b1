// Are split products what they are defined to be? Cases worked by hand, and singular values by another library.
#include <Eigen/Eigenvalues>
#include <catch2/catch.hpp>
#include <cmath>

#include "sim/engine/low_rank.h"
#include "sim/train/example_pool.h"
#include "tasks/run.h"
#include "tests/support/linear_layer.h"
#include "tests/support/support.h"

using namespace fp4;
using namespace fp4::sim;

namespace {

struct LayerProducts {
  std::vector<float> y, dx, dw;
};

// One layer: Y = X W^T, with dL/dY given.
LayerProducts products_of(const Json& recipe, const std::vector<float>& x, const std::vector<float>& w,
                          const std::vector<float>& dy, int in) {
  const Dispatcher backend;
  LinearEngine engine(recipe_from_json(recipe), backend);
  const int out = static_cast<int>(w.size()) / in, rows = static_cast<int>(x.size()) / in;
  engine.add_layer("layer", in, out, true);
  engine.finish();
  Pass pass;
  pass.step = 1;
  Arena memory;
  Tape tape(memory, kernels(), pass);
  const auto variable = [&](const std::vector<float>& values, int cols) {
    Var v = tape.variable(static_cast<int>(values.size()) / cols, cols, true);
    std::copy(values.begin(), values.end(), v->value.data);
    return v;
  };
  Var vx = variable(x, in), vw = variable(w, in);
  Var y = engine.forward(tape, 0, vx, vw, nullptr);
  Var loss = tape.variable(1, 1, true);
  tape.record(loss, [y, &dy](Tape& t) {
    float* g = t.new_gradient(y);
    std::copy(dy.begin(), dy.end(), g);
    t.add_gradient(y, g);
  });
  tape.backward(loss);
  const auto n = static_cast<size_t>(rows) * static_cast<size_t>(in);
  return {{y->value.data, y->value.data + y->value.size()}, {vx->grad, vx->grad + n}, {vw->grad, vw->grad + w.size()}};
}

std::vector<float> identity(int n) {
  std::vector<float> values(static_cast<size_t>(n * n), 0.0f);
  for (int i = 0; i < n; ++i) values[static_cast<size_t>(i * n + i)] = 1;
  return values;
}

}  // namespace

TEST_CASE("hot channels by hand", "[quick]") {
  // Of ten channels one is hot, the ninth. MXFP4 of the cold ones has scale 1 (their largest is 6): 5, halfway between
  // 4 and 6, becomes 4, the others are exact: 24 in all. MXFP8 holds 88 = 1.375 * 64 and 7 exactly: 616.
  const std::vector<float> x = {1, 2, 3, 4, 6, 5, 0.5f, 1.5f, 88, 2}, w = {1, 1, 1, 1, 1, 1, 1, 1, 7, 1};
  const Json split = {{"split", {{"method", "hot_channels"}}}};
  const Json mxfp4 = {{"*", {{"preset", "mxfp4"}}}};
  Json both = mxfp4;
  both.update(split);
  CHECK(products_of({{"fprop", both}}, x, w, {1}, 10).y == std::vector<float>{640});
  // Together they have scale 16: 6 and 5 become 8, what is smaller 0, 88 becomes 96, and 7 is clipped at 6.
  CHECK(products_of({{"fprop", mxfp4}}, x, w, {1}, 10).y == std::vector<float>{592});
  // wgrad: columns of dW. Blocks of one token: every power of two and 3, 6, 1.5 times one exact, 5 -> 4, 88 -> 96.
  const LayerProducts whole = products_of({{"wgrad", mxfp4}}, x, w, {1}, 10);
  CHECK(whole.dw == std::vector<float>{1, 2, 3, 4, 6, 4, 0.5f, 1.5f, 96, 2});
  const LayerProducts parts = products_of({{"wgrad", both}}, x, w, {1}, 10);
  CHECK(parts.dw == std::vector<float>{1, 2, 3, 4, 6, 4, 0.5f, 1.5f, 88, 2});
  // A source from fprop is the matrix put together again: dX = dY W with W's hot weight 7, else 6.
  Json dgrad = {{"a", {{"preset", "fp32"}}}, {"b", {{"preset", "fp32"}, {"source", "fprop_quantised"}}}};
  CHECK(products_of({{"fprop", both}, {"dgrad", dgrad}}, x, w, {1}, 10).dx == w);
  CHECK(products_of({{"fprop", mxfp4}, {"dgrad", dgrad}}, x, w, {1}, 10).dx[8] == 6);
  // The same of X; dW = dY^T X.
  Json wgrad = {{"a", {{"preset", "fp32"}}}, {"b", {{"preset", "fp32"}, {"source", "fprop_quantised"}}}};
  CHECK(products_of({{"fprop", both}, {"wgrad", wgrad}}, x, w, {1}, 10).dw ==
        std::vector<float>{1, 2, 3, 4, 6, 4, 0.5f, 1.5f, 88, 2});
}

TEST_CASE("channels, in numbers", "[quick]") {
  Arena arena;
  const std::vector<float> x = {1, -9, 2, 9, 0, /**/ 3, 1, -2, 1, 0};
  const auto hot = [&](double share) {
    const Channels c = choose_channels(arena, view_of(x.data(), 2, 5), share);
    return std::vector<int>(c.hot, c.hot + c.hot_count);
  };
  CHECK(hot(0.1) == std::vector<int>{1});            // floor(0.5 + 0.5); of the equals 1 and 3 the first
  CHECK(hot(0.4) == std::vector<int>{1, 3});         // ascending
  CHECK(hot(0.6) == std::vector<int>{0, 1, 3});      // then the 3
  CHECK(hot(0.99) == std::vector<int>{0, 1, 2, 3});  // one stays
  CHECK(hot(0.09).empty());
}

TEST_CASE("clamped activations by hand", "[quick]") {
  // 100 values of -3 .. 3 with two outliers; the second largest is 3, the second smallest -3. Beyond: 997 is 996 in
  // bf16 (steps of 4), -497 is -496 (steps of 2, halfway, to even). W = 1: Y is X as the product sees it.
  std::vector<float> x(100);
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(static_cast<int>(i % 7) - 3);
  x[42] = 1000, x[77] = -500;
  std::vector<float> seen = x;
  seen[42] = 3 + 996, seen[77] = -3 - 496;
  Json fprop = {{"a", {{"preset", "mxfp4"}}}, {"split", {{"method", "clamp"}}}};
  CHECK(products_of({{"fprop", fprop}}, x, identity(10), std::vector<float>(100), 10).y == seen);
  // Four at each end would be clamped by .04: at most 2 t values stand in the second part.
  Arena arena;
  Pass pass;
  const Tape tape(arena, kernels(), pass);
  const std::vector<float> normals = DataSource{3, 1}.normals(100);
  const Clamped c = clamped(tape, view_of(normals.data(), 10, 10), 0.04);
  int beyond = 0;
  for (int i = 0; i < 100; ++i) {
    beyond += c.beyond.data[i] != 0;
    REQUIRE(c.inside.data[i] + c.beyond.data[i] == Approx(normals[static_cast<size_t>(i)]).epsilon(1e-6));
  }
  CHECK(beyond == 8);
  // Through dgrad and wgrad, and as a source: dX of dY and dW of X^T are seen alike.
  const Json backward = {{"fprop", {{"a", {{"preset", "mxfp4"}}}, {"split", {{"method", "clamp"}}}}},
                         {"wgrad", {{"b", {{"source", "fprop_quantised"}}}}}};
  const LayerProducts p = products_of(backward, x, identity(10), identity(10), 10);
  CHECK(p.dw == seen);
  const Json dgrad = {{"dgrad", {{"a", {{"preset", "mxfp4"}}}, {"split", {{"method", "clamp"}}}}}};
  CHECK(products_of(dgrad, identity(10), identity(10), x, 10).dx == seen);
  const Json wgrad = {
      {"wgrad",
       {{"b", {{"preset", "mxfp4"}, {"block", "tensor"}, {"scale", "e8m0"}}}, {"split", {{"method", "clamp"}}}}}};
  CHECK(products_of(wgrad, x, identity(10), identity(10), 10).dw == seen);
}

TEST_CASE("low-rank parts by hand and by another library", "[quick]") {
  // X = 1000 on every place, and +-1 at right angles to it: the singular values are 4000 and 4.
  std::vector<float> x;
  for (const int row : {1, -1, 1, -1})
    for (const int col : {1, 1, -1, -1}) x.push_back(static_cast<float>(1000 + row * col));
  Arena arena;
  Pass pass;
  Tape tape(arena, kernels(), pass);
  const LowRank part = low_rank(tape, view_of(x.data(), 4, 4), 0.25, {});
  REQUIRE(part.values.cols == 1);
  CHECK(part.values.data[0] == Approx(4000).epsilon(1e-6));
  for (int i = 0; i < 16; ++i) {
    CHECK(part.left.row(0)[i / 4] * part.right.row(0)[i % 4] == Approx(0.25).epsilon(1e-6));
    CHECK(part.rest.data[i] == Approx(x[static_cast<size_t>(i)] - 1000).margin(1e-3));
  }
  // FP4 of X has steps of a sixth to a third of 1001: it loses the +-1, which the rest keeps exactly.
  Json fprop = {{"a", {{"element", "e2m1"}, {"scale", "fp32"}, {"scale_rule", "amax"}}}};
  const auto error = [&] {
    double largest = 0;
    const LayerProducts p = products_of({{"fprop", fprop}}, x, identity(4), std::vector<float>(16), 4);
    for (size_t i = 0; i < 16; ++i) largest = std::max(largest, std::fabs(static_cast<double>(p.y[i] - x[i])));
    return largest;
  };
  CHECK(error() > 1.9);
  fprop["split"] = {{"method", "low_rank"}, {"share", 0.25}};
  CHECK(error() < 0.01);

  // Ten values 2^-j among 40 x 24: the largest three.
  Eigen::MatrixXd m = Eigen::MatrixXd::Zero(40, 24);
  const std::vector<float> n = DataSource{3, 2}.normals(64 * 10);
  for (int j = 0; j < 10; ++j)
    for (int r = 0; r < 40; ++r)
      for (int c = 0; c < 24; ++c)
        m(r, c) += std::exp2(-j) *
                   static_cast<double>(n[static_cast<size_t>(64 * j + r)] * n[static_cast<size_t>(64 * j + 40 + c)]);
  std::vector<float> values;
  for (int r = 0; r < 40; ++r)
    for (int c = 0; c < 24; ++c) values.push_back(static_cast<float>(m(r, c)));
  const MatrixView view = view_of(values.data(), 40, 24);
  const LowRank three = low_rank(tape, view, 0.125, {1, 2, 3});
  // Eigenvalues of m^T m are squares of singular values, its eigenvectors right singular vectors; Eigen sorts upwards.
  const Eigen::SelfAdjointEigenSolver<Eigen::MatrixXd> squared(m.transpose() * m);
  const Eigen::VectorXd squares = squared.eigenvalues().reverse();
  const Eigen::MatrixXd right = squared.eigenvectors().rowwise().reverse();
  REQUIRE(three.values.cols == 3);
  double rest = 0;
  for (int64_t i = 0; i < three.rest.size(); ++i) rest += std::pow(static_cast<double>(three.rest.data[i]), 2);
  double best = 0;
  for (int j = 3; j < 24; ++j) best += squares(j);
  CHECK(rest == Approx(best).epsilon(0.02));
  for (int j = 0; j < 3; ++j) {
    CHECK(static_cast<double>(three.values.data[j]) == Approx(std::sqrt(squares(j))).epsilon(0.005));
    double along = 0;
    for (int c = 0; c < 24; ++c) along += right(c, j) * static_cast<double>(three.right.row(j)[c]);
    CHECK(std::fabs(along) == Approx(1).epsilon(0.01));
  }
  // The same bits with every set of kernels; a matrix with an infinity has no part.
  Tape plain(arena, kernels("generic"), pass);
  const LowRank again = low_rank(plain, view, 0.125, {1, 2, 3});
  CHECK(std::equal(three.rest.data, three.rest.data + three.rest.size(), again.rest.data));
  values[5] = INFINITY;
  CHECK(low_rank(tape, view, 0.125, {1, 2, 3}).values.data[0] == 0);
  CHECK(low_rank(tape, view_of(std::vector<float>(12).data(), 3, 4), 0.5, {}).values.data[0] == 0);
}

TEST_CASE("split products draw, resume and change with rules and phases", "[train]") {
  const test::TemporaryFolder folder;
  for (const char* name : {"hot_channels", "occ_wang", "metis", "tetrajet2"})
    for (const char* task : {"regression", "classifier"}) {
      INFO(name << " " << task);
      const Json config = tasks::canonical(
          {{"task", task}, {"recipe", name}, {"train", {{"steps", 12}, {"curve_points", 2}, {"batch", 64}}}});
      REQUIRE(tasks::invalid_reason(config).empty());
      CHECK(to_json(sim::canonical(recipe_from_json(config.at("recipe")))) == config.at("recipe"));
      const History whole = tasks::run(config, 1);
      RunOptions first, second;
      first.checkpoint_to = second.resume_from = folder / "c";
      first.stop_at = 5;
      tasks::run(config, 1, first);
      CHECK(tasks::run(config, 1, second).digest == whole.digest);
    }
  // A rule's recipe takes a split away, and a phase too; the words say what ran.
  const Json ruled = tasks::canonical({{"task", "classifier"},
                                       {"recipe",
                                        {{"base", "hot_channels"},
                                         {"layers", {{{"first", 1}, {"recipe", "nvfp4"}}}},
                                         {"phases", {{{"until", 0.5}}, {{"wgrad", "bf16.wgrad"}}}}}},
                                       {"train", {{"steps", 4}, {"batch", 64}}}});
  const std::vector<LayerInfo> layers = tasks::layers(ruled);
  CHECK(layers[0].precisions[0] == "e2m1");
  CHECK(layers[1].precisions[0] == "e2m1 + e4m3");
  const History h = tasks::run(ruled, 1);
  CHECK(h.products[2].contains("bf16"));
  CHECK(h.products[2].contains("e2m1 + e4m3"));
}

TEST_CASE("splits say what they accept", "[quick]") {
  const auto reason = [](const Json& fprop) { return invalid_reason(recipe_from_json({{"fprop", fprop}})); };
  const Json clamp = {{"method", "clamp"}}, low = {{"method", "low_rank"}}, hot = {{"method", "hot_channels"}};
  CHECK(reason({{"split", hot}}).empty());
  CHECK(reason({{"*", {{"preset", "mxfp4"}, {"estimator", "dge"}}}, {"split", hot}}) ==
        "fprop: split hot_channels needs estimator ste and scale_gradient none for what it splits");
  CHECK(reason({{"b", {{"preset", "mxfp4"}, {"estimator", "dge"}}}, {"split", clamp}}).empty());
  CHECK(reason({{"split", clamp}, {"hadamard", {{"size", 16}}}}) ==
        "fprop: split clamp needs an fprop without a Hadamard");
  CHECK(reason({{"split", {{"method", "clamp"}, {"share", 0.5}}}}) ==
        "fprop: split clamp needs a share between 0 and 0.5");
  CHECK(invalid_reason(recipe_from_json({{"wgrad", {{"split", low}, {"hadamard", {{"size", 16}}}}}})) ==
        "wgrad: split low_rank needs a product without a Hadamard");
  CHECK_THROWS_WITH(recipe_from_json({{"fprop", {{"split", {{"method", "hot"}}}}}}),
                    Catch::Contains("hot_channels, clamp, low_rank"));
}
