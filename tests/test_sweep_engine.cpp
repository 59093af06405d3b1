// The engine on a made-up trainer: the same table whatever interrupted it, however many workers and shards; failures as
// rows; explorations that choose the same runs every time.
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <ctime>
#include <mutex>
#include <set>
#include <thread>

#include "sweeps/explore/sweep.h"
#include "sweeps/report/table.h"
#include "tests/support/made_up_training.h"
#include "tests/support/support.h"

namespace {
std::atomic<time_t> days_off{0};  // of the wall clock, as this program sees it
}

// Takes the place of the C library's for everything linked into this test.
extern "C" int clock_gettime(clockid_t clock, struct timespec* t) noexcept {
  const long failed = syscall(SYS_clock_gettime, clock, t);
  if (failed == 0 && clock == CLOCK_REALTIME) t->tv_sec += days_off * 86400;
  return static_cast<int>(failed);
}

using namespace fp4::sweeps;
using Catch::Matchers::Contains;
using fp4::test::MadeUp;
using fp4::test::TemporaryFolder;

namespace {

const Identity me = {.signature = "0123456789abcdef",
                     .train_signatures = {{"alpha", "fedcba9876543210"}, {"beta", "fedcba9876543210"}},
                     .version = "0",
                     .host = "h"};

const std::string small_grid =
    R"({"name": "small", "task": ["alpha", "beta"], "base": "mxfp4", "seeds": 3, "race": {"seeds": 10, "delta": 0.01},
  "axes": {"wgrad.hadamard.size": [0, 16, 32], "wgrad.*.rounding": ["nearest_even", "stochastic"],
           "wgrad.*.random_bits": [8, 16]}})";

SweepOutcome sweep(const std::filesystem::path& folder, const std::string& grid, const MadeUp& world,
                   SweepOptions options = {}, StoreMode mode = StoreMode::automatic) {
  const Simulator simulator = world.simulator();
  Planner planner(parse_grid(grid, "grid"), simulator, {fp4::test::made_up_costs()});
  Store store = Store::open(folder, me, mode);
  if (options.engine.jobs == 1) options.engine.jobs = 2;
  return run_sweep(planner, simulator, store, options);
}

// The table without `seconds`, as CSV.
std::string table_of(const std::filesystem::path& folder) {
  const Results results(Store::read(folder));
  ResultTable table =
      result_table(results, Costs(results, fp4::test::made_up_costs()), {.references = true, .where = {}, .sort = {}});
  const auto seconds = std::find(table.columns.begin(), table.columns.end(), "seconds") - table.columns.begin();
  for (auto& row : table.rows) row[static_cast<size_t>(seconds)] = {};
  return to_csv(table);
}

}  // namespace

TEST_CASE("interrupted, resumed, sharded, merged: one table", "[quick]") {
  const MadeUp world;
  TemporaryFolder whole;
  const SweepOutcome outcome = sweep(whole.path(), small_grid, world);
  CHECK(outcome.complete);
  const std::string expected = table_of(whole.path());
  CHECK(std::count(expected.begin(), expected.end(), '\n') > 100);

  SECTION("stopped after every few runs") {
    TemporaryFolder folder;
    int starts = 0;
    for (bool complete = false; !complete; ++starts) {
      SweepOptions options;
      options.engine.stop_after = 7;
      complete = sweep(folder.path(), small_grid, world, options).complete;
      REQUIRE(starts < 100);
    }
    CHECK(starts > 10);  // at most seven of more than a hundred runs each time
    CHECK(table_of(folder.path()) == expected);
  }
  SECTION("one worker, and the journal of network file systems") {
    TemporaryFolder folder;
    SweepOptions options;
    options.engine.jobs = 3;
    CHECK(sweep(folder.path(), small_grid, world, options, StoreMode::network).complete);
    CHECK(table_of(folder.path()) == expected);
  }
  SECTION("three shards, merged, then the stage that needs them all") {
    std::vector<std::unique_ptr<TemporaryFolder>> shards;
    for (size_t i = 1; i <= 3; ++i) {
      shards.push_back(std::make_unique<TemporaryFolder>());
      SweepOptions options;
      options.shard = i;
      options.shards = 3;
      const SweepOutcome part = sweep(shards.back()->path(), small_grid, world, options);
      CHECK_FALSE(part.complete);
      CHECK_THAT(part.waiting, Contains("race"));
    }
    TemporaryFolder merged;
    {
      Store store = Store::open(merged.path(), me);
      for (const auto& shard : shards) store.absorb(Store::read(shard->path()));
    }
    CHECK(sweep(merged.path(), small_grid, world).complete);
    CHECK(table_of(merged.path()) == expected);
  }
  SECTION("a second start finds nothing to do") {
    const SweepOutcome again = sweep(whole.path(), small_grid, world);
    CHECK(again.complete);
    CHECK(again.progress.done == 0);
    CHECK(again.present == again.wanted);
    TemporaryFolder fresh;  // later stages ask for runs of earlier ones again: neither here before nor two runs
    const SweepOutcome first = sweep(fresh.path(), small_grid, world);
    CHECK(first.present == 0);
    CHECK(first.wanted == first.progress.done);
    CHECK(again.wanted == first.wanted);
  }
}

