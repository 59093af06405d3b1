// Does `fp4sim help` know every word that tables print and README.md uses? Tables are made small and their titles asked
// for.
#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <regex>
#include <set>
#include <sstream>

#include "tests/support/workshop.h"

using namespace fp4::test;

namespace {

void add_cells(const std::string& row, char separator, std::set<std::string>& words) {
  std::istringstream in(row);
  for (std::string cell; std::getline(in, cell, separator);) {
    std::erase(cell, '\\');
    const size_t first = cell.find_first_not_of(' ');
    if (first == std::string::npos) continue;
    words.insert(cell.substr(first, cell.find_last_not_of(' ') + 1 - first));
  }
}

// Titles of all Markdown tables: a row above one of dashes.
std::set<std::string> titles_of(const std::string& text) {
  std::set<std::string> words;
  const std::vector<std::string> lines = lines_of(text);
  for (size_t i = 0; i + 1 < lines.size(); ++i)
    if (lines[i].starts_with('|') && lines[i + 1].find_first_not_of("|-: ") == std::string::npos &&
        lines[i + 1].find('-') != std::string::npos)
      add_cells(lines[i], '|', words);
  return words;
}

// Cells that are words: below titles such as "field", and below none.
std::set<std::string> words_in_columns_of(const std::string& text) {
  static const std::set<std::string> telling = {"",     "field", "status",   "word", "from",
                                                "part", "kind",  "bound by", "to",   "gemm"};
  std::set<std::string> words;
  std::vector<std::string> titles;
  const std::vector<std::string> lines = lines_of(text);
  for (size_t k = 0; k < lines.size(); ++k) {
    const std::string& line = lines[k];
    if (k + 1 < lines.size() && lines[k + 1].starts_with("|-")) titles.clear();
    if (!line.starts_with('|') || line.starts_with("|-")) continue;
    std::vector<std::string> cells;
    std::istringstream in(line.substr(1));
    for (std::string cell; std::getline(in, cell, '|');) {
      const size_t first = cell.find_first_not_of(' ');
      cells.push_back(first == std::string::npos ? "" : cell.substr(first, cell.find_last_not_of(' ') + 1 - first));
    }
    if (titles.empty()) {
      titles = cells;
      continue;
    }
    for (size_t i = 0; i < cells.size() && i < titles.size(); ++i)
      if (telling.contains(titles[i])) add_cells(cells[i], ',', words);
  }
  for (const char* mark : {"*", ">", "-"}) words.erase(mark);
  return words;
}

// Words with one place that has each.
using Words = std::map<std::string, std::string>;

void add(Words& all, const std::set<std::string>& words, const std::string& where) {
  for (const std::string& word : words) all.emplace(word, where);
}

void check_known(const Words& words) {
  for (const auto& [word, where] : words) {
    const RunResult help = run_cli("help '" + word + "'");
    INFO(where << ": " << word << "\n" << help.err);
    CHECK(help.exit_code == 0);
  }
}

}  // namespace

TEST_CASE("help knows every title of a table", "[cli]") {
  const TemporaryFolder folder;
  write_text(folder / "x.bin", std::string(256, '\x3f'));
  const auto sweep = [&](const std::string& name, const std::string& more) {
    write_text(folder / name + ".json", R"({"name": ")" + name +
                                            R"(", "task": "classifier", "base": "nvfp4", "seeds": 3,
      "train": {"steps": 6}, "axes": {"*.*.rounding": ["nearest_even", "stochastic"],
      "wgrad.hadamard.size": [0, 16]})" + more +
                                            "}");
    REQUIRE(run_cli("sweep run -q " + folder / name + ".json --out " + folder / name + ".sweep").exit_code == 0);
    return folder / name + ".sweep";
  };
  const std::string screened = sweep("screened", ""),
                    raced = sweep("raced", R"(, "race": {"seeds": 10, "delta": 0.1})");
  const std::string net = folder / "net.ck";
  REQUIRE(run_cli("train -q --task classifier --steps 6 --recipe mxfp4 --checkpoint " + net).exit_code == 0);
  const std::vector<std::string> commands = {"compare " + folder / "x.bin --dtype f32 --shape 2x32 --specs mxfp4 nvfp4",
                                             "pareto " + screened,
                                             "pareto " + raced,
                                             "table " + screened,
                                             "table " + raced + " --group --references",
                                             "effects " + screened + " --axis rounding",
                                             "eval " + net + " --recipe mxfp4",
                                             "eval " + net + " --recipe mxfp4 --against nvfp4",
                                             "stats --task regression --recipe nvfp4",
                                             "inspect " + folder / "x.npy",
                                             "cost compare bf16 mxfp4",
                                             "cost --recipe mxfp4 --devices 8 --pipeline 2",
                                             "cost explain --recipe mxfp4",
                                             "cost recommend --model llama3_8b --tokens 160e9 --time-budget 72",
                                             "law results/ladder_fixed/runs.csv",
                                             "bench gemm quantize --sizes 64 --elements 65536 --rounds 1",
                                             "bench train --models mlp-128 --recipes mxfp4 --steps 10 --rounds 1",
                                             "train -q --task lm --steps 2 --recipe mxfp4",
                                             "witness k64_rz fused35_rz",
                                             "advise"};
  Words all;
  for (const std::string& command : commands) {
    if (command.starts_with("inspect"))
      REQUIRE(run_cli("random --bits 8 --count 8 --out " + folder / "x.npy").exit_code == 0);
    const RunResult done = run_cli(command + " --as markdown");
    INFO(command << "\n" << done.err);
    CHECK(done.exit_code == 0);
    const std::set<std::string> words = titles_of(done.out);
    CHECK(words.size() >= 2);
    add(all, words, command);
    // A network's or a model's name is no word of the program, nor is a compiler's.
    for (const std::string& word : words_in_columns_of(done.out))
      if (word != "mlp-128" && word != "mxfp4") all.emplace(word, command);
  }
  CHECK(all.size() >= 85);
  // Files have more columns than the terminal.
  for (const char* form : {"", " --group"}) {
    std::set<std::string> words;
    const std::string csv = run_cli("table " + screened + form + " --csv -").out;
    add_cells(csv.substr(0, csv.find('\n')), ',', words);
    CHECK(words.size() >= 15);
    add(all, words, std::string("table --csv") + form);
  }
  check_known(all);
}

