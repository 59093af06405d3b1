// Sweeps that tune and race, on a made-up trainer whose best learning rates and losses are known: every configuration
// ends at its own best, the front's steps are the planted ones, and what was interrupted asks for the same runs.
#include <catch2/catch.hpp>
#include <cmath>
#include <set>

#include "sweeps/grid/grid.h"
#include "sweeps/judge/alarms.h"
#include "sweeps/judge/front_race.h"
#include "sweeps/report/table.h"
#include "tests/support/made_up_study.h"

using namespace fp4::sweeps;
using Catch::Matchers::Contains;
using fp4::test::made_up_costs;
using fp4::test::MadeUp;
using fp4::test::Study;

namespace {

double log2_rate(const Json& config) { return std::log2(config["train"].value("lr", 1.0)); }

// The rate at which a configuration is best: fp32 and bf16 at 2^0, FP4 at 2^-1, with a Hadamard at 2^2, stochastic
// rounding at 2^7, which a ladder of -2..1 and three more rungs does not reach.
double best_log2(const Json& config) {
  const Json& wgrad = config["recipe"]["wgrad"];
  if (wgrad["a"]["element"] != "e2m1") return 0;
  if (wgrad["a"].value("rounding", "") == "stochastic") return 7;
  return wgrad["hadamard"]["size"] != 0 ? 2 : -1;
}

MadeUp tuned_world() {
  MadeUp world;
  world.noise = 0.001;
  world.seed_noise = 0;  // its formula sees the rate, and real runs share their seed's data at every rate
  world.truth = [](const Json& config) {
    const double away = log2_rate(config) - best_log2(config);
    return MadeUp::default_truth(config) + 0.02 * away * away;
  };
  return world;
}

const std::string tuned_grid = R"({"name": "tuned", "task": "alpha", "base": "mxfp4", "seeds": 3, "axes": {
  "wgrad.hadamard.size": [0, 16], "wgrad.*.rounding": ["nearest_even", "stochastic"]},
  "tune": {"train.lr": {"start": 1, "factor": 2, "rungs": 4, "seeds": 2}}, "race": {"seeds": 320, "delta": 0.01})";

std::set<std::pair<std::string, uint64_t>> asked(const Stage& stage) {
  std::set<std::pair<std::string, uint64_t>> keys;
  for (const Job& job : stage.jobs) keys.emplace(job.config->hash, job.seed);
  return keys;
}

}  // namespace

TEST_CASE("every configuration runs at its own best learning rate", "[quick]") {
  const Study sweep(tuned_grid + "}", tuned_world());
  const Results results = sweep.results();
  size_t judged = 0;
  for (const ConfigResult& config : results.configs()) {
    const Json canonical = Json::parse(config.record.config);
    INFO(canonical.dump());
    const double best = best_log2(canonical);
    // The ladder's end is 2^4; half a rung above it is nearer to 2^7.
    CHECK(tuned_value(canonical, "train.lr") == (best == 7 ? 22.63 : std::exp2(best)));
    REQUIRE(config.near.size() == 1);  // half a rung away; it judges, and is no row of its own
    CHECK(config.near[0].record.at == At::near);
    CHECK(results.find(config.near[0].record.hash) == nullptr);
    CHECK(config.near[0].runs.size() >= 3);
    CHECK(config.record.at == (best == 7 ? At::edge : At::best));
    for (const RunRecord& run : config.runs) CHECK(run.role != Role::tune);
    judged += config.in_plan;
  }
  CHECK(judged == 4);
  CHECK(results.configs().size() == 6);  // with fp32 and bf16, tuned alike
  const std::string fp32 = results.configs().front().record.reference;
  for (const ConfigResult& config : results.configs()) CHECK(config.record.reference == fp32);
  const ResultTable table = result_table(results, Costs(results, made_up_costs()), {.references = true});
  const auto column = std::find(table.columns.begin(), table.columns.end(), "at") - table.columns.begin();
  for (const auto& row : table.rows) CHECK(text_of(row[static_cast<size_t>(column)]) != "fixed");
}

