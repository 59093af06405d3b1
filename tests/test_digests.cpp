// Does every compiler give the same numbers? Literals of what g++ 12 gives: a build by another compiler, at another
// level of optimisation or under sanitizers has to reach them too. They change only with a deliberate change of
// arithmetic, whose commit says why.
#include <catch2/catch.hpp>
#include <iterator>
#include <string>

#include "sim/rules/recipe.h"
#include "src/backends/signature.h"
#include "src/files/sha256.h"
#include "tasks/run.h"
#include "tasks/text.h"
#include "tests/support/share.h"
#include "tests/support/support.h"

using namespace fp4;
using sim::Json;

namespace {

Json small(const std::string& task, const std::string& recipe) {
  Json section = {{"name", task}};
  if (task == "lm") section.update({{"width", 32}, {"heads", 2}, {"ffn", 48}, {"context", 16}});
  if (task == "recommender") section.update({{"rows", 100}, {"row_format", "nvfp4"}});
  return tasks::canonical({{"task", section},
                           {"recipe", recipe},
                           {"train", {{"steps", 3}, {"batch", task == "lm" ? 4 : 32}, {"curve_points", 3}}}});
}

}  // namespace

TEST_CASE("the arithmetic signature is that of every compiler", "[quick]") {
  CHECK(computed_signature() == "25a1579dabcc15da");
}

// The build has computed what it writes down (tools/cmake/print_signature.cpp).
TEST_CASE("the program writes down the signature that it computes", "[cli]") {
  const test::TemporaryFolder folder;
  REQUIRE(test::run_cli("golden make --suite smoke --out " + folder / "golden").exit_code == 0);
  const Json manifest = Json::parse(test::read_text(folder / "golden/manifest.json"));
  CHECK(test::run_cli("signature").out == manifest.at("signature").get<std::string>() + "\n");

  const Json computed = Json::parse(test::run_cli("signature --json").out).at("train_signatures");
  Json grid = {{"name", "signed"}, {"base", "fp32"}, {"train", {{"steps", 1}}}, {"seeds", 1}, {"axes", Json::object()}};
  grid["task"] = tasks::task_names();
  test::write_text(folder / "grid.json", grid.dump());
  const auto sweep = test::run_cli("sweep run '" + folder / "grid.json" + "' --json --out " + folder / "out");
  INFO(sweep.out << sweep.err);
  CHECK(Json::parse(sweep.out).at("train_signatures") == computed);
}

TEST_CASE("each task ends in the same bits whatever compiled it", "[quick]") {
  // Between them the recipes round stochastically, transform, hold scales and use the arithmetic of a library.
  const struct {
    const char *task, *recipe, *digest;
  } rows[] = {
      {"regression", "nvfp4_te", "b04bff4ad3d84d9c"},     {"regression", "ue5m3_hold50", "d7848251377353e2"},
      {"classifier", "mxfp4_sr_rht", "e6ee047b59948989"}, {"classifier", "lumen", "9e3ae39663c125b9"},
      {"diffusion", "quartet", "2755bd3889adac10"},       {"diffusion", "nvfp4_te", "bf4abc54e7aadee4"},
      {"lm", "mxfp4_sr_rht", "51386cd7a024aa80"},         {"lm", "fp32", "1d7798f9a0623f79"},
      {"recommender", "nvfp4_te", "121c663849e142f5"},    {"recommender", "mxfp4_sr_rht", "3fed33d3ddee4085"},
  };
  for (const auto& r : rows) {
    if (test::share() > 1 && &r != rows && r.task == std::string(std::prev(&r)->task))
      continue;  // a recipe of each task
    INFO(r.task << " " << r.recipe);
    CHECK(tasks::run(small(r.task, r.recipe), 1).digest == r.digest);
  }
}

TEST_CASE("each task's training has one signature", "[train]") {
  CHECK(tasks::computed_train_signature("regression") == "4ad4f5c29536fc51");
  CHECK(tasks::computed_train_signature("classifier") == "31382ee5ebf8780a");
  CHECK(tasks::computed_train_signature("diffusion") == "413dceca7bc273ac");
  CHECK(tasks::computed_train_signature("lm") == "c7e44411cf4170fa");
  CHECK(tasks::computed_train_signature("recommender") == "4208234afbc52517");
}

TEST_CASE("the grammar draws its words in one order", "[quick]") {
  const std::string text = tasks::grammar_text(1, 20000, 1000);
  CHECK(text.substr(0, 62) == "0+6=6. the mehad (that some gujum yiyazs daq) veys. 9+0=9. som");
  CHECK(sha256_hex(text) == "9512f689fe39d312c7969d78b5bc96894ef778c6b7ba9d64fb404b8dc74598e5");
}

TEST_CASE("every recipe can be read", "[quick]") {
  // nvfp4_te names layers to leave out: {"skip_last": 0.15}.
  for (const std::string& name : sim::recipe_names()) {
    INFO(name);
    const Json whole = sim::to_json(sim::recipe_from_json(name));
    CHECK(whole.at("name") == name);
    CHECK(sim::to_json(sim::recipe_from_json(whole)) == whole);
  }
}
