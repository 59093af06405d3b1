// What scripts may rely on, command by command: exit code 0, JSON with these keys, and an example in every help text.
#include <catch2/catch.hpp>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "tests/support/support.h"

using fp4::test::run_cli;
using fp4::test::TemporaryFolder;
using Json = nlohmann::json;

TEST_CASE("every command and subcommand shows an example", "[cli]") {
  for (const char* command : {"list",          "show",           "quantize",       "dequantize",
                              "convert",       "compare",        "inspect",        "gemm",
                              "hadamard",      "random",         "golden",         "golden make",
                              "golden list",   "golden check",   "golden stream",  "verify",
                              "witness",       "signature",      "train",          "stats",
                              "trace",         "trace plot",     "cost",           "cost compare",
                              "cost explain",  "cost weights",   "cost recommend", "cost sensitivity",
                              "cost validate", "cost calibrate", "cost measure",   "cost new-chip",
                              "sweep",         "sweep run",      "sweep status",   "sweep merge",
                              "table",         "pareto",         "effects",        "report",
                              "help",          "completion",     "bench",          "version",
                              "eval",          "serve"}) {
    const auto result = run_cli(std::string(command) + " --help");
    INFO(command);
    CHECK(result.exit_code == 0);
    CHECK_THAT(result.out, Catch::Contains("Example:\n  ") && Catch::Contains(std::string("fp4sim ") + command));
  }
}

TEST_CASE("every axis lists its words with their meaning and source", "[cli]") {
  for (const char* kind :
       {"formats", "scales", "roundings", "scale-rules", "hadamards", "accumulators", "estimators", "presets",
        "recipes", "tasks", "hardware", "models", "suites", "layouts", "backends", "grids"}) {
    const auto result = run_cli(std::string("list ") + kind + " --json");
    INFO(kind << result.err);
    REQUIRE(result.exit_code == 0);
    const Json rows = Json::parse(result.out).at("rows");
    CHECK(rows.size() >= 3);
    for (const Json& row : rows) {
      for (const char* key : {"name", "doc", "source"}) CHECK(row.at(key).is_string());
      CHECK_FALSE(row.at("name").get<std::string>().empty());
    }
    CHECK(run_cli(std::string("list ") + kind).exit_code == 0);
  }
}

TEST_CASE("everything that lists can be shown as JSON", "[cli]") {
  for (const char* kind : {"recipes", "presets", "grids", "hardware", "models", "accumulators"}) {
    const Json rows = Json::parse(run_cli(std::string("list ") + kind + " --json").out).at("rows");
    for (const Json& row : rows) {
      const auto result = run_cli("show " + row.at("name").get<std::string>());
      INFO(kind << " " << row.at("name") << result.err);
      REQUIRE(result.exit_code == 0);
      CHECK(Json::parse(result.out).is_object());
    }
  }
}

TEST_CASE("JSON of the commands that print a table has its keys", "[cli]") {
  struct Row {
    const char* words;
    std::vector<const char*> keys;
  };
  const TemporaryFolder folder;
  const std::string witness = "witness k64_rz exact --out " + (folder / "w");
  const std::vector<Row> rows = {
      {"random --bits 8 --count 4 --seed 7", {"bits", "first", "count", "draws"}},
      {"signature", {"signature", "version"}},
      {"golden list", {"rows"}},
      {"stats --task regression", {"task", "recipe", "step", "rows"}},
      {"cost --recipe mxfp4", {"recipe", "step_time_s"}},
      {"cost compare bf16 mxfp4", {}},
      {"cost weights", {}},
      {"sweep run quick --dry-run", {}},
      {"bench tiers", {"tiers"}},
      {"version", {"version", "commit", "signature", "compiler", "features", "libraries"}},
      {"help rungs", {"rows"}},
      {witness.c_str(), {"model_a", "model_b", "length", "witnesses"}},
  };
  for (const Row& row : rows) {
    const auto result = run_cli(std::string(row.words) + " --json");
    INFO(row.words << "\n" << result.err);
    REQUIRE(result.exit_code == 0);
    const Json json = Json::parse(result.out);
    for (const char* key : row.keys) CHECK(json.contains(key));
  }
}

TEST_CASE("train writes the result that scripts read, and never over another", "[cli]") {
  const TemporaryFolder folder;
  const std::string out = folder / "run.json";
  const std::string words = "train --task classifier --recipe mxfp4@wgrad --steps 12 --seed 3 --quiet --out " + out;
  REQUIRE(run_cli(words).exit_code == 0);
  const Json run = Json::parse(fp4::test::read_text(out));
  for (const char* key : {"task", "recipe", "seed", "steps", "status", "metrics", "curve", "digest", "seconds",
                          "steps_per_second", "config", "provenance"}) {
    INFO(key);
    CHECK(run.contains(key));
  }
  CHECK(run.at("task") == "classifier");
  CHECK(run.at("recipe") == "mxfp4@wgrad");
  CHECK(run.at("seed") == 3);
  CHECK(run.at("steps") == 12);
  CHECK(run.at("status") == "finished");
  CHECK(run.at("metrics").at("loss").is_number());
  CHECK(run.at("metrics").at("loss_hp").is_number());
  for (const Json& point : run.at("curve")) {
    for (const char* key : {"step", "train_loss", "validation_loss"}) CHECK(point.contains(key));
  }
  CHECK(run.at("curve").back().at("validation_loss").is_number());
  CHECK(run_cli(words).exit_code == 2);
  REQUIRE(run_cli(words + " --force --backend reference").exit_code == 0);
  CHECK(Json::parse(fp4::test::read_text(out)).at("digest") == run.at("digest"));
}

TEST_CASE("a forced backend that is not there is an error, and no file appears", "[cli]") {
  const TemporaryFolder folder;
  const std::string out = folder / "run.json";
  const auto result = run_cli("train --task regression --steps 2 --quiet --backend none --out " + out);
  CHECK(result.exit_code == 2);
  CHECK_THAT(result.err, Catch::Contains("'none'") && Catch::Contains("avx512") && Catch::Contains("reference"));
  CHECK_FALSE(std::filesystem::exists(out));
}
