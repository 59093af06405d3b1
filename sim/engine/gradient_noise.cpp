#include "sim/engine/gradient_noise.h"

#include <cmath>
#include <vector>

#include "sim/engine/trace.h"

namespace fp4::sim {

static OperandPower power_of(const Dispatcher& backend, const QuantizeCall& call) {
  const MatrixView x = call.x;
  Quantized q;
  backend.quantize(call, q);
  std::vector<float> met(static_cast<size_t>(q.rows * q.cols)), decoded(met.size());
  if (call.hadamard.size > 0) {
    backend.hadamard(x, call.hadamard, call.place.hadamard_signs(), false, met.data(), call.threads);
  } else {
    for (int64_t r = 0; r < x.rows; ++r)
      for (int64_t k = 0; k < x.cols; ++k) met[static_cast<size_t>(r * x.cols + k)] = x.at(r, k);
  }
  backend.dequantize(q, decoded.data(), call.threads);
  double squares = 0, errors = 0;
  for (size_t i = 0; i < met.size(); ++i) {
    const double y = static_cast<double>(met[i]), e = static_cast<double>(decoded[i]) - y;
    squares += y * y, errors += e * e;
  }
  return {mean_square(x), squares > 0 ? errors / squares : 0};
}

void GradientNoise::add(const Dispatcher& backend, const QuantizeCall& a, const QuantizeCall& b, const float* c,
                        int64_t c_row) {
  noise_ += noise_square(static_cast<double>(a.x.rows), static_cast<double>(b.x.rows), static_cast<double>(a.x.cols),
                         power_of(backend, a), power_of(backend, b));
  for (int64_t i = 0; i < a.x.rows; ++i)
    for (int64_t j = 0; j < b.x.rows; ++j)
      signal_ += static_cast<double>(c[i * c_row + j]) * static_cast<double>(c[i * c_row + j]);
}

std::optional<double> GradientNoise::ratio() const {
  if (!counts_ || !(noise_ > 0)) return std::nullopt;
  return std::sqrt(signal_ / noise_);
}

}  // namespace fp4::sim