TEST_CASE("more seeds and values run only what is missing", "[quick]") {
  TemporaryFolder folder;
  std::mutex mutex;
  std::multiset<std::string> trained;
  MadeUp world;
  world.before_run = [&](const Json& config, uint64_t seed) {
    const std::lock_guard lock(mutex);
    trained.insert(config.dump() + std::to_string(seed));
  };
  const auto grid = [](const std::string& seeds, const std::string& sizes) {
    return R"({"name": "g", "task": "alpha", "base": "mxfp4", "seeds": )" + seeds +
           R"(, "axes": {"wgrad.hadamard.size": )" + sizes + "}}";
  };
  sweep(folder.path(), grid("2", "[0, 16]"), world);
  CHECK(trained.size() == 2 * 4);  // two configurations, fp32, bf16
  sweep(folder.path(), grid("3", "[0, 16, 32]"), world);
  CHECK(trained.size() == 3 * 5);
  CHECK(std::set<std::string>(trained.begin(), trained.end()).size() == trained.size());
  sweep(folder.path(), grid("3", "[0]"), world);  // a value taken away: its runs stay in the store, not in the table
  CHECK(trained.size() == 3 * 5);
  CHECK(Store::read(folder.path()).runs().size() == 15);
  const std::string csv = table_of(folder.path());
  CHECK(std::count(csv.begin(), csv.end(), '\n') == 1 + 3 * 3);
}

TEST_CASE("a run that throws is a row, and the sweep goes on", "[quick]") {
  TemporaryFolder folder;
  MadeUp world;
  world.before_run = [](const Json& config, uint64_t seed) {
    if (config["recipe"]["wgrad"]["hadamard"]["size"] == 16 && seed == 2) throw std::runtime_error("no such luck");
  };
  const std::string grid =
      R"({"name": "g", "task": "alpha", "base": "mxfp4", "axes": {"wgrad.hadamard.size": [0, 16]}})";
  const SweepOutcome outcome = sweep(folder.path(), grid, world);
  CHECK(outcome.complete);
  CHECK(outcome.progress.failed == 1);
  CHECK_THAT(table_of(folder.path()), Contains("no such luck") && Contains(",failed,"));
  CHECK(sweep(folder.path(), grid, MadeUp{}).progress.done == 0);
  SweepOptions retry;
  retry.retry_failed = true;
  CHECK(sweep(folder.path(), grid, MadeUp{}, retry).progress.done == 1);
  CHECK_THAT(table_of(folder.path()), !Contains("failed"));
}

TEST_CASE("a digest that changed stops the sweep with an error, both rows kept", "[quick]") {
  TemporaryFolder folder;
  const std::string grid = R"({"name": "g", "task": "alpha", "base": "mxfp4", "seeds": 1})";
  sweep(folder.path(), grid, MadeUp{});
  TemporaryFolder other;
  MadeUp drifting;
  drifting.truth = [](const Json&) { return 5.0; };
  sweep(other.path(), grid, drifting);
  TemporaryFolder merged;
  {
    Store store = Store::open(merged.path(), me);
    store.absorb(Store::read(folder.path()));
    store.absorb(Store::read(other.path()));
  }
  CHECK(Store::read(merged.path()).conflicts().size() == 3);
  CHECK_THROWS_WITH(table_of(merged.path()), Contains("non-determinism"));
}

