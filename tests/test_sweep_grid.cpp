// Grids: what the product becomes once dead fields are erased, and every way to write an axis.
#include <catch2/catch.hpp>

#include "sweeps/grid/grid.h"
#include "tests/support/made_up_training.h"

using namespace fp4::sweeps;
using Catch::Matchers::Contains;
using fp4::test::MadeUp;

namespace {

Plan plan_of(const std::string& text) { return expand(parse_grid(text, "test grid"), MadeUp{}.simulator()); }

std::string error_of(const std::string& text) {
  try {
    plan_of(text);
  } catch (const fp4::Error& error) {
    return error.what();
  }
  return "no error";
}

Json config_of(const Plan& plan, size_t index) { return Json::parse(plan.configs.at(index).config); }

}  // namespace

TEST_CASE("dead fields make duplicates, counted", "[quick]") {
  const Plan plan = plan_of(R"({"name": "g", "task": "alpha", "base": "mxfp4", "axes": {
    "wgrad.hadamard.size": [0, 16], "wgrad.hadamard.signs": ["none", "fixed", "per_step"],
    "wgrad.*.rounding": ["nearest_even", "stochastic"], "wgrad.*.random_bits": [8, 16]}})");
  // signs are dead without a Hadamard: 1 + 3; random bits without stochastic rounding: 1 + 2; 4 * 3 = 12 of 24.
  CHECK(plan.counts.product == 24);
  CHECK(plan.counts.distinct == 12);
  CHECK(plan.counts.duplicates == 12);
  CHECK(plan.points.size() == 24);
  CHECK(plan.axes[0] == "wgrad.hadamard.size");  // the order of the file
  CHECK(plan.points[0].labels == std::vector<std::string>{"0", "none", "nearest_even", "8"});
}

TEST_CASE("impossible and excluded points are counted by reason", "[quick]") {
  const Plan plan = plan_of(R"({"name": "g", "task": ["alpha", "beta"], "base": "mxfp4", "axes": {
    "wgrad.hadamard.size": [0, 16, 256], "wgrad.*.rounding": ["nearest_even", "stochastic"]},
    "exclude": [{"task": "beta", "wgrad.hadamard.size": 16}, {"wgrad.hadamard.size": [0, 256], "task": "alpha",
                 "wgrad.*.rounding": "stochastic"}]})");
  CHECK(plan.counts.product == 12);
  CHECK(plan.counts.excluded == 4);
  CHECK(plan.counts.impossible == std::map<std::string, size_t>{{"Hadamard wider than the tensor", 3}});
  CHECK(plan.counts.distinct == 5);
}

TEST_CASE("paths: one operand, both, all GEMMs, a list, and no operand named", "[quick]") {
  const auto rounding = [](const std::string& path) {
    const Plan plan =
        plan_of(R"({"name": "g", "task": "alpha", "base": "mxfp4", "axes": {")" + path + R"(": ["stochastic"]}})");
    std::string marks;
    const Json config = config_of(plan, 0);
    for (const char* gemm : {"fprop", "dgrad", "wgrad"}) {
      for (const char* operand : {"a", "b"}) {
        marks += config["recipe"][gemm][operand]["rounding"] == "stochastic" ? 'S' : '-';
      }
    }
    return marks;
  };
  CHECK(rounding("wgrad.a.rounding") == "----S-");
  CHECK(rounding("wgrad.*.rounding") == "----SS");
  CHECK(rounding("wgrad.rounding") == "----SS");
  CHECK(rounding("*.b.rounding") == "-S-S-S");
  CHECK(rounding("dgrad|wgrad.a.rounding") == "--S-S-");
  CHECK(rounding("*.*.rounding") == "SSSSSS");
  CHECK(rounding("all.*.rounding") == "SSSSSS");
  CHECK(rounding("all.b.rounding") == "-S-S-S");
}

TEST_CASE("a base lays all its words over the recipe that it names", "[quick]") {
  const auto recipe = [](const std::string& base, const std::string& axes = "{}") {
    return config_of(plan_of(R"({"name": "g", "task": "alpha", "base": )" + base + R"(, "axes": )" + axes + "}"),
                     0)["recipe"];
  };
  const std::string words = R"({"*": {"rounding": "stochastic", "random_bits": 4}, "hadamard": {"size": 32}})";
  for (const char* name : {"mxfp4", "mxfp8"}) {
    const std::string start = R"({"recipe": ")" + std::string(name) + R"(", )";
    const Json expected =
        recipe(start + R"("fprop": )" + words + R"(, "dgrad": )" + words + R"(, "wgrad": )" + words + "}");
    CHECK(expected["wgrad"]["a"]["random_bits"] == 4);
    CHECK(expected["wgrad"]["hadamard"]["size"] == 32);
    for (const char* all : {"all", "*", "fprop|dgrad|wgrad"}) {
      INFO(name << " " << all);
      CHECK(recipe(start + '"' + all + "\": " + words + "}") == expected);
      CHECK(recipe('"' + std::string(name) + '"', R"({")" + std::string(all) + R"(": [)" + words + "]}") == expected);
    }
  }
}

