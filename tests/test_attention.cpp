// Do the products of attention and an embedding follow rules as linear layers do, and leave every bit alone without?
// Expected values: plain attention itself, and a case of two tokens worked out by hand.
#include <catch2/catch.hpp>
#include <cmath>

#include "sim/engine/quantized_linear.h"
#include "sim/net/attention.h"
#include "sim/rules/recipe.h"
#include "src/arith/spec_text.h"
#include "src/text/error.h"
#include "tasks/run.h"

using namespace fp4;
using sim::Json;

namespace {

sim::History run(const char* layers, int steps, const char* base = "mxfp4", bool centers = false) {
  const Json recipe = {{"base", base}, {"layers", Json::parse(layers)}, {"center_keys", centers}};
  const Json task = {{"name", "lm"}, {"width", 32}, {"heads", 2}, {"ffn", 32}, {"context", 16}};
  return tasks::run(
      tasks::canonical(
          {{"task", task}, {"recipe", recipe}, {"train", {{"steps", steps}, {"batch", 4}, {"curve_points", 1}}}}),
      1);
}

// y of one layer of attention under a recipe; q, k, v [2, width], two positions.
std::vector<float> attend(const Json& recipe, int width, int heads, std::vector<float> q, std::vector<float> k,
                          std::vector<float> v) {
  const Dispatcher backend;
  sim::LinearEngine engine(sim::recipe_from_json(recipe), backend);
  sim::Parameters parameters;
  sim::Builder build(parameters, engine);
  const sim::Attention attention(build, "block0", width, heads, 2);
  engine.finish();
  sim::Pass pass;
  pass.step = 1;
  sim::Arena memory;
  sim::Tape tape(memory, sim::kernels(), pass);
  const auto variable = [&](std::vector<float>& x) { return tape.variable({x.data(), 2, width}, true); };
  const sim::Var y = attention(tape, variable(q), variable(k), variable(v));
  return {y->value.data, y->value.data + y->value.size()};
}

// dL/dq, dL/dk and dL/dv of one head [rows, width] under a recipe, one after another, where dL/dy is given.
std::vector<float> gradients(const Json& recipe, int rows, int width, const std::vector<std::vector<float>>& qkv,
                             const std::vector<float>& dy) {
  const Dispatcher backend;
  sim::LinearEngine engine(sim::recipe_from_json(recipe), backend);
  sim::Parameters parameters;
  sim::Builder build(parameters, engine);
  const sim::Attention attention(build, "block0", width, 1, rows);
  engine.finish();
  sim::Pass pass;
  pass.step = 1;
  sim::Arena memory;
  sim::Tape tape(memory, sim::kernels(), pass);
  std::vector<std::vector<float>> values = qkv;
  std::vector<sim::Var> inputs;
  for (std::vector<float>& x : values) inputs.push_back(tape.variable({x.data(), rows, width}, true));
  const sim::Var y = attention(tape, inputs[0], inputs[1], inputs[2]);
  const sim::Var loss = tape.variable(1, 1, true);
  loss->value.data[0] = 0;
  tape.record(loss, [&](sim::Tape& t) {
    float* g = t.new_gradient(y);
    std::copy(dy.begin(), dy.end(), g);
    t.add_gradient(y, g);
  });
  tape.backward(loss);
  std::vector<float> out;
  for (const sim::Var v : inputs) out.insert(out.end(), v->grad, v->grad + v->value.size());
  return out;
}

// dL/dk of one head [4, 2].
std::vector<float> key_gradient(const Json& recipe, const std::vector<float>& q, const std::vector<float>& k,
                                const std::vector<float>& v, const std::vector<float>& dy) {
  const std::vector<float> all = gradients(recipe, 4, 2, {q, k, v}, dy);
  return {all.begin() + 8, all.begin() + 16};
}

// Causal attention in fp64 with each place where kernels differ: what its products meet forward and backward.
struct AttentionModel {
  using Matrix = std::vector<double>;
  int rows, width;
  Matrix q, k, v, dy;
  bool quantises = false, before_sum = false, decoded = false;  // `decoded`: backward products meet forward codes
  bool full_p = false;
  const char* delta = "of_scores";

