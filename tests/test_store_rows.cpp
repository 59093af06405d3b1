// Hashes of rows: no flipped bit of a store is believed; a store of schema 1 opens with the right train signatures.
#include <sqlite3.h>

#include <catch2/catch.hpp>
#include <chrono>
#include <random>
#include <set>

#include "src/text/error.h"
#include "sweeps/engine/store.h"
#include "sweeps/judge/results.h"
#include "tasks/run.h"
#include "tests/fuzz_store.h"
#include "tests/support/made_up_training.h"
#include "tests/support/support.h"

using namespace fp4::sweeps;
using Catch::Matchers::Contains;
using fp4::test::TemporaryFolder;

namespace {

const Identity me = {.signature = "s1", .train_signatures = {{"alpha", "t1"}}, .version = "0", .host = "here"};

void execute(const std::filesystem::path& file, const std::string& sql) {
  sqlite3* database = nullptr;
  REQUIRE(sqlite3_open(file.c_str(), &database) == SQLITE_OK);
  char* message = nullptr;
  const int code = sqlite3_exec(database, sql.c_str(), nullptr, nullptr, &message);
  INFO((message == nullptr ? "" : message));
  CHECK(code == SQLITE_OK);
  sqlite3_close(database);
}

std::string message_of(auto&& action) {
  try {
    action();
  } catch (const fp4::Error& error) {
    return error.what();
  }
  return "no error";
}

// A plan of two points and eight runs with curves: every table has rows.
void fill(const std::filesystem::path& folder) {
  Store store = Store::open(folder, me);
  store.set_meta("name", "small");
  store.set_meta("grid", R"({"name": "small", "task": "alpha", "axes": {"train.steps": [1, 2]}})");
  const std::vector<ConfigRecord> configs = {
      {.hash = "c1", .task = "alpha", .reference = "r", .recipe = "mxfp4", .config = R"({"a": 1})"},
      {.hash = "c2", .task = "alpha", .reference = "r", .recipe = "mxfp4", .config = R"({"a": 2})"}};
  const std::vector<PointRecord> points = {{"c1", {"1"}}, {"c2", {"2"}}};
  store.put_plan({"train.steps"}, configs, points);
  std::vector<RunRecord> runs;
  for (uint64_t seed = 1; seed <= 4; ++seed) {
    for (const char* hash : {"c1", "c2"}) {
      RunRecord run{.hash = hash, .seed = seed, .task = "alpha", .digest = "d" + std::to_string(seed)};
      run.loss = 0.5 + static_cast<double>(seed);
      run.metrics = {{"accuracy", 0.75}};
      run.curve = {{1, 2}, {3.5, 3.25}, {3.75, 3.125}};
      runs.push_back(run);
    }
  }
  store.insert(runs);
}

// All that a reader can learn from a store, as one text.
std::string content_of(const std::filesystem::path& folder) {
  const Store store = Store::read(folder);
  std::string text = store.identity().signature + "|" + Json(store.identity().train_signatures).dump();
  for (const char* key : {"name", "grid"}) text += "|" + store.meta(key);
  text += "|" + Json(store.axes()).dump();
  for (const ConfigRecord& c : store.configs()) {
    text += "|" + c.hash + c.task + c.reference + c.recipe + c.config + std::to_string(c.static_cost);
  }
  for (const PointRecord& p : store.points()) text += "|" + p.hash + Json(p.labels).dump();
  for (const RunRecord& r : store.runs(true)) {
    text += "|" + r.hash + std::to_string(r.seed) + std::string(word(r.role)) + std::string(word(r.status)) +
            r.message + std::to_string(r.loss.value_or(-1)) + r.digest + std::to_string(r.seconds) + r.backend +
            Json(r.metrics).dump() + Json(r.curve.step).dump() + Json(r.curve.train_loss).dump();
  }
  return text;
}

}  // namespace

TEST_CASE("no flipped bit of a store is silent", "[quick]") {
  const TemporaryFolder folder;
  fill(folder.path());
  const std::string sound = fp4::test::read_text(folder / "sweep.sqlite");
  const std::string content = content_of(folder.path());
  const size_t bits = sound.size() * 8;
  std::mt19937 engine(5);
  size_t refused = 0, harmless = 0;
  for (int i = 0; i < 600; ++i) {
    std::string flipped = sound;
    // Three of four in bytes that are not 0: most zeros are unused space.
    size_t bit = engine() % bits;
    while (i % 4 != 0 && sound[bit / 8] == 0) bit = engine() % bits;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << bit % 8));
    fp4::test::write_text(folder / "sweep.sqlite", flipped);
    INFO("byte " << bit / 8 << " bit " << bit % 8);
    try {
      const std::string read = content_of(folder.path());
      REQUIRE(read == content);  // unused space
      ++harmless;
    } catch (const fp4::Error& error) {
      REQUIRE(error.kind == fp4::Error::failed);
      REQUIRE_THAT(error.what(), Contains("sweep.sqlite"));
      ++refused;
    }
  }
  CHECK(refused > 100);
  CHECK(harmless > 0);
}

