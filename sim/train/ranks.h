// Decides: what training on several processes needs of whatever joins them. A rank is one process: it takes its part of
// every batch, and all ranks hold the same weights. tools/mpi joins them through MPI; without ranks nothing here runs.
#pragma once

#include <cstdint>

namespace fp4::sim {

class Ranks {
 public:
  virtual ~Ranks() = default;
  virtual int rank() const = 0;  // 0 .. count() - 1
  virtual int count() const = 0;
  /// `send` and `receive` hold count() blocks of `bytes`: block i of `send` goes to rank i, which finds it as the block
  /// with this rank's number. All ranks call it with the same `bytes`. Throws Error when a rank cannot be reached.
  virtual void exchange(const void* send, void* receive, int64_t bytes) = 0;
  /// `all` receives the `bytes` of every rank, in rank order.
  virtual void gather(const void* mine, void* all, int64_t bytes) = 0;
};

/// The random bits of a rank: the seed's high word, so that rank 0 draws what one process draws.
constexpr uint64_t seed_of_rank(uint64_t seed, int rank) { return seed + (static_cast<uint64_t>(rank) << 32); }

}  // namespace fp4::sim