TEST_CASE("shards by number merge into the whole, and their stores say what is missing", "[quick]") {
  const std::string text =
      R"({"name": "small", "task": ["alpha", "beta"], "base": "mxfp4", "seeds": 3, "axes": {"train.lr": [1, 2, 3, 4, 5],
  "wgrad.hadamard.size": [0, 16, 32], "wgrad.*.rounding": ["nearest_even", "stochastic"]}})";
  const MadeUp world;
  const Simulator simulator = world.simulator();
  const Grid grid = parse_grid(text, "grid");
  TemporaryFolder whole, merged, shards[3];
  sweep(whole.path(), text, world);
  const auto run_part = [&](const std::filesystem::path& folder, size_t index, SweepOptions options = {}) {
    Planner planner(grid, simulator, {fp4::test::made_up_costs()}, {index, 3});
    Store store = Store::open(folder, me);
    options.engine.jobs = 2;
    return run_sweep(planner, simulator, store, options);
  };
  const auto gaps_of = [&](const std::vector<std::filesystem::path>& folders) {
    StoredPlan plan;
    std::vector<RunRecord> runs;
    for (const auto& folder : folders) {
      const Store store = Store::read(folder);
      plan.add(store);
      for (RunRecord& run : store.runs()) runs.push_back(std::move(run));
    }
    return find_gaps(grid, plan, runs);
  };
  SweepOptions few;
  few.engine.stop_after = 4;
  CHECK_FALSE(run_part(shards[0].path(), 1, few).complete);
  CHECK(gaps_of({shards[0].path()})[0].missing > 0);
  for (size_t i = 0; i < 3; ++i) CHECK(run_part(shards[i].path(), i + 1).complete);
  std::vector<Gap> gaps = gaps_of({shards[0].path(), shards[2].path()});
  REQUIRE(gaps.size() == 2);
  CHECK(gaps[0].missing == 0);
  CHECK_FALSE(gaps[1].reached);
  const std::vector<Gap> expected = gaps_of({whole.path()});
  gaps = gaps_of({shards[0].path(), shards[1].path(), shards[2].path()});
  for (const std::vector<Gap>& one : {expected, gaps}) {
    REQUIRE(one.size() == 1);
    CHECK(one[0].wanted == Store::read(whole.path()).runs().size());
    CHECK(one[0].missing == 0);
  }
  {
    Store store = Store::open(merged.path(), me);
    for (const TemporaryFolder& shard : shards) store.absorb(Store::read(shard.path()));
    store.absorb(Store::read(shards[1].path()));  // again changes nothing
  }
  CHECK(gaps_of({merged.path()}).size() == 1);
  CHECK(table_of(merged.path()) == table_of(whole.path()));
  CHECK(sweep(merged.path(), text, world).progress.done == 0);
  CHECK(table_of(merged.path()) == table_of(whole.path()));
  // Two shares in one folder, and a share of what is there whole.
  run_part(shards[0].path(), 2);
  CHECK(gaps_of({shards[0].path(), shards[2].path()}).size() == 1);
  run_part(whole.path(), 2);
  CHECK(gaps_of({whole.path()})[0].wanted == expected[0].wanted);
  // A share takes the place of another edition of the grid.
  CHECK(gaps_of({merged.path()})[0].wanted == expected[0].wanted);
}