TEST_CASE("help folds case and knows papers by their numbers", "[cli]") {
  const std::pair<const char*, const char*> known[] = {{"H100", "NVIDIA H100"},
                                                       {"Rceil", "2^ceil(log2(a/M))"},
                                                       {"NVFP4_TE", "fp4sim show nvfp4_te"},
                                                       {"TRAIN.LR", "train.lr"},
                                                       {"2509.25149", "nvfp4_te"},
                                                       {"arXiv:2605.09825", "2605.09825"},
                                                       {"float4_e2m1fn_x2", "E2M1"},
                                                       {"bits_per_byte", "cross-entropy"},
                                                       {"macOS", "WSL"},
                                                       {"bubble", "pipeline"},
                                                       {"EFFN", "law"}};
  for (const auto& [word, meaning] : known) {
    INFO(word);
    CHECK_THAT(run_cli(std::string("help ") + word).out, Catch::Contains(meaning));
  }
  CHECK(run_cli("help 1234.56789").exit_code == 2);
  // Every number in the sources that the program lists.
  std::set<std::string> papers;
  const std::regex number("[0-9]{4}[.][0-9]{5}");
  const std::string all = run_cli("list --json").out + run_cli("advise").out;
  for (std::sregex_iterator at(all.begin(), all.end(), number), end; at != end; ++at) papers.insert(at->str());
  CHECK(papers.size() > 20);
  for (const std::string& paper : papers) {
    INFO(paper);
    CHECK_THAT(run_cli("help " + paper).out, Catch::Contains(paper));
  }
}

TEST_CASE("help knows the words of README.md", "[cli]") {
  const std::string page = read_text("README.md");
  std::set<std::string> words;
  for (const char* word :
       {"overhead", "loss_gap",      "interval",   "relative",    "n",       "lr",   "setting", "step",
        "tied",     "NMSE",          "dB",         "max error",   "clipped", "zero", "bits",    "best",
        "mxfp8",    "four_over_six", "classifier", "issue slots", "GGUF",    "RHT"})
    if (page.find(word) != std::string::npos) words.insert(word);
  CHECK(words.size() >= 18);
  // What the command tables show is known, too.
  for (const std::string& line : lines_of(page)) {
    if (!line.starts_with("        ") || line.find(" overhead ") == std::string::npos) continue;
    std::istringstream in(line);
    for (std::string word; in >> word;) words.insert(word);
  }
  Words all;
  add(all, words, "README.md");
  check_known(all);
  CHECK(run_cli("help 'loss gap'").exit_code == 0);
  CHECK_THAT(run_cli("help no such phrase").err, Catch::Contains("unknown word 'no such phrase'"));
}

TEST_CASE("the fields of a kind of file are a table that can be read in a pipe", "[cli]") {
  for (const char* kind : {"recipe", "spec", "grid", "hardware"})
    for (const std::string& line : lines_of(run_shell(std::string("unset COLUMNS; $FP4SIM help ") + kind).out)) {
      INFO(kind << ": " << line.size());
      CHECK(line.size() <= 400);
    }
  CHECK_THAT(run_cli("help element").out, Catch::Contains("e2m1") && Catch::Contains("int4"));
}
