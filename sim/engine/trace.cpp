// See trace.h. fp64 sums: these numbers are looked at, they enter no digest.
#include "sim/engine/trace.h"

#include <cmath>

#include "sim/engine/product.h"
#include "sim/tape/ops.h"
#include "src/arith/code_order.h"

namespace fp4::sim {

namespace {

constexpr int tile = 16;

double at(const float* x, int64_t i) { return static_cast<double>(x[i]); }

// The scale that would be if scales were real numbers.
QuantSpec with_ideal_scale(QuantSpec spec) {
  spec.scale = Scale::fp32;
  spec.scale_rule = ScaleRule::amax;
  spec.scale_rounding = Rounding::nearest_even;
  spec.arithmetic = Arithmetic::exact;
  spec.tensor_scale = TensorScale::none;
  return spec;
}

}  // namespace

ErrorParts error_parts(const float* x, const float* q, const float* ideal, int64_t n) {
  ErrorParts parts;
  double norm = 0;
  for (int64_t i = 0; i < n; ++i) {
    const double error = at(q, i) - at(x, i);
    norm += at(x, i) * at(x, i);
    parts.scale_bias += (at(q, i) - at(ideal, i)) * error;
    (ideal[i] == 0 ? parts.dead_zone : parts.grid_noise) += (at(ideal, i) - at(x, i)) * error;
  }
  if (norm == 0) return {};
  return {parts.scale_bias / norm, parts.dead_zone / norm, parts.grid_noise / norm};
}

double cosine(const float* a, const float* b, int64_t n) {
  double aa = 0, bb = 0, ab = 0;
  for (int64_t i = 0; i < n; ++i) aa += at(a, i) * at(a, i), bb += at(b, i) * at(b, i), ab += at(a, i) * at(b, i);
  return aa > 0 && bb > 0 ? ab / std::sqrt(aa * bb) : 0;
}

double changed_tiles(const float* a, const float* b, int rows, int cols) {
  int changed = 0, tiles = 0;
  for (int r = 0; r < rows; r += tile)
    for (int c = 0; c < cols; c += tile, ++tiles) {
      bool differs = false;
      for (int i = r; i < std::min(r + tile, rows); ++i)
        for (int j = c; j < std::min(c + tile, cols); ++j) {
          const size_t k = static_cast<size_t>(i) * static_cast<size_t>(cols) + static_cast<size_t>(j);
          differs |= bits_of(fp4::canonical(a[k])) != bits_of(fp4::canonical(b[k]));
        }
      changed += differs;
    }
  return tiles > 0 ? static_cast<double>(changed) / tiles : 0;
}

double mean_square(MatrixView x) {
  double sum = 0;
  for (int64_t r = 0; r < x.rows; ++r)
    for (int64_t c = 0; c < x.cols; ++c) sum += static_cast<double>(x.at(r, c)) * static_cast<double>(x.at(r, c));
  return x.rows * x.cols > 0 ? sum / static_cast<double>(x.rows * x.cols) : 0;
}

Tensor met_operand(Arena& arena, const Dispatcher& backend, const QuantizeCall& call, const Quantized& q) {
  const Tensor met = arena.tensor(static_cast<int>(q.rows), static_cast<int>(q.cols));
  const MatrixView x = call.x;
  if (call.hadamard.size > 0) {
    backend.hadamard(x, call.hadamard, call.place.hadamard_signs(), false, met.data, call.threads);
  } else {
    for (int64_t r = 0; r < x.rows; ++r)
      for (int64_t c = 0; c < x.cols; ++c) met.data[r * x.cols + c] = x.at(r, c);
  }
  return met;
}

double noise_square(double m, double n, double k, OperandPower a, OperandPower b) {
  return m * n * k * a.mean_square * b.mean_square * (a.nmse + b.nmse + a.nmse * b.nmse);
}

double gradient_noise_ratio(double norm_square, double m, double n, double k, OperandPower a, OperandPower b) {
  const double noise = noise_square(m, n, k, a, b);
  return noise > 0 ? std::sqrt(norm_square / noise) : 0;
}

OperandPower Trace::operand(Tape& tape, TraceRow row, const Dispatcher& backend, const QuantizeCall& call,
                            const Quantized* ready) {
  const OperandPower power = measure(tape, row, backend, call, ready);
  for (const QuantSpec& probe : probes_.specs) {
    row.probe = static_cast<int>(&probe - probes_.specs.data());
    QuantizeCall tried = {.x = call.x, .spec = probe, .place = call.place};
    measure(tape, row, backend, tried, nullptr);
  }
  return power;
}

OperandPower Trace::measure(Tape& tape, TraceRow row, const Dispatcher& backend, const QuantizeCall& call,
                            const Quantized* ready) {
  const auto emit = [&](const char* quantity, double value) {
    row.quantity = quantity, row.value = value;
    sink_(row);
  };
  Quantized own;
  if (!ready) backend.quantize(call, own);
  const Quantized& q = ready ? *ready : own;
  const Tensor before = met_operand(tape.arena, backend, call, q);
  Tensor after = tape.arena.tensor(before.rows, before.cols);
  backend.dequantize(q, after.data);

  double sum2 = 0, sum4 = 0, error = 0, amax = 0;
  int64_t clipped = 0, vanished = 0, nonzero = 0;
  for (int r = 0; r < before.rows; ++r)
    for (int c = 0; c < before.cols; ++c) {
      const double v = static_cast<double>(before.row(r)[c]), w = static_cast<double>(after.row(r)[c]);
      sum2 += v * v, sum4 += v * v * v * v, error += (v - w) * (v - w), amax = std::max(amax, std::fabs(v));
      nonzero += v != 0;
      vanished += v != 0 && w == 0;
      // Saturated: the largest code stands for something larger.
      clipped += is_end_code(element_of_block(q, r, c), q.code(r, c)) && std::fabs(v) > std::fabs(w) * (1 + 1e-6);
    }
  const double n = static_cast<double>(before.size()), mean2 = sum2 / n;
  emit("amax", amax);
  emit("rms", std::sqrt(mean2));
  emit("amax_over_rms", mean2 > 0 ? amax / std::sqrt(mean2) : 0);
  emit("kurtosis", mean2 > 0 ? sum4 / n / (mean2 * mean2) : 0);
  emit("clipped", static_cast<double>(clipped) / n);
  emit("underflow", nonzero > 0 ? static_cast<double>(vanished) / static_cast<double>(nonzero) : 0);
  emit("nmse", sum2 > 0 ? error / sum2 : 0);
  emit("cosine", cosine(before.data, after.data, before.size()));
  if (q.spec.has_scale()) {
    QuantizeCall ideal;
    ideal.x = view_of(before.data, before.rows, before.cols);
    ideal.spec = with_ideal_scale(call.spec);
    ideal.place = call.place;
    Quantized q_ideal;
    backend.quantize(ideal, q_ideal);
    Tensor of_ideal = tape.arena.tensor(before.rows, before.cols);
    backend.dequantize(q_ideal, of_ideal.data);
    const ErrorParts parts = error_parts(before.data, after.data, of_ideal.data, before.size());
    emit("scale_bias", parts.scale_bias);
    emit("dead_zone", parts.dead_zone);
    emit("grid_noise", parts.grid_noise);
  }
  return {mean_square(call.x), sum2 > 0 ? error / sum2 : 0};
}

void Trace::product(const ProductCall& p) {
  Tape& tape = p.tape;
  const Dispatcher& backend = p.backend.host;
  TraceRow row = {
      static_cast<int>(tape.pass.step), p.layer.name, product_words[static_cast<size_t>(p.gemm)], "", "", 0};
  row.operand = "a";
  const OperandPower power_a = operand(tape, row, backend, p.call(0), p.ready[0]);
  row.operand = "b";
  const OperandPower power_b = operand(tape, row, backend, p.call(1), p.ready[1]);
  row.operand = "c";
  const auto emit = [&](const std::string& quantity, double value) {
    row.quantity = quantity, row.value = value;
    sink_(row);
  };
  const auto& [a, b] = p.x;
  const Tensor c = {p.c, static_cast<int>(a.rows), static_cast<int>(b.rows)};
  Tensor exact = tape.arena.tensor(c.rows, c.cols);
  multiply(tape, exact.data, exact.cols, {a.data, a.row_stride, a.col_stride}, {b.data, b.col_stride, b.row_stride},
           exact.rows, exact.cols, static_cast<int>(a.cols));
  double error = 0, norm = 0, own = 0;
  for (int64_t i = 0; i < c.size(); ++i) {
    const double e = at(exact.data, i), d = at(c.data, i) - e;
    error += d * d, norm += e * e, own += at(c.data, i) * at(c.data, i);
  }
  emit("relative_error", norm > 0 ? std::sqrt(error / norm) : 0);
  emit("cosine", cosine(exact.data, c.data, c.size()));
  if (p.gemm != Gemm::fprop)
    emit("gradient_noise_ratio", gradient_noise_ratio(own, static_cast<double>(a.rows), static_cast<double>(b.rows),
                                                      static_cast<double>(a.cols), power_a, power_b));
  for (const auto& [name, adder] : probes_.adders) {
    Tensor other = tape.arena.tensor(c.rows, c.cols);
    GemmOptions options = p.options();
    options.accumulator = adder;
    backend.multiply({p.call(0), p.call(1), options, other.data, other.cols, p.ready[0], p.ready[1]});
    emit("changed_tiles:" + name, changed_tiles(c.data, other.data, c.rows, c.cols));
  }
}

}  // namespace fp4::sim
