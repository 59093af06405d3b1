#include "src/backends/backend_listed.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>
#include <vector>

#include "fp4/codec.h"
#include "fp4/micro.h"
#include "src/arith/amax.h"
#include "src/arith/known_words.h"
#include "src/backends/backends.h"
#include "src/threads/parallel.h"

namespace fp4 {
namespace {

constexpr double doubt = 0x1p-50;  // relative; a quotient of two exact numbers errs by 2^-53

// The values of an element on one side of zero, ascending, with what is written for them.
struct ListedSide {
  int count = 0;
  double value[ElementGrid::most_values] = {}, middle[ElementGrid::most_values] = {};  // middle[i] of i and i + 1
  uint32_t code[ElementGrid::most_values] = {};
};

struct ListedElement {
  FloatFormat format;
  ListedSide side[2];  // of positive and negative numbers

  explicit ListedElement(const FloatFormat& f) : format(f) {
    for (const int negative : {0, 1}) {
      ListedSide& s = side[negative];
      if (f.is_grid()) {
        const int from = f.grid->is_signed ? 0 : negative;
        s.count = f.grid->count[from];
        for (int i = 0; i < s.count; ++i) s.code[i] = f.grid->by_magnitude[from][i];
      } else {
        s.count = static_cast<int>(f.largest_code) + 1;
        for (int i = 0; i < s.count; ++i) s.code[i] = static_cast<uint32_t>(i);
      }
      for (int i = 0; i < s.count; ++i) s.value[i] = std::fabs(static_cast<double>(decode(f, s.code[i])));
      for (int i = 0; i + 1 < s.count; ++i) s.middle[i] = (s.value[i] + s.value[i + 1]) / 2;  // 25 bits
    }
  }
};

bool is_nearest(Rounding r) {
  return r == Rounding::nearest_even || r == Rounding::nearest_away || r == Rounding::nearest_toward_zero ||
         r == Rounding::nearest_toward_positive;
}

// Codes of one block under one element and scale.
class BlockCoder {
 public:
  BlockCoder(const Quantizer& q, const ListedElement& element, uint32_t scale_code, TensorFactor t)
      : q_(q), element_(element), scale_code_(scale_code), t_(t) {
    const double s = q.has_scale ? static_cast<double>(decode(q.scale, scale_code)) : 1.0;
    divisor_ =
        s * static_cast<double>(q.has_scale ? t.g : 1.0f) / static_cast<double>(q.prescale == 0.75f ? 0.75f : 1.0f);
    // 1/p is no fp64 number, but the rounding of this quotient and of the payload stay far below `doubt`.
  }

  // x[i] at stride; e: exponents of micro-exponents, or null; draw(i): the random bits of element i.
  template <class Draw>
  void codes(const float* x, int64_t stride, int64_t n, const int* e, const Draw& draw, uint32_t* out) const {
    // Every element meets every threshold, which pays up to some 32 of them; a search reads few.
    const bool is_short = element_.side[0].count + element_.side[1].count <= 40;
    if (is_short && is_nearest(q_.rounding) && divisor_ > 0) return nearest_codes(x, stride, n, e, out);
    for (int64_t i = 0; i < n; ++i) out[i] = one_code(x[i * stride], e == nullptr ? 0 : e[i], draw(i));
  }

 private:
  static constexpr int64_t width = 128;

  uint32_t core_code(float x, int e, uint32_t draw) const {
    return q_.element.has_micro() ? micro_code(q_, x, scale_code_, e, t_, draw)
                                  : element_code(q_, x, scale_code_, t_, draw);
  }
  uint32_t above(int e) const {
    return q_.element.has_micro() ? static_cast<uint32_t>(e) << q_.element.grid->base_bits : 0u;
  }
  uint32_t with_sign(uint32_t code, float x) const {
    const FloatFormat& f = element_.format;
    if (magnitude_bits(x) == 0 && q_.negative_zero != NegativeZero::keep && q_.negative_zero != NegativeZero::drop)
      return q_.negative_zero == NegativeZero::zeros ? f.sign_code() | code : code;
    const bool drops = code == f.zero_code() && q_.negative_zero == NegativeZero::drop;
    return is_negative(x) && !drops ? f.sign_code() | code : code;
  }

