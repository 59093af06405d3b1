// Does every command that we show to people work? The examples of all help texts and the commands of README.md run as
// they are printed, in a folder that holds the files they name; what README.md shows of their output has to be there.
// Three kinds of words are changed, all in the table `shortened`: long studies, large sizes and many steps.
#include <catch2/catch.hpp>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/support/support.h"

using namespace fp4::test;
namespace fs = std::filesystem;
using Json = nlohmann::json;

namespace {

struct Replacement {
  const char* shown;
  const char* run;
};
const Replacement shortened[] = {
    {"sweep run quick ", "sweep run quick.json "},  // its grid with 3 recipes, 2 tasks, 3 steps, few seeds
    {"--suite standard", "--suite smoke"},
    {"--sizes 1024,4096", "--sizes 64,96 --rounds 1"},
    {"--steps 300", "--steps 10"},
    {"--at 100", "--at 3"},
    {"cost calibrate ", "cost calibrate --seconds 0.01 --size 64 "},
    {"cost stalls --measure ", "cost stalls --measure --repeats 1 "},
    {"cost measure -- ", "cost measure --seconds 0.01 --runs 3 -- "},
    {"--task classifier --recipe mxfp4\n", "--task classifier --recipe mxfp4 --steps 5\n"},
};

// Files that examples name, and the command that makes each.
const Replacement fixtures[] = {
    {"x.npy",
     "$FP4SIM_PYTHON -c \"import numpy as np; np.save('x.npy', np.random.default_rng(0).standard_normal((256, "
     "512)).astype(np.float32))\""},
    {"a.npy", "$FP4SIM_PYTHON -c \"import numpy as np; np.save('a.npy', np.ones((4, 64), np.float32))\""},
    {"b.npy", "$FP4SIM_PYTHON -c \"import numpy as np; np.save('b.npy', np.ones((8, 64), np.float32))\""},
    {"w.safetensors",
     "$FP4SIM_PYTHON -c \"import json, struct; h = json.dumps({'layer0': {'dtype': 'F32', 'shape': [32, 64], "
     "'data_offsets': [0, 8192]}}).encode(); open('w.safetensors', 'wb').write(struct.pack('<Q', len(h)) + h + "
     "bytes(8192))\""},
    {"out", "fp4sim quantize x.npy --spec nvfp4 --out out"},
    {"my_model",
     "mkdir my_model && $FP4SIM_PYTHON -c \"import json, struct; h = json.dumps({'up.weight': {'dtype': 'F32', "
     "'shape': "
     "[32, 64], 'data_offsets': [0, 8192]}}).encode(); open('my_model/model.safetensors', "
     "'wb').write(struct.pack('<Q', "
     "len(h)) + h + struct.pack('<2048f', *range(2048)))\""},
    {"my_model_nvfp4", "fp4sim quantize my_model --scheme modelopt_nvfp4 --out my_model_nvfp4"},
    {"a_codes", "fp4sim quantize a.npy --spec nvfp4 --out a_codes"},
    {"b_codes", "fp4sim quantize b.npy --spec nvfp4 --out b_codes"},
    {"bias.npy", "$FP4SIM_PYTHON -c \"import numpy as np; np.save('bias.npy', np.ones(8, np.float32))\""},
    {"golden", "fp4sim golden make --suite smoke --out golden"},
    {"my_kernel_dump",
     "fp4sim quantize golden/mxfp4.boundary.8x64/input.npy --spec mxfp4,scale_rule=rceil --out dump && "
     "mkdir my_kernel_dump && mv dump my_kernel_dump/mxfp4.boundary.8x64"},
    {"my_kernel", "printf '#!/bin/sh\\ncat > /dev/null\\nfp4sim golden stream\\n' > my_kernel && chmod +x my_kernel"},
    {"net.ck", "fp4sim train --task classifier --recipe bf16 --steps 10 --checkpoint net.ck --quiet"},
    {"trace.csv", "fp4sim train --task classifier --recipe mxfp4 --steps 10 --trace trace.csv --trace-every 2 --quiet"},
    {"quick.sweep", "fp4sim sweep run quick.json --out quick.sweep --quiet"},
    {"runs.csv", "fp4sim sweep export quick.sweep --out runs.csv"},
    {"ladder.csv", "$FP4SIM_PYTHON \"$OLDPWD\"/tests/support/planted_ladder.py > ladder.csv"},
    {"wgrad.sweep", "fp4sim sweep run wgrad.json --out wgrad.sweep --quiet"},
    {"shard1", "fp4sim sweep run quick.json --shard 1/3 --out shard1 --quiet"},
    {"shard2", "fp4sim sweep run quick.json --shard 2/3 --out shard2 --quiet"},
    {"shard3", "fp4sim sweep run quick.json --shard 3/3 --out shard3 --quiet"},
};

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) {
    line.erase(line.find_last_not_of(' ') + 1);
    lines.push_back(line);
  }
  return lines;
}

// Whether `name` is a word of a command that is read, not the folder or file it writes (--out NAME, > NAME).
bool reads(const std::string& command, const std::string& name) {
  const auto is_part = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '.' || c == '-';
  };
  for (size_t at = command.find(name); at != std::string::npos; at = command.find(name, at + 1)) {
    const std::string before = command.substr(0, at);
    const size_t end = at + name.size();
    if ((at > 0 && is_part(command[at - 1])) || (end < command.size() && is_part(command[end]))) continue;
    if (!before.ends_with("--out ") && !before.ends_with("> ") && !before.ends_with("fp4sim ")) return true;
  }
  return false;
}

