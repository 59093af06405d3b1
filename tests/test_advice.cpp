// Advice: tokens times step, by hand where the doubts are switched off; what never arrives and what is unsure.
#include <catch2/catch.hpp>
#include <cmath>
#include <nlohmann/json.hpp>
#include <sstream>

#include "sim/rules/recipe.h"
#include "src/text/error.h"
#include "sweeps/cost/adapt.h"
#include "sweeps/cost/hardware.h"
#include "sweeps/judge/advice.h"
#include "tests/support/support.h"

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

// A law with alpha = beta = gamma = 1 and both terms 1 at the model's N and D = 10^12; every sample the same.
LawStudy study_of(const std::map<std::string, Efficiency>& recipes) {
  const double n = static_cast<double>(model.linear_parameters());
  LawStudy study{.baseline = "bf16"};
  study.fit.law = {.A = n, .B = 1e12, .alpha = 1, .beta = 1, .gamma = 1, .E = 1};
  study.samples.assign(40, LawSample{study.fit.law, recipes});
  for (const auto& [name, efficiency] : recipes) study.recipes[name].efficiency = efficiency;
  return study;
}

double step_of(const std::string& recipe) {
  return evaluate(cost::facts_of(sim::recipe_from_json(recipe)), model, cost::load_hardware(chip)).step_time_s;
}

const AdviceOptions sure = {.d = 1e12, .transfer = Transfer::law, .doubt = {.factor = 1, .fp4_slower = 0}};

const AdviceRow& row_of(const Advice& advice, std::string_view recipe) {
  for (const AdviceRow& row : advice.rows)
    if (row.recipe == recipe) return row;
  throw std::runtime_error("no row of " + std::string(recipe));
}

}  // namespace

TEST_CASE("cost is tokens times step, as multiples of the baseline's", "[quick]") {
  // effN 4/5: 1.25 + 1/D' = 2 gives 4/3 of the tokens; effD 1/2 twice as many.
  const LawStudy study = study_of({{"mxfp8", {.n = 0.8, .d = 1}}, {"mxfp4_all", {.n = 1, .d = 0.5}}});
  const Advice advice =
      advise(study, {}, facts_of({"bf16", "mxfp8", "mxfp4_all"}), model, cost::load_hardware(chip), sure);
  const double bf16 = step_of("bf16"), fp8 = step_of("mxfp8") / bf16, fp4 = step_of("mxfp4_all") / bf16;
  CHECK(row_of(advice, "bf16").cost == Approx(1));
  CHECK(row_of(advice, "mxfp8").tokens.value() == Approx(4.0 / 3));
  CHECK(row_of(advice, "mxfp8").cost == Approx(4.0 / 3 * fp8));
  CHECK(row_of(advice, "mxfp4_all").cost == Approx(2 * fp4));
  CHECK(std::is_sorted(advice.rows.begin(), advice.rows.end(),
                       [](const AdviceRow& a, const AdviceRow& b) { return a.cost < b.cost; }));
  const AdviceRow &best = advice.rows[0], &next = advice.rows[1];
  CHECK(best.word == AdviceWord::best);
  CHECK(next.word == AdviceWord::dearer);
  CHECK(advice.turning_tokens * best.step == Approx(next.cost));
  CHECK(advice.turning_step * best.tokens.value() == Approx(next.cost));
  AdviceOptions by_price = sure;
  by_price.objective = Objective::price;
  const Advice priced =
      advise(study, {}, facts_of({"bf16", "mxfp8", "mxfp4_all"}), model, cost::load_hardware(chip), by_price);
  CHECK(row_of(priced, "mxfp8").cost == Approx(4.0 / 3 * fp8));  // one price an hour: time again
}

