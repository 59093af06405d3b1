// Are weights after training those of the methods' definitions? GPTQ, smoothing and rotation against double precision
// in Python (gptq_reference.py), distillation against its formula, evaluations of a sweep against `evaluate`.
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <iterator>

#include "fp4/presets.h"
#include "sim/engine/quantized_linear.h"
#include "sim/rules/post_training.h"
#include "sim/rules/recipe.h"
#include "sim/tape/ops.h"
#include "sim/train/example_pool.h"
#include "src/text/error.h"
#include "sweeps/grid/grid.h"
#include "tasks/run.h"
#include "tests/support/support.h"

using namespace fp4;
using Catch::Matchers::Contains;
using sim::Json;

namespace {

constexpr int rows = 96, in = 64, out = 10;

std::vector<float> normals(uint32_t number, int64_t n) {
  std::vector<float> v(static_cast<size_t>(n));
  sim::DataSource{5, number}.normals(v.data(), 0, n);
  return v;
}

// Inputs that depend on one another, and some channels larger than others.
std::vector<float> inputs() {
  std::vector<float> x = normals(1, rows * in);
  for (int r = 0; r < rows; ++r)
    for (int k = 1; k < in; ++k) {
      float& v = x[static_cast<size_t>(r * in + k)];
      v = 0.6f * v + 0.8f * x[static_cast<size_t>(r * in + k - 1)];
      if (k % 13 == 0) v *= 6;
    }
  return x;
}

Json table(const std::vector<float>& v, int cols) {
  Json t = Json::array();
  for (size_t i = 0; i < v.size(); i += static_cast<size_t>(cols))
    t.push_back(std::vector<double>(v.begin() + static_cast<std::ptrdiff_t>(i),
                                    v.begin() + static_cast<std::ptrdiff_t>(i) + cols));
  return t;
}

// The layer after calibration with `x`, asked for the unit vectors: W^T in the basis of x.
std::vector<float> weights_after(const sim::TrainingRecipe& recipe, std::vector<float> x, std::vector<float> w) {
  const Dispatcher backend;
  sim::LinearEngine engine(recipe, backend);
  engine.add_layer("layer", in, out, true);
  engine.finish();
  sim::Pass pass;
  pass.step = 1;
  pass.training = pass.quantise = false;
  sim::Arena memory;
  sim::Tape tape(memory, sim::kernels(), pass);
  std::vector<float> unit(in * in, 0.0f);
  for (int k = 0; k < in; ++k) unit[static_cast<size_t>(k * in + k)] = 1;
  sim::Var weight = tape.variable({w.data(), out, in}, false);
  engine.begin_calibration();
  // In two batches, of which the second is the smaller.
  engine.forward(tape, 0, tape.constant({x.data(), 60, in}), weight, nullptr);
  engine.forward(tape, 0, tape.constant({x.data() + 60 * in, rows - 60, in}), weight, nullptr);
  engine.finish_calibration(tape);
  pass.quantise = true;
  const sim::Tensor y = engine.forward(tape, 0, tape.constant({unit.data(), in, in}), weight, nullptr)->value;
  return {y.data, y.data + y.size()};
}

}  // namespace

