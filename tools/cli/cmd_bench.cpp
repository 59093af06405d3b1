// `fp4sim bench`: speeds as ratios to yardsticks of the same run. Every kernel is compared with the reference first,
// and a wrong one is not timed.
#include <fmt/core.h>

#include <algorithm>
#include <fstream>

#include "src/gpu/gpu_backend.h"
#include "src/text/error.h"
#include "src/text/member_json.h"
#include "tools/bench/bench_gemm.h"
#include "tools/bench/bench_gpu.h"
#include "tools/bench/bench_quantize.h"
#include "tools/bench/bench_tiers.h"
#include "tools/bench/bench_train.h"
#include "tools/cli/command.h"
#include "tools/cli/options.h"
#include "tools/cli/table_print.h"

namespace fp4::tools {
namespace {

const std::vector<std::string> benchmarks = {"gemm", "quantize", "hadamard", "train", "tiers"};

struct BenchOptions {
  std::vector<std::string> what;
  std::string backend = "auto";
  int threads = 1;
  int rounds = 9;
  bool json = false;
  bool has_kernels = false;
  bool has_sizes = false;  // on the command line; the gpu backend has other defaults
  bool has_elements = false;
  GemmBenchOptions gemm;
  PassBenchOptions passes;
  TrainBenchOptions train;
};

std::string cpu_name() {
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);) {
    if (line.starts_with("model name")) return line.substr(line.find(':') + 2);
  }
  return "unknown";
}

nlohmann::ordered_json to_json(const BenchRow& r) {
  return FP4_NAMED(r.bench, r.backend, r.threads, r.size, r.seconds, r.unit, r.rate, r.baseline, r.ratio);
}

void print_rows(const std::vector<BenchRow>& rows) {
  if (rows.empty()) return;
  Table table{{"bench", "backend", "size", ">ms", ">rate", "unit", ">ratio", "to"}, {}};
  for (const BenchRow& r : rows) {
    table.rows.push_back({r.bench, r.backend, r.size, fmt::format("{:.3f}", r.seconds * 1e3),
                          fmt::format("{:.1f}", r.rate), r.unit, fmt::format("{:.2f}", r.ratio), r.baseline});
  }
  print_table(table);
}

void print_training(const std::vector<TrainBenchRow>& rows, const std::string& pytorch) {
  if (rows.empty()) return;
  std::vector<std::pair<std::string, std::string>> fields = {{"pytorch", pytorch}};
  Table table{{"model", "recipe", ">ms a step", ">steps/s", ">time / fp32 step", ">rate / pytorch"}, {}};
  for (const TrainBenchRow& r : rows) {
    if (fields.back().first != r.model) fields.emplace_back(r.model, r.size);
    table.rows.push_back({r.model, r.recipe, fmt::format("{:.3f}", r.seconds * 1e3), fmt::format("{:.0f}", r.rate),
                          fmt::format("{:.2f}", 1 / r.ratio),
                          r.ratio_pytorch > 0 ? fmt::format("{:.2f}", r.ratio_pytorch) : "-"});
  }
  print_fields(fields);
  print_table(table);
}

void run_gpu(const BenchOptions& o) {
  GpuBenchOptions options = {.what = o.what, .rounds = o.rounds, .json = o.json};
  if (o.has_sizes) options.sizes = o.gemm.sizes;
  if (o.has_elements) options.elements = o.passes.elements;
  bench_gpu(options);
}

