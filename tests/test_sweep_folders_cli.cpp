// The real program on folders of sweeps: merging, checking and judging them, and what a user may give it by mistake.
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <regex>

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

std::string grid_text(const std::string& name, const std::string& more = "") {
  return R"({"name": ")" + name + R"(", "task": "classifier", "base": "mxfp4", "seeds": 2,
    "train": {"steps": 5, "curve_points": 2}, "references": ["fp32"], "axes": {"wgrad.hadamard.size": [0, 16]})" +
         more + "}";
}

// A finished sweep of six short runs, shared by the tests that only read it.
const std::string& finished() {
  static const TemporaryFolder folder;
  static const std::string out = [] {
    write_text(folder / "grid.json", grid_text("g"));
    REQUIRE(run_cli("sweep run " + folder / "grid.json" + " --quiet --out " + folder / "out").exit_code == 0);
    return folder / "out";
  }();
  return out;
}

std::string sweep(const std::string& grid_file, const std::string& out) {
  return "sweep run " + grid_file + " --quiet --jobs 2 --out " + out;
}

}  // namespace

TEST_CASE("sweep run --json prints one JSON object", "[cli]") {
  const TemporaryFolder folder;
  write_text(folder / "grid.json", grid_text("g"));
  const auto result = run_cli(sweep(folder / "grid.json", folder / "out") + " --json");
  REQUIRE(result.exit_code == 0);
  const Json json = Json::parse(result.out);
  CHECK(json["sweep"] == "g");
  CHECK(json["complete"] == true);
  CHECK(json["wanted"] == 6);
  CHECK(json["done"] == 6);
  CHECK(json["failed"] == 0);
  CHECK(json["train_signatures"].size() == 1);
  const Json again = Json::parse(run_cli(sweep(folder / "grid.json", folder / "out") + " --json").out);
  CHECK(again["present"] == 6);
  CHECK(again["done"] == 0);
}

TEST_CASE("runs that are seen in other folders are not done again, and are merged afterwards", "[cli]") {
  const TemporaryFolder folder;
  write_text(folder / "grid.json", grid_text("g"));
  const std::string run = sweep(folder / "grid.json", folder / "mine");
  REQUIRE(run_cli(sweep(folder / "grid.json", folder / "half") + " --shard 1/2").exit_code == 0);
  const auto rest = run_cli(run + " --seen " + folder / "half" + " --seen " + folder / "nowhere");
  CHECK(rest.exit_code == 0);
  CHECK_THAT(rest.out, Contains("6 runs, 3 here or seen before, 3 done now") && !Contains("fp4sim pareto"));
  const size_t note = rest.err.find("not used: " + folder / "nowhere");
  CHECK(note != std::string::npos);
  CHECK(rest.err.find("not used: ", note + 1) == std::string::npos);  // once, however many stages ask
  const std::string next = rest.out.substr(rest.out.find("next: fp4sim ") + 13);
  CHECK(next.starts_with("sweep merge " + folder / "mine" + " " + folder / "half"));
  CHECK(run_cli("sweep status " + folder / "mine" + " --complete").exit_code == 1);
  REQUIRE(run_cli("sweep merge " + folder / "mine" + " " + folder / "half" + " --out " + folder / "all").exit_code ==
          0);
  CHECK(run_cli("sweep status " + folder / "all" + " --complete").exit_code == 0);
  const auto table = [](const std::string& of) {
    Json rows = Json::parse(run_cli("table " + of + " --json --references").out)["rows"];
    for (Json& row : rows) row.erase("seconds");
    return rows;
  };
  CHECK(table(folder / "all") == table(finished()));
}

TEST_CASE("a sweep short of memory stores results only, and ends when there is room", "[cli]") {
  const TemporaryFolder folder;
  write_text(folder / "grid.json", grid_text("g"));
  const std::string out = folder / "out";
  size_t refused = 0;
  // KiB of address space: from too little to start, over too little for two runs at a time, to enough.
  for (int kib = 20'000; kib <= 48'000; kib += 2'000) {
    fs::remove_all(out);
    const auto result = run_shell("ulimit -v " + std::to_string(kib) + "; " + fp4::test::fp4sim_path() + " " +
                                  sweep(folder / "grid.json", out));
    INFO(kib << " KiB: exit " << result.exit_code << "\n" << result.err);
    if (result.exit_code == 0) continue;
    // 127: the loader could not map a library. glibc aborts where a thread has no 40 bytes to note a destructor.
    const bool is_glibc = result.err.find("Fatal glibc error: failed to register TLS destructor") != std::string::npos;
    CHECK((result.exit_code == 1 || result.exit_code == 127 || (is_glibc && result.exit_code == 134)));
    ++refused;
    if (!fs::exists(out + "/sweep.sqlite") || fs::file_size(out + "/sweep.sqlite") == 0) continue;
    const auto status = run_cli("sweep status " + out + " --json");
    if (status.exit_code == 0) CHECK_FALSE(Json::parse(status.out)["by_status"].contains("failed"));
  }
  CHECK(refused > 2);
  CHECK(run_cli(sweep(folder / "grid.json", out)).exit_code == 0);
  CHECK(run_cli("sweep status " + out + " --complete").exit_code == 0);
}

