// `--backend gpu` through the whole program, without a device: fp4sim_on_host_loops is the program with host loops in
// the place of one. What it prints, stores and refuses has to be the CPU's, and nothing may call the loops a device.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "fp4/bits.h"
#include "src/files/stored_array.h"
#include "tests/support/mpi.h"
#include "tests/support/support.h"

using namespace fp4;
using Catch::Matchers::Contains;
using Json = nlohmann::json;

namespace {

std::string host_loops_path() {
  const char* const build = std::getenv("FP4SIM_BUILD");
  return std::string(build != nullptr ? build : "build") + "/tests/fp4sim_on_host_loops";
}
test::RunResult on_host_loops(const std::string& arguments) {
  return test::run_shell("exec '" + host_loops_path() + "' " + arguments + "\n");
}

Json json_of(const test::RunResult& run) {
  INFO(run.err);
  REQUIRE(run.exit_code == 0);
  return Json::parse(run.out);
}

// Of each run of an exported sweep, by configuration: `word`.
std::map<std::string, std::string> column(const std::string& csv, const std::string& word) {
  std::istringstream in(csv);
  const auto next = [&in] {
    std::vector<std::string> cells;
    std::string line;
    std::getline(in, line);
    std::istringstream fields(line);
    for (std::string cell; std::getline(fields, cell, ',');) cells.push_back(cell);
    return cells;
  };
  const std::vector<std::string> head = next();
  const auto place = [&head](const std::string& name) {
    return static_cast<size_t>(std::find(head.begin(), head.end(), name) - head.begin());
  };
  std::map<std::string, std::string> out;
  // The last line is the grid.
  for (std::vector<std::string> row = next(); row.size() > 10 && row[0] != "#grid"; row = next())
    out[row.at(place("config_hash"))] = row.at(place(word));
  return out;
}

const std::map<std::string, std::string> small_tasks = {
    {"regression", "--set inputs=40 --set width=32 --set depth=1 --set outputs=24 --set batch=24"},
    {"classifier", "--set width=32 --set batch=32"},
    {"diffusion", "--set width=32 --set depth=1 --set batch=24"},
    {"lm", "--set width=32 --set task.layers=1 --set heads=2 --set ffn=48 --set context=20 --set batch=2"}};

// Three steps of four: the full evaluation would follow the last.
std::string training(const std::string& task, const std::string& recipe, const test::TemporaryFolder& folder) {
  return "train --task " + task + " --recipe " + recipe + " " + small_tasks.at(task) +
         " --steps 4 --stop-at 3 --json --quiet --no-sync --force --checkpoint " + folder / "checkpoint";
}

}  // namespace

TEST_CASE("gpu program: a training has the CPU's digest and says where it lay", "[cli]") {
  const test::TemporaryFolder folder;
  const auto compare = [&](const std::string& task, const std::string& recipe, const std::string& place) {
    INFO(task << " " << recipe);
    const std::string run = training(task, recipe, folder);
    const Json device = json_of(on_host_loops(run + " --backend gpu")), cpu = json_of(test::run_cli(run));
    CHECK(device.at("digest") == cpu.at("digest"));
    CHECK(!cpu.contains("device"));
    CHECK_THAT(device.at("device").get<std::string>(), Catch::Matchers::StartsWith(place));
  };
  for (const auto& [task, words] : small_tasks)
    for (const char* recipe : {"mxfp4", "nvfp4_te"}) compare(task, recipe, "all");
  // Products alone, there and back: test_gpu_trainer has all that lies in the device's memory.
  for (const char* recipe :
       {"dge_wang", "occ_wang", "quartet", "hot_channels", "metis", "tetrajet2", "tetrajet_qema", "tetrajet_qramping"})
    compare("regression", recipe, "products; ");
  compare("lm", "dge_wang", "products; ");
}

TEST_CASE("gpu program: host loops are called host loops", "[cli]") {
  const auto backends = on_host_loops("list backends"), version = on_host_loops("version");
  CHECK_THAT(backends.out, Contains("host loops in the place of a device"));
  CHECK_THAT(version.out, Contains("host loops in the place of a device"));
  // The program that users get has no such device.
  CHECK_THAT(test::run_cli("list backends").out, !Contains("host loops"));
}

TEST_CASE("gpu program: recipes without kernels are refused by name before any work", "[cli]") {
  const test::TemporaryFolder folder;
  struct Case {
    const char *task, *recipe, *words;
  };
  for (const auto& [task, recipe, words] :
       {Case{"regression", "hifloat4", "element=hif4"}, Case{"regression", "if4", "choice="},
        Case{"regression", "mbs_alto", "factor_format=mantissa8"}, Case{"regression", "mixfp4", "choice="},
        Case{"regression", "mx9", "element=mx9"}, Case{"regression", "nvint4", "element=int4"},
        Case{"regression", "quartet2", "scale_rule=ms_eden"}, Case{"regression", "razer", "element=e2m1_minus_5"},
        Case{"lm", "attn_fp4", "tensor_scale=row"}}) {
    INFO(recipe);
    const auto run = on_host_loops(training(task, recipe, folder) + " --backend gpu");
    CHECK(run.exit_code == 2);
    CHECK(run.out.empty());
    CHECK_THAT(run.err, Contains(std::string("recipe ") + recipe) && Contains(words) && Contains("'gpu'") &&
                            Contains("accepted: auto, reference"));
    CHECK(!std::filesystem::exists(folder / "checkpoint"));
  }
  // A model without attention runs in bf16.
  CHECK(json_of(on_host_loops(training("regression", "attn_fp4", folder) + " --backend gpu")).at("device") == "all");
}

