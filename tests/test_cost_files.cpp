// Hardware profiles, models and weights as files: what is accepted, what every built-in file must state, and that
// recipes order sensibly on every chip that has FP4.
#include <catch2/catch.hpp>
#include <cmath>

#include "fp4/presets.h"
#include "sweeps/cost/adapt.h"
#include "sweeps/cost/cost.h"
#include "sweeps/cost/hardware.h"
#include "tests/support/support.h"

using namespace fp4;
using namespace fp4::cost;
using Catch::Contains;

namespace {

Json chip_json() {
  return Json::parse(R"({"name": "toy", "doc": "d", "rates": {"bf16": 2048}, "efficiency": 0.5, "issue_per_s": 65536,
    "issue_efficiency": 0.5, "memory_bandwidth": 8192, "memory_bytes": 1, "random_source": "philox"})");
}

std::string chip_error(const Json& json) {
  try {
    parse_hardware(json, "chip");
  } catch (const std::exception& error) {
    return error.what();
  }
  return "";
}

Recipe uniform(const QuantSpec& spec) {
  Recipe recipe;
  for (GemmSpec* gemm : {&recipe.fprop, &recipe.dgrad, &recipe.wgrad}) gemm->a.quant = gemm->b.quant = spec;
  return recipe;
}

void check_source(const std::string& name, const char* field, const std::optional<Quantity>& quantity) {
  if (!quantity) return;
  INFO(name << " " << field);
  CHECK(quantity->source.size() > 10);
  CHECK(quantity->kind != "given");
}

}  // namespace

TEST_CASE("faults of a profile are named", "[quick]") {
  REQUIRE(chip_error(chip_json()).empty());
  const auto with = [](const char* key, const Json& value) {
    Json json = chip_json();
    json[key] = value;
    return chip_error(json);
  };
  CHECK_THAT(with("memory_bandwidth", -8192), Contains("chip: memory_bandwidth") && Contains("-8192"));
  CHECK_THAT(with("memory_bandwidth", 0), Contains("memory_bandwidth"));
  CHECK_THAT(with("memory_bandwidth", "fast"), Contains("expected an object") || Contains("expected a number"));
  CHECK_THAT(with("efficiency", 1.5), Contains("efficiency") && Contains("1.5"));
  CHECK_THAT(with("bandwith", 1), Contains("unknown word 'bandwith'"));
  CHECK_THAT(with("random_source", "dice"), Contains("unknown word 'dice'") && Contains("philox, hardware"));
  CHECK_THAT(with("rates", Json::parse(R"({"fp4": 1})")), Contains("missing rate rates.bf16"));
  CHECK_THAT(with("rates", Json::parse(R"({"bf16": 1, "fp5": 1})")), Contains("unknown word 'fp5'"));
  CHECK_THAT(with("rates", Json::parse(R"({"bf16": -1})")), Contains("rates.bf16") && Contains("-1"));
  CHECK_THAT(with("emulate", Json::parse(R"({"fp4": "fp8"})")), Contains("missing rate rates.fp8"));
  CHECK_THAT(with("rates", Json::parse(R"({"bf16": 8, "fp4": 4})")), Contains("fp4 is slower than bf16"));
  CHECK_THAT(with("other_s_per_token", 1e-6), Contains("other_model"));
  CHECK_THAT(with("efficiency", Json::parse(R"({"value": 0.5, "kind": "guess", "source": "s"})")),
             Contains("unknown word 'guess'"));
  CHECK_THAT(with("block_scales", Json::parse(R"({"fp4": ["e8m0"]})")),
             Contains("SCALE/BLOCK") && Contains(R"(found "e8m0")"));
  CHECK_THAT(with("block_scales", Json::parse(R"({"fp4": ["ue9m9/16"]})")),
             Contains("unknown word 'ue9m9'") && Contains("ue4m3"));
  CHECK_THAT(with("block_scales", Json::parse(R"({"fp5": ["e8m0/32"]})")), Contains("unknown word 'fp5'"));
  CHECK_THAT(with("block_scales", Json::parse(R"({"fp4": ["e8m0/0"]})")), Contains("expected SCALE/BLOCK"));
  CHECK_THAT(with("elements", Json::parse(R"({"fp8": ["nf4"]})")), Contains("nf4 is of fp4, not of fp8"));
  CHECK_THAT(with("block_scales", Json::parse(R"({"fp4": {"value": ["e8m0/32"], "kind": "stated"}})")),
             Contains("missing key 'source'"));
  Json headless = chip_json();
  headless.erase("issue_per_s");
  CHECK_THAT(chip_error(headless), Contains("missing key 'issue_per_s'"));
  Json hot = chip_json();
  hot["board_w"] = 100;
  hot["idle_w"] = 200;
  CHECK_THAT(chip_error(hot), Contains("idle_w is larger than board_w"));
}

