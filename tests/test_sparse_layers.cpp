// Recipes with sparse weights: is the mask the two largest of four along K of fprop, does every product meet what it
// should, and does the gradient pass whole? Expected values: masks chosen one by one here, dense layers over weights
// that were masked here, and products of what is kept side by side.
#include <catch2/catch.hpp>

#include "sim/rules/recipe.h"
#include "src/arith/spec_text.h"
#include "src/backends/sparse.h"
#include "src/text/error.h"
#include "tasks/run.h"
#include "tests/support/linear_layer.h"

using namespace fp4;
using Catch::Contains;
using sim::Json;
using test::Doubles;
using test::OneLayer;

namespace {

// 1 for what counts: twice the largest that is left of a group, the first of equals.
Doubles independent_mask(const Doubles& w, int cols, int width) {
  Doubles mask(w.size());
  for (size_t row = 0; row < w.size(); row += static_cast<size_t>(cols))
    for (int first = 0; first < cols; first += 4 * width) {
      std::vector<int> units;
      for (int u = first; u < std::min(cols, first + 4 * width); u += width) units.push_back(u);
      const auto size = [&](int unit) {
        double sum = 0;
        for (int k = unit; k < std::min(cols, unit + width); ++k) sum += std::fabs(w[row + static_cast<size_t>(k)]);
        return sum;
      };
      for (int taken = 0; taken < 2 && !units.empty(); ++taken) {
        auto best = units.begin();
        for (auto u = units.begin(); u != units.end(); ++u)
          if (size(*u) > size(*best)) best = u;
        for (int k = *best; k < std::min(cols, *best + width); ++k) mask[row + static_cast<size_t>(k)] = 1;
        units.erase(best);
      }
    }
  return mask;
}

int width_of(const char* word) { return find_row(sparsity_table, std::string_view(word))->width; }

sim::TrainingRecipe with(const char* base, const char* sparse, const Json& fprop = Json::object()) {
  return sim::recipe_from_json({{"base", base}, {"sparse", sparse}, {"fprop", fprop}});
}

}  // namespace

TEST_CASE("a row of any length keeps the two largest of four, and the earlier of equals", "[quick]") {
  for (const char* word : {"2:4", "4:8"})
    for (int cols = 1; cols <= 35; ++cols)
      for (uint64_t draw = 0; draw < 20; ++draw) {
        std::vector<float> row;
        for (int k = 0; k < cols; ++k)  // few values, so that many are equal
          row.push_back(static_cast<float>(random_draw({draw, 0, 0}, static_cast<uint64_t>(k), 32) % 7) - 3.0f);
        std::vector<int32_t> kept(static_cast<size_t>(cols / 2 + 2));
        const int64_t count =
            largest_of_row(find_row(sparsity_table, std::string_view(word))->id, row.data(), cols, kept.data());
        const Doubles mask = independent_mask({row.begin(), row.end()}, cols, width_of(word));
        std::vector<int32_t> expected;
        for (int k = 0; k < cols; ++k)
          if (mask[static_cast<size_t>(k)] != 0) expected.push_back(k);
        INFO(word << " " << cols << " " << draw);
        CHECK(std::vector<int32_t>(kept.begin(), kept.begin() + count) == expected);
      }
}

TEST_CASE("fprop and dgrad meet the mask, the gradient of the weights is whole", "[train]") {
  for (const char* word : {"2:4", "4:8"})
    for (const int in : {64, 61, 2}) {
      OneLayer layer({24, in, 40});
      const Doubles masked = test::times(layer.w(), independent_mask(layer.w(), in, width_of(word)));
      const OneLayer::Result r = layer.run(with("fp32", word)), plain = layer.plain();
      INFO(word << " " << in);
      CHECK(test::distance(r.y, OneLayer::product(layer.x(), false, masked, true, 24, 40, in)) < 5e-7);
      CHECK(test::distance(r.dx, layer.dx(masked)) < 5e-7);
      CHECK(r.dw == layer.run(sim::recipe_from_json("fp32")).dw);
      CHECK(test::distance(r.dw, plain.dw) < 5e-7);
      if (in > 2) CHECK(test::distance(r.y, plain.y) > 0.1);
    }
}

TEST_CASE("quantised products are those of weights masked before their scales", "[train]") {
  for (const char* base : {"nvfp4", "mxfp4", "mxfp8", "bf16", "four_over_six", "nvfp4_te"})
    for (const char* word : {"2:4", "4:8"})
      for (const int in : {128, 92}) {
        OneLayer layer({40, in, 48}), dense({40, in, 48});
        dense.set_weights(test::times(layer.w(), independent_mask(layer.w(), in, width_of(word))));
        Json given = {{"base", base}, {"layers", "all"}};
        if (std::string(base) != "bf16") given["fprop"] = {{"*", {{"block", 32}}}};
        const OneLayer::Result expected = dense.run(sim::recipe_from_json(given));
        given["sparse"] = word;
        const OneLayer::Result r = layer.run(sim::recipe_from_json(given));
        INFO(base << " " << word << " " << in);
        CHECK(r.y == expected.y);
        CHECK(r.dx == expected.dx);
        CHECK(r.dw == expected.dw);
      }
}