TEST_CASE("a whole product of a base or a path is an object: a name would be lost below a later path", "[quick]") {
  for (const char* product : {"fprop", "all", "fprop|wgrad"}) {
    INFO(product);
    for (const char* rest : {"", R"(, "*.*.rounding": "stochastic")"})
      CHECK_THAT(
          error_of(R"({"name": "g", "task": "alpha", "base": {"recipe": "mxfp4", ")" + std::string(product) +
                   R"(": "bf16.fprop")" + rest + "}}"),
          Contains("base: " + std::string(product) + ":") && Contains("expected an object") && Contains("bf16.fprop"));
  }
  CHECK_THAT(error_of(R"({"name": "g", "task": "alpha", "base": "mxfp4", "axes": {"all": ["bf16"]}})"),
             Contains("axes.all") && Contains("expected an object"));
}

TEST_CASE("whole GEMMs and whole recipes as axes, objects laid over the base", "[quick]") {
  const Plan plan = plan_of(R"({"name": "g", "task": "alpha", "base": "mxfp4", "axes": {
    "wgrad": ["bf16.wgrad", "mxfp4.wgrad", {"label": "rotated", "*": {"rounding": "stochastic"},
              "hadamard": {"size": 32}}]}})");
  REQUIRE(plan.configs.size() == 3);
  std::map<std::string, Json> by_label;
  for (const PointRecord& point : plan.points) {
    for (const ConfigRecord& config : plan.configs) {
      if (config.hash == point.hash) by_label[point.labels[0]] = Json::parse(config.config)["recipe"];
    }
  }
  CHECK(by_label["bf16.wgrad"]["wgrad"]["a"]["element"] == "bf16");
  CHECK(by_label["bf16.wgrad"]["fprop"]["a"]["element"] == "e2m1");
  CHECK(by_label["rotated"]["wgrad"]["hadamard"]["size"] == 32);
  CHECK(by_label["rotated"]["wgrad"]["b"]["rounding"] == "stochastic");
  CHECK(by_label["rotated"]["wgrad"]["b"]["element"] == "e2m1");

  const Plan recipes = plan_of(R"({"name": "g", "task": "alpha", "axes": {"recipe": ["fp32", "mxfp4", "mxfp4@wgrad"],
    "wgrad.hadamard.size": [0, 16]}})");
  CHECK(recipes.configs.size() == 6);
  CHECK(recipes.references.size() == 2);
}

TEST_CASE("task and train axes; a parameter that a task does not have is dead there", "[quick]") {
  const Plan plan = plan_of(R"({"name": "g", "task": ["alpha", "beta"], "base": "mxfp4", "train": {"steps": 50},
    "train.beta": {"steps": 70}, "axes": {"task.*.outliers.token": [0, 1.5], "task.beta.width": [2, 8],
    "train.batch": [8, 16]}})");
  CHECK(plan.counts.product == 16);
  CHECK(plan.counts.distinct == 8);  // alpha: 2 tokens x 2 batches; beta: 2 widths x 2 batches
  CHECK(plan.context.size() == 8);   // each has its own fp32 reference
  for (const ConfigRecord& config : plan.configs) {
    const Json json = Json::parse(config.config);
    CHECK(json["train"]["steps"] == (config.task == "alpha" ? 50 : 70));
    CHECK(plan.references.contains(config.reference));
    CHECK(Json::parse(plan.references.at(config.reference).config)["train"] == json["train"]);
  }
}

TEST_CASE("included points come on top", "[quick]") {
  const Plan plan = plan_of(R"({"name": "g", "task": ["alpha", "beta"], "base": "mxfp4",
    "axes": {"wgrad.*.rounding": ["nearest_even"]}, "include": [{"recipe": "bf16"},
    {"task": "beta", "wgrad.*.rounding": "stochastic", "fprop.hadamard.size": 16}]})");
  CHECK(plan.counts.product == 2);
  CHECK(plan.counts.included == 3);
  CHECK(plan.counts.distinct == 5);
  CHECK(plan.points.back().labels == std::vector<std::string>{"stochastic"});
}

