// Units of gaps: extra tokens along curves whose distance is planted, by ladders of budgets and by constant rates, with
// bounds where a curve ends; and gaps as shares of fp32's loss.
#include <fmt/format.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <nlohmann/json.hpp>

#include "sweeps/judge/pareto.h"
#include "sweeps/judge/tokens.h"
#include "sweeps/report/table.h"
#include "tests/support/made_up_study.h"
#include "tests/support/workshop.h"

using namespace fp4::sweeps;
using fp4::test::made_up_costs;
using fp4::test::MadeUp;
using fp4::test::Study;

namespace {

// Loss falls by 1 whenever the tokens double, so straight lines against their logarithm are exact. A curve that needs
// `factor` times the tokens lies log2(factor) higher.
LossCurve halving_curve(double factor, const std::vector<double>& shifts = {0}) {
  LossCurve curve{.tokens = {100, 200, 400, 800}, .loss = {}};
  for (size_t seed = 0; seed < shifts.size(); ++seed) {
    for (const double tokens : curve.tokens)
      curve.loss[seed + 1].push_back(20 - std::log2(tokens / factor) + shifts[seed]);
  }
  return curve;
}

}  // namespace

TEST_CASE("a curve crosses its target between two points, before the first or never", "[quick]") {
  using Reach = Crossing::Reach;
  const std::vector<double> tokens = {0, 100, 400}, loss = {5, 3, 1};
  CHECK(crossing(tokens, loss, 2).tokens == Approx(200));  // half of the way from 100 to 400 by factors
  CHECK(crossing(tokens, loss, 4).tokens == Approx(50));   // from 0 by differences
  CHECK(crossing(tokens, loss, 5).reach == Reach::at);
  CHECK(crossing(tokens, loss, 6).reach == Reach::before);
  CHECK(crossing(tokens, loss, 0.9).reach == Reach::never);
  CHECK(crossing(tokens, loss, 0.9).tokens == 400);
}

TEST_CASE("extra tokens are the planted factor, whichever curve is the better", "[quick]") {
  const LossCurve baseline = halving_curve(1);
  for (const double factor : {1.0, 1.25, 1.5, 3.0, 0.5, 0.3}) {
    const ExtraTokens extra = *extra_tokens(halving_curve(factor), baseline);
    INFO(factor);
    CHECK(extra.bound == Bound::exact);
    CHECK(extra.share == Approx(factor - 1).margin(1e-12));
    CHECK_FALSE(extra.raw);  // one seed
  }
  // The worse curve ends above where the better one begins: eight times the first budget and more, or less.
  const ExtraTokens worse = *extra_tokens(halving_curve(64), baseline),
                    better = *extra_tokens(halving_curve(1.0 / 64), baseline);
  CHECK(worse.bound == Bound::above);
  CHECK(text(worse) == ">+700.0 %");
  CHECK(better.bound == Bound::below);
  CHECK(text(better) == "<-87.5 %");
  // At a target of its own: fp32 passes 12 at 2^8 = 256 tokens, a recipe of factor 4 would at 1024 and ends at 800.
  const ExtraTokens late = *extra_tokens(halving_curve(4), baseline, 12.0);
  CHECK(late.bound == Bound::above);
  CHECK(late.share == Approx(800.0 / 256 - 1));
  CHECK_FALSE(extra_tokens(halving_curve(1), baseline, 5.0));                           // neither gets there
  CHECK_FALSE(extra_tokens(LossCurve{.tokens = {100}, .loss = {{9, {1}}}}, baseline));  // no seed in common
}

TEST_CASE("the interval of extra tokens is the t interval of seeds that shift a curve", "[quick]") {
  // A shift of e doubles the tokens 2^e times, and the jackknife of a mean is its standard error: mean .5, SD of
  // {.3, .4, .5, .6, .7} sqrt(.025), t(.975, 4) = 2.776445.
  const ExtraTokens extra =
      *extra_tokens(halving_curve(1, {0.3, 0.4, 0.5, 0.6, 0.7}), halving_curve(1, {0, 0, 0, 0, 0}));
  const double half = 2.776445 * std::sqrt(0.025 / 5);
  CHECK(extra.share == Approx(std::exp2(0.5) - 1));
  CHECK(extra.raw->low == Approx(std::exp2(0.5 - half) - 1));
  CHECK(extra.raw->high == Approx(std::exp2(0.5 + half) - 1));
}

namespace {

// fp32 and bf16 follow one law of tokens, mxfp8 needs a quarter more of them, mxfp4 twice as many.
MadeUp law_of_tokens() {
  MadeUp world;
  world.noise = world.seed_noise = 0;
  world.truth = [](const Json& config) {
    const std::string element = config["recipe"]["wgrad"]["a"]["element"];
    const double factor = element == "e2m1" ? 2 : element == "e4m3" ? 1.25 : 1;
    return 15 - std::log2(config["train"]["steps"].get<double>() / factor);
  };
  return world;
}

}  // namespace

