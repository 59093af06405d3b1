// Decides: what a step needs beside time: memory and energy.
#include <algorithm>

#include "sweeps/cost/cost.h"

namespace fp4::cost {

namespace {

double stored_bytes(const OperandFacts& operand) { return operand.stored_bits() / 8; }

// What the backward pass needs of one token in all blocks: wgrad's copy of the inputs (the bf16 tensor when that copy
// is made from high precision later would be 2 bytes; one-pass quantisers make it in the forward pass), payloads of
// estimators, and what the other operations keep.
double activation_bytes_per_token(const RecipeFacts& recipe, const Model& model) {
  const double high = recipe.high_class == "fp32" ? 4 : 2;
  double bytes = static_cast<double>(model.blocks * model.saved_per_token_block) * high;
  for (const PlannedLinear& row : plan_layers(model, recipe)) {
    const double elements = static_cast<double>(row.linear->in * row.blocks * row.linear->uses());
    const RecipeFacts& facts = row.facts ? *row.facts : recipe;
    // Rows of one linear share its input; each keeps its own copy.
    if (row.quantised > 0) bytes += elements * (stored_bytes(facts.wgrad.b) + facts.fprop.a.saved_bits / 8);
    if (row.quantised == 0) bytes += elements * high;
  }
  return bytes;
}

}  // namespace

MemoryFootprint memory_footprint(const RecipeFacts& recipe, const Model& model, const Hardware& hardware,
                                 const CostOptions& options) {
  MemoryFootprint memory;
  // A replica of several accelerators splits everything evenly: 1F1B keeps as many micro-batches in flight as there are
  // stages, each with 1/stages of its activations, and tensor groups share sequences where they do not share layers.
  const double replica = options.parallel.replica(), replicas = options.devices / replica;
  const Sharding sharding = options.parallel.sharding;
  const double parameters = static_cast<double>(model.parameters()) / replica;
  const double shard = sharding == Sharding::none ? 1 : replicas;
  const double high = recipe.high_class == "fp32" ? 4 : 2;
  // The weights that GEMMs read: both quantised copies beside the bf16 ones they are made from.
  memory.weights = parameters * high;
  const auto copies = [](const RecipeFacts& facts) {
    double bytes = 0;
    for (const OperandFacts* operand : {&facts.fprop.b, &facts.dgrad.b})
      if (operand->quantised || operand->masked) bytes += stored_bytes(*operand);
    return bytes;
  };
  for (const PlannedLinear& row : plan_layers(model, recipe))
    memory.weights += row.quantised_parameters() * copies(row.facts ? *row.facts : recipe) / replica;
  // Gathered: two blocks, the one at work and the next.
  if (sharding == Sharding::full)
    memory.weights =
        std::min(memory.weights, memory.weights / shard + memory.weights * 2 / static_cast<double>(model.blocks));
  memory.master_weights = parameters * 4 / shard;
  memory.optimizer = parameters * 8 / shard;  // both moments of Adam
  memory.gradients = parameters * 4 / shard;
  memory.activations = activation_bytes_per_token(recipe, model) * static_cast<double>(model.micro_tokens()) *
                       (1 - options.recompute) / replica;
  for (const UnquantisedLinear& row : model.unquantised)
    memory.logits +=
        static_cast<double>(row.linear.width_out() * model.micro_tokens()) * high / options.parallel.tensor;
  memory.fits = memory.total() <= hardware.memory_bytes.value;
  return memory;
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
  const double replica = options.parallel.replica();
  energy /= replica;  // of one accelerator
  const double stall = communication.t2_s - communication.t0_s + communication.bubble_s;
  const double network = communication.nodes > 1 ? w.network_w : 0;
  energy += stall * power(w.utilisation_stall) + communication.t2_s * ((system - board) * w.node_share + network);
  return energy * communication.devices;
}

}  // namespace fp4::cost