// A folder for examples: `fp4sim` on the PATH is the program under test, fixtures are made once and copied.
class Workshop {
 public:
  Workshop() {
    fs::create_directories(folder_ / "bin");
    fs::create_directories(folder_ / "made");
    fs::create_symlink(fs::absolute(fp4sim_path()), folder_ / "bin/fp4sim");
    Json quick = Json::parse(run_cli("show quick --kind grid").out);
    quick["task"] = {"classifier", "regression"};
    quick["axes"]["recipe"] = {"mxfp4", "nvfp4", "mxfp8"};
    quick["train"] = {{"steps", 3}};
    quick["seeds"] = 2;
    quick["race"]["seeds"] = 10;
    quick["tune"]["train.lr"]["rungs"] = 2;
    quick["tune"]["train.lr"]["seeds"] = 1;
    for (const char* task : {"classifier", "regression", "diffusion", "lm"}) quick.erase(std::string("train.") + task);
    write_text(folder_ / "made/quick.json", quick.dump());
    write_text(
        folder_ / "made/wgrad.json",
        R"({"name": "wgrad", "task": "regression", "seeds": 3, "base": "mxfp4_all", "train": {"steps": 3}, "axes": {
                   "wgrad.hadamard": [{"label": "none", "size": 0}, {"label": "H16", "size": 16, "signs": "none"}],
                   "wgrad.*.rounding": ["nearest_even", "stochastic"], "task.*.outliers.token": [0, 1]}})");
  }

  // Runs a command as shown, in a folder of its own with what it reads.
  RunResult run(std::string command) {
    command += "\n";
    for (const Replacement& r : shortened)
      if (const size_t at = command.find(r.shown); at != std::string::npos)
        command.replace(at, std::string(r.shown).size(), r.run);
    const fs::path place = folder_.path() / ("run" + std::to_string(++count_));
    fs::create_directories(place / ".local/share/bash-completion/completions");
    fs::create_directories(place / "results");
    for (const Replacement& f : fixtures)
      if (reads(command, f.shown)) fs::copy(made(f), place / f.shown, fs::copy_options::recursive);
    fs::copy(folder_ / "made/quick.json", place / "quick.json");
    return in(place, command);
  }

 private:
  fs::path made(const Replacement& fixture) {
    const fs::path place = folder_ / "made";
    if (fs::exists(place / fixture.shown)) return place / fixture.shown;
    for (const Replacement& other : fixtures)  // x.npy before out, golden before my_kernel_dump
      if (reads(fixture.run, other.shown) && std::string(other.shown) != fixture.shown) made(other);
    const RunResult result = in(place, fixture.run);
    INFO(fixture.run << "\n" << result.err);
    REQUIRE(result.exit_code == 0);
    return place / fixture.shown;
  }

  RunResult in(const fs::path& place, const std::string& command) {
    return run_shell("cd '" + place.string() + "' && export HOME=. PATH='" + folder_ / "bin" + "':\"$PATH\"\n" +
                     command);
  }

  TemporaryFolder folder_;
  int count_ = 0;
};

struct Example {
  std::string where, command;
};

// Examples of a command's help and of its subcommands.
void collect_examples(const std::string& command, std::vector<Example>& examples) {
  const RunResult help = run_cli(command + " --help");
  REQUIRE(help.exit_code == 0);
  std::string section;
  size_t found = 0;
  for (const std::string& line : lines_of(help.out)) {
    if (!line.empty() && line[0] != ' ') section = line;
    const bool is_name = line.starts_with("  ") && line.size() > 2 && line[2] != ' ';
    if (!is_name) continue;
    if (section == "Subcommands:")
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
    const bool finds_a_difference = example.where == "verify";  // its candidate is a kernel with a fault
    const RunResult result = workshop.run(example.command);
    INFO(result.out.substr(0, 400) << "\n" << result.err);
    if (result.err.find("built without the chart library") != std::string::npos) continue;  // no node_modules
    if (result.err.find("cost stalls: MPI: none") != std::string::npos) continue;           // a build without it
    CHECK(result.exit_code == (finds_a_difference ? 1 : 0));
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
  CHECK(compared >= 12);
}

TEST_CASE("the front that README.md shows is the one of results/quick", "[cli]") {
  // Training it again takes minutes; tools/study.sh wrote the page from the same grid, seeds and arithmetic.
  const std::string front = read_text("results/quick/pareto.txt");
  size_t rows = 0;
  for (const std::string& line : lines_of(read_text("README.md"))) {
    if (!line.starts_with("step ") && !line.starts_with("  tied ")) continue;
    INFO(line);
    CHECK(front.find(line) != std::string::npos);
    ++rows;
  }
  CHECK(rows >= 5);
}

TEST_CASE("commands that README.md names in its other blocks exist", "[cli]") {
  // They build, install and test for minutes, so they are not run here: scripts parse, presets are known.
  for (const std::string& line : lines_of(read_text("README.md"))) {
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
      CHECK((command == "cmake --install build --prefix DIR" || command == "python3 -m pip install ."));
    }
  }
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
  each("accumulators", "accumulator", "gemm a.npy b.npy --spec mxfp4 --accumulator shown.json --out c.npy");
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