TEST_CASE("a failed run: exit 1, and the sweep is not complete", "[cli]") {
  const TemporaryFolder folder;
  write_text(folder / "tiny.txt", "too short to train on");
  write_text(folder / "grid.json", R"({"name": "g", "task": "lm", "base": "mxfp4", "seeds": 1, "train": {"steps": 2},
    "references": ["fp32"], "axes": {"task.lm.text": [")" +
                                       folder / "tiny.txt" + R"("]}})");
  for (const std::string once_more : {"", " --retry-failed", ""}) {
    const auto result = run_cli(sweep(folder / "grid.json", folder / "out") + once_more);
    CHECK(result.exit_code == 1);
    CHECK_THAT(result.err, Contains("2 runs failed") && Contains("bytes of text") && Contains("--retry-failed"));
  }
  CHECK(run_cli("sweep status " + folder / "out").exit_code == 0);
  const auto status = run_cli("sweep status " + folder / "out" + " --complete --json");
  CHECK(status.exit_code == 1);
  const Json json = Json::parse(status.out);
  CHECK(json["complete"] == false);
  CHECK(json["stages"][0]["missing"] == 2);
  CHECK(json["stages"][0]["failed"] == 2);
}

TEST_CASE("a folder that is missing makes a status incomplete", "[cli]") {
  const TemporaryFolder folder;
  CHECK(run_cli("sweep status " + finished() + " --complete").exit_code == 0);
  const auto result = run_cli("sweep status " + finished() + " " + folder / "missing" + " --complete");
  CHECK(result.exit_code == 1);
  CHECK_THAT(result.out, Contains("missing"));
  CHECK(Json::parse(run_cli("sweep status " + finished() + " " + folder / "missing" + " --json").out)["complete"] ==
        false);
}

TEST_CASE("sweep check names file and row, and drops what is damaged", "[cli]") {
  const TemporaryFolder folder;
  fs::copy(finished(), folder / "out");
  CHECK_THAT(run_cli("sweep check " + folder / "out").out, Contains("sound") && Contains("6 runs"));
  std::string bytes = read_text(folder / "out/sweep.sqlite");
  const size_t at = bytes.rfind("train_loss");
  REQUIRE(at != std::string::npos);
  bytes[at + 14] = bytes[at + 14] == '1' ? '2' : '1';  // a digit of a stored loss
  write_text(folder / "out/sweep.sqlite", bytes);
  const auto check = run_cli("sweep check " + folder / "out");
  CHECK(check.exit_code == 1);
  CHECK_THAT(check.err, Contains("out/sweep.sqlite: damaged") && Contains("runs: the row of configuration"));
  const auto table = run_cli("table " + folder / "out");
  CHECK(table.exit_code == 1);
  CHECK_THAT(table.err, Contains("out/sweep.sqlite: damaged") && Contains("seed"));
  const Json json = Json::parse(run_cli("sweep check " + folder / "out" + " --json").out);
  CHECK(json["sound"] == false);
  CHECK(json["damage"].size() == 1);
  CHECK(run_cli("sweep check " + folder / "out" + " --drop").exit_code == 0);
  CHECK(run_cli("sweep status " + folder / "out" + " --complete").exit_code == 1);
}