  // Rows of `cols` numbers as NVFP4 holds them.
  static Matrix rounded(const Matrix& x, int cols, const char* words) {
    const std::vector<float> narrow(x.begin(), x.end());
    std::vector<float> out(narrow.size());
    Quantized codes;
    const Dispatcher reference("reference");
    reference.quantize({.x = view_of(narrow.data(), static_cast<int64_t>(x.size()) / cols, cols),
                        .spec = quant_spec_from_words(words)},
                       codes);
    reference.dequantize(codes, out.data());
    return {out.begin(), out.end()};
  }
  static Matrix transposed(const Matrix& x, int rows, int cols) {
    Matrix t(x.size());
    for (int r = 0; r < rows; ++r)
      for (int c = 0; c < cols; ++c) t[static_cast<size_t>(c * rows + r)] = x[static_cast<size_t>(r * cols + c)];
    return t;
  }
  // A [m, k] B [k, n]
  static Matrix product(const Matrix& a, const Matrix& b, int m, int k, int n) {
    Matrix c(static_cast<size_t>(m * n));
    for (int i = 0; i < m; ++i)
      for (int j = 0; j < n; ++j)
        for (int l = 0; l < k; ++l)
          c[static_cast<size_t>(i * n + j)] += a[static_cast<size_t>(i * k + l)] * b[static_cast<size_t>(l * n + j)];
    return c;
  }

  Matrix gradients() const {
    const int n = rows, w = width;
    const auto at = [n](int i, int j) { return static_cast<size_t>(i * n + j); };
    const double factor = 1 / std::sqrt(static_cast<double>(w));
    const Matrix qq = quantises ? rounded(q, w, "nvfp4") : q, kq = quantises ? rounded(k, w, "nvfp4") : k;
    const Matrix vq = quantises ? transposed(rounded(transposed(v, n, w), n, "nvfp4"), w, n) : v;
    const Matrix s = product(qq, transposed(kq, n, w), n, w, n), s_full = product(q, transposed(k, n, w), n, w, n);
    Matrix e(s.size()), p(s.size()), sums(static_cast<size_t>(n)), p_backward(s.size());
    for (int i = 0; i < n; ++i) {
      double top = s[at(i, 0)];
      for (int j = 0; j <= i; ++j) top = std::max(top, s[at(i, j)]);
      for (int j = 0; j <= i; ++j) sums[static_cast<size_t>(i)] += e[at(i, j)] = std::exp(factor * (s[at(i, j)] - top));
      for (int j = 0; j <= i; ++j) {
        p[at(i, j)] = e[at(i, j)] / sums[static_cast<size_t>(i)];
        p_backward[at(i, j)] =
            full_p ? std::exp(factor * (s_full[at(i, j)] - top)) / sums[static_cast<size_t>(i)] : p[at(i, j)];
      }
    }
    Matrix pq = p;  // as pv multiplies it
    if (quantises) {
      pq = rounded(before_sum ? e : p, n, "nvfp4");
      for (int i = 0; i < n && before_sum; ++i)
        for (int j = 0; j < n; ++j) pq[at(i, j)] /= sums[static_cast<size_t>(i)];
    }
    const Matrix y = product(pq, vq, n, n, w), y_full = product(p, vq, n, n, w);
    const Matrix dp = product(dy, transposed(decoded ? vq : v, n, w), n, w, n);
    Matrix ds(s.size());
    for (int i = 0; i < n; ++i) {
      double row = 0;
      const std::string word = delta;
      for (int j = 0; j < n && word == "of_scores"; ++j) row += p_backward[at(i, j)] * dp[at(i, j)];
      for (int c = 0; c < w && word != "of_scores"; ++c) {
        const auto place = static_cast<size_t>(i * w + c);
        row += dy[place] * (word == "of_output" ? y[place] : y_full[place]);
      }
      for (int j = 0; j < n; ++j) ds[at(i, j)] = factor * p_backward[at(i, j)] * (dp[at(i, j)] - row);
    }
    Matrix out = product(ds, decoded ? kq : k, n, n, w);
    const Matrix dk = product(transposed(ds, n, n), decoded ? qq : q, n, n, w);
    const Matrix dv = product(transposed(decoded ? pq : p_backward, n, n), dy, n, n, w);
    out.insert(out.end(), dk.begin(), dk.end());
    out.insert(out.end(), dv.begin(), dv.end());
    return out;
  }
};

Json ruled(const char* layers) { return {{"layers", Json::parse(layers)}}; }

}  // namespace