// Left out it was 0, and a chip of one's own took .4 of the time of a built-in one with the same figures.
TEST_CASE("a chip of one's own that says nothing of the rest of a step gets it by its bandwidth", "[quick]") {
  Json own = to_json(load_hardware("b200"));
  own.erase("other_s_per_token");
  own.erase("other_model");
  const Hardware chip = parse_hardware(own, "chip"), b200 = load_hardware("b200");
  CHECK(chip.other_s_per_token.value == Approx(b200.other_s_per_token.value));
  CHECK(chip.other_s_per_token.kind == "estimate");
  CHECK_THAT(chip.other_s_per_token.source, Contains("left out"));
  const Model model = load_model("llama3_8b");
  CHECK(evaluate(uniform(mxfp4_spec), model, chip).step_time_s ==
        Approx(evaluate(uniform(mxfp4_spec), model, b200).step_time_s));
  own["memory_bandwidth"] = 4e12;
  CHECK(parse_hardware(own, "chip").other_s_per_token.value == Approx(2 * b200.other_s_per_token.value));
  own["other_s_per_token"] = 0;
  CHECK(parse_hardware(own, "chip").other_s_per_token.value == 0);
  CHECK(to_json(parse_hardware(to_json(parse_hardware(own, "chip")), "again")) == to_json(parse_hardware(own, "chip")));
}

TEST_CASE("a chip from a few figures says which of its numbers were derived", "[quick]") {
  ChipFacts facts{.name = "mine", .rates = {{"bf16", 3e14}, {"fp4", 1.2e15}}};
  CHECK_THROWS_WITH(new_chip(facts), Contains("--memory-bandwidth"));
  facts.memory_bandwidth = 4e12;
  CHECK_THROWS_WITH(new_chip(facts), Contains("--memory-bytes"));
  facts.memory_bytes = 64e9;
  const Hardware chip = new_chip(facts);
  CHECK(chip.rates.at("fp4").kind == "given");
  CHECK(chip.rate("fp32") == Approx(1e13));
  CHECK(chip.issue_per_s.value == Approx(5e12));
  CHECK(chip.issue_per_s.kind == "estimate");
  CHECK(chip.executed_class("fp8") == "bf16");
  CHECK(chip.executed_class("fp6") == "bf16");
  CHECK(chip.multiplies("fp4", "e8m0", 32));
  CHECK_FALSE(chip.multiplies("fp4", "ue4m3", 16));
  CHECK(chip.other_s_per_token.value == Approx(2 * load_hardware("b200").other_s_per_token.value));
  facts.block_scales = {"ue4m3/16"};
  facts.rates["fp8"] = 6e14;
  CHECK(new_chip(facts).multiplies("fp4", "ue4m3", 16));
  CHECK(new_chip(facts).executed_class("fp6") == "fp8");
  facts.rates.erase("bf16");
  CHECK_THROWS_WITH(new_chip(facts), Contains("--bf16"));
  facts.rates["bf16"] = 3e14, facts.board_w = 700;
  const Hardware hot = new_chip(facts);
  CHECK(hot.idle_w->value == Approx(80.3));  // of an H200's 700 W, measured
  CHECK(hot.system_w->value == 1275);        // a DGX H100: 10.2 kW for eight
  CHECK(hot.idle_w->kind == "estimate");
  const auto names = estimated_fields(hot);
  for (const char* field : {"idle_w", "system_w", "efficiency", "other_s_per_token", "quantiser_bandwidth"})
    CHECK(std::find(names.begin(), names.end(), field) != names.end());
}

