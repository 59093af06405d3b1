// See trace.h. fp64 sums: these numbers are looked at, they enter no digest.
#include "sim/trace.h"

#include <cmath>

#include "sim/ops.h"

namespace fp4::sim {

void Trace::operand(Tape& tape, TraceRow row, const OperandSpec& spec, const HadamardSpec& hadamard,
                    const Dispatcher& backend, MatrixView x) {
  measure(tape, row, spec.quant, hadamard, backend, x);
  for (const QuantSpec& probe : probes_) {
    row.probe = static_cast<int>(&probe - probes_.data());
    measure(tape, row, probe, {}, backend, x);
  }
}

void Trace::measure(Tape& tape, TraceRow row, const QuantSpec& spec, const HadamardSpec& hadamard,
                    const Dispatcher& backend, MatrixView x) {
  const auto emit = [&](const char* quantity, double value) {
    row.quantity = quantity, row.value = value;
    sink_(row);
  };
  QuantizeCall call;
  call.x = x;
  call.spec = spec;
  call.hadamard = hadamard;
  call.place = {tape.pass.seed, 0, tape.pass.step};
  Quantized q;
  backend.quantize(call, q);
  // The operand as it meets the quantiser: after the Hadamard.
  Tensor before = tape.arena.tensor(static_cast<int>(q.rows), static_cast<int>(q.cols));
  if (hadamard.size > 0) {
    backend.hadamard(x, hadamard, call.place.hadamard_signs(), false, before.data);
  } else {
    for (int64_t r = 0; r < x.rows; ++r)
      for (int64_t c = 0; c < x.cols; ++c) before.data[r * x.cols + c] = x.at(r, c);
  }
  Tensor after = tape.arena.tensor(before.rows, before.cols);
  backend.dequantize(q, after.data);

  double sum2 = 0, sum4 = 0, error = 0, amax = 0;
  int64_t clipped = 0, vanished = 0, nonzero = 0;
  const uint32_t top = format_of(q.spec.element).largest_code, mask = format_of(q.spec.element).magnitude_mask();
  for (int r = 0; r < before.rows; ++r)
    for (int c = 0; c < before.cols; ++c) {
      const double v = static_cast<double>(before.row(r)[c]), w = static_cast<double>(after.row(r)[c]);
      sum2 += v * v, sum4 += v * v * v * v, error += (v - w) * (v - w), amax = std::max(amax, std::fabs(v));
      nonzero += v != 0;
      vanished += v != 0 && w == 0;
      // Saturated: the largest code stands for something larger.
      clipped += (q.code(r, c) & mask) == top && std::fabs(v) > std::fabs(w) * (1 + 1e-6);
    }
  const double n = static_cast<double>(before.size()), mean2 = sum2 / n;
  emit("amax", amax);
  emit("rms", std::sqrt(mean2));
  emit("amax_over_rms", mean2 > 0 ? amax / std::sqrt(mean2) : 0);
  emit("kurtosis", mean2 > 0 ? sum4 / n / (mean2 * mean2) : 0);
  emit("clipped", static_cast<double>(clipped) / n);
  emit("underflow", nonzero > 0 ? static_cast<double>(vanished) / static_cast<double>(nonzero) : 0);
  emit("nmse", sum2 > 0 ? error / sum2 : 0);
}

void Trace::product(Tape& tape, const std::string& layer, const char* gemm, const GemmSpec& spec,
                    const Dispatcher& backend, MatrixView a, MatrixView b, Tensor c) {
  TraceRow row = {static_cast<int>(tape.pass.step), layer, gemm, "", "", 0};
  row.operand = "a";
  operand(tape, row, spec.a, spec.hadamard, backend, a);
  row.operand = "b";
  operand(tape, row, spec.b, spec.hadamard, backend, b);
  Tensor exact = tape.arena.tensor(c.rows, c.cols);
  multiply(tape, exact.data, exact.cols, {a.data, a.row_stride, a.col_stride}, {b.data, b.col_stride, b.row_stride},
           exact.rows, exact.cols, static_cast<int>(a.cols));
  double error = 0, norm = 0;
  for (int64_t i = 0; i < c.size(); ++i) {
    const double e = static_cast<double>(exact.data[i]), d = static_cast<double>(c.data[i]) - e;
    error += d * d, norm += e * e;
  }
  row.operand = "c";
  row.quantity = "relative_error";
  row.value = norm > 0 ? std::sqrt(error / norm) : 0;
  sink_(row);
}

}  // namespace fp4::sim