  void nearest_codes(const float* x, int64_t stride, int64_t n, const int* e, uint32_t* out) const {
    for (int64_t first = 0; first < n; first += width) {
      const int64_t m = std::min(width, n - first);
      double u[width];
      int32_t rank[2][width] = {};
      bool unsure[width];
      for (int64_t i = 0; i < m; ++i) {
        const float v = x[(first + i) * stride];
        u[i] = static_cast<double>(v) / divisor_;
        if (e != nullptr) u[i] *= static_cast<double>(power_of_two(-e[first + i]));
        unsure[i] = !is_finite(v);
      }
      for (const int negative : {0, 1}) {
        const ListedSide& s = element_.side[negative];
        const double sign = negative != 0 ? -1.0 : 1.0;
        for (int j = 0; j + 1 < s.count; ++j) {
          const double middle = s.middle[j], near = middle * doubt;
          for (int64_t i = 0; i < m; ++i) {
            const double beyond = u[i] * sign - middle;
            rank[negative][i] += beyond > 0 ? 1 : 0;
            unsure[i] = unsure[i] | (std::fabs(beyond) <= near);
          }
        }
      }
      for (int64_t i = 0; i < m; ++i) {
        const float v = x[(first + i) * stride];
        const int negative = is_negative(v) ? 1 : 0, at = e == nullptr ? 0 : e[first + i];
        out[first + i] =
            unsure[i] ? core_code(v, at, 0) : with_sign(element_.side[negative].code[rank[negative][i]], v) | above(at);
      }
    }
  }

  uint32_t one_code(float x, int e, uint32_t draw) const {
    if (!is_finite(x) || !(divisor_ > 0)) return core_code(x, e, draw);
    const ListedSide& s = element_.side[is_negative(x) ? 1 : 0];
    const double u = std::fabs(static_cast<double>(x)) / divisor_ * static_cast<double>(power_of_two(-e));
    if (magnitude_bits(x) == 0) return with_sign(s.code[0], x) | above(e);
    const int i = static_cast<int>(std::upper_bound(s.value, s.value + s.count, u) - s.value) - 1;
    const bool near_low = std::fabs(u - s.value[i]) <= s.value[i] * doubt;
    if (i + 1 == s.count) return near_low ? core_code(x, e, draw) : with_sign(s.code[i], x) | above(e);
    const double gap = s.value[i + 1] - s.value[i], d = (u - s.value[i]) / gap;
    if (near_low || s.value[i + 1] - u <= s.value[i + 1] * doubt || d == 0) return core_code(x, e, draw);
    // d errs by less than this; a decision reads d at one threshold.
    const double error = 4 * doubt * (u / gap + 1);
    double threshold = 0.5;
    if (is_stochastic(q_.rounding)) {
      const double steps = std::ldexp(1.0, q_.random_bits), needed = steps - static_cast<double>(draw);
      threshold = (q_.rounding == Rounding::stochastic_truncated ? needed : needed - 0.5) / steps;
    }
    bool up = d > threshold;
    switch (q_.rounding) {
      case Rounding::toward_zero: up = false; break;
      case Rounding::away_from_zero: up = true; break;
      case Rounding::toward_positive: up = !is_negative(x); break;
      case Rounding::toward_negative: up = is_negative(x); break;
      case Rounding::odd: up = (s.code[i] & 1) == 0; break;
      case Rounding::nearest_even:
      case Rounding::nearest_away:
      case Rounding::nearest_toward_zero:
      case Rounding::nearest_toward_positive:
      case Rounding::stochastic:
      case Rounding::stochastic_midpoint:
      case Rounding::stochastic_truncated:
      case Rounding::stochastic_odd:
        if (std::fabs(d - threshold) <= error) return core_code(x, e, draw);
        break;
    }
    return with_sign(s.code[up ? i + 1 : i], x) | above(e);
  }

  const Quantizer& q_;
  const ListedElement& element_;
  uint32_t scale_code_;
  TensorFactor t_;
  double divisor_;
};

// A spec's elements as lists: `element`, or its base under micro-exponents, and the second of a choice.
struct ListedSpec {
  Quantizer q;
  ListedElement first;
  std::optional<ListedElement> second;