TEST_CASE("a config.json of Hugging Face is a model", "[quick]") {
  // Parameters: counted by the model cards and by transformers.
  const std::tuple<const char*, int64_t, const char*> published[] = {
      {R"({"model_type": "gpt2", "n_embd": 768, "n_layer": 12, "n_head": 12, "n_positions": 1024, "vocab_size": 50257,
           "n_inner": null, "activation_function": "gelu_new"})",
       124439808, "gpt2_0.124b"},
      {R"({"model_type": "llama", "hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32,
           "num_key_value_heads": 8, "intermediate_size": 14336, "vocab_size": 128256, "rope_theta": 500000.0,
           "max_position_embeddings": 131072, "_name_or_path": "meta-llama/Llama-3.1-8B"})",
       8030261248, "Llama-3.1-8B"},
      {R"({"model_type": "mistral", "hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32,
           "num_key_value_heads": 8, "intermediate_size": 14336, "vocab_size": 32000, "sliding_window": 4096,
           "max_position_embeddings": 32768})",
       7241732096, "mistral_7.24b"},
      {R"({"model_type": "qwen2", "hidden_size": 3584, "num_hidden_layers": 28, "num_attention_heads": 28,
           "num_key_value_heads": 4, "intermediate_size": 18944, "vocab_size": 152064,
           "max_position_embeddings": 131072, "sliding_window": 131072, "tie_word_embeddings": false})",
       7615616512, "qwen2_7.62b"},
      {R"({"model_type": "qwen3", "hidden_size": 1024, "num_hidden_layers": 28, "num_attention_heads": 16, "head_dim": 128,
           "num_key_value_heads": 8, "intermediate_size": 3072, "vocab_size": 151936, "attention_bias": false,
           "max_position_embeddings": 40960, "tie_word_embeddings": true})",
       596049920, "qwen3_0.596b"},
      {R"({"model_type": "mixtral", "hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32,
           "num_key_value_heads": 8, "intermediate_size": 14336, "vocab_size": 32000, "num_local_experts": 8,
           "num_experts_per_tok": 2, "max_position_embeddings": 32768})",
       46702792704, "mixtral_46.7b"},
      {R"({"model_type": "qwen3_moe", "hidden_size": 2048, "num_hidden_layers": 48, "num_attention_heads": 32,
           "head_dim": 128, "num_key_value_heads": 4, "moe_intermediate_size": 768, "num_experts": 128,
           "num_experts_per_tok": 8, "decoder_sparse_step": 1, "vocab_size": 151936,
           "max_position_embeddings": 40960})",
       30532122624, "qwen3_moe_30.5b"}};
  const test::TemporaryFolder folder;
  for (const auto& [text, parameters, name] : published) {
    INFO(name);
    test::write_text(folder / "config.json", text);
    const Model model = load_model(folder / "config.json");
    CHECK(model.parameters() == parameters);
    CHECK(model.name == name);
    CHECK(to_json(parse_model(to_json(model), "again")) == to_json(model));
  }
  // The same sizes as those that are shipped.
  test::write_text(folder / "config.json", std::get<0>(published[1]));
  const Model own = load_model(folder / "config.json"), shipped = load_model("llama3_8b");
  CHECK(to_json(own)["linears"] == to_json(shipped)["linears"]);
  CHECK(own.saved_per_token_block == shipped.saved_per_token_block);
  CHECK(own.sequence == 8192);
  const auto fault = [&](const char* field, const Json& value) {
    Json json = Json::parse(std::get<0>(published[1]));
    value.is_null() ? void(json.erase(field)) : void(json[field] = value);
    test::write_text(folder / "config.json", json.dump());
    CHECK_THROWS_WITH(load_model(folder / "config.json"), Contains(field) && Contains("config.json"));
  };
  for (const char* field : {"hidden_size", "num_hidden_layers", "intermediate_size", "vocab_size"}) fault(field, {});
  fault("model_type", "mamba");
  fault("decoder_sparse_step", 2);
}

TEST_CASE("a rate that a recipe needs and a chip lacks is an error", "[quick]") {
  const Hardware chip = parse_hardware(chip_json(), "chip");
  const Model model = load_model("classifier");
  CHECK_THROWS_WITH(evaluate(uniform(mxfp4_spec), model, chip), Contains("toy") && Contains("missing rate rates.fp4"));
  Json json = chip_json();
  json["emulate"] = {{"fp4", "bf16"}, {"fp8", "bf16"}};
  json["rates"]["fp32"] = 1024;
  const Hardware emulating = parse_hardware(json, "chip");
  CHECK(emulating.rate("fp4") == 2048);
  CHECK(emulating.executed_class("fp4") == "bf16");
  CHECK(evaluate(uniform(mxfp4_spec), model, emulating).overhead > 0);
}

