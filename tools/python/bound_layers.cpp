#include "tools/python/bound_layers.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <optional>

#include "sim/rules/recipe.h"
#include "sim/tape/ops.h"
#include "sim/train/device_training.h"
#include "src/text/error.h"
#include "tools/python/kept_operand.h"

namespace fp4::python {
namespace {

sim::TrainingRecipe recipe_of(const std::string& words) {
  const sim::Json given = words.starts_with('{') ? parse_json<sim::Json>(words, "recipe") : sim::Json(words);
  const sim::TrainingRecipe recipe = sim::recipe_from_json(given);
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

// Part i of matrices [rows, cols] one behind the other.
sim::Tensor part_of(float* data, int i, int rows, int cols) {
  return {data == nullptr ? nullptr : data + int64_t{i} * rows * cols, rows, cols};
}

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
  for (int i = 0; i < static_cast<int>(infos.size()); ++i)
    rows.push_back({layers->engine().is_quantised(i), infos[static_cast<size_t>(i)].precisions, layers->kept_bytes(i)});
  Json notes = Json::array();
  const sim::Json recipe = sim::to_json(layers->recipe());
  if (layers->recipe().weights.any()) notes.push_back("weights: averages and resets of weights are the trainer's");
  for (const char* field : {"optimizer", "ptq", "attn"})
    if (const auto at = recipe.find(field); at != recipe.end() && !at->empty() && *at != sim::Json(""))
      notes.push_back(std::string(field) + ": is the trainer's");
  return {{"recipe", recipe}, {"rows", rows}, {"notes", notes}, {"against_device", layers->against_device()}};
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
  const sim::Var v = tape.variable({const_cast<float*>(logits.view.data), static_cast<int>(logits.view.rows), classes},
                                   true);  // is only read
  const sim::Var mean = sim::cross_entropy(tape, v, labels.data(), nullptr);
  tape.backward(mean);
  return {{"loss", array_of(Dtype::f32, {1}, std::vector<float>{mean->value.data[0]})},
          {"gradient", array_of(Dtype::f32, logits.shape, std::vector<float>(v->grad, v->grad + v->value.size()))}};
}

}  // namespace

Layers::Layers(const std::string& recipe, const std::vector<Row>& rows, const std::string& backend, int steps)
    : recipe_(recipe_of(recipe)),
      rows_(rows),
      steps_(steps),
      backend_(backend),
      kernels_(sim::kernels(backend_.name())),
      engine_(recipe_, backend_),
      latest_(rows.size(), 0) {
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
  against_device_ = engine_.reason_against_device();
}

std::vector<float> Layers::state() {
  const std::lock_guard lock(mutex_);
  return engine_.state();
}

void Layers::restore(const std::vector<float>& state) {
  const std::lock_guard lock(mutex_);
  engine_.restore(state);
}

void Layers::run(LinearCall& c) {
  const std::lock_guard lock(mutex_);
  const bool is_backward = c.dy != nullptr;
  sim::Pass pass;
  pass.seed = c.seed, pass.step = c.step, pass.training = c.training != 0 || is_backward;
  pass.threads = thread_count(c.threads);
  if (steps_ > 0) engine_.begin_step(static_cast<int>(c.step), steps_);
  // The gradient of an evaluation: operands as training meets them, and no held scale changes.
  const std::vector<float> held = is_backward && c.training == 0 ? engine_.state() : std::vector<float>();
  if (c.lender == nullptr) {
    engine_.use(nullptr);
    arena_.reset();
    sim::Tape tape(arena_, kernels_, pass);
    run(tape, c, nullptr);
  } else {
    if (!against_device_.empty()) throw Error("gpu: " + recipe_.name + ": " + against_device_, Error::failed);
    const std::unique_ptr<gpu::Device> device = gpu::make_lent_device(*c.lender);
    sim::DeviceScope scope(*device);
    for (int bit = 0; const float* matrix : {c.x, c.w, c.bias, c.y, c.dy, c.dx, c.dw, c.db})
      if ((c.bf16 >> bit++ & 1) != 0) scope.pool().bf16.push_back(matrix);
    const auto leave = [](sim::LinearEngine* engine) { engine->use(nullptr); };  // before what lies on the device goes
    const std::unique_ptr<sim::LinearEngine, decltype(leave)> here(&engine_, leave);
    engine_.use(&scope.backend());
    sim::Arena host, floats(&sim::device::table.device->memory);
    sim::Tape tape(host, floats, sim::device::table, pass);
    run(tape, c, device.get());
  }
  if (!held.empty()) engine_.restore(held);
}

Json Layers::kept_bytes(int number) const {
  const GemmSpec* const wgrad = engine_.keeps_for_wgrad(number);
  if (wgrad == nullptr) return {};
  const QuantSpec& q = wgrad->b.quant;
  const int64_t run = std::lcm(std::lcm(128, std::max(q.block.size, 1)), std::max(wgrad->hadamard.size, 1));
  const int64_t in = rows_[static_cast<size_t>(number)].in;
  const int64_t one = KeptOperand(q, in, run).bytes(), each = KeptOperand(q, in, 2 * run).bytes() - one;
  return {one - each, run, each};
}

void Layers::run(sim::Tape& tape, LinearCall& c, gpu::Device* device) {
  const bool is_backward = c.dy != nullptr;
  uint64_t& latest = latest_[static_cast<size_t>(c.number)];
  const bool is_latest = is_backward && c.training != 0 && latest == c.pass;
  if (!is_backward) c.pass = ++passes_;
  Quantized of_wgrad;
  std::optional<KeptOperand> kept;
  if (c.kept != nullptr) {
    const GemmSpec& wgrad = *engine_.keeps_for_wgrad(c.number);
    kept.emplace(wgrad.b.quant, c.in, hadamard_padded(wgrad.hadamard, c.rows));
  }
  if (kept && is_backward) of_wgrad = kept->load(c.kept, device != nullptr);
  for (int i = 0; i < c.parts; ++i) {
    const auto given = [&](float* data, float* gradient, int rows, int cols) {
      const sim::Var v = tape.variable(part_of(data, i, rows, cols), gradient != nullptr || !is_backward);
      v->grad = part_of(gradient, i, rows, cols).data;
      return v;
    };
    const sim::Var x = given(c.x, c.dx, c.rows, c.in), w = given(c.w, c.dw, c.out, c.in);
    const sim::Var bias = c.bias == nullptr ? nullptr : given(c.bias, c.db, 1, c.out);
    const sim::Var y =
        engine_.forward(tape, c.number, x, w, bias, false, i,
                        {part_of(c.y, i, c.rows, c.out).data, is_backward, is_latest, kept ? &of_wgrad : nullptr});
    if (is_backward) y->grad = part_of(c.dy, i, c.rows, c.out).data, y->has_grad = true;
  }
  if (kept && !is_backward) kept->save(of_wgrad, c.kept, device);
  latest = device == nullptr && (is_backward || c.training != 0) ? c.pass : 0;
  if (is_backward) tape.backward(tape.variable(1, 1, false));
}

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
      {"cross_entropy", &cross_entropy},
  };
  return table;
}

}  // namespace fp4::python
