// `fp4sim golden`, `verify` and `witness` as a kernel engineer and his scripts run them.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "fp4/bits.h"
#include "src/files/tensor_reader.h"
#include "src/files/tensor_writer.h"
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

TEST_CASE("an epilogue that was said and left out is named", "[cli]") {
  const Smoke smoke;
  // Three numbers for the three columns of the product.
  REQUIRE(run_cli("golden make --spec mxfp4 --shape 1x3 --input gaussian --out " + (smoke.folder / "bias")).exit_code ==
          0);
  const std::string words =
      "--candidate " + smoke.gemm + "output_fp32_block.npy --case gemm.mxfp4.spread.4x512x3 --stage output ";
  const std::string bias = "--bias " + (smoke.folder / "bias/mxfp4.gaussian.1x3/input.npy");
  for (const std::string& said : {std::string("--alpha 0.5"), bias, std::string("--output-type bf16"),
                                  "--alpha 0.5 " + bias + " --output-type bf16"}) {
    INFO(said);
    const Json result = smoke.verify(words + said, 1);
    CHECK(result.at("diagnosis").at(0).at("cause") == "epilogue=none");
    CHECK(result.at("diagnosis").at(0).at("explains") == 1.0);
  }
}

TEST_CASE("an accumulator that does not exist, or that the bundle lacks, is named", "[cli]") {
  const Smoke smoke;
  for (const std::string& dump : {smoke.mxfp4 + "codes.npy", smoke.gemm + "output_exact.npy"}) {
    INFO(dump);
    const auto unknown = run_cli("verify --golden " + smoke.golden + " --candidate " + dump + " --accumulator nope");
    CHECK(unknown.exit_code == 2);
    CHECK_THAT(unknown.err, Catch::Contains("verify --accumulator: unknown word 'nope'"));
  }
  const std::string two = smoke.folder / "two", output = smoke.folder / "output.npy";
  REQUIRE(run_cli("golden make --spec mxfp4 --shape 2x3x64 --accumulators k64_rz,exact --out " + two).exit_code == 0);
  fs::copy_file(two + "/gemm.mxfp4.spread.2x64x3/output_exact.npy", output);
  const std::string verify = "verify --golden " + two + " --candidate " + output;
  CHECK(run_cli(verify + " --accumulator exact").exit_code == 0);
  const auto lacking = run_cli(verify + " --accumulator double");
  CHECK(lacking.exit_code == 2);
  CHECK_THAT(lacking.err, Catch::Contains("unknown word 'double'; accepted: exact, k64_rz"));
}

TEST_CASE("a verdict fits a terminal, and is one line elsewhere", "[cli]") {
  const Smoke smoke;
  const std::string dump = smoke.folder / "dump";
  REQUIRE(run_cli("quantize " + smoke.mxfp4 + "input.npy --spec mxfp4,scale_rule=rceil --out " + dump +
                  "/mxfp4.boundary.8x64")
              .exit_code == 0);
  const std::string verify = "verify --golden " + smoke.golden + " --candidate " + dump;
  CHECK_THAT(
      run_cli(verify).out,
      Catch::Contains("diagnosis: equals scale_rule=rceil (the kernel does scale_rule=rceil instead of floor)\n"));
  // script(1) runs a command on a terminal of its own.
  const std::string shown = fp4::test::run_shell("script -qec 'NO_COLOR=1 " + fp4::test::fp4sim_path() + " " + verify +
                                                 "' /dev/null < /dev/null")
                                .out;
  CHECK_THAT(shown, Catch::Contains("diagnosis: ") && Catch::Contains("NOT equal: ") && !Catch::Contains("\033"));
  std::istringstream lines(shown);
  for (std::string line; std::getline(lines, line);) {
    INFO(line);
    CHECK(line.size() <= 81);  // with the terminal's carriage return
  }
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
  const auto wrong = fp4::test::run_shell(ask + " | sed 's/codes=[0-9a-f]*/codes=1f/'" + judge);
  CHECK(wrong.exit_code == 1);
  CHECK_THAT(wrong.out, Catch::Contains("codes: differs"));
}

