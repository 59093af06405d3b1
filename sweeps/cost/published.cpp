// The model's value of each row of published.json rebuilds the published setting: chip, model, recipe, batch,
// activation checkpointing, fused or separate kernels. Ratios are formed as the source forms them, so that a fitted
// absolute time does not leak into a prediction.
#include "sweeps/cost/published.h"

#include <algorithm>
#include <limits>

#include "fp4/presets.h"
#include "src/text/embedded.h"
#include "src/text/json_reader.h"
#include "sweeps/cost/adapt.h"
#include "sweeps/cost/cost.h"

namespace fp4::cost {

namespace {

using Class = PublishedRow::Class;

constexpr const char* class_names[] = {"fitted", "predicted", "bound", "shown only"};  // in the order of Class

// The recipe of the MFU report's routes: square weight blocks, stochastic rounding on the row copy of dY.
Recipe route(const QuantSpec& spec, int square, bool row_sr) {
  Recipe recipe;
  for (GemmSpec* gemm : {&recipe.fprop, &recipe.dgrad, &recipe.wgrad}) gemm->a.quant = gemm->b.quant = spec;
  for (GemmSpec* gemm : {&recipe.fprop, &recipe.dgrad}) gemm->b.quant.block = {BlockKind::square, square};
  if (row_sr) recipe.dgrad.a.quant.rounding = Rounding::stochastic;
  return recipe;
}

Recipe with_wgrad_hadamard(Recipe recipe, int size, HadamardNormalise normalise) {
  recipe.wgrad.hadamard = {size, HadamardSigns::fixed, normalise};
  return recipe;
}

// Transformer Engine: SR on both copies of dY, H16 with fixed signs on wgrad.
Recipe transformer_engine() {
  Recipe recipe = with_wgrad_hadamard(route(nvfp4_spec, 16, true), 16, HadamardNormalise::sqrt);
  recipe.wgrad.a.quant.rounding = Rounding::stochastic;
  return recipe;
}

QuantSpec local_nvfp4() {
  QuantSpec spec = nvfp4_spec;  // scales of tiles instead of the tensor: no pass over it
  spec.tensor_scale = TensorScale::none;
  return spec;
}

CostOptions options_of(double recompute, HadamardKernel hadamard = HadamardKernel::fused) {
  CostOptions options;
  options.devices = 32;
  options.recompute = recompute;
  options.hadamard = hadamard;
  options.formulas = false;
  return options;
}

// Activation checkpointing of the report: BF16 every eighth block, the others one of 32.
constexpr double selective_8 = 1.0 / 8, selective_32 = 1.0 / 32;

class Comparison {
 public:
  PublishedValues values() {
    gb200_throughput();
    gb200_techniques();
    gb300();
    mi355x();
    rotation_on_older_chips();
    bounds();
    memory();
    power();
    add_system_values(values_);
    return std::move(values_);
  }

 private:
  double us_per_token(const RecipeFacts& recipe, const Hardware& chip, const CostOptions& options) const {
    return total_seconds(step_terms(recipe, llama_, chip, options)) / static_cast<double>(llama_.tokens_per_step) * 1e6;
  }
  double us_per_token(const Recipe& recipe, const Hardware& chip, const CostOptions& options) const {
    return us_per_token(facts_of(recipe), chip, options);
  }

  void gb200_throughput() {
    const double bf16 = us_per_token(bf16_, gb200_, options_of(selective_8));
    const auto speedup = [&](const Recipe& recipe, HadamardKernel hadamard = HadamardKernel::fused) {
      return bf16 / us_per_token(recipe, gb200_, options_of(selective_32, hadamard));
    };
    values_["gb200_bf16"] = bf16;
    values_["gb200_mxfp4"] = speedup(route(mxfp4_spec, 32, true));
    values_["gb200_te_nvfp4"] = speedup(transformer_engine(), HadamardKernel::unfused);
    Recipe last_four = transformer_engine();
    last_four.layers = {fp4::LayerPolicy::Kind::skip_last, 0.125, {}};
    values_["gb200_te_f0l4"] = speedup(last_four, HadamardKernel::unfused);
    values_["gb200_global_nvfp4"] = speedup(route(nvfp4_spec, 16, true));
    values_["gb200_local_nvfp4"] = speedup(route(local_nvfp4(), 16, true));
  }

