#include "src/backends/backend_listed.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>
#include <vector>

#include "fp4/codec.h"
#include "src/arith/amax.h"
#include "src/arith/known_words.h"
#include "src/backends/backends.h"
#include "src/backends/listed_codes.h"
#include "src/threads/parallel.h"

namespace fp4 {
namespace {

bool is_listed(const QuantSpec& s) {
  const FloatFormat& f = format_of(s.element);
  return f.is_grid() || s.choice.is_on;
}

// Products of values are those of e2m3's values.
bool is_e2m3(const FloatFormat& f) {
  const FloatFormat& e2m3 = format_of(Element::e2m3);
  for (uint32_t code = 0; code < 1u << f.code_bits(); ++code) {
    const float v = decode(f, code);
    if (is_nan(v)) continue;
    if (decode(e2m3, encode(e2m3, exact_magnitude(v), false, {})) != magnitude(v)) return false;
  }
  return true;
}

bool adds_by_value(AccumulatorKind kind) {
  return kind == AccumulatorKind::block || kind == AccumulatorKind::group || kind == AccumulatorKind::sequential ||
         kind == AccumulatorKind::sequential_double || kind == AccumulatorKind::fma;
}

std::optional<QuantSpec> as_e2m3(const QuantSpec& s) {
  if (!is_listed(s) || !s.has_scale()) return std::nullopt;
  if (!is_e2m3(format_of(s.element)) || (s.choice.is_on && !is_e2m3(format_of(s.choice.other)))) return std::nullopt;
  QuantSpec out = decoding_spec(s);
  out.element = Element::e2m3;
  out.choice = {};
  out.error = TrialError::mse;
  if (s.scale == Scale::e6m2)
    out.scale = Scale::fp32;  // which vector backends know; products of short scales are exact
  return out;
}

Quantized recoded(const Quantized& q, const QuantSpec& spec) {
  Quantized out;
  out.spec = spec;
  out.rows = q.rows, out.cols = q.cols, out.geometry = q.geometry;
  out.real_scales = q.real_scales, out.tensor_scale = q.tensor_scale, out.amax = q.amax;
  out.scales = q.scales;
  if (q.spec.scale == Scale::e6m2) {
    for (const uint8_t code : q.scales) out.real_scales.push_back(decode(format_of(Scale::e6m2), code));
    out.scales.clear();
  }
  out.clear_codes();
  uint8_t table[2][ElementGrid::most_codes] = {};
  const FloatFormat& e2m3 = format_of(Element::e2m3);
  const FloatFormat* formats[] = {&format_of(q.spec.element),
                                  &format_of(q.spec.choice.is_on ? q.spec.choice.other : q.spec.element)};
  for (const int which : {0, 1})
    for (uint32_t code = 0; code < 1u << formats[which]->code_bits(); ++code) {
      const float v = decode(*formats[which], code);
      if (!is_nan(v))
        table[which][code] = static_cast<uint8_t>(encode(e2m3, exact_magnitude(v), false, {}) |
                                                  (is_negative(v) ? e2m3.sign_code() : 0u));
    }
  const int64_t step = q.geometry.block_cols;
  for (int64_t r = 0; r < q.rows; ++r) {
    uint8_t* row = out.codes.data() + r * out.code_row_bytes();  // a byte each
    const uint8_t* from = q.codes.data() + r * q.code_row_bytes();
    for (int64_t first = 0; first < q.cols; first += step) {
      const bool is_other =
          q.spec.choice.is_on && (q.scales[static_cast<size_t>(q.scale_index(r, first))] & choice_flag) != 0;
      const uint8_t* codes = table[is_other ? 1 : 0];
      const int64_t end = std::min(q.cols, first + step);
      if (q.is_packed()) {
        for (int64_t k = first; k < end; ++k) row[k] = codes[from[k / 2] >> 4 * (k % 2) & 0xF];
      } else {
        for (int64_t k = first; k < end; ++k) row[k] = codes[q.code(r, k)];
      }
    }
  }
  if (q.spec.choice.is_on)
    for (uint8_t& code : out.scales) code = static_cast<uint8_t>(code & ~choice_flag);
  return out;
}

class ListedBackend final : public Backend {
 public:
  const char* name() const override { return "listed"; }
  bool available() const override { return true; }

