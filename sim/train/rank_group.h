// Decides: what the processes of one training tell each other in a step: losses, gradients, held maxima, whether to go
// on. Of one rank each answer is its own.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sim/train/gradients.h"
#include "src/text/json_reader.h"

namespace fp4::sim {

class RankGroup {
 public:
  /// `ranks` null: one rank. Throws Error where a batch cannot be shared evenly.
  RankGroup(Ranks* ranks, const Wire& wire, int batch);
  /// Before the first gradients.
  void join(const Dispatcher& backend, const Kernels& kernels, uint64_t seed);

  int count() const { return count_; }
  int rank() const { return rank_; }
  bool is_alone() const { return count_ == 1; }

  /// The mean of the ranks' losses, added in rank order.
  float mean_loss(float mine) const;
  /// Whether all go on: a signal to any rank ends all of them after the same step.
  bool agreed(bool go_on) const;
  /// Replaces `total` gradients, which lie on `device` unless it is null, by their mean over the ranks.
  void average(const DeviceKernels* device, float* gradients, int64_t total, uint32_t step, int threads);
  int64_t bytes_sent() const { return mean_ ? mean_->bytes_sent() : 0; }
  /// Each number becomes the largest of all ranks.
  void share_largest(std::vector<float>& mine) const;
  /// Before the first step. Throws Error, on all ranks the same, where one has another configuration or another aim.
  void check_alike(const Json& config, uint64_t seed, int step, int stop_at) const;
  /// Throws Error where a rank ended with another digest.
  void compare(const std::string& digest) const;
  /// Adds what a checkpoint of several ranks belongs to: their number and the wire.
  void describe(Json& config) const;

 private:
  Ranks* ranks_;
  Wire wire_;
  int count_, rank_;
  std::optional<GradientMean> mean_;
  std::vector<float> host_;  // the device's gradients
};

}  // namespace fp4::sim
