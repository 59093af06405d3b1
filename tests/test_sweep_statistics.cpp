// Studies of made-up trainings with a known truth: do fronts, effects and averages say what is true, and no more? Each
// study is a fresh world of noise (its grid name salts nothing; the truth function carries the study's number).
#include <catch2/catch.hpp>
#include <cmath>

#include "sweeps/explore/explore.h"
#include "sweeps/judge/attribution.h"
#include "sweeps/judge/tokens.h"
#include "tests/support/made_up_study.h"
#include "tests/support/share.h"

using namespace fp4::sweeps;
using fp4::test::made_up_costs;
using fp4::test::MadeUp;
using fp4::test::normal_of;
using fp4::test::Study;

namespace {

const std::string eight =
    R"({"name": "eight", "task": "alpha", "base": "mxfp4", "seeds": 5, "race": {"seeds": 320, "delta": 0.01}, "axes": {
  "wgrad.hadamard.size": [0, 16], "wgrad.*.rounding": ["nearest_even", "stochastic"],
  "dgrad.*.rounding": ["nearest_even", "stochastic"]}})";

const FrontPoint& point_of(const ContextFront& front, const std::string& hash) {
  return *std::find_if(front.points.begin(), front.points.end(),
                       [&](const FrontPoint& point) { return point.config->record.hash == hash; });
}

}  // namespace

TEST_CASE("undominated points, with ties and gaps", "[quick]") {
  //                          front  dominated front  tie   equal twins   no y
  const std::vector<double> x = {0, 1, 1, 2, 3, 3, 0.5};
  const std::vector<double> y = {5, 5, 4, 4, 1, 1, NAN};
  CHECK(undominated(x, y) == std::vector<bool>{true, false, true, false, true, true, false});
}

TEST_CASE("the gap pairs by seed: what all runs of a seed share does not count", "[quick]") {
  MadeUp world;
  world.seed_noise = 10;
  world.noise = 1e-6;
  const Study study(R"({"name": "g", "task": "alpha", "base": "mxfp4", "seeds": 4})", world, 0);
  const Results results = study.results();
  for (const ConfigResult& config : results.configs()) {
    if (config.in_plan) CHECK(summarise(results.gaps(config, false)).mean == Approx(0.1).margin(1e-4));
  }
}

TEST_CASE("a run that failed says nothing, one that diverged says the worst", "[quick]") {
  ConfigResult config{.record = {}, .labels = {}, .runs = {}, .in_plan = true};
  for (const auto& [seed, status] :
       {std::pair(1, Status::finished), std::pair(2, Status::diverged), std::pair(3, Status::failed)}) {
    RunRecord run{.hash = "c", .seed = static_cast<uint64_t>(seed), .status = status};
    if (status == Status::finished) run.loss = 0.5;
    config.runs.push_back(std::move(run));
  }
  const std::vector<double> losses = Results::losses(config, {1, 2, 3, 4}, Metric::loss)[0];
  CHECK(losses[0] == 0.5);
  CHECK(std::isinf(losses[1]));
  CHECK(std::isnan(losses[2]));
  CHECK(std::isnan(losses[3]));
}

TEST_CASE("a true front is found from fresh seeds", "[quick]") {
  // Cost 0: plain; 0.05: SR, better; 0.1: Hadamard, better still; 0.15: both, best. dgrad's rounding costs and does
  // nothing here, so its twins are equally good: the front has four costs.
  MadeUp world;
  world.noise = 0.001;
  const Study study(eight, world, 1);
  const Results results = study.results();
  const Costs costs(results, made_up_costs());
  const std::vector<ContextFront> list = fronts(results, costs, {.delta = {}, .target = {}});
  REQUIRE(list.size() == 1);
  const ContextFront& front = list[0];
  CHECK(front.raced);
  CHECK(front.seeds == 320);
  CHECK(front.noise_floor->sd == Approx(0.001).epsilon(0.8));
  std::map<double, int> on_or_undecided;
  for (const FrontPoint& point : front.points) {
    const double truth = MadeUp::default_truth(Json::parse(point.config->record.config));
    if (point.status == FrontStatus::on) CHECK(truth <= 0.1);
    if (point.on_front) ++on_or_undecided[point.x];
    if (point.on_front) CHECK(point.y.mean == Approx(truth).margin(0.005));
  }
  CHECK(on_or_undecided.size() >= 4);
  // bf16 (cost 1, gap 0) beats all FP4; fp32 (cost 2, gap 0) is tied with it.
  for (const FrontPoint& point : front.points) {
    if (point.config->record.recipe == "bf16") CHECK(point.status == FrontStatus::on);
  }
}

