// The store: nothing committed is lost, one row per key, conflicts are kept and reported, foreign and damaged files are
// refused with a sentence that helps.
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cmath>
#include <csignal>
#include <fstream>

#include "src/text/error.h"
#include "sweeps/engine/store.h"
#include "sweeps/engine/store_files.h"
#include "tests/support/support.h"

using namespace fp4::sweeps;
using Catch::Matchers::Contains;

namespace {

const Identity me = {.signature = "s1", .train_signatures = {{"task", "t1"}}, .version = "0", .host = "here"};

RunRecord run(const std::string& hash, uint64_t seed, const std::string& digest = "d") {
  RunRecord record{.hash = hash,
                   .seed = seed,
                   .task = "task",
                   .message = {},
                   .loss = 0.1 + 0.2,
                   .loss_hp = {},
                   .metrics = {{"m", 1.5}},
                   .digest = digest,
                   .seconds = 2,
                   .backend = "reference",
                   .curve = {}};
  record.curve = {{0, 10}, {2.5, 1.25}, {std::nan(""), 1.5}};
  return record;
}

void insert(Store& store, const RunRecord& record) { store.insert(std::vector<RunRecord>{record}); }

std::string message_of(auto&& action) {
  try {
    action();
  } catch (const fp4::Error& error) {
    return error.what();
  }
  return "no error";
}

}  // namespace

TEST_CASE("a run comes back as it went in, both journal modes", "[quick]") {
  for (const StoreMode mode : {StoreMode::local, StoreMode::network}) {
    fp4::test::TemporaryFolder folder;
    {
      Store store = Store::open(folder.path(), me, mode);
      insert(store, run("b", 2));
      insert(store, run("a", 1));
      insert(store, run("a", 1));  // equal again: ignored
    }
    const Store store = Store::read(folder.path());
    const std::vector<RunRecord> runs = store.runs(true);
    REQUIRE(runs.size() == 2);
    CHECK(runs[0].hash == "a");
    CHECK(*runs[0].loss == 0.1 + 0.2);  // every bit
    CHECK_FALSE(runs[0].loss_hp);
    CHECK(runs[0].metrics == std::vector<std::pair<std::string, double>>{{"m", 1.5}});
    CHECK(runs[0].curve.step == std::vector<double>{0, 10});
    CHECK(std::isnan(runs[0].curve.validation_loss[0]));
    CHECK(runs[0].curve.validation_loss[1] == 1.5);
    CHECK(store.identity().signature == "s1");
    CHECK_FALSE(std::filesystem::exists(folder / "sweep.sqlite-wal"));  // a closed store is one file
    CHECK_FALSE(std::filesystem::exists(folder / "sweep.lock"));
  }
}

TEST_CASE("another digest under the same key is an error and both rows stay", "[quick]") {
  fp4::test::TemporaryFolder folder;
  Store store = Store::open(folder.path(), me);
  insert(store, run("a", 1, "first"));
  CHECK_THAT(message_of([&] { insert(store, run("a", 1, "second")); }), Contains("non-determinism"));
  CHECK(store.runs().size() == 2);
  REQUIRE(store.conflicts().size() == 1);
  CHECK(store.conflicts()[0].digests == "first,second");
  insert(store, run("a", 2, "second"));  // another seed is another key
  CHECK(store.conflicts().size() == 1);
}

TEST_CASE("another signature is another key", "[quick]") {
  fp4::test::TemporaryFolder folder;
  {
    Store first = Store::open(folder.path(), me);
    insert(first, run("a", 1, "old"));
  }
  Identity next = me;
  next.signature = "s2";
  Store store = Store::open(folder.path(), next);
  insert(store, run("a", 1, "new"));
  CHECK(store.conflicts().empty());
  REQUIRE(store.runs().size() == 1);
  CHECK(store.runs()[0].digest == "new");
  CHECK(store.runs_of_other_signatures() == 1);
}

TEST_CASE("a success replaces a failure, never the other way", "[quick]") {
  fp4::test::TemporaryFolder folder;
  Store store = Store::open(folder.path(), me);
  RunRecord failed = run("a", 1, "");
  failed.status = Status::failed;
  failed.message = "out of memory";
  insert(store, failed);
  CHECK(store.runs()[0].message == "out of memory");
  insert(store, run("a", 1));
  REQUIRE(store.runs().size() == 1);
  CHECK(store.runs()[0].status == Status::finished);
  insert(store, failed);
  REQUIRE(store.runs().size() == 1);
  CHECK(store.runs()[0].status == Status::finished);
}

TEST_CASE("one writer at a time, readers beside it", "[quick]") {
  for (const StoreMode mode : {StoreMode::local, StoreMode::network}) {
    fp4::test::TemporaryFolder folder;
    Store store = Store::open(folder.path(), me, mode);
    insert(store, run("a", 1));
    CHECK_THAT(message_of([&] { Store::open(folder.path(), me, mode); }), Contains("another sweep is writing here"));
    CHECK(Store::read(folder.path()).runs().size() == 1);
    insert(store, run("a", 2));
    CHECK(Store::read(folder.path()).runs().size() == 2);
  }
}

TEST_CASE("kill -9 between two commits loses nothing", "[quick]") {
  for (const StoreMode mode : {StoreMode::local, StoreMode::network}) {
    fp4::test::TemporaryFolder folder;
    const pid_t child = ::fork();
    if (child == 0) {
      Store store = Store::open(folder.path(), me, mode);
      for (uint64_t seed = 1; seed <= 50; ++seed) insert(store, run("a", seed));
      ::kill(::getpid(), SIGKILL);
    }
    int status = 0;
    REQUIRE(::waitpid(child, &status, 0) == child);
    REQUIRE(WIFSIGNALED(status));
    CHECK(Store::read(folder.path()).runs().size() == 50);
    Store store = Store::open(folder.path(), me, mode);  // the dead process's lock is gone with it
    CHECK(store.runs().size() == 50);
  }
}

