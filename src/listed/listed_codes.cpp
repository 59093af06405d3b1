#include "src/listed/listed_codes.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "fp4/codec.h"

namespace fp4 {
namespace {

constexpr int most_block = 128;
constexpr double doubt = 0x1p-50;  // relative; a quotient or product of two numbers of 49 bits errs by 2^-52

// Codes of one block under one element and scale.
class BlockCoder {
 public:
  BlockCoder(const Quantizer& q, const ListedElement& element, uint32_t scale_code, TensorFactor t)
      : q_(q), element_(element), scale_code_(scale_code), t_(t), divisor_(listed_divisor(q, scale_code, t)) {}

  void codes(const float* x, int64_t n, const int* e, const uint32_t* draws, uint32_t* out) const {
    if ((is_listed_nearest(q_.rounding) || is_stochastic(q_.rounding)) && divisor_ > 0x1p-100 && divisor_ < 0x1p100)
      return ranked_codes(x, n, e, draws, out);
    for (int64_t i = 0; i < n; ++i) out[i] = one_code(x[i], e == nullptr ? 0 : e[i], draws == nullptr ? 0 : draws[i]);
  }

 private:
  static constexpr int width = 16;

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

  void ranked_codes(const float* x, int64_t n, const int* e, const uint32_t* draws, uint32_t* out) const {
    const auto inverse = static_cast<float>(1.0 / divisor_);
    float u[width] = {}, threshold[width];
    std::fill_n(threshold, width, 0.5f);
    for (int64_t first = 0; first < n; first += width) {
      const auto m = static_cast<int>(std::min<int64_t>(width, n - first));
      std::copy_n(x + first, m, u);
      bool is_any_lost = false;
      for (int i = 0; e != nullptr && i < m; ++i) {
        u[i] *= float_of(static_cast<uint32_t>(127 - e[first + i]) << 23);  // 2^-e
        is_any_lost |= is_lost(x[first + i], e[first + i]);
      }
      for (int i = 0; draws != nullptr && i < m; ++i) threshold[i] = static_cast<float>(threshold_of(draws[first + i]));
      int32_t rank[width], unsure[width];
      const bool is_sure = !ranks_between(element_.steps, inverse, u, threshold, rank, unsure);
      if (is_sure && q_.negative_zero == NegativeZero::keep && !is_any_lost) {
        const uint32_t* const codes[] = {element_.side[0].code, element_.side[1].code};
        const uint32_t sign[] = {0, element_.format.sign_code()};
        for (int i = 0; i < m; ++i) {
          const uint32_t side = bits_of(x[first + i]) >> 31;
          out[first + i] = codes[side][rank[i]] | sign[side];
        }
        const int base_bits = e == nullptr ? 0 : q_.element.grid->base_bits;
        for (int i = 0; e != nullptr && i < m; ++i) out[first + i] |= static_cast<uint32_t>(e[first + i]) << base_bits;
        continue;
      }
      for (int i = 0; i < m; ++i)
        out[first + i] = code_of_rank(x[first + i], e == nullptr ? 0 : e[first + i], rank[i], unsure[i] != 0,
                                      draws == nullptr ? 0 : draws[first + i]);
    }
  }

  // The share of a gap beyond which a number goes up.
  double threshold_of(uint32_t draw) const {
    if (!is_stochastic(q_.rounding)) return 0.5;
    const auto steps = static_cast<double>(uint64_t{1} << q_.random_bits);
    const double needed = steps - static_cast<double>(draw);
    return (q_.rounding == Rounding::stochastic_truncated ? needed : needed - 0.5) / steps;
  }

  // Numbers that 2^-e brings below fp32.
  static bool is_lost(float x, int e) {
    return (e != 0) & (magnitude_bits(x) - 1 < bits_of(0x1p-100f) - 1);  // not of 0
  }

