// See workshop.h.
#include "tests/support/workshop.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>
#include <stdexcept>

namespace fp4::test {

namespace fs = std::filesystem;
using Json = nlohmann::json;

namespace {

struct Replacement {
  const char* shown;
  const char* run;
};
const Replacement shorter[] = {
    {"sweep run quick ", "sweep run quick.json "},  // its grid with 3 recipes, 2 tasks, 3 steps, few seeds
    {"--suite standard", "--suite smoke"},
    {"--sizes 1024,4096", "--sizes 64,96 --rounds 1"},
    {"--steps 300", "--steps 10"},
    {"--at 100", "--at 3"},
    {"--recipe nvfp4 --step 100", "--recipe nvfp4 --step 5"},
    {"service.json --policies infaas,cocktail --seeds 20", "service.json --policies infaas,cocktail --seeds 2"},
    {"--budgets 0.1,0.25 --replays 50", "--budgets 0.1,0.25 --replays 2"},
    {"edge two_recipes.json --seeds 50", "edge two_recipes.json --seeds 3"},
    {"mpirun -n 2 fp4sim train --task lm", "mpirun -n 2 fp4sim train --task lm --steps 2 --quiet"},
    {"--task classifier --steps 300 --ranks 2", "--task classifier --steps 10 --ranks 2 --repeats 1"},
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
    {"engine.npy",
     "$FP4SIM_PYTHON -c \"import numpy as np; np.save('engine.npy', np.arange(64, dtype=np.float32).reshape(8, 8))\""},
    {"trainer.npy", "$FP4SIM_PYTHON -c \"import numpy as np; np.save('trainer.npy', np.eye(8, dtype=np.float32))\""},
    {"bias.npy", "$FP4SIM_PYTHON -c \"import numpy as np; np.save('bias.npy', np.ones(8, np.float32))\""},
    {"rounded_up", "fp4sim quantize x.npy --spec mxfp4,scale_rule=rceil --out rounded_up"},
    {"golden", "fp4sim golden make --suite smoke --out golden"},
    {"my_kernel_dump",
     "fp4sim quantize golden/mxfp4.boundary.8x64/input.npy --spec mxfp4,scale_rule=rceil --out dump && "
     "mkdir my_kernel_dump && mv dump my_kernel_dump/mxfp4.boundary.8x64"},
    {"my_kernel", "printf '#!/bin/sh\\ncat > /dev/null\\nfp4sim golden stream\\n' > my_kernel && chmod +x my_kernel"},
    {"net.ck", "fp4sim train --task classifier --recipe bf16 --steps 10 --checkpoint net.ck --quiet"},
    {"service.json",
     "fp4sim train --task classifier --recipe bf16 --steps 30 --checkpoint served.ck --quiet > trained.txt && printf "
     "'{\"name\": \"toy\", \"members\": [{\"checkpoint\": \"%s\", \"recipe\": \"bf16\"}, {\"checkpoint\": \"%s\", "
     "\"recipe\": \"nvfp4@weights\", \"model\": \"resnet18\"}], \"targets\": [{\"accuracy\": 0.3, \"latency_ms\": "
     "200}], "
     "\"trace\": {\"arrivals\": \"bursts\", \"rate\": 60, \"seconds\": 10, \"period\": 10}, \"instance\": {\"share\": "
     "0.001, "
     "\"start_up_s\": 1, \"tick_s\": 1}}' \"$PWD/served.ck\" \"$PWD/served.ck\" > service.json"},
    {"results/design_space/table.csv",
     "mkdir -p results/design_space && cp \"$OLDPWD\"/results/design_space/table.csv results/design_space/"},
    {"results/ladder_small/runs.csv",
     "mkdir -p results/ladder_small && cp \"$OLDPWD\"/results/ladder_small/runs.csv results/ladder_small/"},
    {"results/wgrad/table.csv", "mkdir -p results/wgrad && cp \"$OLDPWD\"/results/wgrad/table.csv results/wgrad/"},
    {"results/wgrad/README.md", "mkdir -p results/wgrad && cp \"$OLDPWD\"/results/wgrad/README.md results/wgrad/"},
    {"config.json",
     "printf '{\"model_type\": \"llama\", \"hidden_size\": 4096, \"intermediate_size\": 14336, \"num_hidden_layers\": "
     "32, "
     "\"num_attention_heads\": 32, \"num_key_value_heads\": 8, \"max_position_embeddings\": 8192, \"vocab_size\": "
     "128256}' > config.json"},
    {"words.txt", "cp \"$OLDPWD\"/tests/golden/device_words.txt words.txt"},
    {"trace.csv", "fp4sim train --task classifier --recipe mxfp4 --steps 10 --trace trace.csv --trace-every 2 --quiet"},
    {"quick.sweep", "fp4sim sweep run quick.json --out quick.sweep --quiet"},
    {"runs.csv", "fp4sim sweep export quick.sweep --out runs.csv"},
    {"ladder.csv", "$FP4SIM_PYTHON \"$OLDPWD\"/tests/support/planted_ladder.py > ladder.csv"},
    {"wgrad.sweep", "fp4sim sweep run wgrad.json --out wgrad.sweep --quiet"},
    {"shard1", "fp4sim sweep run quick.json --shard 1/3 --out shard1 --quiet"},
    {"shard2", "fp4sim sweep run quick.json --shard 2/3 --out shard2 --quiet"},
    {"shard3", "fp4sim sweep run quick.json --shard 3/3 --out shard3 --quiet"},
};

// Whether `name` is a word of a command that is read, not the folder or file it writes (--out NAME, > NAME, a
// training's
// --checkpoint NAME).
bool reads(const std::string& command, const std::string& name) {
  const auto is_part = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '.' || c == '-';
  };
  for (size_t at = command.find(name); at != std::string::npos; at = command.find(name, at + 1)) {
    const std::string before = command.substr(0, at);
    const size_t end = at + name.size();
    if ((at > 0 && is_part(command[at - 1])) || (end < command.size() && is_part(command[end]))) continue;
    if (before.ends_with("--checkpoint ") && command.find("fp4sim train ") != std::string::npos) continue;
    if (!before.ends_with("--out ") && !before.ends_with("--csv ") && !before.ends_with("--json ") &&
        !before.ends_with("> ") && !before.ends_with("fp4sim "))
      return true;
  }
  return false;
}

}  // namespace

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) {
    line.erase(line.find_last_not_of(' ') + 1);
    lines.push_back(line);
  }
  return lines;
}

