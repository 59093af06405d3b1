// Stores, checkpoints, bundles, tensors and models as earlier versions wrote them (tests/old/VERSION.json, texts, made
// once by tests/support/keep_version.py): each later version reads them with the same results, or refuses them by name
// and says what to do. `reads` of a file holds commands and what that version said; what a newer version refuses moves
// to `refused`, with its exit code and words. Python's part is in tests/python/test_python_old.py.
#include <catch2/catch.hpp>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "tests/support/support.h"

namespace fs = std::filesystem;
using Catch::Contains;
using fp4::test::read_text;
using fp4::test::run_cli;
using fp4::test::run_shell;
using Json = nlohmann::json;

TEST_CASE("what earlier versions wrote is read with their results", "[cli]") {
  const fs::path before = fs::current_path();
  const std::string script = "\"$FP4SIM_PYTHON\" '" + fs::absolute("tests/support/old_version.py").string() + "' ";
  size_t versions = 0;
  for (const auto& entry : fs::directory_iterator("tests/old")) {
    const std::string file = fs::absolute(entry.path());
    const Json version = Json::parse(read_text(file));
    const fp4::test::TemporaryFolder folder;
    fs::current_path(folder.path());
    REQUIRE(run_shell(script + "'" + file + "'").exit_code == 0);
    for (const Json& row : version.at("reads")) {
      const auto result = run_cli(row.at(0).get<std::string>());
      INFO(version.at("version") << ": " << row.at(0) << "\n" << result.out << result.err);
      CHECK(result.exit_code == 0);
      CHECK_THAT(result.out, Contains(row.at(1).get<std::string>()));
      if (row.size() == 3) CHECK(run_shell(script + "hash decoded").out == row.at(2).get<std::string>() + "\n");
    }
    for (const Json& row : version.value("refused", Json::array())) {
      const auto result = run_cli(row.at(0).get<std::string>());
      INFO(version.at("version") << ": " << row.at(0) << "\n" << result.out << result.err);
      CHECK(result.exit_code == row.at(1).get<int>());
      for (const Json& words : row.at(2)) CHECK_THAT(result.out + result.err, Contains(words.get<std::string>()));
    }
    // Of other arithmetic, as a later version may have it: named, with the way out.
    run_shell("sed -i s/" + version.at("signature").get<std::string>() + "/0123456789abcdef/ runs.csv");
    const auto changed = run_cli("sweep import runs.csv --out other");
    CHECK(changed.exit_code == 1);
    CHECK_THAT(changed.err, Contains("runs.csv"));
    fs::current_path(before);
    ++versions;
  }
  CHECK(versions >= 2);
}