TEST_CASE("a changed run, configuration, point or word is named, dropped, and made again", "[quick]") {
  const TemporaryFolder folder;
  fill(folder.path());
  const std::string file = folder / "sweep.sqlite";
  CHECK(check_store(folder.path()).damage.empty());
  // A seed that another program changes, its index with it.
  execute(file, "UPDATE runs SET seed=90 WHERE hash='c2' AND seed=3");
  CHECK(check_store(folder.path()).damage.size() == 1);
  execute(file, "UPDATE runs SET seed=3 WHERE hash='c2' AND seed=90");
  CHECK(check_store(folder.path()).damage.empty());
  execute(file, "UPDATE runs SET loss=0.25 WHERE hash='c2' AND seed=3");
  CHECK_THAT(message_of([&] { Store::read(folder.path()).runs(); }),
             Contains(file) && Contains("damaged") && Contains("configuration c2, seed 3"));
  // An update of the row must not make it believable.
  { Store::open(folder.path(), me).raise_role("c2", 3, Role::run); }
  StoreCheck check = check_store(folder.path());
  REQUIRE(check.damage.size() == 1);
  CHECK_THAT(check.damage[0], Contains("runs") && Contains("c2, seed 3"));
  TemporaryFolder merged;
  Store result = Store::open(merged.path(), me);
  CHECK_THAT(message_of([&] { result.absorb(Store::read(folder.path())); }), Contains("damaged"));
  CHECK(result.runs().empty());

  execute(file, "UPDATE configs SET task='beta' WHERE hash='c1'; UPDATE points SET labels='[\"3\"]' WHERE hash='c1'");
  execute(file, "UPDATE meta SET value='another' WHERE key='name'");
  const auto refused = [&](auto&& read) { return message_of([&] { read(Store::read(folder.path())); }); };
  CHECK_THAT(refused([](const Store& store) { store.configs(); }), Contains("configuration c1"));
  CHECK_THAT(refused([](const Store& store) { store.points(); }), Contains("point 1"));
  CHECK_THAT(refused([](const Store& store) { store.meta("name"); }), Contains("'name'"));
  CHECK(check_store(folder.path()).damage.size() == 4);
  CHECK(drop_damaged_rows(folder.path()) == 4);
  CHECK(check_store(folder.path()).damage.empty());
  CHECK(Store::read(folder.path()).runs().size() == 7);
  CHECK_THAT(message_of([&] { Store::read(folder.path()).points(); }), Contains("1 rows in table points, not 2"));
}

TEST_CASE("labels that are too few and curves of different lengths are errors", "[quick]") {
  const TemporaryFolder folder;
  {
    Store store = Store::open(folder.path(), me);
    store.set_meta("grid", R"({"name": "small", "task": "alpha"})");
    const std::vector<PointRecord> points = {{"c1", {"1"}}};
    store.put_plan({"one", "two"}, {}, points);
    RunRecord run{.hash = "c1", .seed = 1, .task = "alpha", .digest = "d"};
    run.curve = {{1, 2, 3}, {1}, {}};
    store.insert({&run, 1});
  }
  const Store store = Store::read(folder.path());
  CHECK_THAT(message_of([&] { store.points(); }), Contains("point 1") && Contains("2 axes"));
  CHECK_THAT(message_of([&] { store.runs(true); }), Contains("configuration c1, seed 1") && Contains("curve"));
  CHECK_THAT(message_of([&] { const Results results(store); }), Contains("2 axes"));
}

