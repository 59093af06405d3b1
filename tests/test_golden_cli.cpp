// `fp4sim golden`, `verify` and `witness` as a kernel engineer and his scripts run them.
#include <catch2/catch.hpp>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>

#include "fp4/bits.h"
#include "src/tensor_file/tensor_reader.h"
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
  std::string gemm = golden + "/gemm.mxfp4.spread.4x512x3/";

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
  const std::string codes = "--candidate " + dump + " --case mxfp4.boundary.8x64 --stage codes";
  const Json swapped = smoke.verify(codes, 0);  // right, in an order that is found
  CHECK(swapped.at("equal") == true);
  CHECK(swapped.at("orders") == Json{"nibble_order=high_first"});
  CHECK_THAT(run_cli("verify --golden " + smoke.golden + " " + codes).out,
             Catch::Contains("order found: nibble_order=high_first"));
  const Json said = smoke.verify(codes + " --nibbles low_first", 1);  // not the order that was said
  CHECK(said.at("diagnosis").at(0).at("cause") == "nibble_order=high_first");

  const std::string output = smoke.folder / "output.npy";
  REQUIRE(run_cli("gemm " + smoke.gemm + "a.npy " + smoke.gemm +
                  "b.npy --spec mxfp4 --accumulator fp32_sequential --out " + output)
              .exit_code == 0);
  const std::string words = "--candidate " + output + " --case gemm.mxfp4.spread.4x512x3 --stage output ";
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

TEST_CASE("every name of the bundle is judged, in every layout", "[cli]") {
  const Smoke smoke;
  // A kernel that dumps zeros under the bundle's own names for other layouts.
  for (const char* name : {"codes_high_first", "scales_128x4", "scales_amd_preshuffled", "codes", "dequantized"}) {
    INFO(name);
    const std::string dump = smoke.folder / (std::string("dump_") + name);
    fs::create_directories(dump + "/mxfp4.boundary.8x64");
    const std::string file = dump + "/mxfp4.boundary.8x64/" + name + ".npy";
    fs::copy_file(smoke.mxfp4 + name + ".npy", file);
    CHECK(smoke.verify("--candidate " + dump, 0).at("compared").get<int>() > 0);
    std::string bytes = fp4::test::read_text(file);
    std::fill(bytes.begin() + 128, bytes.end(), '\0');  // numpy's header fills 128 bytes
    fp4::test::write_text(file, bytes);
    const Json zeros = smoke.verify("--candidate " + dump, 1);
    CHECK(zeros.at("equal") == false);
    CHECK(zeros.at("mismatches").get<int>() > 0);
  }
  // The contents of one layout under the name of another.
  const std::string moved = smoke.folder / "moved";
  fs::create_directories(moved + "/mxfp4.boundary.8x64");
  fs::copy_file(smoke.mxfp4 + "codes.npy", moved + "/mxfp4.boundary.8x64/codes_high_first.npy");
  CHECK(smoke.verify("--candidate " + moved, 1).at("diagnosis").at(0).at("cause") == "nibble_order=low_first");
}

TEST_CASE("everything in a dump is accounted for", "[cli]") {
  const Smoke smoke;
  const std::string dump = smoke.folder / "dump", sub = dump + "/mxfp4.boundary.8x64";
  fs::create_directories(sub);
  fs::copy_file(smoke.mxfp4 + "codes.npy", sub + "/codes.npy");
  fs::copy_file(smoke.mxfp4 + "input.npy", sub + "/input.npy");
  fs::copy_file(smoke.golden + "/manifest.json", dump + "/manifest.json");
  const std::string verify = "verify --golden " + smoke.golden + " --candidate " + dump;
  const auto reason_of = [](const Json& result, const std::string& source) {
    for (const Json& i : result.at("ignored"))
      if (i.at("source") == source) return i.at("reason").get<std::string>();
    return std::string("absent");
  };
  const Json known = smoke.verify("--candidate " + dump, 0);
  CHECK(reason_of(known, "manifest.json") == "no array");
  CHECK(reason_of(known, "mxfp4.boundary.8x64/input.npy") == "an input, as in the bundle");
  CHECK(known.at("stages").size() == 1);

  // Inputs alone are nothing to judge; other inputs are a difference with a reason of its own.
  fs::rename(sub + "/codes.npy", smoke.folder / "codes.npy");
  CHECK_THAT(run_cli(verify).err, Catch::Contains("nothing to judge"));
  CHECK(run_cli(verify).exit_code == 2);
  fs::rename(smoke.folder / "codes.npy", sub + "/codes.npy");
  std::string input = fp4::test::read_text(sub + "/input.npy");
  input.back() = static_cast<char>(input.back() ^ 1);
  fp4::test::write_text(sub + "/input.npy", input);
  const Json fed = smoke.verify("--candidate " + dump, 1);
  CHECK(fed.at("first_diverging_stage") == "input");
  CHECK_THAT(fed.at("cases").at(0).at("summary").get<std::string>(), Catch::Contains("was given something else"));
  fs::remove(sub + "/input.npy");

  for (const auto& [file, says] : {std::pair{"codez.npy", "did you mean 'codes'"}, std::pair{"deep/x.npy", "'x'"},
                                   std::pair{"scales_128x4_transposed.npy", "'scales_128x4_transposed'"}}) {
    INFO(file);
    const fs::path added = sub + "/" + file;
    fs::create_directories(added.parent_path());
    fs::copy_file(smoke.mxfp4 + "codes.npy", added);
    const auto refused = run_cli(verify);
    CHECK(refused.exit_code == 2);
    CHECK_THAT(refused.err, Catch::Contains(says) && Catch::Contains("--ignore"));
    const Json left_out = smoke.verify("--candidate " + dump + " --ignore " + added.filename().string(), 0);
    CHECK(reason_of(left_out, "mxfp4.boundary.8x64/" + std::string(file)) == "--ignore");
    fs::remove(added);
  }
  fp4::test::write_text(dump + "/notes.txt", "hello");
  CHECK(run_cli(verify).exit_code == 2);
  CHECK(run_cli(verify + " --ignore notes.txt").exit_code == 0);
  fs::remove(dump + "/notes.txt");
  REQUIRE(fp4::test::run_shell("mkfifo " + sub + "/scales.npy").exit_code == 0);
  const auto pipe = run_cli(verify);
  CHECK(pipe.exit_code == 2);
  CHECK_THAT(pipe.err, Catch::Contains("scales.npy") && Catch::Contains("not a regular file"));
}

