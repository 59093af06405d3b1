// Decides: what a training step costs. The one entry for sweeps and tools: evaluate(recipe, model, hardware, options).
// Pure: the same arguments give the same numbers, nothing is measured, and every term says its formula, its numbers and
// the resource that binds it.
//
// Two overheads. `overhead` = T / T_ideal - 1, T_ideal = the same workload with every quantisable GEMM at the chip's
// fastest rate, in a block format that it multiplies, and free quantisation: ONE reference for all recipes.
// `quantisation_overhead` = T / T(same recipe, free quantisation) - 1: what the recipe's own techniques cost; bf16 has
// none.
#pragma once

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "sim/rules/schedule.h"
#include "sweeps/cost/hardware.h"
#include "sweeps/cost/kernel_times.h"
#include "sweeps/cost/model.h"
#include "sweeps/cost/shared_step.h"
#include "sweeps/cost/weights.h"
#include "sweeps/cost/workload.h"

namespace fp4::cost {

struct CostOptions {
  CostWeights weights;
  bool one_pass = true;  // X and dY are read once for their row and column copies; false: once a copy
  bool fused = false;    // quantisation in the producer's epilogue: the first read is free
  HadamardKernel hadamard = HadamardKernel::fused;
  double recompute = 0;  // share of the forward pass computed again (activation checkpointing)
  int devices = 1;       // accelerators, a multiple of parallel.replica()
  Parallel parallel;     // how they share a step
  int steps = 0;         // of the training, which phases marked in steps need; 0: not known
  bool formulas = true;  // false: terms carry no formula text (sweeps evaluate thousands of recipes)
};

/// One summand of the step time. Terms add up to CostResult::compute_s.
struct Term {
  std::string name;   // "matmul fprop qkv", "hadamard dY of down"
  std::string group;  // "matmul", "quantise", ... (cost_groups)
  double seconds = 0;
  std::string formula;  // "2.06e+13 FLOP / 1.19e+15 FLOP/s"
  std::string binding;  // matrix, memory, issue, fitted
  double flop = 0, bytes = 0, ops = 0;
  bool backward = false;
};
/// Groups in the order of tables and bars.
const std::vector<std::string>& cost_groups();

/// Bytes on one accelerator at the peak of a step.
struct MemoryFootprint {
  double weights = 0, master_weights = 0, optimizer = 0, gradients = 0, activations = 0, logits = 0;
  double total() const { return weights + master_weights + optimizer + gradients + activations + logits; }
  bool fits = true;
};

/// Stash's terms: T0 one replica with links that cost nothing, T1 with the links of nodes, Tm with the network too, T3
/// when examples are prepared, T2 when they are fetched. A step takes t2_s.
struct Communication {
  int devices = 1, nodes = 1, replicas = 1;
  double t0_s = 0, t1_s = 0, tm_s = 0, t3_s = 0, t2_s = 0;
  double bubble_s = 0;                               // of t0_s: a pipeline fills and drains, (p-1)/(m+p-1)
  double tensor_s = 0, stage_s = 0, coding_s = 0;    // all-reduces of tensor groups, sends between stages, coding
  double interconnect_s = 0, network_s = 0;          // links and network busy with gradients and weights
  double hidden_s = 0;                               // of the two: behind computation
  double interconnect_stall = 0, network_stall = 0;  // (T1-T0)/T1, (Tm-T1)/T1
  double preparation_stall = 0, fetch_stall = 0;     // (T3-Tm)/T3, (T2-T3)/T2
  double inputs_s = 0;                               // until its inputs are there; 0: at once
  /// The step where the accelerators take `factor` times as long as is modelled, and its inputs as long.
  double step_s(double factor) const { return std::max(factor * tm_s, inputs_s); }
};

/// Speed-ups over FP8 of the bit-operations model (Quartet, arXiv 2505.14669, table 1): 8 bits over the width of a
/// product's wider operand, that width in the mean over phases and quantisable layers, weighted by multiply-adds.
struct BopsSpeedup {
  double forward = 0, backward = 0, training = 0;
};

/// What the KV cache of a recipe (`attn.kv`) costs. A token leaves K and V of every block in it, as codes and
/// scales; a token that is generated after n others reads those of all n. Where a product takes the codes as they are,
/// an operand in the same format and blocks on a chip that multiplies it, reading is all; elsewhere each element is
/// decoded: a conversion and a multiplication by its scale.
struct CacheCost {
  double bits = 0;                               // an element, its share of the scales included
  double token_bytes = 0, bf16_token_bytes = 0;  // in all blocks
  double quantise_s = 0;                         // of a token's K and V, on the whole chip
  double read_s = 0, bf16_read_s = 0;            // by a token after `sequence` of the model's others, one stream
  double decode_ops = 0;                         // slots of these reads
  const char* binding = "none";                  // of read_s: memory, issue
};

struct CostResult {
  double step_time_s = 0;  // with communication
  double compute_s = 0;    // one accelerator, without communication
  double ideal_s = 0, free_quantisation_s = 0;
  double overhead = 0, quantisation_overhead = 0;
  double speedup_bf16 = 0, speedup_fp8 = 0;  // of compute_s; fp8 = MXFP8 on everything
  double tokens_per_second = 0;              // all accelerators
  std::optional<double> energy_j;            // a step, all accelerators; empty without power figures
  std::optional<double> price;               // a step, all accelerators, US dollars
  std::optional<double> points;              // empty at 0 points
  std::vector<std::string> decoded;  // formats that the chip does not multiply: "fp4 with ue5m3 for 16", as bf16
  std::vector<std::string> dense;    // sparse products that it multiplies as dense ones: "fp4 2:4"
  std::optional<CacheCost> cache;    // of a recipe with attn.kv; of phases the last
  BopsSpeedup bops;
  std::map<std::string, double> precisions;  // shares of the multiply-adds by format class, attention and head included
  MemoryFootprint memory;
  Communication communication;
  std::vector<std::pair<std::string, double>> limits;  // shares of step_time_s by what they wait for, largest first
  std::vector<Term> terms;
};

CostResult evaluate(const sim::TrainingRecipe& recipe, const Model& model, const Hardware& hardware,
                    const CostOptions& options = {});
CostResult evaluate(const RecipeFacts& recipe, const Model& model, const Hardware& hardware,
                    const CostOptions& options = {});

/// Seconds of a group; the groups add up to compute_s.
double group_seconds(const CostResult& result, std::string_view group);

// Which part of a model's linear layers follows which products: the recipe's, those of a rule, or bf16.

/// `blocks` repetitions of one fused linear, of whose output columns `quantised` are computed as the recipe says and
/// `high` in high precision.
struct PlannedLinear {
  const Linear* linear = nullptr;
  int64_t blocks = 0;
  int64_t quantised = 0;
  int64_t high = 0;
  RecipeFacts::LayerFacts facts = nullptr;  // what the quantised columns follow by rules; null: the recipe
  double quantised_parameters() const { return static_cast<double>(linear->in * quantised * blocks * linear->experts); }
};

/// Layers are counted in the order of the forward pass; a share below 1 is of all quantisable layers, rounded to
/// nearest, half up. Names that match no layer of the model are an error.
std::vector<PlannedLinear> plan_layers(const Model& model, const RecipeFacts& recipe);

/// `blocks` repetitions of a product of attention, "qk" or "pv"; null facts: high precision.
struct PlannedProduct {
  const char* name = "";
  int64_t blocks = 0;
  RecipeFacts::LayerFacts facts = nullptr;
};
/// Empty for a model without attention.
std::vector<PlannedProduct> plan_attention(const Model& model, const RecipeFacts& recipe);

/// Pieces of evaluate, for tests and for validation against published kernels.
std::vector<Term> step_terms(const RecipeFacts& recipe, const Model& model, const Hardware& hardware,
                             const CostOptions& options);
double total_seconds(const std::vector<Term>& terms);
/// The same total without the terms.
double step_seconds(const RecipeFacts& recipe, const Model& model, const Hardware& hardware,
                    const CostOptions& options);
RecipeFacts ideal_recipe(const Hardware& hardware);
std::vector<QuantiseKernel> quantise_kernels(const RecipeFacts& recipe, const Linear& linear, double tokens,
                                             double width_out, const CostOptions& options);
MemoryFootprint memory_footprint(const RecipeFacts& recipe, const Model& model, const Hardware& hardware,
                                 const CostOptions& options);
/// That of the hungriest phase.
MemoryFootprint peak_memory(const RecipeFacts& recipe, const Model& model, const Hardware& hardware,
                            const CostOptions& options);
/// The fewest accelerators that hold a step of all of the recipes: replicas times a power of two. Empty: no count up to
/// `most` does.
std::optional<int> devices_that_fit(const std::vector<RecipeFacts>& recipes, const Model& model,
                                    const Hardware& hardware, CostOptions options, int most = 4096);
/// Seconds of a step of one replica on one accelerator.
struct StepSeconds {
  double compute = 0, forward = 0, backward = 0;  // forward + backward: of compute, what goes layer by layer
};
StepSeconds step_parts(const std::vector<Term>& terms);
Communication communication(const Model& model, const Hardware& hardware, const CostOptions& options,
                            const StepSeconds& seconds);
/// Shares of the step by what they wait for, largest first: matrix, memory, issue, other, and the stalls.
std::vector<std::pair<std::string, double>> step_limits(const std::vector<Term>& terms,
                                                        const Communication& communication);
std::optional<double> modelled_energy(const std::vector<Term>& terms, const Communication& communication,
                                      const Hardware& hardware, const CostOptions& options);
/// A technique counts once, wherever a layer of the model uses it in some phase.
std::optional<double> points(const RecipeFacts& recipe, const Model& model, const CostWeights& weights);
BopsSpeedup bops_speedup(const RecipeFacts& recipe, const Model& model);
std::vector<std::string> decoded_formats(const RecipeFacts& recipe, const Model& model, const Hardware& hardware);
std::vector<std::string> dense_masks(const RecipeFacts& recipe, const Model& model, const Hardware& hardware);
std::map<std::string, double> precision_shares(const RecipeFacts& recipe, const Model& model);

/// Whether the codes of the cache are the operand b of a product as the chip multiplies it.
bool takes_codes(const GemmFacts& product, const OperandFacts& kv, bool along_k, const Hardware& hardware);

/// The kernel that writes K and V of `tokens` tokens.
QuantiseKernel cache_kernel(const CacheFacts& cache, const Model& model, double tokens, double read_bytes);

/// `recipe.cache` is there, and the model has attention.
CacheCost cache_cost(const RecipeFacts& recipe, const Model& model, const Hardware& hardware,
                     const CostWeights& weights);

/// What a trained network costs in use: terms of one forward pass over `tokens` tokens (of convolutional networks:
/// images), on the whole chip, from those of a training step: the forward product of every layer, the quantisers of its
/// inputs, attention and head. Weights are quantised once, before the first request, and cost their bytes alone; phases
/// and what serves the backward pass cost nothing; "other" (norms, activations, launches) is the forward third of a
/// step's.
std::vector<Term> inference_terms(const RecipeFacts& recipe, const Model& model, const Hardware& hardware,
                                  int64_t tokens, const CostOptions& options = {});

/// Their seconds.
double inference_seconds(const RecipeFacts& recipe, const Model& model, const Hardware& hardware, int64_t tokens,
                         const CostOptions& options = {});

}  // namespace fp4::cost
