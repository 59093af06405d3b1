#include "src/backends/listed_codes.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "fp4/codec.h"

namespace fp4 {
namespace {

constexpr double doubt = 0x1p-50;  // relative; a quotient or product of two numbers of 49 bits errs by 2^-52
constexpr int most_compared = 40;  // thresholds that every element meets; beyond, a search reads fewer

bool is_nearest(Rounding r) {
  return r == Rounding::nearest_even || r == Rounding::nearest_away || r == Rounding::nearest_toward_zero ||
         r == Rounding::nearest_toward_positive;
}

// Thresholds of one side in a block's own units: a magnitude x lies above m*divisor where x > `below`; where x ==
// `tie`, fp64 cannot say.
struct Thresholds {
  int count = 0;
  bool has_tie = false;
  float below[most_compared], tie[most_compared];

  void set(const ListedSide& s, double divisor) {
    count = s.count - 1;
    constexpr double largest = static_cast<double>(std::numeric_limits<float>::max());
    for (int j = 0; j < count; ++j) {
      const double middle = s.middle[j] * divisor;
      const auto nearest = static_cast<float>(std::min(middle, largest));
      const bool is_near = std::fabs(static_cast<double>(nearest) - middle) <= middle * doubt;
      below[j] = static_cast<double>(nearest) > middle ? float_of(bits_of(nearest) - 1) : nearest;
      tie[j] = is_near ? nearest : std::numeric_limits<float>::quiet_NaN();
      has_tie |= is_near;
    }
  }
};

// Codes of one block under one element and scale.
class BlockCoder {
 public:
  BlockCoder(const Quantizer& q, const ListedElement& element, uint32_t scale_code, TensorFactor t)
      : q_(q), element_(element), scale_code_(scale_code), t_(t), divisor_(listed_divisor(q, scale_code, t)) {}

  void codes(const float* x, int64_t stride, int64_t n, const int* e, const uint32_t* draws, uint32_t* out) const {
    const bool is_short = element_.side[0].count + element_.side[1].count <= most_compared;
    if (is_short && is_nearest(q_.rounding) && divisor_ > 0) return nearest_codes(x, stride, n, e, out);
    for (int64_t i = 0; i < n; ++i)
      out[i] = one_code(x[i * stride], e == nullptr ? 0 : e[i], draws == nullptr ? 0 : draws[i]);
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

  // How many thresholds each of u lies above, and which of them fp64 cannot tell.
  static void compare(const Thresholds& t, const float (&u)[width], int32_t (&rank)[width], int32_t (&unsure)[width]) {
    for (int j = 0; j < t.count; ++j)
      for (int i = 0; i < width; ++i) rank[i] += u[i] > t.below[j] ? 1 : 0;
    for (int j = 0; t.has_tie && j < t.count; ++j)
      for (int i = 0; i < width; ++i) unsure[i] |= u[i] == t.tie[j] ? 1 : 0;
  }

  void nearest_codes(const float* x, int64_t stride, int64_t n, const int* e, uint32_t* out) const {
    const bool is_symmetric = element_.is_symmetric;
    Thresholds above_zero, below_zero;
    above_zero.set(element_.side[0], divisor_);
    if (!is_symmetric) below_zero.set(element_.side[1], divisor_);
    const bool is_plain = e == nullptr && q_.negative_zero == NegativeZero::keep;
    const uint32_t sign = element_.format.sign_code();
    for (int64_t first = 0; first < n; first += width) {
      const auto m = static_cast<int>(std::min<int64_t>(width, n - first));
      float u[width] = {}, size[width];
      for (int i = 0; i < m; ++i) u[i] = x[(first + i) * stride];
      for (int i = 0; i < m && e != nullptr; ++i) u[i] = u[i] * power_of_two(-e[first + i]);
      int32_t rank[width] = {}, other[width] = {}, unsure[width] = {};
      for (int i = 0; i < width; ++i) size[i] = is_symmetric ? std::fabs(u[i]) : u[i];
      compare(above_zero, size, rank, unsure);
      if (!is_symmetric) {
        for (int i = 0; i < width; ++i) size[i] = -u[i];
        compare(below_zero, size, other, unsure);
        for (int i = 0; i < width; ++i) rank[i] += other[i];  // one of them is 0
      }
      int32_t any = is_plain ? 0 : 1;
      for (int i = 0; i < width; ++i) any |= unsure[i] | (magnitude_bits(u[i]) >= float_infinity_bits ? 1 : 0);
      for (int i = 0; i < m && any == 0; ++i) {
        const uint32_t negative = bits_of(u[i]) >> 31;
        out[first + i] = element_.side[negative].code[rank[i]] | (negative != 0 ? sign : 0u);
      }
      for (int i = 0; i < m && any != 0; ++i)
        out[first + i] =
            code_of_rank(x[(first + i) * stride], e == nullptr ? 0 : e[first + i], rank[i], unsure[i] != 0);
    }
  }

  uint32_t code_of_rank(float x, int e, int32_t rank, bool is_unsure) const {
    const bool is_lost = e != 0 && magnitude_bits(x) < bits_of(0x1p-100f);  // 2^-e brings small numbers below fp32
    if (is_unsure || is_lost || !is_finite(x)) return core_code(x, e, 0);
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

}  // namespace

ListedElement::ListedElement(const FloatFormat& f) : format(f) {
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
  is_symmetric =
      side[0].count == side[1].count && std::equal(side[0].value, side[0].value + side[0].count, side[1].value);
}

ListedSpec::ListedSpec(const QuantSpec& s)
    : q(resolve(s)), first(q.element.has_micro() ? format_of(static_cast<Element>(q.element.grid->base)) : q.element) {
  if (q.has_choice()) second.emplace(*q.other);
}

double listed_divisor(const Quantizer& q, uint32_t scale_code, TensorFactor t) {
  const double s = q.has_scale ? static_cast<double>(decode(q.scale, scale_code)) : 1.0;
  // 1/p is no fp64 number, but the rounding of this quotient and of the payload stay far below `doubt`.
  return s * static_cast<double>(q.has_scale ? t.g : 1.0f) / static_cast<double>(q.prescale == 0.75f ? 0.75f : 1.0f);
}

void listed_codes(const Quantizer& q, const ListedElement& element, uint32_t scale_code, TensorFactor t, const float* x,
                  int64_t stride, int64_t n, const int* e, const uint32_t* draws, uint32_t* out) {
  BlockCoder(q, element, scale_code, t).codes(x, stride, n, e, draws, out);
}

int64_t listed_choice(const ListedSpec& spec, const std::vector<float>& x, float amax, TensorFactor t, uint32_t draw) {
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
  double errors[2];
  for (const int i : {0, 1}) {
    const uint32_t scale = i == 0 ? a : b;
    listed_codes(nearest, i == 0 ? spec.first : *spec.second, scale, t, x.data(), 1, n, nullptr, nullptr, codes.data());
    errors[i] = error_of(nearest, x, codes.data(), scale, t.g);
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