TEST_CASE("merging another grid, another edition of it or another signature says so", "[cli]") {
  const TemporaryFolder folder;
  const auto made = [&](const std::string& name, const std::string& text) {
    write_text(folder / (name + ".json"), text);
    REQUIRE(run_cli(sweep(folder / (name + ".json"), folder / name)).exit_code == 0);
    return folder / name;
  };
  const std::string edited = made("edited", grid_text("g", R"(, "doc": "a second edition")"));
  const auto grids = run_cli("sweep merge " + finished() + " " + edited + " --out " + folder / "merged");
  CHECK(grids.exit_code == 1);
  CHECK_THAT(grids.err, Contains("not merged") && Contains("edited/sweep.sqlite") && Contains("another edition"));
  CHECK(run_cli("sweep status " + folder / "merged" + " --complete").exit_code == 0);  // the first is there

  fs::create_directory(folder / "old");
  run_shell("exec \"$FP4SIM_PYTHON\" -c 'import sqlite3; sqlite3.connect(\"" + folder / "old/sweep.sqlite" +
            "\").executescript(open(\"tests/golden/store_schema_1.sql\").read().replace(\"f7097f7a1a6b740b\", "
            "\"0000000000000000\"))'");
  const auto signatures = run_cli("sweep merge " + folder / "old" + " --out " + folder / "merged");
  CHECK(signatures.exit_code == 1);
  CHECK_THAT(signatures.err, Contains("old/sweep.sqlite") && Contains("another signature"));
  CHECK(run_cli("sweep status " + folder / "merged" + " --complete").exit_code == 0);  // untouched
}

TEST_CASE("a share of a grid of 56,000 points and its status cost what they hold", "[cli]") {
  const TemporaryFolder folder;
  const std::string sizes = "[0, 16, 32, 64, 128]", roundings = R"(["nearest_even", "stochastic"])";
  std::string axes = R"("train.lr": [0.001, 0.002, 0.003, 0.004, 0.005, 0.006, 0.007])";
  for (const std::string gemm : {"fprop", "dgrad", "wgrad"})
    axes += ", \"" + gemm + ".hadamard.size\": " + sizes + ", \"" + gemm + ".a.rounding\": " + roundings + ", \"" +
            gemm + ".b.rounding\": " + roundings;
  write_text(folder / "g.json", R"({"name": "large", "task": "regression", "base": "mxfp4", "seeds": 1,
    "references": ["fp32"], "train": {"steps": 1, "curve_points": 1}, "axes": {)" +
                                    axes + "}}");
  write_text(folder / "cost.py", R"(
import os, resource, subprocess, sys
ended = subprocess.run([os.environ["FP4SIM"], *sys.argv[1:]])
used = resource.getrusage(resource.RUSAGE_CHILDREN)
fits = used.ru_utime + used.ru_stime < 2 and used.ru_maxrss < 200 << 10
sys.exit(ended.returncode if fits else f"{used.ru_utime + used.ru_stime} s, {used.ru_maxrss >> 10} MB")
)");
  const auto cheap = [&](const std::string& words) {
    const auto result = run_shell("\"$FP4SIM_PYTHON\" " + folder / "cost.py" + " " + words);
    INFO(words << "\n" << result.out << result.err);
    CHECK(result.exit_code == 0);
    return result.out;
  };
  const std::string run = "sweep run " + folder / "g.json" + " --quiet --out ";
  CHECK_THAT(cheap(run + folder / "one" + " --shard 1/5000"), Contains("19 runs, 0 here before, 19 done now"));
  CHECK_THAT(cheap(run + folder / "two" + " --shard 5000/5000"), Contains("done now"));
  CHECK_THAT(cheap(run + folder / "one" + " --shard 1/5000"), Contains("19 runs, 19 here before, 0 done now"));
  CHECK_THAT(cheap("sweep status " + folder / "one"), Contains("other shards (1 are here)"));
  CHECK(run_cli("sweep status " + folder / "one" + " --complete").exit_code == 1);
  cheap("sweep merge " + folder / "one" + " " + folder / "two" + " --out " + folder / "both");
  CHECK_THAT(cheap("sweep status " + folder / "both"), Contains("other shards (2 are here)"));
}

TEST_CASE("a recipe object of an axis has its name, and a missing TMPDIR is named", "[cli]") {
  const TemporaryFolder folder;
  write_text(folder / "g.json", R"({"name": "g", "task": "regression", "seeds": 1, "train": {"steps": 1},
    "axes": {"recipe": [{"name": "mine", "base": "mxfp4"}, {"name": "yours", "base": "nvfp4"}]}})");
  REQUIRE(run_cli(sweep(folder / "g.json", folder / "g")).exit_code == 0);
  const std::string table = run_cli("table " + folder / "g" + " --columns recipe,loss").out;
  CHECK_THAT(table, Contains("mine") && Contains("yours") && !Contains("{"));
  const auto absent =
      run_shell("TMPDIR=/absent exec \"$FP4SIM\" quantize - --spec mxfp4 --out " + folder / "q" + " < /dev/null");
  CHECK(absent.exit_code == 2);
  CHECK_THAT(absent.err, Contains("TMPDIR: no folder for temporary files") && !Contains("filesystem error"));
}

