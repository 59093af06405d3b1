// Decides: what a step needs beside time on one chip: memory, the network, energy.
#include <algorithm>

#include "sweeps/cost/cost.h"
#include "sweeps/cost/layer_plan.h"

namespace fp4::cost {

namespace {

double stored_bytes(const OperandFacts& operand) {
  return operand.quantised ? (operand.element_bits + operand.scale_bits / operand.scale_block) / 8
                           : operand.element_bits / 8;
}

// What the backward pass needs of one token in all blocks: wgrad's copy of the inputs (the bf16 tensor when that copy
// is made from high precision later would be 2 bytes; one-pass quantisers make it in the forward pass), payloads of
// estimators, and what the other operations keep.
double activation_bytes_per_token(const RecipeFacts& recipe, const Model& model) {
  const double high = recipe.high_class == "fp32" ? 4 : 2;
  double bytes = static_cast<double>(model.blocks * model.saved_per_token_block) * high;
  for (const PlannedLinear& row : plan_layers(model, recipe)) {
    const double elements = static_cast<double>(row.linear->in * row.blocks * row.linear->top);
    const RecipeFacts& facts = row.facts ? *row.facts : recipe;
    // Rows of one linear share its input; each keeps its own copy.
    if (row.quantised > 0) bytes += elements * (stored_bytes(facts.wgrad.b) + facts.fprop.a.saved_bits / 8);
    if (row.quantised == 0) bytes += elements * high;
  }
  return bytes;
}

// Ring all-reduce of `bytes` over n members: each sends and receives 2(n-1)/n of them.
double ring_seconds(double bytes, double n, const std::optional<Quantity>& bandwidth) {
  if (n <= 1) return 0;
  return bandwidth ? 2 * (n - 1) / n * bytes / bandwidth->value : 0;
}

}  // namespace

MemoryFootprint memory_footprint(const RecipeFacts& recipe, const Model& model, const Hardware& hardware,
                                 const CostOptions& options) {
  MemoryFootprint memory;
  const double parameters = static_cast<double>(model.parameters()), shard = options.devices;
  const double linear = static_cast<double>(model.linear_parameters());
  const double high = recipe.high_class == "fp32" ? 4 : 2;
  // The weights that GEMMs read: both quantised copies beside the bf16 ones they are made from.
  memory.weights = parameters * high;
  const auto copies = [](const RecipeFacts& facts) {
    double bytes = 0;
    for (const OperandFacts* operand : {&facts.fprop.b, &facts.dgrad.b})
      if (operand->quantised) bytes += stored_bytes(*operand);
    return bytes;
  };
  if (!recipe.at_layer) {
    memory.weights += linear * copies(recipe);
  } else {
    for (const PlannedLinear& row : plan_layers(model, recipe))
      if (row.facts)
        memory.weights +=
            static_cast<double>(row.linear->in * row.quantised * row.blocks * row.linear->experts) * copies(*row.facts);
  }
  // Weights that are bf16 themselves need no copy beside them.
  memory.master_weights = recipe.master_bytes < 4 ? 0 : parameters * 4 / shard;
  memory.optimizer = parameters * recipe.moment_bytes / shard;
  if (recipe.newton_schulz > 0) memory.optimizer -= linear * recipe.moment_bytes / 2 / shard;
  memory.gradients = parameters * 4 / shard;
  memory.activations =
      activation_bytes_per_token(recipe, model) * static_cast<double>(model.micro_tokens()) * (1 - options.recompute);
  for (const UnquantisedLinear& row : model.unquantised)
    memory.logits += static_cast<double>(row.linear.width_out() * model.micro_tokens()) * high;
  memory.fits = memory.total() <= hardware.memory_bytes.value;
  return memory;
}

Communication communication(const Model& model, const Hardware& hardware, const CostOptions& options, double compute_s,
                            double backward_s) {
  Communication out;
  out.devices = std::max(1, options.devices);
  const int local = std::min(out.devices, hardware.node_size);
  out.nodes = (out.devices + hardware.node_size - 1) / hardware.node_size;
  const double bytes = static_cast<double>(model.parameters()) * options.weights.gradient_bytes;
  out.interconnect_s = ring_seconds(bytes, local, hardware.link_bandwidth);
  // Between nodes each accelerator carries its share of the gradient, reduced within the node before.
  out.network_s = ring_seconds(bytes / local, out.nodes, hardware.network_bandwidth);
  out.hidden_s = options.weights.overlap * backward_s / static_cast<double>(model.micro_batches);
  out.t0_s = compute_s;
  out.t1_s = compute_s + std::max(0.0, out.interconnect_s - out.hidden_s);
  out.tm_s = compute_s + std::max(0.0, out.interconnect_s + out.network_s - out.hidden_s);
  out.interconnect_stall = (out.t1_s - out.t0_s) / out.t1_s;
  out.network_stall = (out.tm_s - out.t1_s) / out.t1_s;
  return out;
}

std::optional<double> modelled_energy(const std::vector<Term>& terms, const Communication& communication,
                                      const Hardware& hardware, const CostOptions& options) {
  if (!hardware.board_w || !hardware.idle_w || !hardware.system_w) return std::nullopt;
  const double board = hardware.board_w->value, idle = hardware.idle_w->value, system = hardware.system_w->value;
  const CostWeights& w = options.weights;
  const auto power = [&](double utilisation) { return idle + (board - idle) * utilisation; };
  double energy = 0;
  for (const Term& term : terms) {
    const double utilisation = term.binding == "matrix"  ? w.utilisation_matrix
                               : term.binding == "issue" ? w.utilisation_vector
                                                         : w.utilisation_memory;
    energy += term.seconds * power(utilisation);
  }
  const double stall = communication.tm_s - communication.t0_s;
  const double network = communication.nodes > 1 ? w.network_w : 0;
  energy += stall * power(w.utilisation_stall) + communication.tm_s * ((system - board) * w.node_share + network);
  return energy * communication.devices;
}

}  // namespace fp4::cost
