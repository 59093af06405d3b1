#include "sim/engine/low_rank.h"

#include <Eigen/Core>
#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "sim/tape/ops.h"

namespace fp4::sim {
namespace {

using Dense = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

double dot(const Dense& x, int i, int j) {
  double sum = 0;
  for (int c = 0; c < x.cols(); ++c) sum += x(i, c) * x(j, c);
  return sum;
}

// Orthonormal rows by Gram-Schmidt, twice over. A row of which less than 2^-40 is left lay within those before it: what
// is left is rounding noise, and the row becomes zero.
void orthonormalise(const Kernels& k, Dense& y) {
  for (int j = 0; j < y.rows(); ++j)
    for (int pass = 0; pass < 2; ++pass) {
      const double before = dot(y, j, j);
      for (int i = 0; i < j; ++i) k.add_scaled(&y(j, 0), -dot(y, i, j), &y(i, 0), y.cols());
      const double squares = dot(y, j, j);
      const double norm = squares > 0x1p-80 * before ? std::sqrt(squares) : INFINITY;
      for (int c = 0; c < y.cols(); ++c) y(j, c) /= norm;
    }
}

// G = W D W^T for a symmetric G, which becomes D: rotations of all pairs in turn, until none changes anything.
Dense diagonalise(Dense& g) {
  const auto n = static_cast<int>(g.rows());
  Dense w = Dense::Identity(n, n);
  const auto rotate = [](double& a, double& b, double c, double s) {
    const double old = a;
    a = c * old - s * b;
    b = s * old + c * b;
  };
  for (int sweep = 0; sweep < 60; ++sweep) {
    bool changed = false;
    for (int p = 0; p < n; ++p)
      for (int q = p + 1; q < n; ++q) {
        const double off = g(p, q);
        if (std::fabs(off) <= 0x1p-52 * std::sqrt(std::fabs(g(p, p)) * std::fabs(g(q, q)))) continue;
        changed = true;
        const double theta = (g(q, q) - g(p, p)) / (2 * off);
        const double t = (theta < 0 ? -1.0 : 1.0) / (std::fabs(theta) + std::sqrt(theta * theta + 1));
        const double c = 1 / std::sqrt(t * t + 1), s = t * c;
        for (int i = 0; i < n; ++i) rotate(g(i, p), g(i, q), c, s);
        for (int i = 0; i < n; ++i) rotate(g(p, i), g(q, i), c, s);
        for (int i = 0; i < n; ++i) rotate(w(i, p), w(i, q), c, s);
      }
    if (!changed) break;
  }
  return w;
}

}  // namespace

LowRank low_rank(Tape& tape, MatrixView view, double share, RandomPlace draws) {
  const int rows = static_cast<int>(view.rows), cols = static_cast<int>(view.cols), least = std::min(rows, cols);
  const int rank = std::clamp(static_cast<int>(std::floor(share * least + 0.5)), 1, least);
  const int width = std::min(rank + 4, least);
  const LowRank out = {tape.arena.tensor(rank, rows), tape.arena.tensor(1, rank), tape.arena.tensor(rank, cols),
                       tape.arena.tensor(rows, cols)};
  for (const Tensor& t : {out.left, out.values, out.right}) std::fill(t.data, t.data + t.size(), 0.0f);
  const float* by_rows = pack(tape, {view.data, view.row_stride, view.col_stride}, rows, cols);
  if (!tape.k.all_finite(by_rows, tape.k.packed_size(rows, cols))) {
    for (int r = 0; r < rows; ++r)
      for (int c = 0; c < cols; ++c) out.rest.row(r)[c] = view.at(r, c);
    return out;
  }
  const float* by_cols = pack(tape, {view.data, view.col_stride, view.row_stride}, cols, rows);  // X^T

  Dense y(width, rows), z(width, cols), b(width, cols), g(width, width);
  std::vector<float> normals(static_cast<size_t>(z.size()));
  tape.k.normals(normals.data(), 0, static_cast<int64_t>(normals.size()), draws.seed, draws.stream, draws.step);
  for (int c = 0; c < cols; ++c)
    for (int j = 0; j < width; ++j) z(j, c) = static_cast<double>(normals[static_cast<size_t>(c * width + j)]);
  const auto to_rows = [&] {  // (X Z)^T
    tape.k.wide_gemm(y.data(), z.data(), by_cols, width, rows, cols);
    orthonormalise(tape.k, y);
  };
  to_rows();
  tape.k.wide_gemm(z.data(), y.data(), by_rows, width, cols, rows);
  orthonormalise(tape.k, z);
  to_rows();
  tape.k.wide_gemm(b.data(), y.data(), by_rows, width, cols, rows);  // B
  for (int i = 0; i < width; ++i)
    for (int j = 0; j <= i; ++j) g(i, j) = g(j, i) = dot(b, i, j);
  const Dense w = diagonalise(g);

  std::vector<int> order(static_cast<size_t>(width));
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int i, int j) { return g(i, i) > g(j, j); });
  for (int j = 0; j < rank; ++j) {
    const int column = order[static_cast<size_t>(j)];
    const double value = std::sqrt(std::max(g(column, column), 0.0));
    const auto combined = [&](const Dense& m, int r) {
      double sum = 0;
      for (int i = 0; i < width; ++i) sum += m(i, r) * w(i, column);
      return sum;
    };
    if (value == 0) continue;
    out.values.data[j] = static_cast<float>(value);
    for (int r = 0; r < rows; ++r) out.left.row(j)[r] = static_cast<float>(combined(y, r));
    for (int c = 0; c < cols; ++c) out.right.row(j)[c] = static_cast<float>(combined(b, c) / value);
  }
  tape.k.subtract_products(out.rest.data, by_rows, out.left.data, out.values.data,
                           pack(tape, {out.right.data, cols, 1}, rank, cols), rank, rows, cols);
  return out;
}

}  // namespace fp4::sim
