// `fp4sim bench`: speeds as ratios to yardsticks of the same run. Every kernel is compared with the reference first,
// and a wrong one is not timed. Contestants take turns, and medians are compared: other work on the machine then slows
// all of them alike.
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <ctime>
#include <fstream>
#include <functional>
#include <random>

#include "src/backends.h"
#include "src/error.h"
#include "src/spec_text.h"
#include "sweeps/statistics.h"
#include "tools/bench_gpu.h"
#include "tools/bench_tiers.h"
#include "tools/bench_train.h"
#include "tools/bench_yardstick.h"
#include "tools/command.h"
#include "tools/table_print.h"

namespace fp4::tools {
namespace {

struct Options {
  std::vector<std::string> what;
  std::vector<int64_t> sizes = {1024, 2048};
  int64_t elements = int64_t{1} << 24;
  std::string backend = "auto";
  int threads = 1;
  int rounds = 9;
  bool json = false;
  bool has_sizes = false;  // on the command line; the gpu backend has other defaults
  bool has_elements = false;
  TrainBenchOptions train;
};

struct Row {
  std::string bench;
  std::string backend;
  int threads = 1;
  std::string size;
  double seconds = 0;
  std::string unit;
  double rate = 0;
  std::string baseline;
  double ratio = 0;
};

// One line of a benchmark: something to run, how much work it is, and whether it is the yardstick of the others.
struct Contestant {
  std::string name;
  std::string backend;
  double work = 0;
  bool is_baseline = false;
  std::function<void()> run;
  std::vector<double> seconds = {};
};

// One thread is timed by its own CPU time, which other programs do not stretch; several by the clock.
double seconds_of(const std::function<void()>& run, int threads) {
  const clockid_t clock = threads == 1 ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC;
  const auto now = [clock] {
    timespec t = {};
    clock_gettime(clock, &t);
    return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
  };
  const double start = now();
  run();
  return now() - start;
}

// Runs the contestants in turn; the best baseline's rate is what ratios refer to.
void race(std::vector<Contestant>& all, const Options& o, const std::string& size, const std::string& unit,
          const std::string& baseline, std::vector<Row>& rows) {
  for (Contestant& c : all) c.run();  // warm caches, pages and arenas
  for (int round = 0; round < o.rounds; ++round) {
    for (Contestant& c : all) c.seconds.push_back(seconds_of(c.run, o.threads));
  }
  double best = 0;
  for (const Contestant& c : all) {
    if (c.is_baseline) best = std::max(best, c.work / sweeps::quantile(c.seconds, 0.5));
  }
  for (const Contestant& c : all) {
    const double seconds = sweeps::quantile(c.seconds, 0.5);
    rows.push_back({c.name, c.backend, o.threads, size, seconds, unit, c.work / seconds / 1e9, baseline,
                    best > 0 ? c.work / seconds / best : 0});
  }
}

std::vector<float> gaussian(int64_t n, uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> x(static_cast<size_t>(n));
  for (float& v : x) v = normal(random);
  return x;
}

void require_equal(const std::string& name, const void* got, const void* expected, size_t bytes) {
  if (std::memcmp(got, expected, bytes) != 0)
    throw Error("bench: " + name + " differs from the reference; not timed", 1);
}

// The product of a few rows of A and B, recomputed by the reference from the same tensor amax.
void check_product(const std::string& name, const QuantSpec& spec, const GemmOptions& options, int64_t n,
                   const std::vector<float>& a, const std::vector<float>& b, float amax_a, float amax_b,
                   const std::vector<float>& c) {
  const Dispatcher reference("reference");
  constexpr int64_t rows = 32;
  MultiplyCall call;
  call.options = options;
  call.a.x = view_of(a.data() + (n - rows) * n, rows, n);
  call.b.x = view_of(b.data() + (n - rows) * n, rows, n);
  call.a.spec = call.b.spec = spec;
  if (spec.has_tensor_scale()) call.a.spec.tensor_scale = call.b.spec.tensor_scale = TensorScale::hold;
  call.a.held_amax = amax_a;
  call.b.held_amax = amax_b;
  std::vector<float> expected(rows * rows);
  std::vector<float> got(rows * rows);
  call.c = expected.data();
  call.c_stride = rows;
  reference.multiply(call);
  for (int64_t r = 0; r < rows; ++r) {
    std::memcpy(got.data() + r * rows, c.data() + (n - rows + r) * n + n - rows, rows * sizeof(float));
  }
  require_equal(name, got.data(), expected.data(), got.size() * sizeof(float));
}

struct ProductCase {
  const char* words;
  const char* accumulator;
};
constexpr ProductCase product_cases[] = {
    {"mxfp4", "fp32_block"}, {"mxfp4", "exact"},      {"mxfp4", "k64_rz"},          {"mxfp4", "fused35_rz"},
    {"nvfp4", "fp32_block"}, {"nvfp4", "k64_rz"},     {"nvfp4", "fused35_rz"},      {"ue5m3fp4", "fp32_block"},
    {"mxfp4", "fused25_rz"}, {"mxfp8", "fp32_block"}, {"mxfp4", "fp32_sequential"}, {"fp32", "fma_sequential"}};

bool serves(const Dispatcher& backend, const QuantSpec& spec, const GemmOptions& options) {
  try {
    backend.for_gemm(spec, spec, options);
    return true;
  } catch (const Error&) {
    return false;
  }
}

void bench_gemm(const Options& o, const Dispatcher& backend, const Yardstick& yardstick, std::vector<Row>& rows) {
  for (const int64_t n : o.sizes) {
    const std::vector<float> a = gaussian(n * n, 1);
    const std::vector<float> b = gaussian(n * n, 2);
    std::vector<float> c(static_cast<size_t>(n * n));
    std::vector<uint8_t> a8(static_cast<size_t>(n * n), 3);
    std::vector<int8_t> b8(static_cast<size_t>(n * n), 5);
    std::vector<int32_t> c8(static_cast<size_t>(n * n));
    const double work = static_cast<double>(n) * static_cast<double>(n) * static_cast<double>(n);
    std::vector<Contestant> all;
    if (yardstick.has_openblas()) {
      all.push_back(
          {"sgemm", "openblas", work, true, [&] { yardstick.sgemm_openblas(n, a.data(), b.data(), c.data()); }});
    }
    if (yardstick.has_onednn()) {
      all.push_back({"sgemm", "onednn", work, true, [&] { yardstick.sgemm_onednn(n, a.data(), b.data(), c.data()); }});
      all.push_back({"int8 gemm, unscaled", "onednn", work, false,
                     [&] { yardstick.int8_onednn(n, a8.data(), b8.data(), c8.data()); }});
    }
    std::vector<Quantized> stored(2 * std::size(product_cases));
    for (size_t i = 0; i < std::size(product_cases); ++i) {
      const QuantSpec spec = quant_spec_from_words(product_cases[i].words);
      GemmOptions options;
      options.accumulator = accumulator_from_words(product_cases[i].accumulator);
      options.threads = o.threads;
      const std::string name = fmt::format("{} {}", product_cases[i].words, product_cases[i].accumulator);
      if (!serves(backend, spec, options)) continue;  // a forced backend may decline
      Quantized& qa = stored[2 * i];
      Quantized& qb = stored[2 * i + 1];
      QuantizeCall call;
      call.spec = spec;
      call.x = view_of(a.data(), n, n);
      backend.quantize(call, qa);
      call.x = view_of(b.data(), n, n);
      backend.quantize(call, qb);
      backend.gemm(qa, qb, options, c.data(), n);
      check_product(name, spec, options, n, a, b, qa.amax, qb.amax, c);
      const char* tier = backend.for_gemm(spec, spec, options).name();
      if (std::string(tier) == "reference" && o.backend != "reference") continue;  // `bench tiers` shows these
      all.push_back({"gemm " + name, tier, work, false,
                     [&backend, &qa, &qb, options, &c, n] { backend.gemm(qa, qb, options, c.data(), n); }});
    }
    // A linear layer's training step: six operands quantised along their contraction, three products.
    const QuantSpec mxfp4 = quant_spec_from_words("mxfp4");
    const auto step = [&] {
      const MatrixView x = view_of(a.data(), n, n);
      const MatrixView w = view_of(b.data(), n, n);
      const std::pair<MatrixView, MatrixView> products[] = {
          {x, w}, {x, w.transposed()}, {x.transposed(), w.transposed()}};
      for (const auto& [left, right] : products) {
        MultiplyCall call;
        call.a.x = left;
        call.b.x = right;
        call.a.spec = call.b.spec = mxfp4;
        call.a.threads = call.b.threads = call.options.threads = o.threads;
        call.c = c.data();
        call.c_stride = n;
        backend.multiply(call);
      }
    };
    all.push_back({"linear training step mxfp4", backend.name(), 3 * work, false, step});
    race(all, o, fmt::format("{0}x{0}x{0}", n), "GMAC/s", "sgemm", rows);
  }
}

void check_quantised(const std::string& name, const Dispatcher& backend, QuantizeCall call) {
  call.x.rows = std::min<int64_t>(call.x.rows, 48);
  Quantized got;
  Quantized expected;
  backend.quantize(call, got);
  reference_backend().quantize(call, expected);
  require_equal(name, got.codes.data(), expected.codes.data(), expected.codes.size());
  require_equal(name, got.scales.data(), expected.scales.data(), expected.scales.size());
}

void bench_quantize(const Options& o, const Dispatcher& backend, std::vector<Row>& rows) {
  const int64_t k = 4096;
  const int64_t m = std::max<int64_t>(o.elements / k, 16);
  const std::vector<float> x = gaussian(m * k, 3);
  std::vector<float> copy(x.size());
  const double work = static_cast<double>(m * k) * sizeof(float);
  volatile float sink = 0;
  std::vector<Contestant> all;
  all.push_back({"memcpy", "libc", work, true, [&] { std::memcpy(copy.data(), x.data(), x.size() * sizeof(float)); }});
  all.push_back({"read", "-", work, false, [&] { sink = read_all(x.data(), m * k); }});
  struct Case {
    const char* name;
    const char* words;
    int hadamard;
  };
  constexpr Case cases[] = {{"quantize mxfp4", "mxfp4", 0},
                            {"quantize mxfp4 rceil", "mxfp4,scale_rule=rceil", 0},
                            {"quantize mxfp4 stochastic", "mxfp4,rounding=stochastic", 0},
                            {"quantize mxfp4 hadamard 32", "mxfp4", 32},
                            {"quantize nvfp4", "nvfp4", 0},
                            {"quantize nvfp4 stochastic", "nvfp4,rounding=stochastic", 0},
                            {"quantize ue5m3fp4", "ue5m3fp4", 0},
                            {"quantize te_nvfp4", "te_nvfp4", 0},
                            {"quantize fouroversix", "fouroversix", 0},
                            {"quantize mxfp8", "mxfp8", 0}};
  std::vector<Quantized> out(std::size(cases));
  for (size_t i = 0; i < std::size(cases); ++i) {
    QuantizeCall call;
    call.x = view_of(x.data(), m, k);
    call.spec = quant_spec_from_words(cases[i].words);
    call.hadamard = {cases[i].hadamard, HadamardSigns::fixed, HadamardNormalise::sqrt};
    call.threads = o.threads;
    check_quantised(cases[i].name, backend, call);
    all.push_back({cases[i].name, backend.for_quantize(call).name(), work, false,
                   [&backend, call, &out, i] { backend.quantize(call, out[i]); }});
  }
  race(all, o, fmt::format("{}M floats", m * k >> 20), "GB/s", "memcpy", rows);
  static_cast<void>(sink);
}

void print_training(const std::vector<TrainBenchRow>& rows, const std::string& pytorch) {
  print_fields({{"pytorch", pytorch}});
  Table table{{{"model"},
               {"recipe"},
               {"ms a step", Align::right},
               {"steps/s", Align::right},
               {"time / fp32 step", Align::right},
               {"rate / pytorch", Align::right}},
              {}};
  for (const TrainBenchRow& r : rows) {
    table.rows.push_back({fmt::format("{} ({})", r.model, r.shape), r.recipe, fmt::format("{:.3f}", r.seconds * 1e3),
                          fmt::format("{:.0f}", 1 / r.seconds), fmt::format("{:.2f}", r.to_fp32),
                          r.to_pytorch > 0 ? fmt::format("{:.2f}", r.to_pytorch) : "-"});
  }
  print_table(table);
}

std::string cpu_name() {
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);) {
    if (line.starts_with("model name")) return line.substr(line.find(':') + 2);
  }
  return "unknown";
}

