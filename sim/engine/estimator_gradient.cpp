// See estimator_gradient.h. block_gradient (include/fp4/estimator.h) is the definition.
#include "sim/engine/estimator_gradient.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "sim/engine/scale_terms.h"
#include "src/arith/known_words.h"

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
  if (!q.spec.has_tensor_scale()) return {};
  if (q.spec.tensor_scale_cols(x.cols) == 0) return tensor_factor(quantizer, q.amax);
  const int64_t width = q.spec.has_outer_scale() ? outer_scale_width : x.cols;
  const int64_t begin = col / width * width;
  const int64_t cols = smaller<int64_t>(width, x.cols - begin);
  const float amax = block_maximum({x.row(static_cast<int>(row)) + begin, 0, 1, 1, cols, cols}).amax;
  return tensor_factor(quantizer, amax);
}

// What the kernels know; others are block_gradient's.
bool is_known(Estimator e) {
  using enum Estimator;
  return is_one_of(e, {ste, clipped_ste, dge, dge_raw, sigmoid, spline, dge_raw_as_published, sigmoid_as_published,
                       spline_as_published});
}

bool is_known(ScaleGradient g) {
  using enum ScaleGradient;
  return is_one_of(g, {none, absmax, absmax_diagonal, hardsoftmax, softsoftmax, absmax_as_published,
                       hardsoftmax_as_published, softsoftmax_as_published});
}

// The kind of payload arithmetic that serves every scale of an operand, if there is one: a single fp32 operation where
// that is the one rounding of the definition, else a quotient in fp64.
SlopeRule::Payload payload_kind(const Quantizer& q, TensorFactor t) {
  using Payload = SlopeRule::Payload;
  const bool multiplier = q.has_scale() && q.stores_multiplier();
  if (q.payload != PayloadOrder::of_arithmetic) return Payload::wide;
  switch (q.arithmetic) {
    case Arithmetic::exact:
      if (q.prescale != 1.0f || t.g != 1.0f) return Payload::wide;
      return multiplier || q.scale.mantissa_bits == 0 ? Payload::times : Payload::over;
    case Arithmetic::divide: return Payload::over;
    case Arithmetic::reciprocal:
    case Arithmetic::te: return Payload::times;
  }
  return Payload::wide;
}

// What the kernel multiplies or divides by under one scale code.
struct PayloadFactor {
  bool is_usable = false;
  float factor = 1.0f;
  double ratio[2] = {1.0, 1.0};
};

PayloadFactor payload_factor(const Quantizer& q, uint32_t code, TensorFactor t) {
  PayloadFactor f;
  const float stored = q.has_scale() ? decode(q.scale, code) : 1.0f;
  if (is_nan(stored) || stored == 0.0f || q.payload != PayloadOrder::of_arithmetic) return f;
  const bool multiplier = q.has_scale() && q.stores_multiplier();
  switch (q.arithmetic) {
    case Arithmetic::exact:
      f.is_usable = true;
      f.factor = multiplier || q.scale.mantissa_bits != 0 ? stored : 1.0f / stored;
      f.ratio[0] = static_cast<double>(q.prescale) * (multiplier ? static_cast<double>(stored) : 1.0);
      f.ratio[1] = static_cast<double>(t.g) * (multiplier ? 1.0 : static_cast<double>(stored));
      return f;
    case Arithmetic::divide:
      f.factor = stored * t.g;
      f.is_usable = !multiplier && is_finite(f.factor) && f.factor > 0.0f;
      return f;
    case Arithmetic::reciprocal:
      f.factor = 1.0f / t.g / stored;
      f.is_usable = !multiplier && is_finite(f.factor);
      return f;
    case Arithmetic::te:
      f.factor = at_most_largest(1.0f / (stored * t.g));
      f.is_usable = true;
      return f;
  }
  return f;
}

// Rows of blocks through the vector kernel.
class Slopes {
 public:
  Slopes(const Kernels& k, const EstimatorSpec& e, const Quantizer& q, TensorFactor t, int block)
      : k_(k), quantizer_(q), factor_of_tensor_(t) {
    const FloatFormat& f = q.element;
    rule_.payload = payload_kind(q, t);
    rule_.block = block;
    rule_.prescale = q.prescale;
    rule_.estimator = e;
    rule_.largest = decode(f, f.largest_code);
    rule_.least_exponent = 1 - f.bias;
    rule_.mantissa_bits = f.mantissa_bits;
    rule_.spline = spline_;
    takes_any_ = e.estimator == Estimator::clipped_ste && rule_.payload == SlopeRule::Payload::times;
    usable_ = is_known(e.estimator) &&
              rule_.least_exponent - f.mantissa_bits > -120;  // fp32 has more steps than an int32 counts
    const bool needs_spline = e.estimator == Estimator::spline || e.estimator == Estimator::spline_as_published;
    if (!usable_ || !needs_spline) return;
    const float step = 2.0f * rule_.largest / 39.0f;
    for (int j = 19; j < 39; ++j) spline_[j] = spline_rise(f, j) / step;  // negative halves mirror
  }

