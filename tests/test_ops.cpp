// Does every operation of the trainer compute what it says, and is its backward pass the derivative of that? The
// expected values come from plain fp64 formulas written here; gradients from their central differences.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <vector>

#include "sim/tape/ops.h"
#include "sim/train/example_pool.h"
#include "src/text/error.h"

using namespace fp4;
using namespace fp4::sim;

namespace {

using Doubles = std::vector<double>;

struct Input {
  Tensor value;
  Doubles doubles() const { return {value.data, value.data + value.size()}; }
};

// Runs `ours` on fp32 inputs with the upstream gradient `weight` (loss = sum of weight * output), and compares output
// and gradients with the fp64 function `truth`.
class Check {
 public:
  Teacher* teacher = nullptr;  // whom losses follow

  Input input(int rows, int cols, float scale = 1.0f) {
    Input in{arena_.tensor(rows, cols)};
    DataSource{7, number_++}.normals(in.value.data, 0, in.value.size());
    for (int64_t i = 0; i < in.value.size(); ++i) in.value.data[i] *= scale;
    inputs_.push_back(in);
    return in;
  }

  void run(const std::function<Var(Tape&, const std::vector<Var>&)>& ours,
           const std::function<Doubles(const std::vector<Doubles>&)>& truth) {
    Pass pass;
    pass.teacher = teacher;
    Tape tape(step_, kernels(), pass);
    std::vector<Var> vars;
    for (const Input& in : inputs_) vars.push_back(tape.variable(in.value, true));
    Var out = ours(tape, vars);
    const int64_t n = out->value.size();
    std::vector<float> weight(static_cast<size_t>(n), 1.0f);
    if (n > 1) DataSource{7, 99}.normals(weight.data(), 0, n);
    // loss = sum(weight * out), built so that backward starts with the weights.
    Var loss = tape.variable(1, 1, true);
    loss->value.data[0] = 0;
    tape.record(loss, [out, n, w = weight.data()](Tape& t) {
      float* g = t.new_gradient(out);
      for (int64_t i = 0; i < n; ++i) g[i] = w[i];
      t.add_gradient(out, g);
    });
    tape.backward(loss);

    std::vector<Doubles> x;
    for (const Input& in : inputs_) x.push_back(in.doubles());
    const Doubles expected = truth(x);
    REQUIRE(static_cast<int64_t>(expected.size()) == n);
    for (int64_t i = 0; i < n; ++i)
      REQUIRE(static_cast<double>(out->value.data[i]) ==
              Approx(expected[static_cast<size_t>(i)]).epsilon(2e-5).margin(2e-6));
    const auto scalar = [&] {
      const Doubles y = truth(x);
      double total = 0;
      for (size_t i = 0; i < y.size(); ++i) total += static_cast<double>(weight[i]) * y[i];
      return total;
    };
    for (size_t v = 0; v < x.size(); ++v) {
      INFO("gradient of input " << v);
      REQUIRE(vars[v]->has_grad);
      for (size_t i = 0; i < x[v].size(); i += 1 + x[v].size() / 40) {
        const double kept = x[v][i], h = 1e-5;
        x[v][i] = kept + h;
        const double up = scalar();
        x[v][i] = kept - h;
        const double down = scalar();
        x[v][i] = kept;
        REQUIRE(static_cast<double>(vars[v]->grad[i]) == Approx((up - down) / (2 * h)).epsilon(1e-4).margin(2e-5));
      }
    }
  }

 private:
  Arena arena_, step_;
  std::vector<Input> inputs_;
  uint32_t number_ = 0;
};

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

Doubles map(const Doubles& x, double (*f)(double)) {
  Doubles y;
  for (double v : x) y.push_back(f(v));
  return y;
}

}  // namespace