  explicit ListedSpec(const QuantSpec& s)
      : q(resolve(s)),
        first(q.element.has_micro() ? format_of(static_cast<Element>(q.element.grid->base)) : q.element) {
    if (q.has_choice()) second.emplace(*q.other);
  }
};

// fl32(fl32(q s) g) without a prescale.
float decoded(const Quantizer& q, uint32_t code, float s, float g) {
  const FloatFormat& f = q.element_under(s);
  return decode(f, code) * magnitude(s) * g;
}

// As trial_error of the core for the codes of nearest even.
double error_of(const Quantizer& q, const std::vector<float>& x, const uint32_t* codes, uint32_t scale_code, float g) {
  const float s = scale_value(q, scale_code);
  double sum = 0.0;
  for (size_t k = 0; k < x.size(); ++k) {
    const double error = static_cast<double>(x[k]) - static_cast<double>(decoded(q, codes[k], s, g));
    if (q.error == TrialError::max) {
      sum = larger(sum, std::fabs(error));
    } else {
      sum = sum + (q.error == TrialError::mse ? error * error : std::fabs(error));
    }
  }
  return sum;
}

// A choice of the core (chosen_code) by the codes of both grids; -1 where elements are not finite, or nothing is to be
// chosen.
int64_t choose(const ListedSpec& spec, const std::vector<float>& x, float amax, TensorFactor t, uint32_t draw) {
  const Quantizer& q = spec.q;
  if (amax == 0.0f || q.decode_order != Decode::scale_then_tensor || q.prescale != 1.0f || tries_codes(q.scale_rule))
    return -1;
  const auto n = static_cast<int64_t>(x.size());
  const BlockView block = {x.data(), 0, 1, 1, n, n};
  Quantizer nearest = q, other = q;
  nearest.rounding = other.rounding = Rounding::nearest_even;
  other.element = *q.other;
  const uint32_t a = apply_scale_policies(q, rule_code(q, block, amax, t, draw));
  const uint32_t b = apply_scale_policies(q, rule_code(other, block, amax, t, draw)) | choice_flag;
  std::vector<uint32_t> codes(x.size());
  const auto none = [](int64_t) { return 0u; };
  double errors[2];
  for (const int i : {0, 1}) {
    const uint32_t scale = i == 0 ? a : b;
    BlockCoder(nearest, i == 0 ? spec.first : *spec.second, scale, t)
        .codes(x.data(), 1, n, nullptr, none, codes.data());
    errors[i] = error_of(nearest, x, codes.data(), scale, t.g);
  }
  return errors[1] < errors[0] ? b : a;
}

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
  uint32_t table[2][ElementGrid::most_codes] = {};
  const FloatFormat& e2m3 = format_of(Element::e2m3);
  const FloatFormat* formats[] = {&format_of(q.spec.element),
                                  &format_of(q.spec.choice.is_on ? q.spec.choice.other : q.spec.element)};
  for (const int which : {0, 1})
    for (uint32_t code = 0; code < 1u << formats[which]->code_bits(); ++code) {
      const float v = decode(*formats[which], code);
      if (!is_nan(v))
        table[which][code] = encode(e2m3, exact_magnitude(v), false, {}) | (is_negative(v) ? e2m3.sign_code() : 0u);
    }
  for (int64_t r = 0; r < q.rows; ++r)
    for (int64_t k = 0; k < q.cols; ++k) {
      const bool is_other =
          q.spec.choice.is_on && (q.scales[static_cast<size_t>(q.scale_index(r, k))] & choice_flag) != 0;
      out.set_code(r, k, table[is_other ? 1 : 0][q.code(r, k)]);
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
    parallel_for(0, x.rows, 1, call.threads, 4, [&](int64_t r) { quantize_row(call, spec, x, t, r, out); });
    out.spec = decoding_spec(call.spec);
  }

