#include "sim/engine/low_rank.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

namespace fp4::sim {

namespace {

struct Dense {
  int rows = 0, cols = 0;
  std::vector<double> values;
  Dense(int r, int c) : rows(r), cols(c), values(static_cast<size_t>(int64_t{r} * c)) {}
  double* row(int r) { return values.data() + int64_t{r} * cols; }
  const double* row(int r) const { return values.data() + int64_t{r} * cols; }
  double& at(int r, int c) { return row(r)[c]; }
  double at(int r, int c) const { return row(r)[c]; }
};

Dense turned(const Dense& x) {
  Dense y(x.cols, x.rows);
  for (int first = 0; first < x.cols; first += 8)
    for (int r = 0; r < x.rows; ++r)
      for (int c = first; c < std::min(first + 8, x.cols); ++c) y.at(c, r) = x.at(r, c);
  return y;
}

// Z X; sums over the inner index, ascending.
Dense times(const Kernels& k, const Dense& z, const Dense& x) {
  constexpr int at_once = 256;  // columns, of which those of all rows of Y stay in the fastest cache
  Dense y(z.rows, x.cols);
  for (int first = 0; first < x.cols; first += at_once)
    for (int i = 0; i < x.rows; ++i)
      for (int j = 0; j < z.rows; ++j)
        k.add_scaled(y.row(j) + first, z.at(j, i), x.row(i) + first, std::min(at_once, x.cols - first));
  return y;
}

// Orthonormal rows by Gram-Schmidt, twice over. A row of which less than 2^-40 is left lay within those before it: what
// is left is rounding noise, and the row becomes zero.
void orthonormalise(const Kernels& k, Dense& y) {
  const auto dot = [&y](int i, int j) {
    const double *a = y.row(i), *b = y.row(j);
    double sum = 0;
    for (int c = 0; c < y.cols; ++c) sum += a[c] * b[c];
    return sum;
  };
  for (int j = 0; j < y.rows; ++j)
    for (int pass = 0; pass < 2; ++pass) {
      double* const own = y.row(j);
      const double before = dot(j, j);
      for (int i = 0; i < j; ++i) k.add_scaled(own, -dot(i, j), y.row(i), y.cols);
      const double squares = dot(j, j);
      const double norm = squares > 0x1p-80 * before ? std::sqrt(squares) : INFINITY;
      for (int c = 0; c < y.cols; ++c) own[c] /= norm;
    }
}

// G = W D W^T for a symmetric G, which becomes D: rotations of all pairs in turn, until none changes anything.
Dense diagonalise(Dense& g) {
  const int n = g.rows;
  Dense w(n, n);
  for (int i = 0; i < n; ++i) w.at(i, i) = 1;
  const auto rotate = [](double& a, double& b, double c, double s) {
    const double old = a;
    a = c * old - s * b;
    b = s * old + c * b;
  };
  for (int sweep = 0; sweep < 60; ++sweep) {
    bool changed = false;
    for (int p = 0; p < n; ++p)
      for (int q = p + 1; q < n; ++q) {
        const double off = g.at(p, q);
        if (std::fabs(off) <= 0x1p-52 * std::sqrt(std::fabs(g.at(p, p)) * std::fabs(g.at(q, q)))) continue;
        changed = true;
        const double theta = (g.at(q, q) - g.at(p, p)) / (2 * off);
        const double t = (theta < 0 ? -1.0 : 1.0) / (std::fabs(theta) + std::sqrt(theta * theta + 1));
        const double c = 1 / std::sqrt(t * t + 1), s = t * c;
        for (int i = 0; i < n; ++i) rotate(g.at(i, p), g.at(i, q), c, s);
        for (int i = 0; i < n; ++i) rotate(g.at(p, i), g.at(q, i), c, s);
        for (int i = 0; i < n; ++i) rotate(w.at(i, p), w.at(i, q), c, s);
      }
    if (!changed) break;
  }
  return w;
}

}  // namespace

LowRank low_rank(const Tape& tape, MatrixView view, double share, RandomPlace draws) {
  const int rows = static_cast<int>(view.rows), cols = static_cast<int>(view.cols), least = std::min(rows, cols);
  const int rank = std::clamp(static_cast<int>(std::floor(share * least + 0.5)), 1, least);
  const int width = std::min(rank + 4, least);
  const LowRank out = {tape.arena.tensor(rank, rows), tape.arena.tensor(1, rank), tape.arena.tensor(rank, cols),
                       tape.arena.tensor(rows, cols)};
  for (const Tensor& t : {out.left, out.values, out.right}) std::fill(t.data, t.data + t.size(), 0.0f);
  for (int r = 0; r < rows; ++r)
    for (int c = 0; c < cols; ++c) out.rest.row(r)[c] = view.at(r, c);
  if (!tape.k.all_finite(out.rest.data, out.rest.size())) return out;

  Dense x(rows, cols), z(cols, width);
  std::copy(out.rest.data, out.rest.data + out.rest.size(), x.values.begin());
  std::vector<float> normals(z.values.size());
  tape.k.normals(normals.data(), 0, static_cast<int64_t>(normals.size()), draws.seed, draws.stream, draws.step);
  std::copy(normals.begin(), normals.end(), z.values.begin());
  const Dense columns = turned(x);
  z = turned(z);
  Dense y = times(tape.k, z, columns);  // (X Z)^T
  orthonormalise(tape.k, y);
  z = times(tape.k, y, x);
  orthonormalise(tape.k, z);
  y = times(tape.k, z, columns);
  orthonormalise(tape.k, y);
  const Dense b = times(tape.k, y, x);  // B [width, cols]
  Dense g = times(tape.k, b, turned(b));
  const Dense w = diagonalise(g);

  std::vector<int> order(static_cast<size_t>(width));
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int i, int j) { return g.at(i, i) > g.at(j, j); });
  for (int j = 0; j < rank; ++j) {
    const int column = order[static_cast<size_t>(j)];
    const double value = std::sqrt(std::max(g.at(column, column), 0.0));
    const auto combined = [&](const Dense& m, int r) {
      double sum = 0;
      for (int i = 0; i < width; ++i) sum += m.at(i, r) * w.at(i, column);
      return sum;
    };
    if (value == 0) continue;
    out.values.data[j] = static_cast<float>(value);
    for (int r = 0; r < rows; ++r) out.left.row(j)[r] = static_cast<float>(combined(y, r));
    for (int c = 0; c < cols; ++c) out.right.row(j)[c] = static_cast<float>(combined(b, c) / value);
  }
  Dense right(rank, cols), sum(1, cols);
  std::copy(out.right.data, out.right.data + out.right.size(), right.values.begin());
  for (int r = 0; r < rows; ++r) {
    std::fill(sum.values.begin(), sum.values.end(), 0.0);
    for (int j = 0; j < rank; ++j) {
      const double factor = static_cast<double>(out.left.row(j)[r]) * static_cast<double>(out.values.data[j]);
      tape.k.add_scaled(sum.row(0), factor, right.row(j), cols);
    }
    for (int c = 0; c < cols; ++c) out.rest.row(r)[c] = static_cast<float>(x.at(r, c) - sum.at(0, c));
  }
  return out;
}

}  // namespace fp4::sim
