#include "sim/train/teacher.h"

#include <algorithm>

namespace fp4::sim {

void FollowedNetwork::follow(std::vector<float> weights, double share, Pass& pass) {
  weights_ = std::move(weights);
  teacher_.share = static_cast<float>(share);
  pass.teacher = &teacher_;
}

void FollowedNetwork::run(Parameters& parameters, Pass& pass, Tape& tape, Model& model, int step) {
  if (pass.teacher == nullptr) return;
  own_.assign(parameters.values(), parameters.values() + parameters.total());
  std::copy(weights_.begin(), weights_.end(), parameters.values());
  pass.training = pass.quantise = false;
  teacher_.records = true;
  tape.reset();
  model.training_loss(tape, step);
  teacher_.records = false;
  pass.training = pass.quantise = true;
  std::copy(own_.begin(), own_.end(), parameters.values());
}

void FollowedNetwork::save(Checkpoint& to) const {
  if (!weights_.empty()) to.teacher = weights_, to.distil = static_cast<double>(teacher_.share);
}

}  // namespace fp4::sim
