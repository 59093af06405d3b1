// What `fp4sim bench --backend gpu` measures, on data that stays in device memory: bits against the reference first,
// then rates as ratios to the device's own copy bandwidth and to its vendor's bf16 gemm. Ratios within one run:
// absolute numbers of a shared machine say little.
#pragma once

#include <string>
#include <vector>

#include "src/gpu/device.h"

namespace fp4::gpu {

struct Measurement {
  std::string what;
  bool same_bits = false;  // against the reference backend, on a small odd shape
  double seconds = 0;      // median of `repeats`
  double rate = 0;         // bytes or operations a second
  std::string unit;        // "GB/s" or "TFLOP/s"
  std::string yardstick;   // "copy", "bf16 gemm", or empty
  double ratio = 0;        // rate / the yardstick's rate; 0 without one
};

struct BenchSize {
  int64_t rows = 8192;  // quantisers: [rows, cols]
  int64_t cols = 8192;
  int64_t gemm = 8192;   // m = n = k
  int64_t plain = 1024;  // the same for accumulators without matrix units
  int repeats = 9;
};

// The rows of the table; throws Error when there is no device.
std::vector<Measurement> bench(const BenchSize& size = {});
std::vector<Measurement> bench(Device& device, const BenchSize& size);

}  // namespace fp4::gpu
