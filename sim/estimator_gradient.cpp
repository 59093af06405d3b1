// See estimator_gradient.h. block_gradient (include/fp4/estimator.h) is the definition.
#include "sim/estimator_gradient.h"

#include <cstring>

#include "fp4/gemm.h"

namespace fp4::sim {

namespace {

uint32_t scale_code_at(const Quantized& q, int64_t index) {
  if (!q.spec.has_scale()) return 0;
  if (q.real_scales.empty()) return q.scales[static_cast<size_t>(index)];
  const uint32_t bits = bits_of(q.real_scales[static_cast<size_t>(index)]);
  return q.spec.scale == Scale::bf16 ? bits >> 16 : bits;
}

// g and S of a block; S is recomputed where each row and 128 elements have their own.
TensorFactor factor_at(const Quantizer& quantizer, const Quantized& q, Tensor x, int64_t row, int64_t col) {
  const float largest = decode(quantizer.element, quantizer.element.largest_code);
  if (!q.spec.has_tensor_scale()) return {};
  if (q.spec.tensor_scale != TensorScale::outer128)
    return tensor_factor(quantizer.arithmetic, q.amax, quantizer.target, largest);
  const int64_t begin = col / outer_scale_width * outer_scale_width;
  const int64_t cols = smaller<int64_t>(outer_scale_width, x.cols - begin);
  const float amax = block_maximum({x.row(static_cast<int>(row)) + begin, 0, 1, 1, cols, cols}).amax;
  return tensor_factor(quantizer.arithmetic, amax, quantizer.target, largest);
}

// The payload arithmetic of one scale as the vector kernel wants it; false where only the definition will do.
bool fill_payload(const Quantizer& q, uint32_t code, TensorFactor t, SlopeRule& r) {
  using Payload = SlopeRule::Payload;
  const float stored = q.has_scale ? decode(q.scale, code) : 1.0f;
  if (is_nan(stored) || stored == 0.0f) return false;
  const bool multiplier = q.has_scale && q.stores_multiplier();
  r.prescale = q.prescale;
  switch (q.arithmetic) {
    case Arithmetic::exact:
      r.payload = Payload::wide;
      r.numerator = static_cast<double>(q.prescale) * (multiplier ? static_cast<double>(stored) : 1.0);
      r.denominator = static_cast<double>(t.g) * (multiplier ? 1.0 : static_cast<double>(stored));
      return true;
    case Arithmetic::divide:
      if (multiplier) return false;
      r.payload = Payload::over;
      r.factor = stored * t.g;
      return is_finite(r.factor) && r.factor > 0.0f;
    case Arithmetic::reciprocal:
      if (multiplier) return false;
      r.payload = Payload::times;
      r.factor = 1.0f / t.g / stored;
      return is_finite(r.factor);
    case Arithmetic::te:
      r.payload = Payload::times;
      r.factor = at_most_largest(1.0f / (stored * t.g));
      return true;
  }
  return false;
}

class Slopes {
 public:
  Slopes(const Kernels& k, const EstimatorSpec& e, const Quantizer& q) : k_(k), quantizer_(q) {
    const FloatFormat& f = q.element;
    rule_.estimator = e;
    rule_.largest = decode(f, f.largest_code);
    rule_.least_exponent = 1 - f.bias;
    rule_.mantissa_bits = f.mantissa_bits;
    rule_.spline = spline_;
    // Scale terms need the whole block at once; fp32 elements have more steps than an int32 counts.
    usable_ = e.scale_gradient == ScaleGradient::none && rule_.least_exponent - f.mantissa_bits > -120;
    if (!usable_) return;
    const float step = 2.0f * rule_.largest / 39.0f;
    for (int j = 0; j < 39; ++j)  // the middle of interval j, given as w: negative halves mirror
      spline_[j] = j < 19 ? 0.0f : spline_slope(f, (static_cast<float>(j) + 0.5f) * step - rule_.largest);
  }

