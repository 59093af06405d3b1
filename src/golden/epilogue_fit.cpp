// Which factor, matrix and bias turn the product into what came? Every output gives an interval that the real number
// before the last rounding lies in; an unknown lies in all of them, and the simplest number there is tried bit by bit.
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <optional>

#include "src/arith/spec_text.h"
#include "src/files/large_pages.h"
#include "src/golden/accidents.h"

namespace fp4::golden {
namespace {

struct Interval {
  double low = -HUGE_VAL, high = HUGE_VAL;
  bool empty() const { return !(low <= high); }
  void meet(double a, double b) {
    low = std::max(low, std::min(a, b));
    high = std::min(high, std::max(a, b));
  }
};

// What may have been rounded to `got`, with room for the roundings of fp32 steps of this magnitude before it.
Interval before_rounding(RealType type, float got, double magnitude) {
  const RealTypeInfo& t = row_of(real_type_table, type);
  const int exponent = got == 0.0f ? t.smallest_exponent : std::max(std::ilogb(got), t.smallest_exponent);
  const double half = std::ldexp(0.5, exponent - t.digits + 1) + 0x1p-22 * magnitude;
  return {static_cast<double>(got) - half, static_cast<double>(got) + half};
}

// Floats of an interval, the ones with few binary or decimal digits first.
std::vector<float> simplest(const Interval& range) {
  std::vector<float> out;
  const double middle = range.low / 2 + range.high / 2;
  const auto add = [&](double x) {
    const auto f = static_cast<float>(x);
    if (!is_finite(f) || static_cast<double>(f) < range.low || static_cast<double>(f) > range.high) return;
    if (std::find(out.begin(), out.end(), f) == out.end()) out.push_back(f);
  };
  if (range.empty() || !std::isfinite(middle)) return out;
  if (range.low <= 0 && range.high >= 0) add(0);
  if (middle != 0) {
    for (int digits = 0; digits < 24; ++digits) {
      const double binary = std::ldexp(1.0, std::ilogb(middle) - digits);
      add(std::nearbyint(middle / binary) * binary);
      const double decimal = std::pow(10.0, std::floor(std::log10(std::abs(middle))) - digits);
      if (digits < 9) add(std::nearbyint(middle / decimal) * decimal);
    }
  }
  float below = static_cast<float>(middle), above = below;
  for (int i = 0; i < 8; ++i) {
    add(static_cast<double>(below));
    add(static_cast<double>(above));
    below = std::nextafter(below, -HUGE_VALF);
    above = std::nextafter(above, HUGE_VALF);
  }
  return out;
}

// What was found, in words and with its numbers; no words: the product alone.
struct Named {
  std::vector<const char*> epilogue;  // "alpha", "bias"
  std::string detail;
};

// One array of outputs [rows, cols] beside a product.
class Fit {
 public:
  Fit(const std::vector<float>& product, std::vector<float> got, const std::vector<float>& c, size_t cols,
      RealType type, Activation activation)
      : product_(product), got_(std::move(got)), c_(c), cols_(cols), type_(type), activation_(activation) {}

  // "alpha=0.37", "alpha=1, beta=0.5", "alpha=2, a bias a column"; no value where none fits.
  std::optional<Named> named() const {
    if (fits({1.0f, 0.0f, false}, {})) return Named{{}, "the product alone"};
    for (const float alpha : simplest(factor_of(product_)))
      if (alpha != 1.0f && fits({alpha, 0.0f, false}, {})) return Named{{"alpha"}, fmt::format("alpha={}", alpha)};
    if (bias_under(1.0f)) return Named{{"bias"}, "a bias a column"};
    if (!c_.empty()) {
      for (const float beta : simplest(factor_of(c_, 1.0f)))
        if (fits({1.0f, beta, false}, {})) return Named{{"beta"}, fmt::format("alpha=1, beta={}", beta)};
      for (const float alpha : simplest(slope_beside_c()))
        for (const float beta : simplest(factor_of(c_, alpha)))
          if (fits({alpha, beta, false}, {})) return Named{{"beta"}, fmt::format("alpha={}, beta={}", alpha, beta)};
    }
    for (const float alpha : simplest(slope_of_columns()))
      if (alpha != 1.0f && bias_under(alpha))
        return Named{{"alpha", "bias"}, fmt::format("alpha={}, a bias a column", alpha)};
    return std::nullopt;
  }

