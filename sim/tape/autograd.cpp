// The tape; see autograd.h.
#include "sim/tape/autograd.h"

#include <cstring>

namespace fp4::sim {

Var Tape::variable(Tensor value, bool needs_grad) {
  Var v = new (arena.take<Variable>(1)) Variable;
  v->value = value;
  v->needs_grad = needs_grad;
  return v;
}

float* Tape::new_gradient(Var x) {
  if (x->has_grad || !x->grad) {
    float* fresh = floats.take<float>(x->value.size());
    if (!x->grad) x->grad = fresh;
    return fresh;
  }
  return x->grad;  // memory of a parameter, not yet written in this step
}

void Tape::add_gradient(Var x, float* contribution) {
  if (x->has_grad) {
    k.add(x->grad, contribution, x->value.size());
  } else if (contribution != x->grad) {
    x->grad = contribution;
  }
  x->has_grad = true;
}

void Tape::backward(Var loss, float seed) {
  loss->grad = arena.take<float>(loss->value.size());  // the host's, as the loss
  loss->grad[0] = seed;
  loss->has_grad = true;
  for (Entry* e = last_; e; e = e->previous)
    if (e->result->has_grad) e->call(e->step, *this);
}

void Tape::reset() {
  last_ = nullptr;
  arena.reset();
  if (k.device != nullptr) floats.reset();
  ++generation_;
}

const float* Tape::placed_once(const float* host, int64_t n) {
  if (k.device == nullptr) return host;
  const float*& copy = copies_[host];
  if (copy != nullptr) return copy;
  if (!lasting_) lasting_.emplace(&k.device->memory);
  float* const taken = lasting_->take<float>(n);
  k.device->upload(taken, host, static_cast<int64_t>(sizeof(float)) * n);
  return copy = taken;
}

Tensor Tape::on_host(Tensor t) {
  if (k.device == nullptr) return t;
  const Tensor host = arena.tensor(t.rows, t.cols);
  k.device->download(host.data, t.data, static_cast<int64_t>(sizeof(float)) * t.size());
  return host;
}

void Tape::copy(float* to, const float* from, int64_t n) {
  if (k.device != nullptr) return k.device->copy(to, from, n);
  std::memcpy(to, from, sizeof(float) * static_cast<size_t>(n));
}

void Tape::zero(float* x, int64_t n) {
  if (k.device != nullptr) return k.device->zero(x, n);
  std::memset(x, 0, sizeof(float) * static_cast<size_t>(n));
}

}  // namespace fp4::sim
