// Long runs inside a sweep, which go on from their checkpoints bit for bit, and stores that travel as tables.
#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>

#include "src/files/sha256.h"
#include "sweeps/training.h"
#include "tests/support/support.h"

namespace fs = std::filesystem;
using Catch::Matchers::Contains;
using fp4::test::read_text;
using fp4::test::run_cli;
using fp4::test::run_shell;
using fp4::test::TemporaryFolder;
using fp4::test::write_text;
using Json = nlohmann::json;

namespace {

Json small_lm(int steps) {
  return {{"task", {{"name", "lm"}, {"width", 32}, {"heads", 2}, {"ffn", 32}, {"context", 16}}},
          {"recipe", "nvfp4_2509_final_bf16"},  // products that change on the way, random bits
          {"train", {{"steps", steps}, {"batch", 4}, {"curve_points", 4}}}};
}

std::vector<std::string> checkpoints_in(const std::string& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, error))
    if (entry.path().extension() == ".checkpoint") names.push_back(entry.path().string());
  return names;
}

// The table with a changed line, which has the hash of what it says.
std::string with_line(const std::string& text, size_t number, const std::string& from, const std::string& to) {
  std::istringstream in(text);
  std::string out, line;
  for (size_t i = 1; std::getline(in, line); ++i) {
    if (i == number) {
      REQUIRE(line.find(from) != std::string::npos);
      line.replace(line.find(from), from.size(), to);
      line = line.substr(0, line.rfind(',') + 1);
      line += fp4::sha256_hex(line).substr(0, 16);
    }
    out += line + "\n";
  }
  return out;
}

}  // namespace

TEST_CASE("a run in a sweep goes on from its own checkpoint only, to the same result", "[train]") {
  TemporaryFolder folder;
  const std::string file = folder / "run.checkpoint";
  const fp4::sweeps::Simulator simulator = fp4::sweeps::real_simulator("auto");
  const Json config = simulator.canonical(small_lm(30));
  const auto whole = simulator.run(config, 7, [] { return false; });
  int steps = 0;
  const auto run = [&](uint64_t seed, int until, double every) {
    steps = 0;
    return simulator.run_with_checkpoints(
        config, seed, [&] { return ++steps == until; }, file, every);
  };
  const auto same = [&](const fp4::sweeps::RunRecord& other) {
    return other.digest == whole.digest && other.loss == whole.loss && other.metrics == whole.metrics;
  };
  CHECK(run(7, 17, 1e6).status == fp4::sweeps::Status::stopped);
  CHECK(same(run(7, 0, 1e6)));
  CHECK(steps == 30 - 17);
  // On the way: the last one is of step 29, since none is written where a run ends.
  fs::remove(file);
  CHECK(same(run(7, 0, 1e-9)));
  CHECK(same(run(7, 0, 1e-9)));
  CHECK(steps == 1);
  const std::string bytes = read_text(file);
  simulator.run(config, 8, [] { return false; });  // its examples are made: that asks, too
  CHECK_FALSE(same(run(8, 0, 1e6)));               // another seed starts at its beginning
  CHECK(steps == 30);
  write_text(file, bytes.substr(0, bytes.size() - 1) + static_cast<char>(bytes.back() ^ 1));
  CHECK(same(run(7, 0, 1e6)));
  CHECK(steps == 30);
}

TEST_CASE("kill -9 in the middle of a run loses nothing before its last checkpoint", "[cli]") {
  TemporaryFolder folder;
  const Json config = small_lm(1500);
  const Json grid = {{"name", "long"},
                     {"task", "lm"},
                     {"seeds", 1},
                     {"train", config["train"]},
                     {"axes",
                      {{"recipe", {"fp32"}},
                       {"task.lm.width", {32}},
                       {"task.lm.heads", {2}},
                       {"task.lm.ffn", {32}},
                       {"task.lm.context", {16}}}},
                     {"references", {"fp32"}}};
  write_text(folder / "grid.json", grid.dump());
  const auto sweep = [&](const std::string& out) {
    return "sweep run " + folder / "grid.json" + " --checkpoint-every 0.05 --quiet --out " + folder / out;
  };
  REQUIRE(run_cli(sweep("whole")).exit_code == 0);
  // Killed as soon as a checkpoint is there, whatever the machine's speed.
  run_shell(fp4::test::fp4sim_path() + " " + sweep("cut") + " & p=$!; until ls " + folder / "cut" +
            "/*.checkpoint >/dev/null 2>&1 || ! kill -0 $p 2>/dev/null; do :; done; kill -KILL $p; wait $p");
  REQUIRE(checkpoints_in(folder / "cut").size() == 1);
  REQUIRE(run_cli(sweep("cut")).exit_code == 0);
  CHECK(checkpoints_in(folder / "cut").empty());
  const auto digests = [&](const std::string& out) {
    const auto table = run_cli("table " + folder / out + " --columns loss,digest,config_hash --as csv");
    CHECK(table.exit_code == 0);
    return table.out;
  };
  CHECK(digests("cut") == digests("whole"));
}

