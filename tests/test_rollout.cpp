// Does `fp4sim eval --against` measure what it says, and does it find the kernel's word that makes the difference?
// Expected: sums worked out by hand, KL in long double from the logits themselves, differences planted in one layer.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <nlohmann/json.hpp>

#include "sim/engine/quantized_linear.h"
#include "sim/rules/calls.h"
#include "sim/rules/recipe.h"
#include "src/files/tensor_writer.h"
#include "src/text/error.h"
#include "sweeps/judge/rollout.h"
#include "tasks/run.h"
#include "tests/support/support.h"

using namespace fp4;
using Catch::Matchers::Contains;
using sim::Json;

namespace {

// Y = X W^T of one layer [in, out] when a trained network is judged under a recipe.
std::vector<float> judged_layer(const Json& recipe, int in, int out, std::vector<float> x, std::vector<float> w) {
  const Dispatcher backend;
  sim::LinearEngine engine(sim::recipe_from_json(recipe), backend);
  const int layer = engine.add_layer("layer", in, out, true);
  engine.finish();
  sim::Pass pass;
  pass.step = 1;
  pass.training = false;
  sim::Arena memory;
  sim::Tape tape(memory, sim::kernels(), pass);
  const int rows = static_cast<int>(x.size()) / in;
  const sim::Var y = engine.forward(tape, layer, tape.variable({x.data(), rows, in}, false),
                                    tape.variable({w.data(), out, in}, false), nullptr);
  return {y->value.data, y->value.data + y->value.size()};
}

Json called(const Json& base, const Json& calls) { return {{"base", base}, {"calls", calls}}; }

void train(const Json& config, const std::string& checkpoint) {
  sim::RunOptions options;
  options.checkpoint_to = checkpoint;
  tasks::run(config, 7, options);
}

Json run_of(const Json& task, const Json& recipe, int steps) {
  return tasks::canonical(
      {{"task", task}, {"recipe", recipe}, {"train", {{"steps", steps}, {"batch", 16}, {"curve_points", 1}}}});
}

const Json small_lm = {{"name", "lm"}, {"width", 32}, {"heads", 2}, {"ffn", 64}, {"context", 16}};

sim::Answers outputs_of(const std::string& checkpoint, const Json& recipe) {
  sim::RunOptions options;
  options.keeps_outputs = true;
  return tasks::evaluate(checkpoint, recipe, options).result.answers;
}

// The mean over tokens of sum p ln(p / q), straight from the definition.
long double kl_of(const sim::Answers& p, const sim::Answers& q) {
  const auto classes = static_cast<size_t>(p.classes);
  const size_t tokens = p.outputs.size() / classes;
  long double all = 0;
  for (size_t t = 0; t < tokens; ++t) {
    long double sum_p = 0, sum_q = 0;
    const auto at = [&](const sim::Answers& a, size_t c) {
      return std::exp(static_cast<long double>(a.outputs[t * classes + c]));
    };
    for (size_t c = 0; c < classes; ++c) sum_p += at(p, c), sum_q += at(q, c);
    for (size_t c = 0; c < classes; ++c) all += at(p, c) / sum_p * std::log(at(p, c) / sum_p / (at(q, c) / sum_q));
  }
  return all / static_cast<long double>(tokens);
}

}  // namespace

TEST_CASE("parts of K hold whole blocks and cover K", "[quick]") {
  CHECK(sim::part_ends(64, 16, 1) == std::vector<int64_t>{64});
  CHECK(sim::part_ends(64, 16, 2) == std::vector<int64_t>{32, 64});
  CHECK(sim::part_ends(64, 16, 3) == std::vector<int64_t>{16, 32, 64});
  CHECK(sim::part_ends(70, 32, 2) == std::vector<int64_t>{32, 70});  // three units, the last one short
  CHECK(sim::part_ends(70, 32, 9) == std::vector<int64_t>{32, 64, 70});
  CHECK(sim::part_ends(0, 16, 4).empty());
}