TEST_CASE("a lucky seed makes a candidate, not a front", "[quick]") {
  // Equal truth, one configuration with a lucky screening: on fresh seeds the luck is gone.
  MadeUp world;
  world.noise = 0.01;
  world.truth = [](const Json& config) { return config["recipe"]["wgrad"]["a"]["element"] == "e2m1" ? 0.1 : 0.0; };
  Study study(eight, world, 2);
  std::string lucky;
  for (RunRecord& run : study.runs) {
    const Results results = study.results();
    const ConfigResult* config = results.find(run.hash);
    if (lucky.empty() && config->in_plan && config->labels[0] == "16") lucky = run.hash;
    if (run.hash == lucky && run.seed <= 5) *run.loss -= 0.03;
  }
  const Results results = study.results();
  const Costs costs(results, made_up_costs());
  const ContextFront front = fronts(results, costs, {.delta = {}, .target = {}})[0];
  const FrontPoint& point = point_of(front, lucky);
  CHECK(point.candidate);
  CHECK(point.status != FrontStatus::on);
  CHECK(point.y.mean == Approx(0.1).margin(0.015));
}

TEST_CASE("null studies call a winner at most 5 percent of the time; intervals hold", "[quick]") {
  // Four equal configurations of different cost: `on` (but for the cheapest, which nobody can beat) and `off` are
  // false.
  MadeUp world;
  world.truth = [](const Json& config) { return config["recipe"]["wgrad"]["a"]["element"] == "e2m1" ? 0.1 : 0.0; };
  // An instrumented program walks the code; what 33 studies say is no statistics.
  const int studies = 400 / static_cast<int>(fp4::test::share());
  int winners = 0;
  int held = 0;
  int intervals = 0;
  int effects_called = 0;
  for (int i = 0; i < studies; ++i) {
    const Study study(
        R"({"name": "null", "task": "alpha", "base": "mxfp4", "seeds": 4, "references": ["fp32"],
      "race": {"seeds": 10, "delta": 0.001},
      "axes": {"wgrad.hadamard.size": [0, 16], "wgrad.*.rounding": ["nearest_even", "stochastic"]}})",
        world, static_cast<uint64_t>(i + 10));
    const Results results = study.results();
    const Costs costs(results, made_up_costs());
    const ContextFront front = fronts(results, costs, {.delta = {}, .target = {}, .sensitivity = false})[0];
    bool winner = false;
    for (const FrontPoint& point : front.points) {
      if (!point.config->in_plan) continue;
      winner |= point.status == FrontStatus::off || (point.status == FrontStatus::on && point.x > 0);
      if (!point.y.interval || !point.candidate) continue;
      ++intervals;
      held += point.y.interval->low <= 0.1 && 0.1 <= point.y.interval->high;
    }
    winners += winner;
    bool called = false;
    for (const Effect& effect : attribute(results, Metric::loss, {})) {
      called |= effect.comparison.verdict != Verdict::undecided;
    }
    effects_called += called;
  }
  if (fp4::test::share() > 1) return;
  CHECK(winners <= 0.05 * studies + 2 * std::sqrt(studies * 0.05 * 0.95));
  CHECK(effects_called <= 0.05 * studies + 3 * std::sqrt(studies * 0.05 * 0.95));  // all that is listed, one family
  CHECK(held >= 0.93 * intervals);
  CHECK(held <= 0.97 * intervals);
}

