#include "sim/engine/watched_weights.h"

#include <array>

#include "src/text/error.h"

namespace fp4::sim {

namespace {

constexpr float traced_threshold = 4;

[[noreturn]] void refuse() {
  throw Error("checkpoint: the averages of weights belong to another recipe", Error::failed);
}

void append(std::vector<float>& out, const std::vector<float>& values) {
  out.insert(out.end(), values.begin(), values.end());
}

// A number below 2^48 in two floats.
constexpr int64_t half_number = 1 << 24;
void append(std::vector<float>& out, int64_t number) {
  out.insert(out.end(), {static_cast<float>(number / half_number), static_cast<float>(number % half_number)});
}
int64_t number_of(const float* two) {
  return static_cast<int64_t>(two[0]) * half_number + static_cast<int64_t>(two[1]);
}

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

void WeightState::take(std::vector<float>& values, size_t n) {
  if (state_.size() - at_ < n) refuse();
  const auto from = state_.begin() + static_cast<std::ptrdiff_t>(at_);
  values.assign(from, from + static_cast<std::ptrdiff_t>(n));
  at_ += n;
}

void WatchedWeights::lean(Quantized& q) const {
  if (has_average()) lean_to_average(weight.data, average_.data(), q);
}

std::vector<SlowWeight>* WatchedWeights::slow_in(int step) {
  if (slow_.empty() || weight.data == nullptr) return nullptr;
  if ((step - 1) % rules.ramp_every == 0) {
    std::erase_if(slow_, [](const SlowWeight& s) { return s.waited == 0; });
    for (SlowWeight& s : slow_) s.period = 1;
  }
  return &slow_;
}

void WatchedWeights::after_step(int step, bool watches, const std::function<std::vector<float>()>& quantised,
                                const std::function<void(const char*, double)>& trace) {
  const int64_t n = weight.size();
  float* const w = weight.data;
  if (rules.decay > 0 && step >= rules.from) {
    if (average_.empty()) average_.assign(w, w + n);
    for (int64_t i = 0; i < n; ++i) {
      float& mean = average_[static_cast<size_t>(i)];
      mean = rules.decay * mean + (1.0f - rules.decay) * w[i];
    }
  }
  const bool in_window = rules.is_in_window(step), measured = rules.is_measured(step);
  if (measured) slow_.clear();
  if (!in_window && !measured && !watches) return;
  const std::vector<float> q = quantised();
  if (measured) {
    add(ramp_window_, w, q);
    if (rules.ramps_after(step)) {
      slow_ = slow_weights(ramp_window_, rules);
      ramp_window_ = {};
    }
  }
  if (in_window) {
    add(window_, w, q);
    if (rules.resets_after(step)) {
      reset(window_, rules.threshold, q.data(), w);
      window_ = {};
    }
  }
  if (!watches) return;
  const bool is_first = watched_.empty();
  add(watched_, w, q);
  if (!trace) return;
  if (!is_first) {
    trace("oscillation", watched_.ratio());
    trace("oscillating_share", watched_.share(traced_threshold));
  }
  watched_.begin(w, q.data(), n);
}

void WatchedWeights::save(std::vector<float>& out) const {
  append(out, average_);
  for (const Oscillation* o : {&window_, &ramp_window_})
    for (const auto* values : arrays_of(*o)) append(out, *values);
  if (rules.ramp_every == 0) return;
  append(out, static_cast<int64_t>(slow_.size()));
  for (const SlowWeight& s : slow_) {
    append(out, s.index);
    out.insert(out.end(), {s.period, s.waited, s.sum});
  }
}

void WatchedWeights::restore(WeightState& from, int step, int64_t n) {
  const auto all = static_cast<size_t>(n);
  if (rules.decay > 0 && step >= rules.from) from.take(average_, all);
  if (rules.is_in_window(step) && !rules.resets_after(step))
    for (auto* values : arrays_of(window_)) from.take(*values, all);
  if (rules.is_measured(step) && !rules.ramps_after(step))
    for (auto* values : arrays_of(ramp_window_)) from.take(*values, all);
  if (rules.ramp_every == 0) return;
  std::vector<float> numbers;
  from.take(numbers, 2);
  const int64_t count = number_of(numbers.data());
  if (count < 0 || count > n) refuse();
  slow_.clear();
  for (int64_t i = 0; i < count; ++i) {
    from.take(numbers, 5);
    slow_.push_back({number_of(numbers.data()), numbers[2], numbers[3], numbers[4]});
    if (slow_.back().index < 0 || slow_.back().index >= n) refuse();
  }
}

}  // namespace fp4::sim