TEST_CASE("a measured number with the name of an axis has a column of its own", "[quick]") {
  Study sweep(tuned_grid + "}", tuned_world());
  for (RunRecord& run : sweep.runs) run.metrics.emplace_back("wgrad.hadamard.size", 7.0);
  const Results results = sweep.results();
  for (const bool grouped : {false, true}) {
    const ResultTable table = result_table(results, Costs(results, made_up_costs()), {.grouped = grouped});
    const std::set<std::string> names(table.columns.begin(), table.columns.end());
    CHECK(names.size() == table.columns.size());
    const auto column = [&](const std::string& name) {
      return static_cast<size_t>(std::find(table.columns.begin(), table.columns.end(), name) - table.columns.begin());
    };
    for (const auto& row : table.rows) {
      CHECK(text_of(row[column("wgrad.hadamard.size")]) != "7");
      CHECK(text_of(row[column("measured.wgrad.hadamard.size")]) == "7");
    }
  }
}

TEST_CASE("the share is of the gap on every seed that judges", "[quick]") {
  MadeUp world = tuned_world();
  world.noise = 0.05;
  const Study sweep(R"({"name": "tuned", "task": "alpha", "seeds": 3, "axes": {"recipe": ["mxfp4"]},
    "tune": {"train.lr": {"start": 1, "factor": 2, "rungs": 4, "seeds": 2}}, "race": {"seeds": 40, "share": 0.1}})",
                    world);
  const Results results = sweep.results();
  const std::vector<ContextFront> all = fronts(results, Costs(results, made_up_costs()), {});
  const ConfigResult& fp32 = *results.find(all.at(0).context);
  double sum = 0, screened = 0;
  size_t n = 0, screening = 0;
  for (const ConfigResult& config : results.configs()) {
    if (!results.is_plain(config, "mxfp4")) continue;
    for (const RunRecord& run : config.runs) {
      const double gap = *run.loss - *fp32.run(run.seed)->loss;
      sum += gap;
      ++n;
      if (run.seed > 3) continue;
      screened += gap;
      ++screening;
    }
  }
  REQUIRE(screening == 3);
  REQUIRE(n >= 13);  // the first round has ten seeds
  CHECK(all.at(0).delta == Approx(0.1 * sum / static_cast<double>(n)));
  CHECK(all.at(0).delta != Approx(0.1 * screened / 3).epsilon(0.01));
}

TEST_CASE("branches and evaluations choose a rate of their own, or take that of their trunk", "[quick]") {
  // Networks are best at 2^-1 (mxfp4) and 2^0 (bf16) under their own recipe, at 2^2 under mxfp8.
  MadeUp world = tuned_world();
  world.truth = [](const Json& config) {
    const double away = log2_rate(config) - (config.contains("eval") ? 2 : best_log2(config));
    return 0.1 + 0.02 * away * away;
  };
  for (const bool by_trunk : {false, true}) {
    const std::string grid = std::string(R"({"name": "tuned", "task": "alpha", "base": "mxfp4", "seeds": 3,
      "axes": {"wgrad.hadamard.size": [0]}, "branch": {"recipe": "bf16", "at": [0, 0.5]}, "eval": ["own", "mxfp8"],
      "tune": {"train.lr": {"start": 1, "seeds": 2, "by": ")") +
                             (by_trunk ? "trunk" : "setting") + R"("}}})";
    const Study sweep(grid, world);
    size_t judged = 0;
    const Results results = sweep.results();
    for (const ConfigResult& config : results.configs()) {
      const Json canonical = Json::parse(config.record.config);
      INFO(by_trunk << " " << canonical.dump());
      double best = best_log2(canonical);
      if (by_trunk && canonical.contains("branch")) best = 0;
      if (!by_trunk && canonical.contains("eval")) best = 2;
      CHECK(tuned_value(canonical, "train.lr") == std::exp2(best));
      judged += config.in_plan;
    }
    CHECK(judged == 4);
    size_t climbing = 0;
    for (const Stage& stage : sweep.stages)
      for (const Job& job : stage.jobs) {
        const Json canonical = Json::parse(job.config->config);
        climbing += job.role == Role::tune && (canonical.contains("branch") || canonical.contains("eval"));
      }
    CHECK((climbing == 0) == by_trunk);
  }
  CHECK_THROWS_WITH(parse_grid(R"({"name": "g", "task": "alpha", "tune": {"wgrad.*.target": {"by": "trunk"}}})", "g"),
                    Catch::Contains("wgrad.*.target") && Catch::Contains("train.lr"));
}

