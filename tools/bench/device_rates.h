// What `fp4sim bench --backend gpu` measures, on data that stays in device memory: bits against the reference first,
// then rates as ratios to the device's own copy bandwidth and to its vendor's bf16 gemm. Ratios within one run:
// absolute numbers of a shared machine say little.
#pragma once

#include <string>
#include <vector>

#include "src/gpu/device.h"

namespace fp4::gpu {

// A kernel whose bits differ is not timed: its seconds, rate and ratio stay 0.
struct Measurement {
  std::string what;
  std::string size;
  bool is_equal = false;  // to the reference backend, on small odd shapes
  double seconds = 0;     // median of `repeats`
  double rate = 0;
  std::string unit;       // "GB/s" or "GMAC/s"
  std::string yardstick;  // "copy", "bf16 gemm", or empty
  double ratio = 0;       // rate / the yardstick's rate; 0 without one
};

struct BenchSize {
  int64_t rows = 8192;  // quantisers: [rows, cols]; no quantisers when 0
  int64_t cols = 8192;
  std::vector<int64_t> gemm = {8192};  // m = n = k
  int64_t plain = 1024;                // at most this for accumulators without matrix units
  int repeats = 9;
};

// The rows of the table; throws Error when there is no device.
std::vector<Measurement> bench(const BenchSize& size = {});
std::vector<Measurement> bench(Device& device, const BenchSize& size);

}  // namespace fp4::gpu
