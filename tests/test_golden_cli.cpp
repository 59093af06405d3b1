// `fp4sim golden`, `verify` and `witness` as a kernel engineer and his scripts run them.
#include <catch2/catch.hpp>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "tests/support/support.h"

using fp4::test::run_cli;
using fp4::test::TemporaryFolder;
namespace fs = std::filesystem;
using Json = nlohmann::json;

namespace {

struct Smoke {
  TemporaryFolder folder;
  std::string golden = folder / "golden";
  std::string mxfp4 = golden + "/mxfp4.boundary.8x64/";
  std::string gemm = golden + "/gemm.mxfp4.gaussian.4x192x3/";

  Smoke() { REQUIRE(run_cli("golden make --suite smoke --out " + golden).exit_code == 0); }

  Json verify(const std::string& words, int exit_code) const {
    const auto result = run_cli("verify --golden " + golden + " " + words + " --json");
    INFO(words << "\n" << result.err);
    REQUIRE(result.exit_code == exit_code);
    return Json::parse(result.out);
  }
};

}  // namespace

TEST_CASE("a dump that is right is equal in every stage", "[cli]") {
  const Smoke smoke;
  const Json result = smoke.verify("--candidate " + smoke.golden, 0);
  CHECK(result.at("equal") == true);
  CHECK(result.at("mismatches") == 0);
  CHECK(result.at("first").empty());
  CHECK(result.at("diagnosis").empty());
  uint64_t compared = 0;
  for (const char* stage : {"scales", "tensor_scale", "codes", "dequantized", "output"}) {
    INFO(stage);
    const Json& counts = result.at("stages").at(stage);
    CHECK(counts.at("compared").get<uint64_t>() > 0);
    CHECK(counts.at("mismatches") == 0);
    compared += counts.at("compared").get<uint64_t>();
  }
  CHECK(result.at("compared") == compared);
  CHECK(run_cli("verify --golden " + smoke.golden + " --candidate " + smoke.golden).exit_code == 0);
}

TEST_CASE("a kernel of another scale rule is named, with counts that add up", "[cli]") {
  const Smoke smoke;
  const std::string dump = smoke.folder / "dump";
  REQUIRE(run_cli("quantize " + smoke.mxfp4 + "input.npy --spec mxfp4,scale_rule=rceil --out " + dump).exit_code == 0);
  const std::string words = "--candidate " + dump + " --case mxfp4.boundary.8x64";
  const Json result = smoke.verify(words, 1);
  CHECK(result.at("equal") == false);
  CHECK(result.at("diagnosis").at(0).at("cause") == "scale_rule=rceil");
  CHECK(result.at("diagnosis").at(0).at("explains") == 1.0);
  CHECK(result.at("diagnosis").at(0).at("detail").is_string());
  CHECK(result.at("first_diverging_stage") == "scales");
  uint64_t mismatches = 0;
  for (const auto& [stage, counts] : result.at("stages").items()) mismatches += counts.at("mismatches").get<uint64_t>();
  CHECK(mismatches == result.at("mismatches"));
  CHECK(mismatches > 0);
  CHECK(result.at("first").size() <= 10);
  for (const char* key : {"stage", "index", "expected_bits", "got_bits"}) CHECK(result.at("first").at(0).contains(key));
  const Json one = smoke.verify(words + " --stage tensor_scale", 0);
  CHECK(one.at("stages").size() == 1);
}

TEST_CASE("swapped nibbles and another accumulator are named", "[cli]") {
  const Smoke smoke;
  const std::string dump = smoke.folder / "codes.npy";
  fs::copy_file(smoke.mxfp4 + "codes_high_first.npy", dump);
  const Json swapped = smoke.verify("--candidate " + dump + " --case mxfp4.boundary.8x64 --stage codes", 1);
  CHECK(swapped.at("diagnosis").at(0).at("cause") == "nibble_order=high_first");

  const std::string output = smoke.folder / "output.npy";
  REQUIRE(run_cli("gemm " + smoke.gemm + "a.npy " + smoke.gemm +
                  "b.npy --spec mxfp4 --accumulator fp32_sequential --out " + output)
              .exit_code == 0);
  const std::string words = "--candidate " + output + " --case gemm.mxfp4.gaussian.4x192x3 --stage output ";
  CHECK(smoke.verify(words + "--accumulator fp32_sequential", 0).at("equal") == true);
}