TEST_CASE("what is missing of 50,000 configurations is counted in the store", "[quick]") {
  const Grid grid = parse_grid(R"({"name": "g", "task": "alpha", "base": "mxfp4", "seeds": 2})", "grid");
  std::vector<ConfigRecord> configs(50'000);
  std::vector<PointRecord> points(configs.size());
  for (size_t i = 0; i < configs.size(); ++i) {
    configs[i] = {.hash = "h" + std::to_string(i), .task = "alpha", .reference = "r", .config = std::string(200, '1')};
    points[i] = {configs[i].hash, {}};
  }
  TemporaryFolder folder;
  Store store = Store::open(folder.path(), me);
  store.put_plan({}, configs, points, {{"grid", grid.source.dump()}});
  const std::clock_t before = std::clock();
  StoredPlan plan;
  plan.add(store);
  const std::vector<Gap> gaps = find_gaps(grid, plan, store.runs());
  CHECK(static_cast<double>(std::clock() - before) / CLOCKS_PER_SEC < 2);
  CHECK(gaps.at(0).missing == 100'000);
}

TEST_CASE("a full disk stops the sweep clearly; room again, and it ends as if nothing had been", "[quick]") {
  const MadeUp world;
  TemporaryFolder whole, folder;
  sweep(whole.path(), small_grid, world);
  size_t kept = 0;
  {
    const Simulator simulator = world.simulator();
    Planner planner(parse_grid(small_grid, "grid"), simulator, {fp4::test::made_up_costs()});
    Store store = Store::open(folder.path(), me);
    store.limit_pages(24);
    CHECK_THROWS_WITH(run_sweep(planner, simulator, store, {}), Contains("disk is full"));
    kept = store.runs().size();
  }
  CHECK(kept > 0);
  CHECK(sweep(folder.path(), small_grid, world).complete);
  CHECK(table_of(folder.path()) == table_of(whole.path()));
}

TEST_CASE("of results that a full disk does not take together those that fit are kept", "[quick]") {
  // After the first commit, of one result or a few, the workers hand in ten more, which then are one batch. The store
  // may not grow: its pages have room for some of them.
  std::atomic<size_t> begun = 0;
  size_t first = 0;
  MadeUp world;
  world.before_run = [&](const Json&, uint64_t) { ++begun; };
  const Simulator simulator = world.simulator();
  Planner planner(parse_grid(small_grid, "grid"), simulator, {fp4::test::made_up_costs()});
  TemporaryFolder folder;
  Store store = Store::open(folder.path(), me);
  SweepOptions options;
  options.engine.jobs = 2;
  options.engine.progress = [&](const Progress&) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    if (first == 0) first = store.runs().size();
    while (begun < first + 11 && std::chrono::steady_clock::now() < end) std::this_thread::yield();
    store.limit_pages(1);  // no further page
  };
  CHECK_THROWS_WITH(run_sweep(planner, simulator, store, options), Contains("disk is full"));
  CHECK(begun >= first + 11);
  CHECK(store.runs().size() > first + 2);  // more than the two that the workers may hand in after the batch
  CHECK(store.runs().size() < first + 10);
}

TEST_CASE("a wall clock that jumps by years changes nothing", "[quick]") {
  MadeUp world;
  TemporaryFolder steady;
  sweep(steady.path(), small_grid, world);
  std::atomic<int> runs{0};
  std::atomic<bool> jumped{false};
  world.before_run = [&](const Json&, uint64_t) {
    const auto before = std::chrono::system_clock::now();
    days_off = runs++ % 2 == 0 ? 800 : -800;
    const auto moved = std::chrono::system_clock::now() - before;
    if (moved > std::chrono::hours(24) || moved < -std::chrono::hours(24)) jumped = true;
  };
  TemporaryFolder folder;
  SweepOptions options;
  options.engine.stop_after = 40;
  CHECK_FALSE(sweep(folder.path(), small_grid, world, options).complete);
  const SweepOutcome outcome = sweep(folder.path(), small_grid, world);
  days_off = 0;
  REQUIRE(jumped);
  CHECK(outcome.complete);
  CHECK(table_of(folder.path()) == table_of(steady.path()));
  for (const RunRecord& run : Store::read(folder.path()).runs()) {
    CHECK(run.seconds >= 0);
    CHECK(run.seconds < 60);
  }
}

TEST_CASE("another grid's folder is refused", "[quick]") {
  TemporaryFolder folder;
  sweep(folder.path(), R"({"name": "one", "task": "alpha", "base": "mxfp4"})", MadeUp{});
  CHECK_THROWS_WITH(sweep(folder.path(), R"({"name": "two", "task": "alpha", "base": "mxfp4"})", MadeUp{}),
                    Contains("holds the sweep 'one'"));
}

TEST_CASE("largest first, references before equals, shards of equal load", "[quick]") {
  const ConfigRecord small{.hash = "s", .static_cost = 1}, large{.hash = "l", .static_cost = 9};
  const ConfigRecord reference{.hash = "r", .static_cost = 9};
  std::vector<Job> jobs = {
      {&small, 1, Role::run}, {&large, 2, Role::run}, {&large, 1, Role::run}, {&reference, 1, Role::reference}};
  sort_jobs(jobs);
  CHECK(jobs[0].config == &reference);
  CHECK((jobs[1].config == &large && jobs[1].seed == 1));
  CHECK(jobs[3].config == &small);
  CHECK(shard_of(jobs, 1, 3).size() == 2);
  CHECK(shard_of(jobs, 1, 3)[1].config == &small);
  CHECK(shard_of(jobs, 3, 3).size() == 1);
}

TEST_CASE("memory stays bounded: no more results wait than the queue holds", "[quick]") {
  // The writer is made slow by a progress callback; workers must wait instead of piling up results.
  std::atomic<int> running = 0;
  std::atomic<int> most = 0;
  std::atomic<int> written = 0;
  MadeUp world;
  world.before_run = [&](const Json&, uint64_t) {
    const int ahead = ++running - written;
    for (int seen = most; ahead > seen && !most.compare_exchange_weak(seen, ahead);) {
    }
  };
  SweepOptions options;
  options.engine.jobs = 2;
  options.engine.progress = [&](const Progress&) {
    ++written;
    for (int i = 0; i < 20; ++i) std::this_thread::yield();
  };
  TemporaryFolder folder;
  sweep(folder.path(), R"({"name": "g", "task": "beta", "base": "mxfp4", "seeds": 400})", world, options);
  CHECK(written == 1200);
  CHECK(most <= 2 * 16 + 64 + 2 + 1);  // queue, batch, workers
}
