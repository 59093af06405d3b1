// Is any word of the program's own grids in vain? A base's words, and those of a recipe or a product under an axis,
// change the configuration: one that is left out gives another.
#include <catch2/catch.hpp>
#include <filesystem>

#include "sweeps/grid/grid.h"
#include "sweeps/training.h"
#include "tests/support/support.h"

using namespace fp4::sweeps;

namespace {

class Words {
 public:
  explicit Words(const std::string& file) : file_(file), text_(Json::parse(fp4::test::read_text(file))) {
    const Json& tasks = text_["task"];
    grid_ = {{"name", "g"}, {"task", tasks.is_array() ? tasks[0] : tasks}, {"base", text_.value("base", Json("fp32"))}};
  }

  void check() {
    if (text_.contains("base") && text_["base"].is_object()) check_words(grid_, "/base", {"recipe"});
    if (!text_.contains("axes")) return;
    for (const auto& [axis, values] : text_["axes"].items()) {
      if (axis != "recipe" && axis != "fprop" && axis != "dgrad" && axis != "wgrad") continue;
      for (const Json& value : values) {
        if (!value.is_object()) continue;
        Json grid = grid_;
        grid["axes"][axis] = Json::array({value});
        check_words(grid, "/axes/" + axis + "/0", {"label", "base"});
      }
    }
  }

  size_t words = 0;

 private:
  // Each word of the object at `place`.
  void check_words(const Json& grid, const std::string& place, const std::vector<std::string>& kept) {
    const Json::json_pointer at(place);
    for (const auto& [word, value] : grid.at(at).items()) {
      if (std::find(kept.begin(), kept.end(), word) != kept.end()) continue;
      Json without = grid;
      without.at(at).erase(word);
      INFO(file_ << ": " << place << "/" << word << " of " << grid.at(at).dump());
      if (config_of(without) == config_of(grid)) {  // it says what holds anyway
        Json alone = grid;
        for (const auto& [other, unused] : grid.at(at).items())
          if (other != word && std::find(kept.begin(), kept.end(), other) == kept.end()) alone.at(at).erase(other);
        CHECK(stands(value, config_of(alone)["recipe"], word, 0));
      }
      ++words;
    }
  }

  // Whether the configuration has all that is said at `word` of an object `depth` deep.
  static bool stands(const Json& said, const Json& at, const std::string& word, int depth) {
    const bool is_all = word == "*" || word == "all";
    for (const std::string& name : (is_all && depth == 0)   ? std::vector<std::string>{"fprop", "dgrad", "wgrad"}
                                   : (is_all && depth == 1) ? std::vector<std::string>{"a", "b"}
                                                            : std::vector<std::string>{word}) {
      if (!at.contains(name)) return false;
      if (!said.is_object() && at[name] != said) return false;
      if (!said.is_object()) continue;
      for (const auto& [next, value] : said.items())
        if (!stands(value, at[name], next, depth + 1)) return false;
    }
    return true;
  }

  static Json config_of(const Json& grid) {
    static const Simulator simulator = real_simulator("reference", /*with_signature=*/false);
    const Plan plan = expand(parse_grid(grid.dump(), "grid"), simulator);
    REQUIRE(plan.configs.size() == 1);
    return Json::parse(plan.configs[0].config);
  }

  std::string file_;
  Json text_, grid_;
};

}  // namespace

TEST_CASE("no word of a built-in grid is in vain", "[quick]") {
  size_t words = 0;
  for (const auto& file : std::filesystem::directory_iterator("sweeps/grids")) {
    if (file.path().extension() != ".json") continue;
    Words grid(file.path().string());
    grid.check();
    words += grid.words;
  }
  CHECK(words > 100);
}
