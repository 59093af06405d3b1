// How accelerators share a step, by hand on the made-up chip of test_cost.cpp: 1024 bytes/s between the two of a node,
// 512 bytes/s between nodes, 8192 bytes/s of memory, 32768 slots/s reached. The model has two blocks of one layer 64 ->
// 32: 4096 parameters, 128 tokens in 2 micro-batches of 64 x 64 activations, 8192 bytes in bf16. Messages start at
// once.
#include <catch2/catch.hpp>

#include "fp4/presets.h"
#include "sweeps/cost/adapt.h"
#include "sweeps/cost/cost.h"

using namespace fp4;
using namespace fp4::cost;
using Catch::Contains;

namespace {

Json chip_json() {
  return Json::parse(R"({"name": "toy", "doc": "powers of two",
    "rates": {"fp4": 8192, "fp8": 4096, "bf16": 2048, "fp32": 1024}, "efficiency": 0.5,
    "issue_per_s": 65536, "issue_efficiency": 0.5, "memory_bandwidth": 8192, "memory_bytes": 1e6,
    "link_bandwidth": 1024, "network_bandwidth": 512, "node_size": 2, "random_source": "philox",
    "quantiser_bandwidth": 1, "other_s_per_token": 0})");
}

Model blocks_of(int blocks) {
  Json json = Json::parse(R"({"name": "two", "doc": "blocks", "source": "test", "blocks": 2, "width": 64,
    "linears": [{"name": "l", "in": 64, "out": [32]}], "unquantised": [], "attention_width": 0, "sequence": 0,
    "tokens_per_step": 128, "micro_batches": 2, "saved_per_token_block": 10, "extra_parameters": 0})");
  json["blocks"] = blocks;
  return parse_model(json, "test model");
}

const Hardware chip = parse_hardware(chip_json(), "test chip");

// Nothing is hidden, messages have no latency and do not share a bucket.
CostOptions plain(int devices, Sharding sharding = Sharding::none) {
  CostOptions options;
  options.devices = devices;
  options.parallel.sharding = sharding;
  options.weights.overlap = options.weights.bucket_bytes = 0;
  options.weights.collective_s = options.weights.link_hop_s = options.weights.network_hop_s = 0;
  return options;
}

CostResult bf16_of(const CostOptions& options, int blocks = 2) {
  return evaluate(unquantised_recipe("bf16", 16), blocks_of(blocks), chip, options);
}

Wire mxfp4_wire(bool stochastic, int hadamard) {
  Recipe recipe;
  recipe.fprop.a.quant = mxfp4_spec;
  if (stochastic) recipe.fprop.a.quant.rounding = Rounding::stochastic;
  recipe.fprop.hadamard = {hadamard, HadamardSigns::per_step, HadamardNormalise::sqrt};
  const RecipeFacts facts = facts_of(recipe);
  return {facts.fprop.a, facts.fprop.hadamard};
}

}  // namespace