TEST_CASE("elementwise operations", "[train]") {
  SECTION("add, where another operation reads the first term, too") {
    Check c;
    c.input(5, 7), c.input(5, 7);
    c.run(
        [](Tape& t, const auto& v) {
          const Var other = relu(t, v[0]);  // recorded first, so that its gradient comes last
          return add(t, other, add(t, v[0], v[1]));
        },
        [](const auto& x) {
          Doubles y = x[0];
          for (size_t i = 0; i < y.size(); ++i) y[i] += std::max(x[0][i], 0.0) + x[1][i];
          return y;
        });
  }
  SECTION("add") {
    Check c;
    c.input(5, 7), c.input(5, 7);
    c.run([](Tape& t, const auto& v) { return add(t, v[0], v[1]); },
          [](const auto& x) {
            Doubles y = x[0];
            for (size_t i = 0; i < y.size(); ++i) y[i] += x[1][i];
            return y;
          });
  }
  SECTION("an input that is used twice collects both gradients") {
    Check c;
    c.input(5, 7);
    c.run([](Tape& t, const auto& v) { return add(t, v[0], silu(t, v[0])); },
          [](const auto& x) { return map(x[0], [](double v) { return v + v * sigmoid(v); }); });
  }
  SECTION("relu") {
    Check c;
    c.input(5, 7);
    c.run([](Tape& t, const auto& v) { return relu(t, v[0]); },
          [](const auto& x) { return map(x[0], [](double v) { return v > 0 ? v : 0; }); });
  }
  SECTION("silu") {
    Check c;
    c.input(5, 7, 3.0f);
    c.run([](Tape& t, const auto& v) { return silu(t, v[0]); },
          [](const auto& x) { return map(x[0], [](double v) { return v * sigmoid(v); }); });
  }
  SECTION("swiglu") {
    Check c;
    c.input(4, 33), c.input(4, 33);
    c.run([](Tape& t, const auto& v) { return swiglu(t, v[0], v[1]); },
          [](const auto& x) {
            Doubles y;
            for (size_t i = 0; i < x[0].size(); ++i) y.push_back(x[0][i] * sigmoid(x[0][i]) * x[1][i]);
            return y;
          });
  }
}

TEST_CASE("the interaction multiplies all pairs", "[train]") {
  const int rows = 3, width = 5, parts = 2;  // z0 = x, z1 and z2 the halves of y: x, z1.z0, z2.z0, z2.z1
  Check c;
  c.input(rows, width), c.input(rows, parts * width);
  c.run([](Tape& t, const auto& v) { return interaction(t, v[0], v[1]); },
        [&](const auto& x) {
          Doubles y;
          for (size_t r = 0; r < rows; ++r) {
            const auto z = [&](size_t i, size_t d) {
              return i == 0 ? x[0][r * width + d] : x[1][(r * parts + i - 1) * width + d];
            };
            for (size_t d = 0; d < width; ++d) y.push_back(z(0, d));
            for (const auto& [i, j] : {std::pair{1, 0}, {2, 0}, {2, 1}}) {
              double sum = 0;
              for (size_t d = 0; d < width; ++d) sum += z(static_cast<size_t>(i), d) * z(static_cast<size_t>(j), d);
              y.push_back(sum);
            }
          }
          return y;
        });
}

TEST_CASE("rms_norm", "[train]") {
  const int rows = 3, cols = 37;
  Check c;
  c.input(rows, cols), c.input(1, cols);
  c.run([](Tape& t, const auto& v) { return rms_norm(t, v[0], v[1]); },
        [=](const auto& x) {
          Doubles y;
          for (size_t r = 0; r < rows; ++r) {
            double squares = 0;
            for (size_t i = 0; i < cols; ++i) squares += x[0][r * cols + i] * x[0][r * cols + i];
            for (size_t i = 0; i < cols; ++i)
              y.push_back(x[0][r * cols + i] / std::sqrt(squares / cols + 1e-5) * x[1][i]);
          }
          return y;
        });
}

