// Exit codes and messages of the frame that all subcommands share, with the real binary.
#include <catch2/catch.hpp>
#include <filesystem>
#include <sstream>

#include "tests/support/support.h"

using namespace fp4::test;
using Catch::Matchers::Contains;

TEST_CASE("help and version succeed on stdout", "[cli]") {
  for (const char* words : {"--help", "--version", "version", "version --json", "version --help"}) {
    const auto result = run_cli(words);
    INFO(words);
    CHECK(result.exit_code == 0);
    CHECK_FALSE(result.out.empty());
    CHECK(result.err.empty());
  }
}

TEST_CASE("wrong usage exits with 2, names the word and the nearest one", "[cli]") {
  const auto command = run_cli("versoin");
  CHECK(command.exit_code == 2);
  CHECK_THAT(command.err, Catch::Contains("'versoin'") && Catch::Contains("did you mean 'version'"));
  const auto option = run_cli("version --jsn");
  CHECK(option.exit_code == 2);
  CHECK_THAT(option.err, Catch::Contains("'--jsn'") && Catch::Contains("did you mean '--json'"));
  CHECK(run_cli("").exit_code == 2);
  CHECK(run_cli("version surplus").exit_code == 2);
  CHECK(run_cli("version --json=maybe").exit_code == 2);
}

TEST_CASE("what is no number is answered with what is one", "[cli]") {
  for (const char* words : {"gemm a.npy b.npy --spec mxfp4 --out c.npy --alpha foo", "cost -r mxfp4 --recompute 1x"}) {
    const auto result = run_cli(words);
    INFO(words << ": " << result.err);
    CHECK(result.exit_code == 2);
    CHECK_THAT(result.err, Catch::Contains("expected a number, for example 0.75 or 1e-3"));
  }
  CHECK(run_cli("cost -r mxfp4 --recompute 5e-1 --json").out == run_cli("cost -r mxfp4 --recompute 0.5 --json").out);
}

TEST_CASE("a result that cannot be printed is a failure", "[cli]") {
  CHECK(run_cli("version > /dev/full").exit_code == 1);
}

TEST_CASE("every table can be Markdown or CSV", "[cli]") {
  const std::string csv = run_cli("list roundings --as csv").out;
  CHECK(csv.starts_with("roundings,,source\nnearest_even,\"nearest, ties to the even code\",OCP MX 1.0\n"));
  const std::string markdown = run_cli("random --bits 8 --count 1 --seed 7 --as markdown").out;
  CHECK(markdown == "| position | draw | hex |\n|---:|---:|---:|\n| 0 | 45 | 2d |\n");
  CHECK_THAT(run_cli("version --as csv").out, Catch::Contains("fp4sim,0."));
  CHECK_THAT(run_cli("show lm --layers --as csv").out, Catch::Contains("block0.q,128,128,yes,fp32"));
  const auto wrong = run_cli("list roundings --as cvs");
  CHECK(wrong.exit_code == 2);
  CHECK_THAT(wrong.err, Catch::Contains("'cvs'") && Catch::Contains("did you mean 'csv'"));
  // Every command with --json has it; of `show` the table of --layers.
  for (const char* command : {"list", "golden list", "cost compare", "sweep run", "table", "pareto", "stats", "bench"})
    CHECK_THAT(run_cli(std::string(command) + " --help").out, Catch::Contains("--as text|markdown|csv"));
}

TEST_CASE("show writes out a recipe of one's own", "[cli]") {
  TemporaryFolder folder;
  write_text(folder / "mine.json", R"({"base": "nvfp4", "name": "mine", "wgrad": {"*": {"rounding": "stochastic"}}})");
  const RunResult mine = run_cli("show '" + folder / "mine.json" + "'");
  CHECK_THAT(mine.out, Catch::Contains("\"rounding\": \"stochastic\"") && Catch::Contains("\"element\": \"e2m1\""));
  CHECK(run_cli("show nvfp4 --kind recipe").out.find("stochastic") == std::string::npos);
  CHECK(run_cli("show '" + folder / "none.json" + "'").exit_code == 2);
}

TEST_CASE("tables fit 80 columns", "[cli]") {
  for (const char* command :
       {"list", "help grid", "help hardware", "cost compare bf16 mxfp8 mxfp4 nvfp4_te", "cost weights", "golden list",
        "cost --recipe nvfp4_te", "cost validate", "stats --task regression"}) {
    std::istringstream lines(run_cli(command).out);
    for (std::string line; std::getline(lines, line);) {
      size_t width = 0;
      for (const char c : line) width += (c & 0xc0) != 0x80;
      INFO(command << ": " << line);
      CHECK(width <= 80);
    }
  }
}

TEST_CASE("short options and the other spelling mean the same", "[cli]") {
  CHECK(run_cli("cost -r mxfp4 --json").out == run_cli("cost --recipe mxfp4 --json").out);
  CHECK(run_cli("train -t classifier -r mxfp4 --steps 1 -q").exit_code == 0);
  CHECK(run_cli("sweep run quick -n").exit_code == 0);
  CHECK(run_cli("quantise --help").exit_code == 0);
}