void run_bench(BenchOptions o) {
  const Dispatcher backend(o.backend);
  const bool is_gpu = backend.name() == "gpu", trains = std::count(o.what.begin(), o.what.end(), "train") != 0;
  if (is_gpu && trains && o.what.size() > 1)
    throw Error("bench: on the gpu backend `train` is a call of its own, beside no other benchmark");
  if (is_gpu && !trains) return run_gpu(o);
  o.gemm.threads = o.passes.threads = o.train.threads = o.threads;
  o.gemm.rounds = o.passes.rounds = o.rounds;
  o.train.rounds = std::max(3, o.rounds / 3);
  o.train.backend = is_gpu ? backend.name() : o.backend;
  o.passes.specs = o.gemm.specs;
  const auto wants = [&](const std::string& kind) {
    return o.what.empty() ? kind != "tiers" : std::count(o.what.begin(), o.what.end(), kind) != 0;
  };
  const Yardstick yardstick;
  yardstick.set_threads(o.threads);
  std::vector<BenchRow> rows;
  std::vector<TrainBenchRow> training;
  std::string pytorch;
  nlohmann::ordered_json tiers = nlohmann::ordered_json::array();
  Table tier_rows;
  if (wants("gemm")) bench_gemm(o.gemm, backend, yardstick, rows);
  if (wants("quantize")) bench_quantize(o.passes, backend, rows);
  if (wants("hadamard")) bench_hadamard(o.passes, backend, rows);
  if (wants("train")) training = bench_train(o.train, pytorch);
  if (wants("tiers")) tier_rows = tier_table(backend, o.has_kernels, tiers);
  if (!o.json) {
    if (wants("tiers")) print_table(tier_rows);
    if (rows.empty() && training.empty()) return;
    if (is_gpu) print_fields({{"device", gpu_status()}});
    print_fields({{"cpu", cpu_name()}, {"compiler", __VERSION__}, {"yardsticks", yardstick.description()}});
    print_training(training, pytorch);
    return print_rows(rows);
  }
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const BenchRow& r : rows) list.push_back(to_json(r));
  for (const TrainBenchRow& r : training) {
    list.push_back(to_json(r));
    list.back().update({{"model", r.model}, {"recipe", r.recipe}, {"ratio_pytorch", r.ratio_pytorch}});
  }
  nlohmann::ordered_json result = {
      {"cpu", cpu_name()}, {"compiler", __VERSION__}, {"yardsticks", yardstick.description()}, {"pytorch", pytorch},
      {"rows", list},      {"tiers", tiers}};
  if (is_gpu) result["device"] = gpu_status();
  print_json(result);
}

void add_bench(CLI::App& app, Invocation&) {
  auto o = std::make_shared<BenchOptions>();
  app.add_option("what", o->what, "gemm, quantize, hadamard, train, tiers (default: all but tiers)")
      ->check(CLI::IsMember(benchmarks));
  const CLI::Option* sizes = app.add_option("--sizes", o->gemm.sizes, "n of the square products (gpu: 8192)")
                                 ->delimiter(',')
                                 ->check(CLI::Range(64, 16384));
  app.add_option("--specs", o->gemm.specs,
                 "Operands of the products, and what is quantised, SPEC each (default: a selection)")
      ->type_name("SPEC..");
  app.add_option("--accumulators", o->gemm.accumulators, "Accumulators of those products (default: fp32_block)")
      ->delimiter(',');
  app.add_option("--scale-spread", o->gemm.scale_spread,
                 "Multiply every block of the operands by a random power of two up to 2^B")
      ->check(CLI::Range(0, 60))
      ->type_name("B");
  const CLI::Option* elements = app.add_option("--elements", o->passes.elements, "Floats to quantise (gpu: 2^26)")
                                    ->check(CLI::Range(int64_t{65536}, int64_t{1} << 30));
  add_backend_option(app, o->backend,
                     "; gpu measures gemm and quantize on data in device memory, and `train` by itself");
  app.add_option("--threads", o->threads, "Threads inside one call")->check(CLI::Range(1, 1024));
  app.add_option("--rounds", o->rounds, "Rounds; the median counts")->check(CLI::Range(1, 1000));
  app.add_option("--steps", o->train.steps, "Training steps a run")->check(CLI::Range(10, 100000));
  app.add_option("--models", o->train.models, "Models to train")->delimiter(',')->check(CLI::IsMember(bench_models()));
  app.add_option("--recipes", o->train.recipes, "Recipes to train with; fp32 always runs")
      ->type_name("RECIPE,..")
      ->delimiter(',');
  app.add_flag("--kernels", o->has_kernels, "tiers: and the gemm kernels, as shares of the tiles of a small product");
  app.add_flag("--json", o->json, "Print JSON");
  app.callback([o, sizes, elements] {
    o->has_sizes = sizes->count() > 0;
    o->has_elements = elements->count() > 0;
    run_bench(*o);
  });
  set_example(app, "fp4sim bench gemm --sizes 1024,4096 --threads 2");
}

}  // namespace

Command command_bench() { return {"bench", "Speeds as ratios to sgemm and memcpy of the same run", add_bench}; }

}  // namespace fp4::tools
