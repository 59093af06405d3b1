// Advice: tokens times step, by hand where the doubts are switched off; who answers, what never arrives, what is
// unsure, and that every place that names a recipe names the same one.
#include <catch2/catch.hpp>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "sim/rules/recipe.h"
#include "src/text/error.h"
#include "sweeps/cost/adapt.h"
#include "sweeps/cost/hardware.h"
#include "sweeps/judge/advice.h"
#include "tests/support/support.h"
#include "tools/cli/sweep/advice_words.h"

using namespace fp4;
using namespace fp4::sweeps;
using Catch::Matchers::Contains;
using Json = nlohmann::json;

namespace {

const std::string chip = "b200";
const cost::Model model = cost::load_model("llama3_8b");

std::map<std::string, cost::RecipeFacts> facts_of(const std::vector<std::string>& names) {
  std::map<std::string, cost::RecipeFacts> facts;
  for (const std::string& name : names) facts[name] = cost::facts_of(sim::recipe_from_json(name));
  return facts;
}

// A law with alpha = beta = gamma = 1 and all three terms 1 at the model's N and D = 10^12, where the ladder ends: ln L
// falls by 1/3 an e-fold of tokens. A gap of the same size everywhere.
struct Planted {
  LawStudy study{.baseline = "bf16"};
  GapRule gaps;
  explicit Planted(double gap, double far = 1) {
    const double n = static_cast<double>(model.linear_parameters());
    study.fit.law = {.A = n / far, .B = 1e12, .alpha = 1, .beta = 1, .gamma = 1, .E = 1};
    study.samples.assign(40, LawSample{study.fit.law, {}});
    study.n = {n / far / 100, n / far}, study.d = {1e10, 1e12};
    for (const double weights : {study.n.low, study.n.high})
      for (const double tokens : {1e10, 1e11, 1e12}) gaps.cells["nvfp4"].push_back({weights, tokens, gap, 2});
    gaps.planes["nvfp4"] = fit_plane(gaps.cells["nvfp4"]);
  }
  LadderAdvice said() const { return {study, gaps}; }
};

double step_of(const std::string& recipe) {
  return evaluate(cost::facts_of(sim::recipe_from_json(recipe)), model, cost::load_hardware(chip)).step_time_s;
}

const AdviceOptions sure = {.d = 1e12, .draws = 40, .doubt = {.factor = 1, .fitted = 1, .fp4 = 1}};

const AdviceRow& row_of(const Advice& advice, std::string_view recipe) {
  for (const AdviceRow& row : advice.rows)
    if (row.recipe == recipe) return row;
  throw std::runtime_error("no row of " + std::string(recipe));
}

Advice advise_of(const LadderAdvice* ladder, const std::vector<std::string>& recipes, const AdviceOptions& options) {
  return advise(ladder, facts_of(recipes), model, cost::load_hardware(chip), options);
}

}  // namespace

TEST_CASE("published tokens times step, as multiples of the baseline's", "[quick]") {
  const Advice advice = advise_of(nullptr, {"bf16", "mxfp8", "mxfp4_all", "nvfp4"}, sure);
  const double bf16 = step_of("bf16");
  CHECK(row_of(advice, "bf16").cost.value() == 1);
  CHECK(row_of(advice, "mxfp8").from == TokensFrom::supposed);
  CHECK(row_of(advice, "mxfp8").cost.value() == Approx(step_of("mxfp8") / bf16));
  // 26 to 27 % more (2605.09825): the median of forty draws lies between.
  const AdviceRow& fp4 = row_of(advice, "mxfp4_all");
  CHECK(fp4.tokens.value() == Approx(1.265));
  CHECK(fp4.cost.value() > 1.26 * step_of("mxfp4_all") / bf16);
  CHECK(fp4.cost.value() < 1.27 * step_of("mxfp4_all") / bf16);
  CHECK(fp4.source == "2605.09825");
  // Nothing is published of NVFP4's tokens: a row without a cost, behind all others.
  CHECK(advice.rows.back().recipe == "nvfp4");
  CHECK_FALSE(advice.rows.back().cost.has_value());
  CHECK(advice.rows.back().word == AdviceWord::unknown);
  CHECK(advice.best() == &advice.rows.front());
  AdviceOptions by_price = sure;
  by_price.objective = Objective::price;  // one price an hour: time again
  CHECK(row_of(advise_of(nullptr, {"bf16", "mxfp8"}, by_price), "mxfp8").cost.value() ==
        Approx(step_of("mxfp8") / bf16));
}

