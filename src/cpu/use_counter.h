// How often a kernel or an engine was offered work, and took it, since the last reset: for `--explain` and for the
// tests that every one is reached.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

namespace fp4::cpu {

struct UseCount {
  int64_t offered = 0;
  int64_t taken = 0;
  const char* declined = nullptr;  // why, of the last call that it declined
};

// One count for each row of a table whose ids are indices.
template <class Id, size_t rows>
class UseCounters {
 public:
  using Counts = std::array<UseCount, rows>;

  Counts read() const {
    Counts counts;
    for (size_t i = 0; i < rows; ++i) counts[i] = {row_[i].offered, row_[i].taken, row_[i].declined};
    return counts;
  }
  void reset() {
    for (Row& r : row_) {
      r.offered = 0;
      r.taken = 0;
      r.declined = nullptr;
    }
  }
  void count(Id id, int64_t offered, int64_t taken) {
    Row& r = row_[static_cast<size_t>(id)];
    r.offered.fetch_add(offered, std::memory_order_relaxed);
    r.taken.fetch_add(taken, std::memory_order_relaxed);
  }
  void decline(Id id, const char* reason) {
    row_[static_cast<size_t>(id)].declined.store(reason, std::memory_order_relaxed);
  }

 private:
  struct Row {
    std::atomic<int64_t> offered = 0;
    std::atomic<int64_t> taken = 0;
    std::atomic<const char*> declined = nullptr;
  };
  Row row_[rows];
};

}  // namespace fp4::cpu