  bool supports_quantize(const QuantizeCall& call) const override {
    const QuantSpec& s = call.spec;
    const FloatFormat& f = format_of(s.element);
    if (!is_listed(s) || call.replays() || call.soft_alpha > 0.0f || s.random_stream != RandomStream::philox)
      return false;
    if (f.is_grid() && f.grid->calls != nullptr) return false;
    if (s.choice.is_on && format_of(s.choice.other).is_grid() && format_of(s.choice.other).grid->calls != nullptr)
      return false;
    const bool one_factor = s.tensor_scale == TensorScale::none || s.tensor_scale == TensorScale::current ||
                            s.tensor_scale == TensorScale::hold;
    const bool orders = s.arithmetic == Arithmetic::exact && s.compute == Compute::fp32;
    const bool rules = s.scale_rule != ScaleRule::encode && !s.corrects_scales();
    return orders && (!s.has_scale() || (one_factor && rules && s.block.kind == BlockKind::vector &&
                                         s.nonfinite != Nonfinite::tensor_nan));
  }

  void quantize(const QuantizeCall& call, Quantized& out) const override {
    std::vector<float> storage;
    const MatrixView x = transformed(call, storage);
    const ListedSpec spec(call.spec);
    const Quantizer& q = spec.q;
    out.spec = call.spec;
    out.rows = x.rows, out.cols = x.cols;
    out.geometry = geometry_of(call.spec, x.rows, x.cols);
    out.clear_codes();
    const auto count = static_cast<size_t>(out.geometry.scale_rows * out.geometry.scale_cols);
    out.scales.assign(call.spec.has_scale() && !is_real(call.spec.scale) ? count : 0, 0);
    out.real_scales.assign(is_real(call.spec.scale) ? count : 0, 0.0f);
    TensorFactor t;
    out.amax = 0.0f;
    out.tensor_scale = {1.0f};
    if (q.tensor_scale != TensorScale::none) {
      const bool held = q.tensor_scale == TensorScale::hold && !(call.held_amax < 0.0f);
      out.amax = held ? call.held_amax : amax_of(x);
      t = tensor_factor(q, out.amax, decode(q.element, q.element.largest_code));
      out.tensor_scale[0] = stored_factor(q.decode_order, t, out.amax);
    }
    parallel_for(0, x.rows, band, call.threads, 1, [&](int64_t first) {
      Scratch scratch;
      const int64_t count = std::min(band, x.rows - first);
      const MatrixView rows = rows_side_by_side(x, first, count, scratch.rows);
      for (int64_t r = 0; r < count; ++r)
        quantize_row(call, spec, rows.data + r * rows.row_stride, t, first + r, scratch, out);
    });
    out.spec = decoding_spec(call.spec);
  }

  bool supports_dequantize(const Quantized& q) const override {
    return is_listed(q.spec) && q.spec.prescale == 1.0f && q.spec.decode == Decode::scale_then_tensor &&
           q.spec.scale_rule != ScaleRule::encode;
  }
  void dequantize(const Quantized& q, float* out, int threads) const override {
    const Quantizer resolved = resolve(q.spec);
    const std::vector<float> values[] = {decoded_values(resolved.element),
                                         decoded_values(resolved.has_choice() ? *resolved.other : resolved.element)};
    const int64_t step = q.geometry.block_cols;
    const bool one_factor = q.spec.tensor_scale_cols(q.cols) <= 1 || outer_scale_width % step == 0;
    parallel_for(0, q.rows, 1, threads, 16, [&](int64_t r) {
      const uint8_t* row = q.codes.data() + r * q.code_row_bytes();
      for (int64_t first = 0; first < q.cols; first += step) {
        const float s = scale_value(resolved, q.spec.has_scale() ? scale_code(q, q.scale_index(r, first)) : 0);
        const float* value = values[resolved.has_choice() && is_negative(s) ? 1 : 0].data();
        const float size = magnitude(s), factor = q.tensor_factor_at(r, first);
        const int64_t end = std::min(q.cols, first + step);
        float* to = out + r * q.cols;
        if (q.is_packed()) {
          for (int64_t k = first; k < end; ++k) to[k] = value[row[k / 2] >> 4 * (k % 2) & 0xF] * size;
        } else {
          for (int64_t k = first; k < end; ++k) to[k] = value[q.code(r, k)] * size;
        }
        if (one_factor) {
          for (int64_t k = first; k < end; ++k) to[k] = canonical(to[k] * factor);
        } else {
          for (int64_t k = first; k < end; ++k) to[k] = canonical(to[k] * q.tensor_factor_at(r, k));
        }
      }
    });
  }