TEST_CASE("an effect is averaged over settings, tested over seeds, and dead pairs do not dilute it", "[quick]") {
  MadeUp world;
  world.noise = 0.002;
  const Study study(R"({"name": "g", "task": "alpha", "base": "mxfp4", "seeds": 5, "axes": {
    "wgrad.hadamard.size": [0, 16, 32], "wgrad.hadamard.signs": ["none", "fixed"],
    "wgrad.*.rounding": ["nearest_even", "stochastic"]}})",
                    world, 3);
  const Results results = study.results();
  const std::vector<Effect> effects = attribute(results, Metric::loss, {{"alpha", 0.005}});
  REQUIRE(effects.size() == 4);
  const auto effect = [&](const std::string& axis, const std::string& value) {
    return *std::find_if(effects.begin(), effects.end(),
                         [&](const Effect& e) { return e.axis == axis && e.value == value; });
  };
  const Effect hadamard = effect("wgrad.hadamard.size", "16");
  CHECK(hadamard.reference == "0");
  CHECK(hadamard.settings == 4);
  CHECK(hadamard.comparison.summary.n == 5);  // seeds, not settings
  CHECK(hadamard.comparison.summary.mean == Approx(-0.04).margin(0.005));
  CHECK(hadamard.comparison.verdict == Verdict::better);
  CHECK(hadamard.same_sign == 1);
  const Effect signs = effect("wgrad.hadamard.signs", "fixed");
  CHECK(signs.settings == 4);  // size 16 and 32 times two roundings; without a Hadamard signs are dead
  CHECK(std::fabs(signs.comparison.summary.mean) < 0.004);
  CHECK(effect("wgrad.*.rounding", "stochastic").comparison.summary.mean == Approx(-0.02).margin(0.005));
}

TEST_CASE("a contrast compares any two values, under conditions and by the values of other axes", "[quick]") {
  // Truth: a Hadamard of 16 gains 0.04 under nearest_even and 0.01 under stochastic; 32 gains half of that.
  MadeUp world;
  world.noise = 0.0005;
  world.truth = [](const Json& config) {
    const Json& w = config["recipe"]["wgrad"];
    if (w["a"]["element"] != "e2m1") return 0.0;
    const double gain = w["a"]["rounding"] == "stochastic" ? 0.01 : 0.04;
    const int size = w["hadamard"]["size"];
    return 0.2 - (size == 16 ? gain : size == 32 ? gain / 2 : 0);
  };
  const Study study(R"({"name": "g", "task": "alpha", "base": "mxfp4", "seeds": 5, "axes": {
    "wgrad.hadamard.size": [0, 16, 32], "wgrad.*.rounding": ["nearest_even", "stochastic"],
    "task.alpha.width": [4, 8]}})",
                    world, 11);
  const Results results = study.results();
  Contrast contrast;
  contrast.axis = "wgrad.hadamard.size";
  contrast.by = {"wgrad.*.rounding"};
  const std::map<std::string, double> delta = {{"alpha", 0.0001}};
  std::vector<Effect> effects = attribute(results, Metric::loss, delta, contrast);
  REQUIRE(effects.size() == 4);
  const double expected[] = {-0.04, -0.02, -0.01, -0.005};
  for (size_t i = 0; i < 4; ++i) {
    INFO(effects[i].group << " " << effects[i].value);
    CHECK(effects[i].group == (i < 2 ? "nearest_even" : "stochastic"));
    CHECK(effects[i].settings == 2);  // two widths
    CHECK(effects[i].comparison.summary.mean == Approx(expected[i]).margin(0.001));
    CHECK(effects[i].reference_gap == Approx(0.2).margin(0.001));
    // Four comparisons of five seeds: Dunn's table has t(1 - .05/8, 4) = 4.315 where the raw interval has 2.776.
    const Summary& raw = effects[i].comparison.summary;
    CHECK(effects[i].family == 4);
    CHECK(effects[i].comparison.interval->high - raw.mean ==
          Approx((raw.interval->high - raw.mean) * 4.3147 / 2.7764).epsilon(1e-3));
  }
  contrast.by.clear();
  contrast.reference = "16";
  contrast.where = {{"wgrad.*.rounding", {"stochastic"}}, {"task.alpha.width", {"8"}}};
  effects = attribute(results, Metric::loss, delta, contrast);
  REQUIRE(effects.size() == 2);
  CHECK(effects[0].value == "0");
  CHECK(effects[0].settings == 1);
  CHECK(effects[0].comparison.summary.mean == Approx(0.01).margin(0.001));
  CHECK(effects[1].value == "32");
  CHECK(effects[1].reference_gap == Approx(0.19).margin(0.001));
  contrast.reference = "64";
  CHECK_THROWS_WITH(attribute(results, Metric::loss, delta, contrast), Catch::Matchers::Contains("0, 16, 32"));
  contrast = {.axis = "wgrad.hadamard", .reference = "", .where = {}, .by = {}};
  CHECK_THROWS_WITH(attribute(results, Metric::loss, delta, contrast),
                    Catch::Matchers::Contains("wgrad.hadamard.size"));
}