TEST_CASE("NO_COLOR leaves a terminal's tables without escape codes", "[cli]") {
  // script(1) runs a command on a terminal of its own.
  const std::string program = fp4::test::fp4sim_path();
  const auto on_terminal = [&](const std::string& setting) {
    return run_shell("script -qec '" + setting + " " + program + " list roundings' /dev/null < /dev/null").out;
  };
  CHECK_THAT(on_terminal("NO_COLOR="), Catch::Contains("\033["));
  CHECK(on_terminal("NO_COLOR=1").find('\033') == std::string::npos);
}

TEST_CASE("values of options are completed from the tables of the program", "[cli]") {
  TemporaryFolder folder;
  write_text(folder / "completion.bash", run_cli("completion bash").out);
  // The words that Tab would offer behind a command line, whose last word is unfinished.
  const auto offered = [&](const std::string& words) {
    return run_shell("bash -c '. " + folder / "completion.bash" + "; fp4sim() { " + fp4::test::fp4sim_path() +
                     " \"$@\"; }; COMP_WORDS=(fp4sim " + words +
                     "); COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _fp4sim_words; echo \"${COMPREPLY[*]}\"'")
        .out;
  };
  CHECK(offered("train --task cl") == "classifier\n");
  CHECK(offered("train --recipe quar") == "quartet quartet2\n");
  CHECK(offered("cost --hardware mi3") == "mi300x mi355x\n");
  CHECK(offered("cost --model llama_60") == "llama_60m\n");
  CHECK(offered("quantize x.npy --spec te_nv") == "te_nvfp4\n");
  CHECK(offered("sweep run design") == "design_space design_space_lm design_space_raced\n");
  CHECK(offered("train --set outliers.ch") == "outliers.channel=\n");
  CHECK(offered("help board") == "board_w\n");
  CHECK(offered("train -r quar") == "quartet quartet2\n");
  CHECK(offered("pareto --hardware mi3") == "mi300x mi355x\n");
  CHECK(offered("report --chips b200,mi355") == "b200,mi355x\n");
  CHECK(offered("pareto --x qu") == "quantisation_overhead\n");
  CHECK(offered("pareto --y loss_hp") == "loss_hp_gap loss_hp\n");
  CHECK(offered("effects x.sweep --axis outliers.ch") == "outliers.channel\n");
  CHECK(offered("effects x.sweep --by batch,outliers.ch") == "batch,outliers.channel\n");
  CHECK(offered("quantise x.npy --spec te_nv") == "te_nvfp4\n");
  CHECK_THAT(offered("quantize x.npy --nibbles marl"), Catch::Contains("marlin_uint32"));
  CHECK(offered("convert x.npy --nibbles high") == "high_first\n");
  CHECK_THAT(offered("compare x.npy --scale-layout 128"), Catch::Contains("128x4"));
  CHECK(offered("golden make --suite sm") == "smoke\n");
  CHECK(offered("advise --objective pr") == "price\n");
  // The axes are those of the sweep on the line.
  write_text(folder / "grid.json", R"({"name": "one", "task": ["regression"], "seeds": 1, "train": {"steps": 2},
    "axes": {"wgrad.*.rounding": ["nearest_even", "stochastic"]}})");
  REQUIRE(run_cli("sweep run " + folder / "grid.json" + " --quiet --out " + folder / "one").exit_code == 0);
  CHECK(offered("effects " + folder / "one" + " --axis wg") == "wgrad.*.rounding\n");
}

TEST_CASE("names of files of the program are read in any case", "[cli]") {
  for (const char* words :
       {"cost --recipe MXFP4 --hardware H100 --model Llama3_8B --json", "show NVFP4_TE --kind recipe"}) {
    const auto lower = [](std::string text) {
      for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
      return text;
    };
    const auto given = run_cli(words), usual = run_cli(lower(words));
    INFO(words << given.err << usual.err);
    CHECK(given.exit_code == 0);
    CHECK(lower(given.out) == lower(usual.out));  // where a command repeats the word, it does so as it was given
  }
  CHECK_THAT(run_cli("train -q --task classifier --steps 1 --recipe MXFP4@wgrad").out, Catch::Contains("mxfp4@wgrad"));
}

TEST_CASE("a field of another section is told where it stands", "[cli]") {
  CHECK_THAT(run_cli("train --task classifier --set train.width=8").err,
             Catch::Contains("'width' stands in `task`: task.width"));
  CHECK_THAT(run_cli("train --task classifier --set task.lr=8").err,
             Catch::Contains("'lr' stands in `train`: train.lr"));
  CHECK_THAT(run_cli("train --task classifier --set train.nothing=8").err, Catch::Contains("unknown word 'nothing'"));
}