  /// A row of n elements whose block b has scale code code_of(b). False: the definition must do it.
  template <class CodeOf>
  bool row(const float* x, const float* upstream, float* out, int n, CodeOf code_of) {
    if (!usable_) return false;
    const size_t blocks = static_cast<size_t>((n + rule_.block - 1) / rule_.block);
    factors_.resize(blocks);
    ratios_.resize(2 * blocks);
    for (size_t b = 0; b < blocks; ++b) {
      const PayloadFactor& f = factor_of(code_of(static_cast<int64_t>(b)));
      if (!f.is_usable) return false;
      factors_[b] = f.factor;
      ratios_[2 * b] = f.ratio[0], ratios_[2 * b + 1] = f.ratio[1];
    }
    rule_.factor = factors_.data();
    rule_.ratio = ratios_.data();
    return (takes_any_ || k_.all_finite(x, n)) && k_.slopes(out, upstream, x, n, rule_);
  }

 private:
  // Codes of a byte are looked up once.
  const PayloadFactor& factor_of(uint32_t code) {
    if (quantizer_.scale.code_bits() > 8) return last_ = payload_factor(quantizer_, code, factor_of_tensor_);
    if (!is_known_[code]) known_[code] = payload_factor(quantizer_, code, factor_of_tensor_), is_known_[code] = true;
    return known_[code];
  }

  const Kernels& k_;
  const Quantizer& quantizer_;
  TensorFactor factor_of_tensor_;
  SlopeRule rule_;
  float spline_[39] = {};
  bool usable_ = false;
  bool takes_any_ = false;  // infinities and NaN, whose products lie outside of any mask
  PayloadFactor last_;
  std::array<PayloadFactor, 256> known_;
  std::array<bool, 256> is_known_ = {};
  static thread_local std::vector<float> factors_;
  static thread_local std::vector<double> ratios_;
};

thread_local std::vector<float> Slopes::factors_;
thread_local std::vector<double> Slopes::ratios_;

// Block (r, c) by the definition.
struct Definition {
  const Quantizer& quantizer;
  const EstimatorSpec& estimator;
  const Quantized& q;
  Tensor x, gradient, decoded, out;

  void block(int64_t r, int64_t c, int64_t rows, int64_t cols, TensorFactor t) const {
    const BlockGeometry& g = q.geometry;
    const int64_t at = r * x.cols + c;
    const BlockView view = {x.data + at, x.cols, 1, rows, cols, g.block_rows * g.block_cols};
    const uint32_t code = scale_code_at(q, q.spec.has_scale() ? q.scale_index(r, c) : 0);
    block_gradient(quantizer, estimator, view, code, t, {gradient.data + at, decoded.data + at, out.data + at});
  }
};

// 1 x B blocks with scale terms, sixteen at a time; what the slopes or the kernel leave is the definition's.
void add_scale_terms(Tape& tape, const Definition& d, TensorFactor t, Slopes& slopes) {
  const Tensor x = d.x;
  const int block = static_cast<int>(d.q.geometry.block_cols);
  const int64_t per_row = d.q.geometry.scale_cols, count = per_row * x.rows;
  Tensor slope = tape.arena.tensor(x.rows, x.cols);
  float* ones = tape.arena.take<float>(x.cols);
  std::fill(ones, ones + x.cols, 1.0f);
  bool* is_sure = tape.arena.take<bool>(x.rows);
  for (int r = 0; r < x.rows; ++r) {
    const auto code_of = [&](int64_t b) { return scale_code_at(d.q, r * per_row + b); };
    is_sure[r] = tape.k.all_finite(x.row(r), x.cols) && slopes.row(x.row(r), ones, slope.row(r), x.cols, code_of);
  }
  for (int64_t begin = 0; begin < count; begin += 16) {
    const int64_t first = smaller<int64_t>(begin, count - 16), at = first * block;
    if (std::all_of(is_sure + first / per_row, is_sure + (first + 15) / per_row + 1, [](bool sure) { return sure; })) {
      uint32_t codes[16];
      for (int l = 0; l < 16; ++l) codes[l] = scale_code_at(d.q, first + l);
      TermBlocks blocks;
      blocks.x = x.data + at, blocks.upstream = d.gradient.data + at, blocks.decoded = d.decoded.data + at;
      blocks.slope = slope.data + at, blocks.length = block;
      scale_terms(tape.k, d.estimator, d.quantizer, t, codes, blocks, d.out.data + at);
      continue;
    }
    for (int64_t b = begin; b < smaller(begin + 16, count); ++b) d.block(b / per_row, b % per_row * block, 1, block, t);
  }
}

