// Decides: how a long stream of bands is shared among threads. Each band is fetched, worked on and handed on, once or
// in several steps; fetching and each step of handing on happen one at a time in ascending order, so a file is read,
// hashed and written as one thread would, while the other threads work. oneTBB's pipeline runs it: its threads are the
// process's own pool, so a stream inside another starts no more of them.
#pragma once

#include <cstdint>
#include <functional>
#include <future>
#include <system_error>
#include <vector>

namespace fp4 {

/// Work for another thread, or for this one when its result is asked for: alone, or where there are no more threads.
template <class Work>
auto beside(int threads, Work work) {
  try {
    return std::async(threads > 1 ? std::launch::async : std::launch::deferred, work);
  } catch (const std::system_error&) {
    return std::async(std::launch::deferred, work);
  }
}

/// What is done with band i, by worker 0 .. threads - 1.
using BandStep = std::function<void(int64_t, int)>;

/// fetch(i, worker), work(i, worker), each step of `give` for i = 0 .. count - 1; what belongs to one worker is used by
/// one thread at a time. While a band is in its second step, the next may be in its first. Worker 0 has band 0, which
/// the caller fetches. Of exceptions that of the lowest band leaves, and no later band is handed on. Where the system
/// refuses threads, fewer do the work.
void in_order(int64_t count, int threads, const BandStep& fetch, const BandStep& work, std::vector<BandStep> give);

template <class... Give>
void in_order(int64_t count, int threads, const BandStep& fetch, const BandStep& work, const Give&... give) {
  in_order(count, threads, fetch, work, std::vector<BandStep>{give...});
}

}  // namespace fp4
