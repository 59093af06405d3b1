#include "sim/engine/phases.h"

#include <algorithm>

#include "fp4/presets.h"
#include "sim/engine/backend_check.h"
#include "sim/engine/product.h"
#include "sim/rules/split.h"
#include "src/arith/known_words.h"
#include "src/text/named_rows.h"

namespace fp4::sim {

namespace {

// fp32 operands as they are: the plain product.
bool is_plain(const GemmSpec& s) {
  return s.hadamard.size == 0 && !s.split.any() && s.a.quant.element == Element::fp32 && !s.a.quant.has_scale() &&
         s.b.quant.element == Element::fp32 && !s.b.quant.has_scale();
}

const QuantSpec unquantised = {.element = Element::fp32, .scale = Scale::none};

// Hadamards and sources stay: the check that every path gives the plain gradients. Parts of a product make no sense.
void leave_unquantised(fp4::Recipe& r) {
  for (GemmSpec* g : {&r.fprop, &r.dgrad, &r.wgrad}) {
    for (OperandSpec* o : {&g->a, &g->b}) o->quant = unquantised, o->estimator = {};
    g->split = {};
  }
}

void choose_ways(Layer& layer) {
  for (LayerProduct& product : layer.products) {
    const bool is_forward = &product == &layer.products[0];
    product.trained = is_plain(product.spec)                         ? ProductWay::plain
                      : product.spec.split.any()                     ? ProductWay::split
                      : is_forward && layer.sparse != Sparsity::none ? ProductWay::sparse
                                                                     : ProductWay::whole;
    product.judged = is_forward && layer.calls.any() ? ProductWay::called : product.trained;
  }
}

// What cannot be in a layer whose products are known.
void check(const Layer& l, const TrainingRecipe& recipe) {
  const WeightRules& rules = l.weights.rules;
  const GemmSpec& f = l.spec(Gemm::fprop);
  if (rules.any() && f.hadamard.size > 0)
    throw Error("weights: " + l.name + ": averages and resets need an fprop without a Hadamard");
  if (rules.decay > 0 && !keeps_b_whole(f.split))
    throw Error("weights: " + l.name + ": averages need an fprop whose weights are one part: split none or clamp");
  if (l.calls.any() && f.split.any())
    throw Error("calls: " + l.name + ": a product of several parts is not called apart; accepted: split none");
  check_sparsity(l, recipe);
  for (const LayerProduct& product : l.products)
    for (const QuantSpec* q : {&product.spec.a.quant, &product.spec.b.quant})
      if (l.is_product && q->has_tensor_scale() && q->tensor_scale == TensorScale::hold)
        throw Error("layers: " + l.name +
                    ": tensor_scale hold needs one product a step; accepted: none, current, outer128");
}

std::string reason_against_device(const GemmSpec& s) {
  if (s.split.any()) return std::string("split ") + row_of(split_table, s.split.kind).name;
  for (const OperandSpec* o : {&s.a, &s.b}) {
    if (!is_known(o->quant)) return "no kernels for " + unknown_words(o->quant);
    if (o->quant.ragged == Ragged::refuse) return "ragged=refuse";
  }
  return is_known(s.hadamard) && is_known(s.accumulator) ? "" : "a Hadamard or an adder without kernels";
}

std::string reason_against_device(const Layer& layer) {
  if (layer.treatment == Layer::Treatment::plain) return "";
  const GemmSpec &f = layer.spec(Gemm::fprop), &d = layer.spec(Gemm::dgrad), &g = layer.spec(Gemm::wgrad);
  if (f.hadamard.size > 0 && (d.b.source == Source::fprop_quantised || g.b.source == Source::fprop_quantised))
    return "source fprop_quantised under a Hadamard";
  if (!f.a.estimator.is_straight_through() || !f.b.estimator.is_straight_through()) return "estimator other than ste";
  if (layer.is_product) return "a product that only a rule quantises";
  if (layer.sparse != Sparsity::none) return std::string("sparse ") + row_of(sparsity_table, layer.sparse).name;
  for (const GemmSpec* s : {&f, &d, &g})
    if (const std::string own = reason_against_device(*s); !own.empty()) return own;
  return "";
}

}  // namespace

std::string precision_of(const GemmSpec& s) {
  const std::string a = info_of(s.a.quant.element).name;
  const std::string b = info_of(s.b.quant.element).name;
  const std::string both = a == b ? a : a + " x " + b;
  if (*row_of(split_table, s.split.kind).high == 0) return both;
  return both + " + " + info_of(s.split.high.element).name;
}

Phases::Phases(const TrainingRecipe& recipe, std::vector<Layer>& layers) : recipe_(recipe), layers_(layers) {
  const Preset* bf16 = find_preset("bf16");
  for (GemmSpec* g : {&skipped_.fprop, &skipped_.dgrad, &skipped_.wgrad}) g->a.quant = g->b.quant = bf16->spec;
}

void Phases::finish(const Dispatcher& backend) {
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
    l.treatment = quantised ? Layer::Treatment::quantised : Layer::Treatment::skipped;
  }
  std::vector<LayerPlace> places;
  for (Layer& l : layers_) {
    places.push_back(place_of(l));
    if (is_ruled(recipe_, places.back())) l.treatment = Layer::Treatment::quantised;
  }
  check_rules(recipe_, places, "recipe layers");
  // Words about products that rules quantise where there are any, `optional`, say nothing of other models.
  const bool may_lack =
      !recipe_.attention.stores() && std::any_of(recipe_.rules.begin(), recipe_.rules.end(), [](const LayerRule& r) {
        return r.optional && r.by == LayerRule::By::kind && (r.word == "qk" || r.word == "pv");
      });
  has_attention_ = std::any_of(layers_.begin(), layers_.end(),
                               [](const Layer& l) { return l.is_product && l.name.ends_with(".qk"); });
  if (recipe_.attention.any() && !may_lack && !has_attention_)
    throw Error("recipe attn: the model has no attention; accepted for: lm");
  std::vector<std::string> known;
  for (const Layer* l : candidates) known.push_back(l->name);
  for (const std::string& name : p.names) accepted_index("recipe layers", name, known);
  // Every kind of product in every phase, before any work; the first phase last.
  std::vector<GemmSpec> tried;
  const std::string whose = recipe_.name.empty() ? "" : "recipe " + recipe_.name + ": ";
  for (int phase = static_cast<int>(recipe_.phases.size()) - 1; phase >= first(); --phase) {
    plan(phase);
    for (const Layer& l : layers_)
      for (size_t gemm = 0; gemm < l.products.size(); ++gemm) {
        const LayerProduct& product = l.products[gemm];
        if (product.is_plain() || std::find(tried.begin(), tried.end(), product.spec) != tried.end()) continue;
        require_kernels(backend, product.spec, whose + l.name + ", " + product_words[gemm]);
        tried.push_back(product.spec);
      }
  }
}

