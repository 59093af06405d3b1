// The KV cache, and the forward pass alone; see cost.h.
#include <memory>
#include <string_view>

#include "sweeps/cost/cost.h"

namespace fp4::cost {

namespace {

constexpr double forward_share_of_other = 1.0 / 3;  // one of the three passes of a training step

RecipeFacts forward_only(RecipeFacts facts) {
  const GemmFacts plain = unquantised_recipe("", 16).dgrad;
  facts.dgrad = facts.wgrad = plain;
  facts.full_output = false;
  return facts;
}

}  // namespace

std::vector<Term> inference_terms(const RecipeFacts& recipe, const Model& model, const Hardware& hardware,
                                  int64_t tokens, const CostOptions& options) {
  // A network is used under the recipe that its training ended with.
  RecipeFacts facts = forward_only(recipe.phases.empty() ? recipe : recipe.phases.back());
  facts.phases.clear();
  if (facts.at_layer)
    facts.at_layer = [rules = facts.at_layer](const std::string& name, int position, int count) {
      const RecipeFacts::LayerFacts of_layer = rules(name, position, count);
      return of_layer ? std::make_shared<const RecipeFacts>(forward_only(*of_layer)) : of_layer;
    };
  Model batch = model;
  batch.tokens_per_step = tokens;
  batch.micro_batches = 1;
  std::vector<Term> terms;
  for (Term& term : step_terms(facts, batch, hardware, options)) {
    const bool is_of_weights = term.name.find(" W of ") != std::string::npos;
    if (term.backward || is_of_weights || term.group == "optimizer") continue;
    if (term.group == "other") term.seconds *= forward_share_of_other;
    terms.push_back(std::move(term));
  }
  return terms;
}

double inference_seconds(const RecipeFacts& recipe, const Model& model, const Hardware& hardware, int64_t tokens,
                         const CostOptions& options) {
  CostOptions without_formulas = options;
  without_formulas.formulas = false;
  return total_seconds(inference_terms(recipe, model, hardware, tokens, without_formulas));
}

bool takes_codes(const GemmFacts& product, const OperandFacts& kv, bool along_k, const Hardware& hardware) {
  const OperandFacts& b = product.b;
  return along_k && b.quantised && kv.quantised && std::string_view(b.element) == kv.element &&
         std::string_view(b.scale) == kv.scale && b.scale_block == kv.scale_block && b.is_choice == kv.is_choice &&
         decoded_operand(product, hardware).empty();
}

QuantiseKernel cache_kernel(const CacheFacts& cache, const Model& model, double tokens, double read_bytes) {
  return {"K and V of the cache",
          tokens * static_cast<double>(model.cached_elements()),
          read_bytes,
          {{.operand = &cache.kv, .hadamard = {}}}};
}

CacheCost cache_cost(const RecipeFacts& recipe, const Model& model, const Hardware& hardware,
                     const CostWeights& weights) {
  const CacheFacts& cache = *recipe.cache;
  const Chip chip(hardware, weights);
  const double elements = static_cast<double>(model.cached_elements()), tokens = static_cast<double>(model.sequence);
  CacheCost cost;
  cost.bits = cache.kv.stored_bits();
  cost.token_bytes = elements * cost.bits / 8;
  cost.bf16_token_bytes = elements * 2;
  if (cache.kv.quantised)
    cost.quantise_s = roofline(quantise_work(cache_kernel(cache, model, 1, weights.input_bytes),
                                             static_cast<Technique>(technique_count - 1), chip, {&weights}),
                               chip)
                          .seconds;
  const double of_tensor = elements / 2 / static_cast<double>(model.blocks);  // K or V of a block
  const double decode = weights.convert_ops + (cache.kv.scale_bits > 0 ? weights.multiply_ops : 0);
  for (const PlannedProduct& row : plan_attention(model, recipe)) {
    const bool along = std::string_view(row.name) == "qk" ? cache.keys_along_k : cache.values_along_k;
    if (!cache.kv.quantised || (row.facts && takes_codes(row.facts->fprop, cache.kv, along, hardware))) continue;
    cost.decode_ops += tokens * of_tensor * static_cast<double>(row.blocks) * decode;
  }
  Resources read;
  read.bytes = tokens * cost.bf16_token_bytes;
  cost.bf16_read_s = roofline(read, chip).seconds;
  read.bytes = tokens * cost.token_bytes;
  read.ops = cost.decode_ops;
  const Bound bound = roofline(read, chip);
  cost.read_s = bound.seconds;
  cost.binding = bound.binding;
  return cost;
}

}  // namespace fp4::cost