  void gb200_techniques() {
    const auto us = [&](const Recipe& recipe) { return us_per_token(recipe, gb200_, options_of(selective_32)); };
    const Recipe plain = route(mxfp4_spec, 32, true), local = route(local_nvfp4(), 16, true);
    values_["gb200_h32"] = us(with_wgrad_hadamard(plain, 32, HadamardNormalise::fold)) / us(plain) - 1;
    values_["gb200_h16_local"] = us(with_wgrad_hadamard(local, 16, HadamardNormalise::fold)) / us(local) - 1;
    values_["gb200_tensor_scale"] = us(route(nvfp4_spec, 16, true)) / us(local) - 1;
  }

  void gb300() {
    const auto tokens_per_second = [&](const Recipe& recipe) {
      return 1e6 / us_per_token(recipe, gb300_, options_of(selective_32));
    };
    values_["b300_mxfp4"] = tokens_per_second(route(mxfp4_spec, 32, true));
    values_["b300_local_nvfp4"] = tokens_per_second(route(local_nvfp4(), 16, true));
  }

  void mi355x() {
    Recipe h16 = route(mxfp4_spec, 32, false);
    for (GemmSpec* gemm : {&h16.fprop, &h16.dgrad, &h16.wgrad}) gemm->hadamard.size = 16;
    CostOptions options;
    options.formulas = false;
    const double fp8 = us_per_token(route(find_preset("mxfp8")->spec, 32, false), mi355x_, options);
    values_["mi355x_mxfp4"] = fp8 / us_per_token(h16, mi355x_, options);
    // One operand, one copy: the kernel that rotates and quantises.
    const OperandFacts operand = facts_of(route(mxfp4_spec, 32, false).wgrad.a);
    const Chip chip(mi355x_, options.weights);
    const auto seconds = [&](int size) {
      const QuantiseKernel kernel{"x", 1e9, 2, {{&operand, {size, true, false}, false}}};
      return roofline(quantise_work(kernel, Technique::hadamard, chip, {&options.weights, HadamardKernel::fused}), chip)
          .seconds;
    };
    values_["mi355x_h16_h32"] = seconds(32) / seconds(16);
  }

  // One decoder layer of Llama 2 70B, backward, with INT4 GEMMs standing for FP4: unfused rotations by 64 of dY twice,
  // X once, W once per 16k tokens, for each linear layer by itself.
  void rotation_on_older_chips() {
    const Hardware a100 = load_hardware("a100"), h100 = load_hardware("h100");
    Model layer = load_model("llama2_70b_layer");
    std::vector<Linear> apart;
    for (const Linear& linear : layer.linears)
      for (const int64_t out : linear.out) apart.push_back({linear.name, linear.in, {out}, {linear.name}, true});
    layer.linears = apart;
    CostOptions options = options_of(0, HadamardKernel::unfused);
    Recipe rotated = route(mxfp4_spec, 32, false);
    for (GemmSpec* gemm : {&rotated.fprop, &rotated.dgrad}) gemm->b.quant.block = {};
    rotated.dgrad.hadamard = rotated.wgrad.hadamard = {64, HadamardSigns::per_step, HadamardNormalise::sqrt};
    CostResult result;
    result.terms = step_terms(facts_of(rotated), layer, a100, options);
    const double rotation_us = group_seconds(result, "hadamard") / static_cast<double>(layer.tokens_per_step) * 1e6;
    values_["a100_rht64"] = rotation_us / 7.47;  // us/token of the layer without it
    const double forward_us =
        2.0 * static_cast<double>(layer.linear_parameters()) / (a100.rate("bf16") * a100.efficiency.value) * 1e6;
    values_["a100_rht64_step"] = rotation_us / (forward_us + 7.47);
    // [32768, 8192] x [8192, N] in FP8, both operands rotated while they are cast: 2 bytes read, 1 written.
    const auto share = [&](double n, double bytes) {
      const double gemm = 2.0 * 32768 * 8192 * n / (h100.rate("fp8") * h100.efficiency.value);
      return (32768 + n) * 8192 * bytes / h100.memory_bandwidth.value / gemm;
    };
    values_["h100_rht"] = share(8192, 3);
    values_["h100_rht_70b"] = share(28672, 3);
  }