TEST_CASE("unknown names are answered with the accepted ones, and paths are read", "[quick]") {
  CHECK_THROWS_WITH(load_hardware("mi355"), Contains("hardware profile") && Contains("mi355x"));
  CHECK_THROWS_WITH(load_model("llama8b"), Contains("model") && Contains("llama3_8b"));
  CHECK_THROWS_WITH(load_hardware("absent.json"), Contains("absent.json: cannot be read"));
  const test::TemporaryFolder folder;
  Json whole = chip_json();
  whole.update(
      {{"rates", {{"bf16", 2e14}}}, {"issue_per_s", 4e12}, {"memory_bandwidth", 1e12}, {"memory_bytes", 6e10}});
  test::write_text(folder / "chip.json", whole.dump());
  CHECK(load_hardware(folder / "chip.json").name == "toy");
  const auto in_other_units = [&](const char* field, const Json& value) {
    Json json = whole;
    json[field] = value;
    test::write_text(folder / "units.json", json.dump());
    CHECK_THROWS_WITH(load_hardware(folder / "units.json"), Contains(field) && Contains("another unit"));
  };
  in_other_units("rates", {{"bf16", 2250}});  // TFLOP/s
  in_other_units("memory_bandwidth", 8);      // TB/s
  in_other_units("memory_bytes", 180);        // GB
  in_other_units("link_bandwidth", 900);      // GB/s
  in_other_units("network_bandwidth", 400);   // Gb/s
  test::write_text(folder / "broken.json", "{\"name\": ");
  CHECK_THROWS_WITH(load_hardware(folder / "broken.json"), Contains("not JSON"));
  Json again = to_json(load_hardware("mi355x"));
  CHECK(to_json(parse_hardware(again, "again")) == again);
  again = to_json(load_model("llama3_8b"));
  CHECK(to_json(parse_model(again, "again")) == again);
}

