// Does the program end with 0, 1 or 2 and at most one line of reason, whatever the process it was started as lacks:
// streams that are closed or full, memory, threads, room in files? And does it give the same bits under any
// floating-point environment that a preloaded library has set?
#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/support/support.h"

namespace fs = std::filesystem;
using fp4::test::run_shell;
using fp4::test::RunResult;
using fp4::test::TemporaryFolder;
using Json = nlohmann::json;

namespace {

const std::string program = "'" + fs::absolute(fp4::test::fp4sim_path()).string() + "' ";

std::string preload_library() {
  const char* build = std::getenv("FP4SIM_BUILD");
  return fs::absolute(std::string(build != nullptr ? build : "build") + "/tests/libfp4_preload.so").string();
}

constexpr const char* grid = R"({"name": "tiny", "task": ["regression"], "seeds": 2,
  "train.regression": {"steps": 4, "batch": 8, "curve_points": 2}, "axes": {"recipe": ["mxfp4", "nvfp4"]}})";

size_t lines(const std::string& text) { return static_cast<size_t>(std::count(text.begin(), text.end(), '\n')); }

std::string rows_of(const TemporaryFolder& folder, const std::string& store) {
  const RunResult table = run_shell(program + "table " + (folder / store) + " --json\n");
  return table.exit_code == 0 ? std::to_string(Json::parse(table.out).at("rows").size()) : table.err;
}

}  // namespace

TEST_CASE("messages that nobody can read end no command", "[cli]") {
  const TemporaryFolder folder;
  fp4::test::write_text(folder / "grid.json", grid);
  int number = 0;
  // A reader that has gone is `2>&1 >/dev/null | true`.
  for (const char* redirection : {"2>&-", "2>/dev/full", "0<&- 2>&-", "2>&1 >/dev/null | true"}) {
    INFO(redirection);
    const std::string out = "out" + std::to_string(++number), run = folder / (out + ".json");
    const std::string rest = std::string(" ") + redirection + "\n";
    // Not --quiet: progress, notes and errors all go to stderr.
    run_shell(program + "sweep run " + (folder / "grid.json") + " --jobs 2 --out " + (folder / out) + rest);
    CHECK(rows_of(folder, out) == "4");
    run_shell(program + "train --task regression --steps 20 --out " + run + rest);
    CHECK(Json::parse(fp4::test::read_text(run)).at("status") == "finished");
    if (rest.find('|') == std::string::npos) {
      CHECK(run_shell(program + "train --task nothing" + rest).exit_code == 2);
      CHECK(run_shell(program + "verify --golden /nowhere --candidate /nowhere" + rest).exit_code == 2);
    }
  }
}

TEST_CASE("a result that cannot be printed is exit code 1 and one line", "[cli]") {
  for (const char* words :
       {"list formats", "version", "--help", "show mxfp4", "train --task regression --steps 2 --quiet"})
    for (const char* redirection : {">/dev/full", ">&-"}) {
      INFO(words << redirection);
      const RunResult r = run_shell(program + words + redirection + "\n");
      CHECK(r.exit_code == 1);
      CHECK(lines(r.err) == 1);
      CHECK_THAT(r.err, Catch::Contains("fp4sim: standard output: "));
    }
  // The reader of a pipe that has what it wanted gets no error beside it.
  CHECK(run_shell(program + "list formats | true").err.empty());
  CHECK(run_shell("{ sleep 0.2; " + program + "help recipe; } | true").err.empty());  // gone before the first of many
  // stdin, stdout and stderr closed: no result file gets their numbers and the messages with them.
  const TemporaryFolder folder;
  const std::string run = folder / "run.json";
  CHECK(run_shell(program + "train --task regression --steps 20 --out " + run + " <&- >&- 2>&-\n").exit_code == 1);
  CHECK(Json::parse(fp4::test::read_text(run)).at("status") == "finished");
}