TEST_CASE("more values leave old hashes alone, and threads change nothing", "[quick]") {
  const Plan small =
      plan_of(R"({"name": "g", "task": "alpha", "base": "mxfp4", "axes": {"wgrad.hadamard.size": [0, 16]}})");
  const Plan large = plan_of(R"({"name": "h", "task": "alpha", "base": "mxfp4",
    "axes": {"wgrad.*.random_bits": [4, 8], "wgrad.hadamard.size": [32, 16, 0]}})");
  for (const ConfigRecord& config : small.configs) {
    CHECK(
        std::any_of(large.configs.begin(), large.configs.end(), [&](const auto& c) { return c.hash == config.hash; }));
  }
}

TEST_CASE("an overlay of a recipe may start from another one than the grid's", "[quick]") {
  const Plan plan = plan_of(R"({"name": "g", "task": "alpha", "base": "mxfp4", "axes": {"recipe": [
    "mxfp8", {"label": "mxfp8 below a Hadamard", "base": "mxfp8", "wgrad": {"hadamard": {"size": 16}}}]}})");
  REQUIRE(plan.configs.size() == 2);
  for (size_t i = 0; i < 2; ++i) {
    CHECK(config_of(plan, i)["recipe"]["wgrad"]["a"]["element"] == "e4m3");
    CHECK(plan.configs[i].recipe == "mxfp8");
  }
  CHECK_THAT(error_of(R"({"name": "g", "task": "alpha", "axes": {"recipe": [{"label": "x", "base": "mxfp5"}]}})"),
             Contains("axes.recipe[0].base") && Contains("mxfp5"));
  CHECK_THAT(error_of(R"({"name": "g", "task": "alpha", "axes": {"recipe": [{"label": "x", "base": {}}]}})"),
             Contains("axes.recipe[0].base") && Contains("a recipe's name"));
}

TEST_CASE("seeds by count and by list, a race's fresh", "[quick]") {
  const auto grid = [](const std::string& rest) {
    return parse_grid(R"({"name": "g", "task": "alpha", )" + rest + "}", "g");
  };
  CHECK(grid(R"("seeds": 3, "race": {"seeds": 20})").seeds == std::vector<uint64_t>{1, 2, 3});
  CHECK(grid(R"("seeds": 3, "race": {"seeds": 20})").race->rounds() == std::vector<size_t>{10, 20});
  CHECK(grid(R"("seeds": [7, 5])").seeds == std::vector<uint64_t>{7, 5});
  CHECK_THROWS_WITH(grid(R"("seeds": [1001], "race": {})"), Contains("seeds: 1001") && Contains("fresh"));
  CHECK_THROWS_WITH(grid(R"("seeds": [1, 1])"), Contains("twice"));
  CHECK_THROWS_WITH(grid(R"("seeds": [-1])"), Contains("seeds[0]") && Contains("from 0"));
}

TEST_CASE("mistakes are answered with the accepted words", "[quick]") {
  CHECK_THAT(error_of(R"({"name": "g", "task": "alpha", "exlude": []})"), Contains("exlude") && Contains("exclude"));
  CHECK_THAT(error_of(R"({"name": "g", "task": "alhpa"})"), Contains("alhpa") && Contains("alpha"));
  CHECK_THAT(error_of(R"({"name": "g", "task": "alpha", "base": "mxfp5"})"), Contains("mxfp5"));
  CHECK_THAT(error_of(R"({"name": "g", "task": "alpha", "axes": {"wgrad.*.element": ["nonsense"]}})"),
             Contains("nonsense") && Contains("wgrad.*.element"));
  CHECK_THAT(error_of(R"({"name": "g", "task": "alpha", "axes": {"wgard.a.element": ["e2m1"]}})"), Contains("wgard"));
  CHECK_THAT(error_of(R"({"name": "g", "task": "alpha", "axes": {"wgrad.*.element": []}})"),
             Contains("list of at least 1"));
  CHECK_THAT(error_of(R"({"name": "g", "task": "alpha", "axes": {"wgrad.*.element": ["e2m1", "e2m1"]}})"),
             Contains("twice"));
  CHECK_THAT(error_of(R"({"name": "g", "task": "alpha", "axes": {"wgrad": ["mxfp4"]}})"), Contains("RECIPE.wgrad"));
  CHECK_THAT(error_of(R"({"name": "g", "task": "alpha", "axes": {"task.gamma.width": [1]}})"), Contains("gamma"));
  CHECK_THAT(error_of(R"({"name": "g", "task": "beta", "axes": {"task.*.outliers.token": [1]}})"),
             Contains("outliers.token"));
  CHECK_THAT(error_of(R"({"name": "g", "task": "alpha", "axes": {"wgrad.*.element": ["e2m1"]},
    "exclude": [{"wgrad.*.element": "e3m0"}]})"),
             Contains("e3m0"));
  CHECK_THAT(error_of(R"({"name": "g", "task": "alpha", "explore": {"random": 3}})"),
             Contains("explore") && Contains("importance"));
  CHECK_THAT(error_of("{"), Contains("not JSON"));
  CHECK_THAT(error_of(R"({"task": "alpha"})"), Contains("missing key 'name'"));
}

