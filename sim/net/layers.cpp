// Parameters and layers; see layers.h.
#include "sim/net/layers.h"

#include <cmath>
#include <cstring>

#include "fp4/rng.h"
#include "sim/engine/quantized_linear.h"
#include "sim/tape/ops.h"

namespace fp4::sim {

int Parameters::declare(std::string name, int rows, int cols, Init init) {
  rows_.push_back({std::move(name), rows, cols, init, total_});
  total_ += (int64_t{rows} * cols + 15) / 16 * 16;
  dense_total_ = total_;
  return count() - 1;
}

int Parameters::declare_table(std::string name, int rows, int cols, Init init, const TableRules& rules) {
  const int64_t dense = dense_total_;
  const int number = declare(std::move(name), rows, cols, init);
  rows_.back().table = rules;
  dense_total_ = dense;
  return number;
}

void Parameters::allocate(const Kernels& k, uint64_t seed) {
  values_ = memory_.tensor(1, static_cast<int>(total_));
  gradients_ = memory_.tensor(1, static_cast<int>(total_));
  std::memset(values_.data, 0, sizeof(float) * static_cast<size_t>(total_));
  std::memset(gradients_.data, 0, sizeof(float) * static_cast<size_t>(total_));
  for (int i = 0; i < count(); ++i) {
    const Init init = rows_[static_cast<size_t>(i)].init;
    const Tensor v = value(i);
    const uint32_t stream = stream_number(static_cast<uint32_t>(i), 0, 0, Purpose::weights);
    if (init.scale != 0.0f) k.normals(v.data, 0, v.size(), seed, stream, 0);
    for (int64_t j = 0; j < v.size(); ++j) v.data[j] = init.constant + init.scale * v.data[j];
  }
}

Tensor Parameters::value(int i) const {
  const Row& r = rows_[static_cast<size_t>(i)];
  return {values_.data + r.offset, r.rows, r.cols};
}

float* Parameters::gradient(int i) const { return gradients_.data + rows_[static_cast<size_t>(i)].offset; }

Var Parameters::variable(Tape& tape, int i) {
  Row& r = rows_[static_cast<size_t>(i)];
  if (r.generation != tape.generation()) {
    r.generation = tape.generation();
    r.variable = tape.variable(value(i), true);
    r.variable->grad = gradient(i);
  }
  return r.variable;
}

void Parameters::place(const Kernels& k) {
  if (k.device == nullptr) return;
  device_ = k.device;
  copy_.assign(values_.data, values_.data + total_);
  memory_ = Arena(&device_->memory);
  values_ = memory_.tensor(1, static_cast<int>(total_));
  gradients_ = memory_.tensor(1, static_cast<int>(total_));
  device_->zero(gradients_.data, total_);
  set_values(copy_.data());
}

float* Parameters::host_values() const {
  if (device_ == nullptr) return values_.data;
  device_->download(copy_.data(), values_.data, static_cast<int64_t>(sizeof(float)) * total_);
  return copy_.data();
}

void Parameters::set_values(const float* host) {
  const int64_t bytes = static_cast<int64_t>(sizeof(float)) * total_;
  if (device_ != nullptr) return device_->upload(values_.data, host, bytes);
  std::memcpy(values_.data, host, static_cast<size_t>(bytes));
}

void Parameters::finish_gradients(Tape& tape) {
  for (int i = 0; i < count(); ++i) {
    const Row& r = rows_[static_cast<size_t>(i)];
    if (r.generation != tape.generation() || !r.variable->has_grad) tape.zero(gradient(i), int64_t{r.rows} * r.cols);
  }
}

Linear::Linear(Builder& build, const std::string& name, Shape shape)
    : parameters_(&build.parameters), engine_(&build.engine) {
  const float scale = shape.gain / std::sqrt(static_cast<float>(shape.in));
  layer_ = engine_->add_layer(name, shape.in, shape.out, shape.quantisable);
  weight_ = parameters_->declare(name + ".weight", shape.out, shape.in, {0.0f, scale});
  if (shape.bias) bias_ = parameters_->declare(name + ".bias", 1, shape.out, {});
}

Var Linear::operator()(Tape& tape, Var x, Activation activation) const {
  Var bias = bias_ < 0 ? nullptr : parameters_->variable(tape, bias_);
  const bool is_fused = bias && activation == Activation::relu;  // one pass over Y for both
  Var y = engine_->forward(tape, layer_, x, parameters_->variable(tape, weight_), bias, is_fused);
  return activation == Activation::relu && !is_fused ? relu(tape, y) : y;
}

SwiGlu::SwiGlu(Builder& build, const std::string& at, int width, int ffn, float gain)
    : gate(build, at + "gate", {.in = width, .out = ffn, .bias = false}),
      up(build, at + "up", {.in = width, .out = ffn, .bias = false}),
      down(build, at + "down", {.in = ffn, .out = width, .gain = gain, .bias = false}) {}

Var SwiGlu::operator()(Tape& tape, Var x) const {
  const Var u = up(tape, x);  // recorded before the gate
  return down(tape, swiglu(tape, gate(tape, x), u));
}

void Linear::rest(Tape& tape) const { engine_->rest(layer_, parameters_->variable(tape, weight_)); }

Embedding::Embedding(Builder& build, const std::string& name, int rows, int width, float scale)
    : parameters_(&build.parameters), name_(name), rows_(rows), width_(width) {
  table_ = parameters_->declare(name, rows, width, {0.0f, scale});
}

void Embedding::add_layer(Builder& build) {
  engine_ = &build.engine;
  layer_ = engine_->add_product(name_, rows_, width_, 0);
}

Var Embedding::operator()(Tape& tape, const int32_t* tokens, int n) const {
  Var table = parameters_->variable(tape, table_);
  if (engine_ == nullptr || !engine_->is_quantised(layer_)) return embedding(tape, tokens, n, table);
  const Tensor one_hot = tape.arena.tensor(n, rows_);
  std::memset(one_hot.data, 0, sizeof(float) * static_cast<size_t>(one_hot.size()));
  for (int i = 0; i < n; ++i) one_hot.row(i)[tokens[i]] = 1.0f;
  return engine_->forward(tape, layer_, tape.constant(one_hot), transposed(tape, table), nullptr);
}

RmsNorm::RmsNorm(Builder& build, const std::string& name, int width) : parameters_(&build.parameters) {
  gain_ = parameters_->declare(name + ".gain", 1, width, {1.0f, 0.0f});
}

}  // namespace fp4::sim
