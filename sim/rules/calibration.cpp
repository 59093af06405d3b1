// What a layer keeps of its inputs for the recipe's `ptq`, and how that turns its weights into codes; see
// quantized_linear.h and post_training.h.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "sim/engine/quantized_linear.h"

#define EIGEN_DONT_PARALLELIZE
#include <Eigen/Core>

namespace fp4::sim {

namespace {

using Square = Eigen::MatrixXd;
using Floats = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

}  // namespace

void LinearEngine::calibrate(Layer& layer, Tensor x) {
  if (layer.is_product || layer.treatment != Treatment::quantised || layer.products[0].is_plain) return;
  const auto n = static_cast<size_t>(x.cols);
  if (!layer.calibration) {
    layer.calibration = std::make_unique<Layer::Calibration>();
    layer.calibration->largest.assign(n, 0.0f);
    if (recipe_.ptq.codes == WeightCodes::gptq) layer.calibration->gram.assign(n * n, 0.0);
  }
  std::vector<float>& largest = layer.calibration->largest;
  for (int r = 0; r < x.rows; ++r)
    for (size_t k = 0; k < n; ++k) largest[k] = std::max(largest[k], std::abs(x.row(r)[k]));
  if (layer.calibration->gram.empty()) return;
  const Square rows = Eigen::Map<const Floats>(x.data, x.rows, x.cols).cast<double>();
  Eigen::Map<Square> gram(layer.calibration->gram.data(), x.cols, x.cols);
  gram.noalias() += rows.transpose() * rows;
}

Tensor LinearEngine::smoothed(Tape& tape, const Layer& layer, Tensor x) const {
  if (layer.smooth.empty()) return x;
  const Tensor out = tape.arena.tensor(x.rows, x.cols);
  for (int r = 0; r < x.rows; ++r)
    for (int k = 0; k < x.cols; ++k) out.row(r)[k] = x.row(r)[k] / layer.smooth[static_cast<size_t>(k)];
  return out;
}

void LinearEngine::finish_calibration(Tape& tape) {
  calibrates_ = false;
  for (size_t number = 0; number < layers_.size(); ++number) {
    Layer& l = layers_[number];
    if (!l.calibration) continue;
    const std::unique_ptr<Layer::Calibration> calibration = std::move(l.calibration);
    const int in = l.in, out = l.out;
    std::vector<float> w(l.weight.data, l.weight.data + l.weight.size());
    if (recipe_.ptq.smooth > 0) {
      l.smooth = smoothing_factors(calibration->largest, w.data(), out, recipe_.ptq.smooth);
      for (size_t i = 0; i < w.size(); ++i) w[i] *= l.smooth[i % static_cast<size_t>(in)];
    }
    const QuantizeCall call =
        call_of(tape, l, {static_cast<int>(number), 0}, Gemm::fprop, 1, view_of(w.data(), out, in));
    l.after = std::make_unique<Quantized>();
    backend_.quantize(call, *l.after);
    if (recipe_.ptq.codes != WeightCodes::gptq) continue;
    Square h = Eigen::Map<const Square>(calibration->gram.data(), in, in);
    if (!l.smooth.empty()) {
      const Eigen::ArrayXd s = Eigen::Map<const Eigen::ArrayXf>(l.smooth.data(), in).cast<double>();
      h = s.inverse().matrix().asDiagonal() * h * s.inverse().matrix().asDiagonal();
    }
    if (call.hadamard.size > 0) {
      const auto cols = static_cast<int>(hadamard_padded(call.hadamard, in));
      const auto rotate = [&](const float* x, int rows) {
        std::vector<float> y(static_cast<size_t>(int64_t{rows} * cols));
        backend_.hadamard(view_of(x, rows, in), call.hadamard, call.place.hadamard_signs(), false, y.data(),
                          tape.pass.threads);
        return y;
      };
      const Floats one = Floats::Identity(in, in);
      const std::vector<float> r = rotate(one.data(), in);
      const Square rotation = Eigen::Map<const Floats>(r.data(), in, cols).cast<double>();  // x becomes x R
      h = rotation.transpose() * h * rotation;
      w = rotate(w.data(), out);
    }
    std::vector<double> hessian(h.data(), h.data() + h.size());
    gptq(w.data(), std::move(hessian), static_cast<double>(recipe_.ptq.damping), recipe_.ptq.order, *l.after);
  }
}

}  // namespace fp4::sim