TEST_CASE("gptq, smoothing and rotation equal double precision in Python", "[quick]") {
  const char* python = std::getenv("FP4SIM_PYTHON");
  REQUIRE(python != nullptr);
  const test::TemporaryFolder folder;
  const std::vector<float> x = inputs(), w = normals(2, out * in);
  for (const char* order : {"activation", "stored"})
    for (const double smooth : {0.0, 0.5})
      for (const int hadamard : {0, 32}) {
        INFO(order << ", smooth " << smooth << ", hadamard " << hadamard);
        test::write_text(folder / "case.json", Json({{"x", table(x, in)},
                                                     {"w", table(w, in)},
                                                     {"smooth", smooth},
                                                     {"hadamard", hadamard},
                                                     {"order", order},
                                                     {"damping", 0.01}})
                                                   .dump());
        const test::RunResult ran =
            test::run_shell(std::string(python) + " tests/gptq_reference.py " + (folder / "case.json"));
        INFO(ran.err);
        REQUIRE(ran.exit_code == 0);
        const Json reference = Json::parse(ran.out);
        const Json fprop = {
            {"a", {{"preset", "fp32"}}}, {"b", {{"preset", "mxfp4"}}}, {"hadamard", {{"size", hadamard}}}};
        int changed = 0;
        for (const char* codes : {"nearest", "gptq"}) {
          const Json recipe = {{"base", "fp32"},
                               {"fprop", fprop},
                               {"ptq", {{"codes", codes}, {"smooth", smooth}, {"order", order}, {"damping", 0.01}}}};
          const std::vector<float> ours = weights_after(sim::recipe_from_json(recipe), x, w);
          for (int o = 0; o < out; ++o)
            for (int k = 0; k < in; ++k) {
              const double wanted = reference[codes][static_cast<size_t>(o)][static_cast<size_t>(k)];
              const float got = ours[static_cast<size_t>(k * out + o)];
              // Without smoothing and rotation a product with 1 is exact; a step of the grid is 0.1 and more.
              if (smooth == 0 && hadamard == 0)
                CHECK(static_cast<double>(got) == wanted);
              else
                CHECK(std::abs(static_cast<double>(got) - wanted) < 1e-5);
              changed += reference["nearest"][static_cast<size_t>(o)][static_cast<size_t>(k)] != wanted;
            }
        }
        CHECK(changed > out * in / 20);
      }
}

TEST_CASE("without dependence between inputs gptq rounds to nearest, at the recipe's scales", "[quick]") {
  const Dispatcher backend;
  const std::vector<float> w = normals(3, out * in);
  for (const char* preset : {"mxfp4", "nvfp4", "ue5m3fp4", "mxfp8", "mxfp6_e3m2"}) {
    const Preset* found = find_preset(preset);
    REQUIRE(found != nullptr);
    Quantized q;
    backend.quantize({.x = view_of(w.data(), out, in), .spec = found->spec, .hadamard = {}, .place = {}}, q);
    Quantized after = q;
    std::vector<double> h(in * in, 0.0);
    for (int k = 1; k < in; ++k) h[static_cast<size_t>(k * in + k)] = 1 + k % 7;  // the first column has no input
    sim::gptq(w.data(), h, 0.01, sim::ColumnOrder::activation, after);
    std::vector<float> nearest(w.size()), ours(w.size());
    backend.dequantize(q, nearest.data());
    backend.dequantize(after, ours.data());
    INFO(preset);
    CHECK(ours == nearest);
    CHECK(after.scales == q.scales);
  }
}

TEST_CASE("gptq takes the nearest of a list's codes, under the micro-exponents that a block has", "[quick]") {
  const std::vector<float> w = normals(4, 10 * 64);
  std::vector<double> h(64 * 64, 0.0);
  for (size_t k = 0; k < 64; ++k) h[65 * k] = 1;
  struct Case {
    const char* words;
    uint32_t own_bits;  // of a code, below its micro-exponents
  };
  for (const Case& c :
       {Case{"nf4", 4}, Case{"razer", 4}, Case{"mxfp4,element=int4", 4}, Case{"hifloat4", 4}, Case{"mx6", 5}}) {
    const uint32_t own_bits = c.own_bits;
    INFO(c.words);
    QuantizeCall call;
    call.x = view_of(w.data(), 10, 64);
    call.spec = quant_spec_from_words(c.words);
    Quantized q;
    reference_backend().quantize(call, q);
    const auto with_low_bits = [&](uint32_t low) {
      Quantized other = q;
      for (int64_t r = 0; r < 10; ++r)
        for (int64_t k = 0; k < 64; ++k) other.set_code(r, k, q.code(r, k) >> own_bits << own_bits | low);
      return other;
    };
    const auto distances = [&](const Quantized& of) {
      std::vector<float> y(w.size());
      reference_backend().dequantize(of, y.data(), 1);
      for (size_t i = 0; i < y.size(); ++i) y[i] = std::fabs(y[i] - w[i]);
      return y;
    };
    Quantized after = with_low_bits(1);
    sim::gptq(w.data(), h, 0.01, sim::ColumnOrder::stored, after);
    CHECK(after.scales == q.scales);
    const std::vector<float> got = distances(after);
    std::vector<float> least(w.size(), INFINITY);
    for (uint32_t low = 0; low < 1u << own_bits; ++low) {
      const std::vector<float> d = distances(with_low_bits(low));
      for (size_t i = 0; i < d.size(); ++i)
        if (d[i] < least[i]) least[i] = d[i];  // a NaN is no number that is near
    }
    CHECK(got == least);
    bool keeps = true;
    for (int64_t r = 0; r < 10; ++r)
      for (int64_t k = 0; k < 64; ++k) keeps &= after.code(r, k) >> own_bits == q.code(r, k) >> own_bits;
    CHECK(keeps);
  }
}