TEST_CASE("a masked weight is absent from every adder", "[train]") {
  // What is kept of a row of weights, and the same columns of X, side by side: blocks of half the length.
  const int rows = 9, in = 256, out = 7;
  for (const char* words : {"nvfp4,block=32", "mxfp4", "mxfp8", "bf16"})
    for (const char* word : {"2:4", "4:8"}) {
      OneLayer layer({rows, in, out});
      const QuantSpec spec = quant_spec_from_words(words);
      const Doubles mask = independent_mask(layer.w(), in, width_of(word)), w = test::times(layer.w(), mask);
      const std::vector<float> xs = [&] {
        const Doubles x = layer.x();
        return std::vector<float>(x.begin(), x.end());
      }();
      const std::vector<float> ws(w.begin(), w.end());
      const Dispatcher reference("reference");
      Quantized x, weights;
      reference.quantize({.x = view_of(xs.data(), rows, in), .spec = spec}, x);
      reference.quantize({.x = view_of(ws.data(), out, in), .spec = spec}, weights);
      int apart = 0;
      for (const AccumulatorInfo& info : accumulator_table) {
        if (!takes(info.row, spec.has_scale(), format_of(spec.element))) continue;
        const Json side = to_json(spec);
        const Json recipe = {{"base", "fp32"}, {"sparse", word}, {"fprop", {{"*", side}, {"accumulator", info.name}}}};
        const Doubles y = layer.run(sim::recipe_from_json(recipe)).y;
        INFO(words << " " << word << " " << info.name);
        std::vector<float> dense(static_cast<size_t>(rows * out));
        reference.gemm(x, weights, {.accumulator = info.row}, dense.data(), out);
        for (int o = 0; o < out; ++o) {
          std::vector<int> kept;
          for (int k = 0; k < in; ++k)
            if (mask[static_cast<size_t>(o * in + k)] != 0) kept.push_back(k);
          QuantSpec half = spec;
          if (spec.has_scale()) half.block.size /= 2;
          const auto side_by_side = [&](const Quantized& from, int first, int count) {
            Quantized q;
            const std::vector<float> zeros(kept.size() * static_cast<size_t>(count));
            reference.quantize({.x = view_of(zeros.data(), count, static_cast<int64_t>(kept.size())), .spec = half}, q);
            for (int r = 0; r < count; ++r)
              for (size_t i = 0; i < kept.size(); ++i) {
                q.set_code(r, static_cast<int64_t>(i), from.code(first + r, kept[i]));
                if (!spec.has_scale()) continue;
                q.scales[static_cast<size_t>(q.scale_index(r, static_cast<int64_t>(i)))] =
                    from.scales[static_cast<size_t>(from.scale_index(first + r, kept[i]))];
              }
            q.tensor_scale = from.tensor_scale;
            return q;
          };
          std::vector<float> one(static_cast<size_t>(rows));
          reference.gemm(side_by_side(x, 0, rows), side_by_side(weights, o, 1), {.accumulator = info.row}, one.data(),
                         1);
          for (int r = 0; r < rows; ++r) {
            const auto at = static_cast<size_t>(r * out + o);
            CHECK(static_cast<double>(one[static_cast<size_t>(r)]) == y[at]);
            apart += static_cast<double>(dense[at]) != y[at];
          }
        }
      }
      if (std::string(words) == "nvfp4,block=32") CHECK(apart > 0);  // groups are twice as long in K
    }
}

TEST_CASE("rules and phases say which layers are sparse", "[quick]") {
  const auto at = [](const Json& recipe, int position, int phase = -1) {
    const sim::TrainingRecipe r = sim::recipe_from_json(recipe);
    return std::string(row_of(sparsity_table, sim::sparsity_at(r, r.sparse, {"block0.q", position, 4}, phase)).name);
  };
  Json recipe = {{"base", "nvfp4_4to8"}};
  CHECK(at(recipe, 0) == "4:8");
  CHECK(at({{"base", "mxfp8"}}, 0) == "none");
  recipe["layers"] = Json::parse(R"([{"last": 1, "recipe": "bf16"}, {"first": 1, "sparse": "2:4"},
    {"match": "q", "fprop": {"a": {"rounding": "toward_zero"}}}])");
  CHECK(at(recipe, 3) == "none");  // a whole recipe that is dense
  CHECK(at(recipe, 0) == "2:4");
  CHECK(at(recipe, 1) == "4:8");  // fields of a product leave the mask alone
  recipe.erase("layers");
  recipe["phases"] = Json::parse(R"([{"until": 0.5}, {"recipe": "nvfp4_4to8", "sparse": "none"}])");
  CHECK(at(recipe, 0, 0) == "4:8");
  CHECK(at(recipe, 0, 1) == "none");
  recipe["phases"] = Json::parse(R"([{"until": 0.5, "recipe": "bf16"}, {"recipe": "nvfp4_4to8"}])");
  CHECK(at(recipe, 0, 0) == "none");
  CHECK(at(recipe, 0, 1) == "4:8");
  // The mask is that of fprop's weights.
  CHECK(at("nvfp4_4to8@fprop", 0) == "4:8");
  CHECK(at("nvfp4_4to8@weights", 0) == "4:8");
  CHECK(at("nvfp4_4to8@dgrad", 0) == "none");
  CHECK(at("nvfp4_4to8@wgrad", 0) == "none");
  const Json whole = sim::to_json(sim::recipe_from_json(recipe));
  CHECK(whole.at("sparse") == "4:8");
  CHECK(sim::to_json(sim::recipe_from_json(whole)) == whole);
  CHECK_FALSE(sim::to_json(sim::recipe_from_json("nvfp4")).contains("sparse"));
  CHECK_THROWS_WITH(sim::recipe_from_json({{"sparse", "2:5"}}), Contains("none, 2:4, 4:8"));
}

