// The reference backend: plain loops over include/fp4, one element, one block, one output at a time. It supports
// everything and defines what every other backend must give. Threads split rows; they never change a result.
#include "src/arith/backend_reference.h"

#include <algorithm>
#include <vector>

#include "fp4/eden.h"
#include "fp4/gemm.h"
#include "fp4/micro.h"
#include "src/arith/known_words.h"
#include "src/threads/parallel.h"

namespace fp4 {
namespace {

// The operand after its Hadamard: [rows, K] contiguous, or the caller's own view when there is none.
MatrixView transformed(const MatrixView& x, const HadamardSpec& h, RandomPlace signs, bool inverse,
                       std::vector<float>& storage) {
  if (h.size == 0) return x;
  const int64_t k = hadamard_padded(h, x.cols);
  const HadamardSignMask mask = hadamard_signs(h, signs);
  storage.assign(static_cast<size_t>(x.rows * k), 0.0f);
  for (int64_t r = 0; r < x.rows; ++r) {
    float* row = storage.data() + r * k;
    for (int64_t c = 0; c < x.cols; ++c) row[c] = x.at(r, c);
    for (int64_t c = 0; c < k; c += h.size) {
      if (inverse) {
        inverse_hadamard_tile(row + c, h, mask);
      } else {
        hadamard_tile(row + c, h, mask);
      }
    }
  }
  return view_of(storage.data(), x.rows, k);
}

// Over finite elements; NaN where there is one and it counts.
float measured_amax(const Quantizer& q, const MatrixView& x, int64_t row, int64_t rows, int64_t col, int64_t cols) {
  const BlockView all = {x.data + row * x.row_stride + col * x.col_stride, x.row_stride, x.col_stride, rows, cols, 0};
  for (int64_t r = 0; r < rows && q.nonfinite == Nonfinite::tensor_nan; ++r)
    for (int64_t c = 0; c < cols; ++c)
      if (is_nan(all.at(r, c))) return float_of(canonical_nan_bits);
  return q.input(block_maximum(all).amax);
}

}  // namespace

std::vector<TensorFactor> tensor_factors(const QuantizeCall& call, const Quantizer& q, const MatrixView& x,
                                         Quantized& out) {
  out.tensor_scale.clear();
  const auto factor = [&](float amax) {
    const TensorFactor t = tensor_factor(q, amax);
    out.tensor_scale.push_back(stored_factor(q.decode, t, amax));
    return t;
  };
  std::vector<TensorFactor> factors(1);
  out.amax = 0.0f;
  if (q.tensor_scale == TensorScale::row) {
    factors.clear();
    for (int64_t r = 0; r < x.rows; ++r) factors.push_back(factor(measured_amax(q, x, r, 1, 0, x.cols)));
  } else if (q.tensor_scale == TensorScale::outer128) {
    factors.clear();
    for (int64_t r = 0; r < x.rows; ++r)
      for (int64_t c = 0; c < x.cols; c += outer_scale_width) {
        const int64_t width = std::min<int64_t>(outer_scale_width, x.cols - c);
        factors.push_back(factor(measured_amax(q, x, r, 1, c, width)));
      }
  } else if (q.tensor_scale == TensorScale::given) {
    factors[0] = factor(0.0f);
  } else if (q.tensor_scale != TensorScale::none) {
    const bool held = q.tensor_scale == TensorScale::hold && !(call.held_amax < 0.0f);
    out.amax = held ? call.held_amax : measured_amax(q, x, 0, x.rows, 0, x.cols);
    factors[0] = factor(out.amax);
  } else {
    out.tensor_scale.push_back(1.0f);
  }
  return factors;
}

namespace {

void store_scale(Quantized& out, int64_t index, uint32_t code) {
  if (is_real(out.spec.scale)) {
    out.real_scales[static_cast<size_t>(index)] = decode(format_of(out.spec.scale), code);
  } else {
    out.scales[static_cast<size_t>(index)] = static_cast<uint8_t>(code);
  }
}

uint32_t load_scale(const Quantized& q, int64_t index) {
  if (!q.spec.has_scale()) return 0;
  if (!is_real(q.spec.scale)) return q.scales[static_cast<size_t>(index)];
  const float s = q.real_scales[static_cast<size_t>(index)];
  const FloatFormat& f = format_of(q.spec.scale);
  return is_nan(s) ? f.nan_code : encode(f, exact_magnitude(s), false, {});
}

void quantize_block_row(const QuantizeCall& call, const Quantizer& q, const MatrixView& x,
                        const std::vector<TensorFactor>& factors, int64_t block_row, Quantized& out) {
  const BlockGeometry& g = out.geometry;
  const int64_t first_row = block_row * g.block_rows;
  const int64_t rows = std::min(g.block_rows, x.rows - first_row);
  const int64_t factor_cols = out.spec.tensor_scale_cols(x.cols);  // 0: one factor for all
  const auto factor_at = [&](int64_t row, int64_t col) {
    return factors[static_cast<size_t>(
        factor_cols == 0 ? 0 : row * factor_cols + (factor_cols > 1 ? col / outer_scale_width : 0))];
  };
  const int64_t first_index = call.row_offset / g.block_rows * g.scale_cols;  // in the whole operand's scale array
  const bool random_scale = is_stochastic(q.scale_rounding);
  const bool random_element = is_stochastic(q.rounding);
  for (int64_t first_col = 0; first_col < x.cols; first_col += g.block_cols) {
    const BlockView block = {x.data + first_row * x.row_stride + first_col * x.col_stride,
                             x.row_stride,
                             x.col_stride,
                             rows,
                             std::min(g.block_cols, x.cols - first_col),
                             g.block_rows * g.block_cols};
    const TensorFactor t = factor_at(first_row, first_col);
    const int64_t index = block_row * g.scale_cols + first_col / g.block_cols;
    const uint32_t scale_draw = random_scale ? random_draw(call.place.scale_rounding(),
                                                           static_cast<uint64_t>(first_index + index), q.random_bits)
                                             : 0u;
    const uint32_t scale_code = block_scale_code(q, block, t, scale_draw);
    if (q.has_scale()) store_scale(out, index, scale_code);
    if (q.has_scale() && q.scale.is_nan_code(scale_code)) continue;  // codes of zero
    const bool has_micro = q.element.has_micro();
    int micro[most_micro_width] = {};
    if (has_micro) micro_exponents(q, block, scale_code, t, micro);
    for (int64_t r = 0; r < block.rows; ++r) {
      for (int64_t c = 0; c < block.cols; ++c) {
        const int64_t row = first_row + r;
        const int64_t col = first_col + c;
        const auto position = static_cast<uint64_t>((call.row_offset + row) * x.cols + col);
        const uint32_t draw = random_element ? call.draw(position, x.cols, q.random_bits) : 0u;
        const float v = block.at(r, c);
        out.set_code(
            row, col,
            has_micro ? micro_code(q, v, scale_code, micro[c], t, draw) : element_code(q, v, scale_code, t, draw));
      }
    }
  }
}

// A row of a quantised operand in the shape that accumulate.h reads. Decoded once per row, not per output.
class DecodedRow {
 public:
  DecodedRow(const Quantized& q, int64_t row)
      : q_(q), resolved_(resolve(q.spec)), format_(finer(resolved_.element, resolved_.element_under(-1.0f))) {
    const auto k = static_cast<size_t>(q.cols);
    values_.resize(k);
    unscaled_.resize(k);
    fixed_.resize(q.spec.has_scale() ? k : 0);
    scales_.resize(k);
    factors_.resize(k);
    for (int64_t i = 0; i < q.cols; ++i) {
      const auto at = static_cast<size_t>(i);
      const uint32_t code = q.code(row, i);
      const float signed_scale = scale_value(resolved_, load_scale(q, q.spec.has_scale() ? q.scale_index(row, i) : 0));
      const FloatFormat& element = resolved_.element_under(signed_scale);
      scales_[at] = magnitude(signed_scale);  // the sign of a choice says which grid
      factors_[at] = q.tensor_multiplier_at(row, i);
      values_[at] = element_value(resolved_, code, signed_scale, q.tensor_factor_at(row, i));
      unscaled_[at] = decode(element, code);
      if (q.spec.has_scale())
        fixed_[at] = decode_fixed(element, code) * (int64_t{1} << (element.quantum_log2() - format_.quantum_log2()));
    }
  }
  int64_t fixed(int64_t k) const { return fixed_[static_cast<size_t>(k)]; }
  float scale(int64_t k) const { return scales_[static_cast<size_t>(k)]; }
  float unscaled(int64_t k) const { return unscaled_[static_cast<size_t>(k)]; }
  float scaled(int64_t k) const { return unscaled(k) * scale(k); }
  float value(int64_t k) const { return values_[static_cast<size_t>(k)]; }
  float tensor_scale(int64_t k) const { return factors_.empty() ? 1.0f : factors_[static_cast<size_t>(k)]; }
  bool has_scale() const { return q_.spec.has_scale(); }
  const FloatFormat& format() const { return format_; }
  int64_t block() const {
    const BlockKind kind = q_.spec.block.kind;
    return kind == BlockKind::row || kind == BlockKind::tensor ? 0 : q_.spec.block.size;
  }
  // fl32(1/mu) is an fp32 number, whatever the format of mu.
  int scale_min_exponent() const { return resolved_.stores_multiplier() ? -126 : resolved_.scale.min_exponent(); }

