// Reads the facts of axis rows: bits of formats, slots of scale rules and estimators, passes of tensor scales, whether
// a rounding or a sign policy draws random bits. fp16 costs what bf16 costs.
#include "sweeps/cost/adapt.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>
#include <utility>

#include "fp4/presets.h"
#include "sim/rules/recipe.h"
#include "sim/rules/split.h"

namespace fp4::cost {

namespace {

// Scales are stored in whole bytes: UE4M3 has 7 bits and takes 8.
double scale_storage_bits(Scale scale) {
  const int bits = format_of(scale).code_bits();
  return bits <= 8 ? 8 : bits <= 16 ? 16 : 32;
}

// Elements along K that share a scale. Square blocks are expanded to 1 x B, which is what matrix units read; a row or
// a tensor has so few scales that they weigh nothing, written as a very long block.
double scale_block(const BlockShape& block) {
  constexpr double whole_row = 1 << 20;
  return block.kind == BlockKind::vector || block.kind == BlockKind::square ? block.size : whole_row;
}

void add_tensor_scale(const QuantSpec& spec, OperandFacts& facts) {
  if (spec.has_tensor_scale()) {
    const TensorScaleInfo& row = row_of(tensor_scale_table, spec.tensor_scale);
    facts.extra_passes += row.is_amortised ? static_cast<double>(row.extra_reads) / spec.hold_steps : row.extra_reads;
    // One factor per row and 128 elements along K.
    if (spec.has_outer_scale())
      facts.scale_bits += row_of(factor_format_table, spec.factor_format).bits * facts.scale_block / outer_scale_width;
  }
  // One scale a tensor: its largest value must be known before the first element can be quantised.
  if (spec.block.kind == BlockKind::tensor) facts.extra_passes += 1;
}

HadamardFacts hadamard_facts(const HadamardSpec& hadamard) {
  return {hadamard.size, row_of(hadamard_normalise_table, hadamard.normalise).extra_ops > 0,
          row_of(hadamard_signs_table, hadamard.signs).is_random};
}

SplitFacts split_facts(const SplitSpec& split) {
  SplitFacts facts;
  if (!split.any()) return facts;
  facts.high = facts_of({.quant = split.high});
  facts.chooses = facts.adds = split.kind != Split::low_rank;
  switch (split.kind) {
    case Split::hot_channels: facts.first = 1 - split.share, facts.second = split.share; break;
    case Split::clamp: facts.second = 2 * split.share, facts.index_bits = 32; break;
    case Split::low_rank: facts.rank = split.share; break;
    case Split::none: break;
  }
  return facts;
}

GemmFacts gemm_facts(const GemmSpec& gemm, bool quantise) {
  GemmFacts facts{facts_of(gemm.a), facts_of(gemm.b), hadamard_facts(gemm.hadamard), split_facts(gemm.split)};
  if (quantise) return facts;
  facts = {};
  facts.a.element_bits = facts.b.element_bits = 32;  // trained as fp32
  return facts;
}

QuantisedLayers policy_facts(const fp4::LayerPolicy& policy) {
  return {static_cast<QuantisedLayers::Kind>(policy.kind), policy.amount, policy.names};
}

static_assert(static_cast<int>(QuantisedLayers::Kind::names) == static_cast<int>(fp4::LayerPolicy::Kind::names));

// A mask on fprop's b, and its zeros in the copy that dgrad reads.
void add_mask(Sparsity sparsity, RecipeFacts& facts) {
  if (sparsity == Sparsity::none) return;
  const SparsityInfo& row = row_of(sparsity_table, sparsity);
  facts.fprop.b.masked = facts.dgrad.b.masked = true;
  facts.fprop.b.sparse = row.name;
  facts.fprop.b.kept = 0.5;
  facts.fprop.b.metadata_bits = row.metadata_bits;
  facts.fprop.b.mask_ops = row.mask_ops;
}

// One object for all layers that the same rules select.
class FactsByLayer {
 public:
  FactsByLayer(const sim::TrainingRecipe& recipe, int phase) : recipe_(recipe), phase_(phase) {}
  RecipeFacts::LayerFacts operator()(const std::string& name, int position, int count) {
    const sim::LayerPlace place{name, position, count};
    if (position < 0 && !sim::is_ruled(recipe_, place)) return nullptr;
    std::string key = position < 0 ? "head " : "";
    for (const sim::LayerRule& rule : recipe_.rules) key += sim::selects(rule, place) ? '1' : '0';
    RecipeFacts::LayerFacts& facts = known_[key];
    if (!facts) {
      fp4::Recipe start = recipe_;
      if (position < 0) start.fprop = start.dgrad = start.wgrad = unscaled();
      RecipeFacts own = facts_of(sim::products_at(recipe_, std::move(start), place, phase_));
      if (recipe_.quantise)
        add_mask(sim::sparsity_at(recipe_, position < 0 ? Sparsity::none : recipe_.sparse, place, phase_), own);
      facts = std::make_shared<RecipeFacts>(std::move(own));
    }
    return facts;
  }