TEST_CASE("embedding adds the gradients of repeated tokens", "[train]") {
  static const int32_t tokens[] = {2, 0, 2, 1, 2};
  Check c;
  c.input(4, 6);  // row 3 is never read
  c.run([](Tape& t, const auto& v) { return embedding(t, tokens, 5, v[0]); },
        [](const auto& x) {
          Doubles y;
          for (int32_t token : tokens)
            for (size_t i = 0; i < 6; ++i) y.push_back(x[0][static_cast<size_t>(token) * 6 + i]);
          return y;
        });
}

TEST_CASE("rope rotates pairs by position * 10000^(-2i/W)", "[train]") {
  const int context = 5, heads = 2, width = 6, rows = 10;
  Arena arena;
  const RopeTable table = rope_table(arena, kernels(), context, width);
  Check c;
  c.input(rows, heads * width);
  c.run([&](Tape& t, const auto& v) { return rope(t, v[0], heads, table); },
        [=](const auto& x) {
          Doubles y(x[0].size());
          for (size_t r = 0; r < rows; ++r)
            for (size_t h = 0; h < heads; ++h)
              for (size_t i = 0; i < width / 2; ++i) {
                const double angle =
                    static_cast<double>(r % context) * std::pow(10000.0, -2.0 * static_cast<double>(i) / width);
                const size_t a = (r * heads + h) * width + i, b = a + width / 2;
                y[a] = x[0][a] * std::cos(angle) - x[0][b] * std::sin(angle);
                y[b] = x[0][b] * std::cos(angle) + x[0][a] * std::sin(angle);
              }
          return y;
        });
}

TEST_CASE("causal attention", "[train]") {
  const size_t context = 19, heads = 2, width = 4, sequences = 2, cols = heads * width;
  Check c;
  for (int i = 0; i < 3; ++i) c.input(static_cast<int>(sequences * context), static_cast<int>(cols));
  c.run(
      [=](Tape& t, const auto& v) {
        return causal_attention(t, v[0], v[1], v[2], static_cast<int>(heads), static_cast<int>(context));
      },
      [=](const auto& x) {
        Doubles y(x[0].size(), 0.0);
        for (size_t s = 0; s < sequences; ++s)
          for (size_t h = 0; h < heads; ++h)
            for (size_t i = 0; i < context; ++i) {
              const size_t q = (s * context + i) * cols + h * width;
              Doubles p;
              double total = 0;
              for (size_t j = 0; j <= i; ++j) {
                double dot = 0;
                for (size_t w = 0; w < width; ++w) dot += x[0][q + w] * x[1][(s * context + j) * cols + h * width + w];
                p.push_back(std::exp(dot / std::sqrt(static_cast<double>(width))));
                total += p.back();
              }
              for (size_t j = 0; j <= i; ++j)
                for (size_t w = 0; w < width; ++w)
                  y[q + w] += p[j] / total * x[2][(s * context + j) * cols + h * width + w];
            }
        return y;
      });
}

