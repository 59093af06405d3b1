// The benchmarks of `fp4sim bench`, as ratios to a yardstick of the same run.
#pragma once

#include <nlohmann/json.hpp>

#include "src/backends/backends.h"
#include "tools/bench/bench_race.h"
#include "tools/bench/bench_yardstick.h"
#include "tools/cli/table_print.h"

namespace fp4::tools {

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
