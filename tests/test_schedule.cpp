// Do rules select the layers that they name, in order, and do phases change products at their step and nowhere else?
// Counts are worked out by hand from the order of layers: a block of `lm` is q, k, v, o, gate, up, down.
#include <catch2/catch.hpp>
#include <map>

#include "sim/rules/recipe.h"
#include "src/text/error.h"
#include "tasks/run.h"
#include "tests/support/support.h"

using namespace fp4;
using sim::Json;

namespace {

Json config_of(const char* task, const Json& recipe, int steps) {
  Json section = {{"name", task}};
  if (std::string(task) != "lm") section.update({{"width", 32}});
  return tasks::canonical({{"task", section}, {"recipe", recipe}, {"train", {{"steps", steps}, {"curve_points", 2}}}});
}

sim::History run(const char* task, const Json& recipe, int steps, const sim::RunOptions& options = {}) {
  return tasks::run(config_of(task, recipe, steps), 1, options);
}

Json with_layers(const char* layers) { return {{"base", "mxfp4"}, {"layers", Json::parse(layers)}}; }

}  // namespace

TEST_CASE("rules over layers count in order, and heads only when named", "[train]") {
  using Counts = sim::PrecisionCounts;
  const sim::History h = run("lm", with_layers(R"([{"kind": "attention", "recipe": "mxfp8"},
    {"last": 2, "recipe": "bf16"}, {"match": "block1.down", "fprop": "mxfp4.fprop"},
    {"match": "head", "recipe": "mxfp8"}])"),
                             1);
  // Attention: 2 x 4 and the head; bf16: block1.up and block1.down, whose fprop is FP4 again; FP4: the other 4.
  CHECK(h.products[0] == Counts{{"e4m3", 9}, {"bf16", 1}, {"e2m1", 5}});
  CHECK(h.products[1] == Counts{{"e4m3", 9}, {"bf16", 2}, {"e2m1", 4}});
  CHECK(h.products[2] == Counts{{"e4m3", 9}, {"bf16", 2}, {"e2m1", 4}});
  // No pattern with * takes the head.
  CHECK(run("lm", with_layers(R"([{"match": "*", "recipe": "bf16"}])"), 1).products[0] ==
        Counts{{"bf16", 14}, {"fp32", 1}});
  CHECK(run("lm", with_layers(R"([{"kind": "head", "recipe": "bf16"}])"), 1).products[0] ==
        Counts{{"bf16", 1}, {"e2m1", 14}});
}

TEST_CASE("patterns of rules, by hand", "[quick]") {
  const auto takes = [](const std::string& pattern) {
    return sim::selects({.by = sim::LayerRule::By::match, .word = pattern, .change = {}},
                        {.name = "block3.down", .position = 5, .count = 14});
  };
  for (const char* pattern :
       {"block3.down", "down", "*", "**", "*.down", "block?.down", "b*3*n", "*o*o*", "d*", "block3.down*"}) {
    INFO(pattern);
    CHECK(takes(pattern));
  }
  for (const char* pattern :
       {"block3", "own", "?", "block??.down", "*.up", "b*4*n", "*o*o*o*", "downs", "block3.down?"}) {
    INFO(pattern);
    CHECK_FALSE(takes(pattern));
  }
  // Read by trying every split of the name, thirty stars take 10^10 steps.
  std::string stars;
  for (int i = 0; i < 30; ++i) stars += "*o";
  CHECK_FALSE(takes(stars));
}

TEST_CASE("a rule gives the bits of the shorthand that says the same", "[train]") {
  const auto digest = [](const char* layers) { return run("lm", with_layers(layers), 2).digest; };
  const std::string last = digest(R"({"skip_last": 0.15})");
  CHECK(digest(R"([{"last": 0.15, "recipe": "bf16"}])") == last);
  CHECK(digest(R"([{"first": 14, "recipe": "bf16"}, {"first": 12, "recipe": "mxfp4"}])") == last);
  CHECK(digest(R"([])") == digest(R"("all")"));
  CHECK(digest(R"([])") != last);
}