TEST_CASE("losses", "[train]") {
  static const int32_t labels[] = {3, 0, 9, 9};
  static const float weights[] = {1.0f, 0.25f, 3.0f, 0.0f};
  SECTION("weighted cross-entropy") {
    Check c;
    c.input(4, 10, 2.0f);
    c.run([](Tape& t, const auto& v) { return cross_entropy(t, v[0], labels, weights); },
          [](const auto& x) {
            double loss = 0;
            for (size_t r = 0; r < 4; ++r) {
              double total = 0;
              for (size_t i = 0; i < 10; ++i) total += std::exp(x[0][r * 10 + i]);
              loss += static_cast<double>(weights[r]) *
                      (std::log(total) - x[0][r * 10 + static_cast<size_t>(labels[r])]) / 4;
            }
            return Doubles{loss};
          });
  }
  SECTION("weighted cross-entropy that follows a teacher") {
    Teacher teacher = {.share = 0.25f, .outputs = DataSource{7, 51}.normals(40)};
    Check c;
    c.teacher = &teacher;
    c.input(4, 10, 2.0f);
    c.run([](Tape& t, const auto& v) { return cross_entropy(t, v[0], labels, weights); },
          [&](const auto& x) {
            double loss = 0;
            for (size_t r = 0; r < 4; ++r) {
              double total = 0, of_teacher = 0;
              for (size_t i = 0; i < 10; ++i) {
                total += std::exp(x[0][r * 10 + i]);
                of_teacher += std::exp(static_cast<double>(teacher.outputs[r * 10 + i]));
              }
              for (size_t i = 0; i < 10; ++i) {
                const double follows = std::exp(static_cast<double>(teacher.outputs[r * 10 + i])) / of_teacher;
                const double wanted = 0.25 * follows + (static_cast<int32_t>(i) == labels[r] ? 0.75 : 0.0);
                loss += static_cast<double>(weights[r]) * wanted * (std::log(total) - x[0][r * 10 + i]) / 4;
              }
            }
            return Doubles{loss};
          });
  }
  SECTION("weighted mean squared error") {
    Arena arena;
    const Tensor target = arena.tensor(4, 5);
    DataSource{7, 50}.normals(target.data, 0, 20);
    static const float ones[] = {1, 1, 1, 1, 1}, uneven[] = {1, 0.5f, 2, 0.25f, 1.5f};
    for (const float* roots : {static_cast<const float*>(nullptr), uneven}) {
      Check c;
      c.input(4, 5);
      c.run([&](Tape& t, const auto& v) { return mean_squared_error(t, v[0], target, weights, roots); },
            [&](const auto& x) {
              double loss = 0;
              for (size_t i = 0; i < 20; ++i) {
                const auto root = static_cast<double>((roots != nullptr ? roots : ones)[i % 5]);
                const double d = root * (x[0][i] - static_cast<double>(target.data[i]));
                loss += static_cast<double>(weights[i / 5]) * d * d / 20;
              }
              return Doubles{loss};
            });
    }
  }
}

namespace {

std::vector<const Kernels*> instruction_sets() {
  std::vector<const Kernels*> sets;
  for (const char* name : {"generic", "avx2", "avx512"}) {
    try {
      sets.push_back(&kernels(name));
    } catch (const Error&) {  // this CPU has less
    }
  }
  return sets;
}

bool same(float a, float b) { return bits_of(a) == bits_of(b) || (is_nan(a) && is_nan(b)); }

}  // namespace