TEST_CASE("gaps become tokens by the baseline's slope, up to a hundred times outside the ladder", "[quick]") {
  const Planted here(std::log(1.1));
  const LadderAdvice said = here.said();
  const Advice advice = advise_of(&said, {"bf16", "nvfp4", "mxfp4_all"}, sure);
  CHECK(advice.by_ladder);
  const AdviceRow& row = row_of(advice, "nvfp4");
  CHECK(row.from == TokensFrom::ladder);
  CHECK(row.gap.value() == Approx(std::log(1.1)));
  CHECK(row.tokens.value() == Approx(std::pow(1.1, 3)));  // the slope is 1/3
  CHECK(row.cost.value() == Approx(std::pow(1.1, 3) * step_of("nvfp4") / step_of("bf16")));
  CHECK(row_of(advice, "mxfp4_all").from == TokensFrom::unknown);  // of which this ladder has no runs
  // Ten times away the factor on the gap widens the interval; 101 times away the ladder is not asked.
  const Planted away(std::log(1.1), 10), farther(std::log(1.1), 101);
  const LadderAdvice ten = away.said(), too_far = farther.said();
  const Advice wide = advise_of(&ten, {"bf16", "nvfp4"}, sure);
  CHECK(wide.by_ladder);
  CHECK(row_of(wide, "nvfp4").gap_interval->high > 1.2 * std::log(1.1));
  const Advice none = advise_of(&too_far, {"bf16", "nvfp4"}, sure);
  CHECK_FALSE(none.by_ladder);
  CHECK_FALSE(row_of(none, "nvfp4").tokens.has_value());
  // A slope of the loss so small that no tokens make the gap up.
  Planted flat(std::log(1.1));
  flat.study.fit.law.B = 0;
  flat.study.samples.assign(40, LawSample{flat.study.fit.law, {}});
  const LadderAdvice never = flat.said();
  const AdviceRow lost = row_of(advise_of(&never, {"bf16", "nvfp4"}, sure), "nvfp4");
  CHECK(lost.word == AdviceWord::never);
  CHECK_FALSE(lost.tokens.has_value());
}

TEST_CASE("doubts widen intervals, and a lead inside them is no lead", "[quick]") {
  const double fp4 = step_of("nvfp4") / step_of("bf16");
  // Tokens that leave 4.8 % of the faster step, as modelled; FP4 steps are doubted by a factor of 1.12 alone.
  const Planted planted(std::log(1 / (fp4 * 1.05)) / 3);
  const LadderAdvice said = planted.said();
  AdviceOptions options = {.d = 1e12, .draws = 200};
  const Advice advice = advise_of(&said, {"bf16", "nvfp4"}, options);
  CHECK(row_of(advice, "nvfp4").interval->low < 1);
  CHECK(row_of(advice, "nvfp4").interval->high > 1);
  CHECK(advice.rows[1].word == AdviceWord::alike);
  options.doubt = {.factor = 1, .fitted = 1, .fp4 = 1};
  CHECK(advise_of(&said, {"bf16", "nvfp4"}, options).rows[1].word == AdviceWord::dearer);
}

TEST_CASE("no model on no chip is told to take what is dearer than bf16", "[quick]") {
  const auto facts = tools::recipe_facts(tools::read_ladder(tools::built_in_ladder));
  CHECK(facts.contains("nvfp4"));
  for (const std::string& name : cost::model_names())
    for (const char* hardware : {"b200", "h100", "mi355x"}) {
      const cost::Model of = cost::load_model(name);
      const AdviceOptions options = {.d = 1e9, .draws = 40};
      INFO(name << " on " << hardware);
      if (name == "llama2_70b_layer") {  // one block has no last layers
        CHECK_THROWS_WITH(advise(nullptr, facts, of, cost::load_hardware(hardware), options), Contains("one block"));
        continue;
      }
      const Advice advice = advise(nullptr, facts, of, cost::load_hardware(hardware), options);
      // Images, clicks, points: nothing is said of tokens, and no recipe is named.
      CHECK((advice.best() != nullptr) == of.reads_text());
      const auto answer = tools::advice_answer(advice, of, hardware, options);
      REQUIRE(answer.size() == 3);
      if (advice.best() == nullptr) {
        CHECK_THAT(answer[1], Contains("no recipe is named"));
        for (const AdviceRow& row : advice.rows) CHECK(row.tokens.has_value() == (row.recipe == "bf16"));
        continue;
      }
      CHECK(*advice.best()->cost <= 1);
      if (advice.best()->recipe == "bf16") CHECK_THAT(answer[1], Contains("no recipe of known tokens is cheaper"));
    }
  CHECK(cost::load_model("lm").reads_text());
  CHECK_FALSE(cost::load_model("resnet50").reads_text());
  CHECK_FALSE(cost::load_model("recommender").reads_text());
}