 private:
  static const FloatFormat& finer(const FloatFormat& a, const FloatFormat& b) {
    return b.quantum_log2() < a.quantum_log2() ? b : a;
  }

  const Quantized& q_;
  Quantizer resolved_;
  FloatFormat format_;  // of a choice that whose steps both grids are multiples of
  std::vector<float> values_, unscaled_, scales_, factors_;
  std::vector<int64_t> fixed_;
};

class ReferenceBackend final : public Backend {
 public:
  const char* name() const override { return "reference"; }
  bool available() const override { return true; }
  bool supports_quantize(const QuantizeCall&) const override { return true; }
  bool supports_dequantize(const Quantized&) const override { return true; }
  bool supports_gemm(const QuantSpec&, const QuantSpec&, const GemmOptions&) const override { return true; }
  bool supports_hadamard(const HadamardSpec&) const override { return true; }

  void quantize(const QuantizeCall& call, Quantized& out) const override {
    std::vector<float> storage;
    const MatrixView x = transformed(call.x, call.hadamard, call.place.hadamard_signs(), false, storage);
    Quantizer q = resolve(call.spec);
    q.soft_alpha = call.soft_alpha;
    out.spec = call.spec;
    out.rows = x.rows;
    out.cols = x.cols;
    out.geometry = geometry_of(call.spec, x.rows, x.cols);
    const BlockGeometry& g = out.geometry;
    out.clear_codes();
    const auto scale_count = static_cast<size_t>(g.scale_rows * g.scale_cols);
    out.scales.assign(call.spec.has_scale() && !is_real(call.spec.scale) ? scale_count : 0, 0);
    out.real_scales.assign(is_real(call.spec.scale) ? scale_count : 0, 0.0f);
    const std::vector<TensorFactor> factors = tensor_factors(call, q, x, out);
    const int64_t block_rows = (x.rows + g.block_rows - 1) / g.block_rows;
    parallel_for(0, block_rows, 1, call.threads, 1,
                 [&](int64_t b) { quantize_block_row(call, q, x, factors, b, out); });
    if (call.spec.corrects_scales()) {
      std::vector<float> decoded(static_cast<size_t>(out.rows * out.cols));
      dequantize(out, decoded.data(), call.threads);
      correct_scales(call, x, decoded.data(), out);
    }
    out.spec = decoding_spec(call.spec);
  }