TEST_CASE("a phase begins after its mark, and resuming across it changes no bit", "[train]") {
  // floor(.82 * 50 + .5) = 41 steps of two FP4 layers, 9 of bf16; the head stays fp32.
  const Json recipe = {{"base", "mxfp4"}, {"phases", Json::array({{{"until", 0.82}}, {{"fprop", "bf16.fprop"}}})}};
  const sim::History whole = run("classifier", recipe, 50);
  CHECK(whole.products[0] == sim::PrecisionCounts{{"e2m1", 82}, {"bf16", 18}, {"fp32", 50}});
  CHECK(whole.products[2] == sim::PrecisionCounts{{"e2m1", 100}, {"fp32", 50}});
  const test::TemporaryFolder folder;
  for (const int stop : {20, 41, 45}) {
    sim::RunOptions first, second;
    first.checkpoint_to = second.resume_from = folder / "c";
    first.stop_at = stop;
    run("classifier", recipe, 50, first);
    CHECK(run("classifier", recipe, 50, second).digest == whole.digest);
  }
  const Json idle = {{"base", "mxfp4"}, {"phases", Json::array({{{"until", 0.82}}, Json::object()})}};
  CHECK(run("classifier", idle, 50).digest == run("classifier", "mxfp4", 50).digest);
  CHECK(whole.digest != run("classifier", "mxfp4", 50).digest);
}

TEST_CASE("marks of phases in shares and in steps, by hand", "[quick]") {
  const auto recipe = [](const char* phases) {
    return sim::recipe_from_json({{"base", "mxfp4"}, {"phases", Json::parse(phases)}});
  };
  // 0.75 * 3 = 2.25, so 2 of 3 steps; a mark in steps is that step; one behind another's end leaves nothing.
  const sim::TrainingRecipe shares = recipe(R"([{"until": 0.75}, {}])"),
                            mixed = recipe(R"([{"until": 0.5}, {"until": 4}, {}])");
  CHECK(sim::phase_ends(shares, 3) == std::vector<int>{2, 3});
  CHECK(sim::phase_shares(shares, 3) == std::vector<double>{2.0 / 3, 1.0 / 3});
  CHECK(sim::phase_shares(shares, 0) == std::vector<double>{0.75, 0.25});
  CHECK(sim::phase_ends(mixed, 16) == std::vector<int>{8, 8, 16});
  CHECK(sim::phase_ends(mixed, 6) == std::vector<int>{3, 4, 6});
  CHECK(sim::phase_ends(mixed, 2) == std::vector<int>{1, 2, 2});
  CHECK(sim::phase_of(mixed, 8, 16) == 0);
  CHECK(sim::phase_of(mixed, 9, 16) == 2);
  CHECK(sim::phase_of(mixed, 2, 2) == 1);
  CHECK_THROWS_WITH(sim::phase_shares(mixed, 0), Catch::Contains("until 4 counts steps"));
  const Json steps = {{"base", "mxfp4"}, {"phases", Json::array({{{"until", 41}}, {{"fprop", "bf16.fprop"}}})}};
  const Json share = {{"base", "mxfp4"}, {"phases", Json::array({{{"until", 0.82}}, {{"fprop", "bf16.fprop"}}})}};
  CHECK(run("classifier", steps, 50).digest == run("classifier", share, 50).digest);
}

TEST_CASE("a condition begins a phase once, for good, and after a checkpoint too", "[train]") {
  const auto recipe = [](const char* second) {
    return Json{{"base", "mxfp4_sr"}, {"phases", Json::array({Json::object(), Json::parse(second)})}};
  };
  // Measured after steps 1, 11, ..: below any ratio that exists never, below 10^9 after step 1.
  const Json marked = {{"base", "mxfp4_sr"}, {"phases", Json::array({{{"until", 1}}, {{"recipe", "bf16"}}})}};
  const std::string at_once = run("classifier", marked, 30).digest;
  const char* always = R"({"when": "gradient_noise_ratio < 1e9", "recipe": "bf16"})";
  CHECK(run("classifier", recipe(always), 30).digest == at_once);
  CHECK(run("classifier", recipe(R"({"when": "gradient_noise_ratio < 1e-9", "recipe": "bf16"})"), 30).digest ==
        run("classifier", "mxfp4_sr", 30).digest);
  const test::TemporaryFolder folder;
  for (const int stop : {1, 2, 12}) {
    sim::RunOptions first, second;
    first.checkpoint_to = second.resume_from = folder / "c";
    first.stop_at = stop;
    run("classifier", recipe(always), 30, first);
    CHECK(run("classifier", recipe(always), 30, second).digest == at_once);
  }
  // The ratio itself: 4 bits are noisier than 8, and both far from a ratio of nothing.
  const auto ratio = [&](const char* base) {
    double value = 0;
    sim::RunOptions traced;
    traced.trace_every = 1;
    traced.trace = [&](const sim::TraceRow& row) {
      if (row.quantity == "gradient_noise_ratio") value = row.value;
    };
    Json given = recipe(R"({"when": "gradient_noise_ratio < 1e-9"})");
    given["base"] = base;
    run("classifier", given, 1, traced);
    return value;
  };
  CHECK(ratio("mxfp4") > 0.1);
  CHECK(ratio("mxfp8") > 2 * ratio("mxfp4"));
}