TEST_CASE("parts by number hold every point of a grid once, and look at no other", "[quick]") {
  const fp4::test::MadeUp world;
  size_t looked = 0;
  Simulator simulator = world.simulator();
  simulator.canonical = [&looked, make = simulator.canonical](const Json& given) { return ++looked, make(given); };
  const Grid grid = parse_grid(R"({"name": "p", "task": ["alpha", "beta"], "base": "mxfp4", "axes": {
    "wgrad.hadamard.size": [0, 16, 32], "wgrad.a.rounding": ["nearest_even", "stochastic"], "train.lr": [1, 2, 3, 4, 5]},
    "exclude": [{"train.lr": 3, "task": "beta"}], "include": [{"task": ["alpha", "beta"], "train.lr": 9}]})",
                               "grid");
  using Row = std::pair<std::string, std::vector<std::string>>;
  std::map<size_t, Row> whole;
  const Plan all = expand(grid, simulator);
  for (size_t i = 0; i < all.points.size(); ++i) whole[all.numbers[i]] = {all.points[i].hash, all.points[i].labels};
  REQUIRE(whole.size() == 2 * 3 * 2 * 5 - 3 * 2 + 2);
  looked = 0;
  REQUIRE(expand(grid, simulator, {1000, 1000}).points.empty());
  const size_t each_value = looked;  // is looked at once
  for (const size_t count : {2u, 3u, 7u, 60u, 1000u}) {
    std::map<size_t, Row> found;
    for (size_t index = 1; index <= count; ++index) {
      looked = 0;
      const Plan part = expand(grid, simulator, {index, count});
      CHECK(looked <= each_value + 3 * (60 / count + 2));  // and fp32 and bf16 of each context
      for (size_t i = 0; i < part.points.size(); ++i)
        CHECK(found.emplace(part.numbers[i], Row{part.points[i].hash, part.points[i].labels}).second);
    }
    CHECK(found == whole);
  }
}

TEST_CASE("uniform hashes are uniform and depend on content alone", "[quick]") {
  double sum = 0;
  double squares = 0;
  const int count = 4000;
  for (int i = 0; i < count; ++i) {
    const double u = uniform_hash("salt", "g", std::to_string(i));
    CHECK((u >= 0 && u < 1));
    sum += u;
    squares += u * u;
  }
  CHECK(sum / count == Approx(0.5).margin(0.02));
  CHECK(squares / count == Approx(1.0 / 3).margin(0.02));
  CHECK(uniform_hash("a", "g", "x") != uniform_hash("b", "g", "x"));
}

TEST_CASE("a grid of a store has its recipes from there, not from their files", "[quick]") {
  const Simulator simulator = MadeUp{}.simulator();  // which knows no file
  const char* const text = R"({"name": "g", "task": "alpha", "base": {"recipe": "absent/mine.json"},
    "axes": {"recipe": ["mxfp8", "absent/mine.json@wgrad"]}, "eval": ["own", "absent/eval.json"]})";
  Grid grid = parse_grid(text, "g");
  CHECK_THROWS_WITH(expand(grid, simulator), Contains("g: base") && Contains("absent/mine.json"));
  grid.recipes = {{"absent/mine.json", MadeUp::named("mxfp4")},
                  {"absent/mine.json@wgrad", MadeUp::named("mxfp4@wgrad")},
                  {"absent/eval.json", MadeUp::named("mxfp4@fprop")}};
  const Plan plan = expand(grid, simulator);
  CHECK(plan.counts.distinct == 4);
  CHECK(plan.recipes == grid.recipes);
  size_t judged = 0;
  for (const ConfigRecord& config : plan.configs) {
    const Json json = Json::parse(config.config);
    if (!json.contains("eval")) continue;
    ++judged;
    CHECK(json["eval"]["recipe"] == MadeUp::named("mxfp4@fprop"));
  }
  CHECK(judged == 2);
  CHECK(names_file("mine.json"));
  CHECK(names_file("a/mine.json@wgrad"));
  CHECK_FALSE(names_file("mxfp4@wgrad"));
}
