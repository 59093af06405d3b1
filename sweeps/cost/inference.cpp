#include "sweeps/cost/inference.h"

#include <memory>

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

}  // namespace fp4::cost
