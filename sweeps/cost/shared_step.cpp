// The formulas of a shared step. Half a ring collective (reduce-scatter or gather) of b bytes over n members takes
// (n-1)/n b / bandwidth; an all-reduce is two halves. Between nodes each accelerator carries its share of what its node
// reduced before. Messages cost the start of a collective, and min(n-1, log2 n rounded up) steps of a half.
#include "sweeps/cost/shared_step.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <cmath>

#include "src/text/error.h"
#include "sweeps/cost/cost.h"

namespace fp4::cost {

namespace {

const ShardingRow shardings[] = {
    {"none", "every replica keeps all of it: all-reduce of gradients"},
    {"optimizer", "replicas share optimizer state, master weights and gradients (ZeRO-1, ZeRO-2)"},
    {"full", "and the weights, gathered in every pass of a micro-batch (ZeRO-3, FSDP)"}};

// Of a pass, in the order of the forward pass.
struct Unit {
  double forward_s = 0, backward_s = 0, parameters = 0;
};

// Embeddings, every GEMM of every block, the head. Seconds are shared out by multiply-adds; attention and norms go with
// their block.
std::vector<Unit> units_of(const Model& model, double forward_s, double backward_s, double shared) {
  std::vector<Unit> units = {{0, 0, static_cast<double>(model.extra_parameters)}};
  double multiply_adds = 0;
  const auto add = [&](const Linear& linear) {
    const double weights = static_cast<double>(linear.in * linear.width_out());
    const double work = weights * static_cast<double>(linear.uses());
    units.push_back({work, work, weights * static_cast<double>(linear.experts)});
    multiply_adds += work;
  };
  for (int64_t block = 0; block < model.blocks; ++block)
    for (const Linear& linear : model.linears) add(linear);
  for (const UnquantisedLinear& row : model.unquantised) add(row.linear);
  for (Unit& unit : units) {
    unit.forward_s *= forward_s / multiply_adds;
    unit.backward_s *= backward_s / multiply_adds;
    unit.parameters /= shared;
  }
  return units;
}

class Links {
 public:
  Links(const Hardware& hardware, const CostWeights& weights, int replicas, int tensor)
      : weights_(weights),
        link_(hardware.link_bandwidth
                  ? hardware.link_bandwidth->value / (hardware.link_shared ? hardware.link_shared->value : 1)
                  : 0),
        network_(hardware.network_bandwidth ? hardware.network_bandwidth->value : 0),
        local_(std::min(replicas, std::max(1, hardware.node_size / tensor))),
        nodes_((replicas + local_ - 1) / local_) {}

  int nodes() const { return nodes_; }
  /// Half a collective over all replicas.
  Message half(double bytes) const {
    if (bytes == 0) return {};
    return {half(bytes, local_, link_, weights_.link_hop_s),
            half(bytes / local_, nodes_, network_, weights_.network_hop_s)};
  }
  double tensor_all_reduce(double bytes, int members) const {
    return 2 * half(bytes, members, link_, weights_.link_hop_s);
  }
  double send(double bytes, bool over_network) const {
    const double bandwidth = over_network ? network_ : link_;
    if (bandwidth == 0) return 0;
    return weights_.collective_s + (over_network ? weights_.network_hop_s : weights_.link_hop_s) + bytes / bandwidth;
  }

