// Decides: the figures of a recipe from its terms and those of its references: the ideal step, the same step with free
// quantisation, the bf16 and the MXFP8 step.
#include <algorithm>
#include <set>

#include "sweeps/cost/adapt.h"
#include "sweeps/cost/cost.h"

namespace fp4::cost {

namespace {

// The same GEMMs in the same formats, but operands arrive quantised.
RecipeFacts without_quantisers(RecipeFacts recipe) {
  recipe.free_quantisation = true;
  for (RecipeFacts& phase : recipe.phases) phase.free_quantisation = true;
  return recipe;
}

// Layers or products that follow the same facts in a share of the steps.
struct Part {
  double share = 0;
  const RecipeFacts& facts;
  double multiply_adds = 0;  // of a token and one GEMM
  bool is_linear = false;    // of the quantisable layers
};

RecipeFacts high_facts(const std::string& format_class) {
  return unquantised_recipe("", std::stod(format_class.substr(format_class.find_first_of("0123456789"))));
}

template <class Visit>
void for_each_part(const RecipeFacts& recipe, const Model& model, const Visit& visit) {
  const auto in_phase = [&](double share, const RecipeFacts& facts) {
    const RecipeFacts high = high_facts(facts.high_class);
    for (const PlannedLinear& row : plan_layers(model, facts)) {
      const double depth = static_cast<double>(row.blocks * row.linear->in * row.linear->uses());
      if (row.quantised > 0)
        visit(Part{share, row.facts ? *row.facts : facts, depth * static_cast<double>(row.quantised), true});
      if (row.high > 0) visit(Part{share, high, depth * static_cast<double>(row.high), true});
    }
    for (const PlannedProduct& row : plan_attention(model, facts)) {
      const double causal = static_cast<double>(row.blocks * model.sequence * model.attention_width) / 2;
      visit(Part{share, row.facts ? *row.facts : high, causal, false});
    }
    for (const UnquantisedLinear& row : model.unquantised) {
      const auto ruled =
          facts.at_layer ? facts.at_layer(row.linear.name, -1, static_cast<int>(model.layers())) : nullptr;
      const RecipeFacts own = high_facts(facts.high_class == "fp32" ? facts.high_class : row.format_class);
      visit(Part{share, ruled ? *ruled : own, static_cast<double>(row.linear.in * row.linear.width_out()), false});
    }
  };
  if (recipe.phases.empty()) return in_phase(1, recipe);
  for (const RecipeFacts& phase : recipe.phases)
    if (phase.share > 0) in_phase(phase.share, phase);
}

bool any(const RecipeFacts& recipe, bool (*condition)(const OperandFacts&)) {
  for (int gemm = 0; gemm < 3; ++gemm) {
    const GemmFacts& facts = gemm_of(recipe, gemm);
    if ((facts.a.quantised && condition(facts.a)) || (facts.b.quantised && condition(facts.b))) return true;
  }
  return false;
}

// Bits of the wider operand, in the mean over the parts of a product.
double width(const GemmFacts& gemm) {
  const double first = std::max(gemm.a.element_bits, gemm.b.element_bits), second = gemm.split.high.element_bits;
  return gemm.split.first * first + gemm.split.second * second;
}

// The class of the second product of a split one.
std::string second_class(const GemmFacts& gemm) { return format_class({gemm.split.high, gemm.split.high, {}}); }

RecipeFacts on_all_operands(std::string name, const OperandFacts& operand) {
  RecipeFacts recipe;
  recipe.name = std::move(name);
  recipe.fprop = recipe.dgrad = recipe.wgrad = GemmFacts{operand, operand, {}};
  return recipe;
}

}  // namespace

RecipeFacts unquantised_recipe(std::string name, double element_bits) {
  RecipeFacts recipe = on_all_operands(std::move(name), {.element_bits = element_bits});
  recipe.high_class = element_bits > 16 ? "fp32" : "bf16";
  return recipe;
}

RecipeFacts uniform_recipe(std::string name, double element_bits, double scale_bits, double scale_block) {
  return on_all_operands(std::move(name), {.quantised = true,
                                           .element_bits = element_bits,
                                           .scale = "e8m0",
                                           .scale_bits = scale_bits,
                                           .scale_block = scale_block});
}

// The block format of a class that a chip multiplies at its rate: E8M0 for 32, which every table knows, or of those
// that it lists the one with the fewest bits of scales; one scale a row where it lists none.
OperandFacts ideal_operand(const Hardware& hardware, const std::string& format_class, double bits) {
  const auto listed = hardware.block_scales.find(format_class);
  if (hardware.multiplies(format_class, "e8m0", 32)) return operand_with(bits, "e8m0/32");
  OperandFacts best = operand_with(bits, "e8m0/1048576");
  if (listed->second.value.empty()) return best;
  best.scale_bits = huge;
  for (const std::string& word : listed->second.value)
    if (const OperandFacts facts = operand_with(bits, word);
        facts.scale_bits / facts.scale_block < best.scale_bits / best.scale_block)
      best = facts;
  return best;
}

RecipeFacts ideal_recipe(const Hardware& hardware) {
  RecipeFacts ideal = unquantised_recipe("ideal", 16);
  double best = hardware.rate("bf16");
  const std::pair<const char*, double> narrow[] = {{"fp8", 8}, {"fp6", 6}, {"fp4", 4}};
  for (const auto& [name, bits] : narrow) {
    const bool is_known = hardware.rates.contains(name) || hardware.emulate.contains(name);
    if (!is_known || hardware.rate(name) < best) continue;  // of equal rates the narrower one, which moves fewer bytes
    best = hardware.rate(name);
    const OperandFacts operand = ideal_operand(hardware, name, bits);
    ideal.fprop = ideal.dgrad = ideal.wgrad = GemmFacts{operand, operand, {}};
  }
  return ideal;
}

std::optional<double> points(const RecipeFacts& recipe, const Model& model, const CostWeights& w) {
  bool sr = false, tensor_scale = false, estimator = false, scale_gradient = false, hadamard = false;
  for_each_part(recipe, model, [&](const Part& part) {
    const RecipeFacts& r = part.facts;
    sr = sr || any(r, [](const OperandFacts& o) { return o.random_bits > 0; });
    tensor_scale = tensor_scale || any(r, [](const OperandFacts& o) { return o.extra_passes > 0; });
    estimator = estimator || any(r, [](const OperandFacts& o) { return o.estimator_ops > 0; });
    scale_gradient = scale_gradient || any(r, [](const OperandFacts& o) { return o.scale_gradient_ops > 0; });
    for (int gemm = 0; gemm < 3; ++gemm) hadamard = hadamard || gemm_of(r, gemm).hadamard.size > 0;
  });
  const double sum = (sr ? w.points_sr : 0) + (tensor_scale ? w.points_tensor_scale : 0) +
                     (estimator ? w.points_estimator : 0) + (scale_gradient ? w.points_scale_gradient : 0) +
                     (hadamard ? w.points_hadamard : 0) + (recipe.loss_scaling ? w.points_loss_scaling : 0);
  if (sum == 0) return std::nullopt;
  return sum;
}

BopsSpeedup bops_speedup(const RecipeFacts& recipe, const Model& model) {
  double bits[3] = {}, all = 0;
  for_each_part(recipe, model, [&](const Part& part) {
    if (!part.is_linear) return;
    const double weight = part.share * part.multiply_adds;
    for (int gemm = 0; gemm < 3; ++gemm) bits[gemm] += weight * width(gemm_of(part.facts, gemm));
    all += weight;
  });
  BopsSpeedup speedup = {.forward = 8 / (bits[0] / all), .backward = 2 / (bits[1] / all / 8 + bits[2] / all / 8)};
  speedup.training = 1 / (1.0 / 3 / speedup.forward + 2.0 / 3 / speedup.backward);
  return speedup;
}

std::map<std::string, double> precision_shares(const RecipeFacts& recipe, const Model& model) {
  std::map<std::string, double> shares;
  double all = 0;
  for_each_part(recipe, model, [&](const Part& part) {
    for (int gemm = 0; gemm < 3; ++gemm) {
      const GemmFacts& facts = gemm_of(part.facts, gemm);
      const double weight = part.share * part.multiply_adds;
      shares[format_class(facts)] += weight * facts.split.first;
      if (facts.split.second > 0) shares[second_class(facts)] += weight * facts.split.second;
      all += weight * (facts.split.first + facts.split.second);
    }
  });
  for (auto& [name, share] : shares) share /= all;
  return shares;
}

std::vector<std::string> decoded_formats(const RecipeFacts& recipe, const Model& model, const Hardware& hardware) {
  std::set<std::string> formats;
  for_each_part(recipe, model, [&](const Part& part) {
    for (int gemm = 0; gemm < 3; ++gemm) formats.insert(decoded_operand(gemm_of(part.facts, gemm), hardware));
  });
  formats.erase("");
  return {formats.begin(), formats.end()};
}

std::vector<std::string> dense_masks(const RecipeFacts& recipe, const Model& model, const Hardware& hardware) {
  std::set<std::string> masks;
  for_each_part(recipe, model, [&](const Part& part) { masks.insert(sparse_as_dense(part.facts.fprop, hardware)); });
  masks.erase("");
  return {masks.begin(), masks.end()};
}

double group_seconds(const CostResult& result, std::string_view group) {
  double total = 0;
  for (const Term& term : result.terms)
    if (term.group == group) total += term.seconds;
  return total;
}

MemoryFootprint peak_memory(const RecipeFacts& recipe, const Model& model, const Hardware& hardware,
                            const CostOptions& options) {
  MemoryFootprint peak = memory_footprint(recipe, model, hardware, options);
  for (const RecipeFacts& phase : recipe.phases) {
    const MemoryFootprint memory = memory_footprint(phase, model, hardware, options);
    if (memory.total() > peak.total()) peak = memory;
  }
  return peak;
}

std::optional<int> devices_that_fit(const std::vector<RecipeFacts>& recipes, const Model& model,
                                    const Hardware& hardware, CostOptions options, int most) {
  for (options.devices = options.parallel.replica(); options.devices <= most; options.devices *= 2)
    if (std::all_of(recipes.begin(), recipes.end(),
                    [&](const RecipeFacts& recipe) { return peak_memory(recipe, model, hardware, options).fits; }))
      return options.devices;
  return std::nullopt;
}

CostResult evaluate(const RecipeFacts& recipe, const Model& model, const Hardware& hardware,
                    const CostOptions& options) {
  CostResult result;
  result.terms = step_terms(recipe, model, hardware, options);
  result.compute_s = total_seconds(result.terms);
  result.communication = communication(model, hardware, options, step_parts(result.terms));
  result.step_time_s = result.communication.t2_s;
  result.limits = step_limits(result.terms, result.communication);
  result.ideal_s = step_seconds(without_quantisers(ideal_recipe(hardware)), model, hardware, options);
  result.free_quantisation_s = step_seconds(without_quantisers(recipe), model, hardware, options);
  result.overhead = result.compute_s / result.ideal_s - 1;
  result.quantisation_overhead = result.compute_s / result.free_quantisation_s - 1;
  result.speedup_bf16 = step_seconds(unquantised_recipe("bf16", 16), model, hardware, options) / result.compute_s;
  result.speedup_fp8 = step_seconds(uniform_recipe("mxfp8", 8, 8, 32), model, hardware, options) / result.compute_s;
  result.tokens_per_second =
      static_cast<double>(model.tokens_per_step) * result.communication.replicas / result.step_time_s;
  result.energy_j = modelled_energy(result.terms, result.communication, hardware, options);
  if (hardware.price_per_hour)
    result.price = hardware.price_per_hour->value / 3600 * result.step_time_s * options.devices;
  result.points = points(recipe, model, options.weights);
  result.decoded = decoded_formats(recipe, model, hardware);
  result.dense = dense_masks(recipe, model, hardware);
  if (const RecipeFacts& last = recipe.phases.empty() ? recipe : recipe.phases.back();
      last.cache && model.attention_width > 0)
    result.cache = cache_cost(last, model, hardware, options.weights);
  result.precisions = precision_shares(recipe, model);
  result.bops = bops_speedup(recipe, model);
  result.memory = peak_memory(recipe, model, hardware, options);
  return result;
}

CostResult evaluate(const sim::TrainingRecipe& recipe, const Model& model, const Hardware& hardware,
                    const CostOptions& options) {
  return evaluate(facts_of(recipe, options.steps), model, hardware, options);
}

}  // namespace fp4::cost
