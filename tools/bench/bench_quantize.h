// `fp4sim bench quantize` and `bench hadamard`: passes over a tensor, against memcpy of the same run.
#pragma once

#include "src/backends/backends.h"
#include "tools/bench/bench_race.h"

namespace fp4::tools {

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

}  // namespace fp4::tools
