// Decides: how much of a transfer hides behind computation. A pass goes through its layers one after the other; what a
// layer needs first (gathered weights) and what it leaves (its gradient) travels on links that carry one message at a
// time. Two layers of 4 s whose gradients take 3 s each: the first gradient leaves at 4 s and is there at 7, the second
// leaves at 8 and is there at 11, so the pass takes 11 s, 3 of them a stall.
#pragma once

#include <vector>

namespace fp4::cost {

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
