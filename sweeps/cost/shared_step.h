// Decides: how accelerators share a step, and what that moves. A replica is a pipeline of stages, each of which splits
// its layers over a tensor group; replicas share the batch. Tensor groups lie within a node, then replicas, then
// stages.
#pragma once

#include <cstdint>
#include <span>

#include "sweeps/cost/overlap.h"
#include "sweeps/cost/workload.h"

namespace fp4::cost {

/// What replicas share out instead of keeping a copy each.
enum class Sharding : uint8_t {
  none,       // all-reduce of gradients in the backward pass
  optimizer,  // reduce-scatter of gradients in the backward pass, gather of new weights in the next forward pass
              // (ZeRO-1)
  full        // and every micro-batch gathers weights forward and backward, and reduce-scatters (ZeRO-3, FSDP)
};

struct ShardingRow {
  const char* name;
  const char* doc;
};
std::span<const ShardingRow> sharding_table();

/// The format in which gradients travel; not `quantised`: weights.gradient_bytes and no coding.
struct Wire {
  OperandFacts format;
  HadamardFacts hadamard;
};

struct Parallel {
  int tensor = 1, pipeline = 1;
  int interleave = 1;  // parts of the model that each stage holds in turn (virtual stages)
  Sharding sharding = Sharding::optimizer;
  Wire wire;
  // Tokens a second that the input of one accelerator prepares and fetches; 0: as fast as needed.
  double prepare_per_s = 0, fetch_per_s = 0;
  int replica() const { return tensor * pipeline; }
};

}  // namespace fp4::cost
