// Threads as the ranks of one training, without MPI: blocks are copied between two barriers.
#pragma once

#include <barrier>
#include <cstring>
#include <functional>
#include <thread>
#include <vector>

#include "sim/train/ranks.h"

namespace fp4::test {

class ThreadRanks {
 public:
  explicit ThreadRanks(int count) : sent_(static_cast<size_t>(count)), barrier_(count) {}

  /// Calls work(ranks) on one thread a rank and waits for all. Work must not throw.
  void run(const std::function<void(sim::Ranks&)>& work) {
    std::vector<std::thread> threads;
    for (int i = 0; i < count(); ++i)
      threads.emplace_back([this, i, &work] {
        One one(*this, i);
        work(one);
      });
    for (std::thread& t : threads) t.join();
  }

 private:
  int count() const { return static_cast<int>(sent_.size()); }

  class One : public sim::Ranks {
   public:
    One(ThreadRanks& all, int rank) : all_(all), rank_(rank) {}
    int rank() const override { return rank_; }
    int count() const override { return all_.count(); }
    void exchange(const void* send, void* receive, int64_t bytes) override {
      meet(send, receive, bytes, rank_ * bytes);
    }
    void gather(const void* mine, void* all, int64_t bytes) override { meet(mine, all, bytes, 0); }

   private:
    void meet(const void* mine, void* to, int64_t bytes, int64_t offset) {
      all_.sent_[static_cast<size_t>(rank_)] = static_cast<const char*>(mine);
      all_.barrier_.arrive_and_wait();
      for (int i = 0; i < count(); ++i)
        std::memcpy(static_cast<char*>(to) + i * bytes, all_.sent_[static_cast<size_t>(i)] + offset,
                    static_cast<size_t>(bytes));
      all_.barrier_.arrive_and_wait();
    }
    ThreadRanks& all_;
    int rank_;
  };

  std::vector<const char*> sent_;
  std::barrier<> barrier_;
};

}  // namespace fp4::test