TEST_CASE("rules that leave products in fp32 change no bit of a training", "[train]") {
  const sim::History plain = run("[]", 3);
  const sim::History both = run(R"([{"kind": "qk", "recipe": "fp32"}, {"match": "pv", "recipe": "fp32"}])", 3);
  CHECK(both.digest == plain.digest);
  CHECK(run(R"([{"kind": "embedding", "recipe": "fp32"}])", 3).digest == plain.digest);
  CHECK(run(R"([{"kind": "qk", "recipe": "mxfp4"}])", 3).digest != plain.digest);
  CHECK(run(R"([{"kind": "embedding", "recipe": "mxfp4"}])", 3).digest != plain.digest);
  // 14 linear layers, the head, and one count a product and block: qk and pv of two blocks, and the embedding.
  using Counts = sim::PrecisionCounts;
  CHECK(plain.products[0] == Counts{{"e2m1", 42}, {"fp32", 3}});
  const sim::History fp8 = run(R"([{"kind": "qk", "recipe": "mxfp8"}, {"kind": "embedding", "recipe": "mxfp8"}])", 3);
  CHECK(fp8.products[0] == Counts{{"e2m1", 42}, {"e4m3", 9}, {"fp32", 9}});
  CHECK(fp8.products[1] == Counts{{"e2m1", 42}, {"e4m3", 6}, {"fp32", 9}});  // an embedding's input has no gradient
  CHECK_THROWS_WITH(run(R"([{"kind": "qk", "recipe": "ue5m3_hold50"}])", 1), Catch::Contains("hold"));
}

TEST_CASE("two tokens by hand", "[quick]") {
  // Blocks of q: 6 2.2 -> 6 2 (scale 1), 0.5 3 exact; of k: 4 1.2 -> 4 1 (scale 1), 1 1.6 -> 1 1.5 (scale 1/4).
  // Scores of the second token: 0.5*4 + 3*1 = 0.5*1 + 3*1.5 = 5, so it attends by halves.
  const std::vector<float> q = {6, 2.2f, 0.5f, 3}, k = {4, 1.2f, 1, 1.6f}, v = {1, 2.2f, 6, 0.5f};
  const std::vector<float> scores = attend(ruled(R"([{"kind": "qk", "recipe": "mxfp4"}])"), 2, 1, q, k, v);
  CHECK(scores[0] == 1.0f);
  CHECK(scores[1] == 2.2f);
  CHECK(scores[2] == 3.5f);
  CHECK(scores[3] == 0.5f * 2.2f + 0.25f);
  // Blocks of V^T: 1 6 exact, 2.2 0.5 -> 2 0.5 (scale 1/2); halves are exact in FP4.
  const char* both = R"([{"kind": "qk", "recipe": "mxfp4"}, {"kind": "pv", "recipe": "mxfp4"}])";
  CHECK(attend(ruled(both), 2, 1, q, k, v) == std::vector<float>{1, 2, 3.5f, 1.25f});
}

TEST_CASE("heads draw random bits of their own", "[quick]") {
  // Two heads with the same numbers, rounded stochastically between 1 and 1.5 in eight places each.
  std::vector<float> x;
  for (int i = 0; i < 2 * 16; ++i) x.push_back(i % 8 == 0 ? 4.0f : 1.25f);
  const char* rounded = R"([{"kind": "pv", "all": {"*": {"preset": "mxfp4", "rounding": "stochastic"}}}])";
  const std::vector<float> y = attend(ruled(rounded), 16, 2, x, x, x);
  const auto head = [&](int n) { return std::vector<float>(y.begin() + 16 + 8 * n, y.begin() + 24 + 8 * n); };
  CHECK(head(0) != head(1));
}

