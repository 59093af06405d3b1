// The layers of a model, what a step begins and ends with, and what a checkpoint keeps; see quantized_linear.h.
#include <algorithm>

#include "sim/engine/attention_cache.h"
#include "sim/engine/quantized_linear.h"
#include "src/text/error.h"

namespace fp4::sim {

// As the next forward pass will see them, but for the step of its random bits.
static std::vector<float> quantised_weights(const Dispatcher& backend, const Pass& pass, const Layer& layer) {
  Arena arena;
  const MaskedWeights w = masked(arena, layer.sparse, layer.weights.weight);
  QuantizeCall call = {.x = view(w.values), .spec = layer.spec(Gemm::fprop).b.quant, .threads = pass.threads};
  call.place = layer.operands.draws(pass, {0, Gemm::fprop, 1}, Purpose::rounding);
  call.held_amax = layer.operands.held_amax[0][1];
  Quantized q;
  backend.quantize(call, q);
  layer.weights.lean(q);
  std::vector<float> values(static_cast<size_t>(w.values.size()));
  backend.dequantize(q, values.data(), pass.threads);
  return values;
}

LinearEngine::LinearEngine(const TrainingRecipe& recipe, const Dispatcher& backend)
    : recipe_(recipe), backend_{backend}, phases_(recipe_, layers_) {}

int LinearEngine::add(const std::string& name, int in, int out, bool quantisable, double multiply_adds,
                      bool is_product) {
  const int number = static_cast<int>(layers_.size());
  layers_.push_back({name, in, out, quantisable, multiply_adds, is_product, {.layer = number}});
  return number;
}

void LinearEngine::use(const gpu::ResidentBackend* resident) {
  backend_.resident = resident;
  for (Layer& l : layers_) {  // memory of the backend before
    for (Quantized& q : l.operands.scratch) q.resident = nullptr;
    for (ForwardCodes& part : l.parts)
      for (Quantized& q : part) q.resident = nullptr;
  }
}

const GemmSpec* LinearEngine::keeps_for_wgrad(int number) const {
  const Layer& l = layers_[static_cast<size_t>(number)];
  const GemmSpec &f = l.spec(Gemm::fprop), &g = l.spec(Gemm::wgrad);
  const QuantSpec& q = g.b.quant;
  const bool whole = !f.split.any() && !g.split.any() && l.sparse == Sparsity::none && recipe_.phases.empty();
  const bool meets = whole && g.b.source == Source::high_precision && f.a.estimator.is_straight_through();
  const bool held = q.has_tensor_scale() && q.tensor_scale == TensorScale::hold;
  return !l.is_product && meets && !held && format_of(q.element).code_bits() <= 8 ? &g : nullptr;
}

Tensor LinearEngine::multiplied_b(Tape& tape, int product, Tensor x, int part) {
  const Layer& layer = layers_[static_cast<size_t>(product)];
  const LayerProduct& planned = layer.products[0];
  if (layer.treatment == Layer::Treatment::plain || planned.is_plain() || !tape.pass.quantise ||
      planned.spec.split.any() || planned.spec.hadamard.size > 0)
    return {};
  return as_multiplied(backend_.host, tape, layer, {part, Gemm::fprop, 1}, x);
}

void LinearEngine::store_in_cache(Tape& tape, int product, Tensor x, bool by_column, int part) {
  Layer& layer = layers_[static_cast<size_t>(product)];
  if (!attention().stores()) return;
  if (calibrates_) return count_in_cache(layer, x);
  if (tape.pass.quantise && recipe_.quantise)
    sim::store_in_cache(attention(), backend_.host, tape.pass, layer, part, x, by_column);
}

std::vector<SlowWeights> LinearEngine::slow_weights(int step) {
  std::vector<SlowWeights> out;
  if (recipe_.weights.ramp_every == 0) return out;
  for (Layer& l : layers_)
    if (std::vector<SlowWeight>* slow = l.weights.slow_in(step)) out.push_back({l.weights.weight.data, slow});
  return out;
}

void LinearEngine::end_step(const Pass& pass, bool watch, const std::function<void(const TraceRow&)>* trace) {
  const int step = static_cast<int>(pass.step);
  phases_.end_step(step, trace);
  for (Layer& l : layers_) {
    const bool watches = watch && !l.is_product && l.is_quantised() && l.spec(Gemm::fprop).hadamard.size == 0;
    if ((!watches && !l.weights.rules.any()) || l.weights.weight.data == nullptr) continue;
    std::function<void(const char*, double)> traced;
    if (trace != nullptr)
      traced = [&](const char* quantity, double value) { (*trace)({step, l.name, "fprop", "b", quantity, value}); };
    l.weights.after_step(
        step, watches, [&] { return quantised_weights(backend_.host, pass, l); }, traced);
  }
}

std::vector<float> LinearEngine::weight_state() const {
  std::vector<float> out;
  for (const Layer& l : layers_) l.weights.save(out);
  return out;
}

void LinearEngine::restore_weights(const std::vector<float>& state, int step) {
  WeightState from(state);
  for (Layer& l : layers_) l.weights.restore(from, step, int64_t{l.in} * l.out);
  if (!from.is_used_up()) throw Error("checkpoint: the averages of weights belong to another recipe", Error::failed);
}

void LinearEngine::finish_calibration(Tape& tape) {
  calibrates_ = false;
  for (Layer& l : layers_) {
    const std::unique_ptr<InputStatistics> inputs = std::move(l.inputs);
    if (!inputs) continue;
    const Tensor w = l.weights.weight;
    const QuantizeCall fprop = l.call(tape.pass, {0, Gemm::fprop, 1}, view(w));
    l.calibrated = std::make_unique<CalibratedWeights>(inputs->codes_of(w, recipe_.ptq, backend_.host, fprop));
  }
}

std::vector<LayerInfo> LinearEngine::layers() const {
  std::vector<LayerInfo> rows;
  for (const Layer& l : layers_) {
    rows.push_back({l.name, l.in, l.out, l.quantisable, l.multiply_adds, {}});
    for (size_t gemm = 0; gemm < 3; ++gemm) rows.back().precisions[gemm] = precision_of(l.products[gemm].spec);
  }
  return rows;
}

std::vector<float> LinearEngine::state() const {
  std::vector<float> out;
  for (const Layer& l : layers_)
    for (const auto& gemm : l.operands.held_amax)
      if (!l.is_product) out.insert(out.end(), gemm.begin(), gemm.end());
  return out;
}

void LinearEngine::restore(const std::vector<float>& state) {
  const auto count = std::count_if(layers_.begin(), layers_.end(), [](const Layer& l) { return !l.is_product; });
  if (state.size() != static_cast<size_t>(count) * 6)
    throw Error("checkpoint: the held amaxes belong to another model");
  size_t at = 0;
  for (Layer& l : layers_)
    for (auto& gemm : l.operands.held_amax)
      for (float& a : gemm)
        if (!l.is_product) a = state[at++];
}

}  // namespace fp4::sim