TEST_CASE("what a backend declines is counted and named, and the rest compared", "[cli]") {
  const Smoke smoke;
  const auto check = [&](int exit_code) {
    const auto result = run_cli("golden check " + smoke.golden + " --backend generic --json");
    INFO(result.err);
    REQUIRE(result.exit_code == exit_code);
    return Json::parse(result.out);
  };
  const Json whole = check(0);
  CHECK(whole["equal"] == true);
  CHECK(whole["cases"] == 24);
  const size_t declined = whole["declined"].size();
  CHECK(declined > 0);
  CHECK(run_cli("golden check " + smoke.golden).err.find("declined") == std::string::npos);
  CHECK_THAT(run_cli("golden check " + smoke.golden + " --backend generic").err,
             Catch::Contains("generic declined " + std::to_string(declined) + " arrays"));
  // A byte of the last case, behind all that is declined.
  const std::string file = run_cli("golden list " + smoke.golden + " --json").out;
  const std::string last = Json::parse(file)["rows"].back()["name"];
  const bool is_gemm = last.starts_with("gemm");
  for (const auto& entry : fs::directory_iterator(smoke.golden + "/" + last)) {
    const std::string name = entry.path().stem();
    if (name != (is_gemm ? "a" : "input")) continue;
    std::string bytes = fp4::test::read_text(entry.path());
    bytes.back() = static_cast<char>(bytes.back() ^ 1);
    fp4::test::write_text(entry.path(), bytes);
  }
  const Json damaged = check(1);
  CHECK(damaged["declined"].size() == declined);
  CHECK(damaged["differences"].size() >= 1);
  // The stream prints every case, and judges its own lines but for what is declined.
  const auto stream = run_cli("golden stream --backend generic");
  CHECK(stream.exit_code == 0);
  CHECK(std::count(stream.out.begin(), stream.out.end(), '\n') == 24);
  const std::string answers = smoke.folder / "answers";
  fp4::test::write_text(answers, run_cli("golden stream").out);
  const auto judged = run_cli("golden stream --backend generic --judge " + answers);
  INFO(judged.out << judged.err);
  CHECK(judged.exit_code == 0);
  CHECK_THAT(judged.err, Catch::Contains("declined"));
}

