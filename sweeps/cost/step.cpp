// Decides: the terms of a training step: three GEMMs of every linear layer, the quantisers that feed them, estimators,
// attention, layers outside the recipe, optimizer, and what was fitted as "other". Times are summed, not overlapped:
// quantisers and GEMMs of one stream follow each other.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "sweeps/cost/cost.h"

namespace fp4::cost {

namespace {

class StepBuilder {
 public:
  // keep_terms: false adds up seconds only, which is what references need, and sweeps need references by the thousand.
  StepBuilder(const RecipeFacts& recipe, const Model& model, const Hardware& hardware, const CostOptions& options,
              bool keep_terms)
      : recipe_(recipe),
        model_(model),
        options_(options),
        chip_(hardware, options.weights),
        tokens_(static_cast<double>(model.tokens_per_step)),
        keep_terms_(keep_terms) {}

  double seconds() const { return seconds_; }
  std::vector<Term> build() {
    for (const PlannedLinear& row : plan_layers(model_, recipe_)) {
      if (row.quantised > 0) quantised_linear(row, row.facts ? *row.facts : recipe_, 1 + options_.recompute);
      if (row.high > 0) high_linear(*row.linear, row.high, row.blocks, recipe_.high_class, "matmul left in 16 bits");
    }
    for (const UnquantisedLinear& row : model_.unquantised) {
      const RecipeFacts::LayerFacts ruled =
          recipe_.at_layer ? recipe_.at_layer(row.linear.name, -1, static_cast<int>(model_.layers())) : nullptr;
      if (ruled) {  // the last layer is never checkpointed
        quantised_linear({&row.linear, 1, row.linear.width_out(), 0, ruled}, *ruled, 1);
        continue;
      }
      high_linear(row.linear, row.linear.width_out(), 1,
                  recipe_.high_class == "fp32" ? recipe_.high_class : row.format_class, "head");
    }
    attention();
    if (recipe_.cache && recipe_.cache->kv.quantised && model_.attention_width > 0 && !recipe_.free_quantisation)
      quantiser(cache_kernel(*recipe_.cache, model_, tokens_, options_.fused ? 0 : options_.weights.input_bytes), 1);
    optimizer();
    other();
    return std::move(terms_);
  }

 private:
  static const char* matmul_name(int gemm) {
    static const char* const names[] = {"matmul fprop", "matmul dgrad", "matmul wgrad"};
    return names[gemm];
  }
  // "fprop qkv", where terms are kept.
  std::string product_of(int gemm, const std::string& layer) const {
    return keep_terms_ ? std::string(matmul_name(gemm)).substr(7) + " " + layer : "";
  }

  void add(const char* what, const std::string& of, const char* group, const Resources& work, bool backward) {
    const Bound bound = roofline(work, chip_);
    seconds_ += bound.seconds;
    if (!keep_terms_) return;
    const std::string name = of.empty() ? what : fmt::format("{} {}", what, of);
    terms_.push_back({name, group, bound.seconds, options_.formulas ? roofline_formula(work, chip_) : "", bound.binding,
                      work.flop, work.bytes, work.ops, backward});
  }

  // Sizes of a layer's product. A token meets some of the copies of an expert's weights, and those of a convolution at
  // every pixel: `tokens` counts each use.
  struct Size {
    double tokens, in, out, experts;
  };
  Size size_of(const Linear& linear, double out) const {
    return {tokens_ * static_cast<double>(linear.uses()), static_cast<double>(linear.in), out,
            static_cast<double>(linear.experts)};
  }

  // One GEMM [M, K] x [N, K] of a layer, over all micro-batches: operands read in their formats, result written as
  // bf16, weight gradients accumulated in fp32. `repeat` > 1 counts a forward pass that is computed again. Of a part of
  // the product: `share` of its multiply-adds and operands; its result is written `results` times.
  Resources gemm_work(int gemm, const GemmFacts& facts, const Size& s, double repeat, double rate, double share = 1,
                      double results = 1) const {
    const auto bits = [](const OperandFacts& operand) { return operand.stored_bits(); };
    const double micro_batches = static_cast<double>(model_.micro_batches);
    Resources work = {.flop = share * repeat * 2 * s.tokens * s.in * s.out, .flop_rate = rate};
    // Rows of a and b, and elements of the result, summed over micro-batches.
    const double activations = s.tokens * (gemm == 0 ? s.in : s.out);
    const double weights = micro_batches * s.in * s.out * s.experts;
    double operands = (activations * bits(facts.a) + weights * bits(facts.b)) / 8;
    double result = s.tokens * (gemm == 0 ? s.out : s.in) * 2;
    if (gemm == 2) {
      operands = (s.tokens * s.out * bits(facts.a) + s.tokens * s.in * bits(facts.b)) / 8;
      result = s.in * s.out * s.experts * 4 * (2 * micro_batches - 1);
    }
    work.bytes = repeat * (share * operands + results * result);
    return work;
  }