TEST_CASE("rules and phases read back as they are, and wrong ones say what is accepted", "[quick]") {
  const Json given = {
      {"base", "mxfp4"},
      {"layers",
       Json::parse(R"([{"last": 0.15, "recipe": "bf16"}, {"kind": "ffn", "all": {"b": {"block": [32, 32]}}}])")},
      {"phases", Json::array({{{"until", 0.5}},
                              {{"recipe", "mxfp8"}},
                              {{"when", "gradient_noise_ratio < 1.73"}, {"wgrad", "bf16.wgrad"}}})}};
  const Json full = sim::to_json(sim::canonical(sim::recipe_from_json(given)));
  CHECK(sim::to_json(sim::canonical(sim::recipe_from_json(full))) == full);
  const auto fails = [](const char* key, const char* value, const std::string& words) {
    CHECK_THROWS_WITH(sim::recipe_from_json({{"base", "mxfp4"}, {key, Json::parse(value)}}), Catch::Contains(words));
  };
  fails("phases", R"([{"until": 2.5}, {}])", "whole steps");
  fails("layers", R"([{"recipe": "bf16"}])", "expected one of match, kind, first and last");
  fails("layers", R"([{"last": 1, "first": 1, "recipe": "bf16"}])", "expected one of match, kind, first and last");
  fails("layers", R"([{"last": 1}])", "expected a recipe or changes of products");
  fails("layers", R"([{"last": 1.5, "recipe": "bf16"}])", "expected whole layers");
  fails("layers", R"({"skip_first": 1.5})", "expected whole layers");
  fails("layers", R"([{"last": 1, "recipe": "bf16", "fprop": {}}])", "found both");
  fails("layers", R"([{"match": "", "recipe": "bf16"}])", "expected a pattern over layer names");
  fails("layers", R"([{"kind": "ffm", "recipe": "bf16"}])", "attention");
  fails("layers", R"([{"last": 1, "fprop": {"a": {"elemnt": "e2m1"}}}])", "element");
  fails("phases", R"([{"until": 0.5}])", "list of at least 2");
  fails("phases", R"([{}, {"fprop": {}}])", "expected until");
  fails("phases", R"([{"when": "gradient_noise_ratio < 2", "until": 0.5}, {}])", "begins at once");
  fails("phases", R"([{}, {"when": "gradient_noise < 2"}])", "gradient_noise_ratio < NUMBER");
  fails("phases", R"([{"until": 0.5}, {"until": 0.8}])", "lasts to the end");
  fails("phases", R"([{"until": 0.8}, {"until": 0.8}, {}])", "until does not grow");
  fails("phases", R"([{"until": 0.8}, {"fprop": "bf16.forward"}])", "RECIPE.PRODUCT");
  // A whole product by its words, beside the base's others; a split of the base goes with its product.
  const Json words =
      sim::to_json(sim::canonical(sim::recipe_from_json({{"base", "hot_channels"}, {"fprop", "bf16.fprop"}})));
  CHECK(words.at("fprop") == sim::to_json(sim::canonical(sim::recipe_from_json("bf16"))).at("fprop"));
  CHECK(words.at("wgrad") == sim::to_json(sim::canonical(sim::recipe_from_json("hot_channels"))).at("wgrad"));
  fails("dgrad", R"("bf16.backward")", "RECIPE.PRODUCT");
  CHECK_THROWS_WITH(run("lm", with_layers(R"([{"match": "block7.q", "recipe": "bf16"}])"), 1),
                    Catch::Contains("block7.q") && Catch::Contains("block0.q"));
  // A kind that the model has not: an error, unless the rule says that it may be so.
  CHECK_THROWS_WITH(run("classifier", with_layers(R"([{"kind": "attention", "recipe": "bf16"}])"), 1),
                    Catch::Contains("kind attention selects no layer") && Catch::Contains("ffn, head"));
  CHECK(run("classifier", with_layers(R"([{"kind": "attention", "recipe": "bf16", "optional": true}])"), 1).digest ==
        run("classifier", "mxfp4", 1).digest);
}

