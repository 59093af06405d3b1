// Is an element from a file, `{"values": [..]}`, trained with as a built-in one is: on every backend, with any number
// of threads, interrupted or not, and from a bundle? The oracle is e2m1 itself, written down as a list under another
// name.
#include <catch2/catch.hpp>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "src/backends/backends.h"
#include "src/text/error.h"
#include "tasks/run.h"
#include "tests/support/support.h"

using namespace fp4;
using sim::Json;

namespace {

const char* half_s = R"({"name": "half_s", "signed": true, "values": [0, 0.5, 1, 1.5, 2, 3, 3.5, "0x1.8p2"]})";
const char* same_as_e2m1 = R"({"name": "mine", "signed": true, "values": [0, 0.5, 1, 1.5, 2, 3, 4, 6]})";

// Stochastic gradients and a rotation, so that every product draws and rounds.
Json config_of(const Json& element) {
  const Json all = {{"*", {{"element", element}}}};
  return tasks::canonical({{"task", "classifier"},
                           {"recipe", {{"base", "nvfp4_te"}, {"layers", "all"}, {"all", all}}},
                           {"train", {{"steps", 6}, {"batch", 64}, {"curve_points", 2}}}});
}

}  // namespace

TEST_CASE("a list of e2m1's values trains as e2m1 does, bit for bit", "[train]") {
  const test::TemporaryFolder folder;
  test::write_text(folder / "mine.json", same_as_e2m1);
  const sim::History built_in = tasks::run(config_of("e2m1"), 3);
  const sim::History listed = tasks::run(config_of(folder / "mine.json"), 3);
  CHECK(listed.digest == built_in.digest);
  CHECK(listed.metrics == built_in.metrics);
}

TEST_CASE("a grid from a file trains alike everywhere", "[train]") {
  const test::TemporaryFolder folder;
  test::write_text(folder / "half_s.json", half_s);
  const Json config = config_of(folder / "half_s.json");
  const sim::History once = tasks::run(config, 3);
  CHECK(once.digest != tasks::run(config_of("e2m1"), 3).digest);
  CHECK(once.digest == tasks::run(config_of(Json::parse(half_s)), 3).digest);
  for (const Backend* backend : all_backends()) {
    sim::RunOptions options;
    options.backend = backend->name();
    // Those that have no path for lists decline, in one line; they never compute something else.
    if (!backend->available()) continue;
    INFO(backend->name());
    std::string digest = once.digest;
    try {
      digest = tasks::run(config, 3, options).digest;
    } catch (const Error& error) {
      CHECK_THAT(error.what(), Catch::Contains("does not support"));
      CHECK(options.backend != "reference");
    }
    CHECK(digest == once.digest);
  }
  sim::RunOptions threads;
  threads.threads = 3;
  CHECK(tasks::run(config, 3, threads).digest == once.digest);
  // Resumed after the file is gone: a checkpoint holds the values.
  sim::RunOptions first, second;
  first.checkpoint_to = second.resume_from = folder / "c";
  first.stop_at = 3;
  CHECK(tasks::run(config, 3, first).steps_done == 3);
  std::filesystem::remove(folder / "half_s.json");
  CHECK(tasks::run(config, 3, second).digest == once.digest);
}

TEST_CASE("a grid from a file is swept, priced, reported and verified", "[cli]") {
  const test::TemporaryFolder folder;
  test::write_text(folder / "half_s.json", half_s);
  test::write_text(folder / "grid.json", R"({"name": "own", "task": "classifier", "seeds": 2, "base": "mxfp4",
    "train": {"steps": 3}, "axes": {"*.*.element": ["e2m1", ")" +
                                             (folder / "half_s.json") + "\"]}}");
  const auto ran = [&](const std::string& words) {
    const auto result = test::run_cli(words);
    INFO(words << "\n" << result.err);
    CHECK(result.exit_code == 0);
    return result.out;
  };
  ran("sweep run " + (folder / "grid.json") + " --out " + (folder / "s") + " -q");
  ran("table " + (folder / "s") + " --json " + (folder / "t.json"));
  const Json table = Json::parse(test::read_text(folder / "t.json"));
  CHECK(table["rows"].size() == 4);
  CHECK_THAT(table["rows"].dump(), Catch::Contains("half_s"));
  ran("report " + (folder / "s") + " --out " + (folder / "r.html"));
  CHECK(std::filesystem::file_size(folder / "r.html") > 100'000);
  const std::string grid = "element=" + (folder / "half_s.json");
  test::write_text(folder / "r.json",
                   R"({"base": "nvfp4", "all": {"*": {"element": ")" + (folder / "half_s.json") + "\"}}}");
  const std::string price = ran("cost --recipe " + (folder / "r.json") + " --hardware b200 --model llama3_8b");
  CHECK_THAT(price, Catch::Contains("fp4 codes of half_s"));
  // The bundle holds the values, not the way to the file.
  ran("golden make --spec nvfp4," + grid + " --shape 4x3x64 --accumulators exact,fp32_block --out " + (folder / "g"));
  std::filesystem::remove(folder / "half_s.json");
  CHECK_THAT(ran("golden check " + (folder / "g")), Catch::Contains("equal"));
}