void multiply_blocks(Tape& tape, const Dispatcher& backend, const ForwardOperand& operand, Tensor gradient,
                     Tensor out) {
  const Quantized& q = *operand.quantized;
  const EstimatorSpec& e = operand.estimator;
  const Tensor x = operand.x;
  Quantizer quantizer = resolve(q.spec);
  quantizer.soft_alpha = operand.soft_alpha;
  Tensor decoded = x;  // only scale gradients read it
  const bool has_terms = e.scale_gradient != ScaleGradient::none;
  if (has_terms) {
    decoded = tape.arena.tensor(x.rows, x.cols);
    backend.dequantize(q, decoded.data, tape.pass.threads);
  }
  const BlockGeometry& g = q.geometry;
  const bool one_factor = q.spec.tensor_scale_cols(x.cols) == 0;
  const TensorFactor factor = one_factor ? factor_at(quantizer, q, x, 0, 0) : TensorFactor{};
  const Definition definition = {quantizer, e, q, x, gradient, decoded, out};
  Slopes slopes(tape.k, e, quantizer, factor, static_cast<int>(g.block_cols));
  if (has_terms && is_known(e.scale_gradient) && one_factor && q.spec.has_scale() && g.block_rows == 1 &&
      x.cols % g.block_cols == 0 && g.scale_rows * g.scale_cols >= 16) {
    return add_scale_terms(tape, definition, factor, slopes);
  }
  const int64_t step = has_terms ? g.block_rows : 1;
  for (int64_t r = 0; r < x.rows; r += step) {
    const int64_t at = r * x.cols, first = q.spec.has_scale() ? r / g.block_rows * g.scale_cols : 0;
    const auto code_of = [&](int64_t block) { return scale_code_at(q, first + block); };
    if (!has_terms && one_factor && slopes.row(x.data + at, gradient.data + at, out.data + at, x.cols, code_of))
      continue;
    for (int64_t c = 0; c < x.cols; c += g.block_cols) {
      const TensorFactor t = one_factor ? factor : factor_at(quantizer, q, x, r, c);
      definition.block(r, c, smaller<int64_t>(step, x.rows - r), smaller<int64_t>(g.block_cols, x.cols - c), t);
    }
  }
}

}  // namespace

bool slope_row(const Kernels& k, const EstimatorSpec& e, const Quantizer& q, uint32_t scale_code, TensorFactor t,
               const float* x, const float* upstream, float* out, int n) {
  if (e.scale_gradient != ScaleGradient::none) return false;
  return Slopes(k, e, q, t, n).row(x, upstream, out, n, [=](int64_t) { return scale_code; });
}

void estimator_gradient(Tape& tape, const Dispatcher& backend, const ForwardOperand& operand, Tensor raw,
                        bool is_rotated, Tensor gradient) {
  const HadamardSpec& h = operand.hadamard;
  if (h.size == 0) return multiply_blocks(tape, backend, operand, raw, gradient);
  const int rows = gradient.rows, in = gradient.cols, padded = static_cast<int>(hadamard_padded(h, in));
  Tensor g = raw;
  if (!is_rotated) {
    g = tape.arena.tensor(rows, padded);
    backend.hadamard(view_of(raw.data, rows, in), h, operand.signs, false, g.data, tape.pass.threads);
  }
  if (!operand.estimator.is_straight_through()) {
    Tensor out = tape.arena.tensor(rows, padded);
    multiply_blocks(tape, backend, operand, g, out);
    g = out;
  }
  Tensor back = padded == in ? gradient : tape.arena.tensor(rows, padded);
  backend.hadamard(view_of(g.data, rows, padded), h, operand.signs, true, back.data, tape.pass.threads);
  if (padded == in) return;
  for (int r = 0; r < rows; ++r) std::memcpy(gradient.row(r), back.row(r), sizeof(float) * static_cast<size_t>(in));
}

}  // namespace fp4::sim