  bool block(const BlockView& x, uint32_t code, TensorFactor t, const BlockGradient& io) {
    if (!usable_ || !fill_payload(quantizer_, code, t, rule_)) return false;
    for (int64_t r = 0; r < x.rows; ++r)
      for (int64_t c = 0; c < x.cols; c += 256) {
        const int64_t at = r * x.row_stride + c;
        const int n = static_cast<int>(smaller<int64_t>(256, x.cols - c));
        if (!k_.all_finite(x.data + at, n)) return false;
        if (!k_.slopes(io.out + at, io.upstream + at, x.data + at, n, rule_)) return false;
      }
    return true;
  }

 private:
  const Kernels& k_;
  const Quantizer& quantizer_;
  SlopeRule rule_;
  float spline_[39] = {};
  bool usable_ = false;
};

void multiply_blocks(Tape& tape, const Dispatcher& backend, const EstimatorSpec& e, const Quantized& q, Tensor x,
                     Tensor gradient, Tensor out, float soft_alpha) {
  Quantizer quantizer = resolve(q.spec);
  quantizer.soft_alpha = soft_alpha;
  Tensor decoded = x;  // only scale gradients read it
  if (e.scale_gradient != ScaleGradient::none) {
    decoded = tape.arena.tensor(x.rows, x.cols);
    backend.dequantize(q, decoded.data, tape.pass.threads);
  }
  const BlockGeometry& g = q.geometry;
  const bool one_factor = q.spec.tensor_scale != TensorScale::outer128;
  const TensorFactor factor = one_factor ? factor_at(quantizer, q, x, 0, 0) : TensorFactor{};
  Slopes slopes(tape.k, e, quantizer);
  for (int64_t r = 0; r < x.rows; r += g.block_rows)
    for (int64_t c = 0; c < x.cols; c += g.block_cols) {
      const int64_t at = r * x.cols + c;
      const BlockView block = {x.data + at,
                               x.cols,
                               1,
                               smaller<int64_t>(g.block_rows, x.rows - r),
                               smaller<int64_t>(g.block_cols, x.cols - c),
                               g.block_rows * g.block_cols};
      const uint32_t code = scale_code_at(q, q.spec.has_scale() ? q.scale_index(r, c) : 0);
      const TensorFactor t = one_factor ? factor : factor_at(quantizer, q, x, r, c);
      const BlockGradient io = {gradient.data + at, decoded.data + at, out.data + at};
      if (!slopes.block(block, code, t, io)) block_gradient(quantizer, e, block, code, t, io);
    }
}

}  // namespace

bool slope_row(const Kernels& k, const EstimatorSpec& e, const Quantizer& q, uint32_t scale_code, TensorFactor t,
               const float* x, const float* upstream, float* out, int n) {
  const BlockView row = {x, 0, 1, 1, n, n};
  return Slopes(k, e, q).block(row, scale_code, t, {upstream, x, out});
}

void estimator_gradient(Tape& tape, const Dispatcher& backend, const QuantizeCall& call, const EstimatorSpec& e,
                        const Quantized& q, Tensor raw, bool is_rotated, float* gradient) {
  const int rows = static_cast<int>(call.x.rows), in = static_cast<int>(call.x.cols);
  const HadamardSpec& h = call.hadamard;
  const RandomPlace signs = call.place.hadamard_signs();
  const auto rotated = [&](const float* data) {
    Tensor t = tape.arena.tensor(rows, static_cast<int>(hadamard_padded(h, in)));
    backend.hadamard(view_of(data, rows, in), h, signs, false, t.data, call.threads);
    return t;
  };
  if (h.size == 0) {
    const Tensor x = {const_cast<float*>(call.x.data), rows, in};
    multiply_blocks(tape, backend, e, q, x, raw, {gradient, rows, in}, call.soft_alpha);
    return;
  }
  Tensor g = is_rotated ? raw : rotated(raw.data);
  if (!e.is_straight_through()) {
    Tensor out = tape.arena.tensor(rows, g.cols);
    multiply_blocks(tape, backend, e, q, rotated(call.x.data), g, out, call.soft_alpha);
    g = out;
  }
  Tensor back = tape.arena.tensor(rows, g.cols);
  backend.hadamard(view_of(g.data, rows, g.cols), h, signs, true, back.data, call.threads);
  for (int r = 0; r < rows; ++r)
    std::memcpy(gradient + int64_t{r} * in, back.row(r), sizeof(float) * static_cast<size_t>(in));
}

}  // namespace fp4::sim