 private:
  bool fits(const Epilogue& how, const std::vector<float>& bias) const {
    const CaseEpilogue e = {how, type_, c_, bias, activation_};
    std::atomic<bool> all = true;
    for_bands(static_cast<int64_t>(product_.size()), 1, [&](int64_t first, int64_t last) {
      for (auto i = static_cast<size_t>(first); i < static_cast<size_t>(last) && all; ++i)
        if (bits_of(e.value(product_[i], i, cols_)) != bits_of(got_[i]) && !(is_nan(got_[i]) && is_nan(product_[i])))
          all = false;
    });
    return all;
  }
  // Whether output i says what the sum before the activation was: all do without one, those above 0 with one.
  bool tells(size_t i) const {
    return is_finite(got_[i]) && is_finite(product_[i]) && (activation_ == Activation::none || got_[i] > 0.0f);
  }
  // The sum that output i was made of. Activations rise where they are above 0: bisection over floats finds their
  // inverse.
  Interval sum_at(size_t i, double magnitude) const {
    const Interval v = before_rounding(type_, got_[i], magnitude);
    if (activation_ == Activation::none || activation_ == Activation::relu) return v;
    return {inverse(v.low), inverse(v.high)};
  }
  double inverse(double y) const {
    double low = 0, high = std::max(2 * y, 8.0);
    for (int step = 0; step < 60 && y > 0; ++step) {
      const double middle = low / 2 + high / 2;
      (static_cast<double>(activated(activation_, static_cast<float>(middle))) < y ? low : high) = middle;
    }
    return y > 0 ? low : 0;
  }
  double size_at(size_t i) const {
    return std::abs(static_cast<double>(product_[i])) + std::abs(static_cast<double>(got_[i]));
  }

  // x with alpha*P + x*of = got.
  Interval factor_of(const std::vector<float>& of, float alpha = 0.0f) const {
    Interval x;
    for (size_t i = 0; i < of.size(); i += 1 + (of.size() >> 20)) {  // a million say which; all have to agree
      if (of[i] == 0.0f || !tells(i)) continue;
      const Interval v = sum_at(i, alpha == 0.0f ? std::abs(static_cast<double>(got_[i])) : size_at(i));
      const double p = static_cast<double>(alpha) * static_cast<double>(product_[i]), by = static_cast<double>(of[i]);
      x.meet((v.low - p) / by, (v.high - p) / by);
    }
    return x;
  }
  // alpha from pairs of outputs between which something else is taken out: b[i] * got[j] - b[j] * got[i].
  template <class Other>
  Interval slope(size_t i, size_t j, const Other& other, Interval x) const {
    if (!tells(i) || !tells(j)) return x;
    const double b = other(i), d = other(j);
    const double run = d * static_cast<double>(product_[i]) - b * static_cast<double>(product_[j]);
    if (run == 0 || !std::isfinite(run)) return x;
    const Interval u = sum_at(i, size_at(i)), v = sum_at(j, size_at(j));
    const double rise = d * (u.low / 2 + u.high / 2) - b * (v.low / 2 + v.high / 2);
    const double room = (std::abs(d) * (u.high - u.low) + std::abs(b) * (v.high - v.low)) / 2;
    if (std::isfinite(rise)) x.meet((rise - room) / run, (rise + room) / run);
    return x;
  }
  Interval slope_of_columns() const {
    Interval x;
    const auto one = [](size_t) { return 1.0; };
    for (size_t i = cols_; i < got_.size(); i += 1 + (got_.size() >> 20)) x = slope(i - cols_, i, one, x);
    return x;
  }
  Interval slope_beside_c() const {
    Interval x;
    const auto of_c = [&](size_t i) { return static_cast<double>(c_[i]); };
    for (size_t i = 1; i < c_.size(); ++i) x = slope(i - 1, i, of_c, x);
    return x;
  }

  // One number for each column that makes alpha*P + bias what came; two rows at least say so.
  std::optional<std::vector<float>> bias_under(float alpha) const {
    std::vector<float> bias(cols_, 0.0f);
    if (got_.size() < 2 * cols_) return std::nullopt;
    const Epilogue how = {alpha, 0.0f, true};
    for (size_t j = 0; j < cols_; ++j) {
      Interval x;
      for (size_t i = j; i < got_.size(); i += cols_) {
        if (!tells(i)) continue;
        const Interval v = sum_at(i, size_at(i));
        const double p = static_cast<double>(alpha) * static_cast<double>(product_[i]);
        x.meet(v.low - p, v.high - p);
      }
      const auto right = [&](float b) {
        bias[j] = b;
        const CaseEpilogue e = {how, type_, {}, bias, activation_};
        for (size_t i = j; i < got_.size(); i += cols_)
          if (bits_of(e.value(product_[i], i, cols_)) != bits_of(got_[i])) return false;
        return true;
      };
      const std::vector<float> numbers =
          x.low == -HUGE_VAL ? std::vector<float>{0.0f, -float_of(float_largest_bits)} : simplest(x);
      if (std::none_of(numbers.begin(), numbers.end(), right)) return std::nullopt;
    }
    return bias;
  }