TEST_CASE("smoothing factors by hand", "[quick]") {
  // sqrt(4 / 1), sqrt(1 / 4); a channel without inputs or weights stays.
  const std::vector<float> w = {1, -4, 2, 0, -0.5, 1, 1, 0};
  CHECK(sim::smoothing_factors({4, 1, 0, 3}, w.data(), 2, 0.5f) == std::vector<float>{2, 0.5f, 1, 1});
  CHECK(sim::smoothing_factors({4, 1, 0, 3}, w.data(), 2, 1.0f) == std::vector<float>{4, 1, 1, 1});
}

TEST_CASE("words of ptq", "[quick]") {
  const sim::TrainingRecipe r =
      sim::recipe_from_json({{"base", "nvfp4"}, {"ptq", {{"codes", "gptq"}, {"smooth", 0.5}}}});
  CHECK(sim::recipe_from_json(sim::to_json(r)).ptq == r.ptq);
  CHECK_FALSE(sim::to_json(sim::recipe_from_json("nvfp4")).contains("ptq"));
  CHECK_THROWS_WITH(sim::recipe_from_json({{"ptq", {{"codes", "gptq2"}}}}),
                    Contains("ptq.codes") && Contains("nearest"));
  CHECK_THROWS_WITH(sim::recipe_from_json({{"ptq", {{"smooth", 2}}}}), Contains("ptq.smooth"));
  const Json training = tasks::canonical({{"task", "classifier"}, {"recipe", sim::to_json(r)}});
  CHECK_THAT(tasks::invalid_reason(training), Contains("fp4sim eval"));
  CHECK_THROWS_WITH(tasks::run(training, 1), Contains("fp4sim eval"));
}