TEST_CASE("a suite judges answers alone, and says what has none", "[cli]") {
  const std::string ask = fp4::test::fp4sim_path() + " golden stream";
  const auto run = [](const std::string& answers) {
    return fp4::test::run_shell(answers + " | " + fp4::test::fp4sim_path() + " golden stream --judge -");
  };
  // Capital letters, 0x and leading zeros are the writer's choice; a number that is missing is not.
  const auto spelt = run(ask + " | sed -E 's/(codes|scales)=([0-9a-f,]*)/\\1=\\U\\2/; s/codes=0/codes=0x000/'");
  CHECK(spelt.exit_code == 0);
  CHECK(spelt.out == "260 of 260 arrays equal; judged 24 of 24 cases\n");
  CHECK(run(ask + " | sed 's/codes=[0-9a-f]*,/codes=/'").exit_code == 1);
  // Questions that come back are no answers, whole or in part.
  const auto echoed = run(ask + " --questions");
  CHECK(echoed.exit_code == 2);
  CHECK(echoed.out.empty());
  CHECK_THAT(echoed.err, Catch::Contains("no answers"));
  // The first case is mxfp4.boundary.8x64: codes in two layouts, scales in three, tensor_scale and dequantized.
  const auto one = run(ask + " | head -1");
  CHECK(one.exit_code == 0);
  CHECK(one.out == "7 of 7 arrays equal; judged 1 of 24 cases\n");
  const auto part = run(ask + " | head -1 | sed 's/ input=.* codes_high/ codes_high/; s/ tensor_scale=.*//'");
  CHECK(part.exit_code == 0);
  CHECK(part.out ==
        "not answered: tensor_scale, dequantized\n"
        "4 of 4 arrays equal; judged 1 of 24 cases\n");
  // A question that is not the suite's: the kernel was given something else.
  const auto fed = run(ask + " | head -1 | sed 's/ rows=8 / rows=9 /'");
  CHECK(fed.exit_code == 1);
  CHECK(fed.out ==
        "mxfp4.boundary.8x64 rows: is not the question's\n"
        "7 of 7 arrays equal; judged 1 of 24 cases; question fields differ\n");
  for (const auto& [answers, says] :
       {std::pair{std::string("echo case=mxfp4.boundary.8x64 spec=mxfp4 code=00"), "unknown word 'code'; did you mean"},
        std::pair{std::string("echo case=mxfp4.boundary.8x64 codes 00"), "'codes' is not key=value"},
        std::pair{std::string("echo case=mxfp4.boundary.8x64 codes=00 codes=00"), "codes is given twice"},
        std::pair{std::string("echo case=mxfp4.boundary codes=00"), "no case 'mxfp4.boundary'"},
        std::pair{std::string("echo codes=00"), "line 1: no case=NAME"},
        std::pair{"{ " + ask + "; " + ask + "; }", "line 25: case mxfp4.boundary.8x64 is given twice"}}) {
    const auto refused = run(answers);
    INFO(answers << "\n" << refused.out << refused.err);
    CHECK(refused.exit_code == 2);
    CHECK(refused.out.empty());
    CHECK_THAT(refused.err, Catch::Contains(says));
  }
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

TEST_CASE("a sparse product is a case, with its metadata", "[cli]") {
  const fp4::test::TemporaryFolder folder;
  const std::string golden = folder / "golden", dump = folder / "dump";
  REQUIRE(run_cli("golden make --spec mxfp8 --shape 16x8x1024 --sparse 2:4 --accumulators k64_rz,fp32_block --out " +
                  golden)
              .exit_code == 0);
  CHECK(run_cli("golden check " + golden).exit_code == 0);
  const std::string name = "sparse_2_4.gemm.mxfp8.spread.16x1024x8";
  fs::create_directories(dump);
  // A kernel that multiplies by the metadata is right, one that adds the zeros is named.
  const std::string operands = "gemm " + golden + "/" + name + "/a.npy " + golden + "/" + name +
                               "/b.npy --spec mxfp8 " + "--accumulator k64_rz --out " + dump +
                               "/output_k64_rz.npy --stream 0 --step 0";
  REQUIRE(run_cli(operands + " --sparse " + golden + "/" + name + "/metadata.npy").exit_code == 0);
  CHECK(run_cli("verify --golden " + golden + " --candidate " + dump).exit_code == 0);
  REQUIRE(run_cli(operands + " --sparse 2:4 --force").exit_code == 0);
  CHECK(run_cli("verify --golden " + golden + " --candidate " + dump).exit_code == 0);
  REQUIRE(run_cli(operands + " --force").exit_code == 0);
  const auto dense = run_cli("verify --golden " + golden + " --candidate " + dump);
  CHECK(dense.exit_code == 1);
  CHECK_THAT(dense.out, Catch::Contains("equals sparse=none"));
  REQUIRE(run_cli(operands + " --sparse 4:8 --force").exit_code == 0);
  const auto of_pairs = run_cli("verify --golden " + golden + " --candidate " + dump);
  CHECK(of_pairs.exit_code == 1);
  CHECK_THAT(of_pairs.out, Catch::Contains("equals sparse=4:8"));
  CHECK(run_cli("golden make --spec mxfp8 --shape 16x8x1024 --sparse 1:4 --out " + folder / "x").exit_code == 2);
  CHECK(run_cli("golden make --spec mxfp8 --shape 16x1024 --sparse 2:4 --out " + folder / "x").exit_code == 2);
  CHECK(run_cli("golden make --spec nvfp4,block=8 --shape 16x8x64 --sparse 2:4 --out " + folder / "x").exit_code == 2);
}

TEST_CASE("options of a case of one's own are refused beside a suite", "[cli]") {
  const TemporaryFolder folder;
  const std::string out = folder / "x";
  for (const std::string& words : {std::string("--shape 8x64"), std::string("--input gaussian"),
                                   std::string("--input-b b.npy"), std::string("--accumulators exact"),
                                   std::string("--seed 0"), std::string("--stream 4"), std::string("--step 4")}) {
    const auto result = run_cli("golden make --suite smoke " + words + " --out " + out);
    INFO(words << "\n" << result.err);
    CHECK(result.exit_code == 2);
    CHECK_THAT(result.err, Catch::Contains(words.substr(0, words.find(' ')) + " belongs to --spec"));
  }
  CHECK_FALSE(fs::exists(out));
}

TEST_CASE("words of policies are the rounding of elements or the scale rule", "[cli]") {
  const auto length = [](const std::string& models) {
    const auto result = run_cli("witness " + models + " --count 1 --json");
    INFO(models << "\n" << result.err);
    REQUIRE(result.exit_code == 0);
    return Json::parse(result.out).at("length").get<int>();
  };
  // One element between two codes is enough, and nearest ties differ at 5 = (4 + 6) / 2.
  CHECK(length("stochastic nearest_even") == 1);
  CHECK(length("stochastic toward_zero") == 1);
  CHECK(length("nearest_away nearest_even") > 0);
  CHECK(length("rceil floor") == 1);
  // Groups of 32 products and of 16 part at the 17th.
  CHECK(length("hopper_fp8 ada_fp8 --spec mxfp8") == 17);
}

TEST_CASE("random words of a case do not end a search that draws more bits", "[cli]") {
  const TemporaryFolder folder;
  std::vector<float> x;
  for (int i = 0; i < 256; ++i) x.push_back(std::sin(static_cast<float>(i)));
  fp4::save_tensor(folder / "x.npy", fp4::Dtype::f32, {4, 64}, x.data());
  fp4::save_tensor(folder / "words.npy", fp4::Dtype::u8, {4, 64}, std::vector<uint8_t>(256, 77).data());
  const std::string words = " --random-words " + (folder / "words.npy"), x_path = folder / "x.npy";
  REQUIRE(run_cli("quantize " + x_path + " --spec nvfp4 --out " + (folder / "q")).exit_code == 0);
  const auto result = run_cli("verify --input " + x_path + " --spec nvfp4,rounding=stochastic" + words +
                              " --candidate " + (folder / "q"));
  INFO(result.out + result.err);
  CHECK(result.exit_code == 1);
  CHECK_THAT(result.out, Catch::Contains("rounding=nearest_even"));
}

TEST_CASE("terms and places of a product that do not fit are refused", "[cli]") {
  const TemporaryFolder folder;
  const std::string a = folder / "a.npy", b = folder / "b.npy", c = folder / "c.npy";
  fp4::save_tensor(a, fp4::Dtype::f32, {4, 32}, std::vector<float>(128, 1.0f).data());
  fp4::save_tensor(b, fp4::Dtype::f32, {3, 32}, std::vector<float>(96, 1.0f).data());
  fp4::save_tensor(c, fp4::Dtype::f32, {3, 4}, std::vector<float>(12, 1.0f).data());
  for (const auto& [more, says] :
       {std::pair{"--beta 1 --c " + c, "c.npy has 12 numbers, (3, 4); 4 x 3 are needed"},
        std::pair{std::string("--alpha nan"), "expected finite numbers"},
        std::pair{std::string("--trace-adder 4 0"), "4 is no row of an operand; accepted: 0 .. 3"}}) {
    const auto result = run_cli("gemm " + a + " " + b + " --spec nvfp4 --out " + (folder / "o.npy") + " " + more);
    INFO(more << "\n" << result.err);
    CHECK(result.exit_code == 2);
    CHECK_THAT(result.err, Catch::Contains(says));
  }
}

TEST_CASE("a witness says how far it looked, and which model is none", "[cli]") {
  for (const auto& [words, longest] : {std::pair{"floor floor", 64}, std::pair{"floor floor --longest 20", 20},
                                       std::pair{"exact exact --longest 16", 16}}) {
    INFO(words);
    const auto text = run_cli(std::string("witness ") + words);
    CHECK(text.exit_code == 0);
    std::string flat = text.out;
    std::replace(flat.begin(), flat.end(), '\n', ' ');
    CHECK_THAT(flat,
               Catch::Contains("no difference") && Catch::Contains("up to K = " + std::to_string(longest) + " ("));
    CHECK(Json::parse(run_cli(std::string("witness ") + words + " --json").out).at("longest") == longest);
  }
  for (const auto& [words, says] :
       {std::pair{"k64_rz exact --count 0", "--count"}, std::pair{"k64_rz exact --count=-1", "--count"},
        std::pair{"k64_rz exact --longest 0", "--longest"}, std::pair{"k64_rz nope", "unknown word 'nope'"},
        std::pair{"nope k64_rz", "unknown word 'nope'"}, std::pair{"nope floor", "unknown word 'nope'"},
        std::pair{"k64_rz floor", "'k64_rz' is an accumulator and 'floor' a policy"},
        std::pair{"floor k64_rz", "'k64_rz' is an accumulator and 'floor' a policy"}}) {
    const auto result = run_cli(std::string("witness ") + words);
    INFO(words << "\n" << result.err);
    CHECK(result.exit_code == 2);
    CHECK(result.out.empty());
    CHECK_THAT(result.err, Catch::Contains(says));
  }
}

// Its dots by fp32 fma are exact below 8 bits, so that one rounding a block is left, as in fp32_block.
constexpr const char* exact_on_fp4 = "cdna4_isa";

TEST_CASE("the products of smoke tell every accumulator from fp32_block", "[cli]") {
  const Smoke smoke;
  int products = 0;
  const Json manifest = Json::parse(fp4::test::read_text(smoke.golden + "/manifest.json"));
  for (const Json& c : manifest.at("cases")) {
    if (c.at("kind") != "gemm") continue;
    ++products;
    INFO(c.at("name") << c.at("told_apart"));
    CHECK(c.at("told_apart").size() + 1 == c.at("accumulators").size());
    for (const auto& [accumulator, count] : c.at("told_apart").items()) {
      INFO(accumulator);
      if (accumulator != exact_on_fp4) CHECK(count.get<int>() > 0);
    }
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
      if (accumulator != exact_on_fp4) CHECK(count > 0);
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
