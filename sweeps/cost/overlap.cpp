// Messages queue in the order in which they are asked for: weights of layer i + 1 when layer i starts, the gradient of
// layer i when it is done. Links of a node and the network are two queues, so one message may be on each.
#include "sweeps/cost/overlap.h"

#include <algorithm>

namespace fp4::cost {

namespace {

class Wires {
 public:
  explicit Wires(bool with_network) : with_network_(with_network) {}
  /// When a message that is ready at `ready` has arrived.
  double send(const Message& message, double ready) {
    double arrives = ready;
    if (message.link_s > 0) arrives = link_free_ = std::max(link_free_, arrives) + message.link_s;
    if (with_network_ && message.network_s > 0)
      arrives = network_free_ = std::max(network_free_, arrives) + message.network_s;
    return arrives;
  }

 private:
  bool with_network_;
  double link_free_ = 0, network_free_ = 0;
};

}  // namespace

double pass_seconds(const std::vector<LayerPass>& layers, bool with_network) {
  if (layers.empty()) return 0;
  Wires wires(with_network);
  double done = 0, last = 0;
  double arrives = wires.send(layers.front().before, 0);
  for (size_t i = 0; i < layers.size(); ++i) {
    const double starts = std::max(done, arrives);
    if (i + 1 < layers.size()) arrives = wires.send(layers[i + 1].before, starts);
    done = starts + layers[i].compute_s;
    last = std::max(last, wires.send(layers[i].after, done));
  }
  return std::max(done, last);
}

double compute_seconds(const std::vector<LayerPass>& layers) {
  double total = 0;
  for (const LayerPass& layer : layers) total += layer.compute_s;
  return total;
}

double message_seconds(const std::vector<LayerPass>& layers, bool with_network) {
  double total = 0;
  for (const LayerPass& layer : layers) {
    total += layer.before.link_s + layer.after.link_s;
    if (with_network) total += layer.before.network_s + layer.after.network_s;
  }
  return total;
}

double exposed_seconds(const std::vector<LayerPass>& layers, bool with_network, double overlap) {
  const double scheduled = pass_seconds(layers, with_network) - compute_seconds(layers);
  return overlap * scheduled + (1 - overlap) * message_seconds(layers, with_network);
}

}  // namespace fp4::cost