void run_gpu(const Options& o) {
  GpuBenchOptions options = {.what = o.what, .rounds = o.rounds, .json = o.json};
  if (o.has_sizes) options.sizes = o.sizes;
  if (o.has_elements) options.elements = o.elements;
  bench_gpu(options);
}

void run(const Options& o) {
  const Dispatcher backend(o.backend);
  if (backend.name() == "gpu") return run_gpu(o);
  const Yardstick yardstick;
  yardstick.set_threads(o.threads);
  const auto wants = [&](const char* name) {
    return o.what.empty() ? std::string(name) != "tiers" : std::count(o.what.begin(), o.what.end(), name) != 0;
  };
  std::vector<Row> rows;
  nlohmann::ordered_json tiers = nlohmann::ordered_json::array();
  if (wants("gemm")) bench_gemm(o, backend, yardstick, rows);
  if (wants("quantize")) bench_quantize(o, backend, rows);
  std::vector<TrainBenchRow> training;
  std::string pytorch;
  if (wants("train")) {
    TrainBenchOptions t = o.train;
    t.backend = o.backend;
    t.threads = o.threads;
    t.rounds = std::max(3, o.rounds / 3);
    training = bench_train(t, pytorch);
  }
  if (wants("tiers")) {
    const Table table = tier_table(backend, tiers);
    if (!o.json) print_table(table);
  }
  if (o.json) {
    nlohmann::ordered_json list = nlohmann::ordered_json::array();
    for (const Row& r : rows) {
      list.push_back({{"bench", r.bench},
                      {"backend", r.backend},
                      {"threads", r.threads},
                      {"size", r.size},
                      {"seconds", r.seconds},
                      {"unit", r.unit},
                      {"rate", r.rate},
                      {"baseline", r.baseline},
                      {"ratio", r.ratio}});
    }
    nlohmann::ordered_json steps = nlohmann::ordered_json::array();
    for (const TrainBenchRow& r : training) {
      steps.push_back({{"model", r.model},
                       {"shape", r.shape},
                       {"recipe", r.recipe},
                       {"seconds", r.seconds},
                       {"steps_per_second", 1 / r.seconds},
                       {"time_to_fp32", r.to_fp32},
                       {"rate_to_pytorch", r.to_pytorch}});
    }
    print_json({{"cpu", cpu_name()},
                {"compiler", __VERSION__},
                {"yardsticks", yardstick.description()},
                {"pytorch", pytorch},
                {"rows", list},
                {"training", steps},
                {"tiers", tiers}});
    return;
  }
  if (rows.empty() && training.empty()) return;
  print_fields({{"cpu", cpu_name()}, {"compiler", __VERSION__}, {"yardsticks", yardstick.description()}});
  if (!training.empty()) print_training(training, pytorch);
  if (rows.empty()) return;
  Table table{{{"bench"},
               {"backend"},
               {"size"},
               {"ms", Align::right},
               {"rate", Align::right},
               {"unit"},
               {"ratio", Align::right},
               {"to"}},
              {}};
  for (const Row& r : rows) {
    table.rows.push_back({r.bench, r.backend, r.size, fmt::format("{:.3f}", r.seconds * 1e3),
                          fmt::format("{:.1f}", r.rate), r.unit, fmt::format("{:.2f}", r.ratio), r.baseline});
  }
  print_table(table);
}