TEST_CASE("rows of any width have the same bits on every instruction set", "[train]") {
  using Floats = std::vector<float>;
  for (const int rows : {1, 5, 67})
    for (const int cols : {1, 2, 7, 10, 15, 16, 17, 33, 100, 130}) {
      const int64_t n = int64_t{rows} * cols;
      Floats x = DataSource{2, 1}.normals(n), bias = DataSource{2, 2}.normals(cols), dy = DataSource{2, 3}.normals(n);
      for (float& v : x) v *= 9.0f;
      std::vector<int32_t> labels(static_cast<size_t>(rows));
      for (size_t i = 0; i < labels.size(); ++i) labels[i] = static_cast<int32_t>(i * 7) % cols;
      std::vector<Floats> expected;
      for (const Kernels* k : instruction_sets()) {
        // bias and ReLU at once are the two after each other, forward and backward.
        Floats y = x, z(x.size()), fused = x, g(x.size()), sums(bias.size()), fused_g = dy, fused_sums(bias.size());
        k->add_bias(y.data(), bias.data(), rows, cols);
        k->relu(z.data(), y.data(), n);
        k->bias_relu(fused.data(), bias.data(), rows, cols);
        REQUIRE(fused == z);
        k->relu_backward(g.data(), dy.data(), z.data(), n);
        k->column_sums(sums.data(), g.data(), rows, cols);
        k->bias_relu_backward(fused_g.data(), fused_sums.data(), z.data(), rows, cols);
        REQUIRE(fused_g == g);
        REQUIRE(fused_sums == sums);
        Floats p(x.size()), loss(labels.size()), square(static_cast<size_t>(cols) * static_cast<size_t>(cols)), sum = x;
        k->softmax_loss(p.data(), loss.data(), x.data(), labels.data(), rows, cols);
        for (size_t i = 0; i < square.size(); ++i) square[i] = x[i % x.size()];
        Floats tiles = square, back = square, back_of_tiles = square;
        tiles.insert(tiles.end(), square.begin(), square.end());
        back_of_tiles.insert(back_of_tiles.end(), back.begin(), back.end());
        k->causal_softmax(square.data(), 0.3f, cols, 1);
        k->causal_softmax(tiles.data(), 0.3f, cols, 2);
        k->causal_softmax_backward(back.data(), square.data(), 0.3f, cols, 1);
        k->causal_softmax_backward(back_of_tiles.data(), tiles.data(), 0.3f, cols, 2);
        for (const auto& [one, two] : {std::pair(&square, &tiles), {&back, &back_of_tiles}})
          for (const size_t half : {size_t{0}, one->size()})
            REQUIRE(std::memcmp(two->data() + half, one->data(), sizeof(float) * one->size()) == 0);
        k->sum_of(sum.data(), x.data(), dy.data(), n);
        const std::vector<Floats> got = {
            sums, z, p, loss, square, sum, {k->sum(x.data(), n), k->dot(x.data(), dy.data(), n)}};
        if (expected.empty()) expected = got;
        INFO(k->name << " " << rows << " x " << cols);
        for (size_t i = 0; i < got.size(); ++i)
          REQUIRE(std::memcmp(got[i].data(), expected[i].data(), sizeof(float) * got[i].size()) == 0);
      }
      // The definition of the causal softmax, row by row.
      Floats square = expected[4];
      for (int r = 0; r < cols; ++r) {
        double total = 0;
        for (int c = 0; c < cols; ++c) total += static_cast<double>(square[static_cast<size_t>(r * cols + c)]);
        REQUIRE(total == Approx(1.0));
        for (int c = r + 1; c < cols; ++c) REQUIRE(square[static_cast<size_t>(r * cols + c)] == 0.0f);
      }
    }
}

namespace {

// The weights after a step of every instruction set, against the generic loop.
void compare_adam(const std::vector<float>& m, const std::vector<float>& v, const std::vector<float>& g,
                  const AdamStep& step) {
  const std::vector<float> w = DataSource{4, 1}.normals(static_cast<int64_t>(m.size()));
  std::vector<float> expected[3];
  for (const Kernels* k : instruction_sets()) {
    std::vector<float> state[3] = {w, m, v};
    const bool is_finite =
        k->adam(state[0].data(), state[1].data(), state[2].data(), g.data(), static_cast<int64_t>(m.size()), step);
    bool all = true;
    for (const float x : state[0]) all = all && std::isfinite(x);
    INFO(k->name << " eps " << step.eps);
    REQUIRE(is_finite == all);
    for (int i = 0; i < 3; ++i) {
      if (expected[i].empty()) expected[i] = state[i];
      size_t wrong = 0;
      for (size_t j = 0; j < m.size(); ++j) wrong += !same(state[i][j], expected[i][j]);
      REQUIRE(wrong == 0);
    }
  }
}

}  // namespace

// beta2 = 1 keeps v, and an eps of 2^-40 leaves roots of about 1 alone: the step is the quotient by the root.
TEST_CASE("the root of every significand is rounded once", "[train]") {
  constexpr size_t n = 1 << 23;
  const std::vector<float> m(n, 1.0f), g(n, 0.0f);
  std::vector<float> v(n);
  for (const int exponent : {0, 1}) {
    for (size_t i = 0; i < n; ++i) v[i] = std::ldexp(1.0f + static_cast<float>(i) * 0x1p-23f, exponent);
    compare_adam(m, v, g, {1.0f, 1.0f, 1.0f, 0x1p-40f, 0.0f, 1.0f, 1.0f, 1.0f});
  }
}

