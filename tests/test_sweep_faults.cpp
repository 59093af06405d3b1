// What a machine does to a sweep: memory and threads that are not given, a store that is taken away. None of it becomes
// a result, and the same command afterwards ends where an undisturbed one does.
#include <dlfcn.h>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <cerrno>
#include <filesystem>
#include <new>
#include <system_error>

#include "sweeps/engine/store_files.h"
#include "sweeps/explore/sweep.h"
#include "tests/support/made_up_training.h"
#include "tests/support/support.h"

namespace {
std::atomic<int> threads_left{1 << 30};  // that this program may still start
}

// Takes the place of the C library's for everything linked into this test.
extern "C" int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*start)(void*), void* data) {
  if (threads_left.fetch_sub(1) <= 0) return EAGAIN;
  using Create = int (*)(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*);
  // A sanitizer counts threads in its own one.
  static void* const counting = dlsym(RTLD_DEFAULT, "__interceptor_pthread_create");
  static const auto create =
      reinterpret_cast<Create>(counting != nullptr ? counting : dlsym(RTLD_NEXT, "pthread_create"));
  return create(thread, attributes, start, data);
}

using namespace fp4::sweeps;
using Catch::Matchers::Contains;
using fp4::test::MadeUp;
using fp4::test::TemporaryFolder;
namespace fs = std::filesystem;

namespace {

const std::string grid =
    R"({"name": "g", "task": "alpha", "base": "mxfp4", "seeds": 5, "axes": {"wgrad.hadamard.size": [0, 16, 32]}})";

SweepOutcome sweep(const fs::path& folder, const MadeUp& world, SweepOptions options = {},
                   StoreMode mode = StoreMode::automatic, int jobs = 3) {
  const Simulator simulator = world.simulator();
  Planner planner(parse_grid(grid, "grid"), simulator, {fp4::test::made_up_costs()});
  Store store = Store::open(folder, identity_of(simulator, planner.grid(), "0", "h"), mode);
  options.engine.jobs = jobs;
  const SweepOutcome outcome = run_sweep(planner, simulator, store, options);
  store.finish();
  return outcome;
}

std::string message_of(auto&& action) {
  try {
    action();
  } catch (const fp4::Error& error) {
    CHECK(error.kind == fp4::Error::failed);
    return error.what();
  }
  return "no error";
}

}  // namespace

TEST_CASE("memory, threads and files that are missing once are tried again, and never become rows", "[quick]") {
  for (int kind = 0; kind < 3; ++kind) {
    const auto fault = [kind] {
      if (kind == 0) throw std::bad_alloc();
      if (kind == 1) throw std::system_error(EAGAIN, std::generic_category(), "thread");
      throw fp4::Error("text.txt: cannot be read", fp4::Error::failed);
    };
    const TemporaryFolder folder;
    MadeUp world;
    std::atomic<int> runs{0};
    world.before_run = [&](const Json&, uint64_t) {
      if (runs++ == 4) fault();
    };
    const SweepOutcome outcome = sweep(folder.path(), world);
    CHECK(outcome.complete);
    CHECK(outcome.failed == 0);
    CHECK(runs == 26);  // 25 and one again

    // A run that the machine always fails ends the sweep.
    const TemporaryFolder other;
    world.before_run = [&](const Json& config, uint64_t seed) {
      if (config["recipe"]["wgrad"]["hadamard"]["size"] == 16 && seed == 3) fault();
    };
    CHECK_THAT(message_of([&] { sweep(other.path(), world); }),
               Contains("could not be run") && Contains("seed 3") && Contains("same command"));
    const std::vector<RunRecord> kept = Store::read(other.path()).runs();
    CHECK(kept.size() < 25);
    for (const RunRecord& run : kept) CHECK(run.status == Status::finished);
    CHECK(sweep(other.path(), MadeUp{}).complete);
    CHECK(Store::read(other.path()).runs().size() == 25);
  }
}

TEST_CASE("a run that fails by itself is a row that counts as missing", "[quick]") {
  const TemporaryFolder folder;
  MadeUp world;
  world.before_run = [](const Json& config, uint64_t seed) {
    if (config["recipe"]["wgrad"]["hadamard"]["size"] == 16 && seed == 3) throw fp4::Error("bad word");
  };
  CHECK(sweep(folder.path(), world).failed == 1);
  CHECK(sweep(folder.path(), MadeUp{}).failed == 1);  // not tried again unless asked
  const Simulator simulator = world.simulator();
  Planner planner(parse_grid(grid, "grid"), simulator, {fp4::test::made_up_costs()});
  const std::vector<Gap> gaps = find_gaps(planner, Store::read(folder.path()).runs());
  REQUIRE(gaps.size() == 1);
  CHECK(gaps[0].wanted == 25);
  CHECK(gaps[0].missing == 1);
  CHECK(gaps[0].failed == 1);
  SweepOptions retry;
  retry.retry_failed = true;
  CHECK(sweep(folder.path(), MadeUp{}, retry).failed == 0);
}