  const std::vector<float>& product_;
  std::vector<float> got_;
  const std::vector<float>& c_;
  size_t cols_;
  RealType type_;
  Activation activation_;
};

// Activations that the outputs may have gone through: none of them lies below what the activation gives.
std::vector<Activation> activations_of(const std::vector<ArrayPair>& evidence) {
  float least = 0;
  for (const ArrayPair& e : evidence)
    for (size_t i = 0; i < e.got.size(); ++i) least = std::min(least, float_of(e.got.raw(i)));
  std::vector<Activation> out;
  for (const ActivationInfo& row : activation_table)
    if (row.id == Activation::none ||
        (static_cast<double>(least) >= row.least - 0.001 && (row.id == Activation::relu) == (least == 0.0f)))
      out.push_back(row.id);
  return out;
}

// What turns a kernel's product into every array that came, if one thing does.
std::optional<Named> fit_of(const Simulator& simulator, const Kernel& kernel, const std::vector<ArrayPair>& evidence,
                            const std::vector<float>& c, size_t cols, RealType type, Activation activation) {
  std::optional<Named> all;
  for (const ArrayPair& e : evidence) {
    auto got = large_vector<float>(e.got.size());
    e.got.copy(0, got.size(), reinterpret_cast<uint32_t*>(got.data()));
    const std::vector<float> product = simulator.product(kernel, e.array.substr(std::string("output_").size()));
    if (product.size() != got.size()) return std::nullopt;
    const auto one = Fit(product, std::move(got), c, cols, type, activation).named();
    if (!one || (all && all->detail != one->detail)) return std::nullopt;
    all = one;
  }
  return all;
}

Cause cause_of(Named fit, const Case& c, RealType type, Activation activation, const std::string& adder,
               uint64_t before) {
  Changes changes;
  for (const char* part : fit.epilogue) changes.push_back({"epilogue", part});
  if (activation != Activation::none) {
    changes.push_back({"epilogue", row_of(activation_table, activation).name});
    fit.detail += std::string(", then ") + row_of(activation_table, activation).doc;
  }
  const bool has_epilogue = !changes.empty();
  const char* const word = row_of(real_type_table, type).name;
  if (type != RealType::fp32) changes.push_back({"output", word}), fit.detail += std::string(", rounded to ") + word;
  if (!adder.empty()) changes.push_back({"accumulator", adder});
  // That there is no epilogue is a cause where nothing else is, and a part of one where an epilogue was said.
  if (!has_epilogue && (changes.empty() || c.epilogue.is_said())) changes.insert(changes.begin(), {"epilogue", "none"});
  return {std::move(changes), fit.detail, before, 0, 1.0};
}

}  // namespace

void add_epilogue_causes(const Case& c, const Simulator& simulator, const std::vector<ArrayPair>& evidence,
                         const Sample* corner, const Simulator* of_corner, uint64_t before,
                         std::vector<Cause>& causes) {
  if (!c.is_gemm) return;
  std::vector<float> some_c;
  for (const int64_t i : corner != nullptr && !c.epilogue.c.empty() ? corner->corner.rows : std::vector<int64_t>{})
    for (const int64_t j : corner->corner.cols) some_c.push_back(c.epilogue.c[static_cast<size_t>(i * c.rows_b + j)]);
  const std::vector<Activation> activations = activations_of(evidence);
  const auto explains = [&](const Kernel& kernel, const std::string& adder) {
    for (const Activation activation : activations)
      for (const RealTypeInfo& type : real_type_table) {
        if (corner != nullptr &&
            !fit_of(*of_corner, kernel, corner->evidence, some_c, corner->corner.cols.size(), type.id, activation))
          continue;
        const auto fit =
            fit_of(simulator, kernel, evidence, c.epilogue.c, static_cast<size_t>(c.rows_b), type.id, activation);
        if (!fit) continue;
        causes.push_back(cause_of(*fit, c, type.id, activation, adder, before));
        return true;
      }
    return false;
  };
  Kernel kernel = simulator.base();
  if (explains(kernel, "")) return;
  for (const AccumulatorInfo& row : accumulator_table) {
    if (!invalid_reason(row.row, kernel.a, kernel.b).empty()) continue;
    kernel.accumulator = row.row;
    if (explains(kernel, row.name)) return;
  }
}

}  // namespace fp4::golden