TEST_CASE("a bundle that was changed fails its check, and names the file", "[cli]") {
  const Smoke smoke;
  CHECK(Json::parse(run_cli("golden check " + smoke.golden + " --json").out).at("equal") == true);
  fs::copy_file(smoke.mxfp4 + "codes_high_first.npy", smoke.mxfp4 + "codes.npy", fs::copy_options::overwrite_existing);
  const auto result = run_cli("golden check " + smoke.golden + " --json");
  CHECK(result.exit_code == 1);
  const Json report = Json::parse(result.out);
  CHECK(report.at("equal") == false);
  CHECK_THAT(report.at("differences").at(0).at("file").get<std::string>(), Catch::Contains("codes.npy"));
}

TEST_CASE("a suite judges answers that come through a pipe", "[cli]") {
  const std::string ask = fp4::test::fp4sim_path() + " golden stream";
  const std::string judge = " | " + fp4::test::fp4sim_path() + " golden stream --judge -";
  const auto right = fp4::test::run_shell(ask + judge);
  CHECK(right.exit_code == 0);
  CHECK_THAT(right.out, Catch::Contains("arrays equal"));
  const auto wrong = fp4::test::run_shell(ask + " | sed 's/codes=./codes=/'" + judge);
  CHECK(wrong.exit_code == 1);
  CHECK_THAT(wrong.out, Catch::Contains("codes: differs"));
}

TEST_CASE("a bundle that is interrupted, killed or without room leaves nothing", "[cli]") {
  const TemporaryFolder folder;
  const std::string make = " golden make --suite standard --out " + (folder / "up/golden");
  const auto run_until_begun = [&](const std::string& signal) {
    // env: a shell starts background commands with SIGINT ignored.
    return fp4::test::run_shell("env --default-signal=INT " + fp4::test::fp4sim_path() + make + " >/dev/null & p=$!\n" +
                                "until ls -A " + (folder / "up/.golden*/*") + " >/dev/null 2>&1; do :; done\n" +
                                "kill -" + signal + " $p; wait $p");
  };
  for (const auto& [signal, code] : {std::pair{"TERM", 143}, std::pair{"INT", 130}}) {
    INFO(signal);
    CHECK(run_until_begun(signal).exit_code == code);
    CHECK(fs::is_empty(folder.path()));
  }
  CHECK(run_until_begun("KILL").exit_code == 137);
  CHECK_FALSE(fs::exists(folder / "up/golden"));
  CHECK_FALSE(fs::is_empty(folder.path()));
  CHECK(run_cli("golden make --suite smoke --no-sync --out " + (folder / "up/golden")).exit_code == 0);
  CHECK(std::distance(fs::directory_iterator(folder / "up"), fs::directory_iterator()) == 1);

  // A limit on the size of files stands in for a full disk. The arrays of witnesses fit into 4 KB, their manifest does
  // not.
  const auto full = fp4::test::run_shell("trap '' XFSZ; ulimit -f 8; exec " + fp4::test::fp4sim_path() +
                                         " witness k64_rz fp32_block --count 8 --out " + (folder / "full"));
  INFO(full.err);
  CHECK(full.exit_code == 1);
  CHECK_THAT(full.err, Catch::Contains("manifest.json: writing failed"));
  CHECK(std::distance(fs::directory_iterator(folder.path()), fs::directory_iterator()) == 1);
}

TEST_CASE("wrong words of the judges are wrong usage", "[cli]") {
  const Smoke smoke;
  for (const std::string& words :
       {"golden make --suite smok --out " + (smoke.folder / "x"), std::string("golden check nowhere"),
        "verify --golden nowhere --candidate " + smoke.golden,
        "verify --golden " + smoke.golden + " --candidate " + smoke.golden + " --stage code",
        std::string("witness k64 exact --out w")}) {
    const auto result = run_cli(words);
    INFO(words << "\n" << result.err);
    CHECK(result.exit_code == 2);
    CHECK(result.out.empty());
  }
  CHECK_FALSE(fs::exists(smoke.folder / "x"));
}