TEST_CASE("importance averages over the space are unbiased", "[quick]") {
  // 36 configurations, a sample of about 24 with unequal chances. The mean of the estimates over many grids (whose
  // names salt the choice) must be the true mean of the space.
  MadeUp world;
  world.noise = 0;
  world.seed_noise = 0;
  world.truth = [](const Json& config) {
    const Json& recipe = config["recipe"];
    if (recipe["wgrad"]["a"]["element"] != "e2m1") return 0.0;
    double gap = 0.05 + 0.01 * recipe["fprop"]["hadamard"]["size"].get<double>() / 16;
    if (recipe["wgrad"]["a"]["rounding"] == "stochastic") gap += 0.1;
    return gap + 0.02 * normal_of(recipe.dump());
  };
  const auto grid = [](int i) {
    return R"({"name": "g)" + std::to_string(i) +
           R"(", "task": "beta", "base": "mxfp4", "seeds": 1, "references": ["fp32"],
      "axes": {"fprop.hadamard.size": [0, 16, 32, 64], "wgrad.*.rounding": ["nearest_even", "stochastic"],
      "dgrad.a.rounding": ["nearest_even", "stochastic"], "dgrad.b.rounding": ["nearest_even", "stochastic"]},
      "explore": {"importance": 24}})";
  };
  const Simulator simulator = world.simulator();
  const Plan plan = expand(parse_grid(grid(0), "g"), simulator);
  double truth = 0;
  for (const ConfigRecord& config : plan.configs) truth += world.truth(Json::parse(config.config));
  truth /= static_cast<double>(plan.configs.size());
  std::vector<double> estimates, plain;
  double sampled = 0;
  const int studies = 300 / static_cast<int>(fp4::test::share());
  for (int i = 0; i < studies; ++i) {
    const Study study(grid(i), world, 0);
    const Results results = study.results();
    const WeightedMean mean = space_average(results, Metric::loss).at("beta");
    estimates.push_back(mean.mean);
    double sum = 0;
    double count = 0;
    for (const ConfigResult& config : results.configs()) {
      if (!config.in_plan) continue;
      sum += results.gaps(config, false)[0];
      ++count;
    }
    plain.push_back(sum / count);
    sampled += count;
  }
  if (fp4::test::share() > 1) return;
  const Summary summary = summarise(estimates);
  CHECK(sampled / studies == Approx(24).epsilon(0.1));
  CHECK(std::fabs(summary.mean - truth) < 0.03 * truth);
  CHECK(std::fabs(summarise(plain).mean - truth) > 2 * std::fabs(summary.mean - truth));  // what weighting mends
}