TEST_CASE("steps of Adam at all magnitudes", "[train]") {
  constexpr int64_t n = 20011;
  const float inf = std::numeric_limits<float>::infinity();
  std::vector<float> m = DataSource{5, 1}.normals(n), v = DataSource{5, 2}.normals(n), g = DataSource{5, 3}.normals(n);
  for (size_t i = 0; i < m.size(); ++i) {
    m[i] = std::ldexp(m[i], static_cast<int>(i % 290) - 149);
    v[i] = std::ldexp(std::fabs(v[i]), static_cast<int>(i * 7 % 277) - 149);
    g[i] = std::ldexp(g[i], static_cast<int>(i * 5 % 210) - 149);
    if (i % 11 == 0) m[i] = i % 2 == 0 ? 0.0f : -0.0f;
    if (i % 13 == 0) v[i] = 0.0f;
    if (i % 17 == 0) g[i] = i % 2 == 0 ? 0.0f : -0.0f;
  }
  for (const float eps : {1e-8f, 0x1p-40f, 0x1p-41f, 0.0f, 1e-3f})
    for (const float decay : {0.0f, 0.1f})
      for (const float correction : {1.0f, 20.0f, 1e13f}) {
        const AdamStep step = {1e-3f, 0.9f, 0.95f, eps, decay, correction, correction, 0.5f};
        compare_adam(m, v, g, step);
        std::vector<float> huge = v;
        huge[5] = inf, huge[40] = 0x1p127f, huge[70] = 0x1p60f, huge[100] = -1.0f;
        huge[160] = std::numeric_limits<float>::quiet_NaN();
        compare_adam(m, huge, g, step);
      }
}

TEST_CASE("sixteen rows at once have the softmax of each row alone", "[train]") {
  const float inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  for (const int rows : {15, 16, 17, 50})
    for (const int cols : {1, 2, 8, 10, 15, 16, 17}) {
      std::vector<float> x = DataSource{3, 1}.normals(int64_t{rows} * cols);
      for (size_t i = 0; i < x.size(); ++i) x[i] = std::ldexp(x[i], static_cast<int>(i % 13) - 6);
      const float special[] = {0.0f, -0.0f, 88.0f, -104.0f, 1e30f, -inf, inf, nan};
      for (size_t i = 0; i < std::size(special); ++i) x[(i * 37 + 5) % x.size()] = special[i];
      std::vector<int32_t> labels(static_cast<size_t>(rows));
      for (size_t i = 0; i < labels.size(); ++i) labels[i] = static_cast<int32_t>(i * 5) % cols;
      for (const Kernels* k : instruction_sets()) {
        std::vector<float> p(x.size(), -77.0f), loss(labels.size()), alone(x.size(), -77.0f), alone_loss(labels.size());
        k->softmax_loss(p.data(), loss.data(), x.data(), labels.data(), rows, cols);
        for (int r = 0; r < rows; ++r) {
          const auto at = static_cast<size_t>(r * cols), row = static_cast<size_t>(r);
          k->softmax_loss(&alone[at], &alone_loss[row], &x[at], &labels[row], 1, cols);
        }
        INFO(k->name << " " << rows << " x " << cols);
        for (size_t i = 0; i < p.size(); ++i) REQUIRE(same(p[i], alone[i]));
        for (size_t i = 0; i < loss.size(); ++i) REQUIRE(same(loss[i], alone_loss[i]));
      }
    }
}

