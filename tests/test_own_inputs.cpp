// No command replaces what it reads, whatever --force says, nor without --force what is there: each option of each
// command that writes a file.
#include <catch2/catch.hpp>
#include <filesystem>
#include <set>
#include <sstream>

#include "tests/support/support.h"

namespace fs = std::filesystem;
using Catch::Matchers::Contains;
using fp4::test::read_text;
using fp4::test::run_cli;
using fp4::test::TemporaryFolder;
using fp4::test::write_text;

namespace {

// OUT stands for the option's value; `input` is a file that the command reads.
struct Row {
  std::string command, input;
};

// Tensors, a trace, a table, a sweep and a golden bundle to read.
class Workplace {
 public:
  Workplace() {
    fs::current_path(folder_.path());
    write_text("x.bin", std::string(64 * 64, 'a'));
    write_text("t.txt", std::string(5000, 'b'));
    write_text("e.csv", "group,name,task,mean,low,high,delta\ng,one,lm,0.1,0.05,0.2,0.01\n");
    write_text("g.json", R"({"name": "g", "task": "regression", "base": "mxfp4", "seeds": 2,
      "train": {"steps": 2, "curve_points": 1}, "axes": {"wgrad.hadamard.size": [0, 16]}})");
    for (const char* words :
         {"hadamard x.bin --dtype u8 --shape 64x64 --size 16 --out x.npy", "quantize x.npy --spec mxfp4 --out q",
          "quantize x.npy --spec mxfp4 --out p", "sweep run g.json --quiet --out s", "sweep export s --out runs.csv",
          "train --task regression --recipe mxfp4 --steps 3 --quiet --trace trace.csv --trace-every 1"}) {
      const auto made = run_cli(words);
      INFO(words << made.err);
      REQUIRE(made.exit_code == 0);
    }
    fs::create_hard_link("x.npy", "other.npy");
    fs::create_symlink("x.npy", "link.npy");
  }
  ~Workplace() { fs::current_path(before_); }

 private:
  const fs::path before_ = fs::current_path();
  TemporaryFolder folder_;
};

const std::vector<Row> rows = {{"hadamard x.npy --size 16 --out OUT", "x.npy"},
                               {"hadamard x.npy --size 16 --out OUT", "other.npy"},
                               {"hadamard x.npy --size 16 --out OUT", "link.npy"},
                               {"gemm x.npy x.npy --spec mxfp4 --accumulator fp32_sequential --out OUT", "x.npy"},
                               {"convert q/scales.npy --matrix 64x2 --scale-layout 128x4 --out OUT", "q/scales.npy"},
                               {"dequantize q --out OUT", "q/codes.npy"},
                               {"dequantize q --out OUT", "q/manifest.json"},
                               {"train --task lm --steps 1 --quiet --text t.txt --out OUT", "t.txt"},
                               {"train --task lm --steps 1 --quiet --text t.txt --trace OUT", "t.txt"},
                               {"train --task lm --steps 1 --quiet --text t.txt --checkpoint OUT", "t.txt"},
                               {"trace plot trace.csv --out OUT", "trace.csv"},
                               {"sweep export s --out OUT", "s/sweep.sqlite"},
                               {"table s --csv OUT", "s/sweep.sqlite"},
                               {"table s --json OUT", "s/sweep.sqlite"},
                               {"pareto s --json OUT", "s/sweep.sqlite"},
                               {"report s --out OUT", "s/sweep.sqlite"},
                               {"effects s --axis wgrad.hadamard.size --csv OUT", "s/sweep.sqlite"},
                               {"effects e.csv --title T --figure OUT", "e.csv"}};

// What is written whole into a folder reads no file of it, or reads none at all.
const std::set<std::string> others = {"quantize",     "random",         "witness",       "golden make",
                                      "golden pack",  "cost calibrate", "cost validate", "cost new-chip",
                                      "cost measure", "serve",          "cost new-model"};

