// Products of `fp4sim bench gemm`: from codes and scales, packing included, against sgemm of the same run.
#pragma once

#include "src/backends/backends.h"
#include "tools/bench/bench_race.h"
#include "tools/bench/bench_yardstick.h"

namespace fp4::tools {

struct GemmBenchOptions {
  std::vector<int64_t> sizes = {1024, 2048};
  std::vector<std::string> specs;         // both operands; empty: a selection of operands and accumulators
  std::vector<std::string> accumulators;  // of each of the specs; empty: fp32_block
  int scale_spread = 0;  // Gaussian blocks are multiplied by powers of two up to 2^scale_spread, drawn at random
  int threads = 1;
  int rounds = 9;
};

// Throws Error for unknown words, and before timing where a kernel differs from the reference.
void bench_gemm(const GemmBenchOptions& options, const Dispatcher& backend, const Yardstick& yardstick,
                std::vector<BenchRow>& rows);

}  // namespace fp4::tools