TEST_CASE("columns of an operand decode to those columns of the whole", "[quick]") {
  const Dispatcher backend;
  std::vector<float> x;
  for (int i = 0; i < 3 * 300; ++i)
    x.push_back(static_cast<float>((i * 7919) % 251 - 125) * std::ldexp(1.0f, i % 13 - 6));
  for (const char* spec : {"mxfp4", "nvfp4", "nvfp4,tensor_scale=row", "nvfp4,tensor_scale=outer128", "mxfp4,block=row",
                           "mxfp4,block=tensor", "mxfp4,block=32x32", "mxfp8", "mxfp4,scale=fp32,scale_rule=amax",
                           "bf16", "fp32", "hifloat4", "if4"}) {
    QuantizeCall call;
    call.x = view_of(x.data(), 3, 300);
    call.spec = quant_spec_from_words(spec);
    Quantized whole;
    backend.quantize(call, whole);
    std::vector<float> all(x.size());
    backend.dequantize(whole, all.data());
    const int64_t unit = sim::unit_of_k(call.spec, call.spec);
    INFO(spec << ", unit " << unit);
    for (const int parts : {2, 3}) {
      int64_t begin = 0;
      for (const int64_t end : sim::part_ends(300, unit, parts)) {
        const Quantized part = sim::columns_of(whole, begin, end);
        std::vector<float> decoded(static_cast<size_t>(3 * (end - begin)));
        backend.dequantize(part, decoded.data());
        for (int64_t r = 0; r < 3; ++r)
          for (int64_t k = begin; k < end; ++k)
            REQUIRE(decoded[static_cast<size_t>(r * (end - begin) + k - begin)] ==
                    all[static_cast<size_t>(r * 300 + k)]);
        begin = end;
      }
      CHECK(begin == 300);
    }
  }
}

TEST_CASE("split K by hand", "[quick]") {
  // 2^24 and three ones, each a block of its own: in order every 1 is a tie that goes to the even 2^24; in two parts
  // the last two add up to 2 first.
  std::vector<float> x(128, 0.0f), w(128, 0.0f);
  for (int block = 0; block < 4; ++block)
    w[static_cast<size_t>(32 * block)] = 1, x[static_cast<size_t>(32 * block)] = 1;
  x[0] = 16777216;
  const float whole = 16777216, two = 16777218;
  for (const char* base : {"mxfp4", "bf16", "fp32"}) {
    INFO(base);
    CHECK(judged_layer(base, 128, 1, x, w) == std::vector<float>{whole});
    CHECK(judged_layer(called(base, {{"split_k", 2}}), 128, 1, x, w) == std::vector<float>{two});
    // In four each stands alone, and fp32 adds them as before.
    CHECK(judged_layer(called(base, {{"split_k", 4}}), 128, 1, x, w) == std::vector<float>{whole});
    // Two tokens: a call of more than one row is not split, single calls are.
    std::vector<float> both = x;
    both.insert(both.end(), x.begin(), x.end());
    const Json above_one = {{"split_k", 2}, {"split_rows", 1}};
    CHECK(judged_layer(called(base, above_one), 128, 1, both, w) == std::vector<float>{whole, whole});
    Json single = above_one;
    single["rows"] = 1;
    CHECK(judged_layer(called(base, single), 128, 1, both, w) == std::vector<float>{two, two});
  }
}

TEST_CASE("each call has a tensor scale of its own", "[quick]") {
  std::vector<float> small, w, both;
  for (int i = 0; i < 32; ++i)
    small.push_back(static_cast<float>(i % 5) * 0.3f), w.push_back(static_cast<float>(i % 3));
  std::vector<float> large = small;
  for (float& v : large) v *= 1e6f;
  both = large;
  both.insert(both.end(), small.begin(), small.end());
  const std::vector<float> alone_large = judged_layer("nvfp4", 32, 1, large, w);
  const std::vector<float> alone_small = judged_layer("nvfp4", 32, 1, small, w);
  const std::vector<float> one_call = judged_layer("nvfp4", 32, 1, both, w);
  CHECK(one_call[1] != alone_small[0]);  // its scale is below the smallest one of ue4m3
  CHECK(judged_layer(called("nvfp4", {{"rows", 1}}), 32, 1, both, w) ==
        std::vector<float>{alone_large[0], alone_small[0]});
}

