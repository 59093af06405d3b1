// The benchmarks of `fp4sim bench`, as ratios to a yardstick of the same run.
#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "src/backends/backends.h"
#include "tools/cli/table_print.h"

namespace fp4::tools {

// Contestants take turns, and medians are compared: other work on the machine then slows all of them alike.

// A row of `fp4sim bench`. Ratio: rate over the rate of the baseline, which ran in the same race.
struct BenchRow {
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

// Something to run, how much work it is, and whether it is the yardstick of the others.
struct Contestant {
  std::string name;
  std::string backend;
  double work = 0;
  bool is_baseline = false;
  std::function<void()> run;
};

struct Race {
  std::string size;
  std::string unit;  // of 1e9 work a second
  std::string baseline;
  // One thread is timed by its own CPU time, which other programs do not stretch; several by the clock.
  int threads = 1;
  int rounds = 9;
};

// What a benchmark says while it runs, and the rows of each race when it has ended.
struct BenchReport {
  std::function<void(size_t done, size_t all, const std::string& doing)> progress;
  std::function<void(const std::vector<BenchRow>&)> show;
};

// A row for each contestant; the best baseline is what ratios refer to, 0 where there is none.
void race(const Race& race, const std::vector<Contestant>& contestants, const BenchReport& report);

std::vector<float> gaussian(int64_t n, uint32_t seed);

// Throws Error (exit code 1): a wrong kernel is not timed.
void require_equal(const std::string& name, const void* got, const void* expected, size_t bytes);

// What the benchmarks measure against: sgemm of OpenBLAS and oneDNN, int8 gemm of oneDNN, memcpy and a read of memory.
// The libraries are loaded at run time, so that the program does not depend on them; absent ones are left out.
class Yardstick {
 public:
  // Unsets OPENBLAS_CORETYPE and OPENBLAS_L2_SIZE first: some machines export another CPU's name, OpenBLAS then runs at
  // half speed and every ratio flatters by two.
  Yardstick();

  bool has_openblas() const { return sgemm_openblas_ != nullptr; }
  bool has_onednn() const { return sgemm_onednn_ != nullptr; }
  // The CPU that OpenBLAS detected, "" without OpenBLAS.
  std::string openblas_core() const;
  // Names of the loaded libraries, for provenance.
  std::string description() const;
  void set_threads(int threads) const;

  // C [n, n] = A B^T, row-major.
  void sgemm_openblas(int64_t n, const float* a, const float* b, float* c) const;
  void sgemm_onednn(int64_t n, const float* a, const float* b, float* c) const;
  void int8_onednn(int64_t n, const uint8_t* a, const int8_t* b, int32_t* c) const;

 private:
  void* sgemm_openblas_ = nullptr;
  void* threads_openblas_ = nullptr;
  void* core_openblas_ = nullptr;
  void* sgemm_onednn_ = nullptr;
  void* int8_onednn_ = nullptr;
};

// Sums n floats by whole vectors, fetched early: what reading memory alone costs. The value keeps the loop alive.
float read_all(const float* x, int64_t n);

// Products of `bench gemm`: from codes and scales, packing included, against sgemm.
struct GemmBenchOptions {
  std::vector<int64_t> sizes = {1024};
  std::vector<std::string> specs;         // both operands; empty: a selection of operands and accumulators
  std::vector<std::string> accumulators;  // of each of the specs; empty: fp32_block
  int scale_spread = 0;  // Gaussian blocks are multiplied by powers of two up to 2^scale_spread, drawn at random
  int threads = 1;
  int rounds = 9;
};

// Throws Error before a kernel that differs from the reference would be timed. What no fast path has is measured on the
// reference, a few rows of A alone, and marked.
void bench_gemm(const GemmBenchOptions& options, const Dispatcher& backend, const Yardstick& yardstick,
                const BenchReport& report);

// Throws Error for unknown words, and where they are multiplied for specs and accumulators that do not go together.
void check_words(const GemmBenchOptions& options, bool are_multiplied);

// Passes over a tensor of `bench quantize` and `bench hadamard`, against memcpy.
struct PassBenchOptions {
  int64_t elements = int64_t{1} << 22;  // rows of 4096
  int threads = 1;
  int rounds = 9;
  std::vector<std::string> specs;  // empty: a selection
};

// Quantisation to codes and scales, and back. Rates count the bytes of the floats. What no fast path has is measured on
// the reference, a few rows alone, and marked.
void bench_quantize(const PassBenchOptions& options, const Dispatcher& backend, const BenchReport& report);

// The transform alone, and together with quantisation.
void bench_hadamard(const PassBenchOptions& options, const Dispatcher& backend, const BenchReport& report);

// Training steps of `bench train`: every recipe against the fp32 step of the same code, and against PyTorch.
struct TrainBenchOptions {
  std::vector<std::string> models;   // empty: the smallest, or with `full` all but the largest
  std::vector<std::string> recipes;  // empty: a selection, or with `full` all
  bool full = false;
  std::string backend = "auto";
  int threads = 1;
  int rounds = 3;
  int steps = 200;  // of the smallest model; larger ones take fewer
};

// A step, evaluations left out. Ratio: rate over that of the fp32 step.
struct TrainBenchRow : BenchRow {
  std::string model;
  std::string recipe;        // "pytorch fp32" for the comparison
  double ratio_pytorch = 0;  // rate over PyTorch's; 0 without it
};

const std::vector<std::string>& bench_models();

// `pytorch`: its version, or why there is no comparison; `show` gets the rows of each model. Throws Error, before
// timing a model, where a recipe's first steps differ from those of the reference.
void bench_train(const TrainBenchOptions& options, std::string& pytorch, const BenchReport& report,
                 const std::function<void(const std::vector<TrainBenchRow>&)>& show);

// The gpu backend: kernels on data that stays in device memory, against its copy bandwidth and its
// vendor's bf16 gemm.
struct GpuBenchOptions {
  std::vector<std::string> what;  // gemm, quantize; empty: both
  std::vector<int64_t> sizes = {8192};
  int64_t elements = int64_t{1} << 26;
  int rounds = 9;
  bool json = false;
};

// Prints a table or JSON. Throws Error where there is no device, and, after printing, when a kernel's bits differ.
void bench_gpu(const GpuBenchOptions& options);

// `bench tiers`: which backend does what.
// The backend that multiplies, "-" where a forced one declines.
std::string gemm_tier(const Dispatcher& backend, const QuantSpec& a, const QuantSpec& b, const GemmOptions& options);

// Which backend serves each preset under each accumulator, and each product of each recipe; appended to `json` too.
// `has_kernels`: and which gemm kernels, as shares of the tiles of a small product.
Table tier_table(const Dispatcher& backend, bool has_kernels, nlohmann::ordered_json& json);

}  // namespace fp4::tools
