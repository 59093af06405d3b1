#include "sim/engine/gradient_noise.h"

#include <cmath>

#include "sim/engine/trace.h"

namespace fp4::sim {

static OperandPower power_of(const Dispatcher& backend, const QuantizeCall& call) {
  Quantized q;
  backend.quantize(call, q);
  Arena arena;
  const Tensor met = met_operand(arena, backend, call, q), decoded = arena.tensor(met.rows, met.cols);
  backend.dequantize(q, decoded.data, call.threads);
  double squares = 0, errors = 0;
  for (int64_t i = 0; i < met.size(); ++i) {
    const double y = static_cast<double>(met.data[i]), e = static_cast<double>(decoded.data[i]) - y;
    squares += y * y, errors += e * e;
  }
  return {mean_square(call.x), squares > 0 ? errors / squares : 0};
}

void GradientNoise::add(const ProductCall& p) {
  const auto& [a, b] = p.x;
  noise_ += noise_square(static_cast<double>(a.rows), static_cast<double>(b.rows), static_cast<double>(a.cols),
                         power_of(p.backend.host, p.call(0)), power_of(p.backend.host, p.call(1)));
  for (int64_t i = 0; i < a.rows; ++i)
    for (int64_t j = 0; j < b.rows; ++j)
      signal_ += static_cast<double>(p.c[i * p.c_row + j]) * static_cast<double>(p.c[i * p.c_row + j]);
}

std::optional<double> GradientNoise::ratio() const {
  if (!counts_ || !(noise_ > 0)) return std::nullopt;
  return std::sqrt(signal_ / noise_);
}

}  // namespace fp4::sim
