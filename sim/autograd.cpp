// The tape; see autograd.h.
#include "sim/autograd.h"

namespace fp4::sim {

Var Tape::variable(Tensor value, bool needs_grad) {
  Var v = new (arena.take<Variable>(1)) Variable;
  v->value = value;
  v->needs_grad = needs_grad;
  return v;
}

float* Tape::new_gradient(Var x) {
  if (x->has_grad || !x->grad) {
    float* fresh = arena.take<float>(x->value.size());
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
  loss->grad = arena.take<float>(loss->value.size());
  loss->grad[0] = seed;
  loss->has_grad = true;
  for (Entry* e = last_; e; e = e->previous)
    if (e->result->has_grad) e->call(e->step, *this);
}

void Tape::reset() {
  last_ = nullptr;
  arena.reset();
  ++generation_;
}

}  // namespace fp4::sim
