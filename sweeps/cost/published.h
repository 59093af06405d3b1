// Decides: how the cost model is judged: published measurements beside what the formulas give for the same chip, model
// and recipe. A number that set a parameter of a profile is `fitted` and proves nothing; those held out count.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sweeps/cost/doubt.h"

namespace fp4::cost {

struct PublishedRow {
  enum class Class : uint8_t { fitted, held_out, bound, shown };
  std::string id;        // "gb200_te_nvfp4"
  std::string chip;      // name of the profile
  std::string what;      // what was measured
  std::string unit;      // "x", "share of time", "us/token", "GiB"
  double published = 0;  // for a bound: the largest value the source allows
  double model = 0;
  Class kind = Class::held_out;
  std::optional<CostRange> interval;  // 95 % of the model's draws, of a step and of ratios of steps
  std::string source;
  std::string note;  // where they differ: why

  /// max(model / published, published / model): 1 is exact.
  double factor() const;
  /// held out: inside the interval, or within 1.5 where there is none; bound: not above it; else nothing to meet.
  bool met() const;
};

const char* class_name(PublishedRow::Class kind);

/// All rows of published.json, evaluated with the built-in profiles and models.
std::vector<PublishedRow> published_comparison();

/// A training of a convolutional network on accelerators of a cloud, in fp32 and with an all-reduce of fp32 gradients,
/// as PyTorch's DDP runs it; `images` is the batch of an accelerator.
struct CloudStep {
  double step_s = 0, dollars_per_million_images = 0;
  double interconnect_stall = 0, network_stall = 0;
};
CloudStep cloud_step(const std::string& chip, const std::string& model, int devices, int images);

/// A share of time t costs 1 - 1/(1+t) of throughput; sources quote either.
double throughput_share(double time_share);

}  // namespace fp4::cost