TEST_CASE("an effect of a sample weighs by chance, seed by seed, and what diverged is counted", "[quick]") {
  // All 16 configurations are drawn, with unequal chances in the records: the gap is .1 with a Hadamard of 16, and .3
  // more with stochastic rounding in Dgrad, which had a chance of a quarter.
  MadeUp world;
  world.noise = world.seed_noise = 0;
  world.truth = [](const Json& config) {
    const Json& recipe = config["recipe"];
    if (recipe["wgrad"]["a"]["element"] != "e2m1") return 0.0;
    return 0.1 * recipe["fprop"]["hadamard"]["size"].get<double>() / 16 +
           (recipe["dgrad"]["a"]["rounding"] == "stochastic" ? 0.3 : 0);
  };
  Study study(R"({"name": "g", "task": "beta", "base": "mxfp4", "seeds": 3, "references": ["fp32"],
      "axes": {"fprop.hadamard.size": [0, 16], "wgrad.*.rounding": ["nearest_even", "stochastic"],
      "dgrad.a.rounding": ["nearest_even", "stochastic"], "dgrad.b.rounding": ["nearest_even", "stochastic"]},
      "explore": {"importance": 16}})",
              world, 0);
  const auto of = [&](const std::function<void(Planner::Contents&, std::vector<RunRecord>&)>& change) {
    Planner::Contents contents = study.planner.contents();
    std::vector<RunRecord> runs = study.runs;
    for (ConfigRecord& config : contents.configs)
      config.probability = Json::parse(config.config)["recipe"]["dgrad"]["a"]["rounding"] == "stochastic" ? 0.25 : 1;
    change(contents, runs);
    const Results results(study.planner.grid(), contents.axes, contents.configs, contents.points, {}, runs);
    Contrast contrast;
    contrast.axis = "fprop.hadamard.size";
    const std::vector<Effect> effects = attribute(results, Metric::loss, {{"beta", 0.001}}, contrast);
    REQUIRE(effects.size() == 1);
    return effects[0];
  };
  const auto size_of = [](const ConfigRecord& config) {
    return Json::parse(config.config)["recipe"]["fprop"]["hadamard"]["size"].get<int>();
  };
  const Effect all = of([](auto&, auto&) {});
  CHECK(all.weighted);
  CHECK(all.settings == 8);
  // Four of weight 4 at .3 and four of weight 1 at 0: 4.8 / 20.
  CHECK(all.reference_gap == Approx(0.24));
  CHECK(all.comparison.summary.n == 3);
  CHECK(all.comparison.summary.mean == Approx(0.1));
  CHECK(all.comparison.verdict == Verdict::worse);
  // One configuration of the size 0 lacks a seed: it counts at none.
  const Effect lacking = of([&](const auto& contents, auto& runs) {
    const auto one = std::find_if(contents.configs.begin(), contents.configs.end(), [&](const ConfigRecord& config) {
      return config.probability < 1 && size_of(config) == 0;
    });
    std::erase_if(runs, [&](const RunRecord& run) { return run.hash == one->hash && run.seed == 2; });
  });
  CHECK(lacking.comparison.summary.n == 3);
  CHECK(lacking.reference_gap == Approx(3 * 4 * 0.3 / 16));
  // With a configuration that diverged the size 16 looks better by what it lost, and wins nothing by it.
  const Effect diverged = of([&](const auto& contents, auto& runs) {
    for (const ConfigRecord& config : contents.configs)
      for (RunRecord& run : runs)
        if (config.hash == run.hash && config.probability < 1 && size_of(config) == 16) run.status = Status::diverged;
  });
  CHECK(diverged.comparison.diverged == 4);
  CHECK(diverged.comparison.rival_diverged == 0);
  CHECK(diverged.comparison.summary.mean == Approx(0.1 - 0.24));
  CHECK(diverged.comparison.interval->high < 0);
  CHECK(diverged.comparison.verdict == Verdict::undecided);
}

