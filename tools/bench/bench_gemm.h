// Products of `fp4sim bench gemm`: from codes and scales, packing included, against sgemm of the same run.
#pragma once

#include "src/backends/backends.h"
#include "tools/bench/bench_race.h"
#include "tools/bench/bench_yardstick.h"

namespace fp4::tools {

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

}  // namespace fp4::tools
