// The cost model against totals computed by hand. The chip and the model are made up of powers of two, so that every
// quotient is exact and "equal" means equal bits:
//   chip   fp4 8192 FLOP/s, fp8 4096, bf16 2048, fp32 1024, efficiency 1/2; 8192 bytes/s; 65536 slots/s, half reached
//   model  one linear layer 64 -> 32, 128 tokens in 2 micro-batches, 2048 parameters
// Each GEMM is 2*128*64*32 = 524288 FLOP: 128 s at the fp4 rate; optimizer 30 bytes * 2048 / 8192 = 7.5 s.
#include <catch2/catch.hpp>

#include "fp4/presets.h"
#include "sim/rules/recipe.h"
#include "src/arith/spec_text.h"
#include "sweeps/cost/adapt.h"
#include "sweeps/cost/cost.h"
#include "sweeps/cost/doubt.h"

using namespace fp4;
using namespace fp4::cost;

namespace {

Json chip_json() {
  return Json::parse(R"({"name": "toy", "doc": "powers of two",
    "rates": {"fp4": 8192, "fp8": 4096, "bf16": 2048, "fp32": 1024}, "efficiency": 0.5,
    "issue_per_s": 65536, "issue_efficiency": 0.5, "memory_bandwidth": 8192, "memory_bytes": 42496,
    "link_bandwidth": 1024, "network_bandwidth": 512, "node_size": 2, "board_w": 300, "idle_w": 100, "system_w": 500,
    "price_per_hour": 3600, "random_source": "philox", "quantiser_bandwidth": 1, "other_s_per_token": 0})");
}

Json model_json() {
  return Json::parse(R"({"name": "one", "doc": "one layer", "source": "test", "blocks": 1, "width": 64,
    "linears": [{"name": "l", "in": 64, "out": [32]}], "unquantised": [], "attention_width": 0, "sequence": 0,
    "tokens_per_step": 128, "micro_batches": 2, "saved_per_token_block": 10, "extra_parameters": 0})");
}

Recipe uniform(const QuantSpec& spec) {
  Recipe recipe;
  for (GemmSpec* gemm : {&recipe.fprop, &recipe.dgrad, &recipe.wgrad}) gemm->a.quant = gemm->b.quant = spec;
  return recipe;
}

const Hardware chip = parse_hardware(chip_json(), "test chip");
const Model model = parse_model(model_json(), "test model");

CostResult cost_of(const Recipe& recipe, const CostOptions& options = {}) {
  return evaluate(recipe, model, chip, options);
}

double group(const CostResult& result, const char* name) { return group_seconds(result, name); }

}  // namespace

TEST_CASE("matmuls, quantisers and the optimizer add up to the hand-computed step", "[quick]") {
  const CostResult mxfp4 = cost_of(uniform(mxfp4_spec));
  REQUIRE(group(mxfp4, "matmul") == 3 * 128.0);
  REQUIRE(group(mxfp4, "optimizer") == 7.5);
  // X: 8192 elements, 2 bytes read, two copies of (4 + 8/32)/8 = 0.53125 bytes: 25088 bytes, 3.0625 s; the slots,
  // 2 * 4.5 * 8192 / 32768 = 2.25 s, hide behind them. W: 2048 elements, dY: 4096.
  REQUIRE(group(mxfp4, "quantise") == 3.0625 + 0.765625 + 1.53125);
  REQUIRE(mxfp4.compute_s == 396.859375);
  REQUIRE(mxfp4.step_time_s == 396.859375);
  REQUIRE(mxfp4.ideal_s == 391.5);
  REQUIRE(mxfp4.overhead == 396.859375 / 391.5 - 1);
  REQUIRE(mxfp4.quantisation_overhead == mxfp4.overhead);
  REQUIRE(mxfp4.speedup_bf16 == 1543.5 / 396.859375);  // 3 * 512 + 7.5
  REQUIRE(mxfp4.tokens_per_second == 128 / 396.859375);
  REQUIRE(*mxfp4.price == 396.859375);

  const CostResult bf16 = evaluate(unquantised_recipe("bf16", 16), model, chip);
  REQUIRE(bf16.compute_s == 1543.5);
  REQUIRE(bf16.overhead == 1543.5 / 391.5 - 1);
  REQUIRE(bf16.quantisation_overhead == 0);
  REQUIRE_FALSE(bf16.points.has_value());
}

TEST_CASE("a product in a format that the chip does not multiply is priced in bf16 and named", "[quick]") {
  Json json = chip_json();
  json["block_scales"] = {{"fp4", {"e8m0/32"}}};
  const Hardware narrow = parse_hardware(json, "test chip");
  const CostResult mxfp4 = evaluate(uniform(mxfp4_spec), model, narrow);
  REQUIRE(mxfp4.compute_s == 396.859375);  // as without the list
  REQUIRE(mxfp4.decoded.empty());
  const CostResult nvfp4 = evaluate(uniform(nvfp4_spec), model, narrow);
  REQUIRE(nvfp4.decoded == std::vector<std::string>{"fp4 with ue4m3 for 16"});
  REQUIRE(group(nvfp4, "matmul") == 3 * 512.0);  // bf16's rate
  REQUIRE(group(nvfp4, "quantise") == 3.125 + 0.78125 + 1.5625);
  // E8M0 for 64 is read as twice the same scale; E8M0 for 16 is not.
  QuantSpec blocks = mxfp4_spec;
  blocks.block.size = 64;
  REQUIRE(evaluate(uniform(blocks), model, narrow).decoded.empty());
  blocks.block.size = 16;
  REQUIRE(evaluate(uniform(blocks), model, narrow).decoded == std::vector<std::string>{"fp4 with e8m0 for 16"});
  // One product of three.
  Recipe recipe = uniform(mxfp4_spec);
  recipe.wgrad.b.quant = nvfp4_spec;
  REQUIRE(group(evaluate(recipe, model, narrow), "matmul") == 128.0 + 128 + 512);
  // Of 4-bit elements a chip takes e2m1, and what its file lists.
  const std::pair<const char*, const char*> elements[] = {
      {"mxfp4,element=nf4", "fp4 codes of nf4"},
      {"mxfp4,element=int4", "fp4 codes of int4"},
      {"mxfp4,element=e1m2", "fp4 codes of e1m2"},
      {"mxfp4,element=e3m0", "fp4 codes of e3m0"},
      {R"(mxfp4,element={"name": "mine", "signed": true, "values": [0, 1, 2, 3]})", "fp4 codes of mine"},
      {"if4", "fp4 codes of two grids"}};
  for (const auto& [words, named] : elements) {
    INFO(words);
    const CostResult decoded = evaluate(uniform(quant_spec_from_words(words)), model, chip);
    REQUIRE(decoded.decoded == std::vector<std::string>{named});
    REQUIRE(group(decoded, "matmul") == 3 * 512.0);
  }
  Json lists = chip_json();
  lists["elements"] = {{"fp4", {"nf4", "mine", "e1m2"}}};
  const Hardware listing = parse_hardware(lists, "test chip");
  for (const auto& [words, named] : elements) {
    INFO(words);
    const CostResult cost = evaluate(uniform(quant_spec_from_words(words)), model, listing);
    const bool is_listed = std::string(words).find("nf4") != std::string::npos ||
                           std::string(words).find("mine") != std::string::npos ||
                           std::string(words).find("e1m2") != std::string::npos;
    REQUIRE(cost.decoded.empty() == is_listed);
    REQUIRE(group(cost, "matmul") == 3 * (is_listed ? 128.0 : 512.0));
  }
  REQUIRE(evaluate(uniform(mxfp4_spec), model, listing).decoded == std::vector<std::string>{"fp4 codes of e2m1"});
  REQUIRE(to_json(parse_hardware(to_json(listing), "again")) == to_json(listing));
  // Of real chips: CDNA 4 takes E8M0 for 32 alone, Blackwell UE4M3 for 16 as well, UE5M3 has Rubin.
  const Model llama = load_model("llama3_8b");
  const auto decoded = [&](const char* name, const char* hardware) {
    return !evaluate(sim::recipe_from_json(name), llama, load_hardware(hardware)).decoded.empty();
  };
  REQUIRE_FALSE(decoded("mxfp4_all_sr", "mi355x"));
  REQUIRE(decoded("nvfp4_te", "mi355x"));
  REQUIRE_FALSE(decoded("nvfp4_te", "b200"));
  REQUIRE(decoded("ue5m3_hold50", "b200"));
  REQUIRE_FALSE(decoded("ue5m3_hold50", "vr200"));
  REQUIRE_FALSE(decoded("ue5m3_hold50", "mi450"));
  REQUIRE_FALSE(decoded("bf16", "mi355x"));
}

