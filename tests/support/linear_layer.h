// One quantised linear layer, forward and backward, and the plain fp64 products it is compared with.
#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include "sim/engine/quantized_linear.h"
#include "sim/rules/recipe.h"
#include "sim/train/example_pool.h"

namespace fp4::test {

using Doubles = std::vector<double>;

// dL/dY is a fixed random matrix.
class OneLayer {
 public:
  struct Shape {
    int rows, in, out;
  };
  struct Result {
    Doubles y, dx, dw;
  };
  static constexpr uint64_t seed = 11;

  explicit OneLayer(Shape s)
      : shape(s), x_(arena_.tensor(s.rows, s.in)), w_(arena_.tensor(s.out, s.in)), g_(arena_.tensor(s.rows, s.out)) {
    sim::DataSource{3, 1}.normals(x_.data, 0, x_.size());
    sim::DataSource{3, 2}.normals(w_.data, 0, w_.size());
    sim::DataSource{3, 3}.normals(g_.data, 0, g_.size());
  }

  Result run(const sim::TrainingRecipe& recipe, uint32_t step = 1) {
    const Dispatcher backend;
    sim::LinearEngine engine(recipe, backend);
    engine.add_layer("layer", shape.in, shape.out, true);
    engine.finish();
    sim::Pass pass;
    pass.seed = seed, pass.step = step;
    sim::Arena memory;
    sim::Tape tape(memory, sim::kernels(), pass);
    sim::Var x = tape.variable(x_, true), w = tape.variable(w_, true);
    sim::Var y = engine.forward(tape, 0, x, w, nullptr);
    sim::Var loss = tape.variable(1, 1, true);
    loss->value.data[0] = 0;
    tape.record(loss, [y, this](sim::Tape& t) {
      float* g = t.new_gradient(y);
      std::copy(g_.data, g_.data + g_.size(), g);
      t.add_gradient(y, g);
    });
    tape.backward(loss);
    const auto doubles = [](const float* p, int64_t n) { return Doubles(p, p + n); };
    return {doubles(y->value.data, y->value.size()), doubles(x->grad, x_.size()), doubles(w->grad, w_.size())};
  }

  // Of a layer with as many outputs as rows.
  void take_input_as_weights() { std::copy(x_.data, x_.data + x_.size(), w_.data); }

  void set_weights(const Doubles& w) {
    for (size_t i = 0; i < w.size(); ++i) w_.data[i] = static_cast<float>(w[i]);
  }

  // C[i][j] = sum_k A(i,k) B(k,j) of the fp64 copies.
  static Doubles product(const Doubles& a, bool a_transposed, const Doubles& b, bool b_transposed, int m, int n,
                         int k) {
    Doubles c(static_cast<size_t>(m * n));
    for (int i = 0; i < m; ++i)
      for (int j = 0; j < n; ++j)
        for (int l = 0; l < k; ++l)
          c[static_cast<size_t>(i * n + j)] += a[static_cast<size_t>(a_transposed ? l * m + i : i * k + l)] *
                                               b[static_cast<size_t>(b_transposed ? j * k + l : l * n + j)];
    return c;
  }
  Doubles x() const { return {x_.data, x_.data + x_.size()}; }
  Doubles w() const { return {w_.data, w_.data + w_.size()}; }
  Doubles g() const { return {g_.data, g_.data + g_.size()}; }
  // The backward products for given forward operands.
  Doubles dx(const Doubles& w) const { return product(g(), false, w, false, shape.rows, shape.in, shape.out); }
  Doubles dw(const Doubles& x) const { return product(g(), true, x, false, shape.out, shape.in, shape.rows); }
  Result plain() const { return {product(x(), false, w(), true, shape.rows, shape.out, shape.in), dx(w()), dw(x())}; }

  const Shape shape;

 private:
  sim::Arena arena_;
  sim::Tensor x_, w_, g_;
};

inline double distance(const Doubles& a, const Doubles& b) {
  double error = 0, norm = 0;
  for (size_t i = 0; i < a.size(); ++i) error += (a[i] - b[i]) * (a[i] - b[i]), norm += b[i] * b[i];
  return std::sqrt(error / norm);
}

// Orthonormal Sylvester-Hadamard along rows of length `cols`, in tiles of h: y = x H / sqrt(h), its own inverse.
inline Doubles rotated(const Doubles& x, int cols, int h) {
  Doubles y(x.size());
  for (size_t i = 0; i < x.size(); ++i) {
    const int c = static_cast<int>(i) % cols, tile = c / h * h, row = static_cast<int>(i) / cols;
    for (int j = 0; j < h; ++j)
      y[i] += x[static_cast<size_t>(row * cols + tile + j)] *
              (__builtin_popcount(static_cast<unsigned>(c % h & j)) % 2 ? -1 : 1) / std::sqrt(static_cast<double>(h));
  }
  return y;
}

inline Doubles times(Doubles a, const Doubles& b) {
  for (size_t i = 0; i < a.size(); ++i) a[i] *= b[i];
  return a;
}

}  // namespace fp4::test