TEST_CASE("at a fixed value there is no ladder, and everybody has that value", "[quick]") {
  const std::vector<std::string> fixed = {"train.lr=2"};
  const std::string rest = R"(, "tune_best": 0.5, "include": [{"recipe": "bf16"}]})";
  const Study sweep(at_fixed(tuned_grid + rest, "grid", fixed), tuned_world());
  for (const Stage& stage : sweep.stages) CHECK(stage.name.find("tune") == std::string::npos);
  const Results results = sweep.results();
  REQUIRE(results.configs().size() == 6);  // 2 x 2, the included bf16, fp32
  for (const ConfigResult& config : results.configs()) {
    const Json canonical = Json::parse(config.record.config);
    INFO(canonical.dump());
    CHECK(tuned_value(canonical, "train.lr") == 2);
    CHECK(config.record.at == At::fixed);
    // At 2^1 fp32 loses .02 * 1^2 by its rate; the plain recipe .1 + .02 * 2^2: a gap of .16.
    const Json& wgrad = canonical["recipe"]["wgrad"];
    if (wgrad["a"]["element"] == "e2m1" && wgrad["a"]["rounding"] == "nearest_even" && wgrad["hadamard"]["size"] == 0)
      CHECK(summarise(results.gaps(config, false)).mean == Approx(0.16).margin(0.005));
  }
  // Other ladders stay, and whole numbers stay whole.
  const std::vector<std::string> one = {"train.batch=32"};
  const Grid grid = parse_grid(
      at_fixed(R"({"name": "g", "task": "alpha", "tune": {"train.batch": {"start": 8}, "train.lr": {}}})", "g", one),
      "g");
  REQUIRE(grid.tune.size() == 1);
  CHECK(grid.tune[0].path == "train.lr");
  REQUIRE(grid.axes.size() == 1);
  CHECK(grid.axes[0].labels == std::vector<std::string>{"32"});
}

TEST_CASE("only a tuned field can be fixed, at a number", "[quick]") {
  const auto fix = [](const std::string& grid, const std::string& word) {
    return at_fixed(grid, "grid g", std::vector<std::string>{word});
  };
  CHECK_THROWS_WITH(fix(tuned_grid + "}", "train.clip=1"), Contains("train.clip") && Contains("Accepted: train.lr"));
  for (const char* word : {"train.lr", "train.lr=\"fast\""})
    CHECK_THROWS_WITH(fix(tuned_grid + "}", word), Contains(word) && Contains("PATH=NUMBER"));
  CHECK_THROWS_WITH(fix(tuned_grid + "}", "train.lr=fast"),
                    Contains("--fixed 'train.lr=fast'") && Contains("not JSON"));
  CHECK_THROWS_WITH(fix(R"({"name": "g", "task": "alpha"})", "train.lr=1"), Contains("grid g tunes no field"));
}

TEST_CASE("the race finds the planted front", "[quick]") {
  const Study sweep(tuned_grid + "}", tuned_world());
  const Results results = sweep.results();
  const std::vector<ContextFront> all = fronts(results, Costs(results, made_up_costs()), {});
  REQUIRE(all.size() == 1);
  const ContextFront& front = all.front();
  CHECK(front.raced);
  CHECK(front.at_best);
  // Costs and losses: plain 0, .10; stochastic .05, .08 + .18 (its ladder ends three rungs short); Hadamard .1, .06;
  // both .15, .22; bf16 1, 0; fp32 2, 0.
  for (const FrontPoint& point : front.points) {
    const Json recipe = Json::parse(point.config->record.config)["recipe"];
    const bool stochastic = recipe["wgrad"]["a"].value("rounding", "") == "stochastic";
    INFO(recipe["wgrad"].dump() << " " << word(point.status));
    if (stochastic) {
      CHECK(point.status == FrontStatus::unjudged);  // screening leaves it out: worse by hundreds of standard errors
    } else if (recipe["wgrad"]["a"]["element"] == "fp32") {
      CHECK(point.status == FrontStatus::tied);
      CHECK(point.rival->record.recipe == "bf16");
    } else {
      CHECK(point.status == FrontStatus::on);
      CHECK(point.raced_gap.interval);
    }
  }
}