TEST_CASE("a grid's labels cannot control the terminal", "[cli]") {
  const TemporaryFolder folder;
  write_text(folder / "grid.json",
             R"({"name": "g", "task": "classifier", "base": "mxfp4", "seeds": 1, "train": {"steps": 5},
                 "references": ["fp32"], "axes": {"wgrad": [{"label": "none"},
                 {"label": "\u001b]0;title\u0007 \u009b31m", "hadamard": {"size": 16}}]}})");
  const auto result = run_cli(sweep(folder / "grid.json", folder / "out"));
  INFO(result.err);
  REQUIRE(result.exit_code == 0);
  for (const std::string command : {"table --columns wgrad,loss ", "pareto ", "effects --axis wgrad "}) {
    const auto shown = run_cli(command + folder / "out");
    INFO(command << shown.out << shown.err);
    CHECK(shown.exit_code == 0);
    CHECK_THAT(shown.out, Contains("\\x1b]0;title\\x07"));
    CHECK(shown.out.find('\x1b') == std::string::npos);
    CHECK(shown.out.find("\xc2\x9b") == std::string::npos);
  }
}

TEST_CASE("a log that cannot be written does not stop a sweep", "[cli]") {
  const TemporaryFolder folder;
  write_text(folder / "grid.json", grid_text("g"));
  if (fs::exists("/dev/full")) {
    run_shell(fp4::test::fp4sim_path() + " sweep run " + folder / "grid.json" + " --out " + folder / "full" +
              " 2>/dev/full");
    CHECK(run_cli("sweep status " + folder / "full" + " --complete").exit_code == 0);
  }
  run_shell(fp4::test::fp4sim_path() + " sweep run " + folder / "grid.json" + " --out " + folder / "closed" + " 2>&-");
  CHECK(run_cli("sweep status " + folder / "closed" + " --complete").exit_code == 0);
}

TEST_CASE("a store is read where the recipe files of its grid are not", "[cli]") {
  const TemporaryFolder folder;
  fs::create_directory(folder / "mine");
  write_text(folder / "mine/recipe.json", R"({"base": "mxfp4", "wgrad": {"*": {"rounding": "stochastic"}}})");
  write_text(folder / "mine/grid.json", R"({"name": "g", "task": "classifier", "seeds": 2, "train": {"steps": 5},
    "references": ["fp32"], "axes": {"recipe": ["mxfp8", "recipe.json"]}, "eval": ["own", "recipe.json@weights"]})");
  const auto ran = run_cli(sweep(folder / "mine/grid.json", folder / "out"));  // the recipe lies beside the grid
  INFO(ran.err);
  REQUIRE(ran.exit_code == 0);
  fs::remove_all(folder / "mine");
  CHECK(run_cli("sweep merge " + folder / "out" + " --out " + folder / "merged").exit_code == 0);
  for (const std::string name : {"out", "merged"}) {
    const std::string page = folder / (name + ".html");
    for (const std::string& command :
         std::vector<std::string>{"pareto ", "table ", "table --group ", "effects --axis recipe ",
                                  "sweep status --complete ", "report --out " + page + " "}) {
      const auto result = run_cli(command + folder / name);
      if (result.err.find("chart library") != std::string::npos) continue;
      INFO(command << name << ": " << result.err);
      CHECK(result.exit_code == 0);
    }
  }
}

TEST_CASE("a recipe in the current folder goes before one beside the grid", "[cli]") {
  const TemporaryFolder folder;
  fs::create_directory(folder / "beside");
  write_text(folder / "beside/recipe.json", R"({"base": "mxfp4"})");
  write_text(folder / "beside/grid.json",
             R"({"name": "g", "task": "classifier", "axes": {"recipe": ["recipe.json"]}})");
  const std::string command = "cd " + folder / "" + " && " + fs::absolute(fp4::test::fp4sim_path()).string() +
                              " sweep run beside/grid.json --dry-run";
  CHECK(run_shell(command).exit_code == 0);
  write_text(folder / "recipe.json", R"({"base": "mxfp5"})");
  const auto here = run_shell(command);
  CHECK(here.exit_code == 2);
  CHECK_THAT(here.err, Contains("axes.recipe[0]") && Contains("mxfp5"));
}