TEST_CASE("what a mask excludes is refused by its place", "[quick]") {
  const auto refusal = [](const Json& recipe) {
    try {
      OneLayer({8, 64, 8}).run(sim::recipe_from_json(recipe));
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  const Json sparse = {{"base", "nvfp4"}, {"sparse", "4:8"}, {"fprop", {{"*", {{"block", 32}}}}}};
  const auto plus = [&](const Json& more) {
    Json recipe = sparse;
    recipe.merge_patch(more);
    return recipe;
  };
  CHECK(refusal(sparse).empty());
  CHECK_THAT(refusal(plus({{"fprop", {{"hadamard", {{"size", 16}}}}}})),
             Contains("sparse: layer: a Hadamard on fprop"));
  CHECK_THAT(refusal(plus({{"fprop", {{"split", {{"method", "hot_channels"}}}}}})), Contains("several parts"));
  CHECK_THAT(refusal(plus({{"fprop", {{"b", {{"block", 8}}}}}})), Contains("fprop.b has blocks of 8"));
  CHECK_THAT(refusal(plus({{"fprop", {{"a", {{"tensor_scale", "outer128"}}}}}})), Contains("outer128"));
  CHECK_THAT(refusal(plus({{"ptq", {{"codes", "gptq"}}}})), Contains("ptq"));
  CHECK_THAT(refusal(plus({{"calls", {{"split_k", 2}}}})), Contains("calls"));
  CHECK_THAT(refusal(plus({{"weights", {{"average", {{"decay", 0.9}, {"from", 1}}}}}})), Contains("averages"));
  CHECK(refusal(plus({{"dgrad", {{"hadamard", {{"size", 16}}}}}})).empty());
  CHECK(refusal(plus({{"wgrad", {{"hadamard", {{"size", 16}}}}}})).empty());
  const Json products = {{"base", "bf16"}, {"layers", Json::parse(R"([{"kind": "qk", "sparse": "2:4"}])")}};
  const Json small = {{"name", "lm"}, {"width", 32}, {"heads", 2}, {"ffn", 32}, {"context", 16}};
  CHECK_THROWS_WITH(tasks::run(tasks::canonical({{"task", small}, {"recipe", products}, {"train", {{"steps", 1}}}}), 1),
                    Contains("block0.qk: has no weights"));
  const Dispatcher backend;
  sim::LinearEngine engine(sim::recipe_from_json(sparse), backend);
  engine.add_layer("layer", 64, 8, true);
  engine.finish();
  CHECK(engine.reason_against_device() == "layer: sparse 4:8");
}

TEST_CASE("sparse recipes train, alike on every backend, and the mask is part of the network", "[train]") {
  const auto run = [](const Json& recipe, const char* backend, const char* name = "regression") {
    Json task = {{"name", name}};
    if (std::string(name) == "lm") task.update({{"width", 32}, {"heads", 2}, {"ffn", 44}, {"context", 16}});
    return tasks::run(
        tasks::canonical(
            {{"task", task}, {"recipe", recipe}, {"train", {{"steps", 6}, {"batch", 16}, {"curve_points", 1}}}}),
        1, {.backend = backend});
  };
  for (const char* name : {"regression", "lm"})
    CHECK(run("nvfp4_4to8", "auto", name).digest == run("nvfp4_4to8", "reference", name).digest);
  const Json dense = {{"base", "nvfp4"}, {"fprop", {{"*", {{"block", 32}}}}}};
  CHECK(run("nvfp4_4to8", "auto").digest != run(dense, "auto").digest);
  // Nothing is rounded, so both losses are those of the masked network.
  const sim::History masked = run({{"base", "fp32"}, {"sparse", "2:4"}}, "auto");
  CHECK(masked.metrics.at("loss") == masked.metrics.at("loss_hp"));
  CHECK(masked.metrics.at("loss") != run("fp32", "auto").metrics.at("loss"));
}