TEST_CASE("what is missing is named at once, with an example", "[cli]") {
  const auto told = [](const std::string& command) {
    const RunResult done = run_cli(command);
    CHECK(done.exit_code == 2);
    return done.err;
  };
  CHECK_THAT(told("cost recommend"), Contains("--tokens") && Contains("--time-budget") && Contains("Hours") &&
                                         Contains("Example: fp4sim cost recommend --model"));
  CHECK_THAT(told("train"),
             Contains("--task") && Contains("regression, classifier") && Contains("Example: fp4sim train"));
  CHECK_THAT(told("gemm"), Contains("; B (") && Contains("--out"));
  CHECK_THAT(told("cost compare"), Contains("recipes (Recipes)"));
}

TEST_CASE("a suggestion is not followed by a long list", "[cli]") {
  const auto told = [](const std::string& command) {
    const RunResult done = run_cli(command);
    CHECK(done.exit_code == 2);
    return done.err;
  };
  for (const char* command : {"quantize tests/none.npy --spec nvfp5 --out none", "train --task lm --recipe mxfp5"})
    CHECK_THAT(told(command), Contains("did you mean '") && Contains(" more") && !Contains("hifloat4"));
  // Without one all words are there.
  CHECK_THAT(told("quantize tests/none.npy --spec zzzzzzzz --out none"), Contains("hifloat4") && !Contains(" more"));
  CHECK_THAT(told("quantize tests/none.npy --scheme nvfp4 --out none"), Contains("did you mean 'modelopt_nvfp4'?"));
}

TEST_CASE("options of one meaning take each other's names", "[cli]") {
  const TemporaryFolder folder;
  write_text(folder / "x.bin", std::string(128, '\x3f'));
  const std::string x = folder / "x.bin --dtype f32 --shape 1x32 ";
  CHECK(run_cli("compare " + x + "--spec nvfp4 mxfp4").exit_code == 0);
  CHECK(run_cli("quantize " + x + "--specs nvfp4 --out " + folder / "q").exit_code == 0);
  const std::string plain = run_cli("cost compare bf16 mxfp4").out;
  CHECK(run_cli("cost compare --recipe bf16 mxfp4").out == plain);
  CHECK(run_cli("cost compare --recipes bf16 --recipes mxfp4").out == plain);
  CHECK_THAT(run_cli("compare " + x + "--specs nvfp4,mxfp4").err, Contains("several specs stand apart by blanks"));
  // Only one of the names is shown.
  CHECK_THAT(run_cli("compare --help").out, Contains("--specs") && !Contains("--spec,"));
}

TEST_CASE("a file that is not there is called so, not an unknown word", "[cli]") {
  const TemporaryFolder folder;
  const std::string none = folder / "none.npy";
  for (const std::string command :
       {"golden make --spec nvfp4 --out none --input ", "verify --spec nvfp4 --candidate none --input "}) {
    const RunResult done = run_cli(command + none);
    CHECK(done.exit_code == 2);
    CHECK_THAT(done.err, Contains("there is no such file") && !Contains("gaussian"));
  }
  CHECK_THAT(run_cli("golden make --spec nvfp4 --out none --input gausian").err, Contains("did you mean 'gaussian'?"));
}

TEST_CASE("a model without a scheme is told of schemes", "[cli]") {
  const TemporaryFolder folder;
  const std::string head =
      R"({"a":{"dtype":"F32","shape":[1,1],"data_offsets":[0,4]},"b":{"dtype":"F32","shape":[1,1],"data_offsets":[4,8]}})";
  write_text(folder / "m.safetensors",
             std::string{static_cast<char>(head.size()), 0, 0, 0, 0, 0, 0, 0} + head + std::string(8, 0));
  const RunResult done = run_cli("quantize " + folder / "m.safetensors" + " --spec nvfp4 --out " + folder / "q");
  CHECK(done.exit_code == 2);
  CHECK_THAT(done.err, Contains("--scheme NAME") && Contains("m.safetensors:a"));
}

TEST_CASE("--quiet draws nothing, and a report has a name of its own", "[cli]") {
  const std::string train = "train --task regression --recipe mxfp4 --steps 4 ";
  CHECK_THAT(run_cli(train).out, Contains("|"));
  CHECK_THAT(run_cli(train + "--quiet").out, !Contains("|") && Contains("loss"));
  const TemporaryFolder folder;
  write_text(folder / "g.json", R"({"name": "g", "task": "regression", "seeds": 1, "train": {"steps": 4},
    "axes": {"recipe": ["mxfp4"]}})");
  REQUIRE(run_cli("sweep run -q " + folder / "g.json" + " --out " + folder / "g.sweep").exit_code == 0);
  const RunResult made = run_shell("cd " + folder / "." + " && $FP4SIM report g.sweep");
  if (made.err.find("built without the chart library") != std::string::npos) return;
  CHECK(made.exit_code == 0);
  CHECK(std::filesystem::exists(folder / "g.html"));
  // Overheads are percent on the terminal everywhere, and one mark means one thing.
  CHECK_THAT(run_cli("table " + folder / "g.sweep").out, Contains("%"));
  CHECK_THAT(run_cli("pareto " + folder / "g.sweep").out,
             Contains("> undominated by means") && !Contains("* undominated"));
}