TEST_CASE("a cut store is named by its own path", "[cli]") {
  const TemporaryFolder folder;
  fs::create_directory(folder / "cut");
  write_text(folder / "cut/sweep.sqlite", read_text(finished() + "/sweep.sqlite").substr(0, 10'000));
  const std::string out = folder / "cut";
  for (const std::string& command : std::vector<std::string>{
           "table " + out, "pareto " + out, "effects " + out + " --axis size", "law " + out, "sweep status " + out,
           "report " + out + " --out " + folder / "r.html", "sweep export " + out + " --out " + folder / "r.csv",
           "sweep merge " + finished() + " " + out + " --out " + folder / "merged", "sweep check " + out}) {
    const auto result = run_cli(command);
    INFO(command << ": " << result.err);
    CHECK(result.exit_code == 1);
    CHECK_THAT(result.err, Contains(out + "/sweep.sqlite: ") && !Contains("fp4sim-store-"));
  }
}

TEST_CASE("a folder is not merged into itself", "[cli]") {
  const TemporaryFolder folder;
  fs::copy(finished(), folder / "out");
  for (const std::string& target : {folder / "out", folder / "out/", folder / "./out"}) {
    const auto result = run_cli("sweep merge " + finished() + " " + folder / "out" + " --out " + target);
    INFO(result.err);
    CHECK(result.exit_code == 2);
    CHECK_THAT(result.err, Contains("source and target are one folder"));
  }
}

TEST_CASE("delta is a finite number from 0, a target one above 0", "[cli]") {
  for (const std::string option :
       {"--delta -1", "--delta nan", "--delta inf", "--target -1", "--target 0", "--target nan"}) {
    const auto result = run_cli("pareto " + finished() + " " + option);
    INFO(option << ": " << result.err);
    CHECK(result.exit_code == 2);
    CHECK_THAT(result.err, Contains(option.substr(0, option.find(' '))));
    if (option.starts_with("--delta"))
      CHECK(run_cli("effects " + finished() + " --axis size " + option).exit_code == 2);
  }
  CHECK(run_cli("pareto " + finished() + " --delta 0 --target 1.5").exit_code == 0);
}

TEST_CASE("--csv - is the terminal", "[cli]") {
  const TemporaryFolder folder;
  const std::string program = "cd " + folder / "" + " && " + fs::absolute(fp4::test::fp4sim_path()).string();
  for (const std::string command : {"table ", "effects --axis size "}) {
    const std::string words = " " + command + fs::absolute(finished()).string();
    REQUIRE(run_shell(program + words + " --csv rows.csv").exit_code == 0);
    const auto shown = run_shell(program + words + " --csv -");
    CHECK(shown.exit_code == 0);
    CHECK(shown.out == read_text(folder / "rows.csv"));
    CHECK_FALSE(fs::exists(folder / "-"));
    const auto both = run_shell(program + words + " --csv - --json");
    CHECK(both.exit_code == 2);
    CHECK_THAT(both.err, Contains("--csv and --json"));
    fs::remove(folder / "rows.csv");
  }
}

TEST_CASE("beside what a race did not compare stands its own interval", "[cli]") {
  const TemporaryFolder folder;
  write_text(folder / "grid.json", R"({"name": "g", "task": "classifier", "seeds": 2, "train": {"steps": 60},
    "axes": {"recipe": ["mxfp4_all", "mxfp8"]}, "race": {"seeds": 10, "delta": 0.03}})");
  REQUIRE(run_cli(sweep(folder / "grid.json", folder / "out")).exit_code == 0);
  const std::regex row(R"(\n(?:step|leads,|  tied)(?: undecided)? +\S+% +(\S+) +(\S+) \.\. (\S+) )");
  for (const std::string y : {"loss", "loss_hp", "loss_hp_gap", "loss_gap"}) {
    const std::string text = run_cli("pareto " + folder / "out" + " --no-effects --y " + y).out;
    INFO(text);
    CHECK((text.find("raw interval") == std::string::npos) == y.ends_with("gap"));
    size_t rows = 0;
    for (auto at = std::sregex_iterator(text.begin(), text.end(), row); at != std::sregex_iterator(); ++at) {
      ++rows;
      CHECK(std::stod((*at)[2]) <= std::stod((*at)[1]));
      CHECK(std::stod((*at)[1]) <= std::stod((*at)[3]));
    }
    CHECK(rows >= 1);
  }
}