TEST_CASE("inclusion probabilities add up to the budget and never fall to nothing", "[quick]") {
  const std::vector<double> p = inclusion_probabilities({0, 0.5, 1, 5, 50, -1}, 3);
  double sum = 0;
  for (const double value : p) {
    CHECK((value > 0 && value <= 1));
    sum += value;
  }
  CHECK(sum == Approx(3));
  CHECK(p[0] == p[5]);  // below the predicted front counts as on it
  CHECK(p[3] == p[4]);  // the floor
  CHECK(p[1] / p[2] == Approx(std::exp(0.5)));
  CHECK(inclusion_probabilities({0, 9}, 5) == std::vector<double>{1, 1});
}

TEST_CASE("a configuration that always diverges is no candidate, and is counted", "[quick]") {
  MadeUp world;
  world.truth = [](const Json& config) {
    const Json& recipe = config["recipe"];
    return recipe["wgrad"]["hadamard"]["size"] == 16 ? INFINITY : MadeUp::default_truth(config);
  };
  const Study study(eight, world, 4);
  const Results results = study.results();
  const Costs costs(results, made_up_costs());
  const ContextFront front = fronts(results, costs, {.delta = {}, .target = {}})[0];
  for (const FrontPoint& point : front.points) {
    if (point.config->labels[0] != "16") continue;
    CHECK(point.diverged == 5);
    CHECK_FALSE(point.on_front);
    CHECK_FALSE(point.candidate);
  }
  for (const Effect& effect : attribute(results, Metric::loss, {})) {
    // Two roundings of dgrad or wgrad times the Hadamard: five seeds each.
    if (effect.axis == "wgrad.hadamard.size") {
      CHECK(effect.comparison.diverged == 20);
      CHECK(effect.comparison.rival_diverged == 0);
    } else {
      CHECK(effect.comparison.diverged == 10);
      CHECK(effect.comparison.rival_diverged == 10);
    }
  }
}

TEST_CASE("a rate at which fp32 diverges, too, is worse by its divergence, and averages nothing", "[quick]") {
  MadeUp world;
  world.truth = [](const Json& config) {
    return config["train"]["lr"] == 1.0 ? INFINITY : MadeUp::default_truth(config);
  };
  const Study study(R"({"name": "g", "task": "alpha", "seeds": 20, "axes": {
    "recipe": ["mxfp4", "mxfp8"], "train.lr": [0.01, 1.0]}})",
                    world);
  for (const Effect& effect : attribute(study.results(), Metric::loss, {})) {
    INFO(effect.axis);
    CHECK(effect.comparison.summary.n == 0);
    CHECK(std::isnan(effect.comparison.summary.mean));
    CHECK(effect.comparison.diverged == (effect.axis == "train.lr" ? 40 : 20));
    CHECK(effect.comparison.rival_diverged == (effect.axis == "train.lr" ? 0 : 20));
    CHECK(effect.comparison.verdict == (effect.axis == "train.lr" ? Verdict::worse : Verdict::undecided));
    CHECK(std::isnan(effect.same_sign) == (effect.axis == "train.lr"));
  }
}