TEST_CASE("a chip without units for a format is priced by what stands in and says so", "[quick]") {
  Json json = chip_json();
  json["rates"].erase("fp4");
  json["emulate"] = {{"fp4", "bf16"}, {"fp6", "fp8"}};
  const Hardware older = parse_hardware(json, "test chip");
  const CostResult mxfp4 = evaluate(uniform(mxfp4_spec), model, older);
  REQUIRE(mxfp4.decoded == std::vector<std::string>{"fp4"});
  REQUIRE(group(mxfp4, "matmul") == 3 * 512.0);
  const CostResult mxfp6 = evaluate(uniform(find_preset("mxfp6")->spec), model, older);
  REQUIRE(mxfp6.decoded == std::vector<std::string>{"fp6 (in fp8)"});
  REQUIRE(group(mxfp6, "matmul") == 3 * 256.0);
  REQUIRE_FALSE(runs_fp4(facts_of(uniform(mxfp4_spec)), older));
  const auto starred = [](const char* name) {
    return !evaluate(sim::recipe_from_json("mxfp4"), load_model("llama3_8b"), load_hardware(name)).decoded.empty();
  };
  for (const char* name : {"h100", "h200", "mi300x", "a100"}) REQUIRE(starred(name));
  REQUIRE_FALSE(starred("b200"));
  // What no manual says: decoded, and priced at the rate where asked.
  json = chip_json();
  json["undocumented"] = {{"fp4", {"int4"}}};
  const Hardware secret = parse_hardware(json, "test chip");
  const Recipe int4 = uniform(quant_spec_from_words("mxfp4,element=int4"));
  REQUIRE(evaluate(int4, model, secret).decoded == std::vector<std::string>{"fp4 codes of int4"});
  REQUIRE(group(evaluate(int4, model, with_undocumented(secret)), "matmul") == 3 * 128.0);
  REQUIRE(evaluate(uniform(mxfp4_spec), model, with_undocumented(secret)).decoded.empty());
  REQUIRE(to_json(parse_hardware(to_json(secret), "again")) == to_json(secret));
  // E0M3 on Blackwell, undocumented: the codes of NVFP4 at NVFP4's rate, or decoded.
  const Hardware b200 = load_hardware("b200");
  const sim::TrainingRecipe e0m3 = sim::recipe_from_json("nve0m3");
  const Model llama = load_model("llama3_8b");
  REQUIRE(evaluate(e0m3, llama, b200).decoded == std::vector<std::string>{"fp4 codes of e0m3"});
  const CostResult asked = evaluate(e0m3, llama, with_undocumented(b200));
  REQUIRE(asked.decoded.empty());
  REQUIRE(group(asked, "matmul") == group(evaluate(sim::recipe_from_json("nvfp4"), llama, b200), "matmul"));
}

TEST_CASE("formats and block scales have an efficiency of their own, quantisers a share of the bandwidth", "[quick]") {
  Json json = chip_json();
  json["efficiency_of"] = {{"fp8", 0.25}, {"fp4 ue4m3/16", 0.125}};
  json["quantiser_bandwidth"] = 0.5;
  const Hardware own = parse_hardware(json, "test chip");
  REQUIRE(group(evaluate(uniform(find_preset("mxfp8")->spec), model, own), "matmul") == 3 * 512.0);  // 4096 / 4
  REQUIRE(group(evaluate(uniform(nvfp4_spec), model, own), "matmul") == 3 * 512.0);                  // 8192 / 8
  const CostResult mxfp4 = evaluate(uniform(mxfp4_spec), model, own);
  REQUIRE(group(mxfp4, "matmul") == 3 * 128.0);
  REQUIRE(group(mxfp4, "quantise") == 2 * (3.0625 + 0.765625 + 1.53125));  // slots still hide
  REQUIRE(group(mxfp4, "optimizer") == 7.5);
  CostOptions twice;
  twice.weights.efficiency = 2;
  REQUIRE(group(evaluate(uniform(nvfp4_spec), model, own, twice), "matmul") == 3 * 256.0);
  REQUIRE(to_json(parse_hardware(to_json(own), "again")) == to_json(own));
  // Blocks of 32 under UE4M3 are read as two of 16, at their rate; one scale a row is a factor on the result.
  json["block_scales"] = {{"fp4", {"e8m0/32", "ue4m3/16"}}};
  const Hardware by_16 = parse_hardware(json, "test chip");
  REQUIRE(group(evaluate(uniform(quant_spec_from_words("nvfp4,block=32")), model, by_16), "matmul") == 3 * 512.0);
  REQUIRE(group(evaluate(uniform(quant_spec_from_words("nvfp4,block=row")), model, by_16), "matmul") == 3 * 128.0);
  json["efficiency_of"] = {{"fp5", 0.5}};
  REQUIRE_THROWS_WITH(parse_hardware(json, "chip"), Catch::Contains("unknown word 'fp5'"));
}