  uint32_t code_of_rank(float x, int e, int32_t rank, bool is_unsure, uint32_t draw) const {
    if (is_unsure || is_lost(x, e) || !is_finite(x)) return core_code(x, e, draw);
    return with_sign(element_.side[is_negative(x) ? 1 : 0].code[rank], x) | above(e);
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
    const double threshold = threshold_of(draw);
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
      case Rounding::nearest_below:
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

// As trial_error of the core for the codes of nearest even, without a prescale.
double error_of(const Quantizer& q, const ListedElement& element, const float* x, int64_t n, const uint32_t* codes,
                uint32_t scale_code, float g) {
  const float s = magnitude(scale_value(q, scale_code));
  double sum = 0.0;
  for (int64_t k = 0; k < n; ++k) {
    const float decoded = element.decoded[codes[k]] * s * g;
    const double error = static_cast<double>(x[k]) - static_cast<double>(decoded);
    if (q.error == TrialError::max) {
      sum = larger(sum, std::fabs(error));
    } else {
      sum = sum + (q.error == TrialError::mse ? error * error : std::fabs(error));
    }
  }
  return sum;
}

void fill_steps(const ListedSide (&side)[2], ListedSteps& out) {
  const double step = side[0].value[1];
  bool is_even = side[0].count > 1;
  out.count = std::max(side[0].count, side[1].count);
  for (const int i : {0, 1}) {
    const ListedSide& s = side[i];
    out.last[i] = static_cast<float>(s.count - 1);
    for (int j = 0; j <= out.count; ++j) {
      is_even = is_even && (j >= s.count || std::fabs(s.value[j] - j * step) <= s.value[j] * 0x1p-22);
      out.value[i].push_back(j < s.count ? static_cast<float>(s.value[j]) : std::numeric_limits<float>::infinity());
      out.per_gap[i].push_back(j + 1 < s.count ? static_cast<float>(1.0 / (s.value[j + 1] - s.value[j])) : 0.0f);
    }
  }
  if (is_even) out.per_step = static_cast<float>(1.0 / step);
}

}  // namespace

bool is_listed_nearest(Rounding r) {
  return r == Rounding::nearest_even || r == Rounding::nearest_away || r == Rounding::nearest_toward_zero ||
         r == Rounding::nearest_toward_positive;
}

std::vector<float> decoded_values(const FloatFormat& f) {
  std::vector<float> out(size_t{1} << f.code_bits());
  for (size_t code = 0; code < out.size(); ++code) out[code] = decode(f, static_cast<uint32_t>(code));
  return out;
}

ListedElement::ListedElement(const FloatFormat& f) : format(f), decoded(decoded_values(f)) {
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
  fill_steps(side, steps);
}

ListedSpec::ListedSpec(const QuantSpec& s)
    : q(resolve(s)), first(q.element.has_micro() ? format_of(static_cast<Element>(q.element.grid->base)) : q.element) {
  if (q.has_choice()) second.emplace(*q.other);
}

double listed_units(const Quantizer& q, TensorFactor t) {
  // 1/p is no fp64 number, but the rounding of this quotient and of the payload stay far below `doubt`.
  return static_cast<double>(q.has_scale() ? t.g : 1.0f) / static_cast<double>(q.prescale == 0.75f ? 0.75f : 1.0f);
}

double listed_divisor(const Quantizer& q, uint32_t scale_code, TensorFactor t) {
  return (q.has_scale() ? static_cast<double>(decode(q.scale, scale_code)) : 1.0) * listed_units(q, t);
}

void listed_codes(const Quantizer& q, const ListedElement& element, uint32_t scale_code, TensorFactor t, const float* x,
                  int64_t n, const int* e, const uint32_t* draws, uint32_t* out) {
  BlockCoder(q, element, scale_code, t).codes(x, n, e, draws, out);
}

int64_t listed_choice(const ListedSpec& spec, const float* x, int64_t n, float amax, TensorFactor t, uint32_t draw) {
  const Quantizer& q = spec.q;
  if (n > most_block || amax == 0.0f || q.decode != Decode::scale_then_tensor || q.prescale != 1.0f ||
      tries_codes(q.scale_rule))
    return -1;
  const BlockView block = {x, 0, 1, 1, n, n};
  Quantizer nearest = q, other = q;
  nearest.rounding = other.rounding = Rounding::nearest_even;
  other.element = *q.other;
  const uint32_t a = apply_scale_policies(q, rule_code(q, block, amax, t, draw));
  const uint32_t b = apply_scale_policies(q, rule_code(other, block, amax, t, draw)) | choice_flag;
  uint32_t codes[most_block];
  double errors[2];
  for (const int i : {0, 1}) {
    const uint32_t scale = i == 0 ? a : b;
    const ListedElement& element = i == 0 ? spec.first : *spec.second;
    listed_codes(nearest, element, scale, t, x, n, nullptr, nullptr, codes);
    errors[i] = error_of(nearest, element, x, n, codes, scale, t.g);
  }
  return errors[1] < errors[0] ? b : a;
}

void listed_exponents(const Quantizer& q, const BlockView& x, uint32_t scale_code, TensorFactor t,
                      int (&out)[most_micro_width]) {
  const double divisor = listed_divisor(q, scale_code, t);
  if (!(divisor > 0)) return micro_exponents(q, x, scale_code, t, out);
  const float stored = decode(q.scale, scale_code);
  const auto exponent_of = [&](float amax) {
    int exponent = 0;
    const double significand = std::frexp(static_cast<double>(amax) / divisor, &exponent);  // .5 .. 1
    const bool is_near_power = significand - 0.5 <= doubt || 1.0 - significand <= doubt;
    return is_near_power ? payload(q.arithmetic, amax, stored, t, q.prescale).log2_floor() : exponent - 1;
  };
  share_exponents(q, x, exponent_of, out);
}

}  // namespace fp4