TEST_CASE("KL, flips and intervals by hand", "[quick]") {
  const float three = std::log(3.0f);
  // Two examples of two tokens; p of the first token is 1/4, 3/4 against halves, all others are alike.
  const std::vector<float> p = {0, three, 1, 1, 5, 2, 0, 0}, q = {7, 7, 1, 1, 5, 2, 0, 0};
  const sweeps::Divergence d = sweeps::divergence(p, q, 2, 2);
  const double kl = 0.25 * std::log(0.5) + 0.75 * std::log(1.5);
  CHECK(d.largest == Approx(kl).epsilon(1e-7));
  CHECK(d.kl.n == 2);
  CHECK(d.kl.mean == Approx(kl / 4).epsilon(1e-7));  // examples have means kl/2 and 0
  CHECK(d.flipped.mean == 0.25);                     // class 1 against the first of two equals
  CHECK(d.not_finite == 0);
  // A class that moves by 100 nats: p = 1/2, 1/2 against e^-100, 1.
  CHECK(sweeps::divergence({0, 0}, {-100, 0}, 2, 1).largest == Approx(50 - std::log(2.0)).epsilon(1e-12));
  CHECK(sweeps::divergence({-2000, 0}, {0, 0}, 2, 1).largest == Approx(std::log(2.0)).epsilon(1e-12));
  const sweeps::Divergence same = sweeps::divergence(q, q, 2, 1);
  CHECK(same.kl.mean == 0);
  CHECK(same.largest == 0);
  REQUIRE(same.kl.interval);
  CHECK(same.kl.interval->high == 0);
  std::vector<float> broken = q;
  broken[2] = NAN;
  const sweeps::Divergence b = sweeps::divergence(broken, q, 2, 2);
  CHECK(b.not_finite == 1);
  CHECK(b.kl.mean == 0);
}

TEST_CASE("a recipe against itself differs nowhere", "[train]") {
  const test::TemporaryFolder folder;
  train(run_of(small_lm, "ue5m3_hold50", 3), folder / "c");
  // Its own recipe holds tensor scales; laid over it is another recipe, which does not: neither counts.
  const Json laid = {{"base", "ue5m3_hold50"}, {"calls", {{"split_k", 1}}}};
  for (const Json& other : {Json(), Json("ue5m3_hold50"), laid}) {
    const sweeps::Rollout r = sweeps::compare_rollout(folder / "c", Json(), other, {});
    CHECK(r.tokens == 128 * 16);
    CHECK(r.examples == 128);
    CHECK(r.all.kl.mean == 0);
    CHECK(r.all.flipped.mean == 0);
    CHECK_FALSE(r.first);
    CHECK(r.turns.empty());
    CHECK(r.recipe_metrics == r.against_metrics);
  }
}

TEST_CASE("KL is that of the logits, and the planted layer and operand are found", "[train]") {
  const test::TemporaryFolder folder;
  train(run_of(small_lm, "bf16", 20), folder / "c");
  struct Planted {
    const char* base;
    const char* rule;
    const char* layer;
    const char* operand;
  };
  for (const Planted& planted :
       {Planted{"bf16", R"({"match": "block1.up", "fprop": {"accumulator": "exact"}})", "block1.up", "sum"},
        Planted{"nvfp4", R"({"match": "block0.v", "fprop": {"b": {"scale_rule": "four_over_six"}}})", "block0.v", "b"},
        Planted{"nvfp4", R"({"match": "block1.q", "fprop": {"a": {"scale_rule": "four_over_six"}}})", "block1.q", "a"},
        Planted{"nvfp4", R"({"match": "block0.down", "fprop": {"*": {"scale_rule": "four_over_six"}}})", "block0.down",
                "a and b"}}) {
    const Json recipe = {{"base", planted.base}, {"layers", Json::array({Json::parse(planted.rule)})}};
    // A rule makes the layers it does not name follow the recipe as before.
    const Json plain = {{"base", planted.base}, {"layers", "all"}};
    const sweeps::Rollout r = sweeps::compare_rollout(folder / "c", plain, recipe, {});
    INFO(planted.rule);
    const sim::Answers reference = outputs_of(folder / "c", plain);
    REQUIRE(r.first);
    CHECK(r.first->layer == planted.layer);
    CHECK(r.first->operand == planted.operand);
    CHECK(r.first->differing > 0);
    CHECK(r.first->differing <= r.first->count);
    CHECK(r.first->against != r.first->recipe);
    const sim::Answers answers = outputs_of(folder / "c", recipe);
    const auto expected = static_cast<double>(kl_of(answers, reference));
    CHECK(r.all.kl.mean == Approx(expected).epsilon(1e-9).margin(1e-17));
    CHECK(r.all.kl.mean > 0);
    double flipped = 0;
    for (size_t i = 0; i < answers.chosen.size(); ++i) flipped += answers.chosen[i] != reference.chosen[i];
    CHECK(r.all.flipped.mean == Approx(flipped / static_cast<double>(answers.chosen.size())));
    REQUIRE(r.turns.size() == 1);
    CHECK(r.turns[0].word == "layers");
  }
}

