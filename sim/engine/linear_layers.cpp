// Which layers follow the recipe, what ran in which precision, and what a checkpoint keeps; see quantized_linear.h.
#include <algorithm>

#include "fp4/presets.h"
#include "sim/engine/backend_check.h"
#include "sim/engine/quantized_linear.h"
#include "src/arith/known_words.h"
#include "src/text/error.h"

namespace fp4::sim {

namespace {

bool is_unscaled(const QuantSpec& q) { return !q.has_scale(); }

// fp32 operands as they are: the plain product.
bool is_plain(const GemmSpec& s) {
  return s.hadamard.size == 0 && !s.split.any() && s.a.quant.element == Element::fp32 && is_unscaled(s.a.quant) &&
         s.b.quant.element == Element::fp32 && is_unscaled(s.b.quant);
}

QuantSpec unquantised() {
  QuantSpec s = {.element = Element::fp32, .scale = Scale::none};
  return s;
}

// Hadamards and sources stay: the check that every path gives the plain gradients. Parts of a product make no sense.
void leave_unquantised(fp4::Recipe& r) {
  for (GemmSpec* g : {&r.fprop, &r.dgrad, &r.wgrad}) {
    for (OperandSpec* o : {&g->a, &g->b}) o->quant = unquantised(), o->estimator = {};
    g->split = {};
  }
}

std::string precision_of(const GemmSpec& s) {
  const std::string a = info_of(s.a.quant.element).name;
  const std::string b = info_of(s.b.quant.element).name;
  const std::string both = a == b ? a : a + " x " + b;
  if (*row_of(split_table, s.split.kind).high == 0) return both;
  return both + " + " + info_of(s.split.high.element).name;
}

}  // namespace

LinearEngine::LinearEngine(const Recipe& recipe, const Dispatcher& backend) : recipe_(recipe), backend_(backend) {
  const Preset* bf16 = find_preset("bf16");
  for (GemmSpec* g : {&skipped_.fprop, &skipped_.dgrad, &skipped_.wgrad}) g->a.quant = g->b.quant = bf16->spec;
}

int LinearEngine::add_layer(const std::string& name, int in, int out, bool quantisable) {
  Layer layer;
  layer.name = name, layer.in = in, layer.out = out, layer.quantisable = quantisable;
  layer.multiply_adds = static_cast<double>(in) * out;
  layers_.push_back(std::move(layer));
  return static_cast<int>(layers_.size()) - 1;
}

int LinearEngine::add_product(const std::string& name, int in, int out, double multiply_adds) {
  const int number = add_layer(name, in, out, false);
  layers_.back().multiply_adds = multiply_adds;
  layers_.back().is_product = true;
  return number;
}

LinearEngine::Layer::Operands& LinearEngine::Layer::at(int part) {
  while (parts.size() <= static_cast<size_t>(part)) parts.push_back(std::make_unique<Operands>());
  return *parts[static_cast<size_t>(part)];
}

void LinearEngine::finish() {
  std::vector<Layer*> candidates;
  for (Layer& l : layers_)
    if (l.quantisable) candidates.push_back(&l);
  const LayerPolicy& p = recipe_.layers;
  const int n = static_cast<int>(candidates.size());
  quantisable_ = n;
  const int left_out = layers_at_end(p.amount, n);
  for (int i = 0; i < n; ++i) {
    Layer& l = *candidates[static_cast<size_t>(i)];
    const bool named = std::find(p.names.begin(), p.names.end(), l.name) != p.names.end();
    bool quantised = true;
    switch (p.kind) {
      case LayerPolicy::Kind::all: break;
      case LayerPolicy::Kind::skip_first: quantised = i >= left_out; break;
      case LayerPolicy::Kind::skip_last: quantised = i < n - left_out; break;
      case LayerPolicy::Kind::names: quantised = named; break;
    }
    l.position = i;
    l.treatment = quantised ? Treatment::quantised : Treatment::skipped;
  }
  std::vector<LayerPlace> places;
  for (Layer& l : layers_) {
    places.push_back(place_of(l));
    if (is_ruled(recipe_, places.back())) l.treatment = Treatment::quantised;
  }
  check_rules(recipe_, places, "recipe layers");
  // Words about products that rules quantise where there are any, `optional`, say nothing of other models.
  const bool may_lack =
      !recipe_.attention.stores() && std::any_of(recipe_.rules.begin(), recipe_.rules.end(), [](const LayerRule& r) {
        return r.optional && r.by == LayerRule::By::kind && (r.word == "qk" || r.word == "pv");
      });
  if (recipe_.attention.any() && !may_lack && !has_attention())
    throw Error("recipe attn: the model has no attention; accepted for: lm");
  for (const std::string& name : p.names) {
    std::vector<std::string> known;
    for (const Layer* l : candidates) known.push_back(l->name);
    if (std::find(known.begin(), known.end(), name) == known.end()) throw unknown_word("recipe layers", name, known);
  }
  // Every kind of product in every phase, before any work; the first phase last.
  std::vector<GemmSpec> tried;
  const int phases = static_cast<int>(recipe_.phases.size()), first = phases == 0 ? -1 : 0;
  const std::string whose = recipe_.name.empty() ? "" : "recipe " + recipe_.name + ": ";
  for (int phase = phases - 1; phase >= first; --phase) {
    plan(phase);
    for (const Layer& l : layers_)
      for (size_t gemm = 0; gemm < l.products.size(); ++gemm) {
        const Product& product = l.products[gemm];
        if (product.is_plain || std::find(tried.begin(), tried.end(), product.spec) != tried.end()) continue;
        require_kernels(backend_, product.spec, whose + l.name + ", " + gemm_names[gemm]);
        tried.push_back(product.spec);
      }
  }
}

void LinearEngine::use(const gpu::ResidentBackend* resident) {
  resident_ = resident;
  for (Layer& l : layers_) {  // memory of the backend before
    l.scratch.resident = l.scratch_b.resident = nullptr;
    for (const auto& part : l.parts)
      if (part) part->x.resident = part->w.resident = part->w_transposed.resident = nullptr;
  }
}

const GemmSpec* LinearEngine::keeps_for_wgrad(int number) const {
  const Layer& l = layers_[static_cast<size_t>(number)];
  const GemmSpec &f = spec(l, Gemm::fprop), &g = spec(l, Gemm::wgrad);
  const QuantSpec& q = g.b.quant;
  const bool whole = !f.split.any() && !g.split.any() && l.sparse == Sparsity::none && recipe_.phases.empty();
  const bool meets = whole && g.b.source == Source::high_precision && f.a.estimator.is_straight_through();
  const bool held = q.has_tensor_scale() && q.tensor_scale == TensorScale::hold;
  return !l.is_product && meets && !held && format_of(q.element).code_bits() <= 8 ? &g : nullptr;
}

bool LinearEngine::has_attention() const {
  return std::any_of(layers_.begin(), layers_.end(),
                     [](const Layer& l) { return l.is_product && l.name.ends_with(".qk"); });
}

LayerPlace LinearEngine::place_of(const Layer& layer) const { return {layer.name, layer.position, quantisable_}; }

void LinearEngine::choose_ways(Layer& layer) const {
  for (Product& product : layer.products) {
    const bool is_forward = &product == &layer.products[0];
    product.is_plain = is_plain(product.spec);
    product.trained = product.is_plain                               ? &LinearEngine::plain_product
                      : product.spec.split.any()                     ? &LinearEngine::split_product
                      : is_forward && layer.sparse != Sparsity::none ? &LinearEngine::sparse_product
                                                                     : &LinearEngine::whole_product;
    product.judged = is_forward && calls_apart(layer) ? &LinearEngine::called_product : product.trained;
  }
}

// The products of every layer in a phase. What a rule alone makes quantisable starts from fp32.
void LinearEngine::plan(int phase) {
  earlier_ = products();
  phase_ = phase;
  fp4::Recipe plain;
  for (GemmSpec* g : {&plain.fprop, &plain.dgrad, &plain.wgrad}) g->a.quant = g->b.quant = unquantised();
  for (Layer& l : layers_) {
    fp4::Recipe r = l.treatment == Treatment::plain ? plain : skipped_;
    if (l.treatment == Treatment::quantised) {
      r = products_at(recipe_, l.quantisable ? static_cast<const fp4::Recipe&>(recipe_) : plain, place_of(l), phase);
      if (!recipe_.quantise) leave_unquantised(r);
    }
    l.sparse = l.treatment != Treatment::quantised || !recipe_.quantise
                   ? Sparsity::none
                   : sparsity_at(recipe_, l.quantisable ? recipe_.sparse : Sparsity::none, place_of(l), phase);
    l.products = {Product{r.fprop}, Product{r.dgrad}, Product{r.wgrad}};
    choose_ways(l);
    const WeightRules& rules = weight_rules(l);
    if (rules.any() && r.fprop.hadamard.size > 0)
      throw Error("weights: " + l.name + ": averages and resets need an fprop without a Hadamard");
    if (rules.decay > 0 && !keeps_b_whole(r.fprop.split))
      throw Error("weights: " + l.name + ": averages need an fprop whose weights are one part: split none or clamp");
    if (recipe_.calls.any() && !l.is_product && r.fprop.split.any())
      throw Error("calls: " + l.name + ": a product of several parts is not called apart; accepted: split none");
    check_sparsity(l);
    for (const Product& product : l.products) {
      for (const QuantSpec* q : {&product.spec.a.quant, &product.spec.b.quant})
        if (l.is_product && q->has_tensor_scale() && q->tensor_scale == TensorScale::hold)
          throw Error("layers: " + l.name +
                      ": tensor_scale hold needs one product a step; accepted: none, current, "
                      "outer128");
    }
  }
}

std::string LinearEngine::reason_against_device() {
  if (recipe_.weights.any()) return "weights: averages and resets of weights";
  if (recipe_.ptq.any()) return "ptq";
  if (recipe_.calls.any()) return "calls";
  if (recipe_.attention.any() && has_attention()) return "attn";
  for (const Phase& phase : recipe_.phases)
    if (phase.when > 0) return "phases: when";
  const auto against = [](const GemmSpec& s) -> std::string {
    if (s.split.any()) return std::string("split ") + row_of(split_table, s.split.kind).name;
    for (const OperandSpec* o : {&s.a, &s.b}) {
      if (!is_known(o->quant)) return "no kernels for " + unknown_words(o->quant);
      if (o->quant.ragged == Ragged::refuse) return "ragged=refuse";
    }
    return is_known(s.hadamard) && is_known(s.accumulator) ? "" : "a Hadamard or an adder without kernels";
  };
  std::string reason;
  const int phases = static_cast<int>(recipe_.phases.size()), now = phase_;
  for (int phase = phases == 0 ? -1 : 0; phase < std::max(phases, 0); ++phase) {
    plan(phase);
    for (const Layer& l : layers_) {
      if (l.treatment == Treatment::plain || !reason.empty()) continue;
      if (l.sparse != Sparsity::none) reason = l.name + ": sparse " + row_of(sparsity_table, l.sparse).name;
      if (l.is_product) reason = l.name + ": a product that only a rule quantises";
      const GemmSpec &f = spec(l, Gemm::fprop), &d = spec(l, Gemm::dgrad), &g = spec(l, Gemm::wgrad);
      if (!f.a.estimator.is_straight_through() || !f.b.estimator.is_straight_through())
        reason = l.name + ": estimator other than ste";
      if (f.hadamard.size > 0 && (d.b.source == Source::fprop_quantised || g.b.source == Source::fprop_quantised))
        reason = l.name + ": source fprop_quantised under a Hadamard";
      for (const GemmSpec* s : {&f, &d, &g})
        if (const std::string own = against(*s); reason.empty() && !own.empty()) reason = l.name + ": " + own;
    }
  }
  plan(now);
  return reason;
}

void LinearEngine::begin_step(int step, int steps) {
  const int phase = recipe_.phases.empty() ? -1 : std::max(phase_of(recipe_, step, steps), turned_);
  if (phase != phase_) plan(phase);
  const auto next = static_cast<size_t>(phase + 1);
  noise_.begin(phase >= 0 && next < recipe_.phases.size() && recipe_.phases[next].when > 0 && step % 10 == 1);
}

const WeightRules& LinearEngine::weight_rules(const Layer& layer) const {
  static const WeightRules none;
  return !layer.is_product && layer.treatment == Treatment::quantised ? recipe_.weights : none;
}

// As the next forward pass will see them, but for the step of its random bits.
std::vector<float> LinearEngine::quantised_weights(const Pass& pass, const Layer& layer, int number) const {
  Arena arena;
  const Masked w = masked(arena, layer, layer.weights.weight);
  QuantizeCall call;
  call.x = view(w.values);
  call.spec = spec(layer, Gemm::fprop).b.quant;
  call.place = random_place(pass, {number, 0}, Gemm::fprop, 1, Purpose::rounding);
  call.held_amax = layer.held_amax[0][1];
  call.threads = pass.threads;
  Quantized q;
  backend_.quantize(call, q);
  layer.weights.lean(q);
  std::vector<float> values(static_cast<size_t>(w.values.size()));
  backend_.dequantize(q, values.data(), pass.threads);
  return values;
}

std::vector<SlowWeights> LinearEngine::slow_weights(int step) {
  std::vector<SlowWeights> out;
  if (recipe_.weights.ramp_every == 0) return out;
  for (Layer& l : layers_)
    if (std::vector<SlowWeight>* slow = l.weights.slow_in(step, recipe_.weights))
      out.push_back({l.weights.weight.data, slow});
  return out;
}

void LinearEngine::end_step(const Pass& pass, bool watch, const std::function<void(const TraceRow&)>* trace) {
  const int step = static_cast<int>(pass.step);
  if (const std::optional<double> ratio = noise_.ratio()) {
    if (*ratio < recipe_.phases[static_cast<size_t>(phase_ + 1)].when) turned_ = phase_ + 1;
    if (trace != nullptr) (*trace)({step, "all", "wgrad", "", "gradient_noise_ratio", *ratio});
  }
  for (size_t number = 0; number < layers_.size(); ++number) {
    Layer& l = layers_[number];
    const bool watches =
        watch && !l.is_product && l.treatment == Treatment::quantised && spec(l, Gemm::fprop).hadamard.size == 0;
    const WeightRules& rules = weight_rules(l);
    if ((!watches && !rules.any()) || l.weights.weight.data == nullptr) continue;
    std::function<void(const char*, double)> traced;
    if (trace != nullptr)
      traced = [&](const char* quantity, double value) { (*trace)({step, l.name, "fprop", "b", quantity, value}); };
    l.weights.after_step(
        step, rules, watches, [&] { return quantised_weights(pass, l, static_cast<int>(number)); }, traced);
  }
}

std::vector<float> LinearEngine::weight_state() const {
  std::vector<float> out;
  for (const Layer& l : layers_) l.weights.save(out, weight_rules(l));
  return out;
}

void LinearEngine::restore_weights(const std::vector<float>& state, int step) {
  WeightState from(state);
  for (Layer& l : layers_) l.weights.restore(from, weight_rules(l), step, int64_t{l.in} * l.out);
  if (!from.is_used_up()) throw Error("checkpoint: the averages of weights belong to another recipe", Error::failed);
}

void LinearEngine::finish_calibration(Tape& tape) {
  calibrates_ = false;
  for (size_t number = 0; number < layers_.size(); ++number) {
    Layer& l = layers_[number];
    const std::unique_ptr<InputStatistics> inputs = std::move(l.inputs);
    if (!inputs) continue;
    const Tensor w = l.weights.weight;
    const QuantizeCall fprop = call_of(tape, l, {static_cast<int>(number), 0}, Gemm::fprop, 1, view(w));
    l.calibrated = std::make_unique<CalibratedWeights>(inputs->codes_of(w, recipe_.ptq, backend_, fprop));
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

std::array<PrecisionCounts, 3> LinearEngine::products() const {
  std::array<PrecisionCounts, 3> counts = earlier_;
  for (const Layer& l : layers_) {
    for (size_t gemm = 0; gemm < counts.size(); ++gemm) {
      const Product& p = l.products[gemm];
      if (p.count == 0) continue;
      counts[gemm][precision_of(p.spec)] += p.count;
    }
  }
  return counts;
}

std::vector<float> LinearEngine::state() const {
  std::vector<float> out;
  for (const Layer& l : layers_)
    for (const auto& gemm : l.held_amax)
      if (!l.is_product) out.insert(out.end(), gemm.begin(), gemm.end());
  return out;
}

void LinearEngine::restore(const std::vector<float>& state) {
  const auto count = std::count_if(layers_.begin(), layers_.end(), [](const Layer& l) { return !l.is_product; });
  if (state.size() != static_cast<size_t>(count) * 6)
    throw Error("checkpoint: the held amaxes belong to another model");
  size_t at = 0;
  for (Layer& l : layers_)
    for (auto& gemm : l.held_amax)
      for (float& a : gemm)
        if (!l.is_product) a = state[at++];
}

}  // namespace fp4::sim
