// How often a kernel or an engine was offered work, and took it, since the last reset: for `--explain` and for the
// tests that every one is reached.
#pragma once

#include <atomic>
#include <cstdint>

namespace fp4::cpu {

struct UseCount {
  int64_t offered = 0;
  int64_t taken = 0;
  const char* declined = nullptr;  // why, of the last call that it declined
};

class UseCounter {
 public:
  UseCount read() const { return {offered_, taken_, declined_}; }
  void reset() {
    offered_ = 0;
    taken_ = 0;
    declined_ = nullptr;
  }
  void count(int64_t offered, int64_t taken) {
    offered_.fetch_add(offered, std::memory_order_relaxed);
    taken_.fetch_add(taken, std::memory_order_relaxed);
  }
  void decline(const char* reason) { declined_.store(reason, std::memory_order_relaxed); }

 private:
  std::atomic<int64_t> offered_ = 0;
  std::atomic<int64_t> taken_ = 0;
  std::atomic<const char*> declined_ = nullptr;
};

}  // namespace fp4::cpu
