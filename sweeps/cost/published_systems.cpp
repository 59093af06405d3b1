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

const std::vector<std::string> networks = {"resnet18", "resnet50", "vgg11", "vgg16"};

Recipe uniform(const char* preset) {
  Recipe recipe;
  for (GemmSpec* gemm : {&recipe.fprop, &recipe.dgrad, &recipe.wgrad})
    gemm->a.quant = gemm->b.quant = find_preset(preset)->spec;
  return recipe;
}

void stash(PublishedValues& values) {
  double stall = 0, slower = 0;
  for (const std::string& network : networks) {
    for (const auto& [chip, devices] :
         {std::pair{"p2_8xlarge", 8}, {"p2_16xlarge", 16}, {"p3_8xlarge", 4}, {"p3_16xlarge", 8}})
      stall = std::max(stall, cloud_step(chip, network, devices, 32).interconnect_stall);
    slower = std::max(
        slower, cloud_step("p3_8xlarge", network, 8, 32).step_s / cloud_step("p3_16xlarge", network, 8, 32).step_s);
  }
  values["stash_interconnect"] = stall;
  values["stash_network"] = slower;
}

// The network's part of the energy of the runs of rows power_*.
void network_energy(PublishedValues& values) {
  for (const int devices : {64, 512}) {
    CostOptions options = {.devices = devices, .formulas = false};
    const CostResult result =
        evaluate(facts_of(uniform("mxfp8")), load_model("llama3_8b"), load_hardware("h100"), options);
    values["network_energy_" + std::to_string(devices)] =
        CostWeights().network_w / (*result.energy_j / devices / result.step_time_s);
  }
}

// Latency of a batch of bags of fp32 rows, over that of sums in the switch, for short and for long bags.
void embedding_bags(PublishedValues& values) {
  for (const int pooling : {8, 32}) {
    TraceOptions options;
    options.pooling = pooling;
    const BagTrace trace = zipf_trace(options);
    const auto seconds = [&](MemorySystem system) {
      return replay(trace, {system, row_bytes(RowFormat::fp32, 64), 4 * 64, false}, default_memory()).seconds;
    };
    const double in_switch = seconds(MemorySystem::fabric_switch);
    values["pifs_pond_" + std::to_string(pooling)] = seconds(MemorySystem::pool) / in_switch;
    values["pifs_beacon_" + std::to_string(pooling)] = seconds(MemorySystem::device) / in_switch;
  }
}

}  // namespace

CloudStep cloud_step(const std::string& chip, const std::string& model, int devices, int images) {
  Model network = load_model(model);
  network.tokens_per_step = images;
  CostOptions options = {.devices = devices, .formulas = false};
  options.parallel.sharding = Sharding::none;
  options.weights.gradient_bytes = 4;
  const CostResult result = evaluate(unquantised_recipe("fp32", 32), network, load_hardware(chip), options);
  return {result.step_time_s, *result.price * 1e6 / (images * devices), result.communication.interconnect_stall,
          result.communication.network_stall};
}

void add_system_values(PublishedValues& values) {
  stash(values);
  network_energy(values);
  embedding_bags(values);
}

}  // namespace fp4::cost
