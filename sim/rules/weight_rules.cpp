// What a step does to the weights of quantised layers beyond the optimizer; see oscillation.h and quantized_linear.h.
#include <algorithm>
#include <array>
#include <cmath>

#include "fp4/rng.h"
#include "sim/engine/quantized_linear.h"
#include "sim/engine/trace.h"
#include "src/text/error.h"

namespace fp4::sim {

namespace {

constexpr float traced_threshold = 4;

void append(std::vector<float>& out, const std::vector<float>& values) {
  out.insert(out.end(), values.begin(), values.end());
}

// A number below 2^48 in two floats.
constexpr int64_t part = 1 << 24;
void append(std::vector<float>& out, int64_t number) {
  out.insert(out.end(), {static_cast<float>(number / part), static_cast<float>(number % part)});
}
int64_t number_of(const float* two) { return static_cast<int64_t>(two[0]) * part + static_cast<int64_t>(two[1]); }

// What a checkpoint keeps of an open window.
template <class O>
auto arrays_of(O& o) {
  return std::array{&o.weight, &o.quantised, &o.moved, &o.jumped};
}

void add(Oscillation& o, const float* w, const std::vector<float>& q) {
  if (o.empty())
    o.begin(w, q.data(), static_cast<int64_t>(q.size()));
  else
    o.add(w, q.data());
}

}  // namespace

// As the next forward pass will see them, but for the step of its random bits.
std::vector<float> LinearEngine::quantised_weights(const Pass& pass, Layer& layer, int number) {
  QuantizeCall call;
  call.x = view_of(layer.weight.data, layer.weight.rows, layer.weight.cols);
  call.spec = spec(layer, Gemm::fprop).b.quant;
  call.place = {pass.seed, stream_number(static_cast<uint32_t>(number), 0, 1, Purpose::rounding), pass.step};
  call.held_amax = layer.held_amax[0][1];
  call.threads = pass.threads;
  Quantized q;
  backend_.quantize(call, q);
  if (!layer.average.empty()) lean_to_average(layer.weight.data, layer.average.data(), q);
  std::vector<float> values(static_cast<size_t>(layer.weight.size()));
  backend_.dequantize(q, values.data(), pass.threads);
  return values;
}

void LinearEngine::measure_noise(Tape& tape, const Layer& layer, Part part, MatrixView a, MatrixView b, const float* c,
                                 int64_t c_row) {
  const auto power = [&](int operand, MatrixView x) {
    const QuantizeCall call = call_of(tape, layer, part, Gemm::wgrad, operand, x);
    Quantized q;
    backend_.quantize(call, q);
    std::vector<float> met(static_cast<size_t>(q.rows * q.cols)), decoded(met.size());
    if (call.hadamard.size > 0) {
      backend_.hadamard(x, call.hadamard, call.place.hadamard_signs(), false, met.data(), tape.pass.threads);
    } else {
      for (int64_t r = 0; r < x.rows; ++r)
        for (int64_t k = 0; k < x.cols; ++k) met[static_cast<size_t>(r * x.cols + k)] = x.at(r, k);
    }
    backend_.dequantize(q, decoded.data(), tape.pass.threads);
    double squares = 0, errors = 0;
    for (size_t i = 0; i < met.size(); ++i) {
      const double y = static_cast<double>(met[i]), e = static_cast<double>(decoded[i]) - y;
      squares += y * y, errors += e * e;
    }
    return OperandPower{mean_square(x), squares > 0 ? errors / squares : 0};
  };
  noise_ += noise_square(static_cast<double>(a.rows), static_cast<double>(b.rows), static_cast<double>(a.cols),
                         power(0, a), power(1, b));
  for (int64_t i = 0; i < a.rows; ++i)
    for (int64_t j = 0; j < b.rows; ++j)
      signal_ += static_cast<double>(c[i * c_row + j]) * static_cast<double>(c[i * c_row + j]);
}

std::vector<SlowWeights> LinearEngine::slow_weights(int step) {
  std::vector<SlowWeights> out;
  if (recipe_.weights.ramp_every == 0) return out;
  const bool opens = (step - 1) % recipe_.weights.ramp_every == 0;
  for (Layer& l : layers_) {
    if (l.slow.empty() || l.weight.data == nullptr) continue;
    if (opens) {
      std::erase_if(l.slow, [](const SlowWeight& s) { return s.waited == 0; });
      for (SlowWeight& s : l.slow) s.period = 1;
    }
    out.push_back({l.weight.data, &l.slow});
  }
  return out;
}

void LinearEngine::end_step(const Pass& pass, bool watch, const std::function<void(const TraceRow&)>* trace) {
  const WeightRules& rules = recipe_.weights;
  const int step = static_cast<int>(pass.step);
  if (measures_ && noise_ > 0) {
    const double ratio = std::sqrt(signal_ / noise_);
    if (ratio < recipe_.phases[static_cast<size_t>(phase_ + 1)].when) turned_ = phase_ + 1;
    if (trace != nullptr) (*trace)({step, "all", "wgrad", "", "gradient_noise_ratio", ratio});
  }
  for (size_t number = 0; number < layers_.size(); ++number) {
    Layer& l = layers_[number];
    const bool watched =
        watch && !l.is_product && l.treatment == Treatment::quantised && spec(l, Gemm::fprop).hadamard.size == 0;
    if ((!watched && !has_weight_rules(l)) || l.weight.data == nullptr) continue;
    const int64_t n = l.weight.size();
    float* w = l.weight.data;
    if (rules.decay > 0 && has_weight_rules(l) && step >= rules.from) {
      if (l.average.empty()) l.average.assign(w, w + n);
      for (int64_t i = 0; i < n; ++i) {
        float& mean = l.average[static_cast<size_t>(i)];
        mean = rules.decay * mean + (1.0f - rules.decay) * w[i];
      }
    }
    const bool in_window = has_weight_rules(l) && rules.is_in_window(step);
    const bool measured = has_weight_rules(l) && rules.is_measured(step);
    if (measured) l.slow.clear();
    if (!in_window && !measured && !watched) continue;
    const std::vector<float> q = quantised_weights(pass, l, static_cast<int>(number));
    if (measured) {
      add(l.ramp_window, w, q);
      if (rules.ramps_after(step)) {
        l.slow = sim::slow_weights(l.ramp_window, rules);
        l.ramp_window = {};
      }
    }
    if (in_window) {
      add(l.window, w, q);
      if (rules.resets_after(step)) {
        reset(l.window, rules.threshold, q.data(), w);
        l.window = {};
      }
    }
    if (!watched) continue;
    const bool is_first = l.watched.empty();
    if (is_first)
      l.watched.begin(w, q.data(), n);
    else
      l.watched.add(w, q.data());
    if (trace == nullptr) continue;
    if (!is_first) {
      (*trace)({step, l.name, "fprop", "b", "oscillation", l.watched.ratio()});
      (*trace)({step, l.name, "fprop", "b", "oscillating_share", l.watched.share(traced_threshold)});
    }
    l.watched.begin(w, q.data(), n);
  }
}

std::vector<float> LinearEngine::weight_state() const {
  std::vector<float> out;
  for (const Layer& l : layers_) {
    append(out, l.average);
    for (const Oscillation* o : {&l.window, &l.ramp_window})
      for (const auto* values : arrays_of(*o)) append(out, *values);
    if (recipe_.weights.ramp_every == 0 || !has_weight_rules(l)) continue;
    append(out, static_cast<int64_t>(l.slow.size()));
    for (const SlowWeight& s : l.slow) {
      append(out, s.index);
      out.insert(out.end(), {s.period, s.waited, s.sum});
    }
  }
  return out;
}

void LinearEngine::restore_weights(const std::vector<float>& state, int step) {
  const WeightRules& rules = recipe_.weights;
  size_t at = 0;
  const auto take = [&](std::vector<float>& values, size_t n) {
    if (state.size() < at + n)
      throw Error("checkpoint: the averages of weights belong to another recipe", Error::failed);
    values.assign(state.begin() + static_cast<std::ptrdiff_t>(at), state.begin() + static_cast<std::ptrdiff_t>(at + n));
    at += n;
  };
  for (Layer& l : layers_) {
    if (!has_weight_rules(l)) continue;
    const auto n = static_cast<size_t>(int64_t{l.in} * l.out);
    if (rules.decay > 0 && step >= rules.from) take(l.average, n);
    if (rules.is_in_window(step) && !rules.resets_after(step))
      for (auto* values : arrays_of(l.window)) take(*values, n);
    if (rules.is_measured(step) && !rules.ramps_after(step))
      for (auto* values : arrays_of(l.ramp_window)) take(*values, n);
    if (rules.ramp_every == 0) continue;
    std::vector<float> numbers;
    take(numbers, 2);
    const int64_t count = number_of(numbers.data());
    if (count < 0 || count > static_cast<int64_t>(n))
      throw Error("checkpoint: the averages of weights belong to another recipe", Error::failed);
    l.slow.clear();
    for (int64_t i = 0; i < count; ++i) {
      take(numbers, 5);
      l.slow.push_back({number_of(numbers.data()), numbers[2], numbers[3], numbers[4]});
      if (l.slow.back().index < 0 || l.slow.back().index >= static_cast<int64_t>(n))
        throw Error("checkpoint: the averages of weights belong to another recipe", Error::failed);
    }
  }
  if (at != state.size()) throw Error("checkpoint: the averages of weights belong to another recipe", Error::failed);
}

}  // namespace fp4::sim
