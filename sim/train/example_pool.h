// Decides: how data is made and shared. Numbers come from the counter generator by (seed, data set, position), so
// example i is the same whatever the size of the pool. A pool is built once per process and key, grows when a longer
// run asks for more, and is read-only for everybody.
#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <vector>

#include "fp4/rng.h"
#include "sim/kernels/train_kernels.h"

namespace fp4::sim {

/// Numbers of one data set (fp4/rng.h: stream = number*128 + purpose, step 0).
struct DataSource {
  uint64_t seed;
  uint32_t number;
  Purpose purpose = Purpose::data;
  uint32_t step = 0;

  uint32_t stream() const { return stream_number(number, 0, 0, purpose); }
  void normals(float* x, int64_t first, int64_t n) const { kernels().normals(x, first, n, seed, stream(), step); }
  void uniforms(float* x, int64_t first, int64_t n) const { kernels().uniforms(x, first, n, seed, stream(), step); }
  std::vector<float> normals(int64_t n) const {
    std::vector<float> x(static_cast<size_t>(n));
    normals(x.data(), 0, n);
    return x;
  }
  std::vector<float> uniforms(int64_t n) const {
    std::vector<float> x(static_cast<size_t>(n));
    uniforms(x.data(), 0, n);
    return x;
  }
};

/// 0 .. n-1 in random order (Fisher-Yates): the walk of a run through its pool.
std::vector<int32_t> permutation(int n, DataSource source);

/// Factors exp(strength * N(0,1)) per channel, scaled to rms 1: outliers that leave the function alone.
std::vector<float> channel_factors(int channels, double strength, DataSource source);

/// Thrown where the making of data was asked to stop; sim::train makes it a run with the status `stopped`.
struct DataStopped : std::runtime_error {
  DataStopped() : std::runtime_error("stopped while examples were made") {}
};

/// Calls make(first, n) for examples 0 .. count - 1, 1,024 at a time and in order. `stop`, if any, is asked before each
/// piece; where it is true, DataStopped is thrown.
void in_pieces(int64_t count, const std::function<bool()>& stop,
               const std::function<void(int64_t first, int64_t n)>& make);

/// Weights exp(t*N(0,1) - t*t/2) of the training loss, one for each of n examples: mean 1, heavy-tailed.
std::vector<float> token_weights(int64_t n, double t, DataSource source, const std::function<bool()>& stop);

/// Pools by key, the most recently used ones kept.
template <class Pool>
class PoolCache {
 public:
  /// The pool of `key` with at least `count` examples; `build(count)` makes it, without blocking other keys.
  std::shared_ptr<const Pool> get(const std::string& key, int64_t count,
                                  const std::function<std::shared_ptr<const Pool>(int64_t)>& build) {
    std::shared_ptr<Entry> entry;
    {
      const std::lock_guard lock(mutex_);
      for (auto it = entries_.begin(); it != entries_.end(); ++it)
        if ((*it)->key == key) {
          entries_.splice(entries_.begin(), entries_, it);
          break;
        }
      if (entries_.empty() || entries_.front()->key != key) {
        entries_.push_front(std::make_shared<Entry>());
        entries_.front()->key = key;
        if (entries_.size() > kept) entries_.pop_back();
      }
      entry = entries_.front();
    }
    const std::lock_guard lock(entry->mutex);
    if (!entry->pool || entry->count < count) {
      entry->pool = build(count);
      entry->count = count;
    }
    return entry->pool;
  }

 private:
  static constexpr size_t kept = 8;
  struct Entry {
    std::string key;
    std::mutex mutex;
    std::shared_ptr<const Pool> pool;
    int64_t count = 0;
  };
  std::mutex mutex_;
  std::list<std::shared_ptr<Entry>> entries_;
};

}  // namespace fp4::sim