std::string wide_line(const std::string& text) {
  for (const std::string& line : lines_of(text)) {
    const auto width = std::count_if(line.begin(), line.end(), [](char c) { return (c & 0xc0) != 0x80; });
    const bool is_verdict = line.starts_with("diagnosis: ") || line.starts_with("equal") || line.starts_with("NOT ");
    const bool is_json = line.find_first_not_of(' ') != std::string::npos && line[line.find_first_not_of(' ')] == '"';
    if (width > 80 && !is_verdict && !is_json) return line;
  }
  return "";
}

std::string shortened(std::string command) {
  command += "\n";
  for (const Replacement& r : shorter)
    if (const size_t at = command.find(r.shown); at != std::string::npos)
      command.replace(at, std::string(r.shown).size(), r.run);
  command.pop_back();
  return command;
}

Workshop::Workshop() {
  fs::create_directories(folder_ / "bin");
  fs::create_directories(folder_ / "made");
  fs::create_symlink(fs::absolute(fp4sim_path()), folder_ / "bin/fp4sim");
  const char* python = std::getenv("FP4SIM_PYTHON");
  fs::create_symlink(python != nullptr ? python : "/usr/bin/python3", folder_ / "bin/python3");
  Json quick = Json::parse(run_cli("show quick --kind grid").out);
  quick["task"] = {"classifier", "regression"};
  quick["axes"]["recipe"] = {"mxfp4", "nvfp4", "mxfp8"};
  quick["axes"]["task.*.width"] = {32};  // examples are drawn and judged in a third of the time
  quick["train"] = {{"steps", 3}, {"curve_points", 1}};
  quick["seeds"] = 2;
  quick["race"]["seeds"] = 10;
  quick["tune"]["train.lr"]["rungs"] = 2;
  quick["tune"]["train.lr"]["seeds"] = 1;
  for (const char* task : {"classifier", "regression", "diffusion", "lm"}) quick.erase(std::string("train.") + task);
  write_text(folder_ / "made/quick.json", quick.dump());
  write_text(
      folder_ / "made/wgrad.json",
      R"({"name": "wgrad", "task": "regression", "seeds": 3, "base": "mxfp4_all", "train": {"steps": 3, "curve_points": 1}, "axes": {
                 "wgrad.hadamard": [{"label": "none", "size": 0}, {"label": "H16", "size": 16, "signs": "none"}],
                 "wgrad.*.rounding": ["nearest_even", "stochastic"], "task.*.outliers.token": [0, 1]}})");
}

fs::path Workshop::new_place() {
  const fs::path place = folder_.path() / ("run" + std::to_string(++count_));
  fs::create_directories(place / ".local/share/bash-completion/completions");
  fs::create_directories(place / "results");
  fs::copy(folder_ / "made/quick.json", place / "quick.json");
  return place;
}

RunResult Workshop::run_in(const fs::path& place, const std::string& command) {
  const std::string run = shortened(command);
  for (size_t f = 0; f < std::size(fixtures); ++f) {
    if (!reads(run, fixtures[f].shown) || fs::exists(place / fixtures[f].shown)) continue;
    fs::create_directories((place / fixtures[f].shown).parent_path());
    fs::copy(made(f), place / fixtures[f].shown, fs::copy_options::recursive);
  }
  return in(place, run);
}

fs::path Workshop::made(size_t fixture) {
  const Replacement& wanted = fixtures[fixture];
  const fs::path place = folder_ / "made";
  if (fs::exists(place / wanted.shown)) return place / wanted.shown;
  for (size_t other = 0; other < std::size(fixtures); ++other)  // x.npy before out, golden before my_kernel_dump
    if (other != fixture && reads(wanted.run, fixtures[other].shown)) made(other);
  const RunResult result = in(place, wanted.run);
  if (result.exit_code != 0) throw std::runtime_error(std::string(wanted.run) + "\n" + result.err);
  return place / wanted.shown;
}

RunResult Workshop::in(const fs::path& place, const std::string& command) {
  return run_shell("cd '" + place.string() + "' && export HOME=. PATH='" + folder_ / "bin" +
                   "':\"$PATH\" OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 "
                   "OMPI_MCA_rmaps_base_oversubscribe=1\n" +
                   command + "\n");
}

}  // namespace fp4::test