TEST_CASE("the command says what is known, modelled and not known, and JSON says no more", "[cli]") {
  test::TemporaryFolder folder;
  const char* python = std::getenv("FP4SIM_PYTHON");
  const std::string table = folder / "ladder.csv";
  REQUIRE(test::run_shell(std::string(python ? python : "python3") + " tests/support/planted_ladder.py > " + table)
              .exit_code == 0);
  const std::string command = "advise " + table + " --hardware b200 --model llama3_8b --samples 40";
  const auto text = test::run_cli(command);
  INFO(text.err);
  REQUIRE(text.exit_code == 0);
  CHECK(text.out.starts_with("Losses of the ladder's small lm and of publications; a step of llama3_8b on b200"));
  CHECK_THAT(text.out, Contains("\nKnown: extra tokens over fp8 that 2605.09825 publishes: "));
  CHECK_THAT(text.out,
             Contains("\nModelled: a step of llama3_8b on b200 takes ") && Contains("\nNot known: whether fp8"));
  // 32 (4096 (2 4096 + 2 1024 + 3 14336)) weights lie 2,200 times outside: what the ladder's gaps would give stands
  // under no name of a published figure.
  const Json json = Json::parse(test::run_cli(command + " --json").out);
  CHECK(json["by_ladder"] == false);
  CHECK(json["extrapolated_n"].get<double>() == Approx(6979321856.0 / 3.2e6));
  size_t known = 0;
  for (const Json& row : json["rows"]) {
    const bool has_tokens = row["tokens_from"] != "unknown";
    known += has_tokens;
    for (const char* field : {"tokens", "tokens_interval", "cost", "cost_interval", "against_best"})
      CHECK(row[field].is_null() != has_tokens);
    CHECK(row["gap"].is_null());
    if (row["recipe"] == "quartet") CHECK(row["word"] == "unknown");
  }
  CHECK(known == 6);  // bf16, fp8 and four of 2605.09825
  CHECK(json["best"] == json["rows"][0]["recipe"]);
  // A model of its own size is answered by the ladder.
  const Json near = Json::parse(test::run_cli("advise --hardware b200 --model llama_9m --samples 40 --json").out);
  CHECK(near["by_ladder"] == true);
  for (const std::string tokens : {"-1", "0", "inf"}) {
    const auto wrong = test::run_cli(command + " --tokens " + tokens);
    CHECK(wrong.exit_code == 2);
    CHECK_THAT(wrong.err, Contains("--tokens: '" + tokens + "' is no number above 0"));
  }
  // Every line fits a terminal, and plain NVFP4 has a row.
  const auto built_in = test::run_cli("advise --hardware b200 --model llama3_8b --samples 40");
  CHECK_THAT(built_in.out, Contains("\nnvfp4 ") && Contains("\nnvfp4_te "));
  std::istringstream lines(built_in.out);
  for (std::string line; std::getline(lines, line);) CHECK(line.size() <= 80);
}

TEST_CASE("advise and cost recommend name one recipe in one sentence", "[cli]") {
  for (const char* hardware : {"b200", "h100", "mi355x"}) {
    INFO(hardware);
    const std::string words = std::string(" --model llama3_8b --hardware ") + hardware;
    const Json told = Json::parse(test::run_cli("advise --objective price --json" + words).out);
    const std::string rent = "cost recommend --tokens 160e9 --time-budget 2000" + words;
    const Json rented = Json::parse(test::run_cli(rent + " --json").out);
    CHECK(rented["best"] == told["best"]);
    CHECK(rented["answer"] == told["answer"]);
    // The rows are at the points of the cost model, the advice at medians of its doubts: on mi355x the first row is
    // another recipe, which the advice does not tell from the best.
    const Json first = rented["rows"][0]["recipe"];
    if (std::string(hardware) != "mi355x") CHECK(first == told["best"]);
    size_t named = 0;
    for (const Json& row : told["rows"]) {
      if (row["recipe"] != first) continue;
      CHECK((row["word"] == "cheapest" || row["word"] == "alike"));
      ++named;
    }
    CHECK(named == 1);
    std::string screen = test::run_cli(rent).out;
    std::replace(screen.begin(), screen.end(), '\n', ' ');
    for (const Json& sentence : told["answer"]) CHECK_THAT(screen, Contains(sentence.get<std::string>()));
  }
  // The first lines of a front by cost say the same of the model that the costs are of.
  test::TemporaryFolder folder;
  test::write_text(folder / "g.json", R"({"name": "g", "task": "regression", "seeds": 2, "train": {"steps": 2},
    "axes": {"recipe": ["mxfp8"]}})");
  REQUIRE(test::run_cli("sweep run " + (folder / "g.json") + " --quiet --out " + (folder / "g")).exit_code == 0);
  const Json told = Json::parse(test::run_cli("advise --json --hardware b200 --model llama3_8b").out);
  const Json front = Json::parse(test::run_cli("pareto " + (folder / "g") + " --json -").out);
  CHECK(front["advice"] == told["answer"]);
}
