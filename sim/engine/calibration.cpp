#include "sim/engine/calibration.h"

#include <algorithm>
#include <cmath>

#define EIGEN_DONT_PARALLELIZE
#include <Eigen/Core>

namespace fp4::sim {

namespace {

using Square = Eigen::MatrixXd;
using Floats = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

// x [rows, in] after the Hadamard of fprop.
std::vector<float> rotated(const Dispatcher& backend, const QuantizeCall& fprop, const float* x, int rows, int in) {
  const int64_t cols = hadamard_padded(fprop.hadamard, in);
  std::vector<float> y(static_cast<size_t>(rows * cols));
  backend.hadamard(view_of(x, rows, in), fprop.hadamard, fprop.place.hadamard_signs(), false, y.data(), fprop.threads);
  return y;
}

}  // namespace

Tensor CalibratedWeights::smoothed(Arena& arena, Tensor x) const {
  if (smooth.empty()) return x;
  const Tensor out = arena.tensor(x.rows, x.cols);
  for (int r = 0; r < x.rows; ++r)
    for (int k = 0; k < x.cols; ++k) out.row(r)[k] = x.row(r)[k] / smooth[static_cast<size_t>(k)];
  return out;
}

InputStatistics::InputStatistics(int cols, const PostTraining& ptq)
    : cols_(cols), largest_(static_cast<size_t>(cols), 0.0f) {
  if (ptq.codes == WeightCodes::gptq) gram_.assign(largest_.size() * largest_.size(), 0.0);
}

void InputStatistics::count(Tensor x) {
  for (int r = 0; r < x.rows; ++r)
    for (size_t k = 0; k < largest_.size(); ++k) largest_[k] = std::max(largest_[k], std::abs(x.row(r)[k]));
  if (gram_.empty()) return;
  const Square rows = Eigen::Map<const Floats>(x.data, x.rows, x.cols).cast<double>();
  Eigen::Map<Square> gram(gram_.data(), x.cols, x.cols);
  gram.noalias() += rows.transpose() * rows;
}

// H of the input as the codes meet it: smoothed, then rotated.
std::vector<double> InputStatistics::hessian_of(const std::vector<float>& smooth, const Dispatcher& backend,
                                                const QuantizeCall& fprop) const {
  Square h = Eigen::Map<const Square>(gram_.data(), cols_, cols_);
  if (!smooth.empty()) {
    const Eigen::ArrayXd s = Eigen::Map<const Eigen::ArrayXf>(smooth.data(), cols_).cast<double>();
    h = s.inverse().matrix().asDiagonal() * h * s.inverse().matrix().asDiagonal();
  }
  if (fprop.hadamard.size > 0) {
    const Floats one = Floats::Identity(cols_, cols_);
    const std::vector<float> r = rotated(backend, fprop, one.data(), cols_, cols_);
    const Square rotation = Eigen::Map<const Floats>(r.data(), cols_, hadamard_padded(fprop.hadamard, cols_))
                                .cast<double>();  // X becomes X R
    h = rotation.transpose() * h * rotation;
  }
  return {h.data(), h.data() + h.size()};
}

CalibratedWeights InputStatistics::codes_of(Tensor w, const PostTraining& ptq, const Dispatcher& backend,
                                            QuantizeCall fprop) const {
  CalibratedWeights out;
  std::vector<float> values(w.data, w.data + w.size());
  if (ptq.smooth > 0) {
    out.smooth = smoothing_factors(largest_, values.data(), w.rows, ptq.smooth);
    for (size_t i = 0; i < values.size(); ++i) values[i] *= out.smooth[i % out.smooth.size()];
  }
  fprop.x = view_of(values.data(), w.rows, w.cols);
  backend.quantize(fprop, out.codes);
  if (ptq.codes != WeightCodes::gptq) return out;
  std::vector<double> hessian = hessian_of(out.smooth, backend, fprop);
  if (fprop.hadamard.size > 0) values = rotated(backend, fprop, values.data(), w.rows, w.cols);
  gptq(values.data(), std::move(hessian), static_cast<double>(ptq.damping), ptq.order, out.codes);
  return out;
}

}  // namespace fp4::sim
