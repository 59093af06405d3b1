// Decides: how a training follows another network, the teacher, whose outputs its loss mixes into the labels.
#pragma once

#include <vector>

#include "sim/train/checkpoint.h"
#include "sim/train/task.h"

namespace fp4::sim {

class FollowedNetwork {
 public:
  /// From here on losses follow the network of these weights, by `share` of the loss.
  void follow(std::vector<float> weights, double share, Pass& pass);
  /// Runs the teacher in fp32 on the batch of `step`: what it gives is what the step's loss follows.
  void run(Parameters& parameters, Pass& pass, Tape& tape, Model& model, int step);
  void save(Checkpoint& to) const;

 private:
  Teacher teacher_;
  std::vector<float> weights_, own_;
};

}  // namespace fp4::sim
