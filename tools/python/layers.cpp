#include "tools/python/layers.h"

#include <algorithm>
#include <limits>

#include "sim/ops.h"
#include "sim/recipe.h"
#include "src/error.h"
#include "tools/python/module.h"

namespace fp4::python {
namespace {

sim::Json recipe_json(const std::string& words) {
  return words.starts_with('{') ? parse_json<sim::Json>(words, "recipe") : sim::Json(words);
}

sim::Recipe recipe_of(const std::string& words) {
  const sim::Recipe recipe = sim::recipe_from_json(recipe_json(words));
  if (const std::string reason = sim::invalid_reason(recipe); !reason.empty()) throw Error("recipe: " + reason);
  return recipe;
}

// A row-major [rows, cols] operand; 0 rows: any number.
Operand matrix_of(const py::object& given, const char* name, int64_t rows, int64_t cols) {
  Operand o = operand_of(given, name);
  if (o.view.cols != cols || (rows > 0 && o.view.rows != rows) || o.view.rows > std::numeric_limits<int>::max())
    throw Error(std::string(name) + ": is " + shape_text(o.shape) +
                "; accepted: " + (rows > 0 ? std::to_string(rows) : "N") + " x " + std::to_string(cols));
  if ((cols > 1 && o.view.col_stride != 1) || (o.view.rows > 1 && o.view.row_stride != cols)) {
    o.owner = o.owner.attr("copy")("C");
    o.view = view_of(static_cast<const float*>(o.owner.data()), o.view.rows, cols);
  }
  return o;
}

// The trainer's tensors are not const; operands are only read.
sim::Tensor tensor_of(const Operand& o) {
  return {const_cast<float*>(o.view.data), static_cast<int>(o.view.rows), static_cast<int>(o.view.cols)};
}

}  // namespace

Layers::Layers(const std::string& recipe, const std::vector<Shape>& shapes, uint64_t seed, const std::string& backend,
               int steps)
    : recipe_(recipe_of(recipe)),
      shapes_(shapes),
      seed_(seed),
      backend_word_(backend),
      steps_(steps),
      backend_(backend),
      kernels_(sim::kernels(backend_.name())),
      engine_(recipe_, backend_),
      latest_(shapes.size(), nullptr) {
  if (!recipe_.phases.empty() && steps_ == 0)
    throw Error("steps: the recipe has phases; accepted: the number of steps of the training");
  for (const sim::Phase& phase : recipe_.phases)
    if (phase.when > 0) throw Error("phases: `when` needs the trainer, which ends steps; accepted: until");
  for (const Shape& s : shapes) engine_.add_layer(s.name, s.in, s.out, s.quantisable);
  engine_.finish();
}

sim::Arena Layers::take_arena() {
  const std::lock_guard lock(mutex_);
  if (free_.empty()) return {};
  sim::Arena arena = std::move(free_.back());
  free_.pop_back();
  arena.reset();
  return arena;
}

void Layers::give_back(sim::Arena arena) {
  const std::lock_guard lock(mutex_);
  if (free_.size() < 2 * shapes_.size()) free_.push_back(std::move(arena));
}

std::vector<float> Layers::state() {
  const std::lock_guard lock(mutex_);
  return engine_.state();
}

void Layers::restore(const std::vector<float>& state) {
  const std::lock_guard lock(mutex_);
  engine_.restore(state);
}

py::tuple Layers::pickled() {
  py::list rows;
  for (const Shape& s : shapes_) rows.append(py::make_tuple(s.name, s.in, s.out, s.quantisable));
  return py::make_tuple(sim::to_json(recipe_).dump(), rows, seed_, backend_word_, steps_, state());
}

std::shared_ptr<Layers> Layers::unpickled(const py::tuple& t) {
  std::vector<Shape> shapes;
  for (const auto& [name, in, out, quantisable] : t[1].cast<std::vector<std::tuple<std::string, int, int, bool>>>())
    shapes.push_back({name, in, out, quantisable});
  const auto layers = std::make_shared<Layers>(t[0].cast<std::string>(), shapes, t[2].cast<uint64_t>(),
                                               t[3].cast<std::string>(), t[4].cast<int>());
  if (t.size() > 5) layers->restore(t[5].cast<std::vector<float>>());
  return layers;
}

std::shared_ptr<LayerCall> Layers::forward(int number, const py::object& x, const py::object& w, const py::object& bias,
                                           uint32_t step, bool training, bool needs_input_gradient, int threads) {
  const Shape& shape = shapes_.at(static_cast<size_t>(number));
  sim::Pass pass;
  pass.seed = seed_;
  pass.step = step;
  pass.training = training;
  pass.threads = thread_count(threads);
  return std::make_shared<LayerCall>(
      shared_from_this(), number, matrix_of(x, "x", 0, shape.in), matrix_of(w, "weight", shape.out, shape.in),
      bias.is_none() ? Operand{} : matrix_of(bias, "bias", 1, shape.out), pass, needs_input_gradient);
}

LayerCall::LayerCall(std::shared_ptr<Layers> layers, int number, Operand x, Operand w, Operand bias,
                     const sim::Pass& pass, bool needs_input_gradient)
    : layers_(std::move(layers)),
      number_(number),
      x_(std::move(x)),
      w_(std::move(w)),
      bias_(std::move(bias)),
      needs_input_gradient_(needs_input_gradient),
      arena_(layers_->take_arena()),
      pass_(pass),
      tape_(arena_, layers_->kernels_, pass_) {
  compute([&] { run(); });
}

LayerCall::~LayerCall() { layers_->give_back(std::move(arena_)); }

void LayerCall::run() {
  const std::lock_guard lock(layers_->mutex_);
  layers_->begin(pass_.step);
  vx_ = tape_.variable(tensor_of(x_), needs_input_gradient_);
  vw_ = tape_.variable(tensor_of(w_), true);
  if (bias_.view.data != nullptr) vb_ = tape_.variable(tensor_of(bias_), true);
  vy_ = layers_->engine_.forward(tape_, number_, vx_, vw_, vb_);
  layers_->latest_[static_cast<size_t>(number_)] = this;
}

py::object LayerCall::view(const sim::Var& variable, const float* data) {
  if (variable == nullptr || data == nullptr) return py::none();
  const std::vector<py::ssize_t> shape = {variable->value.rows, variable->value.cols};
  return py::array_t<float>(shape, data, py::cast(shared_from_this()));
}

py::array LayerCall::value() { return view(vy_, vy_->value.data); }

py::tuple LayerCall::backward(const py::object& given) {
  if (!pass_.training) throw Error("backward: this forward pass was not one of training");
  // The engine keeps quantised operands of a layer's last call: an earlier one computes them again, bit for bit.
  if (layers_->latest_[static_cast<size_t>(number_)] != this) {
    const auto again = std::make_shared<LayerCall>(layers_, number_, x_, w_, bias_, pass_, needs_input_gradient_);
    return again->backward(given);
  }
  const Operand dy = matrix_of(given, "gradient", x_.view.rows, vy_->value.cols);
  compute([&] {
    const std::lock_guard lock(layers_->mutex_);
    layers_->begin(pass_.step);
    for (sim::Var v : {vx_, vw_, vb_})
      if (v != nullptr) v->grad = nullptr, v->has_grad = false;
    vy_->grad = tensor_of(dy).data;
    vy_->has_grad = true;
    tape_.backward(tape_.variable(1, 1, false));
  });
  return py::make_tuple(view(vx_, vx_->grad), view(vw_, vw_->grad), view(vb_, vb_ != nullptr ? vb_->grad : nullptr));
}

namespace {

// Mean loss of logits [N, classes], and its gradient, by the trainer's own exponentials and sums.
py::tuple cross_entropy(const py::object& given, const std::vector<int32_t>& labels) {
  const Operand logits =
      matrix_of(given, "logits", static_cast<int64_t>(labels.size()), operand_of(given, "logits").view.cols);
  const int classes = static_cast<int>(logits.view.cols);
  for (const int32_t label : labels)
    if (label < 0 || label >= classes)
      throw Error("labels: " + std::to_string(label) + " is out of range; accepted: 0 .. " +
                  std::to_string(classes - 1));
  py::array_t<float> gradient({static_cast<py::ssize_t>(labels.size()), static_cast<py::ssize_t>(classes)});
  float *to = gradient.mutable_data(), loss = 0;
  compute([&] {
    sim::Arena arena;
    sim::Pass pass;
    sim::Tape tape(arena, sim::kernels(), pass);
    const sim::Var v = tape.variable(tensor_of(logits), true);
    const sim::Var mean = sim::cross_entropy(tape, v, labels.data(), nullptr);
    tape.backward(mean);
    loss = mean->value.data[0];
    std::copy_n(v->grad, gradient.size(), to);
  });
  return py::make_tuple(loss, gradient);
}

}  // namespace

void bind_layers(py::module_& m) {
  py::class_<LayerCall, std::shared_ptr<LayerCall>>(m, "LayerCall")
      .def("value", &LayerCall::value)
      .def("backward", &LayerCall::backward);
  py::class_<Layers, std::shared_ptr<Layers>>(m, "Layers")
      .def(py::init([](const std::string& recipe, const py::list& rows, uint64_t seed, const std::string& backend,
                       int steps) { return Layers::unpickled(py::make_tuple(recipe, rows, seed, backend, steps)); }))
      .def(py::pickle([](Layers& layers) { return layers.pickled(); }, &Layers::unpickled))
      .def("forward", &Layers::forward)
      .def("quantised", &Layers::quantised)
      .def("state", &Layers::state)
      .def("restore", &Layers::restore);
  m.def("cross_entropy", &cross_entropy);
}

}  // namespace fp4::python
