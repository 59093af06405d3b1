// Does every compiler give the same numbers? Literals of what g++ 12 gives: a build by another compiler, at another
// level of optimisation or under sanitizers has to reach them too. They change only with a deliberate change of
// arithmetic, whose commit says why.
#include <catch2/catch.hpp>
#include <string>

#include "sim/recipe.h"
#include "src/sha256.h"
#include "src/signature.h"
#include "tasks/run.h"
#include "tasks/text.h"

using namespace fp4;
using sim::Json;

namespace {

Json small(const std::string& task, const std::string& recipe) {
  Json section = {{"name", task}};
  if (task == "lm") section.update({{"width", 32}, {"heads", 2}, {"ffn", 48}, {"context", 16}});
  return tasks::canonical({{"task", section},
                           {"recipe", recipe},
                           {"train", {{"steps", 3}, {"batch", task == "lm" ? 4 : 32}, {"curve_points", 3}}}});
}

}  // namespace

TEST_CASE("the arithmetic signature is that of every compiler", "[quick]") {
  CHECK(arithmetic_signature() == "25a1579dabcc15da");
}

TEST_CASE("each task ends in the same bits whatever compiled it", "[quick]") {
  // Between them the recipes round stochastically, transform, hold scales and use the arithmetic of a library.
  const struct {
    const char *task, *recipe, *digest;
  } rows[] = {
      {"regression", "nvfp4_te", "ab4a7afbd170214e"},     {"regression", "ue5m3_hold50", "a574a310072a43d1"},
      {"classifier", "mxfp4_sr_rht", "f4df87e25c8d96cd"}, {"classifier", "lumen", "3983ffaeb42259aa"},
      {"diffusion", "quartet", "eda7f38e209ed7d4"},       {"diffusion", "nvfp4_te", "e5a9ae39f2caa8bd"},
      {"lm", "mxfp4_sr_rht", "4c34778601c40844"},         {"lm", "fp32", "546a58b12a811c9c"},
  };
  for (const auto& r : rows) {
    INFO(r.task << " " << r.recipe);
    CHECK(tasks::run(small(r.task, r.recipe), 1).digest == r.digest);
  }
}

TEST_CASE("the grammar draws its words in one order", "[quick]") {
  const std::string text = tasks::grammar_text(1, 20000, 1000);
  CHECK(text.substr(0, 62) == "0+6=6. the mehad (that some gujum yiyazs daq) veys. 9+0=9. som");
  CHECK(sha256_hex(text) == "9512f689fe39d312c7969d78b5bc96894ef778c6b7ba9d64fb404b8dc74598e5");
}

TEST_CASE("every recipe can be read", "[quick]") {
  // nvfp4_te and lumen name layers to leave out: {"skip_last": 0.15}.
  for (const std::string& name : sim::recipe_names()) {
    INFO(name);
    const Json whole = sim::to_json(sim::recipe_from_json(name));
    CHECK(whole.at("name") == name);
    CHECK(sim::to_json(sim::recipe_from_json(whole)) == whole);
  }
}