TEST_CASE("a front shows rate, seeds and word of one rung, that of the difference", "[quick]") {
  // On the race's seeds the Hadamard's second rung is .03 better than the one that tuning chose.
  Study sweep(tuned_grid + "}", tuned_world());
  const auto hadamard = [](const ConfigResult& config) {
    const Json wgrad = Json::parse(config.record.config)["recipe"]["wgrad"];
    return wgrad["hadamard"]["size"] == 16 && wgrad["a"].value("rounding", "") == "nearest_even";
  };
  std::string best, near;
  const Results before = sweep.results();
  for (const ConfigResult& config : before.configs())
    if (hadamard(config)) best = config.record.hash, near = config.near.at(0).record.hash;
  REQUIRE_FALSE(near.empty());
  const std::vector<RunRecord> runs = sweep.runs;
  for (const RunRecord& run : runs) {
    if (run.hash != best || run.seed < first_race_seed || run.seed >= first_tuning_seed) continue;
    std::erase_if(sweep.runs, [&](const RunRecord& other) { return other.hash == near && other.seed == run.seed; });
    if (run.seed == 1006) continue;  // one run of the shown rung is missing
    sweep.runs.push_back(run);
    sweep.runs.back().hash = near;
    *sweep.runs.back().loss -= 0.03;
  }
  const Results results = sweep.results();
  const ContextFront front = fronts(results, Costs(results, made_up_costs()), {}).at(0);
  for (const FrontPoint& point : front.points) {
    if (!hadamard(*point.config)) continue;
    CHECK(point.rung->record.hash == near);
    CHECK(shown_seeds(point, "loss_gap") == 319);
    CHECK(point.raced_gap.mean == Approx(0.03).margin(0.001));  // .06 - .03
    CHECK(point.status == FrontStatus::on);
    CHECK(point.own_rung->record.hash == near);
    CHECK(point.rates_differ == results.rates_differ(*point.rung, *point.rival_rung));
  }
}

