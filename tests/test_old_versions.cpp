// Stores, checkpoints and bundles as earlier versions wrote them (tests/old/VERSION.json, texts): each later version
// reads them with the same results, or refuses them by name and says what to do. `reads` of a file holds commands and
// what that version said; what changes here for a newer version is a refusal with its own words.
#include <catch2/catch.hpp>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "tests/support/support.h"

namespace fs = std::filesystem;
using fp4::test::read_text;
using fp4::test::run_cli;
using fp4::test::run_shell;
using Json = nlohmann::json;

namespace {

// The files of a version in the folder where this is called.
constexpr const char* unpack = R"(
import base64, json, os, sqlite3, sys
given = json.load(open(sys.argv[1]))
for path, content in given['files'].items():
    os.makedirs(os.path.dirname(path) or '.', exist_ok=True)
    with open(path, 'wb') as f:
        f.write(content['text'].encode() if 'text' in content else base64.b64decode(content['base64']))
for path, lines in given['stores'].items():
    os.makedirs(os.path.dirname(path) or '.', exist_ok=True)
    sqlite3.connect(path).executescript('\n'.join(lines))
)";

}  // namespace

TEST_CASE("what earlier versions wrote is read with their results", "[cli]") {
  const fs::path before = fs::current_path();
  size_t versions = 0;
  for (const auto& entry : fs::directory_iterator("tests/old")) {
    const std::string file = fs::absolute(entry.path());
    const Json version = Json::parse(read_text(file));
    const fp4::test::TemporaryFolder folder;
    fs::current_path(folder.path());
    fp4::test::write_text("unpack.py", unpack);
    REQUIRE(run_shell("\"$FP4SIM_PYTHON\" unpack.py '" + file + "'").exit_code == 0);
    for (const Json& row : version.at("reads")) {
      const auto result = run_cli(row.at(0).get<std::string>());
      INFO(version.at("version") << ": " << row.at(0) << "\n" << result.out << result.err);
      CHECK(result.exit_code == 0);
      CHECK_THAT(result.out, Catch::Contains(row.at(1).get<std::string>()));
    }
    // Of other arithmetic, as a later version may have it: named, with the way out.
    run_shell("sed -i s/" + version.at("signature").get<std::string>() + "/0123456789abcdef/ runs.csv");
    const auto changed = run_cli("sweep import runs.csv --out other");
    CHECK(changed.exit_code == 1);
    CHECK_THAT(changed.err, Catch::Contains("runs.csv"));
    fs::current_path(before);
    ++versions;
  }
  CHECK(versions >= 1);
}