TEST_CASE("fields of a product leave split and mask alone, RECIPE.fprop brings its own", "[quick]") {
  const auto of = [](const char* text) { return sim::recipe_from_json(Json::parse(text)); };
  const Sparsity mask = of(R"("nvfp4_4to8")").sparse;
  REQUIRE(mask != Sparsity::none);
  const sim::LayerPlace place = {"block0.q", 0, 14};
  const char* fields = R"([{"match": "*", "fprop": {"a": {}, "b": {}, "accumulator": "fp32_block"}}])";
  for (const char* base : {"hot_channels", "nvfp4_4to8"}) {
    const sim::TrainingRecipe r = sim::recipe_from_json({{"base", base}, {"layers", Json::parse(fields)}});
    CHECK(sim::products_at(r, r, place, -1).fprop.split == r.fprop.split);
    CHECK(sim::sparsity_at(r, r.sparse, place, -1) == r.sparse);
  }
  struct Case {
    const char* words;
    Sparsity mask;
  };
  for (const Case& c : {Case{R"("base": "nvfp4", "fprop": "nvfp4_4to8.fprop")", mask},
                        {R"("base": "nvfp4", "dgrad": "nvfp4_4to8.dgrad")", Sparsity::none},
                        {R"("base": "nvfp4_4to8", "fprop": "nvfp4.fprop")", Sparsity::none},
                        {R"("base": "nvfp4_4to8", "all": "nvfp4.fprop")", Sparsity::none},
                        {R"("base": "nvfp4_4to8", "fprop": "nvfp4.fprop", "sparse": "4:8")", mask},
                        {R"("base": "nvfp4_4to8", "wgrad": "bf16.wgrad")", mask},
                        {R"("base": "nvfp4", "all": "nvfp4_4to8.fprop", "fprop": "nvfp4.fprop")", Sparsity::none},
                        {R"("base": "nvfp4_4to8", "all": "nvfp4.fprop", "fprop": {"a": {}})", Sparsity::none},
                        {R"("base": "nvfp4_4to8", "fprop": "nvfp4.dgrad")", Sparsity::none},
                        {R"("base": "nvfp4_4to8", "all": "nvfp4.dgrad")", Sparsity::none}}) {
    INFO(c.words);
    CHECK(of(("{" + std::string(c.words) + "}").c_str()).sparse == c.mask);
    if (std::string(c.words).find("sparse") != std::string::npos) continue;
    // The same as a rule.
    Json words = Json::parse("{" + std::string(c.words) + "}"), rule = words;
    rule.erase("base");
    rule["match"] = "*";
    const sim::TrainingRecipe r = sim::recipe_from_json({{"base", words["base"]}, {"layers", {rule}}});
    CHECK(sim::sparsity_at(r, r.sparse, place, -1) == c.mask);
  }
}

TEST_CASE("a product of a file has bf16 beside it, in attention too", "[quick]") {
  const test::TemporaryFolder folder;
  test::write_text(folder / "kv.json", R"({"base": "bf16", "center_keys": true, "attn": {"kv": {"preset": "nvfp4"}}})");
  for (const char* part : {"@fprop", "@wgrad", "@weights"}) {
    const sim::TrainingRecipe r = sim::recipe_from_json(folder / "kv.json" + part);
    CHECK_FALSE((r.attention.any() || r.center_keys));
  }
}

TEST_CASE("a recipe that names itself is an error, wherever it does", "[quick]") {
  const test::TemporaryFolder folder;
  const std::string path = folder / "own.json";
  for (const char* field : {"base", "layers", "phases", "fprop"}) {
    INFO(field);
    const std::map<std::string, Json> own = {{"base", path},
                                             {"layers", Json::array({{{"first", 1}, {"recipe", path}}})},
                                             {"phases", Json::array({{{"until", 0.5}}, {{"recipe", path}}})},
                                             {"fprop", path + ".fprop"}};
    test::write_text(path, Json({{"name", "own"}, {field, own.at(field)}}).dump());
    CHECK_THROWS_WITH(sim::recipe_from_json(path), Catch::Contains("name one another"));
  }
}
