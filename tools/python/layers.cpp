#include "tools/python/layers.h"

#include <limits>

#include "sim/recipe.h"
#include "src/error.h"
#include "tools/python/module.h"

namespace fp4::python {
namespace {

sim::Json recipe_json(const std::string& words) {
  return words.starts_with('{') ? parse_json<sim::Json>(words, "recipe") : sim::Json(words);
}

Recipe recipe_of(const std::string& words) {
  const Recipe recipe = sim::recipe_from_json(recipe_json(words));
  if (const std::string reason = sim::invalid_reason(recipe); !reason.empty()) throw Error("recipe: " + reason);
  return recipe;
}

// A row-major [rows, cols] operand; 0 rows: any number.
Operand matrix_of(const py::object& given, const char* name, int64_t rows, int64_t cols) {
  Operand o = operand_of(given, name);
  if (o.view.cols != cols || (rows > 0 && o.view.rows != rows) || o.view.rows > std::numeric_limits<int>::max())
    throw Error(std::string(name) + ": is " + shape_text(o.shape) + ", the layer needs " +
                (rows > 0 ? std::to_string(rows) : "N") + " x " + std::to_string(cols));
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

Layers::Layers(const std::string& recipe, const std::vector<Shape>& shapes, uint64_t seed, const std::string& backend)
    : shapes_(shapes),
      seed_(seed),
      backend_(backend),
      kernels_(sim::kernels(backend_.name())),
      engine_(recipe_of(recipe), backend_),
      latest_(shapes.size(), nullptr) {
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
    for (sim::Var v : {vx_, vw_, vb_})
      if (v != nullptr) v->grad = nullptr, v->has_grad = false;
    vy_->grad = tensor_of(dy).data;
    vy_->has_grad = true;
    tape_.backward(tape_.variable(1, 1, false));
  });
  return py::make_tuple(view(vx_, vx_->grad), view(vw_, vw_->grad), view(vb_, vb_ != nullptr ? vb_->grad : nullptr));
}

void bind_layers(py::module_& m) {
  py::class_<LayerCall, std::shared_ptr<LayerCall>>(m, "LayerCall")
      .def("value", &LayerCall::value)
      .def("backward", &LayerCall::backward);
  py::class_<Layers, std::shared_ptr<Layers>>(m, "Layers")
      .def(py::init([](const std::string& recipe, const std::vector<std::tuple<std::string, int, int, bool>>& rows,
                       uint64_t seed, const std::string& backend) {
        std::vector<Layers::Shape> shapes;
        for (const auto& [name, in, out, quantisable] : rows) shapes.push_back({name, in, out, quantisable});
        return std::make_shared<Layers>(recipe, shapes, seed, backend);
      }))
      .def("forward", &Layers::forward)
      .def("quantised", &Layers::quantised)
      .def("state", &Layers::state)
      .def("restore", &Layers::restore);
}

}  // namespace fp4::python