TEST_CASE("faults of a model are named", "[quick]") {
  const auto with = [](const char* key, const Json& value) {
    Json json = to_json(load_model("classifier"));
    json[key] = value;
    try {
      parse_model(json, "net");
    } catch (const std::exception& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  CHECK(with("width", 64).empty());
  CHECK_THAT(with("blocks", 0), Contains("blocks"));
  CHECK_THAT(with("blocks", 1.5), Contains("whole number"));
  CHECK_THAT(with("micro_batches", 3), Contains("does not divide"));
  CHECK_THAT(with("linears", Json::array()), Contains("linears"));
  CHECK_THAT(with("linears", Json::parse(R"([{"name": "l", "in": -4, "out": [2]}])")), Contains("-4"));
  CHECK_THAT(with("layerz", 1), Contains("unknown word 'layerz'"));
}

TEST_CASE("weights: unknown words and negative numbers are errors, defaults stay out of the JSON", "[quick]") {
  const CostWeights weights = parse_weights(Json::parse(R"({"sr": 2, "bandwidth": 0.5})"), "cost.weights");
  CHECK(weights.sr == 2);
  CHECK(to_json(weights) == Json::parse(R"({"bandwidth": 0.5, "sr": 2.0})"));
  CHECK_THROWS_WITH(parse_weights(Json::parse(R"({"speed": 2})"), "cost.weights"), Contains("unknown word 'speed'"));
  CHECK_THROWS_WITH(parse_weights(Json::parse(R"({"sr": -1})"), "cost.weights"), Contains("cost.weights: sr"));
  CostWeights set;
  set_weight(set, "hadamard=0.25");
  CHECK(set.hadamard == 0.25);
  CHECK_THROWS_WITH(set_weight(set, "hadamard"), Contains("NAME=NUMBER"));
  CHECK_THROWS_WITH(set_weight(set, "hadamard=x"), Contains("not a number"));
}

TEST_CASE("every number of a built-in profile has an origin", "[quick]") {
  REQUIRE(hardware_names().size() >= 9);
  for (const std::string& name : hardware_names()) {
    const Hardware chip = load_hardware(name);
    CHECK(chip.name == name);
    for (const auto& [key, rate] : chip.rates) check_source(name, key.c_str(), rate);
    check_source(name, "efficiency", chip.efficiency);
    check_source(name, "issue_per_s", chip.issue_per_s);
    check_source(name, "issue_efficiency", chip.issue_efficiency);
    check_source(name, "memory_bandwidth", chip.memory_bandwidth);
    check_source(name, "memory_bytes", chip.memory_bytes);
    check_source(name, "link_bandwidth", chip.link_bandwidth);
    check_source(name, "network_bandwidth", chip.network_bandwidth);
    check_source(name, "board_w", chip.board_w);
    check_source(name, "idle_w", chip.idle_w);
    check_source(name, "system_w", chip.system_w);
    check_source(name, "price_per_hour", chip.price_per_hour);
    // Whoever has FP4 units says what they take.
    if (has_fp4(chip) && name != "host") CHECK(chip.block_scales.contains("fp4"));
    for (const auto& [format, scales] : chip.block_scales) {
      CHECK(scales.kind != "given");
      CHECK(scales.source.size() > 10);
      CHECK_FALSE(scales.value.empty());
    }
    for (const char* format : {"fp32", "bf16", "fp8", "fp6", "fp4"}) CHECK(chip.rate(format) > 0);
  }
  for (const std::string& name : model_names()) {
    CHECK(load_model(name).name == name);
    CHECK(load_model(name).source.size() > 10);
  }
}

TEST_CASE("sizes of the models are the published ones", "[quick]") {
  CHECK(load_model("llama3_8b").parameters() == 8030261248);  // meta-llama/Llama-3.1-8B
  CHECK(load_model("llama3_8b").layers() == 224);
  CHECK(load_model("llama2_70b").parameters() == 68976648192);
  CHECK(load_model("llama3_70b").parameters() == 70553706496);
  CHECK(load_model("llama3_405b").parameters() == 405853388800);
  CHECK(load_model("qwen3_8b").parameters() == 8190735360);
  CHECK(load_model("qwen3_30b_a3b").parameters() == 30532122624);
  CHECK(load_model("mixtral_8x7b").parameters() == 46702792704);
  CHECK(load_model("llama_1b").parameters() == 1339082752);  // GaLore's 1.34 B
  CHECK(load_model("classifier").layers() == 2);
  CHECK(load_model("lm").layers() == 14);
}

TEST_CASE("recipes order sensibly in overhead on every chip with FP4", "[quick]") {
  const Model model = load_model("llama3_8b");
  Recipe sr_rht = uniform(mxfp4_spec);
  sr_rht.dgrad.a.quant.rounding = sr_rht.wgrad.a.quant.rounding = Rounding::stochastic;
  sr_rht.dgrad.hadamard.size = sr_rht.wgrad.hadamard.size = 64;
  sr_rht.dgrad.hadamard.signs = sr_rht.wgrad.hadamard.signs = HadamardSigns::per_step;
  int chips = 0;
  for (const std::string& name : hardware_names()) {
    const Hardware chip = load_hardware(name);
    if (!has_fp4(chip) || name == "host") continue;
    ++chips;
    INFO(name);
    const auto overhead = [&](const RecipeFacts& facts) { return evaluate(facts, model, chip).overhead; };
    const double fp32 = overhead(unquantised_recipe("fp32", 32)), bf16 = overhead(unquantised_recipe("bf16", 16));
    const double fp8 = overhead(facts_of(uniform(find_preset("mxfp8")->spec)));
    const double mxfp4 = overhead(facts_of(uniform(mxfp4_spec))), nvfp4 = overhead(facts_of(uniform(nvfp4_spec)));
    CHECK(fp32 > bf16);
    CHECK(bf16 > fp8);
    // A chip that does not multiply NVFP4 pays bf16's products and the quantisers; Trainium3's FP4 is FP8's rate.
    const bool native = chip.multiplies("fp4", "ue4m3", 16), quicker = chip.rate("fp4") > chip.rate("fp8");
    CHECK((native ? fp8 > nvfp4 : nvfp4 > bf16));
    CHECK(nvfp4 > mxfp4);
    CHECK(mxfp4 > 0);
    CHECK(overhead(facts_of(sr_rht)) >= mxfp4);
    CHECK((!quicker || overhead(facts_of(sr_rht)) < fp8));
  }
  CHECK(chips == 9);
}

TEST_CASE("terms add up, name what binds and show their numbers", "[quick]") {
  const CostResult result = evaluate(uniform(nvfp4_spec), load_model("llama3_8b"), load_hardware("mi355x"));
  double sum = 0, groups = 0;
  for (const Term& term : result.terms) {
    sum += term.seconds;
    CHECK_FALSE(term.formula.empty());
    CHECK_FALSE(term.binding.empty());
    CHECK(std::isfinite(term.seconds));
    CHECK(term.seconds >= 0);
  }
  CHECK(sum == result.compute_s);
  for (const std::string& group : cost_groups()) groups += group_seconds(result, group);
  CHECK(groups == Approx(sum).epsilon(1e-12));
}