TEST_CASE("a full disk ends in a clear sentence and keeps what was committed", "[quick]") {
  fp4::test::TemporaryFolder folder;
  uint64_t kept = 0;
  {
    Store store = Store::open(folder.path(), me);
    store.limit_pages(40);
    const std::string message = message_of([&] {
      for (uint64_t seed = 1; seed < 5000; ++seed) {
        insert(store, run("a", seed));
        kept = seed;
      }
    });
    CHECK_THAT(message, Contains("disk is full"));
  }
  CHECK(kept > 100);
  CHECK(Store::read(folder.path()).runs().size() == kept);
  Store store = Store::open(folder.path(), me);  // room again: it goes on
  insert(store, run("a", kept + 1));
  CHECK(store.runs().size() == kept + 1);
}

TEST_CASE("foreign, damaged and newer files are refused", "[quick]") {
  fp4::test::TemporaryFolder folder;
  {
    Store store = Store::open(folder.path(), me);
    for (uint64_t s = 1; s < 400; ++s) insert(store, run("a", s));
  }
  const std::string sound = fp4::test::read_text(folder / "sweep.sqlite");
  const auto refuse = [&](const std::string& bytes, const std::string& sentence) {
    fp4::test::write_text(folder / "sweep.sqlite", bytes);
    CHECK_THAT(message_of([&] { Store::read(folder.path()); }), Contains(sentence));
    CHECK_THAT(message_of([&] { Store::open(folder.path(), me); }), Contains(sentence));
    const bool untouched = fp4::test::read_text(folder / "sweep.sqlite") == bytes;
    CHECK(untouched);
  };
  refuse("this is a letter, not a database; it is long enough to hold a header of one hundred bytes, as it should be",
         "not a sound store");
  std::string cut = sound.substr(0, sound.size() / 2);
  refuse(cut, "sound store");
  std::string scribbled = sound;
  for (size_t i = 3 * 4096; i < 9 * 4096; ++i) scribbled[i] = static_cast<char>(i * 31);
  refuse(scribbled, "damaged");
  std::string newer = sound;
  newer[63] = 9;  // user_version, big-endian at offset 60
  refuse(newer, "schema 9");
  std::string foreign = sound;
  foreign[68] = 0;  // application id, offset 68
  refuse(foreign, "not a sweep store");
}

TEST_CASE("absorbing stores keeps one row per key and finds conflicts", "[quick]") {
  fp4::test::TemporaryFolder one, two, all;
  RunRecord failed = run("c", 1, "");
  failed.status = Status::failed;
  {
    Store store = Store::open(one.path(), me);
    store.set_meta("name", "g");
    insert(store, run("a", 1));
    RunRecord reference = run("b", 1);
    reference.role = Role::reference;
    insert(store, reference);
    insert(store, failed);
  }
  {
    Store store = Store::open(two.path(), me);
    store.set_meta("name", "g");
    insert(store, run("b", 1));
    insert(store, run("b", 2));
    insert(store, run("c", 1));
  }
  Store merged = Store::open(all.path(), me);
  merged.absorb(Store::read(one.path()));
  merged.absorb(Store::read(two.path()));
  merged.absorb(Store::read(one.path()));  // again: nothing changes
  const std::vector<RunRecord> runs = merged.runs(true);
  REQUIRE(runs.size() == 4);
  CHECK(runs[1].role == Role::run);  // the reference of one store is a row of the other
  CHECK(runs[3].status == Status::finished);
  CHECK(runs[3].curve.step.size() == 2);
  CHECK(merged.conflicts().empty());
  {
    Store store = Store::open(one.path(), me);
    store.insert(std::vector<RunRecord>{run("b", 2, "other")});
  }
  merged.absorb(Store::read(one.path()));
  CHECK(merged.conflicts().size() == 1);
  CHECK(merged.runs().size() == 5);
  fp4::test::TemporaryFolder foreign;
  {
    Store store = Store::open(foreign.path(), me);
    store.set_meta("name", "h");
  }
  CHECK_THAT(message_of([&] { merged.absorb(Store::read(foreign.path())); }), Contains("of the sweep 'h'"));
  fp4::test::TemporaryFolder earlier;
  {
    Identity other = me;
    other.signature = "s0";
    Store store = Store::open(earlier.path(), other);
    store.set_meta("name", "g");
    insert(store, run("a", 3));
  }
  CHECK_THAT(message_of([&] { merged.absorb(Store::read(earlier.path())); }), Contains("another signature"));
  CHECK(merged.runs().size() == 5);
}

TEST_CASE("a store left by a killed writer is read from a read-only folder", "[quick]") {
  fp4::test::TemporaryFolder folder;
  const pid_t child = ::fork();
  if (child == 0) {
    Store store = Store::open(folder.path(), me);
    for (uint64_t seed = 1; seed <= 9; ++seed) insert(store, run("a", seed));
    ::kill(::getpid(), SIGKILL);
  }
  ::waitpid(child, nullptr, 0);
  REQUIRE(std::filesystem::exists(folder / "sweep.sqlite-wal"));
  const Snapshot snapshot(folder.path() / "sweep.sqlite");
  CHECK(std::filesystem::exists(snapshot.file() + "-wal"));
  CHECK(Store::read(std::filesystem::path(snapshot.file()).parent_path()).runs().size() == 9);
}
