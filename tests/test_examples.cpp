// Does every command that we show to people work? The examples of all help texts and the commands of README.md run as
// they are printed, in a folder that holds the files they name (workshop.h); what README.md shows of their output has
// to be there. Other pages: test_pages.cpp.
#include <algorithm>
#include <catch2/catch.hpp>

#include "tests/support/workshop.h"

using namespace fp4::test;

namespace {

struct Example {
  std::string where, command;
};

// Examples of a command's help and of its subcommands.
void collect_examples(const std::string& command, std::vector<Example>& examples) {
  const RunResult help = run_cli(command + " --help");
  REQUIRE(help.exit_code == 0);
  // Examples stay on one line, to be copied.
  INFO("fp4sim " << command << " --help");
  CHECK(wide_line(help.out.substr(0, help.out.find("\nExample:"))) == "");
  std::string section;
  size_t found = 0;
  for (const std::string& line : lines_of(help.out)) {
    if (!line.empty() && line[0] != ' ') section = line;
    const bool is_name = line.starts_with("  ") && line.size() > 2 && line[2] != ' ';
    if (!is_name) continue;
    // Commands stand below the title of their group.
    if (section != "Example:" && section != "Options:" && section != "Positionals:")
      collect_examples((command.empty() ? "" : command + " ") + line.substr(2, line.find(' ', 2) - 2), examples);
    if (section == "Example:") {
      examples.push_back({command, line.substr(2)});
      ++found;
    }
  }
  INFO("fp4sim " << command << " --help shows no example");
  CHECK((found > 0 || command.empty()));
}

}  // namespace

TEST_CASE("the example of every help text works", "[cli]") {
  std::vector<Example> examples;
  collect_examples("", examples);
  CHECK(examples.size() >= 35);
  Workshop workshop;
  for (const Example& example : examples) {
    INFO("fp4sim " << example.where << " --help shows: " << example.command);
    // Its candidate is a kernel with a fault.
    const bool finds_a_difference =
        example.where == "verify" && example.command.find("--candidate") != std::string::npos;
    const RunResult result = workshop.run(example.command);
    INFO(result.out.substr(0, 400) << "\n" << result.err);
    if (result.err.find("built without the chart library") != std::string::npos) continue;  // no node_modules
    if (result.err.find("cost stalls: MPI: none") != std::string::npos) continue;           // a build without it
    CHECK(result.exit_code == (finds_a_difference ? 1 : 0));
    CHECK(wide_line(result.out) == "");  // every table fits a terminal of 80 columns
  }
}

TEST_CASE("commands of README.md work and print what it shows", "[cli]") {
  Workshop workshop;
  const std::vector<std::string> lines = lines_of(read_text("README.md"));
  size_t commands = 0, compared = 0;
  for (size_t i = 0; i < lines.size(); ++i) {
    if (!lines[i].starts_with("$ ")) continue;
    ++commands;
    const std::string command = lines[i].substr(2);
    const RunResult result = workshop.run(command);
    INFO(command << "\n" << result.out << result.err);
    CHECK(result.exit_code == (command.starts_with("fp4sim verify") ? 1 : 0));
    CHECK(wide_line(result.out) == "");
    const std::vector<std::string> printed = lines_of(result.out);
    size_t at = 0;
    for (; !lines[i + 1].starts_with("$ ") && !lines[i + 1].starts_with("```"); ++i) {
      const std::string& shown = lines[i + 1];
      if (shown == "..." || shown.empty()) continue;
      INFO("README.md, line " << i + 2 << ": " << shown);
      while (at < printed.size() && printed[at] != shown) ++at;
      CHECK(at < printed.size());
      ++compared;
    }
  }
  CHECK(commands >= 6);
  CHECK(compared >= 11);
}

TEST_CASE("the front that README.md shows is the one of results/quick", "[cli]") {
  // Training it again takes minutes; tools/study.sh wrote the page from the same grid, seeds and arithmetic.
  const std::string front = read_text("results/quick/pareto.txt");
  size_t rows = 0;
  for (const std::string& line : lines_of(read_text("README.md"))) {
    if (!line.starts_with("step ") && !line.starts_with("  tied ") && !line.starts_with("leads")) continue;
    INFO(line);
    CHECK(front.find(line) != std::string::npos);
    ++rows;
  }
  CHECK(rows == 3);
}

TEST_CASE("commands that README.md and INSTALL.md name in their other blocks exist", "[cli]") {
  // They build, install and test for minutes, so they are not run here: scripts parse, presets are known.
  for (const std::string& line : lines_of(read_text("README.md") + read_text("INSTALL.md"))) {
    if (!line.starts_with("    ") || line.starts_with("     ")) continue;
    const std::string command = line.substr(4, line.find("   ", 4) - 4);
    INFO(command);
    const auto preset = [&](const std::string& list, const std::string& name) {
      return run_shell(list).out.find('"' + name + '"') != std::string::npos;
    };
    if (command.starts_with("tools/")) {
      CHECK(run_shell("test -x " + command + " && bash -n " + command).exit_code == 0);
    } else if (command.starts_with("cmake --preset ")) {
      CHECK(command == "cmake --preset release && cmake --build --preset release");
      CHECK(preset("cmake --list-presets", "release"));
      CHECK(preset("cmake --build --list-presets", "release"));
    } else if (command.starts_with("ctest --preset ")) {
      CHECK(preset("ctest --list-presets", command.substr(15)));
    } else {
      // test_install.cpp and tests/python run these.
      CHECK((command == "cmake --install build --prefix DIR" || command == "python3 -m pip install ." ||
             command == "cpack --config build/CPackConfig.cmake"));
    }
  }
}

