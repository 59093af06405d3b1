// The benchmark of the gpu backend: kernels on data that stays in device memory, as ratios to the device's own copy
// bandwidth and its vendor's bf16 gemm.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace fp4::tools {

struct GpuBenchOptions {
  std::vector<std::string> what;  // gemm, quantize; empty: both
  std::vector<int64_t> sizes = {8192};
  int64_t elements = int64_t{1} << 26;
  int rounds = 9;
  bool json = false;
};

// Prints a table or JSON. Throws Error where there is no device, and, after printing, when a kernel's bits differ.
void bench_gpu(const GpuBenchOptions& options);

}  // namespace fp4::tools