TEST_CASE("a store that travels as a table lacks no run, and a changed table is refused", "[cli]") {
  TemporaryFolder folder;
  write_text(folder / "grid.json", R"({"name": "small", "task": ["classifier"], "seeds": 2, "train": {"steps": 3},
    "axes": {"recipe": ["mxfp4", "nvfp4"]}})");
  const auto sweep = [&](const std::string& out) {
    return run_cli("sweep run " + folder / "grid.json" + " --quiet --json --out " + folder / out);
  };
  const auto exported = [&](const std::string& out) {
    REQUIRE(run_cli("sweep export " + folder / out + " --force --out " + folder / "out.csv").exit_code == 0);
    return read_text(folder / "out.csv");
  };
  REQUIRE(sweep("first").exit_code == 0);
  const std::string table = exported("first");
  write_text(folder / "runs.csv", table);
  const auto imported = run_cli("sweep import " + folder / "runs.csv" + " --out " + folder / "second");
  CHECK(imported.exit_code == 0);
  CHECK_THAT(imported.out, Contains("8 runs, 8 of them new"));  // two recipes, fp32 and bf16
  CHECK_THAT(imported.out, Contains("next: fp4sim pareto"));
  // The table carries its grid: the import is read without the grid's file.
  const auto front = run_cli("pareto " + folder / "second");
  INFO(front.err);
  CHECK(front.exit_code == 0);
  CHECK(front.out == run_cli("pareto " + folder / "first").out);
  CHECK_THAT(front.out,
             Catch::Matchers::StartsWith("Loss of a small ") && Catch::Contains("of 2 seeds, not confirmed"));
  // One of an earlier program has no grid.
  const std::string old = table.substr(0, table.find("#grid,"));
  write_text(folder / "old.csv", old);
  CHECK_THAT(run_cli("sweep import " + folder / "old.csv" + " --out " + folder / "old").out,
             Contains("sweep run GRID.json") && Contains("file of the grid 'small'"));  // not a built-in
  CHECK(exported("old") == old);                                                        // no plan knows the names yet
  CHECK(exported("second") == table);
  const Json outcome = Json::parse(sweep("second").out);
  CHECK(outcome["complete"] == true);
  CHECK(outcome["done"] == 0);
  CHECK(exported("second") == table);
  CHECK_THAT(run_cli("sweep import " + folder / "runs.csv" + " --out " + folder / "second").out,
             Contains("8 runs, 0 of them new"));

  // One whose grid reads a text that is not here: its runs come, its plan does not.
  const std::string ladder = fs::absolute("results/ladder_fixed/held_out.csv").string();
  const auto elsewhere = run_shell("cd " + folder.path().string() + " && " + fp4::test::fp4sim_path() +
                                   " sweep import " + ladder + " --out l");
  CHECK(elsewhere.exit_code == 0);
  CHECK_THAT(elsewhere.out, Contains("24 runs, 24 of them new") &&
                                Contains("the grid is left out, the runs are there: build/corpus/english:") &&
                                Contains("next: fp4sim sweep run ladder_fixed_held_out"));
  CHECK_THAT(run_cli("sweep export " + folder / "l" + " --out " + folder / "l.csv").out, Contains("24 runs"));

  const auto refused = [&](const std::string& text, int exit_code, const std::string& words) {
    write_text(folder / "bad.csv", text);
    const auto result = run_cli("sweep import " + folder / "bad.csv" + " --out " + folder / "third");
    INFO(result.err);
    CHECK(result.exit_code == exit_code);
    CHECK_THAT(result.err, Contains("bad.csv, line " + words));
    CHECK_FALSE(fs::exists(folder / "third"));
  };
  std::string edited = table;
  const size_t digit = edited.find(",0.", edited.find('\n', edited.find('\n') + 1)) + 3;  // a result in line 3
  edited[digit] = edited[digit] == '9' ? '8' : '9';
  refused(edited, 1, "3: row_hash '");
  const std::string signature = run_cli("signature").out.substr(0, 16);
  refused(with_line(table, 2, signature, "0123456789abcdef"), 1, "2: signature '0123456789abcdef'");
  refused(with_line(table, 4, ",finished,", ",finishd,"), 2, "4: status: unknown word 'finishd'");
  refused(with_line(table, 6, ",run,", ",runs,"), 2, "6: role: unknown word 'runs'");
  refused(with_line(table, 1, "config_hash", "hash"), 2, "1: column 4 is 'hash', expected 'config_hash'");
  refused("", 2, "1: empty");
  refused(table.substr(0, table.size() - 3) + "00\n", 1, "#grid: row_hash '");
  refused(std::string("\1ELF\0\2", 6), 2, "1: a byte 0");
  // A grid that is none, under the hash of its line: no run is kept, either.
  const size_t lines = static_cast<size_t>(std::count(table.begin(), table.end(), '\n'));
  refused(with_line(table, lines, "axes", "axis"), 2, "#grid: unknown word 'axis'");
}