TEST_CASE("products of the low-rank split add in fp64, each product rounded, in ascending order", "[train]") {
  for (const Kernels* set : instruction_sets())
    for (int m : {1, 2, 5, 6, 11})
      for (int n : {1, 8, 31, 33, 64, 70})
        for (int k : {1, 3, 40}) {
          INFO(set->name << " " << m << " x " << n << " x " << k);
          const std::vector<float> x = DataSource{1, 1}.normals(k * n), left = DataSource{1, 2}.normals(m * k),
                                   values = DataSource{1, 3}.normals(m), right = DataSource{1, 4}.normals(m * n);
          std::vector<double> a(left.begin(), left.end()), c(static_cast<size_t>(m * n + 1), -77.0);
          for (double& v : a) v /= 3;  // 53 bits: a fused operation would show
          std::vector<float> packed(static_cast<size_t>((n + 63) / 32 * 32 * k)),
              packed_right(static_cast<size_t>((n + 63) / 32 * 32 * m)), rest(static_cast<size_t>(k * n + 1), -77.0f);
          set->pack(packed.data(), x.data(), n, 1, k, n);
          set->pack(packed_right.data(), right.data(), n, 1, m, n);
          set->wide_gemm(c.data(), a.data(), packed.data(), m, n, k);
          set->subtract_products(rest.data(), packed.data(), left.data(), values.data(), packed_right.data(), m, k, n);
          REQUIRE(c.back() == -77.0);  // nothing beyond the end
          REQUIRE(rest.back() == -77.0f);
          for (int i = 0; i < m; ++i)
            for (int j = 0; j < n; ++j) {
              double sum = 0;
              for (int l = 0; l < k; ++l) {
                const volatile double product = a[static_cast<size_t>(i * k + l)] * x[static_cast<size_t>(l * n + j)];
                sum += product;
              }
              REQUIRE(c[static_cast<size_t>(i * n + j)] == sum);
            }
          for (int r = 0; r < k; ++r)
            for (int j = 0; j < n; ++j) {
              double sum = 0;
              for (int i = 0; i < m; ++i) {
                const volatile double factor =
                    double{left[static_cast<size_t>(i * k + r)]} * double{values[static_cast<size_t>(i)]};
                const volatile double product = factor * double{right[static_cast<size_t>(i * n + j)]};
                sum += product;
              }
              const auto at = static_cast<size_t>(r * n + j);
              REQUIRE(rest[at] == static_cast<float>(double{x[at]} - sum));
            }
        }
}

TEST_CASE("every instruction set gives the bits of the generic kernels", "[train]") {
  const std::vector<const Kernels*> sets = instruction_sets();
  for (int m : {1, 3, 7, 8, 33})
    for (int n : {1, 10, 16, 31, 64})
      for (int k : {1, 5, 32, 100}) {
        std::vector<float> a = DataSource{1, 1}.normals(m * k), b = DataSource{1, 2}.normals(n * k);
        // A(i,k) row-major and transposed, B likewise: what fprop, dgrad and wgrad need.
        for (int transposed = 0; transposed < 4; ++transposed) {
          const int64_t a_row = transposed & 1 ? 1 : k, a_col = transposed & 1 ? m : 1;
          const int64_t b_row = transposed & 2 ? 1 : n, b_col = transposed & 2 ? k : 1;
          for (const Kernels* set : sets) {
            std::vector<float> packed(static_cast<size_t>((n + 63) / 32 * 32 * k));
            std::vector<float> c(static_cast<size_t>(m * n), -77.0f);
            set->pack(packed.data(), b.data(), b_row, b_col, k, n);
            set->gemm(c.data(), n, a.data(), a_row, a_col, packed.data(), m, n, k);
            if (b_col == 1 && n % set->panel_width == 0) {
              std::vector<float> direct(c.size(), -77.0f);
              set->gemm_in_place(direct.data(), n, a.data(), a_row, a_col, b.data(), b_row, m, n, k);
              REQUIRE(direct == c);
            }
            for (int i = 0; i < m; ++i)
              for (int j = 0; j < n; ++j) {
                float sum = 0;
                for (int l = 0; l < k; ++l)
                  sum = std::fma(a[static_cast<size_t>(i * a_row + l * a_col)],
                                 b[static_cast<size_t>(l * b_row + j * b_col)], sum);
                REQUIRE(bits_of(c[static_cast<size_t>(i * n + j)]) == bits_of(sum));
              }
          }
        }
      }
}