TEST_CASE("words are turned one at a time", "[train]") {
  const test::TemporaryFolder folder;
  train(run_of(small_lm, "bf16", 20), folder / "c");
  const Json a = "nvfp4";
  const Json b = {{"base", "nvfp4"},
                  {"fprop", {{"accumulator", "fused35_rz"}, {"*", {{"scale_rule", "four_over_six"}}}}},
                  {"calls", {{"split_k", 2}}}};
  const sweeps::Rollout r = sweeps::compare_rollout(folder / "c", a, b, {});
  std::vector<std::string> words;
  for (const sweeps::Turn& t : r.turns) words.push_back(t.word);
  CHECK(words[0] == "fprop.*.scale_rule");  // codes weigh more than the order of a sum
  std::sort(words.begin(), words.end());
  CHECK(words == std::vector<std::string>{"calls.split_k", "fprop.*.scale_rule", "fprop.accumulator"});
  const sim::Answers reference = outputs_of(folder / "c", a);
  for (const sweeps::Turn& t : r.turns) {
    INFO(t.word);
    Json alone, without = b;
    if (t.word == "calls.split_k") {
      CHECK(t.meaning == "split K");
      CHECK(t.against == 1);
      CHECK(t.recipe == 2);
      alone = {{"base", "nvfp4"}, {"calls", {{"split_k", 2}}}};
      without.erase("calls");
    } else if (t.word == "fprop.accumulator") {
      CHECK(t.meaning == "adder");
      alone = {{"base", "nvfp4"}, {"fprop", {{"accumulator", "fused35_rz"}}}};
      without["fprop"].erase("accumulator");
    } else {
      alone = {{"base", "nvfp4"}, {"fprop", {{"*", {{"scale_rule", "four_over_six"}}}}}};
      without["fprop"].erase("*");
    }
    REQUIRE(t.alone);
    REQUIRE(t.without);
    const auto expected = [&](const Json& recipe) {
      return Approx(static_cast<double>(kl_of(outputs_of(folder / "c", recipe), reference)))
          .epsilon(1e-9)
          .margin(1e-17);
    };
    CHECK(t.alone->kl.mean == expected(alone));
    CHECK(t.without->kl.mean == expected(without));
  }
}

// A rollout whose words have these KL alone and without; 0.07 in all.
sweeps::Rollout with_turns(const std::vector<std::pair<double, double>>& turns) {
  sweeps::Rollout r;
  const auto of = [](double kl) {
    sweeps::Divergence d;
    d.kl.n = 1, d.kl.mean = kl;
    return d;
  };
  r.all = of(0.07);
  for (const auto& [alone, without] : turns) {
    r.turns.emplace_back();
    r.turns.back().alone = of(alone), r.turns.back().without = of(without);
  }
  return r;
}

TEST_CASE("a cause is what lowers the KL when it is turned back", "[quick]") {
  // 0.079 alone, more than all, and 0.07 left without it: refuted by its own row.
  CHECK(sweeps::cause_of(with_turns({{0.079, 0.07}, {0.062, 0.071}})).words.empty());
  CHECK(sweeps::cause_of(with_turns({{0.02, 0.036}, {0.069, 0.07}})).words.empty());
  CHECK(sweeps::cause_of(with_turns({{0.02, 0.035}, {0.069, 0.07}})).words == std::vector<size_t>{0});
  CHECK(sweeps::cause_of(with_turns({{0.079, 0.08}})).words == std::vector<size_t>{0});  // the only one
  sweeps::Rollout pairs = with_turns({{0.079, 0.06}, {0.062, 0.07}, {0.01, 0.07}});
  pairs.pairs = {{0, 2, with_turns({{0, 0.01}}).turns[0].without}, {0, 1, {}}};
  CHECK(sweeps::cause_of(pairs).words == std::vector<size_t>{0, 2});
  CHECK(sweeps::cause_of(pairs).left == 0.01);
  pairs.pairs[0].without->kl.mean = 0.05;
  CHECK(sweeps::cause_of(pairs).words.empty());
}