TEST_CASE("what all keys share has no gradient where keys lose their mean", "[quick]") {
  const std::vector<float> q = {6, 2, 0.5f, 3, 1, -2, 4, 0.3f}, k = {1, 0.5f, -1, 2, 0.3f, 1, 2, -0.7f};
  const std::vector<float> v = {1, 2, 6, 0.5f, -3, 1, 0.2f, 4}, dy = {1, -0.3f, 0.7f, 0.2f, -0.9f, 0.4f, 0.6f, 1.1f};
  const auto sums = [&](bool centers) {
    Json recipe = ruled(R"([{"kind": "qk", "recipe": "mxfp4_all"}])");
    recipe["center_keys"] = centers;
    const std::vector<float> g = key_gradient(recipe, q, k, v, dy);
    return std::abs(g[0] + g[2] + g[4] + g[6]) + std::abs(g[1] + g[3] + g[5] + g[7]);
  };
  CHECK(sums(true) < 1e-5f);
  CHECK(sums(false) > 1e-3f);  // of rounding to FP4 alone: in exact arithmetic they are 0, too
}

TEST_CASE("keys without their mean, by hand", "[quick]") {
  // K is 101 51 and 99 49: in FP4 both are 96 48 (scale 16), and the second token attends by halves. Without their mean
  // 100 50 they are 1 1 and -1 -1: scores 3.5 and -3.5, as of exact keys but for what both share.
  const std::vector<float> q = {6, 2, 0.5f, 3}, k = {101, 51, 99, 49}, v = {1, 2, 6, 0.5f};
  Json recipe = ruled(R"([{"kind": "qk", "recipe": "mxfp4"}])");
  CHECK(attend(recipe, 2, 1, q, k, v)[2] == 3.5f);
  recipe["center_keys"] = true;
  const double first = 1 / (1 + std::exp(-7 / std::sqrt(2.0)));
  CHECK(static_cast<double>(attend(recipe, 2, 1, q, k, v)[2]) == Approx(first + 6 * (1 - first)).epsilon(1e-6));
  // In fp32 they leave a training as it is, but for rounding; a qk that no rule quantises is left alone.
  const char* fp32 = R"([{"kind": "qk", "recipe": "fp32"}])";
  const sim::History plain = run(fp32, 8, "bf16"), centered = run(fp32, 8, "bf16", true);
  CHECK(centered.digest != plain.digest);
  CHECK(centered.metrics.at("loss") == Approx(plain.metrics.at("loss")).epsilon(1e-4));
  CHECK(run("[]", 3, "bf16", true).digest == run("[]", 3, "bf16").digest);
}

TEST_CASE("a cache stores keys and values in its format, by hand", "[quick]") {
  // Keys 4 1.2 -> 4 1 and 1 1.6 -> 1 1.5 in either direction, so the second token attends by halves, as above. Values
  // by token: 6 2.2 -> 6 2 (scale 1), 1 .35 -> 1 .375 (scale 1/4); by channel 6 1 exact, 2.2 .35 -> 2 .25 (scale 1/2).
  const std::vector<float> q = {6, 2.2f, 0.5f, 3}, k = {4, 1.2f, 1, 1.6f}, v = {6, 2.2f, 1, 0.35f};
  Json recipe = {{"attn", {{"kv", {{"preset", "mxfp4"}}}}}};
  CHECK(attend(recipe, 2, 1, q, k, v) == std::vector<float>{6, 2, 3.5f, 1.1875f});
  recipe["attn"]["values"] = "channel";
  CHECK(attend(recipe, 2, 1, q, k, v) == std::vector<float>{6, 2, 3.5f, 1.125f});
  // Keys 6 1.1 and .2 1: by token the second is .25 1 (scale 1/4), by channel 0 1 (6 and .2 share a scale).
  const std::vector<float> few = {0.1f, 0, 0.1f, 0}, keys = {6, 1.1f, 0.2f, 1}, values = {1, 0, 0, 0};
  const auto first_weight = [&](const char* axis) {
    recipe["attn"]["keys"] = axis;
    return static_cast<double>(attend(recipe, 2, 1, few, keys, values)[2]);
  };
  CHECK(first_weight("token") == Approx(1 / (1 + std::exp(-0.575 / std::sqrt(2.0)))).epsilon(1e-6));
  CHECK(first_weight("channel") == Approx(1 / (1 + std::exp(-0.6 / std::sqrt(2.0)))).epsilon(1e-6));
  // As they are: plain attention.
  recipe["attn"]["kv"] = {{"preset", "fp32"}};
  CHECK(attend(recipe, 2, 1, q, k, v) == attend(Json::object(), 2, 1, q, k, v));
  CHECK_THROWS_WITH(sim::recipe_from_json({{"attn", {{"keys", "head"}}}}), Catch::Contains("token, channel"));
}