TEST_CASE("a teacher's targets are its probabilities beside the labels", "[quick]") {
  constexpr int n = 5, classes = 7;
  std::vector<float> y = normals(4, n * classes), heard = normals(6, n * classes);
  const int32_t labels[] = {0, 6, 3, 3, 1};
  const float weights[] = {1, 2, 0.5f, 1, 1};
  const auto softmax = [](const std::vector<float>& v, int r, int c) {
    double sum = 0;
    for (int k = 0; k < classes; ++k) sum += std::exp(static_cast<double>(v[static_cast<size_t>(r * classes + k)]));
    return std::exp(static_cast<double>(v[static_cast<size_t>(r * classes + c)])) / sum;
  };
  for (const float share : {0.25f, 1.0f}) {
    sim::Teacher teacher;
    teacher.share = share;
    sim::Pass pass;
    pass.teacher = &teacher;
    sim::Arena memory;
    sim::Tape tape(memory, sim::kernels(), pass);
    teacher.records = true;
    sim::cross_entropy(tape, tape.constant({heard.data(), n, classes}), labels, weights);
    teacher.records = false;
    sim::Var logits = tape.variable({y.data(), n, classes}, true);
    sim::Var loss = sim::cross_entropy(tape, logits, labels, weights);
    tape.backward(loss);
    double expected = 0;
    for (int r = 0; r < n; ++r)
      for (int c = 0; c < classes; ++c) {
        const double s = static_cast<double>(share);
        const double t = s * softmax(heard, r, c) + (c == labels[r] ? 1 - s : 0), p = softmax(y, r, c);
        expected -= static_cast<double>(weights[r]) / n * t * std::log(p);
        CHECK(static_cast<double>(logits->grad[r * classes + c]) ==
              Approx(static_cast<double>(weights[r]) / n * (p - t)).margin(1e-6));
      }
    CHECK(static_cast<double>(loss->value.data[0]) == Approx(expected).epsilon(1e-6));
    // The validation and the losses of squares: the first hears nothing, the second means targets.
    pass.training = false;
    const float plain = sim::cross_entropy(tape, logits, labels, nullptr)->value.data[0];
    pass.teacher = nullptr;
    CHECK(sim::cross_entropy(tape, logits, labels, nullptr)->value.data[0] == plain);
    pass.training = true, pass.teacher = &teacher;
    std::vector<float> target = normals(7, n * classes);
    const double squares =
        static_cast<double>(sim::mean_squared_error(tape, logits, {target.data(), n, classes}, nullptr)->value.data[0]);
    double mean = 0;
    for (size_t i = 0; i < y.size(); ++i) {
      const double s = static_cast<double>(share);
      const double e =
          static_cast<double>(y[i]) - (1 - s) * static_cast<double>(target[i]) - s * static_cast<double>(heard[i]);
      mean += e * e / (n * classes);
    }
    CHECK(squares == Approx(mean).epsilon(1e-5));
  }
}

namespace {

Json config_of(const char* recipe, Json more = Json::object(), const char* task = "classifier") {
  more["task"] = {{"name", task}};
  more["recipe"] = recipe;
  more["train"] = {{"steps", 20}, {"curve_points", 2}};
  return tasks::canonical(more);
}

}  // namespace

TEST_CASE("distillation follows the trunk's network and survives a stop", "[train]") {
  const test::TemporaryFolder folder;
  for (const char* task : {"classifier", "regression"}) {
    const Json whole = config_of("mxfp4", {{"branch", {{"recipe", "bf16"}, {"at", 0.5}, {"distil", 1}}}}, task);
    const sim::History history = tasks::run(whole, 3);
    CHECK(history.digest !=
          tasks::run(config_of("mxfp4", {{"branch", {{"recipe", "bf16"}, {"at", 0.5}}}}, task), 3).digest);
    sim::RunOptions trunk, branch, rest;
    trunk.checkpoint_to = branch.resume_from = folder / "trunk";
    trunk.stop_at = 10;
    tasks::run(config_of("bf16", Json::object(), task), 3, trunk);
    branch.branch = true, branch.distil = 1, branch.stop_at = 15;
    branch.checkpoint_to = rest.resume_from = folder / "stopped";
    tasks::run(config_of("mxfp4", Json::object(), task), 3, branch);
    CHECK(tasks::run(config_of("mxfp4", Json::object(), task), 3, rest).digest == history.digest);
  }
}