void add(CLI::App& app, Invocation&) {
  static Options o;
  app.add_option("what", o.what, "gemm, quantize, train, tiers (default: all but tiers)")
      ->check(CLI::IsMember({"gemm", "quantize", "train", "tiers"}));
  const CLI::Option* sizes = app.add_option("--sizes", o.sizes, "n of the square products (gpu: 8192)")
                                 ->delimiter(',')
                                 ->check(CLI::Range(64, 16384));
  const CLI::Option* elements = app.add_option("--elements", o.elements, "Floats to quantise (gpu: 2^26)")
                                    ->check(CLI::Range(int64_t{65536}, int64_t{1} << 30));
  app.add_option("--backend", o.backend,
                 "auto, reference, avx2, avx512 or gpu; gpu measures gemm and quantize on data in device memory");
  app.add_option("--threads", o.threads, "Threads inside one call")->check(CLI::Range(1, 1024));
  app.add_option("--rounds", o.rounds, "Rounds; the median counts")->check(CLI::Range(1, 1000));
  app.add_option("--steps", o.train.steps, "Training steps a run")->check(CLI::Range(10, 100000));
  app.add_option("--models", o.train.models, "Models to train")->delimiter(',')->check(CLI::IsMember(bench_models()));
  app.add_option("--recipes", o.train.recipes, "Recipes to train with; fp32 always runs")->delimiter(',');
  app.add_flag("--json", o.json, "Print JSON");
  app.callback([sizes, elements] {
    o.has_sizes = sizes->count() > 0;
    o.has_elements = elements->count() > 0;
    run(o);
  });
  set_example(app, "fp4sim bench gemm --sizes 1024,4096 --threads 2");
}

}  // namespace

Command command_bench() { return {"bench", "Speeds as ratios to sgemm and memcpy of the same run", add}; }

}  // namespace fp4::tools