TEST_CASE("what a screened front can see comes from its steps, and one seed has no noise floor", "[quick]") {
  MadeUp world;
  world.noise = 0.01;
  const std::string grid =
      R"({"name": "g", "task": "alpha", "base": "mxfp4", "axes": {"wgrad.*.rounding": ["nearest_even", "stochastic"]}, "seeds": )";
  const auto front_of = [&](const Results& results) {
    const Costs costs(results, made_up_costs());
    return fronts(results, costs, {.delta = {}, .target = {}})[0];
  };
  const Study one(grid + "1}", world), five(grid + "5}", world);
  const Results results = five.results();
  const ContextFront front = front_of(results);
  const auto sd_to_next = [&](size_t i) {
    std::vector<double> differences;
    REQUIRE((front.points[i].on_front && front.points[i + 1].on_front));
    for (uint64_t seed = 1; seed <= 5; ++seed)
      differences.push_back(*front.points[i].config->run(seed)->loss - *front.points[i + 1].config->run(seed)->loss);
    return summarise(differences).sd;
  };
  CHECK(front.paired_sd == Approx((sd_to_next(0) + sd_to_next(1)) / 2));  // bf16 - fp32 is no part of it
  CHECK(front.noise_floor->n == 5);
  CHECK_FALSE(front_of(one.results()).noise_floor);
}

TEST_CASE("sensitivity: the factors over which a front point stays undominated, by hand", "[quick]") {
  // Stochastic rounding costs .05 w and gains .02; a Hadamard costs .1 and gains .04. SR is dominated by the Hadamard
  // (less gap) as soon as .05 w >= .1: w = 2; in quarter octaves the last factor that holds is 2^.75.
  MadeUp world;
  world.noise = 0;
  const Study study(R"({"name": "g", "task": "alpha", "base": "mxfp4", "seeds": 3, "axes": {
    "wgrad.hadamard.size": [0, 16], "wgrad.*.rounding": ["nearest_even", "stochastic"]}})",
                    world, 5);
  const Results results = study.results();
  const Costs costs(results, made_up_costs());
  const ContextFront front = fronts(results, costs, {.delta = {}, .target = {}})[0];
  CHECK_FALSE(front.raced);
  for (const FrontPoint& point : front.points) {
    if (point.config->labels != std::vector<std::string>{"0", "stochastic"}) continue;
    REQUIRE(point.on_front);
    CHECK(point.status == FrontStatus::screening);
    CHECK(point.sensitivity.at("sr").high == Approx(std::exp2(0.75)));
    CHECK(point.sensitivity.at("sr").low == 0.25);
    CHECK(point.sensitivity.at("hadamard").low == Approx(std::exp2(-0.75)));
    CHECK(point.sensitivity.at("bandwidth").high == 4);
  }
}

TEST_CASE("effects use the seeds of the race where every setting has them", "[quick]") {
  MadeUp world;
  world.noise = 0.01;
  const Study study(R"({"name": "g", "task": "alpha", "seeds": 5, "axes": {"recipe": ["mxfp4", "mxfp8"]},
    "race": {"seeds": 40, "delta": 0.001}})",
                    world, 6);
  const std::vector<Effect> effects = attribute(study.results(), Metric::loss, {{"alpha", 0.001}});
  REQUIRE(effects.size() == 1);
  CHECK(effects[0].comparison.summary.n == 45);
}

TEST_CASE("what did not race is counted, with the chance that it is better", "[quick]") {
  MadeUp world;
  world.noise = 0.02;
  const Study study(R"({"name": "g", "task": "alpha", "base": "mxfp4", "seeds": 3, "candidates": 2, "axes": {
    "wgrad.*.random_bits": [2, 4, 8, 16], "wgrad.*.rounding": ["stochastic"], "wgrad.hadamard.size": [0, 16]},
    "race": {"seeds": 10, "delta": 0.001}})",
                    world, 8);
  const Results results = study.results();
  const ContextFront front = fronts(results, Costs(results, made_up_costs()), {})[0];
  CHECK(front.raced);
  CHECK(front.left_out > 0);
  CHECK(front.left_out_chance > 0.01);
  CHECK(front.left_out_chance < 1);
  // After screening alone: a point z standard errors above the front is below it with probability Phi(-z).
  const auto below = [](double z) { return std::erfc(z / std::sqrt(2.0)) / 2; };
  CHECK(below(1.959964) == Approx(0.025).epsilon(1e-5));
  const ContextFront screened = fronts(results, Costs(results, made_up_costs()), {.screening_only = true})[0];
  double none = 1;
  for (const FrontPoint& point : screened.points)
    if (point.config->in_plan && !point.candidate && point.distance <= 3) none *= 1 - below(point.distance);
  CHECK(none < 1);
  CHECK(screened.left_out_chance == Approx(1 - none));
}

