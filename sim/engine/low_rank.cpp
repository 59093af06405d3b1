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
  double& at(int r, int c) { return values[static_cast<size_t>(int64_t{r} * cols + c)]; }
  double at(int r, int c) const { return values[static_cast<size_t>(int64_t{r} * cols + c)]; }
};

// X Z, or X^T Z; sums over the inner index, ascending.
Dense times(const Dense& x, bool transposed, const Dense& z) {
  Dense y(transposed ? x.cols : x.rows, z.cols);
  for (int r = 0; r < x.rows; ++r)
    for (int c = 0; c < x.cols; ++c) {
      const double value = x.at(r, c);
      const int to = transposed ? c : r, from = transposed ? r : c;
      for (int j = 0; j < z.cols; ++j) y.at(to, j) += value * z.at(from, j);
    }
  return y;
}

// Orthonormal columns by Gram-Schmidt, twice over. A column of which less than 2^-40 is left lay within those before
// it: what is left is rounding noise, and the column becomes zero.
void orthonormalise(Dense& y) {
  const auto squares_of = [&y](int j) {
    double sum = 0;
    for (int r = 0; r < y.rows; ++r) sum += y.at(r, j) * y.at(r, j);
    return sum;
  };
  for (int j = 0; j < y.cols; ++j)
    for (int pass = 0; pass < 2; ++pass) {
      const double before = squares_of(j);
      for (int i = 0; i < j; ++i) {
        double along = 0;
        for (int r = 0; r < y.rows; ++r) along += y.at(r, i) * y.at(r, j);
        for (int r = 0; r < y.rows; ++r) y.at(r, j) -= along * y.at(r, i);
      }
      const double squares = squares_of(j);
      const double norm = squares > 0x1p-80 * before ? std::sqrt(squares) : INFINITY;
      for (int r = 0; r < y.rows; ++r) y.at(r, j) /= norm;
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
  Dense y = times(x, false, z);
  orthonormalise(y);
  z = times(x, true, y);
  orthonormalise(z);
  y = times(x, false, z);
  orthonormalise(y);
  const Dense b = times(x, true, y);  // B^T [cols, width]
  Dense g = times(b, true, b);
  const Dense w = diagonalise(g);

  std::vector<int> order(static_cast<size_t>(width));
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int i, int j) { return g.at(i, i) > g.at(j, j); });
  for (int j = 0; j < rank; ++j) {
    const int column = order[static_cast<size_t>(j)];
    const double value = std::sqrt(std::max(g.at(column, column), 0.0));
    const auto combined = [&](const Dense& m, int r) {
      double sum = 0;
      for (int i = 0; i < width; ++i) sum += m.at(r, i) * w.at(i, column);
      return sum;
    };
    if (value == 0) continue;
    out.values.data[j] = static_cast<float>(value);
    for (int r = 0; r < rows; ++r) out.left.row(j)[r] = static_cast<float>(combined(y, r));
    for (int c = 0; c < cols; ++c) out.right.row(j)[c] = static_cast<float>(combined(b, c) / value);
  }
  for (int r = 0; r < rows; ++r)
    for (int c = 0; c < cols; ++c) {
      double sum = 0;
      for (int j = 0; j < rank; ++j)
        sum += static_cast<double>(out.left.row(j)[r]) * static_cast<double>(out.values.data[j]) *
               static_cast<double>(out.right.row(j)[c]);
      out.rest.row(r)[c] = static_cast<float>(x.at(r, c) - sum);
    }
  return out;
}

}  // namespace fp4::sim