TEST_CASE("ratios of tokens are those at the ladder's largest size, unless the law is asked for", "[quick]") {
  // At N = 1/8 and D = 1/4 of where both terms are 1: 1 / (1/8 * 4/5) + 1/D' = 8 + 4 gives D' = 1/2, twice the tokens.
  LawStudy study = study_of({{"mxfp8", {.n = 0.8, .d = 1}}});
  study.n = {1, static_cast<double>(model.linear_parameters()) / 8};
  study.d = {1, 1e12 / 4};
  AdviceOptions options = sure;
  options.transfer = Transfer::tokens;
  const auto facts = facts_of({"bf16", "mxfp8"});
  CHECK(row_of(advise(study, {}, facts, model, cost::load_hardware(chip), options), "mxfp8").tokens.value() ==
        Approx(2));
  CHECK(row_of(advise(study, {}, facts, model, cost::load_hardware(chip), sure), "mxfp8").tokens.value() ==
        Approx(4.0 / 3));
}

TEST_CASE("what weights alone lose is never made up by tokens, and a gap allowed brings it back", "[quick]") {
  const LawStudy study = study_of({{"mxfp4_all", {.n = 0.5, .d = 1}}});
  AdviceOptions options = sure;
  const auto facts = facts_of({"bf16", "mxfp4_all"});
  const Advice advice = advise(study, {}, facts, model, cost::load_hardware(chip), options);
  CHECK(advice.rows[0].recipe == "bf16");
  CHECK(advice.rows[1].word == AdviceWord::never);
  CHECK_FALSE(advice.rows[1].tokens.has_value());
  // Loss 3 plus a third is 4 = 1 + 2 + 1/D' for the recipe, 1 + 1 + 1/D' for bf16: D' = 1 against 1/2.
  options.max_gap = 1.0 / 3;
  CHECK(row_of(advise(study, {}, facts, model, cost::load_hardware(chip), options), "mxfp4_all").tokens.value() ==
        Approx(2));
}

TEST_CASE("doubts widen intervals, and a lead inside them is no lead", "[quick]") {
  const double fp4 = step_of("mxfp4_all") / step_of("bf16");
  // Tokens that leave 12.7 % of the faster step, as modelled; FP4 steps are doubted by 0 to 29 %.
  const LawStudy study = study_of({{"mxfp4_all", {.n = 1, .d = fp4 * 1.145}}});
  AdviceOptions options = {.d = 1e12, .transfer = Transfer::law};
  const Advice advice = advise(study, {}, facts_of({"bf16", "mxfp4_all"}), model, cost::load_hardware(chip), options);
  const AdviceRow& row = row_of(advice, "mxfp4_all");
  CHECK(row.interval.low < 1);
  CHECK(row.interval.high > 1);
  CHECK(advice.rows[1].word == AdviceWord::alike);
  options.doubt = {.factor = 1, .fp4_slower = 0};
  CHECK(advise(study, {}, facts_of({"bf16", "mxfp4_all"}), model, cost::load_hardware(chip), options).rows[1].word ==
        AdviceWord::dearer);
}

TEST_CASE("gaps become tokens by the baseline's slope, and far away there is no verdict", "[quick]") {
  // L = 1 + 1 + 1 at the ladder's end: ln L falls by 1/3 an e-fold of tokens. A gap of ln 1.1 everywhere.
  const double n = static_cast<double>(model.linear_parameters());
  LawStudy study = study_of({{"mxfp8", {}}});
  study.n = {n / 10, n};
  study.d = {1e11, 1e12};
  std::vector<PlaneCell> cells;
  for (const double weights : {n / 10, n})
    for (const double tokens : {1e11, 3e11, 1e12}) cells.push_back({weights, tokens, std::log(1.1), 1});
  const std::map<std::string, PlaneFit> gaps = {{"mxfp8", fit_plane(cells)}};
  AdviceOptions options = sure;
  options.transfer = Transfer::gaps;
  const auto facts = facts_of({"bf16", "mxfp8"});
  const Advice advice = advise(study, gaps, facts, model, cost::load_hardware(chip), options);
  CHECK(advice.verdict);
  const AdviceRow& row = row_of(advice, "mxfp8");
  CHECK(row.tokens.value() == Approx(std::pow(1.1, 3)));
  CHECK(row.gap.value() == Approx(std::log(1.1)));
  CHECK(row.cost == Approx(std::pow(1.1, 3) * step_of("mxfp8") / step_of("bf16")));
  CHECK(row_of(advice, "bf16").tokens.value() == 1);
  // Ten times away the factor on the gap widens the interval; 101 times away nothing is said.
  study.n = {n / 1000, n / 10};
  const Advice away = advise(study, gaps, facts, model, cost::load_hardware(chip), options);
  CHECK(away.verdict);
  CHECK(row_of(away, "mxfp8").gap_interval->high > 1.2 * std::log(1.1));
  study.n = {n / 1000, n / 101};
  CHECK_FALSE(advise(study, gaps, facts, model, cost::load_hardware(chip), options).verdict);
}