TEST_CASE("a raced front of loss_hp has words of its own", "[quick]") {
  // By loss the Hadamard loses .04 less; by loss_hp all are alike.
  MadeUp world;
  world.noise = 0.001;
  Study study(R"({"name": "g", "task": "alpha", "base": "mxfp4", "seeds": 3, "axes": {"wgrad.hadamard.size": [0, 16]},
    "race": {"seeds": 320, "delta": 0.01}})",
              world, 9);
  for (RunRecord& run : study.runs) run.loss_hp = 0.5 + 1e-4 * static_cast<double>(run.seed % 7);
  const Results results = study.results();
  const Costs costs(results, made_up_costs());
  const auto status = [&](const std::string& y) {
    FrontOptions options;
    options.y = y;
    const std::vector<ContextFront> all = fronts(results, costs, options);
    for (const FrontPoint& point : all[0].points)
      if (point.config->in_plan && point.config->labels[0] == "16") return point.status;
    return FrontStatus::unjudged;
  };
  CHECK(status("loss_gap") == FrontStatus::on);
  CHECK(status("loss_hp_gap") == FrontStatus::tied);
}

TEST_CASE("a validation curve is the smoothed mean of the runs that finished", "[quick]") {
  // Validation at 0, 20, 30, 40 steps of 8 examples: 5, 3, 2, 1; smoothed 5, 10/3, 2, 1.
  MadeUp world;
  Study study(R"({"name": "g", "task": "alpha", "base": "mxfp4", "seeds": 2})", world);
  for (RunRecord& run : study.runs) run.curve = {{0, 10, 20, 30, 40}, {5, 4, 3, 2, 1}, {5, std::nan(""), 3, 2, 1}};
  const Results results = study.results();
  const LossCurve curve = validation_curve(results, results.configs().front(), false);
  CHECK(curve.tokens == std::vector<double>{0, 160, 240, 320});
  CHECK(curve.mean()[1] == Approx(10.0 / 3));
  CHECK(curve.mean()[2] == Approx(2));
  // Three quarters of 320 tokens are 240, where the curve is at 2.
  CHECK(*default_target(curve) == Approx(2));
}

TEST_CASE("runs with a constant learning rate carry tokens-to-target and Quartet's objective", "[quick]") {
  MadeUp world;
  world.noise = 0;
  const auto grid = [](const std::string& schedule) {
    return R"({"name": "g", "task": "alpha", "base": "mxfp4", "seeds": 3, "train": {"schedule": ")" + schedule +
           R"("}, "axes": {"wgrad.hadamard.size": [0, 16]}})";
  };
  for (const char* schedule : {"constant", "cosine"}) {
    const Study study(grid(schedule), world, 7);
    const Results results = study.results();
    const Costs costs(results, made_up_costs());
    const ContextFront front = fronts(results, costs, {.delta = {}, .target = 1.6})[0];
    const bool constant = std::string(schedule) == "constant";
    CHECK(front.target.has_value() == constant);
    for (const FrontPoint& point : front.points) {
      if (!constant) {
        CHECK_FALSE(point.tokens_to_target);
        CHECK_FALSE(point.extra_fp32);
      }
      if (constant && point.config->record.recipe == "fp32") {
        CHECK(point.tokens_to_target);
        CHECK(*point.quartet == Approx(point.cost.speedup_bf16));
        CHECK(point.extra_fp32->bound == Bound::exact);
        CHECK(point.extra_fp32->share == 0);
      }
    }
  }
}
