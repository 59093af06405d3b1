#include "tools/python/bound_layers.h"

#include <algorithm>
#include <limits>

#include "sim/rules/recipe.h"
#include "sim/tape/ops.h"
#include "src/text/error.h"

namespace fp4::python {
namespace {

sim::Recipe recipe_of(const std::string& words) {
  const sim::Json given = words.starts_with('{') ? parse_json<sim::Json>(words, "recipe") : sim::Json(words);
  const sim::Recipe recipe = sim::recipe_from_json(given);
  if (const std::string reason = sim::invalid_reason(recipe); !reason.empty()) throw Error("recipe: " + reason);
  return recipe;
}

// A row-major [rows, cols] operand; 0: any number of rows, or of columns.
Operand matrix_of(const Arguments& given, const char* name, int64_t rows, int64_t cols) {
  const Operand o = operand_of(given, name);
  if ((cols > 0 && o.view.cols != cols) || (rows > 0 && o.view.rows != rows) ||
      o.view.rows > std::numeric_limits<int>::max())
    throw Error(std::string(name) + ": is " + shape_text(o.shape) + "; accepted: " +
                (rows > 0 ? std::to_string(rows) : "N") + " x " + (cols > 0 ? std::to_string(cols) : "K"));
  return o;
}

// The trainer's tensors are not const; operands are only read.
sim::Tensor tensor_of(const MatrixView& v, int part, int parts) {
  const auto rows = static_cast<int>(v.rows) / parts;
  return {const_cast<float*>(v.data) + int64_t{part} * rows * v.cols, rows, static_cast<int>(v.cols)};
}

}  // namespace

Layers::Layers(const std::string& recipe, const std::vector<Row>& rows, const std::string& backend, int steps)
    : recipe_(recipe_of(recipe)),
      rows_(rows),
      steps_(steps),
      backend_(backend),
      kernels_(sim::kernels(backend_.name())),
      engine_(recipe_, backend_),
      latest_(rows.size(), nullptr) {
  if (!recipe_.phases.empty() && steps_ == 0)
    throw Error("steps: the recipe has phases; accepted: the number of steps of the training");
  for (const sim::Phase& phase : recipe_.phases)
    if (phase.when > 0) throw Error("phases: `when` needs the trainer, which ends steps; accepted: until");
  for (const Row& r : rows) {
    if (r.product)
      engine_.add_product(r.name, r.in, r.out, 0);
    else
      engine_.add_layer(r.name, r.in, r.out, r.quantisable);
  }
  engine_.finish();
}

sim::Arena Layers::take_arena() {
  const std::lock_guard lock(mutex_);
  if (free_.empty()) return sim::Arena{};
  sim::Arena arena = std::move(free_.back());
  free_.pop_back();
  arena.reset();
  return arena;
}

void Layers::give_back(sim::Arena arena) {
  const std::lock_guard lock(mutex_);
  if (free_.size() < 2 * rows_.size()) free_.push_back(std::move(arena));
}

std::vector<float> Layers::state() {
  const std::lock_guard lock(mutex_);
  return engine_.state();
}

void Layers::restore(const std::vector<float>& state) {
  const std::lock_guard lock(mutex_);
  engine_.restore(state);
}

std::shared_ptr<LayerCall> Layers::forward(int number, const Operand& x, const Operand& w, const Operand& bias,
                                           const How& how) {
  return std::make_shared<LayerCall>(shared_from_this(), number, x, w, bias, how);
}

LayerCall::LayerCall(std::shared_ptr<Layers> layers, int number, const Operand& x, const Operand& w,
                     const Operand& bias, const Layers::How& how)
    : layers_(std::move(layers)),
      number_(number),
      x_(x),
      w_(w),
      bias_(bias),
      how_(how),
      arena_(layers_->take_arena()),
      tape_(arena_, layers_->kernels_, how_.pass) {
  run();
}

LayerCall::~LayerCall() { layers_->give_back(std::move(arena_)); }

void LayerCall::run() {
  const std::lock_guard lock(layers_->mutex_);
  layers_->begin(how_.pass.step);
  for (int i = 0; i < how_.parts; ++i) {
    Part p = {tape_.variable(tensor_of(x_.view, i, how_.parts), how_.needs_input),
              tape_.variable(tensor_of(w_.view, i, how_.parts), true), nullptr, nullptr};
    if (bias_.view.data != nullptr) p.bias = tape_.variable(tensor_of(bias_.view, 0, 1), true);
    p.y = layers_->engine_.forward(tape_, number_, p.x, p.w, p.bias, false, i);
    parts_.push_back(p);
  }
  layers_->latest_[static_cast<size_t>(number_)] = this;
}

Json LayerCall::joined(sim::Var Part::*variable, bool gradient, std::vector<float>& gathered) {
  const auto data = [&](const Part& p) -> float* {
    const sim::Var v = p.*variable;
    return v == nullptr ? nullptr : gradient ? v->grad : v->value.data;
  };
  if (data(parts_[0]) == nullptr) return {};
  const sim::Tensor& one = (parts_[0].*variable)->value;
  const auto count = static_cast<uint64_t>(parts_.size());
  const float* from = data(parts_[0]);
  if (count > 1) {
    gathered.clear();
    for (const Part& p : parts_) gathered.insert(gathered.end(), data(p), data(p) + one.size());
    from = gathered.data();
  }
  return array_of(Dtype::f32, {count * static_cast<uint64_t>(one.rows), static_cast<uint64_t>(one.cols)}, from,
                  shared_from_this(), true);
}

Json LayerCall::value() { return joined(&Part::y, false, y_); }

Json LayerCall::backward(const Operand& dy) {
  if (!how_.records) throw Error("backward: this forward pass kept nothing for it");
  if (!how_.pass.training) {  // evaluation: operands as training meets them, and no held scale changes
    Layers::How training = how_;
    training.pass.training = true;
    const std::vector<float> held = layers_->state();
    Json out = std::make_shared<LayerCall>(layers_, number_, x_, w_, bias_, training)->backward(dy);
    layers_->restore(held);
    return out;
  }
  // The engine keeps quantised operands of a layer's last call: an earlier one computes them again, bit for bit.
  if (layers_->latest_[static_cast<size_t>(number_)] != this)
    return std::make_shared<LayerCall>(layers_, number_, x_, w_, bias_, how_)->backward(dy);
  {
    const std::lock_guard lock(layers_->mutex_);
    layers_->begin(how_.pass.step);
    for (int i = 0; i < how_.parts; ++i) {
      const Part& p = parts_[static_cast<size_t>(i)];
      for (sim::Var v : {p.x, p.w, p.bias})
        if (v != nullptr) v->grad = nullptr, v->has_grad = false;
      p.y->grad = tensor_of(dy.view, i, how_.parts).data;
      p.y->has_grad = true;
    }
    tape_.backward(tape_.variable(1, 1, false));
  }
  return {{"x", joined(&Part::x, true, dx_)},
          {"weight", joined(&Part::w, true, dw_)},
          {"bias", joined(&Part::bias, true, dbias_)}};
}

namespace {

Json make(const Arguments& given) {
  std::vector<Layers::Row> rows;
  for (const Json& r : given.json("rows"))
    rows.push_back({r[0].get<std::string>(), r[1].get<int>(), r[2].get<int>(), r[3].get<bool>(), r[4].get<bool>()});
  return handle_of(std::make_shared<Layers>(given.text("recipe"), rows, given.backend(), given.get<int>("steps")));
}

// Whether each layer follows the recipe, and the words of its three products; what else the recipe asks of a trainer.
Json layer_facts(const Arguments& given) {
  const auto layers = given.object<Layers>("layers");
  Json rows = Json::array();
  const std::vector<sim::LayerInfo> infos = layers->engine().layers();
  for (size_t i = 0; i < infos.size(); ++i)
    rows.push_back({layers->engine().is_quantised(static_cast<int>(i)), infos[i].precisions});
  Json notes = Json::array();
  const sim::Json recipe = sim::to_json(layers->recipe());
  if (layers->recipe().weights.any()) notes.push_back("weights: averages and resets of weights are the trainer's");
  for (const char* field : {"optimizer", "states", "ptq", "muon", "attn"})
    if (const auto at = recipe.find(field); at != recipe.end() && !at->empty() && *at != sim::Json(""))
      notes.push_back(std::string(field) + ": is the trainer's");
  return {{"recipe", recipe}, {"rows", rows}, {"notes", notes}};
}

Json forward(const Arguments& given) {
  const auto layers = given.object<Layers>("layers");
  const int number = given.get<int>("number"), parts = given.get<int>("parts");
  const auto in = given.get<int64_t>("in"), out = given.get<int64_t>("out");  // 0: as the operands are
  Layers::How how;
  how.pass.seed = given.get<uint64_t>("seed");
  how.pass.step = given.get<uint32_t>("step");
  how.records = given.get<bool>("records");
  how.pass.training = given.get<bool>("training");
  how.pass.threads = given.threads();
  how.needs_input = given.get<bool>("needs_input");
  how.parts = parts;
  const Operand x = matrix_of(given, "x", 0, in);
  const Operand w = matrix_of(given, "weight", out * parts, x.view.cols);
  const auto call = layers->forward(
      number, x, w, given.has("bias") ? matrix_of(given, "bias", 1, w.view.rows / parts) : Operand{}, how);
  Json value = call->value();
  return {{"value", std::move(value)}, {"call", how.records ? handle_of(call) : Json()}};
}

Json backward(const Arguments& given) {
  return given.object<LayerCall>("call")->backward(operand_of(given, "gradient"));
}

// Mean loss of logits [N, classes], and its gradient, by the trainer's own exponentials and sums.
Json cross_entropy(const Arguments& given) {
  const auto labels = given.get<std::vector<int32_t>>("labels");
  const Operand logits =
      matrix_of(given, "logits", static_cast<int64_t>(labels.size()), operand_of(given, "logits").view.cols);
  const int classes = static_cast<int>(logits.view.cols);
  for (const int32_t label : labels)
    if (label < 0 || label >= classes)
      throw Error("labels: " + std::to_string(label) + " is out of range; accepted: 0 .. " +
                  std::to_string(classes - 1));
  sim::Arena arena;
  sim::Pass pass;
  sim::Tape tape(arena, sim::kernels(), pass);
  const sim::Var v = tape.variable(tensor_of(logits.view, 0, 1), true);
  const sim::Var mean = sim::cross_entropy(tape, v, labels.data(), nullptr);
  tape.backward(mean);
  return {{"loss", mean->value.data[0]},
          {"gradient", array_of(Dtype::f32, logits.shape, std::vector<float>(v->grad, v->grad + v->value.size()))}};
}

}  // namespace

const std::vector<Function>& layer_functions() {
  static const std::vector<Function> table = {
      {"layers", &make},
      {"layers_facts", &layer_facts},
      {"layers_state", [](const Arguments& given) { return Json(given.object<Layers>("layers")->state()); }},
      {"layers_restore",
       [](const Arguments& given) {
         given.object<Layers>("layers")->restore(given.get<std::vector<float>>("state"));
         return Json();
       }},
      {"layer_forward", &forward},
      {"layer_backward", &backward},
      {"cross_entropy", &cross_entropy},
  };
  return table;
}

}  // namespace fp4::python
