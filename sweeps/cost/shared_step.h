// Decides: how accelerators share a step, and what that moves. A replica is a pipeline of stages, each of which splits
// its layers over a tensor group; replicas share the batch. Tensor groups lie within a node, then replicas, then
// stages.
// How much of a transfer hides behind computation: a pass goes through its layers one after the other; what a
// layer needs first (gathered weights) and what it leaves (its gradient) travels on links that carry one message at a
// time. Two layers of 4 s whose gradients take 3 s each: the first gradient leaves at 4 s and is there at 7, the second
// leaves at 8 and is there at 11, so the pass takes 11 s, 3 of them a stall.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

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

/// Seconds that a message occupies the links of a node and then the network.
struct Message {
  double link_s = 0, network_s = 0;
};

struct LayerPass {
  double compute_s = 0;
  Message before;  // must have arrived when the layer starts; asked for when the layer before it starts
  Message after;   // leaves when the layer is done
};

/// Seconds from the first request until the last layer is done and the last message has arrived. Without a network only
/// the links of the node cost time.
double pass_seconds(const std::vector<LayerPass>& layers, bool with_network);

/// The computation alone, and all messages one after the other.
double compute_seconds(const std::vector<LayerPass>& layers);
double message_seconds(const std::vector<LayerPass>& layers, bool with_network);

/// Seconds that the messages add to the computation when `overlap` of what such a schedule can hide is hidden: 1 the
/// schedule above, 0 nothing.
double exposed_seconds(const std::vector<LayerPass>& layers, bool with_network, double overlap);

}  // namespace fp4::cost
