
#include <algorithm>
#include <charconv>

#include "src/arith/backend_reference.h"
#include "src/golden/compare_arrays.h"
#include "src/text/error.h"

namespace fp4::golden {
namespace {

// The floats within `ulp` of x.
std::vector<float> around(float x, int ulp) {
  std::vector<float> out = {x};
  for (int d = 1; d <= ulp; ++d)
    for (const int sign : {-1, 1})
      out.push_back(float_of(static_cast<uint32_t>(static_cast<int64_t>(bits_of(x)) + sign * d)));
  return out;
}

bool takes_reciprocals(Arithmetic order) { return order == Arithmetic::te || order == Arithmetic::vllm; }

// One operand of a case, as a dump has it.
class Operand {
 public:
  Operand(const Case& c, const CaseInputs& in, bool transposed, int ulp)
      : spec_(quant_spec_from_words(c.words)), quantizer_(resolve(spec_)), ulp_(ulp) {
    call_ = {.x = view_of(in.a.data(), c.rows, c.cols),
             .spec = spec_,
             .hadamard = c.hadamard,
             .place = c.place,
             .random_words = c.random_words};
    if (!is_stochastic(spec_.rounding)) call_.random_words = {};
    if (transposed) call_.x = call_.x.transposed();
    reference_backend().quantize(call_, q_);
    x_.resize(static_cast<size_t>(q_.rows * q_.cols));
    reference_backend().hadamard(call_.x, c.hadamard, c.place.hadamard_signs(), false, x_.data(), 1);
    const float stored = q_.tensor_scale[0];
    const float g = q_.tensor_multiplier_at(0, 0);
    factor_ = {g, spec_.decode == Decode::divide_global     ? stored
                  : spec_.has_tensor_scale() && q_.amax > 0 ? at_most_largest(quantizer_.top() / q_.amax)
                                                            : 1.0f};
  }

  // Scales that differ and may not; those of the dump count from here on.
  uint64_t take_scales(const Words& got) {
    uint64_t count = 0;
    for (size_t i = 0; i < q_.scales.size(); ++i) {
      if (got[i] == q_.scales[i]) continue;
      const auto at = static_cast<int64_t>(i);
      count += may_be_scale(at / q_.geometry.scale_cols, at % q_.geometry.scale_cols, got[i]) ? 0 : 1;
      q_.scales[i] = static_cast<uint8_t>(got[i]);
    }
    return count;
  }

  uint64_t take_codes(const Words& got) {
    const int64_t width = static_cast<int64_t>(got.size()) / q_.rows;
    uint64_t count = 0;
    Quantized dumped = q_;
    std::fill(dumped.codes.begin(), dumped.codes.end(), uint8_t{0});
    for (int64_t r = 0; r < q_.rows; ++r)
      for (int64_t k = 0; k < width; ++k) {
        const uint32_t code = got[static_cast<size_t>(r * width + k)];
        count += k < q_.cols ? !may_be_code(r, k, code) : code != 0;
        dumped.set_code(r, k, code);
      }
    q_ = dumped;
    return count;
  }

  uint64_t differ(const Words& got) const {
    std::vector<float> y(x_.size());
    reference_backend().dequantize(q_, y.data(), 1);
    uint64_t count = 0;
    for (size_t i = 0; i < y.size(); ++i) count += bits_of(canonical(y[i])) != got[i] ? 1 : 0;
    return count;
  }

 private:
  bool may_be_scale(int64_t block_row, int64_t block_col, uint32_t code) const {
    const BlockGeometry& g = q_.geometry;
    const int64_t row = block_row * g.block_rows, col = block_col * g.block_cols;
    const BlockView block = {x_.data() + row * q_.cols + col,
                             q_.cols,
                             1,
                             std::min(g.block_rows, q_.rows - row),
                             std::min(g.block_cols, q_.cols - col),
                             g.block_rows * g.block_cols};
    const BlockMaximum m = block_maximum(block);
    if (m.has_nonfinite || m.amax == 0.0f) return false;
    const float largest = quantizer_.divisor().rounded();
    for (const float sixth : around(1.0f / largest, ulp_)) {
      const float s = spec_.arithmetic == Arithmetic::te ? m.amax * (factor_.te_multiplier * sixth)
                                                         : factor_.te_multiplier * (m.amax * sixth);
      const RoundingDraw how = {quantizer_.scale_rounding, quantizer_.random_bits, 0};
      if (apply_scale_policies(quantizer_, encode(quantizer_.scale, magnitude_or_overflow(s), false, how)) == code)
        return true;
    }
    return false;
  }