  void dequantize(const Quantized& q, float* out, int threads) const override {
    const Quantizer resolved = resolve(q.spec);
    parallel_for(0, q.rows, 1, threads, 1, [&](int64_t r) {
      for (int64_t k = 0; k < q.cols; ++k) {
        const float s = scale_value(resolved, load_scale(q, q.spec.has_scale() ? q.scale_index(r, k) : 0));
        out[r * q.cols + k] = canonical(element_value(resolved, q.code(r, k), s, q.tensor_factor_at(r, k)));
      }
    });
  }

  void gemm(const Quantized& a, const Quantized& b, const GemmOptions& options, float* c,
            int64_t c_stride) const override {
    GemmFinish finish;
    finish.prescale_product = a.spec.prescale * b.spec.prescale;
    finish.hadamard_divisor = options.hadamard_divisor;
    finish.restarts_every_128 = a.spec.has_outer_scale() || b.spec.has_outer_scale();
    std::vector<DecodedRow> columns;
    columns.reserve(static_cast<size_t>(b.rows));
    for (int64_t j = 0; j < b.rows; ++j) columns.emplace_back(b, j);
    parallel_for(0, a.rows, 1, options.threads, 1, [&](int64_t i) {
      const DecodedRow row(a, i);
      for (int64_t j = 0; j < b.rows; ++j)
        c[i * c_stride + j] = gemm_output(options.accumulator, row, columns[static_cast<size_t>(j)], a.cols, finish);
    });
  }

  void hadamard(const MatrixView& x, const HadamardSpec& h, RandomPlace place, bool inverse, float* y,
                int) const override {
    std::vector<float> storage;
    const MatrixView t = transformed(x, h, place, inverse, storage);
    for (int64_t r = 0; r < t.rows; ++r) {
      for (int64_t k = 0; k < t.cols; ++k) y[r * t.cols + k] = t.at(r, k);
    }
  }
};

}  // namespace

void correct_scales(const QuantizeCall& call, const MatrixView& x, const float* decoded, Quantized& out) {
  const Quantizer q = resolve(call.spec);
  const BlockGeometry& g = out.geometry;
  parallel_for(0, x.rows, 1, call.threads, 16, [&](int64_t row) {
    for (int64_t group = 0; group < x.cols; group += eden_width) {
      const int64_t end = std::min<int64_t>(group + eden_width, x.cols);
      EdenSums sums;
      for (int64_t k = group; k < end; ++k)
        if (is_finite(x.at(row, k)) && !q.scale.is_nan_code(load_scale(out, out.scale_index(row, k))))
          sums.add(x.at(row, k), decoded[row * x.cols + k]);
      for (int64_t k = group; k < end; k += g.block_cols) {
        const int64_t index = out.scale_index(row, k);
        const uint32_t scale = load_scale(out, index);
        const BlockView block = {x.data + row * x.row_stride + k * x.col_stride,
                                 x.row_stride,
                                 x.col_stride,
                                 1,
                                 std::min(g.block_cols, x.cols - k),
                                 g.block_cols};
        if (q.scale.is_nan_code(scale) || block_maximum(block).amax == 0.0f) continue;
        const auto place = static_cast<uint64_t>(call.row_offset * g.scale_cols + index);
        const uint32_t draw = random_draw(call.place.scale_rounding(), place, q.random_bits);
        store_scale(out, index, eden_scale_code(q, scale, sums.correction(), draw));
      }
    }
  });
}

const Backend& reference_backend() {
  static const ReferenceBackend backend;
  return backend;
}

}  // namespace fp4