TEST_CASE("a grid with several training lengths is a ladder of budgets", "[quick]") {
  const Study study(R"({"name": "g", "task": "alpha", "base": "mxfp4", "seeds": 3, "axes": {
    "recipe": ["mxfp8", "mxfp4"], "train.steps": [100, 200, 400]}})",
                    law_of_tokens());
  const Results results = study.results();
  const Costs costs(results, made_up_costs());
  const std::vector<ContextFront> list = fronts(results, costs, {.delta = {}, .target = {}});
  REQUIRE(list.size() == 3);
  for (const ContextFront& front : list) {
    const double steps = Json::parse(results.find(front.context)->record.config)["train"]["steps"];
    CHECK_FALSE(front.target);
    CHECK(front.scale.loss == Approx(16 - std::log2(steps)));
    for (const FrontPoint& point : front.points) {
      INFO(steps << " " << point.config->record.recipe);
      const std::string& recipe = point.config->record.recipe;
      const double factor = recipe == "mxfp4" ? 2 : recipe == "mxfp8" ? 1.25 : 1;
      if (steps == 100 && factor > 1) {  // one rung has nothing left of it
        CHECK(point.extra_fp32->bound == Bound::above);
        CHECK(point.extra_fp32->share == Approx(0).margin(1e-12));
        continue;
      }
      CHECK(point.extra_fp32->share == Approx(factor - 1).margin(1e-12));
      if (steps > 100) CHECK(point.extra_mxfp8->share == Approx(factor / 1.25 - 1).margin(1e-12));
      if (steps > 100) CHECK(point.extra_fp32->raw->low == Approx(factor - 1).margin(1e-9));
    }
  }
  const ResultTable table = result_table(results, costs, {.grouped = true});
  const auto column = [&](const std::string& name) {
    return static_cast<size_t>(std::find(table.columns.begin(), table.columns.end(), name) - table.columns.begin());
  };
  for (const std::vector<Cell>& row : table.rows) {
    const std::string steps = text_of(row[column("train.steps")]), recipe = text_of(row[column("recipe")]);
    if (recipe != "mxfp4") continue;
    if (steps == "100") CHECK(text_of(row[column("extra_tokens_fp32")]).starts_with(">"));
    if (steps != "100") CHECK(std::get<double>(row[column("extra_tokens_fp32")]) == Approx(1));
    // A gap of 1 on a loss of 16 - log2(steps).
    CHECK(std::get<double>(row[column("relative_gap")]) == Approx(1 / (16 - std::log2(std::stod(steps)))));
  }
}

TEST_CASE("a gap is a share of fp32's loss above the irreducible part where the task tells it", "[quick]") {
  Study study(R"({"name": "g", "task": "alpha", "base": "mxfp4", "seeds": 3})", law_of_tokens());
  const double loss = 16 - std::log2(100.0);
  const Results before = study.results();
  CHECK(loss_scale(before, before.configs().front()).loss == Approx(loss));
  CHECK_FALSE(loss_scale(before, before.configs().front()).above_irreducible);
  for (RunRecord& run : study.runs) run.metrics.emplace_back("irreducible_loss", 9.0);
  const Results results = study.results();
  CHECK(loss_scale(results, results.configs().front()).loss == Approx(loss - 9));
  CHECK(loss_scale(results, results.configs().front()).above_irreducible);
}

TEST_CASE("a front in text has the extra tokens of its JSON", "[cli]") {
  const fp4::test::TemporaryFolder folder;
  fp4::test::write_text(folder / "g.json", R"({"name": "g", "task": "lm", "seeds": 3,
    "train": {"batch": 2, "curve_points": 1}, "axes": {"task.lm.width": [32], "train.steps": [4, 8, 16],
    "recipe": ["mxfp8", "mxfp4_all"]}})");
  const std::string out = folder / "g";
  REQUIRE(fp4::test::run_cli("sweep run " + (folder / "g.json") + " --quiet --out " + out).exit_code == 0);
  const std::string text = fp4::test::run_cli("pareto " + out).out;
  const auto json = nlohmann::json::parse(fp4::test::run_cli("pareto " + out + " --json").out);
  CHECK(fp4::test::wide_line(text) == "");
  size_t compared = 0;
  for (const auto& point : json["points"]) {
    if (point["status"] != "screening" || !point["on_front"] || point["recipe"] != "mxfp4_all") continue;
    const auto& extra = point["extra_tokens"]["fp32"];
    const std::string bound = extra["bound"] == "above" ? ">" : extra["bound"] == "below" ? "<" : "";
    const std::string cell = fmt::format("{}{:+.1f} %", bound, 100 * extra["share"].get<double>());
    INFO(cell << "\n" << text);
    bool found = false;
    for (const std::string& line : fp4::test::lines_of(text))
      found |= line.ends_with("  mxfp4_all") && line.find(cell) == line.find_first_not_of(' ');
    CHECK(found);
    ++compared;
  }
  CHECK(compared == 3);
  CHECK_THAT(text, Catch::Contains("Extra tokens for the same loss, along the ladder of budgets (`train.steps`):"));
}