TEST_CASE("rules over depth say nothing of one block of a network", "[quick]") {
  const Model layer = load_model("llama2_70b_layer");
  const Hardware b200 = load_hardware("b200");
  for (const Json& recipe : {Json("nvfp4_te"), Json{{"base", "mxfp4"}, {"layers", Json::parse(R"([{"last": 0.15,
       "recipe": "bf16"}])")}}})
    REQUIRE_THROWS_WITH(evaluate(sim::recipe_from_json(recipe), layer, b200),
                        Catch::Contains("llama2_70b_layer") && Catch::Contains("one block"));
  REQUIRE(evaluate(sim::recipe_from_json("nvfp4"), layer, b200).overhead > 0);
  REQUIRE(evaluate(sim::recipe_from_json("nvfp4_te"), load_model("llama2_70b"), b200).overhead > 0);
}

TEST_CASE("the ideal step is the quickest of what a chip multiplies, and no recipe is quicker", "[quick]") {
  // UE4M3 and UE5M3 for 16 and no E8M0: 128 s a product in FP4, not the 512 s of bf16.
  for (const char* words : {R"(["ue5m3/16", "ue4m3/16"])", R"(["ue4m3/16"])", R"(["e8m0/16"])", R"([])"}) {
    INFO(words);
    Json json = chip_json();
    json["block_scales"]["fp4"] = Json::parse(words);
    const Hardware own = parse_hardware(json, "test chip");
    const CostResult nvfp4 = evaluate(uniform(nvfp4_spec), model, own);
    REQUIRE(nvfp4.ideal_s == 3 * 128 + 7.5);
    REQUIRE(nvfp4.overhead > 0);
    REQUIRE(evaluate(unquantised_recipe("bf16", 16), model, own).overhead > 2.5);  // 3 * 512 + 7.5 over 391.5
  }
  // A chip whose FP6 is its quickest.
  Json json = chip_json();
  json["rates"].erase("fp4");
  json["rates"]["fp6"] = 8192;
  json["emulate"]["fp4"] = "fp8";
  REQUIRE(evaluate(unquantised_recipe("bf16", 16), model, parse_hardware(json, "test chip")).ideal_s == 391.5);
  const Model llama = load_model("llama_1b");
  for (const std::string& name : hardware_names())
    for (const char* recipe : {"bf16", "mxfp8", "mxfp4", "nvfp4", "ue5m3_hold50", "hifloat4", "if4", "luq"}) {
      INFO(name << ", " << recipe);
      REQUIRE(evaluate(sim::recipe_from_json(recipe), llama, load_hardware(name)).overhead >= 0);
    }
}

TEST_CASE("the fewest accelerators that hold a step", "[quick]") {
  const Model llama = load_model("llama3_8b");
  const Hardware b200 = load_hardware("b200");
  const std::vector<RecipeFacts> recipes = {facts_of(sim::recipe_from_json("bf16"))};
  const auto fewest = devices_that_fit(recipes, llama, b200, {});
  REQUIRE(fewest);
  REQUIRE(*fewest > 1);
  const auto fits = [&](int devices) {
    CostOptions options;
    options.devices = devices;
    return evaluate(recipes[0], llama, b200, options).memory.fits;
  };
  REQUIRE(fits(*fewest));
  REQUIRE_FALSE(fits(*fewest / 2));
  CostOptions none;
  none.parallel.sharding = Sharding::none;  // each replica keeps all of it
  REQUIRE_FALSE(devices_that_fit(recipes, llama, b200, none));
}

TEST_CASE("an interval holds the value as modelled", "[quick]") {
  const Model llama = load_model("llama3_8b");
  std::vector<RecipeFacts> recipes;
  for (const char* name : {"bf16", "mxfp8", "mxfp4", "nvfp4_te"})
    recipes.push_back(facts_of(sim::recipe_from_json(name)));
  for (const char* name : {"b200", "mi355x", "h100"}) {
    const Hardware hardware = load_hardware(name);
    const auto doubts = cost_doubts(recipes, llama, hardware, {});
    std::vector<CostResult> results;
    for (const RecipeFacts& recipe : recipes) results.push_back(evaluate(recipe, llama, hardware));
    size_t quickest = 0;
    while (!doubts[quickest].quickest) ++quickest;
    for (size_t i = 0; i < recipes.size(); ++i) {
      INFO(name << " " << i);
      REQUIRE(doubts[i].step.low <= 1);
      REQUIRE(doubts[i].step.high >= 1);
      REQUIRE(doubts[i].overhead.low <= results[i].overhead);
      REQUIRE(doubts[i].overhead.high >= results[i].overhead);
      const double ratio = results[i].compute_s / results[quickest].compute_s;
      REQUIRE(doubts[i].against.low <= ratio + 1e-12);
      REQUIRE(doubts[i].against.high >= ratio - 1e-12);
    }
  }
}

TEST_CASE("a bf16 scale has 16 bits", "[quick]") {
  QuantSpec spec = mxfp4_spec;
  spec.scale = Scale::bf16, spec.block.size = 16;
  REQUIRE(facts_of(OperandSpec{.quant = spec}).scale_bits == 16);
  spec.scale = Scale::fp32;
  REQUIRE(facts_of(OperandSpec{.quant = spec}).scale_bits == 32);
}

TEST_CASE("draws of what the model does not know hold the modelled step, and what recipes share cancels", "[quick]") {
  const Model llama = load_model("llama3_8b");
  const Hardware b200 = load_hardware("b200");
  const std::vector<RecipeFacts> recipes = {facts_of(sim::recipe_from_json("bf16")),
                                            facts_of(sim::recipe_from_json("mxfp4")),
                                            facts_of(sim::recipe_from_json("mxfp4"))};
  const auto doubts = cost_doubts(recipes, llama, b200, {});
  // Of two factors of 1.2, fitted to B200's steps, and two of 1.5 that weigh little; of four of 1.5 without fits.
  REQUIRE(doubts[0].step.high / doubts[0].step.low < 1.5);
  Json estimated = to_json(b200);
  estimated["efficiency"]["kind"] = "estimate";
  REQUIRE(cost_doubts(recipes, llama, parse_hardware(estimated, "chip"), {})[0].step.high > doubts[0].step.high);
  REQUIRE(doubts[1].quickest);
  REQUIRE(doubts[2].against.low == 1);  // the same recipe under the same draws
  REQUIRE(doubts[2].against.high == 1);
  REQUIRE(doubts[0].against.low > 1);
  REQUIRE(doubts[1].overhead.low >= 0);
  const auto sure = cost_doubts(recipes, llama, b200, {}, {.factor = 1, .fitted = 1, .fp4 = 1});
  REQUIRE(sure[0].step.low == Approx(1));
  REQUIRE(sure[0].step.high == Approx(1));
  const CostResult bf16 = evaluate(recipes[0], llama, b200);
  REQUIRE(sure[0].overhead.low == Approx(bf16.overhead));
}

TEST_CASE("each technique is charged what its kernel grows by", "[quick]") {
  SECTION("stochastic rounding on dgrad's dY: 8 of Philox's 128 bits are 6.25 slots, 2 to use them") {
    Recipe recipe = uniform(mxfp4_spec);
    recipe.dgrad.a.quant.rounding = Rounding::stochastic;
    // dY: (9 + 8.25) * 4096 / 32768 = 2.15625 s of slots against 1.53125 s of bytes.
    REQUIRE(group(cost_of(recipe), "stochastic rounding") == 0.625);
    REQUIRE(cost_of(recipe).compute_s == 396.859375 + 0.625);
    CostOptions doubled;
    doubled.weights.sr = 2;
    REQUIRE(group(cost_of(recipe, doubled), "stochastic rounding") == 0.625 + 8.25 * 4096 / 32768);
  }
  SECTION("a Hadamard of 16 on wgrad: 4 adds and the multiplication by 1/4, on both column copies") {
    Recipe recipe = uniform(mxfp4_spec);
    recipe.wgrad.hadamard.size = 16;
    // X: (9 + 5) * 8192 / 32768 = 3.5 against 3.0625; dY: 1.75 against 1.53125.
    REQUIRE(group(cost_of(recipe), "hadamard") == 0.4375 + 0.21875);
    recipe.wgrad.hadamard.normalise = HadamardNormalise::fold;
    REQUIRE(group(cost_of(recipe), "hadamard") == 0.1875 + 0.09375);
    recipe.wgrad.hadamard.signs = HadamardSigns::per_step;
    REQUIRE(group(cost_of(recipe), "hadamard") == 0.4375 + 0.21875);
    CostOptions unfused;
    unfused.hadamard = HadamardKernel::unfused;  // 4 more bytes an element: 32768 and 16384 bytes
    REQUIRE(group(cost_of(recipe, unfused), "hadamard") == 4.0 + 2.0);
    CostOptions dense;
    dense.hadamard = HadamardKernel::dense;  // 32 FLOP an element at 1024: 256 s and 128 s, less what hid before
    REQUIRE(group(cost_of(recipe, dense), "hadamard") == 256 - 3.0625 + 128 - 1.53125);
  }
  SECTION("a current tensor scale reads the tensor once more and looks for its maximum") {
    const CostResult nvfp4 = cost_of(uniform(nvfp4_spec));
    // (4 + 8/16)/8 = 0.5625 bytes a copy: X 3.125 s, W 0.78125, dY 1.5625; the pass adds 2 bytes an element.
    REQUIRE(group(nvfp4, "quantise") == 3.125 + 0.78125 + 1.5625);
    REQUIRE(group(nvfp4, "tensor scale") == 2.0 + 0.5 + 1.0);
    QuantSpec hold = nvfp4_spec;
    hold.tensor_scale = TensorScale::hold;
    hold.hold_steps = 64;
    REQUIRE(group(cost_of(uniform(hold)), "tensor scale") == 3.5 / 64);
  }
  SECTION("four_over_six tries two scales: 6 slots an element and copy") {
    QuantSpec spec = nvfp4_spec;
    spec.scale_rule = ScaleRule::four_over_six;
    spec.tensor_scale = TensorScale::none;
    // X: (9 + 12) * 8192 / 32768 = 5.25 against 3.125; W a quarter, dY half of that.
    REQUIRE(group(cost_of(uniform(spec)), "scale rule") == 2.125 * 1.75);
  }
  SECTION("an estimator multiplies in the backward pass and moves its payload twice") {
    Recipe recipe = uniform(mxfp4_spec);
    recipe.fprop.b.estimator.estimator = Estimator::dge;  // 15 slots, 2 + 2 bytes on 2048 weights
    REQUIRE(group(cost_of(recipe), "estimator") == 1.0);  // 8192 bytes; 30720 slots are 0.9375 s
  }
  SECTION("square weight blocks are quantised once: slots shrink, bytes stay") {
    CostOptions slots_only;
    slots_only.weights.bandwidth = 1024;
    slots_only.weights.optimizer_bytes = 0;
    Recipe recipe = uniform(mxfp4_spec);
    REQUIRE(group(cost_of(recipe, slots_only), "quantise") == 9.0 * (8192 + 2048 + 4096) / 32768);
    recipe.fprop.b.quant.block = recipe.dgrad.b.quant.block = {BlockKind::square, 32};
    REQUIRE(group(cost_of(recipe, slots_only), "quantise") == (9.0 * (8192 + 4096) + 4.5 * 2048) / 32768);
    recipe.dgrad.hadamard.size = 32;  // the transpose of the codes no longer serves
    REQUIRE(facts_of(recipe).one_weight_quantiser == false);
  }
}

TEST_CASE("views: one pass or separate, fused or not", "[quick]") {
  const Recipe recipe = uniform(mxfp4_spec);
  CostOptions separate;
  separate.one_pass = false;  // one more read of 2 bytes: 2 s for X, 0.5 for W, 1 for dY
  REQUIRE(group(cost_of(recipe, separate), "quantise") == 5.359375 + 3.5);
  CostOptions fused;
  fused.fused = true;  // no read: slots bind, 2.25 + 0.5625 + 1.125
  REQUIRE(group(cost_of(recipe, fused), "quantise") == 3.9375);
}

TEST_CASE("double quantisation reads the codes of the forward operand", "[quick]") {
  Recipe recipe = uniform(mxfp4_spec);
  recipe.wgrad.b.source = Source::fprop_quantised;
  // X row copy: 2.53125 bytes an element; again: 0.53125 read and written, slots 4.5 bind: 1.125 s.
  REQUIRE(group(cost_of(recipe), "quantise") == 2.53125 + 1.125 + 0.765625 + 1.53125);
}

TEST_CASE("layers outside the policy run in bf16 and count as overhead, not as quantisation", "[quick]") {
  Json two = model_json();
  two["linears"][0]["out"] = {16, 16};
  const Model halves = parse_model(two, "two layers");
  Recipe recipe = uniform(mxfp4_spec);
  recipe.layers = {fp4::LayerPolicy::Kind::skip_last, 0.5, {}};
  const CostResult result = evaluate(recipe, halves, chip);
  REQUIRE(group(result, "matmul") == 3 * 64.0);
  REQUIRE(group(result, "matmul left in 16 bits") == 3 * 256.0);
  REQUIRE(result.ideal_s == 391.5);
  REQUIRE(result.free_quantisation_s == 192 + 768 + 7.5);
  recipe.layers = {fp4::LayerPolicy::Kind::skip_first, 0.2, {}};  // 0.4 layers: none
  REQUIRE(group(evaluate(recipe, halves, chip), "matmul left in 16 bits") == 0);
  recipe.layers = {fp4::LayerPolicy::Kind::skip_first, 0.25, {}};  // 0.5 layers: one, half up
  REQUIRE(group(evaluate(recipe, halves, chip), "matmul left in 16 bits") == 768);
  recipe.layers = {fp4::LayerPolicy::Kind::names, 0, {"l"}};
  REQUIRE(group(evaluate(recipe, halves, chip), "matmul left in 16 bits") == 0);
  two["linears"][0]["layers"] = {"gate", "up"};
  const Model named = parse_model(two, "named layers");
  for (const char* name : {"up", "block0.up"}) {
    recipe.layers.names = {name};
    REQUIRE(group(evaluate(recipe, named, chip), "matmul") == 192);
  }
  recipe.layers.names = {"q"};
  REQUIRE_THROWS_WITH(evaluate(recipe, halves, chip), Catch::Contains("unknown word 'q'") && Catch::Contains("l"));
}

TEST_CASE("every layer is priced by the rules that select it", "[quick]") {
  Json two = model_json();
  two["linears"][0]["out"] = {16, 16};
  two["linears"][0]["layers"] = {"gate", "up"};
  const Model halves = parse_model(two, "two layers");
  const auto priced = [&](const char* layers) {
    const Json object = {{"base", "mxfp4"}, {"layers", Json::parse(layers)}};
    return evaluate(sim::recipe_from_json(object), halves, chip);
  };
  // 16 columns of one product: 64 s in FP4, 128 s in FP8, 256 s in bf16.
  for (const char* bf16 : {R"([{"last": 0.5, "recipe": "bf16"}])", R"([{"match": "up", "recipe": "bf16"}])",
                           R"([{"first": 2, "recipe": "bf16"}, {"match": "block0.g*", "recipe": "mxfp4"}])"}) {
    const CostResult result = priced(bf16);
    CHECK(group(result, "matmul") == 3 * 64.0);
    CHECK(group(result, "matmul left in 16 bits") == 3 * 256.0);
    CHECK(result.memory.total() > 0);
  }
  CHECK(group(priced(R"([{"match": "up", "recipe": "mxfp8"}])"), "matmul") == 3 * 64.0 + 3 * 128.0);
  CHECK(group(priced(R"([{"match": "up", "wgrad": "bf16.wgrad"}])"), "matmul") == 5 * 64.0 + 256.0);
  // Bit operations: half of the multiply-adds have 4 bits, half 8: 6 in the mean. A rule is a shorthand's equal.
  CHECK(priced(R"([{"match": "up", "recipe": "mxfp8"}])").bops.training == Approx(8.0 / 6).epsilon(1e-15));
  Recipe half = uniform(mxfp4_spec);
  half.layers = {fp4::LayerPolicy::Kind::skip_last, 0.5, {}};
  CHECK(evaluate(half, halves, chip).bops.forward == 0.8);  // 8 / 10
  CHECK(priced(R"([{"last": 1, "recipe": "bf16"}])").bops.forward == 0.8);
  // Points: what one layer uses, the recipe uses; what no layer uses is none.
  CHECK(priced(R"([{"match": "up", "wgrad": {"hadamard": {"size": 16}}}])").points == 1.0);
  CHECK_FALSE(priced(R"([{"last": 2, "wgrad": {"hadamard": {"size": 16}}}, {"last": 2, "recipe": "bf16"}])").points);
}

TEST_CASE("phases weigh their share of the steps", "[quick]") {
  const Json object = {{"base", "mxfp4"}, {"phases", Json::array({{{"until", 0.75}}, {{"fprop", "bf16.fprop"}}})}};
  const CostResult mean = evaluate(sim::recipe_from_json(object), model, chip);
  // fprop: 3/4 of 128 s and 1/4 of 512 s.
  CHECK(group(mean, "matmul") == 96.0 + 128.0 + 2 * 128.0);
  CHECK(mean.compute_s == Approx(total_seconds(mean.terms)));
  CHECK(mean.bops.forward == 8 / 7.0);  // 3/4 of 4 bits and 1/4 of 16
  CHECK(mean.bops.backward == 2.0);
  CostOptions three;
  three.steps = 3;  // the first phase ends with step 2: 2/3 of 128 s and 1/3 of 512 s
  CHECK(group(evaluate(sim::recipe_from_json(object), model, chip, three), "matmul") == Approx(256 + 2 * 128.0));
  const Json late = {{"base", "mxfp4"},
                     {"phases", Json::array({{{"until", 0.75}}, {{"wgrad", {{"hadamard", {{"size", 16}}}}}}})}};
  CHECK(evaluate(sim::recipe_from_json(late), model, chip).points == 1.0);
}

TEST_CASE("weight rules move bytes beside the optimizer", "[quick]") {
  const Json object = {{"base", "mxfp4"},
                       {"weights", {{"average", {{"decay", 0.99}}}, {"reset", {{"every", 200}, {"window", 50}}}}}};
  // (30 + 12 + 36 / 4) bytes of 2048 weights at 8192 bytes/s.
  CHECK(group(evaluate(sim::recipe_from_json(object), model, chip), "optimizer") == 51.0 / 4);
}

TEST_CASE("ramps change the optimizer's bytes", "[quick]") {
  // 2048 weights at 8192 bytes/s: a quarter of a second for each byte. 20 bytes between windows, 36 within 50 of 200
  // steps.
  const Json object = {{"base", "mxfp4"}, {"weights", {{"ramp", {{"every", 200}, {"window", 50}}}}}};
  const CostResult result = evaluate(sim::recipe_from_json(object), model, chip);
  CHECK(group(result, "optimizer") == (30 + 20 * 0.75 + 36 * 0.25) / 4);
  CHECK(result.memory.optimizer == 2048 * 8);
  CHECK(result.memory.master_weights == 2048 * 4);
}

TEST_CASE("the wider operand decides the rate, and a first layer has no dgrad", "[quick]") {
  Recipe recipe = uniform(mxfp4_spec);
  recipe.fprop.a.quant = find_preset("mxfp8")->spec;
  REQUIRE(group(cost_of(recipe), "matmul") == 256 + 128 + 128);
  recipe.fprop.a.quant = find_preset("bf16")->spec;
  REQUIRE(group(cost_of(recipe), "matmul") == 512 + 128 + 128);
  Json first = model_json();
  first["linears"][0]["dgrad"] = false;
  const CostResult result = evaluate(uniform(mxfp4_spec), parse_model(first, "first layer"), chip);
  REQUIRE(group(result, "matmul") == 256);
  REQUIRE(group(result, "quantise") == 3.0625 + (2048 + 4096) * 2.53125 / 8192);
}

TEST_CASE("attention and head run in high precision", "[quick]") {
  Json llm = model_json();
  llm["attention_width"] = 64;
  llm["sequence"] = 16;
  llm["unquantised"] = Json::parse(R"([{"name": "head", "in": 64, "out": [8], "class": "bf16"}])");
  const CostResult result = evaluate(uniform(mxfp4_spec), parse_model(llm, "llm"), chip);
  REQUIRE(group(result, "attention") == 6.0 * 64 * 16 * 128 / 1024);
  REQUIRE(group(result, "head") == 6.0 * 64 * 8 * 128 / 1024);
  // A rule over qk: three products of 131072 FLOP at the fp4 rate, 32 s each, pv stays at 128 s. Slots: Q and K twice
  // as rows and once each along the tokens, 8192 elements each, dS twice, 16 / 2 for each of 128 tokens; 4.5 an
  // element.
  const CostResult ruled = evaluate(
      sim::recipe_from_json({{"base", "bf16"}, {"layers", Json::parse(R"([{"kind": "qk", "recipe": "mxfp4"}])")}}),
      parse_model(llm, "llm"), chip);
  REQUIRE(group(ruled, "attention") == 3 * 32 + 3 * 128);
  REQUIRE(group(ruled, "quantise") == 4.5 * (4 * 8192 + 2 * 1024) / 32768);
  // Multiply-adds of a token: 64*32 linear, 16*64/2 each of qk and pv, 64*8 head.
  REQUIRE(ruled.precisions == std::map<std::string, double>{{"fp4", 1.0 / 7}, {"bf16", 6.0 / 7}});
  CostOptions recompute;
  recompute.recompute = 0.5;
  const CostResult again = evaluate(uniform(mxfp4_spec), parse_model(llm, "llm"), chip, recompute);
  REQUIRE(group(again, "matmul") == 384 + 64);
  REQUIRE(group(again, "attention") == 7.0 * 64 * 16 * 128 / 1024);
}

TEST_CASE("what trains alike costs alike, wherever the words stand", "[quick]") {
  const Model llama = load_model("llama3_8b");
  const Hardware b200 = load_hardware("b200");
  const auto of = [&](const char* text) { return evaluate(sim::recipe_from_json(Json::parse(text)), llama, b200, {}); };
  const auto alike = [&](const char* a, const char* b) {
    INFO(a << " " << b);
    const CostResult x = of(a), y = of(b);
    CHECK(x.step_time_s == Approx(y.step_time_s));
    CHECK(x.memory.weights == Approx(y.memory.weights));
  };
  alike(R"({"base": "nvfp4", "quantise": false})", R"("fp32")");
  alike(R"({"base": "nvfp4", "quantise": false, "weights": {"average": {"decay": 0.9, "from": 1}}})", R"("fp32")");
  alike(R"({"base": "bf16", "layers": [{"match": "*", "sparse": "2:4"}]})", R"({"base": "bf16", "sparse": "2:4"})");
  alike(R"({"base": "bf16", "layers": [{"match": "*", "all": {"split": {"method": "low_rank", "share": 0.1}}}]})",
        R"({"base": "bf16", "all": {"split": {"method": "low_rank", "share": 0.1}}})");
  alike(R"({"base": "nvfp4", "layers": {"skip_last": 0.15}})",
        R"({"base": "nvfp4", "layers": [{"last": 0.15, "recipe": "bf16"}]})");
  alike(R"({"base": "nvfp4", "layers": {"names": []}, "weights": {"average": {"decay": 0.9, "from": 1}}})",
        R"("bf16")");
  alike(R"({"base": "nvfp4", "fprop": {"b": {"source": "fprop_quantised"}}})", R"("nvfp4")");
  CHECK_THROWS_WITH(of(R"({"base": "nvfp4", "fprop": {"*": {"block": 24}}})"), Catch::Contains("fprop"));
}

TEST_CASE("communication, energy, memory, points", "[quick]") {
  const Recipe recipe = uniform(mxfp4_spec);
  CostOptions options;
  options.devices = 4;
  options.weights.overlap = options.weights.collective_s = 0;
  options.weights.link_hop_s = options.weights.network_hop_s = 0;
  const CostResult result = cost_of(recipe, options);
  // 2048 gradients of 2 bytes: 2 * 1/2 * 4096 / 1024 within the node, half as many bytes between the two nodes.
  REQUIRE(result.communication.interconnect_s == 4.0);
  REQUIRE(result.communication.network_s == 4.0);
  REQUIRE(result.communication.t0_s == 396.859375 - 7.5 + 7.5 / 4);
  REQUIRE(result.communication.t1_s == result.communication.t0_s + 4);
  REQUIRE(result.step_time_s == result.communication.t0_s + 8);
  REQUIRE(result.overhead == (396.859375 - 7.5 + 7.5 / 4) / (384 + 7.5 / 4) - 1);  // of the work, without the waiting
  REQUIRE(result.memory.optimizer == 2048 * 8 / 4);  // both moments in fp32, shared by four
  REQUIRE(result.communication.interconnect_stall == 4 / result.communication.t1_s);
  REQUIRE(result.communication.network_stall == 4 / result.communication.t1_s);
  options.weights.overlap = 1;  // one layer: its weights are gathered before it, its gradient leaves after it
  REQUIRE(cost_of(recipe, options).step_time_s == result.step_time_s);

  const CostResult one = cost_of(recipe);
  // GEMMs at 300 W, memory-bound kernels at 100 + 200 * 0.7 W, 35 % of the system's other 200 W throughout.
  REQUIRE(*one.energy_j == Approx(384 * 300 + 12.859375 * 240 + 396.859375 * 70).epsilon(1e-15));
  const CostResult two_nodes = cost_of(recipe, options);  // 4 devices, 2 a node: 116 W of network for each
  options.weights.network_w = 0;
  REQUIRE(*two_nodes.energy_j - *cost_of(recipe, options).energy_j ==
          Approx(4 * 116 * two_nodes.step_time_s).epsilon(1e-12));
  options.devices = 2;
  const CostResult one_node = cost_of(recipe, options);
  options.weights.network_w = 116;
  REQUIRE(*cost_of(recipe, options).energy_j == *one_node.energy_j);
  Json dark = chip_json();
  dark.erase("board_w");
  REQUIRE_FALSE(evaluate(recipe, model, parse_hardware(dark, "chip without power")).energy_j.has_value());

  REQUIRE(one.memory.weights == 4096 + 2 * 1088);  // bf16, and two copies of 0.53125 bytes
  REQUIRE(one.memory.activations == 64 * (10 * 2 + 64 * 0.53125));
  REQUIRE(one.memory.total() == 42496);
  REQUIRE(one.memory.fits);
  Json small = chip_json();
  small["memory_bytes"] = 42495;
  REQUIRE_FALSE(evaluate(recipe, model, parse_hardware(small, "small chip")).memory.fits);

  Recipe loaded = uniform(nvfp4_spec);
  REQUIRE(cost_of(loaded).points == 1.0);
  loaded.wgrad.hadamard.size = 16;
  loaded.dgrad.a.quant.rounding = Rounding::stochastic;
  loaded.fprop.b.estimator.estimator = Estimator::sigmoid;
  loaded.loss_scaling = true;
  REQUIRE(cost_of(loaded).points == 5.0);
}

TEST_CASE("speed-ups of the bit-operations model equal Quartet's table 1", "[quick]") {
  Recipe recipe = uniform(mxfp4_spec);
  REQUIRE(bops_speedup(facts_of(recipe), model).training == Approx(2.0).epsilon(1e-15));
  const QuantSpec fp8 = find_preset("mxfp8")->spec;
  recipe.dgrad.a.quant = recipe.dgrad.b.quant = recipe.wgrad.a.quant = recipe.wgrad.b.quant = fp8;
  REQUIRE(bops_speedup(facts_of(recipe), model).forward == 2.0);
  REQUIRE(bops_speedup(facts_of(recipe), model).backward == 1.0);
  REQUIRE(bops_speedup(facts_of(recipe), model).training == Approx(1.2).epsilon(1e-15));
  recipe = uniform(mxfp4_spec);
  recipe.fprop.a.quant = recipe.fprop.b.quant = fp8;
  REQUIRE(bops_speedup(facts_of(recipe), model).training == Approx(1.5).epsilon(1e-15));
}

TEST_CASE("split products cost their parts, by hand", "[quick]") {
  Recipe recipe = uniform(mxfp4_spec);
  const double quantisers = 5.359375;
  // A quarter of the channels in mxfp8: 3/4 of 128 s and 1/4 of 256 s. X (8192 elements, 2 bytes) is read once to
  // choose them, 2 s, dY once, 1 s; wgrad takes fprop's.
  for (GemmSpec* gemm : {&recipe.fprop, &recipe.dgrad, &recipe.wgrad})
    gemm->split = {Split::hot_channels, 0.25, find_preset("mxfp8")->spec};
  const CostResult hot = cost_of(recipe);
  CHECK(group(hot, "matmul") == 3 * (96.0 + 64));
  CHECK(group(hot, "quantise") == quantisers + 3);
  CHECK(hot.precisions.at("fp4") == 0.75);
  CHECK(hot.precisions.at("fp8") == 0.25);
  // An eighth beyond each quantile: a quarter of the multiply-adds again, in bf16 at 1024 FLOP/s.
  recipe = uniform(mxfp4_spec);
  recipe.fprop.split = {Split::clamp, 0.125, find_preset("bf16")->spec};
  const CostResult clamp = cost_of(recipe);
  CHECK(group(clamp, "matmul") == 3 * 128.0 + 128);
  CHECK(group(clamp, "quantise") == quantisers + 2);
  // Rank 1 everywhere. fprop [64, 64] x [32, 64]: 4 * 5 * (4096 + 2048) for the bases, 2048 + 2048 and 4096 + 2048 for
  // the factors, two FLOP each, twice for two micro-batches: 532480, 520 s; dgrad 368 s, wgrad as fprop.
  for (GemmSpec* gemm : {&recipe.fprop, &recipe.dgrad, &recipe.wgrad}) gemm->split = {Split::low_rank, 1.0 / 64, {}};
  CHECK(group(cost_of(recipe), "matmul") == 3 * 128.0 + 520 + 368 + 520);
}

TEST_CASE("a network in use costs its forward products and the quantisers of its inputs", "[quick]") {
  const auto seconds = [](const RecipeFacts& facts, int64_t tokens) {
    return inference_seconds(facts, model, chip, tokens);
  };
  // 128 tokens: one GEMM of 128 s at the fp4 rate. X: 8192 elements, 2 bytes read, one copy of .53125 bytes: 20736
  // bytes, 2.53125 s. Neither weights, gradients nor the optimizer count.
  REQUIRE(seconds(facts_of(uniform(mxfp4_spec)), 128) == 128 + 2.53125);
  // One token: 4096 FLOP at 4096 a second; 64 elements * 2.53125 bytes.
  REQUIRE(seconds(facts_of(uniform(mxfp4_spec)), 1) == 1 + 64 * 2.53125 / 8192);
  REQUIRE(seconds(unquantised_recipe("bf16", 16), 128) == 512);
  // 4-bit weights under 16-bit inputs run at the bf16 rate and quantise nothing.
  REQUIRE(seconds(facts_of(sim::recipe_from_json("mxfp4@weights")), 128) == 512);
  // The last phase is what a network is used under.
  const sim::TrainingRecipe phased =
      sim::recipe_from_json({{"base", "mxfp4"}, {"phases", {{{"until", 0.5}}, {{"recipe", "bf16"}}}}});
  REQUIRE(seconds(facts_of(phased), 128) == 512);
  // Rules: the only layer in bf16.
  const sim::TrainingRecipe ruled =
      sim::recipe_from_json({{"base", "mxfp4"}, {"layers", {{{"first", 1}, {"recipe", "bf16"}}}}});
  REQUIRE(seconds(facts_of(ruled), 128) == 512);
  // Of "other", fitted on training steps, a third.
  Json slow = chip_json();
  slow["other_s_per_token"] = {{"value", 3}, {"kind", "fitted"}, {"source", "test"}};
  slow["other_model"] = "llama3_8b";
  const Hardware with_other = parse_hardware(slow, "test chip");
  const double other = group_seconds(evaluate(unquantised_recipe("bf16", 16), model, with_other), "other");
  REQUIRE(inference_seconds(unquantised_recipe("bf16", 16), model, with_other, 128) == Approx(512 + other / 3));
}

TEST_CASE("a sparse operand is multiplied at the chip's sparse rate, stored with metadata, its mask paid for",
          "[quick]") {
  Json given = chip_json();
  given["sparse_rates"] = {{"4:8", {{"fp4", 16384}}}, {"2:4", {{"bf16", 4096}}}};
  const Hardware sparse_chip = parse_hardware(given, "sparse chip");
  sim::TrainingRecipe recipe(uniform(mxfp4_spec));
  recipe.sparse = Sparsity::four_of_eight;
  const CostResult sparse = evaluate(recipe, model, sparse_chip);
  // fprop at 16384 / 2; dgrad and wgrad at the dense rate: their K has no pattern.
  CHECK(group(sparse, "matmul") == 64.0 + 128 + 128);
  CHECK(sparse.dense.empty());
  // W: 2 bytes read, .34375 (half of 4 bits, half a bit of metadata, 8/32 of scales) and .53125 written: .71875 s of
  // memory; 9 slots of two quantisations and 27/8 of the mask: .7734375 s.
  CHECK(group(sparse, "quantise") == 3.0625 + 0.7734375 + 1.53125);
  double mask = 0;
  for (const Term& term : sparse.terms) mask += term.name == "mask W of l" ? term.seconds : 0;
  CHECK(mask == 0.7734375 - 0.71875);
  CHECK(sparse.memory.weights == 2048 * (2 + 0.34375 + 0.53125));
  CHECK(inference_seconds(facts_of(recipe), model, sparse_chip, 128) == 64 + 2.53125);
  // Without a rate for the mask it is a dense product, and the result says so.
  recipe.sparse = Sparsity::two_of_four;
  CHECK(group(evaluate(recipe, model, sparse_chip), "matmul") == 3 * 128.0);
  CHECK(evaluate(recipe, model, sparse_chip).dense == std::vector<std::string>{"fp4 2:4"});
  recipe.sparse = Sparsity::four_of_eight;
  CHECK(cost_of(recipe).dense == std::vector<std::string>{});  // of fp4::Recipe: dense
  CHECK(evaluate(recipe, model, chip).dense == std::vector<std::string>{"fp4 4:8"});
  // What is kept of a block of 32 is a block of 16.
  given["block_scales"] = {{"fp4", {"e8m0/32"}}};
  const CostResult by_blocks = evaluate(recipe, model, parse_hardware(given, "sparse chip"));
  CHECK(by_blocks.dense == std::vector<std::string>{"fp4 4:8 with e8m0 for 32"});
  CHECK(group(by_blocks, "matmul") == 3 * 128.0);
  given["block_scales"] = {{"fp4", {"e8m0/16"}}};
  CHECK(group(evaluate(recipe, model, parse_hardware(given, "sparse chip")), "matmul") == 64.0 + 128 + 128);
  // bf16: 2 bytes read, 9 bits and 16 written; no quantiser besides.
  sim::TrainingRecipe wide(uniform(find_preset("bf16")->spec));
  wide.sparse = Sparsity::two_of_four;
  CHECK(group(evaluate(wide, model, sparse_chip), "matmul") == 256.0 + 512 + 512);
  CHECK(group(evaluate(wide, model, sparse_chip), "quantise") == 5.125 * 2048 / 8192);
  // A rule's dense layer.
  const sim::TrainingRecipe ruled =
      sim::recipe_from_json({{"base", "mxfp4"}, {"sparse", "4:8"}, {"layers", {{{"first", 1}, {"sparse", "none"}}}}});
  CHECK(group(evaluate(ruled, model, sparse_chip), "matmul") == 3 * 128.0);
  given["sparse_rates"] = {{"1:2", {{"fp4", 1}}}};
  CHECK_THROWS_WITH(parse_hardware(given, "sparse chip"), Catch::Contains("1:2") && Catch::Contains("2:4, 4:8"));
  for (const char* name : {"b200", "gb200", "rtx_pro_6000"})
    CHECK(load_hardware(name).sparse_rates.at("4:8").at("fp4").value == 2 * load_hardware(name).rate("fp4"));
}

TEST_CASE("a cache costs its bits, its quantisers, its reads and what is decoded", "[quick]") {
  // Two blocks, K and V 16 wide: 64 elements a token; NVFP4: 4.5 bits, one read for the tensor scale.
  Json given = model_json();
  given.update({{"blocks", 2}, {"attention_width", 64}, {"sequence", 16}, {"tokens_per_step", 32}});
  given["linears"] = {{{"name", "qkv"}, {"in", 64}, {"out", {64, 16, 16}}, {"layers", {"q", "k", "v"}}}};
  const Model with_attention = parse_model(given, "test model");
  CHECK(with_attention.cached_elements() == 64);
  const auto cost_of_cache = [&](const Json& recipe, const Hardware& hardware) {
    return evaluate(sim::recipe_from_json(recipe), with_attention, hardware);
  };
  Json recipe = {{"base", "bf16"}, {"attn", {{"kv", {{"preset", "nvfp4"}}}}}};
  const CostResult result = cost_of_cache(recipe, chip);
  REQUIRE(result.cache);
  CHECK(result.cache->bits == 4.5);
  CHECK(result.cache->token_bytes == 36);
  CHECK(result.cache->bf16_token_bytes == 128);
  CHECK(result.cache->quantise_s == 64 * (2 + 0.5625 + 2) / 8192);
  CHECK(result.cache->read_s == 16 * 36.0 / 8192);
  CHECK(result.cache->bf16_read_s == 16 * 128.0 / 8192);
  CHECK(result.cache->decode_ops == 16 * 64 * 2.0);
  CHECK(std::string(result.cache->binding) == "memory");
  // A training writes it, and nothing else changes.
  CHECK(group(result, "quantise") == 32 * 64 * 2.5625 / 8192);
  CHECK(group(result, "tensor scale") == 32 * 64 * 2.0 / 8192);
  CHECK(result.compute_s - result.free_quantisation_s == group(result, "quantise") + group(result, "tensor scale"));
  CHECK_FALSE(cost_of_cache({{"base", "bf16"}}, chip).cache);
  // Q K^T in the format of the cache takes the keys' codes; P V those of values whose blocks lie along the positions.
  recipe["layers"] = Json::parse(R"([{"kind": "qk", "fprop": {"*": {"preset": "nvfp4"}}},
    {"kind": "pv", "fprop": {"*": {"preset": "nvfp4"}}}])");
  CHECK(cost_of_cache(recipe, chip).cache->decode_ops == 16 * 32 * 2.0);
  recipe["attn"]["values"] = "channel";
  CHECK(cost_of_cache(recipe, chip).cache->decode_ops == 0);
  recipe["attn"]["keys"] = "channel";
  CHECK(cost_of_cache(recipe, chip).cache->decode_ops == 16 * 32 * 2.0);
  // A chip that does not multiply the format decodes all, whatever the rules say; slots may bind then.
  Json other = chip_json();
  other["block_scales"] = {{"fp4", {"e8m0/32"}}};
  other["issue_per_s"] = 32768;
  recipe["attn"]["keys"] = "token";
  const CostResult decoded = cost_of_cache(recipe, parse_hardware(other, "other chip"));
  CHECK(decoded.cache->decode_ops == 16 * 64 * 2.0);
  CHECK(decoded.cache->read_s == 16 * 64 * 2.0 / 16384);
  CHECK(std::string(decoded.cache->binding) == "issue");
  // FP8 without scales is converted alone; bf16 is read as it is.
  recipe["attn"]["kv"] = {{"element", "e4m3"}, {"scale", "none"}};
  CHECK(cost_of_cache(recipe, chip).cache->bits == 8);
  CHECK(cost_of_cache(recipe, chip).cache->decode_ops == 16 * 64 * 1.0);
  recipe["attn"]["kv"] = {{"preset", "bf16"}};
  CHECK(cost_of_cache(recipe, chip).cache->read_s == 16 * 128.0 / 8192);
  CHECK(cost_of_cache(recipe, chip).cache->decode_ops == 0);
}
