#include "src/cpu/gemm/kernel_table.h"

#include <atomic>

namespace fp4::cpu {
namespace {

struct Counter {
  std::atomic<int64_t> offered = 0;
  std::atomic<int64_t> taken = 0;
  std::atomic<const char*> declined = nullptr;
};
Counter counters[std::size(gemm_kernel_table)];

Counter& counter_of(GemmKernel kernel) { return counters[static_cast<size_t>(kernel)]; }

}  // namespace

TileCounts tile_counts() {
  TileCounts counts;
  for (size_t i = 0; i < counts.size(); ++i) counts[i] = {counters[i].offered, counters[i].taken, counters[i].declined};
  return counts;
}

void reset_tile_counts() {
  for (Counter& c : counters) {
    c.offered = 0;
    c.taken = 0;
    c.declined = nullptr;
  }
}

void count_tiles(GemmKernel kernel, int64_t offered, int64_t taken) {
  counter_of(kernel).offered.fetch_add(offered, std::memory_order_relaxed);
  counter_of(kernel).taken.fetch_add(taken, std::memory_order_relaxed);
}

void count_declined(GemmKernel kernel, const char* reason) {
  counter_of(kernel).declined.store(reason, std::memory_order_relaxed);
}

}  // namespace fp4::cpu