TEST_CASE("words that act together are turned back in pairs", "[train]") {
  const test::TemporaryFolder folder;
  train(run_of(small_lm, "bf16", 20), folder / "c");
  const sweeps::Rollout r = sweeps::compare_rollout(folder / "c", "nvfp4", "mxfp4", {});
  REQUIRE(r.turns.size() == 4);  // scale, rule, block, tensor scale
  for (const sweeps::Turn& t : r.turns) CHECK(t.without->kl.mean > 0.5 * r.all.kl.mean);
  REQUIRE(r.pairs.size() == 6);
  const sim::Answers reference = outputs_of(folder / "c", "nvfp4");
  for (const sweeps::PairTurn& pair : r.pairs) {
    Json back = {{"base", "mxfp4"}};
    for (const size_t i : {pair.first, pair.second})
      back["fprop"]["*"][r.turns[i].word.substr(8)] = r.turns[i].against;  // without "fprop.*."
    INFO(back);
    if (!pair.without) {
      CHECK_THROWS(outputs_of(folder / "c", back));
      continue;
    }
    CHECK(pair.without->kl.mean ==
          Approx(static_cast<double>(kl_of(outputs_of(folder / "c", back), reference))).epsilon(1e-9));
  }
  CHECK(cause_of(r).words.size() != 1);
}

TEST_CASE("a kernel that splits by the size of a call is not batch-invariant", "[train]") {
  const test::TemporaryFolder folder;
  train(run_of(small_lm, "bf16", 20), folder / "c");
  // Without tensor scales a token's result does not depend on its neighbours, whatever the call.
  const sweeps::Rollout invariant = sweeps::compare_rollout(folder / "c", "mxfp4", called("mxfp4", {{"rows", 3}}), {});
  CHECK(invariant.all.kl.mean == 0);
  CHECK_FALSE(invariant.first);
  CHECK(invariant.turns.size() == 1);
  // One kernel, called with all tokens by the trainer and with one by the rollout: only the second is split.
  const Json kernel = {{"split_k", 2}, {"split_rows", 8}};
  Json decode = kernel;
  decode["rows"] = 1;
  const sweeps::Rollout variant =
      sweeps::compare_rollout(folder / "c", called("bf16", kernel), called("bf16", decode), {});
  CHECK(variant.all.kl.mean > 0);
  REQUIRE(variant.first);
  CHECK(variant.first->layer == "block0.q");
  CHECK(variant.first->operand == "sum");
  REQUIRE(variant.turns.size() == 1);
  CHECK(variant.turns[0].word == "calls.rows");
}

TEST_CASE("words of calls, and what cannot be compared", "[quick]") {
  const sim::TrainingRecipe r =
      sim::recipe_from_json(called("mxfp4", {{"rows", 4}, {"split_k", 2}, {"split_rows", 8}}));
  CHECK(sim::recipe_from_json(sim::to_json(r)).calls == r.calls);
  CHECK_FALSE(sim::to_json(sim::recipe_from_json("mxfp4")).contains("calls"));
  CHECK_THROWS_WITH(sim::recipe_from_json({{"calls", {{"split_k", 0}}}}), Contains("calls.split_k"));
  CHECK_THROWS_WITH(sim::recipe_from_json({{"calls", {{"parts", 2}}}}), Contains("parts") && Contains("split_k"));
  CHECK_THAT(tasks::invalid_reason(run_of("classifier", called("mxfp4", {{"split_k", 2}}), 1)),
             Contains("fp4sim eval"));
  const Json split = {{"base", "mxfp4"}, {"fprop", {{"split", {{"method", "clamp"}}}}}, {"calls", {{"rows", 2}}}};
  CHECK_THROWS_WITH(judged_layer(split, 32, 1, std::vector<float>(32, 1), std::vector<float>(32, 1)),
                    Contains("calls: layer") && Contains("split none"));
}