  // The second product of a split one, whose activations may be sparse, and the choice of the parts.
  void second_product(int gemm, const Linear& linear, const SplitFacts& split, double out, double repeat,
                      double blocks) {
    const Size size = size_of(linear, out);
    if (split.second > 0) {
      GemmFacts facts{split.high, split.high, {}};
      const double rate = chip_.matrix_rate(facts);
      (gemm == 2 ? facts.b : facts.a).element_bits += split.index_bits;
      const double results = split.adds ? 2 : 0;
      add("matmul of the second part", product_of(gemm, linear.name), "matmul",
          times(gemm_work(gemm, facts, size, repeat, rate, split.second, results), blocks), gemm > 0);
    }
    if (split.rank > 0) low_rank(gemm, linear.name, split.rank, size, blocks);
    if (!split.chooses || recipe_.free_quantisation) return;
    Resources choice;
    const double activations = size.tokens * (gemm == 1 ? out : size.in) * blocks;
    choice.bytes = activations * options_.weights.input_bytes;
    choice.ops = activations * options_.weights.amax_ops;
    add("choice of parts", product_of(gemm, linear.name), "quantise", choice, gemm > 0);
  }

  // Low-rank parts of A [M, K] and B [N, K], of ranks a and b: four products with each operand, a + 4 and b + 4 wide,
  // and the products of factors, a (K N + M N) + b (M K + M N); two FLOP each, in bf16. The operand is read in bf16 for
  // each of the four.
  void low_rank(int gemm, const std::string& name, double share, const Size& s, double blocks) {
    const double times_run = static_cast<double>(model_.micro_batches) * s.experts, tokens = s.tokens / times_run;
    const double inner = gemm == 1 ? s.out : s.in, outer = gemm == 1 ? s.in : s.out;
    const double m = gemm == 2 ? outer : tokens, n = gemm == 2 ? inner : outer, k = gemm == 2 ? tokens : inner;
    const auto rank = [&](double side) { return std::max(1.0, std::floor(share * std::min(side, k) + 0.5)); };
    const double a = rank(m), b = rank(n);
    Resources work;
    work.flop_rate = chip_.matrix_rate("bf16");
    work.flop = 2 * (4 * (m * k * (a + 4) + n * k * (b + 4)) + a * (k * n + m * n) + b * (m * k + m * n));
    work.bytes = 4 * 2 * (m * k + n * k);
    add("low-rank parts", product_of(gemm, name), "matmul", times(work, times_run * blocks), gemm > 0);
  }

  static Resources times(Resources work, double factor) {
    work.flop *= factor;
    work.bytes *= factor;
    work.ops *= factor;
    return work;
  }

  void quantised_linear(const PlannedLinear& row, const RecipeFacts& recipe, double forward_passes) {
    const Linear& linear = *row.linear;
    const double out = static_cast<double>(row.quantised), blocks = static_cast<double>(row.blocks);
    const Size size = size_of(linear, out);
    for (int gemm = 0; gemm < 3; ++gemm) {
      if (gemm == 1 && !linear.dgrad) continue;
      const GemmFacts& facts = gemm_of(recipe, gemm);
      const double rate = chip_.matrix_rate(facts);
      const double repeat = gemm == 0 ? forward_passes : 1;
      add(matmul_name(gemm), linear.name, "matmul",
          times(gemm_work(gemm, facts, size, repeat, rate, facts.split.first), blocks), gemm > 0);
      second_product(gemm, linear, facts.split, out, repeat, blocks);
    }
    if (recipe_.free_quantisation) return;
    for (const QuantiseKernel& kernel : quantise_kernels(recipe, linear, size.tokens, out, options_))
      quantiser(kernel, blocks);
    estimator("X of ", linear, recipe.fprop, recipe.fprop.a, size.tokens * size.in * blocks);
    estimator("W of ", linear, recipe.fprop, recipe.fprop.b, size.in * out * size.experts * blocks);
  }