  bool supports_dequantize(const Quantized& q) const override {
    return is_listed(q.spec) && q.spec.prescale == 1.0f && q.spec.decode == Decode::scale_then_tensor &&
           q.spec.scale_rule != ScaleRule::encode;
  }
  void dequantize(const Quantized& q, float* out, int threads) const override {
    const Quantizer resolved = resolve(q.spec);
    const int64_t step = q.geometry.block_cols;
    parallel_for(0, q.rows, 1, threads, 16, [&](int64_t r) {
      for (int64_t first = 0; first < q.cols; first += step) {
        const float s = scale_value(resolved, q.spec.has_scale() ? scale_code(q, q.scale_index(r, first)) : 0);
        const FloatFormat& f = resolved.element_under(s);
        const float size = magnitude(s);
        for (int64_t k = first; k < std::min(q.cols, first + step); ++k)
          out[r * q.cols + k] = canonical(decode(f, q.code(r, k)) * size * q.tensor_factor_at(r, k));
      }
    });
  }

  bool supports_gemm(const QuantSpec& a, const QuantSpec& b, const GemmOptions& options) const override {
    if (!is_listed(a) && !is_listed(b)) return false;
    return adds_by_value(options.accumulator.kind) && inner(plain(a), plain(b), options) != nullptr;
  }
  void gemm(const Quantized& a, const Quantized& b, const GemmOptions& options, float* c,
            int64_t c_stride) const override {
    std::optional<Quantized> own_a, own_b;
    if (is_listed(a.spec)) own_a = recoded(a, *as_e2m3(a.spec));
    if (is_listed(b.spec)) own_b = recoded(b, *as_e2m3(b.spec));
    const Quantized &plain_a = own_a ? *own_a : a, &plain_b = own_b ? *own_b : b;
    inner(plain_a.spec, plain_b.spec, options)->gemm(plain_a, plain_b, options, c, c_stride);
  }

  bool supports_hadamard(const HadamardSpec&) const override { return false; }
  void hadamard(const MatrixView&, const HadamardSpec&, RandomPlace, bool, float*, int) const override {}

 private:
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

  static void quantize_row(const QuantizeCall& call, const ListedSpec& spec, const MatrixView& x, TensorFactor t,
                           int64_t r, Quantized& out) {
    const Quantizer& q = spec.q;
    const int64_t step = out.geometry.block_cols;
    const bool random_scale = q.has_scale && is_stochastic(q.scale_rounding), random = is_stochastic(q.rounding);
    std::vector<uint32_t> codes(static_cast<size_t>(std::min(step, std::max<int64_t>(x.cols, 1))));
    std::vector<float> block;
    for (int64_t first = 0; first < x.cols; first += step) {
      const int64_t n = std::min(step, x.cols - first);
      const float* data = x.data + r * x.row_stride + first * x.col_stride;
      const BlockView view = {data, x.row_stride, x.col_stride, 1, n, out.geometry.block_cols};
      const int64_t index = q.has_scale ? r * out.geometry.scale_cols + first / step : 0;
      uint32_t code = 0;
      if (q.has_scale) {
        const auto place = static_cast<uint64_t>(call.row_offset * out.geometry.scale_cols + index);
        const uint32_t draw = random_scale ? random_draw(call.place.scale_rounding(), place, q.random_bits) : 0u;
        const BlockMaximum m = block_maximum(view);
        int64_t chosen = -1;
        if (spec.second && !m.has_nonfinite) {
          block.resize(static_cast<size_t>(n));
          for (int64_t k = 0; k < n; ++k) block[static_cast<size_t>(k)] = view.at(0, k);
          chosen = choose(spec, block, m.amax, t, draw);
        }
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
      if (q.element.has_micro()) micro_exponents(q, view, code, t, micro);
      const auto start = static_cast<uint64_t>((call.row_offset + r) * x.cols + first);
      const auto draw = [&](int64_t k) {
        return random ? random_draw(call.place, start + static_cast<uint64_t>(k), q.random_bits) : 0u;
      };
      const bool is_other = spec.second && (code & choice_flag) != 0;
      BlockCoder(q, is_other ? *spec.second : spec.first, code, t)
          .codes(data, x.col_stride, n, q.element.has_micro() ? micro : nullptr, draw, codes.data());
      for (int64_t k = 0; k < n; ++k) out.set_code(r, first + k, codes[static_cast<size_t>(k)]);
    }
  }
};

}  // namespace

const Backend& listed_backend() {
  static const ListedBackend backend;
  return backend;
}

}  // namespace fp4