TEST_CASE("a limit on file size is an error of that file", "[cli]") {
  const TemporaryFolder folder;
  fp4::test::write_text(folder / "grid.json", grid);
  // 512-byte blocks: less than a result, a checkpoint and a store need.
  for (const std::string& words :
       std::initializer_list<std::string>{"train --task regression --steps 2 --quiet --out " + (folder / "run.json"),
                                          "train --task regression --steps 2 --quiet --checkpoint " + (folder / "c"),
                                          "sweep run " + (folder / "grid.json") + " --quiet --out " + (folder / "s"),
                                          "golden make --suite smoke --out " + (folder / "g")}) {
    const RunResult r = run_shell("ulimit -c 0; ulimit -f 2; exec " + program + words + "\n");
    INFO(words << "\n" << r.err);
    CHECK(r.exit_code == 1);
    CHECK(lines(r.err) == 1);
  }
  for (const char* name : {"run.json", "c", "g"}) CHECK_FALSE(fs::exists(folder / name));
  const fs::directory_iterator all(folder.path());
  CHECK(std::distance(begin(all), end(all)) <= 2);  // the grid, and perhaps an empty store
}

TEST_CASE("too little memory is exit code 1 and one line", "[cli]") {
  const TemporaryFolder folder;
  fp4::test::write_text(folder / "grid.json", grid);
  int done = 0, refused = 0;
  for (const int kilobytes : {60000, 80000, 100000, 140000, 200000, 300000, 2000000})
    for (const std::string& words :
         {"train --task lm --steps 1 --quiet --threads 2 --out " + (folder / "run.json"),
          "quantize " + (folder / "x.bin") + " --dtype f32 --shape 512x4096 --spec nvfp4 --threads 2 --out " +
              (folder / "q")}) {
      std::ofstream(folder / "x.bin") << std::string(512 * 4096 * 4, 'x');
      const RunResult r =
          run_shell("ulimit -c 0; ulimit -v " + std::to_string(kilobytes) + "; exec " + program + words + "\n");
      INFO(kilobytes << " kB: " << words << "\n" << r.exit_code << " " << r.err);
      // 127: the loader found no room for the program itself.
      if (r.exit_code == 127) continue;
      CHECK((r.exit_code == 0 || r.exit_code == 1));
      CHECK(lines(r.err) == (r.exit_code == 0 ? 0 : 1));
      (r.exit_code == 0 ? done : refused) += 1;
      for (const char* name : {"run.json", "q"}) {
        CHECK(fs::exists(folder / name) == (r.exit_code == 0 && words.ends_with(std::string("/") + name)));
        fs::remove_all(folder / name);
      }
    }
  CHECK(done > 0);
  CHECK(refused > 0);
}

TEST_CASE("without threads, one thread does the work", "[cli]") {
  if (!fs::exists(preload_library())) return;
  const std::string words =
      "train --task regression --set width=256 --set train.batch=256 --steps 3 --quiet --json --threads 4";
  const RunResult with = run_shell(program + words + "\n");
  const RunResult without =
      run_shell("LD_PRELOAD='" + preload_library() + "' FP4_FAULT=pthread_create:1+ " + program + words + "\n");
  REQUIRE(with.exit_code == 0);
  INFO(without.err);
  REQUIRE(without.exit_code == 0);
  CHECK(Json::parse(with.out).at("digest") == Json::parse(without.out).at("digest"));
}

#if defined(__x86_64__) || defined(__aarch64__)
TEST_CASE("rounding mode and flush-to-zero of a preloaded library change no result", "[cli]") {
  if (!fs::exists(preload_library())) return;
#if defined(__x86_64__)
  // MXCSR: bits 14-13 rounding, bit 15 FTZ, bit 6 DAZ.
  const std::vector<std::string> environments = {"0", "2000", "4000", "6000", "8040", "A040", "C040", "E040"};
#else
  // FPCR: bits 23-22 rounding, bit 24 FZ.
  const std::vector<std::string> environments = {"0",       "400000",  "800000",  "C00000",
                                                 "1000000", "1400000", "1800000", "1C00000"};
#endif
  // Two threads, as the products are large enough for them.
  const std::string words =
      "train --task regression --set width=256 --set train.batch=256 --steps 3 --quiet --json --threads 2";
  std::string digest, signature;
  for (const std::string& bits : environments) {
    const std::string in = "LD_PRELOAD='" + preload_library() + "' FP4_HOST_FLOATS=" + bits + " " + program;
    const RunResult run = run_shell(in + words + "\n"), sign = run_shell(in + "signature\n");
    INFO(bits << run.err << sign.err);
    REQUIRE(run.exit_code == 0);
    REQUIRE(sign.exit_code == 0);
    const std::string got = Json::parse(run.out).at("digest");
    if (digest.empty()) digest = got, signature = sign.out;
    CHECK(got == digest);
    CHECK(sign.out == signature);
  }
}
#endif