  // Charges each technique what the kernel grows by when it is switched on, in the order of the enumerators.
  void quantiser(QuantiseKernel kernel, double blocks) {
    kernel.elements *= blocks;
    const QuantiseOptions options{&options_.weights, options_.hadamard};
    if (!keep_terms_) {
      seconds_ +=
          roofline(quantise_work(kernel, static_cast<Technique>(technique_count - 1), chip_, options), chip_).seconds;
      return;
    }
    const bool backward = kernel.name.starts_with("dY") || kernel.name.ends_with("again");
    double before = 0;
    Resources earlier;
    for (int i = 0; i < technique_count; ++i) {
      const Technique technique = static_cast<Technique>(i);
      const Resources work = quantise_work(kernel, technique, chip_, options);
      const Bound bound = roofline(work, chip_);
      const bool changed = work.ops != earlier.ops || work.bytes != earlier.bytes || work.flop != earlier.flop;
      if (changed) {
        Term term{fmt::format("{} {}", technique_name(technique), kernel.name),
                  technique_group(technique),
                  bound.seconds - before,
                  "",
                  bound.binding,
                  work.flop - earlier.flop,
                  work.bytes - earlier.bytes,
                  work.ops - earlier.ops,
                  backward};
        if (options_.formulas)
          term.formula = i == 0 ? roofline_formula(work, chip_)
                                : fmt::format("{} - {:.5g} s", roofline_formula(work, chip_), before);
        terms_.push_back(std::move(term));
      }
      before = bound.seconds;
      earlier = work;
    }
  }

  // Backward multiplication by Q'(u), in the epilogue of dgrad or wgrad: the saved payload is written in the forward
  // pass and read here. With a Hadamard on fprop the gradient is rotated there and back.
  void estimator(const char* tensor, const Linear& linear, const GemmFacts& fprop, const OperandFacts& operand,
                 double elements) {
    const double ops = operand.estimator_ops + operand.scale_gradient_ops;
    if (!operand.quantised || ops == 0) return;
    const HadamardFacts& hadamard = fprop.hadamard;
    const CostWeights& w = options_.weights;
    double per_element = ops;
    if (hadamard.size > 0)
      per_element += 2 * w.hadamard *
                     (w.butterfly_ops * std::log2(hadamard.size) + (hadamard.normalised ? w.normalise_ops : 0) +
                      (hadamard.random_signs ? w.sign_ops : 0));
    Resources work;
    work.ops = w.estimator * elements * per_element;
    work.bytes = w.estimator * elements * 2 * operand.saved_bits / 8;
    add("estimator", tensor + linear.name, "estimator", work, true);
  }

  // A layer that stays in bf16 or fp32: fprop, dgrad and wgrad at that class' rate.
  void high_linear(const Linear& linear, int64_t out, int64_t blocks, const std::string& format_class,
                   const char* group) {
    OperandFacts operand;
    operand.element_bits = format_class == "fp32" ? 32 : 16;
    const GemmFacts facts{operand, operand, {}};
    const double rate = chip_.matrix_rate(format_class);
    const bool recomputed = std::string_view(group) != "head";  // the last layer is never checkpointed
    for (int gemm = 0; gemm < 3; ++gemm) {
      if (gemm == 1 && !linear.dgrad) continue;
      const double repeat = gemm == 0 && recomputed ? 1 + options_.recompute : 1;
      const Resources work = gemm_work(gemm, facts, size_of(linear, static_cast<double>(out)), repeat, rate);
      add(recomputed ? "high precision" : "head", product_of(gemm, linear.name), group,
          times(work, static_cast<double>(blocks)), gemm > 0);
    }
  }

  // Causal: half of the 2*S*width FLOP a token of each product, scores and values, forward; twice that backward.
  void attention() {
    const double of_block = static_cast<double>(model_.attention_width * model_.sequence) * tokens_;
    int64_t plain = 0;
    for (const PlannedProduct& row : plan_attention(model_, recipe_)) {
      if (row.facts)
        quantised_attention(row, *row.facts, of_block * static_cast<double>(row.blocks));
      else
        plain += row.blocks;
    }
    if (plain == 0) return;
    const double forward = of_block * static_cast<double>(plain);
    Resources work = {.flop = forward * (1 + options_.recompute), .flop_rate = chip_.matrix_rate(recipe_.high_class)};
    add("attention forward", "", "attention", work, false);
    work.flop = forward * 2;
    add("attention backward", "", "attention", work, true);
  }