  bool supports_gemm(const QuantSpec& a, const QuantSpec& b, const GemmOptions& options) const override {
    if (!is_listed(a) && !is_listed(b)) return false;
    if (reads_values(a, b, options)) return inner(floats, floats, options) != nullptr;
    return adds_by_value(options.accumulator.kind) && inner(plain(a), plain(b), options) != nullptr;
  }
  void gemm(const Quantized& a, const Quantized& b, const GemmOptions& options, float* c,
            int64_t c_stride) const override {
    const bool by_value = reads_values(a.spec, b.spec, options);
    const auto own = [&](const Quantized& q) -> std::optional<Quantized> {
      if (by_value) return as_floats(q, options.threads);
      return is_listed(q.spec) ? std::optional(recoded(q, *as_e2m3(q.spec))) : std::nullopt;
    };
    const std::optional<Quantized> own_a = own(a), own_b = own(b);
    const Quantized &plain_a = own_a ? *own_a : a, &plain_b = own_b ? *own_b : b;
    inner(plain_a.spec, plain_b.spec, options)->gemm(plain_a, plain_b, options, c, c_stride);
  }

  bool supports_hadamard(const HadamardSpec&) const override { return false; }
  void hadamard(const MatrixView&, const HadamardSpec&, RandomPlace, bool, float*, int) const override {}

 private:
  static constexpr QuantSpec floats = {.element = Element::fp32, .scale = Scale::none};

  // Sums that read nothing but decoded values, in ascending k.
  static bool reads_values(const QuantSpec& a, const QuantSpec& b, const GemmOptions& options) {
    return is_plain_fma(options.accumulator, a.has_scale(), b.has_scale());
  }
  static Quantized as_floats(const Quantized& q, int threads) {
    std::vector<float> values(static_cast<size_t>(q.rows * q.cols));
    fastest_dequantizer(q).dequantize(q, values.data(), threads);
    QuantizeCall call;
    call.spec = floats;
    call.x = view_of(values.data(), q.rows, q.cols);
    call.threads = threads;
    Quantized out;
    fastest_quantizer(call).quantize(call, out);
    return out;
  }
  static const Backend& fastest_dequantizer(const Quantized& q) {
    if (listed_backend().supports_dequantize(q)) return listed_backend();
    for (const Backend* b : vector_backends())
      if (b->supports_dequantize(q)) return *b;
    return reference_backend();
  }
  static const Backend& fastest_quantizer(const QuantizeCall& call) {
    for (const Backend* b : vector_backends())
      if (b->supports_quantize(call)) return *b;
    return reference_backend();
  }

  static std::optional<QuantSpec> plain(const QuantSpec& s) { return is_listed(s) ? as_e2m3(s) : std::optional(s); }

  // The vector backend that multiplies them, or null.
  static const Backend* inner(const std::optional<QuantSpec>& a, const std::optional<QuantSpec>& b,
                              const GemmOptions& options) {
    if (!a || !b) return nullptr;
    for (const Backend* backend : vector_backends())
      if (backend->supports_gemm(*a, *b, options)) return backend;
    return nullptr;
  }
  static const std::vector<const Backend*>& vector_backends() {
    static const std::vector<const Backend*> list = [] {
      std::vector<const Backend*> found;
      for (const Backend* b : all_backends()) {
        const std::string_view name = b->name();
        if ((name == "avx512" || name == "avx2" || name == "generic") && b->available()) found.push_back(b);
      }
      return found;
    }();
    return list;
  }

  static MatrixView transformed(const QuantizeCall& call, std::vector<float>& storage) {
    if (call.hadamard.size == 0) return call.x;
    const int64_t k = hadamard_padded(call.hadamard, call.x.cols);
    storage.resize(static_cast<size_t>(call.x.rows * k));
    const Backend* fast = &reference_backend();
    for (const Backend* b : vector_backends())
      if (b->supports_hadamard(call.hadamard)) {
        fast = b;
        break;
      }
    fast->hadamard(call.x, call.hadamard, call.place.hadamard_signs(), false, storage.data(), call.threads);
    return view_of(storage.data(), call.x.rows, k);
  }

  static float amax_of(const MatrixView& x) {
    if (x.col_stride == 1 && x.row_stride == x.cols) return finite_amax(x.data, x.rows * x.cols);
    return block_maximum({x.data, x.row_stride, x.col_stride, x.rows, x.cols, 0}).amax;
  }