TEST_CASE("the overview of all commands fits one screen by groups", "[cli]") {
  const std::vector<std::string> lines = lines_of(run_cli("--help").out);
  CHECK(lines.size() <= 54);
  for (const char* group : {"Tensors and models:", "Kernels:", "Training:", "Sweeps:", "Cost:", "Help:"})
    CHECK(std::find(lines.begin(), lines.end(), group) != lines.end());
}

TEST_CASE("the questions on top of README.md are answered by their commands", "[cli]") {
  Workshop workshop;
  size_t questions = 0;
  for (const std::string& line : lines_of(read_text("README.md"))) {
    if (!line.starts_with("| ") || line.find("? | `fp4sim ") == std::string::npos) continue;
    std::string command = line.substr(line.find('`') + 1);
    command.resize(command.find('`'));
    if (command == "fp4sim sweep run quick")
      command += " --quiet";  // a blank behind it: run by fewer seeds (workshop.cpp)
    if (const size_t dump = command.find("--candidate dump"); dump != std::string::npos)
      command.replace(dump, 16, "--candidate rounded_up");
    const RunResult result = workshop.run(command);
    INFO(command << "\n" << result.err);
    CHECK(result.exit_code == (command.starts_with("fp4sim verify") ? 1 : 0));
    ++questions;
  }
  CHECK(questions >= 5);
}

TEST_CASE("every script of tools/ explains itself and refuses words that it does not know", "[cli]") {
  size_t scripts = 0;
  for (const auto& entry : std::filesystem::directory_iterator("tools")) {
    const std::string script = entry.path().string();
    if (entry.path().extension() != ".sh") continue;
    ++scripts;
    INFO(script);
    const auto help = run_shell(script + " --help");
    CHECK(help.exit_code == 0);
    CHECK_THAT(help.out, Catch::Contains(script) && !Catch::Contains("#"));
    const auto refused = run_shell(script + " --nope");
    CHECK(refused.exit_code == 2);
    CHECK_THAT(refused.err, Catch::Contains("unknown word '--nope'; accepted: --"));
  }
  CHECK(scripts >= 7);
}

TEST_CASE("README.md is short", "[cli]") {
  const std::string text = read_text("README.md");
  CHECK(lines_of(text).size() <= 150);
  CHECK(text.size() <= 7 * 1024);
}

TEST_CASE("what `show` prints is accepted where such a file is", "[cli]") {
  Workshop workshop;
  const auto accepted = [&](const std::string& kind, const std::string& name, const std::string& use) {
    const RunResult result =
        workshop.run("fp4sim show " + name + " --kind " + kind + " > shown.json && fp4sim " + use + " > /dev/null");
    INFO(kind << " " << name << "\n" << result.err);
    CHECK(result.exit_code == 0);
  };
  const auto each = [&](const std::string& topic, const std::string& kind, const std::string& use) {
    for (const std::string& name : lines_of(run_cli("list " + topic + " --words").out)) accepted(kind, name, use);
  };
  each("presets", "preset", "quantize x.npy --spec shown.json --out q");
  for (const std::string& name : lines_of(run_cli("list accumulators --words").out)) {
    const std::string spec = name.starts_with("int32") ? "mxfp4,element=int4" : "mxfp4";  // integers take integers
    accepted("accumulator", name, "gemm a.npy b.npy --spec " + spec + " --accumulator shown.json --out c.npy");
  }
  each("hardware", "hardware", "cost --recipe bf16 --hardware shown.json");
  each("models", "model", "cost --recipe bf16 --model shown.json");
  each("recipes", "recipe", "cost --recipe shown.json");
  accepted("recipe", "mxfp4@wgrad", "train --task classifier --steps 1 --quiet --recipe shown.json");
  accepted("grid", "quick", "sweep run shown.json --dry-run");
  // What --short prints is a file, too, of lines that fit 80 columns where no text is longer.
  accepted("hardware", "mi355x --short", "cost --recipe bf16 --hardware shown.json");
  accepted("model", "lm --short", "cost --recipe bf16 --model shown.json");
  accepted("recipe", "quartet --short", "cost --recipe shown.json");
  accepted("preset", "nvfp4 --short", "quantize x.npy --spec shown.json --out q");
  accepted("accumulator", "k64_rz --short", "gemm a.npy b.npy --spec mxfp4 --accumulator shown.json --out c.npy");
  accepted("grid", "quick --short", "sweep run shown.json --dry-run");
  // A name that is a recipe and a preset: the recipe is no spec, and the message says what is.
  const RunResult recipe =
      workshop.run("fp4sim show nvfp4 > spec.json && fp4sim quantize x.npy --spec spec.json --out q");
  CHECK(recipe.exit_code == 2);
  CHECK_THAT(recipe.err, Catch::Contains("show NAME --kind preset"));
  CHECK_THAT(recipe.err, Catch::Contains("nvfp4 is also a preset"));
}