TEST_CASE("the command says first what is extrapolated", "[cli]") {
  test::TemporaryFolder folder;
  const char* python = std::getenv("FP4SIM_PYTHON");
  const std::string table = folder / "ladder.csv";
  REQUIRE(test::run_shell(std::string(python ? python : "python3") + " tests/support/planted_ladder.py > " + table)
              .exit_code == 0);
  const std::string command = "advise " + table + " --hardware b200 --model llama3_8b --samples 40";
  const auto text = test::run_cli(command);
  INFO(text.err);
  REQUIRE(text.exit_code == 0);
  // 32 (4096 (2 4096 + 2 1024 + 3 14336)) weights: too far for a word on tokens.
  CHECK_THAT(text.out, Contains("NO VERDICT FROM THE LADDER: N 6.98e+09 lies 2.2e+03") &&
                           Contains("published: quartet") && !Contains("take "));
  const auto supposed = test::run_cli(command + " --transfer tokens");
  CHECK(supposed.out.starts_with("EXTRAPOLATED: N 6.98e+09 lies 2.2e+03 times"));
  CHECK_THAT(supposed.out, Contains("take ") && Contains("runner-up "));
  const Json json = Json::parse(test::run_cli(command + " --json --max-gap 1%").out);
  CHECK(json["rows"].size() == 2);
  CHECK(json["transfer"] == "gaps");
  CHECK(json["verdict"] == false);
  CHECK(json["rows"][0]["word"] == "no verdict");
  // 100 % was taken for 1 %.
  const auto whole = test::run_cli(command + " --max-gap 1");
  CHECK(whole.exit_code == 2);
  CHECK_THAT(whole.err, Contains("--max-gap") && Contains("1%"));
  CHECK(json["extrapolated_n"].get<double>() == Approx(6979321856.0 / 3.2e6));
  CHECK_THAT(test::run_cli(command + " --max-gap -1").err, Contains("--max-gap"));
  for (const std::string tokens : {"-1", "0", "inf"}) {
    const auto wrong = test::run_cli(command + " --tokens " + tokens);
    CHECK(wrong.exit_code == 2);
    CHECK_THAT(wrong.err, Contains("--tokens: '" + tokens + "' is no number above 0"));
  }
  // Without a ladder the committed one is read; every line fits a terminal.
  const auto built_in = test::run_cli("advise --hardware b200 --model llama3_8b --samples 40");
  const auto committed = test::run_cli("advise results/ladder_small/runs.csv --hardware b200 --samples 40 --json");
  CHECK(Json::parse(committed.out)["rows"] ==
        Json::parse(test::run_cli("advise --hardware b200 --samples 40 --json").out)["rows"]);
  // The medians are not the products of the columns beside them (quartet: 1.3, not 1.72 x 0.646), and nobody says so.
  CHECK_THAT(test::run_cli("advise --hardware b200 --samples 40 --transfer tokens").out,
             Contains("cost x: the median draw of") && !Contains("cost x = "));
  // Both answers stand in the first line: what is published and what the ladder has.
  CHECK(built_in.out.starts_with("No recipe can be recommended from data: (1) "));
  CHECK_THAT(built_in.out, Contains("published for nvfp4_te, quartet.") && Contains("unknown"));
  CHECK_THAT(built_in.out.substr(0, 300), Contains("the ladder"));
  std::istringstream lines(built_in.out);
  for (std::string line; std::getline(lines, line);) CHECK(line.size() <= 80);
}
