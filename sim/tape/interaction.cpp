// The products of all pairs of vectors of an example; see ops.h.
#include <algorithm>
#include <cstring>
#include <tuple>

#include "sim/tape/ops.h"

namespace fp4::sim {

namespace {

// Vector i of example n; gradients have the shapes of their values.
struct Vectors {
  float *x, *y;
  int width, parts;
  float* of(int n, int i) const { return i == 0 ? x + int64_t{n} * width : y + (int64_t{n} * parts + (i - 1)) * width; }
};

void add_scaled(float* to, const float* from, float factor, int n) {
  for (int c = 0; c < n; ++c) to[c] += from[c] * factor;
}

}  // namespace

Var interaction(Tape& tape, Var x, Var y) {
  const int rows = x->value.rows, width = x->value.cols, parts = y->value.cols / width;
  const Vectors z = {x->value.data, y->value.data, width, parts};
  Var out = tape.variable(rows, width + parts * (parts + 1) / 2, true);
  for (int n = 0; n < rows; ++n) {
    float* row = out->value.row(n);
    std::copy_n(z.of(n, 0), width, row);
    float* next = row + width;
    for (int i = 1; i <= parts; ++i)
      for (int j = 0; j < i; ++j) *next++ = tape.k.dot(z.of(n, i), z.of(n, j), width);
  }
  const int cols = out->value.cols;
  tape.record(out, [=](Tape& t) {
    const size_t bytes_x = sizeof(float) * static_cast<size_t>(x->value.size());
    const size_t bytes_y = sizeof(float) * static_cast<size_t>(y->value.size());
    const Vectors g = {t.arena.take<float>(x->value.size()), t.arena.take<float>(y->value.size()), width, parts};
    std::memset(g.x, 0, bytes_x);
    std::memset(g.y, 0, bytes_y);
    for (int n = 0; n < rows; ++n) {
      const float* upstream = out->grad + int64_t{n} * cols;
      t.k.add(g.of(n, 0), upstream, width);
      const float* next = upstream + width;
      for (int i = 1; i <= parts; ++i)
        for (int j = 0; j < i; ++j, ++next) {
          add_scaled(g.of(n, i), z.of(n, j), *next, width);
          add_scaled(g.of(n, j), z.of(n, i), *next, width);
        }
    }
    for (const auto& [v, own, bytes] : {std::tuple(x, g.x, bytes_x), std::tuple(y, g.y, bytes_y)}) {
      if (!v->needs_grad) continue;
      float* gradient = t.new_gradient(v);
      std::memcpy(gradient, own, bytes);
      t.add_gradient(v, gradient);
    }
  });
  return out;
}

}  // namespace fp4::sim