TEST_CASE("more than one accelerator needs links, a network and the size of a node, by name", "[quick]") {
  const auto missing = [](std::vector<const char*> fields, int devices) {
    Json json = chip_json();
    for (const char* field : fields) json.erase(field);
    try {
      evaluate(unquantised_recipe("bf16", 16), blocks_of(2), parse_hardware(json, "chip"), plain(devices));
    } catch (const std::exception& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  CHECK(missing({"link_bandwidth", "network_bandwidth", "node_size"}, 1).empty());
  CHECK_THAT(missing({"link_bandwidth", "network_bandwidth", "node_size"}, 2),
             Contains("link_bandwidth, network_bandwidth, node_size") && Contains("toy"));
  CHECK_THAT(missing({"link_bandwidth"}, 2), Contains("need link_bandwidth;"));
  CHECK(missing({"network_bandwidth"}, 2).empty());  // a node has two
  CHECK_THAT(missing({"network_bandwidth"}, 4), Contains("need network_bandwidth;"));
}

TEST_CASE("a stage with more blocks than the others sets the pace, and parts held in turn shorten the bubble",
          "[quick]") {
  CostOptions options = plain(2);
  options.parallel.pipeline = 2;
  // Two micro-batches: the bubble is half of a step's work; of 3 blocks a stage has 2, a third more than the mean.
  const auto waits = [&](int blocks) {
    const CostResult result = bf16_of(options, blocks);
    return result.communication.bubble_s / (result.compute_s / 2);
  };
  CHECK(waits(2) == Approx(0.5));
  CHECK(waits(3) == Approx(1.5 * 4 / 3 - 1));
  options.parallel.interleave = 4;
  CHECK(waits(8) == Approx(0.125));
  CHECK(waits(9) == Approx(1.125 * 10 / 9 - 1));  // a stage of five blocks
  CHECK_THROWS_WITH(bf16_of(options, 5), Contains("--pipeline 2 with --interleave 4: more parts than the 5 blocks"));
  options.parallel.pipeline = 1, options.devices = 1;
  CHECK_THROWS_WITH(bf16_of(options, 5), Contains("--interleave 4: a pipeline is needed"));
  options.parallel = {}, options.parallel.pipeline = 4, options.devices = 4;
  CHECK_THROWS_WITH(bf16_of(options, 3), Contains("--pipeline 4 with --interleave 1: more parts than the 3 blocks"));
}

TEST_CASE("messages leave when a layer is ready, and links carry one at a time", "[quick]") {
  // Gradients of 3 s after layers of 4 s: at 4 to 7 and at 8 to 11.
  const std::vector<LayerPass> gradients(2, LayerPass{4, {}, {3, 2}});
  CHECK(pass_seconds(gradients, false) == 11);
  CHECK(exposed_seconds(gradients, false, 1) == 3);
  CHECK(exposed_seconds(gradients, false, 0) == 6);
  CHECK(exposed_seconds(gradients, false, 0.5) == 4.5);
  CHECK(pass_seconds(gradients, true) == 13);  // on the network at 7 to 9 and 11 to 13
  // Weights first: at 0 to 3, and while the first layer works (3 to 7) at 3 to 6.
  CHECK(pass_seconds(std::vector<LayerPass>(2, LayerPass{4, {3, 0}, {}}), false) == 11);
  // Both: weights 0 to 3 and 3 to 6, layers 3 to 7 and 7 to 11, gradients 7 to 10 and 11 to 14.
  CHECK(pass_seconds(std::vector<LayerPass>(2, LayerPass{4, {3, 0}, {3, 0}}), false) == 14);
  // Short layers: the link is busy throughout, its times add up.
  CHECK(pass_seconds(std::vector<LayerPass>(2, LayerPass{1, {3, 0}, {3, 0}}), false) == 12);
}

TEST_CASE("a layer's gradient hides behind the layers that follow it, the last one behind nothing", "[quick]") {
  CostOptions options = plain(2);
  options.weights.overlap = 1;
  // 2048 gradients of 2 bytes: 2 x 1/2 x 4096 / 1024 = 4 s, while the other layer's backward pass takes 512 s.
  const Communication two = bf16_of(options).communication;
  CHECK(two.interconnect_s == 8);
  CHECK(two.t1_s - two.t0_s == Approx(4));
  CHECK(two.hidden_s == Approx(4));
  options.weights.bucket_bytes = 8192;  // both leave together, at the end
  CHECK(bf16_of(options).communication.t1_s - two.t0_s == Approx(8));
}

TEST_CASE("seconds of a layer go by its multiply-adds, its messages by its weights", "[quick]") {
  // 2048 weights used 4 times an image, then 4 x 2048 used once: the same seconds, 4096 and 16384 bytes. At 1024
  // bytes/s an all-reduce takes 4 and 16 s: 20 s in all, of which the last layer's 16 hide behind the first one's
  // backward pass.
  Json json = to_json(blocks_of(1));
  json["linears"] =
      Json::parse(R"([{"name": "c", "in": 64, "out": [32], "positions": 4}, {"name": "f", "in": 64, "out": [128]}])");
  CostOptions options = plain(2);
  options.weights.overlap = 1;
  const Model model = parse_model(json, "positions");
  const Communication c = evaluate(unquantised_recipe("bf16", 16), model, chip, options).communication;
  CHECK(model.parameters() == 2048 * 5);
  CHECK(c.interconnect_s == 20);
  CHECK(c.t1_s - c.t0_s == Approx(4));
}

TEST_CASE("FSDP gathers forward and backward and scatters in each micro-batch", "[quick]") {
  // 2 s a half collective and layer: (2 + 2 x 2) x 2 layers x 2 micro-batches.
  CHECK(bf16_of(plain(2, Sharding::full)).communication.interconnect_s == 24);
  CHECK(bf16_of(plain(2, Sharding::optimizer)).communication.interconnect_s == 8);
  CHECK(bf16_of(plain(2, Sharding::none)).communication.interconnect_s == 8);
  // Of 8 blocks, 32768 bytes of weights: half of them, and the two gathered ones.
  CHECK(bf16_of(plain(2, Sharding::full), 8).memory.weights == 16384 + 8192);
  CHECK(bf16_of(plain(2, Sharding::optimizer), 8).memory.weights == 32768);
  CHECK(bf16_of(plain(2, Sharding::none), 8).memory.optimizer == 16384 * 8.0);
  CHECK(bf16_of(plain(2, Sharding::optimizer), 8).memory.optimizer == 16384 * 4.0);
}

TEST_CASE("a pipeline of p stages and m micro-batches waits (p-1)/(m+p-1) of its time", "[quick]") {
  CostOptions options = plain(2);
  options.parallel.pipeline = 2;
  const CostResult result = bf16_of(options);
  const Communication& c = result.communication;
  CHECK(c.bubble_s / c.t0_s == Approx(1.0 / 3));
  CHECK(c.t0_s == Approx(result.compute_s / 2 * 1.5));
  CHECK(c.stage_s == 16);  // 8192 bytes at 1024 bytes/s, there and back
  CHECK(c.t1_s == Approx(c.t0_s + 16));
  CHECK(c.interconnect_s == 0);  // one replica
  CHECK(c.replicas == 1);
  options.devices = 4;  // stages are on two nodes: 512 bytes/s
  CHECK(bf16_of(options).communication.stage_s == 32);
  CHECK(bf16_of(options).communication.tm_s > bf16_of(options).communication.t1_s);
}

TEST_CASE("a tensor group reduces activations twice forward and twice backward", "[quick]") {
  CostOptions options = plain(2);
  options.parallel.tensor = 2;
  // 2 x 1/2 x 8192 / 1024 = 8 s, four times, for 2 blocks and 2 micro-batches.
  CHECK(bf16_of(options).communication.tensor_s == 128);
  CHECK(bf16_of(options).communication.t0_s == bf16_of(options).compute_s / 2);
  options.recompute = 0.5;
  CHECK(bf16_of(options).communication.tensor_s == 160);
  CHECK(bf16_of(options).memory.weights == 4096);
}

TEST_CASE("a wire in FP4 sends 4.25 bits and costs its coding", "[quick]") {
  CostOptions options = plain(2);
  // Coded 4096 x 1.5 elements of 2 bytes to 0.53125, decoded as many: 2 x 6144 x 2.53125 / 8192 s of memory; slots
  // 6144 x (4.5 + 2.5) / 32768 hide behind it.
  options.parallel.wire = mxfp4_wire(false, 0);
  CHECK(bf16_of(options).communication.coding_s == 3.796875);
  CHECK(bf16_of(options).communication.interconnect_s == 8 * 0.53125 / 2);
  // Rotations by 64 with signs there and back, 8 slots each: 6144 x 23 / 32768. Stochastic: 8.25 more for each coded.
  options.parallel.wire = mxfp4_wire(false, 64);
  CHECK(bf16_of(options).communication.coding_s == 4.3125);
  options.parallel.wire = mxfp4_wire(true, 64);
  CHECK(bf16_of(options).communication.coding_s == 6144 * 31.25 / 32768);
  options.devices = 1;
  CHECK(bf16_of(options).communication.coding_s == 0);
}

TEST_CASE("inputs set the pace where they are slower than the step", "[quick]") {
  CostOptions options = plain(1);
  const double step = bf16_of(options).step_time_s;
  options.parallel.prepare_per_s = 128 / (2 * step);
  options.parallel.fetch_per_s = 128 / (4 * step);
  const CostResult slow = bf16_of(options);
  CHECK(slow.communication.preparation_stall == Approx(0.5));
  CHECK(slow.communication.fetch_stall == Approx(0.5));
  CHECK(slow.step_time_s == Approx(4 * step));
  double sum = 0;
  for (const auto& [what, share] : slow.limits) sum += share;
  CHECK(sum == Approx(1));
  CHECK(slow.limits.front() == std::pair<std::string, double>("fetching", slow.communication.fetch_stall));
  options.parallel.fetch_per_s = options.parallel.prepare_per_s = 256 / step;
  CHECK(bf16_of(options).step_time_s == step);
}

TEST_CASE("messages cost a start and steps, shared links are slower", "[quick]") {
  CostOptions options = plain(2);
  options.weights.collective_s = 1;
  options.weights.link_hop_s = 0.5;
  CHECK(bf16_of(options).communication.interconnect_s == 8 + 2 * 2 * 1.5);  // two layers, two halves each
  Json board = chip_json();
  board["link_shared"] = 2;
  const Hardware shared = parse_hardware(board, "shared");
  CHECK(evaluate(unquantised_recipe("bf16", 16), blocks_of(2), shared, plain(2)).communication.interconnect_s == 16);
}

TEST_CASE("accelerators that cannot be shared out so are an error", "[quick]") {
  CostOptions options = plain(3);
  options.parallel.tensor = 2;
  CHECK_THROWS_WITH(bf16_of(options), Contains("--devices 3") && Contains("--tensor 2"));
  options = plain(4);
  options.parallel.tensor = 4;
  CHECK_THROWS_WITH(bf16_of(options), Contains("--tensor 4") && Contains("2 accelerators"));
  options = plain(3);
  options.parallel.pipeline = 3;
  CHECK_THROWS_WITH(bf16_of(options), Contains("--pipeline 3") && Contains("2 blocks"));
}

TEST_CASE("at 64 accelerators every chip and recipe shows its stalls", "[quick]") {
  CostOptions options;
  options.devices = 64;
  options.formulas = false;
  for (const std::string& name : hardware_names()) {
    const Hardware profile = load_hardware(name);
    if (!profile.link_bandwidth || !profile.network_bandwidth) continue;
    for (const char* format : {"bf16", "mxfp4"}) {
      INFO(name << " " << format);
      Recipe recipe;
      for (GemmSpec* gemm : {&recipe.fprop, &recipe.dgrad, &recipe.wgrad})
        gemm->a.quant = gemm->b.quant = find_preset(format)->spec;
      const Communication c = evaluate(facts_of(recipe), load_model("llama3_8b"), profile, options).communication;
      CHECK(c.interconnect_stall > 1e-4);
      if (c.nodes > 1) CHECK(c.network_stall > 1e-4);
      CHECK(c.interconnect_stall < 0.9);
    }
  }
}
