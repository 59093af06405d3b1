// `fp4sim bench`: speeds as ratios to yardsticks of the same run. Every kernel is compared with the reference first,
// and a wrong one is not timed.
#include <fmt/core.h>

#include <algorithm>
#include <fstream>

#include "sim/rules/recipe.h"
#include "src/gpu/gpu_backend.h"
#include "src/text/error.h"
#include "src/text/member_json.h"
#include "tools/bench/benches.h"
#include "tools/cli/command.h"
#include "tools/cli/options.h"
#include "tools/cli/progress_line.h"
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
  bool full = false;
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
  Table table{{"bench", "backend", "size", ">ms", ">rate", "unit", ">ratio", "to"}, {}};
  for (const BenchRow& r : rows) {
    table.rows.push_back({r.bench, r.backend, r.size, fmt::format("{:.3f}", r.seconds * 1e3),
                          fmt::format("{:.1f}", r.rate), r.unit, fmt::format("{:.2f}", r.ratio), r.baseline});
  }
  print_table(table);
}

void print_training(const std::vector<TrainBenchRow>& rows, const std::string& pytorch) {
  Table table{{"model", "recipe", ">ms a step", ">steps/s", ">time / fp32 step", ">rate / pytorch"}, {}};
  for (const TrainBenchRow& r : rows)
    table.rows.push_back({r.model, r.recipe, fmt::format("{:.3f}", r.seconds * 1e3), fmt::format("{:.0f}", r.rate),
                          fmt::format("{:.2f}", 1 / r.ratio),
                          r.ratio_pytorch > 0 ? fmt::format("{:.2f}", r.ratio_pytorch) : "-"});
  print_fields({{"pytorch", pytorch}, {rows.front().model, rows.front().size}});
  print_table(table);
}

void run_gpu(const BenchOptions& o) {
  GpuBenchOptions options = {.what = o.what, .rounds = o.rounds, .json = o.json};
  if (o.has_sizes) options.sizes = o.gemm.sizes;
  if (o.has_elements) options.elements = o.passes.elements;
  bench_gpu(options);
}

// What --full turns, where the command line says nothing else, and what every benchmark shares.
void fill(BenchOptions& o, const Dispatcher& backend) {
  if (o.full && !o.has_sizes) o.gemm.sizes = {1024, 2048};
  if (o.full && !o.has_elements) o.passes.elements = int64_t{1} << 24;
  o.gemm.threads = o.passes.threads = o.train.threads = o.threads;
  o.gemm.rounds = o.passes.rounds = o.rounds;
  o.train.rounds = std::max(3, o.rounds / 3);
  o.train.full = o.full;
  o.train.backend = backend.name() == "gpu" ? backend.name() : o.backend;
  o.passes.specs = o.gemm.specs;
}

// One table after each race; JSON at the end.
class Output {
 public:
  explicit Output(const BenchOptions& o) : o_(o) {
    report.progress = [this](size_t done, size_t all, const std::string& doing) {
      line_.count(static_cast<int64_t>(done), static_cast<int64_t>(all), doing);
    };
    report.show = [this](const std::vector<BenchRow>& rows) {
      for (const BenchRow& r : rows) this->rows.push_back(to_json(r));
      end_of_race([&] { print_rows(rows); });
    };
  }
  void show(const std::vector<TrainBenchRow>& training) {
    for (const TrainBenchRow& r : training) {
      rows.push_back(to_json(r));
      rows.back().update({{"model", r.model}, {"recipe", r.recipe}, {"ratio_pytorch", r.ratio_pytorch}});
    }
    end_of_race([&] { print_training(training, pytorch); });
  }

  BenchReport report;
  std::string pytorch;
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();

 private:
  template <class Print>
  void end_of_race(const Print& print) {
    line_.finish();
    line_.restart();
    if (o_.json) return;
    print();
    std::fflush(stdout);
  }
  const BenchOptions& o_;
  ProgressLine line_{o_.json, [](double) { return std::string(); }, 1};
};