TEST_CASE("eval --against on the command line", "[cli]") {
  const test::TemporaryFolder folder;
  const std::string train = "train --task classifier --recipe bf16 --steps 20 --json --quiet --checkpoint ";
  REQUIRE(test::run_cli(train + (folder / "c")).exit_code == 0);
  const std::string eval = "eval " + (folder / "c") + " --against bf16";
  const auto json = test::run_cli(eval + " --recipe bf16 --set calls.split_k=2 --set fprop.accumulator=exact --json");
  INFO(json.err);
  REQUIRE(json.exit_code == 0);
  const Json out = Json::parse(json.out);
  CHECK(out["task"] == "classifier");
  CHECK(out["against"] == "bf16");
  CHECK(out["tokens"] == 4096);
  CHECK(out["kl"]["mean"] > 0);
  CHECK(out["kl"]["low"] <= out["kl"]["mean"]);
  CHECK(out["kl"]["high"] >= out["kl"]["mean"]);
  CHECK(out["flipped"]["mean"] >= 0);
  CHECK(out["first"]["layer"] == "hidden0");
  CHECK(out["first"]["operand"] == "sum");
  REQUIRE(out["causes"].size() == 2);
  for (const Json& cause : out["causes"]) CHECK(cause["alone"]["kl"].contains("mean"));
  CHECK(out["cause"]["words"].size() + out["pairs"].size() > 0);
  CHECK(out["provenance"].is_object());
  // Without --recipe, what --set makes of the one it is compared with; the option's name is one with the position.
  const auto text = test::run_cli("eval --checkpoint " + (folder / "c") + " --against bf16 --set calls.split_k=2");
  REQUIRE(text.exit_code == 0);
  CHECK_THAT(text.out, Contains("bf16 with calls.split_k=2 against bf16") && Contains("First difference: hidden0") &&
                           Contains("Cause: split K (calls.split_k)"));
  const auto same = test::run_cli(eval + " --recipe bf16");
  CHECK_THAT(same.out, Contains("No forward product differs in a bit") && Contains("same words"));
  CHECK_THAT(test::run_cli("eval " + (folder / "c") + " --against own --recipe mxfp4").out, Contains("against bf16"));
  const auto refused = [&](const std::string& words, const char* part) {
    const auto result = test::run_cli("eval " + words);
    CHECK(result.exit_code == 2);
    CHECK_THAT(result.err, Contains(part));
  };
  refused((folder / "c") + " --against mxfp4", "compared with what");
  refused((folder / "c") + " --against mxfp4 --recipe nvfp4,bf16", "one recipe");
  refused((folder / "c") + " --against mxfp5 --recipe mxfp4", "mxfp5");
  REQUIRE(test::run_cli("train --task regression --steps 2 --json --quiet --checkpoint " + (folder / "r")).exit_code ==
          0);
  refused((folder / "r") + " --against mxfp4 --recipe nvfp4", "no classes");
}

TEST_CASE("logits of two programs are compared as files", "[cli]") {
  const test::TemporaryFolder folder;
  const float three = std::log(3.0f);
  // Those of "KL, flips and intervals by hand": two sequences of two tokens, two classes.
  const std::vector<float> p = {0, three, 1, 1, 5, 2, 0, 0}, q = {7, 7, 1, 1, 5, 2, 0, 0};
  save_tensor(folder / "p.npy", Dtype::f32, {2, 2, 2}, p.data());
  save_tensor(folder / "q.npy", Dtype::f32, {2, 2, 2}, q.data());
  save_tensor(folder / "flat.npy", Dtype::f32, {4, 2}, q.data());
  const std::string eval = "eval --logits " + (folder / "p.npy") + " --against ";
  const auto json = test::run_cli(eval + (folder / "q.npy") + " --json");
  INFO(json.err);
  REQUIRE(json.exit_code == 0);
  const Json out = Json::parse(json.out);
  const double kl = 0.25 * std::log(0.5) + 0.75 * std::log(1.5);
  CHECK(out["kl"]["mean"].get<double>() == Approx(kl / 4).epsilon(1e-7));
  CHECK(out["flipped"]["mean"] == 0.25);
  CHECK(out["tokens"] == 4);
  CHECK(out["examples"] == 2);
  CHECK(out["differing"] == 2);
  CHECK_THAT(test::run_cli(eval + (folder / "q.npy")).out,
             Contains("2 of 8 logits differ, first of token 0, class 0: 0 against 7."));
  const auto refused = [&](const std::string& words, const char* part) {
    const auto result = test::run_cli(words);
    CHECK(result.exit_code == 2);
    CHECK_THAT(result.err, Contains(part));
  };
  refused(eval + (folder / "flat.npy"), "has shape");
  refused("eval --logits " + (folder / "p.npy"), "compared with what");
  refused(eval + (folder / "q.npy") + " --recipes mxfp4", "leave out");
  refused("eval", "checkpoint");
}
