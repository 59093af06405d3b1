// Optimizers over one flat buffer; see optim.h.
#include "sim/train/optim.h"

#include <cmath>
#include <cstring>

#include "fp4/elementary.h"
#include "sim/rules/recipe.h"
#include "src/text/error.h"
#include "src/text/named_rows.h"

namespace fp4::sim {

namespace {

constexpr float first_scale = 1024.0f;  // 2^10
constexpr int good_steps_to_double = 2000;
constexpr size_t unused_of_tensor = 3;  // zeros of each tensor that a checkpoint has held since an older optimizer

float bias_correction(double power) { return static_cast<float>(1.0 / (1.0 - power)); }

}  // namespace

Optimizer::Optimizer(const Json& train, const std::string& name, bool loss_scaling, Parameters& parameters,
                     UpdateContext context)
    : schedule_(train.at("schedule")),
      steps_(train.at("steps")),
      warmup_(train.at("warmup")),
      loss_scaling_(loss_scaling),
      context_(std::move(context)),
      total_(parameters.total()),
      dense_(parameters.dense_total()),
      loss_scale_(loss_scaling ? first_scale : 1.0f) {
  const std::string word = name.empty() ? train.at("optimizer").get<std::string>() : name;
  kind_ = static_cast<Kind>(accepted_index("optimizer", word, optimizer_words()));
  const auto number = [&](const char* key) { return static_cast<float>(train.at(key).get<double>()); };
  lr_ = number("lr"), final_share_ = number("final_lr"), beta1_ = number("beta1"), beta2_ = number("beta2");
  eps_ = number("eps"), weight_decay_ = number("weight_decay"), momentum_ = number("momentum"), clip_ = number("clip");
  const DeviceKernels* const device = context_.device;
  if (device != nullptr) memory_ = Arena(&device->memory);
  m_ = memory_.take<float>(2 * total_);
  v_ = m_ + total_;
  if (device != nullptr)
    device->zero(m_, 2 * total_);
  else
    std::memset(m_, 0, sizeof(float) * static_cast<size_t>(2 * total_));
  tensors_ = static_cast<size_t>(parameters.count());
  if (dense_ < total_) store_tables(parameters, *context_.backend);
}

float Optimizer::learning_rate(int step) const {
  if (step <= warmup_) return lr_ * (static_cast<float>(step) / static_cast<float>(warmup_));
  if (schedule_ == "constant") return lr_;
  const int last = std::max(steps_ - warmup_ - 1, 1);
  const float progress = std::min(1.0f, static_cast<float>(step - warmup_ - 1) / static_cast<float>(last));
  const float share = schedule_ == "linear" ? 1.0f - progress : 0.5f * (1.0f + elementary::cos(3.14159274f * progress));
  const float low = lr_ * final_share_;
  return low + (lr_ - low) * share;
}

// The whole buffer; slow weights are put back and take their own update when it is due.
bool Optimizer::adam(Parameters& parameters, const Kernels& k, const AdamStep& s,
                     const std::vector<SlowWeights>& slow) {
  struct Before {
    float w, m, v;
  };
  float *w = parameters.values(), *g = parameters.gradients();
  std::vector<Before> before;
  const auto each = [&](const auto& work) {
    for (const SlowWeights& layer : slow)
      for (SlowWeight& row : *layer.rows) work(row, (layer.weights - w) + row.index);
  };
  each([&](const SlowWeight&, int64_t i) { before.push_back({w[i], m_[i], v_[i]}); });
  bool is_finite = k.adam(w, m_, v_, g, dense_, s);
  size_t next = 0;
  each([&](SlowWeight& row, int64_t i) {
    const Before& b = before[next++];
    w[i] = b.w, m_[i] = b.m, v_[i] = b.v;
    row.waited += 1;
    row.sum += g[i] * s.gradient_scale;
    float update = 0;
    if (std::fmod(row.waited, row.period) == 0) {
      const float mean = row.sum / row.waited;
      m_[i] = s.beta1 * m_[i] + (1.0f - s.beta1) * mean;
      v_[i] = s.beta2 * v_[i] + (1.0f - s.beta2) * (mean * mean);
      update = row.waited * ((m_[i] * s.correction1) / (std::sqrt(v_[i] * s.correction2) + s.eps));
      row.waited = row.sum = 0;
    }
    w[i] = w[i] - s.lr * (update + s.weight_decay * w[i]);
    is_finite &= fp4::is_finite(w[i]);
  });
  return is_finite;
}

bool Optimizer::step(Parameters& parameters, const Kernels& k, int step, const std::vector<SlowWeights>& slow) {
  float* g = parameters.gradients();
  if (!k.all_finite(g, total_)) {
    if (!loss_scaling_) return false;
    loss_scale_ *= 0.5f;
    good_steps_ = 0;
    return true;
  }
  float gradient_scale = 1.0f / loss_scale_;
  if (clip_ > 0) {
    const float norm = std::sqrt(k.dot(g, g, total_)) * gradient_scale;
    if (norm > clip_) gradient_scale *= clip_ / norm;
  }
  const float lr = learning_rate(step);
  if (kind_ == Kind::sgd) {
    weights_are_finite_ = k.sgd(parameters.values(), m_, g, dense_, lr, momentum_, weight_decay_, gradient_scale);
  } else {
    power1_ *= static_cast<double>(beta1_), power2_ *= static_cast<double>(beta2_);
    const float decay = kind_ == Kind::adam ? 0.0f : weight_decay_;
    const AdamStep s = {
        lr, beta1_, beta2_, eps_, decay, bias_correction(power1_), bias_correction(power2_), gradient_scale};
    weights_are_finite_ = adam(parameters, k, s, slow);
  }
  if (dense_ < total_)
    weights_are_finite_ &=
        update_tables(parameters, k, *context_.backend, v_,
                      {lr, eps_, gradient_scale, context_.seed, static_cast<uint32_t>(step)}, tables_);
  if (loss_scaling_ && ++good_steps_ == good_steps_to_double) loss_scale_ *= 2.0f, good_steps_ = 0;
  return true;
}

// fp64 travels as two floats: bit patterns, not values.
static void put(std::vector<float>& out, double v) {
  float parts[2];
  std::memcpy(parts, &v, sizeof v);
  out.insert(out.end(), parts, parts + 2);
}
static double get(const std::vector<float>& in, size_t at) {
  double v;
  std::memcpy(&v, in.data() + at, sizeof v);
  return v;
}

std::vector<float> Optimizer::state() const {
  std::vector<float> out(static_cast<size_t>(2 * total_));
  const auto bytes = static_cast<int64_t>(sizeof(float) * out.size());
  if (context_.device != nullptr)
    context_.device->download(out.data(), m_, bytes);
  else
    std::memcpy(out.data(), m_, static_cast<size_t>(bytes));
  out.resize(out.size() + unused_of_tensor * tensors_);
  put(out, power1_);
  put(out, power2_);
  put(out, 0);
  put(out, good_steps_);
  out.push_back(loss_scale_);
  return out;
}

void Optimizer::restore(const std::vector<float>& state, int step) {
  const size_t moments = static_cast<size_t>(2 * total_);
  if (state.size() != moments + unused_of_tensor * tensors_ + 9)
    throw Error("checkpoint: the optimizer's state has another size");
  if (context_.device != nullptr)
    context_.device->upload(m_, state.data(), static_cast<int64_t>(sizeof(float) * moments));
  else
    std::memcpy(m_, state.data(), sizeof(float) * moments);
  const size_t at = moments + unused_of_tensor * tensors_;
  power1_ = get(state, at), power2_ = get(state, at + 2);
  const double good_steps = get(state, at + 6);
  if (!(good_steps >= 0 && good_steps < good_steps_to_double && good_steps <= step))
    throw Error("checkpoint: the optimizer's counters are not those of step " + std::to_string(step), Error::failed);
  good_steps_ = static_cast<int>(good_steps);
  loss_scale_ = state[at + 8];
}

}  // namespace fp4::sim