// "sweep export": commands whose help has --force.
std::set<std::string> commands_with_force() {
  std::set<std::string> found;
  const auto names_in = [](const std::string& words) {
    std::vector<std::string> names;
    std::istringstream help(run_cli(words + " --help").out);
    for (std::string line; std::getline(help, line);)
      if (line.starts_with("  ") && line.size() > 3 && std::islower(static_cast<unsigned char>(line[2])))
        names.push_back(line.substr(2, line.find(' ', 2) - 2));
    return names;
  };
  for (const std::string& name : names_in("")) {
    std::vector<std::string> words = {name};
    if (name == "sweep" || name == "golden" || name == "cost" || name == "trace")
      for (const std::string& sub : names_in(name)) words.push_back(name + " " + sub);
    for (const std::string& command : words)
      if (run_cli(command + " --help").out.find("--force") != std::string::npos) found.insert(command);
  }
  return found;
}

std::string with(std::string command, const std::string& out) { return command.replace(command.find("OUT"), 3, out); }

}  // namespace

TEST_CASE("no output takes the place of an input, by force or by another name", "[cli]") {
  const Workplace workplace;
  for (const Row& row : rows) {
    const std::string before = read_text(row.input);
    const auto forced = run_cli(with(row.command, row.input) + " --force");
    INFO(row.command << ", " << row.input << "\n" << forced.err);
    CHECK(forced.exit_code == 2);
    CHECK_THAT(forced.err, Contains("is an input of this command"));
    CHECK(read_text(row.input) == before);
    // Somebody's file.
    write_text("foreign", "mine");
    const auto plain = run_cli(with(row.command, "foreign"));
    INFO(plain.err);
    CHECK(plain.exit_code == 2);
    CHECK_THAT(plain.err, Contains("foreign: exists already (--force replaces it)"));
    CHECK(read_text("foreign") == "mine");
  }
  // NAME.json beside the network that it is made of.
  const std::string network =
      R"({"model_type": "llama", "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 2,
  "num_key_value_heads": 2, "max_position_embeddings": 64, "vocab_size": 100})";
  write_text("config.json", network);
  const auto model = run_cli("cost new-model config config.json --force");
  CHECK(model.exit_code == 2);
  CHECK_THAT(model.err, Contains("is an input of this command"));
  CHECK(read_text("config.json") == network);
  const std::string before = read_text("q/dequantized.npy");
  const auto folder = run_cli("quantize q/dequantized.npy --spec mxfp4 --out q --force");
  CHECK(folder.exit_code == 2);
  CHECK_THAT(folder.err, Contains("is an input of this command"));
  CHECK(read_text("q/dequantized.npy") == before);
  CHECK(run_cli("dequantize q --out y.npy").exit_code == 0);  // still whole
  // Its own page is what a study brings up to date; a result that was not read is replaced by force.
  CHECK(run_cli("hadamard x.npy --size 16 --out y.npy --force").exit_code == 0);
  for (const auto& entry : fs::recursive_directory_iterator("."))
    CHECK(entry.path().string().find(".tmp") == std::string::npos);
}

TEST_CASE("every command that can replace a file is tried", "[cli]") {
  std::set<std::string> tried = others;
  for (const Row& row : rows)
    tried.insert(row.command.substr(
        0, row.command.find(' ', row.command.starts_with("sweep ") || row.command.starts_with("trace ") ? 6 : 0)));
  CHECK(commands_with_force() == tried);
}

TEST_CASE("a place that cannot be written is told before the work", "[cli]") {
  const Workplace workplace;
  for (const Row& row : rows) {
    if (row.command.starts_with("dequantize")) continue;  // may be a folder, with those above it
    const auto result = run_cli(with(row.command, "absent/out"));
    INFO(row.command << "\n" << result.err);
    CHECK(result.exit_code == 2);
    CHECK_THAT(result.err, Contains("absent/out: cannot be written"));
  }
}