TEST_CASE("what an earlier version raced at one rung or at rungs far apart has no words", "[quick]") {
  for (const auto& [ladder, raced] : {std::pair(R"("judged": 1)", false), std::pair(R"("finer": false)", false),
                                      std::pair(R"("factor": 1.4, "rungs": 6, "finer": false)", true)}) {
    INFO(ladder);
    const Study sweep(R"({"name": "old", "task": "alpha", "seeds": 3, "axes": {"recipe": ["mxfp4", "mxfp8"]},
      "race": {"seeds": 320, "delta": 0.01}, "tune": {"train.lr": {"start": 1, "seeds": 2, )" +
                          std::string(ladder) + "}}}",
                      tuned_world());
    const Results results = sweep.results();
    for (const ContextFront& front : fronts(results, Costs(results, made_up_costs()), {})) {
      CHECK(front.raced == raced);
      for (const FrontPoint& point : front.points)
        CHECK((point.status == FrontStatus::screening || point.status == FrontStatus::unjudged) != raced);
    }
  }
}

TEST_CASE("what matters is a share of mxfp4's gap", "[quick]") {
  const auto judged = [](const std::string& recipe, const std::string& race, double noise = 0.001) {
    MadeUp world = tuned_world();
    world.noise = noise;
    const Study sweep(R"({"name": "tuned", "task": "alpha", "seeds": 3, "axes": {"recipe": [")" + recipe + R"("]},
      "tune": {"train.lr": {"start": 1, "factor": 2, "rungs": 4, "seeds": 2}}, "race": {"seeds": 40)" +
                          race + "}}",
                      world);
    const Results results = sweep.results();
    const std::vector<ContextFront> all = fronts(results, Costs(results, made_up_costs()), {});
    bool alarmed = false;
    for (const RaisedAlarm& alarm : alarms(results, all)) alarmed = alarmed || alarm.alarm == Alarm::no_delta;
    return std::pair(all.at(0).delta, alarmed);
  };
  // mxfp4 ends at .10 above fp32 (see above), noise .001 over 40 seeds.
  CHECK(judged("mxfp4", R"(, "share": 0.05)").first == Approx(0.005).epsilon(0.02));
  CHECK(judged("mxfp4", "").first == Approx(0.002).epsilon(0.02));
  CHECK_FALSE(judged("mxfp4", "").second);
  // By task.
  CHECK(judged("mxfp4", R"(, "share": {"alpha": 0.05})").first == Approx(0.005).epsilon(0.02));
  CHECK(judged("mxfp4", R"(, "share": 0.05, "delta": {"alpha": 0.007})").first == 0.007);
  CHECK(judged("mxfp4", R"(, "share": 0.05, "delta": {})").first == Approx(0.005).epsilon(0.02));
  CHECK(judged("mxfp8", R"(, "delta": {"alpha": 0.007})") == std::pair(0.007, false));
  CHECK_THROWS_WITH(judged("mxfp4", R"(, "delta": {"alpha": -1})"), Contains("race.delta.alpha"));
  CHECK(judged("mxfp4", R"(, "share": {})").first == Approx(0.002).epsilon(0.02));
  CHECK_THROWS_WITH(judged("mxfp4", R"(, "share": {"alpah": 0.05})"),
                    Contains("race.share") && Contains("'alpah'") && Contains("alpha"));
  CHECK_THROWS_WITH(judged("mxfp4", R"(, "share": "all")"), Contains("expected a number or an object by task"));
  // Without mxfp4 there is no gap to take a share of, and nothing can be tied: said, not passed over.
  CHECK(judged("mxfp8", "") == std::pair(0.0, true));
  // So is a share of a gap that may be nothing; .10 in a noise of 5, over 40 seeds.
  CHECK(judged("mxfp4", "", 5).second);
  CHECK_FALSE(judged("mxfp4", R"(, "delta": {"alpha": 0.007})", 5).second);
}

TEST_CASE("a tuned sweep asks for the same runs whatever is known already", "[quick]") {
  const Study whole(tuned_grid + "}", tuned_world());
  const Study again(tuned_grid + "}", tuned_world(), 0, whole.runs);
  CHECK(again.runs.size() == whole.runs.size());
  REQUIRE(again.stages.size() == whole.stages.size());
  for (size_t i = 0; i < whole.stages.size(); ++i) {
    INFO(whole.stages[i].name);
    CHECK(asked(again.stages[i]) == asked(whole.stages[i]));
  }
  std::vector<RunRecord> half(whole.runs.begin(), whole.runs.begin() + static_cast<ptrdiff_t>(whole.runs.size() / 2));
  const Study resumed(tuned_grid + "}", tuned_world(), 0, half);
  CHECK(resumed.runs.size() == whole.runs.size());
}

TEST_CASE("tune_best screens at the fixed rate and tunes the best share", "[quick]") {
  const Study sweep(tuned_grid + R"(, "tune_best": 0.5, "train": {"lr": 1}})", tuned_world());
  const Results results = sweep.results();
  size_t fixed = 0, best = 0;
  for (const ConfigResult& config : results.configs()) {
    if (!config.in_plan) continue;
    (config.record.at == At::fixed ? fixed : best) += 1;
  }
  CHECK(best == 2);
  CHECK(fixed == 4);
  // The whole space is the four at the fixed rate; of the two that were tuned, as they were good, it says nothing.
  double mean = 0;
  for (const ConfigResult& config : results.configs())
    if (config.in_plan && config.record.at == At::fixed)
      for (const double gap : results.gaps(config, false, Metric::loss)) mean += gap / 3 / 4;
  CHECK(space_average(results, Metric::loss).at("alpha").mean == Approx(mean));
  const std::vector<ContextFront> all = fronts(results, Costs(results, made_up_costs()), {});
  CHECK(all.front().raced);  // what decides comes before what was only looked at
  for (const ContextFront& front : all) {
    CHECK(front.raced == front.at_best);
    for (const FrontPoint& point : front.points) CHECK((point.config->record.at != At::fixed) == front.at_best);
  }
}
