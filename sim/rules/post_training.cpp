#include "sim/rules/post_training.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "fp4/block.h"
#include "sim/rules/codes.h"
#include "src/arith/spec_text.h"
#include "src/text/read_field.h"

#define EIGEN_DONT_PARALLELIZE
#include <Eigen/Cholesky>
#include <Eigen/Core>

namespace fp4::sim {

PostTraining post_training_from(const JsonReader& from, PostTraining p) {
  JsonReader given = from;
  read_row(given, "codes", "how weights become codes", weight_codes_table, p.codes);
  if (const auto alpha = given.find("smooth", {"SmoothQuant: the power of the inputs' maxima; 0: none",
                                               json_number(p.smooth), "SmoothQuant 2211.10438"}))
    p.smooth = static_cast<float>(alpha->number(0, 1));
  read_row(given, "order", "gptq: of the columns", column_order_table, p.order);
  read_field(given, "damping", "gptq: share of H's mean diagonal that is added to it", p.damping, 1e-6, 1e3);
  read_field(given, "batches", "batches of the training that calibrate", p.batches, 1, 1'000'000);
  given.finish();
  return p;
}

Json post_training_to(const PostTraining& p) {
  Json out = {
      {"codes", row_of(weight_codes_table, p.codes).name}, {"smooth", json_number(p.smooth)}, {"batches", p.batches}};
  if (p.codes == WeightCodes::gptq)
    out.update({{"order", row_of(column_order_table, p.order).name}, {"damping", json_number(p.damping)}});
  return out;
}

std::vector<float> smoothing_factors(const std::vector<float>& largest_x, const float* w, int64_t rows, float alpha) {
  const size_t cols = largest_x.size();
  std::vector<float> largest_w(cols, 0.0f), s(cols, 1.0f);
  for (int64_t r = 0; r < rows; ++r)
    for (size_t k = 0; k < cols; ++k)
      largest_w[k] = std::max(largest_w[k], std::abs(w[static_cast<size_t>(r) * cols + k]));
  for (size_t k = 0; k < cols; ++k) {
    if (largest_x[k] == 0 || largest_w[k] == 0) continue;
    const double a = static_cast<double>(alpha);
    s[k] = static_cast<float>(std::pow(static_cast<double>(largest_x[k]), a) /
                              std::pow(static_cast<double>(largest_w[k]), 1 - a));
  }
  return s;
}

namespace {

using DoubleMatrix = Eigen::MatrixXd;

// Decoded values of one block rise with the code.
class CodeGrid {
 public:
  CodeGrid(const Quantizer& q, float s, float g) : q_(q), s_(s), g_(g) {}

  struct Choice {
    uint32_t code;
    double value;
  };
  // `code` is the one that the element has now.
  Choice nearest(double w, uint32_t code) const {
    if (q_.element_under(s_).is_grid()) return nearest_listed(w, code);
    const double a = std::fabs(w);
    uint32_t low = 0, high = q_.element.largest_code;  // value(low) <= a where any is
    while (low < high) {
      const uint32_t middle = (low + high + 1) / 2;
      if (value(middle) <= a)
        low = middle;
      else
        high = middle - 1;
    }
    if (low < q_.element.largest_code) {
      const double below = a - value(low), above = value(low + 1) - a;
      if (above < below || (above == below && low % 2 == 1)) ++low;
    }
    const double magnitude = value(low);
    return {low | (w < 0 && low > 0 ? q_.element.sign_code() : 0u), w < 0 ? -magnitude : magnitude};
  }

 private:
  // Of the codes with its micro-exponents; of equal distances the even code.
  Choice nearest_listed(double w, uint32_t now) const {
    const FloatFormat& f = q_.element_under(s_);
    const int low_bits = f.has_micro() ? f.grid->base_bits : f.code_bits();
    const uint32_t high = now >> low_bits << low_bits;
    Choice best = {now, std::numeric_limits<double>::infinity()};
    double least = std::numeric_limits<double>::infinity();
    for (uint32_t low = 0; low < 1u << low_bits; ++low) {
      const double v = value(high | low);
      if (std::isnan(v)) continue;
      const double distance = std::fabs(v - w);
      const bool is_better = distance < least || (distance == least && v != best.value && low % 2 == 0);
      if (is_better) best = {high | low, v}, least = distance;
    }
    return best;
  }
  double value(uint32_t code) const { return static_cast<double>(element_value(q_, code, s_, g_)); }
  const Quantizer& q_;
  float s_, g_;
};

// U of the inverse of H + damping: upper, U^T U.
DoubleMatrix inverse_root_of(DoubleMatrix h, double damping) {
  h.diagonal().array() += damping * h.diagonal().mean();
  const DoubleMatrix inverse = h.llt().solve(DoubleMatrix::Identity(h.rows(), h.cols()));
  return inverse.llt().matrixU();
}

}  // namespace

void gptq(const float* w, std::vector<double> h, double damping, ColumnOrder order, Quantized& q) {
  if (q.code_bits() > 9) return;
  const int64_t n = q.cols;
  const Eigen::Map<const DoubleMatrix> given(h.data(), n, n);
  std::vector<int64_t> columns(static_cast<size_t>(n));
  std::iota(columns.begin(), columns.end(), 0);
  const auto diagonal = [&](int64_t k) { return given(k, k) > 0 ? given(k, k) : 1.0; };
  if (order == ColumnOrder::activation)
    std::stable_sort(columns.begin(), columns.end(), [&](int64_t a, int64_t b) { return given(a, a) > given(b, b); });
  DoubleMatrix ordered(n, n), left(q.rows, n);
  for (int64_t i = 0; i < n; ++i) {
    const int64_t k = columns[static_cast<size_t>(i)];
    for (int64_t j = 0; j < n; ++j) ordered(i, j) = given(k, columns[static_cast<size_t>(j)]);
    ordered(i, i) = diagonal(k);
    for (int64_t r = 0; r < q.rows; ++r) left(r, i) = static_cast<double>(w[r * n + k]);
  }
  const DoubleMatrix u = inverse_root_of(std::move(ordered), damping);
  const Quantizer resolved = resolve(q.spec);
  Eigen::VectorXd error(q.rows);
  for (int64_t i = 0; i < n; ++i) {
    const int64_t k = columns[static_cast<size_t>(i)];
    for (int64_t r = 0; r < q.rows; ++r) {
      error(r) = 0;
      const uint32_t scale = q.spec.has_scale() ? scale_code_of(q, r, k) : 0;
      if (q.spec.has_scale() && resolved.scale.is_nan_code(scale)) continue;
      const CodeGrid::Choice c =
          CodeGrid(resolved, scale_value(resolved, scale), q.tensor_factor_at(r, k)).nearest(left(r, i), q.code(r, k));
      replace_code(q, r, k, c.code);
      error(r) = (left(r, i) - c.value) / u(i, i);
    }
    const int64_t rest = n - i - 1;
    left.rightCols(rest).noalias() -= error * u.row(i).tail(rest);
  }
}

}  // namespace fp4::sim