  // Each product at its own rate. The kernel quantises what it holds: slots, and no bytes, for
  //   qk  fprop Q, K;  dgrad dS, K;   wgrad dS, Q      Q, K, V, dY: tokens * width elements,
  //   pv  fprop P, V;  dgrad dY, V;   wgrad dY, P      P, dS: heads * S/2 a token
  void quantised_attention(const PlannedProduct& row, const RecipeFacts& recipe, double flop) {
    const bool is_qk = std::string_view(row.name) == "qk";
    const double blocks = static_cast<double>(row.blocks);
    const double narrow = tokens_ * static_cast<double>(model_.attention_width) * blocks;
    const double wide = tokens_ * static_cast<double>(model_.attention_heads() * model_.sequence) / 2 * blocks;
    for (int gemm = 0; gemm < 3; ++gemm) {
      const GemmFacts& facts = gemm_of(recipe, gemm);
      const double repeat = gemm == 0 ? 1 + options_.recompute : 1;
      Resources work = {.flop = flop * repeat * facts.split.first, .flop_rate = chip_.matrix_rate(facts)};
      add(matmul_name(gemm), row.name, "attention", work, gemm > 0);
      if (facts.split.second > 0) {
        work.flop_rate = chip_.matrix_rate(GemmFacts{facts.split.high, facts.split.high, {}});
        work.flop = flop * repeat * facts.split.second;
        add("matmul of the second part", product_of(gemm, row.name), "attention", work, gemm > 0);
      }
      if (recipe_.full_output && !is_qk && gemm == 0) {
        work.flop_rate = chip_.matrix_rate(recipe_.high_class);
        work.flop = flop;
        add("matmul of the full output", row.name, "attention", work, false);
      }
      if (recipe_.free_quantisation) continue;
      const bool a_is_wide = is_qk ? gemm > 0 : gemm == 0, b_is_wide = !is_qk && gemm == 2;
      Resources slots;
      for (const auto& [operand, elements] :
           {std::pair(&facts.a, a_is_wide ? wide : narrow), std::pair(&facts.b, b_is_wide ? wide : narrow)})
        if (operand->quantised)
          slots.ops += repeat * elements *
                       copy_ops({operand, facts.hadamard}, static_cast<Technique>(technique_count - 1), chip_,
                                {&options_.weights, options_.hadamard});
      if (recipe_.center_keys && is_qk && gemm == 0) slots.ops += repeat * 2 * narrow;
      if (slots.ops > 0) add("quantise", product_of(gemm, row.name), "quantise", slots, gemm > 0);
    }
  }

  // Replicas that share the optimizer's work.
  double shards() const {
    return options_.parallel.sharding == Sharding::none ? 1.0 : 1.0 * options_.devices / options_.parallel.replica();
  }

  void optimizer() {
    const CostWeights& w = options_.weights;
    const double parameters = static_cast<double>(model_.parameters()) / shards();
    Resources work;
    work.bytes = w.optimizer_bytes * parameters;
    add("optimizer", "", "optimizer", work, false);
    if (recipe_.weight_bytes == 0 || recipe_.free_quantisation) return;
    double quantised = 0;  // the rules leave other layers alone
    for (const PlannedLinear& row : plan_layers(model_, recipe_)) quantised += row.quantised_parameters();
    work.bytes = recipe_.weight_bytes * quantised / shards();
    add("weight rules", "", "optimizer", work, false);
  }

  // Norms, activations, residual adds, losses, launches: proportional to layers x width, fitted on one model.
  void other() {
    const Hardware& hardware = *chip_.hardware;
    if (hardware.other_s_per_token.value == 0 || options_.weights.other == 0) return;
    const double scale = static_cast<double>(model_.blocks * model_.width) / hardware.other_size;
    const double seconds = options_.weights.other * hardware.other_s_per_token.value * scale * tokens_;
    seconds_ += seconds;
    if (!keep_terms_) return;
    Term term{"other", "other", seconds, "",   hardware.other_s_per_token.kind == "fitted" ? "fitted" : "estimate",
              0,       0,       0,       false};
    if (options_.formulas)
      term.formula = fmt::format("{:.4g} s/token of {} x {:.4g} (layers x width) x {:.6g} tokens",
                                 hardware.other_s_per_token.value, hardware.other_model, scale, tokens_);
    terms_.push_back(std::move(term));
  }

