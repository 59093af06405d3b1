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
      block_gradient(quantizer, e, block, code, factor_at(quantizer, q, x, r, c),
                     {gradient.data + at, decoded.data + at, out.data + at});
    }
}

}  // namespace

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
