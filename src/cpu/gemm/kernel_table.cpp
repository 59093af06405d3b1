#include "src/cpu/gemm/kernel_table.h"

namespace fp4::cpu {
namespace {

UseCounter kernel_counters[std::size(gemm_kernel_table)];

}  // namespace

TileCounts tile_counts() {
  TileCounts counts;
  for (size_t i = 0; i < counts.size(); ++i) counts[i] = kernel_counters[i].read();
  return counts;
}

void reset_tile_counts() {
  for (UseCounter& c : kernel_counters) c.reset();
}

void count_tiles(GemmKernel kernel, int64_t offered, int64_t taken) {
  kernel_counters[static_cast<size_t>(kernel)].count(offered, taken);
}

void count_declined(GemmKernel kernel, const char* reason) {
  kernel_counters[static_cast<size_t>(kernel)].decline(reason);
}

}  // namespace fp4::cpu