TEST_CASE("a store of schema 1 opens, read only and for writing, with the signature of each task", "[train]") {
  const TemporaryFolder folder;
  execute(folder / "sweep.sqlite", fp4::test::read_text("tests/golden/store_schema_1.sql"));
  const std::string before = fp4::test::read_text(folder / "sweep.sqlite");
  const auto check = [&](const Store& store) {
    CHECK(store.identity().signature == "f7097f7a1a6b740b");
    CHECK(store.identity().train_signatures.size() == 4);
    const std::vector<RunRecord> runs = store.runs(true);
    REQUIRE(runs.size() == 4);  // of six: two have no configuration in the plan
    CHECK(runs[0].hash == "2ebfcd63decceb1f");
    CHECK(runs[0].task == "lm");
    CHECK(*runs[0].loss == 4.9129520654678345);
    CHECK(runs[0].digest == "3d99243dd97a8804");
    CHECK(runs[0].curve.train_loss.size() == 2);
    CHECK(store.points().size() == 2);
    CHECK(store.runs_of_other_signatures() == 2);
  };
  check(Store::read(folder.path()));
  const bool untouched = fp4::test::read_text(folder / "sweep.sqlite") == before;
  CHECK(untouched);
  CHECK(check_store(folder.path()).damage.empty());

  // A program whose classifier trains as that of the one that wrote the store did, whatever became of the other tasks.
  const Identity now = {
      .signature = "f7097f7a1a6b740b",
      .train_signatures = {{"classifier", "03f480183543fcb5"}, {"lm", "0000000000000000"}},  // another lm
      .version = "1",
      .host = "there"};
  Store store = Store::open(folder.path(), now);
  CHECK(store.runs().size() == 2);
  // The axis value comes back: its run is known again, though schema 1 did not say of which task it was.
  std::vector<ConfigRecord> configs = store.configs();
  configs.push_back({.hash = "b437e3036dea8ca4", .task = "classifier", .reference = "", .recipe = "", .config = "{}"});
  CHECK(store.put_plan(store.axes(), configs, store.points()) == 1);
  CHECK(store.runs().size() == 3);
  CHECK(store.put_plan(store.axes(), configs, store.points()) == 0);
}

TEST_CASE("a task that changes leaves the runs of the others valid", "[quick]") {
  const TemporaryFolder folder;
  RunRecord run{.hash = "a", .seed = 1, .task = "classifier", .digest = "d"};
  Identity identity = {
      .signature = "s", .train_signatures = {{"classifier", "c1"}, {"lm", "l1"}}, .version = "0", .host = "h"};
  {
    Store store = Store::open(folder.path(), identity);
    store.insert({&run, 1});
    run.task = "lm";
    run.hash = "b";
    store.insert({&run, 1});
  }
  identity.train_signatures = {{"classifier", "c1"}, {"lm", "l2"}, {"new", "n1"}};
  {
    const Store store = Store::open(folder.path(), identity);
    REQUIRE(store.runs().size() == 1);
    CHECK(store.runs()[0].task == "classifier");
    CHECK(store.runs_of_other_signatures() == 1);
  }
  // A grid of fewer tasks keeps what the store knows of the others.
  identity.train_signatures = {{"classifier", "c1"}};
  CHECK(Store::open(folder.path(), identity).identity().train_signatures.at("lm") == "l2");
}

TEST_CASE("train signatures tell tasks apart, and do not depend on each other", "[train]") {
  std::set<std::string> seen;
  for (const std::string& task : fp4::tasks::task_names()) seen.insert(fp4::tasks::train_signature(task));
  CHECK(seen.size() == fp4::tasks::task_names().size());
}

TEST_CASE("changed files and texts of a store end in an error or are read", "[quick]") {
  const TemporaryFolder folder;
  const fp4::fuzz::StoreFuzzer fuzzer(folder.path());
  REQUIRE(fuzzer.run(""));
  // Pieces of JSON, whole and broken, that the fields expect or do not.
  const std::vector<std::string> pieces = {"",
                                           "[]",
                                           "{}",
                                           "[1]",
                                           "[\"1\"]",
                                           "[\"1\",\"2\"]",
                                           "{\"step\":[1]}",
                                           "null",
                                           "\"x\"",
                                           "{\"a\":1}",
                                           "finished",
                                           "diverged",
                                           "reference",
                                           "[[[[",

                                           "{\"step\":{},\"train_loss\":[1],\"validation_loss\":7}"};
  std::mt19937 engine(3);
  const auto start = std::chrono::steady_clock::now();
  size_t read = 0, refused = 0;
  for (int i = 0; i < 400 && std::chrono::steady_clock::now() - start < std::chrono::seconds(10); ++i) {
    std::string input = i % 2 == 0 ? "t" : "p";
    for (int k = 0; k < 9; ++k) {
      if (i % 2 == 0) input += (engine() % 3 == 0 ? pieces[engine() % pieces.size()] : "") + "\n";
      if (i % 2 == 1 && k < 3)
        input.append({static_cast<char>(engine()), static_cast<char>(engine()), static_cast<char>(engine())});
    }
    ++(fuzzer.run(input) ? read : refused);
  }
  CHECK(read > 0);
  CHECK(refused > read / 4);
}