void run_bench(BenchOptions o) {
  const Dispatcher backend(o.backend);
  const bool is_gpu = backend.name() == "gpu", trains = std::count(o.what.begin(), o.what.end(), "train") != 0;
  if (is_gpu && trains && o.what.size() > 1)
    throw Error("bench: on the gpu backend `train` is a call of its own, beside no other benchmark");
  const auto wants = [&](const std::string& kind) {
    return o.what.empty() ? kind != "tiers" : std::count(o.what.begin(), o.what.end(), kind) != 0;
  };
  check_words(o.gemm, wants("gemm"));  // every word before the first row
  for (const std::string& recipe : o.train.recipes) sim::recipe_from_json(recipe, "--recipes");
  if (is_gpu && !trains) return run_gpu(o);
  fill(o, backend);
  const Yardstick yardstick;
  yardstick.set_threads(o.threads);
  std::vector<std::pair<std::string, std::string>> machine = {
      {"cpu", cpu_name()}, {"compiler", __VERSION__}, {"yardsticks", yardstick.description()}};
  if (is_gpu) machine.emplace_back("device", gpu_status());
  nlohmann::ordered_json tiers = nlohmann::ordered_json::array();
  if (wants("tiers")) {
    const Table table = tier_table(backend, o.has_kernels, tiers);
    if (!o.json) print_table(table);
    if (!o.json && o.what.size() == 1) return;
  }
  if (!o.json) print_fields(machine), std::fflush(stdout);
  Output out(o);
  if (wants("gemm")) bench_gemm(o.gemm, backend, yardstick, out.report);
  if (wants("quantize")) bench_quantize(o.passes, backend, out.report);
  if (wants("hadamard")) bench_hadamard(o.passes, backend, out.report);
  if (wants("train"))
    bench_train(o.train, out.pytorch, out.report, [&](const std::vector<TrainBenchRow>& rows) { out.show(rows); });
  if (!o.json) return;
  nlohmann::ordered_json result;
  for (const auto& [name, text] : machine) result[name] = text;
  result.update({{"pytorch", out.pytorch}, {"rows", out.rows}, {"tiers", tiers}});
  print_json(result);
}

}  // namespace

void command_bench(CLI::App& app, Invocation&) {
  auto o = std::make_shared<BenchOptions>();
  app.add_option("what", o->what, "gemm, quantize, hadamard, train, tiers (default: all but tiers, a minute)")
      ->check(CLI::IsMember(benchmarks));
  const CLI::Option* sizes =
      app.add_option("--sizes", o->gemm.sizes, "n of the square products (1024; --full: and 2048; gpu: 8192)")
          ->delimiter(',')
          ->check(CLI::Range(64, 16384));
  option(app, "--specs SPEC..", o->gemm.specs,
         "Operands of the products, and what is quantised, SPEC each (default: a selection)");
  app.add_option("--accumulators", o->gemm.accumulators, "Accumulators of those products (default: fp32_block)")
      ->delimiter(',');
  option(app, "--scale-spread B", o->gemm.scale_spread,
         "Multiply every block of the operands by a random power of two up to 2^B")
      ->check(CLI::Range(0, 60));
  const CLI::Option* elements =
      app.add_option("--elements", o->passes.elements, "Floats to quantise (2^22; --full: 2^24; gpu: 2^26)")
          ->check(CLI::Range(int64_t{65536}, int64_t{1} << 30));
  add_backend_option(app, o->backend,
                     "; gpu measures gemm and quantize on data in device memory, and `train` by itself");
  app.add_option("--threads", o->threads, "Threads inside one call")->check(CLI::Range(1, 1024));
  app.add_option("--rounds", o->rounds, "Rounds; the median counts")->check(CLI::Range(1, 1000));
  app.add_option("--steps", o->train.steps, "Training steps a run")->check(CLI::Range(10, 100000));
  app.add_option("--models", o->train.models, "Models to train (mlp-128; --full: and mlp-256, lm)")
      ->delimiter(',')
      ->check(CLI::IsMember(bench_models()));
  option(app, "--recipes RECIPE,..", o->train.recipes,
         "Recipes to train with; fp32 always runs (bf16,mxfp8,mxfp4,nvfp4,nvfp4_te; --full: all)");
  app.add_flag("--kernels", o->has_kernels, "tiers: and the gemm kernels, as shares of the tiles of a small product");
  app.add_flag("--full", o->full, "Larger sizes, all models and recipes: some fifteen minutes");
  app.add_flag("--json", o->json, "Print JSON");
  app.callback([o, sizes, elements] {
    o->has_sizes = sizes->count() > 0;
    o->has_elements = elements->count() > 0;
    run_bench(*o);
  });
  set_example(app, "fp4sim bench gemm --sizes 1024,4096 --threads 2");
}

}  // namespace fp4::tools