  static uint32_t scale_code(const Quantized& q, int64_t index) {
    if (q.real_scales.empty()) return q.scales[static_cast<size_t>(index)];
    const float s = q.real_scales[static_cast<size_t>(index)];
    const FloatFormat& f = format_of(q.spec.scale);
    return is_nan(s) ? f.nan_code : encode(f, exact_magnitude(s), false, {});
  }

  static constexpr int64_t band = 16;  // rows that a thread takes at a time
  struct Scratch {
    std::vector<float> rows;
    std::vector<uint32_t> codes, draws;
  };

  // Rows first .. first + count of x with adjacent numbers: copied to `storage` where x is transposed.
  static MatrixView rows_side_by_side(const MatrixView& x, int64_t first, int64_t count, std::vector<float>& storage) {
    const float* from = x.data + first * x.row_stride;
    if (x.col_stride == 1) return {from, count, x.cols, x.row_stride, 1};
    storage.resize(static_cast<size_t>(count * x.cols));
    for (int64_t k = 0; k < x.cols; ++k)
      for (int64_t r = 0; r < count; ++r)
        storage[static_cast<size_t>(r * x.cols + k)] = from[r * x.row_stride + k * x.col_stride];
    return view_of(storage.data(), count, x.cols);
  }

  static void quantize_row(const QuantizeCall& call, const ListedSpec& spec, const float* x, TensorFactor t, int64_t r,
                           Scratch& scratch, Quantized& out) {
    const Quantizer& q = spec.q;
    const int64_t cols = out.cols, step = out.geometry.block_cols;
    const bool random_scale = q.has_scale && is_stochastic(q.scale_rounding), random = is_stochastic(q.rounding);
    std::vector<uint32_t>& codes = scratch.codes;
    codes.assign(static_cast<size_t>(cols), q.element.zero_code());
    for (int64_t first = 0; first < cols; first += step) {
      const int64_t n = std::min(step, cols - first);
      const float* data = x + first;
      const BlockView view = {data, cols, 1, 1, n, step};
      const int64_t index = q.has_scale ? r * out.geometry.scale_cols + first / step : 0;
      uint32_t code = 0;
      if (q.has_scale) {
        const auto place = static_cast<uint64_t>(call.row_offset * out.geometry.scale_cols + index);
        const uint32_t draw = random_scale ? random_draw(call.place.scale_rounding(), place, q.random_bits) : 0u;
        const BlockMaximum m = block_maximum(view);
        const int64_t chosen = spec.second && !m.has_nonfinite ? listed_choice(spec, data, n, m.amax, t, draw) : -1;
        code = chosen >= 0 ? static_cast<uint32_t>(chosen) : block_scale_code(q, view, m, t, draw);
        const auto at = static_cast<size_t>(index);
        if (is_real(call.spec.scale)) {
          out.real_scales[at] = decode(q.scale, code);
        } else {
          out.scales[at] = static_cast<uint8_t>(code);
        }
        if (q.scale.is_nan_code(code)) continue;
      }
      int micro[most_micro_width];
      if (q.element.has_micro()) listed_exponents(q, view, code, t, micro);
      if (random) {
        const auto start = static_cast<uint64_t>((call.row_offset + r) * cols + first);
        scratch.draws.resize(static_cast<size_t>(n));
        for (int64_t k = 0; k < n; ++k)
          scratch.draws[static_cast<size_t>(k)] =
              random_draw(call.place, start + static_cast<uint64_t>(k), q.random_bits);
      }
      const bool is_other = spec.second && (code & choice_flag) != 0;
      listed_codes(q, is_other ? *spec.second : spec.first, code, t, data, n, q.element.has_micro() ? micro : nullptr,
                   random ? scratch.draws.data() : nullptr, codes.data() + first);
    }
    store_row(codes, r, out);
  }

  static void store_row(const std::vector<uint32_t>& codes, int64_t r, Quantized& out) {
    const size_t pairs = out.is_packed() ? codes.size() / 2 : 0;
    uint8_t* row = out.codes.data() + r * out.code_row_bytes();
    for (size_t i = 0; i < pairs; ++i) row[i] = static_cast<uint8_t>(codes[2 * i] | codes[2 * i + 1] << 4);
    for (size_t k = 2 * pairs; k < codes.size(); ++k) out.set_code(r, static_cast<int64_t>(k), codes[k]);
  }
};

}  // namespace

const Backend& listed_backend() {
  static const ListedBackend backend;
  return backend;
}

}  // namespace fp4