// The device has no float log2: blocks whose maximum lies beside a power of two are coded again on the host.
TEST_CASE("gpu program: scales of a float log2 are the definition's beside every power of two", "[cli]") {
  const test::TemporaryFolder folder;
  std::vector<float> x;
  for (int k = -140; k < 128; ++k)
    for (int ulp = -100; ulp <= 3; ++ulp)
      for (int i = 0; i < 32; ++i)
        x.push_back(float_of(bits_of(std::ldexp(1.0f, k)) + static_cast<uint32_t>(ulp)) *
                    (i == 7 ? 1.0f : static_cast<float>(i % 2 == 0 ? -i : i) / 33.0f));
  const std::string numbers(reinterpret_cast<const char*>(x.data()), x.size() * sizeof(float));
  test::write_text(folder / "x.npy", npy_header(Dtype::f32, {x.size() / 64, 64}) + numbers);
  for (const char* spec :
       {"ggml_mxfp4", "mxfp4,exponent=float_log2,rounding=stochastic", "mxfp8,scale_rule=floor,exponent=float_log2"}) {
    INFO(spec);
    const auto quantized = [&](const std::string& backend) {
      const auto run = on_host_loops("quantize " + folder / "x.npy" + " --spec " + spec + " --backend " + backend +
                                     " --no-sync --out " + folder / "q --force");
      INFO(run.err);
      REQUIRE(run.exit_code == 0);
      return test::read_text(folder / "q/scales.npy") + test::read_text(folder / "q/codes.npy");
    };
    CHECK(quantized("gpu") == quantized("reference"));
  }
}

TEST_CASE("gpu program: a sweep has the CPU's digests", "[cli]") {
  const test::TemporaryFolder folder;
  test::write_text(folder / "grid.json", R"({"name": "small", "task": "regression", "seeds": 1,
    "train": {"steps": 4, "batch": 24, "curve_points": 1},
    "axes": {"task.*.width": [32], "recipe": ["tetrajet", "dge_wang"]}})");
  std::map<std::string, std::string> digests[2];
  for (const bool device : {true, false}) {
    const std::string out = folder / (device ? "device.sweep" : "cpu.sweep"), table = out + ".csv";
    const std::string run =
        "sweep run " + folder / "grid.json" + " --quiet --out " + out + (device ? " --jobs 2 --backend gpu" : "");
    const auto done = device ? on_host_loops(run) : test::run_cli(run);
    INFO(done.err);
    REQUIRE(done.exit_code == 0);
    REQUIRE(test::run_cli("sweep export " + out + " --out " + table).exit_code == 0);
    digests[device] = column(test::read_text(table), "digest");
    for (const auto& [hash, backend] : column(test::read_text(table), "backend"))
      CHECK(backend == (device ? "gpu" : "auto"));
  }
  CHECK(digests[1].size() == 4);  // with the references fp32 and bf16
  CHECK(digests[1] == digests[0]);
}

// It is no fault of the run that this backend lacks kernels: another one goes on with the same folder.
TEST_CASE("gpu program: a sweep stores no run that the backend refuses", "[cli]") {
  const test::TemporaryFolder folder;
  test::write_text(folder / "grid.json", R"({"name": "small", "task": "regression", "seeds": 1,
    "train": {"steps": 4, "batch": 24, "curve_points": 1}, "axes": {"task.*.width": [32], "recipe": ["quartet2"]}})");
  const std::string run = "sweep run " + folder / "grid.json" + " --quiet --jobs 1 --out " + folder / "s";
  const auto refused = on_host_loops(run + " --backend gpu");
  CHECK(refused.exit_code == 1);
  CHECK_THAT(refused.err, Contains("scale_rule=ms_eden") && Contains("Nothing is stored for it"));
  const auto rest = test::run_cli(run);
  INFO(rest.err);
  REQUIRE(rest.exit_code == 0);
  REQUIRE(test::run_cli("sweep export " + folder / "s" + " --out " + folder / "t.csv").exit_code == 0);
  for (const auto& [hash, status] : column(test::read_text(folder / "t.csv"), "status")) CHECK(status == "finished");
}

TEST_CASE("gpu program: ranks of mpirun on a device each have the digest of ranks on the CPU", "[cli]") {
  if (const std::string reason = test::no_mpi(); !reason.empty()) {
    WARN("SKIPPED: " + reason);
    return;
  }
  const test::TemporaryFolder folder;
  const std::string run = training("classifier", "ue5m3_hold50", folder) + " --gradients bf16";
  const Json device = json_of(test::run_shell(test::mpirun(2) + host_loops_path() + " " + run + " --backend gpu"));
  CHECK(device.at("device") == "all");
  CHECK(device.at("parallel").at("ranks") == 2);
  CHECK(device.at("digest") ==
        json_of(test::run_shell(test::mpirun(2) + test::fp4sim_path() + " " + run)).at("digest"));
}

// Times of host loops say nothing of a device: what is tested is that every row is compared with the reference first.
TEST_CASE("gpu program: bench train compares, times and names what it timed", "[cli]") {
  const Json result =
      json_of(on_host_loops("bench train --backend gpu --models mlp-128 --recipes mxfp4 --steps 10 --rounds 1 --json"));
  CHECK(result.at("device") == "host loops in the place of a device");
  REQUIRE(result.at("rows").size() == 2);
  for (const Json& row : result.at("rows")) {
    CHECK(row.at("backend") == "gpu");
    CHECK(row.at("rate") > 0);
  }
}
