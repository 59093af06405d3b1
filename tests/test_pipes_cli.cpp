// What surrounds a command: standard input and output as pipes, widths of tables, older words of options, and a sweep
// in which nothing finished.
#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>
#include <string>

#include "tests/support/support.h"

using Catch::Matchers::Contains;
using Catch::Matchers::StartsWith;
using fp4::test::fp4sim_path;
using fp4::test::read_text;
using fp4::test::run_cli;
using fp4::test::run_shell;
using fp4::test::TemporaryFolder;
using fp4::test::write_text;

namespace {

size_t widest_line(const std::string& text) {
  size_t widest = 0;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    widest = std::max(widest, end - at);
    at = end + 1;
  }
  return widest;
}

}  // namespace

TEST_CASE("- is standard input for quantize and compare", "[cli]") {
  TemporaryFolder folder;
  REQUIRE(run_cli("golden make --suite smoke --out " + folder / "golden").exit_code == 0);
  const std::string tensor = run_shell("ls " + folder / "golden" + "/*/input.npy | head -1 | tr -d '\\n'").out;
  REQUIRE(run_cli("quantize " + tensor + " --spec nvfp4 --out " + folder / "file").exit_code == 0);
  const auto piped =
      run_shell("cat " + tensor + " | " + fp4sim_path() + " quantize - --spec nvfp4 --out " + folder / "pipe");
  INFO(piped.err);
  REQUIRE(piped.exit_code == 0);
  for (const char* name : {"/codes.npy", "/scales.npy", "/dequantized.npy"})
    CHECK(read_text(folder / "file" + name) == read_text(folder / "pipe" + name));
  const auto compared = run_shell(fp4sim_path() + " compare - --specs mxfp4 nvfp4 --json < " + tensor);
  INFO(compared.err);
  REQUIRE(compared.exit_code == 0);
  const auto rows = nlohmann::json::parse(compared.out)["rows"];
  const auto direct = nlohmann::json::parse(run_cli("compare " + tensor + " --specs mxfp4 nvfp4 --json").out)["rows"];
  REQUIRE(rows.size() == direct.size());
  for (size_t i = 0; i < rows.size(); ++i) CHECK(rows[i]["nmse"] == direct[i]["nmse"]);
  // Raw numbers too, and no copy is left behind.
  const auto raw = run_shell("head -c 4096 /dev/zero | TMPDIR=" + folder / "." + " " + fp4sim_path() +
                             " quantize - --dtype f32 --shape 32x32 --spec mxfp4 --out " + folder / "raw");
  INFO(raw.err);
  CHECK(raw.exit_code == 0);
  CHECK(run_shell("ls " + folder / "." + " | grep -c fp4sim_stdin").out == "0\n");
  CHECK(run_shell("printf '' | " + fp4sim_path() + " compare - --specs mxfp4").exit_code == 2);
}

TEST_CASE("a reader that has read enough is no failure of a list", "[cli]") {
  const auto status = [](const std::string& command) {
    return run_shell("bash -c '" + fp4sim_path() + " " + command + " | head -1 >/dev/null; echo ${PIPESTATUS[0]}'").out;
  };
  CHECK(status("list") == "0\n");
  CHECK(status("completion bash") == "0\n");
  CHECK(run_shell(fp4sim_path() + " list > /dev/full").exit_code == 1);  // a full disk is one
}

TEST_CASE("tables take the width there is, and none in a pipe", "[cli]") {
  const auto list = [](const std::string& columns) {
    return run_shell(columns + " " + fp4sim_path() + " list accumulators").out;
  };
  CHECK(widest_line(list("COLUMNS=80")) <= 80);
  const size_t wide = widest_line(list("COLUMNS=160"));
  CHECK(wide > 80);
  CHECK(wide <= 160);
  const std::string piped = list("env -u COLUMNS");
  CHECK(widest_line(piped) > 160);
  // One line for each rule, its title and the line below.
  const auto rules = nlohmann::json::parse(run_cli("list accumulators --json").out)["rows"].size();
  CHECK(static_cast<size_t>(std::count(piped.begin(), piped.end(), '\n')) == rules + 2);
}

TEST_CASE("an option shows the word that means one thing, and takes the older one", "[cli]") {
  for (const auto& [command, shown, older] : {std::array{"convert", "--matrix", "--size"},
                                              {"eval", "--recipes", "--recipe "},
                                              {"stats", "--step", "--at"},
                                              {"cost", "--rotations", "--hadamard"},
                                              {"cost calibrate", "--square", "--size"}}) {
    const std::string help = run_cli(std::string(command) + " --help").out;
    INFO(help);
    CHECK_THAT(help, Contains(shown) && !Contains(older));
  }
  CHECK(run_cli("cost --recipe mxfp4 --hadamard fused").out == run_cli("cost --recipe mxfp4 --rotations fused").out);
  CHECK_THAT(run_cli("cost --recipe mxfp4 --hadamard slow").err, Contains("--rotations: unknown word 'slow'"));
}

TEST_CASE("a sweep in which every run diverged says so first", "[cli]") {
  TemporaryFolder folder;
  write_text(folder / "grid.json", R"({"name": "lost", "task": ["regression"], "seeds": 2,
    "train": {"steps": 30, "lr": 1000, "clip": 0}, "axes": {"recipe": ["mxfp4", "nvfp4"]}})");
  const auto ran = run_cli("sweep run " + folder / "grid.json" + " --quiet --out " + folder / "lost");
  INFO(ran.err);
  const auto front = run_cli("pareto " + folder / "lost");
  INFO(front.out << front.err);
  CHECK(front.exit_code == 0);
  CHECK_THAT(front.out, StartsWith("There is no front: "));
  CHECK_THAT(front.out, Contains("settings diverged"));
}

TEST_CASE("values of an axis that mean the same are refused or named", "[cli]") {
  TemporaryFolder folder;
  const auto planned = [&](const std::string& values) {
    write_text(folder / "grid.json", R"({"name": "same", "task": ["regression"], "seeds": 1, "train": {"steps": 3},
      "axes": {"recipe": ["mxfp4"], "wgrad.hadamard.size": )" +
                                         values + "}}");
    return run_cli("sweep run " + folder / "grid.json" + " --dry-run");
  };
  CHECK_THAT(planned("[128, 128.0]").err, Contains("'128.0' means the same as '128'"));
  CHECK_THAT(planned("[0, null]").out, Contains("wgrad.hadamard.size: '0' and 'null' mean the same at 1 point\n"));
  CHECK(planned("[16, 32]").out.find("mean the same") == std::string::npos);
}