// The products of every layer in a phase. What a rule alone makes quantisable starts from fp32.
void Phases::plan(int phase) {
  earlier_ = products();
  phase_ = phase;
  fp4::Recipe plain;
  for (GemmSpec* g : {&plain.fprop, &plain.dgrad, &plain.wgrad}) g->a.quant = g->b.quant = unquantised;
  for (Layer& l : layers_) {
    fp4::Recipe r = l.treatment == Layer::Treatment::plain ? plain : skipped_;
    if (l.is_quantised()) {
      r = products_at(recipe_, l.quantisable ? static_cast<const fp4::Recipe&>(recipe_) : plain, place_of(l), phase);
      if (!recipe_.quantise) leave_unquantised(r);
    }
    l.sparse = !l.is_quantised() || !recipe_.quantise
                   ? Sparsity::none
                   : sparsity_at(recipe_, l.quantisable ? recipe_.sparse : Sparsity::none, place_of(l), phase);
    l.products = {LayerProduct{r.fprop}, LayerProduct{r.dgrad}, LayerProduct{r.wgrad}};
    if (!l.is_product) l.calls = recipe_.calls;
    if (!l.is_product && l.is_quantised()) l.weights.rules = recipe_.weights;
    choose_ways(l);
    check(l, recipe_);
  }
}

std::string Phases::reason_against_device() {
  if (recipe_.weights.any()) return "weights: averages and resets of weights";
  if (recipe_.ptq.any()) return "ptq";
  if (recipe_.calls.any()) return "calls";
  if (recipe_.attention.any() && has_attention_) return "attn";
  for (const Phase& phase : recipe_.phases)
    if (phase.when > 0) return "phases: when";
  std::string reason;
  const int phases = static_cast<int>(recipe_.phases.size()), now = phase_;
  for (int phase = first(); phase < phases; ++phase) {
    plan(phase);
    for (const Layer& l : layers_)
      if (const std::string own = reason.empty() ? sim::reason_against_device(l) : ""; !own.empty())
        reason = l.name + ": " + own;
  }
  plan(now);
  return reason;
}

void Phases::begin_step(int step, int steps) {
  const int phase = recipe_.phases.empty() ? -1 : std::max(phase_of(recipe_, step, steps), turned);
  if (phase != phase_) plan(phase);
  const auto next = static_cast<size_t>(phase + 1);
  noise.begin(phase >= 0 && next < recipe_.phases.size() && recipe_.phases[next].when > 0 && step % 10 == 1);
}

void Phases::end_step(int step, const std::function<void(const TraceRow&)>* trace) {
  const std::optional<double> ratio = noise.ratio();
  if (!ratio) return;
  if (*ratio < recipe_.phases[static_cast<size_t>(phase_ + 1)].when) turned = phase_ + 1;
  if (trace != nullptr) (*trace)({step, "all", "wgrad", "", "gradient_noise_ratio", *ratio});
}

std::array<PrecisionCounts, 3> Phases::products() const {
  std::array<PrecisionCounts, 3> counts = earlier_;
  for (const Layer& l : layers_)
    for (size_t gemm = 0; gemm < counts.size(); ++gemm) {
      const LayerProduct& p = l.products[gemm];
      if (p.count == 0) continue;
      counts[gemm][precision_of(p.spec)] += p.count;
    }
  return counts;
}

}  // namespace fp4::sim
