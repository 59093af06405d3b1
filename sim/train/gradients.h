// Decides: how the gradients of several ranks become one. The buffer, as [count * rows, 1024] padded with zeros, is
// coded in the wire's format; each rank decodes its `rows` of every rank, adds them in fp32 in rank order, divides by
// the count, codes the mean and sends it to all (a reduce-scatter, then a gather: 2 (count-1)/count buffers a rank).
// What arrives depends on the gradients, the wire and the number of ranks alone, never on who was first.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sim/kernels/train_kernels.h"
#include "sim/train/ranks.h"
#include "src/backends/backends.h"
#include "src/text/json_reader.h"

namespace fp4::sim {

/// What a gradient is coded as on its way: any spec whose blocks lie in one row (`fp32` travels as it is), after a
/// Hadamard of `hadamard` elements with signs of the step (0: none).
struct Wire {
  QuantSpec spec;
  int hadamard = 0;
};

/// Why gradients cannot travel like this; empty when they can.
std::string invalid_reason(const Wire& wire);
/// `preset` or `preset,key=value,..` (src/arith/spec_text.h). Throws Error for a wire that cannot be.
Wire wire_from_words(const std::string& words, int hadamard);

class GradientMean {
 public:
  GradientMean(const Wire& wire, Ranks& ranks, const Dispatcher& backend, const Kernels& kernels, uint64_t seed);
  /// Replaces `total` gradients by the mean over ranks, the same bits on all of them. Where a rank's are not all
  /// finite, neither is the mean.
  void operator()(float* gradients, int64_t total, uint32_t step, int threads);
  /// Bytes that this rank sent so far.
  int64_t bytes_sent() const { return sent_; }

 private:
  RandomPlace place(int rank, int leg, uint32_t step) const;
  void code(const float* x, int64_t rows, RandomPlace place, int threads);
  int64_t message_bytes(int64_t rows) const;
  uint8_t* pack(int64_t first, int64_t rows, bool finite, uint8_t* to) const;
  bool unpack(const uint8_t* from, int64_t rows, RandomPlace place, int threads, float* x);

  Wire wire_;
  Ranks& ranks_;
  const Dispatcher& backend_;
  const Kernels& kernels_;
  uint64_t seed_;
  int64_t sent_ = 0;
  Quantized coded_, part_;
  std::vector<float> padded_, decoded_, sum_;
  std::vector<uint8_t> out_, in_;
};

/// What the processes of one training tell each other in a step: losses, gradients, held maxima, whether to go
/// on. Of one rank each answer is its own.
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
