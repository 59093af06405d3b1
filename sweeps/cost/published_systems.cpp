// What was published on whole systems: Stash's stalls on AWS instances, the network's share of energy, and performance
// per watt of formats.
#include <algorithm>

#include "fp4/presets.h"
#include "sweeps/cost/adapt.h"
#include "sweeps/cost/cost.h"
#include "sweeps/cost/embedding/memory_system.h"
#include "sweeps/cost/published.h"

namespace fp4::cost {

namespace {

using Class = PublishedRow::Class;

constexpr char stash_source[] =
    "Stash: Sharma et al., Analysis of Distributed Deep Learning in the Cloud, arXiv 2208.14344, abstract";
constexpr char stash_note[] =
    "the largest of the source's and of four networks here (ResNet-18, -50, VGG-11, -16), 32 images an accelerator, "
    "fp32: the source's batches are not in its abstract; over the batch: results/stalls/batches.csv";

const std::vector<std::string> networks = {"resnet18", "resnet50", "vgg11", "vgg16"};

Recipe uniform(const char* preset) {
  Recipe recipe;
  for (GemmSpec* gemm : {&recipe.fprop, &recipe.dgrad, &recipe.wgrad})
    gemm->a.quant = gemm->b.quant = find_preset(preset)->spec;
  return recipe;
}

void stash(std::vector<PublishedRow>& rows) {
  double stall = 0, slower = 0;
  for (const std::string& network : networks) {
    for (const auto& [chip, devices] :
         {std::pair{"p2_8xlarge", 8}, {"p2_16xlarge", 16}, {"p3_8xlarge", 4}, {"p3_16xlarge", 8}})
      stall = std::max(stall, cloud_step(chip, network, devices, 32).interconnect_stall);
    slower = std::max(
        slower, cloud_step("p3_8xlarge", network, 8, 32).step_s / cloud_step("p3_16xlarge", network, 8, 32).step_s);
  }
  rows.push_back({"stash_interconnect", "p2_16xlarge", "largest interconnect stall within an instance", "of a step",
                  0.9, stall, Class::predicted, stash_source, stash_note});
  rows.push_back({"stash_network", "p3_8xlarge",
                  "8 V100 on two instances over 10 Gb/s against 8 in one, largest slow-down", "x", 5, slower,
                  Class::predicted, stash_source, stash_note});
}

// The network's part of the energy of the runs of rows power_*.
void network_energy(std::vector<PublishedRow>& rows) {
  const Hardware h100 = load_hardware("h100");
  const RecipeFacts fp8 = facts_of(uniform("mxfp8"));
  const std::string source =
      "MLPerf Training v4.0 power, Supermicro Training Cloud (SMC), smc.co/mlperfv40/results/llama2-70b-lora";
  const auto row = [&](const char* id, int devices, double published, Class kind, const char* note) {
    CostOptions options;
    options.formulas = false;
    options.devices = devices;
    const CostResult result = evaluate(fp8, load_model("llama3_8b"), h100, options);
    const double watts = *result.energy_j / devices / result.step_time_s;
    rows.push_back({id, "h100",
                    "Llama 2 70B LoRA on " + std::to_string(devices) + " H100, the network's part of the energy",
                    "of energy", published, CostWeights().network_w / watts, kind, source, note});
  };
  row("network_energy_64", 64, 0.26, Class::predicted,
      "the switches of the cluster do not become fewer with the job, and the model charges 116 W an accelerator at any "
      "size; on 8 accelerators, in one node, both are 0");
  row("network_energy_512", 512, 0.16, Class::predicted,
      "the W of the network set network_w; nodes that wait draw less than the model says (power_512)");
}

// Energy of a step in bf16 over that of a format, one accelerator with its part of the node.
void perf_per_watt(std::vector<PublishedRow>& rows) {
  const Hardware gb300 = load_hardware("gb300");
  const Model llama = load_model("llama3_8b");
  CostOptions options;
  options.formulas = false;
  const auto joules = [&](const RecipeFacts& recipe) { return *evaluate(recipe, llama, gb300, options).energy_j; };
  const double bf16 = joules(unquantised_recipe("bf16", 16));
  Recipe ffn = uniform("nvfp4");
  ffn.layers = {fp4::LayerPolicy::Kind::names, 0, {"gate", "up", "down"}};
  const std::string source = "quoted for DeepSeek-V3 on GB300 with NVFP4 in the FFN; the first-hand page was not found";
  rows.push_back({"perf_per_watt_nvfp4", "gb300", "NVFP4 in the FFN against BF16, tokens a joule", "x", 1.65,
                  bf16 / joules(facts_of(ffn)), Class::shown, source, "DeepSeek-V3 there, Llama 3.1 8B here"});
  rows.push_back({"perf_per_watt_mxfp8", "gb300", "MXFP8 against BF16, tokens a joule", "x", 1.31,
                  bf16 / joules(facts_of(uniform("mxfp8"))), Class::shown, source,
                  "DeepSeek-V3 there, Llama 3.1 8B here"});
}

// Latency of a batch of bags of fp32 rows, over that of sums in the switch, for short and for long bags.
void embedding_bags(std::vector<PublishedRow>& rows) {
  const std::string source = "PIFS-Rec: Huo et al., MICRO 2024, arXiv 2409.16633, abstract";
  for (const int pooling : {8, 32}) {
    TraceOptions options;
    options.pooling = pooling;
    const BagTrace trace = zipf_trace(options);
    const auto seconds = [&](MemorySystem system) {
      return replay(trace, {system, row_bytes(RowFormat::fp32, 64), 4 * 64, false}, default_memory()).seconds;
    };
    const double in_switch = seconds(MemorySystem::fabric_switch);
    const std::string bags = ", bags of " + std::to_string(pooling) + " fp32 rows";
    rows.push_back({"pifs_pond_" + std::to_string(pooling), "cxl", "latency of Pond over sums in the switch" + bags,
                    "x", 3.89, seconds(MemorySystem::pool) / in_switch, Class::predicted, source,
                    "256 examples of 8 bags, rows of 64 numbers, Zipf 1.05, nothing cached, profile of `fp4sim cost "
                    "embedding --explain`; the source's devices, rows and poolings are not in its abstract"});
    rows.push_back({"pifs_beacon_" + std::to_string(pooling), "cxl", "latency of BEACON over sums in the switch" + bags,
                    "x", 2.03, seconds(MemorySystem::device) / in_switch, Class::predicted, source,
                    "as above; here each device sums what it holds of a bag, so long bags leave little to send, and "
                    "BEACON's own translation and order of requests are not modelled"});
  }
}

}  // namespace

CloudStep cloud_step(const std::string& chip, const std::string& model, int devices, int images) {
  Model network = load_model(model);
  network.tokens_per_step = images;
  CostOptions options;
  options.formulas = false;
  options.devices = devices;
  options.parallel.sharding = Sharding::none;
  options.weights.gradient_bytes = 4;
  const CostResult result = evaluate(unquantised_recipe("fp32", 32), network, load_hardware(chip), options);
  return {result.step_time_s, *result.price * 1e6 / (images * devices), result.communication.interconnect_stall,
          result.communication.network_stall};
}

std::vector<PublishedRow> published_systems() {
  std::vector<PublishedRow> rows;
  stash(rows);
  network_energy(rows);
  perf_per_watt(rows);
  embedding_bags(rows);
  return rows;
}

}  // namespace fp4::cost