 private:
  static GemmSpec unscaled() {
    GemmSpec product;
    for (OperandSpec* o : {&product.a, &product.b}) o->quant.element = Element::fp32, o->quant.scale = Scale::none;
    return product;
  }
  sim::TrainingRecipe recipe_;
  int phase_;
  std::map<std::string, RecipeFacts::LayerFacts> known_;
};

RecipeFacts facts_in(const sim::TrainingRecipe& recipe, int phase) {
  RecipeFacts facts = facts_of(sim::products_in(recipe, recipe, phase));
  facts.center_keys = recipe.center_keys;
  if (recipe.quantise) {
    sim::TrainingRecipe of_phases = recipe;
    of_phases.rules.clear();
    add_mask(sim::sparsity_at(of_phases, recipe.sparse, {}, phase), facts);
    if (recipe.attention.stores())
      facts.cache = {facts_of({.quant = recipe.attention.kv}), recipe.attention.keys == sim::CacheAxis::token,
                     recipe.attention.values == sim::CacheAxis::channel};
    facts.full_output = recipe.attention.delta == sim::SoftmaxDelta::of_full_output;
  }
  // fp32: w and its mean read, the mean written; in a window w, the last w and Q(w) and the two sums read, and all but
  // w written; between windows of a ramp the gathered gradient and the steps waited read and written, the period read.
  if (recipe.weights.decay > 0) facts.weight_bytes += 12;
  if (recipe.weights.every > 0) facts.weight_bytes += 36.0 * recipe.weights.window / recipe.weights.every;
  if (recipe.weights.ramp_every > 0)
    facts.weight_bytes += 20 + 16.0 * recipe.weights.ramp_window / recipe.weights.ramp_every;
  if (!recipe.quantise) facts.weight_bytes = 0;
  facts.by_depth = std::any_of(recipe.rules.begin(), recipe.rules.end(), [](const sim::LayerRule& rule) {
    return rule.by == sim::LayerRule::By::first || rule.by == sim::LayerRule::By::last;
  });
  if (!recipe.rules.empty())
    facts.at_layer = [by_layer = std::make_shared<FactsByLayer>(recipe, phase)](const std::string& name, int position,
                                                                                int count) {
      return (*by_layer)(name, position, count);
    };
  return facts;
}

}  // namespace

OperandFacts facts_of(const OperandSpec& operand) {
  const QuantSpec& spec = operand.quant;
  OperandFacts facts;
  const FloatFormat& element = format_of(spec.element);
  facts.element_bits = bits_of(element);
  // A cast to bf16 or fp32 is the tensor as it is; fp16 counts as bf16.
  facts.quantised = facts.element_bits < 16;
  if (!facts.quantised) return facts;
  facts.element = info_of(spec.element).name;
  facts.is_choice = spec.choice.is_on;
  if (spec.has_scale()) {
    facts.scale = row_of(scale_table, spec.scale).name;
    facts.scale_bits = scale_storage_bits(spec.scale);
    facts.scale_block = scale_block(spec.block);
    facts.square = spec.block.kind == BlockKind::square;
    facts.rule_ops = row_of(scale_rule_table, spec.scale_rule).extra_ops;
    if (!is_power_of_two_rule(spec.scale_rule) && is_stochastic(spec.scale_rounding))
      facts.random_bits += spec.random_bits / facts.scale_block;
    // A choice rounds to both grids and compares their errors, as four_over_six does; a level of micro-exponents has a
    // maximum and a shift of its own.
    if (spec.choice.is_on) facts.rule_ops += row_of(scale_rule_table, ScaleRule::four_over_six).extra_ops;
    for (int level = 0; element.has_micro() && level < most_micro_levels; ++level)
      facts.rule_ops += element.grid->micro[level].per > 0 ? 2 : 0;
    if (spec.corrects_scales()) facts.random_bits += spec.random_bits / facts.scale_block;
    add_tensor_scale(spec, facts);
  }
  if (is_stochastic(spec.rounding)) facts.random_bits += spec.random_bits;
  const EstimatorInfo& estimator = row_of(estimator_table, operand.estimator.estimator);
  facts.estimator_ops = estimator.ops;
  facts.scale_gradient_ops = row_of(scale_gradient_table, operand.estimator.scale_gradient).ops;
  facts.saved_bits = facts.scale_gradient_ops > 0 ? std::max(16, estimator.saved_bits) : estimator.saved_bits;
  facts.from_fprop = operand.source == Source::fprop_quantised;
  return facts;
}

double bits_of(const FloatFormat& element) {
  return element.is_grid() ? element.grid->packed_bits() : element.code_bits();
}

OperandFacts operand_with(double element_bits, const std::string& scale_and_block) {
  const size_t slash = scale_and_block.find('/');
  const ScaleInfo* const scale = find_row(scale_table, std::string_view(scale_and_block).substr(0, slash));
  OperandFacts facts;
  facts.quantised = true;
  facts.element_bits = element_bits;
  facts.scale = scale->name;
  facts.scale_bits = scale_storage_bits(scale->id);
  facts.scale_block = std::stod(scale_and_block.substr(slash + 1));
  return facts;
}

RecipeFacts facts_of(const Recipe& recipe) {
  RecipeFacts facts;
  facts.name = recipe.name;
  facts.fprop = gemm_facts(recipe.fprop, recipe.quantise);
  facts.dgrad = gemm_facts(recipe.dgrad, recipe.quantise);
  facts.wgrad = gemm_facts(recipe.wgrad, recipe.quantise);
  // Only a backward product's b can be forward's.
  for (OperandFacts* own : {&facts.fprop.a, &facts.fprop.b, &facts.dgrad.a, &facts.wgrad.a}) own->from_fprop = false;
  if (recipe.wgrad.split.kind == Split::hot_channels) {
    facts.wgrad.split.adds = false;  // columns of the result
    const SplitSpec& fprop = recipe.fprop.split;
    if (fprop.kind == recipe.wgrad.split.kind && fprop.share == recipe.wgrad.split.share)
      facts.wgrad.split.chooses = false;  // fprop's channels
  }
  // Codes of a square weight block serve the transpose when nothing differs (numerics: 2-D weights, both GEMMs plain).
  facts.one_weight_quantiser = recipe.quantise && recipe.fprop.b.quant == recipe.dgrad.b.quant &&
                               facts.fprop.b.square && recipe.fprop.hadamard.size == 0 &&
                               sim::keeps_b_whole(recipe.fprop.split) && sim::keeps_b_whole(recipe.dgrad.split) &&
                               recipe.dgrad.hadamard.size == 0 && recipe.dgrad.b.source == Source::high_precision;
  facts.layers = policy_facts(recipe.layers);
  facts.loss_scaling = recipe.loss_scaling;
  bool fp32 = true;
  for (int gemm = 0; gemm < 3; ++gemm)
    fp32 = fp32 && gemm_of(facts, gemm).a.element_bits > 16 && gemm_of(facts, gemm).b.element_bits > 16;
  if (fp32) facts.high_class = "fp32";
  return facts;
}

RecipeFacts facts_of(const sim::TrainingRecipe& recipe, int steps) {
  if (const std::string reason = sim::invalid_reason(recipe); !reason.empty())
    throw Error(fmt::format("recipe {}: {}", recipe.name, reason));
  RecipeFacts facts = facts_in(recipe, recipe.phases.empty() ? -1 : 0);
  for (const double share : sim::phase_shares(recipe, steps)) {
    facts.phases.push_back(facts_in(recipe, static_cast<int>(facts.phases.size())));
    facts.phases.back().share = share;
  }
  return facts;
}

}  // namespace fp4::cost