TEST_CASE("a cache's factor is calibrated on batches of the training", "[quick]") {
  const Dispatcher backend;
  sim::LinearEngine engine(sim::recipe_from_json({{"attn", {{"kv", {{"preset", "nvfp4"}, {"tensor_scale", "hold"}}}}}}),
                           backend);
  const int product = engine.add_product("block0.qk", 16, 2, 1);
  engine.finish();
  sim::Pass pass;
  pass.step = 1;
  pass.training = false;
  sim::Arena memory;
  sim::Tape tape(memory, sim::kernels(), pass);
  std::vector<float> seen(32, 1.0f), other(32), expected(32);
  seen[5] = -77.0f;
  for (size_t i = 0; i < other.size(); ++i) other[i] = 0.37f * static_cast<float>(i % 7) - 1;
  engine.begin_calibration();
  pass.quantise = false;
  engine.store_in_cache(tape, product, {seen.data(), 2, 16}, false, 0);
  CHECK(seen[5] == -77.0f);
  engine.finish_calibration(tape);
  pass.quantise = true;
  QuantizeCall call;
  call.x = view_of(other.data(), 2, 16);
  call.spec = quant_spec_from_words("nvfp4,tensor_scale=hold");
  call.held_amax = 77.0f;
  Quantized stored;
  backend.quantize(call, stored);
  backend.dequantize(stored, expected.data());
  engine.store_in_cache(tape, product, {other.data(), 2, 16}, false, 0);
  CHECK(other == expected);
  const Json held = {{"base", "bf16"}, {"attn", {{"kv", {{"preset", "nvfp4"}, {"tensor_scale", "hold"}}}}}};
  const Json config = tasks::canonical({{"task", "lm"}, {"recipe", held}});
  CHECK_THAT(tasks::invalid_reason(config), Catch::Contains("attn.kv") && Catch::Contains("fp4sim eval"));
  const Json none = tasks::canonical({{"task", "regression"}, {"recipe", {{"attn", {{"kv", {{"preset", "mxfp4"}}}}}}}});
  CHECK_THROWS_WITH(tasks::run(none, 1), Catch::Contains("no attention"));
}

TEST_CASE("a tile of the softmax is rounded before or after its sum", "[quick]") {
  // Scores of the second token 0 and d with exp(d) = 0.4: before the sum 1 0.4 -> 1 0.375 (scale 1/4), divided by 1.4;
  // after it 5/7 2/7 -> 0.75 0.25 (scale 1/8).
  const float d = static_cast<float>(std::log(0.4) * std::sqrt(2.0));
  const std::vector<float> q = {1, 0, 1, 0}, k = {0, 0, d, 0}, v = {1, 0, 0, 1};
  Json recipe = ruled(R"([{"kind": "pv", "fprop": {"a": {"preset": "mxfp4"}}}])");
  CHECK(attend(recipe, 2, 1, q, k, v) == std::vector<float>{1, 0, 0.75f, 0.25f});
  recipe["attn"] = {{"tile", "before_sum"}};
  const std::vector<float> y = attend(recipe, 2, 1, q, k, v);
  CHECK(y[0] == 1.0f);
  CHECK(y[2] == Approx(1 / 1.4).epsilon(1e-6));
  CHECK(y[3] == Approx(0.375 / 1.4).epsilon(1e-6));
  // In fp32 both are one softmax, forward and backward, but for rounding.
  const auto trained = [](const char* tile) {
    const Json exact = {
        {"base", "bf16"}, {"layers", Json::parse(R"([{"kind": "pv", "recipe": "fp32"}])")}, {"attn", {{"tile", tile}}}};
    const Json task = {{"name", "lm"}, {"width", 32}, {"heads", 2}, {"ffn", 32}, {"context", 16}};
    return tasks::run(
        tasks::canonical(
            {{"task", task}, {"recipe", exact}, {"train", {{"steps", 12}, {"batch", 4}, {"curve_points", 1}}}}),
        1);
  };
  const sim::History after = trained("after_sum"), before = trained("before_sum");
  CHECK(before.digest != after.digest);
  CHECK(before.metrics.at("loss") == Approx(after.metrics.at("loss")).epsilon(2e-5));
}