  // Bounds of sources that had stochastic conversions in hardware; software Philox costs more and is stated beside.
  void bounds() {
    Hardware chip = gb200_;
    Recipe sr = route(mxfp4_spec, 32, true);
    sr.wgrad.a.quant.rounding = Rounding::stochastic;
    const auto seconds_of = [&](const RecipeFacts& recipe, const char* group) {
      CostResult result;
      result.terms = step_terms(recipe, llama_, chip, options_of(0));
      return group_seconds(result, group);
    };
    const double bf16 = seconds_of(bf16_, "matmul") * 2 / 3, fp4 = seconds_of(facts_of(sr), "matmul") * 2 / 3;
    const double software = seconds_of(facts_of(route(mxfp4_spec, 32, true)), "stochastic rounding");
    values_["sr_of_bf16_software"] = software / bf16;
    values_["sr_of_fp4_software"] = software / fp4;
    chip.hardware_random = true;
    const double hardware = seconds_of(facts_of(sr), "stochastic rounding");
    values_["sr_of_bf16"] = hardware / bf16;
    values_["sr_of_fp4"] = hardware / fp4;
    CostOptions options = options_of(0);
    options.one_pass = false;
    Recipe four_over_six = route(nvfp4_spec, 16, false);
    for (OperandSpec* operand : {&four_over_six.fprop.a, &four_over_six.fprop.b})
      operand->quant.scale_rule = ScaleRule::four_over_six;
    CostResult result;
    result.terms = step_terms(facts_of(four_over_six), llama_, gb200_, options);
    values_["four_over_six"] = group_seconds(result, "scale rule") /
                               (group_seconds(result, "quantise") + group_seconds(result, "tensor scale"));
  }

  void memory() {
    constexpr double gib = 1073741824.0;
    Model large = llama_;
    large.micro_batches = llama_.micro_batches / 2;  // local batch 4
    const auto peak = [&](const RecipeFacts& recipe, const Model& model, double recompute) {
      return memory_footprint(recipe, model, gb200_, options_of(recompute)).total() / gib;
    };
    values_["memory_bf16"] = peak(bf16_, llama_, selective_8);
    values_["memory_te"] = peak(facts_of(transformer_engine()), llama_, selective_32);
    values_["memory_mxfp4"] = peak(facts_of(route(mxfp4_spec, 32, true)), large, selective_32);
    values_["memory_local"] = peak(facts_of(route(local_nvfp4(), 16, true)), large, selective_32);
  }

  // Mean power of an accelerator with its share of its node (liquid cooled: no fans) and of the network.
  void power() {
    const Hardware h100 = load_hardware("h100");
    const RecipeFacts fp8 = facts_of(route(find_preset("mxfp8")->spec, 32, false));
    const auto watts = [&](int devices) {
      CostOptions options = options_of(0);
      options.devices = devices;
      const CostResult result = evaluate(fp8, llama_, h100, options);
      return *result.energy_j / devices / result.step_time_s;
    };
    for (const int devices : {8, 64, 512}) values_["power_" + std::to_string(devices)] = watts(devices);
    values_["power_network"] = CostWeights().network_w;
    values_["power_gpt3"] = watts(512);
  }

  PublishedValues values_;
  const Model llama_ = load_model("llama3_8b");
  const Hardware gb200_ = load_hardware("gb200"), gb300_ = load_hardware("gb300"), mi355x_ = load_hardware("mi355x");
  const RecipeFacts bf16_ = unquantised_recipe("bf16", 16);
};

}  // namespace

double PublishedRow::factor() const {
  if (model <= 0) return kind == Class::bound ? 0 : std::numeric_limits<double>::infinity();
  return kind == Class::bound ? model / published : std::max(model / published, published / model);
}

bool PublishedRow::met() const {
  switch (kind) {
    case Class::predicted: return factor() <= 1.5;
    case Class::bound: return model <= published;
    default: return true;
  }
}

const char* class_name(PublishedRow::Class kind) { return class_names[static_cast<size_t>(kind)]; }

double throughput_share(double time_share) { return 1 - 1 / (1 + time_share); }

std::vector<PublishedRow> published_comparison() {
  PublishedValues values = Comparison().values();
  const auto data = parse_json<nlohmann::ordered_json>(embedded("cost/published.json"), "cost/published.json");
  std::vector<PublishedRow> rows;
  for (const auto& [id, row] : data.at("rows").items()) {
    const auto kind = std::find(std::begin(class_names), std::end(class_names), row.at("class").get<std::string>());
    rows.push_back({id, row.at("chip"), row.at("what"), row.at("unit"), row.at("published"), values.at(id),
                    static_cast<Class>(kind - class_names), data.at("sources").at(row.at("source").get<std::string>()),
                    row.value("note", "")});
    // What the source leaves to hardware, done in software.
    if (const auto software = values.find(id + "_software"); software != values.end())
      rows.back().note += std::to_string(software->second * 100).substr(0, 4) + " %";
  }
  return rows;
}

}  // namespace fp4::cost