 private:
  double half(double bytes, int members, double bandwidth, double hop_s) const {
    if (members <= 1 || bandwidth == 0) return 0;
    const int steps = std::min(members - 1, static_cast<int>(std::bit_width(static_cast<unsigned>(members - 1))));
    return weights_.collective_s + steps * hop_s + bytes * (members - 1) / members / bandwidth;
  }
  const CostWeights& weights_;
  double link_, network_;
  int local_, nodes_;
};

// Neighbours whose gradients together stay within a bucket leave as one message.
std::vector<Unit> buckets(const std::vector<Unit>& units, double bytes_of, double bucket_bytes) {
  std::vector<Unit> out;
  for (const Unit& unit : units) {
    if (!out.empty() && (out.back().parameters + unit.parameters) * bytes_of <= bucket_bytes) {
      out.back().forward_s += unit.forward_s;
      out.back().backward_s += unit.backward_s;
      out.back().parameters += unit.parameters;
    } else {
      out.push_back(unit);
    }
  }
  return out;
}

// Each accelerator codes its gradient, decodes the parts it sums, codes its part of the mean and decodes the whole.
double coding_seconds(const Wire& wire, double parameters, double replicas, const Chip& chip,
                      const CostOptions& options) {
  if (!wire.format.quantised || replicas <= 1) return 0;
  const CostWeights& w = options.weights;
  const Copy copy{&wire.format, wire.hadamard, false};
  const QuantiseOptions how{&w, HadamardKernel::fused};
  const Technique all = static_cast<Technique>(technique_count - 1);
  const QuantiseKernel kernel{"gradient", parameters * (1 + 1 / replicas), w.input_bytes, {copy}};
  Resources work = quantise_work(kernel, all, chip, how);
  // Decoding: unpack, convert, multiply, and the rotation back; codes read and bf16 written.
  const double decoded = parameters * ((replicas - 1) / replicas + 1);
  double ops = w.pack_ops + w.convert_ops + w.multiply_ops;
  if (wire.hadamard.size > 0)
    ops += w.butterfly_ops * std::log2(wire.hadamard.size) + (wire.hadamard.normalised ? w.normalise_ops : 0) +
           (wire.hadamard.random_signs ? w.sign_ops : 0);
  work.ops += decoded * ops;
  work.bytes += decoded * (wire.format.stored_bits() / 8 + w.input_bytes);
  return roofline(work, chip).seconds;
}

void check(const Model& model, const Hardware& hardware, const CostOptions& options) {
  const Parallel& parallel = options.parallel;
  if (const auto missing = missing_links(hardware, options.devices); !missing.empty())
    throw Error(
        fmt::format("hardware profile {}: {} accelerators need {}; state them in its file, or with `cost new-chip "
                    "--link GB/s --network Gb/s --node COUNT`",
                    hardware.name, options.devices, fmt::join(missing, ", ")));
  if (options.devices % parallel.replica() != 0)
    throw Error(fmt::format("--devices {}: not a multiple of --tensor {} x --pipeline {}", options.devices,
                            parallel.tensor, parallel.pipeline));
  if (hardware.node_size % parallel.tensor != 0)
    throw Error(fmt::format("--tensor {}: does not divide the {} accelerators that the links of {} join",
                            parallel.tensor, hardware.node_size, hardware.name));
  if (parallel.pipeline == 1 && parallel.interleave > 1)
    throw Error(fmt::format("--interleave {}: a pipeline is needed (--pipeline)", parallel.interleave));
  // Embedding and head may be parts of their own: Llama 3 405B has 126 blocks in 16 x 8.
  if (parallel.pipeline > model.blocks || parallel.pipeline * parallel.interleave > model.blocks + 2)
    throw Error(
        fmt::format("--pipeline {} with --interleave {}: more parts than the {} blocks of {}, embedding and head",
                    parallel.pipeline, parallel.interleave, model.blocks, model.name));
}

// Messages queue in the order in which they are asked for: weights of layer i + 1 when layer i starts, the gradient of
// layer i when it is done. Links of a node and the network are two queues, so one message may be on each.
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

std::span<const ShardingRow> sharding_table() { return shardings; }

StepSeconds step_parts(const std::vector<Term>& terms) {
  StepSeconds parts;
  for (const Term& term : terms) {
    parts.compute += term.seconds;
    if (term.group == "other") {  // norms and activations: like a GEMM, one part forward and two backward
      parts.forward += term.seconds / 3;
      parts.backward += term.seconds * 2 / 3;
    } else if (term.group != "optimizer") {
      (term.backward ? parts.backward : parts.forward) += term.seconds;
    }
  }
  return parts;
}

// long: a formula for each time, of those before it
Communication communication(const Model& model, const Hardware& hardware, const CostOptions& options,
                            const StepSeconds& seconds) {
  Communication out;
  out.devices = std::max(1, options.devices);
  check(model, hardware, options);
  const Parallel& parallel = options.parallel;
  const CostWeights& w = options.weights;
  const double replica = parallel.replica(), micro = static_cast<double>(model.micro_batches);
  // Passes of a stage and its waits, which parts held in turn shorten, by its blocks over the mean: of 126 in 8 stages
  // 16 over 15.75, where embedding and head lie with the smaller shares.
  const double stages = parallel.pipeline, blocks = static_cast<double>(model.blocks);
  const double drain = (1 + (stages - 1) / parallel.interleave / micro) * std::ceil(blocks / stages) * stages / blocks;
  out.replicas = out.devices / parallel.replica();
  out.nodes = (out.devices + hardware.node_size - 1) / hardware.node_size;
  const Links links(hardware, w, out.replicas, parallel.tensor);

  out.bubble_s = seconds.compute / replica * (drain - 1);
  out.t0_s = seconds.compute / replica + out.bubble_s;
  // Two all-reduces of a block's activations forward and two backward (Megatron-LM, 1909.08053), forward ones again
  // when it is computed again.
  const double activations = static_cast<double>(model.micro_tokens() * model.width) * 2;
  out.tensor_s = links.tensor_all_reduce(activations, parallel.tensor) * (4 + 2 * options.recompute) * micro *
                 static_cast<double>(model.blocks) / stages * drain;
  const bool stages_on_network = out.devices > hardware.node_size;
  // While a pipeline fills and drains nothing hides the sends between stages.
  if (parallel.pipeline > 1)
    out.stage_s = 2 * (stages - 1) * links.send(activations / parallel.tensor, stages_on_network);

  const OperandFacts& wire = parallel.wire.format;
  const double wire_bytes = wire.quantised ? wire.stored_bits() / 8 : w.gradient_bytes;
  const Chip chip(hardware, w);
  const double scatters = parallel.sharding == Sharding::full ? micro : 1;
  out.coding_s = scatters * coding_seconds(parallel.wire, static_cast<double>(model.parameters()) / replica,
                                           out.replicas, chip, options);

  std::vector<LayerPass> forward, backward;
  const double per_pass = replica * micro;
  for (const Unit& unit : buckets(units_of(model, seconds.forward / per_pass, seconds.backward / per_pass, replica),
                                  std::max(wire_bytes, w.gather_bytes), w.bucket_bytes)) {
    const Message gather = links.half(unit.parameters * w.gather_bytes);
    const Message scatter = links.half(unit.parameters * wire_bytes);
    LayerPass up{unit.forward_s, {}, {}}, down{unit.backward_s, {}, scatter};
    switch (parallel.sharding) {
      case Sharding::none: down.after = {2 * scatter.link_s, 2 * scatter.network_s}; break;
      case Sharding::optimizer: up.before = gather; break;
      case Sharding::full: up.before = down.before = gather; break;
    }
    forward.push_back(up);
    backward.push_back(down);
  }
  std::reverse(backward.begin(), backward.end());
  const auto both = [&](auto&& seconds_of) { return scatters * (seconds_of(forward) + seconds_of(backward)); };
  const double busy = both([](const auto& pass) { return message_seconds(pass, true); });
  out.interconnect_s = both([](const auto& pass) { return message_seconds(pass, false); });
  out.network_s = busy - out.interconnect_s;
  const double on_links = both([&](const auto& pass) { return exposed_seconds(pass, false, w.overlap); });
  const double on_all = both([&](const auto& pass) { return exposed_seconds(pass, true, w.overlap); });
  out.hidden_s = busy - on_all;

  out.t1_s = out.t0_s + out.tensor_s + (stages_on_network ? 0 : out.stage_s) + out.coding_s + on_links;
  out.tm_s = out.t1_s + (stages_on_network ? out.stage_s : 0) + on_all - on_links;
  // Inputs are made ahead: the slower of the two rates sets the pace.
  const double tokens = static_cast<double>(model.tokens_per_step) / replica;
  const auto seconds_at = [&](double rate) { return rate > 0 ? tokens / rate : 0; };
  out.t3_s = std::max(out.tm_s, seconds_at(parallel.prepare_per_s));
  out.t2_s =
      std::max(out.t3_s, out.inputs_s = std::max(seconds_at(parallel.prepare_per_s), seconds_at(parallel.fetch_per_s)));
  out.interconnect_stall = (out.t1_s - out.t0_s) / out.t1_s;
  out.network_stall = (out.tm_s - out.t1_s) / out.t1_s;
  out.preparation_stall = (out.t3_s - out.tm_s) / out.t3_s;
  out.fetch_stall = (out.t2_s - out.t3_s) / out.t2_s;
  return out;
}

std::vector<std::pair<std::string, double>> step_limits(const std::vector<Term>& terms,
                                                        const Communication& communication) {
  const Communication& c = communication;
  std::vector<std::pair<std::string, double>> shares;
  const auto add = [&](const std::string& what, double seconds) {
    if (seconds <= 0) return;
    const auto same = std::find_if(shares.begin(), shares.end(), [&](const auto& row) { return row.first == what; });
    (same == shares.end() ? shares.emplace_back(what, 0.0) : *same).second += seconds / c.t2_s;
  };
  const double whole = total_seconds(terms), own = c.t0_s - c.bubble_s;
  for (const Term& term : terms)
    add(term.binding == "fitted" || term.binding == "estimate" ? "other" : term.binding, term.seconds / whole * own);
  add("bubble", c.bubble_s);
  add("links", c.t1_s - c.t0_s);
  add("network", c.tm_s - c.t1_s);
  add("preparing", c.t3_s - c.tm_s);
  add("fetching", c.t2_s - c.t3_s);
  std::stable_sort(shares.begin(), shares.end(), [](const auto& a, const auto& b) { return a.second > b.second; });
  return shares;
}

}  // namespace fp4::cost