TEST_CASE("attention's backward is what its words say, against a model in fp64", "[quick]") {
  AttentionModel m;
  m.rows = 20, m.width = 12;
  std::vector<std::vector<float>> inputs;
  for (uint64_t i = 0; i < 4; ++i) {
    std::vector<float> x(static_cast<size_t>(m.rows * m.width));
    for (size_t j = 0; j < x.size(); ++j)
      x[j] = 1.5f * (static_cast<float>(random_draw({i + 1, 0, 0}, j, 32)) * 0x1p-31f - 1);
    inputs.push_back(x);
  }
  const auto doubles = [](const std::vector<float>& x) { return std::vector<double>(x.begin(), x.end()); };
  m.q = doubles(inputs[0]), m.k = doubles(inputs[1]), m.v = doubles(inputs[2]), m.dy = doubles(inputs[3]);
  const std::vector<float> dy = inputs.back();
  inputs.pop_back();
  const auto distance = [](const std::vector<double>& a, const std::vector<double>& b) {
    double error = 0, norm = 0;
    for (size_t i = 0; i < a.size(); ++i) error += (a[i] - b[i]) * (a[i] - b[i]), norm += b[i] * b[i];
    return std::sqrt(error / norm);
  };
  for (const bool quantises : {false, true})
    for (const bool decoded : {false, true})
      for (const char* tile : {"after_sum", "before_sum"}) {
        std::vector<std::vector<double>> seen;
        for (const char* recompute : {"forward", "full"})
          for (const char* delta : {"of_scores", "of_output", "of_full_output", "derived"}) {
            const Json forward = {{"*", {{"preset", quantises ? "nvfp4" : "fp32"}}}};
            const Json backward = {{"b", {{"source", decoded ? "fprop_quantised" : "high_precision"}}}};
            Json rules = Json::array();
            for (const char* kind : {"qk", "pv"})
              rules.push_back({{"kind", kind}, {"fprop", forward}, {"dgrad", backward}, {"wgrad", backward}});
            const Json recipe = {{"layers", rules},
                                 {"attn", {{"tile", tile}, {"recompute", recompute}, {"delta", delta}}}};
            m.quantises = quantises, m.decoded = decoded;
            m.before_sum = tile == std::string("before_sum");
            m.full_p = recompute == std::string("full");
            m.delta = delta != std::string("derived") ? delta : m.before_sum ? "of_output" : "of_scores";
            const std::vector<double> expected = m.gradients(), got = doubles(gradients(recipe, 20, 12, inputs, dy));
            INFO(quantises << decoded << " " << tile << " " << recompute << " " << delta);
            CHECK(distance(got, expected) < 2e-6);
            if (!quantises) CHECK(distance(got, doubles(gradients(Json::object(), 20, 12, inputs, dy))) < 2e-6);
            // Of the same V and P, the sum of dY (P V) is that of P dP.
            const bool is_second = delta == std::string("of_full_output") && decoded && !m.full_p;
            if (is_second && quantises) CHECK(distance(got, seen.front()) < 2e-6);
            if (quantises && !is_second && delta != std::string("derived")) seen.push_back(got);
          }
        // Where something is rounded, no two other settings are alike.
        for (size_t i = 0; i < seen.size(); ++i)
          for (size_t j = 0; j < i; ++j) CHECK(distance(seen[i], seen[j]) > 1e-4);
      }
}

TEST_CASE("the recipes of attention's backward train on lm and leave other models in bf16", "[train]") {
  const auto digest = [](const char* recipe, Json task) {
    if (task == "lm") task = {{"name", "lm"}, {"width", 32}, {"heads", 2}, {"ffn", 32}, {"context", 16}};
    return tasks::run(
               tasks::canonical(
                   {{"task", task}, {"recipe", recipe}, {"train", {{"steps", 4}, {"batch", 4}, {"curve_points", 1}}}}),
               1)
        .digest;
  };
  CHECK(digest("attn_qat", "classifier") == digest("bf16", "classifier"));
  CHECK(digest("attn_fp4_backward", "classifier") == digest("bf16", "classifier"));
  CHECK(digest("attn_qat", "lm") != digest("attn_fp4_backward", "lm"));
  CHECK(digest("attn_qat", "lm") != digest("bf16", "lm"));
  CHECK_THROWS_WITH(sim::recipe_from_json({{"attn", {{"delta", "of_rows"}}}}), Catch::Contains("of_full_output"));
}
