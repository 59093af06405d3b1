// See oscillation.h. The neighbours of a weight are the code that it has and the next one on its other side.
#include "sim/rules/oscillation.h"

#include <algorithm>
#include <cmath>

#include "fp4/block.h"
#include "sim/rules/codes.h"
#include "src/arith/code_order.h"
#include "src/arith/spec_text.h"
#include "src/text/read_field.h"

namespace fp4::sim {

WeightRules weight_rules_from(const JsonReader& from) {
  JsonReader given = from;
  WeightRules rules;
  if (auto average = given.find(
          "average", {"Q-EMA: round to the neighbour nearer to a running mean", nullptr, "TetraJet 2502.20853"})) {
    rules.decay = static_cast<float>(average->at("decay", {"of the running mean: 0.9983"}).number(0.01, 0.999999));
    read_field(*average, "from", "step at which the mean starts", rules.from, 1, 1000000000);
    average->finish();
  }
  if (auto reset = given.find("reset", {"OsciReset: weights that oscillate become their quantised values", nullptr,
                                        "TetraJet-v2 2510.27527"})) {
    rules.every =
        static_cast<int>(reset->at("every", {"steps from one reset to the next: 200"}).integer(2, 1000000000));
    read_field(*reset, "window", "steps before a reset whose moves count", rules.window, 1, rules.every);
    if (rules.window > rules.every) reset->fail("window is longer than every");
    read_field(*reset, "threshold", "d_Q / d_w from which a weight oscillates", rules.threshold, 1e-6, 1e6);
    reset->finish();
  }
  if (auto ramp = given.find("ramp", {"Q-Ramping: weights that oscillate are updated less often, by mean gradients",
                                      nullptr, "TetraJet 2502.20853"})) {
    rules.ramp_every =
        static_cast<int>(ramp->at("every", {"steps from one measurement to the next: 200"}).integer(2, 1000000000));
    read_field(*ramp, "window", "steps whose moves are measured", rules.ramp_window, 2, rules.ramp_every);
    if (rules.ramp_window > rules.ramp_every) ramp->fail("window is longer than every");
    read_field(*ramp, "threshold", "d_Q / d_w of one more `factor`", rules.ramp_threshold, 1e-6, 1e6);
    read_field(*ramp, "factor", "steps between updates for each `threshold`", rules.ramp_factor, 1, 1e6);
    ramp->finish();
  }
  given.finish();
  return rules;
}

Json weight_rules_to(const WeightRules& rules) {
  Json out = Json::object();
  if (rules.decay > 0) out["average"] = {{"decay", json_number(rules.decay)}, {"from", rules.from}};
  if (rules.every > 0)
    out["reset"] = {{"every", rules.every}, {"window", rules.window}, {"threshold", json_number(rules.threshold)}};
  if (rules.ramp_every > 0)
    out["ramp"] = {{"every", rules.ramp_every},
                   {"window", rules.ramp_window},
                   {"threshold", json_number(rules.ramp_threshold)},
                   {"factor", json_number(rules.ramp_factor)}};
  return out;
}

void Oscillation::begin(const float* w, const float* q, int64_t n) {
  weight.assign(w, w + n);
  quantised.assign(q, q + n);
  moved.assign(static_cast<size_t>(n), 0.0f);
  jumped.assign(static_cast<size_t>(n), 0.0f);
}

void Oscillation::add(const float* w, const float* q) {
  for (size_t i = 0; i < weight.size(); ++i) {
    moved[i] = moved[i] + std::abs(w[i] - weight[i]);
    jumped[i] = jumped[i] + std::abs(q[i] - quantised[i]);
    weight[i] = w[i];
    quantised[i] = q[i];
  }
}

double Oscillation::ratio() const {
  double w = 0, q = 0;
  for (size_t i = 0; i < weight.size(); ++i) w += static_cast<double>(moved[i]), q += static_cast<double>(jumped[i]);
  return w > 0 ? q / w : 0;
}

double Oscillation::share(float threshold) const {
  int64_t count = 0;
  for (size_t i = 0; i < weight.size(); ++i) count += moved[i] > 0 && jumped[i] >= threshold * moved[i];
  return weight.empty() ? 0 : static_cast<double>(count) / static_cast<double>(weight.size());
}

std::vector<SlowWeight> slow_weights(const Oscillation& o, const WeightRules& rules) {
  std::vector<SlowWeight> out;
  for (size_t i = 0; i < o.weight.size(); ++i) {
    if (!(o.moved[i] > 0)) continue;
    const float steps = std::floor(o.jumped[i] / (rules.ramp_threshold * o.moved[i])) * rules.ramp_factor + 1;
    const float period = std::min(std::floor(steps), static_cast<float>(rules.ramp_every));
    if (period > 1) out.push_back({static_cast<int64_t>(i), period});
  }
  return out;
}

void reset(const Oscillation& o, float threshold, const float* q, float* w) {
  for (size_t i = 0; i < o.weight.size(); ++i)
    if (o.moved[i] > 0 && o.jumped[i] >= threshold * o.moved[i] && std::isfinite(q[i])) w[i] = q[i];
}

namespace {

// The values of the codes of small elements under one scale, made anew when the scale changes.
class Values {
 public:
  explicit Values(const Quantizer& q) : q_(q), is_small_(q.element.code_bits() <= 4) {}
  void set(float s, float g) {
    if (is_set_ && bits_of(s) == bits_of(s_) && bits_of(g) == bits_of(g_)) return;
    s_ = s, g_ = g, is_set_ = true;
    for (uint32_t code = 0; is_small_ && code < 16; ++code) values_[code] = element_value(q_, code, s, g);
  }
  float operator()(uint32_t code) const { return is_small_ ? values_[code] : element_value(q_, code, s_, g_); }

 private:
  const Quantizer& q_;
  bool is_small_, is_set_ = false;
  float s_ = 0, g_ = 0, values_[16];
};

}  // namespace

void lean_to_average(const float* w, const float* average, Quantized& q) {
  const Quantizer resolved = resolve(q.spec);
  Values value(resolved);
  uint32_t last_scale = 0;
  float s = scale_value(resolved, last_scale);
  for (int64_t r = 0; r < q.rows; ++r)
    for (int64_t k = 0; k < q.cols; ++k) {
      const uint32_t scale = q.spec.has_scale() ? scale_code_of(q, r, k) : 0;
      const float x = w[r * q.cols + k], mean = average[r * q.cols + k];
      if ((q.spec.has_scale() && resolved.scale.is_nan_code(scale)) || !is_finite(x)) continue;
      if (scale != last_scale) s = scale_value(resolved, scale), last_scale = scale;
      value.set(s, q.tensor_factor_at(r, k));
      const uint32_t code = q.code(r, k);
      const float taken = value(code);
      if (magnitude(x) == magnitude(taken)) continue;
      const bool lies_above = magnitude(x) > magnitude(taken);
      const auto other = next_code(resolved.element_under(s), code, is_negative(x), lies_above);
      if (other && std::abs(mean - value(*other)) < std::abs(mean - taken)) replace_code(q, r, k, *other);
    }
}

}  // namespace fp4::sim