  bool may_be_code(int64_t r, int64_t k, uint32_t code) const {
    const auto index = static_cast<size_t>(q_.scale_index(r, k));
    const uint32_t scale_code = q_.scales[index];
    if (quantizer_.scale.is_nan_code(scale_code)) return true;
    const float x = x_[static_cast<size_t>(r * q_.cols + k)];
    const uint32_t draw = is_stochastic(spec_.rounding)
                              ? call_.draw(static_cast<uint64_t>(r * q_.cols + k), q_.cols, spec_.random_bits)
                              : 0;
    const FloatFormat& element = quantizer_.element_under(scale_code);
    if (element.has_micro()) return false;
    const uint32_t exact = element_code(quantizer_, x, scale_code, factor_, draw);
    const float s = scale_value(quantizer_, scale_code);
    if (exact == code) return true;
    if (!is_finite(x) || x == 0.0f || s == 0.0f) return false;
    const uint32_t sign = exact & element.sign_code();
    for (const float g : around(factor_.g, ulp_))
      for (const float inverse : around(at_most_largest(1.0f / (s * g)), ulp_)) {
        const Magnitude u = magnitude_or_overflow(magnitude(x) * inverse * spec_.prescale);
        const RoundingDraw how = {quantizer_.rounding, quantizer_.random_bits, draw};
        if ((encode(element, u, is_negative(x), how) | sign) == code) return true;
      }
    return false;
  }

  QuantSpec spec_;
  Quantizer quantizer_;
  int ulp_;
  QuantizeCall call_;
  Quantized q_;
  std::vector<float> x_;
  TensorFactor factor_;
};

}  // namespace

Tolerance tolerance_from_words(const std::string& place, const std::string& words) {
  const std::string key = "reciprocal_ulp=";
  if (!words.starts_with(key)) throw Error(place + ": unknown tolerance '" + words + "'; accepted: reciprocal_ulp=N");
  Tolerance t;
  const char *begin = words.data() + key.size(), *end = words.data() + words.size();
  const auto read = std::from_chars(begin, end, t.reciprocal_ulp);
  if (read.ec != std::errc() || read.ptr != end || t.reciprocal_ulp < 1 || t.reciprocal_ulp > 8)
    throw Error(place + ": reciprocal_ulp is a whole number from 1 to 8, not '" + words.substr(key.size()) + "'");
  return t;
}

uint64_t beyond(const Tolerance& tolerance, const Case& c, const CaseInputs& in, const std::vector<ArrayPair>& evidence,
                const std::vector<Comparison>& comparisons) {
  const QuantSpec spec = quant_spec_from_words(c.words);
  const bool applies = !c.is_gemm && takes_reciprocals(spec.arithmetic) && spec.has_scale() && !is_real(spec.scale) &&
                       spec.scale_rule == ScaleRule::amax && spec.tensor_scale_cols(c.cols) == 0;
  uint64_t count = 0;
  for (const bool transposed : {false, true}) {
    std::optional<Operand> operand;
    for (const char* stage : stage_names)
      for (size_t i = 0; i < evidence.size(); ++i) {
        const ArrayPair& e = evidence[i];
        const ArrayName name = parse_array_name(e.array);
        if (name.stage != stage || name.is_transposed != transposed) continue;
        const bool is_matrix = comparisons[i].shape_note.empty() && e.is_matrix();
        if (!applies || !is_matrix || name.stage == "tensor_scale" || name.stage == "output") {
          count += comparisons[i].mismatches;
          continue;
        }
        if (!operand) operand.emplace(c, in, transposed, tolerance.reciprocal_ulp);
        count += name.stage == "scales"  ? operand->take_scales(e.got)
                 : name.stage == "codes" ? operand->take_codes(e.got)
                                         : operand->differ(e.got);
      }
  }
  return count;
}

}  // namespace fp4::golden