  const RecipeFacts& recipe_;
  const Model& model_;
  const CostOptions& options_;
  const Chip chip_;
  const double tokens_;
  const bool keep_terms_;
  double seconds_ = 0;
  std::vector<Term> terms_;
};

struct Consumer {
  const GemmFacts* gemm;
  const OperandFacts* operand;
};

void add_kernels(std::vector<QuantiseKernel>& kernels, const std::string& name, double elements, const Consumer& row,
                 const Consumer& column, const CostOptions& options, bool shares_codes) {
  const double read = options.fused ? 0 : options.weights.input_bytes;
  QuantiseKernel joint{name, elements, read, {}};
  for (const Consumer& consumer : {row, column}) {
    if (consumer.gemm == nullptr || !(consumer.operand->quantised || consumer.operand->masked)) continue;
    const Copy copy{consumer.operand, consumer.gemm->hadamard, shares_codes && consumer.gemm == column.gemm};
    if (consumer.operand->from_fprop) {
      kernels.push_back({name + " again", elements, row.operand->stored_bits() / 8, {copy}});
    } else if (options.one_pass) {
      joint.copies.push_back(copy);
    } else {
      kernels.push_back({name, elements, read, {copy}});
    }
  }
  if (!joint.copies.empty()) kernels.insert(kernels.begin(), std::move(joint));
}

}  // namespace

// The quantisation kernels of a linear layer in a step. Three tensors, two copies each:
//   X  [tokens, in]   row copy for fprop.a, column copy for wgrad.b
//   W  [out, in]      row copy for fprop.b, column copy for dgrad.b; once a step and expert, whatever the
//                     micro-batches
//   dY [tokens, out]  row copy for dgrad.a, column copy for wgrad.a
// A copy made from the decoded forward operand (source fprop_quantised) reads codes instead of bf16, in a kernel apart.
std::vector<QuantiseKernel> quantise_kernels(const RecipeFacts& recipe, const Linear& linear, double tokens,
                                             double width_out, const CostOptions& options) {
  const Consumer fprop_x{&recipe.fprop, &recipe.fprop.a}, fprop_w{&recipe.fprop, &recipe.fprop.b};
  const Consumer dgrad_dy{linear.dgrad ? &recipe.dgrad : nullptr, &recipe.dgrad.a};
  const Consumer dgrad_w{linear.dgrad ? &recipe.dgrad : nullptr, &recipe.dgrad.b};
  const Consumer wgrad_dy{&recipe.wgrad, &recipe.wgrad.a}, wgrad_x{&recipe.wgrad, &recipe.wgrad.b};
  const double in = static_cast<double>(linear.in);
  std::vector<QuantiseKernel> x, w, dy;
  add_kernels(x, "X of " + linear.name, tokens * in, fprop_x, wgrad_x, options, false);
  add_kernels(w, "W of " + linear.name, in * width_out * static_cast<double>(linear.experts), fprop_w, dgrad_w, options,
              recipe.one_weight_quantiser);
  add_kernels(dy, "dY of " + linear.name, tokens * width_out, dgrad_dy, wgrad_dy, options, false);
  x.insert(x.end(), w.begin(), w.end());
  x.insert(x.end(), dy.begin(), dy.end());
  return x;
}

const std::vector<std::string>& cost_groups() {
  static const std::vector<std::string> groups = {
      "matmul",   "matmul left in 16 bits", "head",     "attention",           "optimizer",  "other",
      "quantise", "tensor scale",           "hadamard", "stochastic rounding", "scale rule", "estimator"};
  return groups;
}

// Of a step in the mean over the run: each phase's terms weigh their share of the steps.
std::vector<Term> step_terms(const RecipeFacts& recipe, const Model& model, const Hardware& hardware,
                             const CostOptions& options) {
  if (recipe.phases.empty()) return StepBuilder(recipe, model, hardware, options, true).build();
  std::vector<Term> mean;
  for (const RecipeFacts& phase : recipe.phases)
    for (Term term : StepBuilder(phase, model, hardware, options, true).build()) {
      term.seconds *= phase.share, term.flop *= phase.share, term.bytes *= phase.share, term.ops *= phase.share;
      if (options.formulas) term.formula = fmt::format("{:g} of the steps: {}", phase.share, term.formula);
      mean.push_back(std::move(term));
    }
  return mean;
}

double step_seconds(const RecipeFacts& recipe, const Model& model, const Hardware& hardware,
                    const CostOptions& options) {
  const auto seconds = [&](const RecipeFacts& facts) {
    StepBuilder builder(facts, model, hardware, options, false);
    builder.build();
    return builder.seconds();
  };
  if (recipe.phases.empty()) return seconds(recipe);
  double mean = 0;
  for (const RecipeFacts& phase : recipe.phases) mean += phase.share * seconds(phase);
  return mean;
}

double total_seconds(const std::vector<Term>& terms) {
  double total = 0;
  for (const Term& term : terms) total += term.seconds;
  return total;
}

}  // namespace fp4::cost