TEST_CASE("a verdict says how much it is about, and gaps can fail", "[cli]") {
  const Smoke smoke;
  const std::string dump = smoke.folder / "dump", sub = dump + "/mxfp4.boundary.8x64/";
  fs::create_directories(sub);
  for (const char* name : {"codes.npy", "scales.npy", "tensor_scale.npy"})
    fs::copy_file(smoke.mxfp4 + name, sub + name);
  const std::string verify = "verify --golden " + smoke.golden + " --candidate " + dump;
  const auto result = run_cli(verify);
  CHECK(result.exit_code == 0);
  const Json json = smoke.verify("--candidate " + dump, 0);
  const std::string all = std::to_string(json.at("coverage").at("of").get<int>());
  CHECK_THAT(run_cli(verify + " --stage codes").out, Catch::Contains("ignored (not of --stage)"));
  CHECK_THAT(result.out, Catch::EndsWith("equal in 1 of " + all +
                                         " cases; stages scales tensor_scale codes; not in the dump: dequantized\n"));
  CHECK(json.at("coverage").at("cases") == 1);
  CHECK(json.at("coverage").at("stages") == Json({"scales", "tensor_scale", "codes"}));
  CHECK(json.at("coverage").at("not_in_the_dump").at(0) == Json({{"stage", "dequantized"}, {"cases", 1}, {"of", 1}}));
  CHECK(json.at("complete") == true);

  CHECK(run_cli(verify + " --require scales,codes").exit_code == 0);
  for (const char* gap : {" --require all", " --require dequantized", " --require output", " --all-cases"}) {
    INFO(gap);
    const auto incomplete = run_cli(verify + gap);
    CHECK(incomplete.exit_code == 1);
    CHECK_THAT(incomplete.out, Catch::Contains("NOT complete, equal in 1 of " + all));
    const Json report = smoke.verify("--candidate " + dump + gap, 1);
    CHECK(report.at("equal") == true);
    CHECK(report.at("complete") == false);
    CHECK(report.at("gaps").size() == 1);
  }
  CHECK_THAT(run_cli(verify + " --require code").err, Catch::Contains("did you mean 'codes'"));
  CHECK(run_cli("verify --golden " + smoke.golden + " --candidate " + smoke.golden + " --require all --all-cases")
            .exit_code == 0);
}