TEST_CASE("a run that ends in an evaluation has its metrics, and shares the training", "[train]") {
  const test::TemporaryFolder folder;
  sim::RunOptions keep, shared;
  keep.checkpoint_to = folder / "c";
  shared.trunks = folder / "trunks";
  std::filesystem::create_directory(shared.trunks);
  const sim::History trained = tasks::run(config_of("bf16"), 5, keep);
  const Json smooth = {{"base", "mxfp4"}, {"ptq", {{"codes", "gptq"}, {"smooth", 0.5}, {"batches", 2}}}};
  std::string last;
  for (const Json& recipe : {Json("nvfp4@weights"), Json("mxfp4"), smooth}) {
    const sim::History h = tasks::run(config_of("bf16", {{"eval", {{"recipe", recipe}}}}), 5, shared);
    CHECK(h.metrics == tasks::evaluate(folder / "c", recipe).result.metrics);
    CHECK(h.metrics.at("loss") != trained.metrics.at("loss"));
    CHECK(h.metrics.at("loss_hp") == trained.metrics.at("loss_hp"));
    CHECK(h.curve.size() == trained.curve.size());
    CHECK(h.digest != last);
    last = h.digest;
  }
  // As a sweep runs it, which asks for checkpoints on the way; alone, a checkpoint of it would be of nothing.
  sim::RunOptions in_sweep = shared, alone;
  in_sweep.checkpoint_to = alone.checkpoint_to = folder / "own";
  in_sweep.checkpoint_every = 300;
  const Json judged = config_of("bf16", {{"eval", {{"recipe", smooth}}}});
  CHECK(tasks::run(judged, 5, in_sweep).digest == last);
  CHECK_THROWS_WITH(tasks::run(judged, 5, alone), Contains("fp4sim eval"));
  const std::filesystem::directory_iterator files(shared.trunks);
  CHECK(std::distance(begin(files), end(files)) == 1);
  CHECK_THROWS_WITH(config_of("bf16", {{"eval", {{"recipe", "nvfp5"}}}}), Contains("nvfp5"));
}

TEST_CASE("a grid's evaluations are an axis", "[quick]") {
  const sweeps::Grid grid = sweeps::parse_grid(
      R"({"name": "g", "task": "classifier", "axes": {"recipe": ["bf16", "nvfp4"]}, "train": {"steps": 40},
          "branch": {"recipe": "bf16", "at": [0, 0.5], "distil": [1]},
          "eval": ["own", "nvfp4@weights", {"label": "gptq", "base": "nvfp4", "ptq": {"codes": "gptq"}}]})",
      "grid");
  const sweeps::Plan plan = sweeps::expand(grid, sweeps::real_simulator("auto", false));
  CHECK(plan.axes == std::vector<std::string>{"recipe", "branch", "eval"});
  CHECK(plan.counts.distinct == 2 * 3 * 3);
  CHECK(plan.points[2].labels == std::vector<std::string>{"bf16", "none", "gptq"});
  CHECK(plan.points[6].labels == std::vector<std::string>{"bf16", "bf16@0.5+distil", "own"});
  CHECK_THROWS_WITH(sweeps::parse_grid(R"({"name": "g", "task": "lm", "eval": [3]})", "grid"),
                    Contains("grid: eval[0]"));
}

TEST_CASE("eval quantises after calibration from the command line", "[cli]") {
  const test::TemporaryFolder folder;
  REQUIRE(test::run_cli("train --task classifier --recipe bf16 --steps 30 --quiet --checkpoint " + (folder / "c"))
              .exit_code == 0);
  const auto ran = test::run_cli("eval --checkpoint " + (folder / "c") +
                                 " --recipe mxfp4@weights --set ptq.codes=gptq --set ptq.batches=2 --json");
  INFO(ran.err);
  REQUIRE(ran.exit_code == 0);
  const Json recipe = {{"base", "mxfp4@weights"}, {"ptq", {{"codes", "gptq"}, {"batches", 2}}}};
  CHECK(Json::parse(ran.out)["rows"][1]["metrics"]["loss"] ==
        tasks::evaluate(folder / "c", recipe).result.metrics.at("loss"));
  const auto judged = test::run_cli("train --task classifier --steps 5 --quiet --set eval.recipe=nvfp4@weights");
  CHECK_THAT(judged.out, Contains("judged under  nvfp4@weights"));
  const auto wrong = test::run_cli("eval --checkpoint " + (folder / "c") + " --recipe mxfp4 --set ptq.codes=awq");
  CHECK(wrong.exit_code == 2);
  CHECK_THAT(wrong.err, Contains("awq") && Contains("gptq"));
}