TEST_CASE("without further threads a sweep is slower, not wrong", "[quick]") {
  const TemporaryFolder before;  // the pool has its threads; what is refused are more
  REQUIRE(sweep(before.path(), MadeUp{}).complete);
  for (const int given : {0, 1}) {
    const TemporaryFolder folder;
    threads_left = given;
    const SweepOutcome outcome = sweep(folder.path(), MadeUp{}, {}, StoreMode::automatic, 9);
    const bool refused = threads_left < 0;
    threads_left = 1 << 30;
    CHECK(refused);
    CHECK(outcome.complete);
    CHECK(outcome.progress.done == 25);
  }
}

TEST_CASE("a store, journal or folder that is taken away is noticed at the next commit", "[quick]") {
  for (const StoreMode mode : {StoreMode::local, StoreMode::network}) {
    for (const std::string what : {"sweep.sqlite", "sweep.sqlite-wal", "", "moved", "replaced"}) {
      if (mode == StoreMode::network && what == "sweep.sqlite-wal") continue;
      const TemporaryFolder folder;
      const fs::path out = folder.path() / "out";
      MadeUp world;
      std::atomic<int> runs{0};
      world.before_run = [&](const Json&, uint64_t) {
        if (runs++ != 10) return;
        if (what == "moved") return fs::rename(out, folder.path() / "elsewhere");
        if (what != "replaced") return static_cast<void>(fs::remove_all(what.empty() ? out : out / what));
        fs::remove_all(out);
        const Simulator simulator = world.simulator();
        Store::open(out, identity_of(simulator, parse_grid(grid, "grid"), "0", "h"), mode);
      };
      INFO("'" << what << "' " << static_cast<int>(mode));
      CHECK_THAT(message_of([&] { sweep(out, world, {}, mode, 1); }), Contains("deleted, moved or replaced"));
      CHECK(runs == 11);
      if (what == "replaced") CHECK(check_store(out).damage.empty());  // the other store is left alone
      fs::remove_all(out);
      CHECK(sweep(out, MadeUp{}, {}, mode).complete);
    }
  }
}

TEST_CASE("leftovers beside a store do not block it, what is no file is named", "[quick]") {
  const TemporaryFolder folder;
  sweep(folder.path(), MadeUp{});
  fs::create_directory(folder.path() / "sweep.sqlite-shm");  // nothing that SQLite could open
  CHECK_THROWS_WITH(sweep(folder.path(), MadeUp{}), Contains("sweep.sqlite-shm: is not a regular file"));
  fs::remove(folder.path() / "sweep.sqlite-shm");
  fp4::test::write_text(folder / "sweep.sqlite-shm", std::string(32768, 'x'));
  fp4::test::write_text(folder / "sweep.sqlite-wal", std::string(5000, 'x'));
  CHECK(sweep(folder.path(), MadeUp{}).complete);
  CHECK(Store::read(folder.path()).runs().size() == 25);
  fs::create_directory(folder.path() / "sweep.sqlite-wal");
  CHECK_THROWS_WITH(sweep(folder.path(), MadeUp{}), Contains("sweep.sqlite-wal: is not a regular file"));
}

TEST_CASE("the one file of a finished sweep is the whole sweep, though others were reading", "[quick]") {
  const TemporaryFolder folder, copy;
  const MadeUp world;
  const Simulator simulator = world.simulator();
  Planner planner(parse_grid(grid, "grid"), simulator, {fp4::test::made_up_costs()});
  Store store = Store::open(folder.path(), identity_of(simulator, planner.grid(), "0", "h"));
  const Store reader = Store::read(folder.path());  // open until the end
  CHECK(run_sweep(planner, simulator, store, {}).complete);
  store.finish();
  fs::copy_file(folder.path() / "sweep.sqlite", copy.path() / "sweep.sqlite");
  CHECK(Store::read(copy.path()).runs().size() == 25);
  CHECK(reader.runs().size() == 25);
}