TEST_CASE("a flipped bit anywhere in a bundle is damage of the bundle, never of the kernel", "[cli]") {
  const TemporaryFolder folder;
  const std::string golden = folder / "golden", dump = folder / "dump";
  REQUIRE(run_cli("witness floor rceil --count 1 --out " + golden).exit_code == 0);
  fs::copy(golden, dump, fs::copy_options::recursive);
  fs::remove(dump + "/manifest.json");
  int flipped = 0;
  for (const auto& entry : fs::recursive_directory_iterator(golden)) {
    if (!entry.is_regular_file()) continue;
    const std::string whole = fp4::test::read_text(entry.path());
    const std::string name = entry.path().filename().string();
    // Each file at 12 places, from its first bit to its last.
    for (size_t i = 0; i < 12; ++i, ++flipped) {
      const size_t bit = (8 * whole.size() - 1) * i / 11;
      std::string bytes = whole;
      bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ (1 << bit % 8));
      fp4::test::write_text(entry.path(), bytes);
      INFO(name << ", bit " << bit);
      for (const std::string& words :
           {"verify --golden " + golden + " --candidate " + dump, "golden check " + golden}) {
        const auto result = run_cli(words);
        CHECK(result.exit_code == 1);
        CHECK_THAT(result.out + result.err, Catch::Contains(name) && Catch::Contains("damaged"));
        CHECK_THAT(result.out, !Catch::Contains("equal in") && !Catch::Contains("diagnosis"));
      }
    }
    fp4::test::write_text(entry.path(), whole);
  }
  CHECK(flipped >= 60);
  CHECK(run_cli("verify --golden " + golden + " --candidate " + dump).exit_code == 0);
  fs::remove(golden + "/witness_1/codes.npy");
  const auto missing = run_cli("verify --golden " + golden + " --candidate " + dump);
  CHECK(missing.exit_code == 1);
  CHECK_THAT(missing.err, Catch::Contains("witness_1/codes.npy is damaged: it is missing"));
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

TEST_CASE("a case of one's own is a bundle like any other", "[cli]") {
  const fp4::test::TemporaryFolder folder;
  const std::string at = folder / "";
  const auto run = [](const std::string& words, int exit_code) {
    const auto result = fp4::test::run_cli(words);
    INFO(words << result.out << result.err);
    CHECK(result.exit_code == exit_code);
    return result;
  };
  run("golden make --spec mxfp4,scale_rule=rceil --shape 5x96 --input gaussian --input-type bf16 --seed 3 --out " + at +
          "q",
      0);
  run("golden check " + at + "q", 0);
  const std::string own = at + "q/mxfp4.scale_rule-rceil.gaussian.5x96/";
  const fp4::FloatTensor x = fp4::load_floats(own + "input.npy");
  for (const float v : x.values) CHECK((fp4::bits_of(v) & 0xFFFFu) == 0);
  run("golden make --spec nvfp4 --shape 2x3x64 --accumulators k64_rz,exact --out " + at + "p", 0);
  const Json listed = Json::parse(run("golden list " + at + "p --json", 0).out).at("rows").at(0);
  CHECK(listed.at("shape") == "2x3x64");
  CHECK(fs::exists(at + "p/gemm.nvfp4.spread.2x64x3/output_exact.npy"));
  CHECK_FALSE(fs::exists(at + "p/gemm.nvfp4.spread.2x64x3/output_double.npy"));
  run("golden make --spec nvfp4 --input " + own + "input.npy --out " + at + "f", 0);
  CHECK(fp4::test::read_text(at + "f/nvfp4.boundary.5x96/input.npy") == fp4::test::read_text(own + "input.npy"));
  run("golden check " + at + "f", 0);
  CHECK_THAT(run("golden make --spec nvfp4 --shape 5 --out " + at + "w", 2).err, Catch::Contains("expected MxK"));
  CHECK_THAT(run("golden make --spec nvfp4 --shape 5x32 --input gausian --out " + at + "w", 2).err,
             Catch::Contains("did you mean 'gaussian'"));
  CHECK_THAT(run("golden make --out " + at + "w", 2).err, Catch::Contains("either --suite NAME or"));
}

TEST_CASE("the products of smoke tell every accumulator from fp32_block", "[cli]") {
  const Smoke smoke;
  int products = 0;
  const Json manifest = Json::parse(fp4::test::read_text(smoke.golden + "/manifest.json"));
  for (const Json& c : manifest.at("cases")) {
    if (c.at("kind") != "gemm") continue;
    ++products;
    INFO(c.at("name") << c.at("told_apart"));
    CHECK(c.at("told_apart").size() + 1 == c.at("accumulators").size());
    for (const Json& count : c.at("told_apart")) CHECK(count.get<int>() > 0);
  }
  CHECK(products == 4);
}

// Gaussian products tell few adders apart, so the suite as a whole has to, for every format it multiplies in.
TEST_CASE("the products of standard tell every accumulator from fp32_block in every format", "[cli]") {
  const fp4::test::TemporaryFolder folder;
  REQUIRE(fp4::test::run_cli("golden make --suite standard --no-sync --out " + folder / "standard").exit_code == 0);
  std::map<std::string, std::map<std::string, int>> told;
  const Json manifest = Json::parse(fp4::test::read_text(folder / "standard/manifest.json"));
  for (const Json& c : manifest.at("cases"))
    if (c.at("kind") == "gemm")
      for (const auto& [accumulator, count] : c.at("told_apart").items())
        told[c.at("words").get<std::string>()][accumulator] += count.get<int>();
  CHECK(told.size() >= 4);
  for (const auto& [words, counts] : told)
    for (const auto& [accumulator, count] : counts) {
      INFO(words << " " << accumulator);
      CHECK(count > 0);
    }
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
