#include "src/listed/backend_listed.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <optional>
#include <vector>

#include "fp4/codec.h"
#include "src/arith/amax.h"
#include "src/arith/backend_reference.h"
#include "src/arith/known_words.h"
#include "src/cpu/vector_backends.h"
#include "src/listed/listed_codes.h"
#include "src/listed/listed_lookup.h"
#include "src/listed/listed_products.h"
#include "src/listed/listed_rows.h"
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

// Whether sums under block scales ask for values alone, not for the exponents of elements.
bool adds_by_value(AccumulatorKind kind) {
  return kind != AccumulatorKind::aligned && kind != AccumulatorKind::windowed && kind != AccumulatorKind::integer;
}

// Integers of at most 127 steps whose sums int32 holds add up to a block's dot: nothing is wrapped or clamped.
constexpr int64_t longest_integers = int64_t{1} << 17;
GemmOptions in_blocks(GemmOptions options) {
  const Accumulator& row = options.accumulator;
  if (row.kind == AccumulatorKind::integer)
    options.accumulator = {.kind = AccumulatorKind::block, .rounding = row.rounding, .snap_log2 = row.snap_log2};
  return options;
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
  uint8_t pairs[2][256][2];  // of a byte of two codes
  for (const int which : {0, 1})
    for (size_t byte = 0; q.is_packed() && byte < 256; ++byte)
      pairs[which][byte][0] = table[which][byte & 15], pairs[which][byte][1] = table[which][byte >> 4];
  const int64_t step = q.spec.choice.is_on ? q.geometry.block_cols : q.cols;
  for (int64_t r = 0; r < q.rows; ++r) {
    uint8_t* row = out.codes.data() + r * out.code_row_bytes();  // a byte each
    const uint8_t* from = q.codes.data() + r * q.code_row_bytes();
    const uint8_t* scale = q.spec.choice.is_on ? q.scales.data() + q.scale_index(r, 0) : nullptr;
    for (int64_t first = 0; first < q.cols; first += step) {
      const bool which = scale != nullptr && (*scale++ & choice_flag) != 0;
      const int64_t end = std::min(q.cols, first + step);
      int64_t k = first;
      for (; q.is_packed() && k % 2 == 0 && k + 1 < end; k += 2) std::memcpy(row + k, pairs[which][from[k / 2]], 2);
      for (; k < end; ++k) row[k] = table[which][q.code(r, k)];
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
    const bool orders =
        s.arithmetic == Arithmetic::exact && s.compute == Compute::fp32 && s.rounding != Rounding::nearest_below;
    const bool rules = s.scale_rule != ScaleRule::encode && !s.corrects_scales();
    const bool is_in_rows =
        s.block.kind == BlockKind::vector || (s.block.kind == BlockKind::row && !format_of(s.element).has_micro());
    return orders && (!s.has_scale() || (one_factor && rules && is_in_rows && s.nonfinite != Nonfinite::tensor_nan));
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
      t = tensor_factor(q, out.amax);
      out.tensor_scale[0] = stored_factor(q.decode, t, out.amax);
    }
    const ListedRows rows(call, spec, t);
    parallel_for(0, x.rows, band, call.threads, 1, [&](int64_t first) {
      ListedRows::Scratch scratch;
      std::unique_ptr<float[]> storage_of_band;
      const int64_t count = std::min(band, x.rows - first);
      const MatrixView side_by_side = rows_side_by_side(x, first, count, storage_of_band);
      for (int64_t r = 0; r < count; ++r)
        rows.quantize(side_by_side.data + r * side_by_side.row_stride, first + r, scratch, out);
    });
    out.spec = decoding_spec(call.spec);
  }

  bool supports_dequantize(const Quantized& q) const override {
    return is_listed(q.spec) && q.spec.prescale == 1.0f && q.spec.decode == Decode::scale_then_tensor &&
           q.spec.scale_rule != ScaleRule::encode;
  }
  void dequantize(const Quantized& q, float* out, int threads) const override {
    const Quantizer resolved = resolve(q.spec);
    const std::vector<float> values[] = {wide_values(resolved.element),
                                         wide_values(resolved.has_choice() ? *resolved.other : resolved.element)};
    const int64_t step = q.geometry.block_cols;
    const bool one_factor = q.spec.tensor_scale_cols(q.cols) <= 1 || outer_scale_width % step == 0;
    const bool is_short = q.code_bits() <= 8 && one_factor;
    std::vector<float> scale_values;  // by code, where there are more scales than codes
    for (uint32_t code = 0; code < 256 && q.scales.size() > 512; ++code)
      scale_values.push_back(scale_value(resolved, code));
    parallel_for(0, q.rows, 1, threads, 16, [&](int64_t r) {
      const uint8_t* row = q.codes.data() + r * q.code_row_bytes();
      for (int64_t first = 0; first < q.cols; first += step) {
        const float s = q.spec.has_scale() ? stored_scale(resolved, scale_values, q, q.scale_index(r, first)) : 1.0f;
        const float* value = values[resolved.has_choice() && is_negative(s) ? 1 : 0].data();
        const float size = magnitude(s);
        const int64_t end = std::min(q.cols, first + step);
        float* to = out + r * q.cols;
        if (is_short) {
          decode_codes(value, q.is_packed(), row, first, end - first, size, q.tensor_factor_at(r, first), to + first);
        } else {
          for (int64_t k = first; k < end; ++k)
            to[k] = canonical(value[q.code(r, k)] * size * q.tensor_factor_at(r, k));
        }
      }
    });
  }

  bool supports_gemm(const QuantSpec& a, const QuantSpec& b, const GemmOptions& asked) const override {
    if (!is_listed(a) && !is_listed(b)) return false;
    if (asked.accumulator.kind == AccumulatorKind::integer && (a.choice.is_on || b.choice.is_on)) return false;
    const GemmOptions options = in_blocks(asked);
    if (reads_values(a, b, options)) return inner(floats, floats, options) != nullptr;
    return multiplies_listed(a, b, options) ||
           (adds_by_value(options.accumulator.kind) && inner(plain(a), plain(b), options) != nullptr);
  }
  void gemm(const Quantized& a, const Quantized& b, const GemmOptions& asked, float* c,
            int64_t c_stride) const override {
    if (asked.accumulator.kind == AccumulatorKind::integer && a.cols > longest_integers)
      return reference_backend().gemm(a, b, asked, c, c_stride);
    const GemmOptions options = in_blocks(asked);
    const bool by_value = reads_values(a.spec, b.spec, options);
    if (!by_value && inner(plain(a.spec), plain(b.spec), options) == nullptr) {
      if (!multiply_listed(a, b, options, c, c_stride)) reference_backend().gemm(a, b, options, c, c_stride);
      return;
    }
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
    Quantized out;
    out.spec = floats;
    out.rows = q.rows, out.cols = q.cols;
    out.geometry = geometry_of(floats, q.rows, q.cols);
    out.tensor_scale = {1.0f};
    out.codes.resize(static_cast<size_t>(q.rows * out.code_row_bytes()));
    fastest_dequantizer(q).dequantize(q, reinterpret_cast<float*>(out.codes.data()), threads);  // codes are the bits
    return out;
  }
  static const Backend& fastest_dequantizer(const Quantized& q) {
    if (listed_backend().supports_dequantize(q)) return listed_backend();
    for (const Backend* b : vectors())
      if (b->supports_dequantize(q)) return *b;
    return reference_backend();
  }

  static std::optional<QuantSpec> plain(const QuantSpec& s) { return is_listed(s) ? as_e2m3(s) : std::optional(s); }

  // The vector backend that multiplies them, or null.
  static const Backend* inner(const std::optional<QuantSpec>& a, const std::optional<QuantSpec>& b,
                              const GemmOptions& options) {
    if (!a || !b) return nullptr;
    for (const Backend* backend : vectors())
      if (backend->supports_gemm(*a, *b, options)) return backend;
    return nullptr;
  }
  // Those of this machine.
  static const std::vector<const Backend*>& vectors() {
    static const std::vector<const Backend*> list = [] {
      std::vector<const Backend*> found = vector_backends();
      std::erase_if(found, [](const Backend* b) { return !b->available(); });
      return found;
    }();
    return list;
  }

  static MatrixView transformed(const QuantizeCall& call, std::vector<float>& storage) {
    if (call.hadamard.size == 0) return call.x;
    const int64_t k = hadamard_padded(call.hadamard, call.x.cols);
    storage.resize(static_cast<size_t>(call.x.rows * k));
    const Backend* fast = &reference_backend();
    for (const Backend* b : vectors())
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

  static float stored_scale(const Quantizer& resolved, const std::vector<float>& by_code, const Quantized& q,
                            int64_t index) {
    const auto at = static_cast<size_t>(index);
    if (!q.real_scales.empty()) return canonical(q.real_scales[at]);
    return by_code.empty() ? scale_value(resolved, q.scales[at]) : by_code[q.scales[at]];
  }

  // By code, as many as decode_codes reads.
  static std::vector<float> wide_values(const FloatFormat& f) {
    std::vector<float> out = decoded_values(f);
    out.resize(std::max<size_t>(out.size(), f.code_bits() <= 4 ? 16 : 256));
    return out;
  }

  static constexpr int64_t band = 16;  // rows that a thread takes at a time
  // Rows first .. first + count of x with adjacent numbers: copied to `storage` where x is transposed.
  static MatrixView rows_side_by_side(const MatrixView& x, int64_t first, int64_t count,
                                      std::unique_ptr<float[]>& storage) {
    const float* from = x.data + first * x.row_stride;
    if (x.col_stride == 1) return {from, count, x.cols, x.row_stride, 1};
    storage = std::make_unique_for_overwrite<float[]>(static_cast<size_t>(count * x.cols));
    for (int64_t begin = 0; begin < x.cols; begin += band)  // a line of x's memory is read once
      for (int64_t r = 0; r < count; ++r)
        for (int64_t k = begin; k < std::min(begin + band, x.cols); ++k)
          storage[static_cast<size_t>(r * x.cols + k)] = from[r * x.row_stride + k * x.col_stride];
    return view_of(storage.get(), count, x.cols);
  }
};

}  // namespace

const Backend& listed_backend() {
  static const ListedBackend backend;
  return backend;
}

}  // namespace fp4
