// A store of 100,000 runs: opened, exported, its fronts and effects computed. Checks what comes out; the times are
// printed for whoever runs it by hand (`test_sweep_large "[exhaustive]" -s`), never compared.
#include <catch2/catch.hpp>
#include <chrono>

#include "sweeps/explore/sweep.h"
#include "sweeps/judge/attribution.h"
#include "sweeps/report/table.h"
#include "tests/support/made_up_training.h"
#include "tests/support/support.h"

using namespace fp4::sweeps;

TEST_CASE("a hundred thousand runs", "[exhaustive]") {
  fp4::test::TemporaryFolder folder;
  fp4::test::MadeUp world;
  const Simulator simulator = world.simulator();
  // 2 tasks x 2 x 3 x 4 x 4 x 4 x 4 x ... points; 3125 distinct configurations a task or so, 16 seeds.
  const Grid grid = parse_grid(R"({"name": "large", "task": ["alpha", "beta"], "base": "mxfp4", "seeds": 16, "axes": {
    "wgrad.hadamard.size": [0, 16, 32, 64, 128], "wgrad.a.rounding": ["nearest_even", "stochastic"],
    "wgrad.b.rounding": ["nearest_even", "stochastic"], "dgrad.a.rounding": ["nearest_even", "stochastic"],
    "dgrad.b.rounding": ["nearest_even", "stochastic"], "fprop.a.rounding": ["nearest_even", "stochastic"],
    "fprop.b.rounding": ["nearest_even", "stochastic"], "fprop.hadamard.size": [0, 16, 32],
    "dgrad.hadamard.size": [0, 16, 32], "wgrad.hadamard.signs": ["none"]}})",
                               "grid");
  Planner planner(grid, simulator, {fp4::test::made_up_costs()});
  auto seconds = [start = std::chrono::steady_clock::now()]() mutable {
    const auto now = std::chrono::steady_clock::now();
    const double passed = std::chrono::duration<double>(now - start).count();
    start = now;
    return passed;
  };
  {
    Store store = Store::open(folder.path(), identity_of(simulator, grid, "0", "h"));
    SweepOptions options;
    options.engine.jobs = 2;
    const SweepOutcome outcome = run_sweep(planner, simulator, store, options);
    CHECK(outcome.complete);
    CHECK(outcome.progress.done > 92000);
    WARN("made and stored " << outcome.progress.done << " runs in " << seconds() << " s");
  }
  const Store store = Store::read(folder.path());
  const Results results(store, true);
  WARN("opened in " << seconds() << " s, " << std::filesystem::file_size(store.file()) / 1'000'000 << " MB");
  const Costs costs(results, fp4::test::made_up_costs());
  const ResultTable table = result_table(results, costs, {.where = {}, .sort = {}});
  const std::string csv = to_csv(table);
  CHECK(table.rows.size() == 2 * 2880 * 16);
  WARN("exported " << csv.size() / 1'000'000 << " MB of CSV in " << seconds() << " s");
  const std::vector<ContextFront> list = fronts(results, costs, {.delta = {}, .target = {}});
  CHECK(list.size() == 2);
  for (const ContextFront& front : list) {
    size_t on = 0;
    for (const FrontPoint& point : front.points) on += point.on_front;
    CHECK(on >= 4);
  }
  WARN("fronts in " << seconds() << " s");
  const std::vector<Effect> effects = attribute(results, Metric::loss, {});
  CHECK(effects.size() == 2 * (4 + 6 + 2 + 2));
  for (const Effect& effect : effects) {
    if (effect.axis == "wgrad.hadamard.size") CHECK(effect.comparison.summary.mean == Approx(-0.04).margin(0.002));
  }
  WARN("effects in " << seconds() << " s");
}
